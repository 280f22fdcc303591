import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import ROOT

from sklearn_ext import __main__ as command_line
from sklearn_ext import __version__, _demo

ROW = _demo.Row("Method", "data, RMSE", "1.0", "peer 2.0", "0.1 / 0.2")


def good_stage(tour):
    """Good news."""
    tour.say("working")
    tour.texts.append("a tree in words")
    tour.panels.append(lambda ax: ax.plot([0, 1], [0, 1]))
    yield ROW


def bad_stage(tour):
    """Bad news."""
    yield ROW
    raise ZeroDivisionError("nothing to divide by")


def interrupted_stage(tour):
    """No news."""
    raise KeyboardInterrupt
    yield


@pytest.fixture
def stages(monkeypatch):
    """Replace the real stages, which take seconds, by the given ones."""

    def replace(*given):
        monkeypatch.setattr(_demo, "STAGES", list(given))

    return replace


def test_table_text_picture_and_progress(stages, tmp_path, capsys):
    stages(good_stage, good_stage)
    assert _demo.run("cpu", tmp_path) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "[2/2] Good news\nworking\n" in out
    assert "a tree in words" in out
    header, rule, *rows = out[out.index("method ") :].splitlines()[:4]
    assert set(rule) == {"-", " "}
    assert rows == [rows[0]] * 2
    for title, cell in zip(
        ("method", "data", "ours", "peer", "seconds"), vars(ROW).values(), strict=True
    ):
        assert rows[0].index(cell) == header.index(title)
    assert (tmp_path / _demo.PICTURE).read_bytes().startswith(b"\x89PNG")


def test_one_failure_does_not_hide_the_others(stages, tmp_path, capsys):
    stages(bad_stage, good_stage)
    assert _demo.run("cpu", tmp_path) == 1
    out, err = capsys.readouterr()
    assert out.count("peer 2.0") == 2
    assert "bad_stage" in out
    assert "ZeroDivisionError: nothing to divide by" in err
    assert (tmp_path / _demo.PICTURE).exists()


def test_without_matplotlib_the_extra_is_named(stages, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    stages(good_stage)
    assert _demo.run("cpu", tmp_path) == 0
    assert "sklearn-ext[plots]" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_picture_that_cannot_be_saved_is_no_crash(stages, tmp_path, capsys):
    (tmp_path / _demo.PICTURE).mkdir()
    stages(good_stage)
    assert _demo.run("cpu", tmp_path) == 0
    assert "No picture:" in capsys.readouterr().out


def test_output_folder_is_made(stages, tmp_path):
    stages(good_stage)
    folder = tmp_path / "new" / "folder"
    arguments = ["demo", "--device", "cpu", "--output", str(folder)]
    assert command_line.main(arguments) == 0
    assert (folder / _demo.PICTURE).exists()


def test_output_that_cannot_be_written_stops_at_once(stages, tmp_path, capsys):
    stages(interrupted_stage)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as stopped:
        command_line.main(["demo", "--output", str(tmp_path / "file" / "below")])
    assert stopped.value.code == 2
    assert "cannot write to" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a read-only folder")
def test_read_only_current_directory_costs_only_the_picture(
    stages, monkeypatch, capsys
):
    stages(good_stage)
    # Even root cannot make a file here.
    monkeypatch.chdir("/proc/self")
    assert command_line.main(["demo", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "No picture will be written" in out
    assert "--output" in out
    assert "peer 2.0" in out


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_device_that_is_not_there(stages, tmp_path, capsys, device):
    stages(interrupted_stage)
    with pytest.raises(SystemExit) as stopped:
        command_line.main(["demo", "--device", device, "--output", str(tmp_path)])
    assert stopped.value.code == 2
    assert device in capsys.readouterr().err


def test_interrupt(stages, tmp_path, capsys):
    stages(interrupted_stage)
    arguments = ["demo", "--device", "cpu", "--output", str(tmp_path)]
    assert command_line.main(arguments) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "required"),
        (["dance"], 2, "invalid choice"),
        (["--help"], 0, "demo"),
        (["demo", "--help"], 0, "--output"),
        (["--version"], 0, __version__),
    ],
)
def test_exit_codes(arguments, code, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        command_line.main(arguments)
    assert stopped.value.code == code
    out, err = capsys.readouterr()
    assert words in out + err


def test_help_loads_no_torch():
    code = (
        "import sys; from sklearn_ext.__main__ import main\n"
        "try: main(['demo', '--help'])\n"
        "except SystemExit: sys.stderr.write(str('torch' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "False"


def test_the_real_tour(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sklearn_ext", "demo", "--device", "cpu"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == [_demo.PICTURE]
    words, table = done.stdout.split("\nmethod ")
    assert "split 3 of 3" in words
    assert "The HRTRegressor of" in words
    methods = [line.split()[0] for line in table.splitlines() if line[:3] == "HRT"]
    assert methods == ["HRTRegressor"] * 4 + ["HRTClassifier"] * 2
    for peer in ("CART tuned", "Ridge", "logistic"):
        assert peer in table
    for data in ("concrete", "airfoil", "german credit"):
        assert data in table
