"""DP-SGD for the auto-encoder of ADePT (Abadi et al. 2016; Song, Chaudhuri and Sarwate 2013): clipped, noisy gradients.

The caller's `Randomness` draws the records of a step and the noise on their gradients. opacus's own noise comes from a
predictable generator unless torchcsprng is installed, which does not exist for this torch. opacus computes the gradient
norm of each record for linear layers and embeddings ("ghost clipping", Li et al. 2022). opacus's `DPLSTM` is several
times as slow here, so the LSTM is written as two linear layers that see all steps at once (`RecordLstm`).

The caller sees the private texts. `dptext_lab.adept.dpsgd` states the guarantee of the weights.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModuleFastGradientClipping  # type: ignore[import-untyped]
from torch import Tensor, nn

from dptext.sampling.float_noise import normals
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record
from dptext.types import Booleans, Integers
from dptext_lab.adept.net.model import AnnotatedModel
from dptext_lab.adept.net.network import AutoEncoder, shifted, unseen
from dptext_lab.adept.net.training import LatentNoise, noisy
from dptext_lab.nets.tokens import PAD, UNKNOWN

LstmState = tuple[Tensor, Tensor]

#: Names of parameters in `nn.LSTM`, and their names in `RecordLstm`.
_RENAMED = {f"{kind}_{side}_l0": f"{side}.{kind}" for side in ("ih", "hh") for kind in ("weight", "bias")}
_ROWS = 256
WORD_DROPOUT = 0.25  # share of the words that are hidden from the decoder


class RecordLstm(nn.Module):
    """An LSTM (`nn.LSTM` of one layer, batch_first) of two linear layers, for which opacus computes norms per record.

    A first pass without gradients finds the states. The second pass reads the states as a constant input of the layer
    `hh`, whose gradient is then the gradient of the recurrence.
    """

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: Literal[True] = True) -> None:
        super().__init__()
        self.ih = nn.Linear(input_size, 4 * hidden_size)
        self.hh = nn.Linear(hidden_size, 4 * hidden_size)

    def forward(self, inputs: Tensor, state: LstmState | None = None) -> tuple[Tensor, LstmState]:
        """States `(n, steps, hidden)`, and the last h and c `(1, n, hidden)`, for inputs `(n, steps, input_size)`."""
        if state is None:
            zero = inputs.new_zeros(len(inputs), self.hh.in_features)
            h, c = zero, zero
        else:
            h, c = state[0][0], state[1][0]
        fed = self.ih(inputs)
        weight, bias = self.hh.weight.detach(), self.hh.bias.detach()
        with torch.no_grad():
            states, _ = _recur(fed, h, c, lambda _, h: nn.functional.linear(h, weight, bias))
            before = torch.cat([h[:, None], states[:, :-1]], dim=1)
        again, before_each = self.hh(before).unbind(dim=1), before.unbind(dim=1)
        # The difference h - before_each[t] is zero. Its gradient flows from a step to the step before.
        states, c = _recur(fed, h, c, lambda t, h: again[t] + (h - before_each[t]) @ weight.T)
        return states, (states[None, :, -1], c[None])


def _recur(fed: Tensor, h: Tensor, c: Tensor, recurrent: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    states = []
    for t, gates in enumerate(fed.unbind(dim=1)):  # the gradient of each fed[:, t] would have the size of fed
        entered, kept, new, shown = (gates + recurrent(t, h)).chunk(4, dim=1)
        c = torch.sigmoid(kept) * c + torch.sigmoid(entered) * torch.tanh(new)
        h = torch.sigmoid(shown) * torch.tanh(c)
        states.append(h)
    return torch.stack(states, dim=1), c


class ClippedGradients:
    """Sums of clipped gradients of single records, for a copy of an auto-encoder."""

    def __init__(self, model: AutoEncoder, clip_norm: float) -> None:
        self.model = AutoEncoder(model.sizes, lstm=RecordLstm).to(next(model.parameters()).device)
        self.model.load_state_dict({_renamed(name): value for name, value in model.state_dict().items()})
        self.model.train()
        how = {"max_grad_norm": clip_norm, "use_ghost_clipping": True, "loss_reduction": "sum"}
        self._norms = GradSampleModuleFastGradientClipping(self.model, **how)
        self.parameters = list(self.model.parameters())

    def sum(self, inputs: Tensor, targets: Tensor, *, hidden: Tensor, shifts: Tensor | None = None) -> list[Tensor]:
        """The sum over records, one tensor per parameter. A record whose gradient is not finite counts as zero.

        `inputs` `(n, ...)` have at least one record. `targets` are `(n, steps)`. `hidden` `(n, steps)` marks the words
        that the decoder does not see. `shifts` `(n, latent_dim)` is the noise on latents, if any.
        """
        self._norms.enable_hooks()
        losses = record_losses(self.model, inputs, targets, hidden=hidden, shifts=shifts)
        with warnings.catch_warnings():
            # The input of an embedding has no gradient, because it is integers.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            torch.autograd.backward(losses.sum(), retain_graph=True)
            self._norms.disable_hooks()
            self.model.zero_grad()
            norms = self._norms.get_norm_sample()
            usable = torch.isfinite(norms) & torch.isfinite(losses.detach())
            if not bool(usable.all()):
                if not bool(usable.any()):
                    return [torch.zeros_like(parameter) for parameter in self.parameters]
                rest = None if shifts is None else shifts[usable]
                return self.sum(inputs[usable], targets[usable], hidden=hidden[usable], shifts=rest)
            torch.autograd.backward((self._norms.get_clipping_coef() * losses).sum())
        return [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in self.parameters]

    def copy_to(self, model: AutoEncoder) -> None:
        """Copy the weights to the model."""
        state = self.model.state_dict()
        model.load_state_dict({name: state[_renamed(name)] for name in model.state_dict()})


def record_losses(
    model: AutoEncoder, inputs: Tensor, targets: Tensor, *, hidden: Tensor, shifts: Tensor | None = None
) -> Tensor:
    """`AutoEncoder.losses` `(n,)`, computed at all positions, because no layer may mix records in its first axis."""
    latents = model.latent(inputs)
    scores = model.logits(latents if shifts is None else latents + shifts, unseen(shifted(targets), hidden))
    counted = (targets != PAD) & (targets != UNKNOWN)
    each = nn.functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
    return (each * counted).sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def _renamed(name: str) -> str:
    owner, _, last = name.rpartition(".")
    return f"{owner}.{_RENAMED[last]}" if last in _RENAMED else name


@dataclass(frozen=True, slots=True)
class PrivateSchedule:
    """Settings of DP-SGD. All are public, and none is chosen by looking at the private records.

    `dptext_lab.AdeptDpSgd` explains each; `learning_rate` is `private_rate` there. Training never stops early.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int
    gradient_clip: float
    learning_rate: float

    @property
    def name(self) -> str:
        """The description of the training that is saved with a model. The model's guarantee follows from it."""
        return (
            f"private text by DP-SGD: noise_multiplier {self.noise_multiplier!r}, "
            f"sampling_rate {self.sampling_rate!r}, steps {self.steps!r}, gradient_clip {self.gradient_clip!r}"
        )


