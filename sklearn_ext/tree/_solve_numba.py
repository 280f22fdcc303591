"""Compiled twin of `ridge` for one system with one target."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ._rows_numba import FLAGS
from ._solve import JITTER


@njit(**FLAGS)
def _factor(gram, scale, penalty, jitter, lower):
    """Cholesky factor of the equilibrated, loaded Gram; False where it fails."""
    p = gram.shape[0]
    for a in range(p):
        for b in range(a + 1):
            value = gram[a, b] * scale[a] * scale[b]
            if a == b:
                load = penalty if a < p - 1 else 0.0
                value = (gram[a, a] + load) * scale[a] * scale[a] + jitter
            for c in range(b):
                value -= lower[a, c] * lower[b, c]
            if a > b:
                lower[a, b] = value / lower[b, b]
            elif value > 0.0:
                lower[a, a] = math.sqrt(value)
            else:
                return False
    return True


@njit(**FLAGS)
def solve_side(gram, penalty, prior, lower, scale, theta):
    """Ridge fit of products gram (p, p + 1) into `theta`; return its cost.

    The cost is t'Gt - 2 t'b + penalty |D(t - prior)|^2. `lower` (p, p) and `scale`
    (p,) are work space.
    """
    p = gram.shape[0]
    for a in range(p):
        load = penalty if a < p - 1 else 0.0
        scale[a] = 1.0 / math.sqrt(max(gram[a, a] + load, 2.3e-308))
    jitter = JITTER
    total = JITTER
    while not _factor(gram, scale, penalty, total, lower) and jitter < 1e-5:
        jitter *= 1e3
        total += jitter
    for a in range(p):
        load = penalty * prior[a] if a < p - 1 else 0.0
        value = (gram[a, p] + load) * scale[a]
        for c in range(a):
            value -= lower[a, c] * theta[c]
        theta[a] = value / lower[a, a]
    for a in range(p - 1, -1, -1):
        value = theta[a]
        for c in range(a + 1, p):
            value -= lower[c, a] * theta[c]
        theta[a] = value / lower[a, a]
    cost = 0.0
    for a in range(p):
        theta[a] *= scale[a]
    for a in range(p):
        line = -2.0 * gram[a, p]
        for b in range(p):
            line += gram[a, b] * theta[b]
        cost += theta[a] * line
        if a < p - 1:
            cost += penalty * (theta[a] - prior[a]) ** 2
    return cost


@njit(**FLAGS)
def subtract(total, part, out):
    """Put total - part into out, elementwise."""
    for a in range(total.shape[0]):
        for b in range(total.shape[1]):
            out[a, b] = total[a, b] - part[a, b]


def workspace(p):
    """Arrays that `solve_side` works in."""
    return np.empty((p, p)), np.empty(p)
