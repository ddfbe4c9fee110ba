"""The seam between mechanisms and their users: what a spec and a mechanism must offer.

A *spec* is a frozen dataclass of public settings; it knows its guarantee before anything is spent.
`spec.fit(public=...)` gives a *mechanism*. It is frozen, as its spec is (`dptext.frozen`), and works on batches.
Private text enters only as the argument of `privatize` and is never kept.

Mechanisms do not inherit from these protocols; `dptext.testing.check_mechanism` checks that they keep them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee, Trust, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Output_co, Record, Release
from dptext.types import Floats, Json


class Learns(StrEnum):
    """The texts that `Spec.fit` learns from.

    * NOTHING: no text. It reads public word vectors at most, or loads an installed tagger.
    * PUBLIC: `public`.
    * PRIVATE: `public`, then `private`. The guarantee counts the training on the latter.
    * EITHER: `public` or `private`. The latter is not protected.
    """

    NOTHING = "nothing"
    PUBLIC = "public"
    PRIVATE = "private"
    EITHER = "either"


class Answers(StrEnum):
    """The species of a spec: what one release answers.

    * EACH_TEXT: each private record, by a release of its own. Such a spec is of a mechanism.
    * CORPUS: all private records together, under one epsilon. Such a spec is of a synthesis.
    """

    EACH_TEXT = "each text"
    CORPUS = "the corpus"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a spec with these settings learns from, reads and releases: declared by the spec, guessed by nobody."""

    learns: Learns = Learns.PUBLIC  #: the texts that `fit` learns from
    takes_pool: bool = False  #: whether `fit` takes public candidates as `pool`
    trains: bool = False  #: whether `fit` takes a callback `on_progress` (see `FitProgress`), because it takes long
    #: the public set of the labels that are privatized; releases carry labels if there are any
    labels: tuple[str, ...] = ()
    reads_labels: bool = False  #: whether the label of a private record is read
    learns_labels: bool = False  #: whether `fit` reads labels of public records, where releases carry none
    releases_text: bool = True  #: whether releases carry text
    releases_vectors: bool = False  #: whether releases carry vectors
    #: whether words leave as they are because the settings ask for it. Such a spec states no pure epsilon.
    keeps_words: bool = False
    trust: Trust = Trust.LOCAL  #: who sees private text besides its owner: nobody (local), or whoever trains (central)
    #: the settings that training does not read. `Refits.refit` takes a training over between specs that differ in
    #: these alone. A setting that is not named here counts as read.
    refits: frozenset[str] = frozenset()
    answers: Answers = Answers.EACH_TEXT  #: what one release answers

    @property
    def releases_labels(self) -> bool:
        """Whether releases carry labels."""
        return bool(self.labels)

    @property
    def takes_private(self) -> bool:
        """Whether `fit` takes private records as `private`."""
        return self.learns in (Learns.PRIVATE, Learns.EITHER)


@dataclass(frozen=True, slots=True)
class FitProgress:
    """How far a fit has come: steps done, from 1, of a total at most, and what is counted, in the plural.

    The note has the losses; it is empty where private text had a part in them.
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
        """The name of the mechanism, as in `dptext mechanisms`."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units for which `guarantee` has an answer, smallest first."""

    @property
    def traits(self) -> Traits:
        """What it learns from, reads and releases with these settings."""

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """The events of one release of one record, for this unit: a guarantee follows from them, a ledger adds them up.

        IncomparableError: nothing is known for this unit with these settings.
        """

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one record guarantees; the unit defaults to the smallest. Errors as of `events`."""

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """The same spec with its noise set so that `guarantee(unit, delta)` costs at most epsilon."""

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings for the contract: one for each way of working, each fitted in seconds."""


@runtime_checkable
class Spec(Promise, Protocol):
    """Public settings of a mechanism."""

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "Mechanism[str]":
        """The mechanism, made from public data only; `seed` fixes what is random in the making.

        Traits say which further arguments there are: `private`, `pool`, `on_progress`.
        """

    def load(self, folder: Path) -> "Mechanism[str]":
        """The mechanism that `Mechanism.save` wrote into the folder, under the same spec."""


class Mechanism(Protocol[Output_co]):
    """A fitted mechanism: frozen, and the output of a record depends on that record and fresh bits alone."""

    @property
    def spec(self) -> Spec:
        """The public settings."""

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the fitted model and of the public data in it, by name."""

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Sequence[Release[Output_co]]:
        """One release a record, in order. A record's output distribution is the same in any batch."""

    def save(self, folder: Path) -> None:
        """Write what was fitted into an existing folder, for `Spec.load`: JSON, plain arrays, safetensors; no code."""


# Optional seams, for audits that see more than outputs.


