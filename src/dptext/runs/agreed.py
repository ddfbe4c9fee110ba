"""The terms of a run that answers each text: its columns, its statement and its debt, for a file or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dptext.mechanism import Mechanism
from dptext.runs.certificate import Certificate
from dptext.runs.plan import Plan
from dptext.runs.statements import Statement, stated
from dptext.runs.streaming import layout, require_apart, require_guarantee
from dptext.sampling.randomness import Randomness
from dptext.text.columns import TEXTS_ONLY, Columns
from dptext.text.formats import Format
from dptext.text.records import Fields
from dptext.text.writers import require_csv

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.ledger.entries import Charge
    from dptext.runs.payment import Due, Payment


@dataclass(frozen=True, slots=True)
class Agreed:
    """The terms of a run, known before the run reads any input."""

    columns: Columns
    statement: Statement

    def certificate(self, output: str, sha256: str, records: int, charge: Charge | None) -> Certificate:
        """Return the certificate of an output that this charge, if any, paid for; see `Statement.certificate`."""
        charged, fields = self.statement.charged(charge), self.columns.renamed
        return self.statement.certificate(output, sha256, records, charged=charged, fields=fields)

    @property
    def due(self) -> Due | None:
        """The debt of the run to an account; None if no account pays."""
        return self.statement.due


def agreed(
    mechanism: Mechanism[str],
    plan: Plan,
    randomness: Randomness,
    payment: Payment | None,
    kind: Format,
    also: Sequence[str] = (),
    forms: Sequence[str] = (),
) -> Agreed:
    """Return the terms of a run. `also` lists what leaves besides the plan's `reveals`. Errors as `privatize_file`.

    `forms` are the formats of the files of an input of several formats.
    """
    require_guarantee(mechanism.spec, plan.without_guarantee)
    require_csv(kind, safe_csv=plan.safe_csv)
    fields = Fields() if kind in TEXTS_ONLY else plan.fields
    require_apart(mechanism.spec, fields)
    columns = replace(layout(mechanism.spec, plan.fields.keep, fields), safe_csv=plan.safe_csv)
    columns.names(kind)
    statement = stated(
        mechanism,
        randomness=randomness,
        delta=plan.delta,
        max_per_author=plan.max_per_author,
        reveals=(*plan.reveals, *also),
        reading=plan.stated,
        record=plan.record,
        forms=forms,
        payment=payment,
        fields=plan.fields,
    )
    return Agreed(columns, statement)
