"""DeepCandidate: its statements, its exact distribution, its outcomes where a document is odd, its classifier."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import approx_fprime, root

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
    distributions,
    dot,
    extremes,
    ints,
    planted,
    random_sentences,
    ten_times_the_size,
    worst_ratio,
)
from dptext.embeddings.encoders import WordMean
from dptext.embeddings.likeness import GRID, STEPS, CosineSpace, Evidence
from dptext.embeddings.vector_files import load_glove
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanisms.sentences import candidate_choice
from dptext.mechanisms.sentences import candidate_fit as fitting
from dptext.mechanisms.sentences.candidate_fit import classifier_loss, fit_classifier, fit_likeness
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate, DeepCandidateMechanism
from dptext.mechanisms.sentences.document_candidates import CandidateSettings, LikenessScores, Utility
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.runs.models import load_model, save_model
from dptext.runs.specs import spec_from_settings
from dptext.sampling.randomness import secure, seeded
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record, records_digest
from dptext.text.tokens import SENTENCE_COUNT, sentences

UTILITIES = get_args(Utility)
#: The default waits for `make test-all`, and so does the half of two others.
FIRST = ("whitened", "evidence")
TRIED = [pytest.param(each, marks=() if each in FIRST else pytest.mark.slow) for each in UTILITIES]


def spec(utility: str = "whitened", **more: object) -> DeepCandidate:
    return DeepCandidate(2.0, LABELS, utility, candidates=25, min_sentences=2, encoder="glove", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=TRIED)
def fitted(request: pytest.FixtureRequest) -> DeepCandidateMechanism:
    return spec(request.param).fit(public=PUBLIC, seed=1)


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
    """derivations, "Depths and sums": a sum over 16 sentences has a range of 16."""
    deep = DeepCandidate(10.0, candidates=5000, max_sentences=16)
    found = deep.guarantee(Unit.DOCUMENT)
    assert found.reveals == ()
    shift = 10.0 * 16 / 2
    by_hand = shift + math.log((4999 * math.exp(shift) + 1) / (math.exp(shift) + 4999))
    assert found.epsilon == pytest.approx(by_hand, rel=1e-9)
    flip = replace(deep, selection="permute_and_flip", labels=("a", "b"))
    for relation in ("replace_one", "add_or_remove_one"):
        for utility in ("similarity", "evidence"):
            assert replace(flip, relation=relation, utility=utility).guarantee(Unit.DOCUMENT).epsilon == 160.0
    with pytest.raises(IncomparableError, match="max_sentences"):
        spec().guarantee(Unit.DOCUMENT)
    with pytest.raises(IncomparableError, match="sentence"):
        deep.guarantee(Unit.TOKEN)


@pytest.mark.parametrize("selection", ["exponential", "permute_and_flip"])
def test_calibration(selection: str) -> None:
    deep = DeepCandidate(1.0, max_sentences=8, selection=selection)  # type: ignore[arg-type]
    assert deep.calibrate(3.0).guarantee().epsilon == 3.0
    found = deep.calibrate(12.0, unit=Unit.DOCUMENT)
    assert 12.0 * (1 - 1e-6) <= found.guarantee(Unit.DOCUMENT).epsilon <= 12.0


def test_calibration_finds_the_largest() -> None:
    """Also where it is more than twice the epsilon of the document."""
    few = DeepCandidate(1.0, candidates=2, max_sentences=1)
    for delta in (0.0, 0.1):
        found = few.calibrate(0.05, unit=Unit.DOCUMENT, delta=delta)
        assert found.guarantee(Unit.DOCUMENT, delta).epsilon == pytest.approx(0.05, rel=1e-6)
        assert found.epsilon == pytest.approx(0.1) if delta == 0 else found.epsilon > 0.3


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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recoder", "none"),
        ("projections", 3),
        ("clusters", 50),
        ("epochs", 20),
        *(("utility", depth) for depth in ("lowest", "algorithm_1", "mean_depth")),
    ],
)
def test_what_has_moved_is_refused_with_the_kind_that_has_it(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"{key} .* for deep_candidate.* kind sentdp|{key} .* of sentdp now"):
        spec_from_settings({"kind": "deep_candidate", "epsilon": 1.0, key: value})
    assert spec_from_settings({"kind": "sentdp", "epsilon": 1.0, key: value}).kind == "sentdp"
    if key == "utility":
        with pytest.raises(ConfigError, match="kind sentdp"):
            DeepCandidate(1.0, utility=value)  # type: ignore[arg-type]


# ------------------------------------------------------------------ the distribution


def test_no_log_ratio_exceeds_epsilon(fitted: DeepCandidateMechanism) -> None:
    assert 0 < worst_ratio(fitted) <= 2.0


def worst_sentences(scores: LikenessScores) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with which documents begin, and such as change the utility as much as they can, made for them."""
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
    mechanism = spec(request.param).fit(public=UNEVEN, seed=1)
    scores = mechanism.model.scores
    return mechanism.spec, extremes(scores, *worst_sentences(scores))


