"""Runs from file to file: a killed run resumes and pays once; a finished run leaves a certificate beside its output.

The run writes to a hidden file beside the target. The target appears only when the output is whole.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dptext.errors import ConfigError, DataError, DPTextError, LedgerError
from dptext.mechanism import Mechanism
from dptext.privacy.guarantee import Guarantee
from dptext.runs.agreed import Agreed, agreed
from dptext.runs.certificate import Certificate, certificate_path, check_name
from dptext.runs.plan import Plan
from dptext.runs.statements import stays_charged
from dptext.runs.states import FileState, RunSettings, draft_path, fingerprint, run_settings
from dptext.runs.streaming import limited, release, released, typed
from dptext.runs.unfinished import Unfinished
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.text.batches import Batch
from dptext.text.column_types import of_parquet
from dptext.text.files import (
    create_private,
    refuse_existing,
    refuse_inputs,
    sha256_of,
    try_replacing,
    writing,
)
from dptext.text.formats import Format, file_format, is_compressed, output_format
from dptext.text.labels import n_known
from dptext.text.reading import read_batches, require_records
from dptext.text.samples import sample_records
from dptext.text.writers import APPENDABLE, blocks, completed, open_writer

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.ledger.entries import Charge
    from dptext.ledger.subjects import SubjectsDigest
    from dptext.runs.payment import Due, Payment

OnDone = Callable[[int], None]
_LONGEST = 2.0  # seconds after which `seconds` starts no further batch


def privatize_file(
    source: Path,
    target: Path,
    mechanism: Mechanism[str],
    *,
    plan: Plan | None = None,
    randomness: Randomness | None = None,
    payment: Payment | None = None,
    on_progress: OnDone | None = None,
    on_skip: Callable[[int, str], None] | None = None,
) -> Certificate:
    """Privatize a file of records into a new file, with a certificate beside it.

    The target appears only when it is complete. The run writes blocks. A block ends by the number and the sizes of
    releases, so that neither the file nor the marks of progress show the lengths of private texts. After a kill,
    `plan.resume` goes on after the last whole block that was marked and cuts off an unfinished block, so that no
    record has two outputs.

    Args:
        source: the input file.
        target: the output file.
        mechanism: a fitted mechanism.
        plan: public settings of the run.
        randomness: `randomness.secure()` by default; seeded randomness voids the guarantee.
        payment: the account that is charged before the first draw, for everyone in the account or, if
            `plan.fields.subject` is set, for each subject in the file. A charge is never undone.
        on_progress: called after each block with the number of records done.
        on_skip: called with the number of each skipped record and the reason.

    Returns:
        The certificate, as written to `TARGET.guarantee.json`.

    Raises:
        ConfigError: a setting or file cannot be used; the mechanism releases vectors and the format holds none; or
            the input or the settings differ from the run to resume.
        DataError: a record cannot be read. No file is left behind and nothing is charged: with an account, the whole
            file is read before the charge.
        NoGuaranteeError: the mechanism guarantees nothing, and `plan.without_guarantee` is not set or an account is
            to pay.
        BudgetExceededError: the account cannot pay. No file is left behind.
        LedgerError: the ledger cannot be used. A run that it stopped in the middle can be resumed.
    """
    run = _run(Path(source), Path(target), mechanism, plan or Plan(), randomness or secure(), payment)
    return run.go(on_progress or (lambda _: None), on_skip)


def rehearse(
    source: Path,
    target: Path,
    mechanism: Mechanism[str],
    *,
    plan: Plan,
    randomness: Randomness,
    payment: Payment | None = None,
    on_skip: Callable[[int, str], None] | None = None,
) -> tuple[int, tuple[Guarantee, ...], Due | None, int]:
    """Check and read the input as `privatize_file` does, with the same errors; draw, charge and write nothing.

    Returns:
        The number of records to release; the guarantees; the debt, or None if nothing is due; and the number of
        records with a label of the public set, which is private.
    """
    run = _run(source, target, mechanism, plan, randomness, payment)
    due = run.still_due()
    n_records, n_labelled = run.count(on_skip)
    return n_records, run.terms.statement.guarantees, due, n_labelled


def seconds(n_records: int, mechanism: Mechanism[str]) -> float | None:
    """Estimate the seconds for `n_records` releases by timing 64 built-in texts. None: the mechanism refuses them."""
    records, randomness, done = Batch.of(sample_records(64)), seeded(0), 0
    with contextlib.suppress(DPTextError):
        release(records[:1], mechanism, randomness)  # untimed: the first release may load models and packages
        began = time.perf_counter()
        while done < len(records) and time.perf_counter() - began < _LONGEST:
            done += len(release(records[done : done + 16], mechanism, randomness))
        return n_records * (time.perf_counter() - began) / done
    return None


def _run(
    source: Path, target: Path, mechanism: Mechanism[str], plan: Plan, randomness: Randomness, payment: Payment | None
) -> _FileRun:
    kind = output_format(target, plan.output_format)
    terms = agreed(mechanism, plan, randomness, payment, kind)
    found = of_parquet(source) if file_format(source, plan.input_format) is Format.PARQUET else None
    terms = replace(terms, columns=typed(terms.columns, found or {}, mechanism.spec))
    return _FileRun(source, target, kind, terms, mechanism, plan, randomness, Unfinished(target, terms.due))


@dataclass(frozen=True, slots=True)
class _FileRun:
    """A run from one file to one file: one stream of records, one part that grows beside the output."""

    source: Path
    target: Path
    kind: Format
    terms: Agreed
    mechanism: Mechanism[str]
    plan: Plan
    randomness: Randomness
    beside: Unfinished

    @property
    def due(self) -> Due | None:
        """The debt of the run to an account; None if no account pays."""
        return self.terms.due

    def go(self, on_progress: OnDone, on_skip: Callable[[int, str], None] | None) -> Certificate:
        self._check_paths()
        batches, charge = self._batches(on_skip if self.due is None else None), None
        state = self._unfinished() if self.plan.resume else self._begin(self._settings())
        if state.certificate:
            with self.beside.opened() if self.beside.part.exists() else contextlib.nullcontext():
                return self.beside.publish(state)
        with self.beside.opened() as file, contextlib.closing(batches):
            try:
                if self.due is not None:
                    self.count(on_skip)  # reads the whole file before the charge: a faulty record costs nothing
                first = next(batches, None)
                require_records(0 if first is None else len(first), self.source)
                charge = self._charge(state)
                state = self._write(file, itertools.chain(filter(None, [first]), batches), state, charge, on_progress)
                return self.beside.publish(state)
            except DPTextError as error:
                if isinstance(error, ConfigError):  # the run can be resumed, such as after a full disk
                    raise
                self.beside.clean()
                if charge is not None and self.due is not None and self.due.payment.key is None:
                    error.args = (f"{error} {stays_charged(charge.key)}",)
                raise

    def _settings(self) -> RunSettings:
        payment = None if self.due is None else self.due.payment
        of = self.mechanism
        return run_settings(of.spec, of.digests, self.plan, self.randomness, payment, kind=str(self.kind))

    def still_due(self) -> Due | None:
        self._check_paths()
        state = self._unfinished() if self.plan.resume else None
        if state is None:
            self.beside.refuse(force=self.plan.force)
        if self.due is None or (state and state.certificate):
            return None
        key = state.charge_key if state else self.due.payment.key
        return self.due if self.due.weigh(key, self._subjects()) else None

    def count(self, on_skip: Callable[[int, str], None] | None) -> tuple[int, int]:
        """Return the number of records, and the number of records with a label of the public set."""
        n_records = n_labelled = 0
        with contextlib.closing(self._batches(on_skip)) as batches:
            for batch in batches:
                n_records += len(batch)
                n_labelled += n_known(batch.labels, self.mechanism.spec.traits.labels)
        require_records(n_records, self.source)
        return n_records, n_labelled

    def _batches(self, on_skip: Callable[[int, str], None] | None) -> Generator[Batch, None, None]:
        batches = read_batches(
            self.source,
            self.plan.fields,
            format=self.plan.input_format,
            on_error=self.plan.on_error,
            on_skip=on_skip,
            advice="Repair it, or skip such records: --on-error skip.",
            **self.plan.reading,
        )
        return batches if self.plan.max_per_author is None else _limited(batches, self.plan.max_per_author)

    def _subjects(self) -> Iterator[str] | None:
        if self.plan.fields.subject is None:
            return None
        return (subject or "" for batch in self._batches(None) for subject in batch.subjects)

    def _charge(self, state: FileState) -> Charge | None:
        """Pay before the first draw. A resumed run finds its charge by the key in its state."""
        if self.due is None:
            return None
        try:
            return self.due.charge_run(state.charge_key, self._subjects(), resumed=self.plan.resume)
        except ConfigError as error:
            if not (isinstance(error, LedgerError) and (error.unsure or self.plan.resume)):
                self.beside.clean()  # nothing was charged and nothing drawn
            raise

    def _check_paths(self) -> None:
        check_name(self.target.name)
        longest = max(len(os.fsencode(path.name)) for path in (self.beside.state, certificate_path(self.target)))
        if longest + len(".new.") > 255:
            raise ConfigError(f"Expected a shorter name than {self.target.name!r}: files beside it get longer ones.")
        for path in (
            self.target,
            certificate_path(self.target),
            self.beside.part,
            self.beside.state,
            draft_path(self.beside.state),
        ):
            refuse_inputs(path, [self.source])
        if self.source.exists() and not self.source.is_dir() and not self.source.is_file():
            raise ConfigError(f"Expected a regular file, found {self.source}: the input is read twice.")
        if not self.plan.resume:
            for path in (self.target, certificate_path(self.target)):
                refuse_existing(path, force=self.plan.force)
                try_replacing(path)

    def _begin(self, settings: RunSettings) -> FileState:
        self.beside.refuse(force=self.plan.force)
        if self.beside.part.exists() or self.beside.state.exists():
            if self.beside.part.exists():
                with self.beside.opened():  # refused while another run is writing it
                    self.beside.clean()
            self.beside.clean()
        key = secrets.token_hex(32)
        charge_key = "" if self.due is None else self.due.payment.charge_key()
        state = FileState(
            settings=settings.sha256,
            named=settings.named,
            charge_key=charge_key,
            force=self.plan.force,
            key=key,
            input=fingerprint(self.source, key),
        )
        create_private(self.beside.part).close()  # refused if another run has just begun: the files are not ours then
        try:
            state.save(self.beside.state)
        except BaseException:
            self.beside.clean()
            raise
        return state

    def _unfinished(self) -> FileState:
        there = self.kind in APPENDABLE or self.beside.state.exists()
        if not self.beside.state.exists() and certificate_path(self.beside.target).exists():
            raise ConfigError(
                f"There is no unfinished run to resume: the one that wrote {self.beside.target} is complete."
            )
        state = FileState.load(self.beside.state) if there else None
        # A paid run in a format without appending draws all records anew under its charge: nobody saw the first draws.
        if state is None or not (self.kind in APPENDABLE or state.certificate or state.charge_key):
            raise ConfigError(
                f"Expected a format that can be resumed ({', '.join(sorted(APPENDABLE))}), not {self.kind}: begin anew "
                "with --force."
            )
        state.require_same(self._settings(), None if self.due is None else self.due.payment.key)
        if not hmac.compare_digest(state.input, fingerprint(self.source, state.key)):
            raise ConfigError(f"Expected the input of the run to resume: {self.source} has changed. {state.anew}")
        if not state.certificate and (not self.beside.part.exists() or self.beside.part.stat().st_size < state.bytes):
            raise ConfigError(f"{self.beside.part} is shorter than the run left it. {state.anew}")
        return state

    def _write(
        self, file: BinaryIO, batches: Iterator[Batch], state: FileState, charge: Charge | None, on_progress: OnDone
    ) -> FileState:
        done = state.records
        file.truncate(state.bytes)  # 0 bytes for a format that cannot be appended to
        file.seek(0, os.SEEK_END)
        columns = replace(self.terms.columns, dim=state.dim)
        packed, header = is_compressed(self.target), state.bytes == 0
        writer = open_writer(file, self.kind, compressed=packed, header=header, columns=columns)
        digest = None
        if charge is not None and charge.subjects_digest is not None and self.due is not None:
            digest = self.due.payment.ledger.subjects_digest(charge.account)
            batches = _watched(batches, digest)
        size = self.plan.batch_size
        stream = released(_after(batches, done), self.mechanism, self.randomness, batch_size=size, position=done)
        with completed(writer, writing(self.beside.part)):
            for block in blocks(stream, size):
                done += len(block)
                with writing(self.beside.part):
                    writer.write(block)
                state = replace(state, records=done, bytes=file.tell(), dim=len(block[0].vector or ()))
                if self.kind in APPENDABLE:
                    state.save(self.beside.state, durable=False)
                on_progress(done)
        with writing(self.beside.part):
            file.flush()
            os.fsync(file.fileno())
        if not self.beside.part.exists() or not os.path.samestat(os.fstat(file.fileno()), self.beside.part.lstat()):
            raise ConfigError(
                f"{self.beside.part} was replaced by another run while it was written: nothing is released."
            )
        if charge is not None and digest is not None and digest.hexdigest() != charge.subjects_digest:
            raise DataError(f"{self.source} changed while it was read: other names were charged. Nothing is released.")
        certificate = self.terms.certificate(self.target.name, sha256_of(self.beside.part), done, charge)
        sealed = replace(state, bytes=file.tell(), certificate=certificate.to_json())
        sealed.save(self.beside.state)
        return sealed


def _limited(batches: Generator[Batch, None, None], most: int) -> Generator[Batch, None, None]:
    with contextlib.closing(batches):
        yield from limited(batches, most)


def _watched(batches: Iterator[Batch], digest: SubjectsDigest) -> Iterator[Batch]:
    """Yield the records and add their subjects to the digest, to be compared with the digest of charged subjects."""
    for batch in batches:
        for subject in batch.subjects:
            digest.add(subject or "")
        yield batch


def _after(batches: Iterator[Batch], done: int) -> Iterator[Batch]:
    for batch in batches:
        if done < len(batch):
            yield batch[done:] if done else batch
        done = max(0, done - len(batch))
