"""What one unit can change, derived anew: searches for a unit, or two, that move a sum further than is paid for.

Every vector comes from a whole run of the real code on a corpus of one unit. The reader of texts is a toy that reads
their numbers, so that a search can put a record wherever it likes, also where no encoder would.
"""

import itertools
import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import dptext as dp
from dptext.privacy.guarantee import Relation
from dptext.sampling.randomness import Randomness, seeded
from dptext.synthesis import sums
from dptext.synthesis.blocks import SumLayout
from dptext.synthesis.pool import PublicPool, TopicMap
from dptext.synthesis.prototypes import FittedPrototypes, Prototypes
from dptext.synthesis.public import Public
from dptext.synthesis.readings import Corpus, Reading
from dptext.synthesis.space import PublicSpace
from dptext.synthesis.spec import Fitted, SynthesisSpec
from dptext.synthesis.summary import FittedSummary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, PrivateSum
from dptext.synthesis.votes import FittedTopics, FittedVotes, TopicReport, Votes, topics_alone
from dptext.text.batches import Batch

DIM: Final = 3
LABELS: Final = ("a", "b")
KINDS: Final = ("prototypes", "votes", "topics", "summary")
UNITS: Final = ("document", "author")
RELATIONS: Final = ("add_or_remove_one", "replace_one")
Document = tuple[int, tuple[float, ...]]  # its label, and the numbers in it
Unit = tuple[Document, ...]


@dataclass(frozen=True)
class Numbers:
    """An embedder of texts that are numbers."""

    name: str = "numbers"
    dim: int = DIM

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[float(number) for number in text.split()] for text in texts])


class Marks:
    """A list of six words. The numbers of a text say which it has: two, or one twice, which is then one mark."""

    words, digest = tuple("uvwxyz"), ""

    def __len__(self) -> int:
        return len(self.words)

    def marks(self, texts: list[str]) -> np.ndarray:
        found = np.full((len(texts), 2), -1, np.int64)
        for row, text in zip(found, texts, strict=True):
            numbers = [float(number) for number in text.split()[:2]]
            own = sorted({int(max(-9.0, min(number, 9.0)) * 8) % 6 for number in numbers if not math.isnan(number)})
            row[: len(own)] = own
        return found


def text_of(numbers: tuple[float, ...]) -> str:
    return " ".join(map(str, numbers))


def made(kind: str, unit: str, relation: str) -> Fitted:
    """A synthesis over a pool of 24 points with four topics."""
    points = np.random.default_rng(0).integers(-500, 500, (24, DIM)) / 1024
    space = PublicSpace((Numbers(),), np.eye(DIM), np.zeros(DIM), points[:8], 0.1, 16)
    topics = TopicMap(points[:4], ((("w",), ("t",)),) * 4, np.arange(24) % 4)
    pool = PublicPool(tuple(map(text_of, map(tuple, points.tolist()))), space, points, topics)
    marks: Any = Marks()

    def measuring(spec: SummarySpec) -> FittedSummary:
        words = (marks, np.zeros(len(marks))) if spec.marks else (None, None)
        return FittedSummary(spec, Public(pool, None, *words))

    settings: dict[str, Any] = {"labels": LABELS, "unit": unit, "relation": relation, "topics": 4}
    if kind == "prototypes":
        prototypes = Prototypes(**settings)
        return FittedPrototypes(prototypes, measuring(prototypes.summary))
    if kind == "votes":
        votes = Votes(**settings, about=1000)
        return FittedVotes(votes, measuring(topics_alone(votes, DIM)))
    if kind == "topics":
        report = TopicReport(**settings)
        return FittedTopics(report, measuring(topics_alone(report, DIM)))
    return measuring(SummarySpec(**settings, encoder="glove", marks=2))


