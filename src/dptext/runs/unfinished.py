"""The hidden files of an unfinished run beside its output file, and their publication."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dptext.errors import ConfigError
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.states import FileState, draft_path, state_path
from dptext.text.files import create_private, open_private, publish, sha256_of, share, writing

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Due


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The files of an unfinished run to `target`: the part, locked while it is written, and the state."""

    target: Path
    due: Due | None  #: the debt of the run; None if no account pays
    process: int = field(default_factory=os.getpid)

    @property
    def part(self) -> Path:
        """The path of the unfinished output."""
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def state(self) -> Path:
        """The path of the run's state."""
        return state_path(self.target)

    def refuse(self, *, force: bool) -> None:
        """Raise ConfigError if an unfinished run lies here; with `force` only if its output is whole and paid for."""
        if not force and (self.part.exists() or self.state.exists()):
            if self.part.exists():
                with self.opened():  # ConfigError: a run is writing it now
                    pass
            how = "go on with --resume, or begin" if self.state.exists() else "nothing of it is done: begin"
            paid = "" if self.due is None else ", which is charged anew"
            raise ConfigError(f"An unfinished run lies beside {self.target}: {how} anew with --force{paid}.")
        self._keep_what_was_paid()

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open and lock the part. ConfigError: another run is writing it."""
        file = open_private(self.part)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"Another run is writing {self.target} at this moment.") from None
            yield file
        finally:
            with contextlib.suppress(OSError):  # on a full disk closing fails too; the failed write was reported
                file.close()

    def publish(self, state: FileState) -> Certificate:
        """Settle the charge and put output and certificate in place. --resume goes on after a kill at any step."""
        certificate, path = Certificate.from_json(state.certificate), certificate_path(self.target)
        with writing(self.part):
            whole = self.part if self.part.exists() else self.target
            if not whole.exists() or sha256_of(whole) != certificate.sha256:
                raise ConfigError(f"{whole} is not what the run wrote: nothing is released. {state.anew}")
        self._refuse_what_came(state)
        if self.due is not None:  # before publication: no second run can spend the same charge
            self.due.settle(state.charge_key, certificate.sha256)
        with writing(self.part):
            if self.part.exists():
                self._refuse_what_came(state)
                share(self.part)
                self.part.replace(self.target)
            temporary = path.with_name(f".{path.name}.new")
            temporary.unlink(missing_ok=True)
            with create_private(temporary) as file:
                file.write(state.certificate.encode())
                share(temporary)
                publish(file, temporary, path, force=True)
        self.state.unlink(missing_ok=True)
        return certificate

    def _refuse_what_came(self, state: FileState) -> None:
        """Raise ConfigError if a file appeared during the run at the path of its output or certificate."""
        for there in (self.target, certificate_path(self.target)) if self.part.exists() else ():
            state.refuse_what_came(there)

    def clean(self) -> None:
        """Delete the files of the run."""
        if os.getpid() != self.process:
            return  # a forked child leaves the files to its parent
        for path in (self.part, self.state, draft_path(self.state)):
            with writing(path):
                path.unlink(missing_ok=True)

    def _keep_what_was_paid(self) -> None:
        """Raise ConfigError if the unfinished output is whole and paid under the key of this run: a key pays once."""
        if self.due is None or self.due.payment.key is None or not self.state.exists():
            return
        try:
            state = FileState.load(self.state)
        except ConfigError:  # an unreadable state cannot be resumed
            return
        state.refuse_paid(self.due.payment.key)
