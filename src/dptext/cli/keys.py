"""`dptext keys`: who may use a gateway."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dptext.cli.options import JsonOption, LedgerOption, output_option
from dptext.cli.serve import key_file_of
from dptext.errors import needing

if TYPE_CHECKING:  # an extra
    from dptext.service.keys import Keys

KeyFileOption = Annotated[Path | None, output_option("--key-file", help="Secret of the gateway, as of `dptext serve`.")]
PrefixArgument = Annotated[str, Argument(metavar="PREFIX", help="The key, by its prefix.")]
_OnceOnly = "Shown once: keep it now."


def _keys(ledger: str, key_file: Path | None) -> Keys:
    with needing("`dptext keys`", "service"):
        from dptext.service.keys import Keys
        from dptext.service.settings import Secret
        from dptext.service.store import Store
    return Keys(Store(ledger), Secret.at(key_file_of(ledger, key_file)))


def create(
    name: Annotated[str, Argument(metavar="NAME", help="Whose key it is.")],
    ledger: LedgerOption,
    scope: Annotated[list[str], Option(help="privatize, jobs, synthesize, accounts, metrics, admin. Repeatable.")],
    account: Annotated[str | None, Option(help="The account that pays for its releases.")] = None,
    model: Annotated[list[str] | None, Option(help="A model that it may use; default: all.")] = None,
    days: Annotated[float | None, Option(help="After which it expires.")] = None,
    key_file: KeyFileOption = None,
) -> None:
    """Print a new key."""
    if account is not None:
        from dptext.ledger.books import Ledger

        Ledger.at(ledger).account(account)
    found = _keys(ledger, key_file).create(
        name, account=account, scopes=tuple(scope), models=tuple(model or ()), days=days
    )
    print(f"{found}\n{_OnceOnly}")


def listed(ledger: LedgerOption, key_file: KeyFileOption = None, as_json: JsonOption = False) -> None:
    """Print the keys."""
    found = _keys(ledger, key_file).listed()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        ends = each["revoked"] or each["expires"]
        day = datetime.fromtimestamp(float(str(ends or 0)), UTC)
        end = f", {'revoked' if each['revoked'] else 'until'} {day:%Y-%m-%d}" if ends else ""
        print(f"{each['prefix']}  {each['name']}: {each['scopes']}, account {each['account'] or 'none'}{end}")


def revoke(prefix: PrefixArgument, ledger: LedgerOption, key_file: KeyFileOption = None) -> None:
    """End a key."""
    _keys(ledger, key_file).revoke(prefix)
    print(f"{prefix} is revoked.")


def rotate(
    prefix: PrefixArgument,
    ledger: LedgerOption,
    days: Annotated[float, Option(help="How long the old key holds still.")] = 7.0,
    key_file: KeyFileOption = None,
) -> None:
    """Print a key in the place of an old one."""
    print(f"{_keys(ledger, key_file).rotate(prefix, days=days)}\n{_OnceOnly}")