def corpus_of(units: tuple[Unit, ...], size: int = 256) -> Corpus:
    """Documents unit by unit in batches of this size; the i-th unit is the author i."""
    rows = [(str(i), *document) for i, unit in enumerate(units) for document in unit]

    def read() -> Generator[Batch, None, None]:
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            authors, labels, texts = zip(*part, strict=True)
            yield Batch.of(
                [
                    dp.Record(str(i), text_of(numbers), LABELS[label] if label >= 0 else None, author)
                    for i, (author, label, numbers) in enumerate(zip(authors, labels, texts, strict=True))
                ]
            )

    return read


@contextmanager
def watched(released: Callable[[PrivateSum], np.ndarray]) -> Iterator[list[tuple[np.ndarray, int]]]:
    """The sums of each run without noise, with the sigma that they would have; `released` leaves in their place."""
    found: list[tuple[np.ndarray, int]] = []

    def release(self: PrivateSum, randomness: Randomness) -> np.ndarray:
        found.append((self._clean(), self._noise.sigma))
        return released(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateSum, "release", release)
        yield found


class EnoughError(Exception):
    """All sums of a run are known."""


def vector(fitted: Fitted, *units: Unit, size: int = 256) -> np.ndarray:
    """What the units add to all sums of a run, each coordinate over its sigma: rho is half of a squared length."""

    def nothing(summed: PrivateSum) -> np.ndarray:  # so that the second round of votes is the same for all
        if len(found) == len(fitted.spec.shares):
            raise EnoughError
        return np.zeros(summed._total.size)

    with watched(nothing) as found, pytest.raises(EnoughError):
        fitted.synthesize(corpus_of(units, size), Draws(seeded(0)))
    return np.concatenate([steps / sigma for steps, sigma in found])


def changed(unit: Unit, rng: np.random.Generator, *, most: int) -> Unit:
    """The unit with a document moved, turned round, relabelled, doubled, left out, or made of no numbers."""
    documents = list(unit) or [(0, (0.5,) * DIM)]
    i = int(rng.integers(len(documents)))
    label, numbers = documents[i]
    what = rng.choice(
        ["move", "turn", "label", "double", "drop", "scale", "nan"], p=[0.4, 0.15, 0.1, 0.1, 0.1, 0.1, 0.05]
    )
    if what == "move":
        moved = np.array(numbers) + rng.standard_normal(DIM) * 10.0 ** -rng.integers(0, 4)
        documents[i] = label, tuple(map(float, np.nan_to_num(moved)))
    elif what in ("turn", "scale"):
        by = -1.0 if what == "turn" else float(10.0 ** rng.integers(-2, 3))
        documents[i] = label, tuple(number * by for number in numbers)
    elif what == "label":
        documents[i] = int(rng.integers(-1, len(LABELS))), numbers
    elif what == "double" and len(documents) < most:
        documents.append(documents[i])
    elif what == "drop" and len(documents) > 1:
        del documents[i]
    elif what == "nan":
        documents[i] = label, (math.nan, *numbers[1:])
    return tuple(documents)


def worst(fitted: Fitted, *, starts: int, tries: int, seed: int = 0) -> float:
    """The largest rho, as a part of what the spec pays, of two neighbours that a hill-climbing search finds."""
    rng, spec = np.random.default_rng(seed), fitted.spec
    most = 6 if spec.unit == "author" else 1
    best = 0.0

    def cost(left: np.ndarray, right: np.ndarray | float) -> float:
        return float(np.square(left - right).sum()) / 2 / spec.rho

    for _ in range(starts):
        pair = [tuple((int(rng.integers(2)), tuple(rng.standard_normal(DIM))) for _ in range(most)) for _ in range(2)]
        vectors: list[Any] = [vector(fitted, unit) for unit in pair]
        if spec.relation == "add_or_remove_one":
            vectors[1] = 0.0  # the neighbour has no such unit
        here = cost(vectors[0], vectors[1])
        for _ in range(tries):
            side = int(rng.integers(2)) if spec.relation == "replace_one" else 0
            other = changed(pair[side], rng, most=most)
            moved = vector(fitted, other)
            found = cost(moved, vectors[1 - side])
            if found >= here:
                pair[side], vectors[side], here = other, moved, found
        best = max(best, here)
    return best


