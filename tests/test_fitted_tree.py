"""The readers of a fitted tree, on trees that the estimators grew."""

import json
import re

import numpy as np
import pytest
from hinge_tree_samples import descend
from scipy.special import softmax
from sklearn.datasets import load_diabetes, load_wine, make_friedman1
from tree_text_reader import read_back

from sklearn_ext.tree import HRTClassifier, HRTRegressor, export_dot, export_text
from sklearn_ext.tree._hinge_tree import HingeTree


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(600, n_features=6, noise=0.5, random_state=0)
    return HRTRegressor(max_leaf_nodes=12, pruning=None).fit(X, y), X, y


def test_training_rows_end_where_they_were_counted(friedman):
    model, X, y = friedman
    tree, Z = model.tree_, model.columns_.transform(X)
    leaf = tree.apply(Z)
    assert leaf.tolist() == [descend(tree, z)[-1] for z in Z]
    np.testing.assert_array_equal(model.apply(X), leaf)
    assert tree.n_leaves > 4
    counts = np.asarray(tree.decision_path(Z).sum(axis=0)).ravel()
    np.testing.assert_array_equal(counts, tree.n_node_samples)
    for node in tree.leaves:
        rows = leaf == node
        np.testing.assert_allclose(tree.lower[node], Z[rows].min(axis=0))
        np.testing.assert_allclose(tree.upper[node], Z[rows].max(axis=0))
        np.testing.assert_allclose(tree.value_min[node], y[rows].min())
        np.testing.assert_allclose(tree.value_max[node], y[rows].max())
        error = y[rows] - tree.predict(Z[rows])[:, 0]
        np.testing.assert_allclose(tree.sse[node], error @ error, rtol=1e-7)
        np.testing.assert_allclose(tree.sst[node], rows.sum() * y[rows].var())


@pytest.mark.parametrize("clip", ["global", "leaf", None])
def test_printed_tree_reproduces_predict(clip):
    X, y = load_diabetes(return_X_y=True)
    model = HRTRegressor(clip=clip, pruning=None, max_leaf_nodes=8).fit(X, y)
    text = export_text(model, max_terms=None, decimals=12)
    leaf, value = read_back(text, X, model.columns_.names)
    np.testing.assert_array_equal(leaf, model.apply(X))
    ranges = re.findall(r"y in \[(\S+), (\S+)\]", text)
    assert len(ranges) == {"global": 1, "leaf": model.tree_.n_leaves, None: 0}[clip]
    if clip == "global":
        value = np.clip(value, float(ranges[0][0]), float(ranges[0][1]))
    if clip == "leaf":
        order = re.findall(r"leaf (\d+):", text)
        by_leaf = dict(zip(map(int, order), np.array(ranges, float), strict=True))
        low, high = np.array([by_leaf[n] for n in leaf]).T
        value = np.clip(value[:, 0], low, high)[:, None]
    np.testing.assert_allclose(value[:, 0], model.predict(X), rtol=0, atol=1e-6)


def test_printed_logits_reproduce_predict_proba():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = HRTClassifier(pruning=None).fit(X, y.map(lambda k: f"kind {k}"))
    text = export_text(model, max_terms=None, decimals=12)
    leaf, value = read_back(text, X.to_numpy(float), model.columns_.names)
    assert model.columns_.names == list(X.columns)
    assert "class kind 2: " in text
    np.testing.assert_array_equal(leaf, model.apply(X))
    probability = softmax(value, axis=1)
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-6)


def test_regions_part_the_space(friedman):
    model, X, _ = friedman
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 1.5, (10_000, X.shape[1]))
    regions = model.regions()
    inside = np.stack([region.contains(points) for region in regions])
    np.testing.assert_array_equal(inside.sum(axis=0), 1)
    which = inside.argmax(axis=0)
    assert [regions[i].leaf for i in which] == model.apply(points).tolist()
    coef = np.stack([region.coef[0] for region in regions])[which]
    constant = np.array([region.intercept[0] for region in regions])[which]
    value = np.clip((coef * points).sum(axis=1) + constant, *np.ravel(model.clip_))
    np.testing.assert_allclose(value, model.predict(points), atol=1e-9)


def test_leaf_table_adds_up(friedman):
    model, X, y = friedman
    table = model.leaf_table()
    assert sum(row["rows"] for row in table) == len(X)
    assert max(row["r2"] for row in table) <= 1.0
    error = y - model.tree_.predict(X)[:, 0]
    total = sum(row["weight"] * row["rmse"] ** 2 for row in table)
    assert total == pytest.approx(error @ error)


def test_json_carries_the_tree(friedman):
    model, X, _ = friedman
    state = json.loads(json.dumps(model.tree_.to_dict(), allow_nan=False))
    again = HingeTree.from_dict(state)
    np.testing.assert_array_equal(again.predict(X), model.tree_.predict(X))


def test_missing_values_and_categories_are_named():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "age": rng.normal(size=300)})
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], 300))
    y = frame["size"].abs() + 2.0 * (frame["colour"] == "red")
    frame.loc[::7, "age"] = np.nan
    model = HRTRegressor(categorical_features="from_dtype").fit(frame, y)
    Z = model.columns_.transform(frame)
    assert len(model.columns_.names) == Z.shape[1] == model.tree_.n_columns
    assert np.isfinite(Z).all()
    text = export_text(model, max_terms=None, decimals=12)
    _, value = read_back(text, Z, model.columns_.names)
    value = np.clip(value[:, 0], *np.ravel(model.clip_))
    np.testing.assert_allclose(value, model.predict(frame), atol=1e-6)
    assert export_dot(model).startswith("digraph")
