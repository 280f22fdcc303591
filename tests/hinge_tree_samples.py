"""Small hinge trees with honest statistics, and a model that carries one."""

from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from sklearn_ext.tree._hinge_tree import HingeTree

AXIS, MAX, MIN = 3, 1, 2


def random_tree(Z, Y, n_leaves=8, axis_share=0.3, random_state=0):
    """Split random leaves at random planes; every node gets a least-squares model."""
    rng = np.random.default_rng(random_state)
    Z, Y = np.asarray(Z, dtype=float), np.asarray(Y, dtype=float)
    rows, left, right, depth = [np.arange(len(Z))], [-1], [-1], [0]
    planes, kinds = [np.zeros(Z.shape[1] + 1)], [0]
    while left.count(-1) < n_leaves:
        open_leaves = [i for i in range(len(rows)) if left[i] < 0 and len(rows[i]) > 3]
        node = int(rng.choice(open_leaves))
        plane, kinds[node] = _random_plane(Z[rows[node]], axis_share, rng)
        mask = Z[rows[node]] @ plane[:-1] + plane[-1] > 0
        if mask.all() or not mask.any():
            continue
        planes[node], left[node], right[node] = plane, len(rows), len(rows) + 1
        for side in (mask, ~mask):
            rows.append(rows[node][side])
            left.append(-1)
            right.append(-1)
            depth.append(depth[node] + 1)
            planes.append(np.zeros(Z.shape[1] + 1))
            kinds.append(0)
    kinds = [kind if left[i] >= 0 else 0 for i, kind in enumerate(kinds)]
    return _with_statistics(Z, Y, rows, left, right, depth, np.array(planes), kinds)


def _random_plane(Z, axis_share, rng):
    coef = rng.normal(size=Z.shape[1]) / Z.std(axis=0)
    kind = int(rng.choice([MAX, MIN]))
    if rng.uniform() < axis_share:
        column = rng.integers(Z.shape[1])
        coef = np.where(np.arange(Z.shape[1]) == column, rng.choice([-1.0, 1.0]), 0.0)
        kind = AXIS
    values = np.sort(Z @ coef)
    cut = int(rng.integers(1, len(values)))
    return np.append(coef, -(values[cut - 1] + values[cut]) / 2), kind


def _with_statistics(Z, Y, rows, left, right, depth, planes, kinds):
    models = [_least_squares(Z[i], Y[i]) for i in rows]
    errors = [Y[i] - Z[i] @ m[:-1] - m[-1] for i, m in zip(rows, models, strict=True)]
    counts = [len(i) for i in rows]
    return HingeTree(
        children_left=left,
        children_right=right,
        split_coef=planes[:, :-1],
        split_intercept=planes[:, -1],
        split_kind=kinds,
        coef=np.stack([m[:-1].T for m in models]),
        intercept=np.stack([m[-1] for m in models]),
        n_node_samples=counts,
        weighted_n_node_samples=np.array(counts, dtype=float),
        sse=[np.sum(e**2) for e in errors],
        sst=[np.sum((Y[i] - Y[i].mean(axis=0)) ** 2) for i in rows],
        gain=np.where(np.array(left) >= 0, 1.5, 0.0),
        depth=depth,
        n_iter=np.arange(len(rows)),
        stop_reason=["split" if child >= 0 else "no gain" for child in left],
        lower=[Z[i].min(axis=0) for i in rows],
        upper=[Z[i].max(axis=0) for i in rows],
        value_min=[Y[i].min(axis=0) for i in rows],
        value_max=[Y[i].max(axis=0) for i in rows],
    )


def _least_squares(Z, Y):
    design = np.column_stack([Z, np.ones(len(Z))])
    return np.linalg.lstsq(design, Y, rcond=None)[0]


def sample_data(n_rows=300, n_columns=4, n_outputs=1, random_state=0):
    """Return columns of different scales and targets that depend on them."""
    rng = np.random.default_rng(random_state)
    scales = 10.0 ** rng.integers(-2, 3, n_columns)
    Z = rng.normal(size=(n_rows, n_columns)) * scales + scales
    W = rng.normal(size=(n_columns, n_outputs)) / scales[:, None]
    return Z, np.abs(Z @ W) + 0.1 * rng.normal(size=(n_rows, n_outputs))


def descend(tree, row):
    """Return the path of one row: plain Python floats, one product at a time."""
    node, path = 0, [0]
    row = [float(value) for value in row]
    while tree.children_left[node] >= 0:
        total = 0.0
        for value, coef in zip(row, tree.split_coef[node].tolist(), strict=True):
            if coef != 0.0:
                total += value * coef
        total += float(tree.split_intercept[node])
        child = tree.children_left if total > 0.0 else tree.children_right
        node = int(child[node])
        path.append(node)
    return path


class TreeRegressor(RegressorMixin, BaseEstimator):
    """The fitted attributes that the printing functions read, and no more."""

    def __init__(self, tree=None, names=None, clip=None):
        self.tree = tree
        self.names = names
        self.clip = clip

    def fit(self, X=None, y=None):
        q = self.tree.n_columns
        self.tree_ = self.tree
        self.n_outputs_ = self.tree.n_outputs
        self.n_features_in_ = q
        self.clip_ = None
        if self.clip == "global":
            self.clip_ = (self.tree.value_min[0], self.tree.value_max[0])
        names = self.names or [f"x{j}" for j in range(q)]
        self.columns_ = SimpleNamespace(names=names, transform=np.asarray)
        return self


class TreeClassifier(ClassifierMixin, TreeRegressor):
    """The same for a classifier; ``classes_`` are letters."""

    def __init__(self, tree=None, names=None, clip=None, leaf_model="logistic"):
        super().__init__(tree=tree, names=names, clip=clip)
        self.leaf_model = leaf_model

    def fit(self, X=None, y=None):
        super().fit(X, y)
        self.classes_ = np.array(list("abcdefgh"[: self.tree.n_outputs]))
        return self
