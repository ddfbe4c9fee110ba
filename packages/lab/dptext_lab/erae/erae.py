"""ER-AE: a text written again word by word, each word chosen privately (Bo, Ding, Fung and Iqbal 2021).

A network trained on public text reads the private text and proposes a distribution for each position. A private choice
takes a word of each distribution. The paper's choice is the two-set exponential mechanism; its epsilon here is the
tight bound. Two other choices are better at the same epsilon: top-k randomized response, and hub decoding, which stays
near a public language model.

    >>> spec = ErAe(epsilon=12.0)
    >>> spec.guarantee().epsilon, spec.guarantee().unit.value
    (240.0, 'document')
"""

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import HIDDEN
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, Mechanism, OnProgress, Remarks, Traits
from dptext.mechanisms.bases import Lazy, OneUnit, OnModel, bisected, check_choices, settings_for
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent, TopKEvent, TwoSetEvent
from dptext.privacy.guarantee import Unit, format_epsilon
from dptext.sampling.exponential import ClippedExponential
from dptext.sampling.hub import LARGEST_HUB_EPSILON, Hub
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.text.batches import Batch, Releases
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.types import Floats, Int32s, Integers
from dptext_lab.erae.two_set import TwoSet

if TYPE_CHECKING:
    from dptext_lab.erae import net
else:
    net = Lazy("dptext_lab.erae.net")

#: The step of logits: `LOGIT_GRID` of `dptext_lab.erae.net.network`, which needs torch.
_GRID = 2.0**-8

WordChoice: TypeAlias = Hub | TopKRandomizedResponse | TwoSet | ClippedExponential
PUBLIC_MODEL = "the network, its vocabulary and the word vectors of its training were made from public text only"
#: The assumption about the network on another device than the processor.
IN_BLOCKS = f"the network computes a text as if it were alone in its block: {HIDDEN}"
_ENUMERABLE = 10_000


def _below(steps: Int32s) -> Floats:
    return np.asarray((steps - steps.max(axis=1, keepdims=True)) * _GRID)


def _softmax(steps: Int32s) -> Floats:
    weights = np.exp(_below(steps))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def choose(chooser: WordChoice, choice: str, logits: Sequence[Int32s], source: Randomness) -> Integers:
    """Draw one option a row."""
    given = (*_scores(chooser, choice, logits), source)
    return chooser.choose(*given)


def _scores(chooser: WordChoice, choice: str, logits: Sequence[Int32s]) -> tuple[Any, ...]:
    """Return the inputs of the choice; for `hub` private and public probabilities."""
    if isinstance(chooser, TopKRandomizedResponse):
        return (logits[0],)
    return (_below(logits[0]),) if choice == "exponential" else tuple(map(_softmax, logits))


