"""The one rule for the side of a split plane that a row lies on."""

from __future__ import annotations

import numpy as np


def goes_left(Z, coef, intercept, *, magnitude=None):
    """Tell which rows lie on the left of one split plane.

    A row goes left if and only if ``coef @ z + intercept > 0``, where the sum is
    taken in one fixed order: the products of the nonzero coefficients from the first
    column to the last, then the intercept, each step rounded to float64. The answer
    for a row therefore depends neither on the rows beside it nor on a BLAS kernel.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_columns), float64
        Design matrix.
    coef : ndarray of shape (n_columns,)
        Coefficients of the plane.
    intercept : float
        Intercept of the plane.
    magnitude : ndarray of shape (n_columns,), default=None
        An upper bound of ``abs(Z)`` for each column; computed when None.

    Returns
    -------
    left : ndarray of shape (n_rows,), bool
        True where the row goes left. A sum that is NaN goes right.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree._planes import goes_left
    >>> goes_left(np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([1.0, -1.0]), 0.0)
    array([False,  True])
    """
    used = np.flatnonzero(coef)
    if len(used) <= 1:  # elementwise: the fixed order itself
        return _ordered_sum(Z, coef, intercept, used) > 0
    values = Z @ coef
    values += intercept
    if magnitude is None:
        magnitude = column_magnitude(Z)
    # Any order of summation errs by at most (q + 1) u (|coef| @ |z| + |intercept|),
    # u = eps / 2. Farther from the plane than twice that, the fast sum has the sign
    # of the ordered one (the bound below is twice larger still); nearer, and where
    # it is NaN, the ordered sum decides.
    bound = float(np.abs(coef) @ magnitude) + abs(float(intercept))
    tolerance = 2.0 * (len(coef) + 2) * np.finfo(float).eps * bound
    tolerance += np.finfo(float).tiny
    distance = np.abs(values)
    if len(values) and not distance.min() > tolerance:
        near = np.flatnonzero(~(distance > tolerance))
        values[near] = _ordered_sum(Z[near], coef, intercept, used)
    return values > 0


def _ordered_sum(Z, coef, intercept, used):
    total = np.zeros(len(Z))
    for j in used:
        total += Z[:, j] * coef[j]
    total += intercept
    return total


def column_magnitude(Z):
    """Bound ``abs(Z)`` for each column."""
    # The root of the sum of squares bounds the maximum and costs a quarter of it on
    # row-major data. Squares under 1e-300 may vanish, hence the added constant.
    return np.sqrt(np.einsum("ij,ij->j", Z, Z)) + 1e-150