@pytest.mark.parametrize("selection", ["exponential", "permute_and_flip"])
def test_the_worst_sentences_cost_epsilon_at_most(extreme: tuple[DeepCandidate, np.ndarray], selection: str) -> None:
    settings, utilities = extreme
    check_extremes(replace(settings, selection=selection), utilities, longest=1)


# ------------------------------------------------------------------ against enumeration


def small_sums(utility: str) -> Small:
    """Sums with many ties, and the same by counting: cosines from 1/4 to 3/4, evidence to a depth of 2 nats."""
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


@pytest.mark.slow_cases("whitened", why="class evidence stays")
@pytest.mark.parametrize("utility", TRIED)
def test_the_distribution_is_the_enumerated_one(utility: str) -> None:
    check_enumerated(spec(utility), lambda: small_sums(utility), unit=1.0)


def test_a_utility_that_is_not_bounded_is_seen(fitted: DeepCandidateMechanism) -> None:
    """A planted fault: scores of ten times the size."""
    assert ten_times_the_size(fitted) > 2.0


def test_outputs_are_candidates_with_their_labels(fitted: DeepCandidateMechanism) -> None:
    check_released(fitted)


@pytest.mark.slow_cases("whitened", why="class evidence stays")
def test_the_distribution_is_what_is_drawn(fitted: DeepCandidateMechanism) -> None:
    check_drawn(fitted)


def test_company_changes_nothing(fitted: DeepCandidateMechanism) -> None:
    check_alone(fitted)


# ------------------------------------------------------------------ odd documents, files


@pytest.fixture(scope="module")
def simple() -> DeepCandidateMechanism:
    return spec("whitened", output="both").fit(public=PUBLIC, seed=2)


@pytest.mark.slow_cases("whitened", why="class evidence stays")
def test_odd_documents(fitted: DeepCandidateMechanism) -> None:
    """No sentence: uniform. One: its scores. 1,500: all of them, or the first few."""
    uniform = [1 / 25] * 25
    for text in ("", " \n "):
        assert list(fitted.output_distribution(Record("0", text)).values()) == pytest.approx(uniform, rel=1e-12)
    one = Record("0", SENTENCES[0])
    [scores] = fitted.utilities([one])
    assert 0 < scores.max() <= 1
    long = Record("0", " ".join(random_sentences(1500)))
    [found] = fitted.documents([long])
    assert found == sentences(long.text)
    assert len(found) > 1400
    [whole] = fitted.utilities([long])
    # exactly, as all are whole steps
    each = {text: fitted.utilities([Record("0", text)])[0] for text in set(found)}
    assert (whole == sum(each[text] for text in found)).all()
    cut = DeepCandidateMechanism(replace(fitted.spec, max_sentences=3), fitted.model)
    assert cut.documents([long]) == [found[:3]]
    assert (cut.utilities([long]) == fitted.utilities([Record("0", " ".join(found[:3]))])).all()


