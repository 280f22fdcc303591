import pickle
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone

from sklearn_ext import config_context
from sklearn_ext._device import (
    TorchStateMixin,
    float_dtype,
    like_input,
    on_cpu,
    resolve_device,
    seeded,
    threads,
    to_numpy,
    to_tensor,
    torch_generator,
)
from sklearn_ext.exceptions import DeviceUnavailableError

CPU = torch.device("cpu")


@pytest.fixture
def no_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch):
    """Let torch claim two CUDA devices; nothing is computed on them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("SKLEARN_EXT_DEVICE", raising=False)


class Holder(TorchStateMixin, BaseEstimator):
    """An estimator that keeps a module, as a learned one does."""

    def __init__(self, device="auto"):
        self.device = device

    def fit(self, X, y=None):
        device = resolve_device(self.device)
        with seeded(0, device):
            self.module_ = torch.nn.Linear(1, 1).to(device)
        return self

    def predict(self, X):
        module = self.module_.to(resolve_device(self.device))
        X = to_tensor(X, device=module.weight.device, dtype=torch.float32)
        return to_numpy(module(X))


# resolve_device


def test_auto_takes_cuda_only_where_there_is_one(no_cuda):
    assert resolve_device() == CPU


def test_auto_takes_cuda_where_there_is_one(two_gpus):
    assert resolve_device("auto") == torch.device("cuda")


def test_argument_beats_config_beats_variable_beats_hardware(two_gpus, monkeypatch):
    monkeypatch.setenv("SKLEARN_EXT_DEVICE", "cuda:1")
    assert resolve_device() == torch.device("cuda:1")
    with config_context(device="cpu"):
        assert resolve_device() == CPU
        assert resolve_device("cuda:0") == torch.device("cuda:0")
    assert resolve_device("cpu") == CPU


@pytest.mark.parametrize("value", ["", "auto"])
def test_a_variable_that_names_nothing_is_as_if_unset(value, no_cuda, monkeypatch):
    monkeypatch.setenv("SKLEARN_EXT_DEVICE", value)
    assert resolve_device() == CPU


def test_a_torch_device_is_taken_as_it_is():
    assert resolve_device(CPU) == CPU


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_named_device_never_falls_back(device, no_cuda):
    with pytest.raises(DeviceUnavailableError, match=r"no CUDA.*set_params"):
        resolve_device(device)


def test_a_number_beyond_the_last_device_is_told(two_gpus):
    assert resolve_device("cuda:1").index == 1
    with pytest.raises(DeviceUnavailableError, match=r"'cuda:2'.*2 CUDA"):
        resolve_device("cuda:2")


def test_the_error_says_where_the_name_came_from(no_cuda, monkeypatch):
    monkeypatch.setenv("SKLEARN_EXT_DEVICE", "cuda")
    with pytest.raises(DeviceUnavailableError, match="variable SKLEARN_EXT_DEVICE="):
        resolve_device()
    with (
        config_context(device="cuda:0"),
        pytest.raises(DeviceUnavailableError, match=r"config_context\(device='cuda:0'"),
    ):
        resolve_device()


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "meta", "", "CPU "])
def test_an_unknown_name_is_an_error(device):
    with pytest.raises(ValueError, match="use 'auto', 'cpu'"):
        resolve_device(device)


@pytest.mark.parametrize("device", [0, None, 1.5])
def test_a_device_of_another_type_is_an_error(device):
    with pytest.raises(TypeError, match=r"must be a str or a torch\.device"):
        resolve_device(device)


# float_dtype, to_tensor, to_numpy, like_input


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool"])
def test_all_but_float32_is_float64(dtype):
    assert float_dtype(np.ones(2, dtype=dtype), CPU) is torch.float64


def test_float32_stays_in_any_container():
    assert float_dtype(np.ones(2, dtype=np.float32), CPU) is torch.float32
    assert float_dtype(torch.ones(2), CPU) is torch.float32


def test_mps_has_no_float64():
    assert float_dtype(np.ones(2), "mps") is torch.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: np.asfortranarray(x),
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x.tolist(),
        lambda x: torch.from_numpy(x),
    ],
)
def test_to_tensor_takes_any_memory_layout(make, device):
    x = make(np.arange(12.0).reshape(3, 4))
    tensor = to_tensor(x, device=device)
    assert tensor.device.type == device.type
    np.testing.assert_array_equal(to_numpy(tensor), np.asarray(x))


def test_to_tensor_leaves_read_only_memory_alone():
    x = np.arange(3.0)
    x.flags.writeable = False
    to_tensor(x, device=CPU).add_(1)
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_to_tensor_reads_a_memory_map(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4.0))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(to_numpy(to_tensor(x, device=CPU)), np.arange(4))


def test_to_tensor_shares_memory_where_it_can():
    x = np.arange(3.0)
    assert to_tensor(x, device=CPU).data_ptr() == x.ctypes.data


def test_to_tensor_converts_the_type():
    x = to_tensor(np.arange(3), device=CPU, dtype=torch.float32)
    assert x.dtype is torch.float32


def test_to_numpy_cuts_the_gradient(device):
    t = torch.ones(2, requires_grad=True, device=device) * 2
    np.testing.assert_array_equal(to_numpy(t), [2, 2])


@pytest.mark.parametrize("x", [[0.0], np.zeros(1), None])
def test_like_input_answers_in_numpy(x, device):
    assert type(like_input(torch.ones(1, device=device), x)) is np.ndarray


def test_like_input_answers_a_tensor_on_its_device(device):
    result = like_input(np.ones(1), torch.zeros(1, device=device))
    assert result.device.type == device.type


# torch_generator, seeded, threads


def state_of_everything():
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    numpy = torch.from_numpy(np.random.get_state()[1].copy())  # noqa: NPY002
    return [torch.get_rng_state(), numpy, *cuda]


def assert_same_state(before):
    assert all(map(torch.equal, before, state_of_everything()))


def test_a_generator_repeats_itself_and_touches_nothing_global(device):
    before = state_of_everything()
    first, second, other = (
        torch.rand(4, generator=torch_generator(seed, device), device=device)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert_same_state(before)


def test_a_generator_advances_a_random_state_instance():
    random_state = np.random.RandomState(0)
    seeds = [torch_generator(random_state).initial_seed() for _ in range(2)]
    again = np.random.RandomState(0)
    assert seeds[0] != seeds[1]
    assert seeds == [torch_generator(again).initial_seed() for _ in range(2)]


def test_seeded_repeats_itself_and_puts_everything_back(device):
    before = state_of_everything()
    draws = []
    for seed in (0, 0, 1):
        with seeded(seed, device):
            draws.append((torch.rand(3), torch.rand(3, device=device)))
    assert_same_state(before)
    for k in (0, 1):
        assert torch.equal(draws[0][k], draws[1][k])
        assert not torch.equal(draws[0][k], draws[2][k])


def test_seeded_puts_the_state_back_after_an_error(device):
    before = state_of_everything()
    with pytest.raises(ValueError, match="too soon"), seeded(0, device):
        raise ValueError(f"too soon, after {torch.rand(3, device=device)}")
    assert_same_state(before)


@pytest.mark.gpu
def test_seeding_the_cpu_leaves_cuda_alone():
    before = torch.cuda.get_rng_state()
    with seeded(0, CPU):
        assert torch.equal(torch.cuda.get_rng_state(), before)


def test_threads_are_counted_and_restored():
    before = torch.get_num_threads()
    with threads(3):
        assert torch.get_num_threads() == 3
        with threads(None):
            assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), threads(3):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("n", [0, -1])
def test_fewer_than_one_thread_is_an_error(n):
    with pytest.raises(ValueError, match=rf"1 or more, got {n}"), threads(n):
        pass


# on_cpu, TorchStateMixin

Pair = namedtuple("Pair", ["left", "right"])


class Elsewhere(torch.Tensor):
    """A tensor that says it is not on the CPU, so that copying shows without a GPU."""

    is_cpu = False

    def cpu(self):
        return self.as_subclass(torch.Tensor).clone()

    def __deepcopy__(self, memo):
        return self.clone()


def elsewhere(*values):
    return torch.tensor(values).as_subclass(Elsewhere)


def test_on_cpu_keeps_what_is_there():
    module = torch.nn.Linear(1, 1)
    state = {"t": torch.ones(2), "n": [1, (module, "x")], "p": Pair(1, torch.ones(1))}
    assert on_cpu(state) is state


def test_on_cpu_copies_only_what_has_to_move():
    here, there = torch.ones(1), elsewhere(1.0)
    untouched = [here]
    state = {"a": [there, here], "b": Pair(there, 1), "c": untouched, "d": (there,)}
    moved = on_cpu(state)
    assert type(moved["a"][0]) is torch.Tensor
    assert moved["a"][1] is here
    assert moved["b"] == Pair(moved["a"][0], 1)
    assert isinstance(moved["b"], Pair)
    assert moved["c"] is untouched
    assert isinstance(moved["d"], tuple)
    assert state["a"][0] is there


def test_on_cpu_keeps_shared_tensors_shared():
    there = elsewhere(1.0)
    moved = on_cpu({"first": there, "second": [there]})
    assert moved["first"] is moved["second"][0]


def test_on_cpu_keeps_a_trained_tensor_a_leaf():
    moved = on_cpu([elsewhere(1.0).requires_grad_()])[0]
    assert moved.requires_grad
    assert moved.is_leaf


def test_on_cpu_keeps_the_class_of_a_dict():
    state = OrderedDict(weight=elsewhere(1.0))
    state._metadata = {"version": 1}
    moved = on_cpu(state)
    assert type(moved) is OrderedDict
    assert moved._metadata == {"version": 1}
    assert type(state["weight"]) is Elsewhere


def test_on_cpu_copies_a_module_from_elsewhere():
    module = torch.nn.Linear(1, 1)
    module.register_buffer("mean", elsewhere(1.0))
    moved = on_cpu({"module": module})["module"]
    assert type(moved.mean) is torch.Tensor
    assert type(module.mean) is Elsewhere
    assert torch.equal(moved.weight, module.weight)


def test_a_fitted_estimator_survives_pickle_and_clone(device):
    X = np.arange(3.0).reshape(-1, 1)
    fitted = Holder(device=str(device)).fit(X)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.device == str(device)
    assert not hasattr(clone(fitted), "module_")


def test_the_state_to_pickle_lies_on_the_cpu():
    fitted = Holder().fit([[0.0]])
    fitted.offset_ = elsewhere(1.0)
    assert type(fitted.__getstate__()["offset_"]) is torch.Tensor
    assert type(fitted.offset_) is Elsewhere


@pytest.mark.gpu
def test_state_is_written_on_the_cpu_and_the_estimator_stays():
    fitted = Holder(device="cuda").fit([[0.0]])
    assert fitted.__getstate__()["module_"].weight.is_cpu
    assert fitted.module_.weight.is_cuda


@pytest.mark.gpu
def test_a_cuda_fit_loads_where_cuda_is_absent(monkeypatch):
    X = np.arange(3.0).reshape(-1, 1)
    fitted = Holder().fit(X)
    expected = fitted.predict(X)
    assert fitted.module_.weight.is_cuda
    saved = pickle.dumps(fitted)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    np.testing.assert_allclose(pickle.loads(saved).predict(X), expected, rtol=1e-6)


def test_a_named_device_that_is_gone_is_told_at_predict(no_cuda):
    fitted = Holder(device="cpu").fit([[0.0]]).set_params(device="cuda")
    with pytest.raises(DeviceUnavailableError, match=r"set_params\(device='auto'\)"):
        fitted.predict([[0.0]])
