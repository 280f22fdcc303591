"""Degenerate and wrong input: what is refused, in which words, and what is borne.

The first half follows the table "Bad input" of the specification row by row, the
second holds numbers at the edge of what a float can say.
"""

import inspect
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_ext.datasets import load_concrete
from sklearn_ext.exceptions import DeviceUnavailableError
from sklearn_ext.tree import HRTClassifier, HRTRegressor

both = pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])
each_table = pytest.mark.parametrize("columns", [None, [0]], ids=["plain", "category"])
READERS = {
    HRTRegressor: ("predict", "apply", "decision_path", "gradient"),
    HRTClassifier: (
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "apply",
        "decision_path",
    ),
}


def data(n=80, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.abs(X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=n)
    return X, y


def target(cls, y):
    """Return y, or for the classifier whether y is above its median, as a string."""
    if cls is HRTRegressor:
        return y
    return np.where(y > np.median(y), "high", "low")


def scores(model, X):
    """Return what the model says of X as numbers: predictions or probabilities."""
    classifier = isinstance(model, HRTClassifier)
    return model.predict_proba(X) if classifier else model.predict(X)


def with_value(X, value, row=3, column=1):
    X = X.copy()
    X[row, column] = value
    return X


# -- shapes and types that are refused -----------------------------------------------

REFUSED = {
    "no rows": (np.empty((0, 3)), "0 sample"),
    "no columns": (np.empty((80, 0)), "0 feature|categorical_features"),
    "one-dimensional": (np.arange(80.0), "Expected 2D array|2-dimensional|1D"),
    "scalar": (3.0, "Expected 2D array|scalar"),
    "three-dimensional": (np.ones((80, 2, 2)), "dim 3|3 dimension|2D"),
    "ragged": ([[1, 2], [3]] * 40, "inhomogeneous|2D|ragged"),
    "strings": ([["a", "b"], ["c", "d"]] * 40, "could not convert|not numeric"),
    "complex": (data()[0] + 1j, "[Cc]omplex"),
}


@both
@each_table
@pytest.mark.parametrize("case", REFUSED)
def test_wrong_shapes_and_types_are_refused(cls, columns, case):
    X, words = REFUSED[case]
    y = target(cls, data()[1])[: 1 if case == "scalar" else len(X)]
    with pytest.raises(ValueError, match=words):
        cls(categorical_features=columns).fit(X, y)


@both
def test_a_text_column_is_named_with_the_remedy(cls):
    X = np.array([["a", "b"], ["c", "d"]] * 40, dtype=object)
    model = cls(categorical_features=[0])
    with pytest.raises(ValueError, match=r"'x1' is not numeric.*categorical_features"):
        model.fit(X, target(cls, data()[1]))


@both
@each_table
def test_lengths_that_differ_are_refused(cls, columns):
    X, y = data()
    y = target(cls, y)
    model = cls(categorical_features=columns)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:50])
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(50))


@both
def test_y_is_required(cls):
    with pytest.raises(ValueError, match=f"{cls.__name__} estimator requires y"):
        cls().fit(data()[0], None)


# -- few rows ------------------------------------------------------------------------


def ridge_by_hand(X, y, weight, alpha):
    """Return scikit-learn's ridge in columns standardised with the weights."""
    mean = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    scale[scale == 0] = 1.0
    ridge = Ridge(alpha=alpha).fit((X - mean) / scale, y, sample_weight=weight)
    return ridge.coef_ / scale


@pytest.mark.parametrize("n", range(2, 10))
def test_too_few_rows_to_split_give_one_ridge_leaf(n):
    X, y = data(n)
    weight = np.linspace(0.5, 9.0, n)
    weight *= 9.0 / weight.sum()  # less than twice min_samples_leaf
    model = HRTRegressor(clip=None).fit(X, y, sample_weight=weight)
    assert model.n_leaves_ == 1
    expected = ridge_by_hand(X, y, weight, alpha=0.1)
    np.testing.assert_allclose(model.tree_.coef[0, 0], expected, atol=1e-8)
    centre = np.average(X, axis=0, weights=weight)[None]
    mean = np.average(y, weights=weight)
    np.testing.assert_allclose(model.predict(centre), mean, atol=1e-10)


@pytest.mark.parametrize("leaf_model", ["linear", "constant"])
def test_one_row_is_a_constant(leaf_model):
    X, y = data(1)
    model = HRTRegressor(leaf_model=leaf_model).fit(X, y)
    assert model.n_leaves_ == 1
    assert not model.tree_.coef.any()
    np.testing.assert_array_equal(model.predict(data(5, seed=1)[0]), np.repeat(y, 5))


def test_one_row_is_one_class():
    X, _ = data(1)
    model = HRTClassifier().fit(X, ["only"])
    assert model.predict(data(3, seed=1)[0]).tolist() == ["only"] * 3
    np.testing.assert_array_equal(model.predict_proba(X), [[1.0]])


