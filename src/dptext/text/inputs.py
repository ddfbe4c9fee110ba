"""Opening files, reading whole ones and saved models, with errors in plain words.

No error holds what was read, because exceptions of the parsers carry it: ``json.JSONDecodeError`` the whole document.
"""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dptext.errors import ConfigError, DPTextError

#: Bytes of the largest file that is read as a whole: no certificate or model comes near, and a device never ends.
_MAX_WHOLE: Final = 2**28


def file_error(path: str | os.PathLike[str], verb: str, error: OSError | ValueError) -> ConfigError:
    """The error to raise where the system refuses to open, "read" or "write" a file.

    Of an OSError only the wording is used, and a ValueError means a bad path.
    """
    reason = "no path can hold a NUL character, or one that the file system cannot encode"
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
    advice = (
        "Give the path of an existing file that you may read."
        if verb == "read"
        else "Choose a folder that exists, that you may write to and whose disk has room."
    )
    return ConfigError(f"Cannot {verb} {str(path)!r}: {reason}. {advice}")


@contextlib.contextmanager
def telling(path: str | os.PathLike[str], verb: str) -> Iterator[None]:
    """Turn an OSError of the block into a ConfigError that names the file at `path`."""
    try:
        yield
    except OSError as error:  # which holds nothing that was read
        raise file_error(path, verb, error) from None


def open_input(path: Path) -> io.BufferedReader:
    """Open a file for reading, else ConfigError."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise file_error(path, "read", error) from None


def read_whole(path: Path, *, limit: int = _MAX_WHOLE) -> bytes:
    """The bytes of a whole file, such as a certificate, settings or the description of a model.

    ConfigError: it cannot be read, or is longer than ``limit`` bytes (a device may never end).
    """
    with open_input(path) as file, telling(path, "read"):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ConfigError(f"Expected {str(path)!r} to be at most {limit} bytes long. Name the right file.")
    return data


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document, else `ValueError`, also where it nests too deep; its message may quote the text."""
    with contextlib.suppress(RecursionError):
        return json.loads(text)
    raise ValueError("the nesting is too deep")


#: What errors advise where a saved model cannot be used.
SAVE_AGAIN: Final = "Fit and save the model again."
#: What JSON, arrays, weights and the checks of what they hold raise where a file was damaged.
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError)


@contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Around reading `what` was saved, such as "the weights in model/". Any fault becomes a ConfigError.

    The block raises ValueError where it finds a fault of its own.
    """
    try:
        yield
    except DPTextError:  # it says more than these messages
        raise
    except OSError as error:
        raise ConfigError(f"Cannot read {what}: {error.strerror or 'cut short'}. {SAVE_AGAIN}") from error
    except _DAMAGED as error:
        raise ConfigError(
            f"Expected {what} as saved: a file was cut short or edited, or is of other settings. {SAVE_AGAIN}"
        ) from error
