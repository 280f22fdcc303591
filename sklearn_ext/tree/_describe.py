"""Words for a fitted tree, shared by the text, the dot file and the plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ._hinge_tree import HingeTree
from ._tree_fields import AXIS

# From here on a fixed number of decimals only prints noise digits.
_LARGE = Decimal("1e16")
_EXACT = Context(prec=800)  # holds every digit that a float64 has


def check_model(model, caller: str) -> HingeTree:
    """Return the fitted tree of a model, or say what is wrong with the model."""
    check_is_fitted(model)
    tree = getattr(model, "tree_", None)
    if not isinstance(tree, HingeTree):
        raise TypeError(
            f"{caller} needs a fitted HRTRegressor or HRTClassifier, got "
            f"{type(model).__name__}"
        )
    return tree


def column_names(model, feature_names: Sequence[str] | None) -> list[str]:
    """Return one name for each design column."""
    known = [str(name) for name in model.columns_.names]
    if feature_names is None:
        return known
    if isinstance(feature_names, str):
        raise ValueError(
            f"feature_names must be a list of names, got the string {feature_names!r}"
        )
    names = [str(name) for name in feature_names]
    if len(names) != len(known):
        raise ValueError(
            f"feature_names has {len(names)} names, but the model has {len(known)} "
            f"design columns: {known}; pass one name for each of them, in this order"
        )
    return names


def output_labels(model) -> list[Any]:
    """Return what to call each output: a class, or the number of the target."""
    if is_classifier(model):
        return np.asarray(model.classes_).tolist()
    return list(range(model.tree_.n_outputs))


def check_count(name: str, value, *, low: int, allow_none: bool) -> None:
    """Refuse anything that is not an integer from ``low`` on (or None)."""
    if value is None and allow_none:
        return
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or value < low:
        words = f"an integer of at least {low}" + (" or None" if allow_none else "")
        raise ValueError(f"{name} must be {words}, got {value!r}")


def format_number(value: float, decimals: int, rounding: str = ROUND_HALF_EVEN) -> str:
    """Write a number so that small and large ones keep their meaning.

    From 1 on, ``decimals`` counts digits after the point; below 1, and from 1e16 on,
    it counts significant digits, since 0.000 says nothing about a slope of 2e-5.
    """
    exact = Decimal(float(value))
    if not exact.is_finite():
        return str(float(value))
    if not exact:
        return f"{0:.{decimals}f}"
    if 1 <= abs(exact) < _LARGE:
        return f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding, _EXACT):f}"
    digits = max(decimals, 1)
    places = exact.adjusted() - digits + 1
    rounded = exact.quantize(Decimal(1).scaleb(places), rounding, _EXACT)
    if -5 <= rounded.adjusted() < 16:
        return f"{rounded:f}"
    return f"{rounded:.{digits - 1}e}"


def count_of(number: int, noun: str) -> str:
    """Return the number and its noun, ``1 leaf`` or ``2 leaves``."""
    plurals = {"row": "rows", "leaf": "leaves", "column": "columns"}
    return f"{number} {noun if number == 1 else plurals[noun]}"


def leaf_fit(tree: HingeTree, node: int) -> tuple[float, float]:
    """Return R2 (NaN if unknown) and RMSE of a node's model on its training rows."""
    weight = float(tree.weighted_n_node_samples[node])
    sse = float(tree.sse[node])
    rmse = float(np.sqrt(sse / (weight * tree.n_outputs))) if weight > 0 else np.nan
    if np.array_equal(tree.value_min[node], tree.value_max[node]):
        return 1.0, rmse  # nothing to explain: as r2_score has it for a perfect fit
    sst = float(tree.sst[node])  # type: ignore[index]
    return (1.0 - sse / sst if sst > 0 else np.nan), rmse


