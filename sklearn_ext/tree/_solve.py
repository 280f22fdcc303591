"""Batched ridge least squares on Gram matrices."""

from __future__ import annotations

import torch

# Relative diagonal loading that is always there: small enough not to move a
# well-posed solution (the error is of this order), large enough to pick a finite,
# nearly minimum-norm solution when columns are collinear and alpha is 0.
JITTER = 1e-12


def ridge(gram, rhs, penalty, prior=None):
    """Minimise ``t'Gt - 2 t'b + penalty * |D(t - prior)|^2`` for a batch of (G, b).

    Parameters
    ----------
    gram : Tensor of shape (..., p, p)
        Weighted Gram matrices; the last column is the intercept.
    rhs : Tensor of shape (..., p, k)
        Weighted products of the columns with the k targets.
    penalty : float or Tensor broadcastable to (...)
        Ridge on the slopes. The intercept is never penalised (D is the identity
        with a zero in its last place).
    prior : Tensor of shape (..., p, k), optional
        Where the slopes are pulled to; zero by default.

    Returns
    -------
    Tensor of shape (..., p, k)
        The minimisers.
    """
    p = gram.shape[-1]
    slope = torch.ones(p, dtype=gram.dtype, device=gram.device)
    slope[-1] = 0.0
    penalty = torch.as_tensor(penalty, dtype=gram.dtype, device=gram.device)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    load = penalty[..., None] * slope
    if prior is not None:
        rhs = rhs + load[..., None] * prior
    # Equilibrate: with unit diagonal the loading means the same for every column.
    scale = (diagonal + load).clamp_min(torch.finfo(gram.dtype).tiny).rsqrt()
    scaled = gram * scale[..., :, None] * scale[..., None, :]
    scaled.diagonal(dim1=-2, dim2=-1).copy_((diagonal + load) * scale.square() + JITTER)
    factor, info = torch.linalg.cholesky_ex(scaled)
    jitter = JITTER
    while jitter < 1e-5 and bool(info.any()):
        jitter *= 1e3
        bad = info > 0
        retry = scaled[bad]
        retry.diagonal(dim1=-2, dim2=-1).add_(jitter)
        factor[bad], info[bad] = torch.linalg.cholesky_ex(retry)
    return torch.cholesky_solve(rhs * scale[..., None], factor) * scale[..., None]


def quadratic(gram, rhs, theta):
    """Return ``t'Gt - 2 t'b`` of each output, for a batch; shape (..., k)."""
    return (theta * (gram @ theta - 2.0 * rhs)).sum(-2)


def slope_penalty(theta, penalty, prior=None):
    """Return ``penalty * |D(t - prior)|^2`` of each output, for a batch; (..., k)."""
    slopes = theta[..., :-1, :]
    if prior is not None:
        slopes = slopes - prior[..., :-1, :]
    return penalty * slopes.square().sum(-2)
