import numpy as np
import pytest
from hinge_tree_samples import TreeRegressor, random_tree, sample_data
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from sklearn_ext.tree import export_dot, export_text, plot_tree
from sklearn_ext.tree._describe import format_number
from sklearn_ext.tree._leaf_table import leaf_table
from sklearn_ext.tree._regions import regions

READERS = [export_text, export_dot, plot_tree, leaf_table, regions]


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.0, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (1.0, 3, "1.000"),
        (-12.34567, 3, "-12.346"),
        (0.0123456, 3, "0.0123"),
        (-0.00012345, 2, "-0.00012"),
        (0.99996, 3, "1.000"),
        (1.25e-9, 3, "1.25e-9"),
        (123456789.126, 2, "123456789.13"),
        (1.5e300, 3, "1.50e+300"),
        (1e16, 12, "1.00000000000e+16"),
        (7.5, 0, "8"),
        (0.75, 0, "0.8"),
        (float("nan"), 3, "nan"),
    ],
)
def test_format_number(value, decimals, text):
    assert format_number(value, decimals) == text


@pytest.mark.parametrize("decimals", [1, 3, 12, 17, 40])
def test_formatted_numbers_keep_their_digits(decimals):
    rng = np.random.default_rng(0)
    values = rng.normal(size=200) * 10.0 ** rng.integers(-300, 300, 200)
    for value in values:
        shown = float(format_number(value, decimals))
        assert shown == pytest.approx(value, rel=0.51 * 10.0 ** (1 - min(decimals, 15)))


@pytest.mark.parametrize("reader", READERS)
def test_readers_need_a_fitted_hinge_tree(reader):
    X = np.arange(10.0).reshape(-1, 1)
    with pytest.raises(TypeError, match=f"{reader.__name__} needs a fitted HRT"):
        reader(DecisionTreeRegressor().fit(X, X[:, 0]))
    with pytest.raises(TypeError, match=r"got Ridge"):
        reader(Ridge().fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="not fitted yet"):
        reader(TreeRegressor())


@pytest.mark.parametrize("reader", [export_text, export_dot, plot_tree])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_names": ["a"]}, "feature_names has 1 names, but the model has 4"),
        ({"feature_names": "abcd"}, "must be a list of names, got the string 'abcd'"),
        ({"max_terms": 0}, "max_terms must be an integer of at least 1 or None, got 0"),
        ({"max_terms": True}, "max_terms must be"),
        ({"decimals": -1}, "decimals must be an integer of at least 0, got -1"),
        ({"decimals": None}, "decimals must be"),
    ],
)
def test_readers_check_their_arguments(reader, arguments, message):
    model = TreeRegressor(random_tree(*sample_data())).fit()
    with pytest.raises(ValueError, match=message):
        reader(model, **arguments)
