"""The page of derivations: what code and tests cite is there, and nothing is there that they do not cite."""

import re
from pathlib import Path

from trees import ROOT, below, sources

PAGE = (ROOT / "docs" / "reference" / "derivations.md").read_text("utf-8")
SECTIONS = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
#: The parts that every section has. The estimators of divergence have one claim each, under their own names.
PARTS = ("**Setting.**", "**Claim.**", "**Proof.**", "**Source.**")


def cited(source: str) -> list[str]:
    """The sections of the page that a source names: derivations, "A" and "B"."""
    text = re.sub(r"\s*\n\s*(#:? )?", " ", source)
    found = re.findall(r'\bderivations, ("[^"]+"(?: and "[^"]+")*)', text, re.IGNORECASE)
    return [name for names in found for name in re.findall(r'"([^"]+)"', names)]


def test_citations_are_read() -> None:
    assert cited('(derivations, "One thing" and "Another")') == ["One thing", "Another"]
    assert cited('    # as in (derivations,\n    # "One\n    # thing")') == ["One thing"]
    assert cited('"""Twice the bound (derivations, "One\n    thing"; Warner 1965).') == ["One thing"]
    assert cited('the derivations of "One thing"') == []


def test_what_is_cited_is_what_the_page_has() -> None:
    files = {**sources(), **below("tests", "benchmarks", "experiments")}
    by_file = {path: cited(source) for path, source in files.items() if ROOT / path != Path(__file__)}
    names = {name for found in by_file.values() for name in found}
    assert {name: found for name, found in by_file.items() if not set(found) <= set(SECTIONS)} == {}
    assert names == set(SECTIONS)
    assert len(names) > 20
    assert sum(map(len, by_file.values())) > 50
    assert {path for path in by_file if re.search(r"\bMATHS \d", files[path])} == set()


def test_a_section_states_proves_and_names_its_source() -> None:
    assert len(set(SECTIONS)) == len(SECTIONS) > 20
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        needed = PARTS[::3] if title == "Estimators of divergence" else PARTS
        places = [section.find(part) for part in needed]
        assert -1 not in places, title
        assert places == sorted(places), title
