"""What a ledger holds and says: accounts, charges and balances, as plain data without a database."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dptext import _validate
from dptext.errors import BudgetExceededError, ConfigError, IncomparableError
from dptext.ledger.requests import Request, Terms
from dptext.ledger.spending import format_left, is_within, left_of, spent_epsilon, spent_guarantee
from dptext.privacy import accounting
from dptext.privacy.curves import sum_up
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, Event
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_delta, format_epsilon

UNITS = (Unit.DOCUMENT, Unit.AUTHOR)
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Account:
    """A budget: whose it is and how much may be spent.

    Attributes:
        dataset: the people or texts that it is for; no two accounts share one.
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
        """Refuse charges of another unit or relation with IncomparableError."""
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
        key: idempotency key.
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
        spent: what all charges cost together at the delta of the limit, rounded up.
        subjects: how many subjects have charges of their own.
        events: what was charged to that subject.
        terms: what all charges rest on.
    """

    account: Account
    spent: Guarantee
    charges: int
    subjects: int
    events: tuple[Event, ...] = ()
    terms: Terms = field(default_factory=Terms)

    @property
    def left(self) -> float:
        """Epsilon that is left, rounded down."""
        return left_of(self.account.limit.epsilon, self.spent.epsilon)

    def tighter(self) -> Guarantee:
        """What the same charges cost by the tightest bound there is, which may take seconds; for reading only."""
        return spent_guarantee(self.events, self.account.limit, self.terms, bound=accounting.epsilon)


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
    if limit.unit not in UNITS or limit.metric is not None or limit.basis is Basis.NONE:
        raise ConfigError(
            f"Expected a limit per {' or '.join(UNITS)}, without metric, found {limit.unit.value}"
            f"{', metric ' + limit.metric if limit.metric else ''}."
        )
    _validate.positive(epsilon=limit.epsilon)
    if limit.delta > MAX_MEANINGFUL_DELTA:
        raise ConfigError(f"Expected delta={limit.delta!r} <= {MAX_MEANINGFUL_DELTA:g}: above, it protects nobody.")
