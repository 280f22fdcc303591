"""Cross-validated choice of pruning strength and leaf shrinkage."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._logistic import logistic_models
from ._prune import pruned

SHRINKAGES = (0.0, 0.2, 1.0, 5.0, 20.0, 100.0)
# What one parameter of a leaf has to earn, in multiples of the noise variance. AIC's
# price is 2; BIC's, ln n, joins them; at the highest one leaf is left.
_INDIFFERENCE = 1e-3  # relative differences of held-out error that do not count
_STRENGTHS = (0.5, 1.0, 2.0, 4.0, 1000.0)


def strengths(weight, least=0.0):
    """Candidate prices from `least` on, for a tree on rows of this total weight."""
    prices = (*_STRENGTHS, float(np.log(max(weight, 2.0))))
    return [price for price in prices if price >= least]


class SquaredLoss:
    """Held-out squared error of linear leaves, clipped to the range of the targets."""

    least_price = 0.0

    def __init__(self, table):
        self.table = table
        self.low, self.high = table.y.amin(0), table.y.amax(0)

    def errors(self, grower, compact, thetas, shrinkages, needed, visits):
        """Errors (S, m) at the `needed` nodes of held-out rows, by S models."""
        stacked = torch.stack(thetas)
        out = np.zeros((len(thetas), len(compact.ids)))
        for i, rows in visits:
            if needed[i]:
                line = (self.table.x[rows] @ stacked[:, i]).clamp(self.low, self.high)
                error = (line - self.table.y[rows]).square().sum(-1)
                out[:, i] = (error @ self.table.w[rows]).cpu().numpy()
        return out


class LogisticLoss:
    """Held-out log-loss of logistic leaves."""

    least_price = 2.0  # large trees of logistic leaves are dear, and never good

    def __init__(self, table, indicators, alpha):
        self.table, self.indicators, self.alpha = table, indicators, alpha

    def models(self, grower, compact, shrinkage, needed, tol=1e-12):
        """Logits' coefficients (m, p, k) of the `needed` nodes, ancestors included."""
        left, right = compact.products.left, compact.products.right
        inner = (left >= 0) & needed[left] & needed[right]
        return logistic_models(
            np.where(inner, left, -1),
            np.where(inner, right, -1),
            lambda i: grower.rows(compact.ids[i]),
            self.table,
            self.indicators,
            self.alpha,
            shrinkage,
            tol,
        )

    def errors(self, grower, compact, thetas, shrinkages, needed, visits):
        """Errors (S, m) at the `needed` nodes of held-out rows, by S models."""
        out = np.zeros((len(shrinkages), len(compact.ids)))
        for a, shrinkage in enumerate(shrinkages):
            models = self.models(grower, compact, shrinkage, needed, tol=1e-6)
            for i, rows in visits:
                if needed[i]:
                    logits = self.table.x[rows] @ models[i]
                    hit = (self.indicators[rows] * torch.log_softmax(logits, 1)).sum(1)
                    out[a, i] = -float(hit @ self.table.w[rows])
        return out


def above(products, leaves):
    """Mark the leaves of a pruned tree and all nodes above them, (m,) bool."""
    needed = leaves.copy()
    for i in range(len(leaves) - 1, -1, -1):
        if products.left[i] >= 0:
            needed[i] |= needed[products.left[i]] or needed[products.right[i]]
    return needed


def _walk(grower, compact, rows):
    """Which of `rows` pass each node: a list of (node, rows), empty ones left out."""
    products, at, out = compact.products, {0: rows}, []
    for i in range(len(compact.ids)):
        here = at.pop(i, None)
        if here is None or not len(here):
            continue
        out.append((i, here))
        if products.left[i] >= 0:
            left = grower.goes_left([compact.ids[i]], here, [len(here)])
            at[products.left[i]], at[products.right[i]] = here[left], here[~left]
    return out


def choose(grower, held_out, alpha, shrinkages, options, loss, prices_of):
    """Strength and shrinkage with the least held-out error over all folds.

    Parameters
    ----------
    grower : Grower
        Its root j was grown without the rows of fold j.
    held_out : list of Tensor
        The rows of the folds.
    alpha : float
    shrinkages : sequence of float
        Candidates.
    options : PruneOptions
        What a leaf costs.
    loss : SquaredLoss or LogisticLoss
    prices_of : callable
        Total weight of the rows -> candidate prices.

    Returns
    -------
    index of the strength in `prices_of(...)`, shrinkage
    """
    total: Any = 0.0
    for fold, rows in enumerate(held_out):
        compact = grower.compact(fold)
        products, visits = compact.products, _walk(grower, compact, rows)
        prices = prices_of(products.weight)
        thetas = [products.fit(alpha, s, options.constant) for s in shrinkages]
        trees = np.array([_pruned_trees(products, t, options, prices) for t in thetas])
        needed = above(products, trees.any(axis=(0, 1)))
        args = (grower, compact, thetas, shrinkages, needed, visits)
        total = total + np.einsum("sm,spm->sp", loss.errors(*args), trees)
    # Where several do equally well the highest price counts: the smallest trees.
    close = total <= total.min() * (1 + _INDIFFERENCE)
    index = int(np.where(close.any(axis=0), prices, -np.inf).argmax())
    return index, float(shrinkages[int(total[:, index].argmin())])


def _pruned_trees(products, theta, options, prices):
    """Leaves (prices, m) of the trees that each price leaves."""
    sse = products.sse(theta).sum(-1).cpu().numpy()
    return [
        pruned(products, sse, options.leaf_cost(products, sse, price))
        for price in prices
    ]
