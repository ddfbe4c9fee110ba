"""`dptext serve`: the gateway on one address."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from dptext.cli import options
from dptext.cli.progress import say
from dptext.errors import ConfigError, needing


def key_file_of(ledger: str, given: Path | None) -> Path:
    """Where the secret of a gateway lies: beside a ledger in a file, unless it is named."""
    if given is not None:
        return given
    if "://" in ledger and not ledger.startswith("sqlite:"):
        raise ConfigError("Expected --key-file FILE with a ledger on a server: the secret of the gateway lies there.")
    path = Path(ledger.removeprefix("sqlite:///"))
    return path.with_name(path.name + ".gateway.key")


def serve(
    models: Annotated[Path, options.folder_option("--models", help="Folder of models, each a folder of `dptext fit`.")],
    ledger: options.LedgerOption,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.")] = 8000,
    key_file: Annotated[
        Path | None, options.output_option("--key-file", help="Secret of the gateway; default: beside the ledger.")
    ] = None,
    spool: Annotated[
        Path | None, options.folder_option("--spool", help="Folder for files of jobs; default: beside the secret.")
    ] = None,
    max_records: Annotated[int, typer.Option("--max-records", help="Of one call; more are a job.")] = 1_000,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes of one call.")] = 4_000_000,
    max_file: Annotated[int, typer.Option("--max-file", help="Bytes of the file of a job.")] = 2_000_000_000,
    requests_a_minute: Annotated[int, typer.Option("--requests-a-minute", help="Of one key.")] = 600,
    bytes_a_minute: Annotated[int, typer.Option("--bytes-a-minute", help="Of one key.")] = 2_000_000_000,
    requests_at_once: Annotated[int, typer.Option("--requests-at-once", help="Of one key.")] = 16,
    connections: Annotated[int, typer.Option("--connections", help="At once; one more ends an idle one.")] = 512,
    seconds: Annotated[float, typer.Option("--seconds", help="That a call may take.")] = 60.0,
    upload_seconds: Annotated[float, typer.Option("--upload-seconds", help="That a file may take to come.")] = 600.0,
    kept_hours: Annotated[float, typer.Option("--kept-hours", help="How long answers and results are kept.")] = 72.0,
    spool_bytes: Annotated[int, typer.Option("--spool-bytes", help="Of all files together.")] = 20_000_000_000,
    spool_bytes_of_key: Annotated[
        int, typer.Option("--spool-bytes-of-key", help="Of the files of one key.")
    ] = 10_000_000_000,
    pad_bytes: Annotated[int, typer.Option("--pad-bytes", help="Pad answers to multiples of it; 0: no.")] = 0,
    step_seconds: Annotated[
        float, typer.Option("--step-seconds", help="Answers leave at multiples of it after the request; 0: no.")
    ] = 0.0,
    threads: Annotated[int, typer.Option("--threads", help="Calls that are computed at once.")] = 2,
    origins: Annotated[
        list[str] | None,
        typer.Option("--origin", help="Of pages elsewhere whose scripts may ask; give it again for more."),
    ] = None,
) -> None:
    """Serve models over HTTP, and the page at /."""
    with needing("`dptext serve`", "service"):
        from dptext.service.app import create_app
        from dptext.service.server import server
        from dptext.service.settings import Settings
    secret = key_file_of(ledger, key_file)
    settings = Settings(
        models,
        ledger,
        spool or secret.with_name(secret.name.removesuffix(".key") + ".spool"),
        secret,
        max_records=max_records,
        max_body=max_body,
        max_file=max_file,
        requests_a_minute=requests_a_minute,
        bytes_a_minute=bytes_a_minute,
        requests_at_once=requests_at_once,
        connections=connections,
        seconds=seconds,
        upload_seconds=upload_seconds,
        kept_hours=kept_hours,
        spool_bytes=spool_bytes,
        spool_bytes_of_key=spool_bytes_of_key,
        pad_bytes=pad_bytes,
        step_seconds=step_seconds,
        threads=threads,
        origins=tuple(origins or ()),
    )
    app = create_app(settings)
    sys.setswitchinterval(0.0005)  # an encoder gives way often, and should not wait long for its turn
    say(f"Serving {models} at http://{host}:{port}. TLS is a proxy's: put one before it.")
    with suppress(KeyboardInterrupt):
        server(app, host, port).run()
