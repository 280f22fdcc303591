"""The leaves of a fitted hinge tree as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._describe import check_model, column_names, leaf_fit, output_labels


def leaf_table(model, feature_names: Sequence[str] | None = None) -> list[dict]:
    """Return one dictionary for each leaf, in the order of the leaf numbers.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
        A fitted model.
    feature_names : list of str, default=None
        One name for each design column; None takes the names seen in `fit`, else
        ``x0``, ``x1``, ...

    Returns
    -------
    table : list of dict
        The keys are ``leaf`` (as ``apply`` returns it), ``depth``, ``rows``,
        ``weight``, ``r2``, ``rmse``, ``intercept``, ``coef`` (column name to slope)
        and ``box`` (column name to the smallest and largest training value).
        With several outputs, or classes, ``intercept`` and ``coef`` map the output's
        number, or the class, to what they hold otherwise. ``r2`` and ``rmse`` are
        those of the leaf's own model on its training rows, unclipped and averaged
        over outputs. Numbers are Python's own, so the table can be written as JSON;
        ``pandas.json_normalize`` makes flat columns of it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree import HRTRegressor
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
    >>> for leaf in model.leaf_table(feature_names=["time"]):
    ...     print(leaf["rows"], round(leaf["coef"]["time"], 6))
    100 ...
    100 ...
    """
    tree = check_model(model, "leaf_table")
    names = column_names(model, feature_names)
    labels = output_labels(model)
    table = []
    for leaf in tree.leaves.tolist():
        r2, rmse = leaf_fit(tree, leaf)
        slopes = [
            dict(zip(names, row, strict=True)) for row in tree.coef[leaf].tolist()
        ]
        bounds = np.stack([tree.lower[leaf], tree.upper[leaf]], axis=1).tolist()
        table.append(
            {
                "leaf": leaf,
                "depth": int(tree.depth[leaf]),
                "rows": int(tree.n_node_samples[leaf]),
                "weight": float(tree.weighted_n_node_samples[leaf]),
                "r2": float(r2),
                "rmse": rmse,
                "intercept": _by_output(labels, tree.intercept[leaf].tolist()),
                "coef": _by_output(labels, slopes),
                "box": {
                    name: (low, high)
                    for name, (low, high) in zip(names, bounds, strict=True)
                },
            }
        )
    return table


def _by_output(labels: list[Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    return dict(zip(labels, values, strict=True))
