"""From a folder of shards to a folder of parts: each record has one visible output, and the run is charged once.

    dptext.privatize_dataset("private/", "out/", mechanism, workers=8)

Of the workers that try a part, one publishes it; see `targets`. The parts of a folder lie in a hidden folder of this
run until all are there, so that neither names nor times of writing tell which took long.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from dptext import _validate
from dptext.batch.engines import Engine, Here, Processes
from dptext.batch.ray_engine import Ray
from dptext.batch.shards import Shard, is_remote, shards_of
from dptext.batch.state import State, StateFolder
from dptext.batch.targets import Folder, Objects, Target, filled, probe
from dptext.batch.work import Job, Part
from dptext.errors import ConfigError, DataError, DPTextError, LedgerError
from dptext.mechanism import Mechanism, settings
from dptext.runs.certificate import READING, Certificate, certificate_path
from dptext.runs.dataset import MANIFEST, Manifest
from dptext.runs.dataset import Part as Listed
from dptext.runs.files import Agreed, agreed
from dptext.runs.plan import Plan, run_digest
from dptext.sampling.source import Randomness, secure, seeded
from dptext.text.files import refuse_existing, share, writing
from dptext.text.formats import READ_ONLY, Format, detect_format, is_compressed, output_format

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.privacy.guarantee import Guarantee
    from dptext.runs.payment import Due, Payment

#: Records of a part.
PART_SIZE: Final = 10_000
_TASKS_A_WORKER: Final = 4
_CLAIM: Final = "unfinished.json"  # of an object store: whose run is writing there
_CERTIFICATE: Final = certificate_path(Path(MANIFEST)).name
_SUFFIX: Final = {Format.TEXT: ".txt"}
_TIMES: Final = "when each file was written, which an object store shows: it follows from how long the texts are"


#: Told "reading" or "privatizing", how many records are done, and of how many.
Progress = Callable[[str, int, int | None], None]
#: Told a file, how many of its records were skipped, and why.
Skip = Callable[[str, int, str], None]


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work.

    Attributes:
        engine: "local", processes of this computer, or "ray".
        n: how many workers; 0 takes one for each processor.
        memory: bytes that a worker needs: fewer start where there is not as much; 0 asks nothing.
        address: of the Ray cluster, as `ray.init` takes it.
    """

    engine: str = "local"
    n: int = 0
    memory: int = 0
    address: str | None = None

    def __post_init__(self) -> None:
        _validate.one_of(("local", "ray"), engine=self.engine)
        _validate.not_negative(workers=self.n, memory=self.memory)

    def made(self) -> tuple[Engine, int]:
        """The engine, and how many workers it has."""
        n = self.n or len(os.sched_getaffinity(0))
        if self.engine == "ray":
            return Ray(n, self.memory, self.address), n
        if self.memory:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
            if free < self.memory:
                raise ConfigError(f"Expected {self.memory:,} bytes of memory for a worker, found {free:,} free.")
            n = min(n, free // self.memory)
        return (Processes(n) if n > 1 else Here()), n


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """Public settings of a run over many files, besides those of `Plan`.

    Attributes:
        part_size: records of a part of the output, but the last.
        keep_shards: one part for each file of the input, under its name; the names and the numbers of records leave.
        workers: who does the work.
        storage_options: of fsspec, for URLs; not shown, as they may hold secrets.
        state: folder for what a run needs to go on; default: hidden, beside the target, or here where that is a URL.
    """

    part_size: int = PART_SIZE
    keep_shards: bool = False
    workers: Workers = field(default_factory=Workers)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: Path | None = None

    def __post_init__(self) -> None:
        _validate.count(part_size=self.part_size)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a run would do: so many records, these guarantees, and what would be paid, if anything."""

    records: int
    promised: tuple[Guarantee, ...]
    due: Due | None


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

    The input is read twice: first it is counted and hashed, then, after the charge, privatized. Text that changes
    between is refused. After a kill `plan.resume` goes on; neither a kill nor a task that is done twice gives a record
    two visible outputs, or charges twice.

    Args:
        source: a folder, a glob, a file, a folder of `Dataset.save_to_disk`, or a URL of fsspec.
        target: the new folder, or a URL.
        mechanism: a fitted mechanism.
        plan: as of `privatize_file`; ids are unique over all files, and `max_per_author` counts over all of them.
        dataset: parts, workers, and where files lie.
        seed: for experiments: voids the guarantee.
        payment: as of `privatize_file`.
        on_progress: called with "reading" or "privatizing", the number of records done, and of how many.
        on_skip: called after the reading with a file, a number of records, and why these were skipped.

    Returns:
        The certificate, which speaks of `manifest.json`; `dptext explain FOLDER` verifies it.

    Raises:
        As `privatize_file`; DPTextError also where workers die again and again: `plan.resume` goes on.
    """
    run = _prepared(source, target, mechanism, plan or Plan(), dataset or DatasetPlan(), seed, payment)
    return run.go(on_progress or (lambda *_: None), on_skip or (lambda *_: None))


def rehearse_dataset(
    source: str | Path,
    target: str | Path,
    mechanism: Mechanism[str],
    *,
    plan: Plan,
    dataset: DatasetPlan,
    seed: int | None = None,
    payment: Payment | None = None,
) -> Rehearsed:
    """Check and read what `privatize_dataset` would, with the same errors; nothing is drawn, charged or kept."""
    run = _prepared(source, target, mechanism, plan, dataset, seed, payment)
    run.check_target()
    job, due = run.job(secrets.token_bytes(32), "rehearsal"), run.terms.due
    surveyed = [replace(job.survey(i), ids=b"", authors=b"") for i in range(len(run.shards))]
    if due is not None:
        named = None if plan.fields.subject is None else job.subjects(found.hashes for found in surveyed)
        due.weigh(due.payment.key, named)
    return Rehearsed(sum(found.records for found in surveyed), run.terms.promised, due)


def _prepared(
    source: str | Path,
    target: str | Path,
    mechanism: Mechanism[str],
    plan: Plan,
    dataset: DatasetPlan,
    seed: int | None,
    payment: Payment | None,
) -> _Run:
    """The run, its settings checked."""
    shards = shards_of(source, format=plan.input_format, options=dataset.storage_options)
    kind, compressed = _written_as(shards, plan)
    terms = agreed(mechanism, plan, _randomness(seed), payment, kind, (_TIMES,) if is_remote(str(target)) else ())
    engine, n = dataset.workers.made()
    if str(target).startswith("memory://") and not isinstance(engine, Here):
        raise ConfigError("Expected one local worker with memory://, which is in the memory of one process.")
    return _Run(shards, str(target), mechanism, plan, dataset, seed, payment, kind, compressed, terms, engine, n)


def _randomness(seed: int | None) -> Randomness:
    return secure() if seed is None else seeded(seed)


def _written_as(shards: Sequence[Shard], plan: Plan) -> tuple[Format, bool]:
    """The format of the parts, and whether they are gzipped: as is said, or as the input is."""
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
class _Run:
    shards: tuple[Shard, ...]
    where: str
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

    @property
    def _state(self) -> StateFolder:
        if self.dataset.state is not None:
            return StateFolder(self.dataset.state)
        name = PurePosixPath(self.where.rstrip("/")).name
        folder = Path() if is_remote(self.where) else Path(self.where).parent
        return StateFolder(folder / f".{name}.run")

    def _target(self, token: str) -> Target:
        if is_remote(self.where):
            return Objects(f"{self.where.rstrip('/')}/{token}", self.dataset.storage_options)
        return Folder(self._state.path / token)

    @property
    def _whole(self) -> Objects:
        return Objects(self.where, self.dataset.storage_options)

    def job(self, key: bytes, token: str) -> Job:
        """What the workers know."""
        return Job(
            self.shards,
            self.plan,
            self.mechanism,
            self._target(token),
            self.kind,
            self.terms.columns,
            self.compressed,
            key,
            self.seed,
            self.dataset.storage_options,
        )

    def check_target(self) -> None:
        """Refuse (ConfigError) a target that cannot be written, or that is there and is not to be replaced."""
        if is_remote(self.where):
            if not self.plan.force and not self.plan.resume and MANIFEST in self._whole.names():
                raise ConfigError(f"Expected no data set at {self.where} yet: replace it with --force.")
            return
        path = Path(self.where)
        for shard in self.shards:
            if not is_remote(shard.where) and path.resolve() in (
                Path(shard.where).resolve(),
                *Path(shard.where).resolve().parents,
            ):
                raise ConfigError(f"Expected {self.where!r} to be no folder of the input. Choose another.")
        if not path.parent.is_dir():
            raise ConfigError(f"Expected a folder for {self.where!r}: there is no {str(path.parent)!r}.")
        free = not path.exists() or (path.is_dir() and not any(path.iterdir()))
        if free or self.plan.resume:
            return
        if not self.plan.force:
            refuse_existing(path)
        if not (path / MANIFEST).is_file():
            raise ConfigError(f"Expected {self.where!r} to be a data set of dptext, which --force replaces: it is not.")

    def go(self, on_progress: Progress, on_skip: Skip) -> Certificate:
        self.check_target()
        if self.plan.resume and not self._state.path.is_dir():
            raise ConfigError(
                f"There is no unfinished run to resume: {self._state.path} is absent. Run without --resume."
            )
        if not self.plan.resume and not self.plan.force and (self._state.path / "state.json").exists():
            raise ConfigError(f"An unfinished run lies at {self._state.path}: --resume goes on, --force begins anew.")
        with self._state.held():
            state = self._resumed() if self.plan.resume else self._begun()
            try:
                if not state.certificate:
                    state = self._work(state, on_progress, on_skip)
                return self._publish(state)
            except DPTextError as error:
                if isinstance(error, ConfigError) or type(error) is DPTextError:
                    raise  # a full disk can be mended, workers be given more memory, and the run resumed
                self._clean(state)
                raise

    # ------------------------------------------------------------------------------------------------ the state

    def _digest(self) -> str:
        base = run_digest(
            self.mechanism, self.plan, _randomness(self.seed), self.kind, self.payment, compressed=self.compressed
        )
        own = [
            base,
            self.dataset.part_size,
            self.dataset.keep_shards,
            [shard.where for shard in self.shards],
            self.where,
        ]
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()

    def _begun(self) -> State:
        earlier = None
        with contextlib.suppress(ConfigError):  # what cannot be read cannot be gone on with either
            earlier = self._state.load()
        if earlier is not None:
            self._forget(earlier)
        for path in self._state.path.glob("*.*"):
            path.unlink()
        state = State(
            secrets.token_hex(32),
            secrets.token_hex(8),
            self._digest(),
            charge_key="" if self.payment is None else self.payment.key or secrets.token_hex(16),
            force=self.plan.force,
        )
        if is_remote(self.where):
            self._claim(state.token)
        self._state.save(state)
        probe(self._target(state.token))
        return state

    def _claim(self, token: str) -> None:
        """Of two runs that write to one place, on two computers, one may."""
        whole = self._whole
        if self.plan.force:
            with contextlib.suppress(ConfigError, ValueError):
                self._delete(json.loads(whole.read(_CLAIM))["token"])
            whole.delete(_CLAIM)
        data = json.dumps({"token": token}).encode()
        if whole.publish(_CLAIM, filled(data)) != hashlib.sha256(data).hexdigest():
            raise ConfigError(f"An unfinished run of another computer lies at {self.where}: --force throws it away.")

    def _resumed(self) -> State:
        state = self._state.load()
        if state is None:
            raise ConfigError(f"Nothing of the run at {self._state.path} is done: begin anew with --force.")
        if state.settings != self._digest():
            raise ConfigError(
                "Expected the settings and files of the run to resume: these differ. Begin anew with --force."
            )
        if self.payment is not None and self.payment.key not in (None, state.charge_key):
            raise ConfigError(f"Expected the charge key of the run to resume, found {self.payment.key!r}.")
        return state

    def _delete(self, token: str) -> None:
        target = self._target(token)
        for name in target.names():
            target.delete(name)

    def _forget(self, state: State) -> None:
        """Delete the parts of a run that is thrown away."""
        with contextlib.suppress(FileNotFoundError):
            self._delete(state.token)

    def _clean(self, state: State) -> None:
        self._forget(state)
        if is_remote(self.where):
            self._whole.delete(_CLAIM)
        self._state.delete()

    # ------------------------------------------------------------------------------------------------- the work

    def _work(
        self,
        state: State,
        on_progress: Progress,
        on_skip: Skip,
    ) -> State:
        job = self.job(bytes.fromhex(state.key), state.token)
        counts = self._survey(job, on_progress, on_skip)
        also = self._also(counts)
        terms = agreed(self.mechanism, self.plan, _randomness(self.seed), self.payment, self.kind, also)
        charge = None
        if terms.due is not None:
            named = self.plan.fields.subject is not None
            hashes = (self._state.hashes(i) for i in range(len(self.shards)))
            try:
                charge = terms.due.charge(state.charge_key, job.subjects(hashes) if named else None)
            except LedgerError as error:
                raise LedgerError(f"{error} Go on with --resume: it finds the charge if it was written.") from None
        parts = self._parts(counts)
        digests = self._privatized(job, parts, counts, on_progress)
        manifest = Manifest(
            tuple(
                Listed(self._named(part.name, state.token), part.stop - part.start, digest)
                for part, digest in zip(parts, digests, strict=True)
            )
        ).to_json()
        certificate = Certificate(
            settings=settings(self.mechanism.spec),
            events=self.mechanism.spec.events(self.mechanism.spec.units[0]),
            guarantees=terms.promised,
            records=sum(counts),
            output=MANIFEST,
            sha256=hashlib.sha256(manifest.encode()).hexdigest(),
            digests=self.mechanism.digests,
            randomness="secure" if self.seed is None else "seeded",
            delta=self.plan.delta,
            max_per_author=self.plan.max_per_author,
            also_reveals=(*self.plan.reveals, *also),
            charged=None if charge is None or terms.due is None else terms.due.charged(charge),
            fields=terms.columns.renamed,
            reading=tuple(name for name in READING if self.plan.reading[name]),
        )
        sealed = replace(state, certificate=certificate.to_json(), manifest=manifest)
        self._state.save(sealed)
        return sealed

    def _named(self, name: str, token: str) -> str:
        return f"{token}/{name}" if is_remote(self.where) else name

    def _also(self, counts: Sequence[int]) -> tuple[str, ...]:
        """What leaves besides the plan's."""
        found = [_TIMES] if is_remote(self.where) else []
        if self.dataset.keep_shards:
            listed = ", ".join(f"{shard.name} {n}" for shard, n in zip(self.shards, counts, strict=True))
            found.append(f"the names of the files of the input and how many records each has ({listed})")
        return tuple(found)

    def _survey(self, job: Job, on_progress: Progress, on_skip: Skip) -> list[int]:
        """How many records each shard has; ids and authors are checked over all of them."""
        n, fields = len(self.shards), self.plan.fields
        todo = [i for i in range(n) if self._state.records(i) is None]
        done = sum(self._state.records(i) or 0 for i in range(n))
        for place, found in self.engine.answers(job, [("survey", (i,)) for i in todo]):
            self._state.keep(todo[place], found)
            for reason, skipped in found.skipped.items():
                on_skip(self.shards[todo[place]].name, skipped, reason)
            done += found.records
            on_progress("reading", done, None)
        if fields.id is not None and self._state.most("ids", n) > 1:
            raise DataError(f"Expected each id (field {fields.id!r}) once in all files: one comes twice.")
        most = self.plan.max_per_author
        if most is not None and self._state.most("authors", n) > most:
            raise DataError(f"Expected at most max_per_author={most} records of an author in all files: one has more.")
        return [self._state.records(i) or 0 for i in range(n)]

    def _parts(self, counts: Sequence[int]) -> list[Part]:
        ends = [0, *itertools.accumulate(counts)]
        suffix = _SUFFIX.get(self.kind, f".{self.kind}") + ".gz" * self.compressed
        if self.dataset.keep_shards:
            names = [_stem(shard.name) + suffix for shard in self.shards]
            if len(set(names)) < len(names):
                raise ConfigError("Expected files whose names differ without their extensions, with --keep-shards.")
            return [Part(name, ends[i], ends[i + 1]) for i, name in enumerate(names)]
        size, total = self.dataset.part_size, ends[-1]
        starts = range(0, total, size)
        return [Part(f"part-{i:06d}{suffix}", start, min(start + size, total)) for i, start in enumerate(starts)]

    def _privatized(
        self,
        job: Job,
        parts: Sequence[Part],
        counts: Sequence[int],
        on_progress: Progress,
    ) -> list[str]:
        """The sha256 of each part."""
        together = max(1, math.ceil(len(parts) / max(_TASKS_A_WORKER * self.workers, len(self.shards))))
        runs = [tuple(parts[i : i + together]) for i in range(0, len(parts), together)]
        firsts = [0, *itertools.accumulate(counts)]
        tasks = []
        for run in runs:
            start, stop = run[0].start, run[-1].stop
            sources = tuple(
                (i, firsts[i], self._state.hashes(i))
                for i in range(len(counts))
                if firsts[i] < stop and firsts[i + 1] > start
            )
            tasks.append(("privatize", (run, sources)))
        with _watching(job.target, parts, on_progress):
            found: dict[int, tuple[str, ...]] = dict(self.engine.answers(job, tasks))
        return [digest for place in range(len(runs)) for digest in found[place]]

    # ------------------------------------------------------------------------------------------------ publishing

    def _publish(self, state: State) -> Certificate:
        """Make the data set visible; a kill between any two steps is mended by --resume."""
        certificate = Certificate.from_json(state.certificate)
        if self.terms.due is not None:  # first, so that no second run can spend the same charge
            self.terms.due.settle(state.charge_key, certificate.sha256)
        if is_remote(self.where):
            self._publish_objects(state)
        else:
            self._publish_folder(state)
        self._state.delete()
        return certificate

    def _publish_objects(self, state: State) -> None:
        whole = self._whole
        if state.force and MANIFEST in whole.names():
            older = json.loads(whole.read(MANIFEST))
            if older != json.loads(state.manifest):
                whole.delete(MANIFEST)
                whole.delete(_CERTIFICATE)
                for part in older["parts"]:
                    whole.delete(str(part["name"]))
        for name, text in ((_CERTIFICATE, state.certificate), (MANIFEST, state.manifest)):
            data = text.encode()
            if whole.publish(name, filled(data)) != hashlib.sha256(data).hexdigest():
                raise ConfigError(f"Another data set has appeared at {self.where}: nothing of this one counts.")
        whole.delete(_CLAIM)

    def _publish_folder(self, state: State) -> None:
        folder, final = self._state.path / state.token, Path(self.where)
        if not folder.is_dir():  # a kill came after the renaming
            if not (final / MANIFEST).is_file() or (final / MANIFEST).read_text("utf-8") != state.manifest:
                raise ConfigError(f"{folder} is gone: nothing is released. Begin anew with --force.")
            return
        with writing(final):
            Folder(folder).sweep()
            for name, text in ((_CERTIFICATE, state.certificate), (MANIFEST, state.manifest)):
                (folder / name).unlink(missing_ok=True)
                Folder(folder).publish(name, filled(text.encode()))
            Manifest.read(folder / MANIFEST).check(folder)
            for path in [*folder.rglob("*"), folder]:
                if path.is_dir():
                    path.chmod(path.stat().st_mode | 0o055)
                else:
                    share(path)
            now = (folder / MANIFEST).stat().st_mtime
            for path in folder.rglob("*"):
                os.utime(path, (now, now))  # when each part was written follows from how long the texts are
            if final.exists() and any(final.iterdir()):
                if not state.force:
                    refuse_existing(final)
                final.rename(self._state.path / "replaced")
            folder.rename(final)  # replaces an empty folder only


def _stem(name: str) -> str:
    """The name without its extensions."""
    path = PurePosixPath(name)
    path = path.with_suffix("") if is_compressed(name) else path
    return path.with_suffix("").as_posix()


@contextlib.contextmanager
def _watching(target: Target, parts: Sequence[Part], on_progress: Progress, *, every: float = 1.0) -> Iterator[None]:
    """Tell how many records are visible, now and then: whoever published them."""
    sizes = {part.name: part.stop - part.start for part in parts}
    total, over = sum(sizes.values()), threading.Event()

    def watch() -> None:
        while not over.wait(every):
            with contextlib.suppress(OSError, ConfigError):
                on_progress("privatizing", sum(sizes.get(name, 0) for name in target.names()), total)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    on_progress("privatizing", total, total)
