"""A private corpus of many files, summed up by many workers: `dptext.synthesize_dataset`.

A worker reads its records and answers with their terms of the sums. Sums of whole numbers depend neither on the order
nor on the number of workers, so that the synthetic corpus equals that of one process. Each record is in exactly one
counted answer: if a worker dies, its task is done again, and no earlier answer of the task is counted.

Answers, with the numbers of records, are sealed to a key pair of the run, because a cluster keeps answers and may write
them to its disks. Tasks name only files and places in files. An observer of the workers still sees the amount of work:
one task per 16,384 records, the lengths of answers as powers of two, and the times. As in the base mode of HPKE
(RFC 9180), each answer is encrypted under a key of its own, agreed on by X25519 between a key pair of the answer and
the public key of the run.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
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
from dptext.batch.shards import Shard, as_read, forms_of, read, shards_of
from dptext.batch.work import Rest
from dptext.errors import DPTextError
from dptext.runs.plan import Plan
from dptext.runs.private import Private, untold
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import OnMeasured, run
from dptext.synthesis.readings import Corpus, PublicReader, Reading, readings
from dptext.text.batches import Batch
from dptext.text.reading import OnError
from dptext.text.samples import sample_records

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment
    from dptext.sampling.randomness import Randomness
    from dptext.synthesis.spec import Fitted, Progress

TASK_RECORDS: Final = 16_384  #: Records of a task, whose whole answer is in memory at once
_PROBED: Final = 32  # public texts whose points identify the rounding of a computer
_COUNT: Final = 8  # bytes of a number of records
_ARRAYS: Final = ("labels", "points", "unlike", "marks", "lengths", "columns")  # fields of a reading


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PrivateShards(Private):
    """A private corpus of many files; `source` is their path, glob or URL."""

    shards: tuple[Shard, ...]  #: the files
    plan: Plan  #: settings of the reader
    options: Mapping[str, Any] = field(default_factory=dict)  #: options of fsspec
    engine: Engine = field(default_factory=Here)  #: the workers that read the files
    counts: tuple[int, ...] = ()  #: number of records of each file; empty before `kept`

    def found(self) -> Iterator[Batch]:
        """Yield the readable records of all files, one file after the other. HeaderError as `read`, of each file."""
        plan = replace(self.plan, on_error=OnError.SKIP)
        for shard in self.shards:
            yield from read(shard, plan, self.options, {}, allow_empty=True, first_fields=True)

    def kept(self) -> PrivateShards:
        """Check the first fields of each file, read it to its end, and return the corpus with `counts`."""
        with closing(self.batches()) as found_here:
            next(found_here, None)
        to, tasks = Recipient(), [("count", (number,)) for number in range(len(self.shards))]
        counts = {}
        for number, answer in untold(self.engine.answers(Counting(self.apart, to.public), tasks)):
            counts[number] = int.from_bytes(to.opened(answer, _about(number)), "big")
        return replace(self, counts=tuple(counts[number] for number in range(len(self.shards))))

    @property
    def apart(self) -> PrivateShards:
        """The corpus as a worker gets it: without engine and counts."""
        return replace(self, engine=Here(), counts=())

    @property
    def forms(self) -> tuple[str, ...]:
        """The formats of the files, if there are several."""
        return forms_of(self.shards, self.plan)

    @property
    def corpus(self) -> Corpus:
        """The records as a corpus that the engine reads."""
        return _Corpus(self)

    @property
    def nothing(self) -> Corpus:
        """An empty corpus, for which each worker of the engine checks that it could read records."""
        return _Nothing(self)


@dataclass(frozen=True, slots=True, repr=False)
class _Corpus:
    private: PrivateShards

    def __call__(self) -> Generator[Batch, None, None]:
        return self.private.batches()

    def readings(self, reader: PublicReader, labels: Sequence[str]) -> Iterator[Reading]:
        """Yield the readings of all records, as `ReadsItself`."""
        private, to = self.private, Recipient()
        job = _reader(private, to, reader, labels)
        places = _tasks(private.counts)
        for i, answer in untold(private.engine.answers(job, [("read", place) for place in places])):
            yield from _unpacked(to.opened(answer, _about(*places[i])))


@dataclass(frozen=True, slots=True, repr=False)
class _Nothing:
    private: PrivateShards

    def __call__(self) -> Generator[Batch, None, None]:
        yield from ()

    def readings(self, reader: PublicReader, labels: Sequence[str]) -> Iterator[Reading]:
        """Yield no reading, after each worker has loaded the space and computed the points of some public texts."""
        to = Recipient()
        job, workers = _reader(self.private, to, reader, labels), range(getattr(self.private.engine, "n", 1))
        for i, answer in self.private.engine.answers(job, [("ready", (worker,)) for worker in workers]):
            yield from _unpacked(to.opened(answer, _about(i)))


@dataclass(frozen=True, slots=True, repr=False)
class Counting:
    """A job that counts the records of files. Its fields are known to every worker and to the cluster's storage."""

    private: PrivateShards
    to: bytes  #: the public key that answers are sealed to

    def count(self, number: int) -> bytes:
        """Return, sealed, the number of readable records of a file."""
        n = sum(len(batch) for batch in self._some(number, number).batches())
        return sealed(n.to_bytes(_COUNT, "big"), self.to, _about(number))

    def _some(self, first: int, last: int) -> PrivateShards:
        return replace(self.private, shards=self.private.shards[first : last + 1])


