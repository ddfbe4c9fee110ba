"""The label-only baseline: its distribution, its medoids, and faults planted in its frequencies."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

import dptext as dp
from dptext import audits
from dptext.audits.trials.density import SIGNIFICANT, distribution_p_value
from dptext.errors import ConfigError, DataError, IncomparableError
from dptext.mechanism import settings
from dptext.mechanisms.candidates.label_only import LabelOnly, medoid
from dptext.mechanisms.candidates.rankers import tfidf_of
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.runs.specs import spec_from_settings
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.top_k import LabelResponse
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.text.tokens import tokenize

LABELS = ("health", "travel", "money", "leisure")
PUBLIC = sample_records(40)
RANDOM, MEDOID = LabelOnly.tiny()


def outputs(mechanism, record, runs=2500, seed=3):
    releases = mechanism.privatize([record] * runs, seeded(seed))
    return [f"{release.label}\x1f{release.output}" for release in releases]


# ------------------------------------------------------------------------------------------------ contract

# A file run writes no labels yet ("files").
QUICK = [name for name in CHECKS if name not in ("files", "distribution", "guarantee")]


@pytest.mark.slow
def test_contract_of_the_medoid():
    names = [name for name in CHECKS if name != "files"]
    assert check_mechanism(MEDOID.fit(public=PUBLIC), sample_records(10, seed=1), checks=names) == tuple(names)


@pytest.mark.slow  # tests/contract/test_mechanisms.py has the same settings, with other public texts
def test_contract_of_the_random_text():
    assert check_mechanism(RANDOM.fit(public=PUBLIC), sample_records(10, seed=1), checks=QUICK) == tuple(QUICK)


# ---------------------------------------------------------------------------------------------- guarantee


def test_the_guarantee():
    found = RANDOM.guarantee()
    assert (found.epsilon, found.delta, found.unit) == (2.0, 0.0, Unit.DOCUMENT)
    assert (found.relation, found.basis, found.reveals) == (Relation.REPLACE_ONE, Basis.CONDITIONAL, ())
    assert len(found.assumptions) == 1
    assert RANDOM.guarantee(delta=1e-2).epsilon < 2.0
    with pytest.raises(IncomparableError, match="unit document"):
        RANDOM.guarantee(Unit.TOKEN)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.7, 20.0])
def test_calibrate_is_exact(epsilon):
    assert RANDOM.calibrate(epsilon).guarantee().epsilon == epsilon
    with_delta = RANDOM.calibrate(epsilon, delta=1e-3)
    assert with_delta.epsilon >= epsilon
    assert 0.999 * epsilon < with_delta.guarantee(delta=1e-3).epsilon <= epsilon


@pytest.mark.parametrize("text", ["random", "medoid"])
def test_epsilon_by_enumeration_is_the_claimed_one(text):
    mechanism = replace(RANDOM, text=text).fit(public=PUBLIC)
    one, other = Record("0", "private", label="health"), Record("1", "secret", label="money")
    report = audits.exact(mechanism, one, other, trials=1000)
    assert report.epsilon_lower_bound == pytest.approx(2.0, rel=1e-9)
    assert not report.refutes(mechanism.spec.guarantee())
    assert report.defects == ()
    assert report.refutes(mechanism.spec.calibrate(1.99).guarantee())


@pytest.mark.parametrize("epsilon", [0.05, 2.0, 12.0])
@pytest.mark.parametrize("missing", [None, "", "unheard of"])
def test_a_missing_label_is_between_the_two_probabilities(epsilon, missing):
    mechanism = LabelOnly(LABELS, epsilon, text="medoid").fit(public=PUBLIC)
    unknown = mechanism.output_distribution(Record("0", "x", label=missing))
    assert list(unknown.values()) == pytest.approx([0.25] * 4)
    for label in LABELS:
        known = mechanism.output_distribution(Record("0", "x", label=label))
        assert max(abs(math.log(known[key] / unknown[key])) for key in known) <= epsilon


# ------------------------------------------------------------------------------------------- distribution


def test_probabilities_are_those_of_randomized_response_and_a_uniform_text():
    mechanism = RANDOM.fit(public=PUBLIC)
    found = mechanism.output_distribution(Record("0", "x", label="money"))
    assert sum(found.values()) == pytest.approx(1)
    counts = {label: Counter(r.text for r in PUBLIC if r.label == label) for label in LABELS}
    for label in LABELS:
        chance = math.exp(2.0 * (label == "money")) / (math.exp(2.0) + 3)
        for text, count in counts[label].items():
            assert found[f"{label}\x1f{text}"] == pytest.approx(chance * count / counts[label].total(), rel=1e-9)
    assert len(found) == sum(map(len, counts.values()))


@pytest.mark.slow_cases("spec1", why="random texts stay")
@pytest.mark.slow_cases("None", why="texts with a label stay")
@pytest.mark.parametrize("label", ["money", None])
@pytest.mark.parametrize("spec", [RANDOM, MEDOID])
def test_frequencies_are_the_declared_ones(spec, label):
    mechanism, record = spec.fit(public=PUBLIC), Record("0", "x", label=label)
    assert distribution_p_value(mechanism.output_distribution(record), outputs(mechanism, record)) > 1e-3


@pytest.mark.slow  # test_a_leak_of_missing_labels_is_rejected and a larger epsilon that is counted stay
@pytest.mark.parametrize("factor", [2 / 3, pytest.param(3 / 2, marks=pytest.mark.slow)])  # the other side stays
def test_probabilities_of_another_epsilon_are_rejected(factor):
    record = Record("0", "x", label="money")
    declared = RANDOM.fit(public=PUBLIC).output_distribution(record)
    planted = replace(RANDOM, epsilon=2.0 * factor).fit(public=PUBLIC)
    assert distribution_p_value(declared, outputs(planted, record)) < SIGNIFICANT


def test_a_larger_epsilon_is_refuted_by_counting():
    record = Record("0", "x", label="money")
    report = audits.distinguish(
        replace(RANDOM, epsilon=6.0, text="medoid").fit(public=PUBLIC),
        record,
        Record("0", "x", label="health"),
        claim=RANDOM.guarantee(),
        trials=800,
        randomness=seeded(1),
    )
    assert report.refutes(RANDOM.guarantee())


def test_a_leak_of_missing_labels_is_rejected():
    mechanism = MEDOID.fit(public=PUBLIC)
    declared = mechanism.output_distribution(Record("0", "x"))
    assert distribution_p_value(declared, outputs(mechanism, Record("0", "x", label="money"))) < SIGNIFICANT


def test_texts_of_a_label_are_uniform_and_duplicates_count():
    public = [Record(str(i), text, label="a") for i, text in enumerate("sttu")] + [Record("9", "z", label="b")]
    mechanism = LabelOnly(("a", "b"), 1.0).fit(public=public)
    texts = Counter(r.output for r in mechanism.privatize([Record("0", "", "a")] * 2000, seeded(5)) if r.label == "a")
    total = texts.total()
    expected = {"s": total / 4, "t": total / 2, "u": total / 4}
    chi = sum((texts[text] - expected[text]) ** 2 / expected[text] for text in expected)
    assert set(texts) == set(expected)
    assert chi < 13.8  # 2 degrees of freedom, 0.001
    flat = sum((texts[text] - total / 3) ** 2 / (total / 3) for text in expected)
    assert flat > 30  # a sampler that drew each distinct text equally often would be told from this


def test_secure_runs_have_the_same_frequencies():
    mechanism = MEDOID.fit(public=PUBLIC)
    releases = mechanism.privatize([Record("0", "x", label="leisure")] * 6000, secure())
    kept = sum(release.label == "leisure" for release in releases) / 6000
    assert kept == pytest.approx(math.exp(2) / (math.exp(2) + 3), abs=0.03)


def test_releases_keep_ids_and_declared_fields():
    records = [Record("a", "x", label="money", kept={"day": 3}), Record("b", "y")]
    first, second = RANDOM.fit(public=PUBLIC).privatize(records, seeded(0))
    assert (first.id, second.id, first.kept, second.kept) == ("a", "b", {"day": 3}, {})
    assert first.label in LABELS
    assert second.label in LABELS


# ------------------------------------------------------------------------------------------------- medoid


def naive_similarities(texts):
    documents = [Counter(token.lower() for line in tokenize(text) for token in line) for text in texts]
    n = len(texts)
    rows = []
    for document in documents:
        row = {
            token: count * (math.log((1 + n) / (1 + sum(token in other for other in documents))) + 1)
            for token, count in document.items()
        }
        norm = math.sqrt(sum(value**2 for value in row.values())) or 1.0
        rows.append({token: value / norm for token, value in row.items()})
    return [[sum(a[token] * b.get(token, 0.0) for token in a) for b in rows] for a in rows]


def test_medoids_are_the_naive_ones():
    found = MEDOID.fit(public=PUBLIC)
    similar = naive_similarities([r.text for r in PUBLIC])
    for label in LABELS:
        here = [i for i, r in enumerate(PUBLIC) if r.label == label]
        means = [sum(similar[i][j] for j in here) / len(here) for i in here]
        best = PUBLIC[here[int(np.argmax(means))]].text
        assert found.output_distribution(Record("0", "", label=label))[f"{label}\x1f{best}"] > 0.7


def test_tfidf_rows_have_norm_one_but_for_empty_texts():
    texts = ["A a b.", "", "b c", "a a a"]
    rows = tfidf_of(texts)(texts).toarray()
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1, 1])
    np.testing.assert_allclose(rows @ rows.T, naive_similarities(["A a b.", "", "b c", "a a a"]), atol=1e-12)
    assert tfidf_of([""])([""]).shape == (1, 1)


def test_the_first_of_equals_is_the_medoid():
    assert medoid(np.eye(5)) == 0
    assert medoid(np.array([[1.0, 0], [0.8, 0.6], [0, 1.0]])) == 1
    texts = ["x y", "a b", "a b", "a b c"]
    assert medoid(tfidf_of(texts)(texts)) == 1


def test_medoids_by_a_sentence_encoder(monkeypatch):
    def embed(texts):  # only how long a text is matters to this encoder
        angles = np.array([len(text) / 100 for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    fake = SimpleNamespace(embed=embed)
    monkeypatch.setattr("dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda *_, **__: fake)
    public = [Record(str(i), "q" * size, "a") for i, size in enumerate((1, 90, 44))] + [Record("z", "z", "b")]
    mechanism = LabelOnly(("a", "b"), 9.0, text="medoid", embedder="sentence").fit(public=public)
    assert "a\x1f" + "q" * 44 in mechanism.output_distribution(Record("0", ""))


# -------------------------------------------------------------------------------------- settings and files


def test_settings_survive_json():
    for spec in (*LabelOnly.tiny(), LabelOnly(("x", "y"), 0.5, text="medoid", embedder="sentence")):
        values = json.loads(json.dumps(settings(spec)))
        assert values.pop("kind") == "label_only"
        again = TypeAdapter(LabelOnly).validate_python(values)
        assert again == spec
        assert isinstance(again.labels, tuple)
        assert hash(again) == hash(spec)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"labels": "ab"}, "give a list"),
        ({"labels": ("a",)}, "at least two"),
        ({"labels": ("a", "a")}, "named once"),
        ({"labels": ("a", "")}, "not empty"),
        ({"labels": ("a", "b\x1fc")}, "control"),
        ({"labels": ("a", "\ud800")}, "control"),
        ({"labels": ("a", 3)}, "to be texts"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"text": "best"}, "text"),
        ({"embedder": "glove"}, "embedder"),
    ],
)
def test_wrong_settings_are_refused(wrong, match):
    with pytest.raises(ConfigError, match=match):
        LabelOnly(**{"labels": ("a", "b"), **wrong})


def test_a_label_without_public_text_is_named():
    public = [Record("0", "hidden words", label="health"), Record("1", "hidden words", label="elsewhere")]
    with pytest.raises(ConfigError, match="label 'travel'") as caught:
        RANDOM.fit(public=public)
    assert "hidden" not in str(caught.value)
    assert "elsewhere" not in str(caught.value)
    with pytest.raises(DataError, match="record 1"):
        RANDOM.fit(public=[Record("0", "\ud800", label="health")])


def test_saved_models_are_checked(tmp_path: Path):
    mechanism = RANDOM.fit(public=PUBLIC)
    mechanism.save(tmp_path)
    assert RANDOM.load(tmp_path).digests == mechanism.digests
    assert RANDOM.fit(public=PUBLIC[:-1]).digests != mechanism.digests
    with pytest.raises(ConfigError):
        mechanism.save(tmp_path)
    with pytest.raises(ConfigError, match="one text a label"):
        MEDOID.load(tmp_path)
    with pytest.raises(ConfigError, match="of no others"):
        replace(RANDOM, labels=LABELS[::-1]).load(tmp_path)
    with pytest.raises(ConfigError, match="Cannot read"):
        RANDOM.load(tmp_path / "absent")
    whole = (tmp_path / "texts.json").read_bytes()
    for broken in (whole[:-9], b"[]", b'{"labels": [1, 2], "texts": [["a"], ["b"]]}', b'{"labels": [], "texts": []}'):
        (tmp_path / "texts.json").write_bytes(broken)
        with pytest.raises(ConfigError, match="Fit and save the model again"):
            RANDOM.load(tmp_path)
    (tmp_path / "texts.json").write_text(json.dumps({"labels": LABELS, "texts": [["a"], [], ["b"], ["c"]]}))
    with pytest.raises(ConfigError, match="of no others"):
        RANDOM.load(tmp_path)


@pytest.mark.parametrize("given", [(), ("one",)])
def test_a_label_set_that_is_missing_says_what_to_do(given: tuple[str, ...]) -> None:
    remedy = r'Name the public set, as in labels=\["bad", "good"\]'
    with pytest.raises(ConfigError, match=f"at least two, each named once. {remedy}.$"):
        LabelOnly(given)
    with pytest.raises(ConfigError, match=f"{remedy}, or take votes"):
        dp.Prototypes(epsilon=2.0, delta=1e-6, labels=given)
    with pytest.raises(ConfigError, match=f"{remedy}, or set label_share=0"):
        dp.Candidates(4.0, labels=given, label_share=0.5)
    with pytest.raises(ConfigError, match="Name the public set"):
        LabelResponse(1.0, given)


def test_no_labels_for_a_weight_of_labels_say_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"found none\. Name the public set"):
        dp.Candidates(4.0, label_weight=1.0)


@pytest.mark.parametrize(
    ("given", "remedy"), [({}, "--set labels=VALUE"), ({"labels": "a"}, r'labels=\["bad", "good"\]')]
)
def test_settings_that_are_read_say_what_to_give(given: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        spec_from_settings({"kind": "label_only", **given})
