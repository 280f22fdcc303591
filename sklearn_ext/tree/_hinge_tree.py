"""The fitted tree as plain arrays, and the fast walk of rows through it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ._planes import column_magnitude, goes_left
from ._tree_fields import (
    FLOAT_FIELDS,
    INTEGER_FIELDS,
    as_array,
    check_links,
    check_shapes,
    json_floats,
)

_FORMAT = "sklearn_ext.HingeTree"
_VERSION = 1

# Rows are walked in blocks of about this many numbers: bounded extra memory.
_BLOCK_NUMBERS = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HingeTree:
    """A fitted hinge regression tree: arrays over its nodes, in the data's units.

    Node 0 is the root and every child has a larger number than its parent. A row
    ``z`` of the design matrix goes to ``children_left`` if and only if
    ``split_coef @ z + split_intercept > 0`` (strictly), else to ``children_right``.
    Every node, not only a leaf, has its own linear model ``coef @ z + intercept``.

    Parameters
    ----------
    children_left, children_right : ndarray of shape (nodes,), int64
        Numbers of the children, -1 in leaves.
    split_coef : ndarray of shape (nodes, columns)
        Coefficients of the split plane, zeros in leaves.
    split_intercept : ndarray of shape (nodes,)
        Intercept of the split plane.
    split_kind : ndarray of shape (nodes,), int8
        0 leaf, 1 hinge that is a maximum, 2 hinge that is a minimum, 3 axis.
    coef : ndarray of shape (nodes, outputs, columns)
        Slopes of each node's model.
    intercept : ndarray of shape (nodes, outputs)
        Intercepts of each node's model.
    n_node_samples : ndarray of shape (nodes,), int64
        Training rows of the node.
    weighted_n_node_samples : ndarray of shape (nodes,)
        Their weights, summed.
    sse : ndarray of shape (nodes,)
        Weighted squared errors of the node's own model, summed over rows and outputs.
    gain : ndarray of shape (nodes,)
        What the split gained, 0 in leaves.
    depth : ndarray of shape (nodes,), int64
        Distance from the root.
    n_iter : ndarray of shape (nodes,), int64
        Newton rounds spent on the split.
    stop_reason : ndarray of shape (nodes,), str
        ``"split"``, or why the node was not split.
    lower, upper : ndarray of shape (nodes, columns)
        Box of the node's training rows.
    value_min, value_max : ndarray of shape (nodes, outputs)
        Range of the training targets in the node.
    sst : ndarray of shape (nodes,), default=None
        Weighted squared deviations of the targets from the node's mean, summed over
        rows and outputs. NaN (and so no R2 in texts and tables) when not given.

    Examples
    --------
    The absolute value as a tree of one split and two leaves:

    >>> import numpy as np
    >>> from sklearn_ext.tree._hinge_tree import HingeTree
    >>> tree = HingeTree(
    ...     children_left=[1, -1, -1], children_right=[2, -1, -1],
    ...     split_coef=[[1.0], [0.0], [0.0]], split_intercept=[0.0, 0.0, 0.0],
    ...     split_kind=[1, 0, 0], coef=[[[0.0]], [[1.0]], [[-1.0]]],
    ...     intercept=[[0.5], [0.0], [0.0]], n_node_samples=[4, 2, 2],
    ...     weighted_n_node_samples=[4.0, 2.0, 2.0], sse=[0.3, 0.0, 0.0],
    ...     gain=[0.3, 0.0, 0.0], depth=[0, 1, 1], n_iter=[2, 0, 0],
    ...     stop_reason=["split", "cost", "cost"],
    ...     lower=[[-1.0], [0.5], [-1.0]], upper=[[1.0], [1.0], [-0.5]],
    ...     value_min=[[0.5], [0.5], [0.5]], value_max=[[1.0], [1.0], [1.0]])
    >>> tree.predict(np.array([[-3.0], [2.0]]))
    array([[3.],
           [2.]])
    """

    children_left: np.ndarray
    children_right: np.ndarray
    split_coef: np.ndarray
    split_intercept: np.ndarray
    split_kind: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    n_node_samples: np.ndarray
    weighted_n_node_samples: np.ndarray
    sse: np.ndarray
    gain: np.ndarray
    depth: np.ndarray
    n_iter: np.ndarray
    stop_reason: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    value_min: np.ndarray
    value_max: np.ndarray
    sst: np.ndarray | None = None

    def __post_init__(self):
        if self.sst is None:
            count = np.size(self.children_left)
            object.__setattr__(self, "sst", np.full(count, np.nan))
        for name in (*INTEGER_FIELDS, *FLOAT_FIELDS):
            array = as_array(name, getattr(self, name))
            object.__setattr__(self, name, array)
        reasons = np.asarray(self.stop_reason, dtype=np.str_)
        object.__setattr__(self, "stop_reason", reasons)
        check_shapes(self)
        check_links(self)

    def __repr__(self):
        return (
            f"HingeTree(node_count={self.node_count}, n_leaves={self.n_leaves}, "
            f"max_depth={self.max_depth}, n_columns={self.n_columns}, "
            f"n_outputs={self.n_outputs})"
        )

    @property
    def node_count(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.children_left)

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix."""
        return self.split_coef.shape[1]

    @property
    def n_outputs(self) -> int:
        """Number of outputs of each node's model."""
        return self.coef.shape[1]

    @property
    def leaves(self) -> np.ndarray:
        """Numbers of the leaves, ascending."""
        return np.flatnonzero(self.children_left < 0)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.children_left < 0))

    @property
    def max_depth(self) -> int:
        """Depth of the deepest leaf; 0 for a tree that is one leaf."""
        return int(self.depth.max())

    @property
    def parent(self) -> np.ndarray:
        """Parent of each node, -1 for the root."""
        parent = np.full(self.node_count, -1)
        inner = np.flatnonzero(self.children_left >= 0)
        parent[self.children_left[inner]] = inner
        parent[self.children_right[inner]] = inner
        return parent

    def apply(self, Z) -> np.ndarray:
        """Return the leaf of each row.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_columns)
            Design matrix.

        Returns
        -------
        leaf : ndarray of shape (n_rows,), int64
            Node number of the leaf the row ends in.
        """
        Z = self._check_design(Z)
        leaf_of = np.empty(len(Z), dtype=np.int64)
        for start, block in self._blocks(Z):
            out = leaf_of[start : start + len(block)]
            for leaf, rows in self._partition(block):
                out[rows] = leaf
        return leaf_of

    def predict(self, Z) -> np.ndarray:
        """Return the value of each row's leaf model, not clipped.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_columns)
            Design matrix.

        Returns
        -------
        values : ndarray of shape (n_rows, n_outputs)
            ``coef[leaf] @ z + intercept[leaf]``. A row's value is bitwise the same
            whatever rows are beside it.
        """
        Z = self._check_design(Z)
        values = np.empty((len(Z), self.n_outputs))
        for start, block in self._blocks(Z):
            out = values[start : start + len(block)]
            for leaf, rows in self._partition(block):
                part = block.take(rows, axis=0)
                for k in range(self.n_outputs):
                    # einsum sums each row by itself; a matrix product would round
                    # differently with the number of rows.
                    y = np.einsum("ij,j->i", part, self.coef[leaf, k])
                    y += self.intercept[leaf, k]
                    out[rows, k] = y
        return values

    def decision_path(self, Z) -> csr_matrix:
        """Return the nodes that each row passes, leaf included.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_columns)
            Design matrix.

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, node_count)
            1 where the row passes the node.
        """
        leaf_of = self.apply(Z)
        path = np.full((self.node_count, self.max_depth + 1), -1)
        path[0, 0] = 0
        for node, parent in enumerate(self.parent):
            if parent >= 0:  # parents come first, so their path is complete
                path[node] = path[parent]
                path[node, self.depth[node]] = node
        indptr = np.zeros(len(leaf_of) + 1, dtype=np.int64)
        np.cumsum(self.depth[leaf_of] + 1, out=indptr[1:])
        indices = path[leaf_of]
        indices = indices[indices >= 0]
        ones = np.ones(len(indices), dtype=np.int64)
        shape = (len(leaf_of), self.node_count)
        return csr_matrix((ones, indices, indptr), shape=shape)

    def path_to(self, leaf: int) -> list[tuple[int, bool]]:
        """Return the splits from the root to a node and the side taken at each.

        Parameters
        ----------
        leaf : int
            Node number; any node will do.

        Returns
        -------
        path : list of (int, bool)
            Pairs of split node and whether the way goes left, root first.
        """
        if not 0 <= leaf < self.node_count:
            raise ValueError(
                f"leaf={leaf} is not a node of this tree; use a number from 0 to "
                f"{self.node_count - 1}, for instance one of tree.leaves"
            )
        parents = self.parent
        path: list[tuple[int, bool]] = []
        node = int(leaf)
        while node:
            parent = int(parents[node])
            path.append((parent, bool(self.children_left[parent] == node)))
            node = parent
        return path[::-1]

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as a JSON-safe dictionary.

        Returns
        -------
        state : dict
            Lists, numbers and strings only, with ``format`` and ``version``. Floats
            come back bit for bit; NaN and infinities are written as strings.
        """
        state: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "n_columns": self.n_columns,
            "n_outputs": self.n_outputs,
        }
        for name in INTEGER_FIELDS:
            state[name] = getattr(self, name).tolist()
        for name in FLOAT_FIELDS:
            state[name] = json_floats(getattr(self, name))
        state["stop_reason"] = self.stop_reason.tolist()
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> HingeTree:
        """Build a tree from the dictionary that ``to_dict`` made.

        Parameters
        ----------
        state : dict
            What ``to_dict`` returned, possibly through JSON.

        Returns
        -------
        tree : HingeTree
            A tree that predicts identically.

        Raises
        ------
        ValueError
            If the format or version is unknown, a field is missing, or shapes or
            child numbers do not fit together.
        """
        if not isinstance(state, Mapping) or state.get("format") != _FORMAT:
            got = state.get("format") if isinstance(state, Mapping) else type(state)
            raise ValueError(
                f"the tree's 'format' must be {_FORMAT!r}, got {got!r}; "
                "pass what HingeTree.to_dict() returned"
            )
        if state.get("version") != _VERSION:
            raise ValueError(
                f"the tree's 'version' must be {_VERSION}, got "
                f"{state.get('version')!r}; install the sklearn-ext that wrote it"
            )
        names = [field.name for field in dataclasses.fields(cls)]
        missing = [name for name in names if name not in state]
        if missing:
            raise ValueError(
                f"the tree lacks the fields {missing}; the file is cut off or was "
                "edited, write it again with to_dict()"
            )
        tree = cls(**{name: state[name] for name in names})
        for name in ("n_columns", "n_outputs"):
            if state.get(name) != getattr(tree, name):
                raise ValueError(
                    f"the tree's {name!r} says {state.get(name)!r}, but its arrays "
                    f"have {getattr(tree, name)}; the file was edited"
                )
        return tree

    def _check_design(self, Z) -> np.ndarray:
        Z = np.asarray(Z)
        if Z.ndim != 2 or Z.shape[1] != self.n_columns:
            raise ValueError(
                f"Z has shape {Z.shape}, but the tree needs a design matrix of shape "
                f"(n_rows, {self.n_columns}); pass model.columns_.transform(X)"
            )
        return Z

    def _blocks(self, Z) -> Iterator[tuple[int, np.ndarray]]:
        """Yield Z in row-major float64 blocks of bounded size."""
        size = max(4096, _BLOCK_NUMBERS // self.n_columns)
        for start in range(0, len(Z), size):
            block = Z[start : start + size]
            yield start, np.ascontiguousarray(block, dtype=np.float64)

    def _partition(self, Z) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each leaf that has rows of Z, with the indices of those rows.

        Each split copies the rows of its two sides, so that every plane is one
        matrix-vector product on contiguous memory. Measured against one product of
        all planes, gathering coefficients level by level and index lists on columns,
        it was the fastest on hinge splits; a compiled loop gained less than twice.
        """
        planes = self.split_coef
        used = np.flatnonzero(planes.any(axis=0))
        if 2 * len(used) <= Z.shape[1]:  # the copies then carry half at most
            Z, planes = Z[:, used], np.ascontiguousarray(planes[:, used])
        with np.errstate(over="ignore", invalid="ignore"):
            magnitude = column_magnitude(Z)
            todo: list[tuple[int, np.ndarray | None, np.ndarray]] = [(0, None, Z)]
            while todo:
                node, rows, Z = todo.pop()
                left = int(self.children_left[node])
                if left < 0:
                    yield node, np.arange(len(Z)) if rows is None else rows
                    continue
                mask = goes_left(
                    Z, planes[node], self.split_intercept[node], magnitude=magnitude
                )
                right = int(self.children_right[node])
                for child, side in ((left, mask), (right, ~mask)):
                    index = np.flatnonzero(side)
                    if not len(index):
                        continue
                    child_rows = index if rows is None else rows.take(index)
                    if self.children_left[child] < 0:
                        yield child, child_rows
                    else:
                        todo.append((child, child_rows, Z.take(index, axis=0)))
