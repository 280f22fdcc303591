"""A progress bar for loops, or nothing."""

from collections.abc import Iterable
from typing import TypeVar

__all__ = ["track"]

T = TypeVar("T")


def track(
    iterable: Iterable[T], total: int | None = None, desc: str = "", verbose: int = 0
) -> Iterable[T]:
    """Show a progress bar on standard error while ``iterable`` is consumed.

    Parameters
    ----------
    iterable : iterable
        What to loop over.
    total : int, default=None
        Number of items, where ``iterable`` has no length.
    desc : str, default=""
        Text in front of the bar.
    verbose : int, default=0
        0 shows nothing and returns ``iterable`` itself.

    Returns
    -------
    items : iterable
        The items of ``iterable``, in order.

    Examples
    --------
    >>> from sklearn_ext._progress import track
    >>> [2 * i for i in track(range(3))]
    [0, 2, 4]
    """
    if not verbose:
        return iterable
    from tqdm import tqdm  # a dependency of skorch

    return tqdm(iterable, total=total, desc=desc or None)
