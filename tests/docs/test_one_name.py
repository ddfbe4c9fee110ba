"""The source has one name for each thing: no class name stands for two classes, and no import of our own renames."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

import pytest

from trees import TREES, sources

SOURCES = sources()
#: The names of the three packages.
OURS = {tree.name for tree in TREES}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.AST]:
    """The source of each module, parsed once."""
    return {path: ast.parse(source) for path, source in SOURCES.items()}


def doubled(trees: Mapping[str, ast.AST]) -> dict[str, list[str]]:
    """The class names, without a leading underscore, that several classes have, with the places of these classes."""
    found = defaultdict[str, list[str]](list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    return {name: places for name, places in found.items() if len(places) > 1}


def renamed(tree: ast.AST) -> list[str]:
    """The imports of what is ours under another name. `from a import b as b` publishes a name and renames nothing."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] in OURS))
        or (isinstance(node, ast.Import) and any(each.name.partition(".")[0] in OURS for each in node.names))
        if any(each.asname not in (None, each.name) for each in node.names)
    ]


def test_the_sources_are_of_three_packages() -> None:
    assert {tree.name for tree in TREES for path in SOURCES if f"/{tree.name}/" in path} == OURS
    assert len(OURS) == 3


def test_each_class_name_stands_once(trees: dict[str, ast.AST]) -> None:
    assert doubled(trees) == {}


def test_a_doubled_class_name_is_found() -> None:
    faulty = {"a.py": "class Page: ...", "b.py": "def made():\n    class _Page: ...", "c.py": "class Pages: ..."}
    assert doubled({path: ast.parse(source) for path, source in faulty.items()}) == {"Page": ["a.py:1", "b.py:2"]}


def test_no_import_renames_what_is_ours(trees: dict[str, ast.AST]) -> None:
    assert {path: found for path, tree in trees.items() if (found := renamed(tree))} == {}


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
    assert renamed(ast.parse(faulty)) == [faulty]


def test_imports_that_rename_nothing_of_ours_pass() -> None:
    source = "import numpy as np\nfrom dptext.types import Json as Json\nfrom dptext import types"
    assert renamed(ast.parse(source)) == []
