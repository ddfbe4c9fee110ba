"""ADePT trained with DP-SGD: its accounting, its gradients, its noise, and faults planted in each."""

import copy
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2

torch = pytest.importorskip("torch")

from opacus import GradSampleModule  # noqa: E402
from opacus.layers import DPLSTM  # noqa: E402

from dptext import audits  # noqa: E402
from dptext.errors import ConfigError, DataError, IncomparableError  # noqa: E402
from dptext.mechanism import settings  # noqa: E402
from dptext.privacy import accounting  # noqa: E402
from dptext.privacy.events import SampledGaussianEvent  # noqa: E402
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit  # noqa: E402
from dptext.sampling.privunit import PrivUnit  # noqa: E402
from dptext.sampling.randomness import seeded  # noqa: E402
from dptext.testing import CHECKS, check_mechanism  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept.dpsgd import AdeptDpSgd  # noqa: E402
from dptext_lab.adept.latent import IN_BATCHES  # noqa: E402
from dptext_lab.adept.net import private_training  # noqa: E402
from dptext_lab.adept.net.network import Architecture, AutoEncoder, Encoding, shifted  # noqa: E402
from dptext_lab.adept.net.private_training import (  # noqa: E402
    ClippedGradients,
    PrivateSchedule,
    RecordLstm,
    sampled,
    train_privately,
)
from dptext_lab.nets.tokens import PAD, UNKNOWN  # noqa: E402

TINY, GAUSSIAN = AdeptDpSgd.tiny()
HASTY = replace(TINY, epochs=1)
RECORDS = sample_records(60)
SIZES = Architecture(n_tokens=20, length=6, latent_dim=3, hidden=5, embedding=4, clip_norm=1.0)
# The contract's pairs do not know what a training reveals ("guarantee", see test_the_release_is_audited).
QUICK = [name for name in CHECKS if name not in ("statements", "distribution", "guarantee")]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fitted():
    return TINY.fit(public=RECORDS[:40], private=RECORDS[40:], seed=1)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        found = AutoEncoder(SIZES).eval()
        with torch.no_grad():  # larger than at the start, so that clipping and recurrence matter
            for parameter in found.parameters():
                parameter.mul_(2)
    return found


