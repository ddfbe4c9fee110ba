"""Fitted mechanisms in folders: they come back the same, and no file can be changed unnoticed."""

import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptext.embeddings.vector_files import load_saved_word_vectors, save_word_vectors
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs import models
from dptext.runs.models import MODEL_FILE, load_model, save_model
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from vectors import sentences, write_vectors

RECORDS = [Record(str(i), f"{words}\nZebra!") for i, words in enumerate(sentences(20))]
FILES = ("model.json", "vectors.npy", "words.json")


def specs(vectors: Path) -> list[WordMetric]:
    common = {"vectors": str(vectors), "n_words": 300}
    return [
        WordMetric(epsilon=3.0, **common),
        WordMetric(epsilon=3.0, max_tokens=5, diameter=50.0, **common),
        WordMetric(epsilon=3, noise="mahalanobis", mahalanobis_lambda=0.7, **common),
        WordMetric(epsilon=1.0, noise="tem", tem_beta=0.01, **common),
    ]


def outputs(mechanism: Mechanism[str]) -> list[str]:
    return [release.output for release in mechanism.privatize(RECORDS, seeded(3))]


@pytest.fixture
def model(tmp_path: Path, vectors: Path) -> Path:
    save_model(specs(vectors)[0].fit(), tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, change: Callable[[dict], object]) -> None:
    """Change model.json and seal it again, as somebody who means it would."""
    path = folder / MODEL_FILE
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)
    content["sha256"] = models._seal(content)
    path.write_text(json.dumps(content), "utf-8")


@pytest.mark.parametrize("i", range(4))
def test_a_model_comes_back_without_its_sources(tmp_path: Path, i: int) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    fitted = specs(write_vectors(sources))[i].fit()
    save_model(fitted, tmp_path / "model")
    shutil.rmtree(sources)
    loaded = load_model(tmp_path / "model")
    assert (loaded.spec, loaded.digests) == (fitted.spec, fitted.digests)
    assert outputs(loaded) == outputs(fitted)
    # and once more, from the loaded one
    save_model(loaded, tmp_path / "again")
    first, again = (json.loads((tmp_path / folder / MODEL_FILE).read_bytes()) for folder in ("model", "again"))
    assert {**again, "sha256": ""} == {**first, "sha256": ""}


def test_a_loaded_model_has_the_same_output_distribution(tmp_path: Path, vectors: Path) -> None:
    fitted = specs(vectors)[3].fit()
    save_model(fitted, tmp_path / "model")
    record = Record("0", "bababa Zebra")
    assert load_model(tmp_path / "model").output_distribution(record) == fitted.output_distribution(record)


def test_a_spec_saves_and_loads_without_model_json(tmp_path: Path, vectors: Path) -> None:
    for i, spec in enumerate(specs(vectors)):
        folder = tmp_path / str(i)
        folder.mkdir()
        fitted = spec.fit()
        fitted.save(folder)
        assert outputs(spec.load(folder)) == outputs(fitted)
        with pytest.raises(ConfigError, match=r"Cannot write"):
            fitted.save(folder)
        with pytest.raises(ConfigError, match="n_words=299"):
            replace(spec, n_words=299).load(folder)


def test_the_files(model: Path, vectors: Path) -> None:
    assert sorted(path.name for path in model.iterdir()) == sorted(FILES)
    assert all(stat.S_IMODE((model / name).stat().st_mode) == 0o600 for name in FILES)
    assert stat.S_IMODE(model.stat().st_mode) == 0o700
    assert [path.name for path in model.parent.iterdir()] == ["model"]
    content = json.loads((model / MODEL_FILE).read_bytes())
    assert content["schema"] == 1
    assert content["settings"] == {"kind": "word_metric", **content["settings"]}
    assert content["settings"]["epsilon"] == 3.0
    assert content["digests"] == {"vectors": specs(vectors)[0].fit().digests["vectors"]}
    assert content["files"]["vectors.npy"] == hashlib.sha256((model / "vectors.npy").read_bytes()).hexdigest()
    assert set(content) == {"schema", "settings", "digests", "files", "version", "sha256"}


