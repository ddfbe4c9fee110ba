"""Every deliberate error of dptext.

The tree::

    DPTextError
      ConfigError(ValueError)       a setting or file cannot be used
        LedgerError                 the ledger cannot be used: unreachable, locked, read-only, of another schema
          LedgerGoneError           the ledger's file was deleted or replaced after it was opened
        ServerError                 the server of a language model cannot be used: it fails, or refuses
          ServerRefusedError        it refused a request
      DataError(ValueError)         record N of FILE cannot be read
        BrokenFileError             no later record can be read either: a truncated gzip, an open quote
          HeaderError               the file's header lacks a named column, or repeats one
            OtherFormError          the file is in another format than its name says
      PrivacyError                  going on would break or misstate a guarantee
        BudgetExceededError         the release costs more privacy budget than is left
        IncomparableError           guarantees of different meaning were mixed
        NoGuaranteeError            the mechanism guarantees nothing, and the call did not accept that
      MissingExtraError(ImportError)  names the exact pip install line
      GatewayError                    a gateway gave no answer (dptext_gateway.client)

Messages name settings, files and record numbers. They never hold private text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class DPTextError(Exception):
    """Root of every error that dptext raises on purpose."""


class ConfigError(DPTextError, ValueError):
    """A setting or a file cannot be used."""


class LedgerError(ConfigError):
    """The ledger cannot be used now. The message says what to do, and never contains a password.

    Attributes:
        unsure: whether the connection was lost during a commit, so that the change may or may not be written.
    """

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class LedgerGoneError(LedgerError):
    """The file of a ledger was deleted or replaced after it was opened: a charge to it would be lost."""


class ServerError(ConfigError):
    """The server of a language model cannot be used now. The message names its host, never a text or a key.

    Attributes:
        status: status of the answer; 0 without an answer.
    """

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ServerRefusedError(ServerError):
    """A server refused a request. The message names the status of the answer.

    Attributes:
        too_long: whether the request is longer than the server's context, by what the server says.
    """

    def __init__(self, message: str, *, status: int = 0, too_long: bool = False) -> None:
        super().__init__(message, status=status)
        self.too_long = too_long


class DataError(DPTextError, ValueError):
    """A record of the input cannot be read. The message names the file and the record number, never the text."""


class BrokenFileError(DataError):
    """Nothing after this record can be read either, so that skipping records cannot help."""


class HeaderError(BrokenFileError):
    """The header of a file lacks a named column, or has it several times."""


class OtherFormError(HeaderError):
    """A file is in another format than its name, or the format that was named, says.

    Args:
        said: which format was expected, and what was found; names of formats alone.
        path: the file; empty if it is not told which of several.
    """

    def __init__(self, said: str, path: str = "") -> None:
        super().__init__(said, path)
        self.said = said
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.said}" if self.path else self.said


class PrivacyError(DPTextError):
    """Going on would break or misstate a guarantee."""


class BudgetExceededError(PrivacyError):
    """The release costs more privacy budget than is left.

    Attributes:
        asked: epsilon that the release alone would cost; infinite if no epsilon holds.
        left: epsilon that is left, rounded down.
        gap: epsilon by which the release would exceed the limit.
    """

    def __init__(self, message: str, *, asked: float, left: float, gap: float) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left
        self.gap = gap


class IncomparableError(PrivacyError):
    """Guarantees of different unit, relation or metric were compared, added or lifted."""


class NoGuaranteeError(PrivacyError):
    """The spec guarantees nothing, and the call did not accept that."""


class MissingExtraError(DPTextError, ImportError):
    """An optional package is absent; the message names the exact install line."""


def install_line(wanted: str) -> str:
    """Return the command that installs a package of ours with an extra, such as "dptext[glove]".

    No index has our packages yet: pip finds them in the folder that `make wheels` fills, as `WHEELS` says.
    """
    return f"pip install --find-links dist '{wanted}'"


WHEELS: Final = "`make wheels` in a checkout fills dist."  #: what an install line needs


def to_install(wanted: str) -> str:
    """Return the sentence that says how a package of ours is installed; see `install_line`."""
    return f"{WHEELS} Run: {install_line(wanted)}"


@contextmanager
def needing(what: str, wanted: str) -> Iterator[None]:
    """Turn an ImportError into a MissingExtraError that says `what` needs it, and which line installs it.

    `wanted` brings the package, such as "dptext[glove]".
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(f"{what} needs the package {error.name}. {to_install(wanted)}") from error
