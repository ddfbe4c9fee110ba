"""`dptext`: the program. Every deliberate error becomes one line on stderr and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, NoReturn

import typer
import typer.main
from typer import Option

from dptext.cli.lazy import HELP_NAMES, LazyGroup
from dptext.cli.progress import Stopped, listen
from dptext.cli.terminal import open_streams
from dptext.errors import BudgetExceededError, ConfigError, DataError, DPTextError

INTERNAL_ERROR = 70
#: What the system answers where a path or a disk cannot be used.
_REFUSALS: Final = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
        *(errno.EBUSY, errno.ETXTBSY, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EMFILE, errno.ENFILE),
    )
)

app = typer.Typer(
    cls=LazyGroup,
    name="dptext",
    help="Rewrite text under differential privacy, and say exactly what was guaranteed.",
    epilog="The flow: init, fit, privatize, explain. COMMAND --help has an example of each.",
    no_args_is_help=True,
    rich_markup_mode=None,  # the plain help is three times as fast to start
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
)


def _version(asked: bool) -> None:
    if asked:
        from dptext.version import __version__

        print(f"dptext {__version__}")
        raise typer.Exit


def _config(path: Path | None) -> None:
    if path is not None:
        from dptext.cli.config import use

        use(path)


@app.callback()
def root(
    config: Annotated[
        Path | None, Option(parser=Path, callback=_config, help="Read this file in the place of dptext.toml.")
    ] = None,
    _: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """The options that come before the command are read by their callbacks."""


def exit_code(error: DPTextError) -> int:
    """2 bad usage or settings, 3 budget refused, 4 bad data."""
    match error:
        case BudgetExceededError():
            return 3
        case DataError():
            return 4
        case _:
            return 2


def _withhold(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    _tell(kind, trace)
    os._exit(INTERNAL_ERROR)  # an exception would end with status 1, which means that an audit refuted a claim


def _withhold_unraisable(found: sys.UnraisableHookArgs) -> None:
    """Report an error of what ends as an object goes, which Python would print whole; a signal may come there, too."""
    if isinstance(found.exc_value, Stopped):
        print(f"dptext: {found.exc_value}", file=sys.stderr, flush=True)
        os._exit(found.exc_value.code)
    _tell(found.exc_type, found.exc_traceback)


def _tell(kind: type[BaseException], trace: TracebackType | None) -> None:
    """Report an unexpected error without its message, which might hold private text."""
    last = [*traceback.walk_tb(trace)][-1:]
    where = "".join(f" at {Path(frame.f_code.co_filename).name}:{line}" for frame, line in last)
    print(f"dptext: internal error {kind.__name__}{where}; its message is withheld.", file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; every deliberate error becomes one line on stderr and an exit code."""
    gc.freeze()  # what is imported by now lives as long as the process; no collection looks at it, the last one neither
    sys.excepthook = _withhold
    sys.unraisablehook = _withhold_unraisable
    threading.excepthook = lambda found: _tell(found.exc_type, found.exc_traceback)
    open_streams()
    listen()
    try:
        try:
            typer.main.get_command(app)()  # calling app itself would put typer's own excepthook in place
        finally:
            sys.stdout.flush()
    except (DPTextError, OSError) as error:
        problem = error if isinstance(error, DPTextError) else refusal(error)
        if problem is None:
            raise
        _end(str(problem), exit_code(problem))
    except Stopped as stopped:
        _end(str(stopped), stopped.code)


def refusal(error: OSError) -> ConfigError | None:
    """What the system says of a path or a disk, where nobody said it better; None for what is no such fault."""
    if error.errno not in _REFUSALS:
        return None
    path = "a file" if error.filename is None else repr(error.filename)
    return ConfigError(
        f"Cannot use {path}: {os.strerror(error.errno)}. Look at the paths of the command, what you may "
        "read and write there, and the room on the disk."
    )


def _end(message: str, code: int) -> NoReturn:
    print("dptext: " + message.replace("\n", "\\n"), file=sys.stderr, flush=True)
    raise SystemExit(code) from None
