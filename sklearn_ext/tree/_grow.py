"""Best-first or level-wise growth of one or several trees over the same table."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import torch

from ._prune import Products
from ._search import AXIS, SearchOptions, find_splits
from ._solve import quadratic, ridge
from ._table import Table

_CHUNK = 1 << 14  # rows that are looked at together where copies are made
_PURE = 1e-12  # a node this small a share of the root's squares is not searched


@dataclass(frozen=True)
class GrowOptions:
    """Limits of growth; `search` holds those of the split search."""

    search: SearchOptions
    max_leaf_nodes: int | None
    max_depth: int | None
    min_gain: float
    best_first: bool


@dataclass
class Grown:
    """Arrays of all nodes of all trees grown; children are -1 where not expanded."""

    root: list[int]
    tree: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    stop: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    n_iter: list[int] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    code: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Compact:
    """One grown tree with its nodes renumbered, parents first."""

    ids: list[int]  # the nodes' numbers in the grower
    products: Products


class Grower:
    """Grows trees; each root is a set of rows, all open nodes are searched together.

    Parameters
    ----------
    table : Table
    roots : list of Tensor
        Row numbers of each tree.
    options : GrowOptions
    """

    def __init__(self, table: Table, roots, options: GrowOptions):
        self.table, self.options = table, options
        self.order = torch.cat(roots)
        self.nodes = Grown(root=list(range(len(roots))))
        n, (p, k) = len(roots), (table.x.shape[1], table.y.shape[1])
        new = table.x.new_zeros
        self.gram = new(n, p, p + k)  # [X'WX, X'WY] of every node
        self.squares = new(n, k)  # weighted sums of squares of Y
        self.theta = new(n, p, k)
        self.plane = new(n, p)
        self.splits_left = new(n, p, p + k)
        self.splits_squares = new(n, k)
        bounds = np.cumsum([0] + [len(r) for r in roots])
        for t, rows in enumerate(roots):
            for part in rows.split(_CHUNK):
                w, x, y = table.w[part], table.x[part], table.y[part]
                self.gram[t] += (x * w[:, None]).T @ torch.cat([x, y], 1)
                self.squares[t] += w @ y.square()
            self._append(t, -1, 0, int(bounds[t]), int(bounds[t + 1]))
        g, b = self.gram[..., :p], self.gram[..., p:]
        self.theta = ridge(g, b, options.search.alpha)
        self.root_squares = self.squares.sum(-1).cpu().numpy()
        self._search(list(range(n)))

    def _append(self, tree, parent, depth, start, stop):
        nodes = self.nodes
        nodes.tree.append(tree)
        nodes.parent.append(parent)
        nodes.depth.append(depth)
        nodes.start.append(start)
        nodes.stop.append(stop)
        for name in ("left", "right", "code"):
            getattr(nodes, name).append(-1)
        for name in ("kind", "feature", "n_iter"):
            getattr(nodes, name).append(0)
        nodes.gain.append(-np.inf)
        nodes.reason.append("")

    def _sse(self, which):
        p = self.table.x.shape[1]
        gram = self.gram[which]
        fit = quadratic(gram[..., :p], gram[..., p:], self.theta[which])
        return (self.squares[which] + fit).sum(-1)

    def rows(self, i):
        """Row numbers of one node."""
        return self.order[self.nodes.start[i] : self.nodes.stop[i]]

    def _positions(self, ids):
        """Positions in `order` of the rows of several nodes, and their counts."""
        start = np.array([self.nodes.start[i] for i in ids])
        sizes = np.array([self.nodes.stop[i] for i in ids]) - start
        first = np.cumsum(sizes) - sizes
        shift = torch.as_tensor(np.repeat(start - first, sizes))
        position = torch.arange(int(sizes.sum())) + shift
        return position.to(self.order.device), sizes

    def _search(self, ids):
        """Find the best split of nodes `ids` and note it."""
        opt, nodes = self.options, self.nodes
        p = self.table.x.shape[1]
        weight = self.gram[ids][:, p - 1, p - 1].cpu().numpy()
        sse = self._sse(ids).cpu().numpy()
        searched = []
        for i, w, s in zip(ids, weight, sse, strict=True):
            if p == 1:
                nodes.reason[i] = "no_columns"
            elif opt.max_depth is not None and nodes.depth[i] >= opt.max_depth:
                nodes.reason[i] = "max_depth"
            elif w < 2 * opt.search.min_weight * (1 - 1e-9):
                nodes.reason[i] = "min_samples"
            elif s <= _PURE * self.root_squares[nodes.tree[i]]:
                nodes.reason[i] = "exact"
            else:
                searched.append(i)
        if not searched:
            return
        position, sizes = self._positions(searched)
        theta = self.theta[searched]
        products = self.gram[searched].clone()  # of the residuals from here on
        products[..., p:] -= products[..., :p] @ theta
        args = (self.order[position], sizes, theta, products)
        splits = find_splits(self.table, *args, opt.search)
        self.plane[searched] = splits.plane
        self.splits_left[searched] = splits.left
        self.splits_squares[searched] = splits.left_squares
        facts = {
            name: getattr(splits, name).cpu().tolist()
            for name in ("gain", "kind", "feature", "code", "n_iter")
        }
        for row, i in enumerate(searched):
            for name, values in facts.items():
                getattr(nodes, name)[i] = values[row]
            floor = opt.min_gain * self.root_squares[nodes.tree[i]]
            if not nodes.gain[i] > floor:
                nodes.reason[i] = "no_gain"
                nodes.gain[i] = -np.inf

    def _expand(self, ids):
        """Split nodes: partition their rows, fit the children, search them."""
        nodes = self.nodes
        position, sizes = self._positions(ids)
        rows = self.order[position]
        left = self.goes_left(ids, rows, sizes)
        owner = torch.repeat_interleave(
            torch.arange(len(ids)), torch.as_tensor(sizes)
        ).to(rows.device)
        key = owner * 2 + (~left).long()
        self.order[position] = rows[torch.argsort(key, stable=True)]
        n_left = torch.zeros(len(ids), dtype=torch.int64, device=rows.device)
        n_left.index_add_(0, owner, left.long())
        children = []
        for i, count in zip(ids, n_left.tolist(), strict=True):
            start, stop = nodes.start[i], nodes.stop[i]
            middle = start + count
            for side, a, b in (("left", start, middle), ("right", middle, stop)):
                child = len(nodes.tree)
                self._append(nodes.tree[i], i, nodes.depth[i] + 1, a, b)
                getattr(nodes, side)[i] = child
                children.append(child)
        self._fit_children(ids)
        self._search(children)

    def _fit_children(self, ids):
        """Products and shrunken models of the new nodes, from the split's products."""
        opt = self.options.search
        p = self.table.x.shape[1]
        theta = self.theta[ids]
        left, squares = self.splits_left[ids].clone(), self.splits_squares[ids]
        # The search worked on residuals; turn its products into those of the targets.
        g, b = left[..., :p], left[..., p:]
        squares = squares + quadratic(g, -b, theta)
        left[..., p:] = b + g @ theta
        gram = torch.stack([left, self.gram[ids] - left], 1).flatten(0, 1)
        squares = torch.stack([squares, self.squares[ids] - squares], 1).flatten(0, 1)
        prior = ((1 - opt.alpha_share) * theta).repeat_interleave(2, 0)
        new = ridge(gram[..., :p], gram[..., p:], opt.penalty, prior)
        n = len(gram)
        self.gram = torch.cat([self.gram, gram])
        self.squares = torch.cat([self.squares, squares])
        self.theta = torch.cat([self.theta, new])
        for name in ("plane", "splits_left", "splits_squares"):
            old = getattr(self, name)
            setattr(self, name, torch.cat([old, old.new_zeros(n, *old.shape[1:])]))

    def goes_left(self, ids, rows, sizes):
        """Evaluate the nodes' splits on their rows, in a fixed summation order."""
        device = rows.device
        nodes = self.nodes
        owner = torch.repeat_interleave(
            torch.arange(len(ids)), torch.as_tensor(sizes)
        ).to(device)
        kind = torch.tensor([nodes.kind[i] for i in ids], device=device)[owner]
        feature = torch.tensor([nodes.feature[i] for i in ids], device=device)[owner]
        code = torch.tensor([nodes.code[i] for i in ids], device=device)[owner]
        by_code = self.table.codes[rows, feature] <= code
        bounds = np.cumsum([0, *sizes])
        value = torch.empty(len(rows), dtype=self.plane.dtype, device=device)
        for j, i in enumerate(ids):
            for part in torch.arange(bounds[j], bounds[j + 1]).split(_CHUNK):
                value[part] = self.table.x[rows[part]] @ self.plane[i]
        return torch.where(kind == AXIS, by_code, value > 0)

    def rounds(self):
        """Grow until the budgets are spent; yield the number of nodes each round."""
        while True:
            pending = [
                i
                for root in self.nodes.root
                for i in self.chosen(root)
                if self.nodes.left[i] < 0
            ]
            if not pending:
                return
            self._expand(pending)
            yield len(self.nodes.tree)

    def chosen(self, root):
        """Nodes that the growth rule splits, as far as the searched nodes tell.

        Best-first growth pops the leaf with the largest gain. The children of a
        popped node that is not expanded yet cannot be popped; after they are, the
        rule is applied anew, so that in the end it is followed exactly.
        """
        nodes, opt = self.nodes, self.options
        budget = np.inf if opt.max_leaf_nodes is None else opt.max_leaf_nodes - 1
        key = nodes.gain if opt.best_first else [-d for d in nodes.depth]
        heap = [(-key[root], root)] if nodes.gain[root] > 0 else []
        out: list[int] = []
        while heap and len(out) < budget:
            _, i = heapq.heappop(heap)
            out.append(i)
            for child in (nodes.left[i], nodes.right[i]):
                if child >= 0 and nodes.gain[child] > 0:
                    heapq.heappush(heap, (-key[child], child))
        return out

    def compact(self, root):
        """Return the tree of one root, restricted to what the growth rule split."""
        chosen = set(self.chosen(root))
        ids, left, right = [root], [], []
        for i in ids:  # grows while it is walked
            if i in chosen:
                left.append(len(ids))
                right.append(len(ids) + 1)
                ids += [self.nodes.left[i], self.nodes.right[i]]
            else:
                left.append(-1)
                right.append(-1)
        products = Products(
            np.array(left), np.array(right), self.gram[ids], self.squares[ids]
        )
        return Compact(ids, products)
