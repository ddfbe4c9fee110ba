"""Jobs: a file is spooled, privatized by a run that survives kills, and kept until it expires.

A job is named by its idempotency key, so that asking again gives the same job. No other gateway goes on with what one
began. It expires some time after it ended; its row stays for good, so that no key draws twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from dptext.errors import DPTextError
from dptext.ledger.books import Ledger
from dptext.mechanism import Answers
from dptext.runs.certificate import certificate_path
from dptext.runs.synthesized import REPORT_SUFFIXES
from dptext.service.clock import Clock
from dptext.service.keys import Key
from dptext.service.problems import Problem
from dptext.service.settings import Secret, Settings
from dptext.service.store import JOBS, OPEN, Event, Store
from dptext.service.work import Models
from dptext.text.files import sha256_of, sync_folder, write_first
from dptext.text.formats import Format
from dptext.text.records import Fields
from dptext.types import Json

#: What can be uploaded, and what comes back.
FORMATS: Final = {Format.JSONL: ".jsonl", Format.CSV: ".csv", Format.PARQUET: ".parquet"}
_EXPIRED: Final = "It has expired."
_DELETED: Final = "Its files were deleted."
LISTED: Final = 100  # jobs, the newest, that a list holds
_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done with a file.

    Attributes:
        kind: "privatize" or "synthesize".
        max_per_author: of an account per author.
    """

    kind: str
    model: str
    format: Format
    text_field: str = "text"
    id_field: str | None = None
    label_field: str | None = None
    author_field: str | None = None
    max_per_author: int | None = None
    delta: float = 0.0

    def to_json(self) -> str:
        """As it is stored, and compared."""
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}, sort_keys=True)

    @staticmethod
    def of(text: str) -> Wish:
        """What `to_json` wrote."""
        data = json.loads(text)
        return Wish(**{**data, "format": Format(data["format"])})

    @property
    def fields(self) -> Fields:
        """The names of the columns."""
        return Fields(self.text_field, id=self.id_field, label=self.label_field, author=self.author_field)


