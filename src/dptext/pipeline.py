"""The one use case: read private records, release privatized ones, say what was guaranteed.

`privatize` streams from records to releases. `privatize_file` goes from file to file: it writes to a
temporary file beside the target, survives being killed, resumes, and leaves a certificate beside the output.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import itertools
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from dptext import _validate, accounting
from dptext.certificate import Certificate, certificate_path, sha256_of
from dptext.errors import ConfigError, DataError, DPTextError, IncomparableError, NoGuaranteeError, PrivacyError
from dptext.formats import Format, file_error, file_format, is_compressed
from dptext.guarantee import Basis, Guarantee, Json, Unit
from dptext.mechanism import Mechanism, Spec, settings
from dptext.randomness import Randomness, secure
from dptext.records import Fields, OnError, Record, Release, batches, read_records
from dptext.releases import APPENDABLE, create_private, open_writer, publish, refuse_existing, release_columns

Output = TypeVar("Output")

BATCH_SIZE = 256
_BATCH_CHARACTERS = 4_000_000
SEEDED = "seeded: whoever knows the seed can undo the noise"


def guarantees(
    spec: Spec,
    *,
    randomness: Randomness,
    delta: float = 0.0,
    max_per_author: int | None = None,
    reveals: Sequence[str] = (),
) -> tuple[Guarantee, ...]:
    """What a release guarantees for each unit that can be stated, smallest first."""
    found = [spec.guarantee(unit, delta) for unit in spec.units]
    if max_per_author is not None:
        documents = [guarantee for guarantee in found if guarantee.unit is Unit.DOCUMENT]
        if not documents:
            raise IncomparableError(
                "Expected a mechanism with a guarantee per document when max_per_author is set: the guarantee of "
                f"{spec.kind} with these settings ends at the {spec.units[-1].value}."
            )
        found.append(accounting.for_author(documents[-1], max_per_author=max_per_author))
    found = [guarantee.revealing(*reveals) for guarantee in found]
    return tuple(found if randomness.is_secure else [guarantee.voided(SEEDED) for guarantee in found])


def _require_guarantee(spec: Spec, without_guarantee: bool) -> None:
    promised = spec.guarantee()
    if promised.basis is Basis.NONE and not without_guarantee:
        raise NoGuaranteeError(
            f"{spec.kind} guarantees nothing: {promised.reason}. To run it all the same, say so: "
            "without_guarantee=True, or --without-guarantee."
        )


def _limited(records: Iterable[Record], max_per_author: int) -> Iterator[Record]:
    """The records, ended by an error where an author has more than the maximum: nothing is silently dropped."""
    counts: dict[str, int] = {}
    for number, record in enumerate(records, start=1):
        if record.author is None:
            raise DataError(f"Record {number} has no author, which max_per_author={max_per_author} needs.")
        counts[record.author] = counts.get(record.author, 0) + 1
        if counts[record.author] > max_per_author:
            raise DataError(
                f"Record {number} is refused: its author has more than max_per_author={max_per_author} records."
            )
        yield record


def _batches(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    return batches(records, lambda record: len(record.text), size=size, characters=_BATCH_CHARACTERS)


def _release(batch: Sequence[Record], mechanism: Mechanism[Output], randomness: Randomness) -> list[Release[Output]]:
    released = list(mechanism.privatize(batch, randomness))
    if [release.id for release in released] != [record.id for record in batch]:
        raise PrivacyError("The mechanism did not answer each record with one release, in order: nothing is released.")
    return released


def privatize(
    records: Iterable[Record],
    mechanism: Mechanism[Output],
    *,
    randomness: Randomness | None = None,
    batch_size: int = BATCH_SIZE,
    max_per_author: int | None = None,
    without_guarantee: bool = False,
) -> Iterator[Release[Output]]:
    """Stream releases, one a record, in order; memory does not grow with the number of records.

    Args:
        records: private records.
        mechanism: a fitted mechanism.
        randomness: `randomness.secure()` by default; a seeded one voids the guarantee.
        batch_size: records a batch; changes speed only.
        max_per_author: refuse (DataError) the first record beyond this many of one author.
        without_guarantee: say that a mechanism of basis NONE is meant.

    Raises:
        NoGuaranteeError: the mechanism guarantees nothing and `without_guarantee` is not set.
        DataError: a record cannot be read, or an author has too many.
    """
    _validate.count(batch_size=batch_size)
    if max_per_author is not None:
        _validate.count(max_per_author=max_per_author)
        records = _limited(records, max_per_author)
    _require_guarantee(mechanism.spec, without_guarantee)
    return _stream(records, mechanism, randomness or secure(), batch_size)


def _stream(
    records: Iterable[Record], mechanism: Mechanism[Output], randomness: Randomness, batch_size: int
) -> Iterator[Release[Output]]:
    position = 0
    for batch in _batches(records, batch_size):
        yield from _release(batch, mechanism, randomness.at(position))
        position += len(batch)


@dataclass(frozen=True, slots=True)
class Plan:
    """Public settings of a run from file to file.

    Attributes:
        fields: names of the input fields; the kept ones are listed in `reveals`.
        input_format, output_format: None tells them by the extensions.
        on_error: what to do with a record that cannot be read.
        delta: at which guarantees are stated.
        max_per_author: see `privatize`.
        batch_size: records a batch, and between two marks to resume from.
        without_guarantee: see `privatize`.
        force: overwrite an output that is there, throw away an unfinished run.
        resume: go on with an unfinished run.
    """

    fields: Fields = field(default_factory=Fields)
    input_format: Format | None = None
    output_format: Format | None = None
    on_error: OnError = OnError.STOP
    delta: float = 0.0
    max_per_author: int | None = None
    batch_size: int = BATCH_SIZE
    without_guarantee: bool = False
    force: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        _validate.count(batch_size=self.batch_size)
        _validate.probability(delta=self.delta)
        if self.max_per_author is not None:
            _validate.count(max_per_author=self.max_per_author)
            if self.fields.author is None:
                raise ConfigError("Expected the name of the author field with max_per_author: --author-field NAME.")

    @property
    def reveals(self) -> tuple[str, ...]:
        """What leaves besides the text."""
        names = [f"the field {name!r}" for name in self.fields.keep]
        if self.fields.id is not None:
            names.insert(0, f"the ids (field {self.fields.id!r})")
        if self.on_error is OnError.SKIP:
            names.append("the number of skipped records")
        return ("the number of records", *names)


@dataclass(frozen=True, slots=True)
class _State:
    """Where an unfinished run stands; lies beside the target, readable by its owner only, until the run ends."""

    key: str  # of the HMAC of the input; deleted with this file at the end
    input: str
    settings: str
    records: int = 0
    bytes: int = 0
    force: bool = False  # whether an output that is there may be overwritten
    certificate: str = ""

    def save(self, path: Path) -> None:
        temporary = path.with_name(path.name + ".new")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        temporary.replace(path)

    @staticmethod
    def load(path: Path) -> _State:
        try:
            return _State(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            raise ConfigError(
                f"There is no unfinished run to resume: {path} is absent. Run without --resume."
            ) from None
        except (OSError, ValueError, TypeError):
            raise ConfigError(f"{path} cannot be read as the state of a run. Begin anew with --force.") from None


def _fingerprint(path: Path, key: str) -> str:
    """HMAC of the input's bytes: tells another input without leaving a digest of private text behind."""
    digest = hmac.new(bytes.fromhex(key), digestmod="sha256")
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        problem = file_error(path, "read", error)
    else:
        return digest.hexdigest()
    raise problem