def train_privately(
    model: AutoEncoder,
    inputs: NDArray[np.generic],
    targets: Integers,
    *,
    schedule: PrivateSchedule,
    randomness: Randomness,
    noise: LatentNoise | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> None:
    """Train by DP-SGD, in place. The exact number of records is used, as replacing a record does not change it.

    A step also draws hidden words and noise on latents, for the taken records in the order of the input, for the whole
    public length, and in amounts that depend on no text. So replacing one record changes neither which other records
    are taken nor their draws: for equal draws, the sums of gradients of two neighbouring inputs differ by at most two
    clipped gradients.

    `model` has public weights. `inputs` `(n, ...)` are the private records as left-padded tokens or as features.
    `targets` are sequences `(n, length)`. Sampling and gradient noise take their bits from `randomness`: secure() for
    real texts. `noise`, the mechanism's noise on latents, neither costs nor protects anything here. `on_step` gets the
    number of steps done and of all steps.
    """
    gradients, device = ClippedGradients(model, schedule.gradient_clip), model.start.weight.device
    optimizer = torch.optim.Adam(gradients.parameters, lr=schedule.learning_rate)
    scale = schedule.noise_multiplier * schedule.gradient_clip
    expected = schedule.sampling_rate * len(targets)
    read = torch.from_numpy(np.ascontiguousarray(inputs)).to(torch.float32 if model.sizes.features else torch.int64)
    wanted = torch.from_numpy(np.ascontiguousarray(targets))
    lengths = (targets != PAD).sum(axis=1)
    for step in range(1, schedule.steps + 1):
        taken = np.flatnonzero(sampled(len(targets), schedule.sampling_rate, randomness))
        hidden = torch.from_numpy(hidden_words(len(taken), targets.shape[1], randomness))
        shifts = _shifts(gradients.model, read[taken].to(device), noise)
        order = np.argsort(lengths[taken], kind="stable")
        total = [torch.zeros_like(parameter) for parameter in gradients.parameters]
        for start in range(0, len(taken), _ROWS):  # if no record was taken, the step is noise alone
            places = order[start : start + _ROWS]
            rows = taken[places]
            width = int(lengths[rows].max())
            given, unread = (read[rows].to(device), wanted[rows, :width].to(device)), hidden[places, :width].to(device)
            of_rows = gradients.sum(*given, hidden=unread, shifts=None if shifts is None else shifts[places])
            total = [before + more for before, more in zip(total, of_rows, strict=True)]
        add_noise(total, scale, randomness)
        for parameter, gradient in zip(gradients.parameters, total, strict=True):
            parameter.grad = gradient / expected
        optimizer.step()
        if on_step is not None:
            on_step(step, schedule.steps)
    gradients.copy_to(model)
    model.eval()


def train_further(
    fitted: AnnotatedModel, private: Sequence[Record], *, schedule: PrivateSchedule, **how: Any
) -> AnnotatedModel:
    """Train a copy of a model that was fitted on public records on private records, by `train_privately`."""
    model, tokens = copy.deepcopy(fitted.model), fitted.tokens
    train_privately(model, fitted.inputs(private), tokens.sequences(private), schedule=schedule, **how)
    return AnnotatedModel(model, tokens, fitted.reader, trained_on=fitted.trained_on, training=schedule.name)


def hidden_words(n: int, length: int, randomness: Randomness) -> Booleans:
    """Draw the positions `(n, length)` that the decoder does not see; never the first position, which is BEGIN."""
    found = sampled(n * length, WORD_DROPOUT, randomness).reshape(n, length)
    found[:, 0] = False
    return found


def _shifts(model: AutoEncoder, read: Tensor, noise: LatentNoise | None) -> Tensor | None:
    if noise is None or not len(read):
        return None
    with torch.no_grad():
        latents = torch.cat([model.latent(read[start : start + _ROWS]) for start in range(0, len(read), _ROWS)])
        return noisy(latents, noise) - latents


def add_noise(total: list[Tensor], scale: float, randomness: Randomness) -> None:
    """Add Gaussian noise of standard deviation `scale` to each number of a sum of gradients, in place."""
    drawn = normals(1, sum(tensor.numel() for tensor in total), randomness)[0]
    start = 0
    for tensor in total:
        piece = torch.from_numpy(drawn[start : start + tensor.numel()] * scale)
        tensor.add_(piece.reshape(tensor.shape).to(tensor.device, tensor.dtype))
        start += tensor.numel()


def sampled(n: int, rate: float, randomness: Randomness) -> Booleans:
    """Draw the records of a step, `(n,)`: each with probability `rate`, rounded down to a multiple of 2^-63."""
    return randomness.uint64(n) >> np.uint64(1) < np.uint64(int(rate * 2.0**63))