class Jobs:
    """The jobs of a gateway, as its routes see them."""

    def __init__(
        self, settings: Settings, store: Store, secret: Secret, ledger: Ledger, models: Models, clock: Clock
    ) -> None:
        self.settings, self.store, self.ledger, self.models = settings, store, ledger, models
        self.clock = clock
        self._secret = secret
        self._taken: tuple[int, int] | None = None  # device and inode of the spool

    @cached_property
    def own(self) -> str:
        """The name of this spool, which lies in it: two gateways on one ledger have each their own."""
        path = self.settings.spool / "id"
        if not path.exists():
            write_first(path, secrets.token_hex(16).encode())
        return self._id()

    def take_spool(self) -> None:
        """Remember which folder the spool is, as this gateway begins to use it."""
        found = self.settings.spool.stat()
        self._taken = (found.st_dev, found.st_ino) if self.own else None

    def require_spool(self) -> None:
        """A Problem where the spool is not the folder that this gateway took: files of its jobs lie elsewhere."""
        try:
            found = self.settings.spool.stat()
            same = (found.st_dev, found.st_ino) == self._taken and self._id() == self.own
        except OSError:
            same = False
        if not same:
            said = "The folder for files is gone or was replaced: it has to come back, or the gateway to start again."
            raise Problem(503, "spool", said, retry_after=60)

    def _id(self) -> str:
        return (self.settings.spool / "id").read_text("ascii")

    def mine(self, row: Any) -> bool:
        """Whether a job is of this spool."""
        return bool(row.spool == self.own)

    def spool(self) -> Path:
        """A new folder for a file that is being uploaded; its owner alone can read it."""
        folder = self.settings.spool / f"upload-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    def queue(self, key: Key, idempotency_key: str, wish: Wish, uploaded: Path, digest: str) -> tuple[str, bool]:
        """Take an uploaded folder over as a job; the id of the job, and whether it is new.

        Problem: the idempotency key was used for another payload.
        """
        name = self._name(key, idempotency_key)
        payload = self._payload(name, wish.to_json(), digest)
        folder, now, row = self._folder(name, payload), time.time(), self.row(name)
        # What ended, or was begun elsewhere, gets no file here.
        waits = row is None or (row.state in OPEN and (self.mine(row) or not row.lease))
        if waits and row is not None:  # another gateway may have its file and be gone; here no sweep takes this one
            waiting = JOBS.update().where(JOBS.c.id == name, JOBS.c.payload_mac == payload, JOBS.c.lease == 0)
            self.store.write(waiting.where(JOBS.c.state == "queued", JOBS.c.spool != self.own).values(spool=self.own))
        if waits and folder.exists():  # of a gateway that died before the row: no sweep takes it for old
            os.utime(folder)
        elif waits:
            uploaded.rename(folder)
            sync_folder(folder.parent)
        new = self.store.insert(
            JOBS,
            Event(key.who, "job queued", key.account, wish.model),
            id=name,
            payload_mac=payload,
            prefix=key.prefix,
            account=key.account or "",
            model=wish.model,
            kind=wish.kind,
            settings=wish.to_json(),
            state="queued",
            spool=self.own,
            lease=0.0,
            done=0,
            problem=None,
            certificate=None,
            created=now,
            expires=self.clock.latest() + self.settings.kept,
            starts=0,
            mark=self.models.mark(wish.model),
        )
        row = self.row(name)
        if row is None or row.payload_mac != payload or not self.mine(row):
            shutil.rmtree(folder, ignore_errors=True)
        if row is None or row.payload_mac != payload:
            raise Problem(422, "idempotency-key-reused", "This Idempotency-Key was used for another payload.")
        return name, new

    def told(self, name: str, key: Key) -> dict[str, Json]:
        """Where a job stands; a Problem where it is not of this account and no administrator asks."""
        return self._told(self._own_row(name, key, admin=True), key)

    def known(self, key: Key, idempotency_key: str) -> bool:
        """Whether there is a job of this account and idempotency key."""
        return self.row(self._name(key, idempotency_key)) is not None

    def listed(self, key: Key) -> list[dict[str, Json]]:
        """Where the last jobs stand that a key may see, the newest first."""
        mine = sa.select(JOBS).where(JOBS.c.account == (key.account or ""), JOBS.c.kind.in_(_kinds(key)))
        if key.models:
            mine = mine.where(JOBS.c.model.in_(key.models))
        return [self._told(row, key) for row in self.store.rows(mine.order_by(JOBS.c.created.desc()).limit(LISTED))]

    def open(self) -> dict[str, int]:
        """How many jobs of all accounts are in each state that is not an end."""
        count = sa.select(JOBS.c.state, sa.func.count().label("number")).where(JOBS.c.state.in_(OPEN))
        return dict.fromkeys(OPEN, 0) | {row.state: row.number for row in self.store.rows(count.group_by(JOBS.c.state))}

    def _told(self, row: Any, key: Key) -> dict[str, Json]:
        state = _state(row)
        return {
            "id": row.id,
            "kind": row.kind,
            "model": row.model,
            "state": state,
            "records_done": row.done,
            "problem": _problem(row, key) or (_EXPIRED if state == "expired" else None),
            "created": row.created,
            "result_sha256": row.certificate,
            "expires": None if state in OPEN else row.expires,
        }

    def file(self, name: str, key: Key, what: str = "") -> Path:
        """The result of a job that is done, or its "certificate" or "topics"."""
        row = self._own_row(name, key)
        if row.state in OPEN:
            raise Problem(409, "not-done", f"The job is {row.state}.", retry_after=2)
        if (state := _state(row)) != "done":
            raise Problem(410, "no-result", f"The job is {state}: it has no result.")
        out = self._made(row)
        if out is None:
            self.require_spool()
            raise Problem(404, "no-file", "This job has no such file here.")
        path = {"certificate": certificate_path(out), "topics": out.with_name(out.name + REPORT_SUFFIXES[0])}.get(
            what, out
        )
        if not path.is_file():
            raise Problem(404, "no-file", "This job has no such file here.")
        return path

    def cancel(self, name: str, key: Key) -> None:
        """Stop a job, of which nothing becomes visible; of one that is done, delete the files. Charges stay."""
        row = self._own_row(name, key, admin=True)
        if row.state == "done":
            over = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "done")
            said = Event(key.who, "job deleted", row.account, row.model, None, row.certificate)
            if self.store.change(over.values(state="expired", problem=_DELETED), said):
                self.delete(row)
            return
        if row.state not in OPEN:
            return
        number, charge = self.charge_of(row)
        said = Event(key.who, "job cancelled", row.account, row.model, number)
        queued = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "queued")
        running = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "running")
        ended = self.ended("cancelled", f"Cancelled. {charge}")
        if self.store.change(queued.values(**ended), said):
            self.delete(row)
        else:
            self.store.change(running.values(state="cancelling"), said)

    def row(self, name: str) -> Any:
        """What is stored of a job, or None."""
        return self.store.one(sa.select(JOBS).where(JOBS.c.id == name))

    def folder(self, row: Any) -> Path:
        """Where the files of a job lie, if here."""
        return self._folder(row.id, row.payload_mac)

    def whole(self, row: Any) -> bool:
        """Whether the file of a job is what was sent."""
        digest = sha256_of(self.folder(row) / "input")
        return self._payload(row.id, row.settings, digest) == str(row.payload_mac)

    def out(self, row: Any) -> Path:
        """Where the result of a job lies or will lie."""
        if (made := self._made(row)) is not None:
            return made
        spec = self.models.spec(row.model)
        return self._outs(row)[spec.traits.answers is Answers.CORPUS and not spec.traits.releases_text]

    def delete(self, row: Any) -> None:
        """Delete the files of a job."""
        shutil.rmtree(self.folder(row), ignore_errors=True)

    def ended(
        self, state: str, problem: str | None, certificate: str | None = None, others: str | None = None
    ) -> dict[str, Any]:
        """What is stored of a job that ends now; `others` is what other keys are told of its problem, if not that."""
        return {
            "state": state,
            "problem": problem,
            "others": others,
            "certificate": certificate,
            "lease": 0.0,
            "expires": self.clock.latest() + self.settings.kept,
        }

    def expire(self) -> None:
        """Say of jobs whose time is over that they have expired; one that did not end says what became of its charge.

        A job ends somewhere: whoever has the file of an open one puts its time off.
        """
        now, latest = self.clock.earliest(), self.clock.latest()
        over = JOBS.update().where(JOBS.c.expires < now)
        self.store.write(
            over.where(JOBS.c.state.in_(("done", "failed", "cancelled"))).values(
                state="expired", problem=_EXPIRED, others=None
            )
        )
        soon = latest + self.settings.kept / 2
        for row in self.store.rows(sa.select(JOBS).where(JOBS.c.state.in_(OPEN), JOBS.c.expires < soon)):
            mine = JOBS.update().where(JOBS.c.id == row.id, JOBS.c.state == row.state)
            if self.mine(row) and self.folder(row).is_dir():
                self.store.write(mine.values(expires=latest + self.settings.kept))
            elif row.expires < now:
                self.store.write(mine.values(**self.ended("expired", f"{_EXPIRED} {self.charge_of(row)[1]}")))

    def paid(self, row: Any) -> bool:
        """Whether there is a charge for a job. LedgerError where that is not known."""
        return any(each.key == charge_key(row.id) for each in self.ledger.log(row.account))

    def charge_of(self, row: Any) -> tuple[int | None, str]:
        """The number of the charge of a job that has no result, if it is known, and what became of it, in words."""
        with contextlib.suppress(DPTextError):
            for each in self.ledger.log(row.account):
                if each.key == charge_key(row.id):
                    return each.number, f"Charge {each.number} stays charged; nothing became visible."
            return None, "Nothing was charged."
        return None, "Whether it was charged is not known: see the log of the account."

    def _name(self, key: Key, idempotency_key: str) -> str:
        return self._secret.mac("job", (key.account or "").encode(), idempotency_key.encode())[:32]

    def _payload(self, name: str, settings: str, digest: str) -> str:
        return self._secret.mac("payload", name.encode(), settings.encode(), digest.encode())

    def _own_row(self, name: str, key: Key, *, admin: bool = False) -> Any:
        row: Any = self.row(name) if _ID.fullmatch(name) else None
        if admin and row is not None and "admin" in key.scopes:
            return row
        if row is None or row.account != (key.account or "") or not _sees(key, row):
            raise Problem(404, "no-job", "There is no such job of this account, or this key may not see it.")
        return row

    def _outs(self, row: Any) -> tuple[Path, Path]:
        """Where a file would lie, and a report alone."""
        folder = self.folder(row)
        return folder / f"result{FORMATS[Wish.of(row.settings).format]}", folder / "result.json"

    def _made(self, row: Any) -> Path | None:
        """The result that lies here with its certificate, whatever became of the model."""
        return next((out for out in self._outs(row) if out.is_file() and certificate_path(out).is_file()), None)

    def _folder(self, name: str, payload: str) -> Path:
        return self.settings.spool / f"job-{name}-{payload[:16]}"


def charge_key(name: str) -> str:
    """Of the charge that pays for a job."""
    return f"gateway job {name}"


def _sees(key: Key, row: Any) -> bool:
    """Whether a key of the account of a job may see it."""
    return (not key.models or row.model in key.models) and row.kind in _kinds(key)


def _kinds(key: Key) -> list[str]:
    """Of jobs that a key may see."""
    return [kind for kind, scope in (("privatize", "jobs"), ("synthesize", "synthesize")) if key.may(scope)]


def _problem(row: Any, key: Key) -> str | None:
    """What a key is told of a problem: words about a file's contents go to the key that sent it alone."""
    if row.problem is None or row.prefix == key.prefix:
        return row.problem  # type: ignore[no-any-return]  # a column of text
    return row.others or row.problem  # type: ignore[no-any-return]  # the same


def _state(row: Any) -> str:
    return "expired" if row.state not in OPEN and row.expires < time.time() else str(row.state)
