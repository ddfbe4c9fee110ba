"""Where an unfinished run stands: a small file beside the target, readable by its owner only, until the run ends."""

from __future__ import annotations

import hmac
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from dptext.errors import ConfigError
from dptext.formats import file_error


def state_path(output: Path) -> Path:
    """Where the state of an unfinished run to this output lies."""
    return output.with_name(f".{output.name}.resume.json")


@dataclass(frozen=True, slots=True)
class State:
    """What is needed to go on.

    Attributes:
        key: of the HMAC of the input; deleted with this file at the end.
        input: that HMAC.
        settings: digest of the run's settings.
        records: how many are done.
        bytes: how many of the output are theirs.
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

    def save(self, path: Path) -> None:
        """Write the state; a kill leaves the old one or the new one."""
        temporary = path.with_name(path.name + ".new")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        temporary.replace(path)

    @staticmethod
    def load(path: Path) -> State:
        """The state that `save` wrote.

        Raises:
            ConfigError: there is none, or the file holds something else.
        """
        try:
            return State(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            raise ConfigError(
                f"There is no unfinished run to resume: {path} is absent. Run without --resume."
            ) from None
        except (OSError, ValueError, TypeError):
            raise ConfigError(f"{path} cannot be read as the state of a run. Begin anew with --force.") from None


def fingerprint(path: Path, key: str) -> str:
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
