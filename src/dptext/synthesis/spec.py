"""The base of all syntheses: their settings, their guarantee, and the protocol of a fitted synthesis."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, Protocol, Self

from dptext import _validate
from dptext.embeddings.embedder import read_alone
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import UNSAID, Answers, Traits
from dptext.privacy import accounting
from dptext.privacy.events import Event, ZcdpEvent
from dptext.privacy.guarantee import ONE_PERSON, WHOLE_FILES, Basis, Guarantee, Relation, Trust, Unit
from dptext.synthesis.readings import Corpus
from dptext.synthesis.report import Topics
from dptext.synthesis.space import ENCODERS, MOST_WORDS
from dptext.synthesis.sums import Draws, Noise
from dptext.text.column_types import LABEL_TYPES, leave_as
from dptext.text.records import Record
from dptext.types import Json

PUBLIC_POOL = "the pool, the labels, the encoder and all settings are public and hold no private text"
NoisyRelation = Literal["add_or_remove_one", "replace_one"]

#: The largest L1 distance of the released shares of labels from the noisy shares.
MIX: Final = 0.1
_FEW: Final = 3  # labels that an error names

#: Called with the number of texts written so far, and of all texts, drafts among both.
Progress = Callable[[int, int], None]


def by_label(names: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return names in the order of the labels if each is LABEL=NAME of one of them; else as they are."""
    parts = [each.partition("=") for each in names]
    own = {label.strip(): name.strip() for label, _, name in parts if name.strip()}
    return tuple(own[label] for label in labels) if len(own) == len(names) and own.keys() == {*labels} else (*names,)