def test_min_samples_leaf_decides_whether_there_is_a_split():
    x = np.linspace(-1, 1, 40)[:, None]
    model = HRTRegressor(min_samples_leaf=20, pruning=None)
    assert model.fit(x, np.abs(x[:, 0])).n_leaves_ == 2
    x = x[1:]
    assert model.fit(x, np.abs(x[:, 0])).n_leaves_ == 1


@pytest.mark.parametrize("pruning", ["cv", "aic", "bic", None])
@pytest.mark.parametrize("n", range(1, 13))
def test_any_few_rows_can_be_fitted(n, pruning):
    X, y = data(n, seed=n)
    new = data(20, seed=99)[0]
    value = HRTRegressor(pruning=pruning).fit(X, y).predict(new)
    assert (value >= y.min()).all()
    assert (value <= y.max()).all()
    labels = np.array(["low", "mid", "high"])[np.arange(n) % 3]
    model = HRTClassifier(pruning=pruning).fit(X, labels)
    probability = model.predict_proba(new)
    assert probability.shape == (20, min(n, 3))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=0, atol=1e-12)


# -- nothing varies ------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 3.7, -1.0 / 3.0, 1e15, 1e-15, 1e300])
def test_a_constant_target_is_met_exactly(value):
    X, _ = data()
    model = HRTRegressor().fit(X, np.full(len(X), value))
    assert model.n_leaves_ == 1
    np.testing.assert_array_equal(model.predict(2.0 * X), value)
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(3))


def test_one_constant_output_beside_another():
    X, y = data()
    model = HRTRegressor().fit(X, np.stack([np.full(len(y), 0.1), y], axis=1))
    np.testing.assert_array_equal(model.predict(X)[:, 0], 0.1)
    assert np.std(model.predict(X)[:, 1]) > 0.5


@both
@pytest.mark.parametrize("value", [0.0, 7.0, -0.1, 1e12, 1e-300])
def test_a_constant_column_has_no_part(cls, value):
    X, y = data()
    y = target(cls, y)
    X[:, 1] = value
    model = cls(pruning=None).fit(X, y)
    assert not model.tree_.coef[:, :, 1].any()
    assert not model.tree_.split_coef[:, 1].any()
    assert model.feature_importances_[1] == 0.0
    later = X.copy()
    later[:, 1] = np.random.default_rng(1).normal(scale=1e6, size=len(X))
    np.testing.assert_array_equal(scores(model, later), scores(model, X))


@pytest.mark.parametrize("leaf_model", ["linear", "constant"])
@pytest.mark.parametrize("pruning", ["cv", None])
def test_all_columns_constant_give_the_mean(leaf_model, pruning):
    _, y = data()
    weight = np.linspace(1, 2, len(y))
    model = HRTRegressor(leaf_model=leaf_model, pruning=pruning)
    model.fit(np.ones((len(y), 2)), y, sample_weight=weight)
    assert model.n_leaves_ == 1
    mean = np.average(y, weights=weight)
    np.testing.assert_allclose(model.predict([[5.0, -3.0]]), mean, rtol=1e-12)
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(2))


@pytest.mark.parametrize("leaf_model", ["logistic", "linear", "constant"])
def test_all_columns_constant_give_the_class_shares(leaf_model):
    y = np.repeat(["a", "b", "c"], [60, 30, 10])
    model = HRTClassifier(leaf_model=leaf_model).fit(np.ones((100, 2)), y)
    assert model.n_leaves_ == 1
    share = np.array([0.6, 0.3, 0.1])
    if leaf_model == "logistic":  # one more row, a third of it in each class
        share = (100 * share + 1 / 3) / 101
    np.testing.assert_allclose(model.predict_proba([[4.0, 2.0]])[0], share, atol=1e-6)


# -- columns that say the same -------------------------------------------------------

MINIMAL = {
    "alpha": 0.0,
    "leaf_shrinkage": 0.0,
    "min_samples_leaf": 10,
    "clip": None,
}


@pytest.mark.parametrize("pruning", ["cv", "aic", None])
def test_a_duplicate_column_without_ridge(pruning):
    X, y = data(200)
    twice = np.hstack([X, X[:, :1]])
    alone = HRTRegressor(pruning=pruning, **MINIMAL).fit(X, y)
    model = HRTRegressor(pruning=pruning, **MINIMAL).fit(twice, y)
    new = data(100, seed=1)[0]
    value = model.predict(np.hstack([new, new[:, :1]]))
    np.testing.assert_allclose(value, alone.predict(new), rtol=0, atol=1e-6)
    assert model.n_leaves_ == alone.n_leaves_ > 1
    slope = model.tree_.coef[model.tree_.leaves, 0]
    # The smallest norm shares the slope equally, up to the jitter of the solver.
    np.testing.assert_allclose(slope[:, 0], slope[:, 3], rtol=0, atol=2e-3)