def test_every_record_is_split_for_itself(simple: DeepCandidateMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time would tell which records are equal."""
    seen: list[str] = []
    monkeypatch.setattr(candidate_choice, "sentences", lambda text: [seen.append(text) or text])
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


@pytest.mark.slow_cases("whitened", why="class evidence stays")
def test_saved_and_loaded(fitted: DeepCandidateMechanism, tmp_path: Path) -> None:
    check_comes_back(fitted, tmp_path / "model")
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
    assert len(files) == 2
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
    others = [replace(spec_, utility=utility) for utility in UTILITIES if utility != spec_.utility]
    others += [replace(spec_, candidates=24), replace(spec_, candidates=2), replace(spec_, labels=LABELS[::-1])]
    for other in others:
        with pytest.raises(ConfigError, match="again"):
            other.load(tmp_path)
    assert spec_.load(tmp_path).digests == fitted.digests


def test_edited_numbers(fitted: DeepCandidateMechanism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CandidateSettings, "load_encoder", lambda self: fitted.model.encoder)
    edits = {
        "outputs": [lambda x: x[:, :10], lambda x: x[:-1], lambda x: x * np.nan],
        "classes": [lambda x: x + 1, lambda x: x - 1, lambda x: x[:-1]],
        "stretch": [lambda x: x[::-1], lambda x: x[:1], lambda x: x * 0, lambda x: x + np.inf],
        "centre": [lambda x: x[:-1]],
        "root": [lambda x: x[:-1], lambda x: x[:, :-1], lambda x: x[0]],
        "points": [lambda x: x[:-1], lambda x: x[:, :-1], lambda x: x + 0.5, lambda x: x * 4],
        "weights": [lambda x: x[:-1], lambda x: x[:, :1], lambda x: x[0], lambda x: np.tile(x, 2)],
        "bias": [lambda x: x[:-1]],
        "reach": [lambda x: x * 0, lambda x: -x, lambda x: np.tile(x, 2)],
    }
    check_edits(fitted, tmp_path, edits)


@pytest.fixture
def distilled(monkeypatch: pytest.MonkeyPatch) -> DeepCandidateMechanism:
    """With GloVe's means as the teacher, who is gone after the fit."""
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "common_words", lambda: ["doctor", "zebra"])
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
    names = [name for name in CHECKS if name not in ("guarantee", "fit", "epsilon")]  # they fit with a real encoder
    assert check_mechanism(distilled, PUBLIC[:5], checks=names) == tuple(names)


def test_a_distilled_encoder_is_saved_with_the_candidates(distilled: DeepCandidateMechanism, tmp_path: Path) -> None:
    assert "distilled into" in distilled.model.encoder.name
    check_comes_back(distilled, tmp_path / "model")
    path = tmp_path / "model" / "distilled.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ConfigError, match="again"):
        distilled.spec.load(tmp_path / "model")


# ------------------------------------------------------------------ what is fitted


@pytest.fixture(scope="module")
def four_classes() -> fitting.Documents:
    """400 documents of two sentences on 50 coordinates; the means of the classes lie close."""
    draw = np.random.default_rng(11)
    classes = np.arange(400) % 4
    embeddings = draw.normal(size=(800, 50)) + np.repeat(0.3 * draw.normal(size=(4, 50))[classes], 2, axis=0)
    return fitting.Documents(embeddings, (2,) * 400, classes)


def test_the_gradient_of_the_classifier_is_that_of_its_loss(four_classes: fitting.Documents) -> None:
    draw, inputs, classes = np.random.default_rng(3), four_classes.means[:30, :5], four_classes.classes[:30]
    for scale in (0.0, 0.1, 1.0):
        at = scale * draw.normal(size=(6, 4))
        _, gradient = classifier_loss(at, inputs, classes)
        by_difference = approx_fprime(at.ravel(), lambda x: classifier_loss(x.reshape(6, 4), inputs, classes)[0], 1e-7)
        np.testing.assert_allclose(gradient, by_difference, atol=2e-5)


