"""`dptext serve` runs the gateway on one address. `dptext keys` manages the keys that give access."""

from __future__ import annotations

import ctypes
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.grouped import computes, leaves, limits, pays, runs
from dptext.cli.terminal import Stopped, say
from dptext.errors import ConfigError

if TYPE_CHECKING:  # a server starts slowly; `dptext keys --help` needs none
    from dptext_gateway.keys import Keys

_ARENA_MAX: Final = -8  # M_ARENA_MAX of malloc.h


def key_file_of(ledger: str, given: Path | None) -> Path:
    """Return the path of the gateway's secret: the given path, or else a path beside a ledger that is a file."""
    if given is not None:
        return given
    if "://" in ledger and not ledger.startswith("sqlite:"):
        raise ConfigError("Expected --key-file FILE with a ledger on a server: the secret of the gateway lies there.")
    path = Path(ledger.removeprefix("sqlite:///"))
    return path.with_name(path.name + ".gateway.key")


def serve(
    models: Annotated[
        Path,
        options.folder_option(
            help="Folder of what is served: models of `dptext fit`, and inboxes (pool.jsonl and synthesis.toml each)."
        ),
    ],
    ledger: options.LedgerOption,
    key_file: Annotated[
        Path | None,
        pays(parser=options.output_path, metavar="FILE", help="The gateway's secret. Default: beside the ledger."),
    ] = None,
    max_records: Annotated[int, limits(help="Records in one call. More need a job.")] = 1_000,
    max_body: Annotated[int, limits(help="Bytes of one call.")] = 4_000_000,
    requests_a_minute: Annotated[int, limits(help="Calls of one key in a minute.")] = 600,
    bytes_a_minute: Annotated[int, limits(help="Bytes of one key in a minute.")] = 2_000_000_000,
    requests_at_once: Annotated[int, limits(help="Calls of one key at the same time.")] = 16,
    max_file: Annotated[int, limits(help="Bytes of the file of a job.")] = 2_000_000_000,
    max_job_records: Annotated[int, limits(help="Records in the file of a job.")] = 10_000_000,
    max_characters: Annotated[int, limits(help="Characters of one text in the file of a job.")] = 100_000,
    job_seconds: Annotated[float, limits(help="Seconds that a job may run.")] = 21_600.0,
    spool_bytes_of_key: Annotated[int, limits(help="Bytes of all files of one key.")] = 10_000_000_000,
    pad_bytes: Annotated[
        int, leaves(help="Pad the answers of privatize to a multiple of so many bytes. 0 pads nothing.")
    ] = 0,
    step_seconds: Annotated[
        float, leaves(help="Send the answers of privatize at multiples of so many seconds. 0 sends at once.")
    ] = 0.0,
    kept_hours: Annotated[float, leaves(help="Hours for which answers and results are kept.")] = 72.0,
    origins: Annotated[
        list[str] | None,
        leaves("--origin", metavar="URL", help="Origin of web pages elsewhere that may call the gateway. Repeatable."),
    ] = None,
    host: Annotated[str, runs(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, runs(help="Port to listen on.")] = 8000,
    threads: Annotated[int, computes(help="Number of calls that are computed at the same time.")] = 2,
    connections: Annotated[int, runs(help="Open connections. One more closes an idle one.")] = 512,
    seconds: Annotated[
        float, runs(help="Seconds that the body of a call may take to arrive, and then to wait for its turn.")
    ] = 60.0,
    upload_seconds: Annotated[float, runs(help="Seconds that a file may take to arrive.")] = 600.0,
    spool: Annotated[
        Path | None,
        runs(
            parser=options.folder_path,
            metavar="FOLDER",
            help="Folder for the files of jobs. Default: beside the secret.",
        ),
    ] = None,
    spool_bytes: Annotated[int, runs(help="Bytes of all files of jobs together.")] = 20_000_000_000,
) -> None:
    given = locals()
    from dptext_gateway.app import create_app
    from dptext_gateway.server import server
    from dptext_gateway.settings import Settings

    secret = key_file_of(ledger, key_file)
    settings = {
        **{each.name: given[each.name] for each in fields(Settings)},
        "spool": spool or secret.with_name(secret.name.removesuffix(".key") + ".spool"),
        "key_file": secret,
        "origins": tuple(origins or ()),
    }
    with suppress(AttributeError, OSError):  # glibc alone: the heap of each thread keeps memory that was freed there
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
    app = create_app(Settings(**settings))
    sys.setswitchinterval(0.0005)  # an encoder yields the interpreter often, and should not wait long for its turn
    with _listening(host, port) as taken, _until_stopped():
        app.state.gate.worker.claim()
        usable = app.state.gate.models.usable(app.state.gate.models.names())  # the log says what is wrong with others
        say(f"Models: {', '.join(str(each['name']) for each in usable) or 'none yet'}.")
        shown = f"[{host}]" if ":" in host else host  # URLs put IPv6 addresses in brackets
        say(f"Serving {models} at http://{shown}:{taken.getsockname()[1]}. For TLS, put a proxy before it.")
        server(app).run(sockets=[taken])


@contextmanager
def _until_stopped() -> Iterator[None]:
    """Take a signal for the normal end of a server: the exit code is 0, as service managers take 143 for a failure."""
    try:
        yield
    except (Stopped, KeyboardInterrupt):  # the first once uvicorn has finished, which raises the signal again
        say("Stopped. Unfinished jobs go on at the next start.")


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        said = f"Expected an address and a port to listen on, found {host} and {port}: {error}."
        raise ConfigError(f"{said} Give others with --host and --port.") from None


KeyFileOption = Annotated[
    Path | None,
    pays("--key-file", parser=options.output_path, metavar="FILE", help="The gateway's secret, as in `dptext serve`."),
]
PrefixArgument = Annotated[str, Argument(metavar="PREFIX", help="Prefix of the key.")]


def _keys(ledger: str, key_file: Path | None) -> Keys:
    from dptext.ledger.database import Database
    from dptext_gateway.keys import Keys
    from dptext_gateway.settings import Secret, require_ledger
    from dptext_gateway.store import Store

    require_ledger(ledger)  # checked before a secret is made beside the ledger; without a secret, no tables are made
    secret = Secret.at(key_file_of(ledger, key_file))
    return Keys(Store(Database(ledger)), secret)


def create(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the owner of the key.")],
    ledger: options.LedgerOption,
    scope: Annotated[
        list[str],
        limits(
            metavar="NAME",
            help="What the key may do: privatize (a few texts), jobs (files), synthesize (corpora), accounts (what was "
            "spent), metrics, or admin (all accounts and jobs, no releases). Repeatable.",
        ),
    ],
    account: Annotated[
        str | None, pays(metavar="NAME", help="The account that pays for the releases of the key.")
    ] = None,
    model: Annotated[
        list[str] | None, limits(metavar="NAME", help="A model that the key may use. Repeatable. Default: all.")
    ] = None,
    days: Annotated[float | None, limits(help="Days after which the key expires. Default: never.")] = None,
    key_file: KeyFileOption = None,
) -> None:
    if account is not None:
        from dptext.ledger.books import Ledger
        from dptext_gateway.keys import RELEASING, require_everyone

        payer = Ledger.at(ledger).account(account)
        if set(RELEASING) & set(scope):
            require_everyone(payer)
    given = {"scopes": tuple(scope), "models": tuple(model or ())}
    _print_key(_keys(ledger, key_file).create(name, account=account, **given, days=days))


def _print_key(key: str) -> None:
    print(key)  # stdout has the key alone, for KEY=$(dptext keys create ...)
    say("Shown once: keep it now.")


def listed(ledger: options.LedgerOption, key_file: KeyFileOption = None, as_json: options.JsonOption = False) -> None:
    found = _keys(ledger, key_file).listed()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        ends = each["revoked"] or each["expires"]
        day = datetime.fromtimestamp(float(str(ends or 0)), UTC)
        models = f", models {each['models']}" if each["models"] else ""
        end = f", {'revoked' if each['revoked'] else 'until'} {day:%Y-%m-%d}" if ends else ""
        print(f"{each['prefix']}  {each['name']}: {each['scopes']}, account {each['account'] or 'none'}{models}{end}")


def revoke(prefix: PrefixArgument, ledger: options.LedgerOption, key_file: KeyFileOption = None) -> None:
    _keys(ledger, key_file).revoke(prefix)
    print(f"{prefix} is revoked.")


def rotate(
    prefix: PrefixArgument,
    ledger: options.LedgerOption,
    days: Annotated[float, limits(help="Days for which the old key stays valid.")] = 7.0,
    key_file: KeyFileOption = None,
) -> None:
    _print_key(_keys(ledger, key_file).rotate(prefix, days=days))
