"""Compiled twin of `_axis.axis_cuts`: one node after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numba import njit

from ._axis import MAX_REFINE, SLICES, SUB_SLICES, TIE, AxisCuts
from ._rows_numba import FLAGS
from ._solve_numba import side_cost, subtract

_TILE = 64  # rows whose packed products are made together


class _Rows(NamedTuple):
    """The rows of all nodes."""

    x: np.ndarray  # (p, n)
    target: np.ndarray  # (n,)
    w: np.ndarray  # (n,)
    codes: np.ndarray  # (table rows, d)
    numbers: np.ndarray  # (n,) rows of the table


class _Node(NamedTuple):
    """What the cost of a cut depends on, for one node."""

    total: np.ndarray  # (p, p + 1)
    squares: float
    prior: np.ndarray  # (p,)
    penalty: float
    min_weight: float


class _Work(NamedTuple):
    """Arrays to work in, made once."""

    sides: np.ndarray  # (2, p, p + 1)
    lower: np.ndarray  # (p, p)
    vectors: np.ndarray  # (3, p)
    left: np.ndarray  # (width,)
    base: np.ndarray  # (width,)
    packed: np.ndarray  # (width,)
    columns: np.ndarray  # (_TILE, p + 1)
    cells: np.ndarray  # (features, _TILE) bins of the rows of a tile


def axis_cuts(problem, feature, n_bins, n_keep):
    """See `_axis.axis_cuts`."""
    cost = torch.full(feature.shape, torch.inf, dtype=problem.total.dtype)
    code = torch.full(feature.shape, -1)
    _cuts(*_arguments(problem, feature), n_bins, cost.numpy(), code.numpy())
    return AxisCuts(feature, code, cost).best(n_keep, problem.squares)


def sharpen(problem, cuts, reach):
    """See `_axis.sharpen`."""
    feature, code = cuts.feature[:, :1], cuts.code[:, :1].clone()
    planes = problem.prior.new_zeros(len(code), 0, problem.batch.p)
    below = problem.batch.left_products(planes, feature, code - reach - 1)[0]
    direction = problem.direction[:, None, :, None]
    p = problem.batch.p
    below = torch.cat([below[..., :p], below[..., p:] @ direction], -1)[:, 0]
    cost = torch.full(code.shape, torch.inf, dtype=problem.total.dtype)
    arguments = _arguments(problem, feature)
    _sharpen(*arguments, below.contiguous().numpy(), reach, cost.numpy(), code.numpy())
    return AxisCuts(feature, code, cost)


def _arguments(problem, feature):
    batch = problem.batch
    rows = _Rows(batch.x, batch.target, batch.w, batch.codes, batch.index)
    return (
        rows,
        batch.bounds,
        feature.contiguous().numpy(),
        problem.total.numpy(),
        problem.squares.numpy(),
        problem.prior.contiguous().numpy(),
        float(problem.penalty),
        float(problem.min_weight),
    )


@njit(**FLAGS)
def _workspace(p, n_features):
    q = (p + 1) * (p + 2) // 2 - 1
    width = -(-q // 16) * 16  # whole vectors
    return _Work(
        np.empty((2, p, p + 1)),
        np.empty((p, p)),
        np.empty((3, p)),
        np.empty(width),
        np.empty(width),
        np.zeros(width),
        np.empty((_TILE, p + 1)),
        np.empty((n_features, _TILE), np.int64),
    )


@njit(**FLAGS)
def _shift(span, n_slices):
    """Least s with (span - 1) >> s < n_slices."""
    shift = 0
    while (span - 1) >> shift >= n_slices:
        shift += 1
    return shift


@njit(**FLAGS)
def _add(total, part):
    for j in range(len(total)):
        total[j] += part[j]


@njit(**FLAGS)
def _pack(columns, weight, packed):
    """Weighted products of all pairs of one row's columns and its target."""
    start = 0
    for a in range(len(columns) - 1):
        u = weight * columns[a]
        rest = columns[a:]
        out = packed[start : start + len(rest)]
        for b in range(len(rest)):
            out[b] = u * rest[b]
        start += len(rest)


