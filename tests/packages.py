"""What the tests know about the library's packages: read from the files, once."""

import importlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
SUB_PACKAGES = sorted(set(SETUPTOOLS["packages"]) - {"sklearn_ext"})


def public_objects(package):
    """Map the public names of a package, dotted, to what they name."""
    module = importlib.import_module(package)
    return {f"{package}.{name}": getattr(module, name) for name in module.__all__}
