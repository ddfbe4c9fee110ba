"""The data of a ledger: accounts, charges and balances, without a database.

`dptext.privacy.accounting` computes the cost of events at an account's limit anew for each question.
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
    """Return limit - spent, rounded down; 0 if more was spent."""
    if math.isinf(spent):
        return 0.0
    exact = Fraction(limit) - Fraction(spent)
    if exact <= 0:
        return 0.0
    nearest = float(exact)
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def format_left(epsilon: float) -> str:
    """Return the epsilon that is left as text: at most three decimals, rounded down."""
    shown = math.floor(Fraction(repr(epsilon)) * 1000)  # exact decimals, see `format_epsilon`
    return f"{shown // 1000}.{shown % 1000:03d}".rstrip("0").rstrip(".")


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return run lengths sorted by their texts: numerical distributions differ by some 1e-11 between orders."""
    return tuple(sorted(accounting.compose(events), key=event_to_text))


def spent_epsilon(events: Iterable[Event], limit: Guarantee) -> float:
    """Return the epsilon of events at the delta of the limit, by the quick bound; 0 for no events."""
    ordered = in_order(events)
    return _epsilon(ordered, limit.delta, relation=limit.relation) if ordered else 0.0


@lru_cache(maxsize=4096)  # most subjects share one of few histories
def _epsilon(events: tuple[Event, ...], delta: float, *, relation: Relation) -> float:
    return accounting.quick_epsilon(events, delta, relation=relation)


def fits(
    text: str, own: Iterable[str], asked: Iterable[Event], limit: Guarantee, earlier: Sums | None = NO_SUMS
) -> bool:
    """Return whether a bound from sums is within the limit. Then so is `spent_epsilon`; False implies nothing.

    `text` has the recent events charged to everyone; the events before them have the sums `earlier`. `own` has the
    events charged to each subject by name, `asked` the events to be added.
    """
    most = _joined(max, map(sums_of, own))  # the largest of each sum: one bound holds for all subjects
    total = _joined(sum, [most, earlier, sums_of(text), *map(Sums.of, asked)])
    try:
        return total is not None and any(is_within(bound, limit) for bound in total.epsilons(limit.delta))
    except OverflowError:
        return False


def after_charge(text: str, asked: Sequence[Event]) -> str:
    """Return `with_events(text, asked)` and keep the sums of that text, so that the next charge reads no run length."""
    found = with_events(text, asked)
    keep_sums(found, [sums_of(text), *map(Sums.of, asked)])
    return found


#: Sums of whole texts by the text or its sha256, the newest last. An edited text has another key.
_known: dict[str, Sums | None] = {}
_MOST_KNOWN = 64


def sums_of(text: str) -> Sums | None:
    """Return the sums over all run lengths in a text; None if a run length has no sums."""
    return known_sums(text, lambda: text)


def known_sums(key: str, read: Callable[[], str]) -> Sums | None:
    """Return the sums of the text under a key; the text is read only if the sums are not known."""
    found = _known.get(key)  # asked once, because another thread may forget it
    return keep_sums(key, map(_alone, entries(read())) if found is None else [found])


def keep_sums(key: str, several: Iterable[Sums | None]) -> Sums | None:
    """Add up several sums, and keep and return the total under a key."""
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
    """Return whether the limit admits this spent epsilon."""
    return not math.isinf(spent) and Fraction(spent) - Fraction(limit.epsilon) <= Fraction(TOLERANCE)


def spent_guarantee(events: Sequence[Event], limit: Guarantee, terms: Terms) -> Guarantee:
    """Return the cost of events at the limit's delta, as a guarantee on these terms."""
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
        bound=_epsilon,
    )


