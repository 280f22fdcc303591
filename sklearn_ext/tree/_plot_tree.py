"""A fitted hinge tree as a matplotlib drawing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._describe import Description, check_count, count_of, describe

_LINE = 30  # characters before a text in a box is wrapped
_PAD = 0.35  # space between text and box, in font sizes
_FONT = 10.0


@dataclass
class _Box:
    """One drawn node."""

    node: int
    depth: int
    text: str
    children: list[int]  # positions in the list of boxes: yes, no
    parent: int  # position, -1 for the root
    mark: str  # what the edge to the parent says
    x: float = 0.0


def plot_tree(
    model,
    ax=None,
    feature_names: Sequence[str] | None = None,
    max_terms: int | None = 2,
    decimals: int = 2,
    max_depth: int | None = None,
) -> list[Any]:
    """Draw a fitted hinge tree with matplotlib.

    Each split shows the condition of its left branch, marked "yes"; each leaf shows
    its rows, its fit and its formula.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
        A fitted model.
    ax : matplotlib Axes, default=None
        Where to draw. None draws on the current axes, in a new figure of fitting
        size if no figure is open.
    feature_names : list of str, default=None
        One name for each design column; None takes the names seen in `fit`, else
        ``x0``, ``x1``, ...
    max_terms : int or None, default=2
        Terms shown in a formula or condition, the ones that vary most inside the
        node first. None shows all.
    decimals : int, default=2
        Digits after the point; for numbers under 1, significant digits.
    max_depth : int or None, default=None
        Splits deeper than this are drawn as one box that counts their leaves. None
        draws all.

    Returns
    -------
    artists : list of matplotlib artists
        The boxes, then the marks of the edges.

    See Also
    --------
    export_text : The tree as indented text.
    export_dot : The tree in the Graphviz language.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext.tree import HRTRegressor, plot_tree
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
    >>> artists = plot_tree(model)  # doctest: +SKIP
    """
    words = describe(model, feature_names, max_terms, decimals, "plot_tree")
    check_count("max_depth", max_depth, low=0, allow_none=True)
    boxes = _collect(words, max_depth)
    slots, levels = _place(boxes), max(box.depth for box in boxes) + 1
    if ax is None:
        ax = _current_axes(slots, levels)
    ax.set_axis_off()
    artists = [_draw_box(ax, boxes, box, levels) for box in boxes]
    size = _fit_font(ax, boxes, artists, levels)
    marks = [
        _draw_mark(ax, boxes[box.parent], box, levels, size)
        for box in boxes
        if box.mark
    ]
    return artists + marks


def _collect(words: Description, max_depth: int | None) -> list[_Box]:
    """Return the boxes to draw, parents before children, yes before no."""
    boxes: list[_Box] = []
    todo = [(0, -1, "")]
    while todo:
        node, parent, mark = todo.pop()
        depth = boxes[parent].depth + 1 if parent >= 0 else 0
        here = len(boxes)
        text, children = _box_text(words, node, depth, max_depth)
        boxes.append(_Box(node, depth, text, [], parent, mark))
        if parent >= 0:
            boxes[parent].children.append(here)
        marked = zip(children, ("yes", "no"), strict=False)
        todo.extend((child, here, word) for child, word in reversed(list(marked)))
    return boxes


def _box_text(words: Description, node: int, depth: int, max_depth: int | None):
    tree = words.tree
    if tree.children_left[node] < 0:
        return _wrap(words.leaf_lines(node)), []
    rows = words.rows(node)
    if max_depth is not None and depth >= max_depth:
        return f"({count_of(_count_leaves(tree, node), 'leaf')}, {rows})", []
    (condition, yes), (_, no) = words.sides(node)
    return _wrap([condition, rows]), [yes, no]


def _count_leaves(tree, node: int) -> int:
    count, todo = 0, [node]
    while todo:
        node = todo.pop()
        if tree.children_left[node] < 0:
            count += 1
        else:
            todo += [int(tree.children_left[node]), int(tree.children_right[node])]
    return count


def _wrap(lines: list[str]) -> str:
    """Break long lines before a sign or relation, never after one."""
    wrapped = []
    for line in lines:
        bound = re.sub(r"(?<= )([-+<>]=?) ", "\\1\N{NO-BREAK SPACE}", line)
        bound = bound.replace(" more", "\N{NO-BREAK SPACE}more")
        wrapped += textwrap.wrap(bound, _LINE)
    return "\n".join(wrapped).replace("\N{NO-BREAK SPACE}", " ")


def _place(boxes: list[_Box]) -> int:
    """Give every childless box a slot and centre the others; return the slots."""
    slots = 0
    for box in boxes:  # parents first and depth first: slots come from left to right
        if not box.children:
            box.x = slots + 0.5
            slots += 1
    for box in reversed(boxes):
        if box.children:
            box.x = float(np.mean([boxes[child].x for child in box.children]))
    for box in boxes:
        box.x /= slots
    return slots


def _current_axes(slots: int, levels: int):
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot_tree needs matplotlib; install it with: "
            "pip install 'sklearn-ext[plots]'"
        ) from error
    if plt.get_fignums():
        return plt.gca()
    size = (min(max(6.4, 2.4 * slots), 60.0), min(max(4.8, 1.4 * levels), 40.0))
    return plt.figure(figsize=size).add_axes((0.0, 0.0, 1.0, 1.0))


def _height(depth: int, levels: int) -> float:
    return 1.0 - (depth + 0.5) / levels


def _draw_box(ax, boxes: list[_Box], box: _Box, levels: int):
    style = {
        "ha": "center",
        "va": "center",
        "fontsize": _FONT,
        "xycoords": "axes fraction",
        "zorder": 100.0 - box.depth,  # a parent's box hides the ends of its edges
        "bbox": {
            "boxstyle": f"round,pad={_PAD}",
            "facecolor": "white" if box.children else "#e8f1fa",
            "edgecolor": "0.4",
        },
    }
    here = (box.x, _height(box.depth, levels))
    if box.parent < 0:
        return ax.annotate(box.text, here, **style)
    parent = boxes[box.parent]
    above = (parent.x, _height(parent.depth, levels))
    style["arrowprops"] = {"arrowstyle": "<-", "color": "0.4"}
    return ax.annotate(box.text, above, here, textcoords="axes fraction", **style)


def _fit_font(ax, boxes: list[_Box], artists: list[Any], levels: int) -> float:
    """Set the largest font at which no two boxes touch; return its size."""
    size = _FONT
    for _ in range(3):  # a font does not shrink in exact proportion
        size = max(1.0, min(1.2 * _FONT, size * _room(ax, boxes, artists, levels)))
        for artist in artists:
            artist.set_fontsize(size)
    return size


def _room(ax, boxes: list[_Box], artists: list[Any], levels: int) -> float:
    """Return how many times larger the texts could be."""
    from matplotlib.text import Text

    # An annotation's own extent includes its arrow; measure the text alone.
    extents = [Text.get_window_extent(artist) for artist in artists]
    pad = 2 * _PAD * artists[0].get_fontsize() * ax.figure.dpi / 72
    area = ax.get_window_extent()
    tallest = max(extent.height for extent in extents) + pad
    room = 0.75 * area.height / levels / tallest  # leave some length to the edges
    # Not all of it: boxes need a gap, and fonts change a little with the resolution.
    for depth in range(levels):
        row = [i for i, box in enumerate(boxes) if box.depth == depth]
        # The borders count as neighbours of no width.
        half = [0.0, *((extents[i].width + pad) / 2 for i in row), 0.0]
        centre = [0.0, *(boxes[i].x * area.width for i in row), area.width]
        gaps = np.diff(centre) / (np.array(half[:-1]) + half[1:])
        room = min(room, 0.88 * float(gaps.min()))
    return room


def _draw_mark(ax, parent: _Box, box: _Box, levels: int, size: float):
    height = _height(box.depth, levels) + _height(parent.depth, levels)
    return ax.annotate(
        box.mark,
        ((box.x + parent.x) / 2, height / 2),
        xycoords="axes fraction",
        ha="center",
        va="center",
        fontsize=0.9 * size,
        zorder=150.0,
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
    )
