import gzip
import json
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

from dptext.errors import ConfigError, DataError, IncomparableError, NoGuaranteeError, PrivacyError
from dptext.mechanism import compared, seen
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.guarantee import Basis, Unit
from dptext.runs import files, streaming, unfinished
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.results import privatize
from dptext.runs.streaming import guarantees
from dptext.sampling.randomness import secure, seeded
from dptext.text.batches import Batch
from dptext.text.records import Fields, Record, Release
from dptext.text.writers import write_releases
from kept_words import KeptWords
from vectored import VectorWords, vector_of
from vectors import WORDS, sentences

RECORDS = [Record(str(i), text, author=f"w{i % 3}") for i, text in enumerate(sentences(30))]


@pytest.fixture
def mechanism(vectors: Path):
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()


@pytest.fixture
def documents(vectors: Path):
    """A mechanism with a guarantee per document, which a maximum for each author needs."""
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300, noise="tem", max_tokens=4, diameter=12.0).fit()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    write_releases(path, [Release(record.id, record.text) for record in RECORDS])
    return path


def test_releases_stream_in_order(mechanism) -> None:
    pulled = []

    def endless():
        for i in range(10**9):
            pulled.append(i)
            yield Record(str(i), WORDS[i % 300])

    stream = iter(privatize(endless(), mechanism, batch_size=10))
    assert [next(stream).id for _ in range(25)] == [str(i) for i in range(25)]
    assert len(pulled) <= 30


def test_a_long_text_ends_its_batch(mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BATCH_CHARACTERS", 50)
    records = Batch.of([Record("0", "a" * 60), Record("1", "b"), Record("2", "c" * 60)])
    batches = list(streaming.split([records], 100))
    assert [len(batch) for batch in batches] == [1, 2]


def test_no_guarantee_is_refused_before_anything_is_read() -> None:
    unchanged = KeptWords().fit()

    def unread():
        raise AssertionError("a record was read")
        yield

    with pytest.raises(NoGuaranteeError, match="without_guarantee"):
        privatize(unread(), unchanged)
    assert len(list(privatize(RECORDS, unchanged, without_guarantee=True))) == len(RECORDS)


def test_authors_beyond_the_maximum_are_refused(documents) -> None:
    assert len(list(privatize(RECORDS, documents, max_per_author=10))) == 30
    with pytest.raises(DataError, match=r"Record 28 .* more than max_per_author=9"):
        list(privatize(RECORDS, documents, max_per_author=9))
    with pytest.raises(DataError, match="no author"):
        list(privatize([Record("0", "x")], documents, max_per_author=9))


@pytest.mark.parametrize(
    "spellings", [("anna", "Anna", "anna ", "ANNA"), ("Mar\u00eda", "Mari\u0301a"), ("\uff34est", "test"), ("ß", "SS")]
)
def test_one_author_in_several_spellings_is_one(documents, spellings: tuple[str, ...]) -> None:
    records = [Record(str(i), "x", author=author) for i, author in enumerate(spellings)]
    assert len(list(privatize(records, documents, max_per_author=len(records)))) == len(records)
    with pytest.raises(DataError, match=f"Record {len(records)} .* more than max_per_author={len(records) - 1}"):
        list(privatize(records, documents, max_per_author=len(records) - 1))


@pytest.mark.parametrize("author", ["", " ", "\u2003\n"])
def test_white_space_names_no_author(documents, author: str) -> None:
    with pytest.raises(DataError, match="Record 1 has no author"):
        list(privatize([Record("0", "x", author=author)], documents, max_per_author=9))


@pytest.mark.parametrize("fault", ["drop", "swap", "invent"])
def test_a_mechanism_that_does_not_answer_each_record_releases_nothing(mechanism, fault: str) -> None:
    class Broken:
        spec, digests = mechanism.spec, mechanism.digests

        def privatize(self, records, randomness):
            released = list(mechanism.privatize(records, randomness))
            return {"drop": released[1:], "swap": released[::-1], "invent": [*released, released[0]]}[fault]

    with pytest.raises(PrivacyError, match="nothing is released"):
        next(iter(privatize(RECORDS, Broken())))


def test_what_is_stated_for_each_unit(vectors: Path) -> None:
    plain = WordMetric(epsilon=1.0, noise="tem", vectors=str(vectors), n_words=300)
    assert [g.unit for g in guarantees(plain, randomness=secure())] == [Unit.TOKEN]
    with pytest.raises(IncomparableError, match="per document"):
        guarantees(plain, randomness=secure(), max_per_author=3)
    long = replace(plain, max_tokens=10, diameter=20.0)
    found = guarantees(long, randomness=secure(), max_per_author=3, reveals=["x"])
    assert [g.unit for g in found] == [Unit.TOKEN, Unit.DOCUMENT, Unit.AUTHOR]
    assert found[2].epsilon == pytest.approx(3 * found[1].epsilon)
    assert all("x" in g.reveals for g in found)
    assert all(g.basis is Basis.NONE and "seeded" in g.reason for g in guarantees(long, randomness=seeded(0)))


def test_a_kill_between_the_two_renames_is_mended(tmp_path: Path, source: Path, mechanism, monkeypatch) -> None:
    target = tmp_path / "out.jsonl"

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unfinished, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism)
    monkeypatch.undo()
    assert target.exists()
    assert not certificate_path(target).exists()
    before = target.read_bytes()
    certificate = privatize_file(source, target, mechanism, plan=Plan(resume=True))
    assert target.read_bytes() == before
    certificate.check_file(tmp_path)
    assert Certificate.from_json(certificate_path(target).read_text("utf-8")) == replace(
        certificate, version=json.loads(certificate.to_json())["version"]
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path, source: Path, mechanism) -> None:
    target = tmp_path / "out.jsonl"

    def stop(done: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, plan=Plan(batch_size=10), on_progress=stop)
    part = (tmp_path / ".out.jsonl.part").read_bytes()
    assert part.count(b"\n") == 20
    seen = []
    privatize_file(source, target, mechanism, plan=Plan(batch_size=10, resume=True), on_progress=seen.append)
    assert seen == [30]
    assert target.read_bytes().startswith(part)