UNITS = (Unit.DOCUMENT, Unit.AUTHOR)
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Account:
    """A privacy budget: its owner and its limit."""

    name: str
    dataset: str  #: the people or texts that the account is for; no two accounts share a dataset
    #: epsilon and delta that all charges together may cost one subject; unit and relation of every charge
    limit: Guarantee
    by_subject: bool  #: True if named subjects can be charged (a key was set)
    opened: str  #: time of opening, UTC

    def require_same_meaning(self, request: Request) -> None:
        """Raise IncomparableError for a charge of another unit or relation."""
        if (request.unit, request.relation) != (self.limit.unit, self.limit.relation):
            how = f": {opening(request.unit, request.relation)}" if request.unit in UNITS else ""
            raise IncomparableError(
                f"Expected a charge of account {self.name!r} to be per {self.limit.unit.value}, "
                f"{self.limit.relation.value}; found one per {request.unit.value}, {request.relation.value}: nothing "
                f"is charged. Choose an account of the same meaning, or open one{how}. "
                "The ledger does not add up the epsilons of two accounts."
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge of a ledger; written once, never changed."""

    number: int  #: its number in the ledger
    account: str
    key: str  #: idempotency key
    request: Request
    subjects: int | None  #: number of named subjects that are charged; None if everyone in the account is
    at: str  #: time of the charge, UTC
    release: str | None = None  #: sha256 or mark of the release that the charge paid for; None until settled
    subjects_digest: str | None = None  #: digest of the subjects' keyed hashes, in order; None for everyone


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of an account, for the subject with most spent."""

    account: Account
    spent: Guarantee  #: the cost of all charges together at the delta of the limit, rounded up
    charges: int
    subjects: int  #: number of subjects with charges of their own
    events: tuple[Event, ...] = ()  #: the events charged to that subject

    @property
    def left(self) -> float:
        """Epsilon that is left, rounded down."""
        return left_of(self.account.limit.epsilon, self.spent.epsilon)


def require_within(account: Account, standings: Iterable[Sequence[Event]], asked: Sequence[Event]) -> None:
    """Raise BudgetExceededError if `asked` would spend more than the limit of the account on any subject.

    `standings` are the distinct lists of events charged before to subjects of the run; at least one list.
    """
    limit = account.limit
    totals = [(spent_epsilon([*before, *asked], limit), before) for before in standings]
    total, before = max(totals, key=lambda each: each[0])
    if is_within(total, limit):
        return
    alone = spent_epsilon(asked, limit)
    left = left_of(limit.epsilon, spent_epsilon(before, limit))
    gap = math.inf if math.isinf(total) else sum_up([(total, 1), (limit.epsilon, -1)])
    missing = f"together {format_epsilon(gap)} above the limit"
    if math.isinf(total):
        missing = "and at this delta no epsilon holds for both together; an account with a larger delta may pay"
        if not limit.delta:
            how = opening(limit.unit, limit.relation)
            missing += f", as this account has delta 0 and such noise needs one above 0: {how}"
    more = ""
    if limit.delta and not account.by_subject:
        more = f" What one more corpus may take is said by `dptext budget show {account.name} --ledger LEDGER`."
    raise BudgetExceededError(
        f"Expected account {account.name!r} to hold what the run costs: asked epsilon = {format_epsilon(alone)} at "
        f"delta = {format_delta(limit.delta)} per {limit.unit.value}, left {format_left(left)} of "
        f"{format_epsilon(limit.epsilon)}, {missing}."
        f"{' At a delta above 0 costs do not simply add up.' if limit.delta else ''} "
        f"Nothing is charged and nothing is released.{more}",
        asked=alone,
        left=left,
        gap=gap,
    )


def opening(unit: Unit, relation: Relation) -> str:
    """Return the command that opens an account of this unit and relation."""
    meaning = f"--unit {unit.value} --relation {relation.value}"
    return f"`dptext budget open NAME --epsilon E --delta D {meaning} [--ledger FILE]`"


def require_name(**named: str) -> None:
    """Raise ConfigError unless each value has 1 to 200 printable characters."""
    for what, value in named.items():
        if not value or len(value) > _LONGEST_NAME or not value.isprintable():
            raise ConfigError(f"Expected {what} to be 1 to {_LONGEST_NAME} printable characters.")


def require_openable(name: str, limit: Guarantee, dataset: str) -> None:
    """Raise ConfigError if no account can have these values, before anything is written."""
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
