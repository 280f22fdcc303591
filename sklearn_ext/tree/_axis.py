"""Axis-aligned cuts with a linear model on both sides, scored from binned products."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ._blocks import pair_slots
from ._solve import quadratic, ridge, slope_penalty

SLICES = 64  # equal parts of a node's code range, merged into bins of equal weight
SUB_SLICES = 16  # equal parts of the codes beside a cut
MAX_REFINE = 6
# A cut that separates the same rows must not seem better by rounding: which codes are
# looked at next would depend on it. As a share of the node's sum of squares.
TIE = 1e-11
_SOLVE_ELEMENTS = 1 << 21


@dataclass
class AxisCuts:
    """The best cut of each candidate column: rows with code <= `code` go left."""

    feature: torch.Tensor  # (N, f)
    code: torch.Tensor  # (N, f)
    cost: torch.Tensor  # (N, f)

    def pick(self, index):
        """Keep the candidates `index` (N, K)."""
        return AxisCuts(*(t.gather(1, index) for t in vars(self).values()))

    def best(self, n, squares):
        """Keep the n cheapest cuts of each node, cheapest first.

        Columns whose cuts separate the same rows cost the same: of these it is the
        first, not rounding's choice. `squares` (N,) are the nodes' sums of squares.
        """
        cost = torch.round(self.cost / (10 * TIE * squares[:, None] + 1e-300))
        return self.pick(cost.argsort(dim=1, stable=True)[:, :n])


def axis_cuts(problem, feature, n_bins, n_keep):
    """Keep the best `n_keep` cuts by columns `feature` (N, f), the first refined."""
    scan = _AxisScan(problem, n_bins)
    return scan.refine(*scan.scan(feature)).best(n_keep, problem.squares)


def _shift(span, n_slices):
    """Least s with (span - 1) >> s < n_slices."""
    bits = torch.log2((span - 1).clamp_min(1).double()).floor().long() + 1
    return (bits - (n_slices - 1).bit_length()).clamp_min(0)


def sharpen(problem, cuts, reach):
    """Move the best cut of each node by at most `reach` codes to where it costs least.

    For cuts that were found on other rows than those of `problem`.
    """
    best = cuts.best(1, problem.squares)
    best.cost = torch.full_like(best.cost, torch.inf)
    return _AxisScan(problem, 0).refine(best, best.code - reach, best.code + reach)


class _AxisScan:
    def __init__(self, problem, n_bins):
        self.problem, self.n_bins = problem, n_bins
        self.slots = pair_slots(problem.batch.p).to(problem.total.device)

    def costs(self, products):
        """Refit cost (N, f, bins - 1) of the cuts between bins of packed products."""
        problem = self.problem
        empty = products[..., self.slots[-1, -2]] == 0
        left = products.cumsum(2)[:, :, :-1]
        shape = left.shape[:-1]
        left = left.flatten(1, 2)
        out = left.new_empty(left.shape[:2])
        p = problem.batch.p
        step = max(1, _SOLVE_ELEMENTS // max(1, left.shape[1] * 2 * p * (p + 1)))
        for i in range(0, len(left), step):
            part = slice(i, i + step)
            gram = left[part][..., self.slots]
            total = problem.total[part, None]
            both = torch.stack([gram, total - gram], dim=2)
            g, b = both[..., :-1], both[..., -1:]
            prior = problem.prior[part, None, None, :, None]
            theta = ridge(g, b, problem.penalty, prior)
            cost = quadratic(g, b, theta)
            cost = cost + slope_penalty(theta, problem.penalty, prior)
            out[part] = problem.squares[part, None] + cost.sum((-2, -1))
        out = torch.where(problem.short(left[..., self.slots[-1, -2]]), torch.inf, out)
        return torch.where(empty[..., :-1], torch.inf, out.reshape(shape))

    def scan(self, feature):
        """Best cut of every candidate column, and the codes it may be refined in."""
        batch, n_bins = self.problem.batch, self.n_bins
        low, high = batch.code_range(feature)
        shift = _shift((high - low + 1).clamp_min(1), SLICES)
        bins = self._merge(batch.histogram(feature, low, shift, SLICES))
        padded = torch.cat([bins, bins[..., -1:]], dim=-1)
        products = batch.bin_products(feature, low, shift, padded, n_bins)
        best, cut = self.costs(products).min(-1)
        # Last code of every bin, so that the cut can be named and refined.
        end = torch.arange(1, SLICES + 1, device=low.device)
        edge = low[..., None] + (end << shift[..., None]) - 1
        last = low.new_full((*low.shape, n_bins), -1)
        last = last.scatter_reduce(2, bins, edge, "amax").cummax(-1).values

        def edge_of(k):
            return last.gather(2, k[..., None])[..., 0]

        before = edge_of((cut - 1).clamp_min(0)) + 1
        before = torch.where(cut > 0, torch.maximum(before, low), low)
        after = edge_of(cut + 1).minimum(high)
        return AxisCuts(feature, edge_of(cut), best), before, after

    def _merge(self, hist):
        """Map slices (N, f, s) to at most n_bins bins of about equal weight."""
        filled = hist > 0
        dense = filled.cumsum(-1) - 1
        middle = hist.cumsum(-1) - 0.5 * hist
        equal = (middle * (self.n_bins / hist.sum(-1, keepdim=True))).long()
        few = filled.sum(-1, keepdim=True) <= self.n_bins
        return torch.where(few, dense, equal).clamp_(0, self.n_bins - 1)

    def refine(self, cuts, low, high):
        """Cut the bins beside the best cut into finer ones, down to single codes."""
        place = torch.arange(cuts.cost.shape[1], device=cuts.code.device)
        top = AxisCuts(place.expand_as(cuts.code), cuts.code, cuts.cost)
        top = top.best(1, self.problem.squares).feature
        best = cuts.pick(top)
        if low.shape[1] > 1:
            low, high = low.gather(1, top), high.gather(1, top)
        for _ in range(MAX_REFINE):
            wide = high - low > 1
            if not bool(wide.any()):
                break
            low, high = self._refine_once(best, low, torch.where(wide, high, low))
        return AxisCuts(
            cuts.feature,
            cuts.code.scatter(1, top, best.code),
            cuts.cost.scatter(1, top, best.cost),
        )

    def _refine_once(self, best, low, high):
        span = high - low + 1
        shift = _shift(span, SUB_SLICES)
        n = SUB_SLICES + 1
        bins = torch.arange(n, device=span.device).expand(*span.shape, n)
        args = (best.feature, low, shift, bins, n)
        products = self.problem.batch.bin_products(*args)
        cost = self.costs(products)
        # The cut after the last used part is the outer edge, known already.
        used = (span - 1) >> shift
        inner = torch.arange(n - 1, device=span.device) < used[..., None]
        cost, cut = torch.where(inner, cost, torch.inf).min(-1)
        better = cost < best.cost - TIE * self.problem.squares[:, None]
        inside = (best.code - low) >> shift
        begin = torch.where(better, cut, (inside - 1).clamp_min(0))
        end = torch.where(better, cut + 2, inside + 2)
        best.code = torch.where(better, low + ((cut + 1) << shift) - 1, best.code)
        best.cost = torch.where(better, cost, best.cost)
        new_high = torch.minimum(high, low + (end << shift) - 1)
        new_low = low + (begin << shift)
        done = shift == 0
        return new_low, torch.where(done, new_low, new_high)
