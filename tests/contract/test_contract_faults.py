"""Each check of the contract fails on the fault planted for it, and not on a sound mechanism."""

import logging
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from dptext.errors import ConfigError, DPTextError
from dptext.guarantee import Event, MetricEvent
from dptext.mechanisms.word_metric import WordMetric
from dptext.randomness import Randomness, seeded
from dptext.records import Record, Release
from dptext.testing import CHECKS, ContractError, check_mechanism
from vectors import WORDS

KEPT: list[str] = []


@dataclass
class Planted:
    """The word mechanism with one fault."""

    inner: object = field(repr=False)
    fault: str
    last: str = ""
    seen: ClassVar[dict[str, str]] = {}
    cache: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def spec(self):
        match self.fault:
            case "overshoots":
                return Overshooting(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=300)
            case "no tiny settings":
                return Large(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=300)
            case "events of a token halved" | "events of a document halved":
                return Halved(
                    epsilon=1.0,
                    noise="tem",
                    vectors=self.inner.spec.vectors,
                    n_words=300,
                    max_tokens=9 if "document" in self.fault else None,
                    diameter=90.0,
                )
            case "loads another":
                return LoadsAnother(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=300)
            case "thawed spec":
                return make_dataclass("Thawed", ["epsilon", "kind"])(1.0, "thawed")
        return self.inner.spec

    @property
    def event(self) -> Event:
        if self.fault == "event from text":
            return MetricEvent(1.0 + len(self.last) / 100, self.inner.event.metric)
        return self.inner.event

    @property
    def digests(self) -> Mapping[str, str]:
        return {"vectors": "short"} if self.fault == "short digest" else self.inner.digests

    def __repr__(self) -> str:
        return f"Planted({self.last})" if self.fault == "repr" else "Planted(...)"

    def distance(self, first: Record, second: Record) -> float:
        return self.inner.distance(first, second)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        return self.inner.output_distribution(record)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)
        if self.fault == "saves text":
            (folder / "notes.txt").write_text(self.last, "utf-8")

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        if records:
            self.last = records[-1].text if self.fault == "event from text" else self.last
        text = " ".join(record.text[:200] for record in records)
        safe = text.encode("utf-8", "replace").decode()
        match self.fault:
            case "repr" | "saves text":
                self.last += text
            case "cache":
                self.cache[text] = "seen"
            case "cache on the class":
                Planted.seen[text] = "seen"
            case "cache in an array":
                self.array = np.array([text] if text else ["-"])
            case "prints":
                print(safe)
            case "logs":
                logging.getLogger("planted").debug("working on %s", safe)
            case "warns":
                warnings.warn(f"odd text: {safe!r}", stacklevel=2)
            case "raises" if "\ud800" in text:
                raise DPTextError(f"cannot read {text!r}")
            case "raises from" if "\ud800" in text:
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    raise DPTextError("cannot read a record") from error
            case "stderr":
                sys.stderr.write(safe)
            case "crashes" if not text.isascii():
                raise KeyError("not in the vocabulary")
            case "temporary file":
                with tempfile.NamedTemporaryFile("w", delete=False, suffix=".planted", encoding="utf-8") as file:
                    file.write(safe)
                KEPT.append(file.name)
            case "file beside":
                Path("planted.cache").write_text(safe, "utf-8")
                KEPT.append("planted.cache")
            case "fixed seed":
                return self.inner.privatize(records, seeded(7))
            case "more epsilon":
                louder = replace(self.inner.spec, epsilon=4 * self.inner.spec.epsilon)
                return _fitted(louder).privatize(records, randomness)
        released = self.inner.privatize(records, randomness)
        match self.fault:
            case "drops":
                return [r for r, record in zip(released, records, strict=True) if record.text]
            case "reorders":
                return released[::-1]
            case "bare texts":
                return [type("Bare", (), {"id": r.id, "output": r.output, "label": None})() for r in released]
            case "fills an empty batch":
                return released or [Release("0", "filler")]
            case "labels":
                return [replace(r, label=record.label) for r, record in zip(released, records, strict=True)]
            case "by place":  # noise depends on the place in the batch, not on the record's position
                return self.inner.privatize(records, randomness.at(0)) if len(records) > 3 else released
            case "by neighbours":
                return [replace(r, output=f"{r.output} {len(records)}") for r in released]
            case "shared in a batch":  # under secure randomness only: the seeded path is innocent
                return [replace(r, output=released[0].output) for r in released] if randomness.is_secure else released
            case "first is louder":
                if randomness.is_secure and records:
                    return [replace(released[0], output=records[0].text.split(" ")[0] or "-"), *released[1:]]
            case "unknown raw":
                return [
                    replace(r, output=record.text) if record.text and record.text.split()[:1] != [WORDS[0]] else r
                    for r, record in zip(released, records, strict=True)
                ]
            case "digits raw" | "emoji raw" | "ideographs raw":
                wanted = {"digits raw": str.isdigit, "emoji raw": _is_emoji, "ideographs raw": str.isalpha}[self.fault]
                ascii_too = self.fault == "digits raw"
                return [
                    replace(
                        r,
                        output=" ".join(
                            [r.output, *(w for w in record.text.split() if wanted(w) and w.isascii() == ascii_too)]
                        ),
                    )
                    for r, record in zip(released, records, strict=True)
                ]
            case "function words raw":
                return [
                    replace(
                        r,
                        output=" ".join(
                            b if b in ("of", "and", "was") else a
                            for a, b in zip(r.output.split(), record.text.split(), strict=False)
                        ),
                    )
                    for r, record in zip(released, records, strict=True)
                ]
            case "long raw":
                return [
                    replace(r, output=record.text) if len(record.text) > 20_000 else r
                    for r, record in zip(released, records, strict=True)
                ]
            case "constant by text":
                return [
                    replace(r, output=" ".join(record.text.split()[:1]))
                    for r, record in zip(released, records, strict=True)
                ]
            case "counts tokens":
                return [
                    replace(r, output=f"{r.output} {len(record.text)}")
                    for r, record in zip(released, records, strict=True)
                ]
        return released


