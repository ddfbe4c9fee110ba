"""Fidelity against naive versions, hand-made cases, and outputs that were shifted, swapped or repeated."""

import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dptext.embeddings import embedder, sentence_encoder
from dptext.embeddings.embedder import EmbeddedTexts, embed_distinct
from dptext.errors import ConfigError, MissingExtraError
from dptext.estimates import clopper_pearson
from dptext.text.records import Record, Release
from dptext.text.samples import sample_records
from dptext.text.tokens import tokenize
from dptext.utility.fidelity import draw_others, fidelity
from dptext.utility.tables import required_rows, utility_table


class Bag:
    """Hashed bag of words; counts the texts that it is asked for."""

    name = "bag"
    dim = 64

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts):
        self.asked += texts
        found = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % self.dim] += 1
        return found


class Given:
    """Vectors by text."""

    name, dim = "given", 2

    def __init__(self, vectors) -> None:
        self.vectors = vectors

    def embed(self, texts):
        return np.array([self.vectors[text] for text in texts], np.float64)


ORIGINALS = sample_records(150)


def releases(texts, labels=None, originals=ORIGINALS):
    labels = labels or [record.label for record in originals]
    return [Release(r.id, text, label) for r, text, label in zip(originals, texts, labels, strict=True)]


OWN = releases([record.text for record in ORIGINALS])
SOME = releases([" ".join(record.text.split()[: 2 + i % 5]) for i, record in enumerate(ORIGINALS)])


def test_a_copy_keeps_everything():
    found = fidelity(ORIGINALS, OWN, embedder=Bag())
    assert found.label_kept.value == found.tokens_kept.value == 1
    assert found.cosine.value == pytest.approx(1)
    repeated = len(ORIGINALS) - len({r.text for r in ORIGINALS})
    assert found.own_first.value == pytest.approx(1, abs=repeated / len(ORIGINALS) + 0.02)
    assert (found.candidates, found.records) == (100, 150)


def test_numbers_are_the_naive_ones():
    originals, outputs = ORIGINALS[:60], SOME[:60]
    found = fidelity(originals, outputs, embedder=Bag(), seed=4)
    vectors = Bag().embed([r.text for r in originals]).astype(float)
    drawn = Bag().embed([r.output for r in outputs]).astype(float)
    own, first, kept = [], [], []
    for i, (record, release) in enumerate(zip(originals, outputs, strict=True)):
        cosines = [v @ drawn[i] / np.linalg.norm(v) / np.linalg.norm(drawn[i]) for v in vectors]
        own.append(cosines[i])
        better = sum(value > cosines[i] + 1e-6 for value in cosines)
        equal = sum(abs(value - cosines[i]) <= 1e-6 for value in cosines)
        first.append(0 if better else 1 / equal)
        tokens = [t.casefold() for line in tokenize(record.text) for t in line]
        left = [t.casefold() for line in tokenize(release.output) for t in line]
        n, share = len(tokens), 0
        for token in tokens:
            if token in left:
                left.remove(token)
                share += 1
        kept.append(share / n)
    assert found.candidates == 60
    assert found.cosine.value == pytest.approx(np.mean(own), abs=1e-6)
    assert found.own_first.value == pytest.approx(np.mean(first), abs=1e-8)
    assert found.tokens_kept.value == pytest.approx(np.mean(kept))
    for estimate in (found.cosine, found.own_first, found.tokens_kept):
        assert estimate.low < estimate.value < estimate.high
        assert estimate.confidence == 0.95


