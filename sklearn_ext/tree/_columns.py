"""From the user's columns to the numeric design matrix that a tree is grown on."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np

from .._sklearn import _safe_indexing

NUMERIC, MISSING, LEVEL = "numeric", "missing", "level"
_CATEGORY_DTYPES = ("category", "Categorical", "Enum")


class DesignColumns:
    """Imputes missing numbers, flags them, and one-hot encodes categories.

    A numeric column stays one column; one that had missing values when fitted is
    filled with its weighted mean and followed by a 0/1 column that marks them. A
    categorical column becomes one 0/1 column for each level seen, a missing value
    counting as a level; a level not seen before is zero in all of them.

    Attributes
    ----------
    names : list of str
        One name for each design column.
    source : ndarray of shape (q,), int64
        The input column that each design column comes from.
    kind : list of str
        "numeric", "missing" or "level", for each design column.
    """

    def __init__(self, feature_names, categorical):
        self.feature_names = [str(name) for name in feature_names]
        self.categorical = np.asarray(categorical, dtype=bool)
        self.levels = {}

    def encode(self, X, *, reset=False):
        """Return float64 (n, d): numbers as they are, categories as level numbers."""
        if not self.categorical.any():
            return np.asarray(X, dtype=np.float64)
        columns = []
        for j, name in enumerate(self.feature_names):
            column = np.asarray(_safe_indexing(X, j, axis=1))
            if self.categorical[j]:
                columns.append(self._encode_levels(j, column.ravel(), reset))
            else:
                columns.append(_as_numbers(column.ravel(), name))
        return np.column_stack(columns)

    def _encode_levels(self, j, column, reset):
        keys = [_level_key(value) for value in column.tolist()]
        if reset:
            self.levels[j] = sorted(set(keys), key=_level_order)
        number = {key: i for i, key in enumerate(self.levels[j])}
        return np.array([number.get(key, -1) for key in keys], dtype=np.float64)

    def fit(self, encoded, weight):
        """Learn means and which columns have missing values, from encoded columns."""
        self.names, self.kind, source, mean = [], [], [], []
        for j, name in enumerate(self.feature_names):
            if self.categorical[j]:
                for level in self.levels[j]:
                    label = "missing" if level is None else level
                    self._append(f"{name}={label}", LEVEL)
                source += [j] * len(self.levels[j])
                mean.append(0.0)
                continue
            known = ~np.isnan(encoded[:, j])
            some = known.any()
            value = np.average(encoded[known, j], weights=weight[known]) if some else 0
            mean.append(float(value))
            self._append(name, NUMERIC)
            source.append(j)
            if not known.all():
                self._append(f"{name} is missing", MISSING)
                source.append(j)
        self.source = np.array(source, dtype=np.int64)
        self.mean = np.array(mean)
        return self

    def _append(self, name, kind):
        self.names.append(name)
        self.kind.append(kind)

    def design(self, encoded):
        """Return the design matrix (n, q) of encoded columns."""
        flagged = self._flagged()
        numeric = ~self.categorical
        missing = np.isnan(encoded) & numeric
        some = missing.any(axis=0)
        new = [name for j, name in enumerate(self.feature_names)
               if some[j] and j not in flagged]  # fmt: skip
        if new:
            warnings.warn(
                f"missing values in {new}, which had none when the model was fitted; "
                "they are replaced by the training mean. Fit on data that shows them.",
                UserWarning,
                stacklevel=_depth_of_caller(),
            )
        filled = np.where(missing, self.mean, encoded) if some.any() else encoded
        if all(kind == NUMERIC for kind in self.kind):
            return filled
        blocks = []
        for j in range(len(self.feature_names)):
            if self.categorical[j]:
                levels = np.arange(len(self.levels[j]))
                blocks.append((encoded[:, [j]] == levels).astype(np.float64))
                continue
            blocks.append(filled[:, [j]])
            if j in flagged:
                blocks.append(missing[:, [j]].astype(np.float64))
        return np.hstack(blocks)

    def _flagged(self):
        pairs = zip(self.source, self.kind, strict=True)
        return {int(j) for j, kind in pairs if kind == MISSING}

    def transform(self, X):
        """Return the design matrix (n, q) of the user's table."""
        return self.design(self.encode(X))

    def to_dict(self):
        """Return a JSON-safe description."""
        return {
            "feature_names": self.feature_names,
            "categorical": self.categorical.tolist(),
            "levels": {str(j): levels for j, levels in self.levels.items()},
            "names": self.names,
            "kind": self.kind,
            "source": self.source.tolist(),
            "mean": self.mean.tolist(),
        }

    @classmethod
    def from_dict(cls, state):
        """Rebuild from `to_dict`."""
        self = cls(state["feature_names"], state["categorical"])
        self.levels = {int(j): list(levels) for j, levels in state["levels"].items()}
        self.names, self.kind = list(state["names"]), list(state["kind"])
        self.source = np.array(state["source"], dtype=np.int64)
        self.mean = np.array(state["mean"], dtype=np.float64)
        return self


