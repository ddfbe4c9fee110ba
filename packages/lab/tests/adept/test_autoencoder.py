"""The encoder: clipped latents of fixed shapes, the same alone and among others; the losses."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept.net.model import AnnotatedModel  # noqa: E402
from dptext_lab.adept.net.network import LATENT_GRID, Architecture, AutoEncoder, Encoding, _projected, shifted  # noqa: E402
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN, Tokens  # noqa: E402

RECORDS = sample_records(300)
LABELS = ("health", "travel", "money", "leisure")
TOKENS = Tokens.from_public([r.text for r in RECORDS], labels=LABELS, max_tokens=10, min_count=1, max_words=500)
INPUTS = TOKENS.inputs(TOKENS.sequences(RECORDS))


pytestmark = pytest.mark.usefixtures("one_thread")


def network(*, clip_norm: float = 1.0, scale: float = 3.0, seed: int = 0, **changes: object) -> AutoEncoder:
    """Random weights, larger than usual, so that latents and scores differ."""
    sizes = {"n_tokens": len(TOKENS), "length": TOKENS.length, "latent_dim": 6, "hidden": 12, "embedding": 8, **changes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoEncoder(Architecture(clip_norm=clip_norm, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


@pytest.fixture(scope="module")
def model() -> AutoEncoder:
    return network()


# ------------------------------------------------------------------ clipping


@pytest.mark.parametrize("clip_norm", [0.01, 1.0, 5.0])
def test_latents_are_clipped_in_training_too(clip_norm: float) -> None:
    model = network(clip_norm=clip_norm).train()
    free = network(clip_norm=1e9).latent(torch.from_numpy(INPUTS)).detach()
    found = model.latent(torch.from_numpy(INPUTS)).detach()
    norms, before = found.norm(dim=1), free.norm(dim=1)
    assert (norms <= clip_norm * (1 + 1e-6)).all()
    longer = before > clip_norm
    assert torch.allclose(norms[longer], torch.tensor(clip_norm), rtol=1e-5)
    assert torch.equal(found[~longer], free[~longer])  # shorter ones are left alone
    assert torch.allclose(found * (before / norms)[:, None], free, atol=1e-4)  # the direction stays
    if clip_norm < 5:
        assert longer.any()
        assert not (before <= clip_norm * (1 + 1e-6)).all()  # the planted fault: without clipping this fails


def test_both_sides_of_the_clipping_occur_in_one_batch() -> None:
    norms = network(clip_norm=1e9).latent(torch.from_numpy(INPUTS)).norm(dim=1)
    middle = float(norms.detach().median())
    found = network(clip_norm=middle).latent(torch.from_numpy(INPUTS)).norm(dim=1)
    assert 100 < int((norms > middle).sum()) < 200
    assert torch.allclose(found, norms.clamp(max=middle), rtol=1e-5)


def test_the_gradient_flows_through_the_clipping() -> None:
    model = network(clip_norm=0.01).train()
    targets = torch.from_numpy(TOKENS.sequences(RECORDS[:20]))
    model.losses(model.latent(torch.from_numpy(INPUTS[:20])), targets).mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert float(parameter.grad.abs().max()) > 0, name


def test_a_latent_of_zeros_has_no_broken_gradient() -> None:
    model = network(features=5)
    with torch.no_grad():
        model.project.bias.zero_()
    found = model.latent(torch.zeros(2, 5))
    assert found.tolist() == [[0.0] * 6] * 2
    found.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


# ------------------------------------------------------------------ blocks


@pytest.mark.parametrize("size", [1, 63, 64, 65, 300])
def test_a_latent_is_the_same_alone_and_among_others(model: AutoEncoder, size: int) -> None:
    encode = Encoding(model)
    alone = np.concatenate([encode(INPUTS[i : i + 1]) for i in range(20)])
    for place in {0, size // 2, size - 1}:
        for i in range(0, 20, 7):
            batch = np.roll(INPUTS, place - i, axis=0)[:size]
            assert batch[place].tolist() == INPUTS[i].tolist()
            assert encode(batch)[place].tolist() == alone[i].tolist()


def test_no_latent_depends_on_the_lengths_of_its_neighbours(model: AutoEncoder) -> None:
    tokens = Tokens(TOKENS.words, LABELS, TOKENS.max_tokens)
    wrapped = AnnotatedModel(model, tokens, None)
    record, short, long = RECORDS[0], Record("s", ""), Record("l", RECORDS[1].text * 50)
    alone = wrapped.latents([Record("0", "Send money")])
    for others in ([short] * 70, [long] * 70, [short, long, record]):
        among = wrapped.latents([*others, Record("0", "Send money")])
        assert among[-1].tolist() == alone[0].tolist()


def _of_features(n: int) -> tuple[AutoEncoder, np.ndarray]:
    """A network of sentence features, and `n` rows on their grid."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(n, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = np.eye(4)[rng.integers(4, size=n)]
    features = np.concatenate([np.rint(vectors * 1024) / 1024, labels], axis=1)
    return network(features=388, latent_dim=64, scale=1.0), features


