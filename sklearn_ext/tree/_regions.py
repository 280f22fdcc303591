"""The leaves of a fitted hinge tree as polyhedra with affine maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._describe import check_model
from ._planes import goes_left


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """One leaf: a polyhedron of the design space and the affine map on it.

    A row ``z`` of the design matrix belongs to the leaf if and only if
    ``A @ z < b`` in the rows where ``strict`` is True and ``A @ z <= b`` in the
    others; there the model's value before clipping is ``coef @ z + intercept``.

    Parameters
    ----------
    leaf : int
        Node number of the leaf, as ``apply`` returns it.
    A : ndarray of shape (n_constraints, n_columns)
        Left sides, one row for each split on the way from the root to the leaf.
        Rows that others imply are kept.
    b : ndarray of shape (n_constraints,)
        Right sides.
    coef : ndarray of shape (n_outputs, n_columns)
        Slopes of the leaf's model (of the logits, for logistic leaves).
    intercept : ndarray of shape (n_outputs,)
        Intercepts of the leaf's model.
    strict : ndarray of shape (n_constraints,), bool
        True where the side is open: the way to the leaf goes left, and rows that
        lie on the plane itself go right.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree._regions import Region
    >>> half_line = Region(
    ...     leaf=1, A=np.array([[-1.0]]), b=np.array([0.0]), coef=np.array([[2.0]]),
    ...     intercept=np.array([0.5]), strict=np.array([True]))
    >>> half_line.contains(np.array([[0.0], [3.0]]))
    array([False,  True])
    """

    leaf: int
    A: np.ndarray
    b: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    strict: np.ndarray

    def contains(self, Z) -> np.ndarray:
        """Tell which rows lie in the region, exactly as ``apply`` decides it.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_columns)
            Design matrix.

        Returns
        -------
        inside : ndarray of shape (n_rows,), bool
            True where the row belongs to the leaf.
        """
        Z = np.ascontiguousarray(Z, dtype=np.float64)
        if Z.ndim != 2 or Z.shape[1] != self.A.shape[1]:
            raise ValueError(
                f"Z has shape {Z.shape}, but the region needs a design matrix of shape "
                f"(n_rows, {self.A.shape[1]}); pass model.columns_.transform(X)"
            )
        inside = np.ones(len(Z), dtype=bool)
        for row, bound, strict in zip(self.A, self.b, self.strict, strict=True):
            if strict:  # left: -row is the split's own plane
                inside &= goes_left(Z, -row, bound)
            else:
                inside &= ~goes_left(Z, row, -bound)
        return inside


def regions(model) -> list[Region]:
    """Return the polyhedron and the affine map of every leaf.

    The regions cover the design space and do not overlap: what a mixed-integer or a
    control model needs to embed the tree.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
        A fitted model.

    Returns
    -------
    regions : list of Region
        One for each leaf, in the order of the leaf numbers. Columns are those of
        ``model.columns_.transform(X)``: the columns of `X` unless categories or
        missing values added some. The maps are not clipped.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree import HRTRegressor
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
    >>> [int(region.contains(X).sum()) for region in model.regions()]
    [100, 100]
    """
    tree = check_model(model, "regions")
    result = []
    for leaf in tree.leaves.tolist():
        path = tree.path_to(leaf)
        nodes = [node for node, _ in path]
        left = np.array([is_left for _, is_left in path], dtype=bool)
        sign = np.where(left, -1.0, 1.0)
        result.append(
            Region(
                leaf=leaf,
                # Left is v z + c > 0, that is -v z < c; right is v z <= -c.
                A=sign[:, None] * tree.split_coef[nodes] + 0.0,
                b=-sign * tree.split_intercept[nodes] + 0.0,
                coef=tree.coef[leaf].copy(),
                intercept=tree.intercept[leaf].copy(),
                strict=left,
            )
        )
    return result
