"""HRTClassifier: accuracy against CART, probabilities, labels, weights, leaf models."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_circles,
    make_moons,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_ext.tree import HRTClassifier, HRTRegressor

LEAF_MODELS = ("logistic", "linear", "constant")
each_leaf_model = pytest.mark.parametrize("leaf_model", LEAF_MODELS)


def blobs(n=150, k=3, seed=0):
    """Return rows of k overlapping classes, numbered from 0, and their numbers."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    angle = 2 * np.pi * y / k
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * np.cos(angle)
    X[:, 1] += 1.5 * np.sin(angle)
    return X, y


# -- against CART --------------------------------------------------------------------

SETS = {
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    # Every eighth row: the 64 columns of all 1797 take seconds a fit.
    "digits": lambda: tuple(part[::8] for part in load_digits(return_X_y=True)),
    "wine": lambda: load_wine(return_X_y=True),
    "moons": lambda: make_moons(1000, noise=0.25, random_state=0),
    "circles": lambda: make_circles(1000, noise=0.15, factor=0.5, random_state=0),
}
GRID = {"max_depth": [5, 7, 9, 11, None], "min_samples_leaf": [1, 4, 10, 20]}


@pytest.mark.parametrize("name", SETS)
def test_no_worse_than_tuned_cart(name):
    """Accuracy over three splits; log-loss on each, of a CART tuned for that."""
    X, y = SETS[name]()
    ours, peers = [], []
    for seed in (42, 43, 44):
        A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=seed)
        cart = GridSearchCV(
            DecisionTreeClassifier(random_state=0),
            GRID,
            cv=3,
            scoring=["accuracy", "neg_log_loss"],
            refit="accuracy",
        ).fit(A, a)
        best = cart.cv_results_["mean_test_neg_log_loss"].argmax()
        calm = DecisionTreeClassifier(random_state=0)
        calm.set_params(**cart.cv_results_["params"][best]).fit(A, a)
        model = HRTClassifier().fit(A, a)
        probability = model.predict_proba(B)
        assert probability.min() > 0
        assert probability.max() < 1
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        loss = log_loss(b, probability)
        assert loss < log_loss(b, cart.predict_proba(B))
        assert loss < log_loss(b, calm.predict_proba(B))
        ours.append(model.score(B, b))
        peers.append(cart.score(B, b))
    assert np.mean(ours) >= np.mean(peers) - 0.01


def test_each_leaf_model_learns_circles():
    X, y = SETS["circles"]()
    A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=0)
    loss = {}
    for leaf_model in LEAF_MODELS:
        model = HRTClassifier(leaf_model=leaf_model).fit(A, a)
        assert model.n_leaves_ > 2
        assert model.score(B, b) > 0.88
        loss[leaf_model] = log_loss(b, model.predict_proba(B))
    assert max(loss["logistic"], loss["linear"]) < loss["constant"] < 0.5
    line = LogisticRegression().fit(A, a)
    assert line.score(B, b) < 0.6


# -- probabilities -------------------------------------------------------------------


@each_leaf_model
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("pruning", ["cv", None])
def test_probabilities(leaf_model, k, pruning):
    X, y = blobs(200, k)
    model = HRTClassifier(leaf_model=leaf_model, pruning=pruning).fit(X, y)
    far = 50.0 * blobs(100, k, seed=1)[0]
    for rows in (X, far):
        probability = model.predict_proba(rows)
        assert probability.shape == (len(rows), k)
        assert probability.min() > 0
        assert probability.max() < 1
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            model.predict_log_proba(rows), np.log(probability), rtol=1e-12
        )
        expected = model.classes_[probability.argmax(axis=1)]
        np.testing.assert_array_equal(model.predict(rows), expected)


@each_leaf_model
def test_probabilities_follow_from_the_tree(leaf_model):
    X, y = blobs()
    model = HRTClassifier(leaf_model=leaf_model, pruning=None).fit(X, y)
    new = blobs(60, seed=1)[0]
    leaf, tree = model.apply(new), model.tree_
    value = np.einsum("nkd,nd->nk", tree.coef[leaf], new) + tree.intercept[leaf]
    if leaf_model == "logistic":
        expected = softmax(value, axis=1)
    else:
        expected = np.clip(value, 1e-3, 1.0)
        expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(new), expected, atol=1e-10)
    if leaf_model == "constant":
        assert not tree.coef.any()
    assert model.n_leaves_ > 2


