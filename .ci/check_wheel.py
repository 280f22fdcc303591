"""Compare a wheel with the checkout it was built from."""

import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA_LIMIT = 1_000_000  # bytes, as they lie in the wheel
WHEEL_LIMIT = 2_000_000


def expected_files():
    """Yield what must be in the wheel: code, type marker and data of each package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    for package in settings["setuptools"]["packages"]:
        folder = ROOT.joinpath(*package.split("."))
        for pattern in ("*.py", "py.typed", "data/*"):
            for found in folder.glob(pattern):
                yield found.relative_to(ROOT).as_posix()


def main(path):
    """Exit with a message if something is missing, foreign or too large."""
    with zipfile.ZipFile(path) as wheel:
        sizes = {
            entry.filename: entry.compress_size
            for entry in wheel.infolist()
            if ".dist-info/" not in entry.filename
        }
    expected = set(expected_files())
    if missing := sorted(expected - set(sizes)):
        sys.exit(f"not in the wheel: {missing}")
    if foreign := sorted(set(sizes) - expected):
        sys.exit(f"in the wheel, but not in a package: {foreign}")
    data = sum(size for name, size in sizes.items() if "/data/" in name)
    if data >= DATA_LIMIT:
        sys.exit(f"the data take {data} bytes, {DATA_LIMIT} are allowed")
    total = Path(path).stat().st_size
    if total >= WHEEL_LIMIT:
        sys.exit(f"the wheel takes {total} bytes, {WHEEL_LIMIT} are allowed")
    sys.stdout.write(f"{len(sizes)} files, {total} bytes, of which data {data}\n")


if __name__ == "__main__":
    main(sys.argv[1])
