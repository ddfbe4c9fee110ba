"""The shards of an input, which are its files, and their records.

    read(shards_of("private/*.parquet", options={})[0], Plan(), {}, {})

An input is a folder, a glob, a single file, a data set that `datasets` saved, or a URL that fsspec knows
(`s3://bucket/private`).
"""

import contextlib
import glob
import io
import itertools
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from dptext.errors import BrokenFileError, ConfigError, DPTextError, needing
from dptext.runs.certificate import MANIFEST, certificate_path
from dptext.runs.plan import Plan
from dptext.text.batches import Batch
from dptext.text.column_types import agreed, of_arrow, of_parquet
from dptext.text.formats import Format, detect_format
from dptext.text.inputs import Opener, parse_json, read_whole, telling
from dptext.text.lines import BadHeader, Chunk, Row, no_column, remedy, rows_of
from dptext.text.packed_rows import batch_chunks, class_names, load_pyarrow, with_classes
from dptext.text.plain_text import Portion
from dptext.text.reading import read_batches, read_records, require_layout
from dptext.text.row_checks import needed

_CERTIFICATE: Final = certificate_path(Path("x")).name[1:]
_SAVED_DATASET: Final = "state.json"  # file that `Dataset.save_to_disk` writes beside its Arrow files
_CHUNK: Final = 1024
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"  # last bytes of an Arrow stream
_OWN: Final = ("file", "local")  # URL schemes of local files
_ADVICE: Final = "Repair it, or skip such records: --on-error skip."


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of the input: its name within the input, and its path or URL."""

    name: str
    where: str
    arrow: bool = False  #: whether the file is an Arrow stream, as `datasets` saves it


def is_remote(where: str) -> bool:
    """Return whether `where` is a URL, and not a path of this computer."""
    return "://" in where


def as_path(where: str) -> str:
    """Return the path of a local file's URL, for comparing and replacing; other strings unchanged."""
    scheme, _, rest = where.partition("://")
    if scheme not in _OWN or not rest:
        return where
    return unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)


