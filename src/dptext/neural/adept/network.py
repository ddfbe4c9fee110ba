"""The LSTM auto-encoder of ADePT: text to latent, latent to text.

Krishna, Gupta and Dupuy 2021 give neither sizes nor where the latent enters; here the decoder sees it at each step.
Every shape is public: texts are padded to `max_tokens` on the left, so that an encoder of fixed length ends at the last
word, and no time depends on the length of a private text. (A decoder that stops early looks at noisy latents only.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dptext.neural.tokens import BEGIN, END, PAD, UNKNOWN, Tokens
from dptext.types import Floats, Integers

#: Latents are rounded to this step before they leave the encoder: the same record in another batch differs in the last
#: bits of floats only.
LATENT_GRID = 2.0**-14
_ROWS = 256
_NO_REPEAT = 3


@dataclass(frozen=True, slots=True)
class Architecture:
    """Public sizes.

    Attributes:
        n_tokens: size of the vocabulary, special tokens and labels included.
        length: positions of a sequence.
        latent_dim: coordinates of the latent.
        hidden: units of encoder and decoder.
        embedding: coordinates of a token.
        clip_norm: latents are clipped to this L2 norm, in training too.
        features: 0 for the LSTM encoder; else coordinates of the public features that take its place.
        projected: whether a linear layer makes the latent; else it is the LSTM's final state (h, c), of 2 * hidden.

    A large encoder whose state is projected has half as many units as the decoder: reading is easier than writing.
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
        """Units of the encoder."""
        return min(self.hidden, max(32, self.hidden // 2)) if self.projected else self.hidden


class AutoEncoder(nn.Module):
    """Encoder and decoder. `lstm` is the class of their layers: DP-SGD needs one with gradients of single records."""

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
        """Mean cross-entropy per token `(n,)` of writing `targets` `(n, length)`; padding and UNKNOWN do not count."""
        if previous is None:
            previous = shifted(targets)
        counted = (targets != PAD) & (targets != UNKNOWN)
        states = self.states(latents, previous)
        flat = nn.functional.cross_entropy(self.choose(states[counted]), targets[counted], reduction="none")
        rows = torch.zeros(targets.shape, dtype=flat.dtype, device=flat.device)
        rows[counted] = flat
        return rows.sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def shifted(targets: Tensor) -> Tensor:
    """What the decoder has written before each position: BEGIN, then the targets."""
    return torch.cat([torch.full_like(targets[:, :1], BEGIN), targets[:, :-1]], dim=1)


def encode(model: AutoEncoder, inputs: NDArray[np.generic], *, device: str) -> Floats:
    """Latents `(n, latent_dim)` in float64, on a grid of 2^-14, in blocks of one public shape.

    A block is always 64 or a multiple of 256 rows, filled up with zeros: which kernel computes a record then does not
    depend on how many others there are.
    """
    found = np.empty((len(inputs), model.sizes.latent_dim))
    dtype = torch.float32 if model.sizes.features else torch.int64
    with torch.inference_mode():
        for start in range(0, len(inputs), _ROWS):
            block = inputs[start : start + _ROWS]
            rows = 64 if len(block) <= 64 else _ROWS
            padded = torch.zeros((rows, *block.shape[1:]), dtype=dtype)
            padded[: len(block)] = torch.from_numpy(np.ascontiguousarray(block)).to(dtype)
            latents = model.latent(padded.to(device))[: len(block)]
            found[start : start + len(block)] = latents.double().cpu().numpy()
    return np.asarray(np.rint(found / LATENT_GRID) * LATENT_GRID)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a latent becomes a sequence.

    Attributes:
        constrained: a label first (and none later), no trigram twice.
        temperature: 0 takes the best token; else tokens are drawn.
    """

    constrained: Literal["none", "constrained"] = "constrained"
    temperature: float = 0.0


class Decoder:
    """Writes sequences for many latents at once; immutable.

    The part of the gates that a token decides is one row of a table, and the latent's part is added once, so that a
    step is a look-up, one product with the hidden state and the output layer. Rows that have ended are dropped.
    """

    def __init__(
        self, model: AutoEncoder, tokens: Tokens, *, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self._tokens = tokens
        self._device = device
        size = model.sizes.embedding
        with torch.no_grad():
            weights = {name: value.detach().to(device) for name, value in model.writer.named_parameters()}
            inner, outer = weights["weight_ih_l0"], weights["weight_hh_l0"]
            bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
            self._table = (model.write_embedding.weight.detach().to(device) @ inner[:, :size].T + bias).contiguous()
            self._of_latent = inner[:, size:].T.contiguous()
            self._of_state = outer.T.contiguous()
            self._start = (model.start.weight.detach().to(device).T, model.start.bias.detach().to(device))
            self._output = (model.choose.weight.detach().to(device, dtype).T, model.choose.bias.detach().to(device))
        self._dtype = dtype
        barred = torch.zeros((3, model.sizes.n_tokens), device=device)
        barred[:, [PAD, UNKNOWN, BEGIN]] = -torch.inf
        self._free = barred[0].clone()
        labels = list(tokens.label_ids())
        if labels:
            barred[0] = -torch.inf
            barred[0, labels] = 0.0
            barred[1:, labels] = -torch.inf
        barred[int(bool(labels)), END] = -torch.inf  # an empty text says nothing
        self._barred = barred

    def decode(self, latents: Floats, how: Decoding, *, seed: int = 0, rows: int = 512) -> list[tuple[str | None, str]]:
        """Label and text of each latent `(n, latent_dim)`.

        Args:
            latents: as they are released.
            how: the decoding.
            seed: of the drawn tokens, for public use only: a private release takes the best token.
            rows: latents at once.
        """
        written = np.concatenate(
            [np.full((0, self._tokens.length), PAD, np.int64), *self._blocks(latents, how, seed, rows)]
        )
        return [self._tokens.read(row) for row in written.tolist()]

    def _blocks(self, latents: Floats, how: Decoding, seed: int, rows: int) -> list[Integers]:
        generator = torch.Generator(device=self._device).manual_seed(seed)
        blocks = []
        with torch.inference_mode():
            for start in range(0, len(latents), rows):
                block = torch.from_numpy(np.ascontiguousarray(latents[start : start + rows], np.float32))
                blocks.append(self._write(block.to(self._device), how, generator))
        return blocks

    def _write(self, latents: Tensor, how: Decoding, generator: torch.Generator) -> Integers:
        n, length = len(latents), self._tokens.length
        written = torch.full((n, length), PAD, dtype=torch.int64, device=self._device)
        alive = torch.arange(n, device=self._device)
        weight, bias = self._start
        h = torch.tanh(latents @ weight + bias)
        c = torch.zeros_like(h)
        fixed = latents @ self._of_latent
        token = torch.full((n,), BEGIN, dtype=torch.int64, device=self._device)
        for step in range(length - 1):  # the last position is the end's
            gates = torch.addmm(self._table[token] + fixed, h, self._of_state)
            entered, kept, new, shown = gates.chunk(4, dim=1)
            c = torch.sigmoid(kept) * c + torch.sigmoid(entered) * torch.tanh(new)
            h = torch.sigmoid(shown) * torch.tanh(c)
            scores = (h.to(self._dtype) @ self._output[0]).float() + self._output[1]
            if how.constrained == "constrained":
                scores += self._barred[min(step, 2)]
                self._bar_repeats(scores, written[alive, :step])
            else:
                scores += self._free
            if how.temperature > 0:
                token = torch.multinomial(torch.softmax(scores / how.temperature, dim=1), 1, generator=generator)[:, 0]
            else:
                token = scores.argmax(dim=1)
            written[alive, step] = token
            going = token != END
            if not bool(going.all()):
                if not bool(going.any()):
                    break
                alive, token, h, c, fixed = alive[going], token[going], h[going], c[going], fixed[going]
        return np.asarray(written.cpu().numpy())

    @staticmethod
    def _bar_repeats(scores: Tensor, before: Tensor) -> None:
        """No trigram twice: where the last two words stood together before, the word that followed is barred."""
        last = _NO_REPEAT - 1
        if before.shape[1] < _NO_REPEAT:
            return
        windows = before[:, :-1].unfold(1, last, 1)  # (n, starts, last), each followed by one word
        same = (windows == before[:, None, -last:]).all(dim=2)
        rows, starts = torch.nonzero(same, as_tuple=True)
        scores[rows, before[rows, starts + last]] = -torch.inf
