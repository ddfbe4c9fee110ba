"""The parts of a data set: which records each holds, and what it is called.

Names are checked before anything is paid: a part that cannot be written, or named by the manifest, would end a run that
nobody can go on with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from dptext.batch.shards import Shard
from dptext.errors import ConfigError
from dptext.runs.certificate import MANIFEST, certificate_path, check_name
from dptext.text.formats import Format, is_compressed

_OURS: Final = (MANIFEST, certificate_path(Path(MANIFEST)).name)


@dataclass(frozen=True, slots=True)
class OutputPart:
    """One file of the output: its name, and which records of the whole input it holds."""

    name: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many records it holds."""
        return self.stop - self.start


def names_of(shards: Sequence[Shard], kind: Format, *, compressed: bool) -> list[str]:
    """The names of the parts where each file of the input has one of its own.

    ConfigError: two files would have one part, a part or the manifest would be the folder of another part, or the
    certificate cannot state a name.
    """
    names = [_stem(shard.name) + _suffix(kind, compressed=compressed) for shard in shards]
    for shard, name in zip(shards, names, strict=True):
        for each in (*PurePosixPath(shard.name).parts, *PurePosixPath(name).parts):
            check_name(each)
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if len(set(names)) < len(names) or not folders.isdisjoint(names):
        raise ConfigError("Expected files whose names differ without their extensions, with --keep-shards.")
    if taken := folders.intersection(_OURS):
        raise ConfigError(f"Expected no folder with the name {min(taken)!r}, with --keep-shards: a file takes it.")
    return names


def numbered(total: int, size: int, kind: Format, *, compressed: bool) -> list[OutputPart]:
    """Parts of `size` records, but the last, of so many records in all."""
    suffix = _suffix(kind, compressed=compressed)
    starts = range(0, total, size)
    return [OutputPart(f"part-{i:06d}{suffix}", start, min(start + size, total)) for i, start in enumerate(starts)]


def _suffix(kind: Format, *, compressed: bool) -> str:
    return (".txt" if kind is Format.TEXT else f".{kind}") + ".gz" * compressed


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    path = path.with_suffix("") if is_compressed(name) else path
    return path.with_suffix("").as_posix()
