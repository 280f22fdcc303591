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


@njit(**FLAGS)
def _gather(x, y, index, bounds, theta, out, residual):
    p, k = x.shape[1], y.shape[1]
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            for r in range(start, stop):
                for j in range(p):
                    out[j, r] = x[index[r], j]
                for c in range(k):
                    residual[c, r] = y[index[r], c]
            for c in range(k):
                for j in range(p):
                    slope = theta[i, j, c]
                    for r in range(start, stop):
                        residual[c, r] -= slope * out[j, r]


@njit(**FLAGS)
def add_products(x, extra, weight, start, stop, scaled, out):
    """Add x W [x, extra]' of the rows start..stop to the upper part of `out`."""
    p, k = x.shape[0], extra.shape[0]
    n = stop - start
    for a in range(p):
        for r in range(n):
            scaled[r] = weight[r] * x[a, start + r]
        for b in range(a, p):
            total = 0.0
            for r in range(n):
                total += scaled[r] * x[b, start + r]
            out[a, b] += total
        for c in range(k):
            total = 0.0
            for r in range(n):
                total += scaled[r] * extra[c, start + r]
            out[a, p + c] += total


@njit(**FLAGS)
def mirror(out):
    """Copy the upper part of the leading square of `out` to the lower one."""
    for a in range(out.shape[0]):
        for b in range(a):
            out[a, b] = out[b, a]


@njit(**FLAGS)
def _project(x, residual, w, bounds, direction, target, total, squares):
    scaled = np.empty(TILE)
    weight = np.empty(TILE)
    extra = target.reshape(1, len(target))
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            stop = min(start + TILE, bounds[i + 1])
            for r in range(start, stop):
                t = 0.0
                for c in range(residual.shape[0]):
                    t += residual[c, r] * direction[i, c]
                target[r] = t
                squares[i] += w[r] * t * t
                weight[r - start] = w[r]
            add_products(x, extra, weight, start, stop, scaled, total[i])
        mirror(total[i])


@njit(**FLAGS)
def _scores(x, target, w, bounds, mean, sums, hessian):
    d = x.shape[0] - 1
    centred = np.empty((d, TILE))
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            n = min(start + TILE, bounds[i + 1]) - start
            for j in range(d):
                row = centred[j]
                s0 = s1 = s2 = s3 = 0.0
                for r in range(n):
                    c = x[j, start + r] - mean[i, j]
                    u = w[start + r]
                    pull = u * target[start + r]
                    above = 1.0 if c > 0 else 0.0
                    s0 += pull * abs(c)
                    s1 += pull * above
                    s2 += u * abs(c)
                    s3 += u * above
                    row[r] = c
                sums[i, 0, j] += s0
                sums[i, 1, j] += s1
                sums[i, 2, j] += s2
                sums[i, 3, j] += s3
            for a in range(d):
                for b in range(a, d):
                    total = 0.0
                    for r in range(n):
                        pull = w[start + r] * target[start + r]
                        total += pull * centred[a, r] * centred[b, r]
                    hessian[i, a, b] += total
        mirror(hessian[i])


@njit(**FLAGS)
def _left_products(
    x, residual, w, bounds, codes, index, planes, feature, code, out, squares
):
    p, k = x.shape[0], residual.shape[0]
    n_planes, n_cuts = planes.shape[1], feature.shape[1]
    scaled, weight = np.empty(TILE), np.empty(TILE)
    for i in range(len(bounds) - 1):
        for start in range(bounds[i], bounds[i + 1], TILE):
            n = min(start + TILE, bounds[i + 1]) - start
            for h in range(n_planes + n_cuts):
                if h < n_planes:
                    for r in range(n):
                        scaled[r] = 0.0
                    for j in range(p):
                        slope = planes[i, h, j]
                        for r in range(n):
                            scaled[r] += slope * x[j, start + r]
                    for r in range(n):
                        weight[r] = w[start + r] if scaled[r] > 0 else 0.0
                else:
                    f, limit = feature[i, h - n_planes], code[i, h - n_planes]
                    for r in range(n):
                        left = codes[index[start + r], f] <= limit
                        weight[r] = w[start + r] if left else 0.0
                for c in range(k):
                    total = 0.0
                    for r in range(n):
                        total += weight[r] * residual[c, start + r] ** 2
                    squares[i, h, c] += total
                add_products(x, residual, weight, start, start + n, scaled, out[i, h])
        for h in range(n_planes + n_cuts):
            mirror(out[i, h])
