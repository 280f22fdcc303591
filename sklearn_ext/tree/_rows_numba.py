"""Compiled CPU twin of `BlockBatch`: the same sums, over tiles of contiguous rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit

FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}
TILE = 256  # rows per tile: a tile of some ten columns stays in the first-level cache


class RowBatch:
    """The rows of a batch of nodes, columns first; see `BlockBatch` for the methods."""

    def __init__(self, table, rows, sizes, theta):
        self.table = table
        self.n_nodes, self.p, self.k = theta.shape
        self.bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.index = rows.numpy()
        self.codes = table.codes.numpy()
        self.w = table.w.numpy()[self.index]
        self.x = np.empty((self.p, len(self.index)))
        self.residual = np.empty((self.k, len(self.index)))
        arrays = (table.x.numpy(), table.y.numpy(), self.index, self.bounds)
        _gather(*arrays, theta.contiguous().numpy(), self.x, self.residual)

    def residual_cross(self):
        """See `BlockBatch`."""
        out = np.zeros((self.n_nodes, self.k, self.k))
        for i in range(self.n_nodes):
            rows = slice(self.bounds[i], self.bounds[i + 1])
            part = self.residual[:, rows]
            out[i] = (part * self.w[rows]) @ part.T
        return torch.from_numpy(out)

    def project(self, direction):
        """See `BlockBatch`."""
        self.target = np.empty(len(self.w))
        total = np.zeros((self.n_nodes, self.p, self.p + 1))
        squares = np.zeros(self.n_nodes)
        _project(
            self.x, self.residual, self.w, self.bounds, direction.numpy(),
            self.target, total, squares,
        )  # fmt: skip
        return torch.from_numpy(total), torch.from_numpy(squares)

    def scores(self, mean):
        """See `BlockBatch`."""
        d = self.p - 1
        sums = np.zeros((self.n_nodes, 4, d))
        hessian = np.zeros((self.n_nodes, d, d))
        arrays = (self.x, self.target, self.w, self.bounds)
        _scores(*arrays, mean.contiguous().numpy(), sums, hessian)
        return torch.from_numpy(sums), torch.from_numpy(hessian)

    def left_products(self, planes, feature, code):
        """See `BlockBatch`."""
        n_splits = planes.shape[1] + feature.shape[1]
        out = np.zeros((self.n_nodes, n_splits, self.p, self.p + self.k))
        squares = np.zeros((self.n_nodes, n_splits, self.k))
        _left_products(
            self.x, self.residual, self.w, self.bounds, self.codes, self.index,
            planes.contiguous().numpy(), feature.contiguous().numpy(),
            code.contiguous().numpy(), out, squares,
        )  # fmt: skip
        return torch.from_numpy(out), torch.from_numpy(squares)


# The loops below run over slices: an index that starts at 0 is known not to wrap
# around, and only then does the compiler make vector code of them.


@njit(**FLAGS)
def _gather(x, y, index, bounds, theta, out, residual):
    p, k = x.shape[1], y.shape[1]
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            rows = index[start:stop]
            for j in range(p):
                column = out[j, start:stop]
                for r in range(len(rows)):
                    column[r] = x[rows[r], j]
            for c in range(k):
                target = residual[c, start:stop]
                for r in range(len(rows)):
                    target[r] = y[rows[r], c]
                for j in range(p):
                    slope, column = theta[i, j, c], out[j, start:stop]
                    for r in range(len(rows)):
                        target[r] -= slope * column[r]


@njit(**FLAGS)
def _dot(a, b):
    total = 0.0
    for r in range(len(a)):
        total += a[r] * b[r]
    return total


@njit(**FLAGS)
def _dot4(a, b, c, d, e):
    one = two = three = four = 0.0
    for r in range(len(a)):
        one += a[r] * b[r]
        two += a[r] * c[r]
        three += a[r] * d[r]
        four += a[r] * e[r]
    return one, two, three, four


@njit(**FLAGS)
def add_products(x, extra, weight, start, stop, scaled, out):
    """Add x W [x, extra]' of the rows start..stop to the upper part of `out`."""
    p, k = x.shape[0], extra.shape[0]
    weight, scaled = weight[: stop - start], scaled[: stop - start]
    for a in range(p):
        column = x[a, start:stop]
        for r in range(len(scaled)):
            scaled[r] = weight[r] * column[r]
        line = out[a]
        b = a
        while b + 4 <= p:
            one, two, three, four = _dot4(
                scaled,
                x[b, start:stop],
                x[b + 1, start:stop],
                x[b + 2, start:stop],
                x[b + 3, start:stop],
            )
            line[b] += one
            line[b + 1] += two
            line[b + 2] += three
            line[b + 3] += four
            b += 4
        while b < p:
            line[b] += _dot(scaled, x[b, start:stop])
            b += 1
        for c in range(k):
            line[p + c] += _dot(scaled, extra[c, start:stop])


