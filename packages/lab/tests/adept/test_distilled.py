"""A distilled encoder is the ridge regression it says it is, reads each text alone, and comes back as it was saved."""

from __future__ import annotations

import functools
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from dptext.embeddings import distilled, sentence_encoder  # noqa: E402
from dptext.embeddings.distilled import distil  # noqa: E402
from dptext.errors import ConfigError  # noqa: E402
from dptext.sampling.randomness import seeded  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept.dpsgd import AdeptDpSgd  # noqa: E402
from dptext_lab.adept.net import load_autoencoder  # noqa: E402
from dptext_lab.adept.net.model import checksum  # noqa: E402
from dptext_lab.adept.sound import Adept  # noqa: E402
from dptext_lab.nets.tokens import words_of  # noqa: E402

RECORDS = sample_records(300)
TEXTS = [record.text for record in RECORDS]
pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = replace(Adept.tiny()[0], encoder="distilled", max_tokens=16, epochs=3, min_count=1)


@functools.cache
def direction(word: str) -> np.ndarray:
    """The direction of a word. Nothing changes it."""
    return np.random.default_rng(list(word.encode())).normal(size=Teacher.dim)


class Teacher:
    """Each word has a direction of its own; a text the sum of its words'."""

    name, dim, digest = "teacher", 24, "0" * 64

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, texts, *, on_progress=None) -> np.ndarray:
        self.asked += len(texts)
        found = np.zeros((len(texts), self.dim))
        for i, text in enumerate(texts):
            for word in words_of(text, 100):
                found[i] += direction(word)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> Teacher:
    found = Teacher()
    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: found)
    return found


def test_it_is_the_ridge_regression_of_embeddings_on_tf_idf() -> None:
    pupil = distil(Teacher(), TEXTS, max_tokens=16, min_count=2)
    documents = [words_of(text, 16) for text in TEXTS]
    count = Counter(word for words in documents for word in set(words))
    assert set(pupil.words) == {word for word in count if count[word] >= 2}
    bags = np.zeros((len(TEXTS), len(pupil.words)))
    for row, words in zip(bags, documents, strict=True):
        for word in words:
            if word in pupil.words:
                row[pupil.words.index(word)] += np.log((1 + len(TEXTS)) / (1 + count[word])) + 1
    bags /= np.maximum(np.linalg.norm(bags, axis=1, keepdims=True), 1e-12)
    # Ridge by another way: least squares with a row for each penalty, and a column of ones that is not penalized.
    wide = np.hstack([bags, np.ones((len(bags), 1))])
    penalty = np.hstack([np.eye(len(pupil.words)), np.zeros((len(pupil.words), 1))])
    wanted = np.vstack([Teacher().embed(TEXTS), np.zeros((len(pupil.words), 24))])
    solution = np.linalg.lstsq(np.vstack([wide, penalty]), wanted, rcond=None)[0]
    assert np.abs(pupil.weights - solution[:-1]).max() < 1e-5
    assert np.abs(pupil.offset - solution[-1]).max() < 1e-5
    expected = wide @ solution
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(pupil.embed(TEXTS) - expected).max() < 2**-10


def test_it_says_of_new_texts_what_its_teacher_says() -> None:
    pupil, new = distil(Teacher(), TEXTS, max_tokens=16, min_count=2), [r.text for r in sample_records(100, seed=9)]
    close = (pupil.embed(new) * Teacher().embed(new)).sum(axis=1)
    other = (pupil.embed(new) * Teacher().embed(new[::-1])).sum(axis=1)
    assert close.mean() > 0.85 > other.mean() + 0.3


def test_a_text_is_read_as_if_alone_and_as_far_as_max_tokens() -> None:
    pupil = distil(Teacher(), TEXTS, max_tokens=6, min_count=2)
    together = pupil.embed(TEXTS)
    assert all((pupil.embed([text])[0] == row).all() for text, row in zip(TEXTS[:40], together, strict=False))
    assert (pupil.embed(TEXTS[::-1])[::-1] == together).all()
    longer = " ".join([*words_of(TEXTS[0], 6), "doctor", "zebra"])
    assert (pupil.embed([longer]) == pupil.embed([" ".join(words_of(TEXTS[0], 6))])).all()
    empty = pupil.offset / np.linalg.norm(pupil.offset)
    assert np.abs(pupil.embed(["", "xqzt qqq"]) - empty).max() < 2**-10
    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 0.01
    none = distil(Teacher(), ["a b", "b c"], max_tokens=6, min_count=3)
    assert (none.words, none.embed(["a"]).shape) == ((), (1, 24))
    with pytest.raises(ConfigError, match="there are none"):
        distil(Teacher(), [], max_tokens=6, min_count=1)


