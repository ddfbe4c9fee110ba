"""Training of ER-AE's network on public texts: first by reconstruction alone, then with an embedding reward, too.

The reward spreads probability over words of similar meaning.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dptext.types import Integers, Singles
from dptext_lab.erae.net.network import FIRST_OPTION, ErAeNetwork
from dptext_lab.nets.tokens import BEGIN, END, PAD, require_converging

#: A callback: steps done, all steps, and the mean reconstruction loss since the last call.
OnSteps = Callable[[int, int, float], None]
#: Positions at once. With fewer the products are slow; more do not fit into the cache.
ROWS_AT_ONCE = 256
_LOWEST, _HIGHEST = 1e-5, 0.85  # bounds of rewards and of rewarded probabilities, as in the authors' code
_REWARD_FROM = 0.5  # share of the first steps, which train by reconstruction alone
_REWARD_WORDS = 5  # number of most probable words that are rewarded at each position, and of random words
_WORD_DROPOUT = 0.25  # share of the previous words that are hidden from the writer
_OTHER_WORDS = 0.25  # share of the previous words that are replaced by a random word, as by a private choice
_UNREAD = 0.15  # share of texts whose latent is hidden from the writer, which learns the public language model


@dataclass(frozen=True, slots=True, eq=False)
class Reward:
    """The embedding reward, as a loss: words near the wanted word gain probability.

    A word v costs -log p(v) * cosine(wanted, v), with p and the cosine clipped to [1e-5, .85], so that a word with p
    above .85 gains nothing more. The loss is `weight` times the mean over the most probable words plus the mean over as
    many random words, at the positions whose writer sees a latent: `read` `(n,)`. `drawn` `(n, words)` are the random
    words of each position. `vectors` `(options, dim)` are the vectors of the options, of length 1, or zero for options
    without a vector.
    """

    vectors: Tensor
    weight: float
    drawn: Tensor
    read: Tensor

    def near(self, chosen: Tensor, wanted: Tensor) -> Tensor:
        """The clipped cosines of the chosen words to the wanted word of each position, `(n, chosen)`."""
        near = torch.bmm(self.vectors[chosen], self.vectors[wanted][:, :, None])[:, :, 0]
        return near.clamp_(_LOWEST, _HIGHEST)


class Losses(NamedTuple):
    """The `total` loss (with a gradient), the mean cross-entropy of wanted words, and the reward without its weight."""

    total: Tensor
    reconstruction: float
    reward: float


def losses_of(choose: nn.Linear, hidden: Tensor, wanted: Tensor, reward: Reward | None = None) -> Losses:
    """Losses of n positions, from the output layer's inputs `(n, dim)`, wanted options `(n,)`, and any reward."""
    total, parts = _LossFunction.apply(hidden, choose.weight, choose.bias, wanted, reward)  # type: ignore[no-untyped-call]
    return Losses(total, *parts.tolist())


class _LossFunction(torch.autograd.Function):
    """The loss with its gradient. The forward pass computes both, in blocks of positions.

    So a block fits into the processor's cache, and the logits of all words at all positions are never in memory at
    once.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, wanted: Tensor, reward: Reward | None
    ) -> tuple[Tensor, Tensor]:
        of_hidden, of_weight, of_bias = torch.empty_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias)
        parts = torch.zeros(2, dtype=torch.float64, device=hidden.device)
        read = 1.0 / max(int(reward.read.sum()), 1) if reward else 0.0
        for start in range(0, len(hidden), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            logs = torch.addmm(bias, hidden[rows], weight.T)
            torch.log_softmax(logs, dim=1, out=logs)
            options, costs = wanted[rows, None], logs.new_full((len(logs), 1), 1.0 / len(hidden))
            parts[0] -= (logs.gather(1, options) * costs).sum()
            if reward is not None:
                chosen, slopes, rewarded = _rewarded(logs, reward, rows, wanted[rows])
                parts[1] += rewarded * read
                options = torch.cat([options, chosen], dim=1)
                costs = torch.cat([costs, slopes * (reward.weight * read)], dim=1)
            # The gradient of -log p(v) is p(w) for every word w, minus 1 for v.
            slope = logs.exp_().mul_(costs.sum(dim=1, keepdim=True)).scatter_add_(1, options, -costs)
            of_weight.addmm_(slope.T, hidden[rows])
            of_bias += slope.sum(dim=0)
            torch.mm(slope, weight, out=of_hidden[rows])
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        ctx.mark_non_differentiable(parts)
        return parts[0] + (reward.weight if reward else 0.0) * parts[1], parts

    @staticmethod
    def backward(ctx: Any, of_total: Tensor, _of_parts: Tensor) -> tuple[Tensor | None, ...]:
        return *(of_total.to(found.dtype) * found for found in ctx.saved_tensors), None, None


def _rewarded(logs: Tensor, reward: Reward, rows: slice, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rewarded words, the factor of -log p of each, and the sum of the positions' losses."""
    n_words = reward.drawn.shape[1]
    chosen = torch.cat([logs.topk(n_words, dim=1).indices, reward.drawn[rows]], dim=1)
    found = logs.gather(1, chosen)
    kept = found.clamp(math.log(_LOWEST), math.log(_HIGHEST))
    costs = reward.near(chosen, wanted) * reward.read[rows, None] / n_words
    return chosen, costs * (kept == found), -(kept * costs).sum()


