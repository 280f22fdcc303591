import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hinge_tree_samples import TreeClassifier, TreeRegressor, random_tree, sample_data
from sklearn.metrics import r2_score, root_mean_squared_error

from sklearn_ext.tree._leaf_table import leaf_table


def test_rows_describe_the_leaves():
    Z, Y = sample_data()
    tree = random_tree(Z, Y)
    table = leaf_table(TreeRegressor(tree, names=list("abcd")).fit())
    assert [row["leaf"] for row in table] == tree.leaves.tolist()
    leaf_of = tree.apply(Z)
    for row in table:
        inside = leaf_of == row["leaf"]
        truth, fitted = Y[inside], tree.predict(Z)[inside]
        assert row["rows"] == row["weight"] == inside.sum()
        assert row["depth"] == len(tree.path_to(row["leaf"]))
        assert row["rmse"] == pytest.approx(root_mean_squared_error(truth, fitted))
        if len(truth) > 1:
            assert row["r2"] == pytest.approx(r2_score(truth, fitted))
        slopes = [row["coef"][name] for name in "abcd"]
        np.testing.assert_allclose(
            Z[inside] @ slopes + row["intercept"], fitted[:, 0], atol=1e-9
        )
        bounds = np.array([row["box"][name] for name in "abcd"])
        np.testing.assert_array_equal(bounds[:, 0], Z[inside].min(axis=0))
        np.testing.assert_array_equal(bounds[:, 1], Z[inside].max(axis=0))


def test_several_outputs_are_keyed_by_number_and_averaged():
    Z, Y = sample_data(n_outputs=3)
    tree = random_tree(Z, Y)
    row = leaf_table(TreeRegressor(tree).fit())[0]
    inside = tree.apply(Z) == row["leaf"]
    assert list(row["coef"]) == list(row["intercept"]) == [0, 1, 2]
    assert row["coef"][2]["x1"] == tree.coef[row["leaf"], 2, 1]
    error = Y[inside] - tree.predict(Z)[inside]
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))


def test_classes_are_keys():
    tree = random_tree(*sample_data(n_outputs=2))
    row = leaf_table(TreeClassifier(tree).fit())[0]
    assert list(row["coef"]) == ["a", "b"]
    assert row["intercept"]["b"] == tree.intercept[row["leaf"], 1]


def test_names_given_here_win():
    model = TreeRegressor(random_tree(*sample_data())).fit()
    row = leaf_table(model, feature_names=list("efgh"))[0]
    assert list(row["coef"]) == list(row["box"]) == list("efgh")
    with pytest.raises(ValueError, match="feature_names has 1 names"):
        leaf_table(model, feature_names=["a"])


def test_numbers_are_plain():
    model = TreeRegressor(random_tree(*sample_data())).fit()
    table = leaf_table(model)
    assert json.loads(json.dumps(table, allow_nan=False))[0]["leaf"] == table[0]["leaf"]
    frame = pd.json_normalize(table)
    assert frame.shape[0] == len(table)
    assert {"leaf", "rmse", "coef.x0", "box.x3"} <= set(frame.columns)


def test_a_constant_target_is_fitted_perfectly():
    Z, _ = sample_data()
    tree = random_tree(Z, np.ones((len(Z), 1)), n_leaves=3)
    for row in leaf_table(TreeRegressor(tree).fit()):
        assert row["r2"] == 1.0
        assert row["rmse"] < 1e-10


def test_unknown_total_gives_nan():
    tree = dataclasses.replace(random_tree(*sample_data()), sst=None)
    assert np.isnan(leaf_table(TreeRegressor(tree).fit())[0]["r2"])