def test_linear_leaves_are_the_regressor_on_indicators():
    X, y = blobs()
    params = {"pruning": "aic", "leaf_shrinkage": 5.0}
    classifier = HRTClassifier(leaf_model="linear", **params).fit(X, y)
    regressor = HRTRegressor(clip=None, **params).fit(X, np.eye(3)[y])
    new = blobs(60, seed=1)[0]
    np.testing.assert_array_equal(classifier.apply(new), regressor.apply(new))
    share = np.clip(regressor.predict(new), 1e-3, 1.0)
    share /= share.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(classifier.predict_proba(new), share, atol=1e-10)


@each_leaf_model
def test_decision_function_of_two_classes(leaf_model):
    X, y = blobs(k=2)
    y = np.array(["no", "yes"])[y]
    model = HRTClassifier(leaf_model=leaf_model).fit(X, y)
    score = model.decision_function(X)
    assert score.shape == (len(X),)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(score, np.log(probability[:, 1] / probability[:, 0]))
    decided = score != 0
    np.testing.assert_array_equal(
        (score > 0)[decided], (model.predict(X) == "yes")[decided]
    )
    assert decided.any()


def test_decision_function_of_more_classes():
    X, y = blobs()
    model = HRTClassifier().fit(X, y)
    score = model.decision_function(X)
    assert score.shape == (len(X), 3)
    np.testing.assert_array_equal(score, model.predict_log_proba(X))
    np.testing.assert_array_equal(score.argmax(axis=1), model.predict(X))


# -- labels --------------------------------------------------------------------------

