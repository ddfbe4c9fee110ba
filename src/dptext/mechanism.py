"""Protocols of specs and mechanisms: the interface between mechanisms and their users.

A *spec* is a frozen dataclass of public settings. Its guarantee is known before any budget is spent.
`spec.fit(public=...)` returns a *mechanism*, which is frozen, too (`dptext.frozen`), and works on batches.
Private text enters only as the argument of `privatize` and is never kept.

Mechanisms do not inherit from these protocols. `dptext.testing.check_mechanism` checks that mechanisms keep them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, Self, runtime_checkable

import numpy as np

from dptext.errors import ConfigError
from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee, Trust, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Output_co, Record, Release
from dptext.types import Floats, Json


class Learns(StrEnum):
    """The texts that `Spec.fit` learns from.

    * NOTHING: no text. At most, `fit` reads public word vectors, or loads an installed tagger.
    * PUBLIC: `public`.
    * PRIVATE: `public`, then `private`. The guarantee counts the training on `private`.
    * EITHER: `public` or `private`. The guarantee does not cover `private`.
    """

    NOTHING = "nothing"
    PUBLIC = "public"
    PRIVATE = "private"
    EITHER = "either"


class Answers(StrEnum):
    """The species of a spec: the private input of one release.

    * EACH_TEXT: one private record. Each record gets a release of its own. The spec is of a mechanism.
    * CORPUS: all private records together, under one epsilon. The spec is of a synthesis.
    """

    EACH_TEXT = "each text"
    CORPUS = "the corpus"


@dataclass(frozen=True, slots=True)
class Traits:
    """The inputs and outputs of a spec with its settings: what it learns from, reads and releases."""

    learns: Learns = Learns.PUBLIC  #: the texts that `fit` learns from
    takes_pool: bool = False  #: whether `fit` takes public candidates as `pool`
    trains: bool = False  #: whether `fit` takes a callback `on_progress` (see `FitProgress`), because it takes long
    #: the public set of the labels that are privatized; releases carry labels if there are any
    labels: tuple[str, ...] = ()
    #: columns of the public texts of `fit` that leave beside a release, as they are public
    carries: tuple[str, ...] = ()
    carried_types: tuple[tuple[str, str], ...] = ()  #: those of `carries` that hold no texts, and names of Arrow types
    reads_labels: bool = False  #: whether the label of a private record is read
    learns_labels: bool = False  #: whether `fit` reads labels of public records though releases carry none
    releases_text: bool = True  #: whether releases carry text
    releases_vectors: bool = False  #: whether releases carry vectors
    #: whether the settings ask for some words to be released unchanged. Such a spec states no pure epsilon.
    keeps_words: bool = False
    trust: Trust = Trust.LOCAL  #: who sees private text besides its owner: nobody (local), or the trainer (central)
    #: the settings that training does not read. `Refits.refit` takes over the training of a spec that differs in these
    #: settings alone. A setting that is not named here counts as read.
    refits: frozenset[str] = frozenset()
    answers: Answers = Answers.EACH_TEXT  #: the private input of one release

    @property
    def releases_labels(self) -> bool:
        """Whether releases carry labels."""
        return bool(self.labels)

    @property
    def takes_labels(self) -> bool:
        """Whether labels are read: of private records, or of public ones by `fit`."""
        return self.reads_labels or self.learns_labels

    @property
    def takes_private(self) -> bool:
        """Whether `fit` takes private records as `private`."""
        return self.learns in (Learns.PRIVATE, Learns.EITHER)


@dataclass(frozen=True, slots=True)
class FitProgress:
    """Progress of a fit.

    Attributes:
        done: number of steps done, from 1.
        total: upper bound on the number of steps.
        unit: the noun of the steps, in the plural.
        note: the losses; empty if they depend on private text.
    """

    done: int
    total: int
    unit: str
    note: str = ""


OnProgress = Callable[[FitProgress], None]


@runtime_checkable
class Promise(Protocol):
    """Public settings of a mechanism, or of a synthesis. Every field may be printed, logged and stored."""

    @property
    def kind(self) -> str:
        """The name that `--mechanism` takes."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units for which `guarantee` is known, smallest first."""

    @property
    def traits(self) -> Traits:
        """The inputs and outputs of the spec with these settings."""

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """The events of one release, of a record or of the corpus, for this unit.

        Guarantees are derived from events; ledgers add them.

        IncomparableError: no events are known for this unit with these settings.
        """

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """The guarantee of one release, of a record or of the corpus.

        The unit defaults to the smallest. Errors: see `events`.
        """

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """Return this spec with its noise set so that `guarantee(unit, delta)` has at most this epsilon."""

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Specs for tests of the contract: one for each way of working, each fitted in seconds."""


@runtime_checkable
class Spec(Promise, Protocol):
    """Public settings of a mechanism."""

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "Mechanism[str]":
        """Make the mechanism from public data only. `seed` fixes the randomness of fitting.

        `Traits` tell which further arguments `fit` takes: `private`, `pool`, `on_progress`.
        """

    def load(self, folder: Path) -> "Mechanism[str]":
        """Load the mechanism that `Mechanism.save` wrote into the folder under the same spec."""


class Mechanism(Protocol[Output_co]):
    """A fitted mechanism. It is frozen. The output of a record depends on this record and on fresh bits alone."""

    @property
    def spec(self) -> Spec:
        """The public settings."""

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests, by name, of the fitted model and of its public data."""

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Sequence[Release[Output_co]]:
        """Return one release for each record, in order. A record's output distribution is the same in any batch."""

    def save(self, folder: Path) -> None:
        """Write the fitted state into an existing folder, for `Spec.load`: JSON, plain arrays, safetensors; no code."""


