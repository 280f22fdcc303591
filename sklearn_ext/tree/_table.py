"""The training rows as the grower sees them: standardised, ranked, on the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from .._device import to_tensor

# A column whose spread is below this share of its size holds only rounding noise.
_FLAT = 1e-13


@dataclass(frozen=True)
class Table:
    """Training rows on the device, standardised.

    x : (n, p) columns and a trailing 1; y : (n, k); w : (n,); codes : (n, p - 1)
    int32 ranks of the column values, equal values having equal codes.
    """

    x: torch.Tensor
    y: torch.Tensor
    w: torch.Tensor
    codes: torch.Tensor

    def keep(self, columns):
        """Return the same rows with only some of the columns."""
        place = torch.as_tensor(np.append(columns, self.x.shape[1] - 1))
        place = place.to(self.x.device)
        x = self.x[:, place].contiguous()
        return replace(self, x=x, codes=self.codes[:, place[:-1]].contiguous())


@dataclass(frozen=True)
class Scaling:
    """How design columns and targets were standardised; constant columns left out."""

    active: np.ndarray  # (p - 1,) design columns that vary
    mean: np.ndarray  # (p - 1,)
    scale: np.ndarray  # (p - 1,)
    y_mean: np.ndarray  # (k,)
    y_scale: np.ndarray  # (k,)
    twins: tuple[np.ndarray, ...] = ()  # design columns that are equal, active first

    def keep(self, columns):
        """Return the same for only some of the columns."""
        return replace(
            self,
            active=self.active[columns],
            mean=self.mean[columns],
            scale=self.scale[columns],
        )

    def slopes(self, theta, n_columns):
        """Planes or models (..., p) in standardised units as (..., q) and (...)."""
        coef = np.zeros((*theta.shape[:-1], n_columns))
        raw = theta[..., :-1] / self.scale
        coef[..., self.active] = raw
        for equal in self.twins:  # the solution of least norm shares the slope
            coef[..., equal] = coef[..., equal[:1]] / len(equal)
        return coef, theta[..., -1] - raw @ self.mean


def build_table(design, y, weight, device):
    """Standardise with the weights and rank every column.

    Parameters
    ----------
    design : ndarray (n, q)
    y : ndarray (n, k)
    weight : ndarray (n,), all positive
    device : torch.device

    Returns
    -------
    Table, Scaling, and which rows the table has: equal ones are merged
    """
    total = weight.sum()
    mean = weight @ design / total
    size = np.abs(design).max(axis=0)
    spread = np.ptp(design, axis=0)
    kinds = _equal_columns(design, np.flatnonzero(spread > _FLAT * size))
    active = np.array([equal[0] for equal in kinds], dtype=np.int64)
    twins = tuple(np.array(equal) for equal in kinds if len(equal) > 1)
    n, p = len(design), len(active) + 1
    x = np.ones((n, p))
    codes = np.empty((n, p - 1), dtype=np.int32)
    scale = np.ones(p - 1)
    for j, column in enumerate(active):
        values = design[:, column]
        centred = values - mean[column]
        # Scaled by the largest first: squares of 1e200 or 1e-200 must not be lost.
        largest = np.abs(centred).max()
        scale[j] = largest * np.sqrt(weight @ np.square(centred / largest) / total)
        x[:, j] = centred / scale[j]
        codes[:, j] = dense_ranks(values)
    y_mean = weight @ y / total
    centred = y - y_mean
    largest = np.abs(centred).max(axis=0)
    safe = np.where(largest > 0, largest, 1.0)
    y_scale = safe * np.sqrt(weight @ np.square(centred / safe) / total)
    y_scale = np.where(np.ptp(y, axis=0) > _FLAT * np.abs(y).max(axis=0), y_scale, 0.0)
    y_std = centred / np.where(y_scale > 0, y_scale, 1.0)
    y_std[:, y_scale == 0] = 0.0
    first, weight = merge_equal_rows(codes, y, weight)
    arrays = (x, y_std, weight, codes)
    if len(first) < n:
        arrays = (x[first], y_std[first], weight, codes[first])
    table = Table(*(to_tensor(a, device=device) for a in arrays))
    return table, Scaling(active, mean[active], scale, y_mean, y_scale, twins), first


def _equal_columns(design, columns):
    """Group equal columns, which would count as parameters but be none."""
    kinds: dict[bytes, list[int]] = {}
    for column in columns:
        kinds.setdefault(design[:, column].tobytes(), []).append(int(column))
    return list(kinds.values())


def merge_equal_rows(codes, y, weight):
    """Return the first of each kind of equal rows, in order, and summed weights.

    So a row given twice is the same to the grower as a row of weight 2.
    """
    n = len(codes)
    mix = np.random.default_rng(0).integers(1, 2**62, codes.shape[1] + y.shape[1])
    # Adding 0.0 makes the two zeros one.
    words = np.hstack([codes.astype(np.int64), (y + 0.0).view(np.int64)])
    _, first, kind = np.unique(words @ mix, return_index=True, return_inverse=True)
    equal = np.array_equal(words[first[kind]], words)
    if len(first) == n or not equal:  # or two kinds with one hash: leave all apart
        return np.arange(n), weight
    order = np.sort(first)
    total = np.bincount(np.searchsorted(order, first[kind]), weights=weight)
    return order, total


def dense_ranks(values):
    """Rank of each value among the distinct ones, int32."""
    order = np.argsort(values)
    ordered = values[order]
    rank = np.empty(len(values), dtype=np.int32)
    rank[order] = np.concatenate([[0], np.cumsum(ordered[1:] > ordered[:-1])])
    return rank


def row_groups(table, model):
    """Give rows numbers by what they hold, not by where they stand.

    Rows are ordered by the target, then by the prediction of `model`, the linear model
    (p, k) of all rows; rows equal in both share a number. Dealt out in turn these make
    folds that are stratified, do not depend on the order or the units of the data, and
    treat a row of weight 2 as the same row given twice.

    Returns
    -------
    number : ndarray (n,), and how many different ones there are
    """
    line = np.round((table.x @ model).cpu().numpy(), 9)
    target = np.round(table.y.cpu().numpy(), 9)
    keys = np.hstack([target, line])
    order = np.lexsort(keys.T[::-1])
    new = np.any(keys[order[1:]] != keys[order[:-1]], axis=1)
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = np.concatenate([[0], np.cumsum(new)])
    return group, int(group.max()) + 1
