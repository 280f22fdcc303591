"""Compiled twin of `_axis.axis_cuts`: one node after the other."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from ._axis import MAX_REFINE, SLICES, SUB_SLICES, AxisCuts
from ._rows_numba import FLAGS
from ._solve_numba import solve_side, subtract


def axis_cuts(problem, feature, n_bins, n_keep):
    """See `_axis.axis_cuts`."""
    batch = problem.batch
    cost = torch.full(feature.shape, torch.inf, dtype=problem.total.dtype)
    code = torch.full(feature.shape, -1)
    _cuts(
        batch.x, batch.target, batch.w, batch.bounds, batch.codes, batch.index,
        feature.contiguous().numpy(), problem.total.numpy(), problem.squares.numpy(),
        problem.prior.contiguous().numpy(), float(problem.penalty),
        float(problem.min_weight), n_bins, cost.numpy(), code.numpy(),
    )  # fmt: skip
    return AxisCuts(feature, code, cost).best(n_keep)


@njit(**FLAGS)
def _shift(span, n_slices):
    shift = 0
    while (span - 1) >> shift >= n_slices:
        shift += 1
    return shift


@njit(**FLAGS)
def _pack(x, target, w, r, packed):
    """Weighted products of all pairs of columns and the target of one row."""
    p = x.shape[0]
    start = 0
    for a in range(p):
        u = w[r] * x[a, r]
        for b in range(a, p):
            packed[start + b - a] = u * x[b, r]
        packed[start + p - a] = u * target[r]
        start += p + 1 - a


@njit(**FLAGS)
def _cut_cost(left, total, squares, prior, penalty, min_weight, sides, lower, scale, t):
    """Refit cost of the cut whose packed left products are `left`."""
    p = total.shape[0]
    start = 0
    for a in range(p):
        for b in range(a, p):
            sides[0, a, b] = left[start + b - a]
            sides[0, b, a] = left[start + b - a]
        sides[0, a, p] = left[start + p - a]
        start += p + 1 - a
    weight = sides[0, p - 1, p - 1]
    if min(weight, total[p - 1, p - 1] - weight) < min_weight * (1 - 1e-9):
        return np.inf
    subtract(total, sides[0], sides[1])
    cost = squares
    for s in range(2):
        cost += solve_side(sides[s], penalty, prior, lower, scale, t)
    return cost


@njit(**FLAGS)
def _merge(hist, n_bins, bins):
    """Map slices to at most n_bins bins of about equal weight."""
    total = 0.0
    filled = 0
    for s in range(len(hist)):
        total += hist[s]
        filled += hist[s] > 0
    seen = 0.0
    dense = -1
    for s in range(len(hist)):
        seen += hist[s]
        dense += hist[s] > 0
        equal = int((seen - 0.5 * hist[s]) * (n_bins / total))
        value = dense if filled <= n_bins else equal
        bins[s] = min(max(value, 0), n_bins - 1)


@njit(**FLAGS)
def _cuts(
    x,
    target,
    w,
    bounds,
    codes,
    index,
    feature,
    total,
    squares,
    prior,
    penalty,
    min_weight,
    n_bins,
    cost,
    code,
):
    p = x.shape[0]
    n_features = feature.shape[1]
    q = (p + 1) * (p + 2) // 2 - 1
    width = -(-q // 16) * 16  # whole vectors
    packed = np.zeros(width)
    sums = np.empty((n_features, max(n_bins, SUB_SLICES + 1), width))
    hist = np.empty((n_features, SLICES))
    bins = np.empty((n_features, SLICES), np.int64)
    low, high = np.empty(n_features, np.int64), np.empty(n_features, np.int64)
    shift = np.empty(n_features, np.int64)
    sides = np.empty((2, p, p + 1))
    lower, scale, theta = np.empty((p, p)), np.empty(p), np.empty(p)
    base, left = np.empty(width), np.empty(width)
    for i in range(len(bounds) - 1):
        first, last = bounds[i], bounds[i + 1]
        low[:] = 2**31 - 1
        high[:] = -1
        for r in range(first, last):
            if w[r] > 0:
                for f in range(n_features):
                    c = codes[index[r], feature[i, f]]
                    low[f] = min(low[f], c)
                    high[f] = max(high[f], c)
        for f in range(n_features):
            shift[f] = _shift(max(high[f] - low[f] + 1, 1), SLICES)
        hist[:] = 0.0
        for r in range(first, last):
            for f in range(n_features):
                c = (codes[index[r], feature[i, f]] - low[f]) >> shift[f]
                hist[f, c] += w[r]
        for f in range(n_features):
            _merge(hist[f], n_bins, bins[f])
        sums[:] = 0.0
        for r in range(first, last):
            _pack(x, target, w, r, packed)
            for f in range(n_features):
                c = (codes[index[r], feature[i, f]] - low[f]) >> shift[f]
                out = sums[f, bins[f, c]]
                for j in range(width):
                    out[j] += packed[j]
        winner, winner_cut = -1, -1
        for f in range(n_features):
            cut = _best_cut(
                sums[f],
                n_bins,
                total[i],
                squares[i],
                prior[i],
                penalty,
                min_weight,
                sides,
                lower,
                scale,
                theta,
                left,
                cost[i],
                f,
            )
            if cut >= 0:
                code[i, f] = _edge(bins[f], cut, low[f], shift[f])
                if winner < 0 or cost[i, f] < cost[i, winner]:
                    winner, winner_cut = f, cut
        if winner >= 0:
            f, cut = winner, winner_cut
            start = low[f]
            base[:] = 0.0
            if cut > 0:
                start = max(_edge(bins[f], cut - 1, low[f], shift[f]) + 1, low[f])
                for b in range(cut):
                    for j in range(width):
                        base[j] += sums[f, b, j]
            stop = min(_edge(bins[f], cut + 1, low[f], shift[f]), high[f])
            _refine(
                x,
                target,
                w,
                first,
                last,
                codes,
                index,
                feature[i, f],
                total[i],
                squares[i],
                prior[i],
                penalty,
                min_weight,
                start,
                stop,
                base,
                sums[f],
                packed,
                sides,
                lower,
                scale,
                theta,
                left,
                cost[i],
                code[i],
                f,
            )


@njit(**FLAGS)
def _edge(bins, cut, low, shift):
    """Last code of the bins 0..cut."""
    last = -1
    for s in range(len(bins)):
        if bins[s] <= cut:
            last = s
    return low + ((last + 1) << shift) - 1


@njit(**FLAGS)
def _best_cut(
    sums,
    n_bins,
    total,
    squares,
    prior,
    penalty,
    min_weight,
    sides,
    lower,
    scale,
    theta,
    left,
    cost,
    f,
):
    """Index of the best cut between bins if it beats cost[f], else -1."""
    p = total.shape[0]
    weight_slot = (p + 1) * (p + 2) // 2 - 3
    best = -1
    left[:] = 0.0
    for b in range(n_bins - 1):
        if sums[b, weight_slot] == 0.0:
            continue
        for j in range(len(left)):
            left[j] += sums[b, j]
        value = _cut_cost(
            left, total, squares, prior, penalty, min_weight, sides, lower, scale, theta
        )
        if value < cost[f]:
            cost[f] = value
            best = b
    return best


@njit(**FLAGS)
def _refine(
    x,
    target,
    w,
    first,
    last,
    codes,
    index,
    feature,
    total,
    squares,
    prior,
    penalty,
    min_weight,
    low,
    high,
    base,
    sums,
    packed,
    sides,
    lower,
    scale,
    theta,
    left,
    cost,
    code,
    f,
):
    """Cut the bins beside the best cut into finer ones, down to single codes."""
    for _ in range(MAX_REFINE):
        span = high - low + 1
        if span <= 2:
            return
        shift = _shift(span, SUB_SLICES)
        sums[: SUB_SLICES + 1] = 0.0
        for r in range(first, last):
            c = codes[index[r], feature] - low
            if 0 <= c < span:
                _pack(x, target, w, r, packed)
                out = sums[c >> shift]
                for j in range(len(packed)):
                    out[j] += packed[j]
        for j in range(len(base)):
            sums[0, j] += base[j]
        n_used = ((span - 1) >> shift) + 1
        cut = _best_cut(
            sums,
            n_used,
            total,
            squares,
            prior,
            penalty,
            min_weight,
            sides,
            lower,
            scale,
            theta,
            left,
            cost,
            f,
        )
        if cut >= 0:
            code[f] = low + ((cut + 1) << shift) - 1
            begin, end = cut, cut + 2
        else:  # the old cut stands: look closer on both sides of it
            inside = (code[f] - low) >> shift
            begin, end = max(inside - 1, 0), inside + 2
        if shift == 0:
            return
        if begin > 0:
            base[:] = 0.0
            for b in range(begin):
                for j in range(len(base)):
                    base[j] += sums[b, j]
        high = min(high, low + (end << shift) - 1)
        low = low + (begin << shift)