def _level_key(value):
    """Make a hashable, JSON-safe key of one category; None of a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


def _depth_of_caller():
    """Count the frames of this library above the user's call."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].startswith("sklearn_ext."):
        depth, frame = depth + 1, frame.f_back
    return depth - 1


def _level_order(key):
    return type(key).__name__, 0 if key is None else key


def _as_numbers(column, name):
    if column.dtype.kind in "mMc":
        raise ValueError(
            f"column {name!r} has dtype {column.dtype}; turn it into numbers first"
        )
    if column.dtype == object:  # nullable columns: their missing value is no float
        known = [np.nan if _level_key(v) is None else v for v in column.tolist()]
        column = np.array(known, dtype=object)
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} is not numeric ({error}); list it in "
            "categorical_features or encode it first"
        ) from None
    if np.isinf(numbers).any():
        raise ValueError(f"Input X contains infinity, in column {name!r}")
    return numbers


def categorical_mask(categorical_features, X, n_features, feature_names):
    """Which columns are categorical, (n_features,) bool.

    Parameters
    ----------
    categorical_features : None, "from_dtype" or array-like of int, bool or str
    X : table as the user gave it
    n_features : int
    feature_names : array of str or None
        Names of the columns if the table has any.
    """
    mask = np.zeros(n_features, dtype=bool)
    if categorical_features is None:
        return mask
    if isinstance(categorical_features, str):
        dtypes = getattr(X, "dtypes", None)
        if dtypes is None:
            raise ValueError(
                "categorical_features='from_dtype' needs a DataFrame with dtypes, got "
                f"{type(X).__name__}; pass indices or names of the columns"
            )
        names = [str(dtype) for dtype in dtypes]
        return np.array([name.startswith(_CATEGORY_DTYPES) for name in names])
    wanted = np.asarray(categorical_features)
    if wanted.size == 0:
        return mask
    if wanted.dtype.kind == "b":
        if wanted.shape != (n_features,):
            raise ValueError(
                f"categorical_features as a mask must have shape ({n_features},), got "
                f"{wanted.shape}"
            )
        return wanted.copy()
    known = None if feature_names is None else list(feature_names)
    for item in wanted.tolist():
        mask[_column_index(item, n_features, known)] = True
    return mask


def _column_index(item, n_features, known):
    if isinstance(item, str):
        if known is None:
            raise ValueError(
                f"categorical_features names the column {item!r}, but X has no column "
                "names; pass indices or a DataFrame"
            )
        if item not in known:
            raise ValueError(
                f"categorical_features names the column {item!r}, which X does not "
                f"have; it has {known}"
            )
        return known.index(item)
    if not isinstance(item, int) or not 0 <= item < n_features:
        raise ValueError(
            f"categorical_features has {item!r}; indices must be integers from 0 to "
            f"{n_features - 1}"
        )
    return int(item)
