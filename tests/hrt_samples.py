"""Data and small tools that the tests of the hinge regression tree share."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import (
    load_diabetes,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.model_selection import train_test_split

from sklearn_ext.datasets import load_airfoil, load_concrete
from sklearn_ext.tree import _search
from sklearn_ext.tree._hinge import HingeState
from sklearn_ext.tree._table import Table, dense_ranks

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "regression"
KERNELS = ("numba", "torch")
PAPER = {
    "splitter": "hinge",
    "growth": "depth",
    "max_depth": 6,
    "max_leaf_nodes": None,
    "alpha": 1.0,
    "leaf_shrinkage": 0.0,
    "pruning": None,
}
# No ridge anywhere: leaves and candidates are plain least squares.
PLAIN = {"alpha": 0.0, "leaf_shrinkage": 0.0, "clip": None}


def real_data(name):
    """Return a table of the shared folder, text columns one-hot; skip without it."""
    if not FOLDER.is_dir():
        pytest.skip(f"{FOLDER} is not there: the shared data are no part of a clone")
    with open(FOLDER / f"{name}.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    columns = []
    for values in map(np.array, zip(*rows, strict=True)):
        try:
            columns.append(values.astype(float))
        except ValueError:
            columns += [(values == level) * 1.0 for level in np.unique(values)]
    return np.column_stack(columns[:-1]), columns[-1]


def sinc(n_rows=3000, random_state=0):
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-10, 10, (n_rows, 2))
    radius = np.linalg.norm(X, axis=1)
    return X, np.sin(radius) / radius + rng.normal(0, 0.02, n_rows)


def pwl(n_rows=3000, random_state=0):
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-2, 2, (n_rows, 5))
    a, b, c, d, e = X.T
    convex = np.maximum(a - b + 0.5 * c, -0.5 * a + b + d)
    y = convex - np.maximum(0, c + d - e - 0.5)
    return X, y + rng.normal(0, 0.1, n_rows)


def friedman(number=1, n_rows=4000, random_state=0):
    if number == 1:
        return make_friedman1(n_rows, 10, noise=1.0, random_state=random_state)
    if number == 2:
        return make_friedman2(n_rows, noise=125.0, random_state=random_state)
    return make_friedman3(n_rows, noise=0.1, random_state=random_state)


def named(name):
    """Return one of the tables the tests are run on."""
    made = {
        "friedman1": lambda: friedman(1),
        "friedman2": lambda: friedman(2),
        "friedman3": lambda: friedman(3),
        "sinc": sinc,
        "pwl": pwl,
        "diabetes": lambda: load_diabetes(return_X_y=True),
        "airfoil": lambda: load_airfoil(return_X_y=True),
        "concrete": lambda: load_concrete(return_X_y=True),
    }
    return made[name]() if name in made else real_data(name)


def part(name, n_rows, random_state=0):
    """Return n_rows random rows of a table."""
    X, y = named(name)
    kept = np.random.default_rng(random_state).permutation(len(X))[:n_rows]
    return X[kept], y[kept]


def halves(X, y, seed):
    """Split 50/50 as all measured figures do: X, X_test, y, y_test."""
    return train_test_split(X, y, test_size=0.5, random_state=seed)


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def same_partition(a, b):
    """Whether two labelings group the rows alike, whatever the labels."""
    pairs = len(np.unique(np.stack([a, b]), axis=1).T)
    return len(np.unique(a)) == len(np.unique(b)) == pairs


def passes(model, X):
    """Return which rows pass each node, (nodes, rows) bool."""
    return model.decision_path(X).toarray().T.astype(bool)


# -- the search of one node ----------------------------------------------------------


def search_options(**changes):
    defaults = {
        "axis": True,
        "penalty": 0.0,
        "alpha": 0.0,
        "min_weight": 1.0,
        "step": "backtracking",
        "max_iter": 50,
        "tol": 1e-4,
        "n_starts": 2,
        "n_bins": 16,
        "max_axis_features": 8,
        "subsample": None,
    }
    return _search.SearchOptions(**{**defaults, **changes})


def node_problem(X, y, weight, kernel, *, alpha=0.0, shrinkage=0.0, own=None, least=1):
    """Build the hinge problem of one node that holds all rows.

    `own` (p,) is the node's own linear model; hinges are what is added to it.
    """
    n, d = X.shape
    own = np.zeros(d + 1) if own is None else own
    codes = np.column_stack([dense_ranks(column) for column in X.T])
    arrays = (np.column_stack([X, np.ones(n)]), y[:, None], weight, codes)
    table = Table(*map(torch.from_numpy, arrays))
    options = search_options(
        penalty=alpha + shrinkage, alpha=alpha, min_weight=least, kernel=kernel
    )
    theta = torch.from_numpy(own[None, :, None])
    sizes = np.array([n])
    problem, _ = _search._problem(table, torch.arange(n), sizes, theta, options)
    return problem


def hinge_at(problem, theta, sign):
    """Return the state of hinges theta (P, 2, p) with signs (P,) of one node."""
    theta = torch.from_numpy(np.array(theta)[None])
    sign = torch.tensor([[float(s) for s in sign]], dtype=torch.float64)
    value, gram = problem.evaluate(theta, sign, torch.ones_like(sign) > 0)
    count = torch.zeros(sign.shape, dtype=torch.int64)
    return HingeState(theta, sign, value, gram, count)


def rows_of(problem, node):
    """Return the rows of a node as the search sees them: x (n, p), target, weight."""
    batch = problem.batch
    if hasattr(batch, "bounds"):
        rows = slice(batch.bounds[node], batch.bounds[node + 1])
        return batch.x[:, rows].T, batch.target[rows], batch.w[rows]
    blocks = (batch.node == node).numpy()
    x = batch.x.numpy()[blocks].transpose(0, 2, 1).reshape(-1, batch.p)
    return x, batch.target.numpy()[blocks].ravel(), batch.w.numpy()[blocks].ravel()
