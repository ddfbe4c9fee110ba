"""Writing with a language model, from public examples and from texts that were released before."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Generic, Self, TypeVar

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError
from dptext.frozen import Frozen
from dptext.language.reading import MODEL_IS_PUBLIC, SMOLLM2, LanguageModel, TextModel
from dptext.language.writing import Drafts, OnWritten, Shifted, by_temperature, write
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness
from dptext.sampling.weights import draw_by_weight
from dptext.synthesis.lengths import Length, whole_sentences
from dptext.synthesis.pool import apportioned, shuffled
from dptext.synthesis.readings import Corpus
from dptext.synthesis.report import Topics
from dptext.synthesis.spec import MIX, SynthesisSpec, Synthetic, require_names
from dptext.text.records import Record, records_digest
from dptext.types import Floats, Integers

_SHOWN: Final = 4  # texts in a prompt for more like them
_NAMED: Final = 8  # labels in a sentence
_DRAFTS: Final = 3  # most rounds of writing, as texts can be repeats or not readable
_UNREADABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ufffd\ud800-\udfff]")
_WAYS: Final = 4  # ways to vary a text: more alike, rewrite, continue, fill in


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingSpec(SynthesisSpec):
    """Settings of the syntheses that write with a language model.

    Attributes:
        model: a language model, as `dptext.language.reading.load_language_model` takes it.
        tokens: largest number of tokens of a text.
        temperature: temperature of all choices of tokens.
        options: number of tokens among which one is chosen.
        names: meanings of the labels, one text for each, in their order, or one for all texts; empty takes the labels.
        examples: number of public texts in a prompt.
        count_share: share of rho for the numbers of units.
        size: number of synthetic texts.
        topics: 0, as these ways have no topics.
    """

    assumptions: ClassVar[tuple[str, ...]] = (*SynthesisSpec.assumptions, MODEL_IS_PUBLIC)

    size: int = 1_000
    words: int = 0
    model: str = SMOLLM2
    tokens: int = 24
    temperature: float = 0.7
    options: int = 512
    names: tuple[str, ...] = ()
    examples: int = 6
    count_share: float = 0.1

    def __post_init__(self) -> None:
        _validate.within(0.01, 0.5, count_share=self.count_share)
        SynthesisSpec.__post_init__(self)
        object.__setattr__(self, "names", self.names or self.labels or ("text",))
        object.__setattr__(self, "names", require_names(self.names, self.labels))
        _validate.count(tokens=self.tokens, size=self.size)
        _validate.texts(size=self.size)
        _validate.positive(temperature=self.temperature)
        _validate.within(2, 4096, options=self.options)
        _validate.not_negative(examples=self.examples)
        if self.topics:
            raise ConfigError(f"Expected topics={self.topics} to be 0: this way has none.")

    def released(
        self, texts: Sequence[Sequence[str]], counts: Floats, scale: float, source: Randomness, *more: str
    ) -> Synthetic:
        """Return the texts of all labels in random order, with noisy numbers of units `(labels or 1,)`."""
        flat = [(text, self.labels[c] if self.labels else None) for c, own in enumerate(texts) for text in own]
        flat = [flat[i] for i in shuffled(len(flat), source)]
        report = Topics.of(self.labels, counts[:, None], scale, (), self.unit, None)
        few = too_few(self.labels, apportioned(np.maximum(counts, scale), self.size), texts)
        sentences = (*report.sentences(), *few, *more)
        return Synthetic(tuple(text for text, _ in flat), tuple(label for _, label in flat), report, sentences)


def too_few(labels: Sequence[str], wanted: Integers, texts: Sequence[Sequence[str]]) -> list[str]:
    """Return a sentence if fewer texts were written than wanted: others were repeats, or not readable.

    `wanted` are the numbers of texts of each label `(labels or 1,)`, and `texts` those that were written. Labels with
    less than half of what is wanted are named, and all that lack some if the mix of labels is another.
    """
    made = np.array([len(own) for own in texts])
    if not (missing := int(np.maximum(wanted - made, 0).sum())):
        return []
    other = missing > MIX / 2 * wanted.sum()
    few = [i for i in range(len(labels)) if made[i] < wanted[i] and (other or 2 * made[i] < wanted[i])]
    few.sort(key=lambda i: float(made[i] / wanted[i]))
    whole = int(wanted.sum())
    said = f"{whole - missing:,} of {whole:,} wanted texts were written: others were repeats, or not readable."
    if few:
        each = "; ".join(f"{labels[i]}: {made[i]:,} of {wanted[i]:,} wanted" for i in few[:_NAMED])
        more = f"; and {len(few) - _NAMED:,} more labels" if len(few) > _NAMED else ""
        head = "The mix of labels is not the wanted one, as" if other else "Of some labels"
        said += f" {head} too few different texts were written: {each}{more}."
    return [said]


def examples_of(records: Sequence[Record], n: int, seed: int) -> tuple[Record, ...]:
    """Choose `n` public examples, from each label of the public texts in turn. ConfigError: there is none."""
    if n and not records:
        raise ConfigError("Expected public texts to show, found none that holds something: give some.")
    by_label: dict[str | None, list[Record]] = {}
    for record in records:
        by_label.setdefault(record.label, []).append(record)
    order = np.random.default_rng(seed)
    groups = [[own[i] for i in order.permutation(len(own))] for _, own in sorted(by_label.items(), key=str)]
    turns = [own[i] for i in range(n) for own in groups if i < len(own)]
    return tuple(turns[:n])


Settings = TypeVar("Settings", bound=WritingSpec)


class OnWriter(Frozen, Generic[Settings]):
    """A base of a synthesis with its writer and public examples."""

    __slots__ = ("examples", "spec", "writer")

    spec: Settings

    def __init__(self, spec: Settings, model: LanguageModel, examples: tuple[Record, ...]) -> None:
        self.spec, self.examples = spec, examples
        self.writer = Writer.of(
            model, spec.names, spec.labels, examples, tokens=spec.tokens, temperature=spec.temperature,
            options=spec.options, more=_SHOWN,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the examples, of the model's weights, and of what else is fitted."""
        return {"public": records_digest(self.examples), "model": self.writer.model.digest}

    def rehearse(self, nothing: Corpus) -> None:
        """Do nothing: the model, which alone reads texts, was loaded before."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LineWriter(ABC):
    """A language model with its public examples, which it reads first: a text a line.

    Attributes:
        names: meanings of the labels; the model reads `name: text` in each line.
        head: tokens of the examples.
        end: the token that ends a line.
        tokens: largest number of tokens of a written text; a text that is read has at most twice as many.
        least: number of tokens before which no text ends.
        length: the length that texts should have; None if they have any.
        temperature, options: settings of choices that no private text moves.
        shown: the examples as they are read, each with the meaning of its label.
    """

    model: TextModel
    names: tuple[str, ...]
    head: tuple[int, ...]
    end: int
    tokens: int
    temperature: float
    options: int
    shown: tuple[tuple[str, str], ...] = ()
    least: int = 0
    length: Length | None = None

    @classmethod
    def of(
        cls,
        model: TextModel,
        names: tuple[str, ...],
        labels: Sequence[str],
        examples: Iterable[Record],
        *,
        tokens: int,
        temperature: float,
        options: int,
        least: int = 0,
        length: Length | None = None,
        more: int = 0,
    ) -> Self:
        """Return a writer; `names` are the meanings of the `labels`. After the examples it reads at most `more` texts.

        ConfigError: the model has no room for the longest prompt and a text, or no template for it.
        """
        found = cls(model, names, (), model.tokens("\n")[-1], tokens, temperature, min(options, model.size))
        named = dict(zip(labels, names, strict=False))
        head: list[int] = []
        shown: list[tuple[str, str]] = []
        for each in examples:
            name = named.get(each.label or "", each.label or names[0])
            head += found._line(name, each.text)
            shown.append((name, one_line(model.text(found.read(each.text)))))
        found = replace(found, head=tuple(head), shown=tuple(shown), least=least, length=length)
        longest = max(len(found.asked(label)[0]) for label in range(len(names)))
        if more:
            longest = max(len(found.prompt(label, *[""] * more)) for label in range(len(names))) + 2 * more * tokens
        model.require_room(longest, tokens)
        return found

    def asked(self, label: int) -> tuple[Sequence[int], frozenset[int]]:
        """Return the tokens of the prompt of a label, and those that end a text."""
        return self.prompt(label), frozenset({self.end})

    def prompt(self, label: int, *texts: str) -> list[int]:
        """Return the tokens of a prompt: public examples, texts of the label if any, and the name of the label."""
        name = self.names[label]
        shown = [token for text in texts for token in self._line(name, text)]
        return [*self.head, *shown, *self.model.tokens(f"{name}:")]

    def _line(self, name: str, text: str) -> list[int]:
        return [*self.model.tokens(f"{name}:"), *self.read(text), self.end]

    def read(self, text: str) -> list[int]:
        """Return the tokens of a text in one line, at most twice as many as a written text has."""
        return self.model.tokens(f" {one_line(text)}")[: 2 * self.tokens]

    def line(self, tokens: Sequence[int]) -> str:
        """Return the text of written tokens in one line."""
        return one_line(self.model.text(tokens))

    def _whole(self, tokens: Sequence[int]) -> str:
        """Return the text of written tokens; one of a length that was cut off, up to its last whole sentence."""
        line = self.line(tokens)
        if self.length is None or len(tokens) < self.tokens:
            return line
        return whole_sentences(line, self.length.least)

    def readable(self, written: Iterable[Sequence[int]]) -> list[str]:
        """Return the distinct readable texts."""
        lines = map(self._whole, written)
        return list(dict.fromkeys(line for line in lines if is_readable(line)))

    @abstractmethod
    def shifted(
        self, label: int, n: int, shift: Floats, randomness: Randomness, on_progress: OnWritten | None = None
    ) -> Drafts:
        """Write `n` texts from public examples, with log-probabilities moved by `shift` `(size,)`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Writer(LineWriter):
    """A line writer with a model whose numbers can be computed exactly."""

    model: LanguageModel

    def more(
        self, label: int, own: Sequence[str], n: int, randomness: Randomness, *, chances: Floats, varied: bool
    ) -> list[str]:
        """Return at most `n` distinct texts: `own`, then texts written after some of `own`, drawn by `chances`.

        If `varied`, three in four are variations of one text: a text after it, a new second half, or a new middle.
        """
        kept = list(own[:n])
        choose = by_temperature(self.temperature, self.options, self.end, randomness)
        for _ in range(_DRAFTS):
            missing = n - len(kept)
            if not missing:
                break
            drawn: list[list[int]] = [[] for _ in range(missing)]
            if own:
                weights = np.log(np.tile(chances, (missing * _SHOWN, 1)))
                drawn = draw_by_weight(weights, randomness).reshape(missing, _SHOWN).tolist()
            ways = uniform_below(_WAYS, missing, randomness).tolist() if varied and own else [0] * missing
            begun = [self._begun(label, [own[i] for i in row], way) for row, way in zip(drawn, ways, strict=True)]
            written = write(self.model, [each.prompt for each in begun], choose, end=self.end, most=self.tokens)
            whole = [each.around(tokens) for each, tokens in zip(begun, written, strict=True)]
            kept = list(dict.fromkeys([*kept, *self.readable(whole)]))
        return kept

    def shifted(
        self, label: int, n: int, shift: Floats, randomness: Randomness, on_progress: OnWritten | None = None
    ) -> Drafts:
        """Write `n` texts from public examples, with log-probabilities moved by `shift` `(size,)`."""
        choose = Shifted(self.temperature, self.options, self.end, randomness, shift, least=self.least)
        prompts = [self.prompt(label)] * n
        found = write(self.model, prompts, choose, end=self.end, most=self.tokens, on_progress=on_progress)
        return Drafts(found, choose.expected / max(1, n), choose.likely, choose.drawn)

    def _begun(self, label: int, texts: Sequence[str], way: int) -> _Begun:
        if way == 0:
            return _Begun(self.prompt(label, *texts))
        tokens = self.read(texts[0])
        if way == 1:
            return _Begun(self.prompt(label, texts[0]))
        kept = len(tokens) // way  # a half, or a third at both ends
        last = tokens[len(tokens) - kept :] if way == 3 else []
        return _Begun([*self.prompt(label, *texts[1:]), *tokens[:kept]], tokens[:kept], last)


@dataclass(frozen=True, slots=True, repr=False)
class _Begun:
    """The prompt of a text, and the tokens before and after its written part."""

    prompt: Sequence[int]
    first: Sequence[int] = ()
    last: Sequence[int] = ()

    def around(self, tokens: Sequence[int]) -> list[int]:
        """Return the whole text. Between two kept ends, the written part is cut to about its old length."""
        return [*self.first, *(tokens[: len(self.last) + 1] if self.last else tokens), *self.last]


def one_line(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def is_readable(line: str) -> bool:
    """Return whether a line has at least two words, no word three times in a row, and no character that none can read.

    These are control characters, halves of surrogate pairs, and the sign for bytes that are no text.
    """
    words = line.lower().split()
    if _UNREADABLE.search(line):
        return False
    return len(words) >= 2 and not any(a == b == c for a, b, c in zip(words, words[1:], words[2:], strict=False))
