"""The job of a worker: survey a shard, and privatize parts that follow each other.

A survey reads a shard once and returns a keyed hash of each block of records. Privatizing reads the shard again and
compares the hash of each block before its release, so that the released records are those counted and charged.
"""

import contextlib
import hashlib
import json
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from dptext.batch.parts import OutputPart
from dptext.batch.shards import Shard, read
from dptext.batch.targets import Target
from dptext.errors import DataError
from dptext.mechanism import Mechanism
from dptext.privacy.names import seen_form
from dptext.runs.plan import Plan
from dptext.runs.streaming import released
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.text.batches import Batch
from dptext.text.columns import Columns
from dptext.text.formats import Format
from dptext.text.labels import n_known
from dptext.text.writers import blocks, completed, open_writer

BLOCK: Final = 1024  #: Records of a block that is compared; as many records are read ahead of the release
_HASH: Final = 16  # bytes of a hash
HASHED: Final = np.dtype(f"S{_HASH}")


#: A shard of some parts: its number, the position of its first record in the whole input, the hashes of its survey.
Source = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The survey of a shard."""

    records: int  #: number of readable records
    hashes: bytes = field(repr=False)  #: hashes of the blocks, 16 bytes each, under the key of the run
    #: hashes of ids and of `authors`, one of 16 bytes per record, sorted, under the same key; empty if not checked
    ids: bytes = field(default=b"", repr=False)
    authors: bytes = field(default=b"", repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)  #: number of skipped records by reason


@dataclass(frozen=True, slots=True)
class Job:
    """The job of a run, which every worker gets."""

    shards: tuple[Shard, ...]
    plan: Plan
    mechanism: Mechanism[str]
    target: Target
    kind: Format
    columns: Columns
    compressed: bool
    key: bytes = field(repr=False)  #: key of the hashes of this run; 32 bytes
    seed: int | None = None  #: seed of an experiment, which voids the guarantee; None for secure randomness
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  #: options of fsspec; they may hold secrets

    def survey(self, number: int) -> Surveyed:
        """Count and hash the records of a shard. DataError: max_per_author is set and a record has no author."""
        records, hashes, skipped = 0, list[bytes](), dict[str, int]()
        ids, authors = bytearray(), bytearray()
        for block in self._blocks(number, skipped):
            hashes.append(self._hash(block, number, len(hashes)))
            records += len(block)
            if self.plan.fields.id is not None:
                ids += b"".join(self._keyed(each.encode()) for each in block.ids)
            if self.plan.max_per_author is not None:
                for name in block.authors:
                    author = seen_form(name or "")
                    if not author:
                        raise DataError(
                            f"{self.shards[number].where} has a record without an author, which max_per_author needs."
                        )
                    authors += self._keyed(author.encode())
        by_id, by_author = (np.sort(np.frombuffer(each, HASHED)).tobytes() for each in (ids, authors))
        return Surveyed(records, b"".join(hashes), by_id, by_author, skipped)

    def labelled(self, number: int) -> int:
        """Return the number of a shard's records with a label of the public set; 0 if the mechanism reads no labels."""
        traits = self.mechanism.spec.traits
        blocks = self._blocks(number, {}) if traits.reads_labels else ()
        return sum(n_known(block.labels, traits.labels) for block in blocks)

    def subjects(self, found: Iterable[bytes]) -> Iterator[str]:
        """Yield the subject of every record. `found` has the hashes of each shard. DataError: a shard changed."""
        for number, hashes in enumerate(found):
            for block in self._verified(number, hashes):
                yield from (subject or "" for subject in block.subjects)

    def privatize(self, parts: tuple[OutputPart, ...], sources: tuple[Source, ...]) -> tuple[str, ...]:
        """Privatize parts that follow each other without gaps, and publish each part that is not visible yet.

        `sources` are the shards of these parts, in order. Returns the sha256 of each visible part. DataError: a shard
        changed since its survey.
        """
        there = [self.target.sha256(part.name) for part in parts]
        if all(there):  # an attempt before a kill, or a faster attempt, published them
            return tuple(filter(None, there))
        randomness = secure() if self.seed is None else seeded(self.seed)
        found: list[str] = []
        with contextlib.closing(self._records(parts[0].start, parts[-1].stop, sources)) as stream:
            rest = Rest(stream)
            for part, visible in zip(parts, there, strict=True):
                own = rest.take(part.size)
                found.append(self._publish(part, own, randomness) if visible is None else visible)
                deque(own, 0)  # skip the records of a part that was visible already
        return tuple(found)

    def _publish(self, part: OutputPart, own: Iterator[Batch], randomness: Randomness) -> str:
        size = self.plan.batch_size

        def write(file: BinaryIO) -> None:
            writer = open_writer(file, self.kind, compressed=self.compressed, columns=self.columns)
            stream = released(own, self.mechanism, randomness, batch_size=size, position=part.start)
            with completed(writer, contextlib.nullcontext()):
                for block in blocks(stream, size):
                    writer.write(block)

        return self.target.publish(part.name, write)

    def _records(self, start: int, stop: int, sources: Iterable[Source]) -> Generator[Batch, None, None]:
        for number, first, hashes in sources:
            place = first
            with contextlib.closing(self._verified(number, hashes)) as verified:
                for block in verified:
                    begin, end = max(start - place, 0), min(stop - place, len(block))
                    if begin < end:
                        own = block[begin:end]
                        ids = own.ids if self.plan.fields.id else list(map(str, range(place + begin, place + end)))
                        yield replace(own, ids=ids)
                    place += len(block)
                    if place >= stop:
                        return

    def _verified(self, number: int, hashes: bytes) -> Generator[Batch, None, None]:
        place = 0
        with contextlib.closing(self._blocks(number, {})) as found:
            for place, block in enumerate(found, 1):
                if self._hash(block, number, place - 1) != hashes[(place - 1) * _HASH : place * _HASH]:
                    break
                yield block
            else:
                if place * _HASH == len(hashes):
                    return
        raise DataError(
            f"{self.shards[number].where} changed while it was read: other records were counted. Nothing of this part "
            "is released."
        )

    def _blocks(self, number: int, skipped: dict[str, int]) -> Generator[Batch, None, None]:
        """Yield the records of a shard in blocks of `BLOCK`; the last block may be shorter."""
        with contextlib.closing(read(self.shards[number], self.plan, self.options, skipped, allow_empty=True)) as found:
            rest = Rest(found)
            while parts := list(rest.take(BLOCK)):
                yield Batch.joined(parts)

    def _hash(self, block: Batch, number: int, place: int) -> bytes:
        columns = (block.ids, block.texts, block.labels, block.authors, block.subjects)
        kept = [dict(each) for each in block.kept] if self.plan.fields.keep else []
        data = json.dumps([number, place, *map(list, columns), kept], ensure_ascii=False)
        return self._keyed(data.encode("utf-8", "surrogatepass"))

    def _keyed(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=_HASH, key=self.key).digest()


class Rest:
    """A stream of batches from which any number of records can be taken at a time."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._left: Batch | None = None

    def take(self, n: int) -> Iterator[Batch]:
        """Yield the next `n` records, fewer at the end. The caller must use them up before it takes more."""
        while n > 0:
            batch = self._left if self._left is not None else next(self._batches, None)
            self._left = None
            if batch is None:
                return
            if len(batch) > n:
                batch, self._left = batch[:n], batch[n:]
            n -= len(batch)
            yield batch


def most_common(arrays: Sequence[NDArray[Any]]) -> int:
    """Return the count of the most frequent hash in sorted arrays of `HASHED`; 0 for no hashes.

    Hashes are counted by first byte, so that about 1/256 of the hashes is in memory at once.
    """
    most = 0
    for value in range(256):
        low, high = np.array([bytes([value]), bytes([value, *b"\xff" * (_HASH - 1)])], HASHED)
        parts = [each[np.searchsorted(each, low) : np.searchsorted(each, high, "right")] for each in arrays]
        _, counts = np.unique(np.concatenate([np.empty(0, HASHED), *parts]), return_counts=True)
        most = max(most, int(counts.max(initial=0)))
    return most
