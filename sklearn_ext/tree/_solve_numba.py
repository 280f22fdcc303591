"""Compiled twin of `ridge` for one system with one target."""

from __future__ import annotations

import math

from numba import njit

from ._rows_numba import FLAGS
from ._solve import JITTER

_TINY = 2.3e-308


@njit(**FLAGS)
def _dot_head(a, b, n):
    total = 0.0
    for c in range(n):
        total += a[c] * b[c]
    return total


@njit(**FLAGS)
def _factor(gram, scale, inverse, jitter, lower):
    """Cholesky factor of the equilibrated, loaded Gram; False where it fails.

    Off the diagonal `lower` holds the factor, `inverse` the reciprocal diagonal.
    """
    p = gram.shape[0]
    for a in range(p):
        line, row = lower[a], gram[a]
        for b in range(a):
            value = row[b] * scale[a] * scale[b] - _dot_head(line, lower[b], b)
            line[b] = value * inverse[b]
        value = 1.0 + jitter - _dot_head(line, line, a)
        if not value > 0.0:
            return False
        inverse[a] = 1.0 / math.sqrt(value)
    return True


@njit(**FLAGS)
def _forward(gram, penalty, prior, lower, scale, inverse, z):
    """Factor and solve L z = b; `penalty` loads all columns but the last."""
    p = gram.shape[0]
    for a in range(p):
        load = penalty if a < p - 1 else 0.0
        scale[a] = 1.0 / math.sqrt(max(gram[a, a] + load, _TINY))
    jitter = JITTER
    total = JITTER
    while not _factor(gram, scale, inverse, total, lower) and jitter < 1e-5:
        jitter *= 1e3
        total += jitter
    for a in range(p):
        load = penalty * prior[a] if a < p - 1 else 0.0
        value = (gram[a, p] + load) * scale[a] - _dot_head(lower[a], z, a)
        z[a] = value * inverse[a]


@njit(**FLAGS)
def side_cost(gram, penalty, prior, lower, scale, inverse, z):
    """Least cost t'Gt - 2 t'b + penalty |D(t - prior)|^2 of products gram (p, p + 1).

    The arrays after `prior` are work space: (p, p) and three times (p,).
    """
    _forward(gram, penalty, prior, lower, scale, inverse, z)
    p = gram.shape[0]
    cost = 0.0
    for a in range(p):
        cost -= z[a] * z[a]
        if a < p - 1:
            cost += penalty * prior[a] * prior[a]
    return cost


@njit(**FLAGS)
def solve_side(gram, penalty, prior, lower, scale, inverse, theta):
    """Put the minimiser of that cost into `theta`."""
    _forward(gram, penalty, prior, lower, scale, inverse, theta)
    p = gram.shape[0]
    for a in range(p - 1, -1, -1):
        value = theta[a]
        for c in range(a + 1, p):
            value -= lower[c, a] * theta[c]
        theta[a] = value * inverse[a]
    for a in range(p):
        theta[a] *= scale[a]


@njit(**FLAGS)
def subtract(total, part, out):
    """Put total - part into out, elementwise."""
    for a in range(total.shape[0]):
        one, two, line = total[a], part[a], out[a]
        for b in range(total.shape[1]):
            line[b] = one[b] - two[b]
