import numpy as np
import pytest
from hinge_tree_samples import TreeClassifier, TreeRegressor, random_tree, sample_data

from sklearn_ext.tree._regions import regions


@pytest.fixture(params=[0.0, 0.5, 1.0])
def model(request):
    Z, Y = sample_data(n_outputs=2)
    return TreeRegressor(random_tree(Z, Y, 10, axis_share=request.param)).fit()


def test_random_points_are_in_exactly_one_region(model):
    tree = model.tree_
    rng = np.random.default_rng(0)
    span = tree.upper[0] - tree.lower[0]
    Z = rng.uniform(tree.lower[0] - span, tree.upper[0] + span, (10_000, 4))
    found = regions(model)
    assert [region.leaf for region in found] == tree.leaves.tolist()
    slack = [r.b - Z @ r.A.T for r in found]
    inside = np.stack(
        [
            np.where(r.strict, s > 0, s >= 0).all(axis=1)
            for r, s in zip(found, slack, strict=True)
        ]
    )
    np.testing.assert_array_equal(inside.sum(axis=0), 1)
    np.testing.assert_array_equal(tree.leaves[inside.argmax(axis=0)], tree.apply(Z))
    for region, rows in zip(found, inside, strict=True):
        values = Z[rows] @ region.coef.T + region.intercept
        np.testing.assert_allclose(values, tree.predict(Z[rows]), rtol=1e-9, atol=1e-9)


def test_contains_is_exact_on_the_planes(model):
    tree = model.tree_
    rng = np.random.default_rng(0)
    Z = rng.uniform(tree.lower[0], tree.upper[0], (500, 4))
    inner = np.flatnonzero(tree.children_left >= 0)
    for z in Z:  # on a plane, as near as rounding allows
        node = rng.choice(inner)
        j = rng.choice(np.flatnonzero(tree.split_coef[node]))
        value = tree.split_coef[node] @ z + tree.split_intercept[node]
        z[j] -= value / tree.split_coef[node, j]
    inside = np.stack([region.contains(Z) for region in regions(model)])
    np.testing.assert_array_equal(inside.sum(axis=0), 1)
    np.testing.assert_array_equal(tree.leaves[inside.argmax(axis=0)], tree.apply(Z))


def test_the_open_side_is_the_left_one():
    Z = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = TreeRegressor(random_tree(Z, Z, n_leaves=2, axis_share=1.0)).fit()
    tree = model.tree_
    plane = np.array([[-tree.split_intercept[0] / tree.split_coef[0, 0]]])
    left, right = regions(model)
    assert (left.leaf, right.leaf) == (1, 2)
    assert left.strict.tolist() == [True]
    assert right.strict.tolist() == [False]
    assert not left.contains(plane)
    assert right.contains(plane)


def test_one_leaf_is_everywhere():
    model = TreeRegressor(random_tree(*sample_data(), n_leaves=1)).fit()
    [region] = regions(model)
    assert region.A.shape == (0, 4)
    assert region.contains([[1e9, -1e9, 0.0, 5.0]]).all()
    with pytest.raises(ValueError, match=r"design matrix of shape.*, 4\)"):
        region.contains([[1.0]])


def test_classifier_regions_hold_logits():
    tree = random_tree(*sample_data(n_outputs=3))
    for region in regions(TreeClassifier(tree).fit()):
        assert region.coef.shape == (3, 4)
        np.testing.assert_array_equal(region.coef, tree.coef[region.leaf])
