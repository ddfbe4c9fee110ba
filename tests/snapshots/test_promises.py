"""What settings promised once, they promise still: units, events, guarantees, calibrations, defaults, public names.

These snapshots stay for ever. `python tests/snapshots/make.py` writes them; see there before one is replaced. What is
removed or changed on purpose is taken from the JSON file in the same commit, where a reviewer sees it. Prose guards
moves of code alone: it may be made again whenever sentences are changed on purpose.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import snapshot_cases as cases

import dptext as dp

KEPT = json.loads((cases.HERE / "guarantees.json").read_text("utf-8"))
PROSE = json.loads((cases.HERE / "prose.json").read_text("utf-8"))
NAMES = json.loads((cases.HERE / "names.json").read_text("utf-8"))


@pytest.mark.parametrize("kind", KEPT)
def test_guarantees_follow_from_settings_as_they_did(kind: str) -> None:
    for kept in KEPT[kind][1:]:
        exact = cases.numbers(kept["settings"]) | set(cases.DELTAS)
        assert cases.difference(cases.facts(kept["settings"]), kept, exact) is None, kept["settings"]


@pytest.mark.parametrize("kind", PROSE)
def test_guarantees_and_errors_have_the_same_words(kind: str) -> None:
    """No promise: `make.py prose --again` after sentences were changed on purpose."""
    for kept, case in zip(PROSE[kind], KEPT[kind][1:], strict=True):
        assert cases.prose_digest(case["settings"]) == kept, (case["settings"], cases.prose(case["settings"]))


@pytest.mark.parametrize("kind", KEPT)
def test_settings_that_are_left_out_are_those_of_then(kind: str) -> None:
    kept = KEPT[kind][0]["defaults"]
    assert cases.defaults(kind)[: len(kept)] == kept  # more may have been added at the end


@pytest.mark.slow_cases("erae", "dp_prompt", why="tests/contract calibrates both; the others stay")
@pytest.mark.parametrize("kind", KEPT)
def test_calibrations_find_the_same_settings(kind: str) -> None:
    for kept, case in zip(KEPT[kind][0]["calibrated"], KEPT[kind][1:], strict=False):
        assert cases.difference(cases.calibrated(case["settings"]), kept, set()) is None, case["settings"]


@pytest.mark.parametrize("module", NAMES)
def test_no_public_name_is_gone(module: str) -> None:
    found = dp if module == "dptext" else cases.public_module(module)
    assert [name for name in NAMES[module] if not cases.offers(found, name)] == []
    assert module != "dptext" or set(NAMES[module]) <= set(dir(dp))


def test_the_snapshots_are_of_every_mechanism_and_unit() -> None:
    assert set(cases.VARIED) <= set(KEPT)
    assert all(len(listed) >= 4 for listed in KEPT.values())
    for unit in dp.Unit:
        assert any(isinstance(case.get(f"events {unit}"), list) for listed in KEPT.values() for case in listed)


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ({"a": [1.0, "b"]}, True),
        ({"a": [1.0 + 1e-12, "b"]}, True),
        ({"a": [1.001, "b"]}, False),
        ({"a": [1, "b"]}, False),
        ({"a": [1.0, "c"]}, False),
        ({"a": [1.0]}, False),
        ({"c": [1.0, "b"]}, False),
    ],
)
def test_what_differs_is_seen(found: Any, same: bool) -> None:
    kept = {"a": [1.0, "b"]}
    assert (cases.difference(found, kept, set()) is None) == same
    assert (cases.difference(found, kept, {1.0}) is None) == (same and found["a"][0] == 1.0)