def texts(n, seed=0, length=6):
    """Targets with padding and unknown words, and left-padded inputs."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(4, 20, (n, length))
    targets[rng.random((n, length)) < 0.1] = UNKNOWN
    for row, kept in zip(targets, rng.integers(2, length + 1, n), strict=True):
        row[kept:] = PAD
    inputs = np.stack([np.concatenate([row[row == PAD], row[row != PAD]]) for row in targets])
    return inputs, targets


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors]).detach().double().numpy()


# ------------------------------------------------------------------------------------------------ contract


@pytest.mark.slow
def test_contract(fitted):
    assert check_mechanism(fitted, RECORDS[:5], checks=QUICK) == tuple(QUICK)


@pytest.mark.slow
def test_contract_of_the_statements():
    mechanism = replace(GAUSSIAN, epochs=1).fit(public=RECORDS[:10], seed=1)
    assert check_mechanism(mechanism, checks=["settings", "statements"])


@pytest.mark.slow  # test_adept_statistics.py holds the noise to its scale
def test_the_release_is_audited(fitted):
    claim = replace(TINY.guarantee(), reveals=())
    latents = fitted.latent(RECORDS)
    i, j = np.unravel_index(np.argmin(latents @ latents.T), (60, 60))
    pairs = [audits.Pair(RECORDS[i], RECORDS[j], "far apart")]
    report = audits.whitebox(fitted, pairs=pairs, claim=claim, trials=1000)
    assert not report.refutes(claim)
    far_less = replace(claim, epsilon=1.0)  # planted: a statement that is not true is refuted
    assert audits.whitebox(fitted, pairs=pairs, claim=far_less, trials=1000).refutes(far_less)


# ---------------------------------------------------------------------------------------------- guarantee


@pytest.mark.slow  # tests/unit/privacy has the accounting of trainings
def test_replace_one_costs_more_than_opacus_would_say():
    """derivations, "Training and release": q = .01, sigma = 1, 1,000 steps, delta = 1e-5."""
    spec = replace(TINY, noise_multiplier=1.0, sampling_rate=0.01, steps=1000, epsilon=3.0)
    training, both = spec.training_guarantee(), spec.guarantee()
    assert training.epsilon == pytest.approx(2.84, abs=0.01)
    opacus = accounting.epsilon([spec.training_event], 1e-5, relation=Relation.ADD_OR_REMOVE_ONE)
    assert opacus == pytest.approx(1.83, abs=0.01)
    # The two compose a little better than they add up: the loss of the release is 3 or -3.
    assert 2.95 + training.epsilon < both.epsilon < 3.0 + training.epsilon


def test_what_the_guarantee_says():
    found = TINY.guarantee()
    assert (found.unit, found.relation, found.trust) == (Unit.DOCUMENT, Relation.REPLACE_ONE, Trust.CENTRAL)
    assert (found.delta, found.basis, found.reveals) == (1e-5, Basis.CONDITIONAL, ("the number of training records",))
    assert "must be trusted: who trains the model" in found.explain()
    assert "floats" in found.explain()
    assert "the texts of the first training are public" in found.explain()
    for encoder, device in product(("sentence", "distilled", "lstm"), ("cpu", "cuda")):
        changed = replace(TINY, encoder=encoder, device=device)
        for stated in (changed.guarantee(), changed.release_guarantee()):
            assert (IN_BATCHES in stated.assumptions) == ((encoder, device) == ("sentence", "cuda"))
    assert Guarantee.from_dict(found.to_dict()) == found
    local = TINY.release_guarantee()
    assert local.trust is Trust.LOCAL
    assert local.epsilon == 2.0 < found.epsilon
    assert local.delta < 1e-8
    assert TINY.guarantee(delta=1e-3).delta == 1e-3
    assert GAUSSIAN.release_guarantee().delta == 5e-6
    with pytest.raises(IncomparableError, match="token"):
        TINY.guarantee(Unit.TOKEN)


def test_with_almost_no_noise_nothing_is_guaranteed():
    assert replace(TINY, noise_multiplier=1e-6).guarantee().basis is Basis.NONE
    assert TINY.guarantee().basis is Basis.CONDITIONAL


@pytest.mark.slow
def test_calibrate_splits_and_never_overshoots():
    spec = replace(TINY, training_share=0.2).calibrate(1.0, delta=1e-6)
    assert spec.epsilon == pytest.approx(0.8)
    assert spec.guarantee().delta == 1e-6
    assert 0.999 < spec.guarantee().epsilon <= 1.0
    less_noise = replace(spec, noise_multiplier=0.98 * spec.noise_multiplier)
    assert less_noise.guarantee().epsilon > 1.0


def test_settings_are_checked():
    for changes, told in (
        ({"delta": 0.0}, "delta"),
        ({"release_delta": 1e-6}, "release_delta"),
        ({"noise": "gaussian", "release_delta": 1e-5}, "delta"),
        ({"noise": "codebook"}, "noise"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"steps": 0}, "steps"),
        ({"training_share": 1.0}, "training_share"),
        ({"labels": ("a", "a")}, "labels"),
    ):
        with pytest.raises(ConfigError, match=told):
            replace(TINY, **changes)
    assert settings(TINY)["kind"] == "adept_dpsgd"


# -------------------------------------------------------------------------------------------- per record


def test_the_lstm_is_the_usual_one(model):
    """Weights trained in one give the same outputs in the other, and are copied back as they were."""
    inputs, targets = texts(7)
    twin = ClippedGradients(model, 1.0)
    read, wanted = torch.from_numpy(inputs), torch.from_numpy(targets)
    with torch.no_grad():
        torch.testing.assert_close(twin.model.latent(read), model.latent(read))
        ours, theirs = (each.logits(model.latent(read), shifted(wanted)) for each in (twin.model, model))
        torch.testing.assert_close(ours, theirs)
    other = AutoEncoder(SIZES).eval()
    twin.copy_to(other)
    assert all(torch.equal(other.state_dict()[name], value) for name, value in model.state_dict().items())


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_the_lstm_against_opacus(model):
    """Per-record gradients of opacus's own layer, which takes its steps one by one, on the writer alone."""
    theirs = GradSampleModule(DPLSTM(7, 5, batch_first=True), loss_reduction="sum")
    theirs._module.load_state_dict(model.writer.state_dict())
    ours = GradSampleModule(RecordLstm(7, 5), loss_reduction="sum")
    ours._module.load_state_dict(
        {new: model.writer.state_dict()[old] for old, new in private_training._RENAMED.items()}
    )
    given = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 6, 7)).astype(np.float32))
    start = torch.full((1, 4, 5), 0.3)
    for module in (theirs, ours):
        states, (h, c) = module(given, (start, -start))
        (states.square().sum() + h.sum() + 2 * c.sum()).backward()
    named = dict(theirs._module.named_parameters())
    for old, new in private_training._RENAMED.items():
        ours_of_records = ours._module.get_parameter(new).grad_sample
        assert ours_of_records.shape[0] == 4
        torch.testing.assert_close(ours_of_records, named[old].grad_sample, rtol=1e-4, atol=1e-5)


