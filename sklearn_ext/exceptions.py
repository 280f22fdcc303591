"""Errors that this library raises beside Python's and scikit-learn's own."""

__all__ = ["DeviceUnavailableError"]


class DeviceUnavailableError(RuntimeError):
    """A device was asked for by name and torch cannot use it here.

    A named device never falls back to another one: silently training on the CPU is
    what the name was meant to rule out. Only ``device="auto"`` chooses.

    Examples
    --------
    >>> from sklearn_ext.exceptions import DeviceUnavailableError
    >>> issubclass(DeviceUnavailableError, RuntimeError)
    True
    """
