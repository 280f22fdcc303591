"""Which module may import which, read from the source."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from packages import ROOT, SUB_PACKAGES

# A module may import its own package and what lies on a strictly lower floor. A new
# sub-package joins floor 2 unless others have to stand on it.
FLOORS = {
    "__init__": 0,
    "_config": 0,
    "_progress": 0,
    "_sklearn": 0,
    "exceptions": 0,
    "_device": 1,
    "agents": 2,
    "datasets": 2,
    "envs": 2,
    "tree": 2,
    "_demo": 3,
    "__main__": 4,
}
PACKAGE = ROOT / "sklearn_ext"
# Not rglob: whether it follows the links depends on the Python version.
SOURCES = {
    ".".join(("sklearn_ext", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in sorted({*PACKAGE.glob("*.py"), *PACKAGE.glob("*/*.py")})
}


def imported_names(source, module):
    """List the dotted names that a module imports, anywhere in it.

    Of ``from a import b`` that is ``a.b``: `b` may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parent, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def as_module(name):
    """Reduce a dotted name to the module of ours that it loads, or None."""
    parts = name.split(".")
    for end in (len(parts), len(parts) - 1):
        stem = ".".join(parts[:end])
        if stem in SOURCES:
            return stem
        if f"{stem}.__init__" in SOURCES:
            return f"{stem}.__init__"
    return None


def unit(module):
    return module.split(".")[1]


def wrong_imports(source, module):
    """List the imports that a floor forbids to a module."""
    wrong = []
    here = unit(module)
    for name in imported_names(source, module):
        if name.split(".")[0] != "sklearn_ext":
            continue
        target = as_module(name)
        if target is None:
            wrong.append(f"{name} is no module")
            continue
        there = unit(target)
        # The package itself offers the functions of _config.
        below = FLOORS[there] < FLOORS[here] or (here, there) == ("__init__", "_config")
        if here != there and not below:
            wrong.append(name)
    return wrong


def private_scikit_learn(source, module):
    """List the private scikit-learn names that a module imports."""
    return [
        name
        for name in imported_names(source, module)
        if name.split(".")[0] == "sklearn"
        and any(part.startswith("_") for part in name.split("."))
    ]


def test_every_module_has_a_floor():
    units = {unit(module) for module in SOURCES}
    assert units <= set(FLOORS)
    assert {package.partition(".")[2] for package in SUB_PACKAGES} <= units


@pytest.mark.parametrize("module", SOURCES)
def test_modules_import_downwards_only(module):
    assert wrong_imports(SOURCES[module].read_text(), module) == []


def test_imports_make_no_circle():
    graph = {}
    for module, path in SOURCES.items():
        names = imported_names(path.read_text(), module)
        graph[module] = {as_module(name) for name in names} - {None, module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("module", sorted(set(SOURCES) - {"sklearn_ext._sklearn"}))
def test_private_scikit_learn_names_come_through_one_module(module):
    assert private_scikit_learn(SOURCES[module].read_text(), module) == []


@pytest.mark.parametrize("module", SOURCES)
def test_compiled_loops_lie_in_modules_named_for_it(module):
    names = imported_names(SOURCES[module].read_text(), module)
    uses = any(name.split(".")[0] == "numba" for name in names)
    assert uses == module.endswith("_numba")


@pytest.mark.parametrize(
    ("source", "module", "expected"),
    [
        ("from sklearn_ext import envs", "sklearn_ext.agents._reppo", 1),
        ("import sklearn_ext.datasets", "sklearn_ext.tree._hrt", 1),
        ("def f():\n    from ..envs import X", "sklearn_ext.tree._hrt", 1),
        ("from sklearn_ext._device import threads", "sklearn_ext._config", 1),
        ("from sklearn_ext._gone import x", "sklearn_ext.tree._hrt", 1),
        ("from sklearn_ext._device import threads", "sklearn_ext.tree._hrt", 0),
        ("from sklearn_ext import __version__", "sklearn_ext.tree._hrt", 0),
        ("from . import datasets", "sklearn_ext.tree._hrt", 0),
        ("import sklearn_extra, torch", "sklearn_ext._config", 0),
    ],
)
def test_the_rule_sees_what_it_should(source, module, expected):
    assert len(wrong_imports(source, module)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from sklearn.base import _fit_context", 1),
        ("from sklearn.utils._param_validation import Interval", 1),
        ("import sklearn.tree._tree", 1),
        ("from sklearn import base as _base", 0),
        ("from sklearn_ext._sklearn import _fit_context", 0),
    ],
)
def test_the_search_for_private_names_sees_what_it_should(source, expected):
    assert len(private_scikit_learn(source, "sklearn_ext.tree._hrt")) == expected
