"""SentDp: its statements, its exact distribution, its outcomes where a document is odd, its recoder."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from candidate_cases import (
    LABELS,
    PUBLIC,
    RNG,
    SENTENCES,
    UNEVEN,
    UTTERANCES,
    Small,
    check_alone,
    check_comes_back,
    check_drawn,
    check_edits,
    check_enumerated,
    check_extremes,
    check_released,
    dot,
    extremes,
    ints,
    planted,
    random_sentences,
    ten_times_the_size,
    worst_ratio,
)
from dptext.embeddings.encoders import WordMean
from dptext.embeddings.likeness import GRID
from dptext.embeddings.vector_files import load_glove
from dptext.errors import ConfigError
from dptext.mechanisms.sentences.candidate_fit import Documents, expected_gain
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.sentences.document_candidates import CandidateSettings
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.randomness import secure
from dptext.text.records import Record, records_digest
from dptext.text.tokens import SENTENCE_COUNT, sentences

pytest.importorskip("torch")

from dptext_lab.sentdp.depth import ProjectedCandidates
from dptext_lab.sentdp.fit import (
    PROJECTIONS,
    DepthSettings,
    fit_clusters,
    fit_depth,
    fit_recoder_for,
    random_directions,
)
from dptext_lab.sentdp.recoder import RecoderSchedule
from dptext_lab.sentdp.scores import DEPTHS, DepthScores
from dptext_lab.sentdp.sentdp import SentDp, SentDpMechanism

TRIED = [*("lowest", "mean_depth"), pytest.param("algorithm_1", marks=pytest.mark.slow)]
RECODERS = {"lowest": "clusters", "mean_depth": "labels", "algorithm_1": "none"}


def spec(utility: str = "lowest", recoder: str = "none", **more: object) -> SentDp:
    return SentDp(
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
def fitted(request: pytest.FixtureRequest) -> SentDpMechanism:
    return spec(request.param, RECODERS[request.param]).fit(public=PUBLIC, seed=1)


# ------------------------------------------------------------------ statements


def test_statements() -> None:
    found = spec().guarantee()
    assert (found.epsilon, found.unit, found.relation) == (2.0, Unit.SENTENCE, Relation.REPLACE_ONE)
    assert found.reveals == (SENTENCE_COUNT,)
    assert found.basis is Basis.CONDITIONAL
    assert spec().units == (Unit.SENTENCE,)
    added = spec(relation="add_or_remove_one").guarantee()
    assert (added.epsilon, added.relation, added.reveals) == (2.0, Relation.ADD_OR_REMOVE_ONE, ())


def test_the_documents_epsilon_is_that_of_the_range() -> None:
    """derivations, "Depths and sums": epsilon 10, 16 sentences, 5,000 candidates: 48.5 where group privacy says 160."""
    deep = SentDp(10.0, candidates=5000, max_sentences=16)
    found = deep.guarantee(Unit.DOCUMENT)
    assert found.epsilon == pytest.approx(48.5, abs=0.05)
    shift = 10.0 * 8 / 2
    by_hand = shift + math.log((4999 * math.exp(shift) + 1) / (math.exp(shift) + 4999))
    assert found.epsilon == pytest.approx(by_hand, rel=1e-9)
    # a sum over 16 sentences has twice the range of a depth among them
    assert DeepCandidate(10.0, candidates=5000, max_sentences=16).guarantee(Unit.DOCUMENT).epsilon > 88
    flip = replace(deep, selection="permute_and_flip")
    for relation in ("replace_one", "add_or_remove_one"):
        assert replace(flip, relation=relation).guarantee(Unit.DOCUMENT).epsilon == 80.0


@pytest.mark.parametrize("longest", [3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("utility", DEPTHS)
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
    few = SentDp(1.0, candidates=2, max_sentences=3)
    for delta in (0.0, 0.1):
        found = few.calibrate(0.05, unit=Unit.DOCUMENT, delta=delta)
        assert found.guarantee(Unit.DOCUMENT, delta).epsilon == pytest.approx(0.05, rel=1e-6)
        assert found.epsilon == pytest.approx(0.1) if delta == 0 else found.epsilon > 0.3
    none = replace(few, max_sentences=1).calibrate(0.05, unit=Unit.DOCUMENT)
    assert none.guarantee(Unit.DOCUMENT).epsilon == 0
    assert none.epsilon == pytest.approx(0.05 * 2**20)


@pytest.mark.parametrize("utility", [*DEPTHS])
def test_twice_the_weight_only_where_documents_are_not_cut(utility: str) -> None:
    assert spec(utility, relation="add_or_remove_one").choice.sensitivity == 0.5
    assert spec(utility, relation="add_or_remove_one", max_sentences=4).choice.sensitivity == 1.0
    assert spec(utility).choice.sensitivity == 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"utility": "similarity"}, "utility"),
        ({"recoder": "labels"}, "labels"),
        ({"recoder": "paper"}, "recoder"),
        ({"projections": -1}, "projections"),
        ({"clusters": 0}, "clusters"),
        ({"epochs": 0}, "epochs"),
        ({"candidates": 70_000}, "candidates"),
    ],
)
def test_refused_settings(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SentDp(**{"epsilon": 1.0, **wrong})  # type: ignore[arg-type]


# ------------------------------------------------------------------ the distribution


def test_no_log_ratio_exceeds_epsilon(fitted: SentDpMechanism) -> None:
    assert 0 < worst_ratio(fitted) <= 2.0


@pytest.fixture(scope="module", params=TRIED)
def extreme(request: pytest.FixtureRequest) -> tuple[SentDp, np.ndarray]:
    """Sentences just beside a candidate on every direction, then such as are far out on every one."""
    mechanism = spec(request.param, projections=3).fit(public=UNEVEN, seed=1)
    scores = mechanism.model.scores
    directions = scores.directions / GRID
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=directions.shape[1])))
    back = np.linalg.inv(directions.T @ directions) @ directions.T
    beside = scores.means @ directions
    first = np.concatenate([beside + 0.01 * corner for corner in corners]) @ back
    return mechanism.spec, extremes(scores, first, 0.8 * corners @ back)


@pytest.mark.parametrize("selection", ["exponential", "permute_and_flip"])
def test_the_worst_sentences_cost_epsilon_at_most(extreme: tuple[SentDp, np.ndarray], selection: str) -> None:
    settings, utilities = extreme
    check_extremes(replace(settings, selection=selection), utilities, longest=2)


def small_depth(utility: str) -> Small:
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


@pytest.mark.parametrize("utility", TRIED)
def test_the_distribution_is_the_enumerated_one(utility: str) -> None:
    check_enumerated(spec(utility), lambda: small_depth(utility), unit=1 / GRID)


def test_a_utility_that_is_not_bounded_is_seen(fitted: SentDpMechanism) -> None:
    """A planted fault: scores of ten times the size."""
    assert ten_times_the_size(fitted) > 2.0


def test_outputs_are_candidates_with_their_labels(fitted: SentDpMechanism) -> None:
    check_released(fitted)


@pytest.mark.slow  # test_deep_candidate.py draws by the same class
def test_the_distribution_is_what_is_drawn(fitted: SentDpMechanism) -> None:
    check_drawn(fitted)


def test_company_changes_nothing(fitted: SentDpMechanism) -> None:
    check_alone(fitted)


def test_odd_documents(fitted: SentDpMechanism) -> None:
    """No sentence or one: uniform. 1,500: all of them."""
    uniform = [1 / 25] * 25
    for text in ("", " \n ", SENTENCES[0]):
        assert list(fitted.output_distribution(Record("0", text)).values()) == pytest.approx(uniform, rel=1e-12)
    long = Record("0", " ".join(random_sentences(1500)))
    assert len(fitted.documents([long])[0]) > 1400
    [whole] = fitted.utilities([long])
    assert 0 < whole.max() <= 750


# ------------------------------------------------------------------ files


@pytest.mark.slow_cases("lowest", why="mean depth stays")
def test_saved_and_loaded(fitted: SentDpMechanism, tmp_path: Path) -> None:
    check_comes_back(fitted, tmp_path / "model")


def test_files_of_other_settings(fitted: SentDpMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidateSettings, "load_encoder", lambda self: fitted.model.encoder)
    fitted.save(tmp_path)
    spec_ = fitted.spec
    others = [replace(spec_, utility=utility) for utility in DEPTHS if utility != spec_.utility]
    others += [
        replace(spec_, recoder=recoder) for recoder in ("none", "clusters", "labels") if recoder != spec_.recoder
    ]
    others += [replace(spec_, candidates=24), replace(spec_, candidates=2), replace(spec_, projections=7)]
    for other in others:
        with pytest.raises(ConfigError, match="again"):
            other.load(tmp_path)
    # nothing of a depth goes by the order of labels
    for same in (spec_, replace(spec_, labels=LABELS[::-1])):
        assert same.load(tmp_path).digests == fitted.digests


def test_edited_numbers(fitted: SentDpMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidateSettings, "load_encoder", lambda self: fitted.model.encoder)
    layers = [f"recoder.{i}.{part}" for i in (0, 2, 4, 6) for part in ("weight", "bias")]
    edits = {
        "outputs": [lambda x: x[:, :10], lambda x: x[:-1], lambda x: x * np.nan],
        "directions": [lambda x: x[:10], lambda x: x + 0.5, lambda x: x * 4, lambda x: x[:, :0]],
        "means": [lambda x: x[:-1], lambda x: x[:, :10]],
        "recoder.norm": [lambda x: x * 0, lambda x: -x, lambda x: np.tile(x, 2)],
        **{name: [lambda x: x[:-1], lambda x: x + np.inf] for name in layers},
    }
    check_edits(fitted, tmp_path, edits)


# ------------------------------------------------------------------ what is fitted


def test_the_released_vector_is_the_mean_of_recoded_sentences(fitted: SentDpMechanism) -> None:
    encoder, recoder = WordMean(load_glove()), fitted.model.scores.recoder
    for text, released in zip(fitted.candidates, fitted.candidate_embeddings, strict=True):
        embeddings = np.asarray(encoder.embed(sentences(text)), np.float64)
        embeddings = embeddings if recoder is None else recoder(embeddings)
        np.testing.assert_allclose(released, embeddings.mean(axis=0), atol=1e-6)
        assert np.linalg.norm(released) > 0.01


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
        epochs: replace(spec("lowest", "labels", projections=2), epochs=epochs).fit(public=PUBLIC, seed=0)
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
    settings = DepthSettings(20.0, "mean_depth", "none", projections=0, clusters=50, epochs=20)
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


def test_depths_take_as_many_threads_as_others(fitted: SentDpMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(str(i), " ".join(random_sentences(1 + i % 5))) for i in range(9)]
    expected, asked, depths = fitted.utilities(records), [], ProjectedCandidates.depths

    def counted(self, *given, threads=1):
        asked.append(threads)
        return depths(self, *given, threads=threads)

    monkeypatch.setattr(ProjectedCandidates, "depths", counted)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (fitted.utilities(records) == expected).all()
    assert asked == [3]


def test_candidates_come_from_the_pool_alone() -> None:
    settings = replace(spec("lowest", "labels"), min_sentences=1)
    mechanism = settings.fit(public=PUBLIC, pool=UTTERANCES, seed=1)
    known = {(record.text, record.label) for record in UTTERANCES}
    private = [Record(str(i), " ".join(random_sentences(3)), label="secret") for i in range(40)]
    assert {(release.output, release.label) for release in mechanism.privatize(private, secure())} <= known
    assert mechanism.digests["pool"] == records_digest(UTTERANCES)
    assert 0 < worst_ratio(mechanism, pairs=15, longest=3) <= 2.0
