"""The hinge regression tree as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from .._sklearn import StrOptions, _fit_context
from ._base import BaseHRT, numeric_slopes
from ._export_dict import export_dict, restore


class HRTRegressor(RegressorMixin, BaseHRT):
    """Regression tree with oblique hinge splits and linear models in its leaves.

    A split is the hyperplane on which two linear models meet, ``max(l1, l2)`` or
    ``min(l1, l2)``, found by a damped Newton method [1]_; axis-aligned cuts with a
    linear model on either side compete with it, since a hinge cannot show a jump.
    The tree is grown best-first and cut back, and the slopes of a leaf are shrunk to
    those of its parent; by how much is chosen by cross-validation.

    Parameters
    ----------
    splitter : {"mixed", "hinge"}, default="mixed"
        Candidates for a split: hinges and axis-aligned cuts, or hinges alone.
    max_leaf_nodes : int or None, default=64
        Most leaves before pruning.
    max_depth : int or None, default=None
        Most splits between the root and a leaf.
    growth : {"best", "depth"}, default="best"
        Split the leaf with the largest gain next, or level after level.
    min_samples_leaf : int or "auto", default="auto"
        Least total weight of a leaf's rows. "auto" is 5, or one more than the
        number of columns where ``leaf_shrinkage=0``.
    min_gain : float, default=0.0
        Least gain of a split, as a share of the total sum of squares.
    leaf_model : {"linear", "constant"}, default="linear"
        What a leaf predicts: a linear model or the mean.
    alpha : float, default=0.1
        Ridge on slopes, in standardised columns and targets.
    leaf_shrinkage : float or "auto", default="auto"
        Ridge that pulls a leaf's slopes to its parent's, in the same units as
        ``alpha``. "auto" is chosen by cross-validation, along with the pruning or
        for the whole tree (``pruning=None``), and is 5 for "aic" and "bic".
    step : float or "backtracking", default="backtracking"
        Step of the Newton search: a fixed one in (0, 1], or the longest of 1, 1/2,
        1/4, ... that lowers the objective enough.
    max_iter : int, default=50
        Most Newton rounds for a split.
    tol : float, default=1e-4
        Relative decrease of the objective at which the search of a split ends.
    n_bins : int, default=16
        Bins per column and node among which axis-aligned cuts are first looked for;
        the best cut is then refined to single values. At most 255.
    max_axis_features : int, default=8
        Columns per node that are searched for axis-aligned cuts, those first on
        which the residual shows a kink or a jump.
    max_active_features : int, "auto" or None, default="auto"
        Columns that the tree uses at all, found by forward selection on slopes,
        kinks and jumps. None uses every column; an integer at most that many. "auto"
        selects from 25 columns on, unless a linear fit on all of them promises more,
        and adds columns on which residuals in the leaves turn out to depend.
    subsample : int or None, default=None
        Search each split on at most this many rows of its node, drawn at random, and
        polish the winner on all of them. For hundreds of thousands of rows.
    pruning : {"cv", "aic", "bic"} or None, default="cv"
        Cut back subtrees that do not earn their parameters: at AIC's price (2), at
        BIC's (ln n), at the best of six prices by 5-fold cross-validation on at
        most 4096 rows, or not at all. With fewer than ten distinct rows "cv" is
        "aic".
    ccp_alpha : float, default=0.0
        Price of a leaf as a share of the total sum of squares, on top of that.
    clip : {"global", "leaf"} or None, default="global"
        Clip predictions to the range of all training targets, of the leaf's, or not.
    missing : {"impute", "error"}, default="impute"
        Missing values: fill with the mean and add a column that marks them, or
        refuse.
    categorical_features : "from_dtype", array-like of int, bool or str, or None, \
