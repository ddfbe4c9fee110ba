"""What lies beside the output of a run from file to file until it is published, and how it is published."""

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
from dptext.text.files import create_private, open_private, publish, refuse_existing, sha256_of, share, writing

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Due


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run whose output is to appear at `target`: the part, locked while it is written, and the state."""

    target: Path
    due: Due | None  #: what pays for it
    process: int = field(default_factory=os.getpid)

    @property
    def part(self) -> Path:
        """Where the output is written."""
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def state(self) -> Path:
        """Where it says how far it is."""
        return state_path(self.target)

    def refuse(self, *, force: bool) -> None:
        """Refuse (ConfigError) to begin where a run lies, or where what it wrote is whole and paid for."""
        if not force and (self.part.exists() or self.state.exists()):
            how = "go on with --resume, or begin" if self.state.exists() else "nothing of it is done: begin"
            raise ConfigError(f"An unfinished run lies beside {self.target}: {how} anew with --force.")
        self._keep_what_was_paid()

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The part, for nobody else: ConfigError while another run is writing it."""
        file = open_private(self.part)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(f"Another run is writing {self.target} at this moment.") from None
            yield file
        finally:
            with contextlib.suppress(OSError):  # on a full disk closing fails as the writing did, which was reported
                file.close()

    def publish(self, state: FileState) -> Certificate:
        """Put output and certificate in place; a kill between any two steps is mended by --resume."""
        certificate, path = Certificate.from_json(state.certificate), certificate_path(self.target)
        with writing(self.part):
            whole = self.part if self.part.exists() else self.target
            if not whole.exists() or sha256_of(whole) != certificate.sha256:
                raise ConfigError(f"{whole} is not what the run wrote: nothing is released. Begin anew with --force.")
        self._refuse_what_came(state)
        if self.due is not None:  # first, so that no second run can spend the same charge
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
        """Refuse (ConfigError) what appeared during the run where its output is to."""
        for there in (self.target, certificate_path(self.target)) if self.part.exists() else ():
            try:
                refuse_existing(there, force=state.force)
            except ConfigError:
                whole, costs = ("whole", "draws anew") if self.due is None else ("paid and whole", "charges again")
                raise ConfigError(
                    f"Expected nothing at {str(there)!r}, found what came there during the run. The run is {whole}: "
                    f"move that away, then go on with --resume, which publishes it; --force {costs}."
                ) from None

    def clean(self) -> None:
        """Leave nothing behind."""
        if os.getpid() != self.process:
            return  # a child of the process whose files these are
        for path in (self.part, self.state, draft_path(self.state)):
            with writing(path):
                path.unlink(missing_ok=True)

    def _keep_what_was_paid(self) -> None:
        """Refuse to throw a whole output away whose charge pays for nothing else."""
        if self.due is None or self.due.payment.key is None or not self.state.exists():
            return
        try:
            state = FileState.load(self.state)
        except ConfigError:  # what cannot be read cannot be resumed either
            return
        if state.certificate and state.charge_key == self.due.payment.key:
            raise ConfigError(
                f"The run with charge key {state.charge_key!r} is whole and paid for: go on with --resume, which "
                "publishes it. Another key would charge anew."
            )
