import subprocess
import sys

import numpy as np
import pytest
from packages import ROOT
from sklearn.utils import Bunch

from sklearn_ext import datasets

LOADERS = {
    "concrete": (datasets.load_concrete, 1030, 8),
    "airfoil": (datasets.load_airfoil, 1503, 5),
    "german_credit": (datasets.load_german_credit, 1000, 20),
}
FOLDER = ROOT / "sklearn_ext" / "datasets" / "data"


@pytest.fixture(params=LOADERS.values(), ids=LOADERS.keys())
def case(request):
    return request.param


def test_every_loader_is_tested():
    assert {f"load_{name}" for name in LOADERS} == set(datasets.__all__)


def test_arrays(case):
    load, n_samples, n_features = case
    bunch = load(as_frame=False)
    assert isinstance(bunch, Bunch)
    assert bunch.data.shape == (n_samples, n_features)
    assert bunch.target.shape == (n_samples,)
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert np.isfinite(bunch.target).all()
    assert bunch.frame is None
    assert len(bunch.feature_names) == n_features
    assert len(set(bunch.feature_names)) == n_features
    X, y = load(return_X_y=True, as_frame=False)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


def test_frame_says_the_same(case):
    pd = pytest.importorskip("pandas")
    load, *_ = case
    arrays, frames = load(as_frame=False), load(as_frame=True)
    assert isinstance(frames.target, pd.Series)
    assert list(frames.data.columns) == arrays.feature_names
    assert list(frames.frame.columns) == [*arrays.feature_names, frames.target.name]
    codes = frames.data.apply(
        lambda column: column.cat.codes if column.dtype == "category" else column
    )
    np.testing.assert_array_equal(codes.to_numpy(dtype=float), arrays.data)
    np.testing.assert_array_equal(frames.target, arrays.target)
    X, y = load(return_X_y=True, as_frame=True)
    pd.testing.assert_frame_equal(X, frames.data)
    pd.testing.assert_series_equal(y, frames.target)


def test_each_load_is_fresh(case):
    load, *_ = case
    bunch = load(as_frame=False)
    bunch.data[:] = -1
    bunch.feature_names.clear()
    for levels in bunch.get("categories", {}).values():
        levels.clear()
    again = load(as_frame=False)
    assert (again.data != -1).any()
    assert again.feature_names
    assert all(again.get("categories", {"": "level"}).values())


def test_concrete_is_the_published_table():
    # Table of descriptive statistics in the data set's description at the source.
    concrete = datasets.load_concrete()
    mean = dict(zip(concrete.feature_names, concrete.data.mean(axis=0), strict=True))
    assert mean["cement"] == pytest.approx(281.17, abs=0.01)
    assert mean["superplasticizer"] == pytest.approx(6.20, abs=0.01)
    assert mean["age"] == pytest.approx(45.66, abs=0.01)
    assert concrete.target.min() == 2.33
    assert concrete.target.max() == 82.6
    assert concrete.target_names == ["compressive_strength"]


def test_airfoil_is_the_published_table():
    airfoil = datasets.load_airfoil()
    np.testing.assert_array_equal(airfoil.data[0], [800, 0, 0.3048, 71.3, 0.00266337])
    assert airfoil.target[0] == 126.201
    # The report tests six chord lengths at four velocities.
    assert len(np.unique(airfoil.data[:, 2])) == 6
    assert len(np.unique(airfoil.data[:, 3])) == 4


def test_german_credit_is_the_published_table():
    credit = datasets.load_german_credit(as_frame=False)
    assert list(credit.target_names) == ["bad", "good"]
    assert credit.target.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(credit.target), [300, 700])
    column = credit.feature_names.index("checking_status")
    counts = np.bincount(credit.data[:, column].astype(int))
    # A14, A11, A12, A13 of the source.
    levels = credit.categories["checking_status"]
    assert dict(zip(levels, counts.tolist(), strict=True)) == {
        "none": 394,
        "<0": 274,
        "0-200": 269,
        ">=200": 63,
    }


def test_german_credit_categories_all_occur():
    pytest.importorskip("pandas")
    credit = datasets.load_german_credit()
    categorical = credit.data.select_dtypes("category")
    assert set(categorical.columns) == set(credit.categories)
    assert len(categorical.columns) == 13
    for name, column in categorical.items():
        assert list(column.cat.categories) == credit.categories[name]
        assert column.nunique() == len(credit.categories[name])
    assert all(credit.data.drop(columns=categorical.columns).dtypes == np.int64)


def test_licence_is_stated_wherever_one_would_look(case):
    load, *_ = case
    bunch = load(as_frame=False)
    identifier = bunch.DESCR.split("https://doi.org/")[1].split()[0]
    licences = (FOLDER / "LICENSES.md").read_text()
    for text in (bunch.DESCR, load.__doc__, licences):
        assert "CC BY 4.0" in text
        assert identifier in text
    assert bunch.filename in licences
    assert (FOLDER / bunch.filename).is_file()


def test_data_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 150_000


def test_arrays_need_no_pandas_and_no_torch():
    # scikit-learn itself imports pandas where it is installed: play that it is not.
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from sklearn_ext.datasets import *\n"
        "load_concrete(), load_airfoil(), load_german_credit(as_frame=False)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        datasets.load_concrete(as_frame=True)
