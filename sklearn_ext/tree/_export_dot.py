"""A fitted hinge tree in the Graphviz language."""

from __future__ import annotations

from collections.abc import Sequence

from ._describe import Description, describe


def export_dot(
    model,
    feature_names: Sequence[str] | None = None,
    max_terms: int | None = 3,
    decimals: int = 3,
) -> str:
    """Write a fitted hinge tree in the Graphviz (dot) language.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
        A fitted model.
    feature_names : list of str, default=None
        One name for each design column; None takes the names seen in `fit`, else
        ``x0``, ``x1``, ...
    max_terms : int or None, default=3
        Terms shown in a formula or condition, the ones that vary most inside the
        node first. None shows all.
    decimals : int, default=3
        Digits after the point; for numbers under 1, significant digits.

    Returns
    -------
    dot : str
        A ``digraph``, for ``dot -Tsvg`` or ``graphviz.Source``.

    See Also
    --------
    export_text : The tree as indented text.
    plot_tree : The tree as a matplotlib drawing, without Graphviz.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree import HRTRegressor, export_dot
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
    >>> print(export_dot(model))
    digraph HingeTree {
    ...
    }
    """
    words = describe(model, feature_names, max_terms, decimals, "export_dot")
    lines = [
        "digraph HingeTree {",
        f"graph [label={_quote(words.header())}, labelloc=t];",
        'node [shape=box, style="rounded, filled", fillcolor=white];',
    ]
    for node in range(words.tree.node_count):
        lines.extend(_node_lines(words, node))
    lines.append("}")
    return "\n".join(lines) + "\n"


def _node_lines(words: Description, node: int) -> list[str]:
    if words.tree.children_left[node] < 0:
        text = words.leaf_lines(node)
        return [f'{node} [label={_quote(text)}, fillcolor="#e8f1fa"];']
    (condition, first), (_, second) = words.sides(node)
    return [
        f"{node} [label={_quote([condition, words.rows(node)])}];",
        f'{node} -> {first} [label="yes"];',
        f'{node} -> {second} [label="no"];',
    ]


def _quote(lines: list[str]) -> str:
    """Return a dot string; column names may hold quotes, backslashes and breaks."""
    escaped = (
        line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        for line in lines
    )
    return '"' + "\\n".join(escaped) + '"'
