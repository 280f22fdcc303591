"""Categorical, missing and oddly typed columns, from the user's table to the tree."""

import datetime
import json
import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from sklearn_ext.datasets import load_german_credit
from sklearn_ext.tree import HRTClassifier, HRTRegressor, export_text
from sklearn_ext.tree._columns import DesignColumns

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

EFFECT = {"red": 2.0, "green": -1.0, "blue": 0.0}


def tree(**params):
    """Return a regressor that is quick to fit."""
    return HRTRegressor(pruning="aic", max_leaf_nodes=6, **params)


def rows(n=150, seed=0):
    """Return a numeric column, the colours, a second numeric column and a target."""
    rng = np.random.default_rng(seed)
    size, age = rng.normal(size=(2, n))
    colour = rng.choice(list(EFFECT), n)
    y = np.abs(size) + np.vectorize(EFFECT.get)(colour) + 0.1 * rng.normal(size=n)
    return size, colour, age, y


def objects(*columns):
    """Return an object array of columns."""
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    return table


def pandas_frame(n=150, seed=0):
    size, colour, age, y = rows(n, seed)
    colour = pd.Categorical(colour)
    return pd.DataFrame({"size": size, "colour": colour, "age": age}), y


def polars_frame(n=150, seed=0):
    size, colour, age, y = rows(n, seed)
    colour = pl.Series(colour).cast(pl.Categorical)
    return pl.DataFrame({"size": size, "colour": colour, "age": age}), y


def array(n=150, seed=0):
    size, colour, age, y = rows(n, seed)
    return objects(size, colour, age), y


def one_hot(n=150, seed=0):
    """Return what the tree should see, made by hand."""
    size, colour, age, y = rows(n, seed)
    levels = [(colour == level) * 1.0 for level in sorted(EFFECT)]
    return np.column_stack([size, *levels, age]), y


NAMES = ["size", "colour=blue", "colour=green", "colour=red", "age"]
BY_POSITION = ["x0", "x1=blue", "x1=green", "x1=red", "x2"]
WAYS = {
    "pandas dtype": (pandas_frame, "from_dtype", NAMES),
    "pandas index": (pandas_frame, [1], NAMES),
    "pandas mask": (pandas_frame, [False, True, False], NAMES),
    "pandas name": (pandas_frame, ["colour"], NAMES),
    "pandas array of names": (pandas_frame, np.array(["colour"]), NAMES),
    "pandas index of names": (pandas_frame, pd.Index(["colour"]), NAMES),
    "polars dtype": (polars_frame, "from_dtype", NAMES),
    "polars index": (polars_frame, [1], NAMES),
    "polars mask": (polars_frame, np.array([False, True, False]), NAMES),
    "polars name": (polars_frame, ["colour"], NAMES),
    "array index": (array, [1], BY_POSITION),
    "array numpy index": (array, np.array([1]), BY_POSITION),
    "array mask": (array, [False, True, False], BY_POSITION),
}


@pytest.mark.parametrize("way", WAYS)
def test_categories_are_found(way):
    make, choice, names = WAYS[way]
    table, y = make()
    model = tree(categorical_features=choice).fit(table, y)
    assert model.columns_.names == names
    assert model.columns_.source.tolist() == [0, 1, 1, 1, 2]
    assert model.columns_.kind == ["numeric", "level", "level", "level", "numeric"]
    by_hand = tree().fit(*one_hot())
    new, _ = make(80, seed=1)
    np.testing.assert_allclose(
        model.predict(new), by_hand.predict(one_hot(80, seed=1)[0]), rtol=0, atol=1e-10
    )
    assert model.feature_importances_.shape == (3,)
    np.testing.assert_allclose(
        model.feature_importances_[1], by_hand.feature_importances_[1:4].sum()
    )


