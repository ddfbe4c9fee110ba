"""What ER-AE's training minimizes: the reconstruction and the embedding reward, with their gradients.

The output layer has a logit for every word at every position. A block of positions is taken at a time, and its gradient
is computed at once. So a block stays in the processor's cache, and all logits are never in memory together.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

#: Positions at once. Fewer make the products slow, more leave the cache.
_ROWS = 256
_LOWEST, _HIGHEST = 1e-5, 0.85  # of rewards and of rewarded probabilities, as in the authors' code


@dataclass(frozen=True, slots=True, eq=False)
class Reward:
    """The embedding reward, as a loss: words near the wanted one gain probability.

    A word v costs -log p(v) * cosine(wanted, v), with p and the cosine cut to [1e-5, .85], so that a word above .85
    gains nothing more. The loss is the mean over the most probable words plus the mean over as many random ones.

    Attributes:
        vectors: unit vectors of the options, `(options, dim)`, zero where there is none.
        weight: against the reconstruction.
        drawn: random words of each position, `(n, words)`. As many of the most probable words are rewarded.
        read: which positions are rewarded, `(n,)`.
    """

    vectors: Tensor
    weight: float
    drawn: Tensor
    read: Tensor

    def near(self, chosen: Tensor, wanted: Tensor) -> Tensor:
        """Cosines of the chosen words to the wanted ones, cut: `(n, chosen)`."""
        near = torch.bmm(self.vectors[chosen], self.vectors[wanted][:, :, None])[:, :, 0]
        return near.clamp_(_LOWEST, _HIGHEST)


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Losses of some positions: the `total` is minimized and has a gradient.

    The `reconstruction` is the mean cross-entropy of the wanted words, the `reward` the mean loss of the rewarded
    positions, without its weight; 0 where none is rewarded.
    """

    total: Tensor
    reconstruction: float
    reward: float


def losses_of(choose: nn.Linear, hidden: Tensor, wanted: Tensor, reward: Reward | None = None) -> Losses:
    """Losses of positions `(n,)`.

    The output layer sees `hidden`, `(n, dim)`. The `wanted` are options of the text, `(n,)`. The reward is of the same
    positions; without it there is the reconstruction alone.
    """
    total, parts = _Losses.apply(hidden, choose.weight, choose.bias, wanted, reward)  # type: ignore[no-untyped-call]
    reconstruction, rewarded = parts.tolist()
    return Losses(total, reconstruction, rewarded)


class _Losses(torch.autograd.Function):
    """The loss with its gradient, which is computed on the way forward."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, wanted: Tensor, reward: Reward | None
    ) -> tuple[Tensor, Tensor]:
        of_hidden, of_weight, of_bias = torch.empty_like(hidden), torch.zeros_like(weight), torch.zeros_like(bias)
        parts = torch.zeros(2, dtype=torch.float64, device=hidden.device)
        read = 1.0 / max(int(reward.read.sum()), 1) if reward else 0.0
        for start in range(0, len(hidden), _ROWS):
            rows = slice(start, start + _ROWS)
            logs = torch.addmm(bias, hidden[rows], weight.T)
            torch.log_softmax(logs, dim=1, out=logs)
            options, costs = wanted[rows, None], logs.new_full((len(logs), 1), 1.0 / len(hidden))
            parts[0] -= (logs.gather(1, options) * costs).sum()
            if reward is not None:
                chosen, slopes, rewarded = _rewarded(logs, reward, rows, wanted[rows])
                parts[1] += rewarded * read
                options = torch.cat([options, chosen], dim=1)
                costs = torch.cat([costs, slopes * (reward.weight * read)], dim=1)
            # A cost of -log p(v) has the gradient p(w) for every word w, less 1 for v.
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
    """Rewarded words, what each costs for -log p of it, and the sum of the positions' losses."""
    n_words = reward.drawn.shape[1]
    chosen = torch.cat([logs.topk(n_words, dim=1).indices, reward.drawn[rows]], dim=1)
    found = logs.gather(1, chosen)
    kept = found.clamp(math.log(_LOWEST), math.log(_HIGHEST))
    costs = reward.near(chosen, wanted) * reward.read[rows, None] / n_words
    return chosen, costs * (kept == found), -(kept * costs).sum()
