"""The source has one name for each thing: no class name stands for two classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}


def doubled(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The class names, without a leading underscore, that several classes have, with the places of these classes."""
    found = defaultdict[str, list[str]](list)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    return {name: places for name, places in found.items() if len(places) > 1}


def test_each_class_name_stands_once() -> None:
    assert doubled(SOURCES) == {}


def test_a_doubled_class_name_is_found() -> None:
    faulty = {"a.py": "class Page: ...", "b.py": "def made():\n    class _Page: ...", "c.py": "class Pages: ..."}
    assert doubled(faulty) == {"Page": ["a.py:1", "b.py:2"]}
