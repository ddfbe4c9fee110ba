"""Clipped gradients of single records, for the auto-encoder of ADePT.

opacus computes the gradient norm of each record for linear layers and embeddings ("ghost clipping", Li et al. 2022).
Its own `DPLSTM` stores a gradient for each record at each step and is several times as slow here. So the LSTM is
written as two linear layers that see all steps at once (`RecordLstm`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping  # type: ignore[import-untyped]
from torch import Tensor, nn

from dptext.neural.adept.network import AutoEncoder, shifted
from dptext.neural.tokens import PAD, UNKNOWN

LstmState = tuple[Tensor, Tensor]

#: Names of parameters: from those of `nn.LSTM` to those of `RecordLstm`.
_RENAMED = {f"{kind}_{side}_l0": f"{side}.{kind}" for side in ("ih", "hh") for kind in ("weight", "bias")}


class RecordLstm(nn.Module):
    """An LSTM whose parameters belong to two linear layers. Each is called once, so that opacus can tell records apart.

    It computes what `nn.LSTM` of one layer and batch_first computes. A first pass without gradients finds the states.
    The second pass reads them as a constant input of the layer `hh`, whose gradient is then that of the recurrence.
    """

    def __init__(self, input_size: int, hidden_size: int, *, batch_first: Literal[True] = True) -> None:
        super().__init__()
        self.ih = nn.Linear(input_size, 4 * hidden_size)
        self.hh = nn.Linear(hidden_size, 4 * hidden_size)

    def forward(self, inputs: Tensor, state: LstmState | None = None) -> tuple[Tensor, LstmState]:
        """States `(n, steps, hidden)` and the last `(1, n, hidden)` of h and c, for inputs `(n, steps, input_size)`."""
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
        # The difference is zero; its gradient is what passes from one step to the one before it.
        states, c = _recur(fed, h, c, lambda t, h: again[t] + (h - before_each[t]) @ weight.T)
        return states, (states[None, :, -1], c[None])


def _recur(fed: Tensor, h: Tensor, c: Tensor, recurrent: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """States of all steps `(n, steps, hidden)` and the last cell, from the inputs' part of the gates."""
    states = []
    for t, gates in enumerate(fed.unbind(dim=1)):  # not fed[:, t], whose gradient has the size of fed each time
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
        self._norms = GradSampleModuleFastGradientClipping(
            self.model, max_grad_norm=clip_norm, use_ghost_clipping=True, loss_reduction="sum"
        )
        self.parameters = list(self.model.parameters())

    def sum(self, inputs: Tensor, targets: Tensor, *, hidden: Tensor, shifts: Tensor | None = None) -> list[Tensor]:
        """The sum over records, one tensor a parameter; a record whose gradient is not finite counts as zero.

        Args:
            inputs: tokens or features `(n, ...)`, n at least 1.
            targets: sequences `(n, steps)`.
            hidden: which words the decoder does not see, `(n, steps)`.
            shifts: the noise on each latent, `(n, latent_dim)`; none where it is None.
        """
        self._norms.enable_hooks()
        losses = record_losses(self.model, inputs, targets, hidden=hidden, shifts=shifts)
        with warnings.catch_warnings():
            # An embedding's input, being integers, has no gradient.
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
        """Give the model these weights."""
        state = self.model.state_dict()
        model.load_state_dict({name: state[_renamed(name)] for name in model.state_dict()})


def record_losses(
    model: AutoEncoder, inputs: Tensor, targets: Tensor, *, hidden: Tensor, shifts: Tensor | None = None
) -> Tensor:
    """As `AutoEncoder.losses`, `(n,)`, but with all positions computed: no layer may mix records in its first axis."""
    previous = shifted(targets)
    previous = torch.where(hidden & (previous != PAD), torch.full_like(previous, UNKNOWN), previous)
    latents = model.latent(inputs)
    scores = model.logits(latents if shifts is None else latents + shifts, previous)
    counted = (targets != PAD) & (targets != UNKNOWN)
    each = nn.functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
    return (each * counted).sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def _renamed(name: str) -> str:
    """The name in a model of `RecordLstm` of a parameter of the same model of `nn.LSTM`."""
    owner, _, last = name.rpartition(".")
    return f"{owner}.{_RENAMED[last]}" if last in _RENAMED else name