def clipped_one_by_one(model, inputs, targets, clip_norm):
    """The sum of clipped gradients by plain autograd, record by record; and the norms."""
    plain = ClippedGradients(model, clip_norm)
    order = [name for name, _ in plain.model.named_parameters()]
    gradients, norms = [], []
    for i in range(len(targets)):
        other = AutoEncoder(SIZES)
        other.load_state_dict(model.state_dict())
        read, wanted = torch.from_numpy(inputs[i : i + 1]), torch.from_numpy(targets[i : i + 1])
        other.losses(other.latent(read), wanted).sum().backward()
        by_name = {private_training._renamed(name): p.grad for name, p in other.named_parameters()}
        of_record = flat(by_name[name] for name in order)
        norms.append(np.linalg.norm(of_record))
        gradients.append(of_record * min(1.0, clip_norm / norms[-1]))
    return np.sum(gradients, axis=0), np.asarray(norms)


@pytest.fixture
def no_dropout(monkeypatch):
    monkeypatch.setattr(private_training, "WORD_DROPOUT", 0.0)


def summed(model, inputs, targets, clip_norm):
    gradients = ClippedGradients(model, clip_norm)
    hidden = torch.zeros(targets.shape, dtype=torch.bool)
    return flat(gradients.sum(torch.from_numpy(inputs), torch.from_numpy(targets), hidden=hidden))


@pytest.mark.parametrize("shuffled", [False, True])
def test_replacing_one_record_moves_a_step_by_two_clipped_gradients_at_most(model, monkeypatch, shuffled):
    """With hidden words and noise on latents, more rows than a block, and a replacement of another length."""
    clip_norm, sums = 0.5, []
    monkeypatch.setattr(private_training, "add_noise", lambda total, scale, randomness: sums.append(flat(total)))
    if shuffled:  # planted: what is drawn for a record depends on its place among the others
        drawn = private_training.hidden_words
        monkeypatch.setattr(
            private_training, "hidden_words", lambda n, length, r: drawn(n, length, seeded(len(sums))).copy()
        )
    inputs, targets = texts(300, seed=1)
    other_inputs, other_targets = inputs.copy(), targets.copy()
    longest = int((targets != PAD).sum(axis=1).argmax())
    shortest = int((targets != PAD).sum(axis=1).argmin())
    other_inputs[longest], other_targets[longest] = inputs[shortest], targets[shortest]
    schedule = PrivateSchedule(0.95, 1.0, 1, clip_norm, 1e-3)
    noise = PrivUnit(2.0, SIZES.latent_dim)
    for read, wanted in ((inputs, targets), (other_inputs, other_targets)):
        trained, source = copy.deepcopy(model), seeded(7)
        train_privately(
            trained, read, wanted, schedule=schedule, randomness=source, noise=lambda x, s=source: noise.release(x, s)
        )
    moved = float(np.linalg.norm(sums[0] - sums[1]))
    assert (moved <= 2 * clip_norm * (1 + 1e-4)) is not shuffled
    assert moved > 0


