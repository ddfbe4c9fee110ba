"""What `check`, `privatize` and `synthesize` say of a file. As a command, the table of all odd files:

.venv/bin/python tests/doors.py docs/results/tables/odd_files.csv
"""

import csv
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from commands import dptext
from dptext.errors import DPTextError
from dptext.mechanism import Spec
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.runs.files import privatize_file
from dptext.runs.models import fit, save_model
from dptext.runs.plan import Plan
from dptext.runs.private import Private
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.batches import Batch, Releases
from dptext.text.formats import PACKED
from dptext.text.reading import OnError
from dptext.text.records import Record
from dptext.text.survey import Survey, survey
from kept_words import KeptWords
from odd_files import Odd, named_files, odd_files

#: The reasons for which `synthesize` reads on or not at all where the others do not: how many records there are is
#: private, so that none is a corpus too, and a first record without the field is a header without the column.
NONE = ("the file holds no records", "no record can be read")
LACKS = "record 1: the field 'text' is missing"
NULLS = "null texts, which --empty-nulls reads"
SHEETS = ". These hold cells: "
HEADS = ("file", "records", "refused", "first refusal", "check", "privatize", "synthesize", "unlike")


class Reading:
    """A mechanism that keeps what it read."""

    def __init__(self) -> None:
        self._inner = KeptWords().fit()
        self.texts: list[str] = []

    @property
    def spec(self) -> Spec:
        return self._inner.spec

    @property
    def digests(self) -> dict[str, str]:
        return {}

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        batch = Batch.of(records)
        self.texts += batch.texts
        return batch.released([""] * len(batch))


@dataclass(frozen=True)
class Said:
    """How many records a door read, how many not, the first reason, and a mark of their texts; or why it read none."""

    read: int = 0
    bad: int = 0
    reason: str = ""
    mark: str = ""
    refused: str = ""


