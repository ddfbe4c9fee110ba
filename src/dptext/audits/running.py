"""How an audit runs a subject: many independent runs on one input, in several calls."""

from collections.abc import Callable, Sequence

import numpy as np

from dptext.audits.subjects import Chooser, Outputs, Privatizer, Sampler, Subject, Value, as_record, as_vector
from dptext.errors import ConfigError, PrivacyError
from dptext.mechanism import HasDistribution, VectorNoise, compared, seen
from dptext.sampling.source import Randomness
from dptext.text.records import Record, Release
from dptext.types import Floats

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
    """Outputs of independent runs on one input.

    The subject is called several times: one with a fixed seed repeats itself from call to call, and that must show. It
    draws from `randomness`, if it takes one, from the `position` of the first run on: runs at different positions are
    independent, also when it is seeded. ConfigError where the subject has none of the four forms or does not take the
    input; PrivacyError where it answers with another number of outputs than runs.
    """
    parts: list[Outputs] = []
    done = 0
    width = 1 if isinstance(value, str | Record) else max(1, np.size(value))
    limit = max(1, min(_ROWS_AT_ONCE, _ENTRIES_AT_ONCE // width, -(-runs // 8)))
    while done < runs:
        size = min(limit, runs - done)
        part = run(subject, value, size, randomness.at(position + done))
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


def run(subject: Subject, value: Value, size: int, randomness: Randomness) -> Outputs:
    """Outputs of one call for so many runs; errors as `sample`."""
    if isinstance(subject, Sampler):
        return _outputs(subject.sample(value, size, randomness))
    if isinstance(value, str | Record):
        if not isinstance(subject, Privatizer):
            raise ConfigError("Expected a subject that takes texts: with privatize(records, randomness), or sample.")
        releases = subject.privatize([as_record(value)] * size, randomness)
        # The outputs as an attacker sees them: labels and vectors leave with the text.
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
    )


def _outputs(found: Sequence[object] | Floats) -> Outputs:
    """The outputs as texts, or as finite vectors of one size. Nothing else can be compared."""
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
