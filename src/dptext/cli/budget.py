"""`dptext budget`: accounts, balances and charges as tables or JSON."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from typer import Argument

from dptext._wording import plural
from dptext.cli.grouped import leaves, pays, promises
from dptext.cli.options import JsonOption, LedgerOption, SubjectKeyOption, default_key, member, opened
from dptext.cli.paying import QUICK
from dptext.cli.terminal import plain_console
from dptext.errors import ConfigError, DataError
from dptext.ledger.entries import Balance, Charge, format_left
from dptext.ledger.subjects import create_subject_key
from dptext.privacy import accounting
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, Event, PureEvent, ZcdpEvent, event_to_dict
from dptext.privacy.guarantee import Guarantee, Relation, Unit, format_delta, format_epsilon
from dptext.types import Json, fields_as_json

if TYPE_CHECKING:  # slow to load
    from collections.abc import Callable

    from rich.table import Table

    from dptext.ledger.books import Ledger
    from dptext.ledger.outlooks import Outlook

_ROUNDING: Final = 1e-6  # of a sum of epsilons
_SHOWN: Final = 0.002  # a difference of epsilons beyond rounding to thousandths
_DRAWN_KEY: Final = re.compile("[0-9a-f]{32}")  # of a run that was given no key
_MINUTE: Final = len("2026-01-31 12:00")
_MOST_RELEASES: Final = 1_000_000
NameArgument = Annotated[str, Argument(metavar="NAME", help="The account.")]
OptionalName = Annotated[str | None, Argument(metavar="[NAME]", help="The account. Default: all accounts.")]


def _accounts(ledger: Ledger, name: str | None) -> list[str]:
    return [name] if name is not None else [account.name for account in ledger.accounts()]


def _table(caption: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, caption=caption)


def open_account(
    name: NameArgument,
    epsilon: Annotated[float, promises(help="Largest epsilon of all releases together, for one subject.")],
    unit: Annotated[str, promises(help="The subject: document or author.")],
    ledger: LedgerOption,
    delta: Annotated[float, promises(help="Largest delta of all releases together.")] = 0.0,
    relation: Annotated[
        str, promises(help="How neighbouring data sets differ: replace_one, add_or_remove_one or replace_special.")
    ] = "replace_one",
    dataset: Annotated[
        str | None, pays(metavar="NAME", help="The data set that the account is for. Default: the name of the account.")
    ] = None,
    by_subject: Annotated[
        bool, pays("--by-subject", help="Allow charges to subjects by name. The subject key is made if there is none.")
    ] = False,
    subject_key: SubjectKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    from dptext.ledger.books import Ledger
    from dptext.ledger.entries import require_openable

    if unit not in ("document", "author"):
        raise ConfigError(f"Expected --unit {unit!r} to be document or author: whose loss the account adds up.")
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"Expected --epsilon {epsilon!r} > 0 and finite.")
    if not 0 <= delta <= MAX_MEANINGFUL_DELTA:
        raise ConfigError(f"Expected --delta {delta!r} from 0 to {MAX_MEANINGFUL_DELTA:g}: above, it protects nobody.")
    limit = Guarantee(epsilon, delta, Unit(unit), member(Relation, "--relation", relation))
    require_openable(name, limit, name if dataset is None else dataset)
    key_path = subject_key or default_key(opened(ledger))
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
            f"The subject key is {key_path}: keep it apart from the ledger, and do not lose it. Without the key, "
            "charged subjects cannot be told from new ones, and the account refuses charges by name."
        )


def show(
    ledger: LedgerOption,
    name: OptionalName = None,
    releases: Annotated[
        int | None,
        leaves(metavar="N", help="Say the largest epsilon of one release, if N more equal ones are to fit into NAME."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    if releases is not None and (name is None or not 0 < releases <= _MOST_RELEASES):
        raise ConfigError(f"Expected --releases N from 1 to {_MOST_RELEASES:,}, with the NAME of an account.")
    books = opened(ledger)
    balances = [books.balance(each) for each in _accounts(books, name)]
    found = {} if name is None or releases is None else _largest(books, name, releases)
    if releases is None and len(balances) == 1:
        found = _one_more(books, balances[0])
    if as_json:
        listed: list[Json] = [{**_balance(balance), **found} for balance in balances]
        print(json.dumps(listed[0] if name is not None else listed, indent=2))
        return
    table = _table("epsilon for the worst subject; spent is rounded up, left down")
    for heading in ("account", "limit", "spent", "left", "charges", "to"):
        side: Literal["right", "left"] = "left" if heading in ("account", "to") else "right"
        table.add_column(heading, justify=side, overflow="fold", no_wrap=heading != "account")
    for balance in balances:
        account, limit = balance.account, balance.account.limit
        lines = [account.name, *([] if account.dataset == account.name else [f"of {account.dataset}"])]
        lines += [f"per {limit.unit.value}", limit.relation.value.replace("_", " ")]
        lines += [f"delta {format_delta(limit.delta)}"] if limit.delta else []
        table.add_row(
            "\n".join(lines),
            format_epsilon(limit.epsilon),
            format_epsilon(balance.spent.epsilon),
            format_left(balance.left),
            f"{balance.charges:,}",
            f"{balance.subjects:,} named" if balance.subjects else "everyone",
        )
    plain_console().print(table)
    if releases is None and found:
        print(_fitting_once(balances[0].account.limit, found))
    if name is not None:
        (balance,) = balances
        per = balance.account.limit.unit
        lead = f"All releases that were charged here, taken together, for the {per} that they say most about:\n"
        print(f"{lead}{balance.spent.explain()}" if balance.charges else "Nothing was charged yet.")
        print(_why_less(books, balance), end="")
    if releases is not None:
        print(_fitting(releases, balances[0].account.limit, found))


def _largest(books: Ledger, name: str, releases: int) -> dict[str, Json]:
    """Return the largest epsilon of each of several equal releases, of corpora and of delta 0, as JSON-able data."""
    outlook = books.outlook(name)
    found: dict[str, Json] = {"releases": releases, "epsilon_at_delta_0": outlook.largest(PureEvent, releases)}
    if outlook.limit.delta:
        found["epsilon_of_corpora"] = _of_corpora(outlook, releases)
    return found


def _of_corpora(outlook: Outlook, releases: int) -> float:
    """Return the largest epsilon of each of several equal corpora, at the delta of the limit, which is above 0."""
    delta = outlook.limit.delta
    return outlook.largest(lambda epsilon: accounting.calibrate(ZcdpEvent(1.0), epsilon, delta=delta), releases)


def _one_more(books: Ledger, balance: Balance) -> dict[str, Json]:
    """Return the largest epsilon of one more corpus as JSON-able data, where it is not what is left; else nothing.

    At a delta above 0 costs do not add up. An account with charges to named subjects, or a long history, has no answer.
    """
    if not (balance.charges and balance.account.limit.delta) or balance.subjects:
        return {}
    outlook = books.outlook(balance.account.name)
    if sum(map(len, outlook.histories)) > QUICK:
        return {}
    largest = _of_corpora(outlook, 1)
    return {} if abs(largest - balance.left) < _SHOWN else {"epsilon_of_one_more_corpus": largest}


def _fitting_once(limit: Guarantee, found: dict[str, Json]) -> str:
    """Say `_one_more` in a line that has room in a narrow terminal."""
    largest = float(str(found["epsilon_of_one_more_corpus"]))
    if not largest:
        return f"No summary or corpus of epsilon 0.001 fits at delta {format_delta(limit.delta)}."
    most = f"--epsilon {format_left(largest)} --delta {format_delta(limit.delta)}"
    return f"1 more summary or corpus fits with up to {most}."


def _fitting(releases: int, limit: Guarantee, found: dict[str, Json]) -> str:
    """Say `_largest` in words."""
    more = plural(releases, "more equal release")
    pure, corpora = (float(str(found.get(name, 0))) for name in ("epsilon_at_delta_0", "epsilon_of_corpora"))
    each = f"of epsilon {format_left(pure)} at delta 0"
    if corpora:
        how = f"summaries or corpora with --epsilon {format_left(corpora)} --delta {format_delta(limit.delta)}"
        return f"{more} would fit: {how}{f', or others {each}' if pure else ''}."
    return f"{more} {each} would fit." if pure else f"Not even {more} of epsilon 0.001 would fit."


def _cost_of(limit: Guarantee) -> Callable[[tuple[Event, ...]], float]:
    """Return what computes the epsilon of one charge alone, at the delta of a limit."""
    return functools.cache(lambda events: accounting.quick_epsilon(events, limit.delta, relation=limit.relation))


def _why_less(books: Ledger, balance: Balance) -> str:
    """Return a line on why the charges of an account cost less together than their sum; empty if they do not.

    The charges of named subjects are left out: they add up for nobody.
    """
    if balance.charges < 2 or balance.subjects:
        return ""
    cost = _cost_of(balance.account.limit)
    alone = sum(cost(charge.request.events) for charge in books.log(balance.account.name))
    if not balance.spent.epsilon < alone * (1 - _ROUNDING):
        return ""
    return (
        f"Each charge alone, added up, would be epsilon {format_epsilon(alone)}. The {balance.charges:,} charges cost "
        f"{format_epsilon(balance.spent.epsilon)} together, as their noise is independent and not at its worst in all "
        "of them at once.\n"
    )


def _balance(balance: Balance) -> dict[str, Json]:
    account: dict[str, Json] = {"account": balance.account.name, **fields_as_json(balance.account)}
    del account["name"]
    account |= {"limit": balance.account.limit.to_dict(), "spent": balance.spent.to_dict(), "left": balance.left}
    return {**account, "charges": balance.charges, "subjects": balance.subjects}


def log(
    name: NameArgument,
    ledger: LedgerOption,
    last: Annotated[int | None, leaves(metavar="N", help="Show the newest N charges alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    books = opened(ledger)
    limit = books.account(name).limit
    cost = _cost_of(limit)
    charges = books.log(name, last=last)
    if as_json:
        # Each charge is printed on its own, so that a long log takes no more memory than a short one.
        print("[", end="")
        for position, charge in enumerate(charges):
            print("," if position else "", json.dumps(_charge(charge, cost(charge.request.events))), sep="\n", end="")
        print("\n]")
        return
    at = f" at delta = {format_delta(limit.delta)}" if limit.delta else ""
    table = _table(
        f"epsilon is that of each charge alone{at}; the ledger holds no names of files or people: released begins the "
        "sha256 of the output, or the mark in its certificate (stream), `dptext explain OUT` names its charge, and "
        "--charge-key NAME of a run names it here; "
        "--json shows settings, events and keys"
    )
    for heading in ("charge", "when (UTC)", "to", "for", "epsilon", "released"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "for")
    for charge in charges:
        table.add_row(
            str(charge.number),
            charge.at.replace("T", " ")[:_MINUTE],
            "everyone" if charge.subjects is None else f"{charge.subjects:,} named",
            _paid_for(charge),
            format_epsilon(cost(charge.request.events)),
            "not yet" if charge.release is None else _shown(charge.release),
        )
    plain_console().print(table)
    print(_why_less(books, books.balance(name)), end="")


def _paid_for(charge: Charge) -> str:
    """Return what a charge was for: mechanism, what a summary measured, most records of a subject, and a named key."""
    of, units = charge.request.settings, charge.request.units_per_subject
    lists = {name: of.get(name) for name in ("labels", "columns", "pairs", "names")}
    counts = {name: len(value) for name, value in lists.items() if isinstance(value, list)}
    topics, marks = of.get("topics"), of.get("marks")  # of words a text has so many marks; `words` are dimensions
    counts |= {"topics": topics} if isinstance(topics, int) else {}
    measured = [plural(n, name.removesuffix("s")) for name, n in counts.items() if n] + ["words"] * bool(marks)
    said = str(of.get("kind", "")) + (f" of {', '.join(measured)}" if measured and "about" in of else "")
    said += f", {units:,} records of a subject" if units > 1 else ""
    return said if _DRAWN_KEY.fullmatch(charge.key) else f"{said} (key {charge.key!r})"


def _shown(release: str) -> str:
    """Return the beginning of a release's sha256, and whether it is a mark of a stream."""
    mark, _, digest = release.rpartition(" ")
    return f"{mark}\n{digest[:8]}".strip()  # in two lines, which leave room on a screen of 80 columns


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


def verify(ledger: LedgerOption, name: OptionalName = None, as_json: JsonOption = False) -> None:
    books = opened(ledger)
    found = [books.verify(each) for each in _accounts(books, name)]
    if as_json:
        print(json.dumps([fields_as_json(one) for one in found], indent=2))
    else:
        for one in found:
            verdict = "; ".join(one.problems) or "the balance follows from the charges"
            print(f"{one.account}: {plural(one.charges, 'charge')}, {plural(one.subjects, 'subject')}: {verdict}")
    if broken := [one.account for one in found if one.problems]:
        raise DataError(f"The ledger does not add up for {', '.join(map(repr, broken))}: somebody changed it.")


def upgrade(ledger: LedgerOption) -> None:
    books = opened(ledger)
    print(f"{books.name} has the newest schema{' now' if books.upgrade() else ' already'}.")
