"""Cost-complexity pruning of a fitted tree."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from ._assemble import kept
from ._prune import reachable


def weakest_links(tree):
    """Return alphas, leaf counts and errors of all optimal subtrees, as a Bunch."""
    left, right = tree.children_left, tree.children_right
    total = tree.sst[0] if tree.sst[0] > 0 else 1.0
    stop = left < 0
    alpha, alphas, counts, errors = 0.0, [], [], []
    while True:
        leaves = reachable(left, right, stop)
        below, count = tree.sse.copy(), np.ones(len(left))
        link = np.full(len(left), np.inf)
        for i in range(len(left) - 1, -1, -1):
            if not stop[i]:
                below[i] = below[left[i]] + below[right[i]]
                count[i] = count[left[i]] + count[right[i]]
                link[i] = (tree.sse[i] - below[i]) / (count[i] - 1) / total
        alphas.append(alpha)
        counts.append(int(leaves.sum()))
        errors.append(float(tree.sse[leaves].sum()))
        live = _live(left, right, stop)
        link[~live] = np.inf
        if not np.isfinite(link).any():
            break
        alpha = max(alpha, float(link.min()))
        stop = stop | (link <= alpha * (1 + 1e-12))
    # A link that is free at alpha 0 gives the same alpha twice: keep the smaller tree.
    keep = np.append(np.diff(alphas) > 0, True)
    return Bunch(
        ccp_alphas=np.array(alphas)[keep],
        n_leaves=np.array(counts)[keep],
        sse=np.array(errors)[keep],
    )


def _live(left, right, stop):
    """Nodes above the leaves of the present subtree."""
    live = np.zeros(len(left), dtype=bool)
    stack = [0]
    while stack:
        i = stack.pop()
        if not stop[i]:
            live[i] = True
            stack += [left[i], right[i]]
    return live


def cut(tree, leaves):
    """Return `tree` ended at the nodes where `leaves` is true."""
    keep = kept(tree.children_left, tree.children_right, leaves)
    number = np.full(tree.node_count, -1)
    number[keep] = np.arange(len(keep))
    fields = {
        name: getattr(tree, name)[keep].copy() for name in tree.__dataclass_fields__
    }
    end = leaves[keep]
    for name in ("children_left", "children_right"):
        fields[name] = np.where(end, -1, number[fields[name]])
    for name in ("split_coef", "split_intercept", "split_kind", "gain", "n_iter"):
        fields[name][end] = 0
    newly = end & (tree.children_left[keep] >= 0)
    fields["stop_reason"] = np.where(newly, "pruned", fields["stop_reason"])
    return type(tree)(**fields)
