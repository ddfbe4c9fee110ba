"""What is asked of a ledger and what it says: plain data, without a database.

A `Request` is what one run does to one subject, as events. An account adds up the events of its charges; every epsilon
is derived from them by `dptext.privacy.accounting`, now and when the books are read again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache

from dptext import _validate
from dptext.errors import BudgetExceededError, ConfigError, IncomparableError, LedgerError, NoGuaranteeError
from dptext.privacy import accounting
from dptext.privacy.curves import sum_up
from dptext.privacy.events import Event, MetricEvent, NoEvent, SampledGaussianEvent, event_from_dict, event_to_dict
from dptext.privacy.guarantee import (
    Basis,
    Guarantee,
    Relation,
    Trust,
    Unit,
    format_delta,
    format_epsilon,
    weakest,
)
from dptext.types import Json

#: A limit of 2 admits twenty charges of 0.1, whose exact sum as binary fractions is 2 + 1.1e-16.
TOLERANCE = 1e-12

#: What an epsilon at delta > 0 over different runs takes for granted (docs/decisions/0007).
PLANNED = "the settings of later runs were not chosen by looking at the outputs of earlier ones"

_DAMAGED = "The balances of the ledger are damaged: `dptext budget verify` says where. Nothing is released."
#: What JSON text of another form than dptext writes raises where it is read.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

UNITS = (Unit.DOCUMENT, Unit.AUTHOR)


def canonical(data: Json) -> str:
    """JSON text that is the same for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(text: str) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def events_to_text(events: Iterable[Event]) -> str:
    """Run lengths of the events as JSON text, the same for the same events in any order."""
    return f"[{','.join(sorted(map(_event_to_text, accounting.compose(events))))}]"


@lru_cache(maxsize=4096)  # of many run lengths a charge changes one
def _event_to_text(event: Event) -> str:
    # 3, 3.0 and (for 0) -0.0 make equal events, whose text must be equal.
    numbers = {f.name: float(getattr(event, f.name)) + 0.0 for f in fields(event) if f.type == "float"}
    return canonical(event_to_dict(replace(event, **numbers)))  # type: ignore[arg-type]  # floats for floats


def events_from_text(text: str) -> tuple[Event, ...]:
    """The events that `events_to_text` wrote.

    Raises:
        LedgerError: they are damaged.
    """
    try:
        return _events(json.loads(text))
    except UNREADABLE:
        raise LedgerError(_DAMAGED) from None


def _events(data: Json) -> tuple[Event, ...]:
    if not isinstance(data, list):
        raise TypeError("a list of events was expected")
    return tuple(event_from_dict(item) for item in data)  # type: ignore[arg-type]  # which refuses what is none


@dataclass(frozen=True, slots=True)
class Terms:
    """What a guarantee rests on besides its numbers; the terms of several charges are taken together.

    Attributes:
        trust, basis, assumptions, reveals: as in `Guarantee`.
    """

    trust: Trust = Trust.LOCAL
    basis: Basis = Basis.PROVEN
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()

    def __or__(self, other: Terms) -> Terms:
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
    def from_dict(cls, data: Mapping[str, Json]) -> Terms:
        """The terms that `to_dict` wrote.

        Raises:
            ConfigError: a field is missing, unknown or of another type.
        """
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
    """The terms of a balance.

    Raises:
        LedgerError: they are damaged.
    """
    try:
        return Terms.from_dict(json.loads(text))
    except UNREADABLE:
        raise LedgerError(_DAMAGED) from None


@dataclass(frozen=True, slots=True)
class Request:
    """What one run does to one subject (a document or an author). Every field is public.

    Attributes:
        events: what happens to one subject in the whole run: those of one unit times the public maximum of units
            that a subject has in it.
        unit: whom the events speak of.
        relation: between which neighbours.
        terms: what the statement rests on.
        settings: the spec of the run.
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
        """Refuse what an account cannot add up.

        Raises:
            NoGuaranteeError: nothing, or only a claim, bounds what the run gives away.
            IncomparableError: an epsilon is one per unit of distance, or a training is said to be local.
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
        """The request as canonical JSON text.

        Raises:
            ConfigError: a setting is no JSON.
        """
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
    def from_text(cls, text: str) -> Request:
        """The request that `to_text` wrote.

        Raises:
            ConfigError: it was not written by dptext, or by a newer one.
        """
        try:
            data = json.loads(text)
            units = data["units_per_subject"]
            _validate.count(units_per_subject=units)
            return cls(
                _events(data["events"]),
                Unit(data["unit"]),
                Relation(data["relation"]),
                Terms.from_dict(data["terms"]),
                dict(data["settings"]),
                units,
            )
        except UNREADABLE:
            raise ConfigError("Expected a charge that this version of dptext can read, found another.") from None


