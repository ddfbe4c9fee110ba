"""`dptext budget log`: the charges of an account."""

import functools
import json
from typing import Annotated

import typer

from dptext.cli.budget.books import NameArgument
from dptext.cli.options import JsonOption, LedgerOption
from dptext.cli.terminal import plain_console
from dptext.ledger.entries import Charge
from dptext.privacy import accounting
from dptext.privacy.events import Event, event_to_dict
from dptext.privacy.guarantee import format_delta, format_epsilon
from dptext.types import Json


def log(
    name: NameArgument,
    ledger: LedgerOption,
    last: Annotated[int | None, typer.Option("--last", help="Only the newest so many charges.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the charges of an account."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dptext.ledger.books import Ledger

    books = Ledger.at(ledger)
    limit = books.account(name).limit

    @functools.cache
    def cost(events: tuple[Event, ...]) -> float:
        return accounting.quick_epsilon(events, limit.delta, relation=limit.relation)

    charges = books.log(name, last=last)
    if as_json:
        # One charge a line, so that a long log takes no more memory than a short one.
        print("[", end="")
        for position, charge in enumerate(charges):
            print("," if position else "", json.dumps(_charge(charge, cost(charge.request.events))), sep="\n", end="")
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
            str(charge.request.settings.get("kind", "")),
            format_epsilon(cost(charge.request.events)),
            "not yet" if charge.release is None else charge.release[:8],
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
