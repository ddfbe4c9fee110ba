"""Runs over many files: what becomes visible, what is refused, and what is left behind."""

import gzip
import io
import json
import os
import stat
import subprocess
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

import dptext as dp
from dptext.batch import engines, places, runs, work
from dptext.batch.engines import Here, Processes
from dptext.batch.shards import Shard, read
from dptext.batch.surveys import Surveys
from dptext.errors import BrokenFileError, ConfigError, DataError, DPTextError
from dptext.privacy.guarantee import Basis
from dptext.runs.certificate import MANIFEST, Manifest
from dptext.runs.verification import verify
from dptext.text.formats import Format
from dptext.text.reading import OnError
from kept_words import KeptWords
from many_files import here, ids, mechanism, plan, rows, shards

CERTIFICATE = "manifest.json.guarantee.json"


def test_parts_have_a_fixed_number_of_records_in_order(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 130, 1, 269)
    certificate = dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    assert ids(tmp_path / "out") == [f"r{i}" for i in range(400)]
    manifest = Manifest.read(tmp_path / "out" / MANIFEST)
    assert [part.records for part in manifest.parts] == [100] * 4
    assert [part.name for part in manifest.parts] == [f"part-{i:06d}.jsonl" for i in range(4)]
    assert certificate.records == 400
    assert verify(tmp_path / "out" / CERTIFICATE).certificate == certificate
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize(("n", "parts"), [(999, 1), (1_001, 2), (8_001, 8)])
def test_by_default_a_kill_loses_a_part_of_the_work(tmp_path: Path, n: int, parts: int) -> None:
    """An eighth of all records is a part, so that several workers share them, but at least a thousand."""
    out = tmp_path / "out"
    dp.privatize_dataset(shards(tmp_path / "in", n), out, mechanism(), plan=plan(), dataset=here(part_size=0))
    sizes = [part["records"] for part in json.loads((out / "manifest.json").read_text())["parts"]]
    assert (len(sizes), sum(sizes)) == (parts, n)
    assert min(sizes[:-1], default=1_000) >= 1_000


def test_several_workers_and_one_release_the_same_under_a_seed(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 130, 1, 269)
    found = []
    for name, workers, size in (("a", 1, 256), ("b", 2, 7)):
        dataset = here(workers=dp.Workers(n=workers))
        found.append(
            dp.privatize_dataset(
                source, tmp_path / name, mechanism(), plan=plan(batch_size=size), dataset=dataset, seed=5
            )
        )
    assert found[0].sha256 == found[1].sha256
    assert found[0].randomness == "seeded"
    assert found[0].guarantees[-1].basis is Basis.NONE


def test_parquet_files_of_a_folder_may_have_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    columns = {"text": ["so"] * 9, "label": ["travel"] * 9}
    for n, encoding in enumerate(("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")):
        table = pa.table({"id": range(9 * n, 9 * n + 9), **columns})
        encodings = {"id": "DELTA_BINARY_PACKED" if n else "BYTE_STREAM_SPLIT", "text": encoding, "label": encoding}
        pq.write_table(table, tmp_path / f"in/{n}.parquet", use_dictionary=False, column_encoding=encodings)
    certificate = dp.privatize_dataset(
        tmp_path / "in" / "*.parquet", tmp_path / "out", mechanism(), plan=plan(), dataset=here()
    )
    assert certificate.records == 27
    assert ids(tmp_path / "out") == list(map(str, range(27)))


def test_fresh_draws_differ(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 200)
    found = {
        dp.privatize_dataset(source, tmp_path / name, mechanism(), plan=plan(), dataset=here()).sha256 for name in "ab"
    }
    assert len(found) == 2


def test_without_ids_records_are_numbered_through_all_files(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 130, 70)
    fields = dp.Fields(label="label")
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(fields=fields), dataset=here())
    assert ids(tmp_path / "out") == [str(i) for i in range(200)]


def test_keep_shards_says_so(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 13, 7)
    (source / "deep").mkdir()
    (source / "s1.jsonl").rename(source / "deep" / "s1.jsonl")
    found = dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(keep_shards=True))
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.jsonl")) == [
        "deep/s1.jsonl",
        "s0.jsonl",
    ]
    assert any("deep/s1.jsonl 7, s0.jsonl 13" in each for each in found.guarantees[-1].reveals)
    verify(tmp_path / "out" / CERTIFICATE)


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])  # two workers publish as one does
def test_nothing_private_shows_in_names_times_and_modes(tmp_path: Path, n: int) -> None:
    source = shards(tmp_path / "in", 150, 150)
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(workers=dp.Workers(n=n)))
    found = list((tmp_path / "out").iterdir())
    assert len({path.stat().st_mtime_ns for path in found}) == 1
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o666 & ~mask}