def test_an_existing_folder_must_be_empty(tmp_path: Path, vectors: Path, model: Path) -> None:
    fitted = specs(vectors)[0].fit()
    before = (model / MODEL_FILE).read_bytes()
    with pytest.raises(ConfigError, match="absent or empty"):
        save_model(fitted, model)
    assert (model / MODEL_FILE).read_bytes() == before
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(ConfigError, match="absent or empty"):
        save_model(fitted, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    save_model(fitted, tmp_path / "empty")
    assert outputs(load_model(tmp_path / "empty")) == outputs(fitted)
    with pytest.raises(ConfigError, match="Cannot write"):
        save_model(fitted, tmp_path / "absent" / "model")


def test_a_failed_save_leaves_nothing(tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = specs(vectors)[0].fit()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dptext.embeddings.vectors.np.save", full)
    with pytest.raises(ConfigError, match="No space left"):
        save_model(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(ConfigError, match=name):
        load_model(model)


@pytest.mark.parametrize("name", FILES)
def test_every_edited_or_truncated_file_is_refused(model: Path, name: str) -> None:
    path = model / name
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for i in range(60):
        changed = bytearray(good)
        place = int(rng.integers(len(good) - 1))
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed if i % 2 else good[:place])
        if name == MODEL_FILE and i % 2 and changed.decode("latin1").split() == good.decode("latin1").split():
            continue  # only its layout is another
        with pytest.raises(ConfigError) as caught:
            load_model(model)
        assert name in str(caught.value) or name == MODEL_FILE
    path.write_bytes(good)
    assert outputs(load_model(model))


@pytest.mark.parametrize("name", FILES[1:])
def test_a_spec_alone_refuses_broken_files(model: Path, vectors: Path, name: str) -> None:
    """Even where nobody compares the sha256 of the file first, nothing but a ConfigError comes out."""
    spec, path = specs(vectors)[0], model / name
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for i in range(400):
        changed = bytearray(good)
        for _ in range(3):
            changed[int(rng.integers(128))] = int(rng.integers(32, 127))
        path.unlink()
        path.write_bytes(changed[: int(rng.integers(len(good)))] if i % 4 == 0 else changed)
        try:
            spec.load(model)
        except ConfigError:
            refused += 1
    assert refused >= 395  # the rest changed what nobody reads: a name, or padding
    path.unlink()
    with pytest.raises(ConfigError, match=name):
        spec.load(model)


def test_arrays_of_objects_are_refused(model: Path, vectors: Path) -> None:
    np.save(model / "vectors.npy", np.array([{}, {}], object))
    with pytest.raises(ConfigError, match=r"vectors\.npy"):
        specs(vectors)[0].load(model)


def test_other_vectors_are_refused_even_when_resealed(model: Path, vectors: Path) -> None:
    points = np.load(model / "vectors.npy")
    np.save(model / "vectors.npy", points * np.float32(1.0001))
    with pytest.raises(ConfigError, match=r"vectors\.npy.* is not the one that was saved"):
        load_model(model)
    changed = hashlib.sha256((model / "vectors.npy").read_bytes()).hexdigest()
    edit(model, lambda content: content["files"].update({"vectors.npy": changed}))
    with pytest.raises(ConfigError, match=r"digest in .*words\.json"):
        load_model(model)


def test_a_model_of_other_vectors_is_told_by_its_digest(tmp_path: Path, model: Path) -> None:
    other = load_saved_word_vectors(model, 300)
    for name in FILES[1:]:
        (model / name).unlink()
    save_word_vectors(WordVectors(other.words, other.vectors * np.float32(2), name="doubled"), model)
    files = {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in FILES[1:]}
    edit(model, lambda content: content.update(files=files))
    with pytest.raises(ConfigError, match="digest 'vectors'"):
        load_model(model)


@pytest.mark.parametrize("digests", [{}, {"vectors": "0" * 64}, {"more": "0" * 64}])
def test_digests_that_differ_are_named(model: Path, digests: dict[str, str]) -> None:
    known = json.loads((model / MODEL_FILE).read_bytes())["digests"]
    edit(model, lambda content: content.update(digests=digests if not digests else {**known, **digests}))
    with pytest.raises(ConfigError, match=f"digest '{next(iter(digests), 'vectors')}'"):
        load_model(model)


def test_another_spec_is_refused(model: Path) -> None:
    path = model / MODEL_FILE
    good = path.read_text("utf-8")
    path.write_text(good.replace('"epsilon": 3.0', '"epsilon": 9.0'), "utf-8")
    with pytest.raises(ConfigError, match="edited"):
        load_model(model)
    path.write_text(good, "utf-8")
    edit(model, lambda content: content["settings"].update(n_words=200))
    with pytest.raises(ConfigError, match="n_words=200"):
        load_model(model)
    edit(model, lambda content: content["settings"].update(n_words=300, diameter=0.1, max_tokens=3))
    with pytest.raises(ConfigError, match=r"diameter=0\.1"):
        load_model(model)
    edit(model, lambda content: content["settings"].update(kind="word_metrics"))
    with pytest.raises(ConfigError, match="did you mean 'word_metric'"):
        load_model(model)


@pytest.mark.parametrize("schema", [2, 0, None, "1", -1])
def test_other_schemas_are_refused(model: Path, schema: object) -> None:
    edit(model, lambda content: content.update(schema=schema))
    with pytest.raises(ConfigError, match="update dptext" if schema == 2 else "edited"):
        load_model(model)


@pytest.mark.parametrize("key", ["settings", "digests", "files"])
@pytest.mark.parametrize("value", [None, [], "x"])
def test_what_is_no_model_is_refused(model: Path, key: str, value: object) -> None:
    edit(model, lambda content: content.update({key: value}))
    with pytest.raises(ConfigError, match=f"'{key}'"):
        load_model(model)


@pytest.mark.parametrize(
    "path", ["schema", "settings", "digests", "files", "settings kind", "digests vectors", "files words.json"]
)
@pytest.mark.parametrize(
    "value", [None, True, False, -1, 1.5, 10**400, math.inf, [], [[]], ["x"], {"x": 1}, "\ud800"], ids=repr
)
def test_a_value_of_another_type_is_a_named_error(model: Path, path: str, value: object) -> None:
    *parents, key = path.split()
    edit(model, lambda content: (content[parents[0]] if parents else content).update({key: value}))
    with pytest.raises(ConfigError):
        load_model(model)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"settings":' * 100_000, '{"schema": ' + "9" * 5000 + "}"])
def test_deep_or_endless_json_is_a_named_error(model: Path, content: str) -> None:
    (model / MODEL_FILE).write_text(content, "utf-8")
    for read in (load_model, models.model_spec):
        with pytest.raises(ConfigError, match=r"model\.json is not a JSON file"):
            read(model)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", "{}", "\udcff"])
def test_what_is_no_json_object_is_refused(model: Path, content: str) -> None:
    (model / MODEL_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"model\.json"):
        load_model(model)


def test_a_listed_file_outside_the_folder_is_not_read(model: Path) -> None:
    os.mkfifo(model.parent / "pipe")  # reading it would never end
    edit(model, lambda content: content["files"].update({"../pipe": "0" * 64}))
    with pytest.raises(ConfigError, match=r"\.\./pipe"):
        load_model(model)


def test_words_that_utf8_cannot_hold_are_saved(tmp_path: Path) -> None:
    odd = WordVectors(("\ud800", "\N{WORD JOINER}x", '"\\'), np.eye(3, dtype=np.float32), name="odd")
    save_word_vectors(odd, tmp_path)
    loaded = load_saved_word_vectors(tmp_path, 3)
    assert (loaded.words, loaded.name, loaded.digest) == (odd.words, "odd", odd.digest)
    assert loaded.vectors.tolist() == odd.vectors.tolist()
