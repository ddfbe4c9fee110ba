"""Training: the loss falls, the best epoch stays, the noise is fresh each step, held-out texts are not learnt."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptext.embeddings import sentence_encoder  # noqa: E402
from dptext.errors import ConfigError  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext_lab.adept.net import training  # noqa: E402
from dptext_lab.adept.net.fitting import NetworkSettings, fit_model  # noqa: E402
from dptext_lab.adept.net.model import AnnotatedModel  # noqa: E402
from dptext_lab.adept.net.network import Architecture, AutoEncoder  # noqa: E402
from dptext_lab.adept.net.training import EpochProgress, Schedule, noisy, reconstruction_losses, train  # noqa: E402
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN, Tokens, batches  # noqa: E402

LABELS = ("music", "weather", "money", "travel")
VERBS, NAMES = ("play", "find", "send", "book", "show"), ("abba", "oslo", "bach", "rome")
RECORDS = [
    Record(str(i), f"{VERBS[i % 5]} {NAMES[i // 5 % 4]}{' now' * (i % 3)}", label=LABELS[i // 20]) for i in range(80)
]
TOKENS = Tokens.from_public([r.text for r in RECORDS], labels=LABELS, max_tokens=8, min_count=1, max_words=500)
TARGETS = TOKENS.sequences(RECORDS)
INPUTS = TOKENS.inputs(TARGETS)
SETTINGS = NetworkSettings(LABELS, "lstm", 4, 1.0, 8, 12, 8, 1, 500, projected=True, schedule=Schedule(epochs=3))


pytestmark = pytest.mark.usefixtures("one_thread")


def fresh(seed: int = 0, *, clip_norm: float = 1.0) -> AutoEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoEncoder(Architecture(len(TOKENS), TOKENS.length, 4, 12, 8, clip_norm))


def weights(model: AutoEncoder) -> list[float]:
    return torch.cat([value.flatten() for value in model.state_dict().values()]).tolist()


def fitted(*, seed: int = 0, noise=None, inputs=INPUTS, targets=TARGETS, on_epoch=None, **changes) -> AutoEncoder:
    model = fresh()
    schedule = replace(Schedule(epochs=2, batch_size=16, learning_rate=5e-3), **changes)
    train(model, inputs, targets, schedule=schedule, seed=seed, noise=noise, on_epoch=on_epoch)
    return model


def fit(seed: int | None = 0, records=RECORDS, **changes) -> AnnotatedModel:
    return fit_model(SETTINGS, records, seed=seed, **{"noise": None, **changes})


# ------------------------------------------------------------------ learning


def test_the_loss_falls_and_progress_says_so() -> None:
    seen: list[EpochProgress] = []
    model = fitted(epochs=12, learning_rate=2e-2, patience=12, on_epoch=seen.append)
    assert [(p.epoch, p.epochs) for p in seen] == [(i, 12) for i in range(1, 13)]
    assert seen[-1].loss < 0.6 * seen[0].loss
    assert seen[-1].held_out < 0.8 * seen[0].held_out
    assert 0 < seen[-1].loss < seen[0].loss < np.log(len(TOKENS)) + 0.5
    after = reconstruction_losses(model, INPUTS, TARGETS)
    assert after.shape == (80,)
    assert after.mean() < 0.6 * reconstruction_losses(fresh(), INPUTS, TARGETS).mean()
    assert not model.training


LONG = {"epochs": 20, "patience": 20, "learning_rate": 3e-2, "word_dropout": 0.5}


@pytest.fixture(scope="module")
def learnt() -> AutoEncoder:
    return fitted(**LONG)


def gain(model: AutoEncoder) -> float:
    """How much better the decoder writes a text from its own latent than from another's."""
    own = reconstruction_losses(model, INPUTS, TARGETS).mean()
    other = reconstruction_losses(model, np.roll(INPUTS, 1, axis=0), TARGETS).mean()
    return float(other - own)


def test_what_was_learnt_is_the_pairing_of_input_and_output(learnt: AutoEncoder) -> None:
    assert gain(learnt) > 0.4


