"""The packages, their links and guards, and what importing them loads."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import PYPROJECT, ROOT, SETUPTOOLS, SUB_PACKAGES, public_objects
from packaging.requirements import Requirement

AT_THE_TOP = ["envs", "agents"]

# What a user must be able to import; the lists are contracts, not copies of __all__.
PUBLIC = {
    "sklearn_ext": {"config_context", "get_config"},
    "sklearn_ext.exceptions": {"DeviceUnavailableError"},
    "sklearn_ext.tree": {
        "HRTClassifier",
        "HRTRegressor",
        "export_text",
        "plot_tree",
    },
}
# Slow to import, or an extra. `sklearn_ext` itself may load none of them, and a
# sub-package only those given here. (scikit-learn loads pandas where it is installed.)
HEAVY = {"torch", "numba", "gymnasium", "ortools", "matplotlib", "skorch", "networkx"}
ALLOWED = {
    "sklearn_ext.tree": {"torch"},
    "sklearn_ext.envs": {"gymnasium"},
    "sklearn_ext.agents": {"torch", "gymnasium"},
}


def loaded_by(statement):
    """Name the top-level modules in a new process after a statement."""
    code = (
        f"import sys; {statement}; print(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_list_is_what_the_folders_hold():
    package = ROOT / "sklearn_ext"
    folders = {
        f"sklearn_ext.{path.parent.name}" for path in package.glob("*/__init__.py")
    }
    assert sorted(SETUPTOOLS["packages"]) == sorted({"sklearn_ext"} | folders)


def test_every_direct_dependency_is_pinned_to_a_version_it_allows():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and line[0] != "#")
    extras = PYPROJECT["project"]["optional-dependencies"]
    direct = map(
        Requirement,
        [*PYPROJECT["project"]["dependencies"], *extras["plots"], *extras["dev"]],
    )
    direct = {item.name: item for item in direct if item.name != "sklearn-ext"}
    assert set(pins) == set(direct)
    for name, version in pins.items():
        assert direct[name].specifier.contains(version), name


def test_no_package_lies_deeper_than_the_list_can_say():
    assert not list((ROOT / "sklearn_ext").glob("*/*/__init__.py"))


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_the_folder_at_the_top_is_the_sub_package(name):
    assert SETUPTOOLS["package-dir"][f"sklearn_ext.{name}"] == name
    module = importlib.import_module(f"sklearn_ext.{name}")
    assert Path(module.__file__).samefile(ROOT / name / "__init__.py")


@pytest.mark.parametrize("name", AT_THE_TOP)
@pytest.mark.skipif(os.name == "nt", reason="a checkout may hold no links")
def test_the_link_is_relative(name):
    assert os.readlink(ROOT / "sklearn_ext" / name) == os.path.join("..", name)


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_the_folder_at_the_top_refuses_its_own_name(name):
    with pytest.raises(ImportError, match=rf"'sklearn_ext\.{name}', not as '{name}'"):
        importlib.import_module(name)
    assert name not in sys.modules


def test_importing_the_library_loads_nothing_heavy():
    assert not loaded_by("import sklearn_ext") & (HEAVY | {"numpy", "pandas"})


@pytest.mark.parametrize("package", SUB_PACKAGES)
def test_importing_a_sub_package_loads_no_more_than_it_may(package):
    heavy = loaded_by(f"import {package}") & HEAVY
    assert heavy <= ALLOWED.get(package, set())


def test_sub_packages_load_on_first_use():
    assert "torch" in loaded_by("import sklearn_ext; sklearn_ext.tree")
    assert not loaded_by("import sklearn_ext; dir(sklearn_ext)") & HEAVY


def test_every_sub_package_is_an_attribute():
    library = importlib.import_module("sklearn_ext")
    for package in SUB_PACKAGES:
        name = package.partition(".")[2]
        assert name in dir(library)
        assert getattr(library, name) is importlib.import_module(package)


def test_an_unknown_attribute_is_named():
    library = importlib.import_module("sklearn_ext")
    with pytest.raises(AttributeError, match="no attribute 'forest'"):
        library.forest  # noqa: B018


@pytest.mark.parametrize(
    "package", ["sklearn_ext", "sklearn_ext.exceptions", *SUB_PACKAGES]
)
def test_public_names_exist(package):
    names = importlib.import_module(package).__all__
    assert len(names) == len(set(names))
    assert not [n for n in names if n.startswith("_") and n != "__version__"]
    assert set(names) >= PUBLIC.get(package, set())
    assert len(public_objects(package)) == len(names)


@pytest.mark.parametrize("package", SUB_PACKAGES)
def test_public_objects_belong_to_their_package(package):
    for name, value in public_objects(package).items():
        assert value.__module__.startswith(package)
        assert name == f"{package}.{value.__name__}"
