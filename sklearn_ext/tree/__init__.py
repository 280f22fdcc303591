"""Trees with linear models in their leaves."""

from ._export_dot import export_dot
from ._export_text import export_text
from ._plot_tree import plot_tree

__all__ = ["export_dot", "export_text", "plot_tree"]
