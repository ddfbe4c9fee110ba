"""Checks of everything visible: no private text is released, printed, logged, raised, kept, or revealed by files."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dptext.mechanism import Mechanism, Spec
from dptext.privacy.guarantee import Basis
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.states import FileState, state_path
from dptext.sampling.randomness import secure
from dptext.testing.case import Case, require
from dptext.testing.held import texts_held_by
from dptext.testing.outward import writes
from dptext.text.columns import TEXTS_ONLY, WITHOUT_VECTORS
from dptext.text.formats import Format
from dptext.text.reading import MAX_CHARACTERS
from dptext.text.records import Record

_COPIES = 32
_FUNCTION_WORDS = ("of", "and", "is", "was", "with", "the", "to", "in", "it", "that", "a", ".", ",")


def check_verbatim(case: Case) -> None:
    """There is no fallback: unknown words, odd texts and labels out of range get a release, and never come back.

    Words may come back if the spec says that it keeps words. Such a spec must not state a pure epsilon.
    """
    claim, kept = case.mechanism.spec.guarantee(), case.mechanism.spec.traits.keeps_words
    require(not kept or claim.basis is Basis.NONE or claim.delta > 0, "a spec that keeps words states no pure epsilon")
    for record in case.odd:
        for release in case.mechanism.privatize([record] * (1 if len(record.text) > 1000 else 20), secure()):
            require(kept or not case.leaks(release.output), "an unknown word never comes back")
            require(release.label is None or not case.leaks(str(release.label)), "a private label never comes back")
    if claim.basis is not Basis.NONE:
        record = Record("0", " ".join(_FUNCTION_WORDS))
        outputs = [release.output.split() for release in case.mechanism.privatize([record] * _COPIES * 4, secure())]
        for i, word in enumerate(_FUNCTION_WORDS):
            require(any(output[i : i + 1] != [word] for output in outputs), "no word is copied every time")


def check_silence(case: Case) -> None:
    """No private text is printed, logged, warned, raised, shown by repr, or kept."""
    canary, mechanism = case.canary, case.mechanism
    broken = [Record("0", f"{canary} \ud800"), Record("1", canary, label="\ud800" + canary)]
    with listening() as heard, writes() as opened:
        mechanism.privatize(case.odd, secure())
        for record in broken:
            try:
                mechanism.privatize([record], secure())
            except Exception as error:  # noqa: BLE001  # no error of any kind may hold the text
                told = "".join(traceback.format_exception(error, limit=0))
                at = traceback.extract_tb(error.__traceback__)[-1]
                raised = f"{type(error).__name__}, raised in {Path(at.filename).name}, line {at.lineno}"
                require(not case.leaks(told + _arguments(error)), f"no private text in an error ({raised})")
        mechanism.spec.guarantee().explain()
    require(not case.leaks(heard()), "no private text is printed, logged or warned about")
    require(not any(map(case.leaks, _contents(opened))), "no private text in a file")
    require(not case.leaks(repr(mechanism) + str(mechanism) + repr(mechanism.spec)), "no text shows in any repr")
    require(not any(case.leaks(text) for text in texts_held_by(mechanism, mechanism.spec)), "no private text is kept")


def _contents(opened: Sequence[str]) -> Iterator[str]:
    """Yield the contents of the files among what was opened for writing, wherever they lie."""
    for path in dict.fromkeys(map(Path, opened)):
        with contextlib.suppress(OSError, ValueError):  # it is gone, or may not be read
            if path.is_file() and path.stat().st_size <= _LARGEST_LEFT_FILE:
                yield path.read_text("utf-8", errors="replace")


def _arguments(error: BaseException | None) -> str:
    """Return the arguments of an error and its causes, printed or not: a UnicodeError keeps the whole text."""
    return "" if error is None else repr(error.args) + _arguments(error.__cause__ or error.__context__)


@contextlib.contextmanager
def listening() -> Iterator[Callable[[], str]]:
    """Collect everything that is printed, logged and warned."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield lambda: stream.getvalue() + "".join(str(warning.message) for warning in caught)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def check_files(case: Case) -> None:
    """A run from file to file leaves no private text in the output or its certificate, and no other file."""
    texts = [record.text for record in case.odd if "\x00" not in record.text]
    broken = left_behind(case.mechanism, texts, case.leaks)
    require(broken is None, str(broken))


