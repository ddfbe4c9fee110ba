"""A private corpus of many files, summed up by many workers: `dptext.synthesize_dataset`.

A worker reads its records and answers with what a sum needs of them. No order, and no worker, shows in a sum of whole
numbers, so that the synthetic corpus is that of one process. Each record is in one answer that counts: where a worker
dies, its task is done again, and what it said before is not there.

Answers, the numbers of records among them, are sealed to a key pair of the run, as a cluster keeps them and may write
them to its disks; what is asked names files and places in them alone. Whoever watches the workers still sees how much
they do: a task for each 16,384 records, the lengths of answers as powers of two, and their time. As the base
mode of HPKE (RFC 9180), each answer is encrypted under a key of its own, agreed on by X25519 between a key pair of the
answer and the public key of the run.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dptext.batch.engines import Engine, Here, Workers
from dptext.batch.shards import Shard, as_read, read, shards_of
from dptext.batch.work import Rest
from dptext.errors import DPTextError
from dptext.runs.apart import NO_POOL, Found, Pool
from dptext.runs.plan import Plan
from dptext.runs.private import Private, untold
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import run
from dptext.synthesis.space import Corpus, PublicSpace, Reading, readings
from dptext.text.batches import Batch
from dptext.text.reading import OnError
from dptext.text.samples import sample_records

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment
    from dptext.sampling.randomness import Randomness
    from dptext.synthesis.spec import Fitted

TASK_RECORDS: Final = 16_384  #: Records of a task: what is answered of them is in memory at once
_PROBED: Final = 32  # public texts whose points tell how a computer rounds
_COUNT: Final = 8  # bytes
_ARRAYS: Final = ("labels", "points", "unlike")  # of a reading, in its order


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PrivateShards(Private):
    """A private corpus of many files; `source` says where they are."""

    shards: tuple[Shard, ...]  #: the files
    plan: Plan  #: how they are read
    options: Mapping[str, Any] = field(default_factory=dict)  #: of fsspec
    engine: Engine = field(default_factory=Here)  #: who reads them
    counts: tuple[int, ...] = ()  #: the number of records of each file, once it was read
    whole: bool = True  #: whether the first record is that of the corpus

    def found(self) -> Iterator[Batch]:
        """The records of all files that can be read, one file after the other."""
        plan, first_fields = replace(self.plan, on_error=OnError.SKIP), self.whole
        for shard in self.shards:
            for batch in read(shard, plan, self.options, {}, allow_empty=True, first_fields=first_fields):
                first_fields = False
                yield batch

    def kept(self, pool: Pool = NO_POOL) -> PrivateShards:
        """The same, after the fields of the first record were looked at, and each file was read to its end."""
        with closing(self.batches()) as found_here:
            next(found_here, None)
        to, tasks = Recipient(), [("count", (number,)) for number in range(len(self.shards))]
        counts, found = {}, list[Found]()
        for number, answer in untold(self.engine.answers(Counting(self.apart, to.public, pool=pool), tasks)):
            opened = to.opened(answer, _about(number))
            counts[number] = int.from_bytes(opened[:_COUNT], "big")
            found.append(Found.from_bytes(pool, opened[_COUNT:]))
        pool.refuse(found)
        return replace(self, counts=tuple(counts[number] for number in range(len(self.shards))))

    @property
    def apart(self) -> PrivateShards:
        """What a worker is told of it."""
        return replace(self, engine=Here(), counts=(), whole=False)

    @property
    def corpus(self) -> Corpus:
        """The records, read by the engine."""
        return _Corpus(self)

    @property
    def nothing(self) -> Corpus:
        """No record; each worker of the engine says that it could read one."""
        return _Nothing(self)


@dataclass(frozen=True, slots=True, repr=False)
class _Corpus:
    private: PrivateShards

    def __call__(self) -> Generator[Batch, None, None]:
        return self.private.batches()

    def readings(self, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
        """See `ReadsItself`."""
        private, to = self.private, Recipient()
        reader = _reader(private, to, space, labels)
        places = _tasks(private.counts)
        for i, answer in untold(private.engine.answers(reader, [("read", place) for place in places])):
            yield from _unpacked(to.opened(answer, _about(*places[i])))


@dataclass(frozen=True, slots=True, repr=False)
class _Nothing:
    private: PrivateShards

    def __call__(self) -> Generator[Batch, None, None]:
        yield from ()

    def readings(self, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
        """None, once each worker has read the space and some public texts."""
        to = Recipient()
        reader, workers = _reader(self.private, to, space, labels), range(getattr(self.private.engine, "n", 1))
        for i, answer in self.private.engine.answers(reader, [("ready", (worker,)) for worker in workers]):
            yield from _unpacked(to.opened(answer, _about(i)))


@dataclass(frozen=True, slots=True, repr=False)
class Counting:
    """Counts the records of files. Every worker knows its fields, and whoever keeps it between them does."""

    private: PrivateShards
    to: bytes  #: the public key that answers are sealed to
    pool: Pool = field(default=NO_POOL, kw_only=True)  #: what the corpus must not be

    def count(self, number: int) -> bytes:
        """How many records of a file can be read, and which texts of the pool it has, sealed."""
        n, found = 0, Found(self.pool)
        for batch in self._some(number, number).batches():
            n += len(batch)
            found.add(batch.texts)
        return sealed(n.to_bytes(_COUNT, "big") + found.to_bytes(), self.to, _about(number))

    def _some(self, first: int, last: int) -> PrivateShards:
        return replace(self.private, shards=self.private.shards[first : last + 1])


@dataclass(frozen=True, slots=True, repr=False)
class Reader(Counting):
    """Reads the records of files."""

    space: PublicSpace
    labels: tuple[str, ...]
    rounding: str

    def ready(self, worker: int) -> bytes:
        """No reading, sealed, from a computer that could give some. DPTextError as `read`."""
        self._require_rounding()
        return sealed(_packed([]), self.to, _about(worker))

    def read(self, first: int, last: int, start: int, stop: int) -> bytes:
        """What the sums need of the records of some files from one place in all of them to another, sealed.

        DPTextError: this computer rounds vectors otherwise. A record more would then move others to another computer,
        and so move a sum by more than its own vector.
        """
        self._require_rounding()

        def corpus() -> Generator[Batch, None, None]:
            rest = Rest(self._some(first, last).batches())
            deque(rest.take(start), 0)
            yield from rest.take(stop - start)

        answer = _packed(list(readings(corpus, self.space, self.labels)))
        return sealed(answer, self.to, _about(first, last, start, stop))

    def _require_rounding(self) -> None:
        if _rounding(self.space) != self.rounding:
            raise DPTextError(
                "A worker's processor computes other vectors than the one that read the pool. Take computers of one "
                "kind. Nothing is released."
            )


def _tasks(counts: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The first and last file of each task, and places in these: parts of a large file, or small ones together.

    They tell no exact number of records.
    """
    found: list[tuple[int, int, int, int]] = []
    together = TASK_RECORDS  # records of the last task; it is full
    for number, n in enumerate(counts):
        if found and together + n <= TASK_RECORDS:
            found[-1] = found[-1][0], number, 0, TASK_RECORDS
            together += n
        elif n:
            found += [(number, number, start, start + TASK_RECORDS) for start in range(0, n, TASK_RECORDS)]
            together = n  # of a large file no task has room
    return found


