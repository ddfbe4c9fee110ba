"""What lies on the disk follows from the number of records and from what is released, never from private lengths."""

import json
import os
import stat
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.mechanisms.words.syntf import SynTf
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs import files, streaming
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.results import privatize
from dptext.runs.states import FileState, draft_path, state_path
from dptext.sampling.randomness import seeded
from dptext.text import writers
from dptext.text.records import Record, Release
from dptext.text.writers import blocks
from vectored import VectorWords
from vectors import WORDS

APPENDED = [
    *("out.jsonl", "out.csv.gz"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("out.csv", "out.txt", "out.jsonl.gz", "out.txt.gz")),
]


class Killed(BaseException):
    """Stands for a kill."""


@pytest.fixture
def mechanism(vectors: Path):
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def shape(path: Path) -> list[int]:
    """Rows of each row group, or lines of each member."""
    if path.suffix == ".parquet":
        found = pq.ParquetFile(path).metadata
        return [found.row_group(i).num_rows for i in range(found.num_row_groups)]
    sizes, data = [], path.read_bytes()
    while data:
        member = zlib.decompressobj(wbits=31)
        sizes.append(member.decompress(data).count(b"\n"))
        data = member.unused_data
    return sizes


@pytest.mark.slow  # test_what_is_in_memory_is_a_block_and_a_computed_batch and test_vectors_end_blocks_too stay
@pytest.mark.parametrize(("name", "expected"), [("out.parquet", [250]), ("out.csv.gz", [251]), ("out.jsonl.gz", [250])])
def test_one_short_text_among_long_ones_does_not_show_in_the_file(
    tmp_path: Path, vectors: Path, name: str, expected: list[int]
) -> None:
    """In 0.1.0: row groups [200, 50] against [201, 49], members of [201, 50] lines against [202, 49]."""
    texts = [f"{WORDS[0]} " * (20_000 // (len(WORDS[0]) + 1)) for _ in range(250)]
    texts = [text.ljust(20_004) for text in texts]
    mechanism = SynTf(epsilon=0.01, n_terms=1, n_words=50, vectors=str(vectors)).fit()
    for other, private in (("long", texts), ("short", [*texts[:7], "hi", *texts[8:]])):
        (tmp_path / other).mkdir()
        marks: list[int] = []
        source = write(tmp_path / other / "x.jsonl", private)
        privatize_file(source, tmp_path / other / name, mechanism, on_progress=marks.append)
        assert shape(tmp_path / other / name) == expected
        assert marks == [250]


def test_a_block_ends_by_number_or_by_what_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "BLOCK_CHARACTERS", 100)
    made = [
        *(Release(str(i), "a") for i in range(5)),
        Release("5", "b" * 100),
        Release("6", "c"),
        Release("7", "", vector=(0.5, 0.5, 0.5, 0.5)),
        Release("8", "", None, {"year": "1" * 100}),
        Release("9", "d"),
    ]
    assert [[release.id for release in block] for block in blocks([made], 4)] == [
        ["0", "1", "2", "3"],
        ["4", "5"],
        ["6", "7"],
        ["8"],
        ["9"],
    ]
    assert list(blocks([], 4)) == []


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 9))
def test_what_is_left_after_any_block_gives_the_same_blocks(lengths: list[int], size: int) -> None:
    made = [Release(str(i), "a" * 1_000_000 * length) for i, length in enumerate(lengths)]
    whole = list(blocks([made], size))
    assert [release for block in whole for release in block] == made
    done = 0
    for number, block in enumerate(whole):
        assert list(blocks([made[done:]], size)) == whole[number:]
        done += len(block)


@dataclass(frozen=True)
class Dying:
    """The mechanism, whose process dies with the batch that holds a record of this number."""

    inner: object
    dies: int

    spec = property(lambda self: self.inner.spec)
    digests = property(lambda self: self.inner.digests)

    def privatize(self, records, randomness):
        if any(int(record.id) == self.dies for record in records):
            raise Killed
        return self.inner.privatize(records, randomness)


