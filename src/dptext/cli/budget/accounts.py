"""`dptext budget open` and `dptext budget show`: accounts and what is left in them."""

import json
from typing import Annotated, Literal

import typer

from dptext.cli.budget.books import NameArgument, OptionalName, accounts, default_key
from dptext.cli.options import JsonOption, LedgerOption, SubjectKeyOption, member
from dptext.cli.terminal import plain_console
from dptext.errors import ConfigError
from dptext.ledger.entries import Balance
from dptext.ledger.spending import format_left
from dptext.ledger.subjects import create_subject_key
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.types import Json


def open_account(
    name: NameArgument,
    epsilon: Annotated[float, typer.Option("--epsilon", help="What all releases together may cost one subject.")],
    unit: Annotated[str, typer.Option("--unit", help="Who the subject is: document or author.")],
    ledger: LedgerOption,
    delta: Annotated[float, typer.Option("--delta", help="The delta of that limit.")] = 0.0,
    relation: Annotated[
        str, typer.Option("--relation", help="replace_one, add_or_remove_one or replace_special.")
    ] = "replace_one",
    dataset: Annotated[str | None, typer.Option("--dataset", help="Whose texts; default: NAME.")] = None,
    by_subject: Annotated[
        bool, typer.Option("--by-subject", help="Allow charges to named subjects; makes the key where there is none.")
    ] = False,
    subject_key: SubjectKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account and show it."""
    from dptext.ledger.books import Ledger
    from dptext.ledger.entries import require_openable

    if unit not in ("document", "author"):
        raise ConfigError(f"Expected --unit {unit!r} to be document or author: whose loss the account adds up.")
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"Expected --epsilon {epsilon!r} > 0 and finite.")
    if not 0 <= delta <= MAX_MEANINGFUL_DELTA:
        raise ConfigError(
            f"Expected --delta {delta!r} from 0 to {MAX_MEANINGFUL_DELTA:g}: above, a limit protects nobody."
        )
    limit = Guarantee(epsilon, delta, Unit(unit), member(Relation, "--relation", relation))
    require_openable(name, limit, name if dataset is None else dataset)
    key_path = subject_key or default_key(Ledger.at(ledger))
    key = None
    if by_subject:
        if key_path is None:
            raise ConfigError("Expected --subject-key FILE: the key must not lie in the database.")
        key = create_subject_key(key_path)
    books = Ledger.create(ledger, key=key)
    account = books.open_account(name, limit, dataset=dataset, by_subject=by_subject)
    if as_json:
        print(json.dumps(_balance(books.balance(name)), indent=2))
        return
    print(
        f"Opened {account.name!r} in {books.name}: epsilon = {format_epsilon(epsilon)}"
        f"{', delta = ' + format_delta(delta) if delta else ''} per {unit}, {relation.replace('_', ' ')}, for the "
        f"dataset {account.dataset!r}."
    )
    if by_subject:
        print(
            f"The subject key is {key_path}: keep it apart from the books, and keep it. Without it no subject that was "
            "charged can be told from a new one, and the account refuses charges by name."
        )


def show(
    ledger: LedgerOption,
    name: OptionalName = None,
    tight: Annotated[
        bool, typer.Option("--tight", help="Also what the charges cost by the tightest known bound; takes seconds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print one account, or all; with --tight also what the tightest known bound makes of the charges."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dptext.ledger.books import Ledger

    books = Ledger.at(ledger)
    balances = [books.balance(each) for each in accounts(books, name)]
    if as_json:
        listed: list[Json] = [
            {**_balance(balance), **({"tighter": balance.tighter().to_dict()} if tight else {})} for balance in balances
        ]
        print(json.dumps(listed[0] if name is not None else listed, indent=2))
        return
    table = Table(box=SIMPLE_HEAD, caption="spent is rounded up, left is rounded down; each for the worst subject")
    for heading in ("account", "per", "limit", "spent", "left", "charges", "to"):
        side: Literal["right", "left"] = "right" if heading in ("limit", "spent", "left", "charges") else "left"
        table.add_column(heading, justify=side, overflow="fold", no_wrap=heading in ("per", "to"))
    for balance in balances:
        account, limit = balance.account, balance.account.limit
        named = account.name if account.dataset == account.name else f"{account.name}\nof {account.dataset}"
        table.add_row(
            named,
            f"{limit.unit.value}\n{limit.relation.value.replace('_', ' ')}",
            format_epsilon(limit.epsilon) + (f"\ndelta {format_delta(limit.delta)}" if limit.delta else ""),
            format_epsilon(balance.spent.epsilon)
            + (f"\nat delta {format_delta(balance.spent.delta)}" if balance.spent.delta else ""),
            format_left(balance.left),
            f"{balance.charges:,}",
            f"{balance.subjects:,} named" if balance.subjects else "everyone",
        )
    plain_console().print(table)
    for balance in balances if tight else []:
        found = balance.tighter()
        print(
            f"The charges of {balance.account.name!r} are known to cost at most epsilon = "
            f"{format_epsilon(found.epsilon)} at delta = {format_delta(found.delta)}, by the tightest bound. What is "
            "left goes by what is spent, which adds up quickly.\n"
        )
    if name is not None:
        print(_in_words(balances[0]))


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
