"""Training of ER-AE's network on public texts: reconstruction first, then also an embedding reward.

The reward spreads the probability over words of similar meaning.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dptext.errors import ConfigError
from dptext.neural.erae.losses import Reward, losses_of
from dptext.neural.erae.network import FIRST_OPTION, ErAeNetwork
from dptext.neural.tokens import BEGIN, END, PAD
from dptext.types import Integers, Singles


@dataclass(frozen=True, slots=True)
class ErAeSchedule:
    """How long and how fast the network is trained, and on what losses.

    Attributes:
        epochs: passes over the public texts.
        reward_from: share of the steps, from the first, that train the reconstruction alone.
        reward: weight of the embedding reward against the reconstruction: 10 in the authors' code, 0 for none.
        reward_words: at each position so many of the most probable words are rewarded, and as many random ones.
        word_dropout: share of the previous words that are hidden from the writer.
        other_words: share of the previous words that are replaced by a random one, as a private choice does.
        unread: share of the texts for which the writer sees no latent, so that it learns the public language model.
        batch_size: texts a step.
        learning_rate: the step of Adam.
    """

    epochs: int = 1
    reward_from: float = 0.5
    reward: float = 10.0
    reward_words: int = 5
    word_dropout: float = 0.25
    other_words: float = 0.25
    unread: float = 0.15
    batch_size: int = 128
    learning_rate: float = 2e-3


@dataclass(frozen=True, slots=True)
class StepProgress:
    """A part of the training: steps done, how many there are, and mean losses per token since the last report."""

    step: int
    steps: int
    loss: float
    reward_loss: float


def train(
    network: ErAeNetwork,
    targets: Integers,
    vectors: Singles,
    *,
    schedule: ErAeSchedule,
    seed: int,
    device: str = "cpu",
    on_progress: Callable[[StepProgress], None] | None = None,
) -> None:
    """Fit the network in place on public texts; ConfigError where that diverges.

    The `targets` are what `targets_of` gives. The vectors of the options are public and of length 1, for the reward.
    The seed draws the order, the hidden words and the random words. `on_progress` is called some twenty times.
    """
    source = np.random.default_rng(seed)
    drawn = torch.Generator(device=device).manual_seed(seed)
    known = torch.from_numpy(vectors).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate)
    size = min(schedule.batch_size, len(targets))
    steps = schedule.epochs * (len(targets) // size)
    slower = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, schedule.learning_rate, total_steps=max(steps, 11), pct_start=0.1
    )  # with 10 steps or fewer the rise, a tenth of them, would have none
    network.train()
    sums, since = np.zeros(2), 0
    order: Integers = np.empty(0, np.int64)
    for step in range(1, steps + 1):
        if len(order) < size:
            order = source.permutation(len(targets))
        rows, order = order[:size], order[size:]
        wanted = torch.from_numpy(targets[rows]).to(device)
        latents = network.latents(wanted)
        unread = torch.from_numpy(source.random(size) < schedule.unread).to(device)
        latents = torch.where(unread[:, None, None], torch.zeros_like(latents), latents)
        before = torch.cat([torch.full_like(wanted[:, :1], BEGIN), wanted[:, :-1]], dim=1)
        before = _disturbed(before, network.sizes.n_tokens, schedule, source)
        # Unknown words are not learnt from, and the end is learnt from once.
        counted = (wanted >= FIRST_OPTION) & ((wanted != END) | (before != END))
        reward = None
        if schedule.reward and step > schedule.reward_from * steps:
            reward = _reward((~unread[:, None]).expand_as(counted)[counted], known, schedule, drawn)
        hidden = network.before_logits(before, latents, network.begin(latents), counted)
        losses = losses_of(network.choose, hidden, wanted[counted] - FIRST_OPTION, reward)
        optimizer.zero_grad()
        losses.total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        slower.step()
        sums += losses.reconstruction, losses.reward
        since += 1
        if not math.isfinite(sums[0]):
            raise ConfigError("Expected a loss that is a number: the training diverged. Lower learning_rate.")
        if on_progress is not None and (step % max(1, steps // 20) == 0 or step == steps):
            on_progress(StepProgress(step, steps, float(sums[0]) / since, float(sums[1]) / since))
            sums, since = np.zeros(2), 0
    network.eval()


def _reward(read: Tensor, vectors: Tensor, schedule: ErAeSchedule, source: torch.Generator) -> Reward:
    drawn = torch.zeros((len(read), schedule.reward_words), dtype=torch.int64, device=read.device)
    shape = (int(read.sum()), schedule.reward_words)
    drawn[read] = torch.randint(0, len(vectors), shape, generator=source, device=read.device)
    return Reward(vectors, schedule.reward, drawn, read)


def _disturbed(before: Tensor, n_tokens: int, schedule: ErAeSchedule, source: np.random.Generator) -> Tensor:
    shape = tuple(before.shape)
    dropped = torch.from_numpy(source.random(shape) < schedule.word_dropout).to(before.device)
    other = torch.from_numpy(source.random(shape) < schedule.other_words).to(before.device)
    words = torch.from_numpy(source.integers(END + 1, n_tokens, shape)).to(before.device)
    dropped[:, 0] = other[:, 0] = False
    found = torch.where(other & (before != END), words, before)
    return torch.where(dropped & (before != END), torch.full_like(before, PAD), found)
