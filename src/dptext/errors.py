"""Every deliberate error of dptext.

The tree::

    DPTextError
      ConfigError(ValueError)       a setting or file cannot be used
        LedgerError                 the ledger cannot be used: unreachable, locked, read-only, of another schema
          LedgerGoneError           its file was deleted or replaced after it was opened
      DataError(ValueError)         record N of FILE cannot be read
        BrokenFileError             nothing after it can be read: a truncated gzip, an open quote
          HeaderError               its header has not the columns that were named
      PrivacyError                  going on would break or misstate a guarantee
        BudgetExceededError         the release asks for more than what is left
        IncomparableError           guarantees of different meaning were mixed
        NoGuaranteeError            the mechanism guarantees nothing and nobody said that is fine
      MissingExtraError(ImportError)  names the exact pip install line
      GatewayError                    a gateway gave no answer (dptext.service.client)

Messages name settings, files and record numbers. They never hold private text.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class DPTextError(Exception):
    """Root of every error that dptext raises on purpose."""


class ConfigError(DPTextError, ValueError):
    """A setting or a file cannot be used."""


class LedgerError(ConfigError):
    """The ledger cannot be used now. The message names what to do and never a password.

    Attributes:
        unsure: whether the connection was lost while a change was made final, so that nobody knows if it was written.
    """

    def __init__(self, message: str, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.unsure = unsure


class LedgerGoneError(LedgerError):
    """The file of a ledger was deleted or replaced after it was opened: a charge to it would be in no books."""


class DataError(DPTextError, ValueError):
    """A record of the input cannot be read. The message names the file and the record number, never the text."""


class BrokenFileError(DataError):
    """Nothing after this record can be read either, so that skipping records cannot help."""


class HeaderError(BrokenFileError):
    """The header of a file lacks a column that was named, or has it several times."""


class PrivacyError(DPTextError):
    """Going on would break or misstate a guarantee."""


class BudgetExceededError(PrivacyError):
    """The release asks for more privacy budget than is left.

    Attributes:
        asked: epsilon that the release alone would cost, infinite where no epsilon holds.
        left: epsilon that is left, rounded down.
        gap: epsilon by which the limit would be passed.
    """

    def __init__(self, message: str, *, asked: float, left: float, gap: float) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left
        self.gap = gap


class IncomparableError(PrivacyError):
    """Guarantees of different unit, relation or metric were compared, added or lifted."""


class NoGuaranteeError(PrivacyError):
    """The spec guarantees nothing and the call did not say that this is understood."""


class MissingExtraError(DPTextError, ImportError):
    """An optional package is absent; the message names the exact install line.

    Attributes:
        said: what needs which package.
        extras: all that the work needs, so that one line installs them; none where `said` has the line.
    """

    def __init__(self, said: str, *extras: str) -> None:
        self.said, self.extras = said, extras
        torch = "torch==2.13.0 " if {"neural", "sbert"} & set(extras) else ""
        super().__init__(f"{said}. Run: pip install {torch}'dptext[{','.join(extras)}]'" if extras else said)


@contextmanager
def needing(what: str, *extras: str) -> Iterator[None]:
    """Around imports of optional packages: MissingExtraError names what cannot be done without which extras.

    One around another adds its extras to the line.
    """
    try:
        yield
    except MissingExtraError as error:
        if set(extras) <= set(error.extras) or not error.extras:
            raise
        raise MissingExtraError(error.said, *dict.fromkeys((*error.extras, *extras))) from error
    except ImportError as error:
        raise MissingExtraError(f"{what} needs the package {error.name}", *extras) from error
