import threading

import pytest
import torch

from sklearn_ext import config_context, get_config
from sklearn_ext._device import resolve_device


def test_a_setting_holds_inside_its_block_only():
    with config_context(device="cpu"):
        assert get_config() == {"device": "cpu"}
    assert get_config() == {"device": "auto"}


def test_blocks_nest():
    with config_context(device="cuda"):
        with config_context(device="auto"):
            assert get_config()["device"] == "auto"
        with config_context():
            assert get_config()["device"] == "cuda"
        assert get_config()["device"] == "cuda"


def test_a_setting_is_taken_back_after_an_error():
    with pytest.raises(ZeroDivisionError), config_context(device="cpu"):
        1 / 0  # noqa: B018
    assert get_config() == {"device": "auto"}


def test_the_returned_dict_is_a_copy():
    get_config()["device"] = "cuda"
    assert get_config() == {"device": "auto"}


def test_an_unknown_setting_is_an_error():
    with pytest.raises(TypeError, match="devise"):
        config_context(devise="cpu")


def test_new_threads_start_from_the_defaults():
    seen = []
    with config_context(device="cpu"):
        thread = threading.Thread(target=lambda: seen.append(get_config()["device"]))
        thread.start()
        thread.join()
    assert seen == ["auto"]


def test_a_torch_device_is_accepted():
    with config_context(device=torch.device("cpu")):
        assert resolve_device() == torch.device("cpu")
