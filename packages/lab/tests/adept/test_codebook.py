"""The public codebook: which sentences are kept, how they are ranked, how many share the probability."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptext.errors import ConfigError  # noqa: E402
from dptext.sampling.envelope import EnvelopeResponse, top_k_envelope  # noqa: E402
from dptext.sampling.top_k import agreement  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext_lab.adept.net import AnnotatedModel, NetworkSettings, fit_model  # noqa: E402
from dptext_lab.adept.net.codebook import TextCodebook, best_choice, scores, write_codebook  # noqa: E402
from dptext_lab.adept.net.training import Schedule  # noqa: E402
from dptext_lab.nets.tokens import Tokens  # noqa: E402

LABELS = ("music", "weather", "money", "travel")
VERBS, NAMES = ("play", "find", "send", "book", "show"), ("abba", "oslo", "bach", "rome")
PUBLIC = [
    Record(str(i), f"{VERBS[i % 5]} {NAMES[i // 5 % 4]}{' now' * (i % 2)}", label=LABELS[i // 20]) for i in range(80)
]
SETTINGS = NetworkSettings(
    LABELS,
    "lstm",
    latent_dim=8,
    clip_norm=1.0,
    max_tokens=6,
    hidden=16,
    embedding=8,
    min_count=1,
    max_words=100,
    projected=True,
    schedule=Schedule(epochs=25, patience=25, batch_size=16, learning_rate=2e-2),
)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model() -> AnnotatedModel:
    return fit_model(SETTINGS, PUBLIC, noise=None, seed=0)


@pytest.fixture(scope="module")
def book(model: AnnotatedModel) -> TextCodebook:
    return write_codebook(model, PUBLIC, size=40, seed=0)


class Writer:
    """A model that writes what it is told, whatever the latent; for the rules of what is kept."""

    def __init__(self, rounds: list[list[tuple[str | None, str]]], labels: tuple[str, ...] = LABELS) -> None:
        self.tokens = Tokens(("play", "rome"), labels, 6)
        self.rounds = rounds
        self.seen: list[np.ndarray] = []

    def latents(self, records: Sequence[Record]) -> np.ndarray:
        return np.tile(np.eye(4)[0], (len(records), 1))

    meanings = latents

    def write(self, latents: np.ndarray, how: object, *, seed: int) -> list[tuple[str | None, str]]:
        self.seen.append(latents.copy())
        written = self.rounds[min(len(self.seen), len(self.rounds)) - 1]
        return written[: len(latents)]

    def writing_losses(self, latents: np.ndarray, records: Sequence[Record]) -> np.ndarray:
        return np.array([float(record.text.count("rome")) for record in records])


# ------------------------------------------------------------------ what is kept


def test_the_sentences_are_distinct_whole_and_of_their_label(model: AnnotatedModel, book: TextCodebook) -> None:
    assert 20 < len(book) <= 40
    assert len(set(zip(book.labels, book.texts, strict=True))) == len(book)
    for text, label, source in zip(book.texts, book.labels, book.sources, strict=True):
        words = text.split()
        assert 2 <= len(words) < 6  # one that reached the bound may not have ended
        assert all(first != second for first, second in pairwise(words))
        assert set(words) <= set(model.tokens.words)
        assert label == PUBLIC[source].label
    assert set(book.labels) == set(LABELS)
    assert book.points.shape == (len(book), 8)
    assert np.allclose(np.linalg.norm(book.points, axis=1), 1)
    own = model.meanings([Record("0", book.texts[3], label=book.labels[3])])
    assert (own == book.points[3]).all()  # points and texts belong together


def test_a_seed_repeats_the_codebook_and_the_size_bounds_it(model: AnnotatedModel, book: TextCodebook) -> None:
    again = write_codebook(model, PUBLIC, size=40, seed=0)
    assert (again.texts, again.labels, again.sources) == (book.texts, book.labels, book.sources)
    assert (again.points == book.points).all()
    assert write_codebook(model, PUBLIC, size=40, seed=1).texts != book.texts
    for size in (2, 7):
        assert len(write_codebook(model, PUBLIC, size=size, seed=0)) == size


def test_broken_sentences_are_removed() -> None:
    good = [(LABELS[0], f"play {'abc'[i]} rome" if i else "play well") for i in range(3)]
    broken = [
        ("weather", "play rome"),  # another label than that of its record
        (None, "play rome"),
        (LABELS[0], "play"),  # too short
        (LABELS[0], ""),
        (LABELS[0], "play play rome"),  # the same word twice in a row
        (LABELS[0], "play a b c d e"),  # as long as a sentence can be: it may not have ended
        good[0],  # a duplicate
    ]
    found = write_codebook(Writer([good + broken]), PUBLIC[:10], size=20, seed=0)
    assert set(zip(found.labels, found.texts, strict=True)) <= set(good)
    assert len(found) == 2  # of three, the least likely is dropped
    assert found.texts[0] == "play well"
    assert found.sources[0] == 0


def test_unlabelled_sentences_need_no_label() -> None:
    public = [Record(str(i), "x", label="money") for i in range(4)]
    found = write_codebook(Writer([[(None, f"play {i}") for i in range(4)]], ()), public, size=4, seed=0)
    assert found.labels == (None,) * len(found)
    assert len(set(found.texts)) == len(found) == 3


def test_the_tenth_that_is_least_likely_is_removed() -> None:
    written = [(LABELS[0], f"play w{i}" + " rome" * (i >= 18)) for i in range(20)]
    found = write_codebook(Writer([written]), PUBLIC[:20], size=30, seed=0)
    assert sorted(found.texts) == sorted(text for _, text in written[:18])


def test_the_first_writer_of_a_sentence_is_its_source() -> None:
    written = [(LABELS[0], f"play w{i % 3}") for i in range(9)]
    found = write_codebook(Writer([written]), PUBLIC[:9], size=9, seed=0)
    assert all(source == int(text[-1]) for text, source in zip(found.texts, found.sources, strict=True))


def test_further_rounds_look_farther_around_and_end_when_there_are_enough() -> None:
    rounds = [[(LABELS[0], f"play w{i}r{r}") for i in range(5)] for r in range(9)]
    writer = Writer(rounds)
    found = write_codebook(writer, PUBLIC[:5], size=8, seed=0)
    assert len(found) == 8
    assert len(writer.seen) == 2  # ten of them are enough
    assert (writer.seen[0] == writer.latents(PUBLIC[:5])).all()  # first the public latents themselves
    assert not (writer.seen[1] == writer.seen[0]).any()
    assert np.linalg.norm(writer.seen[1] - writer.seen[0], axis=1).max() < 0.5
    few = Writer(rounds[:1])
    assert len(write_codebook(few, PUBLIC[:5], size=100, seed=0)) == 4
    assert len(few.seen) == 6  # and there is an end to it


@pytest.mark.parametrize(
    ("written", "n"), [([], 0), ([(LABELS[0], "play rome")] * 5, 1), ([(LABELS[0], "zq9canary")] * 5, 0)]
)
def test_fewer_than_two_good_sentences_are_refused(written: list[tuple[str, str]], n: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 2 good sentences, found {n}") as caught:
        write_codebook(Writer([written]), PUBLIC[:5], size=5, seed=0)
    assert "zq9canary" not in str(caught.value)


# ------------------------------------------------------------------ scores


def test_scores_are_cosine_and_label() -> None:
    points = np.array([[1.0, 0], [0, 1.0], [-1.0, 0]])
    small = TextCodebook(("a", "b", "c"), ("x", "y", "x"), points, (0, 1, 2))
    asked = np.array([[0.6, 0.8], [0.6, 0.8], [0.6, 0.8]])
    found = scores(small, asked, ["x", None, "z"], label_weight=3.0)
    assert np.allclose(found / 4096, [[3.6, 0.8, 2.4], [0.6, 0.8, -0.6], [0.6, 0.8, -0.6]], atol=2.0**-13)
    assert agreement(small.labels, ["x", None, "z"]).tolist() == [[True, False, True], [False] * 3, [False] * 3]
    assert np.allclose(scores(small, asked, ["x"] * 3, label_weight=0.0) / 4096, [[0.6, 0.8, -0.6]] * 3, atol=2.0**-13)
    # where the codebook has no labels nothing agrees, a missing label with a missing one included
    bare = TextCodebook(("a", "b", "c"), (None,) * 3, points, (0, 1, 2))
    assert not agreement(bare.labels, ["x", None, "z"]).any()
    assert scores(small, asked[:0], [], label_weight=3.0).shape == (0, 3)


def test_weight_three_puts_labels_first_and_a_small_one_does_not(model: AnnotatedModel, book: TextCodebook) -> None:
    meanings, labels = model.meanings(PUBLIC), [record.label for record in PUBLIC]
    agree = agreement(book.labels, labels)

    def labels_first(weight: float) -> bool:
        found = scores(book, meanings, labels, label_weight=weight)
        return bool(np.where(agree, found, np.inf).min(axis=1).min() > np.where(agree, -np.inf, found).max())

    assert labels_first(3.0)
    assert not labels_first(0.1)
    cosine = meanings @ book.points.T
    found = scores(book, meanings, labels, label_weight=3.0)
    assert np.allclose(found / 4096 - 3 * agree, cosine, atol=2.0**-13)  # within a label, by meaning


# ------------------------------------------------------------------ the k


def scores_of(book: TextCodebook, model: AnnotatedModel, public: Sequence[Record]) -> list[np.ndarray]:
    """The scores of each record: what a record's own sentences give counts as the others do on average."""
    rows = []
    for i, (record, meaning) in enumerate(zip(public, model.meanings(public), strict=True)):
        found = scores(book, meaning[None], [record.label], label_weight=1.0).astype(float)
        own = np.array(book.sources) == i
        found[0, own] = found[0, ~own].mean()
        rows.append(found)
    return rows


