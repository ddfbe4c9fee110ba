"""The statement of a run: its guarantees, its debt and its certificate, for every kind of run.

Runs in memory, to a file, to a folder and of a corpus all make their statement here, so that a new field of
certificates is filled in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from dptext.errors import ConfigError
from dptext.mechanism import Promise, settings
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.runs.certificate import Certificate, Charged
from dptext.runs.streaming import guarantees
from dptext.sampling.randomness import Randomness
from dptext.text.records import Fields
from dptext.version import __version__

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.ledger.entries import Charge
    from dptext.runs.payment import Due, Payment


def stays_charged(key: str) -> str:
    """Return a sentence on a charge with this key, whose run ended without a release."""
    with_it = f"--charge-key {key} pays with it for a run with the same settings and subjects"
    return f"What was charged stays charged: {with_it}."


class Promising(Protocol):
    """A fitted mechanism or synthesis."""

    @property
    def spec(self) -> Promise:
        """The public settings."""

    @property
    def digests(self) -> Mapping[str, str]:
        """The sha256 digests of the fitted model and of its public data, by name."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The guarantees, revealed facts and debt of a run, all known before the run reads a record.

    Attributes:
        of: the fitted mechanism or synthesis.
        guarantees: one guarantee for each unit that has one, smallest first.
        due: the debt to an account; None if no account pays.
        secure: whether the randomness comes from the operating system.
        delta: the delta at which the guarantees are stated.
        max_per_author: the enforced maximum of records per author, if the run has one.
        reveals: the facts and fields that leave besides the releases of the mechanism.
        reading: the changes to texts as they are read, by their names in `runs.certificate.READING`.
        record: the record of plain text: "file", "line" or "block"; empty if records are rows.
        forms: the formats of the files of an input of several formats.
    """

    of: Promising
    guarantees: tuple[Guarantee, ...]
    due: Due | None
    secure: bool
    delta: float
    max_per_author: int | None
    reveals: tuple[str, ...]
    reading: tuple[str, ...]
    record: str
    forms: tuple[str, ...] = ()

    def charged(self, charge: Charge | None, stream: str | None = None) -> Charged | None:
        """Return the charge as a certificate states it. `stream` is the mark of releases that left as a stream."""
        if charge is None or self.due is None:
            return None
        return replace(self.due.charged(charge), stream=stream)

    def certificate(
        self, output: str, sha256: str, records: int, *, charged: Charged | None, fields: Mapping[str, str]
    ) -> Certificate:
        """Return the certificate of an output with this name, sha256 and number of records; see `Certificate`."""
        spec = self.of.spec
        return Certificate(
            settings=settings(spec),
            events=spec.events(spec.units[0]),
            guarantees=self.guarantees,
            records=records,
            output=output,
            sha256=sha256,
            digests=dict(self.of.digests),
            randomness="secure" if self.secure else "seeded",
            delta=self.delta,
            max_per_author=self.max_per_author,
            also_reveals=self.reveals,
            version=__version__,
            charged=charged,
            fields=fields,
            reading=self.reading,
            record=self.record,
            forms=self.forms,
        )


def stated(
    of: Promising,
    *,
    randomness: Randomness,
    delta: float = 0.0,
    max_per_author: int | None = None,
    reveals: Sequence[str] = (),
    reading: Sequence[str] = (),
    record: str | None = None,
    forms: Sequence[str] = (),
    payment: Payment | None = None,
    fields: Fields | None = None,
) -> Statement:
    """Return the statement of a run. `fields.subject` and `fields.author` name the columns of charged subjects.

    ConfigError: the account and the fields do not fit each other. NoGuaranteeError, IncomparableError: see
    `request_for`.
    """
    fields = fields or Fields()
    if fields.subject is not None and payment is None:
        raise ConfigError("Expected a ledger with --subject-field: names of subjects are used for charging only.")
    reveals = tuple(reveals)
    how: Mapping[str, Any] = {"max_per_author": max_per_author, "reveals": reveals}
    due = None if payment is None else payment.due(of.spec, randomness=randomness, fields=fields, **how)
    by_name = due is not None and fields.subject is not None and due.request.unit is Unit.DOCUMENT
    promised = guarantees(of.spec, randomness=randomness, delta=delta, by_name=by_name, **how)
    return Statement(
        of,
        promised,
        due,
        randomness.is_secure,
        delta,
        max_per_author,
        reveals,
        tuple(reading),
        record or "",
        tuple(forms),
    )
