"""Where tensors live: device, dtype, seeds, threads and pickling.

The only module that asks torch about hardware.
"""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sklearn_ext._config import get_config
from sklearn_ext.exceptions import DeviceUnavailableError

__all__ = [
    "TorchStateMixin",
    "float_dtype",
    "like_input",
    "on_cpu",
    "resolve_device",
    "seeded",
    "threads",
    "to_numpy",
    "to_tensor",
    "torch_generator",
]

_VARIABLE = "SKLEARN_EXT_DEVICE"


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Turn a ``device`` argument into a device that torch can use here.

    The first of these that is not ``"auto"`` decides: the argument,
    :func:`sklearn_ext.config_context`, the environment variable
    ``SKLEARN_EXT_DEVICE``. Where all are, CUDA is taken if there is one, else the CPU.
    MPS is used only by name: it has no float64 and lacks operations.

    Parameters
    ----------
    device : str or torch.device, default="auto"
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Returns
    -------
    device : torch.device
        The device; never ``"auto"``.

    Raises
    ------
    TypeError
        The device is neither a string nor a ``torch.device``.
    ValueError
        The string names no kind of device that is supported.
    DeviceUnavailableError
        The device is named and not there.

    Examples
    --------
    >>> from sklearn_ext._device import resolve_device
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    asked, source = device, f"device={device!r}"
    if asked == "auto":
        asked = get_config()["device"]
        source = f"config_context(device={asked!r})"
    if asked == "auto":
        asked = os.environ.get(_VARIABLE, "") or "auto"
        source = f"the environment variable {_VARIABLE}={asked!r}"
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    named = _parse(asked, source)
    reason = _why_unavailable(named)
    if reason:
        raise DeviceUnavailableError(
            f"{source} names a device that cannot be used here: {reason}. Use 'cpu' or "
            "'auto' (on a fitted object: set_params(device='auto'))."
        )
    return named


def _parse(asked: Any, source: str) -> torch.device:
    if not isinstance(asked, str | torch.device):
        raise TypeError(
            f"{source} must be a str or a torch.device, got {type(asked).__name__}."
        )
    try:
        named = torch.device(asked)
    except RuntimeError:
        named = None
    if named is None or named.type not in ("cpu", "cuda", "mps"):
        raise ValueError(
            f"{source} is not a supported device; use 'auto', 'cpu', 'cuda', 'cuda:N' "
            "or 'mps'."
        )
    return named


def _why_unavailable(device: torch.device) -> str:
    if device.type == "cuda":
        if not torch.cuda.is_available():
            return f"torch {torch.__version__} finds no CUDA device"
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            return f"torch finds {count} CUDA device(s), numbered from 0"
    if device.type == "mps" and not torch.backends.mps.is_available():
        return f"torch {torch.__version__} finds no MPS device"
    return ""


def float_dtype(x: Any, device: str | torch.device) -> torch.dtype:
    """Choose the float type to compute in: that of ``x``.

    Parameters
    ----------
    x : array-like or torch.Tensor
        The data. What has no ``dtype`` counts as float64.
    device : str or torch.device
        A resolved device. MPS computes in float32 whatever ``x`` is.

    Returns
    -------
    dtype : torch.dtype
        ``torch.float32`` or ``torch.float64``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext._device import float_dtype
    >>> float_dtype(np.zeros(2, dtype=np.float32), "cpu")
    torch.float32
    >>> float_dtype([1, 2], "cpu")
    torch.float64
    """
    dtype = getattr(x, "dtype", None)
    single = dtype is torch.float32 or dtype == np.float32
    if single or torch.device(device).type == "mps":
        return torch.float32
    return torch.float64


