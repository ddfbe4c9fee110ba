"""Checks of the contract that run a mechanism from file to file: what lies on the disk during and after the run."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dptext.mechanism import Mechanism, Spec
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.resume import State, state_path
from dptext.sampling.source import Randomness, secure
from dptext.text.columns import TEXTS_ONLY, WITHOUT_VECTORS
from dptext.text.formats import Format
from dptext.text.reading import MAX_CHARACTERS
from dptext.text.records import Record, Release

_LARGEST_LEFT_FILE = 50_000_000
_EXTENSIONS: Mapping[Format, tuple[str, ...]] = {
    Format.JSONL: ("jsonl", "jsonl.gz"),
    Format.CSV: ("csv", "csv.gz"),
    Format.TSV: ("tsv",),
    Format.TEXT: ("txt", "txt.gz"),
    Format.PARQUET: ("parquet",),
}
_BLOCK = 3
#: Records done by the run and by its state, bytes by its state, and the sizes of all files.
_Mark = tuple[int, int, int, list[tuple[str, int]]]
#: Lengths in characters of the records of two inputs; some are as long as texts may be.
_LENGTHS = ((1, 1, 1, 1, 1, 1, 1), (MAX_CHARACTERS, 0, 70_000, 1, 300_000, 1, 0))


def left_behind(mechanism: Mechanism[str], texts: Sequence[str], leaks: Callable[[str], bool]) -> str | None:
    """Which part of the contract a run breaks by leaving private text, which `leaks` finds, or an unexpected file."""
    before = _files_around()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target = folder / "in.jsonl", folder / "out.jsonl"
        _write(source, texts)
        privatize_file(source, target, mechanism, plan=Plan(without_guarantee=True))
        left = {path for path in folder.rglob("*") if path.is_file()} - {source}
        if left != {target, certificate_path(target)}:
            return "only the output and its certificate are left behind"
        kept = {target} if mechanism.spec.traits.keeps_words else set()
        if any(leaks(path.read_text("utf-8")) for path in left - kept):
            return "no private text in the output or the certificate"
    for path in (path for path, state in _files_around().items() if before.get(path) != state):
        with contextlib.suppress(OSError):  # another program's file, or gone by now
            if path.stat().st_size <= _LARGEST_LEFT_FILE and leaks(path.read_bytes().decode("utf-8", "replace")):
                return "no private text in a file"
    return None


def _write(source: Path, texts: Sequence[str]) -> None:
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")


def _files_around() -> dict[Path, tuple[int, int]]:
    """Size and time of change of files in the working, home, cache and temporary folders, and one folder deeper."""
    found = {}
    for folder in {Path.cwd(), Path(tempfile.gettempdir()), Path.home(), Path.home() / ".cache"}:
        for path in itertools.chain(_listed(folder), *(_listed(below) for below in _listed(folder) if below.is_dir())):
            with contextlib.suppress(OSError):  # gone by now
                if path.is_file():
                    found[path] = (path.stat().st_size, path.stat().st_mtime_ns)
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class _Forced:
    """Answers the n-th record with the n-th of the releases that were drawn before, whatever its text."""

    mechanism: Mechanism[str] = field(repr=False)
    drawn: tuple[Release[str], ...]

    @property
    def spec(self) -> Spec:
        return self.mechanism.spec

    @property
    def digests(self) -> Mapping[str, str]:
        return self.mechanism.digests

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        return [self.drawn[int(record.id)] for record in records]

    def save(self, folder: Path) -> None:
        self.mechanism.save(folder)


def told_by_shapes(mechanism: Mechanism[str], word: str) -> str | None:
    """Which part of the contract is broken because files tell how long private texts are; None if they do not.

    Two inputs have as many records, of very different lengths, and get the same releases. Outputs and certificates must
    then have the same bytes in every format that can hold what the mechanism releases. At each mark both runs must have
    done as many records and bytes, in files of the same sizes.
    """
    drawn = mechanism.privatize([Record(str(i), word) for i in range(len(_LENGTHS[0]))], secure())
    forced = _Forced(mechanism, tuple(drawn))
    with tempfile.TemporaryDirectory() as name:
        sources = [Path(name) / f"{number}.jsonl" for number in range(len(_LENGTHS))]
        for source, lengths in zip(sources, _LENGTHS, strict=True):
            _write(source, ["a" * length for length in lengths])
        for output in output_names(mechanism.spec):
            (files, marks), *others = (_run(source, output, forced) for source in sources)
            if any(other != files for other, _ in others):
                return f"{output} and its certificate follow from the number of records and the releases alone"
            if any(other != marks for _, other in others):
                return f"the marks of a run to {output} follow from the number of records and the releases alone"
    return None


def output_names(spec: Spec) -> list[str]:
    """A file of each kind that can hold what the spec releases; Parquet where pyarrow is installed."""
    cannot = {
        *(WITHOUT_VECTORS if spec.traits.releases_vectors else ()),
        *(TEXTS_ONLY if spec.traits.releases_labels else ()),
        *((Format.PARQUET,) if importlib.util.find_spec("pyarrow") is None else ()),
    }
    return [f"out.{extension}" for kind, names in _EXTENSIONS.items() if kind not in cannot for extension in names]


def _run(source: Path, output: str, mechanism: Mechanism[str]) -> tuple[dict[str, bytes], list[_Mark]]:
    """The files of one run in a folder of its own, and what each mark showed."""
    marks: list[_Mark] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / output

        def mark(done: int) -> None:
            state = State.load(state_path(target))
            marks.append((done, state.records, state.bytes, _sizes(folder)))

        plan = Plan(batch_size=_BLOCK, without_guarantee=True)
        privatize_file(source, target, mechanism, plan=plan, on_progress=mark)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files, marks


def _sizes(folder: Path) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in sorted(folder.iterdir())]
