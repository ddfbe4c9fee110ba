"""DeepCandidate: its statements, its exact distribution, its outcomes where a document is odd."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dptext.embeddings.depth import ProjectedCandidates
from dptext.embeddings.likeness import GRID, STEPS, CosineSpace, Evidence
from dptext.embeddings.vector_files import load_glove
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanisms.sentences import deep_candidate
from dptext.mechanisms.sentences.deep_candidate import DEPTH_UTILITIES, DeepCandidate, DeepCandidateMechanism
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import secure, seeded
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record, records_digest
from dptext.text.samples import sample_records
from dptext.text.tokens import SENTENCE_COUNT, sentences

torch = pytest.importorskip("torch")

from safetensors.numpy import load_file, save_file  # noqa: E402 (with torch)

from dptext.embeddings.encoders import WordMean  # noqa: E402
from dptext.neural.deep_candidate import fit as candidates_fit  # noqa: E402
from dptext.neural.deep_candidate.candidates import (  # noqa: E402
    DEPTHS,
    CandidateSettings,
    DepthScores,
    LikenessScores,
    Utility,
)
from dptext.neural.deep_candidate.fit import (  # noqa: E402
    PROJECTIONS,
    Documents,
    expected_gain,
    fit_clusters,
    fit_depth,
    fit_likeness,
    fit_recoder_for,
    random_directions,
)
from dptext.neural.deep_candidate.recoder import RecoderSchedule  # noqa: E402

LABELS = ("health", "travel", "money", "leisure")
UTILITIES = get_args(Utility)
#: One of each recoder, the default, and class evidence; the others wait for `make test-all`.
FIRST = ("lowest", "mean_depth", "whitened", "evidence")
TRIED = [pytest.param(each, marks=() if each in FIRST else pytest.mark.slow) for each in UTILITIES]
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


def spec(utility: str, **more: object) -> DeepCandidate:
    recoder = more.pop("recoder", "none")
    return DeepCandidate(
        2.0,
        LABELS,
        utility,  # type: ignore[arg-type]
        recoder=recoder,  # type: ignore[arg-type]
        candidates=25,
        min_sentences=2,
        encoder="glove",
        clusters=5,
        epochs=2,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module", params=TRIED)
def fitted(request: pytest.FixtureRequest) -> DeepCandidateMechanism:
    recoder = "clusters" if request.param == "lowest" else "labels" if request.param == "mean_depth" else "none"
    return spec(request.param, recoder=recoder).fit(public=PUBLIC, seed=1)


def distributions(mechanism: DeepCandidateMechanism, texts: list[str]) -> np.ndarray:
    utilities = mechanism.utilities([Record("0", text) for text in texts])
    return np.log(mechanism.spec.choice.distribution(utilities))


# ------------------------------------------------------------------ statements


def test_statements() -> None:
    found = spec("lowest").guarantee()
    assert (found.epsilon, found.unit, found.relation) == (2.0, Unit.SENTENCE, Relation.REPLACE_ONE)
    assert found.reveals == (SENTENCE_COUNT,)
    assert found.basis is Basis.CONDITIONAL
    assert spec("lowest").units == (Unit.SENTENCE,)
    added = spec("lowest", relation="add_or_remove_one").guarantee()
    assert (added.epsilon, added.relation, added.reveals) == (2.0, Relation.ADD_OR_REMOVE_ONE, ())


def test_the_documents_epsilon_is_that_of_the_range() -> None:
    """derivations, "Depths and sums": epsilon 10, 16 sentences, 5,000 candidates: 48.5 where group privacy says 160."""
    deep = DeepCandidate(10.0, utility="lowest", candidates=5000, max_sentences=16)
    found = deep.guarantee(Unit.DOCUMENT)
    assert found.epsilon == pytest.approx(48.5, abs=0.05)
    assert found.reveals == ()
    shift = 10.0 * 8 / 2
    by_hand = shift + math.log((4999 * math.exp(shift) + 1) / (math.exp(shift) + 4999))
    assert found.epsilon == pytest.approx(by_hand, rel=1e-9)
    # a sum over 16 sentences has twice the range of a depth among them
    assert replace(deep, utility="similarity").guarantee(Unit.DOCUMENT).epsilon > 88
    flip = replace(deep, selection="permute_and_flip")
    for relation in ("replace_one", "add_or_remove_one"):
        for utility, largest in (("lowest", 8), ("similarity", 16), ("evidence", 16)):
            found = replace(flip, relation=relation, utility=utility, labels=("a", "b")).guarantee(Unit.DOCUMENT)
            assert found.epsilon == pytest.approx(10.0 * largest)
    with pytest.raises(IncomparableError, match="max_sentences"):
        spec("lowest").guarantee(Unit.DOCUMENT)
    with pytest.raises(IncomparableError, match="sentence"):
        deep.guarantee(Unit.TOKEN)


@pytest.mark.parametrize("selection", ["exponential", "permute_and_flip"])
def test_calibration(selection: str) -> None:
    deep = DeepCandidate(1.0, max_sentences=8, selection=selection)  # type: ignore[arg-type]
    assert deep.calibrate(3.0).guarantee().epsilon == 3.0
    found = deep.calibrate(12.0, unit=Unit.DOCUMENT)
    assert 12.0 * (1 - 1e-6) <= found.guarantee(Unit.DOCUMENT).epsilon <= 12.0


@pytest.mark.parametrize("longest", [3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("utility", DEPTH_UTILITIES)
def test_the_range_of_a_depth_is_a_whole_number(utility: str, longest: int) -> None:
    """All documents of so many sentences on two directions: no depth is above floor(most / 2), and one reaches it."""
    for most in range(longest + 1):
        depths = [
            ProjectedCandidates(np.zeros((1, 2), np.float32)).depths(
                np.repeat([[1, 1], [1, -1], [-1, 1], [-1, -1]], counts, axis=0).astype(np.float32),
                [sum(counts)],
                DEPTHS[utility],
            )
            for counts in itertools.product(range(most + 1), repeat=4)
            if sum(counts) <= most
        ]
        largest = max(int(found[0, 0]) for found in depths) / (2 if utility == "mean_depth" else 1)
        assert largest == most // 2
        if most:
            [event] = spec(utility, max_sentences=most).events(Unit.DOCUMENT)
            assert event == (ExponentialEvent(2.0 * (most // 2) / 2, 25) if most > 1 else PureEvent(0.0))
            [event] = spec(utility, max_sentences=most, selection="permute_and_flip").events(Unit.DOCUMENT)
            assert event == PureEvent(2.0 * (most // 2))


def test_calibration_finds_the_largest() -> None:
    """Also where it is more than twice the epsilon of the document; where nothing costs, the search still ends."""
    few = DeepCandidate(1.0, utility="lowest", candidates=2, max_sentences=3)
    for delta in (0.0, 0.1):
        found = few.calibrate(0.05, unit=Unit.DOCUMENT, delta=delta)
        assert found.guarantee(Unit.DOCUMENT, delta).epsilon == pytest.approx(0.05, rel=1e-6)
        assert found.epsilon == pytest.approx(0.1) if delta == 0 else found.epsilon > 0.3
    none = replace(few, max_sentences=1).calibrate(0.05, unit=Unit.DOCUMENT)
    assert none.guarantee(Unit.DOCUMENT).epsilon == 0
    assert none.epsilon == pytest.approx(0.05 * 2**20)


@pytest.mark.parametrize("utility", UTILITIES)
def test_twice_the_weight_only_where_documents_are_not_cut(utility: str) -> None:
    assert spec(utility, relation="add_or_remove_one").choice.sensitivity == 0.5
    assert spec(utility, relation="add_or_remove_one", max_sentences=4).choice.sensitivity == 1.0
    assert spec(utility).choice.sensitivity == 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"utility": "deepest"}, "utility"),
        ({"utility": "mixed"}, "labels"),
        ({"utility": "similarity", "recoder": "clusters"}, "recoder"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"candidates": 70_000}, "candidates"),
        ({"max_sentences": -1}, "max_sentences"),
        ({"output": "vector"}, "output"),
        ({"relation": "replace_special"}, "relation"),
    ],
)
def test_refused_settings(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DeepCandidate(**{"epsilon": 1.0, **wrong})  # type: ignore[arg-type]


# ------------------------------------------------------------------ the distribution


def random_sentences(number: int) -> list[str]:
    return [SENTENCES[int(i)] for i in RNG.integers(0, len(SENTENCES), number)]


def test_no_log_ratio_exceeds_epsilon(fitted: DeepCandidateMechanism) -> None:
    worst = 0.0
    for _ in range(25):
        one = random_sentences(int(RNG.integers(1, 6)))
        other = [random_sentences(1)[0], *one[1:]]
        first, second = distributions(fitted, [" ".join(one), " ".join(other)])
        worst = max(worst, float(np.abs(first - second).max()))
    assert 0 < worst <= 2.0


#: Two labels, one of them rare: a choice in favour of its candidates is the easiest to see.
UNEVEN = [r if r.label != "health" or i < 4 else replace(r, label="travel") for i, r in enumerate(PUBLIC)]


def worst_sentences(scores: DepthScores | LikenessScores) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with which documents begin, and such as change the utility as much as they can, made for them."""
    if isinstance(scores, DepthScores):  # just beside a candidate on every direction; far out on every one
        directions = scores.directions / GRID
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=directions.shape[1])))
        back = np.linalg.inv(directions.T @ directions) @ directions.T
        beside = scores.means @ directions
        return np.concatenate([beside + 0.01 * corner for corner in corners]) @ back, 0.8 * corners @ back
    if scores.space is None:  # sure of one class, or of any but one
        assert scores.evidence is not None
        sure = np.linalg.pinv(scores.evidence.weights)
        return np.empty((0, sure.shape[1])), 1000 * np.concatenate([sure, -sure])
    points = scores.points / GRID
    alone, mean = np.linalg.pinv(points).T, points.mean(axis=0)  # like one candidate and at right angles to the others
    ways = [points, -points, alone, -alone, 2 * alone - alone.sum(axis=0), alone.sum(axis=0) - 2 * alone]
    for share in (0.1, 0.3, 1.0, 3.0):
        ways += [points - share * mean, mean - share * points, points + share * alone, mean - share * alone]
    units = np.concatenate([way / np.linalg.norm(way, axis=1, keepdims=True) for way in ways])
    # long vectors, which leaves cosines as they are and makes classes sure
    found = scores.space.centre + 1000 * units @ np.linalg.pinv(scores.space.root)
    return np.empty((0, found.shape[1])), found