def test_a_linear_combination_without_ridge():
    X, y = data(200)

    def wide(X):
        return np.hstack([X, (X[:, :1] + 2.0 * X[:, 1:2] - 3.0)])

    alone = HRTRegressor(max_leaf_nodes=1, **MINIMAL).fit(X, y)
    model = HRTRegressor(max_leaf_nodes=1, **MINIMAL).fit(wide(X), y)
    new = data(100, seed=1)[0]
    np.testing.assert_allclose(
        model.predict(wide(new)), alone.predict(new), rtol=0, atol=1e-6
    )
    Z = wide(X)
    scale = Z.std(axis=0)  # smallest norm in standardised columns
    least = np.linalg.pinv((Z - Z.mean(axis=0)) / scale) @ (y - y.mean()) / scale
    np.testing.assert_allclose(model.tree_.coef[0, 0], least, rtol=0, atol=2e-3)


@both
def test_duplicate_rows_and_columns_without_ridge_stay_finite(cls):
    X, y = data(30)
    X, y = np.tile(X[:, [0, 0, 1, 1, 2]], (3, 1)), np.tile(y, 3)
    model = cls(alpha=0.0, leaf_shrinkage=0.0, pruning=None).fit(X, target(cls, y))
    assert np.isfinite(scores(model, X)).all()
    assert np.abs(model.tree_.coef).max() < 1e6


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_flag_in_front_does_not_hide_the_other_columns(share):
    X, y = load_concrete(return_X_y=True)
    rng = np.random.default_rng(0)
    flag = (rng.random((len(X), 1)) < share).astype(float)
    train = rng.permutation(len(X)) < len(X) // 2

    def error(X):
        model = HRTRegressor().fit(X[train], y[train])
        assert model.n_leaves_ > 1
        return np.sqrt(np.mean((model.predict(X[~train]) - y[~train]) ** 2))

    assert error(np.hstack([flag, X])) <= 1.05 * error(X)


# -- missing values ------------------------------------------------------------------


@both
def test_missing_values_are_the_mean_and_a_mark(cls):
    X, y = data(150)
    rng = np.random.default_rng(1)
    gone = rng.random(len(X)) < 0.3
    y = target(cls, y + 2.0 * gone)
    weight = rng.integers(1, 4, len(X)).astype(float)
    holes = X.copy()
    holes[gone, 1] = np.nan
    mean = np.average(X[~gone, 1], weights=weight[~gone])

    def by_hand(holes):
        gone = np.isnan(holes[:, 1])
        filled = np.where(gone, mean, holes[:, 1])
        return np.column_stack([holes[:, 0], filled, gone, holes[:, 2]])

    model = cls().fit(holes, y, sample_weight=weight)
    assert model.columns_.names == ["x0", "x1", "x1 is missing", "x2"]
    expected = cls(missing="error").fit(by_hand(holes), y, sample_weight=weight)
    new = data(60, seed=2)[0]
    new[::4, 1] = np.nan
    np.testing.assert_allclose(
        scores(model, new), scores(expected, by_hand(new)), rtol=0, atol=1e-10
    )
    total = expected.feature_importances_
    np.testing.assert_allclose(
        model.feature_importances_, [total[0], total[1] + total[2], total[3]]
    )


def test_the_mark_learns_an_offset():
    X, y = data(200)
    gone = np.random.default_rng(1).random(len(X)) < 0.3
    holes = X.copy()
    holes[gone, 1] = np.nan
    model = HRTRegressor(clip=None).fit(holes, y + 3.0 * gone)
    new = data(100, seed=2)[0]
    new[:, 1] = model.columns_.mean[1]
    filled = model.predict(new)
    new[:, 1] = np.nan
    assert np.mean(model.predict(new) - filled) == pytest.approx(3.0, abs=0.3)


@both
def test_new_missing_values_are_the_mean_with_one_warning(cls):
    X, y = data()
    X[::9, 2] = np.nan
    model = cls().fit(X, target(cls, y))
    filled = with_value(X, X[:, 1].mean())
    filled[5, 0] = X[:, 0].mean()
    holes = with_value(with_value(X, np.nan), np.nan, 5, 0)
    for method in READERS[cls]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = getattr(model, method)(holes)
        assert [w.category for w in caught] == [UserWarning]
        words = str(caught[0].message)
        assert "'x0'" in words
        assert "'x1'" in words
        assert "x2" not in words
        assert "mean" in words
        assert "Fit on data" in words
        expected = getattr(model, method)(filled)
        if method == "decision_path":
            got, expected = got.toarray(), expected.toarray()
        np.testing.assert_array_equal(got, expected)


@both
def test_the_warning_points_at_the_caller(cls):
    X, y = data()
    model = cls().fit(X, target(cls, y))
    with pytest.warns(UserWarning, match="missing values") as caught:
        model.predict(with_value(X, np.nan))
    assert caught[0].filename == __file__


