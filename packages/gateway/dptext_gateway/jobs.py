"""Jobs: a file is spooled, privatized by a run that survives kills, and kept until it expires.

The idempotency key names the job, so that asking again gives the same job. Only the gateway that began a job goes on
with it. A job expires some time after it ended. Its row stays for good, so that no key draws twice.
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
from dptext.runs.certificate import certificate_path
from dptext.runs.synthesized import REPORT_SUFFIXES
from dptext.synthesis.spec import CorpusSpec
from dptext.synthesis.summary import SummarySpec
from dptext.text.files import sha256_of, sync_folder, write_first
from dptext.text.formats import Format
from dptext.text.records import Fields
from dptext.types import Json
from dptext_gateway.clock import Clock
from dptext_gateway.keys import Key
from dptext_gateway.problems import Problem
from dptext_gateway.settings import Secret, Settings
from dptext_gateway.store import JOBS, OPEN, Event, Store
from dptext_gateway.work import Models

#: Formats of uploads and results, and their suffixes.
FORMATS: Final = {Format.JSONL: ".jsonl", Format.CSV: ".csv", Format.PARQUET: ".parquet"}
_EXPIRED: Final = "It has expired."
_DELETED: Final = "Its files were deleted."
LISTED: Final = 100  # most jobs in a list, the newest
_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Wish:
    """The request of a job: settings for its file.

    Attributes:
        kind: "privatize" or "synthesize".
        max_per_author: public maximum of records per author, for an account per author.
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
        """Return the wish as canonical JSON text, which is stored and compared."""
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}, sort_keys=True)

    @staticmethod
    def of(text: str) -> Wish:
        """Return the wish that `to_json` wrote."""
        data = json.loads(text)
        return Wish(**{**data, "format": Format(data["format"])})

    @property
    def fields(self) -> Fields:
        """The names of the columns."""
        return Fields(self.text_field, id=self.id_field, label=self.label_field, author=self.author_field)