def check_shapes(case: Case) -> None:
    """Files of every format, marks and resumable states do not reveal how long private texts are.

    Two inputs have as many records, of very different lengths, and get the same releases. Outputs and certificates must
    then have the same bytes in every format that can hold the releases. At each mark both runs must have the same
    numbers of records and bytes done, in files of the same sizes.
    """
    records = [Record(str(i), case.words[0]) for i in range(len(_LENGTHS[0]))]
    own, drawn = case.mechanism, tuple(case.mechanism.privatize(records, secure()))
    forced: Any = SimpleNamespace(  # releases the n-th of `drawn` for the n-th record, whatever its text
        spec=own.spec, digests=own.digests, save=own.save, privatize=lambda some, _: [drawn[int(r.id)] for r in some]
    )
    with tempfile.TemporaryDirectory() as name:
        sources = [Path(name) / f"{number}.jsonl" for number in range(len(_LENGTHS))]
        for source, lengths in zip(sources, _LENGTHS, strict=True):
            _write(source, ["a" * length for length in lengths])
        for output in output_names(case.mechanism.spec):
            (files, marks), *others = (_run(source, output, forced) for source in sources)
            alone = "follow from the number of records and the releases alone"
            require(all(other == files for other, _ in others), f"{output} and its certificate {alone}")
            require(all(other == marks for _, other in others), f"the marks of a run to {output} {alone}")


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
#: Lengths in characters of the records of two inputs; some records have the largest allowed length.
_LENGTHS = ((1, 1, 1, 1, 1, 1, 1), (MAX_CHARACTERS, 0, 70_000, 1, 300_000, 1, 0))


def left_behind(mechanism: Mechanism[str], texts: Sequence[str], leaks: Callable[[str], bool]) -> str | None:
    """Return the part of the contract that a run breaks by leaving private text (see `leaks`) or another file."""
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
        with contextlib.suppress(OSError):  # another program's file, or a deleted file
            if path.stat().st_size <= _LARGEST_LEFT_FILE and leaks(path.read_bytes().decode("utf-8", "replace")):
                return "no private text in a file"
    return None


def _write(source: Path, texts: Sequence[str]) -> None:
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")


def _files_around() -> dict[Path, tuple[int, int]]:
    """Return size and mtime of files in the working, home, cache and temporary folders, and one folder deeper."""
    found = {}
    for folder in {Path.cwd(), Path(tempfile.gettempdir()), Path.home(), Path.home() / ".cache"}:
        for entry in itertools.chain(*(_listed(each) for each in [str(folder), *_folders(folder)])):
            with contextlib.suppress(OSError):  # the file may be deleted
                if entry.is_file():
                    found[Path(entry.path)] = (entry.stat().st_size, entry.stat().st_mtime_ns)
    return found


def _folders(folder: Path) -> list[str]:
    """Return the paths of the folders in a folder."""
    found = []
    for entry in _listed(str(folder)):
        with contextlib.suppress(OSError):  # a link may lead nowhere
            if entry.is_dir():
                found.append(entry.path)
    return found


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def output_names(spec: Spec) -> list[str]:
    """Return a file name of each kind that can hold the spec's releases; Parquet if pyarrow is installed."""
    cannot = {
        *(WITHOUT_VECTORS if spec.traits.releases_vectors else ()),
        *(TEXTS_ONLY if spec.traits.releases_labels else ()),
        *((Format.PARQUET,) if importlib.util.find_spec("pyarrow") is None else ()),
    }
    return [f"out.{extension}" for kind, names in _EXTENSIONS.items() if kind not in cannot for extension in names]


def _run(source: Path, output: str, mechanism: Mechanism[str]) -> tuple[dict[str, bytes], list[_Mark]]:
    marks: list[_Mark] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / output

        def mark(done: int) -> None:
            state = FileState.load(state_path(target))
            sizes = [(path.name, path.stat().st_size) for path in sorted(folder.iterdir())]
            marks.append((done, state.records, state.bytes, sizes))

        plan = Plan(batch_size=_BLOCK, without_guarantee=True)
        privatize_file(source, target, mechanism, plan=plan, on_progress=mark)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files, marks
