"""Public docstrings are complete: ruff does not miss a parameter that has no text."""

import inspect

import pytest
from numpydoc.validate import validate
from packages import SUB_PACKAGES, public_objects

# numpydoc's codes, less those about line breaks around the quotes (ruff formats them),
# a mandatory extended summary, and See Also.
CODES = {
    "GL03", "GL05", "GL06", "GL07", "GL08",  # blank lines, sections, none at all
    "SS01", "SS02", "SS03", "SS04", "SS05", "SS06",  # the summary line
    "PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10",
    "RT01", "RT03", "RT04", "RT05", "YD01",  # results
    "EX01",  # an example, for what users import
}  # fmt: skip
MODULES = [
    "sklearn_ext",
    "sklearn_ext.exceptions",
    "sklearn_ext._device",
    "sklearn_ext._progress",
    *SUB_PACKAGES,
]
OBJECTS = {
    name: value
    for module in MODULES
    for name, value in public_objects(module).items()
    if callable(value)
}


def members(name, value):
    """Map what a public class defines itself to where it is found."""
    if not inspect.isclass(value):
        return []
    return [
        f"{name}.{key}"
        for owner in value.__mro__
        if owner.__module__.startswith("sklearn_ext")
        for key, member in vars(owner).items()
        if not key.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property))
    ]


def problems(name, codes):
    return [
        f"{code}: {text}" for code, text in validate(name)["errors"] if code in codes
    ]


@pytest.mark.parametrize("name", OBJECTS)
def test_public_objects_are_documented(name):
    assert problems(name, CODES) == []


@pytest.mark.parametrize(
    "name", sorted({m for name, value in OBJECTS.items() for m in members(name, value)})
)
def test_public_methods_are_documented(name):
    assert problems(name, CODES - {"EX01"}) == []


def undocumented(first, second):
    """Return the first of two."""
    return first


def test_the_check_sees_a_missing_section():
    found = problems(f"{__name__}.undocumented", CODES)
    assert [text[:4] for text in found] == ["PR01", "RT01", "EX01"]
