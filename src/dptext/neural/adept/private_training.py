"""DP-SGD for the auto-encoder of ADePT (Abadi et al. 2016; Song, Chaudhuri and Sarwate 2013): clipped, noisy gradients.

The caller's `Randomness` draws which records a step takes and the noise on their gradients. opacus's own noise is not
used: it comes from a predictable generator unless torchcsprng is installed, which does not exist for this torch.

Whoever calls this sees the private texts and must be trusted; `dptext.mechanisms.adept.dpsgd` states what the weights
guarantee.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dptext.neural.adept.gradients import ClippedGradients
from dptext.neural.adept.model import AnnotatedModel
from dptext.neural.adept.network import AutoEncoder
from dptext.neural.adept.training import LatentNoise, noisy
from dptext.neural.tokens import PAD
from dptext.sampling.float_draws import normals
from dptext.sampling.source import Randomness
from dptext.text.records import Record
from dptext.types import Booleans, Integers

_ROWS = 256
_WORD_DROPOUT = 0.25


@dataclass(frozen=True, slots=True)
class PrivateSchedule:
    """How long and how fast. All of it is public; none of it is chosen by looking at the private records.

    Attributes:
        sampling_rate: each step takes each record with this probability, whatever the others (Poisson sampling).
        noise_multiplier: standard deviation of the noise on the sum of gradients, in units of `gradient_clip`.
        steps: number of steps; training never stops early.
        gradient_clip: largest L2 norm of one record's gradient, over all parameters together.
        learning_rate: the step of Adam.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int
    gradient_clip: float
    learning_rate: float

    @property
    def name(self) -> str:
        """How a model was trained, as it is saved with it: what its guarantee follows from."""
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
    device: str = "cpu",
    on_step: Callable[[int, int], None] | None = None,
) -> None:
    """DP-SGD in place. The number of records is used as it is, since replacing a record does not change it.

    A step also draws hidden words and noise on latents. It draws them for the taken records in the order of the input,
    for the whole public length, and in amounts that no text decides. So replacing one record changes neither which
    others are taken nor what is drawn for them. For equal draws, the sums of gradients of two neighbouring inputs then
    differ by two clipped gradients at most.

    Args:
        model: with public weights.
        inputs: the private records as left-padded tokens or as features, `(n, ...)`.
        targets: sequences `(n, length)`.
        schedule: see there.
        randomness: bits of the sampling and of the gradient noise; secure() for real texts.
        noise: the mechanism's own noise on latents, as in `training.train`; it costs and protects nothing here.
        device: where the model is.
        on_step: called with the steps done and all steps. It is not told the loss, which would be private.
    """
    gradients = ClippedGradients(model, schedule.gradient_clip)
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
        for start in range(0, len(taken), _ROWS):  # where no record was taken, the step is noise alone
            places = order[start : start + _ROWS]
            rows = taken[places]
            width = int(lengths[rows].max())
            of_rows = gradients.sum(
                read[rows].to(device),
                wanted[rows, :width].to(device),
                hidden=hidden[places, :width].to(device),
                shifts=None if shifts is None else shifts[places],
            )
            total = [before + more for before, more in zip(total, of_rows, strict=True)]
        _add_noise(total, scale, randomness)
        for parameter, gradient in zip(gradients.parameters, total, strict=True):
            parameter.grad = gradient / expected
        optimizer.step()
        if on_step is not None:
            on_step(step, schedule.steps)
    gradients.copy_to(model)
    model.eval()


def train_further(
    fitted: AnnotatedModel,
    private: Sequence[Record],
    *,
    schedule: PrivateSchedule,
    randomness: Randomness,
    noise: LatentNoise | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> AnnotatedModel:
    """A model that was fitted on public records, trained on private ones by `train_privately`."""
    model = copy.deepcopy(fitted.model)
    train_privately(
        model,
        fitted.inputs(private),
        fitted.tokens.sequences(private),
        schedule=schedule,
        randomness=randomness,
        noise=noise,
        device=fitted.device,
        on_step=on_step,
    )
    return AnnotatedModel(
        model, fitted.tokens, fitted.reader, device=fitted.device, trained_on=fitted.trained_on, training=schedule.name
    )


def hidden_words(n: int, length: int, randomness: Randomness) -> Booleans:
    """Which positions the decoder does not see, `(n, length)`; never the first, which is BEGIN."""
    found = sampled(n * length, _WORD_DROPOUT, randomness).reshape(n, length)
    found[:, 0] = False
    return found


def _shifts(model: AutoEncoder, read: Tensor, noise: LatentNoise | None) -> Tensor | None:
    """What the noise adds to the latent of each record `(n, latent_dim)`, without a gradient."""
    if noise is None or not len(read):
        return None
    with torch.no_grad():
        latents = torch.cat([model.latent(read[start : start + _ROWS]) for start in range(0, len(read), _ROWS)])
        return noisy(latents, noise) - latents


def _add_noise(total: list[Tensor], scale: float, randomness: Randomness) -> None:
    """Independent normal noise of this standard deviation on each coordinate, in place."""
    drawn = normals(1, sum(tensor.numel() for tensor in total), randomness)[0]
    start = 0
    for tensor in total:
        piece = torch.from_numpy(drawn[start : start + tensor.numel()] * scale)
        tensor.add_(piece.reshape(tensor.shape).to(tensor.device, tensor.dtype))
        start += tensor.numel()


def sampled(n: int, rate: float, randomness: Randomness) -> Booleans:
    """Which of n records a step takes, `(n,)`: each with probability `rate`, rounded down to a multiple of 2^-63."""
    return randomness.uint64(n) >> np.uint64(1) < np.uint64(int(rate * 2.0**63))
