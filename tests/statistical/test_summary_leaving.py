"""A canary in or out of the corpus of a summary: what is written from it tells no more than epsilon.

Each run draws the noise of a summary, and lets a writer write from it. An attacker who knows everything but whether the
canary is there sees what leaves: the report, how many texts each label has, and whether the canary's words are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import dptext as dp
import tiny_language
from dptext.audits.bounds import epsilon_from_rates
from dptext.audits.trials.distinguishing import separation
from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import COUNTS
from dptext.synthesis.column_numbers import column_numbers
from dptext.synthesis.from_model import FromModel
from dptext.synthesis.from_pool import FromPool
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.summary import FittedSummary, Summary
from dptext.synthesis.sums import STEPS
from summarized import CASES, COLUMNS, canaries, clean, fitted_summary, records_with

Write = Callable[[Summary, int], Synthetic]
DELTA: Final = 1e-5
#: Settings by which all that a unit moves leaves in the report, and so tells most.
TOPICS_ALONE: Final[dict[str, Any]] = {"labels": (), "marks": 0, "words": 0}
WORDS_ALONE: Final[dict[str, Any]] = {
    "labels": (), "points": False, "topics": 0, "words": 0, "vocabulary": 30, "examples": 0,
}  # fmt: skip
COLUMNS_ALONE: Final[dict[str, Any]] = {
    "labels": (), "points": False, "topics": 0, "words": 0, "marks": 0, "lengths": (), "columns": COLUMNS,
    "pairs": ("stars+where",),
}  # fmt: skip
LETTERS: Final = " abcdefghijklmnopqrstuvwxyz"
RUNS, FEW = 400, 40


def from_pool(summary: Summary, seed: int) -> Synthetic:
    return FromPool(size=40).write(summary, seeded(seed))


def from_model(summary: Summary, seed: int) -> Synthetic:
    writer = FromModel(size=3, tokens=6, drafts=2, matches=0, options=96, temperature=1.0, processes=1)
    return writer.write(summary, seeded(seed))


@pytest.fixture
def tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that writes letters, which count as readable."""
    pytest.importorskip("numba")
    model = tiny_language.model()
    for module in tiny_language.LOADING:
        monkeypatch.setattr(f"{module}.load_language_model", lambda _: model)
    monkeypatch.setattr("dptext.synthesis.writer.is_readable", bool)


class Attacked:
    """Settings, and the two corpora that differ in the canary, as sums without noise."""

    def __init__(self, unit: str, relation: str, **more: Any) -> None:
        self.fitted: FittedSummary = fitted_summary(unit, relation, **{"columns": (), "pairs": (), **more})
        ((one, other), *_) = canaries(relation)
        self.canary, self.stated = one[0], self.fitted.spec.epsilon
        self.records = [records_with(*each, stuffed=unit == "author") for each in (other, one)]
        self.sums = [clean(self.fitted, records) for records in self.records]

    def summaries(self, there: bool, runs: int, noise: float) -> Iterator[Summary]:
        """Summaries with the canary or without it, with this share of the noise that they state."""
        spec, public, total = self.fitted.spec, self.fitted.public, self.sums[there]
        space, stated = public.pool.space, spec.noise()
        layout = spec.layout(dim=0 if space is None else space.dim, width=len(public.lexicon or ()))
        for each in stated.draw(runs * total.size, seeded(int(there))).reshape(runs, -1):
            yield Summary(spec, public, layout.known((total + noise * each) / STEPS, stated.scale))

    def seen(self, left: Synthetic) -> list[float]:
        """What leaves that can tell of the canary: the report, labels, words, letters, and whether a text is copied."""
        report, words, texts = left.report, set(self.canary.text.lower().split()), [each.lower() for each in left.texts]
        labels = [sum(label == name for label in left.labels) for name in self.fitted.spec.labels]
        common = [len(words & set(text.split())) for text in texts]
        letters = ["".join(texts).count(letter) for letter in LETTERS]
        fit, copied = report.fit.share if report.fit else 0.0, self.canary.text in left.texts
        return [copied, *np.ravel(report.counts), *report.by_label[0], fit, *labels, sum(common), *letters]

    def leaving(self, there: bool, runs: int, write: Write, noise: float) -> np.ndarray:
        """What is seen in each run, `(runs, features)`, whether a text is copied first."""
        found = enumerate(self.summaries(there, runs, noise))
        return np.array([self.seen(write(each, 2 * i + there)) for i, each in found], np.float64)

    def bound(self, write: Write, runs: int = RUNS, noise: float = 1.0) -> float:
        """A lower bound on epsilon with 95%: the event is learned on half of the runs, and counted on the others."""
        inside, outside = (self.leaving(there, runs, write, noise) for there in (True, False))
        return separation(inside, outside, delta=DELTA)

    def bound_of_rows(self, noise: float = 1.0) -> float:
        """A lower bound on epsilon with 95% by the report and rows of a table, which have most of what a unit moves."""

        def seen(summary: Summary, seed: int) -> list[float]:
            rows = replace(summary, rounded=True).rows.rows(np.zeros(200, np.int64), seeded(seed))
            drawn = [np.bincount(own, minlength=8) for own in rows.T]
            reported = column_numbers(axes, marginals, summary.known)
            return [*np.concatenate(drawn), *(n for column in reported for n in column.counts)]

        axes, marginals = self.fitted.spec.axes, self.fitted.spec.marginals

        inside, outside = (
            np.array([seen(each, 2 * i + there) for i, each in enumerate(self.summaries(there, RUNS, noise))])
            for there in (True, False)
        )
        return separation(inside, outside, delta=DELTA)

    def of_few(self, write: Write, noise: float = 1.0) -> float:
        """A lower bound on epsilon with 95% from few runs and an event that was chosen before.

        The event: the canary's text is copied, or the number of all texts is nearer to that with the canary.
        """
        (block,) = [each for each in self.fitted.spec.layout(dim=0, width=30).blocks if each.name == COUNTS]
        without, there = (float(total[block.start]) / STEPS / block.part for total in self.sums)
        hits = [
            int(((each[:, 0] > 0) | (each[:, 1] > (without + there) / 2)).sum())
            for each in (self.leaving(inside, FEW, write, noise) for inside in (True, False))
        ]
        return epsilon_from_rates(hits[0], FEW, false_positives=hits[1], negatives=FEW, delta=DELTA).epsilon