@dataclass(frozen=True, slots=True)
class ErAeSchedule:
    """Settings of the training. `reward` is the weight of the reward: 10 in the authors' code, 0 for no reward."""

    epochs: int = 1
    reward: float = 10.0
    batch_size: int = 128
    learning_rate: float = 2e-3


def train(
    network: ErAeNetwork,
    targets: Integers,
    vectors: Singles,
    *,
    schedule: ErAeSchedule,
    seed: int,
    on_progress: OnSteps | None = None,
) -> None:
    """Fit the network in place to public texts. `targets_of` gives their `targets`. ConfigError: the training diverges.

    `vectors` are public vectors of the options, of length 1, for the reward. The seed determines order, hidden words
    and random words. `on_progress` is called about twenty times with the steps done, all steps, and the mean
    reconstruction loss per token since the last call.
    """
    source, device = np.random.default_rng(seed), network.words.weight.device
    drawn = torch.Generator(device=device).manual_seed(seed)
    known = torch.from_numpy(vectors).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate)
    size = min(schedule.batch_size, len(targets))
    steps = schedule.epochs * (len(targets) // size)
    slower = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, schedule.learning_rate, total_steps=max(steps, 11), pct_start=0.1
    )  # with 10 steps or fewer, the rise (a tenth) would have no step
    network.train()
    total, since = 0.0, 0
    order: Integers = np.empty(0, np.int64)
    for step in range(1, steps + 1):
        if len(order) < size:
            order = source.permutation(len(targets))
        rows, order = order[:size], order[size:]
        wanted = torch.from_numpy(targets[rows]).to(device)
        latents = network.latents(wanted)
        unread = torch.from_numpy(source.random(size) < _UNREAD).to(device)
        latents = torch.where(unread[:, None, None], torch.zeros_like(latents), latents)
        before = torch.cat([torch.full_like(wanted[:, :1], BEGIN), wanted[:, :-1]], dim=1)
        before = _disturbed(before, network.sizes.n_tokens, source)
        # Unknown words do not count, and the end counts once.
        counted = (wanted >= FIRST_OPTION) & ((wanted != END) | (before != END))
        reward = None
        if schedule.reward and step > _REWARD_FROM * steps:
            read = (~unread[:, None]).expand_as(counted)[counted]
            words = torch.zeros((len(read), _REWARD_WORDS), dtype=torch.int64, device=read.device)
            shape = (int(read.sum()), _REWARD_WORDS)
            words[read] = torch.randint(0, len(known), shape, generator=drawn, device=read.device)
            reward = Reward(known, schedule.reward, words, read)
        hidden = network.before_logits(before, latents, network.begin(latents), counted)
        losses = losses_of(network.choose, hidden, wanted[counted] - FIRST_OPTION, reward)
        optimizer.zero_grad()
        losses.total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        slower.step()
        total += losses.reconstruction
        since += 1
        require_converging(total)
        if on_progress is not None and (step % max(1, steps // 20) == 0 or step == steps):
            on_progress(step, steps, total / since)
            total, since = 0.0, 0
    network.eval()


def _disturbed(before: Tensor, n_tokens: int, source: np.random.Generator) -> Tensor:
    shape = tuple(before.shape)
    dropped = torch.from_numpy(source.random(shape) < _WORD_DROPOUT).to(before.device)
    other = torch.from_numpy(source.random(shape) < _OTHER_WORDS).to(before.device)
    words = torch.from_numpy(source.integers(END + 1, n_tokens, shape)).to(before.device)
    dropped[:, 0] = other[:, 0] = False
    found = torch.where(other & (before != END), words, before)
    return torch.where(dropped & (before != END), torch.full_like(before, PAD), found)
