"""Subjects of a trial, their own claims, and their runs: often on one input, in several calls.

A subject has one of these methods: `sample(value, runs, randomness)` (a third party's adapter), `privatize(records,
randomness)` (a mechanism), `release(vectors, randomness)` (vector noise), or `choose` and `distribution` (a choice
among options). An adapter is a class with one method::

    class Theirs:
        def sample(self, value, runs, randomness):
            return [their_package.privatize(value) for _ in range(runs)]
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np

from dptext.errors import ConfigError, PrivacyError
from dptext.mechanism import HasDistribution, Mechanism, Spec, Traits, VectorNoise, compared, seen
from dptext.privacy import accounting
from dptext.privacy.events import Event, MetricEvent, NoEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record, Release, records_digest
from dptext.types import Floats, Integers

__all__ = ["records_digest"]  # for data that a digest names: public here, too

#: The end of the errors for a subject that lacks a method.
METHODS: Final = " The page docs/reference/api/mechanisms.md lists the methods that audits read."

#: One input of a subject: a text, a record, or a vector `(dim,)`.
Value = str | Record | Floats
#: Outputs of several runs: texts, or vectors `(runs, dim)`.
Outputs = list[str] | Floats
#: Called with the number of runs done and the number of runs in all.
OnCount = Callable[[int, int], None]


def untold(_done: int, _total: int, /) -> None:
    """Do nothing: the default for an `OnCount` that was not given."""


@runtime_checkable
class Sampler(Protocol):
    """An adapter around anything that releases outputs."""

    def sample(self, value: Value, runs: int, randomness: Randomness, /) -> Sequence[str] | Floats:
        """Return the outputs of `runs` independent runs on one input: texts, or vectors `(runs, dim)`.

        A package with random numbers of its own ignores `randomness`.
        """
        ...


@runtime_checkable
class Chooser(Protocol):
    """A choice among public options by scores, as in `dptext.sampling.exponential`."""

    def distribution(self, scores: Floats, /) -> Floats:
        """Return probabilities `(rows, options)` for scores of that shape."""
        ...

    def choose(self, scores: Floats, source: Randomness, /) -> Integers:
        """Return the index of one option a row."""
        ...


@runtime_checkable
class Privatizer(Protocol):
    """The part of a mechanism that an audit runs."""

    def privatize(
        self, records: Sequence[Record], randomness: Randomness, /
    ) -> Sequence[Release[str]] | Sequence[Release[Floats]]:
        """Return one release a record, in order."""
        ...


Subject = Sampler | Privatizer | VectorNoise | Chooser


@runtime_checkable
class HasSpec(Protocol):
    """A mechanism made from public settings, which state its guarantee."""

    spec: Spec


def claim_of(subject: Subject) -> Guarantee | None:
    """Return the subject's own guarantee; None if it states none.

    The guarantee of a mechanism is its spec's, for the smallest unit. The guarantee of vector noise and of a choice
    follows from their events, for a whole document. Noise as published has no event that holds; its `claimed` event
    gives a guarantee of basis CLAIMED.
    """
    if isinstance(subject, HasSpec):
        return subject.spec.guarantee()
    stated: object = None
    if hasattr(subject, "claimed"):
        stated = (subject.claimed,)
    elif hasattr(subject, "events"):
        stated = subject.events
    elif hasattr(subject, "event"):
        stated = (subject.event,)
    if not isinstance(stated, tuple) or not stated:  # the events of a spec are a method, which asks for the unit
        return None
    events = [event for event in stated if isinstance(event, Event) and not isinstance(event, MetricEvent)]
    if len(events) < len(stated):
        return None
    delta = max(accounting.slack(events), float(subject.delta) if hasattr(subject, "delta") else 0.0)
    basis = Basis.CLAIMED if hasattr(subject, "claimed") else Basis.PROVEN
    return accounting.guarantee(events, delta, unit=Unit.DOCUMENT, basis=basis)


def labels_read(subject: object) -> tuple[str, ...]:
    """Return the public labels of a mechanism that reads private labels; none of anything else."""
    traits = subject.spec.traits if isinstance(subject, HasSpec) else Traits()
    return traits.labels if traits.reads_labels else ()


def unclaimed() -> Guarantee:
    """Return the guarantee of a subject that claims nothing, for whole documents."""
    return accounting.guarantee([NoEvent("nothing is claimed")], unit=Unit.DOCUMENT, basis=Basis.NONE)


def as_record(value: Value) -> Record:
    """Return a record, and a text as the record 0."""
    if isinstance(value, Record):
        return value
    if isinstance(value, str):
        return Record("0", value)
    raise ConfigError("Expected a text or a Record as the input of a text mechanism, found an array.")


def as_vector(value: Value) -> Floats:
    """Return a latent or a row of scores, `(dim,)`."""
    if isinstance(value, str | Record):
        raise ConfigError("Expected a vector as the input of a vector mechanism, found a text.")
    vector = np.asarray(value, np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ConfigError(f"Expected a finite vector of shape (dim,), found shape {vector.shape}.")
    return vector


# A model that was trained on the very texts that it rewrites answers every input with the noise that it promises: the
# leak is in the model, and no black box can show the leak.
def broken_assumptions(
    claim: Guarantee, mechanism: Mechanism[str], *, private: Iterable[Record] = (), true: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return a sentence for each reason why the guarantee does not apply; none if nothing speaks against it.

    The digests of a mechanism's training texts are `records_digest`s: the `private` records are found if the very same
    set was the training text, but not if a part or a paraphrase of them was. Every assumption of the claim that is not
    among `true` is broken; without `true` only digests are compared. Treat such a guarantee as `claim.voided(...)`.
    """
    digest, known = records_digest(private), claim.assumptions if true is None else true
    same = [name for name, other in mechanism.digests.items() if other == digest != records_digest(())]
    found = [
        f"the private records are the data that the mechanism calls {name!r} and takes for public" for name in same
    ]
    return (*found, *(f"nobody says that this is true: {text}" for text in claim.assumptions if text not in known))


