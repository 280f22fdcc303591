"""Leaf models and pruning, from the nodes' products alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ._solve import quadratic, ridge

_NOTHING = 1e-13


@dataclass(frozen=True)
class Products:
    """A grown tree as the products of its nodes; parents come before children.

    left, right : (m,) children, -1 in leaves; gram : (m, p, p + k) [X'WX, X'WY];
    squares : (m, k) weighted sums of squares of Y.
    """

    left: np.ndarray
    right: np.ndarray
    gram: torch.Tensor
    squares: torch.Tensor

    @property
    def p(self):
        """Columns, the intercept included."""
        return self.gram.shape[1]

    @property
    def weight(self):
        """Total weight of the rows."""
        return float(self.gram[0, self.p - 1, self.p - 1])

    def levels(self):
        """Yield arrays of node ids, level by level."""
        level = np.array([0])
        while len(level):
            yield level
            level = np.concatenate([self.left[level], self.right[level]])
            level = level[level >= 0]

    def fit(self, alpha, shrinkage, constant=False):
        """Linear models (m, p, k), each shrunk to its parent's; or plain means."""
        p = self.p
        g, b = self.gram[..., :p], self.gram[..., p:]
        theta = torch.zeros_like(b)
        if constant:
            theta[:, -1] = b[:, -1] / g[:, -1, -1:]
            return theta
        theta[0] = ridge(g[0], b[0], alpha)
        penalty = alpha + shrinkage
        share = shrinkage / penalty if penalty > 0 else 0.0
        for level in self.levels():
            split = level[self.left[level] >= 0]
            if len(split):
                prior = (share * theta[split]).repeat(2, 1, 1)
                child = np.concatenate([self.left[split], self.right[split]])
                theta[child] = ridge(g[child], b[child], penalty, prior)
        return theta

    def sse(self, theta):
        """Weighted sums of squared errors (m, k) of the nodes' models."""
        p = self.p
        fit = quadratic(self.gram[..., :p], self.gram[..., p:], theta)
        return (self.squares + fit).clamp_min(0.0)


@dataclass(frozen=True)
class PruneOptions:
    """What a leaf has to earn, in squared errors of the standardised targets."""

    constant: bool  # leaves are plain means: one parameter each
    ccp_alpha: float

    def leaf_cost(self, products, sse, strength):
        """Return the cost of one leaf: parameters and the user's own charge."""
        n_outputs = products.squares.shape[1]
        n_parameters = 1 if self.constant else products.p
        leaves = products.left < 0
        weight = products.weight
        # A leaf spends its parameters, a split on average half a hyperplane more.
        spent = leaves.sum() * n_parameters + 0.5 * (leaves.sum() - 1) * products.p
        free = max(weight - spent, weight / 10)
        noise = sse[leaves].sum() / (free * n_outputs)
        variance = float(products.squares[0].sum())
        return strength * noise * n_parameters * n_outputs + self.ccp_alpha * variance


def pruned(products, sse, leaf_cost):
    """Where to stop: (m,) true in the nodes kept as leaves of the best subtree.

    The best subtree minimises its squared errors plus `leaf_cost` a leaf; of equals
    the smaller one.
    """
    left, right = products.left, products.right
    best = sse + leaf_cost
    nothing = _NOTHING * best[0]  # what rounding may seem to save
    stop = np.ones(len(left), dtype=bool)
    for i in range(len(left) - 1, -1, -1):
        if left[i] >= 0:
            below = best[left[i]] + best[right[i]]
            if below < best[i] - nothing:
                best[i] = below
                stop[i] = False
    return reachable(left, right, stop)


def reachable(left, right, stop):
    """Restrict `stop` to the nodes reached from the root; true in those leaves."""
    out = np.zeros(len(stop), dtype=bool)
    stack = [0]
    while stack:
        i = stack.pop()
        if stop[i]:
            out[i] = True
        else:
            stack += [left[i], right[i]]
    return out
