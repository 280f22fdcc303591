"""Estimators, solvers, agents and environments for scikit-learn users, on torch.

Importing this package is cheap: a sub-package, and what it needs, loads when it is
first used.
"""

from importlib import import_module

from sklearn_ext._config import config_context, get_config

__version__ = "0.1.0.dev0"

_LAZY = ("agents", "datasets", "envs", "exceptions", "tree")

__all__ = ["__version__", "config_context", "get_config"]


def __getattr__(name: str):
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
