"""Stored answers: the same idempotency key and payload give the same answer again. It is sealed until it expires.

The order is: an attempt is written down, the account is charged under the key of the attempt, texts are drawn, the
answer is stored, the charge is settled, the answer is sent. Whatever dies in between, nobody has seen an answer that
was not stored, so another attempt may draw again under the same charge. A stored answer is the only one ever sent.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from starlette.concurrency import run_in_threadpool

from dptext.errors import DPTextError
from dptext_gateway.clock import Clock
from dptext_gateway.keys import Key
from dptext_gateway.problems import Problem
from dptext_gateway.settings import Secret
from dptext_gateway.store import ANSWERS, Event, Store

_SHORTEST: Final = 8  # characters of an idempotency key
_LONGEST: Final = 255
FORM: Final = re.compile(rf"[\x21-\x7e]{{{_SHORTEST},{_LONGEST}}}")


def usable(idempotency_key: str | None) -> str:
    """Return the header Idempotency-Key. Problem: it is missing or malformed; it is not repeated."""
    if idempotency_key is not None and FORM.fullmatch(idempotency_key):
        return idempotency_key
    n = len(idempotency_key or "")
    found = f"{n:,}, not all of them such" if _SHORTEST <= n <= _LONGEST else f"{n:,}" if n else "none"
    said = f"Expected the header Idempotency-Key with {_SHORTEST} to {_LONGEST} visible ASCII characters"
    raise Problem(400, "idempotency-key", f"{said}, found {found}. Nothing is charged.")


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored answer, and the sha256 that its charge is settled with."""

    name: str
    answer: bytes = field(repr=False)
    result_sha256: str

    @property
    def charge_key(self) -> str:
        """The key of the charge that paid for the answer."""
        return charge_key(self.name)


