"""A private corpus of many files is summed up as one of a single file, by however many workers."""

import contextlib
import dataclasses
import gzip
import itertools
import json
import pickle
import secrets
from pathlib import Path

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

import dptext as dp
from dptext.batch import corpora
from dptext.batch.corpora import PrivateShards, Reader, Recipient, _rounding, _unpacked, sealed, synthesize_dataset
from dptext.batch.engines import _DIED, Here, _shared_out, answered
from dptext.batch.shards import shards_of
from dptext.errors import BrokenFileError, DPTextError, HeaderError
from dptext.registry import SYNTHESES
from dptext.runs.synthesizing import run
from dptext.sampling.randomness import seeded
from dptext.synthesis.space import PublicSpace

OPENED, SEALED = Recipient.opened, sealed
SPECS = [cls.tiny()[-1] for kind, cls in sorted(SYNTHESES.items()) if kind in ("prototypes", "votes", "topics")]
#: With words and columns, by author.
SPECS.append(dataclasses.replace(SYNTHESES["summary"].tiny()[1], columns=("n: 0..9 by 1",), pairs=("label+n",)))


@pytest.fixture(scope="module")
def fitted():
    return SPECS[0].fit(public=list(dp.sample_records(200)), seed=0)


def corpus(folder: Path, n: int = 300) -> tuple[list[dict], Path]:
    rows = [
        {"text": each.text, "label": each.label, "who": f"user{i % 40:06}", "n": i % 13}
        for i, each in enumerate(dp.sample_records(n))
    ]
    folder.mkdir()
    for number, start in enumerate((0, 10, 190)):
        part = rows[start : (10, 190, n)[number]]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return rows, folder


@pytest.mark.slow_cases(
    "prototypes", "topics", "votes", why="a summary stays, whose sums have the same counts and points, and words"
)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_same_corpus_leaves(spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptext.batch.corpora.TASK_RECORDS", 64)
    rows, folder = corpus(tmp_path / "in")
    fitted = spec.fit(public=list(dp.sample_records(200)), seed=0)
    fields = fields_of(spec)
    found = [
        synthesize_dataset(folder, fitted, plan=dp.Plan(fields), workers=dp.Workers(n=n), randomness=seeded(4))
        for n in (1, 2)
    ]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = synthesize_dataset(
        tmp_path / "one.jsonl", fitted, plan=dp.Plan(fields), workers=dp.Workers(n=1), randomness=seeded(4)
    )
    assert found[0].certificate.sha256 == found[1].certificate.sha256 == one.certificate.sha256
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in", "one.jsonl"]


def fields_of(spec) -> dp.Fields:
    label, author = "label" if spec.labels else None, "who" if spec.unit == "author" else None
    return dp.Fields(label=label, author=author, measured=spec.measured_fields)


def test_no_error_says_where_or_of_how_many(tmp_path: Path, fitted) -> None:
    """A record that cannot be read adds nothing, nor does a file without records; a damaged file ends the run."""
    _, folder = corpus(tmp_path / "in")
    plan = dp.Plan(fields_of(SPECS[0]))
    clean = synthesize_dataset(folder, fitted, plan=plan, workers=dp.Workers(n=1), randomness=seeded(4))
    with (folder / "1.jsonl").open("a") as file:
        file.write("{secret\n")
    (folder / "3.jsonl").write_bytes(b"")
    found = synthesize_dataset(folder, fitted, plan=plan, workers=dp.Workers(n=1), randomness=seeded(4))
    assert found.certificate == clean.certificate
    (folder / "4.jsonl.gz").write_bytes(gzip.compress(b'{"text": "secret"}\n' * 181)[:-9])
    (folder / "5.csv").write_text("text,other\na,b\n")
    for name, n, kind in (("4.jsonl.gz", 1, BrokenFileError), ("5.csv", 1, HeaderError), ("5.csv", 2, HeaderError)):
        with pytest.raises(kind) as caught:
            synthesize_dataset(folder / name, fitted, plan=plan, workers=dp.Workers(n=n))
        for word in ("secret", name, "181", "other"):
            assert word not in str(caught.value)


class Recording:
    """One process that keeps all that a cluster would."""

    def __init__(self) -> None:
        self.jobs: list = []
        self.tasks: list = []
        self.answers_: list = []

    def answers(self, job, tasks):
        self.jobs.append(job)
        self.tasks.append(list(tasks))
        for number, task in enumerate(tasks):
            self.answers_.append(answered(job, task))
            yield number, self.answers_[-1]

    @property
    def sizes(self) -> list[int]:
        return [len(pickle.dumps(each)) for each in self.answers_]

    @property
    def told(self) -> list[bytes]:
        """The jobs without the keys, which are drawn for each run."""
        return [pickle.dumps(dataclasses.replace(job, to=b"")) for job in self.jobs]


def recorded(folder: Path, fitted) -> Recording:
    engine, plan = Recording(), dp.Plan(dp.Fields(label="label", author="who"))
    shards = shards_of(folder, options={})
    run(PrivateShards(str(folder), plan.fields, {}, shards=shards, plan=plan, engine=engine), fitted)
    return engine


def require_silent(folder: Path, fitted) -> None:
    """Whoever keeps all that lies between the workers reads no answer, and sees nothing that follows one record."""
    first = recorded(folder, fitted)
    kept = b"".join((*map(pickle.dumps, first.jobs), *first.answers_))
    assert b"user0000" not in kept, "a name lies there"  # eight bytes, which random ones do not spell
    keys = [each for job in first.jobs for each in vars_of(job) if isinstance(each, bytes)]
    assert keys
    for key in keys:
        for answer in first.answers_:
            assert not opens(key, answer), "a key that lies there opens an answer"
    path = folder / "1.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[1:]))
    second = recorded(folder, fitted)
    assert first.tasks == second.tasks, "tasks follow a record"
    assert first.sizes == second.sizes, "lengths of answers follow a record"
    assert first.told == second.told, "jobs follow a record"


def vars_of(job) -> list:
    return [getattr(job, each.name) for each in dataclasses.fields(job)]


def opens(key: bytes, answer: bytes) -> bool:
    """Whether it is the private or the shared key of the answer."""
    with contextlib.suppress(DPTextError):
        OPENED(Recipient(X25519PrivateKey.from_private_bytes(key)), answer, b"(0,)")
        return True
    with contextlib.suppress(InvalidTag):
        shared_opened(answer, key)
        return True
    return False


def shared_opened(answer: bytes, key: bytes) -> bytes:
    return ChaCha20Poly1305(key).decrypt(answer[:12], answer[12:], None).rstrip(b" ")


def shared(data: bytes, key: bytes, _: object) -> bytes:
    """As it was: one key for all, which each worker knows."""
    nonce = secrets.token_bytes(12)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, data.ljust(1 << 16, b" "), None)