@pytest.mark.slow_cases("out.csv.gz", why="JSON Lines stay")
@pytest.mark.parametrize("name", APPENDED)
def test_a_killed_run_gives_the_same_blocks(tmp_path: Path, mechanism, name: str, monkeypatch) -> None:
    """Computed batches of every length, blocks by number and by size, a kill at any record: one file."""
    monkeypatch.setattr(streaming, "BATCH_CHARACTERS", 90)
    monkeypatch.setattr(writers, "BLOCK_CHARACTERS", 200)
    texts = [" ".join(WORDS[i : i + (60 if i % 9 == 2 else 3)]) for i in range(40)]
    source, whole = write(tmp_path / "in.jsonl", texts), tmp_path / "whole" / name
    whole.parent.mkdir()
    marks: list[int] = []
    plan = Plan(batch_size=5)
    privatize_file(source, whole, mechanism, plan=plan, randomness=seeded(3), on_progress=marks.append)
    steps = [after - before for before, after in zip([0, *marks], marks, strict=False)]
    assert max(steps) == 5
    assert min(steps[:-1]) < 5
    for dies in (0, 3, 7, 18, 31, 39):
        folder = tmp_path / f"dies{dies}"
        folder.mkdir()
        found: list[int] = []
        with pytest.raises(Killed):
            privatize_file(
                source, folder / name, Dying(mechanism, dies), plan=plan, randomness=seeded(3), on_progress=found.append
            )
        state = FileState.load(state_path(folder / name))
        assert state.records == max([mark for mark in marks if mark <= dies and mark in found], default=0)
        again = replace(plan, resume=True)
        privatize_file(source, folder / name, mechanism, plan=again, randomness=seeded(3), on_progress=found.append)
        assert found == marks
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
            path.name: path.read_bytes() for path in whole.parent.iterdir()
        }


@pytest.mark.parametrize("characters", [1, 60, 10**9])
def test_a_seeded_run_is_the_same_whatever_is_computed_together(
    tmp_path: Path, mechanism, characters: int, monkeypatch
) -> None:
    texts = [" ".join(WORDS[i : i + 1 + i % 9]) for i in range(30)]
    source = write(tmp_path / "in.jsonl", texts)
    expected = mechanism.privatize([Record(str(i), text) for i, text in enumerate(texts)], seeded(8))
    monkeypatch.setattr(streaming, "BATCH_CHARACTERS", characters)
    for size in (1, 4, 256):
        target = tmp_path / f"{size}.jsonl"
        privatize_file(source, target, mechanism, plan=Plan(batch_size=size), randomness=seeded(8))
        lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
        assert [line["text"] for line in lines] == [release.output for release in expected]


@pytest.mark.parametrize("characters", [1, 10**9])
def test_what_is_in_memory_is_a_block_and_a_computed_batch(
    tmp_path: Path, mechanism, characters: int, monkeypatch
) -> None:
    monkeypatch.setattr(streaming, "BATCH_CHARACTERS", characters)
    read, ahead = 0, []

    class Counting(Dying):
        def privatize(self, records, randomness):
            nonlocal read
            read += len(records)
            return mechanism.privatize(records, randomness)

    source = write(tmp_path / "in.jsonl", [WORDS[i % 300] for i in range(100)])
    plan = Plan(batch_size=8)
    privatize_file(
        source,
        tmp_path / "out.jsonl",
        Counting(mechanism, -1),
        plan=plan,
        on_progress=lambda done: ahead.append(read - done),
    )
    assert len(ahead) == 13
    assert max(ahead) < 8


def test_vectors_end_blocks_too(tmp_path: Path, vectors: Path, monkeypatch) -> None:
    monkeypatch.setattr(writers, "BLOCK_CHARACTERS", 32 * 6 * 3)  # three vectors of six numbers
    mechanism = VectorWords(epsilon=3.0, vectors=str(vectors), n_words=300, output="embedding").fit()
    source = write(tmp_path / "in.jsonl", [" ".join(WORDS[: 1 + i]) for i in range(10)])
    privatize_file(source, tmp_path / "out.parquet", mechanism)
    assert shape(tmp_path / "out.parquet") == [3, 3, 3, 1]


