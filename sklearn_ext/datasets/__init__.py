"""Small real data sets that come with the package, each with its licence."""

from ._loaders import load_airfoil, load_concrete, load_german_credit

__all__ = ["load_airfoil", "load_concrete", "load_german_credit"]