@pytest.fixture(scope="module", params=TRIED)
def extreme(request: pytest.FixtureRequest) -> tuple[DeepCandidate, np.ndarray]:
    """The utilities of documents `(beginnings, sentences + 1, m)` that differ in their last one; the last has none."""
    mechanism = spec(request.param, projections=3).fit(public=UNEVEN, seed=1)
    scores = mechanism.model.scores
    first, last = worst_sentences(scores)
    beginnings = first[:, None] if len(first) else np.empty((1, *first.shape))
    documents = [
        np.concatenate([beginning, *([one[None]] if one is not None else [])])
        for beginning in beginnings
        for one in (*last, None)
    ]
    found = scores(np.concatenate(documents), [len(document) for document in documents])
    return mechanism.spec, found.reshape(len(beginnings), len(last) + 1, -1)


@pytest.mark.parametrize("selection", ["exponential", "permute_and_flip"])
def test_the_worst_sentences_cost_epsilon_at_most(extreme: tuple[DeepCandidate, np.ndarray], selection: str) -> None:
    """And more than half of it: weights of twice the size, or utilities of 1.9 times, would not pass."""
    settings, utilities = extreme
    with_one, without = utilities[:, :-1], utilities[:, -1:]
    change, growth = with_one.max(axis=1) - with_one.min(axis=1), with_one - without
    assert 0.99 < change.max() <= 1
    assert growth.min() >= 0
    assert 0.99 < growth.max() <= 1

    def logs(found: DeepCandidate) -> np.ndarray:
        chances = found.choice.distribution(utilities.reshape(-1, utilities.shape[2]))
        return np.log(chances).reshape(utilities.shape)

    settings = replace(settings, selection=selection)
    replaced = logs(settings)[:, :-1]
    assert 1.1 < (replaced.max(axis=1) - replaced.min(axis=1)).max() <= 2.0
    added = logs(replace(settings, relation="add_or_remove_one"))
    assert 1.1 < np.abs(added[:, :-1] - added[:, -1:]).max() <= 2.0
    for relation in ("replace_one", "add_or_remove_one"):  # any two documents of up to so many sentences
        whole = replace(settings, max_sentences=2 if settings.utility in DEPTH_UTILITIES else 1, relation=relation)
        found = logs(whole).reshape(-1, utilities.shape[2])
        stated = whole.guarantee(Unit.DOCUMENT).epsilon
        assert 0.55 * stated < (found.max(axis=0) - found.min(axis=0)).max() <= stated


