"""Multinomial logistic models of all nodes of a tree, each shrunk to its parent's."""

from __future__ import annotations

import torch

_MAX_ITER = 500
_MAX_HALVINGS = 20
_PSEUDO_WEIGHT = 1.0


def logistic_models(left, right, rows_of, table, indicators, alpha, shrinkage, tol):
    """Fit the nodes from the root down.

    Parameters
    ----------
    left, right : ndarray (m,)
        Children, -1 in leaves; parents come before children.
    rows_of : callable
        Node number -> row numbers in `table`.
    table : Table
    indicators : Tensor (n, k)
        1 in the column of the row's class, else 0.
    alpha, shrinkage : float
        Ridge on the slopes, to zero and to the parent's.
    tol : float
        Relative decrease of the loss at which a fit ends.

    Returns
    -------
    Tensor (m, p, k)
        Logits' coefficients, the intercept last; they sum to zero over the classes.
    """
    p, k = table.x.shape[1], indicators.shape[1]
    theta = table.x.new_zeros(len(left), p, k)
    theta[0] = _fit(rows_of(0), table, indicators, theta[0], alpha, 0.0, tol)
    for i in range(len(left)):
        if left[i] >= 0:
            for child in (left[i], right[i]):
                rows = rows_of(child)
                theta[child] = _fit(
                    rows, table, indicators, theta[i], alpha, shrinkage, tol
                )
    return theta


def _fit(rows, table, indicators, parent, alpha, shrinkage, tol):
    """Penalised likelihood fit of one node, started at its parent's model.

    One more row, the mean of the node's, carries what the parent predicts there
    (at the root: every class alike). So a pure node of n rows does not claim
    certainty, but about n / (n + 1).
    """
    x, y, w = table.x[rows], indicators[rows], table.w[rows]
    mean = (w @ x / w.sum())[None]
    x = torch.cat([x, mean])
    y = torch.cat([y, torch.softmax(mean @ parent, dim=1)])
    w = torch.cat([w, w.new_tensor([_PSEUDO_WEIGHT])])
    slope = torch.ones(x.shape[1], 1, dtype=x.dtype, device=x.device)
    slope[-1] = 0.0

    def loss(theta):
        line = x @ theta
        nll = w @ (torch.logsumexp(line, 1) - (y * line).sum(1))
        ridge = alpha * theta.square() + shrinkage * (theta - parent).square()
        return nll + 0.5 * (slope * ridge).sum()

    theta, value = parent.clone(), loss(parent)
    for _ in range(_MAX_ITER):
        step = _direction(x, y, w, theta, parent, alpha, shrinkage, slope)
        theta, new = _descend(loss, theta, step, value)
        if not bool(value - new > tol * (1.0 + value.abs())):
            break
        value = new
    return theta


def _direction(x, y, w, theta, parent, alpha, shrinkage, slope):
    """Newton step of a bound: diag(p) - pp' is at most 2 diag(p (1 - p)).

    With two classes the bound is the Hessian itself.
    """
    prob = torch.softmax(x @ theta, dim=1)
    gradient = x.T @ (w[:, None] * (prob - y))
    gradient = gradient + slope * (alpha * theta + shrinkage * (theta - parent))
    curvature = 2.0 * w[:, None] * prob * (1.0 - prob)
    hessian = (x.T * curvature.T[:, None]) @ x
    diagonal = hessian.diagonal(dim1=1, dim2=2)
    load = (alpha + shrinkage) * slope[:, 0] + 1e-9 * (1.0 + diagonal)
    diagonal += load
    return -torch.linalg.solve(hessian, gradient.T[..., None])[..., 0].T


def _descend(loss, theta, step, value):
    """Move along `step`, halved until the loss falls; stay where it never does."""
    for _ in range(_MAX_HALVINGS):
        trial = theta + step
        new = loss(trial)
        if bool(new < value):
            return trial, new
        step = 0.5 * step
    return theta, value
