import sys

import numpy as np
import pytest
from hinge_tree_samples import TreeClassifier, TreeRegressor, random_tree, sample_data

from sklearn_ext.tree import plot_tree

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make_model(n_leaves=8, n_outputs=1, **options):
    Z, Y = sample_data(n_columns=6, n_outputs=n_outputs)
    return TreeRegressor(random_tree(Z, Y, n_leaves=n_leaves), **options).fit()


def visible_text(artists):
    return [artist.get_text() for artist in artists]


@pytest.mark.parametrize("n_leaves", [1, 2, 8, 30])
def test_every_node_is_drawn(n_leaves):
    model = make_model(n_leaves)
    texts = visible_text(plot_tree(model))
    nodes = [text for text in texts if text not in ("yes", "no")]
    assert len(nodes) == model.tree_.node_count
    assert texts.count("yes") == texts.count("no") == n_leaves - 1
    for leaf in model.tree_.leaves:
        assert sum(text.startswith(f"leaf {leaf}:") for text in nodes) == 1


@pytest.mark.parametrize(
    ("n_leaves", "figsize"), [(2, (6, 4)), (8, (9, 5)), (20, (40, 12))]
)
def test_boxes_do_not_overlap(n_leaves, figsize):
    model = make_model(n_leaves)
    figure, ax = plt.subplots(figsize=figsize)
    artists = plot_tree(model, ax=ax)[: model.tree_.node_count]
    assert artists[0].get_fontsize() > 2.0
    figure.canvas.draw()
    extents = [artist.get_bbox_patch().get_window_extent() for artist in artists]
    area = figure.bbox
    for i, one in enumerate(extents):
        assert area.x0 <= one.x0
        assert one.x1 <= area.x1
        assert not any(one.overlaps(other) for other in extents[i + 1 :])


def test_max_depth_counts_the_hidden_leaves():
    model = make_model(12)
    tree = model.tree_
    texts = visible_text(plot_tree(model, max_depth=1))
    hidden = [text for text in texts if text.startswith("(")]
    shown = [text for text in texts if text.startswith("leaf")]
    counts = [int(text[1:].split()[0]) for text in hidden]
    assert sum(counts) + len(shown) == tree.n_leaves
    assert visible_text(plot_tree(model, max_depth=0))[0].startswith("(12 leaves")
    with pytest.raises(ValueError, match="max_depth must be an integer of at least 0"):
        plot_tree(model, max_depth=-1)


def test_draws_on_the_axes_it_is_given():
    model = make_model()
    _, (first, second) = plt.subplots(1, 2)
    artists = plot_tree(model, ax=first)
    assert all(artist.axes is first for artist in artists)
    assert not second.texts
    assert plot_tree(model)[0].axes is second  # the current axes


def test_opens_one_figure_of_fitting_size():
    plot_tree(make_model(2))
    small = plt.gcf().get_size_inches()
    plt.close("all")
    plot_tree(make_model(20))
    assert len(plt.get_fignums()) == 1
    assert plt.gcf().get_size_inches()[0] > small[0]


def test_names_and_classes():
    Z, Y = sample_data(n_outputs=2)
    model = TreeClassifier(random_tree(Z, Y)).fit()
    texts = " ".join(visible_text(plot_tree(model, feature_names=list("ABCD"))))
    assert "class b:" in texts
    assert "*A" in texts
    assert "x0" not in texts


def test_left_out_terms_are_counted():
    joined = " ".join(" ".join(visible_text(plot_tree(make_model()))).split())
    assert "+ 4 more" in joined


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"sklearn-ext\[plots\]"):
        plot_tree(make_model())


def test_parents_are_above_and_between_their_children():
    model = make_model(10)
    tree = model.tree_
    artists = plot_tree(model)[: tree.node_count]
    plt.gcf().canvas.draw()
    boxes = [a.get_bbox_patch().get_window_extent() for a in artists]
    centres = np.array([((b.x0 + b.x1) / 2, (b.y0 + b.y1) / 2) for b in boxes])
    # Boxes come depth first, yes before no; the root is the first.
    assert centres[0, 1] == centres[:, 1].max()
    order = np.unique(np.round(centres[:, 1], 3))
    assert len(order) == tree.max_depth + 1
