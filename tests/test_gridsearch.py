"""The trees inside scikit-learn's tools, and what fitting leaves untouched."""

import random

import joblib
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_ext.tree import HRTClassifier, HRTRegressor

GRID = {
    "max_leaf_nodes": [1, 8],
    "alpha": [0.1, 10.0],
    "leaf_shrinkage": [1.0, "auto"],
}
both = pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])


def data(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.abs(X[:, 0]) + 0.5 * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y


def target(cls, y):
    return y if cls is HRTRegressor else np.where(y > np.median(y), "high", "low")


def scores(model, X):
    classifier = isinstance(model, HRTClassifier)
    return model.predict_proba(X) if classifier else model.predict(X)


# -- searches ------------------------------------------------------------------------


def check_search(search, model, X, y):
    """Check a fitted search against the same loop by hand."""
    table = search.cv_results_
    assert len(table["params"]) == 8
    assert not np.isnan(table["mean_test_score"]).any()
    for row in (0, 5, search.best_index_):
        candidate = clone(model).set_params(**table["params"][row])
        expected = cross_val_score(candidate, X, y, cv=search.cv)
        np.testing.assert_allclose(table["mean_test_score"][row], expected.mean())
    best = clone(model).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    assert search.best_params_["max_leaf_nodes"] == 8
    assert table["mean_test_score"].std() > 0.01


def test_grid_search_in_two_processes():
    X, y = data(100)
    model = HRTRegressor(pruning="aic")
    search = GridSearchCV(model, GRID, cv=3, n_jobs=2, error_score="raise")
    search.fit(X, y)
    check_search(search, model, X, y)


@both
def test_grid_search_in_two_threads(cls):
    X, y = data(100)
    y = target(cls, y)
    model = cls(pruning="aic")
    search = GridSearchCV(model, GRID, cv=3, n_jobs=2, error_score="raise")
    with joblib.parallel_config(backend="threading"):
        search.fit(X, y)
    check_search(search, model, X, y)


def test_grid_search_through_a_pipeline():
    pd = pytest.importorskip("pandas")
    X, y = data(100)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(X[:, 1] > 0, "up", "down")
    y = y + (frame["kind"] == "up")
    encode = ColumnTransformer(
        [
            ("num", StandardScaler(), ["a", "b", "c"]),
            ("cat", OneHotEncoder(), ["kind"]),
        ],
        sparse_threshold=0,
    )
    model = Pipeline([("encode", encode), ("tree", HRTRegressor(pruning="aic"))])
    grid = {
        "tree__max_leaf_nodes": [1, 8],
        "tree__clip": ["leaf", None],
        "encode__num__with_mean": [True, False],
    }
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(frame, y)
    assert search.best_params_["tree__max_leaf_nodes"] == 8
    shown = search.cv_results_["mean_test_score"].reshape(2, 2, 2)  # with_mean first
    np.testing.assert_allclose(shown[0], shown[1], atol=1e-6)
    assert search.best_score_ > 0.8


def test_wrong_candidates_are_reported_as_failures():
    X, y = data(60)
    search = GridSearchCV(HRTRegressor(), {"n_bins": [16, 1]}, cv=2)
    with (
        pytest.warns(UserWarning, match="test scores are non-finite"),
        pytest.warns(FitFailedWarning, match=r"'n_bins' parameter of HRTRegressor"),
    ):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]


def test_weights_and_other_metrics_reach_the_tree():
    X, y = data()
    groups = np.arange(len(y)) // 10
    weight = np.linspace(0.5, 2.0, len(y))
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    result = cross_validate(
        HRTRegressor(pruning="aic"),
        X,
        y,
        groups=groups,
        cv=GroupKFold(3),
        scoring={"mae": scorer, "r2": "r2"},
        params={"sample_weight": weight},
        return_estimator=True,
        error_score="raise",
    )
    assert (result["test_r2"] > 0.6).all()
    fold = next(iter(GroupKFold(3).split(X, y, groups)))[0]
    expected = HRTRegressor(pruning="aic").fit(X[fold], y[fold], weight[fold])
    first = result["estimator"][0]
    np.testing.assert_array_equal(first.predict(X), expected.predict(X))


# -- clones and other tools ----------------------------------------------------------


@both
def test_clone_forgets_the_fit_and_keeps_the_rest(cls):
    X, y = data(60)
    model = cls(
        alpha=0.3, categorical_features=[1], random_state=np.random.RandomState(0)
    )
    X[:, 1] = X[:, 1] > 0
    model.fit(X, target(cls, y))
    copied = clone(model)
    assert not hasattr(copied, "tree_")
    for name, value in copied.get_params().items():
        if name != "random_state":
            assert value == model.get_params()[name]
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert {"tree_", "n_leaves_", "n_features_in_"} <= fitted
    assert set(vars(copied)) == set(copied.get_params())


