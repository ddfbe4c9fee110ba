"""The public settings of a gateway, and the secret that seals its stored answers."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dptext import _validate
from dptext.errors import ConfigError
from dptext.ledger.books import Ledger
from dptext.text.files import write_first

_BYTES: Final = 32
_NONCE: Final = 12
_MODES: Final = 0o077
#: The most records of one call, whatever is set: a body is refused at its first record beyond them.
MOST_RECORDS: Final = 100_000
_MOST_THREADS: Final = 32  # of the 40 threads that answer calls
_MOST_PADDING: Final = 2**30
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an administrator.

    Attributes:
        models: folder of saved models, one folder each; a folder with `synthesis.toml` and `pool.jsonl` is a synthesis.
        ledger: file or URL of the ledger; keys, answers, jobs and events lie in the same database.
        spool: folder for files of jobs, readable by its owner only.
        key_file: the secret of this gateway.
        max_records, max_body: most records and bytes of a call that is answered at once. `max_file`: bytes of a job.
        requests_a_minute, bytes_a_minute, requests_at_once: limits of one key.
        connections: most connections at once; one more ends the oldest that waits for no answer to a key.
        seconds: seconds within which the whole body of a call, and each part of a file, must come (a whole file within
            `upload_seconds`). A call waits for its turn at most as long, and an attempt that died blocks its
            idempotency key at most as long. A draw has no time limit.
        spool_bytes, spool_bytes_of_key: most bytes of files that wait or are kept, of all keys and of one key.
        max_job_records, job_seconds: most records of a job, and its time since it began or went on after a restart.
        max_characters: most characters of a text of a job. Time limits, cancelling and stopping are checked between
            256 such texts.
        origins: origins of other pages that may ask from browsers, such as "https://portal.example"; none by default.
        kept_hours: hours for which answers and jobs are kept after they ended.
        pad_bytes, step_seconds: answers are padded to a multiple of `pad_bytes`, and are sent at a multiple of
            `step_seconds` after the request came; 0 switches each off. Results of jobs are not padded.
        threads: calls that draw at once.
    """

    models: Path
    ledger: str
    spool: Path
    key_file: Path
    max_records: int = 1_000
    max_body: int = 4_000_000
    max_file: int = 2_000_000_000
    requests_a_minute: int = 600
    bytes_a_minute: int = 2_000_000_000
    requests_at_once: int = 16
    connections: int = 512
    seconds: float = 60.0
    upload_seconds: float = 600.0
    spool_bytes: int = 20_000_000_000
    spool_bytes_of_key: int = 10_000_000_000
    max_job_records: int = 10_000_000
    job_seconds: float = 21_600.0
    max_characters: int = 100_000
    origins: tuple[str, ...] = ()
    kept_hours: float = 72.0
    pad_bytes: int = 0
    step_seconds: float = 0.0
    threads: int = 2

    def __post_init__(self) -> None:
        _validate.within(1, MOST_RECORDS, max_records=self.max_records)
        _validate.within(1, _MOST_THREADS, threads=self.threads)
        _validate.count(
            max_records=self.max_records,
            max_body=self.max_body,
            max_file=self.max_file,
            requests_a_minute=self.requests_a_minute,
            bytes_a_minute=self.bytes_a_minute,
            requests_at_once=self.requests_at_once,
            connections=self.connections,
            spool_bytes=self.spool_bytes,
            spool_bytes_of_key=self.spool_bytes_of_key,
            max_job_records=self.max_job_records,
            max_characters=self.max_characters,
            threads=self.threads,
        )
        _validate.positive(seconds=self.seconds, upload_seconds=self.upload_seconds, kept_hours=self.kept_hours)
        _validate.positive(job_seconds=self.job_seconds)
        _validate.within(0, _MOST_PADDING, pad_bytes=self.pad_bytes)
        _validate.not_negative(step_seconds=self.step_seconds)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"Expected an origin as https://portal.example or http://host:8080, found {origin!r}."
                )
        if not self.models.is_dir():
            raise ConfigError(f"Expected a folder of models, found none at {self.models}: dptext fit --out makes them.")

    @property
    def kept(self) -> float:
        """`kept_hours` in seconds."""
        return self.kept_hours * 3_600


def require_ledger(location: str) -> None:
    """Raise LedgerError if there is no ledger, so that nothing is written into another database."""
    with contextlib.closing(Ledger.at(location)) as books:
        books.accounts()


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of 32 bytes in a file, from which a key for each purpose is derived."""

    key: bytes = field(repr=False)

    @staticmethod
    def at(path: Path) -> Secret:
        """Return the secret in a file, which is made if there is none. ConfigError: others can read it."""
        if not path.exists():
            write_first(path, secrets.token_bytes(_BYTES).hex().encode())
        return Secret.read(path)

    @staticmethod
    def read(path: Path) -> Secret:
        """Return the secret in a file. ConfigError: there is none, or others can read it."""
        try:
            key = bytes.fromhex(path.read_text("ascii").strip())
            private = not path.stat().st_mode & _MODES
        except (OSError, ValueError):
            key, private = b"", True
        if len(key) != _BYTES or not private:
            raise ConfigError(f"Expected {path} to hold 64 hexadecimal digits, readable by its owner only (mode 0600).")
        return Secret(key)

    def mac(self, purpose: str, *parts: bytes) -> str:
        """Return a keyed digest in hex: nobody without the secret can try texts against it."""
        found = hmac.new(self._derived(purpose), digestmod=hashlib.sha256)
        for part in parts:
            found.update(len(part).to_bytes(8, "big") + part)
        return found.hexdigest()

    def seal(self, data: bytes, context: str) -> bytes:
        """Encrypt data and bind it to `context`, the name under which it is stored."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + ChaCha20Poly1305(self._derived("seal")).encrypt(nonce, data, context.encode())

    def opened(self, sealed: bytes, context: str) -> bytes:
        """Return the data that `seal` encrypted. cryptography's InvalidTag: it is other data, or of another context."""
        return ChaCha20Poly1305(self._derived("seal")).decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self.key, f"dptext gateway, {purpose}".encode(), "sha256")