@njit(**FLAGS)
def _load(rows, r, columns):
    """Copy the columns and the target of one row."""
    p = rows.x.shape[0]
    for a in range(p):
        columns[a] = rows.x[a, r]
    columns[p] = rows.target[r]


@njit(**FLAGS)
def _cut_cost(left, node, work):
    """Refit cost of the cut whose packed left products are `left`."""
    p = node.total.shape[0]
    side = work.sides[0]
    start = 0
    for a in range(p):
        for b in range(a, p):
            side[a, b] = left[start + b - a]
            side[b, a] = left[start + b - a]
        side[a, p] = left[start + p - a]
        start += p + 1 - a
    weight = side[p - 1, p - 1]
    if min(weight, node.total[p - 1, p - 1] - weight) < node.min_weight * (1 - 1e-9):
        return np.inf
    subtract(node.total, side, work.sides[1])
    cost = node.squares
    for s in range(2):
        cost += side_cost(
            work.sides[s],
            node.penalty,
            node.prior,
            work.lower,
            work.vectors[0],
            work.vectors[1],
            work.vectors[2],
        )
    return cost


@njit(**FLAGS)
def _best_cut(sums, n_bins, node, work):
    """Cost and index of the best cut between bins; -1 if there is none."""
    cost = np.inf
    p = node.total.shape[0]
    weight_slot = (p + 1) * (p + 2) // 2 - 3
    best = -1
    work.left[:] = 0.0
    for b in range(n_bins - 1):
        if sums[b, weight_slot] == 0.0:
            continue
        _add(work.left, sums[b])
        value = _cut_cost(work.left, node, work)
        if value < cost:
            cost = value
            best = b
    return cost, best


@njit(**FLAGS)
def _code_range(rows, first, last, feature):
    low, high = 2**31 - 1, -1
    index, w = rows.numbers[first:last], rows.w[first:last]
    for r in range(len(index)):
        if w[r] > 0:
            c = rows.codes[index[r], feature]
            low = min(low, c)
            high = max(high, c)
    return low, max(high, low)


@njit(**FLAGS)
def _merge(rows, first, last, feature, low, shift, n_bins, bins):
    """Map slices of the code range to at most n_bins bins of about equal weight."""
    hist = np.zeros(SLICES)
    index, w = rows.numbers[first:last], rows.w[first:last]
    for r in range(len(index)):
        hist[(rows.codes[index[r], feature] - low) >> shift] += w[r]
    total = hist.sum()
    filled = (hist > 0).sum()
    seen = 0.0
    dense = -1
    for s in range(len(hist)):
        seen += hist[s]
        dense += hist[s] > 0
        equal = int((seen - 0.5 * hist[s]) * (n_bins / total))
        value = dense if filled <= n_bins else equal
        bins[s] = min(max(value, 0), n_bins - 1)


@njit(**FLAGS)
def _sum_bins(rows, first, last, feature, low, shift, bins, sums, work):
    """Add the packed products of every row to its bin of every column."""
    n_features = len(feature)
    for start in range(first, last, _TILE):
        stop = min(start + _TILE, last)
        index, w = rows.numbers[start:stop], rows.w[start:stop]
        for f in range(n_features):
            cell, table = work.cells[f], bins[f]
            for r in range(len(index)):
                cell[r] = table[(rows.codes[index[r], feature[f]] - low[f]) >> shift[f]]
        for r in range(len(index)):
            columns = work.columns[r]
            _load(rows, start + r, columns)
            _pack(columns, w[r], work.packed)
            for f in range(n_features):
                _add(sums[f, work.cells[f, r]], work.packed)


@njit(**FLAGS)
def _edge(bins, cut, low, shift):
    """Last code of the bins 0..cut."""
    last = -1
    for s in range(len(bins)):
        if bins[s] <= cut:
            last = s
    return low + ((last + 1) << shift) - 1