LABELS = {
    "int": np.array([7, -3, 0]),
    "uint8": np.array([7, 200, 0], dtype=np.uint8),
    "float": np.array([1.0, 2.0, -1.0]),
    "str": np.array(["b", "", "a long name"]),
    "object": np.array(["b", "c", "a"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(kind):
    X, y = blobs()
    order = np.argsort(LABELS[kind])
    plain = HRTClassifier().fit(X, np.argsort(order)[y])
    labels = LABELS[kind][y]
    model = HRTClassifier().fit(X, labels)
    np.testing.assert_array_equal(model.classes_, LABELS[kind][order])
    assert model.classes_.dtype == LABELS[kind].dtype
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.predict(X).dtype == labels.dtype
    assert model.score(X, labels) > 0.7


def test_boolean_labels():
    X, y = blobs(k=2)
    model = HRTClassifier().fit(X, y == 1)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(X).dtype == bool
    expected = HRTClassifier().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("make", ["list", "category", "string", "polars"])
def test_labels_in_other_containers(make):
    X, y = blobs()
    labels = np.array(["one", "two", "three"])[y]
    if make == "polars":
        given = pytest.importorskip("polars").Series(labels)
    elif make == "list":
        given = labels.tolist()
    else:
        given = pytest.importorskip("pandas").Series(labels, dtype=make)
    model = HRTClassifier().fit(X, given)
    assert list(model.classes_) == ["one", "three", "two"]
    expected = HRTClassifier().fit(X, labels).predict(X)
    np.testing.assert_array_equal(model.predict(X).astype(str), expected)


@each_leaf_model
def test_one_class_only(leaf_model):
    X, _ = blobs()
    model = HRTClassifier(leaf_model=leaf_model).fit(X, np.full(len(X), "only"))
    assert model.classes_.tolist() == ["only"]
    assert model.n_leaves_ == 1
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.zeros((len(X), 1)))
    assert (model.predict(X) == "only").all()
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(3))


@each_leaf_model
@pytest.mark.parametrize(
    ("k", "pruning"), [(2, "cv"), (3, "aic"), (4, "bic"), (3, None)]
)
def test_the_order_of_the_classes_does_not_matter(leaf_model, k, pruning):
    """With "cv" and three classes it may: the folds are dealt out in their order."""
    X, y = blobs(k=k)
    model = HRTClassifier(leaf_model=leaf_model, pruning=pruning)
    first = model.fit(X, y).predict_proba(X)
    swapped = model.fit(X, k - 1 - y).predict_proba(X)
    np.testing.assert_allclose(swapped[:, ::-1], first, rtol=0, atol=1e-6)


@each_leaf_model
def test_a_class_of_one_row(leaf_model):
    X, y = blobs(60)
    y[y == 2] = 0
    y[5] = 2
    probability = HRTClassifier(leaf_model=leaf_model).fit(X, y).predict_proba(X)
    assert probability.shape == (60, 3)
    assert probability.min() > 0


# -- weights -------------------------------------------------------------------------


@each_leaf_model
@pytest.mark.parametrize("pruning", ["cv", "aic", "bic", None])
@pytest.mark.parametrize("rows", ["seen", "new"])
def test_weights_are_repetitions(leaf_model, pruning, rows):
    X, y = blobs(100)
    times = np.random.default_rng(1).integers(0, 4, len(X))
    params = {"leaf_model": leaf_model, "pruning": pruning}
    weighted = HRTClassifier(**params).fit(X, y, sample_weight=times)
    repeated = HRTClassifier(**params).fit(np.repeat(X, times, 0), np.repeat(y, times))
    assert weighted.n_leaves_ == repeated.n_leaves_
    new = {"seen": X[times > 0], "new": blobs(100, seed=1)[0]}[rows]
    np.testing.assert_allclose(
        weighted.predict_proba(new), repeated.predict_proba(new), rtol=0, atol=1e-8
    )


def test_weights_are_repetitions_with_balanced_classes():
    X, y = blobs(100)
    times = np.where(y == 1, 3, 1)
    model = HRTClassifier(class_weight="balanced")
    weighted = model.fit(X, y, sample_weight=times).predict_proba(X)
    repeated = model.fit(np.repeat(X, times, 0), np.repeat(y, times)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-8)


@each_leaf_model
@pytest.mark.parametrize(
    "weights", [{0: 1.0, 1: 4.0, 2: 0.5}, {1: 4.0}, "balanced"], ids=str
)
def test_class_weights_are_row_weights(leaf_model, weights):
    X, y = blobs(120)
    y[::3] = 0  # unequal shares
    if weights == "balanced":
        row = (len(y) / (3 * np.bincount(y)))[y]
    else:
        row = np.array([weights.get(k, 1.0) for k in range(3)])[y]
    params = {"leaf_model": leaf_model, "pruning": "aic"}
    model = HRTClassifier(class_weight=weights, **params).fit(X, y)
    expected = HRTClassifier(**params).fit(X, y, sample_weight=row).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0, atol=1e-10)
    plain = HRTClassifier(**params).fit(X, y).predict_proba(X)
    assert np.abs(plain - expected).max() > 0.05
    both = model.fit(X, y, sample_weight=1.0 + y).predict_proba(X)
    peer = HRTClassifier(**params).fit(X, y, sample_weight=row * (1.0 + y))
    np.testing.assert_allclose(both, peer.predict_proba(X), rtol=0, atol=1e-10)


def test_balanced_weights_find_a_rare_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.zeros(600, dtype=int)
    y[:30] = 1
    X[:30] += 1.2
    recall = {}
    for weights in (None, "balanced"):
        model = HRTClassifier(class_weight=weights).fit(X, y)
        recall[weights] = np.mean(model.predict(X)[y == 1] == 1)
    assert recall["balanced"] > 0.7
    assert recall["balanced"] > recall[None] + 0.2


# -- the model of a leaf -------------------------------------------------------------


def standardised(X, weight):
    scaler = StandardScaler().fit(X, sample_weight=weight)
    return scaler.transform(X)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_single_leaf_is_a_logistic_regression(k, alpha, weighted):
    """Up to the row at the mean, which belongs to all classes alike."""
    X, y = blobs(150, k)
    X *= [1e3, 1.0, 1e-3]
    weight = np.ones(len(X))
    if weighted:
        weight = np.random.default_rng(1).uniform(0.2, 3.0, len(X))
    model = HRTClassifier(max_leaf_nodes=1, alpha=alpha)
    model.fit(X, y, sample_weight=weight)
    Z = standardised(X, weight)
    rows = np.vstack([Z, np.zeros((k, 3))])
    labels = np.concatenate([y, np.arange(k)])
    weights = np.concatenate([weight, np.full(k, 1.0 / k)])
    # With two classes the peer's one slope is the difference of our two.
    C = (2.0 if k == 2 else 1.0) / alpha
    peer = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    peer.fit(rows, labels, sample_weight=weights)
    got, expected = model.predict_proba(X), peer.predict_proba(Z)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


