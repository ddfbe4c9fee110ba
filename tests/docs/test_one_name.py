"""The source has one name for each thing: no class name stands for two classes, and no import of our own renames."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest

from trees import TREES, sources

SOURCES = sources()
#: The names of the three packages.
OURS = {tree.name for tree in TREES}
#: The names of classes, and of what docstrings say to be one; what the latter are, the parsed source tells.
CLASS = re.compile(r"\bclass\s+_*(\w+)")
#: A line of an import of ours that renames, or one that may be within such an import.
RENAMES = re.compile(
    r"\b(from\s+(\.|dptext)|import\b.*\bdptext).*\bas\b|^(?! *(import|from)\b)[\w ,]*\bas +\w+ *([,)#\\]|$)",
    re.MULTILINE,
)


def doubled(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The class names, without a leading underscore, that several classes have, with the places of these classes."""
    found, stated = defaultdict[str, list[str]](list), {path: CLASS.findall(source) for path, source in sources.items()}
    times = Counter(name for names in stated.values() for name in names)
    for path, source in sources.items():
        if all(times[name] == 1 for name in stated[path]):
            continue  # to parse takes long
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    return {name: places for name, places in found.items() if len(places) > 1}


def renamed(source: str) -> list[str]:
    """The imports of what is ours under another name. `from a import b as b` publishes a name and renames nothing."""
    if not RENAMES.search(source):
        return []  # to parse takes long
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] in OURS))
        or (isinstance(node, ast.Import) and any(each.name.partition(".")[0] in OURS for each in node.names))
        if any(each.asname not in (None, each.name) for each in node.names)
    ]


def test_the_sources_are_of_three_packages() -> None:
    assert {tree.name for tree in TREES for path in SOURCES if f"/{tree.name}/" in path} == OURS
    assert len(OURS) == 3


def test_each_class_name_stands_once() -> None:
    assert doubled(SOURCES) == {}


def test_a_doubled_class_name_is_found() -> None:
    faulty = {"a.py": "class Page: ...", "b.py": "def made():\n    class _Page: ...", "c.py": "class Pages: ..."}
    assert doubled(faulty) == {"Page": ["a.py:1", "b.py:2"]}


def test_no_import_renames_what_is_ours() -> None:
    assert {path: found for path, source in SOURCES.items() if (found := renamed(source))} == {}


@pytest.mark.parametrize(
    "faulty",
    [
        "from dptext.ledger import statements as rows",
        "import dptext.types as own",
        "from .types import Json as Data",
        "from dptext_lab import figures as report",
        "import dptext_gateway.keys as own",
    ],
)
def test_an_import_that_renames_is_found(faulty: str) -> None:
    assert renamed(faulty) == [faulty]


def test_imports_that_rename_nothing_of_ours_pass() -> None:
    source = "import numpy as np\nfrom dptext.types import Json as Json\nfrom dptext import types"
    assert renamed(source) == []
