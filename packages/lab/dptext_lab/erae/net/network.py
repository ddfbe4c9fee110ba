"""ER-AE's network, which reads whole texts and proposes a distribution for each position of a new text.

Source: Bo, Ding, Fung and Iqbal 2021, and their code. A bidirectional GRU, the reader, reads the text. A second GRU,
the writer, sees the latent at every step and the released words, never the private text (the authors' code feeds the
true prefix). The writer is also the public language model of hub decoding: for some training texts it sees no latent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.types import Int32s, Integers, Singles
from dptext_lab.nets.tokens import BEGIN, END, PAD, Tokens

#: The first option's token. The options of a choice are the end and the words, the last tokens of the vocabulary.
FIRST_OPTION = END


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the network. The writer has `hidden` units; the reader has half as many in each direction.

    `latent` is "text" (one latent per text, as in the paper) or "positions" (one latent per position).
    """

    n_tokens: int
    length: int
    embedding: int
    hidden: int
    latent_dim: int
    latent: Literal["text", "positions"]


class ErAeNetwork(nn.Module):
    """The reader and the writer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.words = nn.Embedding(sizes.n_tokens, sizes.embedding)
        self.reader = nn.GRU(sizes.embedding, sizes.hidden // 2, batch_first=True, bidirectional=True)
        self.to_latent = nn.Linear(sizes.hidden, sizes.latent_dim)
        self.start = nn.Linear(sizes.latent_dim, sizes.hidden)
        self.places = nn.Embedding(sizes.length, sizes.embedding)
        self.writer = nn.GRU(sizes.embedding + sizes.latent_dim, sizes.hidden, batch_first=True)
        self.narrow = nn.Linear(sizes.hidden + sizes.latent_dim, sizes.embedding)
        self.choose = nn.Linear(sizes.embedding, sizes.n_tokens - FIRST_OPTION)

    def start_from(self, vectors: Singles) -> None:
        """Initialize the words, as input and as output, by public vectors, so that similar words are proposed together.

        `vectors` `(options, dim)` has one vector per option. The first `embedding` principal axes are used. An option
        whose vector is zero keeps its random weights.
        """
        _, _, axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
        found = torch.from_numpy(vectors @ axes[: self.sizes.embedding].T)
        known = found.square().sum(dim=1) > 0
        found = found / found[known].square().mean().sqrt()
        width = found.shape[1]
        with torch.no_grad():
            self.words.weight[FIRST_OPTION:, :width][known] = found[known]
            self.choose.weight[:, :width][known] = found[known] / math.sqrt(self.sizes.embedding)

    def latents(self, ids: Tensor) -> Tensor:
        """The latent of each position `(n, length, latent_dim)`; for "text", the text's latent at every position."""
        states, last = self.reader(self.words(ids))
        if self.sizes.latent == "text":
            whole = torch.tanh(self.to_latent(torch.cat([last[0], last[1]], dim=1)))
            return whole[:, None, :].expand(-1, ids.shape[1], -1)
        return torch.as_tensor(torch.tanh(self.to_latent(states)))

    def begin(self, latents: Tensor) -> Tensor:
        """The writer's first state `(1, n, hidden)`."""
        return torch.tanh(self.start(latents.mean(dim=1)))[None]

    def read_on(self, previous: Tensor, latents: Tensor, state: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Logits of the options `(n, steps, options)` after the previous words, and the next state."""
        states, state = self.writer(self._seen(previous, latents, first), state)
        return self.choose(self._narrowed(states, latents)), state

    def before_logits(self, previous: Tensor, latents: Tensor, state: Tensor, counted: Tensor) -> Tensor:
        """The output layer's inputs `(counted, embedding)` at the `counted` positions `(n, length)` of whole texts.

        `previous` `(n, length)` are the words before each position. The writer stops at a text's last counted position.
        """
        places = torch.arange(1, counted.shape[1] + 1, device=counted.device)
        lengths = (counted * places).amax(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(self._seen(previous, latents), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.writer(packed, state)[0], batch_first=True, total_length=counted.shape[1])
        return self._narrowed(states[counted], latents[counted])

    def _seen(self, previous: Tensor, latents: Tensor, first: int = 0) -> Tensor:
        places = self.places(torch.arange(first, first + previous.shape[1], device=previous.device))[None]
        return torch.cat([self.words(previous) + places, latents], dim=2)

    def _narrowed(self, states: Tensor, latents: Tensor) -> Tensor:
        return nn.functional.elu(self.narrow(torch.cat([states, latents], dim=-1)))


def targets_of(tokens: Tokens, records: Sequence[Record]) -> Integers:
    """The tokens to read and to write, `(n, max_tokens)`: the words, then the end at all remaining positions."""
    found = tokens.sequences(records)[:, : tokens.max_tokens]
    return np.where(found == PAD, END, found)


#: Largest number of texts at once. Blocks that torch computes always have this number of rows.
ROWS = 128
#: Logits are rounded to this grid before use. The grid hides rounding differences between the places of a block.
LOGIT_GRID = 2.0**-8
LARGEST_LOGIT = 1 << 22


class Writing:
    """A block of texts that torch writes. On a CPU, `exact` is used instead.

    The object keeps the latents of the private texts and no more of them. The public language model sees released words
    and no latents.
    """

    def __init__(self, network: ErAeNetwork, targets: Integers, *, device: str, public: bool, rows: int = ROWS) -> None:
        if len(targets) > rows:
            raise ConfigError(f"Expected at most {rows} texts at once, found {len(targets)}.")
        self._network = network
        self._device = device
        self._n = len(targets)
        self._step = 0
        padded = np.full((rows, network.sizes.length), END, np.int64)
        padded[: len(targets)] = targets
        with torch.no_grad():
            self._latents = network.latents(torch.from_numpy(padded).to(device))
            nothing = torch.zeros_like(self._latents)
            self._states = [network.begin(self._latents)]
            self._given = [self._latents]
            if public:
                self._states.append(network.begin(nothing))
                self._given.append(nothing)
        self._before = torch.full((rows, 1), BEGIN, dtype=torch.int64, device=device)

    def logits(self) -> list[Int32s]:
        """Logits `(n_texts, options)` in steps of `LOGIT_GRID`: the private ones, then the public ones if `public`."""
        found = []
        with torch.no_grad():
            for i, latents in enumerate(self._given):
                here = latents[:, self._step : self._step + 1]
                logits, self._states[i] = self._network.read_on(self._before, here, self._states[i], self._step)
                steps = torch.round(logits[: self._n, 0] / LOGIT_GRID)  # exact in float32
                steps = steps.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
                found.append(steps.to(torch.int32).cpu().numpy())
        return found

    def wrote(self, options: Integers) -> None:
        """Move to the next position. `options` `(n_texts,)` were released at this position."""
        self._before[: self._n, 0] = torch.from_numpy(options + FIRST_OPTION).to(self._device)
        self._step += 1