default=None
        Columns to one-hot encode: those of categorical dtype, or by index, mask or
        name. A level not seen in ``fit`` is none of the known ones.
    kernel : {"auto", "numba", "torch"}, default="auto"
        Inner loops: compiled ones on the CPU, or batched tensor code, which is what
        a GPU runs. Both do the same.
    device : str or torch.device, default="auto"
        Where to fit: "cpu", "cuda", "cuda:1"; "auto" is a GPU if there is one.
        Predictions are made on the host.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of ``subsample``; nothing else is random.
    verbose : int, default=0
        Show a progress bar while the tree grows.

    Attributes
    ----------
    tree_ : HingeTree
        The nodes as arrays, in the units of the data.
    columns_ : DesignColumns
        How input columns became design columns; ``columns_.names`` lists these.
    n_leaves_ : int
        Leaves of the tree.
    leaf_shrinkage_ : float
        The shrinkage used.
    clip_ : tuple of two ndarrays of shape (n_outputs,), or None
        Range of predictions if ``clip="global"``.
    n_iter_ : int
        Most Newton rounds that a split took.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each column in what the splits and the root's linear model gained.
        Sums to 1, or zeros if nothing was gained.
    n_outputs_ : int
        Number of targets.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where they are all strings.

    Raises
    ------
    ValueError
        From ``fit``: infinite values, NaN in ``y`` or (if ``missing="error"``) in
        ``X``, negative or all-zero weights, a categorical column that is not there.
    TypeError
        From ``fit`` and ``predict``: sparse input.
    DeviceUnavailableError
        From ``fit``: a device that is not there.

    See Also
    --------
    HRTClassifier : The same tree for classes.
    sklearn_ext.tree.export_text : The tree as text.
    sklearn_ext.tree.plot_tree : The tree as a picture.

    Notes
    -----
    With a partition held fixed the node objective is quadratic, so the least-squares
    fit of either side is the Newton step; backtracking on the penalised objective
    makes it fall monotonically. The method of the paper [1]_ is
    ``HRTRegressor(splitter="hinge", growth="depth", max_depth=6,
    max_leaf_nodes=None, alpha=1.0, leaf_shrinkage=0.0, pruning=None)``; axis-aligned
    candidates, best-first growth, shrinkage and pruning are additions of this
    library.

    Weights are frequencies: an integer weight is that many equal rows. Up to rounding
    the model does not depend on units and order of the columns. On ten thousand rows
    and more the rows on which starts are compared are taken by position, so the order
    of rows can change single predictions, not their quality.

    Use a plain linear model for tiny or purely linear data. Gradient boosting with
    hundreds of trees is usually more accurate on many thousand rows; this is one tree
    of a few leaves that can be read.

    References
    ----------
    .. [1] Li, Lin and Xu, "Hinge Regression Tree: A Newton Method for Oblique
       Regression Tree Splitting", ICLR 2026.

    Examples
    --------
    >>> from sklearn_ext.datasets import load_airfoil
    >>> from sklearn_ext.tree import HRTRegressor
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_airfoil(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = HRTRegressor().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.85
    True
    >>> model.n_leaves_ <= 64
    True
    """

    _parameter_constraints: dict = {
        **BaseHRT._parameter_constraints,
        "leaf_model": [StrOptions({"linear", "constant"})],
        "clip": [StrOptions({"global", "leaf"}), None],
    }

    def __init__(
        self,
        *,
        splitter="mixed",
        max_leaf_nodes=64,
        max_depth=None,
        growth="best",
        min_samples_leaf="auto",
        min_gain=0.0,
        leaf_model="linear",
        alpha=0.1,
        leaf_shrinkage="auto",
        step="backtracking",
        max_iter=50,
        tol=1e-4,
        n_bins=16,
        max_axis_features=8,
        max_active_features="auto",
        subsample=None,
        pruning="cv",
        ccp_alpha=0.0,
        clip="global",
        missing="impute",
        categorical_features=None,
        kernel="auto",
        device="auto",
        random_state=None,
        verbose=0,
    ):
        self.splitter = splitter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.growth = growth
        self.min_samples_leaf = min_samples_leaf
        self.min_gain = min_gain
        self.leaf_model = leaf_model
        self.alpha = alpha
        self.leaf_shrinkage = leaf_shrinkage
        self.step = step
        self.max_iter = max_iter
        self.tol = tol
        self.n_bins = n_bins
        self.max_axis_features = max_axis_features
        self.max_active_features = max_active_features
        self.subsample = subsample
        self.pruning = pruning
        self.ccp_alpha = ccp_alpha
        self.clip = clip
        self.missing = missing
        self.categorical_features = categorical_features
        self.kernel = kernel
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Grow the tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows: an array or a DataFrame; NaN is a missing value.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Outputs weigh equally whatever their units.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the rows; rows of weight zero are left out.

        Returns
        -------
        self : HRTRegressor
            The fitted model.
        """
        encoded, y, weight = self._check_inputs(
            X, y, sample_weight, y_numeric=True, multi_output=True
        )
        self.n_outputs_ = y.shape[1]
        self._fit_tree(encoded, y, weight)
        self.clip_: Any = None
        if self.clip == "global":
            self.clip_ = (y.min(axis=0), y.max(axis=0))
        return self

    def _prepare_target(self, y, weight):
        y = np.asarray(y, dtype=np.float64)
        if not np.isfinite(y).all():  # in an object array it passes the validation
            raise ValueError("Input y contains NaN or infinity; drop those rows")
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self._flat_output = y.ndim == 1
        return y.reshape(len(y), -1), weight

    def predict(self, X):
        """Predict the targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64
            Predictions, in the units of the targets.
        """
        design = self._design(X)
        value = self.tree_.predict(design)
        if self.clip == "global":
            low, high = self.clip_
            np.clip(value, low, high, out=value)
        elif self.clip == "leaf":
            leaf, tree = self.tree_.apply(design), self.tree_
            np.clip(value, tree.value_min[leaf], tree.value_max[leaf], out=value)
        return value[:, 0] if self._flat_output else value

    def gradient(self, X):
        """Return the slopes of the prediction at each row, its exact local explanation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        slopes : ndarray of shape (n_samples, n_features) or \
(n_samples, n_outputs, n_features)
            Derivative of the unclipped prediction by each input column inside the
            row's leaf; NaN for categorical columns.
        """
        leaf = self.apply(X)
        slopes = numeric_slopes(self.columns_, self.tree_.coef[leaf])
        return slopes[:, 0] if self._flat_output else slopes

    def export_dict(self):
        """Return the fitted model as a JSON-safe dictionary.

        Returns
        -------
        state : dict
            For ``from_dict``; ``json.dumps(state)`` works as it is.
        """
        plain = ("n_outputs_", "n_iter_", "leaf_shrinkage_", "_flat_output")
        return export_dict(self, plain)

    @classmethod
    def from_dict(cls, state):
        """Rebuild a fitted model from ``export_dict``.

        Parameters
        ----------
        state : dict
            What ``export_dict`` returned.

        Returns
        -------
        model : HRTRegressor
            Predicts what the exported model predicts.

        Raises
        ------
        ValueError
            If ``state`` is not such a dictionary, or of a newer version.
        """
        return restore(cls, state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