def _reader(private: PrivateShards, to: Recipient, space: PublicSpace, labels: Sequence[str]) -> Reader:
    return Reader(private.apart, to.public, space, tuple(labels), _rounding(space))


def _rounding(space: PublicSpace) -> str:
    """sha256 of the points of some public texts on this computer."""
    points = space.points([record.text for record in sample_records(_PROBED, seed=0)])
    return hashlib.sha256(points.tobytes()).hexdigest()


def _about(*task: int) -> bytes:
    return repr(task).encode()


def _packed(found: Sequence[Reading]) -> bytes:
    """Arrays and names alone: whoever could forge an answer could make nobody run code."""
    file = io.BytesIO()
    authors = np.frombuffer(json.dumps([each.authors for each in found]).encode(), np.uint8)
    arrays = {f"{name}{i}": getattr(each, name) for i, each in enumerate(found) for name in _ARRAYS}
    np.savez(file, authors=authors, **arrays)
    return file.getvalue()


def _unpacked(data: bytes) -> Iterator[Reading]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        for i, authors in enumerate(json.loads(file["authors"].tobytes())):
            labels, points, unlike = (file[f"{name}{i}"] for name in _ARRAYS)
            yield Reading(labels, points, unlike, authors)


def synthesize_dataset(
    source: str | Path,
    fitted: Fitted,
    *,
    plan: Plan,
    workers: Workers | None = None,
    storage_options: Mapping[str, Any] | None = None,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
    settled: bool = True,
    public: Iterable[str] | None = None,
) -> Synthesized:
    """A synthetic corpus and its certificate, of a private corpus of many files.

    Args:
        source: a folder, a glob, a folder of `Dataset.save_to_disk`, or a URL of fsspec.
        fitted: the synthesis, fitted on its public pool.
        plan: how the files are read.
        workers: who reads them.
        storage_options: of fsspec.
        payment: the account that is charged.
        randomness: secure by default.
        settled: False where `Synthesized.settle` is to settle the charge.
        public: texts that must not be the private corpus; by default those of the pool.

    As `dptext.synthesize`; DPTextError also where workers die again and again: nothing is released.
    """
    options = storage_options or {}
    shards = shards_of(source, format=plan.input_format, options=options)
    plan = as_read(source, shards, plan)
    engine, _ = (workers or Workers()).made()
    private = PrivateShards(
        str(source),
        plan.fields,
        dict(plan.reading),
        shards=shards,
        plan=plan,
        options=options,
        engine=engine,
    )
    return run(private, fitted, public=public, payment=payment, randomness=randomness, settled=settled)


