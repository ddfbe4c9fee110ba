"""The marker `slow_cases` marks the cases that it names, and refuses a text that names none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CODE = """
import pytest

@pytest.fixture(params=["sqlite", "postgresql"])
def either(request):
    return request.param

@pytest.mark.slow_cases("postgresql-1", {text!r}, why="another case stays")
@pytest.mark.parametrize("n", [1, 11, 2])
def test_each(n, either):
    pass
"""


def quick(folder: Path, text: str, ask: str = "test_it.py") -> tuple[int, str]:
    """The exit code and output of pytest, which collects what is not slow."""
    (folder / "test_it.py").write_text(CODE.format(text=text), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    slow_cases\n", "utf-8")
    line = ["-m", "pytest", "-p", "slow_cases", "--strict-markers", "--collect-only", "-q", "-m", "not slow", ask]
    found = subprocess.run(
        [sys.executable, *line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return found.returncode, found.stdout


def test_cases_with_a_text_between_dashes_are_slow(tmp_path: Path) -> None:
    code, told = quick(tmp_path, "2")
    assert code == 0
    names = [line.partition("::")[2] for line in told.splitlines() if "::" in line]
    assert names == ["test_each[sqlite-1]", "test_each[sqlite-11]", "test_each[postgresql-11]"]


@pytest.mark.slow_cases("test_it.py", why="one case that is asked for stays")
@pytest.mark.parametrize("ask", ["test_it.py", "test_it.py::test_each[sqlite-11]"])
def test_a_text_that_is_in_no_case_is_an_error(tmp_path: Path, ask: str) -> None:
    code, told = quick(tmp_path, "postgres", ask)
    assert code != 0
    assert "test_it.py::test_each has no case 'postgres'" in told


def test_one_case_can_be_asked_for(tmp_path: Path) -> None:
    code, told = quick(tmp_path, "2", "test_it.py::test_each[sqlite-11]")
    assert (code, "test_it.py::test_each[sqlite-11]" in told) == (0, True)
