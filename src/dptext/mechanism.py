"""The seam between mechanisms and their users: what a spec and a mechanism must offer.

A *spec* is a frozen dataclass of public settings; it knows its guarantee before anything is spent.
`spec.fit(public=...)` gives a *mechanism*: frozen as its spec is (`dptext.frozen`), working on batches. Private text
enters only as the argument of `privatize` and is never kept.

Mechanisms do not inherit from these protocols; `dptext.testing.check_mechanism` checks that they keep them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np

from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Output_co, Record, Release
from dptext.types import Floats, Json


@runtime_checkable
class Spec(Protocol):
    """Public settings of a mechanism. Every field may be printed, logged and stored.

    Two names of fields say what a release holds: `labels` is the public set of the labels that are privatized, and
    `output`, without which it is "text", is one of "text", "embedding" and "both". A property `keeps_words` that is
    true says that words leave as they are because the settings ask for it; such a spec states no pure epsilon.
    """

    @property
    def kind(self) -> str:
        """The name of the mechanism, as in `dptext mechanisms`."""
        ...

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that `guarantee` can speak of with these settings, smallest first."""
        ...

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """What one release of one record does to such a unit of it: `guarantee` follows from these, a ledger adds them.

        Raises:
            IncomparableError: nothing is known for this unit with these settings.
        """
        ...

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one record guarantees; the unit defaults to the smallest.

        Raises:
            IncomparableError: nothing is known for this unit with these settings.
        """
        ...

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """The same spec with its noise set so that `guarantee(unit, delta)` costs at most epsilon."""
        ...

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> Mechanism[str]:
        """The mechanism, made from public data only; `seed` fixes what is random in the making."""
        ...

    def load(self, folder: Path) -> Mechanism[str]:
        """The mechanism that `Mechanism.save` wrote into the folder, under the same spec."""
        ...

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Public settings that fit in seconds, one for each way of working: what the contract is tried on."""
        ...


class Mechanism(Protocol[Output_co]):
    """A fitted mechanism: frozen, and the output of a record depends on that record and fresh bits alone."""

    @property
    def spec(self) -> Spec:
        """The public settings."""
        ...

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the fitted model and of the public data in it, by name."""
        ...

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Sequence[Release[Output_co]]:
        """One release a record, in order. A record's output distribution is the same in any batch."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was fitted into an existing folder, for `Spec.load`: JSON, plain arrays, safetensors; no code."""
        ...


# ------------------------------------------------- optional seams, for audits that see more than outputs


@runtime_checkable
class HasDistribution(Protocol):
    """A mechanism whose outputs can be enumerated."""

    def output_distribution(self, record: Record, /) -> Mapping[str, float]:
        """The exact probability of every possible output for this record; they sum to 1.

        Where more than a text is released, an output is `seen` of the release.

        Raises:
            ConfigError: the outputs cannot be enumerated with these settings, or are too many for this record.
        """
        ...


@runtime_checkable
class VectorNoise(Protocol):
    """A vector mechanism whose density is known, such as those of `dptext.sampling.noise`."""

    def release(self, vectors: Floats, randomness: Randomness, /) -> Floats:
        """One noisy vector a row, `(rows, dim)`."""
        ...

    def log_density(self, released: Floats, vectors: Floats, /) -> Floats:
        """Log density, `(rows,)`, of each released row given the vector in the same row.

        Up to a term that depends on the released row alone: audits read only differences between vectors.
        """
        ...


@runtime_checkable
class HasLatent(VectorNoise, Protocol):
    """A mechanism that releases a noisy latent, or something made from it."""

    def latent(self, records: Sequence[Record], /) -> Floats:
        """The latents `(n_records, dim)` before the noise.

        Raises:
            ConfigError: these settings have no latent, or the latents of the records have several sizes.
        """
        ...


@runtime_checkable
class HasMetric(Protocol):
    """A mechanism whose guarantee is a multiple of a public distance."""

    def distance(self, first: Record, second: Record, /) -> float:
        """The distance of two neighbours in the guarantee's metric, rounded up."""
        ...


def settings(spec: Spec) -> dict[str, Json]:
    """A spec as JSON-able data, `kind` first, then its fields; made only of public settings."""
    values: dict[str, Json] = {"kind": spec.kind}
    for field in fields(spec):  # type: ignore[arg-type]  # every spec is a dataclass; check_mechanism checks it
        if field.init:
            value = getattr(spec, field.name)
            if field.name == "mechanism":  # of a spec that goes on where another ends
                value = settings(value)
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return values


def releases_labels(spec: Spec) -> bool:
    """Whether releases carry labels: a spec that privatizes them has a field `labels` with their public set."""
    return bool(getattr(spec, "labels", ()))


def reads_labels(spec: Spec) -> bool:
    """Whether the label of a private record is read: not where a spec has a property `reads_labels` that says no."""
    return releases_labels(spec) and bool(getattr(spec, "reads_labels", True))


def learns_labels(spec: Spec) -> bool:
    """Whether `fit` reads the labels of public records although releases carry none: a property that says so."""
    return bool(getattr(spec, "learns_labels", False))


def releases_text(spec: Spec) -> bool:
    """Whether releases carry text: not where a spec with a field `output` says "embedding"."""
    return getattr(spec, "output", "text") != "embedding"


def releases_vectors(spec: Spec) -> bool:
    """Whether releases carry vectors: a spec that releases them has a field `output`, "embedding" or "both"."""
    return getattr(spec, "output", "text") in ("embedding", "both")


def output_fault(spec: Spec, releases: Iterable[Release[object]]) -> str | None:
    """How releases differ from what the spec promises, or None."""
    text, vector = releases_text(spec), releases_vectors(spec)
    for release in releases:
        if (release.vector is not None) != vector:
            return f"{spec.kind} promises {'a' if vector else 'no'} vector with each release"
        if not text and release.output != "":
            return f"{spec.kind} promises vectors and no text"
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


def settings_digest(spec: Spec) -> str:
    """sha256 of the settings."""
    return hashlib.sha256(json.dumps(settings(spec), sort_keys=True).encode()).hexdigest()
