"""What the tree benchmarks share: peers, data sets, the clock, printed tables."""

import csv
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import (
    load_diabetes,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_DATA = REPOSITORY.parent / "shared" / "data" / "regression"

CART_GRID = {
    "max_depth": [5, 7, 9, 11, None],
    "min_samples_leaf": [1, 4, 10, 20],
}


class Pilot(RegressorMixin, BaseEstimator):
    """PILOT of `fast-model-trees` behind fit and predict."""

    def fit(self, X, y):
        """Train on contiguous float64 arrays, which is all the binding takes."""
        from pilot import PILOT

        self.model_ = PILOT()
        self.model_.train(np.ascontiguousarray(X, dtype=np.float64), y)
        return self

    def predict(self, X):
        """Predict, flat."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        return np.asarray(self.model_.predict(X)).ravel()


@dataclass(frozen=True)
class Model:
    """One line of a benchmark: how to make it, count its leaves, what it needs."""

    name: str
    label: str
    make: Callable[[], BaseEstimator]
    count_leaves: Callable[[BaseEstimator], float]
    needs: str = "sklearn"
    install: str = ""
    ours: bool = False

    def missing(self) -> str | None:
        """Say why this model cannot run here, or return None."""
        try:
            importlib.import_module(self.needs)
        except Exception as error:  # a peer may break on import in any way it likes
            hint = f"; pip install {self.install}" if self.install else ""
            return f"import {self.needs}: {type(error).__name__}: {error}{hint}"
        return None


def _hrt(**parameters):
    from sklearn_ext.tree import HRTRegressor

    return HRTRegressor(device="cpu", random_state=0, **parameters)


def _cubist(**parameters):
    from cubist import Cubist

    return Cubist(**parameters)


def _xgboost(**parameters):
    from xgboost import XGBRegressor

    return XGBRegressor(n_jobs=1, random_state=0, **parameters)


def _tuned_cart():
    # Depth first, then leaf size; the folds are contiguous because the
    # training half is already shuffled.
    cart = DecisionTreeRegressor(random_state=0)
    return GridSearchCV(cart, CART_GRID, cv=3, scoring="neg_mean_squared_error")


def _pilot_leaves(model):
    summary = model.model_.tree_summary()
    return int((summary["node_type"] == "con").sum())


def _xgboost_leaves(model):
    return sum(tree.count("leaf=") for tree in model.get_booster().get_dump())


PAPER = {
    "splitter": "hinge",
    "growth": "depth",
    "max_depth": 6,
    "max_leaf_nodes": None,
    "alpha": 1.0,
    "leaf_shrinkage": 0.0,
    "pruning": None,
}


def _ours(name, label, **parameters):
    return Model(
        name,
        label,
        lambda: _hrt(**parameters),
        lambda model: model.n_leaves_,
        needs="sklearn_ext.tree",
        ours=True,
    )


MODELS = [
    _ours("hrt", "HRT"),
    _ours("hrt_aic", "HRT aic", pruning="aic"),
    _ours("hrt_bic", "HRT bic", pruning="bic"),
    _ours("hrt_paper", "HRT paper", **PAPER),
    Model("ridge", "Ridge", lambda: Ridge(alpha=1.0), lambda model: 1),
    Model(
        "cart",
        "CART tuned",
        _tuned_cart,
        lambda model: model.get_n_leaves(),
    ),
    Model(
        "cubist",
        "Cubist",
        _cubist,
        lambda model: len(model.coeffs_),
        needs="cubist",
        install="cubist",
    ),
    Model(
        "pilot",
        "PILOT",
        Pilot,
        _pilot_leaves,
        needs="pilot",
        install="fast-model-trees",
    ),
    Model(
        "xgboost",
        "XGBoost-200",
        lambda: _xgboost(n_estimators=200, max_depth=6, learning_rate=0.1),
        _xgboost_leaves,
        needs="xgboost",
        install="xgboost",
    ),
]


def select_models(names: list[str] | None) -> tuple[list[Model], dict[str, str]]:
    """Return the models that can run here, and the reasons for the others."""
    known = {model.name: model for model in MODELS}
    unknown = set(names or ()) - set(known)
    if unknown:
        raise SystemExit(
            f"unknown models: {', '.join(sorted(unknown))}; known: {', '.join(known)}"
        )
    chosen = [model for model in MODELS if not names or model.name in names]
    reasons = {model.name: model.missing() for model in chosen}
    runnable = [model for model in chosen if reasons[model.name] is None]
    return runnable, {name: why for name, why in reasons.items() if why}


# -- data ---------------------------------------------------------------------


def read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a table whose last column is the target; one-hot the text columns."""
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    *columns, target = zip(*rows, strict=True)
    numbers, indicators = [], []
    for column in columns:
        try:
            numbers.append(np.array(column, dtype=float))
        except ValueError:
            values = np.array(column)
            indicators += [(values == level) * 1.0 for level in np.unique(values)]
    return np.column_stack(numbers + indicators), np.array(target, dtype=float)


def _sinc():
    rng = np.random.default_rng(0)
    X = rng.uniform(-10, 10, size=(3000, 2))
    radius = np.linalg.norm(X, axis=1)
    return X, np.sin(radius) / radius + rng.normal(0, 0.02, 3000)


def _pwl():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 5))
    a, b, c, d, e = X.T
    y = np.maximum(a - b + c / 2, -a / 2 + b + d) - np.maximum(0, c + d - e - 0.5)
    return X, y + rng.normal(0, 0.1, 3000)


GENERATORS = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(4000, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(4000, noise=125.0, random_state=0),
    "friedman3": lambda: make_friedman3(4000, noise=0.1, random_state=0),
    "sinc": _sinc,
    "pwl": _pwl,
}


# Run only when asked for by name.
EXTRA_GENERATORS = {
    "friedman1_d100": lambda: make_friedman1(12_000, 100, noise=1.0, random_state=0),
}


def find_datasets(folder: Path) -> dict[str, Callable]:
    """Map a name to a loader: the generators, then every CSV of the folder."""
    found = GENERATORS | EXTRA_GENERATORS
    for path in sorted(folder.glob("*.csv")):
        found[path.stem] = lambda path=path: read_csv(path)
    return found


# -- clock --------------------------------------------------------------------


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold every library to one thread, so that CPU time is comparable."""
    # Loaded first: threadpoolctl can only hold back what is already there.
    for name in ("torch", "numba"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        library.set_num_threads(1)
    with threadpool_limits(1):
        yield


def cpu_seconds(function: Callable, *arguments):
    """Call, and return the result with the CPU seconds that the call took."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


# -- words --------------------------------------------------------------------


def progress(message: str) -> None:
    """Say what is being done, beside the table that goes to stdout."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def format_table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Align a table: the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells):
        pairs = list(zip(cells, widths, strict=True))
        aligned = [cell.ljust(width) for cell, width in pairs[:left]]
        aligned += [cell.rjust(width) for cell, width in pairs[left:]]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *map(line, rows)])


def write_atomically(path: Path, text: str) -> None:
    """Replace a file at once, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
