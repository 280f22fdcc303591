"""A fitted hinge tree as text."""

from __future__ import annotations

from collections.abc import Sequence

from ._describe import Description, describe


def export_text(
    model,
    feature_names: Sequence[str] | None = None,
    max_terms: int | None = 5,
    decimals: int = 3,
) -> str:
    """Write a fitted hinge tree as indented text.

    Both sides of every split are shown with the condition that leads there, and
    every leaf with its rows, its fit and its formula.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
        A fitted model.
    feature_names : list of str, default=None
        One name for each design column, that is, each column of `X` unless
        categories or missing values added some. None takes the names seen in `fit`,
        else ``x0``, ``x1``, ...
    max_terms : int or None, default=5
        Terms shown in a formula or condition, the ones that vary most inside the
        node first; the text says how many more there are. None shows all.
    decimals : int, default=3
        Digits after the point; for numbers under 1, significant digits.

    Returns
    -------
    text : str
        The tree, one line for each condition, leaf and formula.

    See Also
    --------
    export_dot : The tree in the Graphviz language.
    plot_tree : The tree as a matplotlib drawing.

    Notes
    -----
    With ``max_terms=None`` and ``decimals=12`` the printed formulas reproduce
    ``predict`` to about 1e-6 (a row that lies on a split plane to twelve digits may
    change side). A classifier whose leaves are logistic prints one logit for each
    class, and the probabilities are their softmax.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree import HRTRegressor, export_text
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
    >>> print(export_text(model, feature_names=["time"]))
    HRTRegressor: 2 leaves, ...
    """
    words = describe(model, feature_names, max_terms, decimals, "export_text")
    lines = words.header()
    # A stack instead of recursion: a tree may be deeper than Python's call stack.
    todo: list[tuple[int, int, str]] = [(0, 0, "")]
    while todo:
        node, level, condition = todo.pop()
        if condition:
            lines.append("|   " * (level - 1) + f"|--- {condition}")
        if words.tree.children_left[node] < 0:
            lines.extend(_leaf_lines(words, node, level))
            continue
        for text, child in reversed(words.sides(node)):
            todo.append((child, level + 1, text))
    return "\n".join(lines) + "\n"


def _leaf_lines(words: Description, node: int, level: int) -> list[str]:
    indent = "|   " * level
    facts = ", ".join([words.rows(node), *words.errors(node)])
    head = f"{indent}|--- leaf {node}: {facts}"
    return [head] + [f"{indent}|    {line}" for line in words.formulas(node)]