def test_a_stream_computes_in_batches_and_gives_out_one_by_one(mechanism, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "BATCH_CHARACTERS", 20)
    records = [Record(str(i), " ".join(WORDS[: 1 + i])) for i in range(9)]
    assert [release.id for release in privatize(records, mechanism, randomness=seeded(1))] == [r.id for r in records]


# --- the files beside the output --------------------------------------------------------------------------------------


def state_draft(target: Path) -> Path:
    return draft_path(state_path(target))


def certificate_draft(target: Path) -> Path:
    return target.with_name(f".{certificate_path(target).name}.new")


@pytest.mark.parametrize("draft", [state_draft, certificate_draft])
@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "file for all"])
def test_a_planted_draft_is_neither_followed_nor_filled(tmp_path: Path, mechanism, kind: str, draft) -> None:
    """In 0.1.0 a link at the draft of the state sent state and key into its target, and a file kept its mode."""
    victim, target = tmp_path / "victim", tmp_path / "out.jsonl"
    victim.write_text("somebody's only copy", "utf-8")
    victim.chmod(0o666)
    modes: list[int] = []

    def plant() -> None:
        planted = draft(target)
        match kind:
            case "symbolic link":
                planted.symlink_to(victim)
            case "hard link":
                planted.hardlink_to(victim)
            case _:
                planted.write_text("planted", "utf-8")
                planted.chmod(0o666)

    def again(_: int) -> None:
        modes.append(stat.S_IMODE(state_path(target).stat().st_mode))
        draft(target).unlink(missing_ok=True)
        plant()

    plant()
    source = write(tmp_path / "in.jsonl", list(WORDS[:20]))
    mask = os.umask(0o027)
    try:
        privatize_file(source, target, mechanism, plan=Plan(batch_size=5), on_progress=again)
    finally:
        os.umask(mask)
    assert modes == [0o600] * 4
    assert (victim.read_text("utf-8"), stat.S_IMODE(victim.stat().st_mode)) == ("somebody's only copy", 0o666)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, certificate_path(target))] == [0o640, 0o640]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.jsonl",
        "out.jsonl",
        "out.jsonl.guarantee.json",
        "victim",
    ]


def test_a_draft_that_cannot_be_removed_ends_the_run(tmp_path: Path, mechanism) -> None:
    source, target = write(tmp_path / "in.jsonl", list(WORDS[:20])), tmp_path / "out.jsonl"
    state_draft(target).mkdir()
    with pytest.raises(ConfigError, match="Cannot write"):
        privatize_file(source, target, mechanism)
    assert not target.exists()


@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
def test_a_part_that_became_a_link_is_not_gone_on_with(tmp_path: Path, mechanism, kind: str) -> None:
    """In 0.1.0 the file that it led to was cut to the size of the part, and written to."""
    source, target, victim = write(tmp_path / "in.jsonl", list(WORDS[:20])), tmp_path / "out.jsonl", tmp_path / "victim"
    victim.write_text("somebody's only copy " * 1000, "utf-8")
    part = tmp_path / ".out.jsonl.part"

    def kill(_: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        privatize_file(source, target, mechanism, plan=Plan(batch_size=5), on_progress=kill)
    part.unlink()
    part.symlink_to(victim) if kind == "symbolic link" else part.hardlink_to(victim)
    for plan in (Plan(resume=True), Plan(force=True)):
        with pytest.raises(ConfigError, match="link"):
            privatize_file(source, target, mechanism, plan=plan)
    assert victim.read_text("utf-8") == "somebody's only copy " * 1000
    assert not target.exists()


@pytest.mark.parametrize("which", ["certificate", "part", "state"])
@pytest.mark.parametrize("force", [False, True])
def test_an_input_that_lies_where_the_run_writes_is_kept(tmp_path: Path, mechanism, which: str, force: bool) -> None:
    target = tmp_path / "out.jsonl"
    places = {
        "certificate": certificate_path(target),
        "part": tmp_path / ".out.jsonl.part",
        "state": state_path(target),
    }
    source = write(places[which], list(WORDS[:20]))
    before = source.read_bytes()
    with pytest.raises(ConfigError, match="to be no input"):
        privatize_file(source, target, mechanism, plan=Plan(input_format=files.Format.JSONL, force=force))
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    assert source.read_bytes() == before