@dataclass(frozen=True)
class Description:
    """Texts of one model at one precision; see ``describe``."""

    model: Any
    tree: HingeTree
    names: list[str]
    labels: list[Any]
    max_terms: int | None
    decimals: int

    def number(self, value: float) -> str:
        """Write one number at the chosen precision."""
        return format_number(value, self.decimals)

    def rows(self, node: int) -> str:
        """Return how many training rows a node has."""
        return count_of(int(self.tree.n_node_samples[node]), "row")

    def header(self) -> list[str]:
        """Return the lines that say what the tree is and how to read it."""
        tree = self.tree
        lines = [
            f"{type(self.model).__name__}: {count_of(tree.n_leaves, 'leaf')}, depth "
            f"{tree.max_depth}, {count_of(tree.n_columns, 'column')}, {self.rows(0)}"
        ]
        if is_classifier(self.model):
            if getattr(self.model, "leaf_model", None) == "logistic":
                lines.append("leaves give logits: probabilities are their softmax")
            else:
                lines.append("leaves give class shares, before clipping to [0, 1]")
        elif getattr(self.model, "clip", None) == "leaf":
            lines.append("predictions are clipped to the range named in each leaf")
        elif getattr(self.model, "clip_", None) is not None:
            lines.append(f"predictions are clipped: {self._ranges(*self.model.clip_)}")
        return lines

    def _ranges(self, low, high) -> str:
        pairs = zip(np.ravel(low), np.ravel(high), strict=True)
        return ", ".join(
            f"{self.label(k)} in [{self.number(a)}, {self.number(b)}]"
            for k, (a, b) in enumerate(pairs)
        )

    def label(self, output: int) -> str:
        """Return the name of an output as the formulas show it."""
        if is_classifier(self.model):
            return f"class {self.labels[output]}"
        return "y" if len(self.labels) == 1 else f"y[{output}]"

    def formulas(self, node: int) -> list[str]:
        """Return the node's model, one line for each output."""
        equals = ": " if is_classifier(self.model) else " = "
        lines = []
        for k in range(self.tree.n_outputs):
            terms = self._terms(node, self.tree.coef[node, k])
            constant = self.number(self.tree.intercept[node, k])
            lines.append(self.label(k) + equals + _join([constant, *terms]))
        return lines

    def errors(self, node: int) -> list[str]:
        """Return how well a leaf's model fits its rows, and its own clip range."""
        if is_classifier(self.model):
            return []
        r2, rmse = leaf_fit(self.tree, node)
        words = [] if np.isnan(r2) else [f"R2 {self.number(r2)}"]
        words.append(f"RMSE {self.number(rmse)}")
        if getattr(self.model, "clip", None) == "leaf":
            low, high = self.tree.value_min[node], self.tree.value_max[node]
            words.append(f"clipped to {self._ranges(low, high)}")
        return words

    def leaf_lines(self, node: int) -> list[str]:
        """Return what a box says about a leaf, line by line."""
        lines = [f"leaf {node}: {self.rows(node)}", ", ".join(self.errors(node))]
        return [line for line in lines if line] + self.formulas(node)

    def sides(self, node: int) -> list[tuple[str, int]]:
        """Return both conditions of a split with the child each leads to.

        A hinge puts its left side first; an axis split its side of smaller values,
        as the readers of decision trees expect.
        """
        left = int(self.tree.children_left[node])
        right = int(self.tree.children_right[node])
        coef = self.tree.split_coef[node]
        used = np.flatnonzero(coef)
        if self.tree.split_kind[node] != AXIS or len(used) != 1:
            expression = _join(self._terms(node, coef)) or "0"
            level = self.number(-self.tree.split_intercept[node] + 0.0)
            return [
                (f"{expression} > {level}", left),
                (f"{expression} <= {level}", right),
            ]
        name = self.names[used[0]]
        if coef[used[0]] > 0:
            level = self._threshold(node, int(used[0]), right, left)
            return [(f"{name} <= {level}", right), (f"{name} > {level}", left)]
        level = self._threshold(node, int(used[0]), left, right)
        return [(f"{name} < {level}", left), (f"{name} >= {level}", right)]

    def _threshold(self, node: int, column: int, below: int, above: int) -> str:
        """Round a threshold, up or down if only that keeps the training rows apart."""
        tree = self.tree
        coef = tree.split_coef[node, column]
        exact = -tree.split_intercept[node] / coef + 0.0
        low, high = tree.upper[below, column], tree.lower[above, column]
        for rounding in (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING):
            text = format_number(exact, self.decimals, rounding)
            shown = float(text)
            inside = low <= shown < high if coef > 0 else low < shown <= high
            if inside:
                return text
        return self.number(exact)

    def _terms(self, node: int, coef: np.ndarray) -> list[str]:
        """Return signed terms, the ones that matter most in the node first."""
        used = np.flatnonzero(coef)
        size = np.abs(coef) * (self.tree.upper[node] - self.tree.lower[node])
        order = used[np.lexsort((-np.abs(coef[used]), -size[used]))]
        kept = order if self.max_terms is None else order[: self.max_terms]
        terms = [f"{self.number(coef[j])}*{self.names[j]}" for j in kept]
        if len(kept) < len(order):
            terms.append(f"{len(order) - len(kept)} more")
        return terms


def describe(
    model,
    feature_names: Sequence[str] | None,
    max_terms: int | None,
    decimals: int,
    caller: str,
) -> Description:
    """Check the arguments that the three printing functions share."""
    tree = check_model(model, caller)
    check_count("max_terms", max_terms, low=1, allow_none=True)
    check_count("decimals", decimals, low=0, allow_none=False)
    return Description(
        model=model,
        tree=tree,
        names=column_names(model, feature_names),
        labels=output_labels(model),
        max_terms=max_terms,
        decimals=decimals,
    )


def _join(terms: list[str]) -> str:
    """Chain signed terms: ``a + b - c``."""
    text = ""
    for term in terms:
        if not text:
            text = term
        elif term.startswith("-"):
            text += f" - {term[1:]}"
        else:
            text += f" + {term}"
    return text
