"""`dptext budget`: accounts, balances and charges as tables or JSON."""

from __future__ import annotations

import json
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dptext.cli.terminal import plain_console
from dptext.errors import ConfigError, DataError
from dptext.ledger.books import Ledger
from dptext.ledger.entries import Balance, Charge
from dptext.ledger.opening import require_openable
from dptext.ledger.spending import format_left
from dptext.ledger.subjects import create_subject_key, read_subject_key
from dptext.privacy import accounting
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, Event, event_to_dict
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.types import Json


def opened(location: str, subject_key: Path | None, *, named: bool) -> Ledger:
    """The ledger of --ledger, with its subject key where subjects are named."""
    ledger = Ledger.at(location)
    path = subject_key or default_key(ledger)
    if not named or path is None:
        return ledger
    return Ledger.at(location, key=read_subject_key(path))


def default_key(ledger: Ledger) -> Path | None:
    """Where the subject key of a ledger in a file lies: beside it, and not in it."""
    return None if ledger.path is None else ledger.path.with_name(ledger.path.name + ".key")


def open_account(
    name: str,
    location: str,
    *,
    epsilon: float,
    delta: float,
    unit: str,
    relation: str,
    dataset: str | None,
    by_subject: bool,
    subject_key: Path | None,
    as_json: bool,
) -> None:
    """Open an account and show it."""
    if unit not in ("document", "author"):
        raise ConfigError(f"Expected --unit {unit!r} to be document or author: whose loss the account adds up.")
    if relation not in tuple(Relation):
        raise ConfigError(f"Expected --relation {relation!r} to be one of {', '.join(Relation)}.")
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"Expected --epsilon {epsilon!r} > 0 and finite.")
    if not 0 <= delta <= MAX_MEANINGFUL_DELTA:
        raise ConfigError(
            f"Expected --delta {delta!r} from 0 to {MAX_MEANINGFUL_DELTA:g}: above, a limit protects nobody."
        )
    limit = Guarantee(epsilon, delta, Unit(unit), Relation(relation))
    require_openable(name, limit, name if dataset is None else dataset)
    ledger = Ledger.at(location)
    key_path = subject_key or default_key(ledger)
    if by_subject:
        if key_path is None:
            raise ConfigError("Expected --subject-key FILE: the key must not lie in the database.")
        ledger = Ledger.create(location, key=create_subject_key(key_path))
    else:
        ledger = Ledger.create(location)
    account = ledger.open_account(name, limit, dataset=dataset, by_subject=by_subject)
    if as_json:
        print(json.dumps(_balance(ledger.balance(name)), indent=2))
        return
    print(
        f"Opened {account.name!r} in {ledger.name}: epsilon = {format_epsilon(epsilon)}"
        f"{', delta = ' + format_delta(delta) if delta else ''} per {unit}, {relation.replace('_', ' ')}, for the "
        f"dataset {account.dataset!r}."
    )
    if by_subject:
        print(f"The subject key is {key_path}: keep it apart from the books, and keep it. Without it no subject that "
              "was charged can be told from a new one, and the account refuses charges by name.")  # fmt: skip


def show(location: str, name: str | None, as_json: bool, *, tight: bool = False) -> None:
    """One account, or all; `tight` says beside what is counted what the tightest known bound makes of it."""
    ledger = Ledger.at(location)
    names = [name] if name is not None else [account.name for account in ledger.accounts()]
    balances = [ledger.balance(each) for each in names]
    if as_json:
        listed: list[Json] = [
            {**_balance(balance), **({"tighter": balance.tighter().to_dict()} if tight else {})} for balance in balances
        ]
        print(json.dumps(listed[0] if name is not None else listed, indent=2))
        return
    table = Table(box=SIMPLE_HEAD, caption="spent is rounded up, left is rounded down; each for the worst subject")
    for heading in ("account", "per", "limit", "spent", "left", "charges", "to"):
        right = heading in ("limit", "spent", "left", "charges")
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=heading in ("", "per", "to")
        )
    for balance in balances:
        account, limit = balance.account, balance.account.limit
        named = account.name if account.dataset == account.name else f"{account.name}\nof {account.dataset}"
        table.add_row(
            Text(named),
            f"{limit.unit.value}\n{limit.relation.value.replace('_', ' ')}",
            format_epsilon(limit.epsilon) + (f"\ndelta {format_delta(limit.delta)}" if limit.delta else ""),
            _at_its_delta(balance.spent),
            format_left(balance.left),
            f"{balance.charges:,}",
            f"{balance.subjects:,} named" if balance.subjects else "everyone",
        )
    plain_console().print(table)
    for balance in balances if tight else []:
        print(_tighter(balance))
    if name is not None:
        print(_in_words(balances[0]))


