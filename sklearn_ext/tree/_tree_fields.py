"""The fields of `HingeTree`: their types and axes, and what they must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np

LEAF, MAX, MIN, AXIS = 0, 1, 2, 3
"""Values of ``HingeTree.split_kind``."""

# Axes of each field, in letters: n nodes, k outputs, q columns.
INTEGER_FIELDS = {
    "children_left": "n",
    "children_right": "n",
    "split_kind": "n",
    "n_node_samples": "n",
    "depth": "n",
    "n_iter": "n",
}
FLOAT_FIELDS = {
    "split_coef": "nq",
    "split_intercept": "n",
    "coef": "nkq",
    "intercept": "nk",
    "weighted_n_node_samples": "n",
    "sse": "n",
    "sst": "n",
    "gain": "n",
    "lower": "nq",
    "upper": "nq",
    "value_min": "nk",
    "value_max": "nk",
}
_AXIS_NAMES = {"n": "nodes", "k": "outputs", "q": "columns"}
_FINITE = ("split_coef", "split_intercept", "coef", "intercept")


def as_array(name, value):
    """Return a field as a contiguous array of its own type."""
    if name in FLOAT_FIELDS:
        dtype: Any = np.float64
    else:
        dtype = np.int8 if name == "split_kind" else np.int64
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US":  # from_dict: NaN and infinities are strings
            array = np.asarray(value, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # NaN as an integer: refused below
            exact = array.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"HingeTree: {name} is not a rectangular array of numbers ({error})"
        ) from None
    if dtype is not np.float64 and not np.array_equal(exact, array):
        raise ValueError(f"HingeTree: {name} must hold integers, got {array!r}")
    return np.ascontiguousarray(exact)


def check_shapes(tree):
    """Refuse fields whose shapes do not fit together, and numbers not finite."""
    split_coef, coef = tree.split_coef, tree.coef
    if split_coef.ndim != 2 or coef.ndim != 3:
        raise ValueError(
            "HingeTree: split_coef must have the axes (nodes, columns) and coef "
            "(nodes, outputs, columns), got the shapes "
            f"{split_coef.shape} and {coef.shape}"
        )
    sizes = {"n": np.size(tree.children_left), "k": coef.shape[1]}
    sizes["q"] = split_coef.shape[1]
    if not all(sizes.values()):
        raise ValueError(
            "HingeTree: a tree needs at least one node, one output and one column, "
            f"got {sizes['n']}, {sizes['k']} and {sizes['q']}"
        )
    for name, axes in {**INTEGER_FIELDS, **FLOAT_FIELDS, "stop_reason": "n"}.items():
        expected = tuple(sizes[axis] for axis in axes)
        if getattr(tree, name).shape != expected:
            meaning = ", ".join(_AXIS_NAMES[axis] for axis in axes)
            raise ValueError(
                f"HingeTree: {name} has shape {getattr(tree, name).shape}, expected "
                f"{expected} ({meaning})"
            )
    for name in _FINITE:
        if not np.isfinite(getattr(tree, name)).all():
            raise ValueError(f"HingeTree: {name} holds NaN or infinity")


def check_links(tree):
    """Refuse child numbers that are no binary tree, and what contradicts them."""
    left, right = tree.children_left, tree.children_right
    node = np.arange(len(left))
    leaf = left == -1
    if not np.array_equal(leaf, right == -1):
        raise ValueError(
            "HingeTree: children_left and children_right must be -1 in the same nodes"
        )
    for name, child in (("children_left", left), ("children_right", right)):
        wrong = ~leaf & ((child <= node) | (child >= len(left)))
        if wrong.any():
            bad = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"HingeTree: {name}[{bad}] is {child[bad]}; it must be greater than "
                f"{bad} and smaller than the number of nodes, {len(left)}"
            )
    children = np.concatenate([left[~leaf], right[~leaf]])
    if not np.array_equal(np.sort(children), node[1:]):
        raise ValueError(
            "HingeTree: every node but the root must be the child of exactly one node"
        )
    if not np.array_equal(leaf, tree.split_kind == LEAF):
        raise ValueError("HingeTree: split_kind must be 0 in leaves and only there")
    if not np.isin(tree.split_kind, (LEAF, MAX, MIN, AXIS)).all():
        raise ValueError("HingeTree: split_kind must be 0, 1, 2 or 3")
    parent = tree.parent
    depth = np.zeros(len(left), dtype=np.int64)
    for child in node[1:]:
        depth[child] = depth[parent[child]] + 1
    if not np.array_equal(tree.depth, depth):
        raise ValueError(
            f"HingeTree: depth is {tree.depth.tolist()}, but the children say "
            f"{depth.tolist()}"
        )


def json_floats(array):
    """Return nested lists that strict JSON can hold."""
    if np.isfinite(array).all():
        return array.tolist()
    text = array.astype(object)
    text[np.isnan(array)] = "NaN"
    text[array == np.inf] = "Infinity"
    text[array == -np.inf] = "-Infinity"
    return text.tolist()