def _mark(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


NO_MARK = _mark([])


def _plain(error: DPTextError, path: Path) -> str:
    """The words of a refusal, without the file, and without what follows the reason."""
    said = re.sub(r" (Nothing from here on|The file looks like|Name the encoding).*", "", str(error), flags=re.DOTALL)
    return said.removeprefix(f"{path}").removeprefix(", ").removeprefix(": ").removesuffix(".")


def checked(path: Path, odd: Odd) -> tuple[Said, Survey | None]:
    """What `check` says; and what it found."""
    try:
        found = survey(path, text="text", record=odd.record)
    except DPTextError as error:
        return Said(refused=_plain(error, path)), None
    nulls = found.texts.nulls if found.text == "text" else 0
    return Said(found.rows - nulls, found.bad + nulls, f"{NULLS} here" if nulls else found.fault), found


def privatized(path: Path, plan: Plan) -> Said:
    """What `privatize` says: of the first record that it cannot read, and of the rest, if that is skipped."""
    mechanism, told = Reading(), list[tuple[int, str]]()
    target = path.with_name("out.jsonl")
    how: dict[str, object] = {"randomness": seeded(0)}
    try:
        privatize_file(
            path,
            target,
            mechanism,
            plan=replace(plan, on_error=OnError.SKIP, force=True, without_guarantee=True),
            on_skip=lambda number, reason: told.append((number, reason)),
            **how,  # type: ignore[arg-type]
        )
    except DPTextError as error:
        return Said(refused=_plain(error, path))
    reason = f"record {told[0][0]}: {told[0][1]}" if told else ""
    return Said(len(mechanism.texts), len(told), reason, _mark(mechanism.texts))


def stopped(path: Path, plan: Plan) -> str:
    """Why `privatize` stops at the first record that it cannot read; empty where it reads all."""
    try:
        privatize_file(
            path,
            path.with_name("out.jsonl"),
            Reading(),
            plan=replace(plan, force=True, without_guarantee=True),
            randomness=seeded(0),
        )
    except DPTextError as error:
        return str(error)
    return ""


def synthesized(path: Path, plan: Plan) -> Said:
    """What `synthesize` says, which tells neither how many records it reads nor which it cannot."""
    reading = {"format": plan.input_format, **plan.reading}
    texts: list[str] = []
    try:
        for batch in Private(path, plan.fields, reading).kept().batches():
            texts += batch.texts
    except DPTextError as error:
        return Said(refused=str(error))
    return Said(len(texts), mark=_mark(texts))


def doors(odd: Odd, folder: Path) -> tuple[Said, Said, Said, str]:
    """What each of the three says of a file, read as `check` tells to."""
    path = folder / odd.name
    path.write_bytes(odd.data)
    check, found = checked(path, odd)
    plan = Plan(record=odd.record, delimiter=odd.delimiter)
    if found is not None and found.format not in PACKED:
        plan = replace(plan, encoding=found.encoding, delimiter=found.delimiter)
    return check, privatized(path, plan), synthesized(path, plan), stopped(path, plan)


def unlike(check: Said, private: Said, synthetic: Said, stop: str) -> list[str]:
    """In what the three differ, but for what they are to differ in."""
    found = []
    nothing = [next((words for words in NONE if words in each.refused), "") for each in (check, private)]
    nulls = check.reason.startswith(NULLS)
    if not check.refused and not check.read:
        nothing = [NONE[1], nothing[1]]  # it tells what is wrong with them
    owner = check.refused.partition(SHEETS)  # `check` alone names sheets, and the others lead to it
    alike = f"{owner[0]} (`dptext check` shows their names)" if owner[1] else check.refused
    if (nothing[0] or alike) != (nothing[1] or private.refused):
        found.append("the words of a refusal")
    if not private.refused and (check.read, check.bad) != (private.read, private.bad):
        found.append("the number of records")
    if not private.refused and check.reason != private.reason and not (nulls and "is null" in private.reason):
        found.append("what is wrong with a record")
    if (private.refused and not stop) or (private.bad and private.reason.removeprefix("record ") not in stop):
        found.append("what is wrong with the first")
    if not private.refused and not private.bad and stop:
        found.append("whether all can be read")
    if private.reason.startswith(LACKS) or (private.refused and not nothing[1]):
        found += [] if synthetic.refused else ["whether it is refused"]
    elif not (nothing[1] and synthetic.refused) and (synthetic.read, synthetic.mark) != (
        private.read,
        private.mark or NO_MARK,
    ):
        found.append("the texts")
    return found


MODEL = "model of labels"


def _by_labels(folder: Path) -> Path:
    """A folder with a model that reads labels, 1 and 2."""
    if not (folder / MODEL).exists():
        public = [Record("0", "so", "1"), Record("1", "la", "2")]
        save_model(fit(LabelOnly(labels=("1", "2"), epsilon=1.0), public), folder / MODEL)
    return folder / MODEL


def named_doors(odd: Odd, folder: Path) -> tuple[Said, Said, Said]:
    """What the commands `check`, `privatize` and `privatize --dry-run` say of a file, whose ids and labels are named.

    The marks are of ids, but for `check`, and a rehearsal tells the number of records alone.
    """
    path, out = folder / odd.name, folder / "out.jsonl"
    path.write_bytes(odd.data)
    fields = ("--id-field", "id", "--label-field", "label")
    private = ("privatize", path, out, "--model", _by_labels(folder), *fields, "--force")
    check = dptext("check", path, "--text-field", "text", *fields, "--json")
    stop, skip = dptext(*private), dptext(*private, "--on-error", "skip")
    dry = dptext(*private, "--on-error", "skip", "--dry-run", "--json")
    reason = "" if not stop.returncode else _plain(DPTextError(stop.stderr.removeprefix("dptext: ").strip()), path)
    reason = re.sub(r"\. Repair it.*", "", reason, flags=re.DOTALL)
    if check.returncode:
        looked = Said(refused=_plain(DPTextError(check.stderr.removeprefix("dptext: ").strip()), path))
    else:
        told = json.loads(check.stdout)
        looked = Said(told["rows"], told["bad"], told["fault"])
    if skip.returncode:
        return looked, Said(refused=reason), Said(refused="" if not dry.returncode else reason)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    ids = _mark([json.dumps(row["id"]) for row in rows])
    skipped = skip.stderr.count("skipped record ")
    return looked, Said(len(rows), skipped, reason, ids), Said(json.loads(dry.stdout)["records"])


def unlike_named(check: Said, private: Said, dry: Said) -> list[str]:
    """In what the commands differ."""
    if check.refused or private.refused:
        none = [NONE[1] in each.refused for each in (check, private)]
        alike = bool(check.refused) == bool(private.refused) == bool(dry.refused)
        return [] if alike and (any(none) or check.refused == private.refused) else ["the words of a refusal"]
    found = []
    if (check.read, check.bad) != (private.read, private.bad) or dry.read != private.read:
        found.append("the number of records")
    if check.reason != private.reason:
        found.append("what is wrong with the first")
    return found


def named_table(files: Sequence[Odd]) -> list[tuple[str, ...]]:
    """A row a file with ids and labels: what each command said; a rehearsal stands where `synthesize` does."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for odd in files:
            check, private, dry = named_doors(odd, Path(folder))
            said = (each.refused or f"reads {each.read}" for each in (check, private, dry))
            first = private.refused or private.reason
            unlike_in = "; ".join(unlike_named(check, private, dry))
            rows.append((f"{odd.title} (ids, labels)", str(private.read), str(private.bad), first, *said, unlike_in))
    return rows


def table(files: Sequence[Odd]) -> list[tuple[str, ...]]:
    """A row a file: what each door said."""
    rows = []
    for odd in files:
        with tempfile.TemporaryDirectory() as folder:
            check, private, synthetic, stop = doors(odd, Path(folder))
        first = private.refused or private.reason
        said = (each.refused or f"reads {each.read}" for each in (check, private, synthetic))
        rows.append(
            (
                odd.title,
                str(private.read),
                str(private.bad),
                first,
                *said,
                "; ".join(unlike(check, private, synthetic, stop)),
            )
        )
    return rows


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *table(odd_files()), *named_table(named_files())])