def require_names(names: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the labels, in their order, as `by_label`.

    ConfigError: there are some, but not one for each label, or one for all texts without labels.
    """
    if names and len(names) != (wanted := max(1, len(labels))):
        raise ConfigError(
            f"Expected {wanted} names, one for each label, found {len(names)}. Names with commas stand in a file, one "
            "in a line: --names @FILE."
        )
    return by_label(names, labels)


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The output of a synthesis: texts with labels, and numbers. Text ids are "0", "1", ... and belong to nobody.

    Attributes:
        texts: the synthetic corpus in random order; empty if only a report is released.
        labels: the label of each text, or None without labels.
        report: noisy numbers by label and topic.
        sentences: the output in plain words, the main finding first.
        data: contents of the output file if no text is released; empty takes the report as JSON.
        weights: sha256 of the weights of the language model that wrote the texts; empty if none did.
        cells: cells of the columns of a table for each text, where texts follow them; None where they do not.
        way: what a writer found out of a server, as the certificate has it; empty if it asked none.
    """

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    report: Topics
    sentences: tuple[str, ...] = ()
    data: bytes = field(default=b"", repr=False)
    weights: str = ""
    cells: tuple[tuple[int, ...], ...] | None = None
    way: Mapping[str, Json] = field(default_factory=dict)


class Fitted(Protocol):
    """A synthesis with its public pool."""

    @property
    def spec(self) -> CorpusSpec:
        """The public settings."""
        ...

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the pool and of the models that read texts."""
        ...

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Sum up the corpus, add noise once to each sum, and write the synthetic corpus from the noisy results."""
        ...

    def rehearse(self, nothing: Corpus) -> None:
        """Read an empty corpus as `synthesize` reads a private one, so that errors come before a charge."""
        ...


@lru_cache(256)
def _rho(epsilon: float, delta: float) -> float:
    return accounting.calibrate(ZcdpEvent(1.0), epsilon, delta=delta).rho


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSpec:
    """Settings of everything that is measured on a corpus, as syntheses and summaries do.

    Attributes:
        labels: the public set of labels. A record with none of them adds nothing. Empty: labels are not read.
        epsilon, delta: of everything that is released from the corpus, together.
        unit: who is protected: a "document", or an "author" with all of their documents.
        relation: of two neighbouring corpora. "add_or_remove_one" hides whether a unit is in the corpus at all;
            "replace_one" compares corpora of one size, and asks for up to twice the noise.
        about: approximate number of units in the corpus, a public statement of the user. Dimensions and thresholds
            depend on it; the guarantee holds for any value.
        encoder: "sentence" (all-MiniLM-L6-v2); "distilled", a linear model of words that learns from the sentence
            encoder on the pool and reads some hundred times as fast; or "glove", which needs no sentence encoder. These
            know English. A path such as "./FOLDER" is a model that sentence-transformers saved, for other languages.
        words: dimensions of a latent semantic analysis of the pool's words, beside those of the encoder; 0 for none. At
            most 512.
        topics: clusters of the pool whose noisy shares are reported; 0 for none.
        label_type: type in which the labels leave: "int64", "double" or "bool"; empty for texts. If the labels of
            the pool have one of these types, it is taken.
    """

    assumptions: ClassVar[tuple[str, ...]] = (PUBLIC_POOL,)
    #: True if texts are released, False if numbers alone are.
    writes: ClassVar[bool] = True
    #: True if `fit`, and `written` of a synthesis that writes from a summary, take a callback `on_progress`.
    tells: ClassVar[bool] = False
    #: The suffix of an output without texts.
    suffix: ClassVar[str] = ".json"
    #: The command that makes it.
    command: ClassVar[str] = "synthesize"

    labels: tuple[str, ...] = ()
    epsilon: float = 1.0
    delta: float = 1e-5
    unit: Literal["document", "author"] = "document"
    relation: NoisyRelation = "add_or_remove_one"
    about: int = 5_000
    encoder: str = "sentence"
    words: int = 300
    topics: int = 0
    label_type: str = field(default="", metadata={UNSAID: True})

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon, delta=self.delta)
        _validate.within(0, 0.1, delta=self.delta)
        _validate.one_of(("document", "author"), unit=self.unit)
        _validate.one_of(("add_or_remove_one", "replace_one"), relation=self.relation)
        if not isinstance(self.encoder, str) or not (self.encoder in ENCODERS or "/" in self.encoder):
            raise ConfigError(
                f"Expected encoder={self.encoder!r} to be one of {', '.join(ENCODERS)}, or the folder of a "
                "sentence-transformers model, as a path with a slash: ./FOLDER."
            )
        _validate.count(about=self.about)
        _validate.not_negative(words=self.words, topics=self.topics)
        object.__setattr__(self, "labels", _validate.labels(self.labels) if self.labels else ())
        _validate.within(0, MOST_WORDS, words=self.words)
        _validate.one_of(("", *LABEL_TYPES), label_type=self.label_type)
        if self.label_type and not leave_as(self.label_type, self.labels):
            raise ConfigError(
                f"Expected labels of the type label_type={self.label_type!r}, found "
                f"{', '.join(self.labels[:_FEW]) or 'none'}: leave it out, and they leave as texts."
            )
        if self.topics == 1:
            raise ConfigError("Expected topics=1 to be 0, or at least 2.")
        for share in self.shares:  # raises errors now, as a run is charged before its first sum
            self.noise(share)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of the kind, as in `dptext synthesize --mechanism`."""

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of rho of each sum."""
        return (1.0,)

    @property
    def rho(self) -> float:
        """The rho of zero-concentrated differential privacy for all sums together: the largest that costs `epsilon`."""
        return _rho(self.epsilon, self.delta)

    def noise(self, share: float = 1.0) -> Noise:
        """Return the noise of a sum with this share of rho."""
        return Noise(self.rho * share, Relation(self.relation))

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions of the guarantee about public things."""
        return self.assumptions

    @property
    def units(self) -> tuple[Unit, ...]:
        """The unit of the settings, alone."""
        return (Unit(self.unit),)

    @property
    def measured_fields(self) -> tuple[str, ...]:
        """The names of the columns that are measured, besides texts, labels and authors."""
        return ()

    @property
    def plan(self) -> str:
        """A sentence on what is measured, for a dry run; empty where nothing is to be said."""
        return ""

    @property
    def advice(self) -> str:
        """The advice before a run with settings that measured worse than others; empty if there is none."""
        return ""

    @property
    def traits(self) -> Traits:
        """One trusted party sees the corpus; labels are read if there are any."""
        return Traits(
            answers=Answers.CORPUS,
            labels=self.labels,
            reads_labels=bool(self.labels),
            releases_text=self.writes,
            trust=Trust.CENTRAL,
        )

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return the events of one unit in the whole run: all sums together are rho-zCDP."""
        if unit is not Unit(self.unit):
            other = f"found {unit.value}: set unit={unit.value!r}, which is other noise"
            raise IncomparableError(f"Expected unit {self.unit}, {other}.")
        return (ZcdpEvent(self.rho),)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of the whole synthetic corpus, at the larger of `delta` and the spec's delta."""
        people = (ONE_PERSON,) if self.unit == "author" else ()
        assumed = (*self.assumed, *read_alone(self.encoder, "cpu"), WHOLE_FILES, *people)
        how: dict[str, Any] = {"basis": Basis.CONDITIONAL, "trust": Trust.CENTRAL, "assumptions": assumed}
        events, own = self.events(unit or Unit(self.unit)), Unit(self.unit)
        return accounting.guarantee(events, max(delta, self.delta), unit=own, relation=Relation(self.relation), **how)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """Return the spec at this epsilon, and at the larger of `delta` and the spec's delta."""
        self.events(unit or Unit(self.unit))
        return replace(self, epsilon=epsilon, delta=max(delta, self.delta))

    @abstractmethod
    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> Fitted:
        """Return the synthesis, fitted to a pool of public texts."""

    @classmethod
    @abstractmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings for the contract, each fitted in seconds on `dptext.sample_records`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisSpec(CorpusSpec):
    """Settings of the syntheses that release texts: those of `CorpusSpec`, and the size.

    Attributes:
        size: number of synthetic texts. 0 means 90% of the pool. `prototypes` then returns fewer, down to a quarter of
            that, and says so in the report, if the pool has too few texts of a label for the noisy mix of labels.
    """

    #: Whether a text of the pool may leave more than once; None if texts of the pool do not leave, or it is not known.
    repeats: ClassVar[bool | None] = None

    size: int = 0

    def __post_init__(self) -> None:
        CorpusSpec.__post_init__(self)
        _validate.texts(size=self.size)

    def size_of(self, pool: Sequence[str]) -> int:
        """Return the number of synthetic texts for this pool."""
        return self.size or max(1, math.floor(0.9 * len(pool)))
