"""Documents, checks and a distribution by definition, for the mechanisms that choose a public document."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
from safetensors.numpy import load_file, save_file

from dptext.errors import ConfigError
from dptext.mechanisms.sentences.candidate_choice import CandidateMechanism
from dptext.mechanisms.sentences.candidate_fit import Documents
from dptext.mechanisms.sentences.document_candidates import Scores
from dptext.privacy.guarantee import Unit
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.text.tokens import sentences

LABELS = ("health", "travel", "money", "leisure")
RNG = np.random.default_rng(22)
SAMPLE = sample_records(400)


def letters(number: int, start: int, label: str) -> list[Record]:
    """Documents of three sentences each, of one label."""
    texts = [record.text for record in SAMPLE if record.label == label]
    return [
        Record(str(start + i), " ".join(texts[(3 * i + j) % len(texts)] for j in range(3)), label=label)
        for i in range(number)
    ]


#: Each is found again whatever stands before and after it.
SENTENCES = [
    text for record in SAMPLE for text in [record.text] if sentences(f"So it is. {text} So it was.")[1:-1] == [text]
]
PUBLIC = [record for i, label in enumerate(LABELS) for record in letters(20, 100 * i, label)]


#: Two labels, one of them rare: a choice in favour of its candidates is the easiest to see.
UNEVEN = [r if r.label != "health" or i < 4 else replace(r, label="travel") for i, r in enumerate(PUBLIC)]
UTTERANCES = [
    Record(f"u{i}", f"{record.text}", label=record.label) for i, record in enumerate(sample_records(60, seed=7))
]


def distributions(mechanism: CandidateMechanism, texts: list[str]) -> np.ndarray:
    utilities = mechanism.utilities([Record("0", text) for text in texts])
    return np.log(mechanism.spec.choice.distribution(utilities))


def random_sentences(number: int) -> list[str]:
    return [SENTENCES[int(i)] for i in RNG.integers(0, len(SENTENCES), number)]


def worst_ratio(mechanism: CandidateMechanism, *, pairs: int = 25, longest: int = 5) -> float:
    """The largest log ratio of two documents that differ in one sentence."""
    worst = 0.0
    for _ in range(pairs):
        one = random_sentences(int(RNG.integers(1, longest + 1)))
        other = [random_sentences(1)[0], *one[1:]]
        first, second = distributions(mechanism, [" ".join(one), " ".join(other)])
        worst = max(worst, float(np.abs(first - second).max()))
    return worst


def ten_times_the_size(mechanism: CandidateMechanism) -> float:
    """The largest log ratio of documents that differ in one sentence, with utilities of ten times the size."""
    worst = 0.0
    for _ in range(60):
        one = random_sentences(4)
        other = [random_sentences(1)[0], *one[1:]]
        utilities = 10 * mechanism.utilities([Record("0", " ".join(one)), Record("1", " ".join(other))])
        first, second = np.log(mechanism.spec.choice.distribution(utilities))
        worst = max(worst, float(np.abs(first - second).max()))
    return worst


def extremes(scores: Scores, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The utilities of documents `(beginnings, sentences + 1, m)` that differ in their last one; the last has none.

    `first` are embeddings with which documents begin, `last` those of the sentences that are replaced.
    """
    beginnings = first[:, None] if len(first) else np.empty((1, *first.shape))
    documents = [
        np.concatenate([beginning, *([one[None]] if one is not None else [])])
        for beginning in beginnings
        for one in (*last, None)
    ]
    found = scores(np.concatenate(documents), [len(document) for document in documents])
    return found.reshape(len(beginnings), len(last) + 1, -1)


def check_extremes(settings: Any, utilities: np.ndarray, *, longest: int) -> None:
    """The worst sentences cost epsilon at most, and more than half of it.

    Weights of twice the size, or utilities of 1.9 times, would not pass. Documents have at most `longest` sentences.
    """
    with_one, without = utilities[:, :-1], utilities[:, -1:]
    change, growth = with_one.max(axis=1) - with_one.min(axis=1), with_one - without
    assert 0.99 < change.max() <= 1
    assert growth.min() >= 0
    assert 0.99 < growth.max() <= 1

    def logs(found: Any) -> np.ndarray:
        chances = found.choice.distribution(utilities.reshape(-1, utilities.shape[2]))
        return np.log(chances).reshape(utilities.shape)

    replaced = logs(settings)[:, :-1]
    assert 1.1 < (replaced.max(axis=1) - replaced.min(axis=1)).max() <= 2.0
    added = logs(replace(settings, relation="add_or_remove_one"))
    assert 1.1 < np.abs(added[:, :-1] - added[:, -1:]).max() <= 2.0
    for relation in ("replace_one", "add_or_remove_one"):  # any two documents of up to so many sentences
        whole = replace(settings, max_sentences=longest, relation=relation)
        found = logs(whole).reshape(-1, utilities.shape[2])
        stated = whole.guarantee(Unit.DOCUMENT).epsilon
        assert 0.55 * stated < (found.max(axis=0) - found.min(axis=0)).max() <= stated


def by_softmax(utilities: list[float], scale: float) -> list[float]:
    weights = [math.exp(scale * utility) for utility in utilities]
    return [weight / sum(weights) for weight in weights]


