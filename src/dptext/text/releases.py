"""Releases out: JSON Lines, CSV, Parquet and plain text, in files that are made for sharing.

A file appears at its target when it is complete. Where a block of it ends follows from what is released alone.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from dptext.text.batches import Kept, Releases, groups
from dptext.text.columns import Columns
from dptext.text.files import Target, writing
from dptext.text.formats import Format, Scalar, is_compressed, output_format
from dptext.text.packed_rows import load_pyarrow
from dptext.text.records import Release
from dptext.text.writers import completed, open_writer

Block = Sequence[Release[str]]
_BLOCK_RELEASES: Final = 1024
_BLOCK_CHARACTERS: Final = 8_000_000
_CHARACTERS_PER_NUMBER: Final = 32  # a float of a tuple takes as many bytes


def blocks(parts: Iterable[Block], size: int) -> Iterator[Block]:
    """The releases in the blocks of a file: row groups of Parquet, members of gzip, marks of a run's state.

    A block ends with its `size`-th release, or with the release that brings the block to a public length. So the shape
    of a file follows from its releases, and not from how long the private texts were. A run that goes on after a block
    cuts the same blocks as one that was never interrupted.
    """
    lists = (part if isinstance(part, Releases) else list(part) for part in parts)
    return groups(lists, _lengths, _joined, size=size, characters=_BLOCK_CHARACTERS)


def _lengths(releases: Block) -> list[int]:
    if not isinstance(releases, Releases) or not isinstance(releases.kept, Kept):
        return [_length(release) for release in releases]
    numbers = releases.shape[1] or 0
    sizes = list(map(len, releases.outputs))
    if numbers:
        sizes = [size + _CHARACTERS_PER_NUMBER * numbers for size in sizes]
    for column in releases.kept.columns.values():
        sizes = [size + _characters(value) for size, value in zip(sizes, column, strict=True)]
    return sizes


def _length(release: Release[str]) -> int:
    numbers = 0 if release.vector is None else len(release.vector)
    return len(release.output) + sum(map(_characters, release.kept.values())) + _CHARACTERS_PER_NUMBER * numbers


def _characters(value: Scalar) -> int:
    return len(value) if isinstance(value, str) else 0


def _joined(parts: Sequence[Block]) -> Block:
    columns = [part for part in parts if isinstance(part, Releases)]
    if len(columns) == len(parts) and len({part.shape for part in columns}) == 1:
        return Releases.joined(columns)
    return list(itertools.chain.from_iterable(parts))


def write_releases(
    path: str | os.PathLike[str], releases: Iterable[Release[str]], *, format: Format | None = None, force: bool = False
) -> None:
    """Write releases to a file, which appears at ``path`` only when it is complete.

    The mode of the file follows the umask; it is gzipped if ``path`` ends in ``.gz``. Columns are ``id``, ``text``,
    ``embedding`` if the first release has a vector, ``label`` if it has a label, and its kept fields; later releases
    must have the same. There is no ``text`` where the releases have vectors and empty texts only. See ``encode_batch``
    for the formats.

    Raises:
        ConfigError: If a setting is wrong, the file exists, or it cannot be written.
        DataError: If a release cannot be written as UTF-8, or its vector is not finite or not as long as the first.
        MissingExtraError: If Parquet is to be written and pyarrow is not installed.
    """
    target = Target(Path(path), force=force, private=False)
    kind = output_format(target.path, format)
    if kind is Format.PARQUET:
        load_pyarrow()
    # Opened before the first release is drawn: a folder that cannot be written to must not cost privacy.
    with target.opened() as file:
        parts = [releases] if isinstance(releases, Releases) else ([release] for release in releases)
        write_all(file, target.path, parts, kind, _columns)


def _columns(first: Block) -> Columns:
    vector = bool(first) and first[0].vector is not None
    return Columns(
        # The whole block is looked at, because a single text may be empty by chance.
        text=not vector or any(release.output != "" for release in first),
        vector=vector,
        label=bool(first) and first[0].label is not None,
        keep=tuple(first[0].kept) if first else (),
    )


def write_all(
    file: BinaryIO, target: Path, parts: Iterable[Block], kind: Format, columns: Callable[[Block], Columns]
) -> None:
    """Write releases into an open file that is to appear at `target`; `columns` follow from the first block."""
    every = blocks(parts, _BLOCK_RELEASES)
    first = next(every, [])
    writer = open_writer(file, kind, compressed=is_compressed(target), columns=columns(first))
    with completed(writer, writing(target)):
        for batch in itertools.chain([first] if first else [], every):
            # Only the writing is inside: an OSError of whoever makes the releases is not about this file.
            with writing(target):
                writer.write(batch)