def file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path in it.

    MissingExtraError: fsspec is not installed. ConfigError: fsspec does not know the URL, or lacks a package for it.
    """
    with needing("A URL", "dptext[files]"):
        import fsspec  # noqa: PLC0415 (an extra)
    try:
        return fsspec.core.url_to_fs(url, **options)  # type: ignore[no-any-return]  # untyped
    except ImportError as error:
        scheme = url.partition("://")[0]
        raise ConfigError(f"Expected the package that fsspec needs for {scheme}://: {error}") from None
    except ValueError as error:
        raise ConfigError(f"Expected a URL that fsspec knows, found {url!r}: {error}") from None


def shards_of(source: str | Path, *, format: Format | None = None, options: Mapping[str, Any]) -> tuple[Shard, ...]:
    """Return the files of an input, sorted by name.

    A folder gives all its files and those in its subfolders. Names that begin with `.` or `_`, certificates and
    manifests are left out. ConfigError: there is no file, a file is found under two names, or, without `format`, a file
    has an unknown extension.
    """
    where = as_path(str(source))
    found = _remote(where, options) if is_remote(where) else _local(Path(where))
    wanted = [shard for shard in found if not _aside(PurePosixPath(shard.name))]
    if not wanted:
        raise ConfigError(f"Expected files of records at {where!r}, found none.")
    for shard in wanted:
        if format is None and not shard.arrow:
            detect_format(shard.name)
    _refuse_twice(wanted)
    return tuple(sorted(wanted, key=lambda shard: shard.name))


def as_read(source: str | Path, shards: Sequence[Shard], plan: Plan) -> Plan:
    """Return the plan with `record` set for plain text files: "file" unless the plan sets `record`.

    ConfigError: the input is a single plain text file and the plan sets no `record`; or the plan sets `record` and no
    file is plain text; or the plan sets `sheet` and no file is a workbook.
    """
    texts = [each for each in shards if not each.arrow and _format(each, plan) is Format.TEXT]
    if plan.sheet is not None and all(each.arrow or _format(each, plan) is not Format.XLSX for each in shards):
        raise ConfigError(f"Expected no --sheet: no file at {str(source)!r} is a workbook.")
    if not texts and plan.record is not None:
        raise ConfigError(f"Expected no --record: no file at {str(source)!r} is plain text.")
    if not texts or plan.record is not None:
        return plan
    if len(shards) == 1 and PurePosixPath(as_path(str(source))).name == PurePosixPath(shards[0].name).name:
        require_layout(Path(shards[0].name), Format.TEXT, None, None, None)
    return replace(plan, record=Portion.FILE)


def _format(shard: Shard, plan: Plan) -> Format:
    return plan.input_format or detect_format(shard.name)


def forms_of(shards: Sequence[Shard], plan: Plan) -> tuple[str, ...]:
    """Return the formats of the files by their names, sorted, if there are several; else none."""
    found = sorted({str(_format(each, plan)) for each in shards if not each.arrow})
    return tuple(found) if len(found) > 1 else ()


def types_of(shards: Sequence[Shard], plan: Plan) -> dict[str, Any]:
    """Return the column types that all files share, if all are local Parquet or Arrow files; else none."""
    packed = all(each.arrow or (_format(each, plan) is Format.PARQUET and not is_remote(each.where)) for each in shards)
    return agreed((of_arrow if each.arrow else of_parquet)(Path(each.where)) for each in shards) if packed else {}


def _aside(name: PurePosixPath) -> bool:
    return any(map(_hidden, name.parts)) or name.name == MANIFEST or name.name.endswith(_CERTIFICATE)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _refuse_twice(shards: Iterable[Shard]) -> None:
    """Raise ConfigError if two names lead to one file: its records would be released twice."""
    seen = dict[tuple[int, int], str]()
    for shard in shards:
        if is_remote(shard.where):
            continue  # an object store has no links
        with telling(shard.where, "read"):
            found = Path(shard.where).stat()
        _once(seen, found, shard.where)


def _once(seen: dict[tuple[int, int], str], found: os.stat_result, where: str) -> None:
    number = found.st_dev, found.st_ino
    if number in seen:
        raise ConfigError(
            f"Expected each file once, found one under two names: {seen[number]!r} and {where!r}. Leave one of them "
            "out: its records would be released twice."
        )
    seen[number] = where


def _files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and its subfolders, links followed. ConfigError: two names lead to one folder."""
    found, seen, left = list[Path](), dict[tuple[int, int], str](), [folder]
    while left:
        own = left.pop()
        with telling(own, "read"):
            _once(seen, own.stat(), str(own))
            there = [each for each in own.iterdir() if not _hidden(each.name)]
        left += [each for each in there if each.is_dir()]
        found += [each for each in there if each.is_file()]
    return found


def _local(path: Path) -> list[Shard]:
    if path.is_dir():
        if (path / "dataset_dict.json").is_file():
            raise ConfigError(f"Expected one split of the data set at {str(path)!r}: name its folder, as train.")
        if (path / _SAVED_DATASET).is_file():
            return _saved(path)
        return [Shard(each.relative_to(path).as_posix(), str(each)) for each in _files_in(path)]
    if path.is_file():
        return [Shard(path.name, str(path))]
    listed = dict.fromkeys(glob.glob(str(path), recursive=True))  # noqa: PTH207 (recursive)
    files = [Path(each) for each in listed if Path(each).is_file()]
    names = [each.name for each in files]
    if len(set(names)) < len(names):  # the files lie in several folders
        whole = [os.path.abspath(each) for each in files]  # noqa: PTH100 (links are not followed)
        shared = os.path.commonpath(whole)
        return [
            Shard(Path(each).relative_to(shared).as_posix(), str(file)) for each, file in zip(whole, files, strict=True)
        ]
    return [Shard(each.name, str(each)) for each in files]


def _saved(folder: Path) -> list[Shard]:
    try:
        listed = [str(each["filename"]) for each in parse_json(read_whole(folder / _SAVED_DATASET))["_data_files"]]
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"Expected {folder / _SAVED_DATASET} as `datasets` writes it.") from None
    return [Shard(f"{i:06d}.arrow", str(folder / Path(name).name), arrow=True) for i, name in enumerate(listed)]


def _remote(url: str, options: Mapping[str, Any]) -> list[Shard]:
    fs, root = file_system(url, options)
    with telling(url, "read"):
        if glob.has_magic(root):
            paths = fs.glob(root)
            root = root[: min(root.find(sign) for sign in "*?[" if sign in root)].rpartition("/")[0]
        elif fs.isfile(root):
            paths, root = [root], root.rpartition("/")[0]
        else:
            paths = fs.find(root)
    prefix = root.rstrip("/") + "/"
    return [Shard(str(path).removeprefix(prefix), fs.unstrip_protocol(path)) for path in paths]