# Optional protocols, for audits that see more than outputs.


@runtime_checkable
class HasDistribution(Protocol):
    """A mechanism whose outputs can be enumerated."""

    def output_distribution(self, record: Record, /) -> Mapping[str, float]:
        """The exact probability of every possible output for this record; the sum is 1.

        If more than a text is released, an output is `seen(release)`. ConfigError: the outputs cannot be enumerated
        with these settings, or are too many for this record.
        """


@runtime_checkable
class VectorNoise(Protocol):
    """A vector mechanism whose density is known, such as those of `dptext.sampling.float_noise`."""

    def release(self, vectors: Floats, randomness: Randomness, /) -> Floats:
        """Return one noisy vector for each row, `(rows, dim)`."""

    def log_density(self, released: Floats, vectors: Floats, /) -> Floats:
        """Log density, `(rows,)`, of each released row given the vector in the same row.

        Terms that depend on the released row alone may be left out, as audits compare vectors for one released row.
        """


@runtime_checkable
class HasLatent(VectorNoise, Protocol):
    """A mechanism that releases a noisy latent, or an output computed from the noisy latent."""

    def latent(self, records: Sequence[Record], /) -> Floats:
        """The latents `(n_records, dim)` before the noise. ConfigError: no latents, or latents of several sizes."""


@runtime_checkable
class HasReconstruction(Protocol):
    """A mechanism with an auto-encoder, whose losses an audit attacks."""

    def reconstruction_losses(self, records: Sequence[Record], /) -> Floats:
        """Loss per token `(n_records,)` of decoding each record from its own latent. The losses are private."""


@runtime_checkable
class HasTraining(Protocol):
    """A spec whose guarantee counts a training on private text."""

    def training_guarantee(self) -> Guarantee:
        """The guarantee of the trained model alone."""