@dataclass(frozen=True, slots=True)
class ErAe(OneUnit):
    """Settings of writing a text again, each of its words chosen privately.

    Use:
        Take it to hide who wrote a short text.
        Set first: epsilon, max_tokens, choice.

    Guarantee:
        Unit DOCUMENT, relation replace one: any two texts give any output with probabilities whose ratio is at most
        e^(epsilon * max_tokens). Nothing is revealed, not even the length: `max_tokens` words are always drawn, the end
        among them. CONDITIONAL: the network must be public.

        Each draw costs exactly `epsilon`, for any two texts and any words released before. The bound of a draw holds
        for any probabilities among public options. Besides the private text the network reads released words only. At a
        delta above 0 the draws compose to less.

    Attributes:
        epsilon: the privacy loss of each word. Each choice is calibrated by its tight bound.
        choice: `hub` (near a public language model); `top_k_rr` (one of the k most probable words, or any other);
            `two_set` (the paper's, with the k most probable words as the set), `two_set_sampled` (the authors' code);
            `exponential` (logits cut to a public range); `ae_dp` (the paper's baseline: probabilities as scores).
        k: size of the sets. 0 means 5, as in the paper, or 1 for `top_k_rr`.
        max_tokens: the number of words that are read and drawn.
        max_words: the exact size of the vocabulary: the public text must have so many words.
        latent: one latent of the whole "text", as in the paper, or one for each of the "positions".
        reward: weight of the embedding reward against the reconstruction; 0 for none.
        vectors: public word vectors, from which the network starts and by which the reward compares words. "minilm" are
            the vectors of all-MiniLM-L6-v2 (the paper took BERT's); or "glove".
        score_range: `exponential` cuts logits to this number of nats below the largest logit.
        epochs: passes over the public texts. The measurements used one pass over 80,000 texts; fewer texts need more
            passes.
        hidden: units of the writer.
        latent_dim: coordinates of the latent.
        embedding: coordinates of a word.
        learning_rate: the step of Adam.
        device: where the network computes.
    """

    only: ClassVar[str] = "each word depends on the whole text"
    #: The network is the same for every choice and epsilon.
    traits: ClassVar[Traits] = Traits(trains=True, refits=frozenset({"epsilon", "choice", "k", "score_range"}))

    epsilon: float
    choice: Literal["hub", "top_k_rr", "two_set", "two_set_sampled", "exponential", "ae_dp"] = "top_k_rr"
    k: int = 0
    max_tokens: int = 20
    max_words: int = 8000
    latent: Literal["text", "positions"] = "positions"
    reward: float = 10.0
    vectors: Literal["minilm", "glove"] = "minilm"
    score_range: float = 10.0
    epochs: int = 1
    hidden: int = 256
    latent_dim: int = 256
    embedding: int = 128
    learning_rate: float = 2e-3
    device: str = "cpu"
    kind: Literal["erae"] = field(default="erae", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, learning_rate=self.learning_rate, score_range=self.score_range)
        _validate.within(0, LARGEST_HUB_EPSILON, epsilon=self.epsilon)
        _validate.not_negative(reward=self.reward)
        counts = ("max_tokens", "epochs", "hidden", "latent_dim", "embedding")
        _validate.count(**{name: getattr(self, name) for name in counts})
        _validate.within(4, 60_000, max_words=self.max_words)
        _validate.within(0, self.max_words // 2, k=self.k)
        check_choices(self)
        if self.hidden % 2:
            raise ConfigError(f"Expected hidden={self.hidden} to be even: half of it reads each way.")
        _ = self.chooser

    @property
    def released(self) -> tuple[TopKEvent | TwoSetEvent | ExponentialEvent]:
        """The event of all words of one text."""
        return (replace(self.chooser.event, count=self.max_tokens),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The network is public; on a CPU it reads each text by itself."""
        return (PUBLIC_MODEL,) if self.device == "cpu" else (PUBLIC_MODEL, IN_BLOCKS)

    def remarks(self) -> Remarks:
        """Remark on the epsilon of a text: its parts, and the protection that it gives."""
        whole = format_epsilon(self.guarantee().epsilon)
        return Remarks(
            f"Each of {self.max_tokens} words costs {format_epsilon(self.epsilon)}, all of them {whole} without a "
            "delta. Useful texts need some 9 to 12 a word, 180 to 240 for 20 words. At such an epsilon the worst case "
            "is no protection at all: whoever can list the texts that you may have written can tell which one it was. "
            "What remains is what attacks measure, such as `dptext audit authorship`; a guarantee it is not."
        )

    @property
    def options(self) -> int:
        """The number of options of each choice: the words and the end."""
        return self.max_words + 1

    @property
    def chooser(self) -> WordChoice:
        """The choice of one word, calibrated to `epsilon`; ConfigError if `two_set` costs more with so many options."""
        size = self.options
        match self.choice:
            case "hub":
                return Hub(self.epsilon, size)
            case "top_k_rr":
                return TopKRandomizedResponse(self.epsilon, self.k or 1, size)
            case "exponential":
                # The temperature alone sets epsilon. The range of the scores is a setting of utility.
                spread = accounting.calibrate(ExponentialEvent(1.0, size), self.epsilon).log_range
                return ClippedExponential(-self.score_range, 0.0, self.score_range / spread, size)
            case "ae_dp":
                spread = accounting.calibrate(ExponentialEvent(1.0, size), self.epsilon).log_range
                return ClippedExponential(0.0, 1.0, 1 / spread, size)
            case _:
                own = 2 * (self.epsilon - self._floor) * (1 - 1e-9)  # what is left after rounding the bound up
                if not own > 0:
                    raise ConfigError(
                        f"Expected epsilon={self.epsilon!r} > {self._floor:.4g}: {self.choice} costs that much with "
                        f"{size} options even if it says nothing. Raise epsilon, lower max_words, or take "
                        "choice='top_k_rr'."
                    )
                return TwoSet(own, self.k or 5, size, "sampled" if self.choice == "two_set_sampled" else "top_k")

    @property
    def _floor(self) -> float:
        """The cost of a two-set choice in which the scores count for nothing."""
        size, k = self.options, self.k or 5
        return math.log(size - 1) if self.choice == "two_set_sampled" else math.log((size - k) / k)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> "ErAe":
        """Return the spec whose whole text costs at most epsilon at delta; ConfigError if no choice costs so little."""
        self.events(unit or Unit.DOCUMENT)
        _validate.positive(epsilon=epsilon)
        low = min(epsilon / self.max_tokens * (1 - 1e-12), LARGEST_HUB_EPSILON)
        if delta > 0 and "two_set" in self.choice:  # composition may allow a word more than its part
            low = max(low, self._floor * (1 + 1e-6))
        found = replace(self, epsilon=low)
        if found.guarantee(delta=delta).epsilon > epsilon and low > epsilon / self.max_tokens:
            return replace(self, epsilon=epsilon / self.max_tokens)  # refused, with the reason
        if delta == 0:
            while found.guarantee(delta=delta).epsilon > epsilon:
                found = replace(self, epsilon=found.epsilon * (1 - 1e-9))
            return found
        high = min(epsilon, LARGEST_HUB_EPSILON)
        return bisected(self, epsilon, low, high, rounds=40, unit=Unit.DOCUMENT, delta=delta)

    @property
    def _settings(self) -> "net.ErAeSettings":
        return settings_for(net.ErAeSettings, self)

    def fit(
        self, *, public: Iterable[Record] = (), seed: int | None = None, on_progress: OnProgress | None = None
    ) -> "ErAeMechanism":
        """Train the network on public texts, on the first `max_tokens` words of each.

        The seed is no secret; None draws a seed. `on_progress` is called some twenty times. ConfigError: the texts have
        fewer than `max_words` different words.
        """
        seed = secrets.randbits(32) if seed is None else seed

        def told(step: int, steps: int, loss: float) -> None:
            if on_progress is not None:
                on_progress(FitProgress(step, steps, "steps", f"loss {loss:.3g}"))

        return ErAeMechanism(self, net.fit_erae(self._settings, as_records(public), seed=seed, on_progress=told))

    def refit(self, fitted: Mechanism[str], *, public: Iterable[Record], seed: int) -> "ErAeMechanism":
        """Implement `dptext.mechanism.Refits`: keep the network."""
        if isinstance(fitted, ErAeMechanism):
            return ErAeMechanism(self, fitted.model)
        return self.fit(public=public, seed=seed)

    def load(self, folder: Path) -> "ErAeMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        return ErAeMechanism(self, net.load_erae(self._settings, folder))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Small networks, one for each kind of choice; two words a text, so that outputs can be enumerated."""
        sizes: dict[str, Any] = {"max_tokens": 2, "max_words": 30, "hidden": 16, "latent_dim": 8, "embedding": 8}
        small = cls(2.0, **sizes, reward=1.0, vectors="glove")
        return (
            small,
            replace(small, choice="hub"),
            replace(small, choice="two_set", epsilon=4.0, latent="text"),
            replace(small, choice="two_set_sampled", epsilon=8.0, k=2),
            replace(small, choice="exponential"),
            replace(small, choice="ae_dp"),
        )


class ErAeMechanism(OnModel[ErAe]):
    """`ErAe` with its network, which is public and the same for every choice and epsilon. Immutable."""

    __slots__ = ()

    model: "net.ErAeModel"

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one text a record: the words before the end, `max_tokens` at most."""
        batch = Batch.of(records)
        found: list[str] = []
        for start in range(0, len(batch), self.model.rows):
            block = batch[start : start + self.model.rows]
            found += self._write(block, randomness.each(start, len(block)))
        return batch.released(found)

    def _write(self, block: Sequence[Record], streams: Sequence[tuple[Randomness, int]]) -> list[str]:
        """Write the texts of a block: the network runs on all rows at once, each stream draws for its own."""
        spec, chooser = self.spec, self.spec.chooser
        writing = self.model.begin(block, public=spec.choice == "hub")
        ends = np.cumsum([n for _, n in streams])
        columns = []
        for _ in range(spec.max_tokens):
            logits = writing.logits()
            parts = [(source, slice(end - n, end)) for (source, n), end in zip(streams, ends, strict=True)]
            drawn = [choose(chooser, spec.choice, [rows[own] for rows in logits], source) for source, own in parts]
            columns.append(np.concatenate(drawn))
            writing.wrote(columns[-1])
        return [self.model.text(row) for row in np.stack(columns, axis=1)]

    def proposals(self, record: Record, released: Integers) -> Floats:
        """Return the probabilities of the next option after each beginning `(n_beginnings, options)`: private.

        `released` holds the options of each beginning, `(n_beginnings, steps)`, fewer than `max_tokens`.
        """
        chooser, found = self.spec.chooser, [np.empty((0, self.spec.options))]
        for start in range(0, len(released), self.model.rows):
            block = released[start : start + self.model.rows]
            writing = self.model.begin([record] * len(block), public=self.spec.choice == "hub")
            for column in block.T:
                writing.logits()
                writing.wrote(column)
            found.append(chooser.distribution(*_scores(chooser, self.spec.choice, writing.logits())))
        return np.concatenate(found)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each possible text; ConfigError above 10,000 sequences of words."""
        size, steps = self.spec.options, self.spec.max_tokens
        if steps * math.log(size) > math.log(_ENUMERABLE):
            ways = f"{_ENUMERABLE} ways to write a text, found {size}**{steps}"
            raise ConfigError(f"Expected at most {ways}: lower max_words or max_tokens.")
        released, chances = np.zeros((1, 0), np.int64), np.ones(1)
        for _ in range(steps):
            chances = (chances[:, None] * self.proposals(record, released)).ravel()
            every = np.tile(np.arange(size), len(released))[:, None]
            released = np.concatenate([np.repeat(released, size, axis=0), every], axis=1)
        found: dict[str, float] = {}
        for row, chance in zip(released, chances.tolist(), strict=True):
            text = self.model.text(row)
            found[text] = found.get(text, 0.0) + chance
        return found
