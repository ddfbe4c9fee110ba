"""The compiled BERT: its numbers are those of transformers, and a text's vector knows nothing of its company."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

import torch

from dptext.embeddings.bert.network import Bert
from dptext.embeddings.bert.reading import read_bert, supported
from dptext.errors import ConfigError
from dptext.kernels import encoding, pooling, products, tiles
from scripts import needs

pytestmark = needs("transformers")

CONFIG = {
    "vocab_size": 200, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 144,
    "max_position_embeddings": 300, "initializer_range": 0.3, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    "model_type": "bert",
}  # fmt: skip
#: Of these shapes all layers fill whole matrix registers, and of those above not.
WHOLE = {**CONFIG, "hidden_size": 192, "intermediate_size": 384}
LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 280]
EXACT = ["float32", *(["bfloat16"] if tiles.HAS_BFLOAT16 else []), *(["int8"] if tiles.HAS_INT8 else [])]


def texts(seed: int, lengths: list[int]) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, CONFIG["vocab_size"], n).tolist() for n in lengths]


def config_of(model) -> dict[str, object]:
    return {name: getattr(model.config, name) for name in CONFIG}


@pytest.fixture(scope="module", params=[CONFIG, WHOLE], ids=["odd", "whole"])
def theirs(one_thread: None, request: pytest.FixtureRequest):
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    model = BertModel(BertConfig(**request.param)).eval()
    with torch.no_grad():
        for name, values in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                values.add_(0.1 * torch.randn_like(values))
    return model


@pytest.fixture(scope="module")
def bert(theirs) -> Bert:
    return read_bert({name: values.numpy() for name, values in theirs.state_dict().items()}, config_of(theirs))


@pytest.fixture(scope="module", params=EXACT)
def ours(request: pytest.FixtureRequest, bert: Bert) -> Bert:
    return bert.at(request.param, texts(9, [20, 40]))


def test_the_vectors_are_those_of_transformers(theirs, ours: Bert) -> None:
    pieces = texts(0, LENGTHS)
    with torch.no_grad():
        means = [theirs(torch.tensor([own])).last_hidden_state[0].mean(0).numpy() for own in pieces]
    known = np.stack([mean / np.linalg.norm(mean) for mean in means])
    found = ours.vectors(pieces)
    assert found.dtype == np.float32
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-6
    if ours.exactness == "float32":
        assert np.abs(found - known).max() < 5e-6
    else:
        assert np.einsum("ij,ij->i", found, known).min() > (0.999 if ours.exactness == "bfloat16" else 0.98)
        assert np.abs(found - known).max() > 1e-5  # it is another precision


def test_a_vector_is_bit_for_bit_the_same_in_any_company(ours: Bert) -> None:
    pieces = texts(1, LENGTHS)
    alone = np.concatenate([ours.vectors([own]) for own in pieces])
    assert np.array_equal(ours.vectors(pieces), alone)
    assert np.array_equal(ours.vectors(pieces, threads=3), alone)
    assert np.array_equal(ours.vectors(pieces[::-1])[::-1], alone)
    for shift in range(1, 2 * tiles.ROWS):  # at every place of a tile
        assert np.array_equal(ours.vectors([*texts(shift, [shift]), *pieces])[1:], alone)
    rng = np.random.default_rng(2)
    for _ in range(5):
        others = texts(int(rng.integers(1e6)), rng.integers(1, 60, 30).tolist())
        places = rng.permutation(len(others) + len(pieces))
        found = ours.vectors([[*others, *pieces][i] for i in places])[np.argsort(places)]
        assert np.array_equal(found[len(others) :], alone)
    ours.require_alone(pieces)


def test_what_knows_its_company_is_refused(bert: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a text's mean takes in a little of the first row, whosever that is."""
    sound = pooling.unit_means

    def leaking(x, ends, out):
        x[1:] += x[0] * np.float32(1e-6)
        sound(x, ends, out)

    monkeypatch.setattr(pooling, "unit_means", leaking)
    with pytest.raises(ConfigError, match="alike in every place"):
        bert.require_alone(texts(1, [5, 9]))