def _tighter(balance: Balance) -> str:
    found = balance.tighter()
    return (
        f"The charges of {balance.account.name!r} are known to cost at most epsilon = {format_epsilon(found.epsilon)} "
        f"at delta = {format_delta(found.delta)}, by the tightest bound. What is left goes by what is spent, which "
        "adds up quickly.\n"
    )


def _at_its_delta(spent: Guarantee) -> str:
    return format_epsilon(spent.epsilon) + (f"\nat delta {format_delta(spent.delta)}" if spent.delta else "")


def _in_words(balance: Balance) -> str:
    if not balance.charges:
        return "Nothing was charged yet."
    unit = balance.account.limit.unit.value
    return (
        f"All releases that were charged here, taken together, for the {unit} that they say most about:\n"
        f"{balance.spent.explain()}"
    )


def _balance(balance: Balance) -> dict[str, Json]:
    account = balance.account
    return {
        "account": account.name,
        "dataset": account.dataset,
        "opened": account.opened,
        "by_subject": account.by_subject,
        "limit": account.limit.to_dict(),
        "spent": balance.spent.to_dict(),
        "left": balance.left,
        "charges": balance.charges,
        "subjects": balance.subjects,
    }


def log(location: str, name: str, last: int | None, as_json: bool) -> None:
    """The charges of an account."""
    ledger = Ledger.at(location)
    limit = ledger.account(name).limit
    costs: dict[tuple[Event, ...], float] = {}

    def cost(charge: Charge) -> float:
        events = charge.request.events
        if events not in costs:
            costs[events] = accounting.quick_epsilon(events, limit.delta, relation=limit.relation)
        return costs[events]

    charges = ledger.log(name, last=last)
    if as_json:
        # One charge a line, so that a long log takes no more memory than a short one.
        print("[", end="")
        for position, charge in enumerate(charges):
            print("," if position else "", json.dumps(_charge(charge, cost(charge))), sep="\n", end="")
        print("\n]")
        return
    at = f" at delta = {format_delta(limit.delta)}" if limit.delta else ""
    table = Table(box=SIMPLE_HEAD, caption=f"epsilon is that of each charge alone{at}; --json shows events and keys")
    for heading in ("charge", "when (UTC)", "to", "mechanism", "epsilon", "released"):
        table.add_column(heading, overflow="fold")
    for charge in charges:
        table.add_row(
            str(charge.number),
            charge.at.replace("T", " ").rstrip("Z"),
            "everyone" if charge.subjects is None else f"{charge.subjects:,} named",
            Text(str(charge.request.settings.get("kind", ""))),
            format_epsilon(cost(charge)),
            Text("not yet" if charge.release is None else charge.release[:8]),
        )
    plain_console().print(table)


def _charge(charge: Charge, epsilon: float) -> dict[str, Json]:
    return {
        "charge": charge.number,
        "at": charge.at,
        "key": charge.key,
        "subjects": charge.subjects,
        "settings": dict(charge.request.settings),
        "unit": charge.request.unit.value,
        "relation": charge.request.relation.value,
        "units_per_subject": charge.request.units_per_subject,
        "events": [event_to_dict(event) for event in charge.request.events],
        "epsilon": epsilon,
        "release": charge.release,
    }


def verify(location: str, name: str | None, as_json: bool) -> None:
    """Recompute one account, or all."""
    ledger = Ledger.at(location)
    names = [name] if name is not None else [account.name for account in ledger.accounts()]
    found = [ledger.verify(each) for each in names]
    if as_json:
        rows: list[dict[str, Json]] = [
            {"account": f.account, "charges": f.charges, "subjects": f.subjects, "problems": list(f.problems)}
            for f in found
        ]
        print(json.dumps(rows, indent=2))
    else:
        for one in found:
            print(f"{one.account}: {one.charges:,} charges, {one.subjects:,} subjects: {_verdict(one.problems)}")
    if broken := [one.account for one in found if one.problems]:
        raise DataError(f"The books of {', '.join(map(repr, broken))} do not add up: somebody changed them.")


def _verdict(problems: tuple[str, ...]) -> str:
    return "; ".join(problems) if problems else "the balance follows from the charges"


def upgrade(location: str) -> None:
    """Bring the books to the newest schema."""
    ledger = Ledger.at(location)
    done = ledger.upgrade()
    print(f"{ledger.name} has the newest schema{' now' if done else ' already'}.")
