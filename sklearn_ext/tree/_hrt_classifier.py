"""The hinge regression tree as a scikit-learn classifier."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._sklearn import StrOptions, _fit_context
from ._base import BaseHRT
from ._export_dict import export_dict, restore

_LINEAR_FLOOR = 1e-3  # least probability of a class where shares are not logits
_LOGISTIC_FLOOR = 1e-12
_LOGISTIC_SHRINKAGE = 20.0


class HRTClassifier(ClassifierMixin, BaseHRT):
    """Classification tree with oblique hinge splits and logistic models in its leaves.

    The tree is that of `HRTRegressor`, grown on class indicators (one column for
    each class) by squared error; a leaf then gets a logistic regression whose
    slopes are shrunk to those of its parent.

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
    leaf_model : {"logistic", "linear", "constant"}, default="logistic"
        What a leaf predicts: a logistic model; linear class shares, clipped to
        [0.001, 1] and rescaled; or the shares of its rows, likewise.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, on top of ``sample_weight``.
    alpha : float, default=0.1
        Ridge on slopes, in standardised columns.
    leaf_shrinkage : float or "auto", default="auto"
        Ridge that pulls a leaf's slopes to its parent's, in the same units as
        ``alpha``. "auto" is 20 for logistic leaves; for others it is chosen by
        cross-validation, along with the pruning or for the whole tree
        (``pruning=None``), and is 5 for "aic" and "bic".
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
        selects from 100 columns on, unless a linear fit on all of them promises more,
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
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    tree_ : HingeTree
        The nodes as arrays, in the units of the data, one output for each class.
        ``coef`` and ``intercept`` are logits if ``leaf_model="logistic"``, else
        class shares.
    columns_ : DesignColumns
        How input columns became design columns; ``columns_.names`` lists these.
    n_leaves_ : int
        Leaves of the tree.
    leaf_shrinkage_ : float
        The shrinkage used.
    n_iter_ : int
        Most Newton rounds that a split took.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Share of each column in what the splits and the root's linear model gained.
        Sums to 1, or zeros if nothing was gained.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where they are all strings.

    Raises
    ------
    ValueError
        From ``fit``: infinite values, NaN in ``X`` if ``missing="error"``, negative or
        all-zero weights, continuous targets, a categorical column that is not there.
    TypeError
        From ``fit`` and ``predict``: sparse input.
    DeviceUnavailableError
        From ``fit``: a device that is not there.

    See Also
    --------
    HRTRegressor : The same tree for numbers; says more about the method.
    sklearn_ext.tree.export_text : The tree as text.

    Notes
    -----
    Splits follow the hinge regression tree of [1]_; growing on class indicators with
    several outputs, logistic leaves and their shrinkage are additions of this library.
    A split is searched along the direction of the outputs in which the node's
    residuals are largest, and judged on all outputs.

    References
    ----------
    .. [1] Li, Lin and Xu, "Hinge Regression Tree: A Newton Method for Oblique
       Regression Tree Splitting", ICLR 2026.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_ext.tree import HRTClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = HRTClassifier().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.93
    True
    """

    # Many weak columns are worth more to a logistic leaf than a few strong ones.
    _many_columns = 100

    _parameter_constraints: dict = {
        **BaseHRT._parameter_constraints,
        "leaf_model": [StrOptions({"logistic", "linear", "constant"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
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
        leaf_model="logistic",
        class_weight=None,
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
        self.class_weight = class_weight
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
        self.missing = missing
        self.categorical_features = categorical_features
        self.kernel = kernel
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Grow the tree and fit the models of its leaves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows: an array or a DataFrame; NaN is a missing value.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the rows; rows of weight zero are left out.

        Returns
        -------
        self : HRTClassifier
            The fitted model.
        """
        encoded, indicators, weight = self._check_inputs(X, y, sample_weight)
        logistic = self.leaf_model == "logistic" and len(self.classes_) > 1
        self._fit_tree(encoded, indicators, weight, indicators if logistic else None)
        return self

    def _prepare_target(self, y, weight):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, number = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            counted = weight > 0
            factor = np.zeros(len(y))
            factor[counted] = compute_sample_weight(self.class_weight, y[counted])
            weight = weight * factor
            if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
                raise ValueError(
                    f"class_weight={self.class_weight!r} gives rows negative, infinite "
                    "or only zero weights; use finite weights from 0 on"
                )
        indicators = number[:, None] == np.arange(len(self.classes_))
        return indicators.astype(np.float64), weight

    def _default_shrinkage(self):
        if self.leaf_model == "logistic":
            return _LOGISTIC_SHRINKAGE
        return super()._default_shrinkage()

    def _shrinkages(self):
        """Logistic leaves cost too much to fit for every candidate."""
        if self.leaf_model == "logistic":
            return (_LOGISTIC_SHRINKAGE,)
        return super()._shrinkages()

    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probability : ndarray of shape (n_samples, n_classes), float64
            In the order of ``classes_``; rows sum to 1.
        """
        design = self._design(X)
        value = self.tree_.predict(design)
        if len(self.classes_) == 1:
            return np.ones_like(value)
        floor = _LINEAR_FLOOR
        if self.leaf_model == "logistic":
            value = np.exp(value - value.max(axis=1, keepdims=True))
            value /= value.sum(axis=1, keepdims=True)
            floor = _LOGISTIC_FLOOR
        value = np.clip(value, floor, 1.0)
        return value / value.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_probability : ndarray of shape (n_samples, n_classes), float64
            In the order of ``classes_``.
        """
        return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """Return log-odds (two classes) or log-probabilities (more).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        score : ndarray of shape (n_samples,) or (n_samples, n_classes), float64
            With two classes, positive for the second.
        """
        log_proba = self.predict_log_proba(X)
        if len(self.classes_) == 2:
            return log_proba[:, 1] - log_proba[:, 0]
        return log_proba

    def predict(self, X):
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def export_dict(self):
        """Return the fitted model as a JSON-safe dictionary.

        Returns
        -------
        state : dict
            For ``from_dict``; ``json.dumps(state)`` works as it is.
        """
        return export_dict(self, ("n_iter_", "leaf_shrinkage_"))

    @classmethod
    def from_dict(cls, state):
        """Rebuild a fitted model from ``export_dict``.

        Parameters
        ----------
        state : dict
            What ``export_dict`` returned.

        Returns
        -------
        model : HRTClassifier
            Predicts what the exported model predicts.

        Raises
        ------
        ValueError
            If ``state`` is not such a dictionary, or of a newer version.
        """
        return restore(cls, state)
