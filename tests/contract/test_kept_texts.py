"""The contract sees private text that a mechanism's package keeps, wherever; what keeps nothing private passes."""

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar

import pytest

from dptext.sampling.randomness import Randomness
from dptext.testing import ContractError, check_mechanism, held
from dptext.text.records import Record, Release
from dptext_lab.redaction.random import RandomRedaction, RandomRedactionMechanism

#: What this module keeps, each reached in one way only.
LISTED: list[str] = []
LENGTHS: list[int] = []
OUTSIDE = "a text of this module"
PLACES: dict[str, dict[str, int]] = {"counts": {}}


class Elsewhere:
    """A class that is not the mechanism's."""

    seen: ClassVar[list[str]] = []


def in_a_list(text: str) -> None:
    LISTED.append(text)


def in_keys(text: str) -> None:
    PLACES["counts"][text] = 1


def on_another_class(text: str) -> None:
    Elsewhere.seen.append(text)


def on_the_function(text: str) -> None:
    vars(on_the_function)["last"] = text


def in_a_default(text: str, kept: list[str] = []) -> None:  # noqa: B006  # the fault
    kept.append(text)


@lru_cache(maxsize=8)
def in_a_cache(text: str) -> int:
    return len(text)


def closed() -> Callable[[str], None]:
    kept: list[bytes] = []
    return lambda text: kept.append(text.encode("utf-8", "replace"))


def paired(kept: set[str], text: str) -> None:
    kept.add(text)


in_a_closure = closed()
in_a_bound_method = list[str]().append
in_a_partial = partial(paired, set())
WAYS = (
    *(in_a_list, in_keys, on_another_class, on_the_function, in_a_default, in_a_cache, in_a_closure),
    *(in_a_bound_method, in_a_partial),
)


def lengths_only(text: str) -> None:
    LENGTHS.append(len(text))


@lru_cache(maxsize=8)
def of_public_words(word: str) -> int:
    return len(word)


def public_cache(text: str) -> None:
    for word in ("good", "bad"):
        of_public_words(word)


class Keeping(RandomRedactionMechanism):
    """Calls a function of this module with each private text."""

    __slots__ = ("number",)
    ways: ClassVar[tuple[Callable[[str], object], ...]] = (*WAYS, lengths_only, public_cache)

    def __init__(self, number: int) -> None:
        super().__init__(RandomRedaction(0.5))
        self.number = number

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        for record in records:
            Keeping.ways[self.number](record.text)
        return super().privatize(records, randomness)


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_text_that_a_module_keeps_is_caught(number: int) -> None:
    with pytest.raises(ContractError, match="no private text is kept"):
        check_mechanism(Keeping(number), checks=["silence"])


@pytest.mark.parametrize("number", range(len(WAYS), len(Keeping.ways)))
def test_what_keeps_nothing_private_passes(number: int) -> None:
    """The texts that the faults kept before were of other runs."""
    assert check_mechanism(Keeping(number), checks=["silence"])


THEIRS = """
from dptext_lab.redaction.random import RandomRedactionMechanism
from {package} import store
class Theirs(RandomRedactionMechanism):
    __slots__ = ()
    def privatize(self, records, randomness):
        store.remember(records)
        return super().privatize(records, randomness)
"""
STORE = "KEPT = []\ndef remember(records):\n    KEPT.extend(record.{what} for record in records)\n"


@pytest.mark.parametrize(("what", "kept"), [("text", True), ("id", False)])
def test_another_module_of_the_package(tmp_path: Path, monkeypatch, what: str, kept: bool) -> None:
    package = f"theirs_that_keep_{what}"
    (tmp_path / package).mkdir()
    for name, code in {"__init__": "", "store": STORE.format(what=what), "own": THEIRS.format(package=package)}.items():
        (tmp_path / package / f"{name}.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    mechanism = importlib.import_module(f"{package}.own").Theirs(RandomRedaction(0.5))
    try:
        if kept:
            with pytest.raises(ContractError, match="no private text is kept"):
                check_mechanism(mechanism, checks=["silence"])
        else:
            assert check_mechanism(mechanism, checks=["silence"])
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


def test_only_modules_of_its_own_package_are_walked() -> None:
    """A walk through every imported module would take long, and find texts of whoever calls."""
    theirs, ours = RandomRedactionMechanism(RandomRedaction(0.5)), Keeping(0)
    assert OUTSIDE not in held.texts_held_by(theirs, theirs.spec)
    assert OUTSIDE in held.texts_held_by(ours, ours.spec)