@both
def test_fitting_again_starts_afresh(cls):
    pd = pytest.importorskip("pandas")
    X, y = data(100)
    y = target(cls, y)
    frame = pd.DataFrame({"kind": pd.Categorical(X[:, 0] > 0), "x": X[:, 1]})
    model = cls(categorical_features="from_dtype").fit(frame, y)
    model.set_params(categorical_features=None).fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    new = cls().fit(X, y)
    np.testing.assert_array_equal(scores(model, X), scores(new, X))
    assert vars(model).keys() == vars(new).keys()


@both
@pytest.mark.parametrize("params", [{}, {"subsample": 30, "random_state": 5}], ids=str)
def test_the_same_twice(cls, params):
    X, y = data(80)
    y = target(cls, y)
    first, second = cls(**params).fit(X, y), cls(**params).fit(X, y)
    np.testing.assert_array_equal(scores(first, X), scores(second, X))
    assert first.tree_.to_dict() == second.tree_.to_dict()


def test_cross_val_predict():
    X, y = data()
    model = HRTRegressor(pruning="aic")
    out = cross_val_predict(model, X, y, cv=3)
    fold = np.arange(len(y)) // 50
    expected = [
        model.fit(X[fold != k], y[fold != k]).predict(X[fold == k]) for k in range(3)
    ]
    np.testing.assert_array_equal(out, np.concatenate(expected))
    labels = target(HRTClassifier, y)
    classifier = HRTClassifier(pruning="aic")
    for method, shape in [("predict_proba", (150, 2)), ("decision_function", (150,))]:
        got = cross_val_predict(classifier, X, labels, cv=3, method=method)
        assert got.shape == shape
    train, test = next(iter(StratifiedKFold(3).split(X, labels)))
    classifier.fit(X[train], labels[train])
    np.testing.assert_array_equal(got[test], classifier.decision_function(X[test]))


def test_permutation_importance_agrees_on_the_order():
    X, y = data(200, d=5)
    model = HRTRegressor().fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=5, random_state=0)
    assert found.importances_mean.argsort()[::-1][:2].tolist() == [0, 2]
    rank = spearmanr(found.importances_mean, model.feature_importances_).statistic
    assert rank > 0.6
    assert model.feature_importances_[[0, 2]].sum() > 0.9


def test_partial_dependence():
    X, y = data()
    model = HRTRegressor().fit(X, y)
    found = partial_dependence(model, X, features=[0], grid_resolution=7)
    grid, curve = found["grid_values"][0], found["average"][0]
    for value, mean in zip(grid, curve, strict=True):
        moved = X.copy()
        moved[:, 0] = value
        assert mean == pytest.approx(model.predict(moved).mean())
    assert curve.argmin() not in (0, 6)  # a kink in the middle
    classifier = HRTClassifier().fit(X, target(HRTClassifier, y))
    found = partial_dependence(
        classifier, X, features=[2], grid_resolution=5, response_method="predict_proba"
    )
    assert (np.diff(found["average"][0]) < 0).all()  # "low" falls with the third column


def test_partial_dependence_beside_categories():
    pd = pytest.importorskip("pandas")
    X, y = data()
    frame = pd.DataFrame({"a": X[:, 0], "c": X[:, 2]})
    frame["kind"] = pd.Categorical(np.where(X[:, 1] > 0, "up", "down"))
    y = y + 2.0 * (frame["kind"] == "up").to_numpy()
    model = HRTRegressor(categorical_features="from_dtype").fit(frame, y)
    found = partial_dependence(
        model, frame, features=["kind"], categorical_features=["kind"]
    )
    curve = dict(zip(found["grid_values"][0], found["average"][0], strict=True))
    assert curve["up"] - curve["down"] == pytest.approx(2.0, abs=0.2)


def _cube(values):
    return values**3


def test_meta_estimators():
    X, y = data()
    tree = HRTRegressor(pruning="aic", max_leaf_nodes=6)
    bag = BaggingRegressor(tree, n_estimators=4, random_state=0).fit(X, y)
    assert bag.score(X, y) > 0.9
    stack = StackingRegressor([("tree", tree), ("ridge", Ridge())], cv=2).fit(X, y)
    assert stack.score(X, y) > 0.9
    logged = TransformedTargetRegressor(tree, func=np.cbrt, inverse_func=_cube)
    assert np.isfinite(logged.fit(X, y).predict(X)).all()
    Y = np.stack([y, -y], axis=1)
    for wrapper in (MultiOutputRegressor(tree), RegressorChain(tree)):
        assert wrapper.fit(X, Y).predict(X).shape == (len(X), 2)
    labels = target(HRTClassifier, y)
    calibrated = CalibratedClassifierCV(HRTClassifier(pruning="aic"), cv=2)
    assert calibrated.fit(X, labels).score(X, labels) > 0.85


def test_learning_curve_of_few_rows():
    X, y = data(60)
    sizes, _, test = learning_curve(
        HRTRegressor(), X, y, train_sizes=[4, 12, 40], cv=3, error_score="raise"
    )
    assert sizes.tolist() == [4, 12, 40]
    assert test.mean(axis=1)[-1] > 0.8


