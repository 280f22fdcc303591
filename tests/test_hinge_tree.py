import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest
from hinge_tree_samples import descend, random_tree, sample_data

from sklearn_ext.tree import _hinge_tree
from sklearn_ext.tree._hinge_tree import HingeTree
from sklearn_ext.tree._planes import goes_left

SHAPES = [(1, 1), (3, 1), (12, 2), (5, 3)]


@pytest.fixture(params=SHAPES, ids=str)
def sample(request):
    Z, Y = sample_data(n_columns=request.param[0], n_outputs=request.param[1])
    return random_tree(Z, Y, n_leaves=12), Z


def as_kwargs(tree):
    return {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree)}


def rows_on_planes(tree, Z):
    """Move each row onto the plane of some split, as near as rounding allows."""
    rng = np.random.default_rng(1)
    inner = np.flatnonzero(tree.children_left >= 0)
    moved = Z.copy()
    for row in moved:
        node = rng.choice(inner)
        used = np.flatnonzero(tree.split_coef[node])
        j = rng.choice(used)
        value = tree.split_coef[node] @ row + tree.split_intercept[node]
        row[j] -= value / tree.split_coef[node, j]
    return moved


def test_apply_follows_the_rule_row_by_row(sample):
    tree, Z = sample
    for rows in (Z, 3 * Z - 1, rows_on_planes(tree, Z)):
        assert tree.apply(rows).tolist() == [descend(tree, row)[-1] for row in rows]


