"""The parts of a data set: their records and their names.

Names are checked before the charge: a part that cannot be written, or named by the manifest, would end a paid run that
cannot be resumed.
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
    """One file of the output: its name, and the range `start` to `stop` of its records in the whole input."""

    name: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of records in the part."""
        return self.stop - self.start


def names_of(shards: Sequence[Shard], kind: Format, *, compressed: bool) -> list[str]:
    """Return the names of the parts for --keep-shards, which writes one part for each input file.

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
    """Return numbered parts for `total` records. Each part has `size` records, the last part may have fewer."""
    suffix = _suffix(kind, compressed=compressed)
    starts = range(0, total, size)
    return [OutputPart(f"part-{i:06d}{suffix}", start, min(start + size, total)) for i, start in enumerate(starts)]


def _suffix(kind: Format, *, compressed: bool) -> str:
    return (".txt" if kind is Format.TEXT else f".{kind}") + ".gz" * compressed


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    path = path.with_suffix("") if is_compressed(name) else path
    return path.with_suffix("").as_posix()