def read(
    shard: Shard,
    plan: Plan,
    options: Mapping[str, Any],
    skipped: dict[str, int],
    *,
    allow_empty: bool = False,
    first_fields: bool = False,
) -> Generator[Batch, None, None]:
    """Yield the records of a shard, as `read_batches`. Skipped records are counted by reason in `skipped`."""

    def skip(_: int, reason: str) -> None:
        skipped[reason] = skipped.get(reason, 0) + 1

    settings: dict[str, Any] = {"on_error": plan.on_error, "on_skip": skip, "advice": _ADVICE}
    if shard.arrow:
        yield from _arrow(shard, plan, settings)
        return
    if (opener := opener_of(shard, options)) is not None:
        source, settings["opener"] = Path(shard.name), opener
    else:
        source = Path(shard.where)
    kind = _format(shard, plan)
    settings.update(plan.reading, format=kind, allow_empty=allow_empty, first_fields=first_fields)
    settings["one_of_many"] = allow_empty
    settings["record"] = plan.record if kind is Format.TEXT else None
    settings["sheet"] = plan.sheet if kind is Format.XLSX else None
    yield from read_batches(source, plan.fields, **settings)


def opener_of(shard: Shard, options: Mapping[str, Any]) -> Opener | None:
    """Return what opens a remote file; None for a file of this computer. Errors as `file_system`."""
    if not is_remote(shard.where):
        return None
    fs, path = file_system(shard.where, options)

    def opened(_: Path) -> io.BufferedReader:
        with telling(shard.where, "read"):
            return io.BufferedReader(fs.open(path, "rb"))

    return opened


def _arrow(shard: Shard, plan: Plan, settings: Mapping[str, Any]) -> Iterator[Batch]:
    with _arrow_table(shard) as table:
        options = {name: value for name, value in plan.reading.items() if name in ("empty_nulls", "strip_html")}
        found = read_records(_rows(table, plan), plan.fields, **settings, **options)
        while records := list(itertools.islice(found, _CHUNK)):
            yield Batch.of(records)


@contextlib.contextmanager
def _arrow_table(shard: Shard) -> Iterator[Any]:
    """Open the table of an Arrow stream. BrokenFileError: it is cut short. ConfigError: this is none."""
    pa, _ = load_pyarrow()
    try:
        with pa.memory_map(shard.where) as file, pa.ipc.open_stream(file) as stream:
            table = stream.read_all()  # a view of the memory map: it takes no memory of its own
            # pyarrow does not notice that a stream was cut between two batches, or that more follows its end.
            if file.tell() != file.size() or file.read_at(len(_END), max(0, file.size() - len(_END))) != _END:
                raise BrokenFileError(f"{shard.where}: the Arrow data is truncated, or more follows its end.")
            yield table
            return
    except DPTextError:
        raise
    except (OSError, pa.ArrowException):
        problem = ConfigError(f"Expected {shard.where} to be an Arrow stream, as `datasets` writes it.")
    raise problem


def arrow_chunks(shard: Shard, names: Sequence[str]) -> Generator[Chunk, None, None]:
    """Yield the rows of an Arrow stream, or their faults, as `file_chunks`. Errors as of `read`."""
    with _arrow_table(shard) as table:
        known = table.column_names
        for name in names:
            if known.count(name) != 1:
                yield [BadHeader(f"the file has {no_column(name, names, known)}", name, table.num_rows > 0)]
                return
        yield from _chunks(table, names or known)


def _chunks(table: Any, names: Sequence[str]) -> Iterator[Chunk]:
    """Yield these columns of a table, with names of classes, without a copy of the table."""
    classes = class_names(table.schema.metadata or {})
    for batch in (table.select(names) if table.num_rows else table).to_batches(max_chunksize=_CHUNK):
        yield from with_classes(batch_chunks(batch, {*names}), classes)


def _rows(table: Any, plan: Plan) -> Iterator[Row]:
    """Yield the rows, or their faults, of the wanted columns, without a copy of the table."""
    wanted = needed(plan.fields)
    for name in wanted if table.num_rows else ():
        if name not in table.column_names:
            found = ", ".join(table.column_names)
            raise ConfigError(f"Expected the column {name!r} in the data set, found {found}: {remedy(name, wanted)}.")
    for chunk in _chunks(table, wanted):
        yield from rows_of(chunk)