_ROWS_AT_ONCE = 2048
_ENTRIES_AT_ONCE = 1 << 22


def sample(
    subject: Subject,
    value: Value,
    runs: int,
    randomness: Randomness,
    *,
    position: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> Outputs:
    """Return the outputs of independent runs on one input.

    The subject is called several times: a subject with a fixed seed repeats itself, and that must show. It draws from
    `randomness`, if it takes one, from the `position` of the first run on: runs at different positions are independent,
    even with seeded randomness. ConfigError if the subject has none of the four forms or does not take the input;
    PrivacyError if it returns another number of outputs than runs.
    """
    parts: list[Outputs] = []
    width = 1 if isinstance(value, str | Record) else max(1, np.size(value))
    limit = max(1, min(_ROWS_AT_ONCE, _ENTRIES_AT_ONCE // width, -(-runs // 8)))
    for done in range(0, runs, limit):
        size = min(limit, runs - done)
        parts.append(run(subject, value, size, randomness.at(position + done)))
        if len(parts[-1]) != size:
            raise PrivacyError(f"Expected one output a run from the subject, found {len(parts[-1])} for {size} runs.")
        if on_progress is not None:
            on_progress(done + size)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if 0 < len(arrays) < len(parts) or len({array.shape[1] for array in arrays}) > 1:
        raise ConfigError("Expected outputs of one kind and size from all runs.")
    if arrays:
        return np.concatenate(arrays)
    return [text for part in parts for text in part]


def run(subject: Subject, value: Value, size: int, randomness: Randomness) -> Outputs:
    """Return the outputs of one call for `size` runs; errors as `sample`."""
    if isinstance(subject, Sampler):
        return _outputs(subject.sample(value, size, randomness))
    if isinstance(value, str | Record):
        if not isinstance(subject, Privatizer):
            raise ConfigError(
                f"Expected a subject that takes texts: with privatize(records, randomness), or sample.{METHODS}"
            )
        releases = subject.privatize([as_record(value)] * size, randomness)
        # The outputs as an attacker sees them: labels and vectors are released with the text.
        texts = [Release(r.id, r.output, r.label, vector=r.vector) for r in releases if isinstance(r.output, str)]
        if len(texts) < len(releases):
            return _outputs([release.output for release in releases])
        # A distribution names its outputs by strings.
        return _outputs(list(map(seen, texts)) if isinstance(subject, HasDistribution) else compared(texts))
    vector = as_vector(value)
    rows = np.broadcast_to(vector, (size, len(vector)))
    if isinstance(subject, Chooser):
        return np.asarray(subject.choose(rows, randomness), np.float64)[:, None]
    if isinstance(subject, VectorNoise):
        return _outputs(subject.release(rows, randomness))
    raise ConfigError(
        "Expected a subject with sample(value, runs, randomness), privatize, release, or choose and distribution."
        + METHODS
    )


def _outputs(found: Sequence[object] | Floats) -> Outputs:
    """Return the outputs as texts, or as finite vectors of one size. Nothing else can be compared."""
    rows = found if isinstance(found, np.ndarray) else list(found)
    if isinstance(rows, list) and all(isinstance(row, str) for row in rows):
        return [str(row) for row in rows]
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "US":
        return [str(row) for row in rows.ravel().tolist()]
    try:
        vectors = np.asarray(rows, np.float64)
    except (TypeError, ValueError):
        vectors = np.array(np.nan)
    if vectors.ndim == 0 or not np.isfinite(vectors).all():
        raise ConfigError("Expected outputs that are texts, or finite vectors of one size, found something else.")
    return vectors.reshape(len(vectors), -1)
