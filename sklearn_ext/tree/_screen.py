"""Which columns a tree on many columns should use at all."""

from __future__ import annotations

import numpy as np

_ROWS = 8192  # more rows tell no more about which columns matter
_MAX_TERMS = 200


def relevant_columns(x, y, weight, max_columns):
    """Columns that explain the targets, by forward selection.

    Each column offers three terms: itself, its distance from the mean and whether it
    is above the mean, so that kinks and jumps count as well as slopes. The term with
    the largest t statistic for any target joins the model until none passes
    ``t^2 > 2 ln(3 d)``, about the largest that noise alone would show. One column is
    selected at least.

    Parameters
    ----------
    x : ndarray (n, d), standardised
    y : ndarray (n, k), standardised
    weight : ndarray (n,)
    max_columns : int
        Most columns to select.

    Returns
    -------
    ndarray of int64, sorted
    """
    step = -(-len(x) // _ROWS)
    x, y, weight = x[::step], y[::step], weight[::step]
    d = x.shape[1]
    root = np.sqrt(weight)[:, None]
    terms = np.concatenate([x, np.abs(x), x > 0], axis=1)
    terms = terms - weight @ terms / weight.sum()
    terms *= root
    residual = y * root
    size = np.einsum("ij,ij->j", terms, terms)
    usable = size > 1e-9 * len(x)
    threshold = 2.0 * np.log(3.0 * d)
    total = weight.sum()
    chosen: list[int] = []
    for count in range(min(_MAX_TERMS, len(x) // 4)):
        norm = np.einsum("ij,ij->j", terms, terms)
        open_ = usable & (norm > 1e-6 * size)
        if len(set(chosen)) >= max_columns:
            open_ &= np.isin(np.arange(3 * d) % d, chosen)
        explained = (terms.T @ residual) ** 2
        explained = explained / np.where(open_, norm, np.inf)[:, None]
        left = np.maximum((residual**2).sum(axis=0) - explained, 1e-12 * total)
        t_squared = (explained / left).max(axis=1) * (total - count - 2)
        best = int(t_squared.argmax())
        if chosen and not t_squared[best] > threshold:  # one column at least
            break
        chosen.append(best % d)
        # Orthogonalise: what is left of the other terms and of the targets.
        unit = terms[:, best] / np.sqrt(norm[best])
        residual = residual - np.outer(unit, unit @ residual)
        terms = terms - np.outer(unit, unit @ terms)
    return np.unique(np.array(chosen, dtype=np.int64))


def suffices(x, y, weight, columns):
    """Tell whether a linear fit on `columns` promises as much as one on all columns.

    By generalised cross-validation, summed over the targets.
    """

    def gcv(x):
        root = np.sqrt(weight)[:, None]
        design = np.hstack([x, np.ones((len(x), 1))]) * root
        fit = np.linalg.lstsq(design, y * root, rcond=None)[0]
        error = ((y * root - design @ fit) ** 2).sum()
        free = max(weight.sum() - design.shape[1], 1.0)
        return error / free**2

    return gcv(x[:, columns]) <= gcv(x)


def missed_columns(x, columns, leaves):
    """Columns left out although the residuals of some leaf depend on them.

    A column may matter only beside another one: it shows once the tree has split.

    Parameters
    ----------
    x : ndarray (n, d), standardised
    columns : ndarray of int64
        Columns that the tree uses.
    leaves : list of (rows, residual (n_rows, k), weight (n_rows,))

    Returns
    -------
    ndarray of int64
        Columns with a term whose t statistic is too large for noise.
    """
    others = np.setdiff1d(np.arange(x.shape[1]), columns)
    threshold = 2.0 * np.log(3.0 * max(len(others), 1) * len(leaves))
    found = np.zeros(len(others), dtype=bool)
    for rows, residual, weight in leaves:
        free = weight.sum() - len(columns) - 2
        if free < 10 or not len(others):
            continue
        part = x[rows][:, others]
        part = part - weight @ part / weight.sum()
        terms = np.concatenate([part, np.abs(part), part > 0], axis=1)
        terms = terms - weight @ terms / weight.sum()
        norm = weight @ np.square(terms)
        cross = np.square(terms.T @ (residual * weight[:, None]))
        noise = np.maximum(weight @ np.square(residual) / free, 1e-12)
        t_squared = cross / np.where(norm > 1e-9 * free, norm, np.inf)[:, None] / noise
        found |= (t_squared.max(axis=1) > threshold).reshape(3, -1).any(axis=0)
    return others[found]
