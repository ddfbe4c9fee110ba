"""What a ledger holds and says: accounts, charges and balances, as plain data without a database.

What events cost at the limit of an account is derived anew by `dptext.privacy.accounting` whenever it is asked.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dptext import _validate
from dptext.errors import BudgetExceededError, ConfigError, IncomparableError
from dptext.ledger.requests import Request, Terms, entries, event_from_text, event_to_text, with_events
from dptext.privacy import accounting
from dptext.privacy.composition import Sums
from dptext.privacy.curves import sum_up
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, Event
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.privacy.names import mixed_scripts

NO_SUMS = Sums()
TOLERANCE = 1e-12  #: Twenty charges of 0.1 are 2 + 1.1e-16 as binary fractions. A limit of 2 admits them.
#: An epsilon at delta > 0 over different runs assumes this (docs/decisions/0007).
PLANNED = "the settings of later runs were not chosen by looking at the outputs of earlier ones"


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
    """The epsilon that is left, to be read: at most three decimals, rounded down."""
    shown = math.floor(Fraction(repr(epsilon)) * 1000)  # as `format_epsilon`
    return f"{shown // 1000}.{shown % 1000:03d}".rstrip("0").rstrip(".")


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Run lengths in the order of their texts, because numerical distributions of other orders differ by some 1e-11."""
    return tuple(sorted(accounting.compose(events), key=event_to_text))


def spent_epsilon(events: Iterable[Event], limit: Guarantee) -> float:
    """The epsilon that events are charged at the delta of the limit, by the quick bound; 0 for no events."""
    ordered = in_order(events)
    return _epsilon(ordered, limit.delta, limit.relation) if ordered else 0.0


@lru_cache(maxsize=4096)  # of many subjects most have one of few histories
def _epsilon(events: tuple[Event, ...], delta: float, relation: Relation) -> float:
    return accounting.quick_epsilon(events, delta, relation=relation)


def fits(
    text: str, own: Iterable[str], asked: Iterable[Event], limit: Guarantee, earlier: Sums | None = NO_SUMS
) -> bool:
    """Whether a bound of the sums is within the limit: then so is `spent_epsilon`. False says nothing.

    The text is what was charged to everyone, after what has the sums `earlier`; `own` is what was charged to each
    subject besides, `asked` what is to be added.
    """
    most = _joined(max, map(sums_of, own))  # of each sum, so that one bound holds for all subjects
    total = _joined(sum, [most, earlier, sums_of(text), *map(Sums.of, asked)])
    try:
        return total is not None and any(is_within(bound, limit) for bound in total.epsilons(limit.delta))
    except OverflowError:
        return False


def after_charge(text: str, asked: Sequence[Event]) -> str:
    """As `with_events`. The sums of the new text are known at once, so that the next charge reads no run length."""
    found = with_events(text, asked)
    keep_sums(found, [sums_of(text), *map(Sums.of, asked)])
    return found


#: Sums of whole texts under the text or its sha256, the newest last. What is edited has another.
_known: dict[str, Sums | None] = {}
_MOST_KNOWN = 64


def sums_of(text: str) -> Sums | None:
    """Of all run lengths in a text; None where one has none."""
    return known_sums(text, lambda: text)


def known_sums(key: str, read: Callable[[], str]) -> Sums | None:
    """The sums of the text under a key, which is read only where they are not known."""
    found = _known.get(key)  # asked once, because another thread may forget it
    return keep_sums(key, map(_alone, entries(read())) if found is None else [found])


def keep_sums(key: str, several: Iterable[Sums | None]) -> Sums | None:
    """Know the sums of several together under a key."""
    sums = _joined(sum, several)
    _known.pop(key, None)
    while len(_known) >= _MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
    _known[key] = sums
    return sums


def _joined(how: Callable[[tuple[int, ...]], int], several: Iterable[Sums | None]) -> Sums | None:
    listed = list(several)
    return None if None in listed else Sums(*map(how, zip(*listed, strict=True)))


@lru_cache(maxsize=1 << 15)
def _alone(entry: str) -> Sums | None:
    return Sums.of(event_from_text(entry))


