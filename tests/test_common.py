"""scikit-learn's own checks on every public estimator, none of them excused."""

import inspect
import pickle

import instances
import pytest
from packages import SUB_PACKAGES, public_objects
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

ESTIMATORS = instances.cheap_instances()
each_estimator = pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__
)


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_public_estimator_has_an_instance():
    public = {
        value
        for package in SUB_PACKAGES
        for value in public_objects(package).values()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }
    assert public == {type(estimator) for estimator in ESTIMATORS}


@each_estimator
def test_every_parameter_has_a_constraint(estimator):
    assert set(estimator._parameter_constraints) == set(estimator.get_params())


@each_estimator
def test_arguments_are_named(estimator):
    parameters = inspect.signature(type(estimator)).parameters.values()
    assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}


@each_estimator
def test_an_unfitted_estimator_survives_clone_and_pickle(estimator):
    for copied in (clone(estimator), pickle.loads(pickle.dumps(estimator))):
        assert type(copied) is type(estimator)
        assert copied.get_params() == estimator.get_params()


@each_estimator
def test_a_device_parameter_defaults_to_auto(estimator):
    assert estimator.get_params().get("device", "auto") == "auto"
