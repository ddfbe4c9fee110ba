"""States of unfinished runs, by which a run to a file, to a folder or of a corpus can be resumed.

A state is a small JSON file that its owner alone can read. It is written before a run begins and deleted at its end.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from dptext.errors import ConfigError
from dptext.mechanism import Promise, settings
from dptext.runs.plan import Plan
from dptext.sampling.randomness import Randomness
from dptext.text.files import create_private, refuse_existing, sync_folder, to_disk, writing
from dptext.text.inputs import telling
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment

_HEX: Final = re.compile("[0-9a-f]{64}")
STATE: Final = "state.json"  #: name of the state in the folder of a run
WITHIN: Final = ".dptext.run"  #: folder of a run in an output folder that nothing can replace
_NAMED: Final = 16  # digits of the sha256 of a setting: enough to tell two apart
_PARTS: Final = ("spec", "own")  # whose settings are named each
_SAID: Final = {"digests": "public texts or model", "reading": "how the input is read", "source": "input"}
_LARGEST: Final = 2**63 - 1  # largest number in a state, such as the bytes of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The common state of unfinished runs. ConfigError: a value has another type, or is negative or too large.

    Attributes:
        settings: the sha256 of the `RunSettings`.
        named: the beginning of the sha256 of each setting, by its name.
        charge_key: the idempotency key of the charge; empty if no account pays.
        force: whether an existing output may be replaced.
        certificate: the certificate as JSON text; empty until the output is whole.
    """

    #: The fields that hold a sha256.
    digests: ClassVar[tuple[str, ...]] = ("settings",)

    settings: str
    charge_key: str = ""
    force: bool = False
    certificate: str = ""
    named: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not _is(value, str(each.type)):  # stricter than isinstance: True is no number of records
                raise ConfigError(f"Expected {each.name} of the state of a run to be of type {each.type}.")
            if isinstance(value, int) and not 0 <= value <= _LARGEST:
                raise ConfigError(f"Expected {each.name} of the state of a run to be from 0 to {_LARGEST}.")
        for name in self.digests:
            if not _HEX.fullmatch(getattr(self, name)):
                raise ConfigError(f"Expected {name} of the state of a run to be 64 hexadecimal digits.")

    def save(self, path: Path, *, durable: bool = True) -> None:
        """Write the state. A kill leaves the old or the new state. ConfigError: the disk refuses.

        A `durable` state survives a loss of power. Any other state may be an older state after a loss of power, and
        the run can be resumed from that state, too.
        """
        draft = draft_path(path)
        with writing(path):
            draft.unlink(missing_ok=True)  # the draft of a killed run; a link at this path is not followed
            with create_private(draft) as file:
                file.write(json.dumps(asdict(self)).encode())
                if durable:
                    to_disk(file)
            draft.replace(path)
        if durable:
            sync_folder(path.parent)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the state that `save` wrote. ConfigError: the file is absent or holds no state."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))  # the constructor checks each field
        except FileNotFoundError:
            raise ConfigError(
                f"There is no unfinished run to resume, as {path} is absent: leave --resume out."
            ) from None
        except (OSError, ValueError, TypeError, RecursionError):
            raise ConfigError(f"{path} cannot be read as the state of a run. Begin anew with --force.") from None

    @property
    def anew(self) -> str:
        """Say how to begin anew, and that a paid run is charged anew then."""
        return f"Begin anew with --force{', which is charged anew' if self.charge_key else ''}."

    def require_same(self, settings: RunSettings, charge_key: str | None) -> None:
        """Raise ConfigError unless the state has these settings and, if not None, this charge key."""
        if charge_key not in (None, self.charge_key):
            raise ConfigError(
                f"Expected the charge key of the run to resume, {self.charge_key!r}, found {charge_key!r}."
            )
        if settings.sha256 != self.settings:
            pairs = self.named.items() ^ settings.named.items() if self.named else ()  # an older state has none
            which = f" ({', '.join(sorted({name for name, _ in pairs}))})" if pairs else ""
            raise ConfigError(f"Expected the settings of the run to resume: these differ{which}. {self.anew}")

    def refuse_paid(self, charge_key: str | None) -> None:
        """Raise ConfigError if the output is whole and this key paid for it: a key pays for one output alone."""
        if self.certificate and charge_key is not None and charge_key == self.charge_key:
            raise ConfigError(
                f"The run with charge key {charge_key!r} is whole and paid for: go on with --resume, which publishes "
                "it. Another key would charge anew."
            )

    def refuse_what_came(self, path: Path) -> None:
        """Raise ConfigError if a file appeared during the run at this path of its output."""
        try:
            refuse_existing(path, force=self.force)
        except ConfigError:
            raise self.something_came(str(path)) from None

    def something_came(self, where: str) -> ConfigError:
        """Return the error that something appeared during the run at the place of its output."""
        whole, costs = ("paid and whole", "charges again") if self.charge_key else ("whole", "draws anew")
        return ConfigError(
            f"Expected nothing at {where!r}: something appeared there during the run. The run is {whole}: move that "
            f"away, then go on with --resume, which publishes it; --force {costs}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState(RunState):
    """The progress of a run from file to file. The state lies beside the output.

    Attributes:
        key: key of the HMAC of the input, in hexadecimal digits; deleted with the state.
        input: HMAC of the input, in hexadecimal digits.
        records: number of records that are done.
        bytes: length of the output with these records, in bytes.
        dim: length of the vectors in the output; 0 if it has none yet.
    """

    digests: ClassVar[tuple[str, ...]] = ("settings", "key", "input")

    key: str
    input: str
    records: int = 0
    bytes: int = 0
    dim: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderState(RunState):
    """The progress of a run over many files. The state lies in the folder of the run.

    Attributes:
        key: key of the run's hashes of private records, ids and authors, in hexadecimal digits.
        token: name of the run and of the folder or prefix of its parts.
        manifest: the manifest as JSON text; empty until all parts are written.
    """

    digests: ClassVar[tuple[str, ...]] = ("settings", "key")

    key: str
    token: str
    manifest: str = ""

    def __post_init__(self) -> None:
        RunState.__post_init__(self)
        if not self.token.isalnum():
            raise ConfigError("Expected the token of the state of a run to be of letters and digits.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState(RunState):
    """The progress of a synthesis. The state lies in a hidden folder beside the output.

    Attributes:
        files: the sha256 of each output file by name; empty until all files are whole.
        sentences: the report in plain words.
    """

    files: dict[str, str] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)


def _is(value: object, annotation: str) -> bool:
    match annotation:
        case "dict[str, str]":
            return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)
        case "list[str]":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return type(value).__name__ == annotation


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The sha256 of all settings of a run, and the beginning of that of each, by its name."""

    sha256: str
    named: dict[str, str]


def run_settings(
    spec: Promise,
    digests: Mapping[str, str],
    plan: Plan,
    randomness: Randomness,
    payment: Payment | None,
    **own: Json,
) -> RunSettings:
    """Return all settings that must be equal in an unfinished run and the run that resumes it.

    `digests` are the digests of the fitted model and public data; `own` has further settings of this kind of run.
    """
    # Without measured columns as before these were known, so that a run that began then goes on.
    fields = {name: value for name, value in asdict(plan.fields).items() if name != "measured" or value}
    fixed: dict[str, Json] = {
        "spec": settings(spec),
        "digests": dict(digests),
        "fields": json.dumps(fields),
        "format": str(plan.input_format),
        "on_error": str(plan.on_error),
        "delta": plan.delta,
        "max_per_author": plan.max_per_author,
        "randomness": randomness.fingerprint,
        "account": None if payment is None else payment.account,
        "safe_csv": plan.safe_csv,
        "reading": plan.reading,
        "own": own,
    }
    each = {**fixed, **own, "output": own.get("kind"), **settings(spec)}
    named = {_SAID.get(name, name): _sha256(value)[:_NAMED] for name, value in each.items() if name not in _PARTS}
    return RunSettings(_sha256(fixed), named)


def _sha256(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def state_path(output: Path) -> Path:
    """Return the path of the state of an unfinished run to this file."""
    return output.with_name(f".{output.name}.resume.json")


def run_folder(output: Path) -> Path:
    """Return the hidden folder, beside an output, of an unfinished run of a corpus or over many files."""
    return output.parent / f".{output.name}.run"  # the root has no name


def unfinished_beside(output: Path) -> Path | None:
    """Return the path that an unfinished run to this file or folder keeps; None if there is no such run."""
    there = output.absolute()  # the current folder has a name, too
    if there.name and state_path(there).is_file():
        return state_path(there)
    folders = (run_folder(there), there / WITHIN)
    return next((folder for folder in folders if (folder / STATE).is_file()), None)


def draft_path(path: Path) -> Path:
    """Return the path of a state while it is being written."""
    return path.with_name(path.name + ".new")


def fingerprint(path: Path, key: str) -> str:
    """Return the HMAC of a file's bytes. It shows a changed input; without the key it is no digest of private text."""
    digest = hmac.new(bytes.fromhex(key), digestmod="sha256")
    with telling(path, "read"), path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