@pytest.mark.parametrize("way", ["pandas dtype", "polars dtype", "array index"])
def test_categories_of_the_classifier(way):
    make, choice, _ = WAYS[way]
    table, y = make()
    labels = np.where(y > 0.5, "high", "low")
    model = HRTClassifier(categorical_features=choice).fit(table, labels)
    by_hand = HRTClassifier().fit(one_hot()[0], labels)
    new, _ = make(80, seed=1)
    expected = by_hand.predict_proba(one_hot(80, seed=1)[0])
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=0, atol=1e-10)


def test_several_categorical_columns():
    size, colour, age, y = rows()
    shape = np.where(age > 0, "round", "square")
    frame = pd.DataFrame({"shape": shape, "size": size, "colour": colour})
    model = tree(categorical_features=["colour", "shape"]).fit(frame, y)
    assert model.columns_.names == ["shape=round", "shape=square", "size", *NAMES[1:4]]
    other = tree(categorical_features=[2, 0]).fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), other.predict(frame))


def test_every_column_categorical():
    _, colour, age, y = rows()
    table = objects(colour, np.where(age > 0, "old", "young"))
    model = tree(categorical_features=[0, 1]).fit(table, y)
    assert len(model.columns_.names) == 5
    assert model.score(table, y) > 0.6
    assert np.isnan(model.gradient(table)).all()


# -- choices that are wrong ----------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (["hue"], r"the column 'hue', which X does not have; it has \['size', "),
        ([3], "has 3; indices must be integers from 0 to 2"),
        ([-1], "has -1; indices must be integers from 0 to 2"),
        ([0.5], "has 0.5; indices must be integers"),
        ([True, False], r"mask must have shape \(3,\), got \(2,\)"),
        ([None], "has None; indices must be integers"),
    ],
)
@pytest.mark.parametrize("make", [pandas_frame, polars_frame])
@pytest.mark.parametrize("cls", [HRTRegressor, HRTClassifier])
def test_a_wrong_choice_is_named(cls, make, choice, words):
    table, y = make()
    with pytest.raises(ValueError, match="categorical_features.*" + words):
        cls(categorical_features=choice).fit(table, y > 0)


def test_an_array_has_neither_names_nor_dtypes():
    table, y = array()
    with pytest.raises(ValueError, match=r"'colour', but X has no column names; pass"):
        tree(categorical_features=["colour"]).fit(table, y)
    with pytest.raises(ValueError, match=r"needs a DataFrame .*got ndarray; pass ind"):
        tree(categorical_features="from_dtype").fit(table, y)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, array])
def test_a_column_of_words_must_be_listed(make):
    table, y = make()
    name = "x1" if make is array else "colour"
    words = f"column '{name}' is not numeric.*list it in categorical_features"
    with pytest.raises(ValueError, match=words):
        tree(categorical_features=[0]).fit(table, y)


def test_strings_are_no_categorical_dtype():
    frame, y = pandas_frame()
    frame["colour"] = frame["colour"].astype(str)
    with pytest.raises(ValueError, match=r"could not convert string|not numeric"):
        tree(categorical_features="from_dtype").fit(frame, y)


@pytest.mark.parametrize("choice", [[], "from_dtype", [False, False]])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_no_categories_at_all(choice, make):
    size, _, age, y = rows()
    table = make({"size": size, "age": age})
    model = tree(categorical_features=choice).fit(table, y)
    expected = tree().fit(table, y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(table))
    assert model.feature_names_in_.tolist() == ["size", "age"]


# -- levels --------------------------------------------------------------------------

INSTANT = pd.Timestamp("2020-02-29 12:00")
LEVELS = {
    "str": ["a", "b", "c"],
    "blank": ["", " ", "a"],
    "unicode": ["é", "日本", "a=b"],
    "int": [10, 9, -1],
    "int with zero": [0, 1, 2],
    "float": [0.5, -0.0, 1e300],
    "infinite": [np.inf, -np.inf, 0.0],
    "bool": [True, False, True],
    "digits": ["1", "2", "03"],
    "numpy int": [np.int64(1), np.int64(2), np.int64(3)],
    "numpy bool": [np.True_, np.False_, np.True_],
    "int and str": [1, "1", 2],
    "word and number": [1, 2.5, "x"],
    "time": [INSTANT, INSTANT + pd.Timedelta("1D"), INSTANT + pd.Timedelta("2D")],
    "date": [datetime.date(2020, 1, d) for d in (1, 2, 3)],
    "tuple": [(1, 2), (3, 4), (5, 6)],
    "bytes": [b"a", b"b", b"c"],
    "missing": ["a", None, "b"],
    "nan": [1.0, np.nan, 2.0],
}