def naive_loss(parameters: np.ndarray, inputs: np.ndarray, classes: np.ndarray) -> float:
    """The loss of the classifier, a row at a time."""
    weights, bias = parameters[:-1], parameters[-1]
    found = 0.05 * float((weights**2).sum())
    for row, label in zip(inputs, classes, strict=True):
        chances = np.exp(row @ weights + bias)
        found -= math.log(chances[label] / chances.sum())
    return found


def test_the_classifier_is_at_the_minimum(four_classes: fitting.Documents) -> None:
    """The minimum that Powell's hybrid method finds as a root of the gradient, to 1e-8."""
    inputs, classes = four_classes.means, four_classes.classes
    weights, bias = fit_classifier(four_classes)
    found = np.concatenate([weights, bias[None]])

    def slope(flat: np.ndarray) -> np.ndarray:  # a common shift of the biases, which is free, is held at 0
        at = flat.reshape(51, 4)
        gradient = classifier_loss(at, inputs, classes)[1].reshape(51, 4)
        gradient[-1] += at[-1].sum()
        return gradient.ravel()

    best = root(slope, np.zeros(204), tol=1e-12)
    assert best.success
    least = naive_loss(best.x.reshape(51, 4), inputs, classes)
    assert abs(naive_loss(found, inputs, classes) - least) < 1e-8
    assert naive_loss(1.01 * found, inputs, classes) > least + 1e-3
    np.testing.assert_allclose(found, best.x.reshape(51, 4), atol=1e-4)


def test_the_released_vector_is_the_mean_of_sentences(fitted: DeepCandidateMechanism) -> None:
    encoder = WordMean(load_glove())
    for text, released in zip(fitted.candidates, fitted.candidate_embeddings, strict=True):
        embeddings = np.asarray(encoder.embed(sentences(text)), np.float64)
        np.testing.assert_allclose(released, embeddings.mean(axis=0), atol=1e-6)
        assert np.linalg.norm(released) > 0.01


def test_no_candidate_is_tuned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one with an equal text, of which the first record is kept."""
    given: list[list[bytes]] = []
    fit = fitting.fit_likeness

    def seen(pool, rest, tuning, **how):
        given.append([{row.tobytes() for row in found.means} for found in (pool, rest, tuning)])
        return fit(pool, rest, tuning, **how)

    monkeypatch.setattr(fitting, "fit_likeness", seen)
    again = [Record(f"again{i}", record.text, label=LABELS[0]) for i, record in enumerate(PUBLIC)]
    mechanism = replace(spec("whitened"), candidates=1000).fit(public=[*PUBLIC, *again], seed=0)
    [[pool, rest, tuning]] = given
    assert (len(pool), len(rest), len(tuning)) == (64, 64, 16)
    assert not (pool | rest) & tuning
    labels = {record.text: record.label for record in PUBLIC}
    assert [labels[text] for text in mechanism.candidates] == list(mechanism.candidate_labels)
    assert mechanism.digests["public"] == records_digest([*PUBLIC, *again])


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


# ------------------------------------------------------------------ a pool of its own


@pytest.mark.parametrize("utility", ["similarity", pytest.param("mixed", marks=pytest.mark.slow)])
def test_candidates_come_from_the_pool_alone(utility: str, tmp_path: Path) -> None:
    settings = replace(spec(utility), min_sentences=1)
    mechanism = settings.fit(public=PUBLIC, pool=UTTERANCES, seed=1)
    known = {(record.text, record.label) for record in UTTERANCES}
    assert len(mechanism.candidates) == 25
    private = [Record(str(i), " ".join(random_sentences(3)), label="secret") for i in range(40)]
    assert {(release.output, release.label) for release in mechanism.privatize(private, secure())} <= known
    assert mechanism.digests["pool"] == records_digest(UTTERANCES)
    assert mechanism.digests["public"] == records_digest(PUBLIC)
    assert 0 < worst_ratio(mechanism, pairs=15, longest=3) <= 2.0
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
