"""Keyed hashes of subjects' names: the ledger knows whether it saw a subject before, but not who the subject is.

The key is in a file outside the database: whoever has the ledger alone cannot try names against the hashes.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from dptext.errors import ConfigError
from dptext.privacy.names import seen_form
from dptext.text.files import write_first

_BYTES = 32
HASH_BYTES = 32
_DIGITS = re.compile(f"[0-9a-fA-F]{{{2 * _BYTES}}}")
_LONGEST_FILE = 1024  # more than the digits with white space


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """The secret of the hashes, 32 bytes; whoever has the secret can try names against the ledger."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _BYTES:
            raise ConfigError(f"Expected a subject key of {_BYTES} bytes.")

    def check(self, account: str) -> bytes:
        """Return the bytes by which an account recognizes its key and its rule for names.

        The rule is `seen_form`; its name is among the hashed bytes.
        """
        return self._keyed("check seen", account, "")

    def hash(self, account: str, name: str) -> bytes:
        """Return the hash of a name as spelled, 32 bytes. It differs between accounts: hashes cannot join them."""
        return self._keyed("subject", account, name)

    def naming(self, account: str, kept: bytes) -> "Naming":
        """Return the hashing of an account's names. ConfigError: the account has `kept` bytes of another key."""
        if not secrets.compare_digest(kept, self.check(account)):
            raise ConfigError(
                f"Expected the subject key with which account {account!r} was opened, found another: under it every "
                "subject would look new."
            )
        return Naming(self, account)

    def _keyed(self, purpose: str, account: str, name: str) -> bytes:
        # The length of the account's name keeps ("ab", "c") and ("a", "bc") apart.
        message = f"{purpose}\0{len(account)}\0{account}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.digest(self.secret, message, "sha256")


@dataclass(frozen=True, slots=True)
class Naming:
    """The hashing of one account's names, which are compared as `dptext.privacy.names.AS_SEEN` says."""

    key: SubjectKey
    account: str

    def hash(self, name: str) -> bytes:
        """The hash of a subject."""
        return self.key.hash(self.account, seen_form(name))


class SubjectsDigest:
    """The digest of subjects in their order. A charge keeps it to recognize the same subjects."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._digest = hashlib.sha256()

    def add(self, name: str) -> bytes:
        """Add a subject and return its hash."""
        hashed = self._naming.hash(name)
        self._digest.update(hashed)
        return hashed

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._digest.hexdigest()


def read_subject_key(path: Path) -> SubjectKey:
    """Return the key in a file of `create_subject_key`. ConfigError: there is no such file, or it holds no key."""
    _require_file_name(path)
    try:
        with path.open("rb") as file:
            secret = bytes.fromhex(file.read(_LONGEST_FILE).decode("ascii"))
    except OSError as error:
        raise ConfigError(
            f"Expected the subject key of the account in {path}: {error.strerror}. Without it nobody can tell which "
            "subjects were charged; bring the file back, or name it with --subject-key."
        ) from None
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise ConfigError(f"Expected {path} to hold a subject key: {2 * _BYTES} hexadecimal digits.")
    return SubjectKey(secret)


def _require_file_name(path: Path) -> None:
    if not path.name or "\0" in str(path):
        raise ConfigError("Expected --subject-key to be a file.")
    if _DIGITS.fullmatch(path.name):
        raise ConfigError("Expected --subject-key to be a file, found what looks like the key itself (not shown).")


def create_subject_key(path: Path) -> SubjectKey:
    """Return the key in a file. A missing file is made, with a new key that its owner alone can read.

    ConfigError: the file holds no key.
    """
    _require_file_name(path)
    write_first(path, f"{secrets.token_bytes(_BYTES).hex()}\n".encode())
    return read_subject_key(path)