@pytest.mark.usefixtures("no_dropout")
def test_gradients_are_clipped_record_by_record(model):
    inputs, targets = texts(9)
    targets[targets == PAD] = 4  # nn.Embedding gives its padding no gradient, per-record gradients do
    inputs[inputs == PAD] = 4
    _, norms = clipped_one_by_one(model, inputs, targets, 1.0)
    clip_norm = float(np.median(norms))  # some are clipped, some are not
    expected, _ = clipped_one_by_one(model, inputs, targets, clip_norm)
    found = summed(model, inputs, targets, clip_norm)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    # Planted: one clipping of the whole sum, and none at all, are other sums.
    whole, _ = clipped_one_by_one(model, inputs, targets, 1e9)
    assert np.abs(found - whole).max() > 1e-2
    assert np.abs(found - whole * min(1.0, 9 * clip_norm / np.linalg.norm(whole))).max() > 1e-3


@pytest.mark.usefixtures("no_dropout")
def test_no_record_counts_for_more_than_the_clip_norm(model):
    inputs, targets = texts(40, seed=5)
    for clip_norm in (0.01, 0.3):
        with_all = summed(model, inputs, targets, clip_norm)
        for i in range(0, 40, 10):
            alone = summed(model, inputs[i : i + 1], targets[i : i + 1], clip_norm)
            assert np.linalg.norm(alone) <= clip_norm * (1 + 1e-5)
            without = summed(model, np.delete(inputs, i, 0), np.delete(targets, i, 0), clip_norm)
            np.testing.assert_allclose(with_all - without, alone, atol=1e-5)


def test_a_gradient_that_is_no_number_counts_for_nothing(model):
    inputs, targets = texts(5, seed=2)
    targets[:, 0], inputs[:, -1] = 7, 8
    targets[0, 0] = 19
    broken = AutoEncoder(SIZES).eval()
    broken.load_state_dict(model.state_dict())
    with torch.no_grad():
        broken.write_embedding.weight[19] = torch.nan  # only the first record writes it before its end
    inputs[inputs == 19], targets[1:][targets[1:] == 19] = 6, 6
    found = summed(broken, inputs, targets, 0.5)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) > 0
    assert (summed(broken, inputs[:1], targets[:1], 0.5) == 0).all()


# ------------------------------------------------------------------------------- sampling and noise


def test_poisson_sampling():
    n, rate, rounds = 200, 0.1, 300
    taken = np.stack([sampled(n, rate, seeded(i)) for i in range(rounds)])
    low, high = binom.ppf([1e-5, 1 - 1e-5], n * rounds, rate)
    assert low <= taken.sum() <= high
    assert taken.sum(axis=1).std() == pytest.approx(math.sqrt(n * rate * (1 - rate)), rel=0.2)  # no fixed batch size
    assert len(set(taken.sum(axis=1).tolist())) > 10
    assert sampled(50, 1.0, seeded(0)).all()
    assert not sampled(50, 1e-12, seeded(0)).any()


def test_a_step_takes_a_poisson_sample_that_is_new_each_time(model, monkeypatch):
    """The gradients show which rows are in a batch. Batches of one size, or repeated ones, have another privacy."""
    n, rate, steps, seen = 200, 0.1, 250, []
    digits = np.arange(n)
    targets = np.stack([4 + digits // 16, 4 + digits % 16, *[np.full(n, 4)] * 4], axis=1)  # they name their row

    def recorded(self, inputs, targets, *, hidden, shifts=None):
        rows = 16 * (targets[:, 0] - 4) + targets[:, 1] - 4
        assert torch.equal(inputs, targets)
        assert not seen[-1][rows].any()
        seen[-1][rows] = True
        return [torch.zeros_like(parameter) for parameter in self.parameters]

    monkeypatch.setattr(ClippedGradients, "sum", recorded)
    monkeypatch.setattr(private_training, "add_noise", lambda *_: seen.append(np.zeros(n, bool)))  # ends a step
    seen.append(np.zeros(n, bool))
    train_privately(
        copy.deepcopy(model),
        targets,
        targets,
        schedule=PrivateSchedule(rate, 1.0, steps, 1.0, 1e-3),
        randomness=seeded(3),
    )
    taken = np.stack(seen[:-1])
    assert len(taken) == steps
    low, high = binom.ppf([1e-6, 1 - 1e-6], n * steps, rate)
    assert low <= taken.sum() <= high
    low, high = binom.ppf([1e-6, 1 - 1e-6], steps, rate)
    assert (taken.sum(axis=0) >= low).all()  # of each record
    assert (taken.sum(axis=0) <= high).all()
    sizes = taken.sum(axis=1)
    assert sizes.std() == pytest.approx(math.sqrt(n * rate * (1 - rate)), rel=0.2)
    again = (taken[1:] & taken[:-1]).sum()  # taken in a step and in the next one: rate^2, neither all nor none
    low, high = binom.ppf([1e-6, 1 - 1e-6], n * (steps - 1), rate**2)
    assert low <= again <= high


def changes(model, *, noise_multiplier, clip_norm=0.7, rate=1e-9, records=30, seed=0, steps=1):
    """What SGD of rate 1 changes in each parameter, times the expected batch: minus the noisy sums of gradients."""
    inputs, targets = texts(records)
    trained = AutoEncoder(SIZES)
    trained.load_state_dict(model.state_dict())
    schedule = PrivateSchedule(rate, noise_multiplier, steps, clip_norm, rate * records)
    train_privately(trained, inputs, targets, schedule=schedule, randomness=seeded(seed))
    before, after = model.state_dict(), trained.state_dict()
    return flat(after[name].double() - before[name].double() for name in before)


@pytest.fixture
def sgd(monkeypatch):
    """Plain steps, so that what was added can be seen in the weights."""
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)


def scale_is(found, sigma):
    """Whether these are draws of this standard deviation, at a level of 1e-6."""
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(found))
    return low <= np.square(found / sigma).sum() <= high