def gain_of(rows: Sequence[np.ndarray], choice: EnvelopeResponse) -> float:
    """The expected score, record by record."""
    return sum(float((choice.distribution(found) * found).sum()) for found in rows) / len(rows) / 4096


@pytest.mark.slow_cases("0.5", "4.0", why="an epsilon between and a large one stay")
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 12.0])
def test_the_choice_gains_more_than_any_top_k(model: AnnotatedModel, book: TextCodebook, epsilon: float) -> None:
    found = best_choice(book, model, PUBLIC, epsilon=epsilon, label_weight=1.0, seed=0)
    assert found.epsilon == epsilon
    others = [
        EnvelopeResponse.of(top_k_envelope(k, len(book), epsilon=epsilon), epsilon=epsilon)
        for k in range(1, len(book), 3)
    ]
    rows = scores_of(book, model, PUBLIC)
    assert gain_of(rows, found) > max(gain_of(rows, other) for other in others) - 0.005


def test_less_epsilon_calls_for_fewer_texts(model: AnnotatedModel, book: TextCodebook) -> None:
    found = [best_choice(book, model, PUBLIC, epsilon=e, label_weight=1.0, seed=0).in_play() for e in (1.0, 20.0)]
    assert 1 <= found[0] < found[1] <= len(book)


def test_a_records_own_offspring_does_not_count() -> None:
    """Each record has written its own text. Of the others the first is nearest to all. Counted, all were in play."""
    n = 30
    points = 0.8 * np.eye(n)
    points[:, 0] = 0.6
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    public = [Record(str(i), "x", label="money") for i in range(n)]

    class Model:
        def meanings(self, records: Sequence[Record]) -> np.ndarray:
            return points[[int(record.id) for record in records]]

    own = TextCodebook(tuple(map(str, range(n))), ("money",) * n, points, tuple(range(n)))
    others = TextCodebook(own.texts, own.labels, points, (-1,) * n)
    gained = [best_choice(each, Model(), public, epsilon=6.0, label_weight=3.0, seed=0) for each in (others, own)]
    assert gained[0].in_play() == n
    assert gained[1].in_play() < 5


def test_two_sentences_leave_one_choice(model: AnnotatedModel) -> None:
    two = write_codebook(model, PUBLIC, size=2, seed=0)
    for epsilon in (0.1, 50.0, 1e4):
        assert len(best_choice(two, model, PUBLIC, epsilon=epsilon, label_weight=3.0, seed=0).least) == 2