@runtime_checkable
class HasDistribution(Protocol):
    """A mechanism whose outputs can be enumerated."""

    def output_distribution(self, record: Record, /) -> Mapping[str, float]:
        """The exact probability of every possible output for this record; they sum to 1.

        Where more than a text is released, an output is `seen` of the release. ConfigError: the outputs cannot be
        enumerated with these settings, or are too many for this record.
        """


@runtime_checkable
class VectorNoise(Protocol):
    """A vector mechanism whose density is known, such as those of `dptext.sampling.float_noise`."""

    def release(self, vectors: Floats, randomness: Randomness, /) -> Floats:
        """One noisy vector a row, `(rows, dim)`."""

    def log_density(self, released: Floats, vectors: Floats, /) -> Floats:
        """Log density, `(rows,)`, of each released row given the vector in the same row.

        A term that depends on the released row alone may be left out: audits compare vectors for one released row.
        """


@runtime_checkable
class HasLatent(VectorNoise, Protocol):
    """A mechanism that releases a noisy latent, or something made from it."""

    def latent(self, records: Sequence[Record], /) -> Floats:
        """The latents `(n_records, dim)` before the noise; ConfigError where there are none, or of several sizes."""


@runtime_checkable
class HasReconstruction(Protocol):
    """A mechanism with an auto-encoder, whose losses an audit attacks."""

    def reconstruction_losses(self, records: Sequence[Record], /) -> Floats:
        """Loss per token `(n_records,)` of writing each record from its own latent: private."""


@runtime_checkable
class HasTraining(Protocol):
    """A spec whose guarantee counts a training on private text."""

    def training_guarantee(self) -> Guarantee:
        """What the trained model alone guarantees."""


@runtime_checkable
class Refits(Protocol):
    """A spec that can take over the training of another one. `Traits.refits` says in what the two may differ."""

    def refit(self, fitted: Mechanism[str], *, public: Iterable[Record], seed: int) -> Mechanism[str]:
        """What `fit(public=public, seed=seed)` gives, without the training.

        `fitted` is of another spec for the same records and seed, which differs in `Traits.refits` alone.
        """


@dataclass(frozen=True, slots=True)
class Remarks:
    """What should be read beside a guarantee: plain sentences, and numbers by name.

    A number is None where the data that it is measured on is not installed.
    """

    text: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)


@runtime_checkable
class HasRemarks(Protocol):
    """A spec, or a fitted mechanism, whose epsilon alone says too little."""

    def remarks(self) -> Remarks:
        """What should be read beside its guarantee; ConfigError where a file that the settings name is unreadable."""


@runtime_checkable
class HasMetric(Protocol):
    """A mechanism whose guarantee is a multiple of a public distance."""

    def distance(self, first: Record, second: Record, /) -> float:
        """The distance of two neighbours in the guarantee's metric, rounded up."""


def setting_fields(spec: Promise | type[Promise]) -> tuple[Field[Any], ...]:
    """The fields of a spec that are settings, in their order."""
    found = fields(spec)  # type: ignore[arg-type]  # every spec is a dataclass; check_mechanism checks it
    return tuple(each for each in found if each.init)


def settings(spec: Promise) -> dict[str, Json]:
    """A spec as JSON-able data, `kind` first, then its fields; made only of public settings."""
    values: dict[str, Json] = {"kind": spec.kind}
    for each in setting_fields(spec):
        value = getattr(spec, each.name)
        if isinstance(value, Spec):  # a spec that is a setting of another
            value = settings(value)
        values[each.name] = list(value) if isinstance(value, tuple) else value
    return values


def training_settings(spec: Spec) -> dict[str, Json]:
    """The settings that the training of a spec reads: all but `Traits.refits`."""
    late = spec.traits.refits
    return {name: value for name, value in settings(spec).items() if name not in late}


def output_fault(spec: Spec, releases: Iterable[Release[object]]) -> str | None:
    """How releases differ from what the spec promises, or None."""
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
    r"""All that leaves with a release but the id and the kept fields: label, text, vector, U+001F between them.

    >>> seen(Release("0", "so", "positive", vector=(0.5, -1.0)))
    'positive\x1fso\x1f0.5 -1.0'
    """
    label = () if release.label is None else (release.label,)
    vector = () if release.vector is None else (" ".join(map(repr, release.vector)),)
    return "\x1f".join((*label, release.output, *vector))


def compared(releases: Sequence[Release[str]]) -> list[str] | Floats:
    """What leaves with releases, as an audit compares it: `seen`, or `(n, dim)` where nothing leaves but vectors."""
    vectors = [release.vector for release in releases if release.label is None and release.output == ""]
    if releases and len(vectors) == len(releases) and None not in vectors:
        return np.array(vectors, np.float64)
    return [seen(release) for release in releases]
