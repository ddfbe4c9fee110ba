"""Training of ER-AE's network on public texts: reconstruction first, then also an embedding reward.

The reward spreads the probability over words of similar meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dptext.errors import ConfigError
from dptext.neural.erae.network import FIRST_OPTION, ErAeNetwork
from dptext.neural.tokens import BEGIN, END, PAD
from dptext.types import Integers, Singles

_LOWEST, _HIGHEST = 1e-5, 0.85  # of rewards and of rewarded probabilities, as in the authors' code


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
    """A part of the training.

    Attributes:
        step: steps done.
        steps: how many there are.
        loss: mean reconstruction loss per token since the last report.
        reward_loss: mean reward loss per token since the last report.
    """

    step: int
    steps: int
    loss: float
    reward_loss: float


def reward_loss(logits: Tensor, wanted: Tensor, vectors: Tensor, *, n_words: int, source: torch.Generator) -> Tensor:
    """The embedding reward of each position `(n,)`, as a loss: words near the wanted one gain probability.

    A word v costs -log p(v) * cosine(wanted, v), with p and the cosine cut to [1e-5, .85], so that a word above .85
    gains nothing more. The loss is the mean over the most probable words plus the mean over as many random ones.

    Args:
        logits: one an option, `(n, options)`.
        wanted: the options of the text, `(n,)`.
        vectors: unit vectors of the options, `(options, dim)`, zero where there is none.
        n_words: how many words of each kind are rewarded.
        source: what draws the random words.
    """
    logs = torch.log_softmax(logits, dim=1)
    top = logs.detach().topk(n_words, dim=1).indices
    drawn = torch.randint(0, logits.shape[1], top.shape, generator=source, device=logits.device)
    total = torch.zeros(len(logits), device=logits.device)
    for chosen in (top, drawn):
        near = (vectors[chosen] * vectors[wanted][:, None, :]).sum(dim=2).clamp(_LOWEST, _HIGHEST)
        kept = logs.gather(1, chosen).clamp(math.log(_LOWEST), math.log(_HIGHEST))
        total = total - (kept * near).mean(dim=1)
    return total


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
    """Fit the network in place on public texts.

    Args:
        network: fresh.
        targets: what `targets_of` gives.
        vectors: public unit vectors of the options, for the reward.
        schedule: see there.
        seed: it draws the order, the hidden words and the random words.
        device: where the network is.
        on_progress: called some twenty times.

    Raises:
        ConfigError: the training diverged.
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
        logits, _ = network.read_on(before, latents, network.begin(latents))
        # Unknown words are not learnt from, and the end is learnt from once.
        counted = (wanted >= FIRST_OPTION) & ((wanted != END) | (before != END))
        flat, options = logits[counted], wanted[counted] - FIRST_OPTION
        loss = reconstruction = nn.functional.cross_entropy(flat, options)
        if schedule.reward and step > schedule.reward_from * steps:
            read = (~unread[:, None]).expand_as(counted)[counted]
            reward = reward_loss(flat[read], options[read], known, n_words=schedule.reward_words, source=drawn).mean()
            loss = loss + schedule.reward * reward
            sums[1] += float(reward.detach())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        slower.step()
        sums[0] += float(reconstruction.detach())
        since += 1
        if not math.isfinite(sums[0]):
            raise ConfigError("Expected a loss that is a number: the training diverged. Lower learning_rate.")
        if on_progress is not None and (step % max(1, steps // 20) == 0 or step == steps):
            on_progress(StepProgress(step, steps, float(sums[0]) / since, float(sums[1]) / since))
            sums, since = np.zeros(2), 0
    network.eval()


def _disturbed(before: Tensor, n_tokens: int, schedule: ErAeSchedule, source: np.random.Generator) -> Tensor:
    shape = tuple(before.shape)
    dropped = torch.from_numpy(source.random(shape) < schedule.word_dropout).to(before.device)
    other = torch.from_numpy(source.random(shape) < schedule.other_words).to(before.device)
    words = torch.from_numpy(source.integers(END + 1, n_tokens, shape)).to(before.device)
    dropped[:, 0] = other[:, 0] = False
    found = torch.where(other & (before != END), words, before)
    return torch.where(dropped & (before != END), torch.full_like(before, PAD), found)
