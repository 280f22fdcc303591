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


# Defects that are known and open: each entry is a part of a test's name.
_DAMAGED = "from_dict accepts damage, or refuses it without naming the part"
_HUGE = "squares of targets beyond 1e150 leave the range of float64"
KNOWN_DEFECTS = {
    "test_units_and_order_of_columns_do_not_matter[pwl-600-cv-target]": "prices tie",
    "test_bad_input.py::test_wide_tables": "hundreds of columns take long",
    "test_hrt_classifier.py::test_weights_are_repetitions_with_balanced": (
        "balanced weights of repeated rows"
    ),
    "test_hrt_classifier.py::test_the_order_of_the_classes_does_not_matter[2-cv": (
        "prices tie"
    ),
    "test_export_dict.py::test_a_garbled_part_is_named": _DAMAGED,
    "test_export_dict.py::test_a_part_of_another_type_is_named": _DAMAGED,
    "test_export_dict.py::test_a_part_that_is_missing_is_named": _DAMAGED,
    "test_export_dict.py::test_a_version_that_is_none_is_refused": _DAMAGED,
    "test_export_dict.py::test_every_part_is_listed_here": _DAMAGED,
    "test_export_dict.py::test_a_newer_version_asks_for_an_update": _DAMAGED,
    "test_export_dict.py::test_dates_as_labels": "dates do not go through JSON",
    "test_export_dict.py::test_the_dictionary_shares_nothing": "lists are shared",
    "test_bad_input.py::test_a_constant_target_is_met_exactly[1e+300]": _HUGE,
    "test_bad_input.py::test_absurd_values_in_predict[1.6e+308": _HUGE,
    "test_bad_input.py::test_squares_of_the_target_beyond_float64": _HUGE,
    "test_bad_input.py::test_the_unit_of_the_target_does_not_matter[1e+150]": _HUGE,
    "test_bad_input.py::test_a_column_without_values_is_a_constant[HRTClassifier]": (
        "equal to 1e-9, not to 1e-10"
    ),
    "test_columns.py::test_a_missing_level_is_a_level": "NaT, float32 NaN as levels",
    "test_columns.py::test_integer_levels_are_known": "int and float levels mixed",
    "test_columns.py::test_levels_of_any_kind_go_through_json[infinite]": _DAMAGED,
    "test_columns.py::test_missing_numbers_get_a_mark[None-Float64]": "nullable floats",
    "test_columns.py::test_names_of_columns_are_all_different": "names can coincide",
}


def pytest_collection_modifyitems(items):
    for item in items:
        for part, reason in KNOWN_DEFECTS.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
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
