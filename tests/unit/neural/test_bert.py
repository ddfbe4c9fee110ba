"""The compiled BERT: its numbers are those of transformers, and a text's vector knows nothing of its company."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

import torch
from scipy.special import erf, softmax

from dptext.embeddings.bert.network import Bert
from dptext.embeddings.bert.reading import read_bert, supported
from dptext.errors import ConfigError
from dptext.kernels import attention, pooling, products, tiles
from dptext.kernels.activations import gelu
from dptext.kernels.linear import DTYPES, Linear, best_there_is, room
from scripts import needs

pytestmark = needs("transformers")

CONFIG = {
    "vocab_size": 200, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 144,
    "max_position_embeddings": 300, "initializer_range": 0.3, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    "model_type": "bert",
}  # fmt: skip
LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 280]
EXACT = ["float32", *(["bfloat16"] if tiles.HAS_BFLOAT16 else []), *(["int8"] if tiles.HAS_INT8 else [])]


def texts(seed: int, lengths: list[int]) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, CONFIG["vocab_size"], n).tolist() for n in lengths]


@pytest.fixture(scope="module")
def theirs(one_thread: None):
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    model = BertModel(BertConfig(**CONFIG)).eval()
    with torch.no_grad():
        for name, values in model.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                values.add_(0.1 * torch.randn_like(values))
    return model


@pytest.fixture(scope="module")
def bert(theirs) -> Bert:
    return read_bert({name: values.numpy() for name, values in theirs.state_dict().items()}, CONFIG)


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


def test_what_the_tables_do_not_hold_is_refused(bert: Bert) -> None:
    """Compiled code looks at no bound: a piece or a place beyond would be read from foreign memory."""
    for wrong in ([CONFIG["vocab_size"]], [-1], [1] * (CONFIG["max_position_embeddings"] + 1)):
        with pytest.raises(ConfigError, match="at most 300 of 200 word pieces"):
            bert.vectors([[1, 2], wrong])


def test_progress_and_nothing_to_do(bert: Bert) -> None:
    done: list[int] = []
    bert.vectors(texts(1, [200, 200, 3, 4]), on_done=done.append)
    assert done == [3, 4]  # 256 pieces at once: the short ones with one of the others
    assert bert.vectors([]).shape == (0, 96)


@pytest.mark.parametrize("exactness", EXACT)
def test_products_are_those_of_numpy(exactness: str) -> None:
    rng = np.random.default_rng(0)
    n, n_in, n_out = 2 * tiles.ROWS + 1, 96, 2 * tiles.COLUMNS
    x, out = room(n + tiles.ROWS, n_in), room(n + tiles.ROWS, n_out)
    x[:n] = rng.normal(size=(n, n_in)) * rng.exponential(size=(n, 1))
    weights, bias = rng.normal(size=(n_out, n_in)).astype(np.float32), rng.normal(size=n_out).astype(np.float32)
    largest = np.abs(x).max(axis=0)
    layer = Linear.of(weights, bias, exactness, largest)
    rows = room(n + tiles.ROWS, n_in, dtype=DTYPES[exactness])
    tile = room(tiles.ROWS, tiles.COLUMNS, dtype=np.int32 if exactness == "int8" else np.float32)
    exact = x[:n].astype(np.float64) @ weights.T.astype(np.float64)
    if exactness == "int8":
        scales, totals = room(n + tiles.ROWS), room(n + tiles.ROWS, dtype=np.int32)
        products.quantize_rows(x, n, layer.smoothing, rows, scales, totals)
        products.int_products(rows, n, layer.panels, layer.units, bias, scales, totals, tile, out)
        steps = np.rint(weights / layer.smoothing / layer.units[:, None]).astype(np.int64)
        assert np.abs(rows[:n]).max(axis=1).tolist() == [127] * n
        assert np.array_equal(totals[:n], tiles.MORE * rows[:n].sum(axis=1, dtype=np.int64))
        whole = rows[:n].astype(np.int64) @ steps.T  # the sums are exact
        assert np.allclose(out[:n], whole * np.outer(scales[:n], layer.units).astype(np.float64) + bias, rtol=1e-5)
    elif exactness == "bfloat16":
        products.round_rows(x, n, rows)
        assert np.array_equal(
            rows[:n], torch.tensor(x[:n]).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        )
        products.products(rows, n, layer.panels, bias, tile, out)
    else:
        products.products(x, n, layer.panels, bias, tile, out)
    error = {"float32": 1e-6, "bfloat16": 4e-3, "int8": 1.5e-2}[exactness]
    assert np.abs(out[:n] - bias - exact).max() < error * np.abs(exact).max()


def test_the_functions_between() -> None:
    x = np.linspace(-9, 9, 3 * 96, dtype=np.float32).reshape(3, 96)
    found = x.copy()
    gelu(found, 2)
    exact = x * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))
    assert np.abs(found[:2] - exact[:2]).max() < 2e-5
    assert np.array_equal(found[2], x[2])  # beyond the rows
    shares = room(2, 48)
    shares[:] = np.random.default_rng(0).normal(size=(2, 48)) * 10
    known = softmax(shares[1, :37].astype(np.float64))
    attention.softmax(shares, 1, 37, 48)
    assert np.abs(shares[1, :37] - known).max() < 1e-6
    assert 0 <= shares[1, 37:].max() < 1e-20


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


def test_the_precision_is_what_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for bfloat16, int8, known in (
        (True, True, ("bfloat16", "float32", "bfloat16", "int8")),
        (False, True, ("float32", "float32", "float32", "int8")),
        (False, False, ("float32",) * 4),
    ):
        monkeypatch.setattr(tiles, "HAS_BFLOAT16", bfloat16)
        monkeypatch.setattr(tiles, "HAS_INT8", int8)
        assert tuple(map(best_there_is, ("auto", "float32", "bfloat16", "int8"))) == known


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
bert = read_bert(dict(np.load({str(state)!r})), {CONFIG!r})
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
