"""Open and decode files, read whole files, and read saved models, with errors in plain words.

No error holds text that was read. Exceptions of parsers do: ``json.JSONDecodeError`` carries the whole document.
"""

import codecs
import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from dptext.errors import ConfigError, DPTextError, needing
from dptext.text.formats import is_compressed, is_zstd

#: Bytes of the largest file that is read as a whole. Certificates and models are far smaller. A device never ends.
_MAX_WHOLE: Final = 2**28


def file_error(path: str | os.PathLike[str], verb: str, error: OSError | ValueError) -> ConfigError:
    """Return the error to raise if the system refuses to open, "read" or "write" a file; `verb` is the quoted word.

    The message takes only the wording of an OSError. A ValueError means a bad path.
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
    except OSError as error:  # an OSError holds no text that was read
        raise file_error(path, verb, error) from None


Opener = Callable[[Path], io.BufferedReader]


def open_input(path: Path) -> io.BufferedReader:
    """Open a file for reading. ConfigError: it cannot be opened."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise file_error(path, "read", error) from None


def read_whole(path: Path, *, limit: int = _MAX_WHOLE) -> bytes:
    """Return the bytes of a whole file, such as a certificate, settings or the description of a model.

    ConfigError: the file cannot be read, or is longer than ``limit`` bytes (a device may never end).
    """
    with open_input(path) as file, telling(path, "read"):
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ConfigError(f"Expected {str(path)!r} to be at most {limit} bytes long. Name the right file.")
    return data


def lines_of(path: Path, named: str) -> list[str]:
    """Return the lines of a file in UTF-8 without spaces around them. A mark at its beginning is passed over.

    `named` is what errors call the file. ConfigError: it has no line, or one is not in UTF-8.
    """
    found = []
    for number, line in enumerate(read_whole(path).removeprefix(codecs.BOM_UTF8).rstrip().splitlines(), 1):
        try:
            found.append(line.decode().strip())
        except UnicodeDecodeError:
            raise ConfigError(
                f"Expected {named} to be in UTF-8, found other bytes in line {number}: save it as UTF-8."
            ) from None
    if not found:
        raise ConfigError(f"Expected {named} to have a name in each line, found none.")
    return found


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document. ValueError, which may quote the text: no JSON, or nested too deep."""
    with contextlib.suppress(RecursionError):
        return json.loads(text)
    raise ValueError("the nesting is too deep")


SAVE_AGAIN: Final = "Fit and save the model again."  #: Advice of errors about a saved model that cannot be used
#: Errors that a damaged file raises in the readers of JSON, arrays and weights, and in the checks of their contents.
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RuntimeError)


@contextlib.contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Turn faults of a block that reads a saved file into ConfigError. `what` names it, as "the weights in model/".

    The block raises ValueError for faults that it finds itself.
    """
    try:
        yield
    except DPTextError:  # its message says more than those below
        raise
    except OSError as error:
        raise ConfigError(f"Cannot read {what}: {error.strerror or 'cut short'}. {SAVE_AGAIN}") from error
    except _DAMAGED as error:
        raise ConfigError(
            f"Expected {what} as saved: a file was cut short or edited, or is of other settings. {SAVE_AGAIN}"
        ) from error


_BOMS: Final = {
    codecs.BOM_UTF32_LE: "utf-32",  # listed before the mark of UTF-16, with which this mark begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SAMPLE: Final = 2**16  # bytes
_PACKED: Final = 2**10  # bytes of zstd at once, which a bomb unpacks to some 30 MB
_WINDOW: Final = 2**27  # bytes, as the `zstd` program allows
_WIDE: Final = ("utf_16_le", "utf_16_be")  # their ASCII texts are full of NULs
#: If several encodings read a sample equally well, the first is named. For text, ISO 8859-1 is the same as cp1252.
_NARROW: Final = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "koi8_r"),
    *("cp932", "gb18030", "big5", "euc_kr", "euc_jp"),
)
_HOW: Final = "--encoding {} on the command line, dp.read_records(path, encoding={!r}) in Python"


def is_utf8(encoding: str | None) -> bool:
    """Return whether an encoding is UTF-8, the default for None. ConfigError: Python knows no encoding of this name."""
    name = "utf-8" if encoding is None else encoding
    with contextlib.suppress(LookupError, ValueError):
        "".encode(name)
        return codecs.lookup(name).name in ("utf-8", "utf-8-sig")
    raise ConfigError(f"Expected --encoding {encoding!r} to be one that Python knows, as utf-8, utf-16, cp1252.")


