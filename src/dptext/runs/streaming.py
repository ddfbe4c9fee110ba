"""The one use case: read private records, release privatized ones, say what was guaranteed.

`privatize` streams from records to releases; `dptext.runs.files` goes from file to file.
"""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dptext import _validate
from dptext.errors import DataError, IncomparableError, NoGuaranteeError, PrivacyError
from dptext.mechanism import Mechanism, Spec, output_fault
from dptext.privacy import accounting
from dptext.privacy.guarantee import ONE_RECORD, ONE_SPELLING, Basis, Guarantee, Unit, weakest
from dptext.privacy.names import normal_form
from dptext.sampling.source import Randomness, secure
from dptext.text.batches import Batch, Releases
from dptext.text.groups import groups
from dptext.text.records import Record, Release

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment

Output = TypeVar("Output")

BATCH_SIZE = 256
_BATCH_CHARACTERS = 4_000_000
SEEDED = "seeded: whoever knows the seed can undo the noise"


def guarantees(
    spec: Spec,
    *,
    randomness: Randomness,
    delta: float = 0.0,
    max_per_author: int | None = None,
    reveals: Sequence[str] = (),
) -> tuple[Guarantee, ...]:
    """What a release guarantees for each unit that can be stated, smallest first."""
    found = [spec.guarantee(unit, delta) for unit in spec.units]
    if max_per_author is not None:
        documents = [guarantee for guarantee in found if guarantee.unit is Unit.DOCUMENT]
        if not documents:
            raise IncomparableError(
                "Expected a mechanism with a guarantee per document when max_per_author is set: the guarantee of "
                f"{spec.kind} with these settings ends at the {spec.units[-1].value}."
            )
        found.append(accounting.for_author(documents[-1], max_per_author=max_per_author))
    found = [_assuming(guarantee).revealing(*reveals) for guarantee in found]
    return tuple(found if randomness.is_secure else [guarantee.voided(SEEDED) for guarantee in found])


def _assuming(promised: Guarantee) -> Guarantee:
    """The guarantee with what a run takes for granted, as it sees records and neither documents nor people."""
    assumed = {Unit.DOCUMENT: ONE_RECORD, Unit.AUTHOR: ONE_SPELLING}.get(promised.unit)
    if assumed is None or promised.basis is Basis.NONE:
        return promised
    basis = weakest(promised.basis, Basis.CONDITIONAL)
    return replace(promised, basis=basis, assumptions=(*promised.assumptions, assumed))


def require_guarantee(spec: Spec, without_guarantee: bool) -> None:
    """Refuse a spec that guarantees nothing, unless that is said to be meant."""
    promised = spec.guarantee()
    if promised.basis is Basis.NONE and not without_guarantee:
        raise NoGuaranteeError(
            f"{spec.kind} guarantees nothing: {promised.reason}. To run it all the same, say so: "
            "without_guarantee=True, or --without-guarantee."
        )


def limited(batches: Iterable[Batch], max_per_author: int) -> Iterator[Batch]:
    """The batches, ended by an error where an author has more than the maximum: nothing is silently dropped.

    Authors are compared in normal form; white space alone names nobody.
    """
    counts: Counter[str] = Counter()
    number = 0
    for batch in batches:
        good, fault = 0, None
        for author in map(_author, batch.authors):
            counts[author] += 1
            number += 1
            fault = _author_fault(author, counts[author], max_per_author)
            if fault is not None:
                break
            good += 1
        if good:
            yield batch[:good]
        if fault is not None:
            raise DataError(f"Record {number} {fault}")


def _author_fault(author: str, n: int, max_per_author: int) -> str | None:
    """Why a record is refused, the n-th of its author; or None."""
    if not author:
        return f"has no author, which max_per_author={max_per_author} needs."
    if n > max_per_author:
        return f"is refused: its author has more than max_per_author={max_per_author} records."
    return None


def _author(name: str | None) -> str:
    return normal_form(name or "")


def split(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The records in the batches that are computed together, smaller ones where texts are long.

    Where a batch ends follows from the lengths of private texts. It bounds memory and must not show in any output.
    """
    return groups(batches, Batch.lengths, Batch.joined, size=size, characters=_BATCH_CHARACTERS)


def release(batch: Sequence[Record], mechanism: Mechanism[Output], randomness: Randomness) -> Sequence[Release[Output]]:
    """The releases of one batch, one a record, in order, with text and vector as the spec says.

    Raises:
        PrivacyError: the mechanism answered otherwise.
    """
    batch = Batch.of(batch)
    released = mechanism.privatize(batch, randomness)
    if not isinstance(released, Sequence) or _ids(released) != list(batch.ids):
        raise PrivacyError("The mechanism did not answer each record with one release, in order: nothing is released.")
    telling = released.telling() if isinstance(released, Releases) else released
    if (fault := output_fault(mechanism.spec, telling)) is not None:
        raise PrivacyError(f"The mechanism did not keep its word, {fault}: nothing is released.")
    return released


def _ids(released: Sequence[Release[Output]]) -> list[str]:
    return list(released.ids) if isinstance(released, Releases) else [release.id for release in released]


def privatize(
    records: Iterable[Record],
    mechanism: Mechanism[Output],
    *,
    randomness: Randomness | None = None,
    batch_size: int = BATCH_SIZE,
    max_per_author: int | None = None,
    without_guarantee: bool = False,
    payment: Payment | None = None,
) -> Iterator[Release[Output]]:
    """Stream releases, one a record, in order; memory does not grow with the number of records.

    Args:
        records: private records.
        mechanism: a fitted mechanism.
        randomness: `randomness.secure()` by default; a seeded one voids the guarantee.
        batch_size: records a batch; changes speed only.
        max_per_author: refuse (DataError) the first record beyond this many of one author.
        without_guarantee: say that a mechanism of basis NONE is meant.
        payment: the account that is charged, before this returns, for everyone in it: records that pass by once
            cannot be counted first. `privatize_file` can charge named subjects.

    Raises:
        NoGuaranteeError: the mechanism guarantees nothing and `without_guarantee` is not set, or a payment is.
        BudgetExceededError: the account cannot pay.
        DataError: a record cannot be read, or an author has too many.
    """
    _validate.count(batch_size=batch_size)
    batches: Iterable[Batch] = (Batch.of([record]) for record in records)
    if max_per_author is not None:
        _validate.count(max_per_author=max_per_author)
        batches = limited(batches, max_per_author)
    require_guarantee(mechanism.spec, without_guarantee)
    randomness = randomness or secure()
    if payment is not None:
        reveals = ("the number of records",)
        _, request = payment.request(
            mechanism.spec, randomness=randomness, max_per_author=max_per_author, reveals=reveals
        )
        key = payment.key or secrets.token_hex(16)
        payment.charge(request, key)
        payment.ledger.settle(payment.account, key, f"stream {secrets.token_hex(16)}")  # it pays for this one alone
    return itertools.chain.from_iterable(released(batches, mechanism, randomness, batch_size=batch_size))


def released(
    batches: Iterable[Batch],
    mechanism: Mechanism[Output],
    randomness: Randomness,
    *,
    batch_size: int = BATCH_SIZE,
    position: int = 0,
) -> Iterator[Sequence[Release[Output]]]:
    """The releases of all records, as the mechanism gave them; `position` is that of the first record in the run.

    Raises:
        PrivacyError: the mechanism did not answer each record as its spec says.
    """
    for batch in split(batches, batch_size):
        yield release(batch, mechanism, randomness.at(position))
        position += len(batch)
