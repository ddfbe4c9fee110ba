"""The threads of a gateway: one runs jobs, with keys in turn; another deletes expired data, however long a job takes.

The id of a job is in the key of its charge. The run is `privatize_file`, which goes on after a kill and publishes once.
A killed synthesis begins anew under the same charge. Its files are complete before the charge is settled with them, and
nobody can read them before.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from dptext.errors import DataError, DPTextError, LedgerError, PrivacyError
from dptext.runs.certificate import Certificate, certificate_path, stream_mark
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.runs.states import state_path
from dptext.runs.synthesizing import run
from dptext.runs.verification import read_certificate
from dptext.text.files import held
from dptext.text.formats import Format
from dptext.text.forms import other_form
from dptext.text.reading import read_batches
from dptext_gateway.answers import StoredAnswers
from dptext_gateway.copies import Copies, copies_of
from dptext_gateway.job_files import WatchedCorpus, can_go_on, is_json_lines, packing, rows_of, without_names
from dptext_gateway.job_order import JobOrder
from dptext_gateway.jobs import Jobs, Wish, charge_key
from dptext_gateway.limits import NO_ROOM, Space, files, size_of
from dptext_gateway.metrics import span
from dptext_gateway.problems import NO_MODEL, BrokenModelError, Problem, in_words_of_the_api, problem_of
from dptext_gateway.store import JOBS, KEYS, OPEN, Event
from dptext_gateway.sweeping import Sweeper

_LOG: Final = logging.getLogger("dptext_gateway")
PROGRESS_SECONDS: Final = 1.0  # seconds between checks of a job's size; progress is written to its row then
PAUSE_SECONDS: Final = 1.0  # seconds until an idle thread looks for a job, and a failed thread goes on
RETRY_SECONDS: Final = 5.0  # seconds until a job that waits is tried again
SWEEP_SECONDS: Final = 60.0  # seconds from one sweep to the next
_STARTS: Final = 3  # most starts that end with the process and make no progress
_LONGEST_PAUSE: Final = 3_600.0  # seconds between two starts of a paid job whose process dies each time
_LOCK: Final = "lock"
_NO_MODEL: Final = "Its model is gone or was replaced: it waits for the one that it was charged for."
_NOT_JSON: Final = "The file is not JSON Lines: set format=csv or format=parquet; the page reads the end of its name."
_UNTOLD: Final = "It failed ({}). The key that sent the file is told why."
STOP_SECONDS: Final = 10.0  # seconds for which a stop waits for each thread


class EndedError(PrivacyError):
    """The job was cancelled, or passed a limit."""


class Worker:
    """The runner of the jobs whose files are in this spool, one job at a time."""

    def __init__(self, jobs: Jobs, answers: StoredAnswers) -> None:
        self._jobs = jobs
        self._settings, self._store = jobs.settings, jobs.store
        self._space = Space(jobs.settings, jobs.store)
        self._sweeper = Sweeper(jobs, answers)
        self._lock, self._claimed = contextlib.ExitStack(), False
        self._stop, self._wake = threading.Event(), threading.Event()
        threads = (("jobs", self._serve), ("sweeps", self._tidy))
        self._threads = [threading.Thread(target=each, name=name, daemon=True) for name, each in threads]
        self._order = JobOrder()
        self._told = 0  # finished records of the job at hand
        self._at_hand = ""  # its id
        self._reasons = dict[str, str]()  # of the last failure of each thread

    def claim(self) -> None:
        """Lock the spool for this gateway, once. ConfigError: another gateway has it."""
        if self._claimed:
            return
        spool = self._settings.spool
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        spool.chmod(0o700)
        self._lock.enter_context(held(spool / _LOCK, f"Another gateway uses the spool {spool}: give each its own."))
        self._jobs.take_spool()
        self._claimed = True

    def start(self) -> None:
        """Begin to run jobs, first the jobs that a kill interrupted. ConfigError: another gateway has this spool."""
        self.claim()
        for left in self._settings.spool.glob("upload-*"):  # left by a kill: no other gateway uses this spool
            shutil.rmtree(left, ignore_errors=True)
        self.sweep()
        for each in self._threads:
            each.start()

    @property
    def alive(self) -> bool:
        """Whether both threads run."""
        return all(each.is_alive() for each in self._threads)

    def wake(self) -> None:
        """Look for a job at once."""
        self._wake.set()

    def close(self) -> None:
        """Stop the job at hand, which goes on when the gateway starts again."""
        self._stop.set()
        self._wake.set()
        with contextlib.suppress(DPTextError):  # if the process ends before the job stops, the job is not the cause
            begun = JOBS.update().where(JOBS.c.id == self._at_hand, JOBS.c.starts > 0)
            self._store.write(begun.values(starts=JOBS.c.starts - 1))
        for each in self._threads:
            each.join(timeout=STOP_SECONDS)
        if not any(each.is_alive() for each in self._threads):  # else the end of the process releases the lock
            self._lock.close()

    def sweep(self) -> None:
        """Delete expired data, as `Sweeper.sweep` does."""
        self._sweeper.sweep()

    def _tidy(self) -> None:
        while not self._stop.wait(SWEEP_SECONDS):
            try:
                self.sweep()
                self._reasons.pop("of sweeps", None)
            except Exception as error:  # noqa: BLE001  # whatever it is, it goes on
                self._failed("of sweeps", error)

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                some = self._one()
                self._reasons.pop("of jobs", None)
                if not some:
                    self._wake.wait(PAUSE_SECONDS)
                    self._wake.clear()
            except Exception as error:  # noqa: BLE001  # as above
                self._failed("of jobs", error)
                self._stop.wait(PAUSE_SECONDS)

    def _failed(self, which: str, error: Exception) -> None:
        """Say in the log, once for each reason, that a thread could not do its work."""
        reason = error.detail if isinstance(error, Problem) else type(error).__name__
        if self._reasons.get(which) != reason:
            _LOG.error("The thread %s failed, and goes on: %s", which, reason)
        self._reasons[which] = reason

    def _one(self) -> bool:
        """Run one job whose file is in this spool, if there is any. Problem: the spool is gone or was replaced."""
        self._jobs.require_spool()
        now = time.time()
        # After a clock went back, stored times can be later than any time given now.
        free = sa.or_(JOBS.c.not_before < now, JOBS.c.not_before > now + RETRY_SECONDS)
        waiting = sa.select(JOBS).where(JOBS.c.state.in_(OPEN), free).order_by(JOBS.c.created)
        for row in self._order.of(self._store.rows(waiting)):
            if not (self._jobs.mine(row) and self._jobs.folder(row).is_dir()) or self._pauses(row, now):
                continue
            mine = JOBS.update().where(
                JOBS.c.id == row.id, JOBS.c.spool_id.is_not_distinct_from(row.spool_id), JOBS.c.state == row.state
            )
            state = "cancelling" if row.state == "cancelling" else "running"
            taken = {
                "state": state,
                "spool_id": self._jobs.own,
                "not_before": now,
                "starts": row.starts + 1,
                "problem": None,
            }
            if self._store.write(mine.values(**taken)):
                self._order.runs(row)
                self._run(row)
                return True
        return False

    def _pauses(self, row: Any, now: float) -> bool:
        """Whether a job whose process died in several starts waits before its next start."""
        starts: int = row.starts
        pause = min(RETRY_SECONDS * 2.0 ** min(starts - _STARTS, 10), _LONGEST_PAUSE)
        return starts >= _STARTS and row.state == "running" and bool(0 <= now - row.not_before < pause)

    def _run(self, row: Any) -> None:
        problem, others, certificate, self._told, self._at_hand = None, None, None, row.records_done, row.id
        try:
            with span("job", model=row.model, kind=row.kind):
                certificate = self._done(row)
        except Exception as error:  # noqa: BLE001  # from any code that reads a text: the message could hold the text
            if (waits := self._waits(error, row)) is not None:
                self._put_off(row, waits)
                return
            problem = self._said(error, row)
            others = problem if isinstance(error, EndedError) else _UNTOLD.format(_kind(error))
        if certificate:
            (self._jobs.folder(row) / "input").unlink(missing_ok=True)
            paid = certificate.charged.number if certificate.charged else None
            if self._ended(row, "running", "done", None, paid, certificate.sha256):
                return
        number, charge = self._jobs.charge_of(row)
        said = f"{problem or 'Cancelled.'} {charge}", f"{others or 'Cancelled.'} {charge}"
        if self._ended(row, "cancelling", "cancelled", said, number) or self._ended(
            row, "running", "failed", said, number
        ):
            self._jobs.delete(row)

    def _waits(self, error: BaseException | None, row: Any) -> str | None:
        """Return why a job is tried again later, under the same charge ("" for the ledger); None if the job ends."""
        if isinstance(error, LedgerError):
            return ""
        if isinstance(error, Problem) and error.status == 503:
            return error.detail
        without = isinstance(error, BrokenModelError) or (isinstance(error, Problem) and error.kind == NO_MODEL)
        if without and self._jobs.paid(row):
            return _NO_MODEL
        while error is not None:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                return f"The disk is full. {NO_ROOM}"
            error = error.__cause__ or error.__context__
        return None

    def _put_off(self, row: Any, why: str) -> None:
        """Queue a job again, for a while later, unless it is being cancelled."""
        if why and why != row.problem:
            _LOG.error("A job waits: %s", why)
        again = JOBS.update().where(JOBS.c.id == row.id)
        later = again.values(not_before=time.time() + RETRY_SECONDS, starts=0, problem=why or None)
        self._store.write(later, again.where(JOBS.c.state == "running").values(state="queued"))

    def _ended(
        self,
        row: Any,
        before: str,
        state: str,
        problems: tuple[str, str] | None,
        charge: int | None,
        sha256: str | None = None,
    ) -> bool:
        """End a job of this spool that was in the state `before`; return whether it was.

        The first of the problems is for the key that sent the file, the second for other keys.
        """
        problem, others = problems or (None, None)
        mine = JOBS.update().where(JOBS.c.id == row.id, JOBS.c.spool_id == self._jobs.own, JOBS.c.state == before)
        named = self._store.one(sa.select(KEYS.c.name).where(KEYS.c.prefix == row.prefix))
        who = f"{named.name if named else 'server'} ({row.prefix})"
        said = Event(who, f"job {state}", row.account, row.model, charge, sha256)
        return self._store.change(
            mine.values(**self._jobs.ended(state, problem, sha256, others), records_done=self._told), said
        )

    def _said(self, error: Exception, row: Any) -> str:
        """Return an error in words of the API, without names in the file and its path."""
        if isinstance(error, Problem):
            return error.detail
        if not isinstance(error, DPTextError):
            return f"It failed with {type(error).__name__}."
        said = in_words_of_the_api(str(error).replace(str(self._jobs.folder(row) / "input"), "the file"))
        if isinstance(error, DataError):
            return without_names(said, Wish.of(row.settings))
        paths = (self._settings.spool, self._settings.models)
        return f"It failed with {type(error).__name__}." if any(str(each) in said for each in paths) else said

    def _done(self, row: Any) -> Certificate:
        """Run a job to its end, and give its certificate."""
        self._go_on(row)
        wish, out = Wish.of(row.settings), self._jobs.out(row)
        source = self._jobs.folder(row) / "input"
        payment = Payment(self._jobs.ledger, row.account, charge_key(row.id))
        # A kill came after the result was complete.
        whole = certificate_path(out).is_file() and not state_path(out).exists() and out.exists()
        if not whole and row.starts >= _STARTS and not self._jobs.paid(row):
            raise EndedError(f"The gateway died each time in {_STARTS} starts of this job: it is given up.")
        if not whole:
            self._require(row, wish, source)
        tell = self._watch(row)
        if wish.kind == "synthesize":
            if not whole:
                self._synthesize(row, wish, source, out, payment, tell)
            self._go_on(row)
            found = read_certificate(certificate_path(out))
            stream = found.charged.stream if found.charged else None
            self._jobs.ledger.settle(row.account, charge_key(row.id), stream_mark(stream or ""))
            return found
        if whole:
            return read_certificate(certificate_path(out))
        plan = Plan(
            wish.fields,
            input_format=wish.format,
            delta=wish.delta,
            max_per_author=wish.max_per_author,
        )
        resume = can_go_on(out, wish.format)
        if not resume:
            self._read(wish, source, tell, copies_of(self._jobs.ledger.account(row.account).limit))
        plan = replace(plan, resume=resume, force=not resume)
        mechanism = self._jobs.models.loaded(row.model)
        return privatize_file(source, out, mechanism, plan=plan, payment=payment, on_progress=tell)

    def _require(self, row: Any, wish: Wish, source: Path) -> None:
        """Refuse what cannot be done, before anything is charged."""
        if row.model_mark not in (None, self._jobs.models.mark(row.model)):
            raise BrokenModelError("The model of this job was replaced since its file came.")
        if not self._jobs.whole(row):
            raise EndedError("The file is damaged: send it again, under another Idempotency-Key.")
        if found := packing(source):
            raise EndedError(f"The file is packed with {found}: send it unpacked.")
        if wish.format is Format.JSONL and not is_json_lines(source):
            raise EndedError(_NOT_JSON)
        if (said := other_form(source, wish.format, None)) is not None:
            raise EndedError(said.replace("its name or ", "").replace("--format", "format"))
        if not row.not_before:  # it begins
            self._room(row)
        if wish.format is Format.PARQUET:  # a few bytes can hold any number of rows
            self._require_few(rows_of(source))

    def _how(self, wish: Wish) -> dict[str, Any]:
        return {"format": wish.format, "max_characters": self._settings.max_characters}

    def _read(self, wish: Wish, source: Path, tell: Callable[[int], None], copies: Copies | None) -> None:
        """Read the whole file before anything is charged: an unreadable file costs nothing."""
        seen = 0
        with contextlib.closing(read_batches(source, wish.fields, **self._how(wish))) as batches:
            for batch in batches:
                seen += len(batch)
                self._require_few(seen)
                if copies:
                    copies.add(batch.texts)
                tell(0)
        if copies:
            copies.require_none("record {}", 1)

    def _room(self, row: Any) -> None:
        """Raise a Problem of status 503 if a job has to wait for room, an EndedError if there will never be room."""
        most = self._settings.spool_bytes_of_key
        if size_of(*files(self._jobs.folder(row))) > most:
            raise EndedError(f"Expected at most {most:,} bytes of a job with what comes of it.")
        self._space.measure()
        self._space.room()
        try:
            self._space.require(row.prefix)
        except Problem:
            raise Problem(503, "quota", "Other files of its key have the room: it waits.") from None

    def _require_few(self, records: int) -> None:
        if records > (most := self._settings.max_job_records):
            raise EndedError(f"Expected at most {most:,} records of a job.")

    def _watch(self, row: Any) -> Callable[[int], None]:
        """Return a function that takes the number of finished records, and raises if the job may not go on."""
        last, end = 0.0, time.monotonic() + self._settings.job_seconds

        def tell(done: int) -> None:
            nonlocal last
            if self._stop.is_set():
                raise LedgerError("The gateway is stopping.")
            self._go_on(row)
            self._require_few(done)
            if row.kind != "synthesize":  # progress of a corpus is not shown
                self._told = max(self._told, done)
            if time.monotonic() > end:
                raise EndedError(f"The job ran longer than {self._settings.job_seconds:,.0f} seconds.")
            if done and time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                self._room(row)
                if row.kind != "synthesize":
                    further = JOBS.update().where(JOBS.c.id == row.id, JOBS.c.records_done < done)
                    self._store.write(further.values(records_done=done, starts=0))

        return tell

    def _go_on(self, row: Any) -> None:
        if self._jobs.row(row.id).state == "cancelling":
            raise EndedError("Cancelled.")

    def _synthesize(
        self, row: Any, wish: Wish, source: Path, out: Path, payment: Payment, tell: Callable[[int], None]
    ) -> None:
        spec = self._jobs.models.synthesis(row.model)
        pool = self._jobs.models.pool(row.model)
        _remove_drawn(source)
        fields = replace(wish.fields, measured=spec.measured_fields)
        corpus = WatchedCorpus(source, fields, self._how(wish), tell)
        found = run(corpus, spec.fit(public=pool), payment=payment, settled=False)
        found.write(out, force=True)


def _remove_drawn(source: Path) -> None:
    """Delete files that a killed attempt has drawn; they lie beside the private file, and nobody has seen them."""
    for each in set(source.parent.iterdir()) - {source}:
        each.unlink()


def _kind(error: Exception) -> str:
    """Return the kind of a failure, which says nothing of the file's contents."""
    if not isinstance(error, Problem | DPTextError):
        return type(error).__name__
    return (error if isinstance(error, Problem) else problem_of(error)).kind