@pytest.mark.usefixtures("sgd")
def test_the_noise_has_the_stated_scale(model):
    """An empty batch is a step of noise alone: multiplier times clip norm, on every coordinate, new in every step."""
    found = changes(model, noise_multiplier=2.0)
    assert scale_is(found, 2.0 * 0.7)
    assert not scale_is(found, 2.0 * 0.7 * 2 / 3)
    assert not scale_is(found, 2.0 * 0.7 * 3 / 2)
    assert scale_is(changes(model, noise_multiplier=2.0, steps=9), 3 * 2.0 * 0.7)
    assert not np.allclose(found, changes(model, noise_multiplier=2.0, seed=1))


@pytest.mark.usefixtures("sgd", "no_dropout")
def test_the_noise_is_added_to_the_clipped_sum(model):
    """With every record taken and the noise known, what is left is the sum of clipped gradients."""
    inputs, targets = texts(30)
    clean = changes(model, noise_multiplier=1e-12, rate=1.0, clip_norm=0.03)
    np.testing.assert_allclose(clean, in_order(model, -summed(model, inputs, targets, 0.03)), atol=1e-5)
    noise = changes(model, noise_multiplier=1.0, rate=1.0, clip_norm=0.03) - clean
    assert scale_is(noise, 0.03)
    # Planted: a training without noise is seen by this very test, and so is one whose clipping is ten times too wide.
    assert not scale_is(clean, 0.03)
    assert np.linalg.norm(clean) <= 30 * 0.03
    assert np.linalg.norm(changes(model, noise_multiplier=1e-12, rate=1.0, clip_norm=0.3)) > 30 * 0.03


def in_order(model, gradients):
    """A flat vector in the order of RecordLstm's parameters as one in the order of nn.LSTM's state."""
    twin = ClippedGradients(model, 1.0).model
    named, start = {}, 0
    for name, parameter in twin.named_parameters():
        named[name] = gradients[start : start + parameter.numel()]
        start += parameter.numel()
    return np.concatenate([named[private_training._renamed(name)] for name in model.state_dict()])


@pytest.mark.usefixtures("sgd", "no_dropout")
def test_the_influence_of_one_record(model, monkeypatch):
    """Replacing a record moves the sum of gradients by at most two clip norms; without clipping by more."""
    inputs, targets = texts(30)
    other_inputs, other_targets = inputs.copy(), targets.copy()
    other_inputs[4], other_targets[4] = texts(1, seed=77)[0][0], texts(1, seed=77)[1][0]

    def moved():
        schedule = PrivateSchedule(1.0, 1.0, 1, 0.05, 30.0)
        ends = []
        for read, wanted in ((inputs, targets), (other_inputs, other_targets)):
            trained = AutoEncoder(SIZES)
            trained.load_state_dict(model.state_dict())
            train_privately(trained, read, wanted, schedule=schedule, randomness=seeded(1))
            ends.append(flat(trained.state_dict().values()))
        return np.linalg.norm(ends[0] - ends[1])

    assert 0 < moved() <= 2 * 0.05 * (1 + 1e-3)
    unclipped = private_training.GradSampleModuleFastGradientClipping
    monkeypatch.setattr(unclipped, "get_clipping_coef", lambda self: torch.ones_like(self.get_norm_sample()))
    assert moved() > 2 * 0.05