def test_nothing_that_lies_between_workers_tells(tmp_path: Path, fitted) -> None:
    require_silent(corpus(tmp_path / "in")[1], fitted)


DEFECTS: dict[str, tuple[str, dict]] = {
    "clear": ("a name", {"sealed": lambda data, *_: data, "Recipient.opened": lambda _, data, __: data}),
    "a key that is in the job": (
        "a key",
        {"sealed": shared, "Recipient.opened": lambda to, data, _: shared_opened(data, to.public)},
    ),
    "exact lengths": (
        "lengths of answers follow",
        {
            "sealed": lambda data, *to: SEALED(data, *to) + data[:0].ljust(len(data)),
            "Recipient.opened": lambda to, data, about: OPENED(to, data[: 32 + 16 + padded(data)], about),
        },
    ),
    "counts in the job": (
        "jobs follow",
        {"PrivateShards.apart": property(lambda own: dataclasses.replace(own, engine=Here(), source=str(own.counts)))},
    ),
    "smaller tasks": ("tasks follow", {"TASK_RECORDS": 179}),
}


def padded(data: bytes) -> int:
    """The largest power of two that fits."""
    return 1 << ((len(data) - 48).bit_length() - 1)


@pytest.mark.slow_cases(
    *("a key that is in the job", "exact lengths", "counts in the job"), why="a fault of answers and one of tasks stay"
)
@pytest.mark.parametrize("defect", DEFECTS)
def test_what_tells_is_caught(defect: str, tmp_path: Path, fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    said, changes = DEFECTS[defect]
    for name, changed in changes.items():
        monkeypatch.setattr(f"dptext.batch.corpora.{name}", changed)
    with pytest.raises(AssertionError, match=said):
        require_silent(corpus(tmp_path / "in")[1], fitted)


def test_an_answer_is_opened_by_its_run_and_for_its_task_alone() -> None:
    to = Recipient()
    for data in (b"", b"x", b"y" * 4088, b"z" * 4089):
        found = SEALED(data, to.public, b"(1,)")
        assert to.opened(found, b"(1,)") == data
        assert len(found) - 48 == (8192 if len(data) > 4088 else 4096)
        for other, about in ((to, b"(2,)"), (Recipient(), b"(1,)")):
            with pytest.raises(DPTextError, match="not asked for"):
                other.opened(found, about)
    assert SEALED(b"x", to.public, b"") != SEALED(b"x", to.public, b"")
    assert "X25519" not in repr(to)
    with pytest.raises(TypeError):
        pickle.dumps(to)


def test_each_record_is_in_one_answer(tmp_path: Path, fitted) -> None:
    rows, folder = corpus(tmp_path / "in")
    plan = dp.Plan(dp.Fields(label="label", author="who"))
    private = PrivateShards(str(folder), plan.fields, {}, shards=shards_of(folder, options={}), plan=plan, options={})
    to = Recipient()
    public = fitted.measures.public.reader
    reader = Reader(private, to.public, public, (), _rounding(public))
    found = [
        author
        for start in range(0, 180, 50)
        for each in _unpacked(to.opened(reader.read(1, 1, start, start + 50), repr((1, 1, start, start + 50)).encode()))
        for author in each.authors
    ]
    assert found == [row["who"] for row in rows[10:190]]


def test_a_computer_that_rounds_otherwise_is_refused(tmp_path: Path, fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a record more moves others to it, a sum would move by more than one vector."""
    _, folder = corpus(tmp_path / "in")
    placed, computers = PublicSpace.placed, itertools.count()
    monkeypatch.setattr(PublicSpace, "placed", lambda space, found: np.nextafter(placed(space, found), next(computers)))
    plan = dp.Plan(dp.Fields(label="label", author="who"))
    with pytest.raises(DPTextError, match="computers of one kind"):
        synthesize_dataset(folder, fitted, plan=plan, workers=dp.Workers(n=1))


def test_where_workers_die_nothing_is_advised_that_a_synthesis_lacks() -> None:
    tried = _shared_out(1, 1, lambda: 0, lambda *_: 0, lambda handles: handles, lambda *_: _DIED, lambda _: None)
    with pytest.raises(DPTextError, match="--workers") as caught:
        list(tried)
    assert "--resume" not in str(caught.value)


def test_a_worker_that_dies_adds_nothing_twice(tmp_path: Path, fitted) -> None:
    """The answer of a task counts when it is whole; one that never came is asked again."""
    rows, folder = corpus(tmp_path / "in")
    assert len(rows) == 300

    class Dying:
        def __init__(self) -> None:
            self.asked: list = []

        def answers(self, job, tasks):
            for number, (name, given) in enumerate(tasks):
                self.asked.append((name, given))
                getattr(job, name)(*given)  # whose answer is lost
                yield number, getattr(job, name)(*given)

    plan = dp.Plan(fields_of(SPECS[0]))
    shards = shards_of(folder, options={})
    found = [
        run(
            PrivateShards(str(folder), plan.fields, {}, shards=shards, plan=plan, engine=engine),
            fitted,
            randomness=seeded(4),
        ).certificate.sha256
        for engine in (Dying(), dp.Workers(n=1).made()[0])
    ]
    assert found[0] == found[1]


def test_small_files_are_read_together_and_each_place_once() -> None:
    """A task for each of 10,000 one-line files took minutes; no task tells how many records a file has."""
    most = corpora.TASK_RECORDS
    assert corpora._tasks([1] * 10_000) == [(0, 9_999, 0, most)]
    counts = [0, 5, 0, most, 3 * most + 1, 1, most - 1, 1, 0]
    tasks = corpora._tasks(counts)
    assert {stop - start for *_, start, stop in tasks} == {most}
    assert {start % most for *_, start, _ in tasks} == {0}
    read = [0] * len(counts)
    for first, last, start, _ in tasks:
        within = sum(counts[first : last + 1])
        assert first == last or (start == 0 and within <= most)
        for number in range(first, last + 1):
            read[number] += min(most, counts[number] - start)
    assert read == counts
    assert corpora._tasks([0, 0]) == []