@both
def test_a_column_without_values_is_a_constant(cls):
    X, y = data(150)
    y = target(cls, y)
    holes = X.copy()
    holes[:, 1] = np.nan
    model = cls(pruning=None).fit(holes, y)
    alone = cls(pruning=None).fit(X[:, [0, 2]], y)
    expected = scores(alone, X[:, [0, 2]])
    np.testing.assert_allclose(scores(model, holes), expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(scores(model, X), expected, rtol=0, atol=1e-8)
    assert model.feature_importances_[1] == 0.0


@pytest.mark.parametrize("pruning", ["cv", None])
def test_no_values_at_all_give_the_mean(pruning):
    _, y = data()
    model = HRTRegressor(pruning=pruning).fit(np.full((len(y), 2), np.nan), y)
    assert model.n_leaves_ == 1
    np.testing.assert_allclose(model.predict([[1.0, np.nan]]), y.mean(), rtol=1e-12)


@both
@each_table
def test_missing_values_can_be_refused(cls, columns):
    X, y = data()
    X[:, 0] = X[:, 0] > 0
    y, holes = target(cls, y), with_value(X, np.nan)
    model = cls(missing="error", categorical_features=columns)
    assert not model.__sklearn_tags__().input_tags.allow_nan
    assert cls().__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match=rf"X contains NaN.\n{cls.__name__}"):
        model.fit(holes, y)
    with pytest.raises(ValueError, match=rf"X contains NaN.\n{cls.__name__}"):
        model.fit(X, y).predict(holes)


# -- infinities, weights -------------------------------------------------------------


@both
@each_table
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("missing", ["impute", "error"])
def test_infinity_in_x_is_refused(cls, columns, value, missing):
    X, y = data()
    X[:, 0] = X[:, 0] > 0
    y = target(cls, y)
    model = cls(categorical_features=columns, missing=missing)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.fit(with_value(X, value), y)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.fit(X, y).predict(with_value(X, value))


@each_table
@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")],
)
def test_targets_and_weights_must_be_finite(columns, value, words):
    X, y = data()
    bad = y.copy()
    bad[3] = value
    model = HRTRegressor(categorical_features=columns)
    with pytest.raises(ValueError, match=f"Input y contains {words}"):
        model.fit(X, bad)
    with pytest.raises(ValueError, match=f"Input y contains {words}"):
        model.fit(X, np.stack([y, bad], axis=1))
    classifier = HRTClassifier(categorical_features=columns)
    with pytest.raises(ValueError, match=f"Input y contains {words}"):
        classifier.fit(X, np.where(np.isfinite(bad), 1.0, bad))
    for estimator in (model, classifier):
        with pytest.raises(ValueError, match=f"sample_weight contains {words}"):
            estimator.fit(X, y > 0, sample_weight=bad)


@both
def test_weights_below_zero_are_refused(cls):
    X, y = data()
    weight = np.ones(len(y))
    weight[7] = -0.25
    with pytest.raises(
        ValueError, match=r"sample_weight must not be negative, got -0.25; .*weight 0"
    ):
        cls().fit(X, target(cls, y), sample_weight=weight)


@both
def test_weights_that_are_all_zero_are_refused(cls):
    X, y = data()
    with pytest.raises(ValueError, match=r"(?i)sample.weight.*(non-zero|positive)"):
        cls().fit(X, target(cls, y), sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize(
    "weights",
    [
        {"high": -1.0, "low": 1.0},
        {"high": np.nan, "low": 1.0},
        {"high": np.inf, "low": 1.0},
        {"high": 0.0, "low": 0.0},
    ],
    ids=["negative", "nan", "inf", "all zero"],
)
def test_class_weights_must_be_weights(weights):
    X, y = data()
    with pytest.raises(ValueError, match="class_weight"):
        HRTClassifier(class_weight=weights).fit(X, target(HRTClassifier, y))


@both
@pytest.mark.parametrize(
    "params",
    [{}, {"clip": "leaf"}, {"pruning": "bic"}, {"pruning": None, "n_bins": 4}],
    ids=str,
)
def test_rows_of_weight_zero_might_as_well_not_be_there(cls, params):
    if cls is HRTClassifier:
        params = {k: v for k, v in params.items() if k != "clip"}
    X, y = data(120)
    y = target(cls, y)
    ghost = np.array([[1e6, -1e6, np.nan], [np.nan, 1e9, 0.0], [-1e12, 0.0, 1.0]])
    label = [1e9, -1e9, 0.0] if cls is HRTRegressor else ["high", "low", "high"]
    weight = np.random.default_rng(3).integers(1, 3, len(X)).astype(float)
    alone = cls(**params).fit(X, y, sample_weight=weight)
    model = cls(**params).fit(
        np.vstack([ghost, X]),
        np.concatenate([label, y]),
        sample_weight=np.concatenate([np.zeros(3), weight]),
    )
    assert model.columns_.names == alone.columns_.names
    assert model.n_leaves_ == alone.n_leaves_
    new = 3.0 * data(100, seed=1)[0]
    np.testing.assert_allclose(
        scores(model, new), scores(alone, new), rtol=0, atol=1e-8
    )


def test_rows_of_weight_zero_do_not_count_in_balanced_weights():
    X, y = data(120)
    y = target(HRTClassifier, y)
    model = HRTClassifier(class_weight="balanced")
    alone = model.fit(X, y).predict_proba(X)
    weight = np.concatenate([np.zeros(60), np.ones(120)])
    ghosts = np.full(60, "high")
    model.fit(np.vstack([X[:60], X]), np.concatenate([ghosts, y]), sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), alone, rtol=0, atol=1e-8)