def charge_key(name: str) -> str:
    """Return the charge key of an answer: all attempts use the same key, so the answer is charged once."""
    return f"gateway {name}"


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """The stored answers of a gateway.

    Attributes:
        seconds: seconds after which an attempt that renews no lease counts as dead.
        kept: seconds after which an answer expires.
    """

    store: Store
    secret: Secret
    seconds: float
    kept: float
    clock: Clock

    def attempt(self, key: Key, idempotency_key: str | None, payload: bytes) -> Attempt | Stored:
        """Begin an attempt, or return the stored answer, whose charge may still have to be settled.

        Problem: there is no usable idempotency key (400), it was used for another payload (422), or is in flight (409).
        """
        idempotency_key = usable(idempotency_key)
        account = (key.account or "").encode()
        name = self.secret.mac("answer", account, idempotency_key.encode())
        mac = self.secret.mac("payload", account, payload)
        own, now = secrets.token_hex(16), time.time()
        lease = now + self.seconds
        values: dict[str, Any] = {"payload_mac": mac, "attempt": own, "lease": lease}
        values["expires"] = self.clock.latest() + self.kept
        if self.store.insert(ANSWERS, id=name, answer=None, result_sha256=None, **values):
            return Attempt(self, name, own, mac)
        row = self.store.one(sa.select(ANSWERS).where(ANSWERS.c.id == name))
        if row is None:
            raise Problem(409, "in-flight", "Another attempt has just ended: try again.", retry_after=1)
        if row.answer is not None and _expired(row):  # only a sweep deletes it: this clock may be wrong
            raise _gone()
        if row.payload_mac != mac:
            raise Problem(422, "idempotency-key-reused", "This Idempotency-Key was used for another payload.")
        if row.answer is not None:
            return self.opened(row)
        take = (ANSWERS.c.id == name) & ANSWERS.c.answer.is_(None) & _over(now, self.seconds)
        if self.store.write(ANSWERS.update().where(take).values(attempt=own, lease=lease)):
            return Attempt(self, name, own, mac)
        # Less than the lease, which a living attempt extends: its answer is stored as soon as it is drawn.
        left = min(2, max(1, round(row.lease - now)))
        raise Problem(409, "in-flight", "Another attempt with this Idempotency-Key is in flight.", retry_after=left)

    def opened(self, row: sa.Row[Any]) -> Stored:
        """Return the answer in a row. Problem: it was sealed under another secret."""
        try:
            return Stored(row.id, self.secret.opened(row.answer, row.id), row.result_sha256)
        except InvalidTag:
            raise Problem(503, "sealed", "The stored answer was sealed under another secret.") from None

    def sweep(self) -> None:
        """Forget answers that have expired; the charge of an attempt stays."""
        self.store.write(ANSWERS.delete().where(ANSWERS.c.expires < self.clock.earliest()))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at an answer. If others took it over, the answer that is stored first is sent.

    Attributes:
        name: id of the answer.
        own: random id of this attempt.
        payload_mac: keyed digest of the payload.
    """

    answers: StoredAnswers
    name: str
    own: str
    payload_mac: str

    @property
    def charge_key(self) -> str:
        """The key of the charge that pays for the answer."""
        return charge_key(self.name)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Renew the lease as long as the context is open, so that no retry draws at the same time."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(self.answers.seconds / 3)
                with suppress(DPTextError):
                    await run_in_threadpool(self._renew)

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()

    def store(self, answer: bytes, result_sha256: str, event: Event) -> Stored:
        """Store the answer and a line of the audit log. Return it, or an answer stored before, to be settled."""
        answers = self.answers
        # An attempt whose lease is over may store, too: the first stored answer counts, and all share one charge.
        mine = (ANSWERS.c.id == self.name) & (ANSWERS.c.payload_mac == self.payload_mac) & ANSWERS.c.answer.is_(None)
        sealed, expires = answers.secret.seal(answer, self.name), answers.clock.latest() + answers.kept
        values = {"answer": sealed, "result_sha256": result_sha256, "expires": expires}
        if answers.store.change(ANSWERS.update().where(mine).values(**values), event):
            return Stored(self.name, answer, result_sha256)
        row = answers.store.one(sa.select(ANSWERS).where(ANSWERS.c.id == self.name))
        if row is None or row.answer is None:
            raise Problem(409, "in-flight", "Another attempt took over.", retry_after=1)
        return answers.opened(row)

    def spent(self) -> Problem:
        """Return the problem of a charge that has paid for an answer already: it is gone, or has just been stored."""
        row = self.answers.store.one(sa.select(ANSWERS).where(ANSWERS.c.id == self.name))
        if row is not None and row.answer is not None:
            return Problem(409, "in-flight", "Another attempt took over.", retry_after=1)
        return _gone()

    def free(self) -> None:
        """Let the next attempt begin at once: this one failed, and nothing of it was stored."""
        self.answers.store.write(ANSWERS.update().where(self._mine()).values(lease=0.0))

    def give_up(self) -> None:
        """Forget an attempt that drew nothing: the idempotency key is free again."""
        self.answers.store.write(ANSWERS.delete().where(self._mine()))

    def _renew(self) -> None:
        still = ANSWERS.update().where(self._mine(), ANSWERS.c.lease > 0)  # a freed attempt stays free
        self.answers.store.write(still.values(lease=time.time() + self.answers.seconds))

    def _mine(self) -> sa.ColumnElement[bool]:
        return (ANSWERS.c.id == self.name) & (ANSWERS.c.attempt == self.own) & ANSWERS.c.answer.is_(None)


def _expired(row: sa.Row[Any]) -> bool:
    expires: float = row.expires
    return expires < time.time()


def _over(now: float, seconds: float) -> sa.ColumnElement[bool]:
    """Whether a lease is over. A lease that ends later than any lease given now shows that the clock went back."""
    return (ANSWERS.c.lease < now) | (ANSWERS.c.lease > now + seconds)


def _gone() -> Problem:
    said = "The charge of this Idempotency-Key is spent and its answer is gone."
    return Problem(410, "answer-expired", f"{said} A new Idempotency-Key asks for a new release, charged anew.")
