"""What the README tells a newcomer to type is true."""

import re

import pytest
from packages import ROOT, SUB_PACKAGES, public_objects

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize(
    "command",
    [
        "pip install -c constraints.txt -e . && python -m sklearn_ext demo",
        'pip install -c constraints.txt -e ".[dev]" && python -m pytest',
    ],
)
def test_the_two_commands_are_given(command):
    assert f"```bash\n{command}\n```" in README


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    assert BLOCKS
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize("package", SUB_PACKAGES)
def test_every_public_class_is_in_the_table(package):
    rows = [line for line in README.splitlines() if line.startswith("| `")]
    for name, value in public_objects(package).items():
        if isinstance(value, type):
            assert any(f"`{name.split('.')[-1]}`" in row for row in rows), name