@dataclass(frozen=True, slots=True, repr=False)
class Reader(Counting):
    """A job that reads the records of files."""

    reader: PublicReader
    labels: tuple[str, ...]
    rounding: str

    def ready(self, worker: int) -> bytes:
        """Return no reading, sealed, after a check of this computer. DPTextError as `read`."""
        self._require_rounding()
        return sealed(_packed([]), self.to, _about(worker))

    def read(self, first: int, last: int, start: int, stop: int) -> bytes:
        """Return, sealed, the readings of records `start` to `stop` of the files `first` to `last` taken together.

        DPTextError: this computer rounds vectors differently. One more record could then move other records to this
        computer, and so change a sum by more than its own vector.
        """
        self._require_rounding()

        def corpus() -> Generator[Batch, None, None]:
            rest = Rest(self._some(first, last).batches())
            deque(rest.take(start), 0)
            yield from rest.take(stop - start)

        answer = _packed(list(readings(corpus, self.reader, self.labels)))
        return sealed(answer, self.to, _about(first, last, start, stop))

    def _require_rounding(self) -> None:
        if _rounding(self.reader) != self.rounding:
            raise DPTextError(
                "A worker's processor computes other vectors than the one that read the pool. Take computers of one "
                "kind. Nothing is released."
            )


def _tasks(counts: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return first file, last file, start and stop of each task: a part of a large file, or several small files.

    Tasks tell no exact number of records.
    """
    found: list[tuple[int, int, int, int]] = []
    together = TASK_RECORDS  # records of the last task; at first no task has room
    for number, n in enumerate(counts):
        if found and together + n <= TASK_RECORDS:
            found[-1] = found[-1][0], number, 0, TASK_RECORDS
            together += n
        elif n:
            found += [(number, number, start, start + TASK_RECORDS) for start in range(0, n, TASK_RECORDS)]
            together = n  # more than a task has, after a large file: then no task has room
    return found


def _reader(private: PrivateShards, to: Recipient, reader: PublicReader, labels: Sequence[str]) -> Reader:
    return Reader(private.apart, to.public, reader, tuple(labels), _rounding(reader))


def _rounding(reader: PublicReader) -> str:
    """Return the sha256 of the points and marks of some public texts on this computer."""
    return reader.rounding([record.text for record in sample_records(_PROBED, seed=0)])


def _about(*task: int) -> bytes:
    return repr(task).encode()


def _packed(found: Sequence[Reading]) -> bytes:
    """Return readings as arrays and JSON, without pickles: a forged answer cannot run code."""
    file = io.BytesIO()
    authors = np.frombuffer(json.dumps([each.authors for each in found]).encode(), np.uint8)
    arrays = {f"{name}{i}": getattr(each, name) for i, each in enumerate(found) for name in _ARRAYS}
    np.savez(file, authors=authors, **arrays)
    return file.getvalue()


def _unpacked(data: bytes) -> Iterator[Reading]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        for i, authors in enumerate(json.loads(file["authors"].tobytes())):
            yield Reading(authors=authors, **{name: file[f"{name}{i}"] for name in _ARRAYS})


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
    on_measured: OnMeasured | None = None,
    on_progress: Progress | None = None,
) -> Synthesized:
    """Return a synthetic corpus, with its certificate, of a private corpus of many files.

    Args:
        source: a folder, a glob, a folder of `Dataset.save_to_disk`, or a URL of fsspec.
        fitted: the synthesis, fitted on its public pool.
        plan: settings of the reader.
        workers: the workers that read the files; default: a process for each processor.
        storage_options: options of fsspec.
        payment: the account that is charged.
        randomness: `randomness.secure()` by default; seeded randomness voids the guarantee.
        settled: False leaves it to `Synthesized.settle` to settle the charge.
        on_measured: keeps the summary of a synthesis that measures one first; see `dptext.runs.synthesizing.run`.
        on_progress: called with the number of texts written so far, and of all texts; see there.

    Errors as `dptext.synthesize`. DPTextError: workers died again and again, and nothing is released.
    """
    options = storage_options or {}
    shards = shards_of(source, format=plan.input_format, options=options)
    plan = as_read(source, shards, plan)
    engine, _ = (workers or Workers()).made()
    with engine.kept() as kept:
        private = PrivateShards(
            str(source),
            plan.fields,
            dict(plan.reading),
            shards=shards,
            plan=plan,
            options=options,
            engine=kept,
        )
        return run(
            private, fitted, payment=payment, randomness=randomness, settled=settled,
            on_measured=on_measured, on_progress=on_progress,
        )  # fmt: skip


_NONCE: Final = bytes(12)  # each key encrypts one answer
_KEY: Final = 32  # bytes
_SIZE: Final = 8  # bytes of a length
_LEAST: Final = 1 << 12  # bytes of the shortest padded answer


@dataclass(frozen=True, slots=True, repr=False)
class Recipient:
    """The key pair that answers are sealed to. It cannot be serialised: a worker gets the public key alone."""

    _private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def opened(self, sealed: bytes, about: bytes) -> bytes:
        """Return the data that were sealed about this task. DPTextError: another task, another key, or altered data."""
        sent, padded = sealed[:_KEY], None
        with suppress(InvalidTag, ValueError):
            key = _derived(self._private.exchange(X25519PublicKey.from_public_bytes(sent)), sent + self.public)
            padded = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[_KEY:], about)
        if padded is None:
            raise DPTextError("A worker answered what was not asked for. Nothing is released.")
        return padded[_SIZE : _SIZE + int.from_bytes(padded[:_SIZE], "big")]


def sealed(data: bytes, public: bytes, about: bytes) -> bytes:
    """Return the data padded to a power of two and encrypted to this public key; `about` authenticates the task."""
    own = X25519PrivateKey.generate()
    sent = own.public_key().public_bytes_raw()
    key = _derived(own.exchange(X25519PublicKey.from_public_bytes(public)), sent + public)
    length = max(_LEAST, 1 << (_SIZE + len(data) - 1).bit_length())
    padded = (len(data).to_bytes(_SIZE, "big") + data).ljust(length, b"\0")
    return sent + ChaCha20Poly1305(key).encrypt(_NONCE, padded, about)


def _derived(shared: bytes, keys: bytes) -> bytes:
    return HKDF(SHA256(), _KEY, salt=None, info=b"dptext answer" + keys).derive(shared)
