"""Settings that hold for a block of code instead of one object."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

__all__ = ["config_context", "get_config"]

_config: ContextVar[Mapping[str, Any]] = ContextVar(
    "sklearn_ext_config", default=MappingProxyType({"device": "auto"})
)


def get_config() -> dict[str, Any]:
    """Return the settings in force here.

    Returns
    -------
    config : dict
        A copy, with one key per argument of :func:`config_context`.

    See Also
    --------
    config_context : Change the settings inside a ``with`` block.

    Examples
    --------
    >>> import sklearn_ext
    >>> sklearn_ext.get_config()
    {'device': 'auto'}
    """
    return dict(_config.get())


@contextmanager
def config_context(*, device: Any = None) -> Iterator[None]:
    """Change settings inside a ``with`` block.

    Parameters
    ----------
    device : str or torch.device, default=None
        The device of every object left at ``device="auto"``. ``"auto"`` takes back
        what an outer block has set. None leaves the setting as it is. The name is
        looked at when an object uses it.

    Yields
    ------
    None

    See Also
    --------
    get_config : Read the settings.

    Notes
    -----
    New threads and worker processes start from the defaults. With ``n_jobs`` use the
    object's own ``device`` or the environment variable ``SKLEARN_EXT_DEVICE``.

    Examples
    --------
    >>> import sklearn_ext
    >>> with sklearn_ext.config_context(device="cpu"):
    ...     sklearn_ext.get_config()["device"]
    'cpu'
    >>> sklearn_ext.get_config()["device"]
    'auto'
    """
    changes = {} if device is None else {"device": device}
    token = _config.set({**_config.get(), **changes})
    try:
        yield
    finally:
        _config.reset(token)
