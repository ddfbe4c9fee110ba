"""Runs from a folder of shards to a folder of parts: each record has one visible output, and the run is charged once.

    dptext.privatize_dataset("private/", "out/", mechanism, workers=8)

Several workers may try a part, and one publishes it; see `targets`. The parts lie in a hidden folder of the run until
all are written, so that neither names nor times of writing tell which parts took long.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import math
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dptext.batch.engines import LARGEST_PART, LEAST_PART, PARTS, DatasetPlan, Engine, Here, Progress, Skip
from dptext.batch.parts import OutputPart, names_of, numbered
from dptext.batch.places import ObjectStore, Place, StateFolder, place_at
from dptext.batch.shards import Shard, as_path, as_read, forms_of, is_remote, shards_of, types_of
from dptext.batch.surveys import Surveys
from dptext.batch.targets import Objects, Target, probe
from dptext.batch.work import Job
from dptext.errors import ConfigError, DataError, DPTextError, LedgerError
from dptext.mechanism import Mechanism
from dptext.runs.agreed import Agreed, agreed
from dptext.runs.certificate import MANIFEST, Certificate, Manifest, Part
from dptext.runs.plan import Plan
from dptext.runs.statements import stays_charged
from dptext.runs.states import FolderState, RunSettings, run_settings
from dptext.runs.streaming import typed
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.text.formats import READ_ONLY, Format, detect_format, is_compressed, output_format
from dptext.text.reading import require_records
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.ledger.entries import Charge
    from dptext.privacy.guarantee import Guarantee
    from dptext.runs.payment import Due, Payment

_TASKS_A_WORKER: Final = 4

_UNPUBLISHED: Final = " Where `budget log` has a charge without a release, --charge-key KEY pays with it."


def privatize_dataset(
    source: str | Path,
    target: str | Path,
    mechanism: Mechanism[str],
    *,
    plan: Plan | None = None,
    dataset: DatasetPlan | None = None,
    seed: int | None = None,
    payment: Payment | None = None,
    on_progress: Progress | None = None,
    on_skip: Skip | None = None,
) -> Certificate:
    """Privatize the records of many files into a folder of parts, with one certificate for all of them.

    The input is read twice: the first pass counts and hashes records, the second pass, after the charge, privatizes
    them. Text that changed in between is refused. After a kill `plan.resume` goes on. Neither a kill nor a task that is
    done twice gives a record two visible outputs or charges twice.

    Args:
        source: a folder, a glob, a file, a folder of `Dataset.save_to_disk`, or a URL of fsspec.
        target: the new folder, or a URL.
        mechanism: a fitted mechanism.
        plan: settings as in `privatize_file`. Ids must be unique over all files, and `max_per_author` holds over all.
        dataset: settings of parts, workers and storage.
        seed: seed of an experiment, which voids the guarantee; None draws from the operating system.
        payment: the account that is charged, as in `privatize_file`.
        on_progress: called with "reading" or "privatizing", the number of records done, and the number of all
            records, which is None while reading.
        on_skip: called after the reading of a file with its name, a number of skipped records, and the reason.

    Returns:
        The certificate of `manifest.json`, which names all parts; `dptext explain FOLDER` verifies it.

    Errors as `privatize_file`. DPTextError: workers died again and again; `plan.resume` goes on.
    """
    run = _prepared(source, target, mechanism, plan or Plan(), dataset or DatasetPlan(), seed, payment)
    return run.go(on_progress or (lambda *_: None), on_skip or (lambda *_: None))


def rehearse_dataset(
    source: str | Path, target: str | Path, mechanism: Mechanism[str], **how: Any
) -> tuple[int, tuple[Guarantee, ...], Due | None, int]:
    """Check and read the input as `privatize_dataset` does, and draw, charge and write nothing; see `rehearse`.

    `how` has the plan, dataset, seed and payment of `privatize_dataset`, all of them.
    """
    run = _prepared(source, target, mechanism, **how)
    run.check()
    job, due = run.job(secrets.token_bytes(32), "rehearsal"), run.terms.due
    surveyed = [replace(job.survey(i), ids=b"", authors=b"") for i in range(len(run.shards))]
    if due is not None:
        named = None if run.plan.fields.subject is None else job.subjects(found.hashes for found in surveyed)
        due = due if due.weigh(due.payment.key, named) else None
    require_records(n := sum(found.records for found in surveyed), source)
    return n, run.terms.statement.guarantees, due, sum(map(job.labelled, range(len(run.shards))))


def _prepared(
    source: str | Path,
    target: str | Path,
    mechanism: Mechanism[str],
    plan: Plan,
    dataset: DatasetPlan,
    seed: int | None,
    payment: Payment | None,
) -> _FolderRun:
    source, target = as_path(str(source)), as_path(str(target))
    if not is_remote(source) and not is_remote(target) and Path(source).is_dir():
        inside = Path(target).resolve()
        if Path(source).resolve() in (inside, *inside.parents):
            raise ConfigError(f"Expected {str(target)!r} outside of the input, {str(source)!r}: it would be read, too.")
    shards = shards_of(source, format=plan.input_format, options=dataset.storage_options)
    plan = as_read(source, shards, plan)
    kind, compressed = _written_as(shards, plan)
    place = place_at(str(target), dataset.storage_options)
    terms = agreed(mechanism, plan, _randomness(seed), payment, kind, place.reveals, forms_of(shards, plan))
    terms = replace(terms, columns=typed(terms.columns, types_of(shards, plan), mechanism.spec))
    if dataset.keep_shards:
        names_of(shards, kind, compressed=compressed)  # errors come before any input is read
    engine, n = dataset.workers.made()
    if str(target).startswith("memory://") and not isinstance(engine, Here):
        raise ConfigError("Expected one local worker with memory://, which is in the memory of one process.")
    state = StateFolder(dataset.state or place.default_state())
    return _FolderRun(shards, place, mechanism, plan, dataset, seed, payment, kind, compressed, terms, engine, n, state)


def _randomness(seed: int | None) -> Randomness:
    return secure() if seed is None else seeded(seed)


def _written_as(shards: Sequence[Shard], plan: Plan) -> tuple[Format, bool]:
    """Return the format of the parts, and whether they are gzipped: by the plan, else as the input."""
    if plan.output_format is not None:
        return output_format(Path("part"), plan.output_format), False
    if shards[0].arrow:
        return Format.PARQUET, False
    kind = plan.input_format or detect_format(shards[0].name)
    alike = all(plan.input_format or detect_format(shard.name) == kind for shard in shards)
    if not alike or kind in READ_ONLY:
        raise ConfigError("Expected --output-format: the input has several formats, or one that is read only.")
    return kind, is_compressed(shards[0].name)


@dataclass(frozen=True, slots=True)
class _FolderRun:
    """A run from shards to a folder of parts: a survey of all shards, then parts by many workers in any order."""

    shards: tuple[Shard, ...]
    place: Place
    mechanism: Mechanism[str]
    plan: Plan
    dataset: DatasetPlan
    seed: int | None
    payment: Payment | None
    kind: Format
    compressed: bool
    terms: Agreed
    engine: Engine
    workers: int
    _state: StateFolder

    def job(self, key: bytes, token: str) -> Job:
        return Job(
            self.shards,
            self.plan,
            self.mechanism,
            self.place.parts(token, self._state.path),
            self.kind,
            self.terms.columns,
            self.compressed,
            key,
            self.seed,
            self.dataset.storage_options,
        )

    def check(self) -> None:
        self.place.check(self.shards, force=self.plan.force, resume=self.plan.resume)

    def go(self, on_progress: Progress, on_skip: Skip) -> Certificate:
        self.check()
        if self.plan.resume and not self._state.path.is_dir():
            if self.place.is_complete:
                raise ConfigError("There is no unfinished run to resume: the run that wrote this data set is complete.")
            absent = f"There is no unfinished run to resume, as {self._state.path} is absent: leave --resume out."
            raise ConfigError(f"{absent}{_UNPUBLISHED}" if self.payment is not None else absent)
        if not self.plan.resume and not self.plan.force and self._state.begun:
            with self._state.held():  # ConfigError: a run is writing there now
                pass
            raise ConfigError(
                f"An unfinished run lies at {self._state.path}: --resume goes on, --force begins anew{self._paid_anew}."
            )
        with self._state.held():
            state = self._resumed() if self.plan.resume else self._begun()
            try:
                if not state.certificate:
                    with self.engine.kept() as engine:
                        state = self._work(engine, state, on_progress, on_skip)
                return self._publish(state)
            except DPTextError as error:
                if type(error) is DPTextError:  # a run resumed with more memory may end well
                    raise DPTextError(f"{error} What is done stays: --resume goes on.") from None
                if isinstance(error, ConfigError):
                    raise  # the run can be resumed, such as after a full disk
                self._throw_away(state)
                raise

    @property
    def _paid_anew(self) -> str:
        return "" if self.payment is None else ", which is charged anew"

    def _throw_away(self, state: FolderState) -> None:
        self.place.forget(state.token, self._state.path)
        self._state.delete()

    def _settings(self) -> RunSettings:
        of, many = self.mechanism, self.dataset
        own: dict[str, Json] = {
            "kind": str(self.kind),
            "compressed": self.compressed,
            "part_size": many.part_size,
            "keep_shards": many.keep_shards,
            "source": [shard.where for shard in self.shards],
            "target": getattr(self.place, "url", ""),
        }
        return run_settings(of.spec, of.digests, self.plan, _randomness(self.seed), self.payment, **own)

    def _begun(self) -> FolderState:
        earlier = None
        with contextlib.suppress(ConfigError):  # an unreadable state cannot be resumed
            earlier = self._state.load()
        if earlier is not None:
            earlier.refuse_paid(None if self.payment is None else self.payment.key)
            self.place.forget(earlier.token, self._state.path)
        self._state.clear()
        charge_key = "" if self.payment is None else self.payment.charge_key()
        settings = self._settings()
        state = FolderState(
            settings=settings.sha256,
            named=settings.named,
            charge_key=charge_key,
            force=self.plan.force,
            key=secrets.token_hex(32),
            token=secrets.token_hex(8),
        )
        self.place.claim(state.token, force=self.plan.force)
        self._state.save(state)
        return state

    def _resumed(self) -> FolderState:
        state = self._state.load()
        if state is None:
            raise ConfigError(
                f"Nothing of the run at {self._state.path} is done: begin anew with --force{self._paid_anew}."
            )
        state.require_same(self._settings(), None if self.payment is None else self.payment.key)
        return state

    def _work(self, engine: Engine, state: FolderState, on_progress: Progress, on_skip: Skip) -> FolderState:
        job = self.job(bytes.fromhex(state.key), state.token)
        try:
            self._try_publishing(job.target)
            surveys, also = self._survey(engine, job, on_progress, on_skip), self.place.reveals
            counts = [surveys.records[i] for i in range(len(self.shards))]
            require_records(sum(counts), "the input")
            if self.dataset.keep_shards:
                listed = ", ".join(f"{shard.name} {n}" for shard, n in zip(self.shards, counts, strict=True))
                also += (f"the names of the files of the input and how many records each has ({listed})",)
            parts = self._parts(counts)
            source, forms = _randomness(self.seed), self.terms.statement.forms
            terms = agreed(self.mechanism, self.plan, source, self.payment, self.kind, also, forms)
            job.target.prepare(part.name for part in parts)
            charge = self._charge(job, terms, state, surveys)
        except ConfigError as error:
            if not self.plan.resume and not (isinstance(error, LedgerError) and error.unsure):
                self._throw_away(state)  # nothing was charged and nothing drawn
            raise
        try:
            digests = self._privatized(engine, job, parts, counts, surveys, on_progress)
        except DataError as error:  # a file changed: what was drawn is thrown away, and the charge is not
            if charge is not None and self.payment is not None and self.payment.key is None:
                error.args = (f"{error} The unfinished run is removed. {stays_charged(charge.key)}",)
            raise
        sums = zip(parts, digests, strict=True)
        made = (Part(self.place.named(part.name, state.token), part.size, digest) for part, digest in sums)
        manifest = Manifest(tuple(made)).to_json()
        certificate = terms.certificate(MANIFEST, hashlib.sha256(manifest.encode()).hexdigest(), sum(counts), charge)
        sealed = replace(state, certificate=certificate.to_json(), manifest=manifest)
        self._state.save(sealed)
        return sealed

    def _try_publishing(self, target: Target) -> None:
        """Raise ConfigError before the charge if publishing would fail after the charge."""
        target.prepare(())
        probe(target)
        self.place.try_publishing(self._state.path)
        if self.dataset.keep_shards:
            target.try_names(names_of(self.shards, self.kind, compressed=self.compressed))

    def _charge(self, job: Job, terms: Agreed, state: FolderState, surveys: Surveys) -> Charge | None:
        """Pay before the first draw. A resumed run finds its charge by the key in its state."""
        due = terms.due
        if due is None:
            return None
        hashes = (surveys.hashes[i] for i in range(len(self.shards)))
        named = job.subjects(hashes) if self.plan.fields.subject else None
        return due.charge_run(state.charge_key, named, resumed=self.plan.resume)

    def _survey(self, engine: Engine, job: Job, on_progress: Progress, on_skip: Skip) -> Surveys:
        surveys, fields = Surveys.at(self._state.path), self.plan.fields
        todo = [i for i in range(len(self.shards)) if i not in surveys.records]
        done = sum(surveys.records.values())
        for place, found in engine.answers(job, [("survey", (i,)) for i in todo]):
            surveys.keep(todo[place], found)
            for reason, skipped in found.skipped.items():
                on_skip(self.shards[todo[place]].name, skipped, reason)
            done += found.records
            on_progress("reading", done, None)
        surveys.write()
        if fields.id is not None and surveys.most("ids") > 1:
            raise DataError(f"Expected each id (field {fields.id!r}) once in all files: one comes twice.")
        most = self.plan.max_per_author
        if most is not None and surveys.most("authors") > most:
            raise DataError(f"Expected at most max_per_author={most} records of an author in all files: one has more.")
        return surveys

    def _parts(self, counts: Sequence[int]) -> list[OutputPart]:
        ends = [0, *itertools.accumulate(counts)]
        if self.dataset.keep_shards:
            names = names_of(self.shards, self.kind, compressed=self.compressed)
            return [OutputPart(name, ends[i], ends[i + 1]) for i, name in enumerate(names)]
        size = self.dataset.part_size or min(LARGEST_PART, max(LEAST_PART, math.ceil(ends[-1] / PARTS)))
        return numbered(ends[-1], size, self.kind, compressed=self.compressed)

    def _privatized(
        self,
        engine: Engine,
        job: Job,
        parts: Sequence[OutputPart],
        counts: Sequence[int],
        surveys: Surveys,
        on_progress: Progress,
    ) -> list[str]:
        together = max(1, math.ceil(len(parts) / max(_TASKS_A_WORKER * self.workers, len(self.shards))))
        runs = [tuple(parts[i : i + together]) for i in range(0, len(parts), together)]
        firsts = [0, *itertools.accumulate(counts)]
        tasks = []
        for run in runs:
            start, stop = run[0].start, run[-1].stop
            within = range(bisect.bisect_right(firsts, start) - 1, bisect.bisect_left(firsts, stop))
            sources = tuple((i, firsts[i], surveys.hashes[i]) for i in within if counts[i])
            tasks.append(("privatize", (run, sources)))
        with _watching(job.target, parts, on_progress):
            found: dict[int, tuple[str, ...]] = dict(engine.answers(job, tasks))
        return [digest for place in range(len(runs)) for digest in found[place]]

    def _publish(self, state: FolderState) -> Certificate:
        """Settle the charge and make the data set visible. After a kill between two steps, --resume goes on."""
        certificate = Certificate.from_json(state.certificate)
        self._refuse_what_came(state, certificate.sha256)
        if self.terms.due is not None:  # before publication: no second run can spend the same charge
            self.terms.due.settle(state.charge_key, certificate.sha256)
        self.place.publish(state, self._state.path)
        self._state.delete()
        return certificate

    def _refuse_what_came(self, state: FolderState, manifest: str) -> None:
        """Raise ConfigError if something else appeared at the place. `manifest` is the sha256 of our manifest."""
        if state.force:
            return
        if isinstance(self.place, ObjectStore):
            where = self.place.url
            came = Objects(where, self.place.options).sha256(MANIFEST) not in (None, manifest)
        else:
            where, came = str(self.place.path), False
            if (self._state.path / state.token).is_dir():  # else publishing has moved the data set, or a part of it
                try:
                    self.place.check(self.shards, force=False, resume=False)
                except ConfigError:
                    came = os.path.lexists(where)
        if came:
            raise state.something_came(where)


@contextlib.contextmanager
def _watching(target: Target, parts: Sequence[OutputPart], on_progress: Progress) -> Iterator[None]:
    """Report the number of visible records to `on_progress` from time to time, whichever worker published them."""
    sizes = {part.name: part.size for part in parts}
    total, over = sum(sizes.values()), threading.Event()

    def watch() -> None:
        pause = 1.0
        while not over.wait(pause):
            began = time.monotonic()
            done = None
            with contextlib.suppress(OSError, ConfigError):  # the next publication reports the fault
                done = sum(sizes.get(name, 0) for name in target.names())
            if done is not None:
                on_progress("privatizing", done, total)
            pause = max(1.0, 20 * (time.monotonic() - began))  # listing many or remote parts is slow

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    on_progress("privatizing", total, total)
