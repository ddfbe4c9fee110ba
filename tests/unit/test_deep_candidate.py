"""DeepCandidate: its statements, its exact distribution, its outcomes where a document is odd."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptext.config import load_model, save_model
from dptext.errors import ConfigError, IncomparableError
from dptext.guarantee import Basis, Relation, Unit
from dptext.mechanisms.deep_candidate import UTILITIES, DeepCandidate, DeepCandidateMechanism
from dptext.randomness import secure, seeded
from dptext.records import Record, records_digest
from dptext.samples import sample_records
from dptext.text import SENTENCE_COUNT, sentences

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


@pytest.fixture(scope="module", params=UTILITIES)
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
    """MATHS 4: epsilon 10, 16 sentences, 5,000 candidates: 48.5 where group privacy says 160."""
    deep = DeepCandidate(10.0, utility="lowest", candidates=5000, max_sentences=16)
    found = deep.guarantee(Unit.DOCUMENT)
    assert found.epsilon == pytest.approx(48.5, abs=0.05)
    assert found.reveals == ()
    shift = 10.0 * 8 / 2
    by_hand = shift + math.log((4999 * math.exp(shift) + 1) / (math.exp(shift) + 4999))
    assert found.epsilon == pytest.approx(by_hand, rel=1e-9)
    # a sum over 16 sentences has twice the range of a depth among them
    assert replace(deep, utility="similarity").guarantee(Unit.DOCUMENT).epsilon > 88
    flip = replace(deep, selection="permute_and_flip").guarantee(Unit.DOCUMENT)
    assert flip.epsilon == pytest.approx(80.0)
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


def test_twice_the_weight_only_where_documents_are_not_cut() -> None:
    assert spec("lowest", relation="add_or_remove_one").choice.sensitivity == 0.5
    assert spec("lowest", relation="add_or_remove_one", max_sentences=4).choice.sensitivity == 1.0
    assert spec("lowest").choice.sensitivity == 1.0


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


def test_adding_a_sentence_costs_half(fitted: DeepCandidateMechanism) -> None:
    worst = 0.0
    for _ in range(25):
        one = random_sentences(int(RNG.integers(1, 6)))
        first, second = distributions(fitted, [" ".join(one), " ".join(one[1:])])
        worst = max(worst, float(np.abs(first - second).max()))
    assert worst <= 1.0


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


def test_odd_documents(simple: DeepCandidateMechanism) -> None:
    empty, blank, one = (simple.utilities([Record("0", text)])[0] for text in ("", " \n ", "Zzqx."))
    assert not empty.any()
    assert not blank.any()  # without sentences every candidate is as likely
    assert one.max() <= 1
    long = Record("0", " ".join(random_sentences(5000)))
    assert 0 < simple.utilities([long]).max() <= 5000
    cut = DeepCandidateMechanism(replace(simple.spec, max_sentences=3), simple._fitted)
    assert cut.utilities([long]).max() <= 3


def test_vectors(simple: DeepCandidateMechanism) -> None:
    [release] = simple.privatize([Record("0", "Book a flight.")], secure())
    assert release.vector is not None
    assert len(release.vector) == 50
    only = DeepCandidateMechanism(replace(simple.spec, output="embedding"), simple._fitted)
    [release] = only.privatize([Record("0", "Book a flight.")], secure())
    assert release.output == ""
    assert release.vector is not None


def test_saved_and_loaded(fitted: DeepCandidateMechanism, tmp_path: Path) -> None:
    save_model(fitted, tmp_path / "model")
    again = load_model(tmp_path / "model")
    records = [Record(str(i), " ".join(random_sentences(3))) for i in range(10)]
    assert again.privatize(records, seeded(3)) == fitted.privatize(records, seeded(3))
    assert again.digests == fitted.digests
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


# ------------------------------------------------------------------ a pool of its own


UTTERANCES = [
    Record(f"u{i}", f"{record.text}", label=record.label) for i, record in enumerate(sample_records(60, seed=7))
]


@pytest.mark.parametrize("utility", ["similarity", "mixed", "lowest"])
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
