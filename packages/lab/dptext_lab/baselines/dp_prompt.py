"""DP-Prompt: a language model paraphrases a text, each token drawn privately (Utpala, Hooker and Chen 2023).

>>> spec = DpPrompt(epsilon=10.0)
>>> spec.guarantee().epsilon <= 10.0, spec.guarantee().unit.value
(True, 'document')
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.reading import MODEL_IS_PUBLIC, SMOLLM2, LanguageModel, load_language_model
from dptext.language.writing import options_of
from dptext.mechanism import Learns, Remarks, Traits
from dptext.mechanisms.bases import FittedMechanism, OneUnit, Untrained, check_choices
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent, PureEvent, TopKEvent
from dptext.privacy.guarantee import Unit, format_epsilon
from dptext.sampling.exponential import ClippedExponential
from dptext.sampling.hub import LARGEST_HUB_EPSILON, Hub
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import softmax
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.types import Floats, Integers

if TYPE_CHECKING:
    from dptext.language.llama import LlamaContexts

_TEXT: Final = "{text}"
_ROWS_AT_ONCE: Final = 32  # of some 10 MB each
_ENUMERABLE: Final = 10_000
TokenChoice: TypeAlias = ClippedExponential | Hub
#: The prompt of the model if the settings name none.
PROMPT: Final = """Rewrite each sentence in other words.
"i need a cab to the airport at six" can also be said as: please get me a taxi to the airport for 6 o'clock
"What is the weather like in Rome tomorrow?" can also be said as: How will the weather be in Rome tomorrow?
"Her doctor told her to rest, so she stayed home." can also be said as: She stayed at home to rest, as her doctor said.
"play some jazz by Ella Fitzgerald" can also be said as: put on jazz songs of Ella Fitzgerald
"I paid too much for this phone and it broke." can also be said as: This expensive phone stopped working.
"book a table for two at a cheap thai place" can also be said as: reserve an inexpensive Thai restaurant for two people
"{text}" can also be said as:"""


@dataclass(frozen=True, slots=True)
class DpPrompt(Untrained["DpPromptMechanism"], OneUnit):
    """Settings of a paraphrase by a language model, each of its tokens chosen privately.

    Use:
        Take it to compare with: at an epsilon that protects a text nothing of it is left.
        Set first: epsilon, max_tokens, choice.

    Guarantee:
        Unit DOCUMENT, relation replace one, pure epsilon; nothing is revealed. `max_tokens` tokens are always drawn and
        charged, the end among them. CONDITIONAL: the model must be public. The private text and earlier tokens decide
        where log weights lie within a public range, or probabilities between public limits, but never the set of
        tokens.

        `exponential`: all tokens of the vocabulary can be drawn, with log weights within D = score_range / temperature.
        A token costs D + ln((1 + (V - 1) e^D) / (e^D + V - 1)) for V tokens, and D^2 / 2 of zCDP. The usual bound is 2
        D.

        `hub`: probabilities are cut to within e^(epsilon / 2) of the model's probabilities without the private text,
        among the most likely tokens of the latter; see `dptext.sampling.hub`.

    Attributes:
        epsilon: the privacy loss of a text at most, at delta 0. The temperature follows from epsilon.
        choice: `exponential` (the paper's) or `hub` (near the model's text without the private text).
        max_tokens: the number of tokens that are read, and the number that are drawn.
        model: the name or folder of a language model; see `dptext.language.reading.load_language_model`.
        vocabulary: the exact number of tokens of the model.
        prompt: public text that the model reads, with {text} in the place of the private text; an empty prompt takes
            examples of short requests. A paraphrase ends with its line.
        score_range: `exponential` cuts log-probabilities to this number of nats below the largest.
        options: the number of tokens among which `hub` chooses.
        hub_temperature: the temperature of both probabilities of `hub`.
    """

    only: ClassVar[str] = "each token depends on the whole text"
    traits: ClassVar[Traits] = Traits(learns=Learns.NOTHING)
    assumptions: ClassVar[tuple[str, ...]] = (MODEL_IS_PUBLIC,)

    epsilon: float
    choice: Literal["exponential", "hub"] = "exponential"
    max_tokens: int = 16
    model: str = SMOLLM2
    vocabulary: int = 49_152
    prompt: str = ""
    score_range: float = 10.0
    options: int = 512
    hub_temperature: float = 0.7
    kind: Literal["dp_prompt"] = field(default="dp_prompt", init=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, score_range=self.score_range, hub_temperature=self.hub_temperature)
        _validate.count(max_tokens=self.max_tokens, vocabulary=self.vocabulary, options=self.options)
        _validate.within(2, min(4096, self.vocabulary), options=self.options)
        check_choices(self)
        if (self.prompt or PROMPT).count(_TEXT) != 1:
            raise ConfigError(f"Expected prompt={self.prompt!r} to have {_TEXT} once, where the private text stands.")
        _ = self.chooser

    @property
    def chooser(self) -> TokenChoice:
        """The choice of one token."""
        if self.choice == "hub":
            each = self.epsilon / self.max_tokens * (1 - 2.0**-50)  # so that all tokens together cost at most epsilon
            return Hub(min(each, LARGEST_HUB_EPSILON), self.options)
        event = ExponentialEvent(1.0, self.vocabulary, self.max_tokens)
        return ClippedExponential(-accounting.calibrate(event, self.epsilon).log_range, 0.0, 1.0, self.vocabulary)

    @property
    def released(self) -> tuple[ExponentialEvent | TopKEvent]:
        """The event of all tokens of one text."""
        return (replace(self.chooser.event, count=self.max_tokens),)

    def remarks(self) -> Remarks:
        """Remark on the epsilon of a text and of each token."""
        share = format_epsilon(self.guarantee().epsilon / self.max_tokens)
        need = f"Texts that say what was said need some {12 if self.choice == 'hub' else 25} a token."
        each = f"Each of {self.max_tokens} tokens costs {share}. {need}"
        chooser = self.chooser
        if isinstance(chooser, Hub):
            return Remarks(each)
        quoted = 2 * chooser.event.log_range * self.max_tokens
        return Remarks(
            f"{each} The temperature is {self.score_range / chooser.event.log_range:.3g}; the usual bound would quote "
            f"{format_epsilon(quoted)} for the same draws.",
            {"usually_quoted": quoted},
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """Return the same spec at an epsilon such that `guarantee(unit, delta)` costs at most `epsilon`."""
        self.events(unit or self.unit)
        if delta == 0:
            return replace(self, epsilon=epsilon)
        found = accounting.calibrate(
            PureEvent(1.0), epsilon, delta=delta, lifted=lambda by: replace(self, epsilon=epsilon + by.epsilon).released
        )
        return replace(self, epsilon=epsilon + found.epsilon)

    def _fitted(self) -> "DpPromptMechanism":
        return DpPromptMechanism(self, load_language_model(self.model))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Specs for a model of 96 tokens; two tokens are drawn, so that outputs can be enumerated."""
        small = cls(epsilon=4.0, max_tokens=2, vocabulary=96, prompt="Say {text} again:", options=16)
        return small, replace(small, choice="hub")