def by_permuting_and_flipping(utilities: list[float], scale: float) -> list[float]:
    """Every order of the candidates as likely; the first whose coin comes up is taken."""
    coins = [math.exp(scale * (utility - max(utilities))) for utility in utilities]
    found = [0.0] * len(coins)
    for order in itertools.permutations(range(len(coins))):
        left = 1 / math.factorial(len(coins))
        for i in order:
            found[i] += left * coins[i]
            left *= 1 - coins[i]
    return found


def dot(left: list[int], right: list[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def ints(*shape: int) -> np.ndarray:
    return RNG.integers(-1, 2, shape)


#: Scores, the same by counting, and the number of coordinates.
Small = tuple[Scores, Callable[[list[list[int]]], list[float]], int]


def check_enumerated(settings: Any, small: Callable[[], Small], *, unit: float) -> None:
    """432 random pairs, with ties: the same as by definition, and no log ratio above epsilon, which is 2.

    Embeddings are whole numbers times `unit`.
    """
    epsilon, ties = 2.0, 0
    for selection, relation in itertools.product(
        ("exponential", "permute_and_flip"), ("replace_one", "add_or_remove_one")
    ):
        choice = replace(settings, selection=selection, relation=relation).choice
        by_hand = by_softmax if selection == "exponential" else by_permuting_and_flipping
        scale = epsilon / 2 if relation == "replace_one" else epsilon
        worst = 0.0
        for _ in range(108):
            scores, counted, dim = small()
            one = ints(int(RNG.integers(1, 6)), dim).tolist()
            at = int(RNG.integers(len(one)))
            other = [*one[:at], *([ints(dim).tolist()] if relation == "replace_one" else []), *one[at + 1 :]]
            embeddings = unit * np.array([*one, *other], np.float64)
            expected = [by_hand(counted(document), scale) for document in (one, other)]
            found = choice.distribution(scores(embeddings, [len(one), len(other)]))
            np.testing.assert_allclose(found, expected, rtol=1e-9)
            worst = max(worst, float(np.abs(np.log(expected[0]) - np.log(expected[1])).max()))
            ties += len(set(expected[0])) < len(expected[0])
        assert 0.4 * epsilon < worst <= epsilon + 1e-9
    assert ties > 40


def check_alone(mechanism: CandidateMechanism) -> None:
    """The utilities of a document do not depend on the others of the batch."""
    records = [Record(str(i), " ".join(random_sentences(1 + i % 5))) for i in range(40)]
    among = mechanism.utilities(records)
    alone = np.concatenate([mechanism.utilities([record]) for record in records])
    assert (among == alone).all()


def check_released(mechanism: CandidateMechanism) -> None:
    """Releases are public documents with their own labels."""
    private = [Record(str(i), " ".join(random_sentences(3)), label="secret") for i in range(60)]
    known = {(record.text, record.label) for record in PUBLIC}
    for record, release in zip(private, mechanism.privatize(private, secure()), strict=True):
        assert (release.output, release.label) in known
        assert release.id == record.id
        assert release.vector is None


def check_drawn(mechanism: CandidateMechanism) -> None:
    """Candidates are drawn as often as the distribution says."""
    record = Record("0", " ".join(random_sentences(4)))
    chances = mechanism.output_distribution(record)
    assert sum(chances.values()) == pytest.approx(1.0)
    drawn = [f"{r.label}\x1f{r.output}" for r in mechanism.privatize([record] * 2000, secure())]
    counts = np.array([drawn.count(key) for key in chances])
    expected = 2000 * np.array(list(chances.values()))
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert counts.sum() == 2000
    assert statistic < 25 + 8 * math.sqrt(50)  # chi-squared with some 24 degrees of freedom


def check_comes_back(mechanism: CandidateMechanism, folder: Path) -> None:
    """A model that is saved into the folder is read again as it was."""
    save_model(mechanism, folder)
    again = load_model(folder)
    records = [Record(str(i), " ".join(random_sentences(3))) for i in range(10)]
    assert again.privatize(records, seeded(3)) == mechanism.privatize(records, seeded(3))
    assert again.digests == mechanism.digests


Edits = dict[str, list[Callable[[np.ndarray], np.ndarray]]]


def check_edits(mechanism: Any, folder: Path, edits: Edits) -> None:
    """An array that is edited or absent is refused. `edits` name every array of the mechanism."""
    mechanism.save(folder)
    path = folder / "candidates.safetensors"
    arrays = load_file(path)
    assert set(arrays) <= set(edits)
    for name in arrays:
        for edit in edits[name]:
            save_file({**arrays, name: np.ascontiguousarray(edit(arrays[name]))}, path)
            with pytest.raises(ConfigError, match="again"):
                mechanism.spec.load(folder)
        save_file({other: array for other, array in arrays.items() if other != name}, path)
        with pytest.raises(ConfigError, match="again"):
            mechanism.spec.load(folder)
    save_file(arrays, path)
    assert mechanism.spec.load(folder).digests == mechanism.digests


def planted(number: int, *, dim: int = 6, size: int = 6) -> Documents:
    """Two classes: half of what lies along coordinate 1 is the class, coordinate 0 varies within documents alone."""
    draw = np.random.default_rng(5)
    classes = np.arange(number) % 2
    spread = np.where(np.arange(dim) == 0, 1.0, 0.1)
    found = spread * draw.normal(size=(number * size, dim))
    found[:, 1] += np.repeat(0.2 * (2 * classes - 1), size)
    return Documents(found / np.linalg.norm(found, axis=1).max(), (size,) * number, classes)