#: What a search reaches at least. Counts and topics have one sign, so that two units are never opposite in them, and
#: points are opposite in the row of one label alone. Of 2 lengths of prototypes: 1.424 where the point turns, 0.2 where
#: the topic changes and 0.01 where one alone is unlike the pool. Of a summary with words: 0.834 and 0.834 where the
#: words change, 0.104 for topics.
REACHED: Final = {
    ("prototypes", "replace_one"): 0.72,
    ("votes", "replace_one"): 0.9,
    ("topics", "replace_one"): 0.9,
    ("summary", "replace_one"): 0.8,
}


@pytest.mark.slow_cases("prototypes-author-replace_one", "votes-document-add_or_remove_one", why="each kind stays")
@pytest.mark.slow_cases("prototypes-document", "summary-author", why="the search by the other unit stays")
@pytest.mark.slow_cases("votes-author", "topics-author", why="the search by documents stays")
@pytest.mark.slow_cases("votes-document-replace_one", why="the other relation stays")
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_search_finds_neighbours_that_cost_more_than_is_paid(kind: str, unit: str, relation: str) -> None:
    found = worst(made(kind, unit, relation), starts=3, tries=120)
    assert REACHED.get((kind, relation), 0.97) < found <= 1


def each_upwards(steps: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """A clipping of authors that rounds away from 0."""
    return np.concatenate([*map(upwards, np.split(steps, starts[1:]), np.split(weights, starts[1:]))])


def upwards(steps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """That of one author."""
    length = math.sqrt(sum(weight * n * n for weight, n in zip(weights.tolist(), steps.tolist(), strict=True)))
    if length <= STEPS:
        return steps
    return np.array([math.copysign(math.ceil(abs(n) * STEPS / length), n) for n in steps.tolist()], np.int64)


FAULTS: Final[dict[str, tuple[tuple[str, str, str], object, str, object]]] = {
    "an author is not clipped": (("topics", "author", "add_or_remove_one"), sums, "each_clipped", lambda steps, *_: (
        steps)),
    "clipping rounds up": (("prototypes", "author", "add_or_remove_one"), sums, "each_clipped", each_upwards),
    "signs are forgotten": (("prototypes", "document", "replace_one"), sums.Noise, "sign_weight", 1),
    "replacing costs as adding": (("votes", "document", "replace_one"), sums.Noise, "sensitivity", float(STEPS)),
    "each round takes all": (("votes", "document", "add_or_remove_one"), Votes, "noise", lambda self, _=1.0: (
        SynthesisSpec.noise(self, 1.0))),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_search_finds_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, where, name, wrong = FAULTS[fault]
    monkeypatch.setattr(where, name, wrong)
    assert worst(made(*case), starts=3, tries=60) > 1


def negative(self: SumLayout, read: Reading, topics: Callable[[np.ndarray], np.ndarray] | None) -> Any:
    """Vectors in which the topic of some texts counts less than nothing."""
    cells, values = VECTORS(self, read, topics)
    values[read.points[:, 0] < 0, 1] *= -1  # behind the count
    return cells, values


VECTORS: Final = SumLayout.vectors


def believing(self: PrivateSum, cells: np.ndarray, values: np.ndarray, authors: Any = None) -> None:
    """Adds every vector that is short enough, whatever its signs."""
    steps = np.trunc(values * STEPS).astype(np.int64)
    np.add.at(self._total, cells, np.where((steps**2).sum(axis=1, keepdims=True) <= STEPS**2, steps, 0))


def test_a_negative_number_in_a_cell_of_one_sign_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum leaves out such a vector. The same search finds a sum that believes it."""
    monkeypatch.setattr(SumLayout, "vectors", negative)
    case = ("topics", "document", "replace_one")
    assert worst(made(*case), starts=3, tries=60) <= 1
    monkeypatch.setattr(PrivateSum, "add", believing)
    assert worst(made(*case), starts=3, tries=60) > 1


def units_of(seed: int, n: int, most: int) -> tuple[Unit, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        tuple((int(rng.integers(-1, 2)), tuple(rng.standard_normal(DIM))) for _ in range(rng.integers(1, most + 1)))
        for _ in range(n)
    )


def moved_by(fitted: Fitted, units: tuple[Unit, ...], i: int, size: int) -> np.ndarray:
    """How much the i-th unit moves all sums, less its own vector."""
    rest: tuple[Unit, ...] = (*units[:i], (), *units[i + 1 :])  # the others keep their names
    return vector(fitted, *units, size=size) - vector(fitted, *rest, size=size) - vector(fitted, *((),) * i, units[i])


@pytest.mark.slow_cases("author-votes", why="votes stay by documents, the other kinds by authors")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_moves_the_sums_by_its_own_vector_beside_any_others(kind: str, unit: str) -> None:
    fitted = made(kind, unit, "add_or_remove_one")
    units = units_of(1, 12, 4 if unit == "author" else 1)
    for i, size in itertools.product(range(0, 12, 2), (1, 3, 256)):
        assert np.abs(moved_by(fitted, units, i, size)).max() < 1e-9  # of whole steps over sigma


def test_a_point_that_depends_on_its_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = PublicSpace.placed
    monkeypatch.setattr(PublicSpace, "placed", lambda self, features: placed(self, features - features.mean(axis=0)))
    fitted, units = made("prototypes", "document", "add_or_remove_one"), units_of(1, 12, 1)
    assert max(np.abs(moved_by(fitted, units, i, 3)).max() for i in range(12)) > 1e-3


def test_the_rounds_together_cost_no_more_than_rho() -> None:
    """In fractions, at many settings: a share and the rest of it may be more than one as floats add them."""
    rng = np.random.default_rng(3)
    squared = {"add_or_remove_one": 1, "replace_one": 2}
    for _, relation in itertools.product(range(6), RELATIONS):
        epsilon, delta, share = 10 ** rng.uniform(-1, 1.5), 10 ** rng.uniform(-9, -2), rng.uniform(0.05, 0.95)
        common: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation}
        for spec in (
            Votes(**common, first_share=share),
            Prototypes(**common, labels=LABELS),
            TopicReport(**common),
            SummarySpec(**common, labels=LABELS, marks=6),
        ):
            each = Fraction(squared[relation] * STEPS**2)
            spent = sum(each / (2 * spec.noise(part).sigma ** 2) for part in spec.shares)
            assert Fraction(spec.rho) * Fraction(99, 100) < spent <= Fraction(spec.rho)


def joint_delta(sigmas: tuple[int, int], step: int, epsilon: float) -> float:
    """delta of two rounds of one coordinate, enumerated: after each first output the worst second question is asked.

    A unit moves the first sum by a step. The second question may be any: the unit moves its sum by 0, 1, ... steps.
    """
    axes = [np.arange(-9 * sigma, 9 * sigma + 1) for sigma in sigmas]
    weights = [np.exp(-(axis**2) / (2 * sigma**2)) for axis, sigma in zip(axes, sigmas, strict=True)]
    (first, second), (a, b) = [each / each.sum() for each in weights], axes
    ratio = np.exp(step * (2 * a - step) / (2 * sigmas[0] ** 2))  # of the first output with and without the unit
    worst_of = np.zeros(len(a))
    for shift in range(step + 1):
        both = ratio[:, None] * np.exp(shift * (2 * b - shift) / (2 * sigmas[1] ** 2))
        worst_of = np.maximum(worst_of, (np.maximum(1 - math.exp(epsilon) * both, 0) * second).sum(axis=1))
    return float((first * worst_of).sum())


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_second_round_that_depends_on_the_first_keeps_the_promise(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "STEPS", 3)
    spec = Votes(epsilon=1.0, delta=1e-3, first_share=share)
    first, second = (spec.noise(part).sigma for part in spec.shares)
    assert spec.delta / 20 < joint_delta((first, second), 3, spec.epsilon) <= spec.delta
    assert joint_delta((round(first * 0.75), round(second * 0.75)), 3, spec.epsilon) > spec.delta


SUFFIXES: Final = {"topics": ".json", "summary": ".summary"}  # of what is written without texts


def left_behind(
    kind: str, folder: Path, n: int, seed: int, released: Callable[[PrivateSum], np.ndarray]
) -> list[bytes]:
    """The files of a whole run on `n` records, and what it says, where `released` leaves in the place of noisy sums."""
    settings: dict[str, Any] = {"kind": kind, "labels": list(LABELS[:2]), "encoder": "glove", "words": 8, "dim": 8}
    settings |= {"marks": 3, "vocabulary": 60, "drafts": 0} if kind == "summary" else {}
    private = dp.sample_records(n, seed=seed)
    named = [dp.Record(each.id, each.text, LABELS[i % 2], each.author) for i, each in enumerate(private)]
    with watched(released):
        found = dp.synthesize(
            named, dp.sample_records(60, seed=2), **settings, topics=4, about=100, unit="author", randomness=seeded(5)
        )
    folder.mkdir()
    found.write(folder / f"out{SUFFIXES.get(kind, '.jsonl')}")
    said = [*found.sentences, repr(found), found._repr_html_(), found.certificate.explain()]
    return [path.read_bytes() for path in sorted(folder.iterdir())] + ["\n".join(said).encode()]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_leaves_but_what_follows_from_the_noisy_sums(kind: str, tmp_path: Path) -> None:
    """Two corpora of other sizes, texts and authors leave the same bytes where their noisy sums are the same."""

    def fixed(summed: PrivateSum) -> np.ndarray:
        return np.random.default_rng(1).uniform(0, 40, summed._total.size)

    first, second = (left_behind(kind, tmp_path / f"{n}", n, n, fixed) for n in (50, 83))
    assert first == second
    without_noise = [left_behind(kind, tmp_path / f"clean{n}", n, n, lambda s: s._clean() / STEPS) for n in (50, 83)]
    assert without_noise[0] != without_noise[1]


def test_every_sum_has_the_relation_of_the_spec() -> None:
    """Each sum of a run draws its own noise, of the spec's relation and sign."""
    for kind, unit, relation in itertools.product(KINDS, UNITS, RELATIONS):
        fitted = made(kind, unit, relation)
        with watched(lambda summed: np.zeros(summed._total.size)) as found:
            fitted.synthesize(corpus_of(()), Draws(seeded(0)))
        assert [sigma for _, sigma in found] == [fitted.spec.noise(share).sigma for share in fitted.spec.shares]
        assert fitted.spec.noise().relation is Relation(relation)


@pytest.mark.parametrize(("kind", "most"), [("prototypes", 4), ("votes", 2), ("topics", 2), ("summary", 2)])
def test_two_people_of_one_name_are_one_author(kind: str, most: int) -> None:
    """Their name costs what is paid. One of them alone may cost as much as an author who is replaced."""
    fitted = made(kind, "author", "add_or_remove_one")
    one: Unit = ((0, (9.0, 0.0, 0.0)),)
    other: Unit = ((1 if kind != "prototypes" else 0, (-9.0, 0.0, 0.0)),) * 40
    both = vector(fitted, one + other)
    assert np.square(both).sum() / 2 / fitted.spec.rho <= 1
    assert most * 0.7 < np.square(both - vector(fitted, one)).sum() / 2 / fitted.spec.rho <= most
