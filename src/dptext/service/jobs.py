"""Jobs: a file is spooled, privatized by a run that survives kills, and kept until it expires.

A job is named by its idempotency key, so that asking again gives the same job. Its charge is named by the job. The run
is `privatize_file`, which goes on after a kill and publishes once. A synthesis that is killed begins anew under the
same charge: its files are whole before the charge is settled with them, and are shown to nobody before.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from dptext.errors import DPTextError, LedgerError, PrivacyError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import certificate_path, stream_mark
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.runs.resume import State, state_path
from dptext.runs.synthesizing import REPORT_SUFFIXES, Private, run
from dptext.runs.verification import read_certificate
from dptext.service.answers import Answers
from dptext.service.keys import Key
from dptext.service.problems import Problem
from dptext.service.settings import Secret, Settings
from dptext.service.store import JOBS, Event, Store
from dptext.service.work import POOL, Models
from dptext.synthesis.spec import SynthesisSpec
from dptext.text.files import held
from dptext.text.formats import Format
from dptext.text.reading import read_records
from dptext.text.records import Fields
from dptext.text.writers import APPENDABLE
from dptext.types import Json

#: What can be uploaded, and what comes back.
FORMATS: Final = {Format.JSONL: ".jsonl", Format.CSV: ".csv", Format.PARQUET: ".parquet"}
_LEASE: Final = 30.0  # seconds without a word after which another process may go on
_TELL: Final = 1.0
_AGAIN: Final = 5.0  # seconds until a job asks a database again that went away
_LOCK: Final = "lock"
_OPEN: Final = ("queued", "running", "cancelling")


class CancelledError(PrivacyError):
    """The job was cancelled."""


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
    """The jobs of a gateway, and the thread that runs those whose files lie here."""

    def __init__(
        self, settings: Settings, store: Store, secret: Secret, ledger: Ledger, models: Models, answers: Answers
    ) -> None:
        self._settings, self._store, self._secret, self._ledger, self._models = settings, store, secret, ledger, models
        self._answers = answers
        self._own = secrets.token_hex(8)
        self._lock = contextlib.ExitStack()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    # ------------------------------------------------------------------------------------------------ asking

    def spool(self) -> Path:
        """A new folder for a file that is being uploaded; its owner alone can read it."""
        folder = self._settings.spool / f"upload-{secrets.token_hex(16)}"
        folder.mkdir(mode=0o700)
        return folder

    def queue(self, key: Key, idempotency_key: str, wish: Wish, uploaded: Path, digest: str) -> tuple[str, bool]:
        """Take an uploaded folder over as a job; the id of the job, and whether it is new.

        Problem: the idempotency key was used for another payload.
        """
        account = (key.account or "").encode()
        name = self._secret.mac("job", account, idempotency_key.encode())[:32]
        payload = self._secret.mac("payload", name.encode(), wish.to_json().encode(), digest.encode())
        folder, now, row = self._folder(name, payload), time.time(), self._row(name)
        if not folder.exists() and (row is None or row.state in _OPEN):  # of a job that ended nothing is kept
            uploaded.rename(folder)
        new = self._store.insert(
            JOBS,
            id=name,
            answer=payload,
            prefix=key.prefix,
            account=key.account or "",
            model=wish.model,
            kind=wish.kind,
            settings=wish.to_json(),
            state="queued",
            owner=None,
            lease=0.0,
            done=0,
            problem=None,
            certificate=None,
            created=now,
            expires=now + self._settings.kept_hours * 3_600,
        )
        row = self._row(name)
        if row is None or row.answer != payload:
            shutil.rmtree(folder, ignore_errors=True)
            raise Problem(422, "idempotency-key-reused", "This Idempotency-Key was used for another payload.")
        if new:
            self._store.note(Event(key.who, "job queued", key.account, wish.model))
        self._wake.set()
        return name, new

    def told(self, name: str, key: Key) -> dict[str, Json]:
        """Where a job stands; a Problem where it is not of this account."""
        row = self._own_row(name, key)
        return {
            "id": row.id,
            "kind": row.kind,
            "model": row.model,
            "state": row.state,
            "records_done": row.done,
            "problem": row.problem,
            "certificate_sha256": row.certificate,
            "expires": row.expires,
        }

    def file(self, name: str, key: Key, what: str = "") -> Path:
        """The result of a job that is done, or its "certificate" or "topics"."""
        row = self._own_row(name, key)
        if row.state != "done":
            raise Problem(409, "not-done", f"The job is {row.state}.", retry_after=2)
        out = self._out(row)
        path = {"certificate": certificate_path(out), "topics": out.with_name(out.name + REPORT_SUFFIXES[0])}.get(
            what, out
        )
        if not path.is_file():
            raise Problem(404, "no-file", "This job has no such file here.")
        return path

    def cancel(self, name: str, key: Key) -> None:
        """Stop a job; what was charged stays charged, and nothing of it becomes visible."""
        row = self._own_row(name, key)
        queued = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "queued")
        running = JOBS.update().where(JOBS.c.id == name, JOBS.c.state == "running")
        if self._store.write(queued.values(state="cancelled", problem=f"Cancelled. {self._charge(row)}")):
            self._delete(name)
        elif not self._store.write(running.values(state="cancelling")):
            return  # it has ended
        self._store.note(Event(key.who, "job cancelled", key.account))

    def _row(self, name: str) -> Any:
        return self._store.one(sa.select(JOBS).where(JOBS.c.id == name))

    def _own_row(self, name: str, key: Key) -> Any:
        row = self._row(name)
        if row is None or row.account != (key.account or "") or (key.models and row.model not in key.models):
            raise Problem(404, "no-job", "There is no such job of this account, or this key may not see it.")
        return row

    def _folder(self, name: str, payload: str) -> Path:
        return self._settings.spool / f"job-{name}-{payload[:16]}"

    def _out(self, row: Any) -> Path:
        wish = Wish.of(row.settings)
        folder, kind = self._folder(row.id, row.answer), FORMATS[wish.format]
        spec = self._models.spec(row.model)
        return folder / f"result{'.json' if isinstance(spec, SynthesisSpec) and not spec.writes else kind}"

    def _delete(self, name: str) -> None:
        row = self._row(name)
        if row is not None:
            shutil.rmtree(self._folder(name, row.answer), ignore_errors=True)

    # ----------------------------------------------------------------------------------------------- running

    def start(self) -> None:
        """Begin to run jobs, first those that a kill left. ConfigError: another gateway has this spool."""
        spool = self._settings.spool
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        spool.chmod(0o700)
        self._lock.enter_context(held(spool / _LOCK, f"Another gateway uses the spool {spool}: give each its own."))
        self.sweep()
        for row in self._store.rows(sa.select(JOBS).where(JOBS.c.state.in_(_OPEN))):
            if self._folder(row.id, row.answer).is_dir():  # whoever held it is dead
                self._store.write(JOBS.update().where(JOBS.c.id == row.id).values(lease=0.0))
        self._thread.start()

    def close(self) -> None:
        """Stop after the job at hand, which goes on when the gateway starts again."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout=10)
        self._lock.close()

    def sweep(self) -> None:
        """Forget what has expired, and delete files of jobs that ended badly and uploads that never became a job."""
        self._answers.sweep()
        now = time.time()
        gone = JOBS.update().where(JOBS.c.expires < now, JOBS.c.state != "expired")
        self._store.write(gone.values(state="expired", problem="It has expired."))
        # Seen before the rows are read: what no row knows may be on its way to one, unless nothing came for long.
        folders = [folder for folder in self._settings.spool.iterdir() if folder.is_dir()]
        quiet = {folder for folder in folders if _touched(folder) < now - 2 * self._settings.seconds}
        wanted = {
            self._folder(row.id, row.answer): row.state in (*_OPEN, "done") for row in self._store.rows(sa.select(JOBS))
        }
        for folder in folders:
            if not wanted.get(folder, folder not in quiet):
                shutil.rmtree(folder, ignore_errors=True)

    def _serve(self) -> None:
        swept = time.monotonic()
        while not self._stop.is_set():
            try:
                if not self._one():
                    self._wake.wait(1.0)
                    self._wake.clear()
                if time.monotonic() - swept > 60:
                    self.sweep()
                    swept = time.monotonic()
            except (DPTextError, OSError):  # the database is away: it is asked again
                self._stop.wait(1.0)

    def _one(self) -> bool:
        """Run one job whose file lies here, if there is any."""
        now = time.time()
        waiting = sa.select(JOBS).where(JOBS.c.state.in_(_OPEN), JOBS.c.lease < now).order_by(JOBS.c.created)
        for row in self._store.rows(waiting):
            if not self._folder(row.id, row.answer).is_dir():
                continue
            mine = JOBS.update().where(JOBS.c.id == row.id, JOBS.c.lease < now, JOBS.c.state == row.state)
            state = "cancelling" if row.state == "cancelling" else "running"
            if self._store.write(mine.values(state=state, owner=self._own, lease=now + _LEASE)):
                self._run(row)
                return True
        return False

    def _run(self, row: Any) -> None:
        beating = threading.Event()
        heart = threading.Thread(target=self._beat, args=(row.id, beating), daemon=True)
        heart.start()
        problem, certificate = None, None
        try:
            certificate = self._done(row)
        except LedgerError:
            again = JOBS.update().where(JOBS.c.id == row.id)
            later = again.values(lease=time.time() + _AGAIN)
            self._store.write(later, again.where(JOBS.c.state == "running").values(state="queued"))
            return
        except DPTextError as error:
            problem = str(error).replace(str(self._folder(row.id, row.answer) / "input"), "the file")
        except Exception as error:  # noqa: BLE001  # of whatever reads a text: its message could hold it
            problem = f"It failed with {type(error).__name__}."
        finally:
            beating.set()
            heart.join()
        if certificate:
            (self._folder(row.id, row.answer) / "input").unlink(missing_ok=True)
        if not (certificate and self._ended(row, "running", "done", None, certificate)):
            problem = f"{problem or 'Cancelled.'} {self._charge(row)}"
            if self._ended(row, "cancelling", "cancelled", problem, None) or self._ended(
                row, "running", "failed", problem, None
            ):
                self._delete(row.id)

    def _ended(self, row: Any, before: str, state: str, problem: str | None, certificate: str | None) -> bool:
        """End a job of this process that was in the state `before`; whether it was."""
        mine = JOBS.update().where(JOBS.c.id == row.id, JOBS.c.owner == self._own, JOBS.c.state == before)
        values = {"state": state, "problem": problem, "certificate": certificate, "owner": None, "lease": 0.0}
        if not self._store.write(mine.values(**values)):
            return False
        self._store.note(Event("server", f"job {state}", row.account, row.model, None, certificate))
        return True

    def _charge(self, row: Any) -> str:
        """What became of the charge of a job that failed."""
        with contextlib.suppress(DPTextError):
            for each in self._ledger.log(row.account):
                if each.key == _charge_key(row.id):
                    return f"Charge {each.number} stays charged; nothing became visible."
            return "Nothing was charged."
        return "Whether it was charged is not known: see the log of the account."

    def _beat(self, name: str, over: threading.Event) -> None:
        while not over.wait(_LEASE / 3):
            with contextlib.suppress(DPTextError):
                mine = JOBS.update().where(JOBS.c.id == name, JOBS.c.owner == self._own)
                self._store.write(mine.values(lease=time.time() + _LEASE))

    def _done(self, row: Any) -> str:
        """Run a job to its end; the sha256 of its certificate."""
        self._go_on(row)
        wish, out = Wish.of(row.settings), self._out(row)
        source = self._folder(row.id, row.answer) / "input"
        payment = Payment(self._ledger, row.account, _charge_key(row.id))
        # A kill came after it.
        whole = certificate_path(out).is_file() and not state_path(out).exists() and out.exists()
        if wish.kind == "synthesize":
            if not whole:
                self._synthesize(row, wish, source, out, payment)
            self._go_on(row)
            found = read_certificate(certificate_path(out))
            stream = found.charged.stream if found.charged else None
            self._ledger.settle(row.account, _charge_key(row.id), stream_mark(stream or ""))
            return found.sha256
        if whole:
            return read_certificate(certificate_path(out)).sha256
        last = 0.0

        def tell(done: int) -> None:
            nonlocal last
            if time.monotonic() - last > _TELL:
                last = time.monotonic()
                self._store.write(JOBS.update().where(JOBS.c.id == row.id).values(done=done))
            if self._stop.is_set():
                raise LedgerError("The gateway is stopping.")
            self._go_on(row)

        plan = Plan(
            wish.fields,
            input_format=wish.format,
            delta=wish.delta,
            max_per_author=wish.max_per_author,
        )
        resume = _can_go_on(out, wish.format)
        plan = replace(plan, resume=resume, force=not resume)
        mechanism = self._models.loaded(row.model)
        return privatize_file(source, out, mechanism, plan=plan, payment=payment, on_progress=tell).sha256

    def _go_on(self, row: Any) -> None:
        if self._row(row.id).state == "cancelling":
            raise CancelledError("Cancelled.")

    def _synthesize(self, row: Any, wish: Wish, source: Path, out: Path, payment: Payment) -> None:
        spec = self._models.spec(row.model)
        if not isinstance(spec, SynthesisSpec):
            raise Problem(422, "no-synthesis", "This model answers each text: POST /v1/jobs.")
        pool = list(read_records(self._models.path(row.model) / POOL))
        for each in set(source.parent.iterdir()) - {source}:
            each.unlink()  # drawn by an attempt that was killed, and seen by nobody
        reading: Mapping[str, object] = {"format": wish.format}
        found = run(Private(source, wish.fields, dict(reading)), spec.fit(public=pool), payment=payment, settled=False)
        found.write(out, force=True)


def _touched(folder: Path) -> float:
    """When something was last written in a folder; 0 where it is gone."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return 0.0


def _charge_key(name: str) -> str:
    return f"gateway job {name}"


def _can_go_on(out: Path, kind: Format) -> bool:
    """Whether an unfinished run lies there that can be gone on with; else it begins anew, under the same charge."""
    with contextlib.suppress(DPTextError):
        state = State.load(state_path(out))
        return kind in APPENDABLE or bool(state.certificate)
    return False
