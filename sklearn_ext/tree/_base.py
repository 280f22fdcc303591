"""What the hinge regression tree's regressor and classifier share."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from .._device import TorchStateMixin, resolve_device, threads, to_tensor
from .._progress import track
from .._sklearn import (
    Interval,
    StrOptions,
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
)
from ._assemble import TrainingData, assemble
from ._columns import NUMERIC, DesignColumns, categorical_mask
from ._cost_complexity import cut, weakest_links
from ._grow import Grower, GrowOptions
from ._leaf_table import leaf_table
from ._prune import PruneOptions, pruned
from ._regions import regions
from ._screen import missed_columns, relevant_columns, suffices
from ._search import SearchOptions
from ._select import (
    SHRINKAGES,
    LogisticLoss,
    SquaredLoss,
    above,
    choose,
    strengths,
)
from ._table import build_table, row_groups

_DEFAULT_SHRINKAGE = 5.0  # where leaf_shrinkage="auto" is not cross-validated
_SEARCH_SHRINKAGE = 0.1  # of both sides to their node while a split is searched
_MIN_SAMPLES = 5
_N_FOLDS = 5
_N_FOLDS_SMALL = 10  # up to _SMALL distinct rows, where the choice is noisy
_SMALL = 1024
_FOLD_ROWS = 4096  # cross-validation looks at no more rows than this
_N_STARTS = 2
_MAX_SCREENS = 3
# The trees of cross-validation only have to overfit like the real one.
_FOLD_SEARCH = {"max_axis_features": 4, "n_starts": 1}


class BaseHRT(TorchStateMixin, BaseEstimator):
    """Base of HRTRegressor and HRTClassifier."""

    # From here on columns that do not matter are looked for.
    _many_columns = 25

    _parameter_constraints: dict = {
        "splitter": [StrOptions({"mixed", "hinge"})],
        "max_leaf_nodes": [Interval(Integral, 1, None, closed="left"), None],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "growth": [StrOptions({"best", "depth"})],
        "min_samples_leaf": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "min_gain": [Interval(Real, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "leaf_shrinkage": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "step": [Interval(Real, 0, 1, closed="right"), StrOptions({"backtracking"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_bins": [Interval(Integral, 2, 255, closed="both")],
        "max_axis_features": [Interval(Integral, 1, None, closed="left")],
        "max_active_features": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "subsample": [Interval(Integral, 10, None, closed="left"), None],
        "pruning": [StrOptions({"cv", "aic", "bic"}), None],
        "ccp_alpha": [Interval(Real, 0, None, closed="left")],
        "missing": [StrOptions({"impute", "error"})],
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "kernel": [StrOptions({"auto", "numba", "torch"})],
        "device": [str, torch.device],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.input_tags.sparse = False
        return tags

    # -- input ---------------------------------------------------------------------

    def _check_inputs(self, X, y, sample_weight, **y_params):
        """Validate; return encoded X, y and weights without the rows of weight zero."""
        encoded, y = self._fit_columns(X, y, y_params)
        weight = _check_sample_weight(sample_weight, encoded, dtype=np.float64)
        self._check_weight(weight)
        y, weight = self._prepare_target(y, weight)
        kept = weight > 0
        if not kept.all():
            encoded, y, weight = encoded[kept], y[kept], weight[kept]
        self.columns_.fit(encoded, weight)
        return encoded, y, weight

    def _prepare_target(self, y, weight):
        """Return y as floats (n, k) and the weights, those of classes included."""
        raise TypeError("HRTRegressor and HRTClassifier say what a target is")

    def _check_weight(self, weight):
        if (weight < 0).any():
            raise ValueError(
                f"sample_weight must not be negative, got {weight.min():g}; drop those "
                "rows or give them weight 0"
            )
        if not (weight > 0).any():
            raise ValueError(
                "sample_weight is zero for every row; at least one must be positive"
            )

    def _fit_columns(self, X, y, y_params):
        self._refuse_sparse(X)
        finite = True if self.missing == "error" else "allow-nan"
        params = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        if self.categorical_features is None:
            X, y = self._validate(X, y, **params, **y_params)
            names, mask = self._names(), np.zeros(X.shape[1], dtype=bool)
            self.columns_ = DesignColumns(names, mask)
            return self.columns_.encode(X), y
        X = self._as_table(X)
        _check_feature_names(self, X, reset=True)
        _check_n_features(self, X, reset=True)
        mask = categorical_mask(
            self.categorical_features,
            X,
            self.n_features_in_,
            getattr(self, "feature_names_in_", None),
        )
        self.columns_ = DesignColumns(self._names(), mask)
        encoded = self.columns_.encode(X, reset=True)
        # Validated as numbers under the names already learnt.
        names = getattr(self, "feature_names_in_", None)
        encoded, y = self._validate(encoded, y, **params, **y_params)
        if names is not None:
            self.feature_names_in_ = names
        return encoded, y

    def _validate(self, *args, **params):
        """Validate as scikit-learn does; say what to do about text in X."""
        try:
            return validate_data(self, *args, **params)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{error}: columns of text have to be listed in categorical_features "
                "('from_dtype' for the categorical columns of a DataFrame), or encoded "
                "first; targets of a regressor have to be numbers"
            ) from error

    def _names(self):
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else names

    def _refuse_sparse(self, X):
        if issparse(X):
            raise TypeError(
                f"{type(self).__name__} takes no sparse input, since linear models in "
                "the leaves make it dense; pass X.toarray()"
            )

    @staticmethod
    def _as_table(X):
        """Leave tables with columns as they are, make an object array of the rest."""
        if not hasattr(X, "columns") and not isinstance(X, np.ndarray):
            try:
                X = np.asarray(X, dtype=object)
            except ValueError as error:
                raise ValueError(f"X is not a table of equal rows: {error}") from None
        if len(X.shape) != 2:
            raise ValueError(
                f"Expected 2D array, got an X of shape {X.shape}; pass one row per "
                "sample and one column per feature"
            )
        if 0 in X.shape:
            raise ValueError(
                f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s); "
                "a minimum of 1 is required of each"
            )
        return X

    def _design(self, X):
        """Check X for a fitted model; return its design matrix, float64."""
        check_is_fitted(self)
        self._refuse_sparse(X)
        finite = True if self.missing == "error" else "allow-nan"
        params = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        if not self.columns_.categorical.any():
            X = self._validate(X, reset=False, **params)
            return self.columns_.design(self.columns_.encode(X))
        X = self._as_table(X)
        _check_feature_names(self, X, reset=False)
        _check_n_features(self, X, reset=False)
        encoded = check_array(
            self.columns_.encode(X), estimator=self, input_name="X", **params
        )
        return self.columns_.design(encoded)

    # -- fit -----------------------------------------------------------------------

    def _fit_tree(self, encoded, y, weight, indicators=None):
        """Grow and prune; set the fitted attributes.

        With class `indicators` (n, k) the leaves are logistic.
        """
        # The matrices are small: more threads would only wait for each other, and
        # sums would depend on their number.
        with threads(1), threadpool_limits(1):
            self._fit_on_one_thread(encoded, y, weight, indicators)

    def _fit_on_one_thread(self, encoded, y, weight, indicators):
        device = resolve_device(self.device)
        design = self.columns_.design(encoded)
        table, scaling, first = build_table(design, y, weight, device)
        if indicators is not None:
            indicators = to_tensor(indicators[first], device=device)
        kernel = self._kernel(device)
        grower, table, scaling = self._grow_on_relevant(table, scaling, kernel)
        data = TrainingData(design, y, weight, first)
        tree = self._finish(grower, scaling, kernel, data, indicators)
        self.tree_ = tree
        self.n_leaves_ = tree.n_leaves
        self.n_iter_ = max(1, int(tree.n_iter.max()))
        self.feature_importances_ = self._importances(design, weight)

    def _relevant(self, table):
        """Return the columns of the table that the tree may use; None: all of them."""
        limit, d = self.max_active_features, table.x.shape[1] - 1
        if d == 0 or limit is None or (limit == "auto" and d < self._many_columns):
            return None
        x, y, w = (t.cpu().numpy() for t in (table.x[:, :-1], table.y, table.w))
        columns = relevant_columns(x, y, w, d if limit == "auto" else limit)
        if limit == "auto" and not suffices(x, y, w, columns):
            return None
        return columns

    def _grow_on_relevant(self, table, scaling, kernel):
        """Grow the tree on the columns that matter, if there are many."""
        columns = self._relevant(table)
        rows = [torch.arange(len(table.x))]
        if columns is None:
            return self._grow(table, rows, kernel), table, scaling
        for _ in range(_MAX_SCREENS):
            part, used = table.keep(columns), columns
            grower = self._grow(part, rows, kernel)
            missed = self._missed(table, columns, grower)
            if not len(missed):
                break
            columns = np.union1d(columns, missed)
        return grower, part, scaling.keep(used)

    def _missed(self, table, columns, grower):
        """Return columns that the residuals in the leaves ask for.

        Only where the number of columns is free: an integer is kept to.
        """
        if self.max_active_features != "auto":
            return columns[:0]
        compact = grower.compact(0)
        products = compact.products
        theta = products.fit(self.alpha, _DEFAULT_SHRINKAGE)
        sse = products.sse(theta).sum(-1).cpu().numpy()
        options = PruneOptions(False, self.ccp_alpha)
        price = np.log(max(products.weight, 2.0))
        ends = pruned(products, sse, options.leaf_cost(products, sse, price))
        leaves = []
        for i in np.flatnonzero(ends):
            rows = grower.rows(compact.ids[i])
            x, y, w = (t[rows] for t in (grower.table.x, grower.table.y, table.w))
            leaves.append(tuple(t.cpu().numpy() for t in (rows, y - x @ theta[i], w)))
        return missed_columns(table.x[:, :-1].cpu().numpy(), columns, leaves)

    def _finish(self, grower, scaling, kernel, data, indicators):
        """Choose how far to prune a tree and to shrink its leaves; do so."""
        table = grower.table
        folds = self._folds(grower) if self._cross_validates() else []
        constant = self.leaf_model == "constant"
        loss: Any = SquaredLoss(table)
        if indicators is not None:
            loss = LogisticLoss(table, indicators, self.alpha)
        options = PruneOptions(constant, self.ccp_alpha)
        strength, shrinkage = self._choose(table, folds, kernel, options, loss)
        compact = grower.compact(0)
        products = compact.products
        theta = products.fit(self.alpha, shrinkage, constant)
        leaves = products.left < 0
        if self.pruning is not None or self.ccp_alpha > 0:
            sse = products.sse(theta).sum(-1).cpu().numpy()
            cost = options.leaf_cost(products, sse, strength(products.weight))
            leaves = pruned(products, sse, cost)
        logits = None
        if indicators is not None:
            needed = above(products, leaves)
            logits = loss.models(grower, compact, shrinkage, needed)
        self.leaf_shrinkage_ = shrinkage
        return assemble(grower, compact, leaves, theta, scaling, data, logits)

    def _kernel(self, device):
        if self.kernel == "auto":
            return "numba" if device.type == "cpu" else "torch"
        if self.kernel == "numba" and device.type != "cpu":
            raise ValueError(
                f"kernel='numba' runs on the CPU only, but the device is {device}; use "
                "kernel='auto' or device='cpu'"
            )
        return self.kernel

    def _grow(self, table, roots, kernel, **search):
        """Grow a tree on each set of rows, all of them together."""
        device = table.x.device
        options = self._grow_options(table.x.shape[1], kernel, **search)
        grower = Grower(table, [rows.to(device) for rows in roots], options)
        rounds = grower.rounds()
        for _ in track(rounds, desc=type(self).__name__, verbose=self.verbose):
            pass
        return grower

    def _folds(self, grower):
        """Return pairs (training rows, held-out rows); none if rows are too few."""
        group, n_groups = row_groups(grower.table, grower.theta[0])
        stride = -(-n_groups // _FOLD_ROWS)
        n_folds = _N_FOLDS_SMALL if n_groups <= _SMALL else _N_FOLDS
        if n_groups < 2 * n_folds:
            return []
        fold = np.where(group % stride == 0, group // stride % n_folds, -1)
        return [
            (
                torch.from_numpy(np.flatnonzero((fold >= 0) & (fold != k))),
                torch.from_numpy(np.flatnonzero(fold == k)),
            )
            for k in range(n_folds)
        ]

    def _grow_options(self, p, kernel, **changes):
        shrinkage = self.leaf_shrinkage
        if shrinkage == "auto":
            shrinkage = _SEARCH_SHRINKAGE
        least = self.min_samples_leaf
        if least == "auto":  # nothing but the ridge steadies a leaf without shrinkage
            least = _MIN_SAMPLES if shrinkage > 0 else max(_MIN_SAMPLES, p)
        search = SearchOptions(
            axis=self.splitter == "mixed",
            penalty=self.alpha + shrinkage,
            alpha=self.alpha,
            min_weight=least,
            step=self.step,
            max_iter=self.max_iter,
            tol=self.tol,
            n_starts=_N_STARTS,
            n_bins=self.n_bins,
            max_axis_features=self.max_axis_features,
            subsample=self.subsample,
            kernel=kernel,
            rng=self._generator() if self.subsample else None,
        )
        return GrowOptions(
            replace(search, **changes),
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_gain=self.min_gain,
            best_first=self.growth == "best",
        )

    def _choose(self, table, folds, kernel, options, loss):
        """Return a function weight -> price of a parameter, and the shrinkage."""
        auto = self.leaf_shrinkage == "auto"
        shrinkage = self._default_shrinkage() if auto else float(self.leaf_shrinkage)
        if folds:
            training = [rows for rows, _ in folds]
            grower = self._grow(table, training, kernel, **_FOLD_SEARCH)
            held_out = [rows.to(table.x.device) for _, rows in folds]
            candidates = self._shrinkages() if auto else (shrinkage,)

            def prices_of(weight):
                if self.pruning is None:
                    return [0.0]
                return strengths(weight, loss.least_price)

            args = (grower, held_out, self.alpha, candidates, options, loss, prices_of)
            index, shrinkage = choose(*args)
            return lambda weight: prices_of(weight)[index], shrinkage
        if self.pruning == "bic":
            return lambda weight: np.log(max(weight, 2.0)), shrinkage
        return lambda weight: 0.0 if self.pruning is None else 2.0, shrinkage

    def _generator(self):
        """Return a generator; NumPy's global one is left as it is."""
        if self.random_state is None:
            return np.random.RandomState()
        return check_random_state(self.random_state)

    def _cross_validates(self):
        """Tell whether the price of a leaf or the shrinkage is to be found."""
        if self.pruning is None:
            return self.leaf_shrinkage == "auto" and len(self._shrinkages()) > 1
        return self.pruning == "cv"

    def _default_shrinkage(self):
        return _DEFAULT_SHRINKAGE

    def _shrinkages(self):
        """Candidates of leaf_shrinkage="auto"."""
        return SHRINKAGES

    def _importances(self, design, weight):
        """Share of each input column in what the splits and the root's model gained."""
        tree = self.tree_
        size = np.abs(design).max(axis=0)
        size[size == 0] = 1.0
        relative = design / size
        mean = np.average(relative, axis=0, weights=weight)
        spread = np.average((relative - mean) ** 2, axis=0, weights=weight)
        spread = np.sqrt(spread) * size
        share = np.zeros(tree.n_columns)
        root_gain = tree.sst[0] - tree.sse[0]
        slopes = np.abs(tree.coef[0]).sum(axis=0) * spread
        gains = [(root_gain, slopes)]
        inner = np.flatnonzero(tree.children_left >= 0)
        gains += [(tree.gain[i], np.abs(tree.split_coef[i]) * spread) for i in inner]
        for gain, slopes in gains:
            if slopes.sum() > 0 and gain > 0:
                share += gain * slopes / slopes.sum()
        out = np.bincount(
            self.columns_.source, weights=share, minlength=self.n_features_in_
        )
        return out / out.sum() if out.sum() > 0 else out

    # -- reading the tree ----------------------------------------------------------

    def apply(self, X):
        """Return the leaf that each row ends in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        leaf : ndarray of shape (n_samples,), int64
            Node numbers of ``tree_``.
        """
        design = self._design(X)
        return self.tree_.apply(design)

    def decision_path(self, X):
        """Return the nodes that each row passes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        indicator : csr_matrix of shape (n_samples, n_nodes)
            1 where the row passes the node.
        """
        design = self._design(X)
        return self.tree_.decision_path(design)

    def get_depth(self):
        """Return the depth of the tree, 0 for a single leaf.

        Returns
        -------
        depth : int
            Longest path from the root to a leaf.
        """
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self):
        """Return the number of leaves.

        Returns
        -------
        n_leaves : int
            Leaves of the tree.
        """
        check_is_fitted(self)
        return self.tree_.n_leaves

    def leaf_table(self, feature_names=None):
        """Describe every leaf: its rows, fit, coefficients and box.

        Parameters
        ----------
        feature_names : list of str, default=None
            Names of the design columns; those seen in ``fit`` by default.

        Returns
        -------
        rows : list of dict
            One per leaf, with the keys ``leaf, depth, rows, weight, r2, rmse,
            intercept, coef, box``; ``pandas.DataFrame(rows)`` makes a table of it.
        """
        return leaf_table(self, feature_names)

    def regions(self):
        """Return each leaf as a polyhedron with an affine map, for MIP and control.

        Returns
        -------
        regions : list of Region
            ``A @ z <= b`` (strict where ``strict``) and ``coef @ z + intercept``.
        """
        return regions(self)

    def _pruned_copy(self, leaves):
        """Copy this model with the tree cut off at `leaves`."""
        model = copy.copy(self)
        model.tree_ = cut(self.tree_, leaves)
        model.n_leaves_ = model.tree_.n_leaves
        return model

    def prune(self, ccp_alpha):
        """Return a copy whose tree is cut back; this model stays as it is.

        Parameters
        ----------
        ccp_alpha : float
            What a leaf must save, as a share of the total variance of the targets:
            at least 0.

        Returns
        -------
        model : same type
            The smallest subtree that minimises squared errors plus ``ccp_alpha`` a
            leaf. Models of the nodes are kept, not refitted.

        Raises
        ------
        ValueError
            If ``ccp_alpha`` is negative or not a number.
        """
        check_is_fitted(self)
        if not isinstance(ccp_alpha, Real) or not float(ccp_alpha) >= 0:
            raise ValueError(f"ccp_alpha must be a number from 0 on, got {ccp_alpha!r}")
        tree = self.tree_
        links = Bunch(left=tree.children_left, right=tree.children_right)
        return self._pruned_copy(
            pruned(links, tree.sse, float(ccp_alpha) * tree.sst[0])
        )

    def pruning_path(self):
        """Return the sequence of subtrees that cost-complexity pruning gives.

        Returns
        -------
        path : Bunch
            ``ccp_alphas``, rising, as shares of the total variance; ``n_leaves`` and
            ``sse`` (squared errors on the training rows) of the subtree that
            ``prune(ccp_alpha)`` gives just above each.
        """
        check_is_fitted(self)
        return weakest_links(self.tree_)


def numeric_slopes(columns, coef):
    """Slopes (..., d) of the input columns from those (..., q) of design columns.

    A categorical column has no slope: NaN.
    """
    d = len(columns.feature_names)
    out = np.full((*coef.shape[:-1], d), np.nan)
    for q, (j, kind) in enumerate(zip(columns.source, columns.kind, strict=True)):
        if kind == NUMERIC:
            out[..., j] = coef[..., q]
    return out
