"""Fitted estimators as JSON-safe dictionaries, and back; no pickle."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._columns import DesignColumns
from ._hinge_tree import HingeTree

_VERSION = 1


def export_dict(model, attributes):
    """Describe a fitted model.

    Parameters
    ----------
    model : HRTRegressor or HRTClassifier
    attributes : tuple of str
        Plain fitted attributes (numbers, flags) to carry along.
    """
    check_is_fitted(model)
    state = {
        "format": f"sklearn_ext.{type(model).__name__}",
        "version": _VERSION,
        "params": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        "fitted": {name: _plain(name, getattr(model, name)) for name in attributes},
        "n_features_in": int(model.n_features_in_),
        "importances": model.feature_importances_.tolist(),
        "columns": model.columns_.to_dict(),
        "tree": model.tree_.to_dict(),
    }
    if hasattr(model, "feature_names_in_"):
        state["feature_names_in"] = model.feature_names_in_.tolist()
    clip = getattr(model, "clip_", None)
    state["clip"] = None if clip is None else [bound.tolist() for bound in clip]
    if hasattr(model, "classes_"):
        state["classes"] = model.classes_.tolist()
        state["classes_dtype"] = model.classes_.dtype.str
    return state


def restore(cls, state):
    """Rebuild a model of class `cls` from its description."""
    name = f"sklearn_ext.{cls.__name__}"
    found = state.get("format") if isinstance(state, dict) else type(state).__name__
    if found != name:
        raise ValueError(
            f"state must be a dictionary from {cls.__name__}.export_dict(), with "
            f"format {name!r}; got {found!r}"
        )
    version = state.get("version")
    if not isinstance(version, int) or not 1 <= version <= _VERSION:
        raise ValueError(
            f"state has version {version!r}; this release reads 1 to {_VERSION}. For "
            "a newer one update sklearn-ext"
        )
    try:
        return _rebuild(cls, state)
    except KeyError as error:
        raise ValueError(f"state is incomplete: it has no key {error}") from error
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"state is damaged: {error}") from error


def _rebuild(cls, state):
    params = {
        k: dict(v["items"]) if isinstance(v, dict) else v
        for k, v in state["params"].items()
    }
    model = cls(**params)
    for attribute, value in state["fitted"].items():
        setattr(model, attribute, value)
    model.n_features_in_ = state["n_features_in"]
    model.feature_importances_ = np.array(state["importances"], dtype=np.float64)
    model.columns_ = DesignColumns.from_dict(state["columns"])
    model.tree_ = HingeTree.from_dict(state["tree"])
    model.n_leaves_ = model.tree_.n_leaves
    columns = (len(model.columns_.names), model.tree_.n_columns)
    if columns[0] != columns[1]:
        raise ValueError(
            f"state is damaged: columns describes {columns[0]} design columns, tree "
            f"{columns[1]}"
        )
    if "feature_names_in" in state:
        model.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    clip = state["clip"]
    if hasattr(model, "predict_proba"):
        dtype = np.dtype(state["classes_dtype"])
        model.classes_ = np.array(state["classes"], dtype=dtype)
    else:
        model.clip_ = None if clip is None else tuple(np.array(c, float) for c in clip)
        if (model.clip == "global") != (clip is not None):
            raise ValueError(
                f"state is damaged: clip is {clip!r} for the parameter {model.clip!r}"
            )
    return model


def _plain(name, value):
    """Return a parameter as plain JSON, or say that it has no such form."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {"items": [[_plain(name, a), _plain(name, b)] for a, b in value.items()]}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(name, item) for item in value]
    if type(value).__module__.startswith("torch"):
        return str(value)
    if name == "random_state":  # a generator's state is spent by fit
        return None
    raise ValueError(
        f"{name}={value!r} has no JSON form; set it to a plain value before exporting"
    )
