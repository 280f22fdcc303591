"""Fitted models as JSON-safe dictionaries, and back."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_ext.tree import HRTClassifier, HRTRegressor, export_text

METHODS = ("predict", "apply", "gradient", "predict_proba", "decision_function")


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 2] + 0.1 * rng.normal(size=n)


def labels(y, high="high", low="low"):
    return np.where(y > np.median(y), high, low)


def through_json(model):
    """Return what a reader of strict JSON gets."""
    text = json.dumps(model.export_dict(), allow_nan=False)
    return type(model).from_dict(json.loads(text))


def assert_same(again, model, X):
    """Check that everything fitted is the same, and so is what it says of X."""
    assert type(again) is type(model)
    for method in METHODS:
        if hasattr(model, method):
            got, expected = getattr(again, method)(X), getattr(model, method)(X)
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype
    path = (again.decision_path(X) != model.decision_path(X)).nnz
    assert path == 0
    assert vars(again).keys() == vars(model).keys()
    for name, value in vars(model).items():
        if name.endswith("_") and name not in ("tree_", "columns_"):
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    assert again.tree_.to_dict() == model.tree_.to_dict()
    assert again.columns_.to_dict() == model.columns_.to_dict()
    assert export_text(again) == export_text(model)


# -- round trips ---------------------------------------------------------------------

REGRESSORS = {
    "default": {},
    "clip none": {"clip": None},
    "clip leaf": {"clip": "leaf", "pruning": None},
    "constant": {"leaf_model": "constant"},
    "paper": {
        "splitter": "hinge",
        "growth": "depth",
        "max_depth": 3,
        "max_leaf_nodes": None,
        "alpha": 1.0,
        "leaf_shrinkage": 0.0,
        "pruning": None,
    },
    "numpy scalars": {
        "alpha": np.float64(0.3),
        "max_leaf_nodes": np.int64(9),
        "tol": np.float32(0.5),
    },
    "device": {"device": torch.device("cpu")},
    "mask": {"categorical_features": np.array([False, False, False])},
    "subsample": {"subsample": 40, "random_state": 3},
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    X, y = data()
    model = HRTRegressor(**REGRESSORS[name]).fit(X, y)
    new = 2.0 * data(80, seed=1)[0]
    again = through_json(model)
    assert_same(again, model, new)
    for key, value in model.get_params().items():
        got = again.get_params()[key]
        if isinstance(value, np.ndarray):
            got, value = list(got), value.tolist()
        if isinstance(value, torch.device):
            value = str(value)
        assert got == value, key


def test_several_outputs():
    X, y = data()
    model = HRTRegressor().fit(X, np.stack([y, -3.0 * y + X[:, 1]], axis=1))
    again = through_json(model)
    assert again.predict(X).shape == (len(X), 2)
    assert_same(again, model, X)


def test_one_output_in_a_column_stays_flat():
    X, y = data()
    with pytest.warns(match="column-vector"):
        model = HRTRegressor().fit(X, y[:, None])
    assert_same(through_json(model), model, X)


def test_a_single_leaf_and_a_constant_target():
    X, y = data()
    for target in (y[:3], np.full(3, 7.0)):
        model = HRTRegressor().fit(X[:3], target)
        assert_same(through_json(model), model, X)


@pytest.mark.parametrize("leaf_model", ["logistic", "linear", "constant"])
def test_classifiers(leaf_model):
    X, y = data()
    model = HRTClassifier(leaf_model=leaf_model, pruning=None).fit(X, labels(y))
    again = through_json(model)
    assert_same(again, model, data(80, seed=1)[0])
    assert again.score(X, labels(y)) == model.score(X, labels(y))


KINDS = {
    "int": lambda y: (y > 1).astype(int) * 5 - 2,
    "uint8": lambda y: (y > 1).astype(np.uint8),
    "bool": lambda y: y > 1,
    "float": lambda y: np.where(y > 1, 1.0, -1.0),
    "float32": lambda y: np.where(y > 1, np.float32(1), np.float32(0)),
    "str": labels,
    "unicode": lambda y: labels(y, "é", "日本"),
    "object": lambda y: labels(y).astype(object),
    "pandas string": lambda y: pytest.importorskip("pandas").Series(
        labels(y), dtype="string"
    ),
    "pandas category": lambda y: pytest.importorskip("pandas").Series(
        labels(y), dtype="category"
    ),
    "pandas Int64": lambda y: pytest.importorskip("pandas").Series(
        (y > 1).astype(int), dtype="Int64"
    ),
    "three": lambda y: np.digitize(y, [0.5, 1.5]),
    "one": lambda y: np.full(len(y), "only"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_any_kind(kind):
    X, y = data()
    model = HRTClassifier().fit(X, KINDS[kind](y))
    again = through_json(model)
    assert again.classes_.dtype == model.classes_.dtype
    assert type(again.predict(X[:1])[0]) is type(model.predict(X[:1])[0])
    assert_same(again, model, X)


def test_dates_as_labels_go_through_json_or_are_named():
    X, y = data()
    dates = labels(y, "2020-01-01", "2021-01-01").astype("datetime64[D]")
    model = HRTClassifier().fit(X, dates)
    refusal = ""
    try:
        state = model.export_dict()
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "classes" in refusal
        return
    again = HRTClassifier.from_dict(json.loads(json.dumps(state)))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("weights", "target"),
    [
        ({"high": 2.0, "low": 1}, labels),
        ({0: 1, 1: 3}, lambda y: (y > 1).astype(int)),
        ({False: 1.0, True: 0.25}, lambda y: y > 1),
        ({-1.0: 1, 1.0: 2}, lambda y: np.where(y > 1, 1.0, -1.0)),
        ({np.int64(0): np.float64(2.0)}, lambda y: (y > 1).astype(int)),
        ("balanced", labels),
        ({}, labels),
    ],
    ids=["str", "int", "bool", "float", "numpy", "balanced", "empty"],
)
def test_class_weights(weights, target):
    X, y = data()
    model = HRTClassifier(class_weight=weights).fit(X, target(y))
    again = through_json(model)
    assert again.class_weight == weights
    assert_same(again, model, X)
    refit = again.fit(X, target(y))
    np.testing.assert_array_equal(refit.predict_proba(X), model.predict_proba(X))


def test_missing_values():
    X, y = data()
    X[::3, 1] = np.nan
    X[:, 2] = np.nan
    for model in (HRTRegressor().fit(X, y), HRTClassifier().fit(X, labels(y))):
        again = through_json(model)
        assert_same(again, model, X)
        assert again.columns_.names[2] == "x1 is missing"


@pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])
@pytest.mark.parametrize("choice", ["from_dtype", ["colour", "code"], [1, 2]])
def test_categories_and_names(cls, choice):
    pd = pytest.importorskip("pandas")
    X, y = data()
    frame = pd.DataFrame({"size": X[:, 0]})
    frame["colour"] = pd.Categorical(np.array(["red", "blue"])[(X[:, 1] > 0) * 1])
    frame["code"] = pd.Categorical(np.digitize(X[:, 2], [-0.5, 0.5]))
    frame.loc[::5, "colour"] = np.nan
    frame.loc[::7, "size"] = np.nan
    target = y if cls is HRTRegressor else labels(y)
    model = cls(categorical_features=choice).fit(frame, target)
    again = through_json(model)
    assert_same(again, model, frame)
    assert again.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"size": "length"}))
    new = frame.assign(colour="violet", code=7)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    again.fit(frame, target)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_wide_range_of_numbers():
    """JSON keeps every digit of a float64."""
    X, y = data()
    unit = np.array([1e15, 1e-15, 1.0 / 3.0])
    model = HRTRegressor(pruning=None).fit(X * unit, y * 1e-15)
    assert_same(through_json(model), model, X * unit)


def test_a_pruned_model():
    X, y = data()
    model = HRTRegressor(pruning=None).fit(X, y)
    smaller = model.prune(0.01)
    assert 1 < smaller.n_leaves_ < model.n_leaves_
    assert_same(through_json(smaller), smaller, X)


def test_twice_is_once():
    X, y = data()
    model = HRTRegressor().fit(X, y)
    again = through_json(model)
    assert again.export_dict() == model.export_dict()
    assert_same(through_json(again), model, X)


# -- what a restored model is good for -----------------------------------------------


@pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])
def test_a_restored_model_is_an_estimator_like_any_other(cls):
    X, y = data()
    target = y if cls is HRTRegressor else labels(y)
    model = cls(pruning=None, max_leaf_nodes=6).fit(X, target)
    again = through_json(model)
    assert clone(again).get_params() == model.get_params()
    assert again.set_params(max_leaf_nodes=1, pruning="aic") is again
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.fit(X, target).n_leaves_ == 1
    again = through_json(model)
    copied = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    path, expected = again.pruning_path(), model.pruning_path()
    np.testing.assert_array_equal(path.ccp_alphas, expected.ccp_alphas)
    assert again.prune(0.05).n_leaves_ == model.prune(0.05).n_leaves_
    assert len(again.regions()) == model.n_leaves_
    assert again.leaf_table() == model.leaf_table()


def test_the_dictionary_shares_nothing_with_the_model():
    X, y = data()
    model = HRTClassifier(class_weight={"high": 2.0}).fit(X, labels(y))
    expected = model.predict_proba(X)
    state = model.export_dict()
    before = copy.deepcopy(state)
    again = HRTClassifier.from_dict(state)
    again.fit(X[:50], labels(y)[:50])
    again.class_weight["high"] = 9.0
    assert state == before

    def spoil(item):
        if isinstance(item, dict):
            for key in list(item):
                item[key] = spoil(item[key])
        if isinstance(item, list):
            item[:] = [spoil(part) for part in item]
            item.append(None)
        return item if isinstance(item, dict | list) else None

    spoil(state)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert model.class_weight == {"high": 2.0}
    assert len(model.columns_.names) == 3


def test_a_generator_is_left_behind():
    X, y = data()
    generator = np.random.RandomState(0)
    model = HRTRegressor(subsample=30, random_state=generator).fit(X, y)
    again = through_json(model)
    assert again.random_state is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_parameter_without_json_form_is_named():
    X, y = data()
    model = HRTRegressor().fit(X, y)
    model.set_params(alpha=1j)
    with pytest.raises(ValueError, match=r"alpha=1j has no JSON form; set it to"):
        model.export_dict()


@pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])
def test_an_unfitted_model_has_nothing_to_export(cls):
    with pytest.raises(NotFittedError, match=cls.__name__):
        cls().export_dict()


# -- dictionaries that are wrong -----------------------------------------------------


@pytest.fixture(scope="module")
def states():
    X, y = data()
    X[::4, 1] = np.nan
    X[:, 2] = X[:, 2] > 0
    plain = {"categorical_features": [2]}
    return {
        "regressor": HRTRegressor(**plain).fit(X, y).export_dict(),
        "classifier": HRTClassifier(**plain).fit(X, labels(y)).export_dict(),
    }


CLASSES = {"regressor": HRTRegressor, "classifier": HRTClassifier}
PARTS = [
    ("version",),
    ("params",),
    ("fitted",),
    ("n_features_in",),
    ("importances",),
    ("clip",),
    ("columns",),
    ("tree",),
    ("fitted", "n_iter_"),
    ("fitted", "leaf_shrinkage_"),
    ("columns", "feature_names"),
    ("columns", "categorical"),
    ("columns", "levels"),
    ("columns", "names"),
    ("columns", "kind"),
    ("columns", "source"),
    ("columns", "mean"),
    ("tree", "coef"),
    ("tree", "children_left"),
]
OWN_PARTS = [
    ("regressor", ("fitted", "n_outputs_")),
    ("regressor", ("fitted", "_flat_output")),
    ("classifier", ("classes",)),
    ("classifier", ("classes_dtype",)),
]
EVERY_PART = [(kind, part) for kind in CLASSES for part in PARTS] + OWN_PARTS


def changed(state, path, value=None, *, drop=False):
    state = copy.deepcopy(state)
    place = state
    for key in path[:-1]:
        place = place[key]
    if drop:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


def test_every_part_is_listed_here(states):
    for kind, state in states.items():
        top = {part[0] for k, part in EVERY_PART if k == kind}
        assert set(state) == top | {"format"}
        for key in ("fitted", "columns"):
            inner = {p[1] for k, p in EVERY_PART if k == kind and p[0] == key and p[1:]}
            assert set(state[key]) == inner


@pytest.mark.parametrize(
    ("kind", "path"), EVERY_PART, ids=lambda v: v if isinstance(v, str) else ".".join(v)
)
def test_a_part_that_is_missing_is_named(states, kind, path):
    state = changed(states[kind], path, drop=True)
    with pytest.raises(ValueError, match=path[-1]):
        CLASSES[kind].from_dict(state)


@pytest.mark.parametrize(
    ("kind", "path"), EVERY_PART, ids=lambda v: v if isinstance(v, str) else ".".join(v)
)
def test_a_part_of_another_type_is_named(states, kind, path):
    state = changed(states[kind], path, {"no": "such thing"})
    with pytest.raises(ValueError, match=path[-1]):
        CLASSES[kind].from_dict(state)


@pytest.mark.parametrize("value", ["x", 5, None, [1], {}, {"a": 1}], ids=repr)
@pytest.mark.parametrize("kind", CLASSES)
def test_what_is_no_such_dictionary_is_refused(kind, value):
    name = CLASSES[kind].__name__
    with pytest.raises(ValueError, match=rf"dictionary from {name}.export_dict\(\)"):
        CLASSES[kind].from_dict(value)


def test_the_wrong_class_is_named(states):
    words = r"HRTRegressor.export_dict\(\).*got 'sklearn_ext.HRTClassifier'"
    with pytest.raises(ValueError, match=words):
        HRTRegressor.from_dict(states["classifier"])
    words = r"HRTClassifier.export_dict\(\).*got 'sklearn_ext.HRTRegressor'"
    with pytest.raises(ValueError, match=words):
        HRTClassifier.from_dict(states["regressor"])
    with pytest.raises(ValueError, match="HingeTree"):
        HRTRegressor.from_dict(states["regressor"]["tree"])


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("version", [2, 99])
def test_a_newer_version_asks_for_an_update(states, kind, version):
    state = changed(states[kind], ("version",), version)
    with pytest.raises(ValueError, match=rf"version {version}.*update sklearn-ext"):
        CLASSES[kind].from_dict(state)


@pytest.mark.parametrize("version", ["1", None, 0, -5, [1], True], ids=repr)
def test_a_version_that_is_none_is_refused(states, version):
    state = changed(states["regressor"], ("version",), version)
    with pytest.raises(ValueError, match="version"):
        HRTRegressor.from_dict(state)


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        ("regressor", ("params",), [], "params"),
        ("regressor", ("params", "n_trees"), 3, "n_trees"),
        ("regressor", ("fitted", "predict"), 3, "predict"),
        ("regressor", ("n_features_in",), 7, "n_features_in|7"),
        ("regressor", ("importances",), [1.0], "importances"),
        ("regressor", ("importances",), "abc", "importances"),
        ("regressor", ("clip",), [[0.0]], "clip"),
        ("regressor", ("clip",), [[0.0], [1.0], [2.0]], "clip"),
        ("regressor", ("clip",), [[0.0, 0.0], [1.0, 1.0]], "clip"),
        ("regressor", ("columns", "source"), [0, 1], "source"),
        ("regressor", ("columns", "source"), [0, 1, 1, 2, 9], "source"),
        ("regressor", ("columns", "kind"), ["numeric"] * 2, "kind"),
        ("regressor", ("columns", "kind"), ["odd"] * 5, "kind|odd"),
        ("regressor", ("columns", "mean"), [0.0], "mean"),
        ("regressor", ("columns", "levels"), {}, "levels"),
        ("regressor", ("columns", "categorical"), [False], "categorical"),
        ("regressor", ("columns", "names"), ["x0"], "names"),
        ("regressor", ("tree",), "tree", "tree"),
        ("regressor", ("tree", "coef"), [[1.0]], "coef"),
        ("regressor", ("tree", "split_kind"), [7], "split_kind"),
        ("classifier", ("classes",), ["high"], "classes"),
        ("classifier", ("classes_dtype",), "<i8", "classes"),
        ("classifier", ("classes_dtype",), "quux", "classes_dtype|quux"),
    ],
    ids=lambda v: ".".join(v) if isinstance(v, tuple) else repr(v)[:25],
)
def test_a_garbled_part_is_named(states, kind, path, value, words):
    state = changed(states[kind], path, value)
    with pytest.raises(ValueError, match=words):
        CLASSES[kind].from_dict(state)