@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65, 1000])
def test_a_latent_of_features_is_the_same_alone_and_among_others(size: int) -> None:
    model, features = _of_features(1000)
    alone = [_projected(model, features[i : i + 1])[0].tolist() for i in range(0, 1000, 97)]
    for start in range(0, 1001 - size, 97):
        among = _projected(model, features[start : start + size])
        for i in range(start, start + size):
            assert i % 97 or among[i - start].tolist() == alone[i // 97]


def test_sums_that_are_not_exact_would_be_noticed() -> None:
    """The planted fault: weights as they were trained. Some order of summation then shows in some latent."""
    model, features = _of_features(1000)
    weights = model.project.weight.detach().double().numpy() / 3
    alone = np.concatenate([features[i : i + 1] @ weights.T for i in range(1000)])
    assert (alone != features @ weights.T).any()


def test_padding_to_the_longest_neighbour_would_be_noticed(model: AutoEncoder) -> None:
    """The planted fault: an encoder that reads as far as the longest text of the batch."""
    sequences = TOKENS.sequences([Record("0", "Send money", label="money"), Record("1", "a " * 10)])
    whole = Encoding(model)(TOKENS.inputs(sequences))[0]
    width = int((sequences[0] != PAD).sum())
    assert Encoding(model)(TOKENS.inputs(sequences)[:1, -width:])[0].tolist() != whole.tolist()


def test_each_record_has_its_own_latent_in_order(model: AutoEncoder) -> None:
    """Blocks are joined in order: swapped or repeated rows are seen."""
    found = Encoding(model)(INPUTS)
    with torch.inference_mode():
        naive = model.latent(torch.from_numpy(INPUTS)).double().numpy()
    assert found.shape == (300, 6)
    assert np.abs(found - naive).max() <= LATENT_GRID
    order = np.random.default_rng(0).permutation(300)
    assert Encoding(model)(INPUTS[order]).tolist() == found[order].tolist()
    distinct = len({tuple(row) for row in INPUTS.tolist()})
    assert len(np.unique(found, axis=0)) > 0.95 * distinct
    assert Encoding(model)(INPUTS[:0]).shape == (0, 6)


def test_latents_lie_on_the_grid_in_double_precision(model: AutoEncoder) -> None:
    found = Encoding(model)(INPUTS)
    assert found.dtype == np.float64
    assert (found / LATENT_GRID == np.rint(found / LATENT_GRID)).all()
    assert np.linalg.norm(found, axis=1).max() <= 1 + LATENT_GRID * 6**0.5


def test_features_take_the_place_of_the_lstm() -> None:
    model = network(features=5, latent_dim=3)
    assert not hasattr(model, "reader")
    features = np.random.default_rng(0).normal(size=(130, 5))
    found = Encoding(model)(features)
    weight, bias = (p.detach().double().numpy() for p in (model.project.weight, model.project.bias))
    naive = features @ weight.T + bias
    naive /= np.maximum(1, np.linalg.norm(naive, axis=1, keepdims=True))
    assert np.abs(found - naive).max() < LATENT_GRID
    assert Encoding(model)(features[7:8]).tolist() == found[7:8].tolist()


def test_the_published_latent_is_the_final_state() -> None:
    model = network(latent_dim=24, projected=False, clip_norm=100.0)
    with torch.inference_mode():
        _, (h, c) = model.reader(model.read_embedding(torch.from_numpy(INPUTS[:5])))
        wanted = torch.cat([h[0], c[0]], dim=1)
        assert torch.allclose(model.latent(torch.from_numpy(INPUTS[:5])), wanted, atol=1e-6)


# ------------------------------------------------------------------ losses


def test_the_losses_are_mean_cross_entropies_of_what_counts(model: AutoEncoder) -> None:
    records = [
        Record("0", "Send 300 euros to Zebra", label="money"),
        Record("1", "", label="travel"),
        Record("2", "x y"),
        *RECORDS[:5],
    ]
    targets = torch.from_numpy(TOKENS.sequences(records))
    latents = torch.from_numpy(Encoding(model)(TOKENS.inputs(targets.numpy())).astype(np.float32))
    with torch.inference_mode():
        found = model.losses(latents, targets)
        for i, row in enumerate(targets.tolist()):
            terms, before = [], [BEGIN]
            for token in row:
                chances = torch.log_softmax(model.logits(latents[i : i + 1], torch.tensor([before]))[0, -1], dim=0)
                if token not in (PAD, UNKNOWN):
                    terms.append(-float(chances[token]))
                before.append(token)
            assert float(found[i]) == pytest.approx(sum(terms) / max(1, len(terms)), rel=1e-4)
    # a text of unknown words only is charged for its end alone
    assert (targets[2] == UNKNOWN).sum() == 3
    assert np.isfinite(found.numpy()).all()


def test_what_a_decoder_sees_is_shifted_by_one() -> None:
    targets = torch.tensor([[5, 7, END, PAD], [6, 8, 9, END]])
    assert shifted(targets).tolist() == [[BEGIN, 5, 7, END], [BEGIN, 6, 8, 9]]


def test_no_loss_depends_on_padding_or_on_neighbours(model: AutoEncoder) -> None:
    wrapped = AnnotatedModel(model, TOKENS, None)
    alone = np.concatenate([wrapped.losses([record]) for record in RECORDS[:10]])
    assert np.allclose(wrapped.losses(RECORDS)[:10], alone, rtol=1e-5)
    latents = wrapped.latents(RECORDS)
    assert np.allclose(wrapped.writing_losses(latents, RECORDS), wrapped.losses(RECORDS), rtol=1e-5)
    # swapped rows are noticed
    swapped = wrapped.writing_losses(latents[::-1], RECORDS)
    assert not np.allclose(swapped, wrapped.losses(RECORDS), rtol=1e-2)


def test_the_representation_shows_sizes_only(model: AutoEncoder) -> None:
    shown = repr(AnnotatedModel(model, TOKENS, None))
    assert shown == f"AnnotatedModel(n_tokens={len(TOKENS)}, latent_dim=6)"
