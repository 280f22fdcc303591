"""From a grown and pruned tree to the arrays that the user sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ._hinge_tree import HingeTree
from ._tree_fields import AXIS, LEAF


@dataclass(frozen=True)
class TrainingData:
    """The training rows in their own units, and which of them the table has."""

    design: np.ndarray  # (n, q)
    y: np.ndarray  # (n, k)
    weight: np.ndarray  # (n,)
    first: np.ndarray  # (rows of the table,) their numbers here


def assemble(grower, compact, leaves, theta, scaling, data, logits=None):
    """Build the `HingeTree` of a pruned tree in the data's own units.

    Parameters
    ----------
    grower : Grower
    compact : Compact
    leaves : ndarray (m,) of bool
        Where the pruned tree stops.
    theta : Tensor (m, p, k)
        Models of all nodes, standardised.
    scaling : Scaling
    data : TrainingData
        The training rows in their own units.
    logits : Tensor (m, p, k), optional
        Models to show in place of `theta`; they have no unit.
    """
    design, y, weight = data.design, data.y, data.weight
    keep = kept(compact.products.left, compact.products.right, leaves)
    number = np.full(len(leaves), -1)
    number[keep] = np.arange(len(keep))
    is_leaf = leaves[keep]
    ids = [compact.ids[i] for i in keep]
    left = np.where(is_leaf, -1, number[compact.products.left[keep]])
    right = np.where(is_leaf, -1, number[compact.products.right[keep]])
    split_coef, split_intercept = _splits(grower, ids, is_leaf, scaling, data)
    shown = theta if logits is None else logits
    shown = shown[keep].transpose(1, 2).cpu().numpy()
    coef, intercept = scaling.slopes(shown, design.shape[1])
    if logits is None:
        coef *= scaling.y_scale[:, None]
        intercept = intercept * scaling.y_scale + scaling.y_mean
    sse = compact.products.sse(theta)[keep].cpu().numpy() @ np.square(scaling.y_scale)
    nodes = grower.nodes
    kind = np.array([nodes.kind[i] for i in ids])
    blank = {
        "children_left": left,
        "children_right": right,
        "split_coef": split_coef,
        "split_intercept": split_intercept,
        "split_kind": np.where(is_leaf, LEAF, kind),
        "coef": coef,
        "intercept": intercept,
        "sse": sse,
        "gain": np.zeros(len(ids)),
        "depth": np.array([nodes.depth[i] for i in ids]),
        "n_iter": np.where(is_leaf, 0, [nodes.n_iter[i] for i in ids]),
        "stop_reason": [
            (nodes.reason[i] or "pruned") if stop else "split"
            for i, stop in zip(ids, is_leaf, strict=True)
        ],
    }
    facts = _node_facts(blank, design, y, weight)
    inner = ~is_leaf
    blank["gain"][inner] = sse[inner] - sse[left[inner]] - sse[right[inner]]
    return HingeTree(**blank, **facts)


def kept(left, right, leaves):
    """Nodes of the tree that ends at `leaves`, parents first."""
    keep = [0]
    for i in keep:  # grows while it is walked
        if not leaves[i]:
            keep += [left[i], right[i]]
    return np.array(keep)


def _splits(grower, ids, is_leaf, scaling, data):
    """Planes of the split nodes in the data's units, zeros in leaves."""
    plane = grower.plane[ids]
    size = plane.abs().amax(1, keepdim=True)
    plane = (plane / torch.where(size > 0, size, 1.0)).cpu().numpy()
    coef, intercept = scaling.slopes(plane, data.design.shape[1])
    coef[is_leaf], intercept[is_leaf] = 0.0, 0.0
    nodes = grower.nodes
    for row, i in enumerate(ids):
        if not is_leaf[row] and nodes.kind[i] == AXIS:
            rows = grower.rows(i)
            codes = grower.table.codes[rows, nodes.feature[i]].cpu().numpy()
            column = scaling.active[nodes.feature[i]]
            values = data.design[data.first[rows.cpu().numpy()], column]
            low = values[codes <= nodes.code[i]].max()
            high = values[codes > nodes.code[i]].min()
            middle = low + (high - low) / 2
            coef[row] = 0.0
            coef[row, column] = -1.0
            # Left is x < t: with t = high every value up to `low` goes left.
            intercept[row] = middle if low < middle else high
    return coef, intercept


def _node_facts(blank, design, y, weight):
    """Find counts, boxes and target ranges of all nodes, from the leaves upwards."""
    left, right = blank["children_left"], blank["children_right"]
    m, k = len(left), y.shape[1]
    leaf = _walk(blank, design)
    order = np.argsort(leaf, kind="stable")
    found, start = np.unique(leaf[order], return_index=True)
    w = weight[order]
    facts = {
        "n_node_samples": np.bincount(leaf, minlength=m),
        "weighted_n_node_samples": np.bincount(leaf, weights=weight, minlength=m),
        "lower": np.full((m, design.shape[1]), np.inf),
        "upper": np.full((m, design.shape[1]), -np.inf),
        "value_min": np.full((m, k), np.inf),
        "value_max": np.full((m, k), -np.inf),
    }
    for data, low, high in ((design, "lower", "upper"), (y, "value_min", "value_max")):
        ordered = data[order]
        facts[low][found] = np.minimum.reduceat(ordered, start)
        facts[high][found] = np.maximum.reduceat(ordered, start)
    sums, squares = np.zeros((m, k)), np.zeros((m, k))
    centred = (y - y.mean(axis=0))[order]
    sums[found] = np.add.reduceat(centred * w[:, None], start)
    squares[found] = np.add.reduceat(centred**2 * w[:, None], start)
    for i in range(m - 1, -1, -1):
        if left[i] >= 0:
            a, b = left[i], right[i]
            for name in ("n_node_samples", "weighted_n_node_samples"):
                facts[name][i] = facts[name][a] + facts[name][b]
            for name in ("lower", "value_min"):
                facts[name][i] = np.minimum(facts[name][a], facts[name][b])
            for name in ("upper", "value_max"):
                facts[name][i] = np.maximum(facts[name][a], facts[name][b])
            sums[i], squares[i] = sums[a] + sums[b], squares[a] + squares[b]
    total = facts["weighted_n_node_samples"][:, None]
    facts["sst"] = np.maximum(squares - sums**2 / total, 0.0).sum(axis=1)
    return facts


def _walk(blank, design):
    """Leaf of every training row, by the rule that `HingeTree.apply` follows."""
    m = len(blank["children_left"])
    columns, k = blank["split_coef"].shape[1], blank["intercept"].shape[1]
    bare = HingeTree(
        **blank,
        n_node_samples=np.zeros(m, dtype=np.int64),
        weighted_n_node_samples=np.zeros(m),
        lower=np.zeros((m, columns)),
        upper=np.zeros((m, columns)),
        value_min=np.zeros((m, k)),
        value_max=np.zeros((m, k)),
    )
    return bare.apply(design)
