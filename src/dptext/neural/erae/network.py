"""ER-AE's network: a reader of whole texts and a writer that proposes a distribution for each position.

Bo, Ding, Fung and Iqbal 2021; MATHS 1.6. Bidirectional GRU reader, GRU writer that sees the latent at every step,
reconstruction first, then an embedding reward that spreads the probability over words of like meaning. The writer reads
what it has itself released, never the private text (the authors' code feeds it the true prefix at inference).

One network is both the private-conditioned writer and the public language model of hub decoding: in training it sees
no latent for some texts, and learns what can be said of the next word from the words before it alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dptext.errors import ConfigError
from dptext.neural.tokens import BEGIN, END, PAD, Tokens
from dptext.text.records import Record
from dptext.types import Int32s, Integers, Singles

#: Rows that are computed together, always as many: no text's numbers depend on how many others there are.
ROWS = 128
#: What is released comes from logits on this grid: it hides what rounding does in another place of a block.
LOGIT_GRID = 2.0**-8
#: The options of a choice are the end and the words, which are the last of the vocabulary.
FIRST_OPTION = END
_LARGEST = 1 << 22
_LOWEST, _HIGHEST = 1e-5, 0.85  # of rewards and of rewarded probabilities, as in the authors' code


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the network.

    Attributes:
        n_tokens: of the vocabulary.
        length: positions of a text.
        embedding: coordinates of a word.
        hidden: of the writer; the reader has half in each direction.
        latent_dim: coordinates of a latent.
        latent: one for the "text", as in the paper, or one for each of its "positions".
    """

    n_tokens: int
    length: int
    embedding: int
    hidden: int
    latent_dim: int
    latent: Literal["text", "positions"]


