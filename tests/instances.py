"""Cheap estimators for the tests that every estimator must pass.

Each public estimator appears at least once; `test_common.py` sees to it.
"""

from sklearn_ext.tree import HRTClassifier, HRTRegressor


def cheap_instances():
    """Make one new instance of everything that scikit-learn's checks run on."""
    return [HRTRegressor(), HRTClassifier()]
