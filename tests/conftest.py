"""What all tests share."""

import os

import numpy as np
import pytest
import threadpoolctl
import torch


def pytest_configure(config):
    # Two workers on two cores: more threads only make them wait for each other.
    torch.set_num_threads(1)
    config.stash[_LIMITS] = threadpoolctl.threadpool_limits(limits=1)
    os.environ.setdefault("MPLBACKEND", "Agg")


_LIMITS = pytest.StashKey()


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="torch finds no CUDA device")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Each kind of device in turn."""
    return torch.device(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
