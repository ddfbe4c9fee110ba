"""The core of a run: private records in, releases and guarantees out.

`dptext.runs.results` runs in memory, `dptext.runs.files` from file to file.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from dptext.errors import DataError, IncomparableError, NoGuaranteeError, PrivacyError
from dptext.mechanism import Mechanism, Promise, Spec, output_fault
from dptext.privacy import accounting
from dptext.privacy.guarantee import ONE_RECORD, ONE_SPELLING, Basis, Guarantee, Unit, weakest
from dptext.privacy.names import ONE_NAME, seen_form
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases, groups
from dptext.text.column_types import written
from dptext.text.columns import Columns
from dptext.text.formats import Format
from dptext.text.labels import with_labels
from dptext.text.records import Fields, Record, Release

Output = TypeVar("Output")
BATCH_SIZE = 256
BATCH_CHARACTERS = 4_000_000  # about the most characters in the records of a batch
SEEDED = "seeded: whoever knows the seed can undo the noise"


def guarantees(
    spec: Promise,
    *,
    randomness: Randomness,
    delta: float = 0.0,
    max_per_author: int | None = None,
    reveals: Sequence[str] = (),
    by_name: bool = False,
) -> tuple[Guarantee, ...]:
    """Return the guarantee of a release for each unit that has one, smallest first.

    `by_name` says that each document is charged by its name, and that a run with two of one name is refused.
    IncomparableError: `max_per_author` is set and the spec has no guarantee per document.
    """
    found = [spec.guarantee(unit, delta) for unit in spec.units]
    if max_per_author is not None:
        documents = [guarantee for guarantee in found if guarantee.unit is Unit.DOCUMENT]
        if not documents:
            raise IncomparableError(
                "Expected a mechanism with a guarantee per document when max_per_author is set: the guarantee of "
                f"{spec.kind} with these settings ends at the {spec.units[-1].value}."
            )
        found.append(accounting.for_author(documents[-1], max_per_author=max_per_author))
    found = [_assuming(guarantee, by_name=by_name).revealing(*reveals) for guarantee in found]
    return tuple(found if randomness.is_secure else [guarantee.voided(SEEDED) for guarantee in found])


def _assuming(promised: Guarantee, *, by_name: bool) -> Guarantee:
    """Return the guarantee with the assumption of a run, which sees records and neither documents nor people."""
    assumed = {Unit.DOCUMENT: ONE_NAME if by_name else ONE_RECORD, Unit.AUTHOR: ONE_SPELLING}.get(promised.unit)
    if assumed is None or promised.basis is Basis.NONE:
        return promised
    basis = weakest(promised.basis, Basis.CONDITIONAL)
    return replace(promised, basis=basis, assumptions=(*promised.assumptions, assumed))


def require_guarantee(spec: Spec, without_guarantee: bool) -> None:
    """Raise NoGuaranteeError for a spec that guarantees nothing, unless `without_guarantee` is set."""
    promised = spec.guarantee()
    if promised.basis is Basis.NONE and not without_guarantee:
        raise NoGuaranteeError(
            f"{spec.kind} guarantees nothing: {promised.reason}. To run it all the same, say so: "
            "without_guarantee=True, or --without-guarantee."
        )


def limited(batches: Iterable[Batch], max_per_author: int) -> Iterator[Batch]:
    """Yield the batches until an author has more records than the maximum. No record is dropped silently.

    Author names are compared as they look; an invisible name is no name. DataError: an author has too many records, or
    a record has no author.
    """
    counts: Counter[str] = Counter()
    number = 0
    for batch in batches:
        good, fault = 0, ""
        for author in (seen_form(name or "") for name in batch.authors):
            counts[author] += 1
            if not author:
                fault = f"has no author, which max_per_author={max_per_author} needs."
            elif counts[author] > max_per_author:
                fault = f"is refused: its author has more than max_per_author={max_per_author} records."
            if fault:
                break
            good += 1
        if good:
            yield batch[:good]
        number += good
        if fault:
            raise DataError(f"Record {number + 1} {fault}")


def layout(spec: Spec, keep: Iterable[str], fields: Fields) -> Columns:
    """Return the columns of a mechanism's releases."""
    traits = spec.traits
    released = traits.releases_text, traits.releases_vectors, traits.releases_labels
    return Columns(*released, tuple(dict.fromkeys((*keep, *traits.carries))), fields=fields)


def require_apart(spec: Spec, fields: Fields) -> None:
    """Raise ConfigError if a column of public texts that leaves has the name of another column of the output."""
    if spec.traits.carries:
        replace(layout(spec, (), fields), keep=(*fields.keep, *spec.traits.carries)).names(Format.JSONL)


def typed(columns: Columns, found: Mapping[str, Any], spec: Spec) -> Columns:
    """Return the columns with the types of the input's columns of the same names, for columns whose values leave.

    Columns of public texts that leave have the types of the public table, and nothing of the input but maybe a name.
    """
    fields = columns.fields
    named = [*filter(None, [fields.id]), *(name for name in columns.keep if name not in spec.traits.carries)]
    label = fields.label if columns.label else None
    own = written(found, named, label, spec.traits.labels)
    return replace(columns, types=(*own, *spec.traits.carried_types))


def split(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Yield the records in batches that are computed together; batches of long texts are smaller.

    The end of a batch depends on the lengths of private texts. It bounds memory and must not show in any output.
    """
    return groups(batches, Batch.lengths, Batch.joined, size=size, characters=BATCH_CHARACTERS)


def release(batch: Sequence[Record], mechanism: Mechanism[Output], randomness: Randomness) -> Sequence[Release[Output]]:
    """Return the releases of one batch, one per record, in order. PrivacyError: releases do not match the spec."""
    batch = with_labels(Batch.of(batch), mechanism.spec.traits.labels)
    released = mechanism.privatize(batch, randomness)
    if not isinstance(released, Sequence) or not _answers(released, batch):
        raise PrivacyError("The mechanism did not answer each record with one release, in order: nothing is released.")
    telling = released.telling() if isinstance(released, Releases) else released
    if (fault := output_fault(mechanism.spec, telling)) is not None:
        raise PrivacyError(f"The mechanism did not keep its word, {fault}: nothing is released.")
    if batch.whole is not None and (columns := Releases.of(cast("Sequence[Release[str]]", released))) is not None:
        return cast("Sequence[Release[Output]]", replace(columns, whole=batch.whole))  # ids that were numbers stay so
    return released


def _answers(released: Sequence[Release[Output]], batch: Batch) -> bool:
    if isinstance(released, Releases):
        return released.ids is batch.ids or list(released.ids) == list(batch.ids)
    return [release.id for release in released] == list(batch.ids)


def released(
    batches: Iterable[Batch],
    mechanism: Mechanism[Output],
    randomness: Randomness,
    *,
    batch_size: int = BATCH_SIZE,
    position: int = 0,
) -> Iterator[Sequence[Release[Output]]]:
    """Yield the releases of all records, batch by batch. `position` is the position of the first record in the run.

    PrivacyError: the mechanism did not answer each record as its spec says, or this process was forked from the
    process that began.
    """
    process = os.getpid()
    for batch in split(batches, batch_size):
        require_process(process)
        yield release(batch, mechanism, randomness.at(position))
        position += len(batch)


def require_process(number: int) -> None:
    """Raise PrivacyError in a fork of the process with this number: both would draw releases that were charged once."""
    if os.getpid() != number:
        raise PrivacyError(
            "Expected the process that began the run to draw its releases, found a child that was forked from it: "
            "both would draw them, and one charge pays for one release. Begin a run in the child, or draw all before."
        )
