"""The notebook runs, and shows what is stored in it."""

import importlib.util
import json
from pathlib import Path

import pytest

from scripts import needs

pytestmark = needs("pandas")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"


@pytest.mark.slow  # it takes as long as all pages together
def test_the_notebook_runs_and_shows_what_it_stores() -> None:
    spec = importlib.util.spec_from_file_location("notebook", FOLDER / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    stored = json.loads((FOLDER / "first-look.ipynb").read_text("utf-8"))
    found = notebook.executed(stored)
    kinds = [
        [[output["output_type"], sorted(output.get("data", {}))] for output in cell.get("outputs", [])]
        for each in (stored, found)
        for cell in each["cells"]
    ]
    assert kinds[: len(kinds) // 2] == kinds[len(kinds) // 2 :]
    for cell, again in zip(stored["cells"], found["cells"], strict=True):
        if "guarantees[-1]" in "".join(cell["source"]):
            assert cell["outputs"] == again["outputs"]  # nothing is drawn in it
    shown = json.dumps(found)
    assert "epsilon 1)" in shown
    assert shown.count("text/html") == 3