# ------------------------------------------------------------------ against enumeration


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


def small_depth(utility: str) -> tuple[DepthScores, Callable[[list[list[int]]], list[float]], int]:
    """A depth of few candidates on few directions with many ties, and the same by counting; the dimension."""
    m, p, dim = (int(RNG.integers(low, high)) for low, high in ((2, 5), (1, 4), (2, 4)))
    candidates, directions = ints(m, dim), ints(dim, p)
    ways, places, statistic = directions.T.tolist(), candidates.tolist(), DEPTHS[utility]

    def counted(document: list[list[int]]) -> list[float]:
        found = []
        for place in places:
            sides = [sum(dot(sentence, way) >= dot(place, way) for sentence in document) for way in ways]
            depths = [min(h, len(document) - h) for h in sides]
            found.append({"lowest": min(depths), "algorithm_1": max(depths), "mean": sum(depths) / p}[statistic])
        return found

    return DepthScores(None, directions.astype(np.float32), candidates / GRID, statistic), counted, dim


def small_sums(utility: str) -> tuple[LikenessScores, Callable[[list[list[int]]], list[float]], int]:
    """As `small_depth`, for sums over sentences: cosines from 1/4 to 3/4, evidence to a depth of 2 nats."""
    m, count, dim = (int(RNG.integers(low, high)) for low, high in ((2, 5), (2, 4), (2, 4)))
    candidates, weights, bias = ints(m, dim), ints(dim, count), ints(count)
    space = CosineSpace(np.zeros(dim), np.eye(dim)) if utility != "evidence" else None
    evidence = Evidence(weights.astype(float), bias.astype(float), 2.0) if utility in ("evidence", "mixed") else None
    classes = RNG.integers(0, count, m)
    points = np.empty((0, 0), np.float32) if space is None else space(candidates.astype(float))

    def on_the_grid(vector: list[int]) -> list[int]:
        length = math.sqrt(dot(vector, vector)) or 1.0
        return [round(GRID * x / length) for x in vector]

    def likeness(sentence: list[int], candidate: list[int]) -> int:
        cosine = dot(on_the_grid(sentence), on_the_grid(candidate))  # in steps of 2^-22
        return min(max((cosine - 2**20) // 2**9, 0), STEPS)

    def speaks_for(sentence: list[int], label: int) -> int:
        logits = [dot(sentence, column) + b for column, b in zip(weights.T.tolist(), bias.tolist(), strict=True)]
        log_p = logits[label] - math.log(sum(math.exp(logit) for logit in logits))
        return math.floor(STEPS * min(max((log_p + 2) / 2, 0.0), 1.0))

    def counted(document: list[list[int]]) -> list[float]:
        found = []
        for candidate, label in zip(candidates.tolist(), classes.tolist(), strict=True):
            parts = [sum(likeness(sentence, candidate) for sentence in document)] * (space is not None)
            parts += [sum(speaks_for(sentence, label) for sentence in document)] * (evidence is not None)
            found.append(sum(parts) / len(parts) / STEPS)
        return found

    return LikenessScores(space, points, 0.25, 0.75, evidence, classes), counted, dim


@pytest.mark.parametrize("utility", TRIED)
def test_the_distribution_is_the_enumerated_one(utility: str) -> None:
    """3,024 random pairs in all, with ties: the same as by definition, and no log ratio above epsilon."""
    epsilon, ties = 2.0, 0
    for selection, relation in itertools.product(
        ("exponential", "permute_and_flip"), ("replace_one", "add_or_remove_one")
    ):
        choice = spec(utility, selection=selection, relation=relation).choice
        by_hand = by_softmax if selection == "exponential" else by_permuting_and_flipping
        scale = epsilon / 2 if relation == "replace_one" else epsilon
        worst = 0.0
        for _ in range(108):
            scores, counted, dim = (small_depth if utility in DEPTH_UTILITIES else small_sums)(utility)
            one = ints(int(RNG.integers(1, 6)), dim).tolist()
            at = int(RNG.integers(len(one)))
            other = [*one[:at], *([ints(dim).tolist()] if relation == "replace_one" else []), *one[at + 1 :]]
            unit = 1 / GRID if utility in DEPTH_UTILITIES else 1.0
            embeddings = unit * np.array([*one, *other], np.float64)
            expected = [by_hand(counted(document), scale) for document in (one, other)]
            found = choice.distribution(scores(embeddings, [len(one), len(other)]))
            np.testing.assert_allclose(found, expected, rtol=1e-9)
            worst = max(worst, float(np.abs(np.log(expected[0]) - np.log(expected[1])).max()))
            ties += len(set(expected[0])) < len(expected[0])
        assert 0.4 * epsilon < worst <= epsilon + 1e-9
    assert ties > 40


def test_a_utility_that_is_not_bounded_is_seen(fitted: DeepCandidateMechanism) -> None:
    """A planted fault: scores of ten times the size."""
    worst = 0.0
    for _ in range(60):
        one = random_sentences(4)
        other = [random_sentences(1)[0], *one[1:]]
        utilities = 10 * fitted.utilities([Record("0", " ".join(one)), Record("1", " ".join(other))])
        first, second = np.log(fitted.spec.choice.distribution(utilities))
        worst = max(worst, float(np.abs(first - second).max()))
    assert worst > 2.0


def test_outputs_are_candidates_with_their_labels(fitted: DeepCandidateMechanism) -> None:
    private = [Record(str(i), " ".join(random_sentences(3)), label="secret") for i in range(60)]
    known = {(record.text, record.label) for record in PUBLIC}
    for record, release in zip(private, fitted.privatize(private, secure()), strict=True):
        assert (release.output, release.label) in known
        assert release.id == record.id
        assert release.vector is None


@pytest.mark.slow_cases("lowest", "whitened", why="mean depth and class evidence stay")
def test_the_distribution_is_what_is_drawn(fitted: DeepCandidateMechanism) -> None:
    record = Record("0", " ".join(random_sentences(4)))
    chances = fitted.output_distribution(record)
    assert sum(chances.values()) == pytest.approx(1.0)
    drawn = [f"{r.label}\x1f{r.output}" for r in fitted.privatize([record] * 2000, secure())]
    counts = np.array([drawn.count(key) for key in chances])
    expected = 2000 * np.array(list(chances.values()))
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert counts.sum() == 2000
    assert statistic < 25 + 8 * math.sqrt(50)  # chi-squared with some 24 degrees of freedom


def test_company_changes_nothing(fitted: DeepCandidateMechanism) -> None:
    records = [Record(str(i), " ".join(random_sentences(1 + i % 5))) for i in range(40)]
    among = fitted.utilities(records)
    alone = np.concatenate([fitted.utilities([record]) for record in records])
    assert (among == alone).all()


# ------------------------------------------------------------------ odd documents, files


@pytest.fixture(scope="module")
def simple() -> DeepCandidateMechanism:
    return spec("whitened", output="both").fit(public=PUBLIC, seed=2)


@pytest.mark.slow_cases("whitened", why="the other utilities stay")
def test_odd_documents(fitted: DeepCandidateMechanism) -> None:
    """No sentence: uniform. One: its scores, and uniform under a depth. 1,500: all of them, or the first few."""
    uniform = [1 / 25] * 25
    for text in ("", " \n "):
        assert list(fitted.output_distribution(Record("0", text)).values()) == pytest.approx(uniform, rel=1e-12)
    one = Record("0", SENTENCES[0])
    deep = fitted.spec.utility in DEPTH_UTILITIES
    chances = list(fitted.output_distribution(one).values())
    assert (max(chances) - min(chances) < 1e-12) == deep
    [scores] = fitted.utilities([one])
    assert deep or 0 < scores.max() <= 1
    long = Record("0", " ".join(random_sentences(1500)))
    [found] = fitted.documents([long])
    assert found == sentences(long.text)
    assert len(found) > 1400
    [whole] = fitted.utilities([long])
    if deep:
        assert 0 < whole.max() <= 750
    else:  # exactly, as all are whole steps
        each = {text: fitted.utilities([Record("0", text)])[0] for text in set(found)}
        assert (whole == sum(each[text] for text in found)).all()
    cut = DeepCandidateMechanism(replace(fitted.spec, max_sentences=3), fitted.model)
    assert cut.documents([long]) == [found[:3]]
    assert (cut.utilities([long]) == fitted.utilities([Record("0", " ".join(found[:3]))])).all()


def test_every_record_is_split_for_itself(simple: DeepCandidateMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time would tell which records are equal."""
    seen: list[str] = []
    monkeypatch.setattr(deep_candidate, "sentences", lambda text: [seen.append(text) or text])
    assert simple.documents([Record("0", "So it is."), Record("1", "So it is.")]) == [["So it is."]] * 2
    assert seen == ["So it is."] * 2


def test_vectors(simple: DeepCandidateMechanism) -> None:
    [release] = simple.privatize([Record("0", "Book a flight.")], secure())
    assert release.vector is not None
    assert len(release.vector) == 50
    only = DeepCandidateMechanism(replace(simple.spec, output="embedding"), simple.model)
    [release] = only.privatize([Record("0", "Book a flight.")], secure())
    assert release.output == ""
    assert release.vector is not None


def comes_back(mechanism: DeepCandidateMechanism, folder: Path) -> None:
    """What is saved into the folder is read again as it was."""
    save_model(mechanism, folder)
    again = load_model(folder)
    records = [Record(str(i), " ".join(random_sentences(3))) for i in range(10)]
    assert again.privatize(records, seeded(3)) == mechanism.privatize(records, seeded(3))
    assert again.digests == mechanism.digests


@pytest.mark.slow_cases("lowest", "whitened", why="mean depth and class evidence stay")
def test_saved_and_loaded(fitted: DeepCandidateMechanism, tmp_path: Path) -> None:
    comes_back(fitted, tmp_path / "model")
    path = tmp_path / "model" / "candidates.json"
    data = json.loads(path.read_text("utf-8"))
    for wrong in ({**data, "texts": data["texts"][1:]}, {**data, "labels": ["x"] * 25}, {"texts": 3}, []):
        path.write_text(json.dumps(wrong), "utf-8")
        with pytest.raises(ConfigError, match="again"):
            fitted.spec.load(tmp_path / "model")
    (tmp_path / "model" / "candidates.safetensors").write_bytes(b"short")
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ConfigError, match="again"):
        fitted.spec.load(tmp_path / "model")


def test_files_of_their_owner_alone_are_never_overwritten(fitted: DeepCandidateMechanism, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2 + (fitted.spec.recoder != "none")
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    before = [path.read_bytes() for path in files]
    for path in files:
        kept = {other: other.read_bytes() for other in files if other != path}
        for other in kept:
            other.unlink()
        with pytest.raises(ConfigError, match="exist"):
            fitted.save(tmp_path)
        for other, data in kept.items():
            other.write_bytes(data)
    assert [path.read_bytes() for path in files] == before


def test_files_of_other_settings(
    fitted: DeepCandidateMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CandidateSettings, "load_encoder", lambda self: fitted.model.encoder)
    fitted.save(tmp_path)
    spec_ = fitted.spec
    others = [replace(spec_, utility=utility, recoder="none") for utility in UTILITIES if utility != spec_.utility]
    others += [replace(spec_, candidates=24), replace(spec_, candidates=2), replace(spec_, labels=LABELS[::-1])]
    if spec_.utility in DEPTH_UTILITIES:
        others += [
            replace(spec_, recoder=recoder) for recoder in ("none", "clusters", "labels") if recoder != spec_.recoder
        ]
        others += [replace(spec_, projections=7)]
        others.remove(replace(spec_, labels=LABELS[::-1]))  # nothing of a depth goes by the order of labels
    for other in others:
        with pytest.raises(ConfigError, match="again"):
            other.load(tmp_path)
    assert spec_.load(tmp_path).digests == fitted.digests


def test_edited_numbers(fitted: DeepCandidateMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidateSettings, "load_encoder", lambda self: fitted.model.encoder)
    fitted.save(tmp_path)
    path = tmp_path / "candidates.safetensors"
    arrays = load_file(path)
    edits: dict[str, list[Callable[[np.ndarray], np.ndarray]]] = {
        "outputs": [lambda x: x[:, :10], lambda x: x[:-1], lambda x: x * np.nan],
        "directions": [lambda x: x[:10], lambda x: x + 0.5, lambda x: x * 4, lambda x: x[:, :0]],
        "means": [lambda x: x[:-1], lambda x: x[:, :10]],
        "classes": [lambda x: x + 1, lambda x: x - 1, lambda x: x[:-1]],
        "stretch": [lambda x: x[::-1], lambda x: x[:1], lambda x: x * 0, lambda x: x + np.inf],
        "centre": [lambda x: x[:-1]],
        "root": [lambda x: x[:-1], lambda x: x[:, :-1], lambda x: x[0]],
        "points": [lambda x: x[:-1], lambda x: x[:, :-1], lambda x: x + 0.5, lambda x: x * 4],
        "weights": [lambda x: x[:-1], lambda x: x[:, :1], lambda x: x[0], lambda x: np.tile(x, 2)],
        "bias": [lambda x: x[:-1]],
        "reach": [lambda x: x * 0, lambda x: -x, lambda x: np.tile(x, 2)],
    }
    assert set(arrays) <= set(edits)
    for name in arrays:
        for edit in edits[name]:
            save_file({**arrays, name: np.ascontiguousarray(edit(arrays[name]))}, path)
            with pytest.raises(ConfigError, match="again"):
                fitted.spec.load(tmp_path)
        save_file({other: array for other, array in arrays.items() if other != name}, path)
        with pytest.raises(ConfigError, match="again"):
            fitted.spec.load(tmp_path)
    save_file(arrays, path)
    assert fitted.spec.load(tmp_path).digests == fitted.digests


@pytest.fixture
def distilled(monkeypatch: pytest.MonkeyPatch) -> DeepCandidateMechanism:
    """With GloVe's means as the teacher, who is gone after the fit."""
    with monkeypatch.context() as patched:
        patched.setattr(candidates_fit, "common_words", lambda: ["doctor", "zebra"])
        patched.setattr(CandidateSettings, "load_encoder", lambda self: WordMean(load_glove()))
        found = replace(spec("whitened", output="both"), encoder="distilled").fit(public=PUBLIC, seed=1)
    monkeypatch.setattr("dptext.embeddings.sentence_encoder.load_sentence_encoder", None)
    return found


def test_a_distilled_encoder_reads_for_the_same_guarantee(distilled: DeepCandidateMechanism) -> None:
    like = distilled.spec
    for device in ("cpu", "cuda"):
        assert replace(like, device=device).guarantee() == replace(like, encoder="glove").guarantee()
    one = random_sentences(4)
    texts = [" ".join([other, *one[1:]]) for other in (*SENTENCES[:20], "Zqxv zzyzx.", "A zebra.")]
    found = distributions(distilled, [*texts, ""])
    assert 0.1 < np.abs(found[:-1, None] - found[None, :-1]).max() <= 2.0
    assert np.ptp(found[-1]) < 1e-12
    assert (found[3] == distributions(distilled, [texts[3]])[0]).all()
    # What leaves is what the teacher said, not a guess.
    taught = np.asarray(WordMean(load_glove()).embed(sentences(distilled.candidates[7]))).mean(axis=0)
    np.testing.assert_allclose(distilled.candidate_embeddings[7], taught, atol=1e-6)


@pytest.mark.parametrize("encoder", ["all-MiniLM-L6-v2", "distilled"])
def test_the_precision_reaches_the_encoder(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distilled one's teacher has it."""
    asked: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(
        "dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda name, **how: asked.append((name, how))
    )
    DeepCandidate(1.0, encoder=encoder, precision="int8")._settings.load_encoder()
    assert asked == [("all-MiniLM-L6-v2", {"device": "cpu", "precision": "int8"})]


@pytest.mark.slow
def test_contract_of_a_distilled_encoder(distilled: DeepCandidateMechanism) -> None:
    names = [name for name in CHECKS if name not in ("guarantee", "fit")]
    assert check_mechanism(distilled, PUBLIC[:5], checks=names) == tuple(names)


def test_a_distilled_encoder_is_saved_with_the_candidates(distilled: DeepCandidateMechanism, tmp_path: Path) -> None:
    assert "distilled into" in distilled.model.encoder.name
    comes_back(distilled, tmp_path / "model")
    path = tmp_path / "model" / "distilled.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ConfigError, match="again"):
        distilled.spec.load(tmp_path / "model")


# ------------------------------------------------------------------ what is fitted


def test_what_is_released_is_the_mean_of_sentences(fitted: DeepCandidateMechanism) -> None:
    """Of recoded ones, where there is a recoder."""
    encoder, scores = WordMean(load_glove()), fitted.model.scores
    for text, released in zip(fitted.candidates, fitted.candidate_embeddings, strict=True):
        embeddings = np.asarray(encoder.embed(sentences(text)), np.float64)
        if isinstance(scores, DepthScores) and scores.recoder is not None:
            embeddings = scores.recoder(embeddings)
        np.testing.assert_allclose(released, embeddings.mean(axis=0), atol=1e-6)
        assert np.linalg.norm(released) > 0.01


def test_no_candidate_is_tuned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one with an equal text, of which the first record is kept."""
    given: list[list[bytes]] = []
    fit = candidates_fit.fit_likeness

    def seen(pool, rest, tuning, **how):
        given.append([{row.tobytes() for row in found.means} for found in (pool, rest, tuning)])
        return fit(pool, rest, tuning, **how)

    monkeypatch.setattr(candidates_fit, "fit_likeness", seen)
    again = [Record(f"again{i}", record.text, label=LABELS[0]) for i, record in enumerate(PUBLIC)]
    mechanism = replace(spec("whitened"), candidates=1000).fit(public=[*PUBLIC, *again], seed=0)
    [[pool, rest, tuning]] = given
    assert (len(pool), len(rest), len(tuning)) == (64, 64, 16)
    assert not (pool | rest) & tuning
    labels = {record.text: record.label for record in PUBLIC}
    assert [labels[text] for text in mechanism.candidates] == list(mechanism.candidate_labels)
    assert mechanism.digests["public"] == records_digest([*PUBLIC, *again])


def planted(number: int, *, dim: int = 6, size: int = 6) -> Documents:
    """Two classes: half of what lies along coordinate 1 is the class, coordinate 0 varies within documents alone."""
    draw = np.random.default_rng(5)
    classes = np.arange(number) % 2
    spread = np.where(np.arange(dim) == 0, 1.0, 0.1)
    found = spread * draw.normal(size=(number * size, dim))
    found[:, 1] += np.repeat(0.2 * (2 * classes - 1), size)
    return Documents(found / np.linalg.norm(found, axis=1).max(), (size,) * number, classes)


def separation(documents: Documents, recoded: np.ndarray) -> float:
    """How far the means of the classes are apart, in the spread of documents within a class."""
    means = Documents(recoded, documents.sizes, documents.classes).means
    one, other = (means[documents.classes == label] for label in (0, 1))
    within = math.sqrt((one.var(axis=0) + other.var(axis=0)).sum())
    return float(np.linalg.norm(one.mean(axis=0) - other.mean(axis=0))) / within


@pytest.mark.slow  # the recoder of a mechanism stays below
def test_the_recoder_is_trained() -> None:
    documents = planted(120)
    recoder = fit_recoder_for(
        documents, targets="labels", clusters=2, schedule=RecoderSchedule(epochs=20, batch_size=8), seed=0
    )
    assert separation(documents, recoder(documents.embeddings)) > 3 * separation(documents, documents.embeddings)


def test_the_recoder_of_a_mechanism_is_trained_for_its_epochs() -> None:
    found = {
        epochs: replace(spec("lowest", recoder="labels", projections=2), epochs=epochs).fit(public=PUBLIC, seed=0)
        for epochs in (1, 100)
    }
    gaps = []
    for mechanism in found.values():
        groups = [
            mechanism.candidate_embeddings[[one == label for one in mechanism.candidate_labels]] for label in LABELS
        ]
        centres = np.array([group.mean(axis=0) for group in groups])
        gaps.append(centres.var(axis=0).sum() / np.mean([group.var(axis=0).sum() for group in groups]))
    assert gaps[1] > 2 * gaps[0]


def test_clusters_are_those_that_were_planted() -> None:
    draw = np.random.default_rng(3)
    blobs = np.arange(90) % 3
    found = fit_clusters(10 * np.eye(3)[blobs] + draw.normal(size=(90, 3)), 3, seed=0)
    assert ((found[:, None] == found) == (blobs[:, None] == blobs)).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_number_of_directions_is_tuned(seed: int) -> None:
    documents = planted(160, size=12)
    pool, tuning = documents.take(np.arange(60)), documents.take(np.arange(60, 160))
    settings = DeepCandidate(epsilon=20.0, utility="mean_depth")._settings
    found = fit_depth(settings, None, pool, tuning, seed=seed)
    gains = {
        count: expected_gain(
            DepthScores(None, random_directions(6, count, seed), pool.means, "mean"), tuning, pool, epsilon=20.0
        )
        for count in PROJECTIONS
    }
    best = max(gains, key=lambda count: gains[count])
    assert found.directions.shape == (6, best)
    assert best > PROJECTIONS[0]


def test_the_space_is_the_one_that_is_named() -> None:
    documents = planted(80)
    pool, tuning = documents.take(np.arange(30)), documents.take(np.arange(30, 80))
    plain, white = (
        fit_likeness(pool, documents, tuning, utility=utility, epsilon=2.0).space
        for utility in ("similarity", "whitened")
    )
    assert plain is not None
    assert white is not None
    assert (plain.root == np.eye(6)).all()
    # what varies within documents counts the less, the more it varies
    assert white.root[0, 0] < 0.5 * white.root[1:, 1:].diagonal().min()


def test_depths_take_as_many_threads_as_torch(fitted: DeepCandidateMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(str(i), " ".join(random_sentences(1 + i % 5))) for i in range(9)]
    expected, asked, depths = fitted.utilities(records), [], ProjectedCandidates.depths

    def counted(self, *given, threads=1):
        asked.append(threads)
        return depths(self, *given, threads=threads)

    monkeypatch.setattr(ProjectedCandidates, "depths", counted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert (fitted.utilities(records) == expected).all()
    assert asked == [3] * (fitted.spec.utility in DEPTH_UTILITIES)


# ------------------------------------------------------------------ a pool of its own


UTTERANCES = [
    Record(f"u{i}", f"{record.text}", label=record.label) for i, record in enumerate(sample_records(60, seed=7))
]


@pytest.mark.parametrize("utility", ["similarity", pytest.param("mixed", marks=pytest.mark.slow), "lowest"])
def test_candidates_come_from_the_pool_alone(utility: str, tmp_path: Path) -> None:
    recoder = "labels" if utility == "lowest" else "none"
    settings = replace(spec(utility, recoder=recoder), min_sentences=1)
    mechanism = settings.fit(public=PUBLIC, pool=UTTERANCES, seed=1)
    known = {(record.text, record.label) for record in UTTERANCES}
    assert len(mechanism.candidates) == 25
    private = [Record(str(i), " ".join(random_sentences(3)), label="secret") for i in range(40)]
    assert {(release.output, release.label) for release in mechanism.privatize(private, secure())} <= known
    assert mechanism.digests["pool"] == records_digest(UTTERANCES)
    assert mechanism.digests["public"] == records_digest(PUBLIC)
    worst = 0.0
    for _ in range(15):
        one = random_sentences(int(RNG.integers(1, 4)))
        first, second = distributions(mechanism, [" ".join(one), " ".join([random_sentences(1)[0], *one[1:]])])
        worst = max(worst, float(np.abs(first - second).max()))
    assert 0 < worst <= 2.0
    save_model(mechanism, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.digests == mechanism.digests
    assert again.privatize(private, seeded(3)) == mechanism.privatize(private, seeded(3))
    assert "pool" not in settings.fit(public=PUBLIC, seed=1).digests


def test_public_text_ranks_the_candidates_of_a_pool() -> None:
    settings = replace(spec("whitened"), min_sentences=1)
    one, other = (settings.fit(public=public, pool=UTTERANCES, seed=1) for public in (PUBLIC, PUBLIC[:50]))
    assert one.candidates == other.candidates
    assert one.digests["candidates"] != other.digests["candidates"]
    # a public document that is a candidate tunes nothing: a document is nearest to itself
    whole = settings.fit(public=PUBLIC, pool=PUBLIC, seed=1)
    assert len(whole.candidates) == 25


def test_pools_that_do_not_do() -> None:
    deep = spec("mixed")
    with pytest.raises(ConfigError, match=r"20 documents of the pool with min_sentences=2 .* lower min_sentences"):
        deep.fit(public=PUBLIC, pool=UTTERANCES, seed=0)
    one = replace(deep, min_sentences=1)
    with pytest.raises(ConfigError, match="every pool record"):
        one.fit(public=PUBLIC, pool=[*UTTERANCES, Record("x", "Canary.", label="other")], seed=0)
    with pytest.raises(ConfigError, match="no candidates themselves, found 0 of 60"):
        replace(one, candidates=100).fit(public=UTTERANCES, pool=UTTERANCES, seed=0)
    few = [record for record in PUBLIC if record.label != "leisure"]
    with pytest.raises(ConfigError, match="each label of the pool"):
        one.fit(public=few, pool=UTTERANCES, seed=0)


def test_a_classifier_is_trained_on_what_is_released() -> None:
    both = replace(spec("mixed"), output="both").fit(public=PUBLIC, seed=0)
    at = {text: i for i, text in enumerate(both.candidates)}
    assert (np.linalg.norm(both.candidate_embeddings, axis=1) > 0.01).all()
    assert both.candidate_embeddings.shape == (len(at), len(both.privatize(PUBLIC[:1], secure())[0].vector or ()))
    for release in both.privatize(PUBLIC, secure()):
        i = at[release.output]
        np.testing.assert_array_equal(release.vector, both.candidate_embeddings[i])
        assert release.label == both.candidate_labels[i]


def test_too_little_public_text() -> None:
    with pytest.raises(ConfigError, match="20 public documents"):
        spec("whitened").fit(public=PUBLIC[:10], seed=0)
    with pytest.raises(ConfigError, match="labels"):
        spec("whitened").fit(public=[*PUBLIC, Record("x", "Canary one. Canary two.", label="other")], seed=0)