def test_two_runs_cannot_write_one_output(tmp_path: Path, source: Path, mechanism) -> None:
    target = tmp_path / "out.jsonl"

    def second(_: int) -> None:
        with pytest.raises(ConfigError, match="Another run"):
            privatize_file(source, target, mechanism, plan=Plan(resume=True))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, on_progress=second)


def test_force_does_not_disturb_a_run_that_is_writing(tmp_path: Path, source: Path, mechanism) -> None:
    target = tmp_path / "out.jsonl"
    refused = []

    def second(_: int) -> None:
        with pytest.raises(ConfigError, match="Another run"):
            privatize_file(source, target, mechanism, plan=Plan(force=True))
        refused.append(True)

    certificate = privatize_file(source, target, mechanism, plan=Plan(batch_size=10), on_progress=second)
    assert len(refused) == 3
    certificate.check_file(tmp_path)
    assert target.read_bytes().count(b"\n") == certificate.records == 30


def test_a_run_that_begins_at_the_same_moment_is_left_alone(
    tmp_path: Path, source: Path, mechanism, monkeypatch
) -> None:
    part = tmp_path / ".out.jsonl.part"
    fingerprint = files.fingerprint

    def meanwhile(path: Path, key: str) -> str:
        part.write_text("another run's", "utf-8")
        return fingerprint(path, key)

    monkeypatch.setattr(files, "fingerprint", meanwhile)
    with pytest.raises(ConfigError, match="Cannot write"):
        privatize_file(source, tmp_path / "out.jsonl", mechanism)
    assert part.read_text("utf-8") == "another run's"
    with pytest.raises(ConfigError, match="nothing of it is done: begin anew with --force"):
        privatize_file(source, tmp_path / "out.jsonl", mechanism)


def test_a_part_that_was_replaced_is_not_released(tmp_path: Path, source: Path, mechanism) -> None:
    target, part = tmp_path / "out.jsonl", tmp_path / ".out.jsonl.part"

    def replaced(_: int) -> None:
        part.unlink()
        part.write_text("another run's", "utf-8")

    with pytest.raises(ConfigError, match="replaced by another run"):
        privatize_file(source, target, mechanism, on_progress=replaced)
    assert not target.exists()
    assert part.read_text("utf-8") == "another run's"