def _is_emoji(word: str) -> bool:
    return all("\U0001f300" <= letter <= "\U0001f5ff" for letter in word)


class Overshooting(WordMetric):
    def calibrate(self, epsilon, *, unit=None, delta=0.0):
        return replace(self, epsilon=epsilon * 1.01)


class Large(WordMetric):
    @classmethod
    def tiny(cls):
        return ()


class Halved(WordMetric):
    """What a ledger would add up is half of what the guarantee says."""

    def events(self, unit):
        right = super().events(unit)
        if unit is self.units[-1]:
            return tuple(replace(event, epsilon=event.epsilon / 2) for event in right)
        return right

    def guarantee(self, unit=None, delta=0.0):
        same = {f.name: getattr(self, f.name) for f in fields(WordMetric) if f.init}
        return WordMetric(**same).guarantee(unit, delta)

    def calibrate(self, epsilon, *, unit=None, delta=0.0):
        return replace(self, epsilon=epsilon / (1 if unit is self.units[0] else 811))


class LoadsAnother(WordMetric):
    def load(self, folder):
        return replace(self, epsilon=2 * self.epsilon).fit()


_MADE: dict[object, object] = {}


def _fitted(spec: WordMetric):
    if spec not in _MADE:
        _MADE[spec] = spec.fit()
    return _MADE[spec]


FAULTS = {
    "settings": ["thawed spec", "no tiny settings", "short digest"],
    "statements": ["overshoots", "events of a token halved", "events of a document halved"],
    "order": ["drops", "reorders", "bare texts", "fills an empty batch"],
    "batches": ["by place", "by neighbours"],
    "distribution": ["by neighbours", "shared in a batch", "first is louder"],
    "fresh": ["fixed seed", "constant by text"],
    "event": ["event from text"],
    "verbatim": [
        "unknown raw",
        "labels",
        "digits raw",
        "emoji raw",
        "ideographs raw",
        "long raw",
        "function words raw",
    ],
    "silence": [
        "repr",
        "cache",
        "cache on the class",
        "cache in an array",
        "prints",
        "logs",
        "warns",
        "raises",
        "raises from",
        "stderr",
    ],
    "files": ["temporary file", "file beside", "unknown raw"],
    "model": ["saves text", "loads another"],
    "guarantee": ["more epsilon", "constant by text"],
}


@pytest.fixture
def tem(vectors: Path):
    return _fitted(WordMetric(epsilon=1.0, noise="tem", vectors=str(vectors), n_words=300))


@pytest.mark.parametrize("check", list(CHECKS))
def test_a_sound_mechanism_passes(tem, check: str) -> None:
    assert check_mechanism(Planted(tem, "none"), words=WORDS[:4], checks=[check]) == (check,)


@pytest.mark.parametrize(("check", "fault"), [(check, fault) for check in FAULTS for fault in FAULTS[check]])
def test_a_planted_fault_is_caught(tem, check: str, fault: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        with pytest.raises(ContractError):
            check_mechanism(Planted(tem, fault), words=WORDS[:4], checks=[check])
    finally:
        for name in KEPT:
            Path(name).unlink(missing_ok=True)
        KEPT.clear()
        Planted.seen.clear()


def test_a_mechanism_that_crashes_is_not_forgiven(tem) -> None:
    with pytest.raises(KeyError):
        check_mechanism(Planted(tem, "crashes"), words=WORDS[:4], checks=["verbatim"])


def test_every_check_has_its_fault() -> None:
    assert set(FAULTS) == set(CHECKS)


def test_an_unknown_check_is_refused(tem) -> None:
    with pytest.raises(ConfigError, match="Expected checks among"):
        check_mechanism(tem, checks=["order", "everything"])
