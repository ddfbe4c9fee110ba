"""The public settings of a run from file to file, and where an unfinished one stands."""

from __future__ import annotations  # the types of fields are read as text here

import hashlib
import hmac
import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dptext import _validate
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism, settings
from dptext.privacy.guarantee import RECORD_COUNT
from dptext.runs.certificate import READING, reading_revealed
from dptext.runs.streaming import BATCH_SIZE
from dptext.sampling.randomness import Randomness
from dptext.text.files import write_private, writing
from dptext.text.formats import Format
from dptext.text.inputs import telling
from dptext.text.reading import OnError
from dptext.text.records import Fields
from dptext.types import Json

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment


_READING: Final = ("delimiter", "encoding", "record", "sheet", "empty_nulls", "strip_html")


@dataclass(frozen=True, slots=True)
class Plan:
    """Public settings of a run from file to file.

    Attributes:
        fields: names of the input fields; the kept ones are listed in `reveals`.
        input_format, output_format: None tells them by the extensions.
        on_error: what to do with a record that cannot be read.
        delta: at which guarantees are stated.
        max_per_author: see `privatize`.
        batch_size: records that are computed together, and at most in a block of the output (a row group of Parquet,
            a member of gzip) and between two marks to resume from. A block is in memory whole.
        without_guarantee: see `privatize`.
        force: overwrite an output that is there, throw away an unfinished run.
        resume: go on with an unfinished run.
        safe_csv: put an apostrophe before every text of a CSV output that a spreadsheet would take for a formula.
        delimiter, encoding, record, sheet, empty_nulls, strip_html: how the input is read; see `read_records`.
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
    safe_csv: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    record: str | None = None
    sheet: str | None = None
    empty_nulls: bool = False
    strip_html: bool = False

    def __post_init__(self) -> None:
        _validate.count(batch_size=self.batch_size)
        _validate.probability(delta=self.delta)
        if self.max_per_author is not None:
            _validate.count(max_per_author=self.max_per_author)
            if self.fields.author is None:
                raise ConfigError("Expected the name of the author field with max_per_author: --author-field NAME.")

    @property
    def reading(self) -> dict[str, Any]:
        """How the input is read, as keywords of `read_batches`."""
        return {name: getattr(self, name) for name in _READING}

    @property
    def stated(self) -> tuple[str, ...]:
        """What is done to texts as they are read, by its names in `READING`: the certificate states it."""
        return tuple(name for name in READING if self.reading[name])

    @property
    def reveals(self) -> tuple[str, ...]:
        """What leaves besides the text."""
        skipped = ("the number of skipped records",) if self.on_error is OnError.SKIP else ()
        return (*reveals_of(self.fields), *skipped, *reading_revealed(self.stated))


def reveals_of(fields: Fields) -> tuple[str, ...]:
    """What leaves of rows with these fields besides the text."""
    ids = () if fields.id is None else (f"the ids (field {fields.id!r})",)
    return (RECORD_COUNT, *ids, *(f"the field {name!r}" for name in fields.keep))


def run_digest(
    mechanism: Mechanism[str], plan: Plan, randomness: Randomness, kind: Format, payment: Payment | None
) -> str:
    """sha256 of all that an unfinished run must have in common with the one that goes on with it."""
    fixed: dict[str, Json] = {
        "spec": settings(mechanism.spec),
        "digests": dict(mechanism.digests),
        "fields": json.dumps(asdict(plan.fields)),
        "formats": [str(plan.input_format), str(kind)],
        "on_error": str(plan.on_error),
        "delta": plan.delta,
        "max_per_author": plan.max_per_author,
        "randomness": randomness.fingerprint,
        "account": None if payment is None else payment.account,
        "safe_csv": plan.safe_csv,
        "reading": plan.reading,
    }
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


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
    """What is needed to go on: in a small file beside the target, readable by its owner only, until the run ends."""

    key: str  #: of the HMAC of the input; deleted with this file at the end
    input: str  #: that HMAC
    settings: str  #: digest of the run's settings
    records: int = 0  #: how many are done, and below how many bytes of the output are theirs
    bytes: int = 0
    force: bool = False  #: whether an output that is there may be overwritten
    certificate: str = ""  #: the certificate as text, once the output is whole
    charge_key: str = ""  #: idempotency key of the charge, where a ledger pays for the run
    dim: int = 0  #: length of the vectors in the output, 0 where it holds none yet

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
        """Write the state; a kill leaves the old one or the new one. ConfigError: the disk refuses."""
        draft = draft_path(path)
        with writing(path):
            draft.unlink(missing_ok=True)  # of a run that was killed; a link that lies there is not followed
            write_private(draft, json.dumps(asdict(self)).encode())
            draft.replace(path)

    @staticmethod
    def load(path: Path) -> State:
        """The state that `save` wrote; ConfigError where there is none, or the file holds something else."""
        try:
            return State(**json.loads(path.read_text("utf-8")))  # which checks each field
        except FileNotFoundError:
            raise ConfigError(
                f"There is no unfinished run to resume, as {path} is absent: leave --resume out."
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
