import dataclasses
import re

import numpy as np
import pytest
from hinge_tree_samples import TreeClassifier, TreeRegressor, random_tree, sample_data
from tree_text_reader import read_back

from sklearn_ext.tree import export_text


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("axis_share", [0.0, 0.5, 1.0])
def test_printed_formulas_reproduce_predict(n_outputs, axis_share):
    Z, Y = sample_data(n_columns=5, n_outputs=n_outputs)
    tree = random_tree(Z, Y, n_leaves=10, axis_share=axis_share)
    model = TreeRegressor(tree).fit()
    text = export_text(model, max_terms=None, decimals=12)
    leaf, value = read_back(text, Z, model.columns_.names)
    np.testing.assert_array_equal(leaf, tree.apply(Z))
    np.testing.assert_allclose(value, tree.predict(Z), rtol=0, atol=1e-6)


def test_printed_logits_reproduce_the_scores():
    Z, Y = sample_data(n_outputs=3)
    tree = random_tree(Z, Y)
    model = TreeClassifier(tree).fit()
    text = export_text(model, max_terms=None, decimals=12)
    assert "logits: probabilities are their softmax" in text
    assert "class b: " in text
    assert "RMSE" not in text
    _, value = read_back(text, Z, model.columns_.names)
    np.testing.assert_allclose(value, tree.predict(Z), rtol=0, atol=1e-6)


def test_linear_classifier_says_shares():
    tree = random_tree(*sample_data(n_outputs=2))
    text = export_text(TreeClassifier(tree, leaf_model="linear").fit())
    assert "logits" not in text
    assert "class shares" in text


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("threshold", "low", "high", "shown"),
    [
        (1.03, 0.98, 1.04, "1.0"),  # the nearest will do
        (1.07, 0.99, 1.08, "1.0"),  # the nearest, 1.1, is beyond the row at 1.08
        (1.04, 1.02, 1.11, "1.1"),  # the nearest, 1.0, is before the row at 1.02
        (1.06, 1.05, 1.07, "1.1"),  # no number of one digit will do: the nearest
    ],
)
def test_thresholds_are_rounded_between_the_rows(sign, threshold, low, high, shown):
    Z = np.linspace(0.2, 2.0, 8).reshape(-1, 1)
    tree = random_tree(Z, Z, n_leaves=2, axis_share=1.0)
    below, above = ([0.2], [low]), ([high], [2.0])
    left, right = (above, below) if sign > 0 else (below, above)
    tree = dataclasses.replace(
        tree,
        split_coef=[[sign], [0.0], [0.0]],
        split_intercept=[-sign * threshold, 0.0, 0.0],
        lower=[[0.2], left[0], right[0]],
        upper=[[2.0], left[1], right[1]],
    )
    text = export_text(TreeRegressor(tree).fit(), decimals=1)
    assert re.findall(r"--- x0 <=? (\S+)", text) == [shown]
    assert re.findall(r"--- x0 >=? (\S+)", text) == [shown]


def test_relations_of_axis_splits_follow_the_sign():
    Z = np.arange(10.0).reshape(-1, 1)
    tree = random_tree(Z, Z, n_leaves=2, axis_share=1.0)
    plus = dataclasses.replace(
        tree,
        split_coef=[[2.0], [0.0], [0.0]],
        split_intercept=[-9.0, 0.0, 0.0],
        lower=[[0.0], [5.0], [0.0]],
        upper=[[9.0], [9.0], [4.0]],
    )
    lines = export_text(TreeRegressor(plus).fit()).splitlines()
    assert lines[1] == "|--- x0 <= 4.500"
    assert lines[2].startswith("|   |--- leaf 2: ")
    assert lines[4] == "|--- x0 > 4.500"
    minus = dataclasses.replace(
        plus,
        split_coef=-plus.split_coef,
        split_intercept=-plus.split_intercept,
        lower=plus.lower[[0, 2, 1]],
        upper=plus.upper[[0, 2, 1]],
    )
    lines = export_text(TreeRegressor(minus).fit()).splitlines()
    assert lines[1] == "|--- x0 < 4.500"
    assert lines[2].startswith("|   |--- leaf 1: ")
    assert lines[4] == "|--- x0 >= 4.500"