# -- other shapes and containers -----------------------------------------------------


@both
def test_columns_of_very_different_size(cls):
    X, y = data(150)
    y = target(cls, y)
    unit = np.array([1e15, 1e-15, 1.0])
    model = cls().fit(X * unit, y)
    np.testing.assert_allclose(
        scores(model, X * unit), scores(cls().fit(X, y), X), rtol=0, atol=1e-6
    )


@both
def test_a_column_vector_as_y_is_ravelled_with_a_warning(cls):
    X, y = data()
    y = target(cls, y)
    with pytest.warns(DataConversionWarning, match="column-vector y") as caught:
        model = cls().fit(X, y[:, None])
    assert len(caught) == 1
    assert model.predict(X).shape == (len(X),)
    np.testing.assert_array_equal(model.predict(X), cls().fit(X, y).predict(X))


def test_several_targets():
    X, y = data()
    model = HRTRegressor().fit(X, np.stack([y, -y, X[:, 1]], axis=1))
    assert model.n_outputs_ == 3
    assert model.predict(X).shape == (len(X), 3)
    assert model.predict(X[:1]).shape == (1, 3)
    assert model.gradient(X).shape == (len(X), 3, 3)
    with pytest.raises(ValueError, match="1d array"):
        HRTClassifier().fit(X, np.stack([y > 0, y < 0], axis=1))


def _memmap(values, folder):
    path = folder / "values.npy"
    np.save(path, values)
    return np.load(path, mmap_mode="r")


INTEGERS = np.round(4.0 * data(80)[0])
CONTAINERS = {
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "big endian": lambda X: X.astype(">f8"),
    "object": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1][::-1],
    "pandas": lambda X: pytest.importorskip("pandas").DataFrame(X),
    "pandas float32": lambda X: pytest.importorskip("pandas").DataFrame(
        X.astype("float32")
    ),
    "pandas Int64": lambda X: (
        pytest.importorskip("pandas").DataFrame(X).astype("Int64")
    ),
    "polars": lambda X: pytest.importorskip("polars").DataFrame(X),
}


@both
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_model(cls, name):
    X = INTEGERS
    y = target(cls, data(80)[1])
    expected = scores(cls().fit(X, y), X)
    given = CONTAINERS[name](X)
    model = cls().fit(given, y)
    np.testing.assert_allclose(scores(model, given), expected, rtol=0, atol=1e-10)
    assert scores(model, given).dtype == np.float64


@both
def test_boolean_columns(cls):
    X, y = data(80)
    y = target(cls, y)
    model = cls().fit(X > 0, y)
    expected = scores(cls().fit((X > 0).astype(float), y), X > 0)
    np.testing.assert_allclose(scores(model, X > 0), expected, rtol=0, atol=1e-10)


@both
def test_read_only_memmaps(cls, tmp_path):
    X, y = data(80)
    weight = np.linspace(1, 2, len(y))
    mapped = _memmap(X, tmp_path)
    assert not mapped.flags.writeable
    labels = target(cls, y)
    frozen, weights = labels.copy(), weight.copy()
    frozen.setflags(write=False)
    weights.setflags(write=False)
    warned = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else torch warns once in the life of a process
    try:
        model = cls().fit(mapped, frozen, sample_weight=weights)
    finally:
        torch.set_warn_always(warned)
    expected = scores(cls().fit(X, labels, sample_weight=weight), X)
    np.testing.assert_allclose(scores(model, mapped), expected, rtol=0, atol=1e-10)
    for method in READERS[cls]:
        getattr(model, method)(mapped)


@pytest.mark.parametrize(
    "kind", ["list", "float32", "big endian", "int", "pandas", "polars", "object"]
)
def test_targets_and_weights_in_other_containers(kind):
    X, y = data(80)
    y = np.round(4.0 * y)
    weight = np.arange(len(y)) % 3 + 1.0
    make = {
        "list": np.ndarray.tolist,
        "float32": lambda v: v.astype("float32"),
        "big endian": lambda v: v.astype(">f8"),
        "int": lambda v: v.astype(int),
        "pandas": lambda v: pytest.importorskip("pandas").Series(v, index=v[::-1]),
        "polars": lambda v: pytest.importorskip("polars").Series(v),
        "object": lambda v: v.astype(object),
    }[kind]
    expected = HRTRegressor().fit(X, y, sample_weight=weight).predict(X)
    got = HRTRegressor().fit(X, make(y), sample_weight=make(weight)).predict(X)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


