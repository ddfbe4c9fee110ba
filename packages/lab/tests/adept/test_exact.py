"""The LSTM encoder computed so that a latent is a function of its own text alone, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")

from dptext.errors import ConfigError  # noqa: E402
from dptext.kernels import products, tiles  # noqa: E402
from dptext_lab.adept.net import network  # noqa: E402
from dptext_lab.adept.net.network import Architecture, AutoEncoder, Encoding  # noqa: E402

N_TOKENS, LENGTH = 300, 14
ROWS = 2 * network._ROWS + tiles.ROWS + 1


def model(**changes: object) -> AutoEncoder:
    sizes = {"latent_dim": 7, "hidden": 74, "embedding": 19, "clip_norm": 1.0, **changes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        found = AutoEncoder(Architecture(N_TOKENS, LENGTH, **sizes)).eval()
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            parameter.mul_(1.0 if "project" in name else 2.0)
    return found


def tokens(n: int, *, longest: int = LENGTH) -> np.ndarray:
    """Left-padded rows of all lengths up to `longest`."""
    rng = np.random.default_rng(0)
    found = rng.integers(1, N_TOKENS, (n, LENGTH))
    found[np.arange(LENGTH) < LENGTH - rng.integers(0, longest + 1, n)[:, None]] = 0
    return found


@pytest.fixture(scope="module")
def reader() -> network.ExactReader:
    found = network._exact_reader(model())
    assert found is not None
    return found


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_vector_is_the_same_at_every_place_and_in_any_company(
    reader: network.ExactReader, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    rows = tokens(ROWS)
    alone = np.concatenate([reader.read(row[None]) for row in rows])
    assert len(np.unique(alone, axis=0)) > ROWS // 2
    assert np.array_equal(reader.read(rows), alone)
    for shift in (*range(1, tiles.ROWS + 1), network._ROWS - 1, network._ROWS):  # every place of a tile, and of a block
        assert np.array_equal(reader.read(np.roll(rows, shift, axis=0)), np.roll(alone, shift, axis=0))
    short, long = np.zeros_like(rows), rows % (N_TOKENS - 1) + 1
    for others in (short, long):
        for place in range(0, ROWS, 5):
            among = others.copy()
            among[place] = rows[place]
            assert np.array_equal(reader.read(among)[place], alone[place])


@pytest.mark.parametrize("changes", [{}, {"projected": False, "latent_dim": 148}, {"hidden": 200, "embedding": 64}])
def test_it_is_the_lstm_of_torch(changes: dict[str, object]) -> None:
    whole, rows = model(clip_norm=1e9, **changes), tokens(90)
    reader = network._exact_reader(whole)
    assert reader is not None
    with torch.inference_mode():
        theirs = whole.latent(torch.from_numpy(rows)).double().numpy()
    assert np.abs(reader.read(rows) - theirs).max() < 1e-5


def test_large_weights_saturate(reader: network.ExactReader) -> None:
    """Gates far beyond what e^x can hold are 0 or 1, as torch has them."""
    whole = model()
    with torch.no_grad():
        for parameter in whole.reader.parameters():
            parameter.mul_(1e4)
    large = network._exact_reader(whole)
    assert large is not None
    with torch.inference_mode():
        _, (h, c) = whole.reader(whole.read_embedding(torch.from_numpy(tokens(20))))
        theirs = whole.project(torch.cat([h[-1], c[-1]], dim=1)).double().numpy()
    found = large.read(tokens(20))
    assert np.isfinite(found).all()
    assert np.median(np.abs(found - theirs)) < 1e-4


def test_a_step_that_looks_at_other_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a state takes in a little of the first row, whosever that is."""
    sound = network.lstm_step

    def leaking(gates, of_tokens, places, n, h, c):
        gates[1:] += gates[0] * np.float32(1e-6)
        sound(gates, of_tokens, places, n, h, c)

    monkeypatch.setattr(network, "lstm_step", leaking)
    with pytest.raises(ConfigError, match="alike in every place"):
        Encoding(model())


def test_a_place_of_a_tile_that_rounds_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the last row of a tile is summed in another order."""
    sound = products.products

    def uneven(rows, n, panels, bias, tile, out):
        sound(rows, n, panels, bias, tile, out)
        last = slice(tiles.ROWS - 1, None, tiles.ROWS)
        out[last] = np.nextafter(out[last], np.float32(np.inf))

    monkeypatch.setattr(products, "products", uneven)
    with pytest.raises(ConfigError, match="alike in every place"):
        Encoding(model())