def test_left_out_terms_are_counted_and_the_largest_kept():
    Z, Y = sample_data(n_columns=6)
    tree = random_tree(Z, Y, n_leaves=1)
    names = [f"column {j}" for j in range(6)]
    model = TreeRegressor(tree, names=names).fit()
    size = np.abs(tree.coef[0, 0]) * (tree.upper[0] - tree.lower[0])
    largest = np.argsort(-size)
    formula = export_text(model, max_terms=2).splitlines()[2]
    assert formula.endswith(" + 4 more")
    assert re.findall(r"\*(column \d)", formula) == [names[j] for j in largest[:2]]
    assert " more" not in export_text(model, max_terms=6)
    every = export_text(model, max_terms=None).splitlines()[2]
    assert re.findall(r"\*(column \d)", every) == [names[j] for j in largest]


def test_zero_slopes_are_neither_printed_nor_counted():
    Z, Y = sample_data()
    tree = random_tree(Z, Y, n_leaves=1)
    coef = np.zeros_like(tree.coef)
    model = TreeRegressor(dataclasses.replace(tree, coef=coef)).fit()
    text = export_text(model, max_terms=1)
    assert re.search(r"\|    y = -?[\d.]+$", text, re.MULTILINE)


def test_names_given_here_win():
    Z, Y = sample_data()
    model = TreeRegressor(random_tree(Z, Y), names=["a", "b", "c", "d"]).fit()
    assert "*a" in export_text(model, max_terms=None)
    text = export_text(model, feature_names=["e", "f", "g", "h"], max_terms=None)
    assert "*e" in text
    assert "*a" not in text


def test_leaf_lines_tell_rows_and_fit():
    Z, Y = sample_data()
    tree = random_tree(Z, Y)
    text = export_text(TreeRegressor(tree).fit(), decimals=6)
    for leaf in tree.leaves:
        match = re.search(rf"leaf {leaf}: (\d+) rows?, R2 (\S+), RMSE (\S+)", text)
        assert int(match[1]) == tree.n_node_samples[leaf]
        inside = Y[tree.apply(Z) == leaf]
        error = inside - tree.predict(Z)[tree.apply(Z) == leaf]
        assert float(match[3]) == pytest.approx(
            np.sqrt(np.mean(error**2)), rel=1e-4, abs=1e-12
        )
        assert float(match[2]) == pytest.approx(
            1 - np.sum(error**2) / np.sum((inside - inside.mean()) ** 2), abs=1e-5
        )


def test_r2_is_left_out_when_it_is_not_known():
    tree = dataclasses.replace(random_tree(*sample_data()), sst=None)
    text = export_text(TreeRegressor(tree).fit())
    assert "R2" not in text
    assert "RMSE" in text
    assert "nan" not in text


def test_clip_is_in_the_text():
    Z, Y = sample_data(n_outputs=2)
    tree = random_tree(Z, Y)
    assert "clipped" not in export_text(TreeRegressor(tree).fit())
    text = export_text(TreeRegressor(tree, clip="global").fit(), decimals=12)
    header = text.splitlines()[1]
    found = [float(v) for v in re.findall(r"(-?\d+\.\d+)", header)]
    expected = np.stack([Y.min(axis=0), Y.max(axis=0)], axis=1).ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    text = export_text(TreeRegressor(tree, clip="leaf").fit())
    assert text.count("clipped to y[0] in [") == tree.n_leaves


def test_deep_trees_do_not_exhaust_the_stack():
    Z = np.arange(3000.0).reshape(-1, 1)
    n = 2 * 1200 + 1
    inner = np.arange(1200)
    left, right = np.full(n, -1), np.full(n, -1)
    chain = np.concatenate([[0], 2 * inner[:-1] + 2])  # node of each depth
    left[chain], right[chain] = 2 * inner + 1, 2 * inner + 2
    depth = np.zeros(n, dtype=int)
    depth[left[chain]] = depth[right[chain]] = inner + 1
    one = random_tree(Z, Z, n_leaves=1)
    fields = {f.name: getattr(one, f.name) for f in dataclasses.fields(one)}
    fields = {k: np.repeat(v, n, axis=0) for k, v in fields.items()}
    kind, coef, level = np.zeros(n), np.zeros((n, 1)), np.zeros(n)
    kind[chain], coef[chain], level[chain] = 3, 1.0, -inner[::-1]
    fields |= {
        "children_left": left,
        "children_right": right,
        "depth": depth,
        "split_kind": kind,
        "split_coef": coef,
        "split_intercept": level,
    }
    tree = dataclasses.replace(one, **fields)
    text = export_text(TreeRegressor(tree).fit())
    assert text.count("leaf ") == 1201
