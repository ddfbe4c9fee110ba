"""A private corpus of many files, summed up by many workers: `dptext.synthesize_dataset`.

A worker reads its records and answers with what a sum needs of them. No order, and no worker, shows in a sum of whole
numbers, so that the synthetic corpus is that of one process. Each record is in one answer that counts: where a worker
dies, its task is done again, and what it said before is not there. Answers are sealed under a key of the run, as a
cluster may write them to its disks.
"""

from __future__ import annotations

import io
import json
import secrets
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dptext.batch.engines import Engine, Here
from dptext.batch.plans import Workers
from dptext.batch.shards import Shard, read, shards_of
from dptext.batch.work import Rest
from dptext.runs.plan import Plan
from dptext.runs.synthesizing import Private, Synthesized, run, untold
from dptext.synthesis.space import Corpus, PublicSpace, Reading, readings
from dptext.text.batches import Batch

if TYPE_CHECKING:  # the ledger is loaded by those who use one
    from dptext.runs.payment import Payment
    from dptext.sampling.source import Randomness
    from dptext.synthesis.spec import Fitted

#: Records of a task: what is answered of them is in memory at once.
_TOGETHER: Final = 16_384
_NONCE: Final = 12  # bytes
_ARRAYS: Final = ("labels", "points", "unlike")  # of a reading, in its order


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PrivateShards(Private):
    """A private corpus of many files; `source` says where they are.

    Attributes:
        shards: the files.
        plan: how they are read.
        options: of fsspec.
        engine: who reads them.
    """

    shards: tuple[Shard, ...]
    plan: Plan
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine = field(default_factory=Here)

    def found(self) -> Iterator[Batch]:
        """The records of all files, one after the other."""
        for shard in self.shards:
            yield from read(shard, self.plan, self.options, {})

    def kept(self) -> Private:
        """Files can be read more than once."""
        return self

    @property
    def corpus(self) -> Corpus:
        """The records, read by the engine."""
        return _Corpus(self)


@dataclass(frozen=True, slots=True, repr=False)
class _Corpus:
    private: PrivateShards

    def __call__(self) -> Generator[Batch, None, None]:
        return self.private.batches()

    def readings(self, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
        """See `ReadsItself`."""
        return untold(self._found(space, labels))

    def _found(self, space: PublicSpace, labels: Sequence[str]) -> Iterator[Reading]:
        private, key = self.private, secrets.token_bytes(32)
        reader = Reader(replace(private, engine=Here()), space, tuple(labels), key)
        tasks = []
        for number, n in private.engine.answers(reader, [("count", (i,)) for i in range(len(private.shards))]):
            tasks += [("read", (number, start, start + _TOGETHER)) for start in range(0, n, _TOGETHER)]
        for _, sealed in private.engine.answers(reader, tasks):
            yield from _unpacked(_opened(sealed, key))


@dataclass(frozen=True, slots=True, repr=False)
class Reader:
    """What every worker knows."""

    private: PrivateShards
    space: PublicSpace
    labels: tuple[str, ...]
    key: bytes

    def count(self, number: int) -> int:
        """How many records a file has."""
        return sum(map(len, self._one(number).found()))

    def read(self, number: int, start: int, stop: int) -> bytes:
        """What the sums need of the records of a file from one place to another, sealed."""

        def corpus() -> Generator[Batch, None, None]:
            rest = Rest(self._one(number).batches())
            deque(rest.take(start), 0)
            yield from rest.take(stop - start)

        found = list(readings(corpus, self.space, self.labels))
        nonce = secrets.token_bytes(_NONCE)
        return nonce + ChaCha20Poly1305(self.key).encrypt(nonce, _packed(found), None)

    def _one(self, number: int) -> PrivateShards:
        return replace(self.private, shards=self.private.shards[number : number + 1])


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


def _opened(sealed: bytes, key: bytes) -> bytes:
    return ChaCha20Poly1305(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)


def synthesize_dataset(
    source: str | Path,
    fitted: Fitted,
    *,
    plan: Plan,
    workers: Workers | None = None,
    storage_options: Mapping[str, Any] | None = None,
    payment: Payment | None = None,
    randomness: Randomness | None = None,
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

    As `dptext.synthesize`; DPTextError also where workers die again and again: nothing is released.
    """
    options = storage_options or {}
    engine, _ = (workers or Workers()).made()
    private = PrivateShards(
        str(source),
        plan.fields,
        dict(plan.reading),
        shards=shards_of(source, format=plan.input_format, options=options),
        plan=plan,
        options=options,
        engine=engine,
    )
    return run(private, fitted, payment=payment, randomness=randomness)