def test_set_output_of_the_steps_before():
    pd = pytest.importorskip("pandas")
    X, y = data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make_pipeline(StandardScaler(), HRTRegressor())
    model.set_output(transform="pandas")
    model.fit(frame, y)
    assert model[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert isinstance(model.predict(frame), np.ndarray)
    plain = make_pipeline(StandardScaler(), HRTRegressor()).fit(X, y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(X), atol=1e-10)


# -- what fitting leaves as it was ---------------------------------------------------


def use_everything(cls, X, y, weight=None, **params):
    model = cls(**params).fit(X, y, sample_weight=weight)
    for name in ("predict", "predict_proba", "decision_function", "gradient"):
        if hasattr(model, name):
            getattr(model, name)(X)
    model.apply(X)
    model.decision_path(X)
    model.score(X, y)
    model.prune(0.01)
    model.pruning_path()
    model.regions()
    model.leaf_table()
    cls.from_dict(model.export_dict())
    return model


@both
@pytest.mark.parametrize("kernel", ["numba", "torch"])
def test_nothing_is_printed(cls, kernel, capfd):
    X, y = data(60)
    use_everything(cls, X, target(cls, y), kernel=kernel)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


@both
def test_verbose_writes_to_the_error_stream_only(cls, capfd):
    X, y = data(60)
    use_everything(cls, X, target(cls, y), verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert cls.__name__ in err


@both
@pytest.mark.parametrize(
    "params",
    [{}, {"subsample": 30, "random_state": 0}, {"subsample": 30}, {"kernel": "torch"}],
    ids=str,
)
def test_no_global_generator_moves(cls, params):
    X, y = data(100)
    before = (
        np.random.get_state()[1].copy(),  # noqa: NPY002 - the legacy one is global
        np.random.get_state()[2],  # noqa: NPY002
        torch.get_rng_state().clone(),
        random.getstate(),
    )
    use_everything(cls, X, target(cls, y), **params)
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert np.random.get_state()[2] == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    assert random.getstate() == before[3]


@both
def test_settings_of_torch_and_numpy_stay(cls):
    X, y = data(100)

    def settings():
        return (
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            np.geterr(),
        )

    before = settings()
    use_everything(cls, X, target(cls, y))
    assert settings() == before


@both
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_callers_arrays_stay(cls, holes, order):
    X, y = data(100)
    if holes:
        X[::4, 1] = np.nan
    X = np.array(X, order=order)
    y, weight = target(cls, y), np.arange(100) % 3 + 0.0
    kept = X.copy(), y.copy(), weight.copy()
    use_everything(cls, X, y, weight)
    for now, then in zip((X, y, weight), kept, strict=True):
        np.testing.assert_array_equal(now, then)


@both
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_callers_tables_stay(cls, library):
    module = pytest.importorskip(library)
    X, y = data(100)
    X[::4, 1] = np.nan
    kind = np.where(X[:, 2] > 0, "up", "down")
    frame = module.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind})
    y, weight = target(cls, y), np.arange(100) % 3 + 0.0
    y, weight = module.Series(y), module.Series(weight)
    kept = [item.to_numpy().copy() for item in (frame, y, weight)]
    use_everything(cls, frame, y, weight, categorical_features=["kind"])
    for now, then in zip((frame, y, weight), kept, strict=True):
        now = now.to_numpy()
        same = (now == then) | ((now != now) & (then != then))
        assert same.all()


@both
def test_parameters_stay(cls):
    X, y = data(100)
    mask = np.array([False, False, False])
    params = {"categorical_features": mask}
    weights = {"high": 2.0, "low": 1}
    if cls is HRTClassifier:
        params["class_weight"] = weights
    model = cls(**params)
    before = dict(model.get_params())
    model.fit(X, target(cls, y)).predict(X)
    for name, value in model.get_params().items():
        assert value is before[name], name
    assert not mask.any()
    assert weights == {"high": 2.0, "low": 1}


@both
def test_what_is_returned_shares_nothing_with_the_data(cls):
    X, y = data(100)
    model = cls().fit(X, target(cls, y))
    expected = scores(model, X)
    given, spare = X.copy(), X.copy()
    scores(model, given)[:] = 0.0
    model.apply(given)[:] = 0
    np.testing.assert_array_equal(given, spare)
    X[:] = 1e9  # the fitted model must not look at the training rows again
    np.testing.assert_array_equal(scores(model, spare), expected)
    assert model.leaf_table()


@both
def test_read_only_memmaps_in_two_processes(cls, tmp_path):
    """What joblib hands to its workers when the data are large."""
    X, y = data(100)
    y = target(cls, y)
    joblib.dump(X, tmp_path / "X.joblib")
    mapped = joblib.load(tmp_path / "X.joblib", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    model = use_everything(cls, mapped, y)
    np.testing.assert_array_equal(scores(model, mapped), scores(cls().fit(X, y), X))
    search = GridSearchCV(cls(pruning="aic"), {"alpha": [0.1, 1.0]}, cv=2)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        search.fit(mapped, y)
    assert search.best_score_ > 0.7