@dataclass(frozen=True, slots=True)
class Account:
    """A budget: whose it is and how much may be spent.

    Attributes:
        name: its name, unique in the ledger.
        dataset: the people or texts that it speaks of; one account for each.
        limit: epsilon and delta that all charges together may cost one subject; unit and relation of every charge.
        by_subject: whether charges to named subjects are possible (a key was set).
        opened: when, UTC.
    """

    name: str
    dataset: str
    limit: Guarantee
    by_subject: bool
    opened: str

    def require_same_meaning(self, request: Request) -> None:
        """Refuse charges of another unit or relation.

        Raises:
            IncomparableError: unit or relation differ.
        """
        if (request.unit, request.relation) != (self.limit.unit, self.limit.relation):
            raise IncomparableError(
                f"Expected a charge of account {self.name!r} to be per {self.limit.unit.value}, "
                f"{self.limit.relation.value}; found one per {request.unit.value}, {request.relation.value}: nothing "
                "is charged. Choose an account of the same meaning, or open one."
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the books; written once, never changed.

    Attributes:
        number: its number in the ledger.
        account: name of the account.
        key: idempotency key.
        request: what was charged.
        subjects: how many named subjects it fell on; None where it fell on everyone in the account.
        at: when, UTC.
        release: what it paid for, once that is settled: the sha256 of the released file.
        subjects_digest: of the subjects' keyed hashes in their order; None for everyone.
    """

    number: int
    account: str
    key: str
    request: Request
    subjects: int | None
    at: str
    release: str | None = None
    subjects_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """Where an account stands, for the subject of whom most was spent.

    Attributes:
        account: the account.
        spent: what all its charges are counted as together at the limit's delta; rounded up.
        charges: how many there are.
        subjects: how many subjects have charges of their own.
        events: what was charged to that subject.
        terms: what all charges rest on.
    """

    account: Account
    spent: Guarantee
    charges: int
    subjects: int
    events: tuple[Event, ...] = ()
    terms: Terms = Terms()

    @property
    def left(self) -> float:
        """Epsilon that is left, rounded down."""
        return left_of(self.account.limit.epsilon, self.spent.epsilon)

    def tighter(self) -> Guarantee:
        """What the same charges are known to cost by the tightest bound there is, which may take seconds.

        It is for reading: charges and what is left go by `spent`.
        """
        return spent_guarantee(self.events, self.account.limit, self.terms, bound=accounting.epsilon)


def left_of(limit: float, spent: float) -> float:
    """limit - spent, rounded down; 0 where more was spent."""
    if math.isinf(spent):
        return 0.0
    exact = Fraction(limit) - Fraction(spent)
    if exact <= 0:
        return 0.0
    nearest = float(exact)
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def format_left(epsilon: float) -> str:
    """A remaining epsilon for reading: three decimals at most, always rounded down."""
    shown = math.floor(Fraction(repr(epsilon)) * 1000)  # as `format_epsilon`
    return f"{shown // 1000}.{shown % 1000:03d}".rstrip("0").rstrip(".")


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Run lengths in the order of their texts: numerical distributions differ by some 1e-11 from order to order."""
    return tuple(sorted(accounting.compose(events), key=_event_to_text))


def spent_epsilon(events: Iterable[Event], limit: Guarantee) -> float:
    """What the events are charged at the delta of the limit, by the bound that is quick to add up; 0 for none."""
    ordered = in_order(events)
    return _epsilon(ordered, limit.delta, limit.relation) if ordered else 0.0


@lru_cache(maxsize=4096)  # of many subjects most have one of few histories
def _epsilon(events: tuple[Event, ...], delta: float, relation: Relation) -> float:
    return accounting.quick_epsilon(events, delta, relation=relation)


def is_within(spent: float, limit: Guarantee) -> bool:
    """Whether the limit admits what is spent."""
    return not math.isinf(spent) and Fraction(spent) - Fraction(limit.epsilon) <= Fraction(TOLERANCE)


def spent_guarantee(
    events: Sequence[Event], limit: Guarantee, terms: Terms, *, bound: accounting.Bound = accounting.quick_epsilon
) -> Guarantee:
    """The same as a statement with all that it rests on.

    Args:
        events: what was charged.
        limit: of the account.
        terms: of all charges.
        bound: `accounting.epsilon` may say less, in seconds; charges go by the quick one.
    """
    composed = in_order(events)
    if not composed:
        return Guarantee(
            0.0, limit.delta, limit.unit, limit.relation, None, terms.trust, terms.basis, terms.assumptions,
            terms.reveals,
        )  # fmt: skip
    if any(isinstance(event, SampledGaussianEvent) for event in composed):  # charged before that was asked for
        terms |= Terms(Trust.CENTRAL)
    if limit.delta > 0 and len(composed) > 1:
        terms |= Terms(basis=Basis.CONDITIONAL, assumptions=(PLANNED,))
    return accounting.guarantee(
        composed,
        limit.delta,
        unit=limit.unit,
        relation=limit.relation,
        trust=terms.trust,
        basis=terms.basis,
        assumptions=terms.assumptions,
        reveals=terms.reveals,
        bound=bound,
    )


def require_within(account: Account, standings: Iterable[Sequence[Event]], asked: Sequence[Event]) -> None:
    """Refuse what would spend more than the limit on any subject.

    Args:
        account: whose limit counts.
        standings: what was spent before, for each standing that a subject of the run can have; at least one.
        asked: what is to be added.

    Raises:
        BudgetExceededError: with what was asked, what is left and what is missing.
    """
    limit = account.limit
    totals = [(spent_epsilon([*before, *asked], limit), before) for before in standings]
    total, before = max(totals, key=lambda each: each[0])
    if is_within(total, limit):
        return
    alone = spent_epsilon(asked, limit)
    left = left_of(limit.epsilon, spent_epsilon(before, limit))
    gap = math.inf if math.isinf(total) else sum_up([(total, 1), (limit.epsilon, -1)])
    missing = f"so {format_epsilon(gap)} is missing"
    if math.isinf(total):
        missing = "and at this delta no epsilon holds for both together; an account with a larger delta may pay"
    raise BudgetExceededError(
        f"Expected account {account.name!r} to hold what the run costs: asked epsilon = {format_epsilon(alone)} at "
        f"delta = {format_delta(limit.delta)} per {limit.unit.value}, left {format_left(left)} of "
        f"{format_epsilon(limit.epsilon)}, {missing}."
        f"{' At a delta above 0 costs do not simply add up.' if limit.delta else ''} "
        "Nothing is charged and nothing is released.",
        asked=alone,
        left=left,
        gap=gap,
    )