class ErAeNetwork(nn.Module):
    """Reader and writer."""

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
        """Begin at public vectors of the options, at both ends: so words of like meaning are proposed together.

        Args:
            vectors: `(options, dim)`; of their principal axes as many as a word has coordinates here. An option with
                a vector of zeros keeps its random start.
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
        """One latent for each position `(n, length, latent_dim)`; the same one at each where it is the text's."""
        states, last = self.reader(self.words(ids))
        if self.sizes.latent == "text":
            whole = torch.tanh(self.to_latent(torch.cat([last[0], last[1]], dim=1)))
            return whole[:, None, :].expand(-1, ids.shape[1], -1)
        return torch.as_tensor(torch.tanh(self.to_latent(states)))

    def begin(self, latents: Tensor) -> Tensor:
        """The writer's first state `(1, n, hidden)`."""
        return torch.tanh(self.start(latents.mean(dim=1)))[None]

    def read_on(self, previous: Tensor, latents: Tensor, state: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Logits of the options `(n, steps, options)` after the words before, and the next state."""
        steps = previous.shape[1]
        places = self.places(torch.arange(first, first + steps, device=previous.device))[None]
        seen = torch.cat([self.words(previous) + places, latents], dim=2)
        states, state = self.writer(seen, state)
        logits = self.choose(torch.nn.functional.elu(self.narrow(torch.cat([states, latents], dim=2))))
        return logits, state


@dataclass(frozen=True, slots=True)
class Schedule:
    """Of the training.

    Attributes:
        epochs: passes over the public texts.
        reward_from: share of the steps that train the reconstruction alone.
        reward: weight of the embedding reward against the reconstruction, 10 in the authors' code; 0 is without.
        reward_words: words rewarded at each position: so many of the most probable ones, and as many random ones.
        word_dropout: share of the words before that the writer does not see.
        other_words: share of them that are replaced by a random word, as a private choice does.
        unread: share of the texts for which the writer sees no latent, and learns the public language model.
        batch_size: texts a step.
        learning_rate: of Adam.
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
class Progress:
    """A part of the training: steps done, of how many, mean reconstruction and reward loss per token since then."""

    step: int
    steps: int
    loss: float
    reward_loss: float


def targets_of(tokens: Tokens, records: Sequence[Record]) -> Integers:
    """What is read and written, `(n, max_tokens)`: words, then the end at every position that is left."""
    found = tokens.sequences(records)[:, : tokens.max_tokens]
    return np.where(found == PAD, END, found)


def reward_loss(logits: Tensor, wanted: Tensor, vectors: Tensor, *, n_words: int, source: torch.Generator) -> Tensor:
    """The embedding reward of each position `(n,)`, as a loss: words near the wanted one gain probability.

    The mean over the most probable words and the mean over as many random ones of -log p(v) * cosine(wanted, v), with
    the cosine and p cut to [1e-5, .85]: a word above .85 gains nothing more.

    Args:
        logits: of the options, `(n, options)`.
        wanted: the options that stand in the text, `(n,)`.
        vectors: unit vectors of the options, `(options, dim)`, zero where there is none.
        n_words: of each kind.
        source: of the random words.
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
    schedule: Schedule,
    seed: int,
    device: str = "cpu",
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Fit the network in place on public texts.

    Args:
        network: fresh.
        targets: of `targets_of`.
        vectors: public unit vectors of the options, for the reward.
        schedule: see there.
        seed: of the order, of what is dropped and drawn.
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
    )  # of 10, a tenth is none
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
        # Nothing is learnt from unknown words, and from the end more than once.
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
            on_progress(Progress(step, steps, float(sums[0]) / since, float(sums[1]) / since))
            sums, since = np.zeros(2), 0
    network.eval()


def _disturbed(before: Tensor, n_tokens: int, schedule: Schedule, source: np.random.Generator) -> Tensor:
    shape = tuple(before.shape)
    dropped = torch.from_numpy(source.random(shape) < schedule.word_dropout).to(before.device)
    other = torch.from_numpy(source.random(shape) < schedule.other_words).to(before.device)
    words = torch.from_numpy(source.integers(END + 1, n_tokens, shape)).to(before.device)
    dropped[:, 0] = other[:, 0] = False
    found = torch.where(other & (before != END), words, before)
    return torch.where(dropped & (before != END), torch.full_like(before, PAD), found)


class Writing:
    """A block of texts being written, step by step; holds the private latents of its texts and nothing else.

    The public language model is the same network without latents: its state has seen the released words only.
    """

    def __init__(self, network: ErAeNetwork, targets: Integers, *, device: str, public: bool) -> None:
        if len(targets) > ROWS:
            raise ConfigError(f"Expected at most {ROWS} texts at once, found {len(targets)}.")
        self._network = network
        self._device = device
        self._n = len(targets)
        self._step = 0
        padded = np.full((ROWS, network.sizes.length), END, np.int64)
        padded[: len(targets)] = targets
        with torch.no_grad():
            self._latents = network.latents(torch.from_numpy(padded).to(device))
            nothing = torch.zeros_like(self._latents)
            self._states = [network.begin(self._latents)]
            self._given = [self._latents]
            if public:
                self._states.append(network.begin(nothing))
                self._given.append(nothing)
        self._before = torch.full((ROWS, 1), BEGIN, dtype=torch.int64, device=device)

    def logits(self) -> list[Int32s]:
        """Of the options at this position `(n_texts, options)`, in steps of `LOGIT_GRID`: private, then public ones."""
        found = []
        with torch.no_grad():
            for i, latents in enumerate(self._given):
                here = latents[:, self._step : self._step + 1]
                logits, self._states[i] = self._network.read_on(self._before, here, self._states[i], self._step)
                steps = torch.round(logits[: self._n, 0] / LOGIT_GRID).clamp(-_LARGEST, _LARGEST)  # exact in float32
                found.append(steps.to(torch.int32).cpu().numpy())
        return found

    def wrote(self, options: Integers) -> None:
        """These options `(n_texts,)` were released at this position."""
        self._before[: self._n, 0] = torch.from_numpy(options + FIRST_OPTION).to(self._device)
        self._step += 1


def digest_of(network: ErAeNetwork, tokens: Tokens) -> str:
    """sha256 of weights, sizes and vocabulary."""
    found = hashlib.sha256(json.dumps([asdict(network.sizes), tokens.words, tokens.max_tokens]).encode())
    for name, value in sorted(network.state_dict().items()):
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