def test_a_boolean_target_is_zeros_and_ones():
    X, y = data()
    got = HRTRegressor().fit(X, y > 1).predict(X)
    np.testing.assert_array_equal(got, HRTRegressor().fit(X, (y > 1) * 1.0).predict(X))


@both
@each_table
def test_another_number_of_columns_is_refused(cls, columns):
    X, y = data()
    X[:, 0] = X[:, 0] > 0
    model = cls(categorical_features=columns).fit(X, target(cls, y))
    words = f"X has 2 features, but {cls.__name__} is expecting 3 features"
    for method in READERS[cls]:
        with pytest.raises(ValueError, match=words):
            getattr(model, method)(X[:, :2])


@both
@each_table
def test_other_column_names_are_refused(cls, columns):
    pd = pytest.importorskip("pandas")
    X, y = data()
    X[:, 0] = X[:, 0] > 0
    frame = pd.DataFrame(X, columns=["one", "two", "three"])
    model = cls(categorical_features=columns).fit(frame, target(cls, y))
    assert model.feature_names_in_.tolist() == ["one", "two", "three"]
    wrong = {
        "unseen at fit time": frame.rename(columns={"two": "deux"}),
        "in the same order": frame[["two", "one", "three"]],
    }
    for words, table in wrong.items():
        for method in READERS[cls]:
            with pytest.raises(ValueError, match=words):
                getattr(model, method)(table)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@both
@each_table
@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_input_is_refused_with_the_remedy(cls, columns, form):
    X, y = data()
    X[:, 0] = X[:, 0] > 0
    y, sparse = target(cls, y), getattr(scipy.sparse, form)(X)
    model = cls(categorical_features=columns)
    words = rf"{cls.__name__} takes no sparse input.*X\.toarray\(\)"
    with pytest.raises(TypeError, match=words):
        model.fit(sparse, y)
    model.fit(X, y)
    for method in READERS[cls]:
        with pytest.raises(TypeError, match=words):
            getattr(model, method)(sparse)


# -- parameters ----------------------------------------------------------------------

WRONG = [
    ("splitter", "axis"),
    ("max_leaf_nodes", 0),
    ("max_leaf_nodes", 2.0),
    ("max_depth", 0),
    ("growth", "breadth"),
    ("min_samples_leaf", 0),
    ("min_samples_leaf", 0.1),
    ("min_samples_leaf", "some"),
    ("min_gain", -1e-9),
    ("leaf_model", "quadratic"),
    ("alpha", -1.0),
    ("alpha", np.nan),
    ("alpha", np.inf),
    ("alpha", "1"),
    ("leaf_shrinkage", -1.0),
    ("leaf_shrinkage", "none"),
    ("step", 0.0),
    ("step", 1.5),
    ("step", "armijo"),
    ("max_iter", 0),
    ("tol", -1e-9),
    ("n_bins", 1),
    ("n_bins", 256),
    ("max_axis_features", 0),
    ("max_active_features", 0),
    ("max_active_features", "all"),
    ("subsample", 9),
    ("pruning", "mdl"),
    ("ccp_alpha", -0.1),
    ("missing", "drop"),
    ("categorical_features", "all"),
    ("categorical_features", 3),
    ("kernel", "cython"),
    ("device", None),
    ("random_state", "seed"),
    ("verbose", -1),
]


@both
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_parameter_is_named_by_fit(cls, name, value):
    X, y = data()
    model = cls(**{name: value})  # says nothing
    words = rf"'{name}' parameter of {cls.__name__} must be .*Got {value!r}"
    with pytest.raises(InvalidParameterError, match=words.replace("(", r"\(")):
        model.fit(X, target(cls, y))


def test_every_parameter_has_a_wrong_value_here():
    shared = set(inspect.signature(HRTRegressor).parameters)
    assert {name for name, _ in WRONG} == shared - {"clip"}


def test_parameters_of_one_class_only():
    X, y = data()
    for model, words in [
        (HRTRegressor(clip="row"), "'clip' parameter of HRTRegressor"),
        (HRTRegressor(leaf_model="logistic"), "'leaf_model' parameter"),
        (HRTClassifier(class_weight="even"), "'class_weight' parameter"),
        (HRTClassifier(class_weight=[1, 2]), "'class_weight' parameter"),
    ]:
        with pytest.raises(InvalidParameterError, match=words):
            model.fit(X, y > 0)


@both
def test_a_device_that_is_not_there_is_no_silent_fall_back(cls):
    X, y = data()
    model = cls(device="cuda:99")
    with pytest.raises(DeviceUnavailableError, match=r"'cuda:99'.*'cpu' or 'auto'"):
        model.fit(X, target(cls, y))
    assert issubclass(DeviceUnavailableError, RuntimeError)
    with pytest.raises(ValueError, match=r"'gpu'.*'cuda'"):
        model.set_params(device="gpu").fit(X, target(cls, y))