def _run_digest(mechanism: Mechanism[str], plan: Plan, randomness: Randomness, kind: Format) -> str:
    fixed: dict[str, Json] = {
        "spec": settings(mechanism.spec),
        "digests": dict(mechanism.digests),
        "fields": json.dumps(asdict(plan.fields)),
        "formats": [str(plan.input_format), str(kind)],
        "on_error": str(plan.on_error),
        "delta": plan.delta,
        "max_per_author": plan.max_per_author,
        "randomness": randomness.fingerprint,
    }
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def privatize_file(
    source: Path,
    target: Path,
    mechanism: Mechanism[str],
    *,
    plan: Plan | None = None,
    randomness: Randomness | None = None,
    on_progress: Callable[[int], None] | None = None,
    on_skip: Callable[[int, str], None] | None = None,
) -> Certificate:
    """Privatize a file of records into a new file, with a certificate beside it.

    The target appears only when it is complete. After a kill, `plan.resume` goes on after the last whole batch
    that was marked; what an unfinished batch had written is cut away, so no record has two outputs.

    Args:
        source: the input file.
        target: the output file.
        mechanism: a fitted mechanism.
        plan: public settings of the run.
        randomness: `randomness.secure()` by default; a seeded one voids the guarantee.
        on_progress: called with the number of records done.
        on_skip: called with number and reason of a skipped record.

    Returns:
        The certificate, as written to `TARGET.guarantee.json`.

    Raises:
        ConfigError: a setting or file cannot be used; another input or other settings than those of the run to resume.
        DataError: a record cannot be read (nothing is left behind).
        NoGuaranteeError: the mechanism guarantees nothing and the plan does not say that this is meant.
    """
    plan = plan or Plan()
    randomness = randomness or secure()
    source, target = Path(source), Path(target)
    _require_guarantee(mechanism.spec, plan.without_guarantee)
    kind = file_format(target, plan.output_format)
    release_columns(kind, keep=plan.fields.keep)
    promised = guarantees(
        mechanism.spec,
        randomness=randomness,
        delta=plan.delta,
        max_per_author=plan.max_per_author,
        reveals=plan.reveals,
    )
    return _Run(source, target, kind, mechanism, plan, randomness, promised).go(
        on_progress or (lambda _: None), on_skip
    )