def test_the_state_holds_no_digest_that_confirms_a_guess(tmp_path: Path, source: Path, mechanism) -> None:
    """The fingerprint of the input differs from run to run: without the key in the state it says nothing."""
    states = []

    def stop(_: int) -> None:
        states.append(json.loads((tmp_path / ".out.jsonl.resume.json").read_text("utf-8")))
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=Plan(force=True), on_progress=stop)
    assert states[0]["input"] != states[1]["input"]
    assert states[0]["settings"] == states[1]["settings"]


def test_plans_are_checked() -> None:
    with pytest.raises(ConfigError, match="author"):
        Plan(max_per_author=3)
    with pytest.raises(ConfigError, match="batch_size"):
        Plan(batch_size=0)
    with pytest.raises(ConfigError, match="delta"):
        Plan(delta=2.0)
    assert Plan(fields=Fields(id="name", keep=("year",))).reveals == (
        "the number of records",
        "the ids (field 'name')",
        "the field 'year'",
    )


# --- vectors ----------------------------------------------------------------------------------------------------------

OUTPUTS = ("text", "embedding", "both")


@pytest.fixture
def vectored(vectors: Path):
    return lambda output: VectorWords(epsilon=3.0, vectors=str(vectors), n_words=300, output=output).fit()


def rows_of(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    data = path.read_bytes()
    return [
        json.loads(line)
        for line in (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")
        if line
    ]


def altered(mechanism, change):
    """The mechanism with other releases."""

    class Altered:
        spec, digests = mechanism.spec, mechanism.digests

        def privatize(self, records, randomness):
            return change(list(mechanism.privatize(records, randomness)))

    return Altered()


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_a_file_holds_what_the_spec_says(tmp_path: Path, source: Path, vectored, name: str, output: str) -> None:
    mechanism, target = vectored(output), tmp_path / name
    certificate = privatize_file(source, target, mechanism, plan=Plan(batch_size=7), randomness=seeded(5))
    certificate.check_file(tmp_path)
    assert certificate.settings["output"] == output
    assert certificate.records == 30
    assert Certificate.from_json(certificate_path(target).read_text("utf-8")).sha256 == certificate.sha256
    expected = mechanism.inner.privatize([replace(record, author=None) for record in RECORDS], seeded(5))
    for row, release in zip(rows_of(target), expected, strict=True):
        assert (
            set(row) == {"id"} | {"text": {"text"}, "embedding": {"embedding"}, "both": {"text", "embedding"}}[output]
        )
        assert row.get("text", release.output) == release.output
        assert row.get("embedding") in (None, pytest.approx(vector_of(release.output), rel=1e-7))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("output", ["embedding", "both"])
@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.txt"])
def test_a_format_without_vectors_is_refused_before_anything_is_spent(
    tmp_path: Path, source: Path, vectored, name: str, output: str
) -> None:
    def never(_):
        raise AssertionError("something was drawn")

    class NoPayment:
        def __getattr__(self, name):
            raise AssertionError("the ledger was asked")

    with pytest.raises(ConfigError, match="Write Parquet or JSON Lines"):
        privatize_file(source, tmp_path / name, altered(vectored(output), never), payment=NoPayment())
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_run_with_vectors_resumes(tmp_path: Path, source: Path, vectored, name: str) -> None:
    mechanism, target = vectored("embedding"), tmp_path / name

    def stop(done: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    privatize_file(source, tmp_path / "whole.jsonl", mechanism, randomness=seeded(1))
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, plan=Plan(batch_size=10), randomness=seeded(1), on_progress=stop)
    assert json.loads((tmp_path / f".{name}.resume.json").read_text("utf-8"))["dim"] == 6
    with (tmp_path / f".{name}.part").open("ab") as file:
        file.write(b"an unfinished batch")
    longer = altered(mechanism, lambda found: [replace(each, vector=(*each.vector, 0.0)) for each in found])
    state = (tmp_path / f".{name}.resume.json").read_bytes()
    part = (tmp_path / f".{name}.part").read_bytes()
    with pytest.raises(DataError, match=r"Release 1 of the batch .* another length than the first"):
        privatize_file(source, target, longer, plan=Plan(batch_size=10, resume=True), randomness=seeded(1))
    (tmp_path / f".{name}.resume.json").write_bytes(state)
    (tmp_path / f".{name}.part").write_bytes(part)
    certificate = privatize_file(source, target, mechanism, plan=Plan(batch_size=10, resume=True), randomness=seeded(1))
    certificate.check_file(tmp_path)
    assert rows_of(target) == rows_of(tmp_path / "whole.jsonl")


@pytest.mark.parametrize(
    ("output", "change", "promised"),
    [
        ("text", lambda each: replace(each, vector=(1.0,)), "promises no vector"),
        ("both", lambda each: replace(each, vector=None), "promises a vector"),
        ("embedding", lambda each: replace(each, vector=None), "promises a vector"),
        ("embedding", lambda each: replace(each, output="private text"), "promises vectors and no text"),
    ],
)
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_mechanism_that_releases_other_things_than_its_spec_says_releases_nothing(
    tmp_path: Path, source: Path, vectored, output: str, change, promised: str, name: str
) -> None:
    planted = altered(vectored(output), lambda found: [*found[:-1], change(found[-1])])
    with pytest.raises(PrivacyError, match=promised) as caught:
        privatize_file(source, tmp_path / name, planted)
    assert "private text" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    with pytest.raises(PrivacyError, match=promised):
        list(privatize(RECORDS, planted))


@pytest.mark.parametrize(
    "vector", [(float("nan"),) * 6, (float("-inf"), *[0.0] * 5), (1e39, *[0.0] * 5), (0.0,) * 5, ("private text",) * 6]
)
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_faulty_vector_ends_the_run(tmp_path: Path, source: Path, vectored, vector: tuple, name: str) -> None:
    planted = altered(vectored("both"), lambda found: [*found[:-1], replace(found[-1], vector=vector)])
    with pytest.raises(DataError, match="its vector") as caught:
        privatize_file(source, tmp_path / name, planted)
    told = "".join(traceback.format_exception(caught.value, limit=0))
    assert "private text" not in told
    assert not any(record.text in told for record in RECORDS if record.text)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("output", ["embedding", "both"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_planted_writer_that_drops_vectors_is_caught(
    tmp_path: Path, source: Path, vectored, name: str, output: str, monkeypatch
) -> None:
    """Whether the writer loses them release by release, or the run forgets their column."""
    whole = files.open_writer

    class Dropping:
        def __init__(self, writer):
            self.writer, self.close = writer, writer.close

        def write(self, releases):
            self.writer.write([replace(each, vector=None) for each in releases])

    for planted in (
        lambda *given, **which: Dropping(whole(*given, **which)),
        lambda *given, columns, **which: whole(*given, columns=replace(columns, text=True, vector=False), **which),
    ):
        monkeypatch.setattr(files, "open_writer", planted)
        with pytest.raises(ConfigError, match="Release 1 of the batch has"):
            privatize_file(source, tmp_path / name, vectored(output), plan=Plan(force=True))
        assert not (tmp_path / name).exists()
    monkeypatch.undo()
    assert privatize_file(source, tmp_path / name, vectored(output), plan=Plan(force=True)).records == 30


def test_what_a_spec_says_it_releases(vectors: Path) -> None:
    word = WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300)
    assert (word.traits.releases_text, word.traits.releases_vectors) == (True, False)
    said = {output: VectorWords(epsilon=3.0, vectors="x", output=output) for output in OUTPUTS}
    assert {output: (spec.traits.releases_text, spec.traits.releases_vectors) for output, spec in said.items()} == {
        "text": (True, False),
        "embedding": (False, True),
        "both": (True, True),
    }


def test_what_audits_compare() -> None:
    text, both = Release("0", "a", "x"), Release("0", "a", "x", vector=(0.5, 0.1))
    alone = Release("0", "", vector=(0.5, 0.1))
    assert [seen(each) for each in (text, both, alone)] == ["x\x1fa", "x\x1fa\x1f0.5 0.1", "\x1f0.5 0.1"]
    assert compared([text, both]) == ["x\x1fa", "x\x1fa\x1f0.5 0.1"]
    assert np.array_equal(compared([alone, alone]), [[0.5, 0.1], [0.5, 0.1]])
    assert compared([alone, both]) == [seen(alone), seen(both)]
    assert compared([replace(alone, label="x")]) == ["x\x1f\x1f0.5 0.1"]
    assert compared([Release("0", "")]) == [""]
    assert compared([]) == []