@pytest.mark.slow  # it tries the test above
def test_swapped_rows_teach_no_pairing() -> None:
    """The planted fault: trained on swapped rows, the latent tells the decoder nothing about its own text."""
    assert gain(fitted(inputs=INPUTS[::-1].copy(), **LONG)) < 0.1


def test_latents_stay_clipped_through_the_training() -> None:
    model = fitted(epochs=5, learning_rate=3e-2)
    with torch.inference_mode():
        assert float(model.latent(torch.from_numpy(INPUTS)).norm(dim=1).max()) <= 1 + 1e-6


# ------------------------------------------------------------------ early stopping


@pytest.mark.parametrize(
    ("losses", "epochs", "best"),
    [
        ([3.0, 2.0, 1.0, 1.5, 1.2, 0.5], 5, 3),  # two worse than the best: ends, the better sixth is never reached
        ([3.0, 4.0, 2.0, 2.5, 1.0, 1.5], 6, 5),  # patience starts anew after each better one
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 3, 1),  # equal is not better
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 6, 6),
    ],
)
def test_the_best_epoch_is_kept(losses: list[float], epochs: int, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter(losses)
    monkeypatch.setattr(training, "reconstruction_losses", lambda *_, **__: np.array([next(left)]))
    model, states, seen = fresh(), [], []

    def on_epoch(progress: EpochProgress) -> None:
        seen.append(progress.held_out)
        states.append(copy.deepcopy(weights(model)))

    schedule = Schedule(epochs=6, patience=2, batch_size=16)
    train(model, INPUTS, TARGETS, schedule=schedule, seed=0, on_epoch=on_epoch)
    assert seen == losses[:epochs]
    assert len({tuple(state) for state in states}) == epochs  # each epoch changed the weights
    assert weights(model) == states[best - 1]


def test_the_held_out_loss_is_that_of_the_held_out_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = training.reconstruction_losses

    def watched(model, inputs, targets, **more):
        asked.append((inputs.copy(), targets.copy()))
        assert not model.training
        return original(model, inputs, targets, **more)

    monkeypatch.setattr(training, "reconstruction_losses", watched)
    fitted(epochs=3, held_out=0.1)
    assert len(asked) == 3
    assert all(len(inputs) == 8 for inputs, _ in asked)
    assert all((inputs == asked[0][0]).all() and (targets == asked[0][1]).all() for inputs, targets in asked)
    assert (TOKENS.inputs(asked[0][1]) == asked[0][0]).all()  # rows of inputs and targets belong together


def test_the_training_never_sees_held_out_texts() -> None:
    """Each text in turn is replaced by another: the weights after one epoch change unless it was held out."""
    n = 10
    base = weights(fitted(epochs=1, held_out=0.2, inputs=INPUTS[:n], targets=TARGETS[:n]))
    unseen = []
    for i in range(n):
        targets = TARGETS[:n].copy()
        targets[i, 1] = TOKENS.sequences([Record("0", "oslo")])[
            0, 1
        ]  # of the same length: the batches stay as they are
        if weights(fitted(epochs=1, held_out=0.2, inputs=TOKENS.inputs(targets), targets=targets)) == base:
            unseen.append(i)
    assert len(unseen) == 2


@pytest.mark.parametrize(("n", "held"), [(2, 1), (3, 1), (40, 2), (80, 4)])
def test_a_share_is_held_out_and_something_is_left(n: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = training.reconstruction_losses

    def watched(model, inputs, targets, **more):
        sizes.append(len(inputs))
        return original(model, inputs, targets, **more)

    monkeypatch.setattr(training, "reconstruction_losses", watched)
    seen: list[EpochProgress] = []
    fitted(epochs=1, inputs=INPUTS[:n], targets=TARGETS[:n], on_epoch=seen.append)
    assert sizes == [held]
    assert np.isfinite([seen[0].loss, seen[0].held_out]).all()


# ------------------------------------------------------------------ the noise


class Noise:
    """Noise that keeps what it was given and what it gave."""

    def __init__(self, scale: float = 1.0) -> None:
        self.source = np.random.default_rng(0)
        self.scale = scale
        self.clean: list[np.ndarray] = []
        self.drawn: list[np.ndarray] = []

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        shift = self.scale * self.source.normal(size=latents.shape)
        self.clean.append(latents.copy())
        self.drawn.append(shift)
        return latents + shift


def test_noise_is_drawn_anew_each_step_for_every_text() -> None:
    noise = Noise()
    fitted(epochs=3, noise=noise)
    # 76 texts in batches of 16 are 5 steps; then the 4 held-out texts
    assert [len(drawn) for drawn in noise.drawn[5::6]] == [4, 4, 4]
    steps = [drawn for i, drawn in enumerate(noise.drawn) if i % 6 != 5]
    assert len(noise.drawn) == 18
    assert [sum(map(len, steps[i : i + 5])) for i in (0, 5, 10)] == [76] * 3
    everything = np.concatenate(noise.drawn)
    assert len(np.unique(everything, axis=0)) == len(everything)  # no draw is used twice
    assert all(clean.dtype == np.float64 for clean in noise.clean)
    assert max(np.linalg.norm(clean, axis=1).max() for clean in noise.clean) <= 1 + 1e-4  # clipped before the noise


def test_the_decoder_is_trained_on_the_noisy_latents(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, read = Noise(), []
    original = AutoEncoder.losses

    def watched(self, latents, targets, previous=None):
        if previous is not None:  # a training step
            read.append(latents.detach().double().numpy())
        return original(self, latents, targets, previous)

    monkeypatch.setattr(AutoEncoder, "losses", watched)
    fitted(epochs=1, noise=noise)
    assert len(read) == 5
    for latents, clean, drawn in zip(read, noise.clean, noise.drawn, strict=False):
        assert np.allclose(latents, clean + drawn, atol=1e-5)
        assert not np.allclose(latents, clean, atol=1e-2)


def test_noise_has_no_gradient_of_its_own() -> None:
    latents = torch.tensor([[0.3, 0.4]], requires_grad=True)
    found = noisy(latents, lambda clean: clean * 5 + 1)
    assert torch.allclose(found, torch.tensor([[2.5, 3.0]]))
    (found * torch.tensor([[1.0, 2.0]])).sum().backward()
    assert latents.grad.tolist() == [[1.0, 2.0]]  # as if the noise were a constant
    assert noisy(latents, None) is latents


@pytest.mark.slow  # test_the_decoder_is_trained_on_the_noisy_latents stays
def test_training_with_noise_makes_the_decoder_robust_to_it(learnt: AutoEncoder) -> None:
    """Denoising: under noise, the decoder that was trained with it writes better than the one trained without."""

    def under_noise(model: AutoEncoder) -> float:
        return float(reconstruction_losses(model, INPUTS, TARGETS, noise=Noise(0.7)).mean())

    assert under_noise(fitted(noise=Noise(0.7), **LONG)) < under_noise(learnt) - 0.1


def test_reconstruction_losses_carry_the_noise_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    clean = reconstruction_losses(model, INPUTS, TARGETS)
    with monkeypatch.context() as patched:
        patched.setattr(training, "ROWS_AT_ONCE", 7)
        others = reconstruction_losses(model, INPUTS, TARGETS)  # the same, in other blocks
    assert (clean == others).mean() > 0
    assert np.allclose(clean, others, rtol=1e-5)
    assert not np.allclose(clean, reconstruction_losses(model, INPUTS, TARGETS, noise=Noise()), rtol=1e-3)
    own = np.concatenate([reconstruction_losses(model, INPUTS[i : i + 1], TARGETS[i : i + 1]) for i in range(10)])
    assert np.allclose(clean[:10], own, rtol=1e-5)


# ------------------------------------------------------------------ batches and dropped words


def test_every_used_text_is_in_one_batch_an_epoch() -> None:
    source = np.random.default_rng(0)
    rows = np.arange(3, 80)
    first, second = (batches(rows, (TARGETS != PAD).sum(axis=1), 16, source) for _ in range(2))
    for found in (first, second):
        assert sorted(np.concatenate(found).tolist()) == rows.tolist()
        assert [len(batch) for batch in sorted(found, key=len)] == [13, 16, 16, 16, 16]
    assert [set(batch.tolist()) for batch in first] != [set(batch.tolist()) for batch in second]


def test_dropped_words_are_unknown_and_never_the_beginning_or_padding() -> None:
    previous = torch.tensor([[BEGIN, 9, 8, END, PAD, PAD]]).repeat(4000, 1)
    found = training._dropped(previous, 0.25, np.random.default_rng(0))
    assert (found[:, 0] == BEGIN).all()
    assert (found[:, 4:] == PAD).all()
    shares = (found[:, 1:4] == UNKNOWN).double().mean(dim=0)
    assert torch.allclose(shares, torch.full((3,), 0.25, dtype=torch.double), atol=0.03)
    assert ((found == previous) | (found == UNKNOWN)).all()
    assert torch.equal(training._dropped(previous, 0.0, np.random.default_rng(0)), previous)


# ------------------------------------------------------------------ seeds


def test_a_seed_repeats_the_whole_fit_and_leaves_the_global_streams_alone() -> None:
    torch.manual_seed(11)
    np.random.seed(11)
    state, legacy = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first = fit(3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (np.random.get_state()[1] == legacy).all()
    torch.manual_seed(12)  # and nothing is read from them
    again = fit(3)
    assert again.digest == first.digest
    assert weights(again.model) == weights(first.model)
    assert fit(4).digest != first.digest
    assert fit(None).digest != fit(None).digest


def test_a_fit_is_of_these_records_alone() -> None:
    assert fit(records=RECORDS[:40]).digest != fit(records=RECORDS[40:]).digest
    canary = [*RECORDS[:5], Record("0", "zq9canary zq9canary zq9canary", label="money")]
    assert "zq9canary" in fit(records=canary).tokens.words
    assert "zq9canary" not in fit(records=RECORDS).tokens.words


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_records_are_refused_without_a_word_of_them(n: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 2 public records to fit on, found {n}") as caught:
        fit(records=[Record("0", "zq9canary")] * n)
    assert "zq9canary" not in str(caught.value)


def test_texts_without_words_can_be_trained_on() -> None:
    """Empty texts and unknown words leave finite weights."""
    model = fit(records=[Record(str(i), "" if i % 2 else "\n", label="money") for i in range(6)])
    assert np.isfinite(weights(model.model)).all()
    assert np.isfinite(model.losses(RECORDS)).all()


# ------------------------------------------------------------------ sentence features


class Sentences:
    """A stand-in for the sentence encoder: public vectors of texts, made from their letters."""

    dim, digest, name = 5, "0" * 64, "letters"

    def __init__(self, *_: str, device: str = "cpu", **__: str) -> None:
        assert device == "cpu"

    def embed(self, texts):
        counts = np.array([[text.count(letter) for letter in "aeiou"] for text in texts], float).reshape(-1, 5)
        return counts / np.maximum(1, np.linalg.norm(counts, axis=1, keepdims=True))


def test_sentence_features_and_labels_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", Sentences)
    model = fit_model(replace(SETTINGS, encoder="sentence"), RECORDS, noise=None, seed=0)
    found = model.inputs([Record("0", "aaa", label="money"), Record("1", "eu"), Record("2", "eu", label="zq9canary")])
    half = 2**-0.5
    unlabelled = [0, half, 0, 0, half, 0, 0, 0, 0]
    assert np.allclose(found, [[1, 0, 0, 0, 0, 0, 0, 1, 0], unlabelled, unlabelled])
    assert model.digests["sentence encoder"] == "0" * 64
    assert (model.meanings(RECORDS) == Sentences(device="cpu").embed([r.text for r in RECORDS])).all()
    # a missing and an unknown label are the same, and differ from a known one
    latents = model.latents([Record("0", "eu", label=label) for label in (None, "zq9canary", "money")])
    assert (latents[0] == latents[1]).all()
    assert (latents[0] != latents[2]).any()
    assert model.latents([]).shape == (0, 4)


def test_without_sentences_the_meaning_is_the_direction_of_the_latent() -> None:
    model = fit()
    meanings, latents = model.meanings(RECORDS), model.latents(RECORDS)
    assert np.allclose(np.linalg.norm(meanings, axis=1), 1)
    assert np.allclose(meanings * np.linalg.norm(latents, axis=1, keepdims=True), latents)
    assert "sentence encoder" not in model.digests