def test_steps_are_all_taken_and_nothing_of_the_loss_is_told(model):
    told = []
    inputs, targets = texts(6)
    trained = AutoEncoder(SIZES)
    schedule = PrivateSchedule(0.5, 1.0, 3, 1.0, 1e-3)
    train_privately(
        trained, inputs, targets, schedule=schedule, randomness=seeded(0), on_step=lambda *at: told.append(at)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert not trained.training
    assert np.isfinite(Encoding(trained)(inputs)).all()


# ----------------------------------------------------------------------------------------- as a mechanism


def test_private_records_train_and_the_seed_does_not_fix_it():
    once, again = (HASTY.fit(public=RECORDS[:40], private=RECORDS[40:], seed=1) for _ in range(2))
    public_only, same = (HASTY.fit(public=RECORDS[:40], seed=1) for _ in range(2))
    assert dict(public_only.digests) == dict(same.digests)
    assert len({mechanism.digests["model"] for mechanism in (once, again, public_only)}) == 3
    assert once.model.tokens == public_only.model.tokens  # no private word enters the vocabulary
    assert public_only.spec == once.spec
    assert isinstance(HASTY.training_event, SampledGaussianEvent)


@pytest.mark.parametrize("spec", [HASTY, replace(GAUSSIAN, epochs=1)], ids=lambda spec: spec.noise)
@pytest.mark.parametrize("seed", [None, 1])
def test_bits_for_private_records_are_secure_whatever_the_seed(spec, seed, monkeypatch):
    """Sampling and gradient noise, and the noise on latents, too: whoever knows the seed could undo them."""
    given, private, sources = [], [], {False: [], True: []}
    release, train = type(spec.vector_noise).release, private_training.train_further

    def recorded(self, latents, randomness):
        sources[bool(private)].append(randomness.is_secure)
        return release(self, latents, randomness)

    def further(*arguments, randomness, **others):
        given.append(randomness.is_secure)
        private.append(True)
        return train(*arguments, randomness=randomness, **others)

    monkeypatch.setattr(type(spec.vector_noise), "release", recorded)
    monkeypatch.setattr(private_training, "train_further", further)
    spec.fit(public=RECORDS[:40], private=RECORDS[40:], seed=seed)
    assert given == [True]
    assert sources[True]
    assert all(sources[True])
    assert sources[False]
    assert not any(sources[False])  # of public records: what the seed says, so that a fit can be repeated


def test_training_learns(model):
    """With little noise the records are learnt: the training is no mere noise."""
    inputs, targets = texts(60)
    trained = AutoEncoder(SIZES)
    trained.load_state_dict(model.state_dict())
    schedule = PrivateSchedule(0.5, 0.05, 25, 1.0, 2e-2)
    train_privately(trained, inputs, targets, schedule=schedule, randomness=seeded(0))
    read, wanted = torch.from_numpy(inputs), torch.from_numpy(targets)
    with torch.no_grad():
        before, after = (float(each.losses(each.latent(read), wanted).mean()) for each in (model, trained))
    assert after < 0.9 * before


def test_odd_private_records_are_trained_on():
    odd = [Record("0", "", label="no such label"), Record("1", "zq " * 500), Record("2", "\x01", label=None)]
    mechanism = replace(HASTY, sampling_rate=1.0).fit(public=RECORDS[:10], private=odd, seed=1)
    assert np.isfinite(mechanism.reconstruction_losses(odd)).all()
    with pytest.raises(ConfigError, match="label"):
        HASTY.fit(public=odd)
    with pytest.raises(DataError, match="NUL"):
        HASTY.fit(public=RECORDS[:10], private=[*odd, Record("3", "\x00")])
