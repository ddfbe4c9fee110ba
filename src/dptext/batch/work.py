"""What a worker does: survey a shard, and privatize a run of parts.

A survey reads a shard once and keeps a keyed hash of each block of records. Whoever privatizes reads the shard again
and passes a block on after its hash was compared, so that what is released is what was counted and charged.
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

BLOCK: Final = 1024  #: Records of a block that is compared; as many are read ahead of what is released
_HASH: Final = 16  # bytes
HASHED: Final = np.dtype(f"S{_HASH}")


#: A shard that parts lie in: its number, the place of its first record in the whole input, the hashes of its survey.
Source = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a survey found in a shard."""

    records: int  #: how many can be read
    hashes: bytes = field(repr=False)  #: of each block, 16 bytes, under the key of the run
    #: of each record, as of `authors`, 16 bytes, sorted, under the same key; empty where they need no check
    ids: bytes = field(default=b"", repr=False)
    authors: bytes = field(default=b"", repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)  #: how many records were skipped, by the reason


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker of a run knows."""

    shards: tuple[Shard, ...]
    plan: Plan
    mechanism: Mechanism[str]
    target: Target
    kind: Format
    columns: Columns
    compressed: bool
    key: bytes = field(repr=False)  #: of the hashes of this run; 32 bytes
    seed: int | None = None  #: of an experiment, which voids the guarantee; None draws from the operating system
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  #: of fsspec; they may hold secrets

    def survey(self, number: int) -> Surveyed:
        """Count and hash the records of a shard."""
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
        """How many records of a shard have a label of the public set; the shard is not read where none is looked at."""
        traits = self.mechanism.spec.traits
        blocks = self._blocks(number, {}) if traits.reads_labels else ()
        return sum(n_known(block.labels, traits.labels) for block in blocks)

    def subjects(self, found: Iterable[bytes]) -> Iterator[str]:
        """The subject of every record, as it was surveyed."""
        for number, hashes in enumerate(found):
            for block in self._verified(number, hashes):
                yield from (subject or "" for subject in block.subjects)

    def privatize(self, parts: tuple[OutputPart, ...], sources: tuple[Source, ...]) -> tuple[str, ...]:
        """Privatize parts that follow each other, without gaps, and publish each that nobody has published yet.

        `sources` are the shards that they lie in, in order. The sha256 of each part as it is visible.
        """
        there = [self.target.sha256(part.name) for part in parts]
        if all(there):  # after a kill, or because another attempt was faster
            return tuple(filter(None, there))
        randomness = secure() if self.seed is None else seeded(self.seed)
        found: list[str] = []
        with contextlib.closing(self._records(parts[0].start, parts[-1].stop, sources)) as stream:
            rest = Rest(stream)
            for part, visible in zip(parts, there, strict=True):
                own = rest.take(part.size)
                found.append(self._publish(part, own, randomness) if visible is None else visible)
                deque(own, 0)  # what was not read, as it was published before
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
        """The records of a shard in blocks of `BLOCK`, the last one shorter."""
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
    """A stream of batches of which so many records can be taken at a time."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._left: Batch | None = None

    def take(self, n: int) -> Iterator[Batch]:
        """The next `n` records, fewer at the end. They must be used up before more are taken."""
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
    """How often the hash comes that comes most, over arrays of `HASHED`, each sorted; 0 without any.

    They are looked at by their first byte: memory is that of a 256th of them.
    """
    most = 0
    for value in range(256):
        low, high = np.array([bytes([value]), bytes([value, *b"\xff" * (_HASH - 1)])], HASHED)
        parts = [each[np.searchsorted(each, low) : np.searchsorted(each, high, "right")] for each in arrays]
        _, counts = np.unique(np.concatenate([np.empty(0, HASHED), *parts]), return_counts=True)
        most = max(most, int(counts.max(initial=0)))
    return most