def test_row_on_a_plane_goes_right():
    Z = np.array([[2.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
    assert goes_left(Z, np.array([1.0, -2.0]), 0.0).tolist() == [False, True, False]
    assert goes_left(Z, np.array([1.0, 0.0]), -2.0).tolist() == [False, True, False]


def test_one_row_is_decided_and_predicted_as_in_a_batch(sample):
    tree, Z = sample
    rows = np.concatenate([Z, rows_on_planes(tree, Z)])
    leaf, value = tree.apply(rows), tree.predict(rows)
    for size in (1, 7):
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        np.testing.assert_array_equal(np.concatenate([*map(tree.apply, parts)]), leaf)
        joined = np.concatenate([tree.predict(part) for part in parts])
        np.testing.assert_array_equal(joined, value)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_array_equal(tree.apply(rows[order]), leaf[order])
    np.testing.assert_array_equal(tree.predict(rows[order]), value[order])


def test_blocks_of_rows_do_not_show(monkeypatch):
    Z, Y = sample_data(n_rows=9000)
    tree = random_tree(Z, Y)
    leaf, value = tree.apply(Z), tree.predict(Z)
    monkeypatch.setattr(_hinge_tree, "_BLOCK_NUMBERS", 1)  # 4096 rows, the least
    np.testing.assert_array_equal(tree.apply(Z), leaf)
    np.testing.assert_array_equal(tree.predict(Z), value)


def test_few_used_columns_among_many():
    Z, Y = sample_data(n_rows=200, n_columns=40)
    tree = random_tree(Z, Y, n_leaves=6, axis_share=1.0)
    assert tree.apply(Z).tolist() == [descend(tree, row)[-1] for row in Z]


def test_containers_and_memory_orders_give_the_same():
    Z, Y = sample_data()
    Z = np.round(Z, 1).astype(np.float32).astype(float)
    tree = random_tree(Z, Y)
    leaf, value = tree.apply(Z), tree.predict(Z)
    wide = np.zeros((len(Z), 8))
    wide[:, ::2] = Z
    frozen = Z.copy()
    frozen.flags.writeable = False
    for other in (
        Z.tolist(),
        np.asfortranarray(Z),
        wide[:, ::2],
        frozen,
        Z.astype(np.float32),
    ):
        np.testing.assert_array_equal(tree.apply(other), leaf)
        np.testing.assert_array_equal(tree.predict(other), value)


@pytest.mark.parametrize("factor", [1e-250, 1e-160, 1e160, 1e250])
def test_extreme_units(factor):
    Z, Y = sample_data()
    tree = random_tree(Z, Y, axis_share=0.0)
    # Through the origin: an intercept would hide how small the products are.
    tree = dataclasses.replace(tree, split_intercept=0.0 * tree.split_intercept)
    scaled = dataclasses.replace(tree, split_coef=tree.split_coef / factor)
    rows = rows_on_planes(tree, Z) * factor
    assert scaled.apply(rows).tolist() == [descend(scaled, row)[-1] for row in rows]


def test_values_that_overflow_or_are_nan_still_end_in_one_leaf():
    Z, Y = sample_data()
    tree = random_tree(Z, Y, axis_share=0.0)
    rows = Z[:6].copy()
    rows[0], rows[1, 1], rows[2, 0], rows[3] = 1e308, np.nan, np.inf, -1e308
    assert tree.apply(rows).tolist() == [descend(tree, row)[-1] for row in rows]


def test_predict_is_the_leaf_model(sample):
    tree, Z = sample
    expected = [
        [
            sum(c * z for c, z in zip(coef, row, strict=True)) + b
            for coef, b in zip(tree.coef[leaf], tree.intercept[leaf], strict=True)
        ]
        for row, leaf in zip(Z, tree.apply(Z), strict=True)
    ]
    np.testing.assert_allclose(tree.predict(Z), expected, rtol=1e-10, atol=1e-10)
    assert tree.predict(Z).shape == (len(Z), tree.n_outputs)


def test_decision_path_and_path_to(sample):
    tree, Z = sample
    indicator = tree.decision_path(Z)
    assert indicator.shape == (len(Z), tree.node_count)
    assert indicator.has_canonical_format
    for row, z in zip(indicator.toarray(), Z, strict=True):
        assert np.flatnonzero(row).tolist() == descend(tree, z)
        assert set(row) <= {0, 1}
    for leaf in tree.leaves.tolist():
        path = tree.path_to(leaf)
        nodes = [node for node, _ in path] + [leaf]
        assert nodes[0] == 0
        for (node, left), child in zip(path, nodes[1:], strict=True):
            side = tree.children_left if left else tree.children_right
            assert side[node] == child
    assert tree.path_to(0) == []


@pytest.mark.parametrize("leaf", [-1, 10_000])
def test_path_to_unknown_node(sample, leaf):
    with pytest.raises(ValueError, match=f"leaf={leaf} is not a node"):
        sample[0].path_to(leaf)


def test_training_rows_are_where_the_tree_says(sample):
    tree, Z = sample
    counts = tree.decision_path(Z).sum(axis=0)
    np.testing.assert_array_equal(np.asarray(counts).ravel(), tree.n_node_samples)


def test_sizes(sample):
    tree, _ = sample
    assert tree.n_leaves == 12 == len(tree.leaves)
    assert tree.node_count == 23
    assert tree.max_depth == max(len(tree.path_to(leaf)) for leaf in tree.leaves)
    assert repr(tree).startswith("HingeTree(node_count=23, n_leaves=12, max_depth=")
    assert "array" not in repr(tree)


def test_a_single_leaf():
    Z, Y = sample_data()
    tree = random_tree(Z, Y, n_leaves=1)
    assert (tree.n_leaves, tree.max_depth, tree.path_to(0)) == (1, 0, [])
    assert tree.apply(Z).tolist() == [0] * len(Z)
    np.testing.assert_allclose(tree.predict(Z), Z @ tree.coef[0].T + tree.intercept[0])
    assert tree.decision_path(Z).sum() == len(Z)


def test_no_rows(sample):
    tree, Z = sample
    assert tree.apply(Z[:0]).shape == (0,)
    assert tree.predict(Z[:0]).shape == (0, tree.n_outputs)
    assert tree.decision_path(Z[:0]).shape == (0, tree.node_count)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 4, 1)])
def test_wrong_design_matrix(shape):
    tree = random_tree(*sample_data(n_columns=4))
    with pytest.raises(ValueError, match=r"needs a design matrix of shape.*, 4\)"):
        tree.apply(np.zeros(shape))