class DpPromptMechanism(FittedMechanism[DpPrompt]):
    """`DpPrompt` with its model. Immutable."""

    __slots__ = ("_after", "_before", "_chooser", "_ends", "_model")

    def __init__(self, spec: DpPrompt, model: LanguageModel) -> None:
        super().__init__(spec)
        if model.size != spec.vocabulary:
            raise ConfigError(f"Expected a model of vocabulary={spec.vocabulary} tokens, found {model.size}.")
        before, _, after = (spec.prompt or PROMPT).partition(_TEXT)
        self._model, self._chooser = model, spec.chooser
        self._before, self._after = tuple(model.tokens(before)), tuple(model.tokens(after))
        self._ends = model.tokens("\n")[0], model.end
        model.require_room(len(self._before) + len(self._after) + spec.max_tokens, spec.max_tokens)

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the model's weights."""
        return {"model": self._model.digest}

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        """Release one paraphrase a record: the tokens before the end, `max_tokens` at most."""
        batch, found = Batch.of(records), list[str]()
        for start in range(0, len(batch), _ROWS_AT_ONCE):
            texts = batch.texts[start : start + _ROWS_AT_ONCE]
            found += self._written(texts, randomness.each(start, len(texts)))
        return batch.released(found)

    def _written(self, texts: Sequence[str], streams: Sequence[tuple[Randomness, int]]) -> list[str]:
        """Write paraphrases of some texts; each stream draws for its own rows."""
        n, steps = len(texts), self.spec.max_tokens
        contexts = self._contexts(texts, np.empty((n, 0), np.int64), more=steps)
        written, ends = np.empty((n, steps), np.int64), np.cumsum([rows for _, rows in streams])
        for column in written.T:  # every token is drawn, even after the end of a text
            there, sides = self._options(contexts.log_probabilities())
            for (source, rows), end in zip(streams, ends.tolist(), strict=True):
                own = slice(end - rows, end)
                given = (*(side[own] for side in sides), source)
                column[own] = there[own][np.arange(rows), self._chooser.choose(*given)]
            contexts.append(np.tile(column, len(sides)))
        return list(map(self._text, written.tolist()))

    def _contexts(self, texts: Sequence[str], written: Integers, *, more: int) -> "LlamaContexts":
        """Contexts after each text and its written tokens; for `hub` also contexts after the written tokens alone."""
        read = [self._model.tokens(" ".join(text.split()))[: self.spec.max_tokens] for text in texts]
        both = [*read, *([list[int]()] * len(read) if isinstance(self._chooser, Hub) else [])]
        after = written.tolist() * (len(both) // len(read))
        prompts = [[*self._before, *text, *self._after, *tokens] for text, tokens in zip(both, after, strict=True)]
        return self._model.contexts(prompts, more=more)

    def _options(self, known: Floats) -> tuple[Integers, tuple[Any, ...]]:
        """Return the tokens that can be drawn, and the inputs of the choice among them: `(rows, options)` each."""
        spec, chooser = self.spec, self._chooser
        if isinstance(chooser, Hub):
            private, public = np.split(known, 2)
            there = options_of(public, spec.options, self._ends[0])
            sides = (np.take_along_axis(side, there, axis=1) / spec.hub_temperature for side in (private, public))
            return there, tuple(map(softmax, sides))
        below = known - known.max(axis=1, keepdims=True)
        return np.indices(known.shape)[1], (below * (chooser.event.log_range / spec.score_range),)

    def _text(self, tokens: Sequence[int]) -> str:
        end = next((i for i, token in enumerate(tokens) if token in self._ends), len(tokens))
        return " ".join(self._model.text(tokens[:end]).split())

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        """The probability of each possible text; ConfigError above 10,000 sequences of tokens."""
        size, steps = self._chooser.size, self.spec.max_tokens
        if steps * math.log(size) > math.log(_ENUMERABLE):
            ways = f"{_ENUMERABLE} ways to write a text, found {size}**{steps}"
            raise ConfigError(f"Expected at most {ways}: lower max_tokens.")
        begun, chances = np.empty((1, 0), np.int64), np.ones(1)
        for _ in range(steps):
            contexts = self._contexts([record.text] * len(begun), begun, more=0)
            there, sides = self._options(contexts.log_probabilities())
            chances = (chances[:, None] * self._chooser.distribution(*sides)).ravel()
            begun = np.column_stack([np.repeat(begun, size, axis=0), there.ravel()])
        found: dict[str, float] = {}
        for tokens, chance in zip(begun.tolist(), chances.tolist(), strict=True):
            text = self._text(tokens)
            found[text] = found.get(text, 0.0) + chance
        return found