@both
def test_nothing_can_be_asked_before_fit(cls):
    X, _ = data()
    model = cls()
    for method in (*READERS[cls], "score"):
        arguments = (X, X[:, 0]) if method == "score" else (X,)
        with pytest.raises(NotFittedError, match=cls.__name__):
            getattr(model, method)(*arguments)
    for method in (
        "get_depth",
        "get_n_leaves",
        "leaf_table",
        "regions",
        "pruning_path",
        "export_dict",
    ):
        with pytest.raises(NotFittedError, match=cls.__name__):
            getattr(model, method)()
    with pytest.raises(NotFittedError, match=cls.__name__):
        model.prune(0.1)


@both
@pytest.mark.parametrize("value", [-0.1, np.nan, "much", None])
def test_prune_names_a_wrong_price(cls, value):
    X, y = data()
    model = cls().fit(X, target(cls, y))
    with pytest.raises(ValueError, match=f"ccp_alpha .* got {value!r}"):
        model.prune(value)


@both
@pytest.mark.parametrize(
    "value", [0, 0.5, np.float32(0.5), np.float64(0.5), np.int64(0)]
)
def test_prune_takes_any_number(cls, value):
    X, y = data()
    model = cls(pruning=None).fit(X, target(cls, y))
    expected = model.prune(float(value)).n_leaves_
    assert model.prune(value).n_leaves_ == expected


# -- the classifier's own ------------------------------------------------------------


def test_class_weights_are_looked_up_as_trees_of_scikit_learn_do():
    X, y = data()
    y = target(HRTClassifier, y)
    extra = {"high": 2.0, "low": 1.0, "never seen": 5.0}
    DecisionTreeClassifier(class_weight=extra).fit(X, y)  # the peer takes it
    model = HRTClassifier(class_weight=extra).fit(X, y)
    assert model.classes_.tolist() == ["high", "low"]
    weight = np.where(y == "high", 2.0, 1.0)
    expected = HRTClassifier().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X))
    partly = HRTClassifier(class_weight={"high": 2.0}).fit(X, y)
    np.testing.assert_allclose(partly.predict_proba(X), expected.predict_proba(X))
    wrong = {"High": 2.0}  # names no class at all
    for cls in (DecisionTreeClassifier, HRTClassifier):
        with pytest.raises(ValueError, match="not in class_weight"):
            cls(class_weight=wrong).fit(X, y)


def test_a_regression_target_is_refused_by_the_classifier():
    X, y = data()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        HRTClassifier().fit(X, y)


# -- numbers at the edge -------------------------------------------------------------


@both
@pytest.mark.parametrize("unit", [1e300, 1e200, 1e154, 1e15, 1e-15, 1e-200, 1e-300])
def test_the_unit_of_the_columns_does_not_matter(cls, unit):
    X, y = data(100)
    y = target(cls, y)
    plain, model = cls().fit(X, y), cls().fit(X * unit, y)
    np.testing.assert_allclose(
        scores(model, X * unit), scores(plain, X), rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        model.feature_importances_, plain.feature_importances_, atol=1e-6
    )


@pytest.mark.parametrize("unit", [1e150, 1e15, 1e-15, 1e-150])
def test_the_unit_of_the_target_does_not_matter(unit):
    X, y = data(100)
    model = HRTRegressor().fit(X, y * unit)
    expected = HRTRegressor().fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X) / unit, expected, rtol=0, atol=1e-6)
    assert np.isfinite(model.tree_.sse).all()


@pytest.mark.parametrize("unit", [1e300, 1e160, 1e-160, 1e-300])
def test_squares_of_the_target_beyond_float64(unit):
    X, y = data(100)
    refusal = ""
    try:
        model = HRTRegressor().fit(X, y * unit)
    except ValueError as error:
        refusal = str(error)
    if refusal:  # will do, if it says what is to be scaled
        assert re.search(r"\by\b.*scale", refusal)
        return
    expected, got = HRTRegressor().fit(X, y).predict(X), model.predict(X) / unit
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    assert model.feature_importances_.sum() == pytest.approx(1.0)


@both
@pytest.mark.parametrize("columns", [[0], [1], [0, 1, 2]], ids=str)
def test_a_huge_offset_of_a_column(cls, columns):
    X, y = data(100)
    y = target(cls, y)
    shift = np.zeros(3)
    shift[columns] = 1e12
    model = cls().fit(X + shift, y)
    plain = cls().fit((X + shift) - shift, y)  # the digits that are left
    assert np.isfinite(model.tree_.coef).all()
    got, expected = scores(model, X + shift), scores(plain, X)
    assert np.sqrt(np.mean((got - expected) ** 2)) < 0.01


def test_a_huge_offset_of_the_target():
    X, y = data(100)
    model = HRTRegressor().fit(X, y + 1e12)
    assert model.score(X, y + 1e12) > 0.9


