"""The LSTM auto-encoder of ADePT: text to latent, latent to text.

Krishna, Gupta and Dupuy 2021 state neither the sizes nor where the latent enters. Here the decoder sees the latent at
each step. Every shape is public: texts are padded to `max_tokens` on the left, and the encoder reads a fixed number of
tokens. So no running time depends on the length of a private text. (The decoder stops early, but it sees noisy latents
only.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dptext.errors import ConfigError
from dptext.kernels import tiles
from dptext.kernels.linear import Linear, product, require_alike, rows_for
from dptext.kernels.processors import each
from dptext.types import Floats, Integers, Singles
from dptext_lab.nets.recurrence import lstm_step
from dptext_lab.nets.tokens import BEGIN, PAD, UNKNOWN

_ROWS: Final = 64  # texts of a block, few enough for the cache to hold the numbers of a step
Weights = tuple[Singles, Singles]  # weights and biases


class ExactReader:
    """An encoder from left-padded tokens to vectors: an embedding, an LSTM, and optionally a linear layer.

    The linear layer reads the last state (h, c). Products are tiles (see `dptext.kernels.tiles`), and the other steps
    compute each row on its own, so that a vector depends on its own tokens alone, bit for bit. Weights and biases are
    those of torch's layers: `inner` `(4 units, embedding)`, `outer` `(4 units, units)`. ConfigError: this processor
    computes other last bits for a row at another place.
    """

    def __init__(self, embedding: Singles, inner: Weights, outer: Weights, last: Weights | None) -> None:
        self._embedding = embedding
        self._inner, self._outer = Linear.padded(*inner), Linear.padded(*outer)
        self._last = None if last is None else Linear.padded(*last)
        self._dim = 2 * outer[0].shape[1] if last is None else len(last[1])
        public = np.random.default_rng(0).integers(0, len(embedding), (3 * tiles.ROWS, 4))
        alone = np.concatenate([self.read(row[None]) for row in public])
        for shift in range(tiles.ROWS):
            remedy = 'Take encoder="distilled", which reads words.'
            require_alike(self.read(public[shift:]), alone[shift:], "latent", remedy)

    def read(self, tokens: Integers) -> Floats:
        """The vector of each row of tokens `(n, length)`: float32 numbers in float64."""
        blocks = [tokens[start : start + _ROWS] for start in range(0, len(tokens), _ROWS)]
        return np.concatenate([np.empty((0, self._dim)), *each(self._block, blocks)])

    def _block(self, tokens: Integers) -> Singles:
        n, units = len(tokens), self._outer.n_in
        known, places = np.unique(tokens, return_inverse=True)
        places = places.reshape(tokens.shape)
        words = rows_for(len(known), self._embedding.shape[1])
        words[: len(known)] = self._embedding[known]
        of_tokens, gates = product(words, len(known), self._inner), rows_for(n, len(self._outer.bias))
        h, c = rows_for(n, units), rows_for(n, units)
        for step in range(tokens.shape[1]):
            product(h, n, self._outer, gates)
            lstm_step(gates, of_tokens, np.ascontiguousarray(places[:, step]), n, h, c)
        state = np.concatenate([h, c], axis=1)
        return (state if self._last is None else product(state, n, self._last))[:n, : self._dim]


#: Latents are rounded to this step before they leave the encoder.
LATENT_GRID = 2.0**-14
_WEIGHT_GRID = 2.0**-20
_MOST_WEIGHT = 2.0**22  # bound of a row's absolute sum, so that sums stay below 2^53 multiples of 2^-30


@dataclass(frozen=True, slots=True)
class Architecture:
    """Public sizes of the network.

    `n_tokens` counts the vocabulary with special tokens and labels. `length` is the number of positions of a sequence.
    Latents are clipped to `clip_norm`, in training, too. `features` is the number of public features that replace the
    LSTM encoder, 0 for none. Without `projected`, the latent is the LSTM's final state (h, c), of 2 * hidden. A large
    encoder whose state is projected has half as many units as the decoder, because reading is easier.
    """

    n_tokens: int
    length: int
    latent_dim: int
    hidden: int
    embedding: int
    clip_norm: float
    features: int = 0
    projected: bool = True

    @property
    def reader(self) -> int:
        """The number of units of the encoder."""
        return min(self.hidden, max(32, self.hidden // 2)) if self.projected else self.hidden


class AutoEncoder(nn.Module):
    """Encoder and decoder. `lstm` is the class of their LSTMs: DP-SGD needs a class with gradients per record."""

    def __init__(self, sizes: Architecture, lstm: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.sizes = sizes
        if sizes.features:
            self.project: nn.Module = nn.Linear(sizes.features, sizes.latent_dim)
        else:
            self.read_embedding = nn.Embedding(sizes.n_tokens, sizes.embedding, padding_idx=PAD)
            self.reader = lstm(sizes.embedding, sizes.reader, batch_first=True)
            self.project = nn.Linear(2 * sizes.reader, sizes.latent_dim) if sizes.projected else nn.Identity()
        self.write_embedding = nn.Embedding(sizes.n_tokens, sizes.embedding, padding_idx=PAD)
        self.start = nn.Linear(sizes.latent_dim, sizes.hidden)
        self.writer = lstm(sizes.embedding + sizes.latent_dim, sizes.hidden, batch_first=True)
        self.choose = nn.Linear(sizes.hidden, sizes.n_tokens)

    def latent(self, inputs: Tensor) -> Tensor:
        """Clipped latents `(n, latent_dim)` of left-padded tokens `(n, length)` or of features `(n, features)`."""
        if self.sizes.features:
            found = self.project(inputs)
        else:
            _, (h, c) = self.reader(self.read_embedding(inputs))
            found = self.project(torch.cat([h[-1], c[-1]], dim=1))
        norm = found.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return torch.as_tensor(found * (self.sizes.clip_norm / norm).clamp(max=1.0))

    def logits(self, latents: Tensor, previous: Tensor) -> Tensor:
        """Scores `(n, steps, n_tokens)` of each next token, given the tokens before it `(n, steps)`."""
        states = self.states(latents, previous)
        return torch.as_tensor(self.choose(states))

    def states(self, latents: Tensor, previous: Tensor) -> Tensor:
        """The decoder's hidden states `(n, steps, hidden)`."""
        seen = torch.cat([self.write_embedding(previous), latents[:, None, :].expand(-1, previous.shape[1], -1)], dim=2)
        h = torch.tanh(self.start(latents))[None]
        states, _ = self.writer(seen, (h, torch.zeros_like(h)))
        return torch.as_tensor(states)

    def losses(self, latents: Tensor, targets: Tensor, previous: Tensor | None = None) -> Tensor:
        """Mean cross-entropy per token `(n,)` of decoding `targets` `(n, length)`. Padding and UNKNOWN do not count."""
        if previous is None:
            previous = shifted(targets)
        counted = (targets != PAD) & (targets != UNKNOWN)
        states = self.states(latents, previous)
        flat = nn.functional.cross_entropy(self.choose(states[counted]), targets[counted], reduction="none")
        rows = torch.zeros(targets.shape, dtype=flat.dtype, device=flat.device)
        rows[counted] = flat
        return rows.sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def shifted(targets: Tensor) -> Tensor:
    """The token before each position: BEGIN, then the targets."""
    return torch.cat([torch.full_like(targets[:, :1], BEGIN), targets[:, :-1]], dim=1)


