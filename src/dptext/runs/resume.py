"""Where an unfinished run stands: a small file beside the target, readable by its owner only, until the run ends."""

from __future__ import annotations  # the types of fields are read as text here

import hmac
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from dptext.errors import ConfigError
from dptext.text.files import create_private
from dptext.text.inputs import telling

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_LARGEST_NUMBER: Final = 2**63 - 1  # bytes of a file


def state_path(output: Path) -> Path:
    """Where the state of an unfinished run to this output lies."""
    return output.with_name(f".{output.name}.resume.json")


def draft_path(path: Path) -> Path:
    """Where a state lies until it is whole."""
    return path.with_name(path.name + ".new")


@dataclass(frozen=True, slots=True)
class State:
    """What is needed to go on.

    Attributes:
        key: of the HMAC of the input; deleted with this file at the end.
        input: that HMAC.
        settings: digest of the run's settings.
        records, bytes: how many are done, and how many bytes of the output are theirs.
        force: whether an output that is there may be overwritten.
        certificate: the certificate as text, once the output is whole.
        charge_key: idempotency key of the charge, where a ledger pays for the run.
        dim: length of the vectors in the output, 0 where it holds none yet.
    """

    key: str
    input: str
    settings: str
    records: int = 0
    bytes: int = 0
    force: bool = False
    certificate: str = ""
    charge_key: str = ""
    dim: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value).__name__ != each.type:  # True is no number of records
                raise ConfigError(f"Expected {each.name} of the state of a run to be of type {each.type}.")
            if isinstance(value, int) and not 0 <= value <= _LARGEST_NUMBER:
                raise ConfigError(f"Expected {each.name} of the state of a run to be from 0 to {_LARGEST_NUMBER}.")
        if not all(map(_DIGEST.fullmatch, (self.key, self.input, self.settings))):
            raise ConfigError("Expected key, input and settings of the state of a run to be 64 hexadecimal digits.")

    def save(self, path: Path) -> None:
        """Write the state; a kill leaves the old one or the new one.

        ConfigError: somebody else puts files where the draft belongs. OSError: the disk refuses.
        """
        draft = draft_path(path)
        draft.unlink(missing_ok=True)  # of a run that was killed; a link that lies there is not followed
        with create_private(draft) as file:
            file.write(json.dumps({each.name: getattr(self, each.name) for each in fields(self)}).encode())
        draft.replace(path)

    @staticmethod
    def load(path: Path) -> State:
        """The state that `save` wrote; ConfigError where there is none, or the file holds something else."""
        try:
            return State(**json.loads(path.read_text("utf-8")))  # which checks each field
        except FileNotFoundError:
            raise ConfigError(
                f"There is no unfinished run to resume: {path} is absent. Run without --resume."
            ) from None
        except (OSError, ValueError, TypeError, RecursionError):
            raise ConfigError(f"{path} cannot be read as the state of a run. Begin anew with --force.") from None


def fingerprint(path: Path, key: str) -> str:
    """HMAC of the input's bytes: tells another input without leaving a digest of private text behind."""
    digest = hmac.new(bytes.fromhex(key), digestmod="sha256")
    with telling(path, "read"), path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