def to_tensor(
    x: Any, *, device: str | torch.device, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Move data to a device.

    Parameters
    ----------
    x : array-like or torch.Tensor
        The data.
    device : str or torch.device
        A resolved device.
    dtype : torch.dtype, default=None
        Type of the result; None keeps that of ``x``.

    Returns
    -------
    tensor : torch.Tensor
        The data. It may share memory with ``x``: do not write into it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_ext._device import to_tensor
    >>> to_tensor(np.arange(3.0)[::-1], device="cpu")
    tensor([2., 1., 0.], dtype=torch.float64)
    """
    if not isinstance(x, torch.Tensor):
        x = np.asarray(x)
        # torch warns about read-only memory and refuses negative strides.
        if not x.flags.writeable or any(step < 0 for step in x.strides):
            x = x.copy()
        x = torch.from_numpy(x)
    # The type first: MPS cannot hold float64 even in passing.
    return x.to(dtype=dtype or x.dtype).to(device=device)


def to_numpy(t: Any) -> np.ndarray:
    """Bring data to the host as a NumPy array.

    Parameters
    ----------
    t : torch.Tensor or array-like
        The data, on any device, with or without gradients.

    Returns
    -------
    array : ndarray
        The data. It may share memory with ``t``: do not write into it.

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import to_numpy
    >>> to_numpy(torch.ones(2, requires_grad=True))
    array([1., 1.], dtype=float32)
    """
    return t.numpy(force=True) if isinstance(t, torch.Tensor) else np.asarray(t)


def like_input(result: Any, x: Any) -> Any:
    """Give a result in the kind of container that the input came in.

    Parameters
    ----------
    result : torch.Tensor or array-like
        What was computed.
    x : object
        The input.

    Returns
    -------
    result : torch.Tensor or ndarray
        On the device of ``x`` if ``x`` is a tensor, else NumPy.

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import like_input
    >>> like_input(torch.ones(2), [[0.0], [1.0]])
    array([1., 1.], dtype=float32)
    """
    if isinstance(x, torch.Tensor):
        return to_tensor(result, device=x.device)
    return to_numpy(result)


def _draw_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def torch_generator(
    random_state: Any, device: str | torch.device = "cpu"
) -> torch.Generator:
    """Make a torch generator from a ``random_state``.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        As in scikit-learn: an instance is advanced by one draw, and None draws from
        NumPy's global generator.
    device : str or torch.device, default="cpu"
        A resolved device. Draw on the CPU what must be equal on every device.

    Returns
    -------
    generator : torch.Generator
        A generator of its own; torch's global one is not touched.

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import torch_generator
    >>> first, second = torch_generator(0), torch_generator(0)
    >>> torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=second))
    True
    """
    generator = torch.Generator(device=device)
    return generator.manual_seed(_draw_seed(random_state))


@contextmanager
def seeded(random_state: Any, device: str | torch.device) -> Iterator[None]:
    """Seed torch's global generators inside a block and put them back after it.

    For code that takes no generator. Not thread-safe: the generators are shared.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        As for :func:`torch_generator`.
    device : str or torch.device
        A resolved device; the generators of the CPU and of this device are seeded.

    Yields
    ------
    None

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import seeded
    >>> with seeded(0, "cpu"):
    ...     first = torch.nn.Linear(2, 1).weight
    >>> with seeded(0, "cpu"):
    ...     second = torch.nn.Linear(2, 1).weight
    >>> torch.equal(first, second)
    True
    """
    device = torch.device(device)
    seed = _draw_seed(random_state)
    # torch.manual_seed would also reseed the devices that are not restored below.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if device.type == "cpu":
            yield
            return
        module = torch.get_device_module(device)
        at = (device,) if device.type == "cuda" else ()  # MPS takes no device
        before = module.get_rng_state(*at)
        try:
            module.set_rng_state(torch_generator(seed, device).get_state(), *at)
            yield
        finally:
            module.set_rng_state(before, *at)


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Let torch use ``n`` CPU threads inside a block.

    Parameters
    ----------
    n : int or None
        Number of threads; None leaves torch's setting alone.

    Yields
    ------
    None

    Raises
    ------
    ValueError
        The number is below 1.

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import threads
    >>> with threads(1):
    ...     torch.get_num_threads()
    1
    """
    if n is None:
        yield
        return
    if n < 1:
        raise ValueError(f"The number of threads must be 1 or more, got {n}.")
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_cpu(state: Any) -> Any:
    """Bring the tensors and modules inside a state to the CPU.

    Parameters
    ----------
    state : object
        Dicts, lists and tuples are searched at any depth, other objects are not.

    Returns
    -------
    state : object
        The state; what is on the CPU already is the same object, and what is not is
        copied and keeps its place on the device.

    Examples
    --------
    >>> import torch
    >>> from sklearn_ext._device import on_cpu
    >>> state = {"weights": [torch.zeros(2)], "n_iter": 3}
    >>> on_cpu(state) is state
    True
    """
    return _on_cpu(state, {})


def _on_cpu(value: Any, done: dict[int, Any]) -> Any:
    # `done` keeps two references to one tensor two references to one copy.
    if id(value) not in done:
        done[id(value)] = _copy_to_cpu(value, done)
    return done[id(value)]


def _copy_to_cpu(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_cpu:
            return value
        # Cut off from the graph: what was a leaf must be one, or deepcopy refuses it.
        return value.detach().cpu().requires_grad_(value.requires_grad)
    if isinstance(value, torch.nn.Module):
        tensors = [*value.parameters(), *value.buffers()]
        return value if all(t.is_cpu for t in tensors) else copy.deepcopy(value).cpu()
    if isinstance(value, dict):
        items = {key: _on_cpu(item, done) for key, item in value.items()}
        if all(items[key] is value[key] for key in value):
            return value
        moved = copy.copy(value)  # keeps the class, and what else it carries
        moved.update(items)
        return moved
    if isinstance(value, list | tuple):
        parts = [_on_cpu(item, done) for item in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_fields"):  # a named tuple
            return type(value)(*parts)
        return type(value)(parts)
    return value


class TorchStateMixin:
    """Make an estimator that holds tensors load where its device is absent.

    The state is written on the CPU and ``device`` is kept as it was given: with
    ``"auto"`` the loaded object runs on what is there. Put it left of
    ``BaseEstimator``.

    Examples
    --------
    >>> import pickle, torch
    >>> from sklearn.base import BaseEstimator
    >>> from sklearn_ext._device import TorchStateMixin
    >>> class Constant(TorchStateMixin, BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         self.value_ = torch.zeros(1)
    ...         return self
    >>> Constant().fit([[0.0]]).__getstate__()["value_"].device
    device(type='cpu')
    """

    def __getstate__(self) -> Any:
        """Return the state to pickle, with every tensor on the CPU."""
        return on_cpu(super().__getstate__())