def handing_on(write: Write, private: list[dp.Record]) -> Write:
    """A writer that reads private texts: the last of them leaves, too."""

    def written(summary: Summary, seed: int) -> Synthetic:
        found = write(summary, seed)
        return replace(found, texts=(*found.texts, private[-1].text), labels=(*found.labels, None))

    return written


def of_its_size(write: Write, private: list[dp.Record]) -> Write:
    """A writer that lets as many texts leave as there are private ones."""

    def written(summary: Summary, seed: int) -> Synthetic:
        found = write(summary, seed)
        return replace(found, texts=("a",) * len(private), labels=(None,) * len(private))

    return written


def by_corpus(attacked: Attacked, fault: Callable[[Write, list[dp.Record]], Write], write: Write) -> Write:
    """A writer with a fault. The seeds of runs with the canary are odd."""
    both = [fault(write, records) for records in attacked.records]
    return lambda summary, seed: both[seed % 2](summary, seed)


@pytest.mark.slow_cases(
    *("document-replace_one", "author-add_or_remove_one", "author-replace_one"),
    why="documents stay; test_summary_canary.py has each unit and each relation without a writer",
)
@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_public_texts_that_leave_tell_no_more_than_epsilon(unit: str, relation: str) -> None:
    attacked = Attacked(unit, relation, **TOPICS_ALONE)
    assert attacked.bound(from_pool) <= attacked.stated


@pytest.mark.slow_cases(
    *("document-clean sums", "author-a tenth of the noise", "author-clean sums"),
    why="a tenth of the noise is harder to see than none",
)
@pytest.mark.parametrize("noise", [0.1, 0.0], ids=["a tenth of the noise", "clean sums"])
@pytest.mark.parametrize("unit", ["document", "author"])
def test_less_noise_than_is_stated_is_refuted_by_public_texts_that_leave(unit: str, noise: float) -> None:
    attacked = Attacked(unit, "add_or_remove_one", **TOPICS_ALONE)
    assert attacked.bound(from_pool, noise=noise) > attacked.stated


@pytest.mark.slow_cases("author", "replace_one", why="other scales of the same noise, which small tables enumerate")
@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_rows_of_a_table_tell_no_more_than_epsilon_and_less_noise_is_refuted(unit: str, relation: str) -> None:
    attacked = Attacked(unit, relation, **COLUMNS_ALONE)
    assert attacked.bound_of_rows() <= attacked.stated
    assert attacked.bound_of_rows(noise=0.05) > attacked.stated


@pytest.mark.slow_cases("of_its_size", why="a private text that leaves stays")
@pytest.mark.parametrize("fault", [handing_on, of_its_size])
def test_a_writer_that_reads_private_texts_is_refuted(fault: Any) -> None:
    attacked = Attacked("document", "add_or_remove_one", **TOPICS_ALONE)
    assert attacked.bound(by_corpus(attacked, fault, from_pool), 200) > attacked.stated


@pytest.mark.slow  # it follows from the noisy numbers: test_public_texts_that_leave_tell_no_more_than_epsilon
@pytest.mark.usefixtures("tiny_model")
def test_what_a_model_writes_tells_no_more_than_epsilon() -> None:
    attacked = Attacked("document", "add_or_remove_one", **WORDS_ALONE)
    assert attacked.of_few(from_model) <= attacked.stated


@pytest.mark.slow_cases("a private text", why="test_a_writer_that_reads_private_texts_is_refuted has it")
@pytest.mark.usefixtures("tiny_model")
@pytest.mark.parametrize(("noise", "fault"), [(0.0, None), (1.0, handing_on)], ids=["clean sums", "a private text"])
def test_a_model_that_is_given_private_numbers_or_texts_is_refuted(noise: float, fault: Any) -> None:
    attacked = Attacked("document", "add_or_remove_one", **WORDS_ALONE)
    write = from_model if fault is None else by_corpus(attacked, fault, from_model)
    assert attacked.of_few(write, noise) > attacked.stated


@pytest.mark.slow  # hundreds of runs with all blocks; the quick tests above see the same faults with less
@pytest.mark.usefixtures("tiny_model")
@pytest.mark.parametrize(("write", "runs"), [(from_pool, 1_000), (from_model, 400)], ids=["pool", "model"])
@pytest.mark.parametrize(("unit", "relation"), CASES)
def test_what_leaves_of_a_summary_with_all_blocks_tells_no_more_than_epsilon(
    write: Write, runs: int, unit: str, relation: str
) -> None:
    attacked = Attacked(unit, relation, examples=0)
    assert attacked.bound(write, runs) <= attacked.stated
    assert attacked.bound(write, 200, noise=0.0) > attacked.stated


@pytest.mark.slow  # 4,000 runs a corpus; a tenth of the noise is refuted above with 400
def test_a_fifth_of_the_noise_is_refuted() -> None:
    attacked = Attacked("document", "add_or_remove_one", **TOPICS_ALONE)
    assert attacked.bound(from_pool, 4_000, noise=0.2) > attacked.stated