def unseen(previous: Tensor, hidden: Tensor) -> Tensor:
    """Replace `hidden` previous words by UNKNOWN."""
    return torch.where(hidden & (previous != PAD), torch.full_like(previous, UNKNOWN), previous)


class Encoding:
    """The encoder for inference: latents `(n, latent_dim)` in float64 on a grid of 2^-14.

    Each latent depends on its own row of inputs alone. Latents of features are exact sums (see `_projected`). Later
    changes of the model's weights have no effect.
    """

    def __init__(self, model: AutoEncoder) -> None:
        self._model = model
        self._reader = None if model.sizes.features else _exact_reader(model)

    def __call__(self, inputs: NDArray[np.generic]) -> Floats:
        """Latents of left-padded tokens `(n, length)` or of features `(n, features)`."""
        reader = self._reader
        found = _projected(self._model, inputs) if reader is None else reader.read(inputs.astype(np.int64))
        norms = np.maximum(np.sqrt(np.einsum("ij,ij->i", found, found)), 1e-12)
        clipped = found * np.minimum(self._model.sizes.clip_norm / norms, 1.0)[:, None]
        return np.asarray(np.rint(clipped / LATENT_GRID) * LATENT_GRID)


def _exact_reader(model: AutoEncoder) -> ExactReader:
    weights = {name: value.detach().float().cpu().numpy() for name, value in model.named_parameters()}
    inner, outer = ((weights[f"reader.weight_{part}_l0"], weights[f"reader.bias_{part}_l0"]) for part in ("ih", "hh"))
    last = (weights["project.weight"], weights["project.bias"]) if model.sizes.projected else None
    return ExactReader(weights["read_embedding.weight"], inner, outer, last)


def _projected(model: AutoEncoder, features: NDArray[np.generic]) -> Floats:
    """The linear layer's output for features. Each row is a function of its own features alone, bit for bit.

    Features are multiples of 2^-10 in [-1, 1] (unit vectors on this grid, and labels). Weights are rounded to multiples
    of 2^-20. So sums of products are multiples of 2^-30, and exact in float64 in any order.
    """
    layer = cast("nn.Linear", model.project)
    weights = layer.weight.detach().double().cpu().numpy()
    rounded = np.rint(weights / _WEIGHT_GRID) * _WEIGHT_GRID
    if not np.abs(rounded).sum(axis=1).max() < _MOST_WEIGHT or not np.isfinite(rounded).all():
        raise ConfigError("Expected an auto-encoder of smaller weights: its sums would not be exact. Fit it again.")
    return np.asarray(np.asarray(features, np.float64) @ rounded.T + layer.bias.detach().double().cpu().numpy())
