"""What can be put to trial, and how an audit runs it.

Anything with one of these: `sample(value, runs, randomness)` (a third party's adapter), `privatize(records,
randomness)` (a mechanism), `release(vectors, randomness)` (vector noise), or `choose` and `distribution` (a choice
among options). An adapter is a class with one method::

    class Theirs:
        def sample(self, value, runs, randomness):
            return [their_package.privatize(value) for _ in range(runs)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from dptext.errors import ConfigError, PrivacyError
from dptext.mechanism import HasDistribution, VectorNoise, compared, seen
from dptext.privacy import accounting
from dptext.privacy.events import Event, MetricEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record, Release
from dptext.types import Floats, Integers

Value = str | Record | Floats
Outputs = list[str] | Floats
Progress = Callable[[int, int], None]

_ROWS_AT_ONCE = 2048
_ENTRIES_AT_ONCE = 1 << 22


@runtime_checkable
class Sampler(Protocol):
    """An adapter around anything that releases."""

    def sample(self, value: Value, runs: int, randomness: Randomness, /) -> Sequence[str] | Floats:
        """Outputs of `runs` independent runs on one input: texts, or vectors `(runs, dim)`.

        A package with random numbers of its own leaves `randomness` alone.
        """
        ...


@runtime_checkable
class Choice(Protocol):
    """A choice among public options by scores, as in `dptext.sampling.selection`."""

    def distribution(self, scores: Floats, /) -> Floats:
        """Probabilities `(rows, options)` for scores of that shape."""
        ...

    def choose(self, scores: Floats, source: Randomness, /) -> Integers:
        """Index of one option a row."""
        ...


@runtime_checkable
class Privatizer(Protocol):
    """The part of a mechanism that an audit runs."""

    def privatize(
        self, records: Sequence[Record], randomness: Randomness, /
    ) -> Sequence[Release[str]] | Sequence[Release[Floats]]:
        """One release a record, in order."""
        ...


Subject = Sampler | Privatizer | VectorNoise | Choice


def claim_of(subject: Subject) -> Guarantee | None:
    """The guarantee that the subject states itself: of its smallest unit, or of its event; None where it states none.

    Noise as published has no event that holds, but an event `claimed`, which gives a guarantee of basis CLAIMED.

    Vector noise and choices stand for a whole document whose latent or scores they are given.
    """
    spec = getattr(subject, "spec", None)
    if spec is not None:
        found = spec.guarantee()
        return found if isinstance(found, Guarantee) else None
    claimed = getattr(subject, "claimed", None)
    stated = getattr(subject, "events", None) or (getattr(subject, "event", None),)
    stated = stated if claimed is None else (claimed,)
    if not isinstance(stated, tuple):
        return None
    events = [event for event in stated if isinstance(event, Event) and not isinstance(event, MetricEvent)]
    if len(events) < len(stated):
        return None
    return accounting.guarantee(
        events,
        max(accounting.slack(events), float(getattr(subject, "delta", 0.0))),
        unit=Unit.DOCUMENT,
        basis=Basis.PROVEN if claimed is None else Basis.CLAIMED,
    )


def as_record(value: Value) -> Record:
    """A text as the record 0."""
    if isinstance(value, Record):
        return value
    if isinstance(value, str):
        return Record("0", value)
    raise ConfigError("Expected a text or a Record as the input of a text mechanism, found an array.")


def as_vector(value: Value) -> Floats:
    """A latent or a row of scores, `(dim,)`."""
    if isinstance(value, str | Record):
        raise ConfigError("Expected a vector as the input of a vector mechanism, found a text.")
    vector = np.asarray(value, np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ConfigError(f"Expected a finite vector of shape (dim,), found shape {vector.shape}.")
    return vector


def sample(
    subject: Subject,
    value: Value,
    runs: int,
    randomness: Randomness,
    *,
    position: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> Outputs:
    """Outputs of independent runs on one input, in several calls of the subject.

    Several calls, because a subject with a fixed seed repeats itself from call to call.

    Args:
        subject: what is tried.
        value: the input.
        runs: how many.
        randomness: for subjects that take one; runs at different positions are independent, also when it is seeded.
        position: of the first run.
        on_progress: called with the number of runs done.

    Raises:
        ConfigError: the subject has none of the four forms, or the input is not of its kind.
        PrivacyError: the subject answers with another number of outputs than runs.
    """
    parts: list[Outputs] = []
    done = 0
    for size in _sizes(value, runs):
        part = _run(subject, value, size, randomness.at(position + done))
        if len(part) != size:
            raise PrivacyError(f"Expected one output a run from the subject, found {len(part)} for {size} runs.")
        parts.append(part)
        done += size
        if on_progress is not None:
            on_progress(done)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if 0 < len(arrays) < len(parts) or len({array.shape[1] for array in arrays}) > 1:
        raise ConfigError("Expected outputs of one kind and size from all runs.")
    if arrays:
        return np.concatenate(arrays)
    return [text for part in parts for text in part]


def _sizes(value: Value, runs: int) -> Iterator[int]:
    width = 1 if isinstance(value, str | Record) else max(1, np.size(value))
    limit = max(1, min(_ROWS_AT_ONCE, _ENTRIES_AT_ONCE // width, -(-runs // 8)))
    for start in range(0, runs, limit):
        yield min(limit, runs - start)


def _run(subject: Subject, value: Value, size: int, randomness: Randomness) -> Outputs:
    if isinstance(subject, Sampler):
        return _outputs(subject.sample(value, size, randomness))
    if isinstance(value, str | Record):
        if not isinstance(subject, Privatizer):
            raise ConfigError("Expected a subject that takes texts: with privatize(records, randomness), or sample.")
        releases = subject.privatize([as_record(value)] * size, randomness)
        return _outputs(_all_that_leaves(subject, releases))
    vector = as_vector(value)
    rows = np.broadcast_to(vector, (size, len(vector)))
    if isinstance(subject, Choice):
        return np.asarray(subject.choose(rows, randomness), np.float64)[:, None]
    if isinstance(subject, VectorNoise):
        return _outputs(subject.release(rows, randomness))
    raise ConfigError(
        "Expected a subject with sample(value, runs, randomness), privatize, release, or choose and distribution."
    )


def _all_that_leaves(
    subject: Subject, releases: Sequence[Release[str]] | Sequence[Release[Floats]]
) -> Sequence[object] | Floats:
    """Labels and vectors leave too, so that they belong to the output that an attacker sees."""
    texts = [Release(r.id, r.output, r.label, vector=r.vector) for r in releases if isinstance(r.output, str)]
    if len(texts) < len(releases):
        return [release.output for release in releases]
    # A distribution names its outputs by strings.
    return [seen(release) for release in texts] if isinstance(subject, HasDistribution) else compared(texts)


def _outputs(found: Sequence[object] | Floats) -> Outputs:
    """Texts, or finite vectors of one size; nothing else can be compared."""
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
