"""Cross-validated choice of pruning strength and leaf shrinkage."""

from __future__ import annotations

import numpy as np
import torch

from ._prune import pruned

# Multiples of the noise variance that one leaf parameter has to earn: AIC's is 2,
# BIC's (ln n) is tried as well.
STRENGTHS = (0.5, 1.0, 2.0, 4.0)
SHRINKAGES = (0.2, 1.0, 5.0, 20.0, 100.0)


def strengths(weight):
    """Candidate multiples for a tree on rows of this total weight."""
    return (*STRENGTHS, float(np.log(max(weight, 2.0))))


def held_out_errors(grower, compact, rows, thetas, low, high):
    """Squared errors (S, m) of held-out rows at every node, for S sets of models.

    Each row counts at all nodes on its path. Predictions are clipped to [low, high].
    """
    table, products = grower.table, compact.products
    errors = np.zeros((len(thetas), len(products.left)))
    stacked = torch.stack(thetas)
    at = {0: rows}
    for i in range(len(products.left)):
        here = at.pop(i)
        if not len(here):
            at[products.left[i]] = at[products.right[i]] = here
            continue
        x, y, w = table.x[here], table.y[here], table.w[here]
        line = (x @ stacked[:, i]).clamp(low, high)
        error = (line - y).square().sum(-1) @ w
        errors[:, i] = error.cpu().numpy()
        if products.left[i] >= 0:
            node = [compact.ids[i]]
            left = grower.goes_left(node, here, [len(here)])
            at[products.left[i]], at[products.right[i]] = here[left], here[~left]
    return errors


def choose(grower, compacts, held_out, alpha, shrinkages, options):
    """Strength and shrinkage with the least held-out error over all folds.

    Parameters
    ----------
    grower : Grower
    compacts : list of Compact
        The trees grown without one fold each.
    held_out : list of Tensor
        The rows of those folds.
    alpha : float
    shrinkages : sequence of float
        Candidates.
    options : PruneOptions
        What a leaf costs.

    Returns
    -------
    index of the strength in `strengths(...)`, shrinkage
    """
    table = grower.table
    low, high = table.y.amin(0), table.y.amax(0)
    total = np.zeros((len(shrinkages), len(STRENGTHS) + 1))
    for compact, rows in zip(compacts, held_out, strict=True):
        products = compact.products
        thetas = [products.fit(alpha, s, options.constant) for s in shrinkages]
        errors = held_out_errors(grower, compact, rows, thetas, low, high)
        for a, theta in enumerate(thetas):
            sse = products.sse(theta).sum(-1).cpu().numpy()
            for b, strength in enumerate(strengths(products.weight)):
                leaves = pruned(products, sse, options.leaf_cost(products, sse, strength))
                total[a, b] += errors[a, leaves].sum()
    a, b = np.unravel_index(total.argmin(), total.shape)
    return int(b), float(shrinkages[a])
