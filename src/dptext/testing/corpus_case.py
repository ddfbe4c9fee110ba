"""Runs of a synthesis on corpora that a check makes: what a run sums up, draws, releases, tells and writes."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dptext.privacy.guarantee import Relation
from dptext.sampling.hub import Nudged
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis.readings import Corpus
from dptext.synthesis.spec import Fitted, Synthetic
from dptext.synthesis.sums import Draws, Noise
from dptext.testing.outward import writes
from dptext.testing.silence_checks import listening
from dptext.text.batches import Batch
from dptext.text.records import Record
from dptext.types import Floats, Integers

CANARY: Final = "zqcorpuscanary"  #: a word of private texts alone


@dataclass(frozen=True, slots=True, repr=False)
class Round:
    """One sum of a run, in steps: without noise, as released, and its noise."""

    clean: Integers
    noisy: Floats
    noise: Noise


@dataclass(frozen=True, slots=True, repr=False)
class Choices:
    """Tokens that were chosen side by side, one a group, with the inputs of the choice: sums over units, in steps."""

    total: Integers
    public: Floats
    choice: Nudged
    chosen: Integers


@dataclass(frozen=True, slots=True, repr=False)
class ObservedRun:
    """The observed behaviour of a run."""

    rounds: tuple[Round, ...]
    choices: tuple[Choices, ...]
    found: Synthetic
    told: str
    written: tuple[str, ...]


class _Recorder(Draws):
    """Draws that record their inputs. Sums and choices are those of a replayed run, if they have the same shape."""

    __slots__ = ("_replay", "choices", "rounds")

    def __init__(self, randomness: Randomness, replay: ObservedRun | None) -> None:
        super().__init__(randomness)
        self._replay = replay
        self.rounds: list[Round] = []
        self.choices: list[Choices] = []

    def noisy(self, clean: Integers, noise: Noise) -> Floats:
        place, noisy = len(self.rounds), super().noisy(clean, noise)
        self.rounds.append(Round(clean.copy(), noisy, noise))
        before = self._replay.rounds[place : place + 1] if self._replay else ()
        return before[0].noisy if before and len(before[0].clean) == len(clean) else noisy

    def chosen(self, choice: Nudged, total: Integers, public: Floats) -> Integers:
        place, drawn = len(self.choices), super().chosen(choice, total, public)
        self.choices.append(Choices(total.copy(), public.copy(), choice, drawn))
        before = self._replay.choices[place : place + 1] if self._replay else ()
        return before[0].chosen if before and before[0].total.shape == total.shape else drawn

    def groups(self, units: Sequence[tuple[int, str]], groups: Integers) -> list[int]:
        """Return groups that are the same for a text in every run, so that two runs can be compared."""
        return [zlib.crc32(text.encode()) % int(groups[label]) for label, text in units]

    def takes(self, n: int, before: str, text: str) -> bool:
        """Prefer the first text by an order that is the same in every run."""
        return n == 1 or zlib.crc32(text.encode()) < zlib.crc32(before.encode())


#: Records, or a function that reads records.
Records = Sequence[Record] | Corpus


@dataclass(frozen=True, slots=True)
class CorpusCase:
    """The input of a check."""

    fitted: Fitted
    records: tuple[Record, ...] = field(repr=False)
    seed: int

    def run(
        self,
        records: Records,
        *,
        replay: ObservedRun | None = None,
        batch: int = 64,
        randomness: Randomness | None = None,
    ) -> ObservedRun:
        """Run on records, or on their reader, with a seed; noisy sums and choices are those of `replay`, if any."""
        draws = _Recorder(randomness or seeded(self.seed), replay)

        def corpus() -> Generator[Batch, None, None]:
            assert not callable(records)  # noqa: S101
            yield from (Batch.of(records[start : start + batch]) for start in range(0, len(records), batch))

        with listening() as told, writes() as written:
            found = self.fitted.synthesize(records if callable(records) else corpus, draws)
        return ObservedRun(tuple(draws.rounds), tuple(draws.choices), found, told(), tuple(written))

    @property
    def neighbours(self) -> Iterator[tuple[str, Relation, list[Record]]]:
        """Corpora that differ from the records in one unit, each with its relation."""
        records, authors = list(self.records), [record.author for record in self.records]
        labels = self.fitted.spec.labels or (None,)
        if self.fitted.spec.unit == "author":
            one = next(name for name in authors if name)
            others = [record for record in records if record.author != one]
            texts = [f"{CANARY} {record.text}" for record in records * 4]
            many = [Record(f"many{i}", text, label=labels[0], author="new") for i, text in enumerate(texts)]
            yield "an author's records were removed", Relation.ADD_OR_REMOVE_ONE, others
            yield "an author of many records was added", Relation.ADD_OR_REMOVE_ONE, records + many
            yield "an author was replaced", Relation.REPLACE_ONE, others + [replace(each, author=one) for each in many]
            return
        yield "a record was removed", Relation.ADD_OR_REMOVE_ONE, records[1:]
        long = f"{records[0].text} {CANARY} " * 50
        for i, label in enumerate(labels):  # for every second label with words that public lists have
            text = long + " ".join(record.text for record in records if i % 2)
            added = Record(CANARY, text, label=label, author="new")
            yield "a record was added", Relation.ADD_OR_REMOVE_ONE, [*records, added]
            yield "a record was replaced", Relation.REPLACE_ONE, [added, *records[1:]]

    @property
    def others(self) -> Iterator[tuple[str, list[Record]]]:
        """Corpora that are no neighbours: of other sizes, lengths, words and shares of labels."""
        records, labels = list(self.records), self.fitted.spec.labels or (None,)
        yield "none of its records", []
        yield "one record", records[:1]
        yield "no record of one label", [each for each in records if each.label != labels[0]][: len(records) // 3]
        long = [replace(each, text=f"{each.text} {CANARY} " * 9) for each in records * 2]
        yield "longer texts of one label, and more of them", [replace(each, label=labels[-1]) for each in long]

    @property
    def nothing(self) -> list[Record]:
        """Records that add nothing: without text, with a label that is not public, or without an author."""
        label, author = (self.fitted.spec.labels or (None,))[0], self.records[0].author
        blank = ("", " \n", "\u200b\u2060\ufeff")  # the last has width zero
        found = [Record(f"blank{i}", text, label=label, author=author) for i, text in enumerate(blank)]
        if self.fitted.spec.labels:
            found += [Record(f"odd{i}", CANARY, label=odd, author=author) for i, odd in enumerate((CANARY, None))]
        if self.fitted.spec.unit == "author":
            found.append(Record("nobody", self.records[0].text, label=label))
        return found