@pytest.mark.slow_cases("privunit", why="the codebook stays")
@pytest.mark.slow_cases("codebook-distilled", why="test_a_text_is_read_as_if_alone_and_as_far_as_max_tokens stays")
@pytest.mark.parametrize("encoder", ["sentence", "distilled", "lstm"])
@pytest.mark.parametrize("noise", ["codebook", "privunit"])
def test_only_the_sentence_encoder_reads_past_max_tokens(encoder: str, noise: str, teacher: Teacher) -> None:
    """Words after the first `max_tokens` change the latent of the sentence encoder alone."""
    spec = replace(SMALL, encoder=encoder, noise=noise, max_tokens=8)
    model = spec.fit(public=RECORDS, seed=0).model
    first = " ".join(words_of(TEXTS[0], 8))
    text, other = (Record("0", f"{first} {more}", label="health") for more in ("doctor", "weekend money ticket"))
    for read in (model.latents, model.meanings):
        assert (read([text]) == read([other])).all() == (encoder != "sentence")
    assert "`lstm` and `distilled` read of a text" in " ".join((Adept.__doc__ or "").split())


def test_no_more_words_than_its_equations_can_bear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "MAX_WORDS", 7)
    pupil = distil(Teacher(), TEXTS, max_tokens=16, min_count=1)
    assert (len(pupil.words), pupil.weights.shape) == (7, (7, 24))


def test_a_saved_pupil_needs_its_teacher_no_more(teacher: Teacher, tmp_path: Path) -> None:
    mechanism = SMALL.fit(public=RECORDS, seed=0)
    asked = teacher.asked
    assert asked == len(RECORDS)  # nothing but the public texts, codebook included
    mechanism.save(tmp_path)
    loaded = SMALL.load(tmp_path)
    private = [*RECORDS[:20], Record("e", ""), Record("u", "zebra " * 30, label="zebra")]
    one, two = (m.privatize(private, seeded(1)) for m in (mechanism, loaded))
    assert [(r.label, r.output) for r in one] == [(r.label, r.output) for r in two]
    assert loaded.digests == mechanism.digests
    assert loaded.model.reader.digest == mechanism.model.reader.digest != teacher.digest
    assert load_autoencoder(tmp_path, device="cpu").digests == loaded.model.digests
    assert teacher.asked == asked
    for other in ("sentence", "lstm"):
        with pytest.raises(ConfigError, match="of other settings"):
            replace(SMALL, encoder=other).load(tmp_path)


@pytest.mark.parametrize(
    "edited",
    [{"words": ["a"], "teacher": "t"}, {"words": None, "teacher": "t"}, {"words": [1], "teacher": 2}, {}, "x"],
)
def test_a_pupil_that_was_edited_is_refused(teacher: Teacher, saved: Path, tmp_path: Path, edited: object) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model"))
    described = json.loads((folder / "autoencoder.json").read_text("utf-8"))
    described["distilled"] = edited
    del described["checksum"]  # as one would who knows that there is one
    described["checksum"] = checksum(described, (folder / "weights.safetensors").read_bytes())
    (folder / "autoencoder.json").write_text(json.dumps(described), "utf-8")
    with pytest.raises(ConfigError, match="cut short or edited"):
        SMALL.load(folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: Teacher())
        SMALL.fit(public=RECORDS, seed=0).save(folder)
    return folder


def test_training_on_private_text_leaves_the_pupil_as_it_is(teacher: Teacher) -> None:
    pytest.importorskip("opacus")
    small = replace(AdeptDpSgd.tiny()[0], encoder="distilled", epochs=2)
    public, private = RECORDS[:60], RECORDS[60:90]
    one, two = small.fit(public=public, seed=0), small.fit(public=public, private=private, seed=0)
    assert teacher.asked == 2 * len(public)
    assert one.model.reader.digest == two.model.reader.digest
    assert one.digests["model"] != two.digests["model"]