_NONCE: Final = bytes(12)  # each key encrypts one answer
_KEY: Final = 32  # bytes
_SIZE: Final = 8  # bytes of a length
_LEAST: Final = 1 << 12  # bytes of a padded answer


@dataclass(frozen=True, slots=True, repr=False)
class Recipient:
    """Whoever answers are sealed for. It cannot be serialised: a worker gets its public key alone."""

    _private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def opened(self, sealed: bytes, about: bytes) -> bytes:
        """What was sealed about this; DPTextError where it is of something else, or of somebody else's key."""
        sent, padded = sealed[:_KEY], None
        with suppress(InvalidTag, ValueError):
            key = _derived(self._private.exchange(X25519PublicKey.from_public_bytes(sent)), sent + self.public)
            padded = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_KEY:], about)
        if padded is None:
            raise DPTextError("A worker answered what was not asked for. Nothing is released.")
        return padded[_SIZE : _SIZE + int.from_bytes(padded[:_SIZE], "big")]


def sealed(data: bytes, public: bytes, about: bytes) -> bytes:
    """The data for the holder of this public key, about what was asked; padded to a power of two."""
    own = X25519PrivateKey.generate()
    sent = own.public_key().public_bytes_raw()
    key = _derived(own.exchange(X25519PublicKey.from_public_bytes(public)), sent + public)
    length = max(_LEAST, 1 << (_SIZE + len(data) - 1).bit_length())
    padded = (len(data).to_bytes(_SIZE, "big") + data).ljust(length, b"\0")
    return sent + ChaCha20Poly1305(key).encrypt(_NONCE, padded, about)


def _derived(shared: bytes, keys: bytes) -> bytes:
    return HKDF(SHA256(), _KEY, salt=None, info=b"dptext answer" + keys).derive(shared)