def test_a_pure_leaf_claims_n_of_n_plus_one():
    """The row at the mean is what keeps a leaf from certainty: check its weight."""
    x = np.concatenate([np.linspace(-2, -1, 20), np.linspace(1, 2, 20)])[:, None]
    X = np.hstack([np.zeros((40, 1)), np.ones((40, 1))])
    y = np.repeat([0, 1], [30, 10])
    model = HRTClassifier(max_leaf_nodes=1, alpha=1e9).fit(np.hstack([x, X]), y)
    share = (np.array([30, 10]) + 0.5) / 41
    np.testing.assert_allclose(
        model.predict_proba(np.zeros((1, 3)))[0], share, atol=1e-6
    )


@pytest.mark.parametrize("shrinkage", [0.0, 2.0, 20.0])
def test_a_leaf_minimises_the_penalised_likelihood(shrinkage):
    """Each child: ridge, pull to the parent, and one row at its mean."""
    X, y = blobs(150)
    alpha, weight = 0.5, np.ones(150)
    model = HRTClassifier(
        max_leaf_nodes=2, pruning=None, alpha=alpha, leaf_shrinkage=shrinkage
    ).fit(X, y)
    assert model.n_leaves_ == 2
    assert model.leaf_shrinkage_ == shrinkage
    mean, scale = X.mean(axis=0), X.std(axis=0)
    Z = np.column_stack([standardised(X, weight), np.ones(len(X))])
    tree, leaf = model.tree_, model.apply(X)

    def in_units(node):
        slope, constant = tree.coef[node] * scale, tree.intercept[node]
        return np.column_stack([slope, constant + tree.coef[node] @ mean]).T

    parent = in_units(0)
    for node in tree.leaves:
        rows = Z[leaf == node]
        centre = rows.mean(axis=0)
        A = np.vstack([rows, centre])
        share = np.vstack([np.eye(3)[y[leaf == node]], softmax(centre @ parent)])

        def loss(flat, A=A, share=share):
            theta = flat.reshape(4, 3)
            fit = -np.sum(share * log_softmax(A @ theta, axis=1))
            ridge = alpha * np.sum(theta[:3] ** 2)
            pull = shrinkage * np.sum((theta[:3] - parent[:3]) ** 2)
            return fit + 0.5 * (ridge + pull)

        start = parent.ravel()
        best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
        got = loss(in_units(node).ravel())
        assert got <= best.fun + 1e-4 * (1 + best.fun)
        assert got < loss(start)
        expected = softmax(rows @ best.x.reshape(4, 3), axis=1)
        np.testing.assert_allclose(
            model.predict_proba(X[leaf == node]), expected, rtol=0, atol=5e-3
        )


def test_the_default_shrinkage():
    X, y = blobs()
    assert HRTClassifier().fit(X, y).leaf_shrinkage_ == 20.0
    assert HRTClassifier(leaf_shrinkage=3).fit(X, y).leaf_shrinkage_ == 3.0
    linear = HRTClassifier(leaf_model="linear", pruning="aic").fit(X, y)
    assert linear.leaf_shrinkage_ == 5.0


def test_separable_classes_stay_calm():
    """No ridge and a plane that separates: logits end, nothing warns."""
    X, _ = blobs()
    y = (X[:, 0] > 0).astype(int)
    model = HRTClassifier(alpha=0.0, leaf_shrinkage=0.0, pruning=None).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.tree_.coef).all()
    probability = model.predict_proba(X)
    assert probability.min() > 0
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_both_kernels_give_the_same_classifier():
    X, y = blobs()
    numba = HRTClassifier(kernel="numba").fit(X, y).predict_proba(X)
    torch = HRTClassifier(kernel="torch").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(numba, torch, rtol=0, atol=1e-6)