@dataclass(frozen=True, slots=True)
class _Run:
    source: Path
    target: Path
    kind: Format
    mechanism: Mechanism[str]
    plan: Plan
    randomness: Randomness
    promised: tuple[Guarantee, ...]

    @property
    def _part(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def _state(self) -> Path:
        return self.target.with_name(f".{self.target.name}.resume.json")

    def go(self, on_progress: Callable[[int], None], on_skip: Callable[[int, str], None] | None) -> Certificate:
        self._check_paths()
        records = read_records(
            self.source,
            self.plan.fields,
            format=self.plan.input_format,
            on_error=self.plan.on_error,
            on_skip=on_skip,
        )
        if self.plan.max_per_author is not None:
            records = _limited(records, self.plan.max_per_author)
        digest = _run_digest(self.mechanism, self.plan, self.randomness, self.kind)
        state = self._unfinished(digest) if self.plan.resume else self._begin(digest)
        if state.certificate:
            return self._publish(state)
        with self._opened() as file:
            try:
                state = self._write(file, records, state, on_progress)
                return self._publish(state)
            except DPTextError as error:
                if not isinstance(error, ConfigError):  # a full disk can be mended and the run resumed
                    self._clean()
                raise

    def _check_paths(self) -> None:
        try:
            str(self.target).encode()
        except UnicodeEncodeError:
            raise ConfigError("Expected an output path in UTF-8: the certificate names it.") from None
        longest = max(len(os.fsencode(path.name)) for path in (self._state, certificate_path(self.target)))
        if longest + len(".new.") > 255:
            raise ConfigError(
                f"Expected a shorter name than {self.target.name!r}: the files beside it get longer ones."
            )
        if self.target.resolve() == self.source.resolve():
            raise ConfigError(f"Expected another output than the input {self.source}.")
        if self.source.exists() and not self.source.is_dir() and not self.source.is_file():
            raise ConfigError(f"Expected a regular file, found {self.source}: the input is read twice.")
        if not self.plan.resume:
            for path in (self.target, certificate_path(self.target)):
                refuse_existing(path, force=self.plan.force)

    def _begin(self, digest: str) -> _State:
        if self._part.exists() or self._state.exists():
            if not self.plan.force:
                how = "go on with --resume, or begin" if self._state.exists() else "nothing of it is done: begin"
                raise ConfigError(f"An unfinished run lies beside {self.target}: {how} anew with --force.")
            if self._part.exists():
                with self._opened():  # refused while another run is writing it
                    self._clean()
            self._clean()
        key = secrets.token_hex(32)
        state = _State(key, _fingerprint(self.source, key), digest, force=self.plan.force)
        create_private(self._part).close()  # refused where another run has just begun: what lies here is not ours
        begun = False
        try:
            self._save(state)
            begun = True
        finally:
            if not begun:
                self._clean()
        return state

    def _unfinished(self, digest: str) -> _State:
        if self.kind not in APPENDABLE:
            raise ConfigError(
                f"Expected a format that can be resumed ({', '.join(sorted(APPENDABLE))}), not {self.kind}."
            )
        state = _State.load(self._state)
        if state.settings != digest:
            raise ConfigError("Expected the settings of the run to resume: these differ. Begin anew with --force.")
        if not hmac.compare_digest(state.input, _fingerprint(self.source, state.key)):
            raise ConfigError(f"Expected the input of the run to resume: {self.source} has changed. Use --force.")
        if not state.certificate and (not self._part.exists() or self._part.stat().st_size < state.bytes):
            raise ConfigError(f"{self._part} is shorter than the run left it. Begin anew with --force.")
        return state

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            file = self._part.open("r+b")
        except OSError as error:
            problem = file_error(self._part, "write", error)
        else:
            with contextlib.ExitStack() as stack:
                stack.callback(_close_quietly, file)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise ConfigError(f"Another run is writing {self.target} at this moment.") from None
                yield file
            return
        raise problem

    def _write(
        self, file: BinaryIO, records: Iterator[Record], state: _State, on_progress: Callable[[int], None]
    ) -> _State:
        done = state.records
        if self.kind in APPENDABLE:
            file.truncate(state.bytes)
            file.seek(0, os.SEEK_END)
        writer = open_writer(
            file,
            self.kind,
            compressed=is_compressed(self.target),
            header=state.bytes == 0,
            keep=self.plan.fields.keep,
        )
        remaining = itertools.islice(records, done, None)
        for batch in _batches(remaining, self.plan.batch_size):
            released = _release(batch, self.mechanism, self.randomness.at(done))
            done += len(batch)
            with self._disk():
                writer.write(released)
            state = replace(state, records=done, bytes=file.tell())
            if self.kind in APPENDABLE:
                self._save(state)
            on_progress(done)
        with self._disk():
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        if not self._part.exists() or not os.path.samestat(os.fstat(file.fileno()), self._part.stat()):
            raise ConfigError(f"{self._part} was replaced by another run while it was written: nothing is released.")
        certificate = Certificate(
            settings=settings(self.mechanism.spec),
            event=self.mechanism.event,
            guarantees=self.promised,
            records=done,
            output=self.target.name,
            sha256=sha256_of(self._part),
            digests=self.mechanism.digests,
            randomness="secure" if self.randomness.is_secure else "seeded",
            delta=self.plan.delta,
            max_per_author=self.plan.max_per_author,
            also_reveals=self.plan.reveals,
        )
        sealed = replace(state, bytes=file.tell(), certificate=certificate.to_json())
        self._save(sealed)
        return sealed

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        problem = None
        try:
            yield
        except OSError as error:
            problem = file_error(self._part, "write", error)
        if problem is not None:
            raise problem

    def _save(self, state: _State) -> None:
        with self._disk():
            state.save(self._state)

    def _publish(self, state: _State) -> Certificate:
        """Put output and certificate in place; a kill between any two steps is mended by --resume."""
        text = state.certificate
        path = certificate_path(self.target)
        with self._disk():
            if self._part.exists():
                for there in (self.target, path):
                    refuse_existing(there, force=state.force)
                self._part.replace(self.target)
            temporary = path.with_name(f".{path.name}.new")
            temporary.unlink(missing_ok=True)
            with create_private(temporary) as file:
                file.write(text.encode())
                publish(file, temporary, path, force=True)
        self._state.unlink(missing_ok=True)
        return Certificate.from_json(text)

    def _clean(self) -> None:
        for path in (self._part, self._state, self._state.with_name(self._state.name + ".new")):
            path.unlink(missing_ok=True)


def _close_quietly(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # on a full disk closing fails as the writing did, which was reported
        file.close()