@njit(**FLAGS)
def _cuts(
    rows,
    bounds,
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
    p, n_features = rows.x.shape[0], feature.shape[1]
    work = _workspace(p, n_features)
    sums = np.empty((n_features, max(n_bins, SUB_SLICES + 1), len(work.left)))
    bins = np.empty((n_features, SLICES), np.int64)
    low, high = np.empty(n_features, np.int64), np.empty(n_features, np.int64)
    shift = np.empty(n_features, np.int64)
    for i in range(len(bounds) - 1):
        first, last = bounds[i], bounds[i + 1]
        node = _Node(total[i], squares[i], prior[i], penalty, min_weight)
        for f in range(n_features):
            j = feature[i, f]
            low[f], high[f] = _code_range(rows, first, last, j)
            shift[f] = _shift(high[f] - low[f] + 1, SLICES)
            _merge(rows, first, last, j, low[f], shift[f], n_bins, bins[f])
        sums[:] = 0.0
        _sum_bins(rows, first, last, feature[i], low, shift, bins, sums, work)
        winner, winner_cut = -1, -1
        for f in range(n_features):
            cost[i, f], cut = _best_cut(sums[f], n_bins, node, work)
            if cut >= 0:
                code[i, f] = _edge(bins[f], cut, low[f], shift[f])
                lead = TIE * node.squares
                if winner < 0 or cost[i, f] < cost[i, winner] - lead:
                    winner, winner_cut = f, cut
        if winner < 0:
            continue
        f, cut = winner, winner_cut
        begin = low[f]
        work.base[:] = 0.0
        if cut > 0:
            begin = max(_edge(bins[f], cut - 1, low[f], shift[f]) + 1, begin)
            for b in range(cut):
                _add(work.base, sums[f, b])
        end = min(_edge(bins[f], cut + 1, low[f], shift[f]), high[f])
        cost[i, f], code[i, f] = _refine(
            rows, first, last, feature[i, f], node, begin, end, sums[f], work,
            cost[i, f], code[i, f],
        )  # fmt: skip


@njit(**FLAGS)
def _sharpen(
    rows, bounds, feature, total, squares, prior, penalty, min_weight, below, reach,
    cost, code,
):  # fmt: skip
    p = rows.x.shape[0]
    work = _workspace(p, 1)
    sums = np.empty((SUB_SLICES + 1, len(work.left)))
    for i in range(len(bounds) - 1):
        node = _Node(total[i], squares[i], prior[i], penalty, min_weight)
        start = 0
        for a in range(p):
            for b in range(a, p + 1):
                work.base[start + b - a] = below[i, a, b]
            start += p + 1 - a
        middle = code[i, 0]
        cost[i, 0], code[i, 0] = _refine(
            rows, bounds[i], bounds[i + 1], feature[i, 0], node, middle - reach,
            middle + reach, sums, work, np.inf, middle,
        )  # fmt: skip


@njit(**FLAGS)
def _refine(rows, first, last, feature, node, low, high, sums, work, cost, code):
    """Cut the codes low..high into finer and finer parts, down to single codes.

    `work.base` holds the products of the rows below `low`.
    """
    for _ in range(MAX_REFINE):
        span = high - low + 1
        if span <= 2:
            break
        shift = _shift(span, SUB_SLICES)
        sums[: SUB_SLICES + 1] = 0.0
        sums[0] = work.base
        for r in range(first, last):
            c = rows.codes[rows.numbers[r], feature] - low
            if 0 <= c < span:
                _load(rows, r, work.columns[0])
                _pack(work.columns[0], rows.w[r], work.packed)
                _add(sums[c >> shift], work.packed)
        # The cut after the last used part is the outer edge, known already.
        n_used = ((span - 1) >> shift) + 1
        new_cost, cut = _best_cut(sums, n_used, node, work)
        if cut >= 0 and new_cost < cost - TIE * node.squares:
            cost = new_cost
        else:
            cut = -1
        if cut >= 0:
            code = low + ((cut + 1) << shift) - 1
            begin, end = cut, cut + 2
        else:  # the old cut stands: look closer on both sides of it
            inside = (code - low) >> shift
            begin, end = max(inside - 1, 0), inside + 2
        if shift == 0:
            break
        if begin > 0:
            work.base[:] = 0.0
            for b in range(begin):
                _add(work.base, sums[b])
        high = min(high, low + (end << shift) - 1)
        low = low + (begin << shift)
    return cost, code
