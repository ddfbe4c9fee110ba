"""The pages: every room has its place, every page is reached, and what is generated is what there is."""

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from dptext.registry import MECHANISMS
from dptext.runs.specs import spec_from_settings
from scripts import load_script

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def live() -> ModuleType:
    return load_script("live", DOCS / "extensions" / "live.py")


def test_every_room_has_its_place_in_the_reference() -> None:
    pages = (path.read_text("utf-8") for path in (DOCS / "reference").rglob("*.md"))
    named = [room for page in pages for line in re.findall(r"<!-- rooms: (.+) -->", page) for room in line.split()]
    there = {
        prefix + path.stem
        for prefix, folder in (("", "src/dptext"), ("dptext_lab.", "packages/lab/dptext_lab"))
        for path in (ROOT / folder).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    ours = {name for name in there - {"cli", "dptext_lab.cli"} if not name.rpartition(".")[2].startswith("_")}
    assert sorted(named) == sorted(ours | {"dptext_gateway"})


def test_every_page_is_in_a_table_of_contents() -> None:
    listed: set[Path] = set()
    for page in DOCS.rglob("*.md"):
        for block in page.read_text("utf-8").split("```{toctree}")[1:]:
            for line in block.partition("```")[0].splitlines():
                name = line.partition("<")[2].rstrip("> ") or line.strip()
                if name and not name.startswith(":"):
                    listed |= set(page.parent.glob(f"{name}.md"))
    assert set(DOCS.rglob("*.md")) - {DOCS / "index.md"} == listed


def test_a_page_of_results_begins_with_the_answer() -> None:
    for page in sorted((ROOT / "docs" / "results").glob("*.md")):
        if page.name != "README.md":  # the table of the pages
            title, _, first = page.read_text("utf-8").partition("\n\n")
            assert title.startswith("# "), page.name
            assert first.startswith(("**", "1. **")), page.name


def test_the_command_line_is_the_live_one(live: ModuleType) -> None:
    text = live.commands()
    for name in ("dptext", "dptext privatize", "dptext audit distinguish", "dptext budget open"):
        assert f"## `{name}`" in text
    assert "--without-guarantee" in text
    assert max(map(len, text.splitlines())) <= live.WIDTH


def test_the_spec_files_are_toml_and_make_specs(live: ModuleType) -> None:
    blocks = [block.partition("```")[0] for block in live.settings().split("```toml\n")[1:]]
    assert len(blocks) == len(MECHANISMS)
    needed = {
        "epsilon": 5.0,
        "variance": 1.0,
        "level": 0.5,
        "labels": ["a", "b"],
        "mechanism": {"kind": "syntf", "epsilon": 5.0},
    }
    for block in blocks:
        missing = {name: needed[name] for name in re.findall(r"# (\w+) must be given", block)}
        values = {**tomllib.loads(block), **missing}
        if values["kind"] == "published_adept":
            values["variance"] = 1.0
        assert spec_from_settings(values).kind == values["kind"]


def test_the_certificate_has_the_keys_that_the_page_explains(live: ModuleType) -> None:
    data = json.loads(live.certificate().removeprefix("```json\n").removesuffix("```\n"))
    page = (DOCS / "reference" / "certificate.md").read_text("utf-8")
    explained = [
        name for row in re.findall(r"^\| (`.+?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(explained) == sorted(data)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("see `name_` and `f(x)`s", "see ``name_`` and ``f(x)``\\ s"),
        ("e^(eps |z|), a_ * b, *really* so", "e^(eps \\|z\\|), a\\_ \\* b, *really* so"),
        (" * a bullet", " * a bullet"),
    ],
)
def test_docstrings_are_made_rest(live: ModuleType, written: str, read: str) -> None:
    lines = [written]
    live.guard(None, "", "", None, None, lines)
    assert lines == [read]
