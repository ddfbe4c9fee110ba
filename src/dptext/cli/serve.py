"""`dptext serve`: the gateway on one address."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Option

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
    models: Annotated[Path, options.folder_option(help="Folder of models, each a folder of `dptext fit`.")],
    ledger: options.LedgerOption,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on.")] = 8000,
    key_file: Annotated[
        Path | None, options.output_option(help="Secret of the gateway; default: beside the ledger.")
    ] = None,
    spool: Annotated[
        Path | None, options.folder_option(help="Folder for files of jobs; default: beside the secret.")
    ] = None,
    max_records: Annotated[int, Option(help="Of one call; more are a job.")] = 1_000,
    requests_a_minute: Annotated[int, Option(help="Of one key.")] = 600,
    kept_hours: Annotated[float, Option(help="How long answers and results are kept.")] = 72.0,
    pad_bytes: Annotated[int, Option(help="Pad answers to multiples of it; 0: no.")] = 0,
    step_seconds: Annotated[float, Option(help="Answers leave at multiples of it after the request; 0: no.")] = 0.0,
    threads: Annotated[int, Option(help="Calls that are computed at once.")] = 2,
) -> None:
    """Serve models over HTTP, and the page at /."""
    with needing("`dptext serve`", "service"):
        import uvicorn

        from dptext.service.app import create_app
        from dptext.service.settings import Settings
    secret = key_file_of(ledger, key_file)
    settings = Settings(
        models,
        ledger,
        spool or secret.with_name(secret.name.removesuffix(".key") + ".spool"),
        secret,
        max_records=max_records,
        requests_a_minute=requests_a_minute,
        kept_hours=kept_hours,
        pad_bytes=pad_bytes,
        step_seconds=step_seconds,
        threads=threads,
    )
    app = create_app(settings)
    sys.setswitchinterval(0.0005)  # an encoder gives way often, and should not wait long for its turn
    say(f"Serving {models} at http://{host}:{port}. TLS is a proxy's: put one before it.")
    uvicorn.run(
        app,
        host=host,
        port=port,
        access_log=False,  # a path may hold a name
        server_header=False,
        log_level="warning",
        timeout_keep_alive=5,
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=256,
    )