def test_compression_and_formats(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    source = tmp_path / "in"
    source.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows(20)).encode()
    (source / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    second = "".join(json.dumps(row) + "\n" for row in rows(20, 20)).encode()
    (source / "b.jsonl.zst").write_bytes(zstandard.compress(second))
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    assert (tmp_path / "out" / "part-000000.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert ids(tmp_path / "out") == [f"r{i}" for i in range(40)]
    dp.privatize_dataset(
        source, tmp_path / "table", mechanism(), plan=plan(output_format=Format.PARQUET), dataset=here()
    )
    assert ids(tmp_path / "table") == [f"r{i}" for i in range(40)]


def test_a_glob_and_a_saved_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    source = shards(tmp_path / "in", 13, 7)
    (source / "notes.md").write_text("no records")
    dp.privatize_dataset(str(source / "*.jsonl"), tmp_path / "a", mechanism(), plan=plan(), dataset=here())
    assert len(ids(tmp_path / "a")) == 20
    datasets.Dataset.from_list(rows(30)).save_to_disk(str(tmp_path / "saved"), num_shards=3)
    dp.privatize_dataset(tmp_path / "saved", tmp_path / "b", mechanism(), plan=plan(), dataset=here())
    assert ids(tmp_path / "b") == [f"r{i}" for i in range(30)]
    with pytest.raises(ConfigError, match=r"notes\.md"):
        dp.privatize_dataset(source, tmp_path / "c", mechanism(), plan=plan(), dataset=here())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": dp.Fields(id="who", label="label")}, "id was used before"),
        ({"fields": dp.Fields(author="who", label="label"), "max_per_author": 20}, "at most max_per_author=20"),
        ({"fields": dp.Fields(id="id", label="label", author="nobody"), "max_per_author": 20}, "nobody"),
    ],
)
def test_refused_before_anything_is_drawn(tmp_path: Path, settings: dict, message: str) -> None:
    source = shards(tmp_path / "in", 100, 100)
    with pytest.raises(DataError, match=message):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(**settings), dataset=here())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_an_id_that_comes_twice_in_two_files(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 100, 100)
    (source / "s1.jsonl").write_text((source / "s0.jsonl").read_text())
    with pytest.raises(DataError, match="once in all files"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())


def test_skipped_records_are_told_by_their_reason(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 100, 50)
    with (source / "s0.jsonl").open("a") as file:
        file.write("{\nno\n")
    told: list[tuple[str, int, str]] = []
    dp.privatize_dataset(
        source,
        tmp_path / "out",
        mechanism(),
        plan=plan(on_error=OnError.SKIP),
        dataset=here(),
        on_skip=lambda *each: told.append(each),
    )
    assert told == [("s0.jsonl", 2, "the line is not valid JSON")]
    assert len(ids(tmp_path / "out")) == 150


def changing(change: object) -> type[Here]:
    """An engine before whose second round of tasks the input changes."""

    class Changing(Here):
        def answers(self, job, tasks):
            if tasks and tasks[0][0] == "privatize":
                change()
            return super().answers(job, tasks)

    return Changing


@pytest.mark.parametrize("what", ["text", "more", "fewer", "order"])
def test_text_that_changes_under_the_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    source = shards(tmp_path / "in", 60, 60)
    path = source / "s1.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = {
        "text": [*lines[:-1], lines[-1].replace("secret", "sacred")],
        "more": [*lines, json.dumps(rows(1, 999)[0]) + "\n"],
        "fewer": lines[:-1],
        "order": [lines[1], lines[0], *lines[2:]],
    }[what]
    monkeypatch.setattr("dptext.batch.engines.Here", changing(lambda: path.write_text("".join(changed))))
    with pytest.raises(DataError, match="changed while it was read"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]


