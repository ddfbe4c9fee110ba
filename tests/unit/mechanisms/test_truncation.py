"""`Truncation`: its box, its sensitivity, the scale of its noise, and faults planted in each."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import kstest, laplace

from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import HasLatent, settings
from dptext.mechanisms.sentences.truncation import PUBLIC_BOX, SCALE, Box, Truncation, TruncationMechanism
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.randomness import secure, seeded
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.text.tokens import SENTENCE_COUNT, sentences

DIM = 6
NOUNS = ("jazz", "chess", "sushi", "asthma", "Oslo", "rent", "Maria", "a ferry")


class Hashed:
    """A sentence encoder for tests: a random unit vector for each sentence, the last coordinate the same for all."""

    name, dim, digest = "hashed", DIM, "cd" * 32

    def embed(self, texts):
        rows = {}
        for text in set(texts):
            row = np.random.default_rng(crc32(text.encode("utf-8", "replace"))).normal(size=self.dim)
            rows[text] = np.rint(row / np.linalg.norm(row) * 1024) / 1024
            rows[text][-1] = 0.25
        return np.array([rows[text] for text in texts]).reshape(-1, self.dim)


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    found = Hashed()
    monkeypatch.setattr("dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda *_, **__: found)
    return found


@pytest.fixture
def few_common(monkeypatch):
    monkeypatch.setattr("dptext.mechanisms.sentences.truncation.common_words", lambda: ["doctor", "zebra"])


def document(*numbers: int) -> Record:
    """A document with a sentence for each number."""
    text = " ".join(f"The {i}. of them likes {NOUNS[i % len(NOUNS)]} a lot." for i in numbers)
    text = text.replace(". of", " of")
    assert len(sentences(text)) == len(numbers)
    return Record("0", text)


PUBLIC = [document(*range(3 * i, 3 * i + 1 + i % 5)) for i in range(60)]


def fitted(epsilon: float = 2.0, **changes) -> TruncationMechanism:
    return Truncation(epsilon, **changes).fit(public=PUBLIC)


# ------------------------------------------------------------------------------------------------ contract


@pytest.mark.slow  # tests/contract/test_mechanisms.py has these checks with another encoder
def test_contract_of_the_hashed_encoder():
    names = [name for name in CHECKS if name not in ("distribution", "guarantee")]
    mechanism = fitted()
    assert isinstance(mechanism, HasLatent)
    assert check_mechanism(mechanism, PUBLIC[:5], checks=names) == tuple(names)


@pytest.mark.slow  # the hashed encoder stays; test_distilled_words.py has what distils
def test_contract_of_a_distilled_encoder(few_common):
    names = [name for name in CHECKS if name not in ("distribution", "guarantee")]
    assert check_mechanism(fitted(encoder="distilled"), PUBLIC[:5], checks=names) == tuple(names)


@pytest.mark.slow
def test_contract_of_words(monkeypatch):
    monkeypatch.undo()
    mechanism = Truncation.tiny()[0].fit(public=sample_records(60))
    assert check_mechanism(mechanism, sample_records(5)) == tuple(CHECKS)


@pytest.mark.slow
def test_contract_of_a_sentence_encoder(monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.undo()
    names = [name for name in CHECKS if name != "distribution"]  # thousands of small batches: minutes
    assert check_mechanism(Truncation(2.0).fit(public=sample_records(60)), checks=names) == tuple(names)


# ----------------------------------------------------------------------------------------------- guarantee


def test_the_guarantee_is_of_a_sentence_and_reveals_their_number():
    spec = Truncation(3.0)
    found = spec.guarantee()
    assert (found.epsilon, found.delta, found.unit) == (3.0, 0.0, Unit.SENTENCE)
    assert (found.relation, found.basis, found.reveals) == (Relation.REPLACE_ONE, Basis.CONDITIONAL, (SENTENCE_COUNT,))
    assert found.assumptions == (PUBLIC_BOX,)
    assert len(replace(spec, device="cuda").guarantee().assumptions) == 2
    assert replace(spec, encoder="glove").guarantee().assumptions == (PUBLIC_BOX,)
    assert replace(spec, encoder="distilled", device="cuda").guarantee().assumptions == (PUBLIC_BOX,)
    assert spec.released[0] == PureEvent(3.0)
    assert spec.events(Unit.SENTENCE) == spec.released
    assert spec.units == (Unit.SENTENCE,)
    for unit in (Unit.TOKEN, Unit.DOCUMENT, Unit.AUTHOR):
        with pytest.raises(IncomparableError, match="unit sentence"):
            spec.guarantee(unit)
        with pytest.raises(IncomparableError, match="unit sentence"):
            spec.calibrate(1.0, unit=unit)


@pytest.mark.parametrize("epsilon", [0.1, 3.7, 30.0])
def test_calibrate_is_exact(epsilon):
    assert Truncation(1.0).calibrate(epsilon).guarantee().epsilon == epsilon
    with_delta = Truncation(1.0).calibrate(epsilon, delta=1e-3)
    assert with_delta.epsilon >= epsilon
    assert 0.999 * epsilon < with_delta.guarantee(delta=1e-3).epsilon <= epsilon


@pytest.mark.parametrize("dim", [1, 6, 50, 384, 768, 1000])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1 / 3, 2.0, 10.0, 30.0, 1e6])
def test_the_steps_are_as_many_as_epsilon_allows(epsilon, dim):
    steps = Truncation(epsilon).steps(dim)
    budget = Fraction(epsilon) * SCALE
    assert steps % 2 == 0
    assert steps * dim <= budget < (steps + 2) * dim
    assert SCALE / steps == pytest.approx(dim / epsilon, rel=2 * dim / float(budget) + 1e-12)  # the paper's scale


def largest_log_ratio(mechanism, box, steps, documents) -> float:
    """Of any output, over pairs of documents of which one sentence differs: their distance over the scale."""
    worst = 0.0
    for first, second in documents:
        one, other = (box.truncated(embeddings, steps).sum(axis=0) for embeddings in (first, second))
        far = np.where(one > other, 1.0, -1.0) * 1e9  # where the ratio is the largest
        released = np.stack([one + far, one + far])
        densities = mechanism.log_density(released, np.stack([one, other]))
        assert densities[0] - densities[1] == pytest.approx(np.abs(one - other).sum() / SCALE, abs=1e-3)
        worst = max(worst, float(np.abs(one - other).sum() / SCALE))
    return worst


def neighbours(n=1500):
    """Embeddings of 1 to 20 sentences, in every direction and at every length, and the same with another sentence."""
    source = np.random.default_rng(0)
    for i in range(n):
        k = int(source.integers(1, 21))
        first = source.normal(size=(k, DIM)) * 10.0 ** source.integers(-2, 3)
        first = np.rint(first * 4) / 4 if i % 2 else first  # with ties and middles
        second = first.copy()
        second[source.integers(k)] = -first[0] if i % 3 else source.normal(size=DIM)
        yield first, second
    yield np.full((2, DIM), 1e9), np.array([[1e9] * DIM, [-1e9] * DIM])


class Uncut(Box):
    """The planted fault: embeddings are not cut."""

    __slots__ = ()

    def truncated(self, embeddings, steps):
        return np.rint((embeddings - (self.low + self.high) / 2) / np.maximum(self.high - self.low, 1e-3) * steps)


class RoundedOut(Box):
    """The planted fault: cut first, then rounded outwards."""

    __slots__ = ()

    def truncated(self, embeddings, steps):
        width = np.maximum(self.high - self.low, 1e-3)
        cut = (np.clip(embeddings, self.low, self.high) - self.low) / width * steps
        return np.ceil(cut) + (cut > 0)


@pytest.mark.slow_cases("0.1", "2.0", why="epsilon 30 stays")
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 30.0])
def test_one_sentence_is_worth_epsilon_and_no_more(epsilon):
    mechanism = fitted(epsilon)
    pairs = list(neighbours())
    steps = mechanism.spec.steps(DIM)
    sound = largest_log_ratio(mechanism, mechanism.box, steps, pairs)
    # the last coordinate is the same for all public text, so that the box has no width there
    assert sound == pytest.approx(epsilon * (DIM - 1) / DIM, rel=1e-2)
    assert sound <= epsilon
    wide = Box(np.full(DIM, -1.0), np.linspace(1, 2, DIM))
    assert largest_log_ratio(mechanism, wide, steps, pairs) == pytest.approx(epsilon, rel=1e-2)
    assert largest_log_ratio(mechanism, wide, steps, pairs) <= epsilon
    # planted faults
    assert largest_log_ratio(mechanism, Uncut(wide.low, wide.high), steps, pairs[:500]) > 2 * epsilon
    assert largest_log_ratio(mechanism, RoundedOut(wide.low, wide.high), steps + 2, pairs[-1:]) > epsilon
    assert largest_log_ratio(mechanism, wide, Truncation(epsilon).steps(DIM - 1), pairs[-1:]) > epsilon


def test_what_is_not_finite_is_read_as_zero():
    box = Box(np.full(3, -1.0), np.array([1.0, 3.0, -1.0]))
    rows = np.array([[np.nan, 0, 0], [np.inf, 1, 1], [0.0, 0, 0], [0.5, 99, 7]])
    found = box.truncated(rows, 100)
    assert (found[0] == found[2]).all()
    assert (found[1] == found[2]).all()
    assert found[2].tolist() == [0.0, -25.0, 0.0]
    assert found[3].tolist() == [25.0, 50.0, 0.0]


# --------------------------------------------------------------------------------------------------- noise


def residuals(mechanism, record, runs):
    """Errors of released means in units of the scale that the paper gives, coordinates with a width."""
    texts = sentences(record.text)
    width = mechanism.box.high - mechanism.box.low
    cut = np.clip(mechanism._encoder.embed(texts), mechanism.box.low, mechanism.box.high)
    released = np.array([r.vector for r in mechanism.privatize([record] * runs, secure())])
    scale = DIM * width / (len(texts) * mechanism.spec.epsilon)
    return ((released - cut.mean(axis=0)) / np.where(width > 0, scale, 1.0))[:, width > 0]


@pytest.mark.slow_cases("10.0-1", "10.0-3", why="epsilon 0.5 stays")
@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 7), (10.0, 1), (10.0, 3)])
def test_the_noise_has_the_scale_of_the_paper(epsilon, k):
    mechanism = fitted(epsilon)
    errors = residuals(mechanism, document(*range(k)), 2000)
    assert errors.shape == (2000, DIM - 1)
    for coordinate in errors.T:
        assert kstest(coordinate, laplace.cdf).pvalue > 1e-6
    assert kstest(errors.ravel(), laplace.cdf).pvalue > 1e-6
    for factor in (2 / 3, 3 / 2):
        assert kstest(errors.ravel() * factor, laplace.cdf).pvalue < 1e-9
        assert all(kstest(coordinate * factor, laplace.cdf).pvalue < 1e-6 for coordinate in errors.T)
    assert np.abs(np.corrcoef(errors.T) - np.eye(DIM - 1)).max() < 0.1  # each coordinate has noise of its own


def test_noise_of_another_number_of_sentences_is_told_apart():
    mechanism = fitted(10.0)
    errors = residuals(mechanism, document(*range(3)), 1500)
    assert kstest(errors.ravel() * 3 / 4, laplace.cdf).pvalue < 1e-9


def test_a_release_is_a_latent_with_noise_put_in_its_place():
    mechanism, records = fitted(), [document(1, 2, 3), Record("e", ""), document(4)]
    latents = mechanism.latent(records)
    assert (latents == np.rint(latents)).all()
    noisy = mechanism.release(latents, seeded(1))
    assert (noisy == np.rint(noisy)).all()
    steps, box = mechanism.spec.steps(DIM), mechanism.box
    for record, sums, k in zip(mechanism.privatize(records, seeded(1)), noisy, (3, 1, 1), strict=True):
        middle, width = (box.low + box.high) / 2, box.high - box.low
        np.testing.assert_allclose(record.vector, middle + width * sums / (steps * k), rtol=1e-12, atol=1e-12)
        assert (record.output, record.label) == ("", None)
    truth = mechanism.box.truncated(mechanism._encoder.embed(sentences(records[0].text)), steps).sum(axis=0)
    assert (latents[0] == truth).all()
    # the density of noise that is an integer on each coordinate
    difference = mechanism.log_density(noisy, latents) - mechanism.log_density(latents, latents)
    np.testing.assert_allclose(difference, -np.abs(noisy - latents).sum(axis=1) / SCALE)
    assert mechanism.log_density(latents, latents)[0] == pytest.approx(-DIM * math.log(2 * SCALE), rel=1e-9)


def test_a_document_without_a_sentence_releases_the_middle_with_the_noise_of_one():
    mechanism = fitted(10.0)
    width = mechanism.box.high - mechanism.box.low
    for text in ("", " \n\n\t"):
        assert not mechanism.latent([Record("0", text)]).any()
        released = np.array([r.vector for r in mechanism.privatize([Record("0", text)] * 800, secure())])
        middle = (mechanism.box.low + mechanism.box.high) / 2
        errors = (released - middle)[:, :-1] / (DIM * width[:-1] / 10.0)
        assert kstest(errors.ravel(), laplace.cdf).pvalue > 1e-6


def test_five_thousand_sentences():
    mechanism = fitted(10.0)
    record = document(*range(5000))
    (release,) = mechanism.privatize([record], secure())
    cut = np.clip(mechanism._encoder.embed(sentences(record.text)), mechanism.box.low, mechanism.box.high).mean(axis=0)
    np.testing.assert_allclose(release.vector, cut, atol=0.02)  # 5,000 times less noise


def test_latents_do_not_depend_on_the_batch():
    mechanism = fitted()
    records = [*PUBLIC, Record("e", ""), *(document(i) for i in range(300))]
    whole = mechanism.latent(records)
    for size in (1, 7, 256):
        parts = [mechanism.latent(records[i : i + size]) for i in range(0, len(records), size)]
        assert (np.concatenate(parts) == whole).all()


# --------------------------------------------------------------------------------------------------- the box


@pytest.mark.parametrize("central", [0.1, 0.75, 0.9])
def test_the_box_holds_the_central_share_of_the_means_of_public_documents(encoder, central):
    mechanism = fitted(central=central)
    means = np.stack([encoder.embed(sentences(r.text)).mean(axis=0) for r in PUBLIC])
    low, high = mechanism.box.low, mechanism.box.high
    inside = ((means >= low) & (means <= high)).mean(axis=0)
    assert np.abs(inside[:-1] - central).max() < 0.05
    assert np.abs((means < low).mean(axis=0) - (means > high).mean(axis=0)).max() < 0.05
    assert low[-1] == high[-1] == 0.25
    empty = [Record("e", ""), Record("f", " \n")]  # these have no mean
    again = Truncation(2.0, central=central).fit(public=[*empty, *PUBLIC])
    assert (again.box.low == low).all()


def test_a_coordinate_in_which_public_text_does_not_differ_is_public():
    mechanism = fitted()
    vectors = [r.vector for r in mechanism.privatize(PUBLIC, secure())]
    assert {vector[-1] for vector in vectors} == {0.25}
    assert all(len(vector) == DIM and np.isfinite(vector).all() for vector in vectors)


# -------------------------------------------------------------------------------------- settings and files


def test_settings_survive_json():
    for spec in (*Truncation.tiny(), Truncation(0.5, central=0.5, device="cuda")):
        values = json.loads(json.dumps(settings(spec)))
        assert values.pop("kind") == "truncation"
        assert values["output"] == "embedding"
        again = TypeAdapter(Truncation).validate_python(values)
        assert again == spec
        assert hash(again) == hash(spec)


@pytest.mark.parametrize("name", ["sentence", "distilled"])
def test_the_precision_reaches_the_encoder_and_changes_no_guarantee(
    name, encoder, few_common, monkeypatch, tmp_path: Path
):
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(
        "dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda _, **how: asked.append(how) or encoder
    )
    for precision in ("auto", "int8"):
        spec = Truncation(2.0, encoder=name, precision=precision)
        assert spec.guarantee() == Truncation(2.0, encoder=name).guarantee()
        (folder := tmp_path / precision).mkdir()
        spec.fit(public=PUBLIC).save(folder)
        spec.load(folder)
        loads = 1 if name == "distilled" else 2  # what was distilled is saved
        assert asked == [{"device": "cpu", "precision": precision}] * loads
        asked.clear()
    earlier = {key: value for key, value in settings(Truncation(2.0)).items() if key not in ("kind", "precision")}
    assert TypeAdapter(Truncation).validate_python(earlier).precision == "auto"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e7}, "epsilon"),
        ({"precision": "int4"}, "precision"),
        ({"central": 0.0}, "central"),
        ({"central": 1.0}, "central=1.0 < 1"),
        ({"encoder": "words"}, "encoder"),
        ({"output": "text"}, "no text belongs"),
    ],
)
def test_wrong_settings_are_refused(wrong, match):
    with pytest.raises(ConfigError, match=match):
        Truncation(**{"epsilon": 1.0, **wrong})


def test_too_little_public_text_or_epsilon_is_refused():
    for public in ([], [Record("0", "")], [document(1)], [document(1), Record("0", " ")]):
        with pytest.raises(ConfigError, match=r"at least 2 .* with a sentence"):
            Truncation(1.0).fit(public=public)
    with pytest.raises(ConfigError, match=r"epsilon=1e-06 >= 1\.14e-05 for 6 coordinates"):
        Truncation(1e-6).fit(public=PUBLIC)


def test_a_distilled_encoder_is_saved_with_the_box(few_common, monkeypatch, tmp_path: Path):
    mechanism = fitted(encoder="distilled")
    mechanism.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["box.json", "distilled.json", "distilled.npy"]
    monkeypatch.delattr("dptext.embeddings.sentence_encoder.load_sentence_encoder")
    loaded = mechanism.spec.load(tmp_path)
    assert loaded.digests == mechanism.digests
    assert loaded.privatize(PUBLIC, seeded(1)) == mechanism.privatize(PUBLIC, seeded(1))
    path = tmp_path / "distilled.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ConfigError, match="cut short or edited"):
        mechanism.spec.load(tmp_path)


def test_saved_models_give_the_same_and_edited_ones_are_refused(encoder, tmp_path: Path):
    mechanism = fitted()
    mechanism.privatize([Record("0", "zqcanary is private.")], secure())
    mechanism.save(tmp_path)
    path = tmp_path / "box.json"
    assert [file.name for file in tmp_path.iterdir()] == ["box.json"]
    assert path.stat().st_mode & 0o077 == 0
    whole = path.read_bytes()
    assert b"zqcanary" not in whole
    loaded = mechanism.spec.load(tmp_path)
    assert loaded.digests == mechanism.digests
    assert loaded.privatize(PUBLIC, seeded(1)) == mechanism.privatize(PUBLIC, seeded(1))
    assert fitted(central=0.5).digests != mechanism.digests
    with pytest.raises(ConfigError):
        mechanism.save(tmp_path)
    with pytest.raises(ConfigError, match="epsilon"):
        replace(mechanism.spec, epsilon=1e-6).load(tmp_path)
    values = json.loads(whole)
    edits = [
        {"low": values["high"], "high": values["low"]},
        {"low": values["low"][:-1]},
        {"high": [math.inf] * DIM},
        {"low": [math.nan] * DIM},
        {"low": None},
        {"high": "high"},
        {"trained_on": 3},
        {"encoder": "00" * 32},
    ]
    for broken in (whole[:-5], b"", b"[]", b"{}", b"[" * 100_000, *(json.dumps(values | e).encode() for e in edits)):
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="cut short or edited"):
            mechanism.spec.load(tmp_path)
    with pytest.raises(ConfigError, match="Cannot read"):
        mechanism.spec.load(tmp_path / "absent")