def test_json_round_trip_is_exact(sample):
    tree, Z = sample
    text = json.dumps(tree.to_dict(), allow_nan=False)
    again = HingeTree.from_dict(json.loads(text))
    for name, value in as_kwargs(tree).items():
        np.testing.assert_array_equal(getattr(again, name), value, strict=True)
    np.testing.assert_array_equal(again.predict(Z), tree.predict(Z))


def test_json_keeps_nan_and_infinities():
    tree = random_tree(*sample_data())
    upper = tree.upper.copy()
    upper[0, :3] = np.inf, -np.inf, np.nan
    odd = dataclasses.replace(tree, upper=upper, sst=None)
    text = json.dumps(odd.to_dict(), allow_nan=False)
    again = HingeTree.from_dict(json.loads(text))
    np.testing.assert_array_equal(again.upper, upper)
    assert np.isnan(again.sst).all()


def test_copies_and_pickles_are_equal(sample):
    tree, Z = sample
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        np.testing.assert_array_equal(again.predict(Z), tree.predict(Z))
        assert again.stop_reason.tolist() == tree.stop_reason.tolist()


def test_fields_cannot_be_replaced(sample):
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample[0].coef = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "'format' must be 'sklearn_ext.HingeTree', got 'other'"),
        ({"version": 2}, "'version' must be 1, got 2"),
        ({"coef": "abc"}, "coef is not a rectangular array"),
        ({"coef": None}, r"must have the axes .* shapes \(15, 4\) and \(1,\)"),
        ({"coef": "delete"}, r"lacks the fields \['coef'\]"),
        ({"sse": [1.0, 2.0]}, r"sse has shape \(2,\), expected \(15,\) \(nodes\)"),
        ({"intercept": [[0.0]]}, r"intercept has shape \(1, 1\), expected \(15, 1\)"),
        ({"lower": [[0.0], [0.0, 1.0]]}, "lower is not a rectangular array"),
        ({"n_columns": 7}, "'n_columns' says 7, but its arrays have 4"),
    ],
)
def test_from_dict_names_what_is_wrong(change, message):
    state = random_tree(*sample_data()).to_dict()
    state |= change
    state = {key: value for key, value in state.items() if value != "delete"}
    with pytest.raises(ValueError, match=message):
        HingeTree.from_dict(state)


def test_from_dict_refuses_another_type():
    with pytest.raises(ValueError, match="'format' must be"):
        HingeTree.from_dict([1, 2])


def with_value(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("children_left", 0, 99, r"children_left\[0\] is 99"),
        ("children_right", 0, 0, r"children_right\[0\] is 0"),
        ("children_left", 0, -1, "must be -1 in the same nodes"),
        ("children_left", 0, 2, "child of exactly one node"),
        ("split_kind", 0, 0, "split_kind must be 0 in leaves"),
        ("split_kind", 0, 7, "split_kind must be 0, 1, 2 or 3"),
        ("depth", 3, 9, "depth is"),
        ("coef", (1, 0, 0), np.nan, "coef holds NaN"),
        ("split_intercept", 0, np.inf, "split_intercept holds NaN or infinity"),
    ],
)
def test_constructor_refuses_what_is_no_tree(name, index, value, message):
    tree = random_tree(*sample_data())
    changed = with_value(getattr(tree, name), index, value)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(tree, **{name: changed})


@pytest.mark.parametrize("value", [0.5, np.nan, 300])
def test_constructor_refuses_numbers_that_are_no_integers(value):
    tree = random_tree(*sample_data())
    kinds = with_value(tree.split_kind.astype(float), 0, value)
    with pytest.raises(ValueError, match="split_kind must hold integers"):
        dataclasses.replace(tree, split_kind=kinds)


def test_constructor_refuses_wrong_dimensions():
    tree = random_tree(*sample_data())
    with pytest.raises(ValueError, match="split_coef must have the axes"):
        dataclasses.replace(tree, coef=tree.coef[:, 0])
    with pytest.raises(ValueError, match="at least one node, one output and one"):
        dataclasses.replace(tree, split_coef=tree.split_coef[:, :0])
