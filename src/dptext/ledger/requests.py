"""What is asked of a ledger: what one run does to one subject, as events, and what that statement rests on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError, LedgerError, NoGuaranteeError
from dptext.ledger.texts import DAMAGED, UNREADABLE, canonical, events_of, events_to_text
from dptext.privacy.events import Event, MetricEvent, NoEvent, SampledGaussianEvent
from dptext.privacy.guarantee import Basis, Relation, Trust, Unit, weakest
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Terms:
    """What a guarantee rests on besides its numbers; `|` takes the terms of several charges together."""

    trust: Trust = Trust.LOCAL
    basis: Basis = Basis.PROVEN
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()

    def __or__(self, other: "Terms") -> "Terms":
        """Both: the weakest basis, the union of the rest."""
        return Terms(
            Trust.CENTRAL if Trust.CENTRAL in (self.trust, other.trust) else Trust.LOCAL,
            weakest(self.basis, other.basis),
            tuple(sorted({*self.assumptions, *other.assumptions})),
            tuple(sorted({*self.reveals, *other.reveals})),
        )

    def to_dict(self) -> dict[str, Json]:
        """The terms as JSON-able data."""
        return {
            "trust": self.trust.value,
            "basis": self.basis.value,
            "assumptions": list(self.assumptions),
            "reveals": list(self.reveals),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> "Terms":
        """The terms that `to_dict` wrote; ConfigError where a field is missing, unknown or of another type."""
        try:
            found = cls(
                Trust(str(data["trust"])),
                Basis(str(data["basis"])),
                tuple(map(str, data["assumptions"])),  # type: ignore[arg-type]  # compared below
                tuple(map(str, data["reveals"])),  # type: ignore[arg-type]
            )
        except (KeyError, TypeError, ValueError):
            found = None
        if found is None or found.to_dict() != data:
            raise ConfigError("These are not the terms of a charge that dptext wrote.")
        return found


def terms_from_text(text: str) -> Terms:
    """The terms of a balance; LedgerError where they are damaged."""
    try:
        return Terms.from_dict(json.loads(text))
    except UNREADABLE:
        raise LedgerError(DAMAGED) from None


@dataclass(frozen=True, slots=True)
class Request:
    """What one run does to one subject (a document or an author). Every field is public.

    Attributes:
        events: what happens to one subject in the whole run: those of one unit times the public maximum of units that a
            subject has in it.
        unit: whom the events speak of.
        terms: what the statement rests on.
        units_per_subject: the maximum that is counted in `events`; charges to named subjects enforce it.
    """

    events: tuple[Event, ...]
    unit: Unit
    relation: Relation = Relation.REPLACE_ONE
    terms: Terms = Terms()
    settings: Mapping[str, Json] = field(default_factory=dict, hash=False)
    units_per_subject: int = 1

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("Expected events of the run, found none: a run without events needs no charge.")

    def require_chargeable(self) -> None:
        """Refuse what an account cannot add up: NoGuaranteeError where nothing, or only a claim, bounds the run.

        Where an epsilon is one per unit of distance, or a training is said to be local: IncomparableError.
        """
        without = [event.reason for event in self.events if isinstance(event, NoEvent)]
        if without or self.terms.basis in (Basis.NONE, Basis.CLAIMED):
            reason = "; ".join(without) or f"its basis is {self.terms.basis.value}"
            raise NoGuaranteeError(f"Expected a run whose loss is bounded, to charge for it; found none: {reason}.")
        if self.terms.trust is Trust.LOCAL and any(isinstance(event, SampledGaussianEvent) for event in self.events):
            raise IncomparableError(
                "Expected trust=central in the terms of a training: whoever trains sees all the private texts."
            )
        if metrics := [event.metric for event in self.events if isinstance(event, MetricEvent)]:
            raise IncomparableError(
                f"Expected events per {self.unit.value}, found epsilon per unit of {metrics[0]}: set a public diameter."
            )

    def to_text(self) -> str:
        """The request as canonical JSON text; ConfigError where a setting is no JSON."""
        data: Json = {
            "events": json.loads(events_to_text(self.events)),
            "unit": self.unit.value,
            "relation": self.relation.value,
            "terms": self.terms.to_dict(),
            "settings": dict(self.settings),
            "units_per_subject": self.units_per_subject,
        }
        try:
            return canonical(data)
        except (ValueError, TypeError):
            raise ConfigError("Expected settings that JSON can hold: texts, finite numbers, lists of them.") from None

    @classmethod
    def from_text(cls, text: str) -> "Request":
        """The request that `to_text` wrote; ConfigError where dptext did not write it, or a newer one did."""
        try:
            data = json.loads(text)
            units = data["units_per_subject"]
            _validate.count(units_per_subject=units)
            return cls(
                events_of(data["events"]),
                Unit(data["unit"]),
                Relation(data["relation"]),
                Terms.from_dict(data["terms"]),
                dict(data["settings"]),
                units,
            )
        except UNREADABLE:
            raise ConfigError("Expected a charge that this version of dptext can read, found another.") from None