def levels_table(name):
    """Return an object array whose first column holds levels, and a target."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 120)
    column = np.empty(120, dtype=object)
    for i, k in enumerate(which):
        column[i] = LEVELS[name][k]
    value = np.array([0.0, 3.0, -3.0])[which]
    if LEVELS[name][0] is LEVELS[name][2]:
        value = np.abs(value) * (which == 1)
    return objects(column, rng.normal(size=120)), value


@pytest.mark.parametrize("name", LEVELS)
def test_levels_of_any_kind_are_told_apart(name):
    table, y = levels_table(name)
    model = tree(categorical_features=[0]).fit(table, y)
    np.testing.assert_allclose(model.predict(table), y, rtol=0, atol=0.1)
    n_levels = 2 if LEVELS[name][0] is LEVELS[name][2] else 3
    assert model.columns_.kind.count("level") == n_levels
    export_text(model)


@pytest.mark.parametrize("name", LEVELS)
def test_levels_of_any_kind_go_through_json(name):
    table, y = levels_table(name)
    model = tree(categorical_features=[0]).fit(table, y)
    text = json.dumps(model.export_dict(), allow_nan=False)
    again = HRTRegressor.from_dict(json.loads(text))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize("name", ["str", "blank", "int", "float", "bool", "time"])
def test_levels_do_not_depend_on_the_container(name):
    table, y = levels_table(name)
    frame = pd.DataFrame({"level": table[:, 0], "x": table[:, 1].astype(float)})
    model = tree(categorical_features=[0]).fit(frame, y)
    expected = model.predict(frame)
    category = frame.assign(level=frame["level"].astype("category"))
    np.testing.assert_array_equal(model.predict(category), expected)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        np.testing.assert_array_equal(model.predict(table), expected)
        np.testing.assert_array_equal(model.predict(table.tolist()), expected)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_integer_levels_are_known_in_any_integer_type(integer):
    code = np.arange(120) % 3
    y = np.array([0.0, 3.0, -3.0])[code]
    x = np.random.default_rng(0).normal(size=120)
    frame = pd.DataFrame({"code": code, "x": x})
    model = tree(categorical_features=[0]).fit(frame, y)
    same = frame.astype({"code": integer})
    np.testing.assert_array_equal(model.predict(same), model.predict(frame))
    table = objects([integer(c) for c in code], x)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        got = model.predict(table)
    np.testing.assert_array_equal(got, model.predict(frame))


def test_integer_levels_survive_a_missing_value_beside_them():
    """One NaN turns a column of integers into floats: 1 must still be 1."""
    code = np.arange(120) % 3
    y = np.array([0.0, 3.0, -3.0])[code]
    frame = pd.DataFrame({"code": code, "x": np.zeros(120)})
    model = tree(categorical_features=[0]).fit(frame, y)
    holes = frame.assign(code=frame["code"].astype(float).where(frame.index != 0))
    np.testing.assert_array_equal(model.predict(holes)[1:], model.predict(frame)[1:])


def test_names_of_columns_are_all_different():
    table, y = levels_table("int and str")
    model = tree(categorical_features=[0]).fit(table, y)
    names = model.columns_.names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, array])
def test_an_unknown_level_is_none_of_the_known_ones(make):
    table, y = make()
    choice = [1] if make is array else ["colour"]
    model = tree(categorical_features=choice).fit(table, y)
    size, _, age, _ = rows(60, seed=1)
    violet = np.full(60, "violet")
    if make is pandas_frame:
        new = pd.DataFrame({"size": size, "colour": violet, "age": age})
    elif make is polars_frame:
        new = pl.DataFrame({"size": size, "colour": violet, "age": age})
    else:
        new = objects(size, violet, age)
    by_hand = one_hot(60, seed=1)[0]
    by_hand[:, 1:4] = 0.0
    np.testing.assert_array_equal(model.columns_.transform(new), by_hand)
    expected = tree().fit(*one_hot()).predict(by_hand)
    np.testing.assert_allclose(model.predict(new), expected, rtol=0, atol=1e-10)


def test_categories_that_no_row_has_get_no_column():
    frame, y = pandas_frame()
    unused = frame["colour"].cat.add_categories(["violet", "amber"])
    model = tree(categorical_features="from_dtype")
    model.fit(frame.assign(colour=unused), y)
    assert model.columns_.names == NAMES
    reordered = frame["colour"].cat.reorder_categories(["red", "blue", "green"])
    np.testing.assert_array_equal(
        model.predict(frame.assign(colour=reordered)), model.predict(frame)
    )


def test_levels_of_rows_without_weight_do_not_matter():
    frame, y = pandas_frame()
    weight = (frame["colour"] != "red").to_numpy(float)
    model = tree(categorical_features="from_dtype")
    got = model.fit(frame, y, sample_weight=weight).predict(frame)
    alone = frame[weight > 0]
    expected = model.fit(alone, y[weight > 0]).predict(frame)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8)


def test_a_constant_categorical_column():
    size, _, age, y = rows()
    table = objects(size, np.full(len(y), "same"), age)
    model = tree(categorical_features=[1]).fit(table, y)
    expected = tree().fit(np.column_stack([size, age]), y)
    np.testing.assert_allclose(
        model.predict(table), expected.predict(np.column_stack([size, age])), atol=1e-10
    )
    assert model.feature_importances_[1] == 0.0


def test_the_gradient_is_known_for_numbers_only():
    frame, y = pandas_frame()
    model = tree(categorical_features="from_dtype", clip=None).fit(frame, y)
    slopes = model.gradient(frame)
    assert slopes.shape == (len(frame), 3)
    assert np.isnan(slopes[:, 1]).all()
    step = 1e-7
    moved = frame.assign(size=frame["size"] + step)
    same = model.apply(moved) == model.apply(frame)
    difference = (model.predict(moved) - model.predict(frame)) / step
    np.testing.assert_allclose(slopes[same, 0], difference[same], atol=1e-5)
    assert same.sum() > 100


# -- missing values ------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        None,
        np.nan,
        pd.NA,
        pd.NaT,
        float("nan"),
        np.float32("nan"),
        np.datetime64("NaT"),
    ],
    ids=["None", "nan", "NA", "NaT", "float nan", "float32 nan", "datetime NaT"],
)
def test_a_missing_level_is_a_level(missing):
    size, colour, age, y = rows()
    gone = np.arange(len(y)) % 5 == 0
    column = colour.astype(object)
    for i in np.flatnonzero(gone):
        column[i] = missing
    y = y + 4.0 * gone
    table = objects(size, column, age)
    model = tree(categorical_features=[1]).fit(table, y)
    assert "x1=missing" in model.columns_.names
    assert len(model.columns_.names) == 6
    marked = objects(size, np.where(gone, "gone", colour), age)
    expected = tree(categorical_features=[1]).fit(marked, y)
    np.testing.assert_allclose(
        model.predict(table), expected.predict(marked), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("dtype", ["category", "string", "object", "polars", "str"])
def test_a_missing_level_in_a_table(dtype):
    size, colour, age, y = rows()
    gone = np.arange(len(y)) % 5 == 0
    if dtype == "polars":
        column = [None if g else c for g, c in zip(gone, colour, strict=True)]
        column = pl.Series(column).cast(pl.Categorical)
        table = pl.DataFrame({"size": size, "colour": column, "age": age})
    else:
        column = pd.Series(colour, dtype=dtype).mask(gone)
        table = pd.DataFrame({"size": size, "colour": column, "age": age})
    model = tree(categorical_features=["colour"]).fit(table, y + 4.0 * gone)
    names = model.columns_.names
    assert sorted(names) == sorted([*NAMES, "colour=missing"])
    mask = model.columns_.transform(table)[:, names.index("colour=missing")]
    np.testing.assert_array_equal(mask, gone)


def test_a_missing_level_not_seen_in_fit_is_an_unknown_one():
    table, y = array()
    model = tree(categorical_features=[1]).fit(table, y)
    unknown, missing = table.copy(), table.copy()
    unknown[:, 1], missing[:, 1] = "violet", None
    np.testing.assert_array_equal(model.predict(missing), model.predict(unknown))


def test_missing_levels_are_no_missing_numbers():
    """missing="error" is about numbers: a missing level is a level like another."""
    table, y = array()
    table[::5, 1] = None
    model = tree(categorical_features=[1], missing="error").fit(table, y)
    assert "x1=missing" in model.columns_.names


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "Float64", "object"])
@pytest.mark.parametrize("choice", [None, [1]])
def test_missing_numbers_get_a_mark(kind, choice):
    size, _, age, y = rows()
    code = np.arange(len(y)) % 2 + 0.0
    gone = np.arange(len(y)) % 4 == 1
    holes = np.where(gone, np.nan, size)
    columns = {"size": holes, "code": code, "age": age}
    table = {
        "array": lambda: np.column_stack(list(columns.values())),
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns).with_columns(
            pl.col("size").fill_nan(None)
        ),
        "Float64": lambda: pd.DataFrame(columns).astype({"size": "Float64"}),
        "object": lambda: pd.DataFrame(columns).assign(
            size=[None if g else s for g, s in zip(gone, size, strict=True)]
        ),
    }[kind]()
    model = tree(categorical_features=choice).fit(table, y)
    names = model.columns_.names
    first = "x0" if kind == "array" else "size"
    assert names[:2] == [first, f"{first} is missing"]
    design = model.columns_.transform(table)
    np.testing.assert_allclose(design[:, 0], np.where(gone, size[~gone].mean(), size))
    np.testing.assert_array_equal(design[:, 1], gone)
    plain = tree(categorical_features=choice).fit(
        np.column_stack(list(columns.values())), y
    )
    got, expected = (
        model.predict(table),
        plain.predict(np.column_stack([*columns.values()])),
    )
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("choice", [None, "from_dtype", ["colour"]])
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "Int8"])
@pytest.mark.parametrize("holes", [False, True])
def test_nullable_dtypes(choice, dtype, holes):
    size, colour, age, y = rows()
    value = {"boolean": size > 0, "Int8": np.round(9 * size)}.get(dtype, np.round(size))
    column = pd.Series(value).astype(dtype)
    plain = pd.Series(value, dtype=float)
    if holes:
        column, plain = column.mask(age > 0.5), plain.mask(age > 0.5)
    frame = pd.DataFrame({"size": column, "age": age})
    other = pd.DataFrame({"size": plain, "age": age})
    if choice:
        frame["colour"] = other["colour"] = pd.Categorical(colour)
    model = tree(categorical_features=choice)
    got = model.fit(frame, y).predict(frame)
    assert ("size is missing" in model.columns_.names) == holes
    np.testing.assert_allclose(got, model.fit(other, y).predict(other), atol=1e-10)


def test_nullable_integers_as_levels():
    code = pd.Series(np.arange(120) % 3, dtype="Int64").mask(np.arange(120) % 7 == 0)
    y = np.where(code.isna(), 5.0, code.fillna(0).to_numpy(float) * 3.0)
    frame = pd.DataFrame({"code": code, "x": np.zeros(120)})
    model = tree(categorical_features=["code"]).fit(frame, y)
    assert model.columns_.kind.count("level") == 4
    np.testing.assert_allclose(model.predict(frame), y, atol=0.1)
    plain = frame.astype({"code": float})
    np.testing.assert_array_equal(model.predict(plain), model.predict(frame))


# -- columns that are no numbers -----------------------------------------------------


def _with_times(kind, choice):
    size, colour, _, y = rows()
    start = np.datetime64("2020-01-01", "ns")
    if kind == "datetime":
        when = pd.Series(start + np.arange(len(y)) * np.timedelta64(1, "D"))
    else:
        when = pd.Series(np.arange(len(y)) * np.timedelta64(10**9, "ns"))
    frame = pd.DataFrame({"size": size, "when": when, "colour": pd.Categorical(colour)})
    return (frame if choice else frame.drop(columns="colour")), y


@pytest.mark.parametrize("kind", ["datetime", "timedelta"])
@pytest.mark.parametrize("choice", [None, "from_dtype"])
def test_a_missing_time_is_never_a_number(kind, choice):
    """NaT read as an integer is -9.2e18; refusing times altogether is as good."""
    frame, y = _with_times(kind, choice)
    frame.loc[::6, "when"] = pd.NaT
    model = tree(categorical_features=choice)
    try:
        model.fit(frame, y)
    except (TypeError, ValueError):
        return
    assert "when is missing" in model.columns_.names


@pytest.mark.parametrize("kind", ["datetime", "timedelta"])
def test_times_are_treated_alike_with_and_without_categories(kind):
    def outcome(choice):
        frame, y = _with_times(kind, choice)
        try:
            tree(categorical_features=choice).fit(frame, y)
        except (TypeError, ValueError):
            return "refused"
        return "taken"

    assert outcome(None) == outcome("from_dtype")


@pytest.mark.parametrize("choice", [None, [0]])
def test_duplicate_names_are_refused(choice):
    size, _, age, y = rows()
    frame = pd.DataFrame(np.column_stack([size > 0, age, size]), columns=list("aab"))
    with pytest.raises(ValueError, match=r"(?i)unique column names|duplicate"):
        tree(categorical_features=choice).fit(frame, y)


@pytest.mark.parametrize("choice", [None, [0], "from_dtype"])
@pytest.mark.parametrize(
    "names",
    [[5, 6, 7], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])],
    ids=["integers", "MultiIndex"],
)
def test_names_that_are_no_strings(choice, names):
    size, colour, age, y = rows()
    frame = pd.DataFrame({"a": pd.Categorical(colour), "b": size, "c": age})
    expected = tree(categorical_features=[0]).fit(frame, y).predict(frame)
    frame.columns = names
    if choice is None:
        frame = frame.iloc[:, 1:]
    model = tree(categorical_features=choice).fit(frame, y)
    assert not hasattr(model, "feature_names_in_")
    assert model.columns_.names[-1] == ("x1" if choice is None else "x2")
    got = model.predict(frame)
    assert np.isfinite(got).all()
    if choice is not None:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("choice", [None, [0]])
def test_names_of_mixed_type_are_refused(choice):
    size, _, age, y = rows()
    frame = pd.DataFrame(np.column_stack([size > 0, age]), columns=["a", 1])
    with pytest.raises(TypeError, match="Feature names are only supported if all"):
        tree(categorical_features=choice).fit(frame, y)


def test_an_index_of_the_rows_does_not_matter():
    frame, y = pandas_frame()
    model = tree(categorical_features="from_dtype").fit(frame, y)
    shuffled = frame.set_axis(np.zeros(len(frame), dtype=int))
    again = tree(categorical_features="from_dtype").fit(
        shuffled, pd.Series(y, index=np.arange(len(y))[::-1])
    )
    np.testing.assert_array_equal(again.predict(shuffled), model.predict(frame))


def test_polars_dtypes():
    size, colour, age, y = rows()
    table = pl.DataFrame(
        {
            "enum": pl.Series(colour).cast(pl.Enum(["red", "green", "blue", "none"])),
            "category": pl.Series(colour).cast(pl.Categorical),
            "small": pl.Series(np.round(size)).cast(pl.Int8),
            "flag": age > 0,
            "age": pl.Series(age).cast(pl.Float32),
        }
    )
    model = tree(categorical_features="from_dtype").fit(table, y)
    assert model.columns_.categorical.tolist() == [True, True, False, False, False]
    assert len(model.columns_.names) == 9
    assert model.score(table, y) > 0.9


# -- round trip of the encoder -------------------------------------------------------


def test_the_encoder_goes_through_json():
    size, colour, age, _ = rows()
    size[::7] = np.nan
    table = objects(size, colour, age)
    table[::11, 1] = None
    columns = DesignColumns(["size", "colour", "age"], [False, True, False])
    columns.fit(columns.encode(table, reset=True), np.ones(len(table)))
    again = DesignColumns.from_dict(json.loads(json.dumps(columns.to_dict())))
    new = objects([0.5, None, 1.0], ["red", None, "violet"], [np.nan, 1.0, 2.0])
    with pytest.warns(UserWarning, match=r"\['age'\]"):
        expected = columns.transform(new)
    with pytest.warns(UserWarning, match=r"\['age'\]"):
        got = again.transform(new)
    np.testing.assert_array_equal(got, expected)
    assert again.names == columns.names
    assert again.kind == columns.kind
    np.testing.assert_array_equal(again.source, columns.source)
    by_hand = np.array(
        [
            [0.5, 0, 0, 0, 0, 1, age.mean()],
            [np.nanmean(size), 1, 1, 0, 0, 0, 1.0],
            [1.0, 0, 0, 0, 0, 0, 2.0],
        ]
    )
    order = [columns.names.index(name) for name in EXPECTED_DESIGN]
    np.testing.assert_allclose(expected[:, order], by_hand)


EXPECTED_DESIGN = [
    "size",
    "size is missing",
    "colour=missing",
    "colour=blue",
    "colour=green",
    "colour=red",
    "age",
]


# -- in a pipeline -------------------------------------------------------------------


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_categories_pass_through_a_column_transformer(output):
    make = pandas_frame if output == "pandas" else polars_frame
    frame, y = make()
    scale = ColumnTransformer(
        [("scale", StandardScaler(), ["size", "age"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform=output)
    model = make_pipeline(scale, tree(categorical_features="from_dtype"))
    model.fit(frame, y)
    assert model[-1].feature_names_in_.tolist() == ["size", "age", "colour"]
    assert model[-1].columns_.names == ["size", "age", *NAMES[1:4]]
    direct = tree(categorical_features="from_dtype").fit(frame, y)
    new, _ = make(60, seed=1)
    np.testing.assert_allclose(model.predict(new), direct.predict(new), atol=1e-6)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_one_hot_upstream_says_the_same(output):
    make = polars_frame if output == "polars" else pandas_frame
    frame, y = make()
    encode = ColumnTransformer(
        [
            ("num", SimpleImputer(), ["size", "age"]),
            ("cat", OneHotEncoder(sparse_output=False), ["colour"]),
        ],
    ).set_output(transform=output)
    model = make_pipeline(encode, tree()).fit(frame, y)
    direct = tree(categorical_features=["colour"]).fit(frame, y)
    np.testing.assert_allclose(model.predict(frame), direct.predict(frame), atol=1e-6)


def test_ordinal_codes_as_categories_by_position():
    frame, y = pandas_frame()
    encode = ColumnTransformer(
        [
            ("cat", OrdinalEncoder(), make_column_selector(dtype_include="category")),
            ("num", "passthrough", ["size", "age"]),
        ]
    )
    model = make_pipeline(encode, tree(categorical_features=[0])).fit(frame, y)
    direct = tree(categorical_features=["colour"]).fit(frame, y)
    np.testing.assert_allclose(model.predict(frame), direct.predict(frame), atol=1e-6)


def test_real_data_with_categories_in_cross_validation():
    """German credit: 13 columns of words and 7 numbers; folds miss rare levels."""
    X, y = load_german_credit(return_X_y=True, as_frame=True)
    X, y = X.iloc[::4], y.iloc[::4]
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    assert len(words) > 5
    model = HRTClassifier(
        categorical_features=words, pruning="aic", max_leaf_nodes=4, n_bins=8
    )
    score = cross_val_score(model, X, y, cv=3, scoring="roc_auc", error_score="raise")
    assert score.mean() > 0.6
