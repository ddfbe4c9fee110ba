"""The hidden folder of a synthesis between its charge and its publication, by which a killed run is resumed.

The folder lies beside the output; its owner alone can read it. It has the charge key before anything is charged, and
what was drawn before the charge is settled: the summary, of a synthesis that measures one and then writes from it, or
else the whole files. Then the files are published, and the folder is deleted. A summary and its certificate are one
file, which one renaming puts in place: from then on nothing is drawn again. Whole files are kept once the state names
them. A run that is killed before reads and draws again: what it had drawn was in memory, or is overwritten unseen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dptext.errors import ConfigError, LedgerError
from dptext.mechanism import settings
from dptext.runs.certificate import Certificate, certificate_path, stream_mark
from dptext.runs.states import STATE, CorpusState, RunSettings, run_folder
from dptext.runs.synthesized import Synthesized, paths_of
from dptext.synthesis.spec import CorpusSpec
from dptext.text.files import (
    Target,
    held,
    refuse_inputs,
    sha256_of,
    share,
    sync_folder,
    writing,
)
from dptext.text.inputs import telling

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment

_HEX: Final = re.compile("[0-9a-f]{64}")
_LOCK: Final = "lock"
_PARTS: Final = "whole"  # the folder of the files
_SUMMARY: Final = "summary"  # the certificate in one line, then the bytes of the summary


@dataclass(frozen=True, slots=True)
class Unpublished:
    """The files of a synthesis that are to appear at `target` and beside it."""

    target: Path
    force: bool = False
    inputs: tuple[Path, ...] = ()  #: input files, never replaced

    @property
    def folder(self) -> Path:
        """The path of the hidden folder."""
        return run_folder(self.target)

    @property
    def _busy(self) -> str:
        return f"Another run is writing {self.target} at this moment."

    def check(self, *, resume: bool = False) -> None:
        """Raise the errors (ConfigError) of publishing early: each file is tried at its path."""
        for path in paths_of(self.target):
            refuse_inputs(path, self.inputs)
            if not resume:
                self._check_free(path)
        if not resume and not self.force and self.load() is not None:
            with held(self.folder / _LOCK, self._busy):
                pass
            raise ConfigError(
                f"An unfinished run lies beside {self.target}: --resume goes on, --force begins anew, which is charged "
                "anew unless --charge-key names its charge."
            )

    def _check_free(self, path: Path) -> None:
        try:
            Target(path, self.force, self.inputs, private=False).check()
        except ConfigError as error:
            if self.force or self.load() is not None or not certificate_path(self.target).exists():
                raise
            free = f" From a summary, dptext write {self.target} OUT writes for free." * (path.suffix == ".summary")
            raise ConfigError(f"{error} The run would measure again, which costs epsilon again.{free}") from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make and lock the folder; at the end delete it with its contents, unless it holds a run to resume.

        ConfigError: another run holds the lock.
        """
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with held(self.folder / _LOCK, self._busy):
            try:
                yield
            finally:
                if not (self.folder / STATE).exists():
                    shutil.rmtree(self.folder)

    def load(self) -> CorpusState | None:
        """Return the state of the run that lies here, or None. ConfigError: an unreadable state and no `force`."""
        path = self.folder / STATE
        if not path.exists():
            return None
        try:
            return CorpusState.load(path)
        except ConfigError:
            if self.force:
                return None
            raise

    def goes_on(self, charge_key: str | None, *, resume: bool) -> bool:
        """Return whether to resume the run that lies here: by `resume`, or because `charge_key` is its charge key."""
        return resume or (bool(charge_key) and (there := self.load()) is not None and there.charge_key == charge_key)

    def drawn(
        self, spec: CorpusSpec, payment: Payment | None, charge_key: str | None, *, resume: bool
    ) -> RunSettings | None:
        """Return the settings of a run to resume that needs no input; else None.

        Such a run has its summary, or it is paid and whole. ConfigError: the run has other settings or another account.
        """
        begun = self._drawn(charge_key, resume=resume)
        if begun is None:
            return None
        there, found = begun
        account = None if found.charged is None else found.charged.account
        mine = settings(spec) | {"account": None if payment is None else payment.account}
        theirs = {**found.settings, "account": account}
        if differ := sorted(name for name in mine.keys() | theirs if mine.get(name) != theirs.get(name)):
            done, which = "whole" if there.files else "measured", ", ".join(differ)
            raise ConfigError(
                f"Expected the settings and the account of the run to resume, which is paid and {done}: these differ "
                f"({which}). With its own settings and account --resume goes on; --force charges again."
            )
        return RunSettings(there.settings, there.named)

    def label_type(self, charge_key: str | None, *, resume: bool) -> str | None:
        """Return the label type of a run to resume that needs no input; None if there is no such run."""
        begun = self._drawn(charge_key, resume=resume)
        return None if begun is None else str(begun[1].settings.get("label_type", ""))

    def _drawn(self, charge_key: str | None, *, resume: bool) -> tuple[CorpusState, Certificate] | None:
        """Return state and certificate of a run to resume that has its summary, or is paid and whole; else None."""
        there = self.load()
        if there is None or not self.goes_on(charge_key, resume=resume):
            return None
        measured = None if there.files else self.summary()
        if measured is None and not (there.files and (there.charge_key or self.has_summary)):
            return None
        return there, self._certificate() if measured is None else measured[1]

    def begun(self, settings: RunSettings, payment: Payment | None, *, resume: bool) -> CorpusState:
        """Return the state of the run to resume; else begin a new run, after a trial of publishing."""
        there, charge_key = self.load(), None if payment is None else payment.key
        if self.goes_on(charge_key, resume=resume):
            if there is None and certificate_path(self.target).exists():
                raise ConfigError(
                    f"There is no unfinished run to resume: the one that wrote {self.target} is complete."
                )
            if there is None:
                raise ConfigError(f"There is no unfinished run to resume beside {self.target}: leave --resume out.")
            there.require_same(settings, charge_key)
            return replace(there, force=there.force or self.force)
        charge_key = "" if payment is None else payment.charge_key()
        own: dict[str, Any] = {"settings": settings.sha256, "named": settings.named}
        state = CorpusState(**own, charge_key=charge_key, force=self.force)
        (self.folder / STATE).unlink(missing_ok=True)  # first: a kill leaves no state whose numbers are deleted
        self._forget_drawn()
        self._save(state)
        self._try_publishing()
        return state

    @contextlib.contextmanager
    def unpaid(self, payment: Payment | None, state: CorpusState) -> Iterator[None]:
        """Delete the run if the block fails, nothing was charged, and no summary is kept."""
        try:
            yield
        except BaseException:
            if not (self.has_summary or _charged(payment, state)):
                self.forget()
            raise

    def forget(self) -> None:
        """Delete what a run drew, and its state."""
        self._forget_drawn()
        (self.folder / STATE).unlink(missing_ok=True)

    @property
    def has_summary(self) -> bool:
        """Whether the run that lies here has drawn its summary."""
        return all((self.folder / name).exists() for name in (STATE, _SUMMARY))

    def measured(self, data: bytes, certificate: Certificate) -> None:
        """Keep a summary with its certificate before anything is written from it.

        Both are one file for its owner alone. A kill or a loss of power leaves the whole file, or none.
        """
        file = Target(self.folder / _SUMMARY, force=True)
        file.clear()
        file.write(json.dumps(certificate.to_json()).encode() + b"\n" + data)

    def summary(self) -> tuple[bytes, Certificate] | None:
        """Return the summary that is kept, and its certificate; None if none is. ConfigError: it was changed."""
        if not self.has_summary:
            return None
        path = self.folder / _SUMMARY
        with telling(path, "read"):
            head, _, data = path.read_bytes().partition(b"\n")
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            certificate = Certificate.from_json(json.loads(head))
            if hashlib.sha256(data).hexdigest() == certificate.sha256:
                return data, certificate
        raise ConfigError(f"{path} is not what the run drew: nothing is released. Begin anew with --force.")

    def keep(self, found: Synthesized, state: CorpusState) -> CorpusState:
        """Write all files into the folder, for their owner alone, and return the state that lists them."""
        self._forget_parts()  # the parts of an attempt that was killed before they were whole; nobody saw them
        parts = self.folder / _PARTS
        with writing(parts):
            parts.mkdir(mode=0o700)
        found.write(parts / self.target.name, private=True)
        sync_folder(parts)
        files = {path.name: sha256_of(parts / path.name) for path in paths_of(self.target)}
        whole = replace(state, files=files, sentences=list(found.sentences))
        self._save(whole)
        return whole

    def publish(self, state: CorpusState, payment: Payment | None) -> Certificate:
        """Settle the charge, and give the files their names. After a kill between two steps, call this again.

        ConfigError: something lies at the path of a file. The run can be resumed.
        """
        todo = [path for path in paths_of(self.target) if not self._published(path, state)]
        for path in todo:
            state.refuse_what_came(path)
        certificate = self._certificate()
        if payment is not None:  # before publication: no second run can spend the same charge
            stream = certificate.charged.stream if certificate.charged else None
            payment.settle(state.charge_key, stream_mark(stream or ""))
        for path in todo:
            with writing(path):
                state.refuse_what_came(path)
                share(self.folder / _PARTS / path.name)
                (self.folder / _PARTS / path.name).replace(path)
        sync_folder(self.target.parent)
        self.forget()
        return certificate

    def _certificate(self) -> Certificate:
        """Return the certificate of the files, from the folder or from its final path."""
        beside = certificate_path(self.target)
        part = self.folder / _PARTS / beside.name
        with writing(self.target):
            return Certificate.from_json((part if part.exists() else beside).read_text("utf-8"))

    def _published(self, path: Path, state: CorpusState) -> bool:
        """Return whether a file has its final name. ConfigError: the file is not what the run wrote."""
        part = self.folder / _PARTS / path.name
        with writing(path):
            whole = part if part.exists() else path
            if not whole.is_file() or sha256_of(whole) != state.files.get(path.name):
                raise ConfigError(f"{whole} is not what the run wrote: nothing is released. {state.anew}")
        return whole == path

    def _save(self, state: CorpusState) -> None:
        state.save(self.folder / STATE)

    def _forget_drawn(self) -> None:
        self._forget_parts()
        (self.folder / _SUMMARY).unlink(missing_ok=True)

    def _forget_parts(self) -> None:
        if (self.folder / _PARTS).exists():
            shutil.rmtree(self.folder / _PARTS)

    def _try_publishing(self) -> None:
        """Put empty files beside the output as publishing does, and delete them. ConfigError: that fails."""
        there = self.target.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            for path in paths_of(self.target):
                own = self.folder / path.name
                with writing(path):
                    Target(own).write(b"")
                    own.replace(there)
                    there.unlink()
        except BaseException:
            self.forget()
            raise


def _charged(payment: Payment | None, state: CorpusState) -> bool:
    """Return whether the run has a charge, or may have one because the ledger cannot be read."""
    if payment is None:
        return False
    try:
        return any(charge.key == state.charge_key for charge in payment.ledger.log(payment.account))
    except LedgerError:
        return True