def test_varied_and_repeated_outputs():
    originals = ORIGINALS[:4]
    texts = ["a B c", "A b c", "a b c a b c", "a b c"]
    found = fidelity(originals, releases(texts, originals=originals), embedder=Bag())
    tokens = [text.lower().split() for text in texts]
    words = [word for line in tokens for word in line]
    pairs = [pair for line in tokens for pair in pairwise(line)]
    assert found.distinct_texts == 1
    assert found.distinct_1 == len(set(words)) / len(words) == 3 / 15
    assert found.distinct_2 == len(set(pairs)) / len(pairs) == 3 / 11
    assert found.repetition == clopper_pearson(1, 4)
    silent = fidelity(originals, releases([""] * 4, originals=originals), embedder=Bag())
    assert (silent.distinct_texts, silent.distinct_1, silent.distinct_2) == (0.25, 0, 0)
    assert silent.repetition.value == silent.cosine.value == silent.tokens_kept.value == 0


def test_repetition_wants_three_tokens_again():
    texts = ["the the the the", "the the the", "of the sea of the sky", "a b c d a b c"]
    found = fidelity(ORIGINALS[:4], releases(texts, originals=ORIGINALS[:4]), embedder=Bag())
    assert found.repetition.value == 0.5


def test_ties_share_the_first_place():
    """Four originals, two of them alike to the output, which is one's own: it counts a half."""
    records = [Record(str(i), text) for i, text in enumerate(["p", "q", "r", "s"])]
    vectors = {"p": (1, 0), "q": (2, 0), "r": (0, 1), "s": (-1, 0), "out": (1, 0), "zero": (0, 0)}
    outputs = [Release(str(i), text) for i, text in enumerate(["out", "out", "out", "zero"])]
    found = fidelity(records, outputs, embedder=Given(vectors))
    assert found.own_first.value == (1 / 2 + 1 / 2 + 0 + 1 / 4) / 4
    assert found.own_first.low == clopper_pearson(1, 4).low
    assert found.own_first.high == clopper_pearson(2, 4).high
    assert found.cosine.value == (1 + 1 + 0 + 0) / 4


def test_chance_is_one_in_so_many():
    records = [Record(str(i), "same") for i in range(300)]
    found = fidelity(records, [Release(r.id, "anything") for r in records], embedder=Bag())
    assert found.own_first.value == pytest.approx(0.01)


def test_a_shift_by_one_row_is_seen():
    shifted = [replace(r, output=other.output) for r, other in zip(SOME, [*SOME[1:], SOME[0]], strict=True)]
    right, wrong = (fidelity(ORIGINALS, rows, embedder=Bag()) for rows in (SOME, shifted))
    assert wrong.cosine.high < right.cosine.low
    assert wrong.own_first.high < right.own_first.low
    assert wrong.tokens_kept.high < right.tokens_kept.low
    assert wrong.own_first.value < 0.1
    assert (wrong.distinct_1, wrong.distinct_texts) == (right.distinct_1, right.distinct_texts)


def test_swapped_labels_are_seen():
    names = {"health": "travel", "travel": "health"}
    swapped = [replace(r, label=names.get(r.label, r.label)) for r in OWN]
    right, wrong = (fidelity(ORIGINALS, rows, embedder=Bag()) for rows in (OWN, swapped))
    touched = sum(r.label in names for r in ORIGINALS)
    assert wrong.label_kept == clopper_pearson(150 - touched, 150)
    assert wrong.label_kept.high < right.label_kept.low
    assert wrong.cosine == right.cosine


def test_labels_that_are_missing():
    none = [replace(r, label=None) for r in OWN]
    assert fidelity(ORIGINALS, none, embedder=Bag()).label_kept is None
    bare = [replace(r, label=None) for r in ORIGINALS]
    assert fidelity(bare, OWN, embedder=Bag()).label_kept is None
    half = [replace(r, label=None) if i % 2 else r for i, r in enumerate(OWN)]
    assert fidelity(ORIGINALS, half, embedder=Bag()).label_kept.value == 0.5
    known = [r if i < 30 else replace(r, label=None) for i, r in enumerate(ORIGINALS)]
    assert fidelity(known, OWN, embedder=Bag()).label_kept == clopper_pearson(30, 30)


