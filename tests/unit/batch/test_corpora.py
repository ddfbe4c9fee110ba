"""A private corpus of many files is summed up as one of a single file, by however many workers."""

import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

import dptext as dp
from dptext.batch.corpora import PrivateShards, Reader, _opened, _unpacked, synthesize_dataset
from dptext.batch.shards import shards_of
from dptext.errors import DataError
from dptext.runs.synthesizing import run
from dptext.sampling.source import seeded
from dptext.synthesis.registry import SYNTHESES

SPECS = [cls.tiny()[-1] for kind, cls in sorted(SYNTHESES.items()) if kind in ("prototypes", "votes", "topics")]


def corpus(folder: Path, n: int = 300) -> tuple[list[dict], Path]:
    rows = [
        {"text": each.text, "label": each.label, "who": f"u{i % 40}"} for i, each in enumerate(dp.sample_records(n))
    ]
    folder.mkdir()
    for number, start in enumerate((0, 10, 190)):
        part = rows[start : (10, 190, n)[number]]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return rows, folder


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_same_corpus_leaves(spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptext.batch.corpora._TOGETHER", 64)
    rows, folder = corpus(tmp_path / "in")
    fitted = spec.fit(public=list(dp.sample_records(200)), seed=0)
    fields = dp.Fields(label="label" if spec.labels else None, author="who" if spec.unit == "author" else None)
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


def test_no_error_says_which_record_or_how_many(tmp_path: Path) -> None:
    _, folder = corpus(tmp_path / "in")
    with (folder / "1.jsonl").open("a") as file:
        file.write("{secret\n")
    spec = SPECS[0]
    fitted = spec.fit(public=list(dp.sample_records(200)), seed=0)
    fields = dp.Fields(label="label" if spec.labels else None, author="who" if spec.unit == "author" else None)
    for n in (1, 2):
        with pytest.raises(DataError) as caught:
            synthesize_dataset(folder, fitted, plan=dp.Plan(fields), workers=dp.Workers(n=n))
        for word in ("secret", "1.jsonl", "181"):
            assert word not in str(caught.value)


def test_what_a_worker_answers_is_sealed_and_each_record_is_in_one_answer(tmp_path: Path) -> None:
    rows, folder = corpus(tmp_path / "in")
    fitted = SPECS[0].fit(public=list(dp.sample_records(200)), seed=0)
    plan = dp.Plan(dp.Fields(label="label", author="who"))
    private = PrivateShards(str(folder), plan.fields, {}, shards=shards_of(folder, options={}), plan=plan, options={})
    reader = Reader(private, fitted.pool.space, (), bytes(32))
    sealed = reader.read(1, 0, 180)
    assert b"u10" not in sealed
    with pytest.raises(InvalidTag):
        _opened(sealed, b"x" * 32)

    def authors(answer: bytes) -> list[str]:
        return [author for each in _unpacked(_opened(answer, bytes(32))) for author in each.authors]

    found = authors(sealed)
    assert found == [row["who"] for row in rows[10:190]]
    parts = [reader.read(1, start, start + 50) for start in range(0, 180, 50)]
    assert [author for part in parts for author in authors(part)] == found


def test_a_worker_that_dies_adds_nothing_twice(tmp_path: Path) -> None:
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

    spec = SPECS[0]
    fitted = spec.fit(public=list(dp.sample_records(200)), seed=0)
    plan = dp.Plan(dp.Fields(label="label" if spec.labels else None, author="who" if spec.unit == "author" else None))
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