@runtime_checkable
class Refits(Protocol):
    """A spec that can take over the training of another spec. The two may differ in the settings of `Traits.refits`."""

    def refit(self, fitted: Mechanism[str], *, public: Iterable[Record], seed: int) -> Mechanism[str]:
        """Return the mechanism that `fit(public=public, seed=seed)` makes, without training again.

        `fitted` was fitted on the same records and seed by a spec that differs in `Traits.refits` alone.
        """


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks to read beside a guarantee: plain sentences, and numbers by name.

    A number is None if the data for its measurement is not installed.
    """

    text: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)


@runtime_checkable
class HasRemarks(Protocol):
    """A spec, or a fitted mechanism, whose epsilon alone tells too little about its protection."""

    def remarks(self) -> Remarks:
        """The remarks to read beside the guarantee. ConfigError: a file that the settings name is unreadable."""


@runtime_checkable
class HasMetric(Protocol):
    """A mechanism whose guarantee is a multiple of a public distance."""

    def distance(self, first: Record, second: Record, /) -> float:
        """The distance of two neighbours in the guarantee's metric, rounded up."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Settings, and values of settings, that a kind had and that another kind has now.

    A spec with such settings names them by a class variable `moved`.
    """

    to: str  #: the other kind
    settings: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]

    def refuse(self, kind: str, key: str, value: object) -> None:
        """Raise ConfigError if the setting, or this value of it, has moved; the message names the other kind."""
        if key in self.settings:
            raise ConfigError(
                f"Expected no {key} for {kind}: it is a setting of {self.to} now. Leave it out, or take kind "
                f"{self.to}. A model that was saved with it has to be fitted again."
            )
        if value in self.values.get(key, ()):
            raise ConfigError(f"Expected another {key} than {value!r} for {kind}: it is of kind {self.to} now.")


#: Metadata of the field of a spec that `settings` leaves out at its default.
UNSAID: Final = "unsaid at its default"


def setting_fields(spec: Promise | type[Promise]) -> tuple[Field[Any], ...]:
    """The fields of a spec that are settings, in their order."""
    found = fields(spec)  # type: ignore[arg-type]  # every spec is a dataclass; check_mechanism checks it
    return tuple(each for each in found if each.init)


def settings(spec: Promise) -> dict[str, Json]:
    """A spec as JSON-able data: `kind`, then its fields. All of them are public settings.

    A field with the metadata `UNSAID` is left out at its default, so that files of before it came stay as they are.
    """
    values: dict[str, Json] = {"kind": spec.kind}
    for each in setting_fields(spec):
        value = getattr(spec, each.name)
        if each.metadata.get(UNSAID) and value == each.default:
            continue
        if isinstance(value, Spec):  # a spec that is a setting of another spec
            value = settings(value)
        values[each.name] = list(value) if isinstance(value, tuple) else value
    return values


def output_fault(spec: Spec, releases: Iterable[Release[object]]) -> str | None:
    """Describe how releases differ from the spec's traits. None if they agree."""
    text, vector = spec.traits.releases_text, spec.traits.releases_vectors
    for release in releases:
        if (release.vector is not None) != vector:
            return f"{spec.kind} promises {'a' if vector else 'no'} vector with each release"
        if not text and release.output != "":
            return f"{spec.kind} promises vectors and no text"
        if release.label is not None and not spec.traits.releases_labels:
            return f"{spec.kind} promises no labels"
    return None


def seen(release: Release[str]) -> str:
    r"""The observable output of a release as one text: label, text and vector, joined by U+001F. No id, no kept fields.

    >>> seen(Release("0", "so", "positive", vector=(0.5, -1.0)))
    'positive\x1fso\x1f0.5 -1.0'
    """
    label = () if release.label is None else (release.label,)
    vector = () if release.vector is None else (" ".join(map(repr, release.vector)),)
    return "\x1f".join((*label, release.output, *vector))


def compared(releases: Sequence[Release[str]]) -> list[str] | Floats:
    """The outputs of releases for audits: an array `(n, dim)` if all are vectors alone, else `seen` of each."""
    vectors = [release.vector for release in releases if release.label is None and release.output == ""]
    if releases and len(vectors) == len(releases) and None not in vectors:
        return np.array(vectors, np.float64)
    return [seen(release) for release in releases]