def test_originals_without_tokens_say_nothing_about_tokens():
    records = [Record("0", " "), Record("1", "a b")]
    outputs = [Release("0", "x"), Release("1", "A")]
    assert fidelity(records, outputs, embedder=Bag()).tokens_kept.value == 0.5
    assert fidelity(records[:1], outputs[:1], embedder=Bag()).tokens_kept is None


def test_each_distinct_text_is_embedded_once():
    bag = Bag()
    outputs = releases(["one text"] * 150)
    first = fidelity(ORIGINALS, outputs, embedder=bag)
    assert len(bag.asked) == len(set(bag.asked)) == len({r.text for r in ORIGINALS}) + 1
    known = embed_distinct(bag.asked, Bag(), single=True)
    asked = len(bag.asked)
    assert fidelity(ORIGINALS, outputs, embedder=bag, embedded=known) == first
    assert len(bag.asked) == asked
    assert "one text" not in repr(known)
    assert isinstance(known, EmbeddedTexts)


def test_others_are_uniform_subsets_without_oneself():
    found = draw_others(7, 3, seed=0)
    assert all(len({*row, i}) == 4 for i, row in enumerate(found.tolist()))
    assert found.min() >= 0
    assert found.max() <= 6
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(3000):
        row = tuple(sorted(draw_others(6, 2, seed)[2].tolist()))
        counts[row] = counts.get(row, 0) + 1
    assert len(counts) == 10  # pairs of the five others
    assert sum((count - 300) ** 2 / 300 for count in counts.values()) < 27.9  # 9 degrees of freedom, 0.001
    assert draw_others(1, 0, seed=0).shape == (1, 0)
    assert draw_others(50, 49, seed=1).sum() == sum(sum(range(50)) - i for i in range(50))


def test_one_record_is_its_own_first():
    found = fidelity(ORIGINALS[:1], SOME[:1], embedder=Bag())
    assert (found.candidates, found.own_first.value) == (1, 1)


def test_the_same_seed_gives_the_same_numbers():
    assert fidelity(ORIGINALS, SOME, embedder=Bag(), seed=5) == fidelity(ORIGINALS, SOME, embedder=Bag(), seed=5)
    assert fidelity(ORIGINALS, SOME, embedder=Bag(), seed=5) != fidelity(ORIGINALS, SOME, embedder=Bag(), seed=6)


def test_as_json():
    found = fidelity(ORIGINALS, SOME, embedder=Bag()).to_dict()
    assert found["cosine"]["confidence"] == 0.95
    assert found["candidates"] == 100
    assert fidelity(ORIGINALS, [replace(r, label=None) for r in SOME], embedder=Bag()).to_dict()["label_kept"] is None


def test_outputs_that_belong_to_others_are_refused():
    for wrong in (SOME[:-1], [*SOME[1:], SOME[0]], []):
        with pytest.raises(ConfigError, match="same ids"):
            fidelity(ORIGINALS, wrong, embedder=Bag())
    with pytest.raises(ConfigError, match="at least one"):
        fidelity([], [], embedder=Bag())
    with pytest.raises(ConfigError, match="finite"):
        fidelity(ORIGINALS[:1], SOME[:1], embedder=Given({ORIGINALS[0].text: (np.nan, 1), SOME[0].output: (0, 1)}))


def test_without_an_embedder_it_is_the_default_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = releases([record.text for record in ORIGINALS])
    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: Bag())
    assert fidelity(ORIGINALS, outputs) == fidelity(ORIGINALS, outputs, embedder=Bag())
    rows = dict.fromkeys(required_rows(ORIGINALS), outputs)
    assert utility_table(rows, private=ORIGINALS, test=[]).embedder == Bag().name
    monkeypatch.undo()
    monkeypatch.setattr(embedder, "PACKAGE", "absent_package")
    with pytest.raises(MissingExtraError, match="pip install --no-deps absent-package"):
        fidelity(ORIGINALS, outputs)
