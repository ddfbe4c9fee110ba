"""What a run states: its guarantees, what it owes, and its certificate, for every way to run.

Memory, file, folder and corpus all make their statement here, so that a field which a certificate gains is filled in
one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from dptext.errors import ConfigError
from dptext.mechanism import Promise, settings
from dptext.privacy.guarantee import Guarantee
from dptext.runs.certificate import Certificate, Charged
from dptext.runs.streaming import guarantees
from dptext.sampling.randomness import Randomness
from dptext.text.records import Fields
from dptext.version import __version__

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.ledger.entries import Charge
    from dptext.runs.payment import Due, Payment


class Promising(Protocol):
    """A fitted mechanism or synthesis."""

    @property
    def spec(self) -> Promise:
        """The public settings."""

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of what was fitted and of the public data in it, by name."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a run promises, reveals and owes. All of it is known before the run reads a record.

    Attributes:
        of: the fitted mechanism or synthesis.
        guarantees: one for each unit that can be stated, smallest first.
        due: what an account has to pay, where one pays.
        secure: whether the randomness is that of the operating system.
        delta: at which the guarantees are stated.
        max_per_author: the enforced maximum of records of one author, if there is one.
        reveals: what leaves besides what the mechanism releases.
        reading: the names in `READING` of what is done to texts as they are read.
        record: what is one record of plain text; empty where rows are.
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

    def charged(self, charge: Charge | None, stream: str | None = None) -> Charged | None:
        """What a certificate says of the charge; `stream` marks releases that the run itself wrote to no file."""
        if charge is None or self.due is None:
            return None
        return replace(self.due.charged(charge), stream=stream)

    def certificate(
        self, output: str, sha256: str, records: int, *, charged: Charged | None, fields: Mapping[str, str]
    ) -> Certificate:
        """The certificate of so many records in an output with this name and sha256; `fields` as of `Certificate`."""
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
    payment: Payment | None = None,
    fields: Fields | None = None,
) -> Statement:
    """What a run with these settings states; `fields.subject` and `fields.author` say who is charged.

    ConfigError: the account and the fields do not fit. NoGuaranteeError, IncomparableError: as `request_for`.
    """
    fields = fields or Fields()
    if fields.subject is not None and payment is None:
        raise ConfigError("Expected a ledger with the field of the subjects: their names are used for charging only.")
    reveals = tuple(reveals)
    promised = guarantees(of.spec, randomness=randomness, delta=delta, max_per_author=max_per_author, reveals=reveals)
    due = None
    if payment is not None:
        due = payment.due(of.spec, randomness=randomness, fields=fields, max_per_author=max_per_author, reveals=reveals)
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
    )
