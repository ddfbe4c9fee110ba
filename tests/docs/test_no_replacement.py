"""Experiments and benchmarks measure the product as users have it: what replaces a part of it is stated.

Tests replace public names alone, so that the inside of a module can change.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from trees import ROOT, below

#: Scripts that change a name or read a private one, and why; and the page that says so, where results depend on it.
STATED: dict[str, tuple[str, str]] = {
    "packages/lab/experiments/synthesis_attack.py": (
        "sums and noise of thousands of runs are found at once",
        "docs/results/synthesis.md",
    ),
    "packages/lab/experiments/deep_candidate/grid.py": (
        "a recoder, which knows no epsilon, is trained once",
        "docs/results/deep_candidate.md",
    ),
    "packages/lab/experiments/deep_candidate/whole_test.py": ("a clock around functions", ""),
    "packages/lab/experiments/third_party/writing_trial.py": ("functions of other libraries keep what they found", ""),
    "benchmarks/_peer_worker.py": ("another library downloads nothing", ""),
    "benchmarks/profiles.py": ("a clock around functions", ""),
    "benchmarks/adept.py": ("the decoder alone is timed", ""),
    "benchmarks/peers.py": ("the vectors that were read are counted", ""),
    "benchmarks/nearest.py": ("the limit follows the way of searching", ""),
}
#: Tests that set a private name, and why.
NO_OTHER_DOOR: dict[str, str] = {
    "packages/gateway/tests/faults/gateway_faults.py": "a fault is planted within an object, where no user comes",
    "tests/statistical/test_synthesis_canary.py": "a sum has no door for totals, and thousands are released at once",
    "tests/unit/synthesis/test_summary.py": "a sum has no door for what an author adds, where a fault is planted",
    "tests/contract/test_synthesis.py": "a fault is planted within a sum, which has no door for its total",
    "tests/faults/test_synthesis_kills.py": "a run dies while it writes a file, which begins in no public function",
    "tests/faults/test_summary_kills.py": "a run dies while it makes its files, and while it forgets what it drew",
    "tests/contract/test_frozen.py": "it tries to set a private name, and fails",
    "tests/contract/test_contract_faults.py": "a frozen mechanism of its own has a slot of such a name",
    "tests/commands.py": "weights are read once for all commands that are forked",
    "packages/gateway/tests/unit/test_transport.py": "another library has its public functions in such a module",
}


def replaced(source: str) -> list[str]:
    """What of the product, or of another library, a script replaces or reads by a private name."""
    tree, found = ast.parse(source), []
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            if any("mock" in each.lower() for each in (module, *names)) or "pytest" in (module, *names):
                found.append(f"imports {module} {names}")
            if module.startswith("dptext"):
                found += [f"imports {name}" for name in names if name.startswith("_")]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            found.append(ast.unparse(node)[:80])
        elif isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os")
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if node.attr.startswith("_") and not node.attr.startswith("__") and not own:
                found.append(ast.unparse(node))
            if isinstance(node.ctx, ast.Store) and isinstance(root, ast.Name) and root.id in imported - {"os"}:
                found.append(f"{ast.unparse(node)} = ...")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "from unittest import mock",
        "import unittest.mock as m",
        "from unittest.mock import patch",
        "import pytest",
        "from dptext.embeddings import encoders\nsetattr(encoders, 'load_encoder', print)",
        "from dptext.embeddings import encoders\nencoders.load_encoder = print",
        "import dptext.embeddings.encoders\ndptext.embeddings.encoders.load_encoder = print",
        "from dptext.synthesis.sums import PrivateSum\nPrivateSum.release = print",
        "from dptext.sampling.weights import _draw",
        "found._total",
    ],
)
def test_a_replacement_is_seen(source: str) -> None:
    assert replaced(source)


def test_what_is_replaced_is_stated() -> None:
    found = {name: replaced(source) for name, source in below("experiments", "benchmarks").items()}
    assert {name: what for name, what in found.items() if what and name not in STATED} == {}
    assert [name for name in STATED if not found.get(name)] == []  # nothing stands here that is gone
    for name, (_, page) in STATED.items():
        if page:
            assert f"`{Path(name).name}` replaces" in (ROOT / page).read_text("utf-8")


_SETS = ("setattr", "delattr")
_PRIVATE = re.compile(r"_[A-Za-z]\w*")


def privately_set(source: str) -> list[str]:
    """Private names that a test sets.

    By an assignment; as a constant of `setattr`, `delattr` or `mock.patch`; as a constant beside the owner of the name,
    which another function is given; as any
    constant in a tuple or a list where a name that is set is none.
    """
    found: list[str] = []
    if not re.search(r"[.'\"]_(?!_)", source):  # to parse takes long
        return found
    constants: list[str] = []
    computed = False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found += [] if own else [node.attr]
        elif isinstance(node, ast.Tuple | ast.List):
            found += _beside_an_owner(node.elts)
            constants += [str(each.value) for each in node.elts if isinstance(each, ast.Constant)]
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            parts = {getattr(each, "attr", getattr(each, "id", "")).strip("_") for each in ast.walk(node.func)}
            if called not in ("getattr", "hasattr"):
                found += _beside_an_owner(node.args)
            if parts.isdisjoint({*_SETS, "patch"}):
                continue
            names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            found += [part for name in names if isinstance(name, str) for part in name.split(".")]
            owners = (each for owner in node.args[:1] for each in ast.walk(owner))
            found += [each.attr for each in owners if isinstance(each, ast.Attribute)]
            computed |= called.strip("_") in _SETS and not names
    return [name for name in (*found, *(constants if computed else ())) if _PRIVATE.fullmatch(name)]


def _beside_an_owner(parts: list[ast.expr]) -> list[str]:
    """Constants that follow the name of a module, a class or an object."""
    pairs = pairwise(parts)
    return [
        str(name.value)
        for owner, name in pairs
        if isinstance(owner, ast.Name | ast.Attribute) and isinstance(name, ast.Constant)
    ]


@pytest.mark.parametrize(
    "source",
    [
        "monkeypatch.setattr(module, '_BLOCK', 3)",
        "monkeypatch.setattr('dptext.module._BLOCK', 3)",
        "monkeypatch.setattr('dptext.module._Run.publish', print)",
        "monkeypatch.delattr(module, '_BLOCK')",
        "mock.patch.object(module, '_BLOCK', 3)",
        "object.__setattr__(made, '_noise', 3)",
        "monkeypatch.setattr(module._Run, 'publish', print)",
        "module._BLOCK = 3",
        "STEPS = {'drawn': (module.Run, '_BLOCK', 3)}",
        "dying(Run, '_BLOCK', 3)",
        "for name in ('_BLOCK', 'other'):\n    setattr(module, name, 3)",
    ],
)
def test_a_private_name_that_a_test_sets_is_seen(source: str) -> None:
    assert privately_set(source)
    assert not privately_set(source.replace("_BLOCK", "BLOCK").replace("_Run", "Run").replace("_noise", "noise"))


def test_tests_set_public_names_alone() -> None:
    assert {name for name, source in below("tests").items() if privately_set(source)} == NO_OTHER_DOOR.keys()