def test_a_data_set_is_replaced_with_force_only(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 60)
    out = tmp_path / "out"
    dp.privatize_dataset(source, out, mechanism(), plan=plan(), dataset=here())
    with pytest.raises(ConfigError, match=r"the run that wrote it is complete.*--force"):
        dp.privatize_dataset(source, out, mechanism(), plan=plan(), dataset=here())
    before = (out / MANIFEST).read_text()
    dp.privatize_dataset(source, out, mechanism(), plan=plan(force=True), dataset=here())
    assert (out / MANIFEST).read_text() != before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in", "out"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match="data set of dptext"):
        dp.privatize_dataset(source, other, mechanism(), plan=plan(force=True), dataset=here())
    for inside in (source, source / "s0.jsonl", tmp_path):
        with pytest.raises(ConfigError):
            dp.privatize_dataset(source, inside, mechanism(), plan=plan(force=True), dataset=here())
    assert (source / "s0.jsonl").exists()


def test_what_was_certified_is_held_against_every_file(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 150)
    out = tmp_path / "out"
    dp.privatize_dataset(source, out, mechanism(), plan=plan(), dataset=here())
    part = out / "part-000001.jsonl"
    good = part.read_bytes()
    stray = out / "part-000009.jsonl"
    stray.write_bytes(good)
    with pytest.raises(DataError, match="no part of this data set"):
        verify(out / CERTIFICATE)
    stray.unlink()
    part.write_bytes(good + good)
    with pytest.raises(DataError, match="sha256 differs"):
        verify(out / CERTIFICATE)
    part.unlink()
    with pytest.raises(DataError, match="missing"):
        verify(out / CERTIFICATE)
    part.write_bytes(good)
    verify(out / CERTIFICATE)
    manifest = (out / MANIFEST).read_text()
    (out / MANIFEST).write_text(manifest.replace("part-000001", "../in/s0"))
    with pytest.raises(DataError):
        verify(out / CERTIFICATE)


class Dies:
    """A mechanism whose worker ends at every batch."""

    def __init__(self) -> None:
        self.inner = mechanism()
        self.spec, self.digests = self.inner.spec, self.inner.digests

    def privatize(self, records, randomness):
        os._exit(9)


class Fails(Dies):
    def privatize(self, records, randomness):
        raise ValueError(records[0].text)


def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (Path(__file__).parent, Path(__file__).parents[2]):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    assert engines.RETRIES == 3
    monkeypatch.setattr(engines, "RETRIES", 1)  # each start imports the library
    source = shards(tmp_path / "in", 50)
    dataset = here(workers=dp.Workers(n=2))
    with pytest.raises(DPTextError, match=r"^2 workers died at one task.* --resume goes on"):
        dp.privatize_dataset(source, tmp_path / "out", Dies(), plan=plan(), dataset=dataset)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="differ"):  # a digest of another part size
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(resume=True), dataset=here(part_size=7))
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(resume=True), dataset=here())
    assert len(ids(tmp_path / "out")) == 50


def test_no_error_of_a_worker_shows_a_text(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 50)
    with pytest.raises(DPTextError) as caught:
        dp.privatize_dataset(source, tmp_path / "out", Fails(), plan=plan(), dataset=here())
    assert "ValueError" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_whole_run_that_was_killed_before_it_was_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shards(tmp_path / "in", 150)
    monkeypatch.setattr(places.Disk, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    monkeypatch.undo()
    assert not (tmp_path / "out").exists()
    drawn = {path.name: path.read_bytes() for path in (tmp_path / ".out.run").glob("*/part-*")}
    assert len(drawn) == 2
    with pytest.raises(ConfigError, match="--resume"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(resume=True), dataset=here())
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("part-*")} == drawn
    assert not (tmp_path / ".out.run").exists()
    with pytest.raises(ConfigError, match="the run that wrote this data set is complete"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(resume=True), dataset=here())


def test_the_same_part_twice_at_once_is_published_once(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 300)
    run = runs._prepared(source, tmp_path / "out", mechanism(), plan(), here(workers=dp.Workers(n=2)), None, None)
    target = run.place.parts("token", tmp_path / "run")
    target.prepare(())
    job = run.job(bytes(32), "token")
    job = type(job)(**{**{n: getattr(job, n) for n in job.__dataclass_fields__}, "target": target})
    hashes = job.survey(0).hashes
    part = work.OutputPart("part-0.jsonl", 0, 300)
    tasks = [("privatize", ((part,), ((0, 0, hashes),)))] * 8
    answers = dict(Processes(2).answers(job, tasks))
    assert len(set(answers.values())) == 1
    assert [each.name for each in (tmp_path / "run" / "token").iterdir()] == ["part-0.jsonl"]


