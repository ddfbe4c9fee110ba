"""Every mechanism keeps the contract, and `check_mechanism` catches mechanisms that do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dptext.config import SPECS
from dptext.mechanisms.private_phrases import PrivatePhrases
from dptext.mechanisms.word_metric import WordMetric
from dptext.randomness import Randomness
from dptext.records import Record, Release
from dptext.testing import ContractError, check_mechanism
from vectors import sentences

RECORDS = [Record(str(i), text) for i, text in enumerate(sentences(20))]


def specs(vectors: Path) -> list:
    common = {"vectors": str(vectors), "n_words": 300}
    return [
        WordMetric(epsilon=3.0, **common),
        WordMetric(epsilon=3.0, max_tokens=5, diameter=50.0, **common),
        WordMetric(epsilon=3.0, noise="mahalanobis", **common),
        WordMetric(epsilon=3.0, noise="tem", **common),
        WordMetric(epsilon=0.1, noise="tem", max_tokens=7, diameter=40.0, **common),
        PrivatePhrases(variance=6.0, common_words=50, **common),
    ]


@pytest.mark.parametrize("i", range(6))
def test_the_contract(vectors: Path, i: int) -> None:
    check_mechanism(specs(vectors)[i].fit(), RECORDS)


def test_every_mechanism_is_tested(vectors: Path) -> None:
    assert {spec.kind for spec in specs(vectors)} == set(SPECS)


@dataclass
class Planted:
    """A mechanism with one fault."""

    inner: object
    fault: str

    @property
    def spec(self):
        if self.fault == "overshoots":
            return Overshooting(epsilon=3.0, vectors=self.inner.spec.vectors, n_words=300)
        return self.inner.spec

    @property
    def event(self):
        return self.inner.event

    @property
    def digests(self) -> Mapping[str, str]:
        return {"vectors": "short"} if self.fault == "digest" else self.inner.digests

    def __repr__(self) -> str:
        return f"Planted({getattr(self, 'last', '')})"

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        released = self.inner.privatize(records, randomness)
        match self.fault:
            case "drops":
                return [r for r, record in zip(released, records, strict=True) if record.text]
            case "reorders":
                return released[::-1]
            case "labels":
                return [replace(r, label=record.label) for r, record in zip(released, records, strict=True)]
            case "batch":  # noise depends on the place in the batch, not on the record's position
                return self.inner.privatize(records, randomness.at(0)) if len(records) > 3 else released
            case "neighbour":  # an output depends on another record of the batch
                return [replace(r, output=f"{r.output} {len(records)}") for r in released]
            case "keeps":
                if records:
                    object.__setattr__(self, "last", records[0].text + records[-1].text + "zq9canaryxv")
                return released
            case "verbatim":
                return [Release(record.id, record.text) for record in records]
        return released


class Overshooting(WordMetric):
    def calibrate(self, epsilon, *, unit=None, delta=0.0):
        return replace(self, epsilon=epsilon * 1.01)


@pytest.mark.parametrize(
    "fault", ["drops", "reorders", "labels", "batch", "neighbour", "keeps", "digest", "overshoots"]
)
def test_planted_faults_are_caught(vectors: Path, fault: str) -> None:
    inner = WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()
    check_mechanism(Planted(inner, "none"), RECORDS)
    with pytest.raises(ContractError):
        check_mechanism(Planted(inner, fault), RECORDS)
