"""The tour behind `python -m sklearn_ext demo`.

A method joins by adding one function to `STAGES`: it is handed the `Tour`, runs on
data that the package ships, says what it is doing, and yields one `Row` for each
comparison. It may add a panel to the picture and a text to print.
"""

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["STAGES", "Row", "Tour", "run"]

PICTURE = "sklearn_ext_demo.png"
SEEDS = (42, 43, 44)
CART_GRID = {"max_depth": [5, 7, 9, 11, None], "min_samples_leaf": [1, 4, 10, 20]}


@dataclass(frozen=True)
class Row:
    """One line of the table: a method of ours beside a peer, on the same splits."""

    method: str
    data: str
    ours: str
    peer: str
    seconds: str


@dataclass
class Tour:
    """What a stage is handed."""

    device: str
    panels: list[Callable[[Any], None]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Write a line at once, so that a reader sees how far the tour is."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


# -- stages -------------------------------------------------------------------


def regression_trees(tour: Tour) -> Iterator[Row]:
    """HRTRegressor on concrete and airfoil, against tuned CART and Ridge."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    from sklearn_ext.datasets import load_airfoil, load_concrete
    from sklearn_ext.tree import HRTRegressor, export_text

    def models():
        cart = DecisionTreeRegressor(random_state=0)
        return {
            "HRT": HRTRegressor(device=tour.device, random_state=0),
            "CART tuned": GridSearchCV(
                cart, CART_GRID, cv=3, scoring="neg_mean_squared_error"
            ),
            "Ridge": make_pipeline(StandardScaler(), Ridge()),
        }

    trees = []
    for name, load in (("concrete", load_concrete), ("airfoil", load_airfoil)):
        bunch = load()
        results = _compare(tour, name, models, bunch.data, bunch.target, _rmse)
        yield from _rows("HRTRegressor", f"{name}, RMSE", results)
        tree = results["HRT"].first
        trees.append((tree.n_leaves_, name, tree, bunch.feature_names))
        tour.say(f"  {name}: how the error falls with the number of leaves")
        tour.panels.append(_leaves_panel(tour, name, bunch))
    _, name, tree, names = min(trees, key=lambda item: item[0])
    text = export_text(tree, feature_names=names)
    tour.texts.append(f"The HRTRegressor of {name}, first split:\n\n{text}")


def classification_trees(tour: Tour) -> Iterator[Row]:
    """HRTClassifier on German credit, against tuned CART and logistic regression."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    from sklearn_ext.datasets import load_german_credit
    from sklearn_ext.tree import HRTClassifier

    def one_hot(numbers="passthrough"):
        return make_column_transformer(
            (
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_include="category"),
            ),
            (numbers, make_column_selector(dtype_include="number")),
        )

    def models():
        cart = DecisionTreeClassifier(random_state=0)
        return {
            "HRT": HRTClassifier(
                categorical_features="from_dtype", device=tour.device, random_state=0
            ),
            "CART tuned": make_pipeline(
                one_hot(), GridSearchCV(cart, CART_GRID, cv=3, scoring="roc_auc")
            ),
            "logistic": make_pipeline(
                one_hot(StandardScaler()), LogisticRegression(max_iter=1000)
            ),
        }

    X, y = load_german_credit(return_X_y=True)
    results = _compare(tour, "german credit", models, X, y, _auc, stratify=y)
    yield from _rows("HRTClassifier", "german credit, AUC", results)


STAGES: list[Callable[[Tour], Iterator[Row]]] = [
    regression_trees,
    classification_trees,
]


# -- what the stages share ----------------------------------------------------


@dataclass
class _Result:
    """One model on all splits."""

    first: Any = None
    figures: list[float] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        leaves = f" ({np.mean(self.leaves):.0f} leaves)" if self.leaves else ""
        return f"{np.mean(self.figures):.3g}{leaves}"


def _compare(tour, name, models, X, y, figure, stratify=None):
    """Fit all models on the same halves and measure them on the other halves."""
    from sklearn.model_selection import train_test_split

    results: dict[str, _Result] = {}
    for number, seed in enumerate(SEEDS, start=1):
        tour.say(f"  {name}: split {number} of {len(SEEDS)}")
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, random_state=seed, stratify=stratify
        )
        for label, model in models().items():
            result = results.setdefault(label, _Result())
            start = time.perf_counter()
            model.fit(X_train, y_train)
            result.seconds += time.perf_counter() - start
            result.figures.append(figure(model, X_test, y_test))
            result.leaves += _count_leaves(model)
            result.first = result.first or model
    return results


