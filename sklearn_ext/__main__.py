"""The command line: `python -m sklearn_ext demo`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sklearn_ext import __version__

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sklearn_ext",
        description="Scikit-learn compatible estimators, solvers and agents on torch.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="run every method on real data, beside what it should replace",
        description="Run every method on real data, beside what it should replace; "
        "print one table and write one picture. Takes less than two minutes.",
    )
    demo.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where to write the picture (default: the current directory)",
    )
    demo.add_argument(
        "--device",
        default="auto",
        help='"auto" (default), "cpu", "cuda", "cuda:1", ...',
    )
    return parser


def _writable(folder: Path) -> str | None:
    """Return why no file can be made in the folder, or None if one can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Permissions do not tell all (read-only mounts, full disks): try it.
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _demo(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    folder = arguments.output or Path.cwd()
    reason = _writable(folder)
    if reason and arguments.output:
        parser.error(f"cannot write to {folder}: {reason}")
    if reason:
        sys.stdout.write(
            f"No picture will be written: {folder}: {reason}. "
            "Name a folder with --output.\n"
        )

    # Only now: torch takes seconds to load, and --help should not.
    from sklearn_ext._demo import run
    from sklearn_ext._device import resolve_device

    try:
        device = resolve_device(arguments.device)
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    return run(str(device), None if reason else folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments, those of the process if None.

    Returns
    -------
    code : int
        0 if all went well, 1 if a part of the demo failed, 130 if interrupted.
        Wrong arguments leave with code 2 by SystemExit, as argparse does.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        return _demo(parser, arguments)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