class Transcoded(io.BufferedIOBase):
    """A stream of bytes, decoded from another encoding and encoded as UTF-8."""

    def __init__(self, stream: io.BufferedIOBase, encoding: str) -> None:
        self.stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read1(self, size: int = -1, /) -> bytes:
        """Return the bytes at hand, none at the end. UnicodeError: the stream is not in its encoding."""
        while block := self.stream.read1(size):
            if text := self._decoder.decode(block):
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()


class Unzstd(io.BufferedIOBase):
    """A stream of zstd frames, unpacked. EOFError: the last frame is cut short, which `zstandard` does not report."""

    packing = "zstd"

    def __init__(self, raw: io.BufferedReader) -> None:
        with needing("zstd", "dptext[files]"):
            import zstandard  # noqa: PLC0415 (an extra)
        self.raw = raw
        self._frame = partial(zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj)
        self._open = self._frame()
        self._begun, self._rest, self._error = False, b"", zstandard.ZstdError

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the first `size` bytes, for a look at the contents of the file."""
        found = b""
        while (size is None or size < 0 or len(found) < size) and (block := self.read1()):
            found += block
        return found if size is None or size < 0 else found[:size]

    def read1(self, size: int = -1, /) -> bytes:
        """Return the bytes at hand, none at the end."""
        while True:
            packed = self._rest or self.raw.read1(_PACKED)
            self._rest = b""
            if not packed:
                if self._begun:
                    raise EOFError
                return b""
            try:
                found = self._open.decompress(packed)
            except self._error:
                raise EOFError from None
            self._begun = not self._open.eof
            if self._open.eof:
                self._rest, self._open = self._open.unused_data, self._frame()
            if found:
                return found


def unzip(path: Path, raw: io.BufferedReader) -> io.BufferedReader | gzip.GzipFile | Unzstd:
    """Return a stream of the unpacked file. A BufferedReader around it would lose the bytes just before a fault."""
    if is_zstd(path):
        return Unzstd(raw)
    return gzip.GzipFile(fileobj=raw) if is_compressed(path) else raw


def beginning(path: Path, encoding: str | None, size: int, opener: Opener = open_input) -> str:
    """Return the first lines of a file, at most `size` bytes. The reader, not this function, reports damaged bytes."""
    with opener(path) as raw, contextlib.suppress(OSError, EOFError, zlib.error):
        data = unzip(path, raw).read(size)
        text = codecs.getincrementaldecoder(encoding or "utf-8")("replace").decode(data)
        return text if len(data) < size else text[: text.rfind("\n") + 1]
    return ""


def detected(path: Path, opener: Opener = open_input) -> str | None:
    """Return the encoding that a file seems to be in: "utf-8" if it is, else the guess of charset-normalizer.

    None if there is no guess, or if some lines are in UTF-8 and others are not.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    accents = False
    start = True
    with opener(path) as raw, contextlib.suppress(OSError, EOFError, zlib.error):
        unzipped = unzip(path, raw)
        while block := unzipped.read1(_SAMPLE):
            marked = [name for mark, name in _BOMS.items() if start and block.startswith(mark)]
            if marked or block.count(0) > len(block) // 8:
                return marked[0] if marked else _guessed(block[: len(block) // 2 * 2], _WIDE)
            start = False
            try:
                accents |= not decoder.decode(block).isascii()
            except UnicodeDecodeError:
                lines = block.split(b"\n")
                odd = [line for line in lines if not _is_utf8(line)]
                accents |= any(_is_utf8(line) and not line.isascii() for line in lines[1:-1])
                return None if accents else _guessed(b"\n".join(odd), _NARROW)
    return "utf-8"


def _guessed(sample: bytes, among: Sequence[str]) -> str | None:
    import charset_normalizer  # noqa: PLC0415 (slow to load)

    found = charset_normalizer.from_bytes(sample, cp_isolation=list(among))
    best = found.best()
    if best is None:
        return None
    alike = [each for each in found if (each.chaos, each.coherence) == (best.chaos, best.coherence)]
    return next(name for name in among if any(name in each.could_be_from_charset for each in alike))


def advice_on_encoding(path: Path) -> str:
    """Return the advice for a file that is not UTF-8, after a space; empty for UTF-8."""
    found = detected(path)
    if found == "utf-8":
        return ""
    if found is None:
        return f" Name the encoding with {_HOW.format('NAME', 'NAME')}, or save the file as UTF-8."
    how = _HOW.format(found, found)
    return f" The file looks like {found}: if that is right, read it so ({how}), or save it as UTF-8."


def _is_utf8(line: bytes) -> bool:
    return line.decode(errors="ignore").encode() == line
