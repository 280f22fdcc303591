"""Trees with linear models in their leaves.

Examples
--------
>>> import numpy as np
>>> from sklearn_ext.tree import HRTRegressor
>>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
>>> model = HRTRegressor(alpha=0.0, clip=None).fit(X, np.abs(X[:, 0]))
>>> model.n_leaves_
2
"""

from ._export_dot import export_dot
from ._export_text import export_text
from ._hrt_classifier import HRTClassifier
from ._hrt_regressor import HRTRegressor
from ._plot_tree import plot_tree

__all__ = ["HRTClassifier", "HRTRegressor", "export_dot", "export_text", "plot_tree"]
