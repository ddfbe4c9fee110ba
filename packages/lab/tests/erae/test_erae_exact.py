"""ER-AE's network computed so that nothing but a text and its own released words decides a bit of its logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")

from dptext.errors import ConfigError  # noqa: E402
from dptext.kernels import products, tiles  # noqa: E402
from dptext.sampling.randomness import seeded  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext_lab.erae.erae import ErAe, ErAeMechanism  # noqa: E402
from dptext_lab.erae.net import exact  # noqa: E402
from dptext_lab.erae.net.exact import ExactNetwork  # noqa: E402
from dptext_lab.erae.net.model import ErAeModel  # noqa: E402
from dptext_lab.erae.net.network import ErAeNetwork, Sizes, Writing  # noqa: E402
from dptext_lab.nets.tokens import Tokens  # noqa: E402

WORDS, LENGTH = 296, 5
N_TEXTS = 2 * exact._ROWS + tiles.ROWS + 1
LATENTS = ("positions", "text")


def network(latent: str = "positions", **changes: int) -> ErAeNetwork:
    sizes = {"n_tokens": WORDS + 4, "length": LENGTH, "embedding": 19, "hidden": 74, "latent_dim": 7, **changes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        found = ErAeNetwork(Sizes(latent=latent, **sizes)).eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.mul_(2.0)
    return found


def texts(n: int, seed: int = 0) -> np.ndarray:
    """Words and unknown ones, then the end: texts of all lengths."""
    rng = np.random.default_rng(seed)
    found = rng.integers(4, WORDS + 4, (n, LENGTH))
    found[rng.random(found.shape) < 0.1] = 1
    found[np.arange(LENGTH) >= rng.integers(0, LENGTH + 1, n)[:, None]] = 3
    return found


def scores(ours: ExactNetwork, targets: np.ndarray, written: np.ndarray) -> np.ndarray:
    """What both sides propose at every position `(sides, positions, n, options)`, where these options are released."""
    writing = ours.begin(targets, public=True)
    found = []
    for column in written.T:
        found.append(writing.scores())
        writing.wrote(column)
    return np.array(found).transpose(1, 0, 2, 3)


@pytest.fixture(scope="module", params=LATENTS)
def ours(request: pytest.FixtureRequest) -> ExactNetwork:
    return ExactNetwork(network(request.param))


@pytest.mark.slow_cases("positions-2", "text", why="one latent stays, and test_it_is_the_network_of_torch has both")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_logits_are_the_same_at_every_place_and_in_any_company(
    ours: ExactNetwork, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    targets, written = texts(N_TEXTS), texts(N_TEXTS, 1) % (WORDS + 1)
    alone = np.concatenate([scores(ours, *(each[i : i + 1] for each in (targets, written))) for i in range(N_TEXTS)], 2)
    assert len(np.unique(alone[0, 0], axis=0)) > N_TEXTS // 2
    assert len(np.unique(alone[1, 0], axis=0)) == 1  # the public language model does not know the text
    assert np.array_equal(scores(ours, targets, written), alone)
    for shift in (*range(1, tiles.ROWS + 1), exact._ROWS - 1, exact._ROWS):  # every place of a tile, and of a part
        moved = scores(ours, *(np.roll(each, shift, axis=0) for each in (targets, written)))
        assert np.array_equal(moved, np.roll(alone, shift, axis=2))
    for others, theirs in ((np.full_like(targets, 3), 0), (np.full_like(targets, WORDS + 3), WORDS)):
        for place in range(0, N_TEXTS, 9):
            among, also = others.copy(), np.full_like(written, theirs)
            among[place], also[place] = targets[place], written[place]
            assert np.array_equal(scores(ours, among, also)[:, :, place], alone[:, :, place])


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("changes", [{}, {"hidden": 96, "embedding": 48, "latent_dim": 33}, {"hidden": 2}])
def test_it_is_the_network_of_torch(latent: str, changes: dict[str, int]) -> None:
    whole = network(latent, **changes)
    targets, written = texts(70), texts(70, 1) % (WORDS + 1)
    found = ExactNetwork(whole).begin(targets, public=True)
    theirs = Writing(whole, targets, device="cpu", public=True)
    for column in written.T:
        for one, other in zip(found.logits(), theirs.logits(), strict=True):
            assert one.dtype == other.dtype == np.int32
            assert np.abs(one - other).max() <= 1  # steps of 2^-8, of numbers up to some thousand of them
            assert (one != other).mean() < 1e-3
        found.wrote(column)
        theirs.wrote(column)


def test_large_weights_saturate() -> None:
    """Gates and latents beyond what e^x can hold are at their ends, and logits at theirs, as torch has them."""
    whole = network()
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.mul_(1e4)
    targets = texts(20)
    with torch.no_grad():
        latents = whole.latents(torch.from_numpy(targets)).numpy()
    found = ExactNetwork(whole)
    assert np.median(np.abs(found.latents(targets) - latents)) < 1e-4
    assert np.abs(found.begin(targets, public=False).logits()[0]).max() == 1 << 22


def test_a_state_that_looks_at_other_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a state takes in a little of the first row, whosever that is."""
    sound = exact.gru_step

    def leaking(of_inputs, inputs, gates, n, units, h):
        gates[1:] += gates[0] * np.float32(1e-6)
        sound(of_inputs, inputs, gates, n, units, h)

    monkeypatch.setattr(exact, "gru_step", leaking)
    with pytest.raises(ConfigError, match="alike in every place"):
        ExactNetwork(network())


def test_a_place_of_a_tile_that_rounds_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the last row of a tile is summed in another order."""
    sound = products.products

    def uneven(rows, n, panels, bias, tile, out):
        sound(rows, n, panels, bias, tile, out)
        last = slice(tiles.ROWS - 1, None, tiles.ROWS)
        out[last] = np.nextafter(out[last], np.float32(np.inf))

    monkeypatch.setattr(products, "products", uneven)
    with pytest.raises(ConfigError, match="alike in every place"):
        ExactNetwork(network())


def fitted(**changes: object) -> ErAeMechanism:
    spec = replace(ErAe(6.0, max_tokens=LENGTH, max_words=WORDS, hidden=74, latent_dim=7, embedding=19), **changes)
    tokens = Tokens(tuple(f"w{i}" for i in range(WORDS)), (), LENGTH)
    return ErAeMechanism(spec, ErAeModel(network(), tokens, device="cpu", trained_on=""))


@pytest.mark.slow_cases("hub", "exponential", "ae_dp", why="top_k_rr stays")
@pytest.mark.parametrize("choice", ["hub", "exponential", "ae_dp", "top_k_rr"])
def test_what_a_text_is_offered_and_draws_knows_no_other_text(choice: str) -> None:
    """Up to the probabilities, bit for bit, and up to the released words."""
    mechanism = fitted(choice=choice)
    record = Record("0", "w3 w17 unknown w200")
    released = texts(N_TEXTS, 1)[:, :2] % (WORDS + 1)
    together = mechanism.proposals(record, released)
    alone = np.concatenate([mechanism.proposals(record, row[None]) for row in released])
    assert np.array_equal(together, alone)
    records = [Record(str(i), " ".join(f"w{token - 4}" for token in row)) for i, row in enumerate(texts(N_TEXTS))]
    releases = mechanism.privatize(records, seeded(5))
    for place in (0, 1, exact._ROWS, N_TEXTS - 1):
        assert mechanism.privatize([records[place]], seeded(5).at(place))[0] == releases[place]