@njit(**FLAGS)
def mirror(out):
    """Copy the upper part of the leading square of `out` to the lower one."""
    for a in range(out.shape[0]):
        for b in range(a):
            out[a, b] = out[b, a]


@njit(**FLAGS)
def _project(x, residual, w, bounds, direction, target, total, squares):
    scaled = np.empty(TILE)
    extra = target.reshape(1, len(target))
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            weight, t = w[start:stop], target[start:stop]
            t[:] = 0.0
            for c in range(residual.shape[0]):
                share, column = direction[i, c], residual[c, start:stop]
                for r in range(len(t)):
                    t[r] += share * column[r]
            for r in range(len(t)):
                squares[i] += weight[r] * t[r] * t[r]
            add_products(x, extra, weight, start, stop, scaled, total[i])
        mirror(total[i])


@njit(**FLAGS)
def _scores(x, target, w, bounds, mean, sums, hessian):
    d = x.shape[0] - 1
    centred, pulled = np.empty((d, TILE)), np.empty(TILE)
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            weight, t = w[start:stop], target[start:stop]
            pull = pulled[: stop - start]
            for r in range(len(pull)):
                pull[r] = weight[r] * t[r]
            for j in range(d):
                column, row = x[j, start:stop], centred[j, : stop - start]
                kink = jump = distance = above = 0.0
                for r in range(len(row)):
                    c = column[r] - mean[i, j]
                    up = 1.0 if c > 0 else 0.0
                    kink += pull[r] * abs(c)
                    jump += pull[r] * up
                    distance += weight[r] * abs(c)
                    above += weight[r] * up
                    row[r] = c
                sums[i, 0, j] += kink
                sums[i, 1, j] += jump
                sums[i, 2, j] += distance
                sums[i, 3, j] += above
            for a in range(d):
                row = centred[a, : stop - start]
                for b in range(a, d):
                    other, total = centred[b, : stop - start], 0.0
                    for r in range(len(row)):
                        total += pull[r] * row[r] * other[r]
                    hessian[i, a, b] += total
        mirror(hessian[i])


@njit(**FLAGS)
def add_line(x, start, stop, theta, out):
    """Put theta' x of the rows start..stop into `out`."""
    out = out[: stop - start]
    out[:] = 0.0
    for j in range(x.shape[0]):
        slope, column = theta[j], x[j, start:stop]
        for r in range(len(out)):
            out[r] += slope * column[r]


@njit(**FLAGS)
def _left_products(
    x, residual, w, bounds, codes, index, planes, feature, code, out, squares
):
    k = residual.shape[0]
    n_planes, n_cuts = planes.shape[1], feature.shape[1]
    scaled, left_weight = np.empty(TILE), np.empty(TILE)
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            weight, rows = w[start:stop], index[start:stop]
            left = left_weight[: stop - start]
            for h in range(n_planes + n_cuts):
                if h < n_planes:
                    add_line(x, start, stop, planes[i, h], scaled)
                    for r in range(len(left)):
                        left[r] = weight[r] if scaled[r] > 0 else 0.0
                else:
                    f, limit = feature[i, h - n_planes], code[i, h - n_planes]
                    for r in range(len(left)):
                        left[r] = weight[r] if codes[rows[r], f] <= limit else 0.0
                for c in range(k):
                    column, total = residual[c, start:stop], 0.0
                    for r in range(len(left)):
                        total += left[r] * column[r] * column[r]
                    squares[i, h, c] += total
                add_products(x, residual, left, start, stop, scaled, out[i, h])
        for h in range(n_planes + n_cuts):
            mirror(out[i, h])
