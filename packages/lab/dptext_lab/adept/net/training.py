"""Training of the auto-encoder on public text, and measurement of its reconstruction losses."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dptext.types import Floats, Integers
from dptext_lab.adept.net.network import AutoEncoder, Encoding, shifted, unseen
from dptext_lab.nets.tokens import PAD, batches, require_converging

#: A mechanism's noise: a function from clipped latents `(rows, dim)` to noisy latents.
LatentNoise = Callable[[Floats], Floats]

ROWS_AT_ONCE = 256  #: texts of a block, to bound memory


@dataclass(frozen=True, slots=True)
class Schedule:
    """Settings of the training.

    Training ends after `epochs`, or after `patience` epochs without a better loss on the `held_out` share of texts,
    which has no other use. The share `word_dropout` of previous words is hidden from the decoder: else a strong decoder
    ignores the latent and writes one text for all.
    """

    epochs: int = 12
    patience: int = 3
    batch_size: int = 64
    learning_rate: float = 2e-3
    word_dropout: float = 0.25
    held_out: float = 0.05


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """Progress after an epoch: its number from 1, and mean losses per token on training and held-out texts."""

    epoch: int
    epochs: int
    loss: float
    held_out: float


def train(
    model: AutoEncoder,
    inputs: NDArray[np.generic],
    targets: Integers,
    *,
    schedule: Schedule,
    seed: int,
    noise: LatentNoise | None = None,
    on_epoch: Callable[[EpochProgress], None] | None = None,
) -> None:
    """Fit a fresh model in place. The weights of the best epoch on held-out texts are kept.

    `inputs` `(n, ...)` are left-padded tokens or features; `targets` are `(n, length)`. The seed determines order,
    hidden words and held-out texts. The mechanism's noise is drawn anew in each step, so that the decoder learns to
    read noisy latents (denoising); it is a constant for the gradient.
    """
    source = np.random.default_rng(seed)
    order = source.permutation(len(targets))
    n_held = min(len(order) - 1, max(1, round(schedule.held_out * len(order)))) if len(order) > 1 else 0
    held, used = order[:n_held], order[n_held:]
    lengths = (targets != PAD).sum(axis=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=schedule.learning_rate)
    best, since, state = float("inf"), 0, copy.deepcopy(model.state_dict())
    for epoch in range(1, schedule.epochs + 1):
        model.train()
        total = 0.0
        for rows in batches(used, lengths, schedule.batch_size, source):
            read, wanted = _tensors(model, inputs[rows], targets[rows])
            latents = noisy(model.latent(read), noise)
            previous = _dropped(shifted(wanted), schedule.word_dropout, source)
            loss = model.losses(latents, wanted, previous).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        model.eval()
        mean = total
        if n_held:
            mean = float(reconstruction_losses(model, inputs[held], targets[held], noise=noise).mean())
        require_converging(mean)
        if on_epoch is not None:
            on_epoch(EpochProgress(epoch, schedule.epochs, total / len(used), mean))
        if mean < best:
            best, since, state = mean, 0, copy.deepcopy(model.state_dict())
        else:
            since += 1
            if since >= schedule.patience:
                break
    model.load_state_dict(state)
    model.eval()


def noisy(latents: Tensor, noise: LatentNoise | None) -> Tensor:
    """Add the mechanism's noise to the latents. The noise has no gradient."""
    if noise is None:
        return latents
    clean = latents.detach().double().cpu().numpy()
    shift = torch.from_numpy(noise(clean) - clean).to(latents.dtype).to(latents.device)
    return latents + shift


def reconstruction_losses(
    model: AutoEncoder, inputs: NDArray[np.generic], targets: Integers, *, noise: LatentNoise | None = None
) -> Floats:
    """Mean cross-entropy per token of each text, `(n,)`, with teacher forcing. Membership attacks use it as a score."""
    found = np.empty(len(targets))
    encode = Encoding(model)
    for start in range(0, len(targets), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        latents = encode(inputs[rows])
        found[rows] = writing_losses(model, latents if noise is None else noise(latents), targets[rows])
    return found


def writing_losses(model: AutoEncoder, latents: Floats, targets: Integers) -> Floats:
    """Mean cross-entropy per token of decoding each text from the latent in the same row, `(n,)`."""
    found, device = np.empty(len(targets)), model.start.weight.device
    lengths = (targets != PAD).sum(axis=1)
    order = np.argsort(lengths, kind="stable")  # the last text of a block is its longest
    with torch.inference_mode():
        for start in range(0, len(targets), ROWS_AT_ONCE):
            block = order[start : start + ROWS_AT_ONCE]
            read = torch.from_numpy(latents[block].astype(np.float32)).to(device)
            wanted = torch.from_numpy(targets[block, : max(1, lengths[block[-1]])]).to(device)
            found[block] = model.losses(read, wanted).double().cpu().numpy()
    return found


def _tensors(model: AutoEncoder, inputs: NDArray[np.generic], targets: Integers) -> tuple[Tensor, Tensor]:
    # The encoder always reads the whole public length with its padding. The decoder may stop at the longest target.
    width = int((targets != PAD).sum(axis=1).max())
    read, wanted = torch.from_numpy(np.ascontiguousarray(inputs)), torch.from_numpy(targets[:, :width].copy())
    device = model.start.weight.device
    return read.to(torch.float32 if model.sizes.features else torch.int64).to(device), wanted.to(device)


def _dropped(previous: Tensor, share: float, source: np.random.Generator) -> Tensor:
    hidden = torch.from_numpy(source.random(tuple(previous.shape)) < share).to(previous.device)
    hidden[:, 0] = False  # BEGIN
    return unseen(previous, hidden)
