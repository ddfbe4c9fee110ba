"""Requests to a ledger: the events of one run for one subject, and the terms of that statement.

A ledger keeps both as JSON text; equal data has equal text.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

from dptext import _validate
from dptext.errors import ConfigError, IncomparableError, LedgerError, NoGuaranteeError
from dptext.privacy import accounting
from dptext.privacy.events import Event, MetricEvent, NoEvent, SampledGaussianEvent, event_from_dict, event_to_dict
from dptext.privacy.guarantee import Basis, Relation, Trust, Unit, weakest
from dptext.types import Json, fields_as_json


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a guarantee besides its numbers; `|` combines the terms of charges."""

    trust: Trust = Trust.LOCAL
    basis: Basis = Basis.PROVEN
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()

    def __or__(self, other: "Terms") -> "Terms":
        """Return the combined terms: central trust if there is any, the weakest basis, the union of the rest."""
        return Terms(
            Trust.CENTRAL if Trust.CENTRAL in (self.trust, other.trust) else Trust.LOCAL,
            weakest(self.basis, other.basis),
            tuple(sorted({*self.assumptions, *other.assumptions})),
            tuple(sorted({*self.reveals, *other.reveals})),
        )

    def to_dict(self) -> dict[str, Json]:
        """The terms as JSON-able data."""
        return fields_as_json(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> "Terms":
        """Return the terms that `to_dict` wrote. ConfigError: a field is missing, unknown or of another type."""
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
    """Return the terms of a balance. LedgerError: they are damaged."""
    try:
        return Terms.from_dict(json.loads(text))
    except UNREADABLE:
        raise LedgerError(DAMAGED) from None


@dataclass(frozen=True, slots=True)
class Request:
    """The effect of one run on one subject (a document or an author). Every field is public."""

    #: events of one subject in the whole run: the events of one unit, times the public maximum of units that a subject
    #: has in the run
    events: tuple[Event, ...]
    unit: Unit  #: the unit of the events
    relation: Relation = Relation.REPLACE_ONE
    terms: Terms = Terms()  #: terms of the statement
    settings: Mapping[str, Json] = field(default_factory=dict, hash=False)
    units_per_subject: int = 1  #: the maximum that is counted in `events`; charges to named subjects enforce it

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("Expected events of the run, found none: a run without events needs no charge.")

    def require_chargeable(self) -> None:
        """Raise an error for a request that an account cannot add up.

        NoGuaranteeError: nothing, or only a claim, bounds the run. IncomparableError: an epsilon is per unit of
        distance, or a training is said to be local.
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
        """Return the request as canonical JSON text. ConfigError: a setting is no JSON."""
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
                tuple(map(event_from_dict, data["events"])),
                Unit(data["unit"]),
                Relation(data["relation"]),
                Terms.from_dict(data["terms"]),
                dict(data["settings"]),
                units,
            )
        except UNREADABLE:
            raise ConfigError("Expected a charge that this version of dptext can read, found another.") from None


DAMAGED = "The balances of the ledger are damaged: `dptext budget verify` says where. Nothing is released."
#: Errors of reading a JSON text that dptext did not write.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_COUNT = '{"count":'  # begins the text of every run length
_PLAIN = re.compile(r'\{"count":([1-9][0-9]{0,11}),')
_MOST_KEPT = 1 << 15  # settings of events in memory, without the count, which every charge changes


def canonical(data: Json) -> str:
    """JSON text that is the same for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(text: str) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def events_to_text(events: Iterable[Event]) -> str:
    """Run lengths of the events as JSON text, the same for the same events in any order."""
    return f"[{','.join(sorted(map(event_to_text, accounting.compose(events))))}]"


def entries(text: str) -> tuple[str, ...]:
    """Return the run lengths in a text of `events_to_text`, each as its own text. LedgerError: the text is damaged."""
    return tuple(_listed(text).replace("},{", "}\n{").split("\n")) if text != "[]" else ()


def _listed(text: str) -> str:
    if text != "[]" and not (text.startswith("[{") and text.endswith("}]")):
        raise LedgerError(DAMAGED)
    return text[1:-1]


def with_events(text: str, events: Iterable[Event]) -> str:
    """Return the text of `events_to_text` with more events; other entries are not read. LedgerError: it is damaged."""
    listed = _listed(text)
    listed += "," * (listed != "")  # every entry then ends with a comma
    for event in accounting.compose(events):
        settings = _settings_text(replace(event, count=1)) + ","
        count, found = event.count, listed.find(settings)
        if found >= 0:
            start = listed.rfind("{", 0, found)
            try:
                count += int(listed[start:found].removeprefix(_COUNT))
            except ValueError:
                raise LedgerError(DAMAGED) from None
            listed = listed[:start] + listed[found + len(settings) :]
        entry = event_to_text(replace(event, count=count)) + ","
        low, high = 0, len(listed)  # each is the start of an entry, or the end
        while low < high:
            middle = listed.rfind("},{", low, (low + high) // 2)
            middle = low if middle < 0 else middle + 2
            after = listed.find("},{", middle)
            after = len(listed) if after < 0 else after + 2
            low, high = (after, high) if listed[middle:after] < entry else (low, middle)
        listed = listed[:low] + entry + listed[low:]
    return f"[{listed[:-1]}]"


def event_to_text(event: Event) -> str:
    """One run length as JSON text, the same for equal events."""
    return f"{_COUNT}{event.count}{_settings_text(replace(event, count=1))}"


@lru_cache(maxsize=_MOST_KEPT)  # a charge changes one of many run lengths
def _settings_text(event: Event) -> str:
    # 3 and 3.0 make equal events, and so do 0.0 and -0.0. Equal events must have equal texts.
    numbers = {f.name: float(getattr(event, f.name)) + 0.0 for f in fields(event) if f.type == "float"}
    text = canonical(event_to_dict(replace(event, **numbers)))  # type: ignore[arg-type]  # floats for floats
    return text.removeprefix(_COUNT + "1")


def events_from_text(text: str) -> tuple[Event, ...]:
    """Return the events that `events_to_text` wrote. LedgerError: the text is damaged."""
    return tuple(map(event_from_text, entries(text)))


def event_from_text(text: str) -> Event:
    """Return the event that `event_to_text` wrote. LedgerError: the text is damaged."""
    plain = _PLAIN.match(text)
    if plain is None:
        return _event(text)
    return replace(_event(f"{_COUNT}1,{text[plain.end() :]}"), count=int(plain[1]))


@lru_cache(maxsize=_MOST_KEPT)
def _event(text: str) -> Event:
    try:
        return event_from_dict(json.loads(text))
    except UNREADABLE:
        raise LedgerError(DAMAGED) from None