def test_most_common_counts_over_sorted_arrays() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (3_000, 16), np.uint8)
    values[::7, :] = values[0]
    array = np.sort(values.view(work.HASHED).ravel())
    expected = max(np.unique(array, return_counts=True)[1])
    assert work.most_common([array[:1_000], array[1_000:]]) == expected
    assert work.most_common([]) == 0


def test_the_command_line(tmp_path: Path) -> None:
    from commands import dptext

    source = shards(tmp_path / "in", 60, 60)
    dp.save_model(mechanism(), tmp_path / "model")
    options = ("--model", tmp_path / "model", "--label-field", "label", "--id-field", "id", "--part-size", "50")
    rehearsed = dptext("privatize", source, tmp_path / "out", *options, "--dry-run")
    assert "120 records" in rehearsed.stdout
    assert not (tmp_path / "out").exists()
    done = dptext("privatize", source, tmp_path / "out", *options, "--workers", "1", "--json-progress")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert (told[-1]["doing"], told[-1]["done"], told[-1]["of"]) == ("privatizing", 120, 120)
    again = dptext("privatize", source, tmp_path / "out", *options, "--dry-run")
    assert again.stdout == rehearsed.stdout
    assert "manifest.json is there already: a run needs another name, or --force" in again.stderr
    explained = dptext("explain", tmp_path / "out")
    assert "Verified" in explained.stdout
    refused = dptext("privatize", source / "s0.jsonl", tmp_path / "o.jsonl", *options)
    assert refused.returncode == 2
    assert "single file" in refused.stderr
    assert isinstance(refused, subprocess.CompletedProcess)


def test_many_small_files_are_not_brought_to_the_disk_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 one-line files took minutes: six calls of the disk for each."""
    (tmp_path / "in").mkdir()
    for i in range(200):
        (tmp_path / "in" / f"n{i:03d}.txt").write_text(f"note {i}")
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(sync(file)))
    unchanged, plain = KeptWords().fit(), dp.Plan(without_guarantee=True)
    found = dp.privatize_dataset(tmp_path / "in", tmp_path / "out", unchanged, plan=plain, dataset=here())
    assert (found.records, found.record) == (200, "file")
    assert len(synced) < 60


def test_what_was_surveyed_is_not_surveyed_again(tmp_path: Path) -> None:
    written = Surveys.at(tmp_path)
    for number in range(5):
        ids = b"".join(sorted([b"%016d" % number, b"%016d" % (number % 2)]))
        written.keep(number, work.Surveyed(number, b"h" * 16 * number, ids))
        if number == 2:
            written.write()
    unwritten = Surveys.at(tmp_path)
    assert unwritten.records == {0: 0, 1: 1, 2: 2}
    assert unwritten.hashes == {number: b"h" * 16 * number for number in range(3)}
    written.write()
    again = Surveys.at(tmp_path)
    assert (again.records, again.hashes) == (written.records, written.hashes)
    assert [found.most("ids") for found in (unwritten, again)] == [3, 4]
    assert again.most("authors") == 0
    (tmp_path / "7.survey").write_text("[[7]]")
    with pytest.raises(ConfigError, match="cannot be read as part of a run"):
        Surveys.at(tmp_path)


@pytest.mark.parametrize("damage", ["cut between two batches", "without its end", "followed by another"])
def test_a_stream_of_arrow_is_read_to_its_end(tmp_path: Path, damage: str) -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"text": ["a", "b"]})
    parts = []
    for n in (1, 2):
        file = io.BytesIO()
        with pa.ipc.new_stream(file, batch.schema) as stream:
            for _ in range(n):
                stream.write_batch(batch)
        parts.append(file.getvalue())
    one, two = parts
    data = {"cut between two batches": one[:-8], "without its end": two[:-8], "followed by another": two + one}[damage]
    path = tmp_path / "data.arrow"
    shard = Shard("data.arrow", str(path), arrow=True)
    path.write_bytes(two)
    assert sum(map(len, read(shard, dp.Plan(), {}, {}))) == 4
    path.write_bytes(data)
    with pytest.raises(BrokenFileError, match="truncated, or more follows its end"):
        list(read(shard, dp.Plan(), {}, {}))