def is_within(spent: float, limit: Guarantee) -> bool:
    """Whether the limit admits what is spent."""
    return not math.isinf(spent) and Fraction(spent) - Fraction(limit.epsilon) <= Fraction(TOLERANCE)


def spent_guarantee(events: Sequence[Event], limit: Guarantee, terms: Terms) -> Guarantee:
    """What events are charged at the limit's delta, as a statement."""
    composed = in_order(events)
    if not composed:
        return Guarantee(
            0.0, limit.delta, limit.unit, limit.relation, None, terms.trust, terms.basis, terms.assumptions,
            terms.reveals,
        )  # fmt: skip
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
        bound=accounting.quick_epsilon,
    )


UNITS = (Unit.DOCUMENT, Unit.AUTHOR)
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Account:
    """A budget: whose it is and how much may be spent."""

    name: str
    dataset: str  #: the people or texts that it is for; no two accounts share one
    #: epsilon and delta that all charges together may cost one subject; unit and relation of every charge
    limit: Guarantee
    by_subject: bool  #: whether charges to named subjects are possible (a key was set)
    opened: str  #: when, UTC

    def require_same_meaning(self, request: Request) -> None:
        """Refuse charges of another unit or relation with IncomparableError."""
        if (request.unit, request.relation) != (self.limit.unit, self.limit.relation):
            raise IncomparableError(
                f"Expected a charge of account {self.name!r} to be per {self.limit.unit.value}, "
                f"{self.limit.relation.value}; found one per {request.unit.value}, {request.relation.value}: nothing "
                "is charged. Choose an account of the same meaning, or open one."
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the books; written once, never changed."""

    number: int  #: its number in the ledger
    account: str
    key: str  #: idempotency key
    request: Request
    subjects: int | None  #: how many named subjects it fell on; None where it fell on everyone in the account
    at: str  #: when, UTC
    release: str | None = None  #: what it paid for, once that is settled: the sha256 of the released file
    subjects_digest: str | None = None  #: of the subjects' keyed hashes in their order; None for everyone


@dataclass(frozen=True, slots=True)
class Balance:
    """Where an account stands, for the subject of whom most was spent."""

    account: Account
    spent: Guarantee  #: what all charges cost together at the delta of the limit, rounded up
    charges: int
    subjects: int  #: how many subjects have charges of their own
    events: tuple[Event, ...] = ()  #: what was charged to that subject

    @property
    def left(self) -> float:
        """Epsilon that is left, rounded down."""
        return left_of(self.account.limit.epsilon, self.spent.epsilon)


def require_within(account: Account, standings: Iterable[Sequence[Event]], asked: Sequence[Event]) -> None:
    """Refuse with BudgetExceededError what would spend more than the limit of the account on any subject.

    The standings are the events charged before to the subjects of the run, each different list once; at least one.
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


def require_name(**named: str) -> None:
    """Raise ConfigError unless each can stand in the books: 1 to 200 printable characters."""
    for what, value in named.items():
        if not value or len(value) > _LONGEST_NAME or not value.isprintable():
            raise ConfigError(f"Expected {what} to be 1 to {_LONGEST_NAME} printable characters.")


def require_openable(name: str, limit: Guarantee, dataset: str) -> None:
    """Refuse with ConfigError what cannot be an account, before anything is written."""
    require_name(name=name, dataset=dataset)
    for what, value in (("name", name), ("dataset", dataset)):
        if scripts := mixed_scripts(value):
            raise ConfigError(
                f"Expected {what}={value!r} to have words of one script each, found a word of "
                f"{' and '.join(map(str.capitalize, scripts))} letters, some of which look alike. Write it in one."
            )
    if limit.unit not in UNITS or limit.metric is not None or limit.basis is Basis.NONE:
        raise ConfigError(
            f"Expected a limit per {' or '.join(UNITS)}, without metric, found {limit.unit.value}"
            f"{', metric ' + limit.metric if limit.metric else ''}."
        )
    _validate.positive(epsilon=limit.epsilon)
    if limit.delta > MAX_MEANINGFUL_DELTA:
        raise ConfigError(f"Expected delta={limit.delta!r} <= {MAX_MEANINGFUL_DELTA:g}: above, it protects nobody.")