def _rows(method, data, results):
    """Set the first result beside each of the others."""
    ours, *peers = results
    for peer in peers:
        yield Row(
            method,
            data,
            str(results[ours]),
            f"{peer} {results[peer]}",
            f"{results[ours].seconds:.1f} / {results[peer].seconds:.1f}",
        )


def _rmse(model, X, y):
    from sklearn.metrics import root_mean_squared_error

    return root_mean_squared_error(y, model.predict(X))


def _auc(model, X, y):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(y, model.predict_proba(X)[:, 1])


def _count_leaves(model):
    """Return the number of leaves in a list, which is empty if it is no tree."""
    if hasattr(model, "steps"):
        model = model[-1]
    model = getattr(model, "best_estimator_", model)
    return [model.get_n_leaves()] if hasattr(model, "get_n_leaves") else []


def _leaves_panel(tour, name, bunch):
    """Measure error against leaves on the first split; return what draws it."""
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeRegressor

    from sklearn_ext.tree import HRTRegressor

    X_train, X_test, y_train, y_test = train_test_split(
        bunch.data, bunch.target, test_size=0.5, random_state=SEEDS[0]
    )

    def point(model):
        model.fit(X_train, y_train)
        return model.get_n_leaves(), _rmse(model, X_test, y_test)

    common = {"device": tour.device, "random_state": 0}
    cart = [
        point(DecisionTreeRegressor(max_leaf_nodes=2**k, random_state=0))
        for k in range(1, 10)
    ]
    hinge = [
        point(HRTRegressor(max_leaf_nodes=2**k, pruning=None, **common))
        for k in range(1, 7)
    ]
    default = point(HRTRegressor(**common))
    line = _rmse(LinearRegression().fit(X_train, y_train), X_test, y_test)

    def draw(ax):
        ax.axhline(line, color="0.6", linestyle=":", label="one linear model")
        ax.plot(*zip(*cart, strict=True), "s-", label="CART: a constant in a leaf")
        ax.plot(*zip(*hinge, strict=True), "o-", label="HRT: a linear model in a leaf")
        ax.plot(*default, "*", color="k", markersize=14, label="HRT, pruned (default)")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set(title=name, xlabel="leaves", ylabel="RMSE on the other half")
        ax.legend()

    return draw


# -- the tour -----------------------------------------------------------------


def run(device: str, folder: Path | None) -> int:
    """Run all stages, print the table, write the picture; return the exit code.

    Parameters
    ----------
    device : str
        Where the torch-backed methods run.
    folder : Path or None
        Where to write the picture; None for no picture.

    Returns
    -------
    code : int
        0, or 1 if a stage failed. The others are run and shown all the same.
    """
    start = time.perf_counter()
    tour = Tour(device=device)
    tour.say(f"Running on {device}.")
    rows: list[Row] = []
    failed = 0
    for number, stage in enumerate(STAGES, start=1):
        summary = (stage.__doc__ or stage.__name__).splitlines()[0].rstrip(".")
        tour.say(f"[{number}/{len(STAGES)}] {summary}")
        try:
            rows.extend(stage(tour))
        except Exception as error:  # one method's trouble must not hide the others
            failed += 1
            rows.append(Row(stage.__name__, "", "failed", type(error).__name__, ""))
            sys.stderr.write(traceback.format_exc())
    for text in tour.texts:
        tour.say(f"\n{text}")
    tour.say(f"\n{_table(rows)}\n")
    tour.say(_save_picture(tour, folder))
    tour.say(f"{time.perf_counter() - start:.0f} seconds in all.")
    return 1 if failed else 0


def _table(rows):
    header = Row("method", "data", "ours", "peer", "seconds, ours / peer")
    cells = [list(vars(row).values()) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    note = f"Means over {len(SEEDS)} splits in halves; seconds are sums of the fits."
    return "\n".join(line.rstrip() for line in [*lines, note])


def _save_picture(tour, folder):
    """Draw the panels side by side; return the sentence that says what came of it."""
    if folder is None:
        return "No picture: the folder cannot be written to."
    if not tour.panels:
        return "No picture: there is nothing to draw."
    try:
        # Figure alone, not pyplot: no window, no backend, no state left behind.
        from matplotlib.figure import Figure
    except ImportError:
        return (
            "No picture: matplotlib is not installed. "
            "Run: pip install 'sklearn-ext[plots]'"
        )
    figure = Figure(figsize=(5.5 * len(tour.panels), 4.5), layout="constrained")
    axes = figure.subplots(1, len(tour.panels), squeeze=False)[0]
    for draw, ax in zip(tour.panels, axes, strict=True):
        draw(ax)
    path = folder / PICTURE
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        return f"No picture: {path}: {error.strerror or error}"
    return f"Picture: {path}"
