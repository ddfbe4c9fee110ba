"""Candidates from a pool of its own, such as a codebook, and candidates ranked by the latents of an auto-encoder."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from dptext.errors import ConfigError, DataError
from dptext.mechanisms.candidates.candidates import Candidates, CandidatesMechanism
from dptext.privacy.guarantee import PUBLIC_CANDIDATES
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record, records_digest
from dptext.text.samples import sample_records
from dptext_lab.adept.net.model import checksum
from dptext_lab.adept.ranker import PUBLIC_AUTOENCODER, RANKED_IN_BATCHES
from dptext_lab.adept.sound import Adept

LABELS = ("health", "travel", "money", "leisure")
PUBLIC = sample_records(60)
QUICK = [name for name in CHECKS if name not in ("order", "files", "distribution", "guarantee")]


def texts(n: int) -> list[Record]:
    odd = ["", " \n", "zqxv", "the the the", "!?", "send 40 dollars " * 50, "\ud800 jazz"]
    found = [Record(f"o{i}", text, label=("money", None, "unheard of")[i % 3]) for i, text in enumerate(odd)]
    return [*sample_records(n, seed=9), *found]


def largest_log_ratio(mechanism, records) -> float:
    """Over all pairs of records and all outputs."""
    rows = [mechanism.output_distribution(record) for record in records]
    table = np.array([[row[key] for key in rows[0]] for row in rows])
    table = np.log(table[:, table.any(axis=0)])  # some are never chosen, whatever the record
    return float((table.max(axis=0) - table.min(axis=0)).max())


# --------------------------------------------------------------------------------------------- pools of others


POOL = [Record(str(i), f"{r.text} now", label=r.label) for i, r in enumerate(sample_records(30, seed=12))]


def test_candidates_come_from_the_pool_alone():
    spec = Candidates(2.0, LABELS, ranker="tfidf", label_weight=1.0)
    mechanism = spec.fit(public=PUBLIC, pool=POOL, seed=0)
    assert sorted(mechanism.pool.texts) == sorted({record.text for record in POOL})
    assert mechanism.digests["pool"] == records_digest(POOL)
    assert mechanism.digests["public"] == records_digest(PUBLIC)
    assert "pool" not in spec.fit(public=PUBLIC, seed=0).digests
    other = spec.fit(public=PUBLIC[:30], pool=POOL, seed=0)
    assert other.pool.texts == mechanism.pool.texts
    assert other.digests["public"] != mechanism.digests["public"]
    assert largest_log_ratio(mechanism, texts(60)) == pytest.approx(2.0, rel=1e-9)
    for selection in ("envelope", "top_k"):  # tuned on the candidates
        tuned = replace(spec, selection=selection)
        alone, same = tuned.fit(pool=POOL, seed=0).pool, tuned.fit(public=POOL, seed=0).pool
        assert (alone.k, alone.least, alone.total) == (same.k, same.least, same.total)


@pytest.mark.parametrize("near", [True, False])
def test_public_text_tunes_a_pool(near):
    """The k with the largest expected cosine of public texts; one that is a candidate does not count for itself."""
    public = [Record("0", f"{record.text} please") for record in POOL] if near else POOL
    mechanism = Candidates(2.0, ranker="tfidf", selection="top_k").fit(public=public, pool=POOL, seed=0)
    cosines = mechanism.scores(public).astype(int)
    own = np.array([record.text for record in public])[:, None] == np.array(mechanism.pool.texts)
    assert own.any() != near
    gains = np.where(own, 0, cosines)
    ranked = np.where(own, -30_000, cosines)
    size = len(mechanism.pool.texts)
    expected = {
        k: float((TopKRandomizedResponse(2.0, k, size).distribution(ranked) * gains).sum())
        for k in {min(size - 1, round(1.25**i)) for i in range(30)}
    }
    assert expected[mechanism.pool.k] == pytest.approx(max(expected.values()), rel=1e-9)
    assert mechanism.pool.k == (2 if near else 3)


def test_a_pool_that_does_not_do_is_refused():
    spec = Candidates(2.0, LABELS, ranker="tfidf")
    for pool, match in (
        ([], "at least 2"),
        ([Record("0", "hidden", "elsewhere")], "every pool record"),
        ([*POOL, Record("0", "\ud800", "money")], "record 31"),
    ):
        with pytest.raises((ConfigError, DataError), match=match) as caught:
            spec.fit(public=PUBLIC, pool=pool)
        assert "hidden" not in str(caught.value)


def test_a_saved_pool_is_the_same(tmp_path: Path):
    mechanism = Candidates(2.0, LABELS, ranker="tfidf").fit(public=PUBLIC, pool=POOL, seed=0)
    mechanism.save(tmp_path)
    assert mechanism.spec.load(tmp_path).digests == mechanism.digests


# ------------------------------------------------------------------------------------------ an auto-encoder of ADePT


@pytest.fixture(scope="module", params=["codebook", "privunit"])
def autoencoder(request, tmp_path_factory):
    """An ADePT of public text with labels, and the folder where it was saved."""
    pytest.importorskip("torch")
    spec = replace(Adept.tiny()[0], noise=request.param, max_tokens=12)
    mechanism = spec.fit(public=PUBLIC, seed=0)
    folder = tmp_path_factory.mktemp("models") / "adept"
    save_model(mechanism, folder)
    return mechanism, folder


@pytest.mark.slow_cases("privunit", why="the codebook stays")
def test_clipped_latents_rank(autoencoder, tmp_path: Path):
    adept, folder = autoencoder
    spec = Candidates(2.0, LABELS, "adept", ranker_model=str(folder), label_weight=0.5)
    assert spec.guarantee().assumptions == (PUBLIC_CANDIDATES, PUBLIC_AUTOENCODER)
    assert replace(spec, device="cuda").guarantee().assumptions == (PUBLIC_CANDIDATES, RANKED_IN_BATCHES)
    mechanism = spec.fit(public=PUBLIC, seed=0)
    assert mechanism.digests["auto-encoder: model"] == adept.model.digest
    assert mechanism.digests["auto-encoder: training text"] == records_digest(PUBLIC)
    known = [Record("0", record.text) for record in texts(30) if record.text != "\ud800 jazz"]
    plain = CandidatesMechanism(replace(spec, label_weight=0.0), mechanism.pool, mechanism._ranker)
    candidates, asked = (
        adept.model.latents([Record("0", record.text) for record in found])
        for found in ([Record("0", text) for text in mechanism.pool.texts], known)
    )
    centre = candidates.mean(axis=0)
    left, right = (found - centre for found in (asked, candidates))
    cosines = left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)
    np.testing.assert_allclose(plain.scores(known) / 4096, cosines, atol=4e-3)
    named = [Record("0", record.text, label="money") for record in known]
    assert (plain.scores(named) == plain.scores(known)).all()  # the encoder sees no label
    assert largest_log_ratio(mechanism, texts(60)) == pytest.approx(2.0, rel=1e-9)
    assert check_mechanism(mechanism, sample_records(5, seed=1), checks=QUICK) == tuple(QUICK)


@pytest.mark.slow_cases("distilled", why="test_distilled_words.py asks this of each row; another encoder stays")
@pytest.mark.parametrize("encoder", ["lstm", "distilled", pytest.param("sentence", marks=pytest.mark.slow)])
def test_a_text_is_ranked_alike_at_every_place_and_in_any_company(encoder: str, tmp_path: Path):
    """Bit for bit, of every auto-encoder that may lie in the folder: the certificate assumes nothing of it."""
    save_model(replace(Adept.tiny()[0], encoder=encoder).fit(public=PUBLIC, seed=0), tmp_path / "adept")
    ranker = Candidates(2.0, ranker="adept", ranker_model=str(tmp_path / "adept")).fit(public=PUBLIC, seed=0)._ranker
    asked = [record.text for record in texts(60)]
    alone = np.concatenate([ranker.read([text]) for text in asked])
    assert len(np.unique(alone, axis=0)) > 20
    for shift in range(9):  # every place of a tile
        assert np.array_equal(ranker.read(asked[shift:]), alone[shift:])
        assert np.array_equal(ranker.read(["x " * 40 * shift, *asked[::-1]])[:0:-1], alone)


def test_the_saved_candidates_keep_the_auto_encoder(autoencoder, tmp_path: Path):
    _, folder = autoencoder
    elsewhere = tmp_path / "adept"
    shutil.copytree(folder, elsewhere)
    mechanism = Candidates(2.0, ranker="adept", ranker_model=str(elsewhere)).fit(public=PUBLIC, seed=0)
    save_model(mechanism, tmp_path / "model")
    shutil.rmtree(elsewhere)
    again = load_model(tmp_path / "model")
    assert again.digests == mechanism.digests
    assert again.privatize(texts(30), seeded(1)) == mechanism.privatize(texts(30), seeded(1))
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(ConfigError, match="cut short or edited"):
        mechanism.spec.load(tmp_path / "model")
    with pytest.raises(ConfigError, match="Cannot read the auto-encoder"):
        mechanism.spec.fit(public=PUBLIC)


def test_folders_that_hold_no_public_auto_encoder_are_refused(autoencoder, tmp_path: Path):
    _, folder = autoencoder
    spec = Candidates(2.0, ranker="adept", ranker_model=str(tmp_path))
    path = tmp_path / "autoencoder.json"
    saved = (folder / path.name).read_bytes()
    whole = json.loads(saved)
    del whole["checksum"]
    shutil.copy(folder / "weights.safetensors", tmp_path)
    sizes = whole["sizes"]
    edits = [
        ({}, "cut short or edited"),
        (whole | {"training": "private text"}, "trained on public text"),
        (whole | {"sizes": {**sizes, "hidden": "16"}}, "cut short or edited"),
        (whole | {"sizes": {**sizes, "depth": 2}}, "cut short or edited"),
        (whole | {"sizes": {**sizes, "hidden": 8}}, "cut short or edited"),
        (whole | {"tokens": {**whole["tokens"], "labels": [1]}}, "cut short or edited"),
        (whole | {"tokens": {**whole["tokens"], "words": ["a"]}}, "other settings"),
    ]
    weights = (tmp_path / "weights.safetensors").read_bytes()
    for values, match in edits:
        named = {"format": whole["format"], "version": whole["version"], **values}
        path.write_text(json.dumps({**named, "checksum": checksum(named, weights)}))
        with pytest.raises(ConfigError, match=match):
            spec.fit(public=PUBLIC)
    path.write_text(json.dumps({"kind": "candidates"}))
    with pytest.raises(ConfigError, match=r"the auto-encoder .* cut short or edited"):
        spec.fit(public=PUBLIC)
    path.write_bytes(saved)
    spec.fit(public=PUBLIC)


@pytest.mark.parametrize("autoencoder", ["codebook"], indirect=True)
def test_a_codebook_is_a_pool(autoencoder):
    adept, _ = autoencoder
    pool = adept.public_records()
    assert [(r.text, r.label) for r in pool] == list(zip(adept.codebook.texts, adept.codebook.labels, strict=True))
    mechanism = Candidates(2.0, LABELS, ranker="tfidf", label_weight=1.0).fit(public=PUBLIC, pool=pool, seed=0)
    written = {(record.label, record.text) for record in pool}
    releases = mechanism.privatize(texts(40), secure())
    assert {(release.label, release.output) for release in releases} <= written
    assert mechanism.digests["pool"] == records_digest(pool)
    assert largest_log_ratio(mechanism, texts(40)) == pytest.approx(2.0, rel=1e-9)