class Jobs:
    """The jobs of a gateway, for its routes and its worker."""

    def __init__(
        self, settings: Settings, store: Store, secret: Secret, ledger: Ledger, models: Models, clock: Clock
    ) -> None:
        self.settings, self.store, self.ledger, self.models = settings, store, ledger, models
        self.clock = clock
        self._secret = secret
        self._taken: tuple[int, int] | None = None  # device and inode of the spool

    @cached_property
    def own(self) -> str:
        """The id of this spool, stored in the spool: gateways on one ledger have a spool each."""
        path = self.settings.spool / "id"
        if not path.exists():
            write_first(path, secrets.token_hex(16).encode())
        return self._id()

    def take_spool(self) -> None:
        """Remember which folder the spool is, as this gateway begins to use it."""
        found = self.settings.spool.stat()
        self._taken = (found.st_dev, found.st_ino) if self.own else None

    def require_spool(self) -> None:
        """Raise a Problem if the spool is not the folder that this gateway took: files of its jobs lie elsewhere."""
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
        """Whether a job belongs to this spool."""
        return bool(row.spool_id == self.own)

    def spool(self) -> Path:
        """Make a new folder for an upload; its owner alone can read it."""
        folder = self.settings.spool / f"upload-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    def queue(self, key: Key, idempotency_key: str, wish: Wish, uploaded: Path, digest: str) -> tuple[str, bool]:
        """Turn an uploaded folder into a job. Return the id of the job, and whether the job is new.

        Problem: the idempotency key was used for another payload.
        """
        name = self._name(key, idempotency_key)
        payload_mac = self._payload_mac(name, wish.to_json(), digest)
        folder, now, row = self._folder(name, payload_mac), time.time(), self.row(name)
        # A job that ended, or that another gateway began, gets no file here.
        waits = row is None or (row.state in OPEN and (self.mine(row) or not row.not_before))
        if waits and row is not None:  # its gateway may be gone with its file; no sweep here takes this file
            waiting = JOBS.update().where(JOBS.c.id == name, JOBS.c.payload_mac == payload_mac, JOBS.c.not_before == 0)
            self.store.write(
                waiting.where(JOBS.c.state == "queued", JOBS.c.spool_id != self.own).values(spool_id=self.own)
            )
        if waits and folder.exists():  # a gateway died before it wrote the row: no sweep may take the folder for old
            os.utime(folder)
        elif waits:
            uploaded.rename(folder)
            sync_folder(folder.parent)
        new = self.store.insert(
            JOBS,
            Event(key.who, "job queued", key.account, wish.model),
            id=name,
            payload_mac=payload_mac,
            prefix=key.prefix,
            account=key.account or "",
            model=wish.model,
            kind=wish.kind,
            settings=wish.to_json(),
            state="queued",
            spool_id=self.own,
            not_before=0.0,
            records_done=0,
            problem=None,
            result_sha256=None,
            created=now,
            expires=self.clock.latest() + self.settings.kept,
            starts=0,
            model_mark=self.models.mark(wish.model),
        )
        row = self.row(name)
        if row is None or row.payload_mac != payload_mac or not self.mine(row):
            shutil.rmtree(folder, ignore_errors=True)
        if row is None or row.payload_mac != payload_mac:
            raise Problem(422, "idempotency-key-reused", "This Idempotency-Key was used for another payload.")
        return name, new

    def told(self, name: str, key: Key) -> dict[str, Json]:
        """Return the state of a job. Problem: it is not of this account, and no administrator asks."""
        return self._told(self._own_row(name, key, admin=True), key)

    def known(self, key: Key, idempotency_key: str) -> bool:
        """Whether there is a job of this account and idempotency key."""
        return self.row(self._name(key, idempotency_key)) is not None

    def listed(self, key: Key) -> list[dict[str, Json]]:
        """Return the states of the last jobs that a key may see, newest first."""
        mine = sa.select(JOBS).where(JOBS.c.account == (key.account or ""), JOBS.c.kind.in_(_kinds(key)))
        if key.models:
            mine = mine.where(JOBS.c.model.in_(key.models))
        return [self._told(row, key) for row in self.store.rows(mine.order_by(JOBS.c.created.desc()).limit(LISTED))]

    def open(self) -> dict[str, int]:
        """Return the number of jobs of all accounts in each open state."""
        count = sa.select(JOBS.c.state, sa.func.count().label("number")).where(JOBS.c.state.in_(OPEN))
        return dict.fromkeys(OPEN, 0) | {row.state: row.number for row in self.store.rows(count.group_by(JOBS.c.state))}

    def _told(self, row: Any, key: Key) -> dict[str, Json]:
        state = _state(row)
        return {
            "id": row.id,
            "kind": row.kind,
            "model": row.model,
            "summary": self._makes_summary(row),
            "state": state,
            "records_done": row.records_done,
            "problem": _problem(row, key) or (_EXPIRED if state == "expired" else None),
            "created": row.created,
            "result_sha256": row.result_sha256,
            "expires": None if state in OPEN else row.expires,
        }

    def file(self, name: str, key: Key, what: str = "") -> Path:
        """Return the path of a finished job's result, or of its "certificate" or "topics"."""
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
        """Stop an open job, which then releases nothing, or delete the files of a finished job. Charges stay."""
        row = self._own_row(name, key, admin=True)
        if row.state == "done":
            over = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "done")
            said = Event(key.who, "job deleted", row.account, row.model, None, row.result_sha256)
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
        """Return the row of a job, or None."""
        return self.store.one(sa.select(JOBS).where(JOBS.c.id == name))

    def folder(self, row: Any) -> Path:
        """Return the folder of a job's files; another gateway may have them."""
        return self._folder(row.id, row.payload_mac)

    def whole(self, row: Any) -> bool:
        """Whether the file of a job is the file that was sent."""
        digest = sha256_of(self.folder(row) / "input")
        return self._payload_mac(row.id, row.settings, digest) == str(row.payload_mac)

    def out(self, row: Any) -> Path:
        """Return the path of a job's result, written or not."""
        if (made := self._made(row)) is not None:
            return made
        spec = self.models.spec(row.model)
        if isinstance(spec, CorpusSpec) and not spec.traits.releases_text:
            return self.folder(row) / f"result{spec.suffix}"
        return self._outs(row)[0]

    def delete(self, row: Any) -> None:
        """Delete the files of a job."""
        shutil.rmtree(self.folder(row), ignore_errors=True)

    def ended(
        self, state: str, problem: str | None, result_sha256: str | None = None, others: str | None = None
    ) -> dict[str, Any]:
        """Return the values of a job that ends now. Keys that did not send it read `others` instead of its problem."""
        return {
            "state": state,
            "problem": problem,
            "problem_for_others": others,
            "result_sha256": result_sha256,
            "not_before": 0.0,
            "expires": self.clock.latest() + self.settings.kept,
        }

    def expire(self) -> None:
        """Mark jobs whose time is over as expired; a job that did not end says what became of its charge.

        Open jobs expire, too. The gateway that has the files of its own open jobs extends their time here.
        """
        now, latest = self.clock.earliest(), self.clock.latest()
        over = JOBS.update().where(JOBS.c.expires < now)
        self.store.write(
            over.where(JOBS.c.state.in_(("done", "failed", "cancelled"))).values(
                state="expired", problem=_EXPIRED, problem_for_others=None
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
        """Whether there is a charge for a job. LedgerError: the ledger cannot be asked."""
        return any(each.key == charge_key(row.id) for each in self.ledger.log(row.account))

    def charge_of(self, row: Any) -> tuple[int | None, str]:
        """Return the charge number of a job without result, if known, and what became of the charge, in words."""
        with contextlib.suppress(DPTextError):
            for each in self.ledger.log(row.account):
                if each.key == charge_key(row.id):
                    return each.number, f"Charge {each.number} stays charged; nothing became visible."
            return None, "Nothing was charged."
        return None, "Whether it was charged is not known: see the log of the account."

    def _name(self, key: Key, idempotency_key: str) -> str:
        return self._secret.mac("job", (key.account or "").encode(), idempotency_key.encode())[:32]

    def _payload_mac(self, name: str, settings: str, digest: str) -> str:
        return self._secret.mac("payload", name.encode(), settings.encode(), digest.encode())

    def _own_row(self, name: str, key: Key, *, admin: bool = False) -> Any:
        row: Any = self.row(name) if _ID.fullmatch(name) else None
        if admin and row is not None and "admin" in key.scopes:
            return row
        if row is None or row.account != (key.account or "") or not _sees(key, row):
            raise Problem(404, "no-job", "There is no such job of this account, or this key may not see it.")
        return row

    def _outs(self, row: Any) -> list[Path]:
        """Return the paths of results: of a file of records, of a report alone, and of a summary."""
        suffixes = (FORMATS[Wish.of(row.settings).format], CorpusSpec.suffix, SummarySpec.suffix)
        return [self.folder(row) / f"result{suffix}" for suffix in suffixes]

    def _makes_summary(self, row: Any) -> bool:
        """Whether a job makes a summary: its result says so, or else the settings of its model, which may be gone."""
        if row.kind != "synthesize":
            return False
        if (made := self._made(row)) is not None:
            return made.suffix == SummarySpec.suffix
        with contextlib.suppress(Problem, DPTextError):
            self.models.path(row.model)
            return isinstance(self.models.spec(row.model), SummarySpec)
        return False

    def _made(self, row: Any) -> Path | None:
        """Return the result that lies here with its certificate, or None. The model may be gone."""
        return next((out for out in self._outs(row) if out.is_file() and certificate_path(out).is_file()), None)

    def _folder(self, name: str, payload_mac: str) -> Path:
        return self.settings.spool / f"job-{name}-{payload_mac[:16]}"


def charge_key(name: str) -> str:
    """Return the key of the charge that pays for a job."""
    return f"gateway job {name}"


def _sees(key: Key, row: Any) -> bool:
    """Whether a key of the account of a job may see it."""
    return (not key.models or row.model in key.models) and row.kind in _kinds(key)


def _kinds(key: Key) -> list[str]:
    """Return the kinds of jobs that a key may see."""
    return [kind for kind, scope in (("privatize", "jobs"), ("synthesize", "synthesize")) if key.may(scope)]


def _problem(row: Any, key: Key) -> str | None:
    """Return the problem for a key: only the key that sent the file reads words about its contents."""
    if row.problem is None or row.prefix == key.prefix:
        return row.problem  # type: ignore[no-any-return]  # a column of text
    return row.problem_for_others or row.problem  # type: ignore[no-any-return]  # the same


def _state(row: Any) -> str:
    return "expired" if row.state not in OPEN and row.expires < time.time() else str(row.state)
