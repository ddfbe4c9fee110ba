import json
from dataclasses import replace
from pathlib import Path

import pytest

from dptext import file_runs, pipeline
from dptext.certificate import Certificate, certificate_path
from dptext.errors import ConfigError, DataError, IncomparableError, NoGuaranteeError, PrivacyError
from dptext.file_runs import Plan, privatize_file
from dptext.guarantee import Basis, Unit
from dptext.mechanisms.private_phrases import PrivatePhrases
from dptext.mechanisms.word_metric import WordMetric
from dptext.pipeline import guarantees, privatize
from dptext.randomness import secure, seeded
from dptext.records import Fields, Record, Release
from dptext.releases import write_releases
from vectors import WORDS, sentences

RECORDS = [Record(str(i), text, author=f"w{i % 3}") for i, text in enumerate(sentences(30))]


@pytest.fixture
def mechanism(vectors: Path):
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()


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

    stream = privatize(endless(), mechanism, batch_size=10)
    assert [next(stream).id for _ in range(25)] == [str(i) for i in range(25)]
    assert len(pulled) <= 30


def test_a_long_text_ends_its_batch(mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_BATCH_CHARACTERS", 50)
    batches = list(pipeline.split([Record("0", "a" * 60), Record("1", "b"), Record("2", "c" * 60)], 100))
    assert [len(batch) for batch in batches] == [1, 2]


def test_no_guarantee_is_refused_before_anything_is_read(vectors: Path) -> None:
    phrases = PrivatePhrases(variance=1.0, vectors=str(vectors), n_words=300, common_words=9).fit()

    def unread():
        raise AssertionError("a record was read")
        yield

    with pytest.raises(NoGuaranteeError, match="without_guarantee"):
        privatize(unread(), phrases)
    assert len(list(privatize(RECORDS, phrases, without_guarantee=True))) == len(RECORDS)


def test_authors_beyond_the_maximum_are_refused(mechanism) -> None:
    assert len(list(privatize(RECORDS, mechanism, max_per_author=10))) == 30
    with pytest.raises(DataError, match=r"Record 28 .* more than max_per_author=9"):
        list(privatize(RECORDS, mechanism, max_per_author=9))
    with pytest.raises(DataError, match="no author"):
        list(privatize([Record("0", "x")], mechanism, max_per_author=9))


@pytest.mark.parametrize("fault", ["drop", "swap", "invent"])
def test_a_mechanism_that_does_not_answer_each_record_releases_nothing(mechanism, fault: str) -> None:
    class Broken:
        spec, event, digests = mechanism.spec, mechanism.event, mechanism.digests

        def privatize(self, records, randomness):
            released = list(mechanism.privatize(records, randomness))
            return {"drop": released[1:], "swap": released[::-1], "invent": [*released, released[0]]}[fault]

    with pytest.raises(PrivacyError, match="nothing is released"):
        next(privatize(RECORDS, Broken()))


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

    monkeypatch.setattr(file_runs, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism)
    monkeypatch.undo()
    assert target.exists()
    assert not certificate_path(target).exists()
    before = target.read_bytes()
    certificate = privatize_file(source, target, mechanism, plan=Plan(resume=True))
    assert target.read_bytes() == before
    certificate.verify(tmp_path)
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
    certificate.verify(tmp_path)
    assert target.read_bytes().count(b"\n") == certificate.records == 30


def test_a_run_that_begins_at_the_same_moment_is_left_alone(
    tmp_path: Path, source: Path, mechanism, monkeypatch
) -> None:
    part = tmp_path / ".out.jsonl.part"
    fingerprint = file_runs.fingerprint

    def meanwhile(path: Path, key: str) -> str:
        part.write_text("another run's", "utf-8")
        return fingerprint(path, key)

    monkeypatch.setattr(file_runs, "fingerprint", meanwhile)
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