@pytest.mark.parametrize("place", range(4))
def test_a_product_that_knows_its_place_is_refused(bert: Bert, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Planted: the last bits of one row of a batch differ, in one of the four products of a layer."""
    sound, calls = products.products, itertools.count()

    def shifted(rows, n, panels, bias, tile, out):
        sound(rows, n, panels, bias, tile, out)
        if next(calls) % 4 == place:
            out[2] = np.nextafter(out[2], np.float32(9))

    monkeypatch.setattr(products, "products", shifted)
    for name in ("encode", "linear"):  # in Python, as machine code calls the sound products
        monkeypatch.setattr(encoding, name, getattr(encoding, name).py_func)
    with pytest.raises(ConfigError, match="alike in every place"):
        bert.require_alone(texts(1, [5, 9]))


@pytest.mark.skipif("bfloat16" not in EXACT, reason="this processor does not multiply bfloat16")
def test_a_network_read_in_a_precision_is_that_network(theirs, bert: Bert) -> None:
    weights = {name: values.numpy() for name, values in theirs.state_dict().items()}
    read, made = read_bert(weights, config_of(theirs), "bfloat16"), bert.at("bfloat16", ())
    assert read.exactness == made.exactness == "bfloat16"
    assert read.at("bfloat16", ()) is read
    pieces = texts(3, LENGTHS)
    assert np.array_equal(read.vectors(pieces), made.vectors(pieces))
    assert np.array_equal(read.at("float32", ()).vectors(pieces), bert.vectors(pieces))


def test_what_the_tables_do_not_hold_is_refused(bert: Bert) -> None:
    """Compiled code looks at no bound: a piece or a place beyond would be read from foreign memory."""
    for wrong in ([CONFIG["vocab_size"]], [-1], [1] * (CONFIG["max_position_embeddings"] + 1)):
        with pytest.raises(ConfigError, match="at most 300 of 200 word pieces"):
            bert.vectors([[1, 2], wrong])


def test_progress_and_nothing_to_do(bert: Bert) -> None:
    done: list[int] = []
    bert.vectors(texts(1, [200, 200, 3, 4]), on_done=done.append)
    assert sorted(np.diff([0, *done])) == [1, 3]  # 256 pieces at once: the short ones with one of the others
    assert done[-1] == 4
    assert bert.vectors([]).shape == (0, bert.dim)


def test_the_first_batches_tell_how_long_all_take(bert: Bert) -> None:
    """Short texts first, the time left was estimated at a quarter of what it was."""
    pieces, done = texts(1, [*range(1, 190)] * 2), list[int]()
    bert.vectors(pieces, on_done=done.append)
    shares = np.array(done) / len(pieces)
    work = np.arange(1, len(done) + 1) / len(done)  # batches have about as many pieces
    estimates = (work / shares)[shares >= 0.05]
    assert 0.5 < estimates.min() < estimates.max() < 2


def test_which_models_are_computed_so(tmp_path: Path) -> None:
    import json

    def folder(pooling: dict[str, object], *more: str) -> Path:
        names = ["Transformer", "Pooling", *more]
        modules = [{"type": f"somewhere.{name}", "path": f"{i}"} for i, name in enumerate(names)]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "1").mkdir(exist_ok=True)
        (tmp_path / "1" / "config.json").write_text(json.dumps(pooling))
        return tmp_path

    mean, first = {"pooling_mode_mean_tokens": True}, {"pooling_mode_cls_token": True}
    assert supported(CONFIG, folder(mean))
    assert supported(CONFIG, folder({"pooling_mode": "mean"}, "Normalize"))
    assert not supported(CONFIG, folder(first))
    assert not supported(CONFIG, folder({**mean, **first}))
    assert not supported(CONFIG, folder(mean, "Dense"))
    for change in (
        {"model_type": "mpnet"},
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
        {"num_attention_heads": 2},
        {"intermediate_size": 145},
    ):
        assert not supported({**CONFIG, **change}, folder(mean))


@pytest.mark.slow
def test_a_processor_without_wide_vectors(theirs, bert: Bert, tmp_path: Path) -> None:
    """The same numbers but for the last bits, and the same whatever the company."""
    state = tmp_path / "weights.npz"
    np.savez(state, **{name: values.numpy() for name, values in theirs.state_dict().items()})
    program = f"""
import numpy as np
from dptext.embeddings.bert.reading import read_bert
from dptext.kernels import tiles
from dptext.kernels.linear import best_there_is
assert (tiles.ROWS, tiles.VECTORS, best_there_is("int8")) == (6, 1, "int8")
bert = read_bert(dict(np.load({str(state)!r})), {config_of(theirs)!r})
pieces = {texts(3, LENGTHS)!r}
bert.require_alone(pieces)
np.save({str(tmp_path / "found.npy")!r}, bert.vectors(pieces))
"""
    narrow = {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse2",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env={**os.environ, **narrow}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert np.abs(np.load(tmp_path / "found.npy") - bert.vectors(texts(3, LENGTHS))).max() < 1e-5