@both
@pytest.mark.parametrize("value", [1e15, 1e300, -1e300])
def test_one_absurd_value(cls, value):
    X, y = data(150)
    labels = target(cls, y)
    model = cls().fit(with_value(X, value), labels)
    assert np.isfinite(scores(model, X)).all()
    assert np.isfinite(model.feature_importances_).all()
    assert model.score(X[10:], labels[10:]) > 0.6


@both
@pytest.mark.parametrize("size", [1e12, 1e300, 1.6e308])
def test_absurd_values_in_predict(cls, size):
    X, y = data(150)
    labels = target(cls, y)
    model = cls(pruning=None).fit(X, labels)
    signs = np.array(np.meshgrid(*[[-size, 0.0, size]] * 3)).reshape(3, -1).T
    for method in READERS[cls]:
        if method not in ("decision_path", "gradient"):
            got = getattr(model, method)(signs)
            assert len(got) == len(signs)
            if got.dtype.kind == "f":
                assert np.isfinite(got).all(), method
    if cls is HRTRegressor:
        value = model.predict(signs)
        assert value.min() >= y.min()
        assert value.max() <= y.max()
    else:
        probability = model.predict_proba(signs)
        assert (probability > 0).all()
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-12)


@both
@pytest.mark.parametrize("weight", [1e-9, 1e-3, 1e3, 1e9])
def test_weights_of_any_size(cls, weight):
    X, y = data(100)
    model = cls().fit(X, target(cls, y), sample_weight=np.full(len(X), weight))
    assert np.isfinite(scores(model, X)).all()
    assert np.isfinite(model.feature_importances_).all()
    assert model.tree_.weighted_n_node_samples[0] == pytest.approx(100 * weight)


@both
def test_weights_of_very_different_size(cls):
    X, y = data(100)
    labels = target(cls, y)
    weight = np.where(np.arange(100) % 2, 1e9, 1e-9)
    model = cls(pruning="bic").fit(X, labels, sample_weight=weight)
    heavy = weight > 1
    expected = cls(pruning="bic").fit(
        X[heavy], labels[heavy], sample_weight=weight[heavy]
    )
    assert np.isfinite(scores(model, X)).all()
    assert model.score(X[heavy], labels[heavy]) > 0.95
    assert model.n_leaves_ == expected.n_leaves_


@both
@pytest.mark.parametrize("pruning", ["cv", None])
def test_rows_that_are_all_equal(cls, pruning):
    _, y = data(40)
    model = cls(pruning=pruning).fit(np.full((40, 3), 2.5), target(cls, y))
    assert model.n_leaves_ == 1
    value = scores(model, np.full((2, 3), 2.5))
    expected = y.mean() if cls is HRTRegressor else 0.5
    np.testing.assert_allclose(value, expected, atol=1e-9)


@both
@pytest.mark.parametrize("pruning", ["cv", "aic", None])
@pytest.mark.parametrize("params", [{}, {"alpha": 0.0, "leaf_shrinkage": 0.0}], ids=str)
def test_more_columns_than_rows(cls, pruning, params):
    X, y = data(20, 60)
    model = cls(pruning=pruning, **params).fit(X, target(cls, y))
    new = data(50, 60, seed=1)[0]
    assert np.isfinite(scores(model, new)).all()
    assert np.isfinite(model.tree_.coef).all()


@both
@pytest.mark.parametrize("limit", ["auto", None, 1, 5])
def test_many_columns_of_which_none_matters(cls, limit):
    X, _ = data(60, 30)
    y = data(60, seed=1)[1]
    model = cls(max_active_features=limit).fit(X, target(cls, y))
    new = data(50, 30, seed=2)[0]
    assert np.isfinite(scores(model, new)).all()
    used = model.tree_.coef[0].any(axis=0).sum()
    assert used <= (30 if limit in ("auto", None) else limit)


@both
@pytest.mark.parametrize("limit", ["auto", None, 1, 5])
@pytest.mark.parametrize("n", [1, 60])
def test_many_columns_that_are_all_constant(cls, limit, n):
    model = cls(max_active_features=limit)
    model.fit(np.ones((n, 30)), target(cls, data(n)[1]))
    assert model.n_leaves_ == 1
    assert not model.tree_.coef.any()


WIDE = """
import numpy as np
from sklearn_ext.tree import HRTClassifier, HRTRegressor
rng = np.random.default_rng(0)
X, y = rng.normal(size=({n}, {d})), rng.normal(size={n})
for cls, y in ((HRTRegressor, y), (HRTClassifier, y > 0)):
    model = cls({params}).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
"""
FAST = (
    "max_active_features=None, pruning=None, max_leaf_nodes=2, max_iter=2, n_bins=2, "
    "max_axis_features=1"
)


@pytest.mark.parametrize(
    ("n", "d", "params"),
    [(60, 300, FAST), (50, 1000, "")],
    ids=["300 columns", "1000 columns x 50 rows"],
)
def test_wide_tables(n, d, params):
    """Run apart: a compiled kernel that writes past its end kills the process."""
    code = WIDE.format(n=n, d=d, params=params)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr[-400:]
