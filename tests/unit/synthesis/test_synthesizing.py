"""From records or a file to a synthetic corpus: certificate, books, columns, and what no error says."""

import errno
import gzip
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from dptext.errors import (
    BrokenFileError,
    BudgetExceededError,
    ConfigError,
    DataError,
    IncomparableError,
    NoGuaranteeError,
    PrivacyError,
)
from dptext.ledger.entries import spent_epsilon
from dptext.ledger.subjects import SubjectKey
from dptext.privacy.guarantee import ONE_PERSON, ONE_SPELLING, WHOLE_FILES, Basis, Trust
from dptext.runs.certificate import certificate_path
from dptext.runs.private import Private
from dptext.runs.specs import spec_from_settings, synthesis_from_settings
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import run
from dptext.synthesis.page import topics_page
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.spec import Fitted
from dptext.synthesis.summary import Summary
from dptext.synthesis.sums import Draws
from dptext.text.files import Target
from dptext.text.records import Fields

LABELS = ["health", "travel", "money", "leisure"]
RECORDS = dp.sample_records(400, seed=1)
POOL = dp.sample_records(250, seed=2)
TOPICS = {"kind": "topics", "encoder": "glove", "words": 8, "topics": 4, "dim": 8}
SMALL = {"labels": LABELS, "encoder": "glove", "words": 8, "about": 400, "topics": 4, "epsilon": 4}
CANARY = "zqunreadable"


@pytest.fixture(scope="module")
def made() -> Synthesized:
    """A corpus made of 400 sample texts."""
    return dp.synthesize(RECORDS, POOL, **SMALL)


@pytest.fixture(scope="module")
def labelled() -> Fitted:
    """It reads labels."""
    return synthesis_from_settings({**TOPICS, "labels": LABELS}).fit(public=POOL)  # type: ignore[arg-type]


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    """A file of JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_what_leaves_is_public_text_with_fresh_ids(made: Synthesized) -> None:
    public = {record.text: record.label for record in POOL}
    assert [release.id for release in made.releases] == [str(i) for i in range(len(made.releases))]
    assert {release.output for release in made.releases} <= public.keys()
    assert len(made.releases) == int(0.9 * len(public))
    kept = [public[release.output] == release.label for release in made.releases]
    assert sum(kept) > 0.5 * len(kept)  # four labels: by chance a quarter
    assert made.to_dict()["label"][0] in LABELS
    assert len(made.report.counts) == 4
    assert len(made.report.topics) == 4


def test_what_it_guarantees(made: Synthesized) -> None:
    (promised,) = made.guarantees
    assert made.spec.guarantee().epsilon == promised.epsilon
    assert (made.spec.kind, made.spec.labels, made.spec.about) == ("prototypes", tuple(LABELS), 400)
    assert (promised.unit, promised.relation) == (dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE)
    assert promised.trust is Trust.CENTRAL
    assert promised.epsilon <= 4
    assert promised.delta == 1e-5
    assert not promised.reveals  # not even the number of records
    assert made.certificate.also_reveals == ()
    assert dp.synthesize(RECORDS, POOL, **SMALL, randomness=dp.randomness.seeded(1)).guarantees[0].basis is Basis.NONE


def test_files_are_verified_and_a_change_is_refused(made: Synthesized, tmp_path: Path) -> None:
    for name in ("out.jsonl", "out.csv", "out.jsonl.gz"):
        made.write(tmp_path / name)
        found = dp.verify(certificate_path(tmp_path / name))
        assert found.certificate.records == len(made.releases)
        with pytest.raises(ConfigError, match="Expected no file"):
            made.write(tmp_path / name)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"out.jsonl.topics.json", "out.jsonl.topics.html"} <= names
    page = (tmp_path / "out.jsonl.topics.html").read_text("utf-8")
    assert all(label in page for label in LABELS)
    assert "<script" not in page
    path = certificate_path(tmp_path / "out.jsonl")
    for old, new in (
        ('"epsilon": 4', '"epsilon": 3'),
        ('"about": 400', '"about": 401'),
        ('"records": ', '"records": 1'),
    ):
        path.write_text(made.certificate.to_json().replace("releases.jsonl", "out.jsonl").replace(old, new), "utf-8")
        if "about" not in old:
            with pytest.raises((DataError, ConfigError)):
                dp.verify(path)


@pytest.mark.parametrize("wrong", ["rho", "relation", "delta", "reveals"])
def test_a_certificate_that_states_more_than_its_settings_is_refused(
    wrong: str, made: Synthesized, tmp_path: Path
) -> None:
    made.write(tmp_path / "o.jsonl")
    path = certificate_path(tmp_path / "o.jsonl")
    data = json.loads(path.read_text("utf-8"))
    if wrong == "rho":
        data["events"][0]["rho"] /= 2
    elif wrong == "relation":
        data["guarantees"][0]["relation"] = "replace_one"
    elif wrong == "delta":
        data["guarantees"][0]["delta"] = 1e-9
    else:
        data["also_reveals"] = ["the number of records"]
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(DataError, match="does not follow from its settings"):
        dp.verify(path)


def test_by_author_nobody_shares_a_name_and_no_assumption_is_left_out(tmp_path: Path) -> None:
    settings = {**TOPICS, "unit": "author"}
    dp.synthesize(RECORDS, POOL, **settings).write(tmp_path / "t.json")  # type: ignore[arg-type]
    path = certificate_path(tmp_path / "t.json")
    (promised,) = dp.verify(path).certificate.guarantees
    assert {ONE_PERSON, ONE_SPELLING} <= set(promised.assumptions)
    assert ONE_PERSON not in dp.synthesize(RECORDS, POOL, **TOPICS).guarantees[0].assumptions  # type: ignore[arg-type]
    data = json.loads(path.read_text("utf-8"))
    for left_out in (ONE_PERSON, WHOLE_FILES, ONE_SPELLING, promised.assumptions[0]):
        stated = {**data["guarantees"][0], "assumptions": [a for a in promised.assumptions if a != left_out]}
        path.write_text(json.dumps({**data, "guarantees": [stated]}), "utf-8")
        with pytest.raises(DataError, match="does not follow from its settings"):
            dp.verify(path)


def test_a_report_alone(tmp_path: Path) -> None:
    found = dp.synthesize(RECORDS, POOL, **TOPICS, about=len(RECORDS))  # type: ignore[arg-type]
    assert not found.releases
    found.write(tmp_path / "t.json")
    assert dp.verify(certificate_path(tmp_path / "t.json")).certificate.records == 0
    assert json.loads((tmp_path / "t.json").read_text("utf-8"))["counts"] == found.report.to_dict()["counts"]
    assert found.sentences[0].startswith("Topics, in documents, with 95% intervals: ")


def test_records_without_what_is_needed_add_nothing() -> None:
    """Without labels or authors of its own a corpus of ready records is an empty one: noise alone."""
    bare = [dp.Record(str(i), record.text) for i, record in enumerate(RECORDS)]
    found = dp.synthesize(bare, POOL, **{**SMALL, "epsilon": 50})
    assert sum(sum(row) for row in found.report.counts) < 60
    nobody = dp.synthesize(bare, POOL, **{**TOPICS, "unit": "author", "epsilon": 50})  # type: ignore[arg-type]
    assert sum(nobody.report.counts[0]) < 10


def test_one_charge_for_everyone_or_for_each_subject_once(tmp_path: Path) -> None:
    books = dp.Ledger.create(tmp_path / "books.db", key=SubjectKey(bytes(range(32))))
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.AUTHOR, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    for name in ("all", "each", "local"):
        books.open_account(
            name, replace(limit, unit=dp.Unit.DOCUMENT) if name == "local" else limit, by_subject=name == "each"
        )
    settings = {**TOPICS, "unit": "author", "epsilon": 2}
    found = dp.synthesize(RECORDS, POOL, **settings, payment=dp.Payment(books, "all", "one"))  # type: ignore[arg-type]
    assert found.certificate.charged is not None
    assert not found.certificate.charged.by_subject
    assert "left" in found.left
    found.write(tmp_path / "t.json")
    dp.verify(certificate_path(tmp_path / "t.json"), ledger=books)
    with pytest.raises(PrivacyError, match="paid for"):  # a rerun has fresh noise and is another charge
        dp.synthesize(RECORDS, POOL, **settings, payment=dp.Payment(books, "all", "one"))  # type: ignore[arg-type]
    with pytest.raises(BudgetExceededError):
        dp.synthesize(RECORDS, POOL, **{**settings, "epsilon": 6}, payment=dp.Payment(books, "all"))  # type: ignore[arg-type]
    with pytest.raises(IncomparableError, match="per document"):
        dp.synthesize(RECORDS, POOL, **settings, payment=dp.Payment(books, "local"))  # type: ignore[arg-type]
    with pytest.raises(NoGuaranteeError, match="secure randomness"):
        dp.synthesize(RECORDS, POOL, **settings, payment=dp.Payment(books, "all"), randomness=dp.randomness.seeded(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="--everyone"):  # the subjects were forgotten
        dp.synthesize(RECORDS, POOL, **settings, payment=dp.Payment(books, "each"))  # type: ignore[arg-type]
    source = written(tmp_path / "in.jsonl", [{"text": record.text, "who": record.author} for record in RECORDS])
    fitted = synthesis_from_settings(settings).fit(public=POOL)  # type: ignore[arg-type]
    private = Private(source, Fields(author="who", subject="who"), {})
    with pytest.raises(ConfigError, match="to be the authors"):  # whose records are clipped is who pays
        run(replace(private, fields=Fields(author="who", subject="other")), fitted, payment=dp.Payment(books, "each"))
    charged = run(private, fitted, payment=dp.Payment(books, "each", "k")).certificate.charged
    assert charged is not None
    assert charged.by_subject
    assert books.balance("each", subject=RECORDS[0].author).spent.epsilon == pytest.approx(2, rel=1e-6)


def test_a_document_of_several_records_is_not_charged_as_one(tmp_path: Path) -> None:
    books = dp.Ledger.create(tmp_path / "books.db", key=SubjectKey(bytes(range(32))))
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    books.open_account("letters", limit, by_subject=True)
    fitted = synthesis_from_settings(TOPICS).fit(public=POOL)  # type: ignore[arg-type]
    for names, refused in ((["a", "b", "c"], False), (["d", "e", "e"], True)):
        path = written(tmp_path / "in.jsonl", [{"text": "so", "name": name} for name in names])
        private = Private(path, Fields(subject="name"), {})
        if refused:
            with pytest.raises(DataError, match="A subject has several records") as found:
                run(private, fitted, payment=dp.Payment(books, "letters"))
            assert found.value.__context__ is None
        else:
            run(private, fitted, payment=dp.Payment(books, "letters"))
    assert books.balance("letters", subject="d").spent.epsilon == 0  # nobody paid for what was refused


def test_the_private_file_is_never_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "in.json", [{"text": record.text} for record in RECORDS])
    path = path.rename(tmp_path / "in.jsonl")
    found = dp.synthesize(path, POOL, **{**TOPICS, "kind": "votes"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="never"):
        found.write(path, force=True)
    with pytest.raises(ConfigError, match=r"Expected OUT\.json"):
        dp.synthesize(path, POOL, **TOPICS).write(tmp_path / "report.csv")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def topics() -> Fitted:
    """The cheapest way, by document."""
    return synthesis_from_settings(TOPICS).fit(public=POOL)  # type: ignore[arg-type]


#: Rows of which none can be read, or says something.
NOTHING: list[Any] = [
    {"text": 3},
    {"other": f"{CANARY} so"},
    {"text": None},
    {"text": f"{CANARY}\0"},
    {"text": "\ud800"},
    {"text": "a" * 5_000_001},
    {"text": "\u200b\u2060\ufeff\u00ad \t"},
    {"text": ""},
    [CANARY],
    None,
]


def test_what_cannot_be_read_adds_nothing_and_nobody_is_told(
    topics: Fitted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under one seed the noise is the same: what told of such a record would show."""
    rows: list[Any] = [{"text": record.text} for record in RECORDS[:50]]
    lines = [json.dumps(row) + "\n" for row in rows]
    odd = [*[json.dumps(row) + "\n" for row in NOTHING], "{\n", f"{CANARY}\n", "\n", '{"text": NaN}\n']
    (tmp_path / "clean.jsonl").write_text("".join(lines), "utf-8")
    with (tmp_path / "odd.jsonl").open("wb") as file:
        file.write("".join([*odd, *lines, *odd]).encode("utf-8", "surrogatepass") + b'{"text": "\xff"}\n')
    texts = [record.text for record in RECORDS[:50]]
    (tmp_path / "odd.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts) + "a,b\n \n\n c,d\n", "utf-8")
    found = [
        run(Private(source, Fields(), {"on_error": "stop"}), topics, randomness=dp.randomness.seeded(1)).certificate
        for source in (
            tmp_path / "clean.jsonl",
            tmp_path / "odd.jsonl",
            tmp_path / "odd.csv",
            [*NOTHING, *rows, *NOTHING],
            [*texts, dp.Record("x", CANARY + "\0")],
            iter([*NOTHING, *rows]),
        )
    ]
    assert found[1:] == found[:-1]
    assert found[0] != run(Private(rows[1:], Fields(), {}), topics, randomness=dp.randomness.seeded(1)).certificate
    assert capsys.readouterr() == ("", "")


def test_an_empty_corpus_is_one_like_others(topics: Fitted, tmp_path: Path) -> None:
    sources: list[Any] = [[], iter([])]
    for name, held in (
        ("e.jsonl", ""),
        ("e.json", ""),
        ("e.csv", "text\n"),
        ("e.tsv", ""),
        ("e.json", "[]"),
    ):
        (tmp_path / name).write_text(held)
        sources.append(tmp_path / name)
    one = run(Private(["so"], Fields(), {}), topics)
    for source in sources:
        found = run(Private(source, Fields(), {}), topics)
        assert [len(row) for row in found.report.counts] == [len(row) for row in one.report.counts]
        assert replace(found.certificate, sha256=one.certificate.sha256) == one.certificate
    assert WHOLE_FILES in one.guarantees[0].assumptions


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("no.jsonl", None, "No such file"),
        ("a.txt", b"so\n", "plain text has no fields"),
        ("a.csv", f"text,{CANARY}\nso,b\n".encode(), "lacks a column"),
        ("a.tsv", b"text\ttext\tlabel\n", "lacks a column"),
        ("b.csv", f'text,label\nso,b\n"{CANARY},b\n'.encode(), "cannot be read to its end"),
        ("a.json", b'[{"text": "so"', "cannot be read to its end"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "so", "label": "a"}\n' * 9, mtime=0)[:-9], "cannot be read to its end"),
        ("frame", [{"text": "so", "other": CANARY}], "Expected the column 'label'"),
        ("m.jsonl", f'{CANARY}\n{{"text": "so", "{CANARY}": 1}}\n'.encode() * 2, "the first record of a file"),
        ("m.json", f'[3, {{"text": "so", "{CANARY}": 1}}]'.encode(), "the first record of a file"),
    ],
)
def test_a_file_that_cannot_be_used_costs_nothing(
    name: str, held: Any, said: str, labelled: Fitted, tmp_path: Path
) -> None:
    """What is public of a file, or keeps all that follows from being read, is an error before the charge."""
    books = dp.Ledger.create(tmp_path / "books.db")
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    books.open_account("all", limit)
    source: Any = tmp_path / name
    if name == "frame":
        source = pytest.importorskip("pyarrow").Table.from_pylist(held)
    elif held is not None:
        source.write_bytes(held)
    with pytest.raises((ConfigError, BrokenFileError), match=said) as found:
        run(Private(source, Fields(label="label"), {}), labelled, payment=dp.Payment(books, "all"))
    told = f"{found.value} {found.value.__cause__} {found.value.__context__}"
    assert CANARY not in told or name == "frame"  # whose columns are a schema
    assert books.balance("all").spent.epsilon == 0


def test_who_was_charged_for_nothing_is_told_how_to_go_on(
    topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = dp.Ledger.create(tmp_path / "books.db")
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    books.open_account("all", limit)
    with monkeypatch.context() as patch:
        drawn = iter([type(topics).synthesize])  # the rehearsal, with no records

        def full(*given: object) -> object:
            for synthesize in drawn:
                return synthesize(*given)
            raise MemoryError

        patch.setattr(type(topics), "synthesize", full)
        with pytest.raises(MemoryError) as found:
            run(Private(["so"], Fields(), {}), topics, payment=dp.Payment(books, "all"))
    (note,) = found.value.__notes__
    (charge,) = books.log("all")
    assert repr(charge.key) in note
    run(Private(["so"], Fields(), {}), topics, payment=dp.Payment(books, "all", charge.key))
    assert len(list(books.log("all"))) == 1


@pytest.mark.parametrize("fault", [MemoryError, KeyboardInterrupt])
def test_numbers_that_were_drawn_outlive_a_fault_in_writing(
    fault: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is settled, so that nothing is drawn again: the error holds the numbers, and writing goes on."""
    books = dp.Ledger.create(tmp_path / "books.db")
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    books.open_account("all", limit)
    drawn, noisy = list[object](), Draws.noisy

    def noted(draws: Draws, *given: Any) -> Any:
        found = noisy(draws, *given)
        drawn.extend([found] * draws.randomness.is_secure)  # a rehearsal draws with fixed randomness
        return found

    monkeypatch.setattr(Draws, "noisy", noted)
    own = Prototypes.written
    source = written(tmp_path / "in.jsonl", [{"text": each.text, "label": each.label} for each in RECORDS])
    given: dict[str, Any] = {**SMALL, "label": "label", "payment": dp.Payment(books, "all", "k")}
    with monkeypatch.context() as patch:
        patch.setattr(Prototypes, "written", lambda *given: raising(fault())() if drawn else own(*given))
        with pytest.raises(fault) as found:
            dp.synthesize(source, POOL, **given)
    unwritten = found.value.unwritten  # type: ignore[attr-defined]
    assert "error.unwritten.write()" in found.value.__notes__[-1]
    assert RECORDS[0].text not in repr(unwritten)
    with pytest.raises(PrivacyError, match="paid for"):
        dp.synthesize(source, POOL, **given)
    source.rename(tmp_path / "elsewhere.jsonl")
    made = unwritten.write()
    assert len(drawn) == 1
    summary = Summary.of_bytes(unwritten.data)
    assert made.report.counts == summary.report.counts
    assert made.releases
    assert "left" in made.left
    (charge,) = books.log("all")
    assert charge.release is not None
    assert made.inputs == (source,)
    made.write(tmp_path / "out.jsonl")
    dp.verify(certificate_path(tmp_path / "out.jsonl"), ledger=books)


def test_a_charge_that_the_caller_settles_keeps_no_numbers_on_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They could be published under a charge that pays for another run, too."""
    fitted = synthesis_from_settings({"kind": "prototypes", **SMALL}).fit(public=POOL)  # type: ignore[arg-type]
    own, calls = Prototypes.written, iter(range(1))
    monkeypatch.setattr(
        Prototypes, "written", lambda *given: raising(MemoryError())() if next(calls, None) is None else own(*given)
    )
    with pytest.raises(MemoryError) as found:
        run(Private(RECORDS, Fields(label="label"), {}), fitted, settled=False)
    assert not hasattr(found.value, "unwritten")


def test_a_charge_is_settled_when_all_files_are_whole_and_none_has_its_name(
    topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = dp.Ledger.create(tmp_path / "books.db")
    limit = dp.Guarantee(6.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    books.open_account("all", limit)
    paid, out, seen = dp.Payment(books, "all", "k"), tmp_path / "out", []
    out.mkdir()

    def settle() -> None:
        seen.extend((path.name, path.stat().st_size > 0) for path in out.iterdir())
        assert found.settle is not None
        found.settle()

    found = run(Private(["so"], Fields(), {}), topics, payment=paid, settled=False)
    with monkeypatch.context() as patch:
        patch.setattr("dptext.runs.synthesized.topics_page", raising(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match="full"):
            found.write(out / "t.json", settle=settle)
    assert not list(out.iterdir())
    assert not seen  # so that the key still pays for another run
    found = run(Private(["so"], Fields(), {}), topics, payment=paid, settled=False)
    found.write(out / "t.json", settle=settle)
    assert len(seen) == 4
    assert all(name.endswith(".partial") and whole for name, whole in seen)
    dp.verify(certificate_path(out / "t.json"), ledger=books)
    with pytest.raises(PrivacyError, match="paid for"):
        run(Private(["so"], Fields(), {}), topics, payment=paid)
    assert len(list(books.log("all"))) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_killed_run_left_is_gone_when_the_next_one_writes(topics: Fitted, tmp_path: Path) -> None:
    """Two draws for one charge never lie side by side; what a living run writes is left alone."""
    child = os.fork()
    if not child:
        run(Private(["so"], Fields(), {}), topics).write(tmp_path / "t.json", settle=lambda: os._exit(9))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 4
    assert all(name.endswith(".partial") and not path_mode(tmp_path / name) & 0o077 for name in left)
    (tmp_path / "other.json").write_text("x")
    with Target(tmp_path / "t.json").opened():
        living = {path.name for path in tmp_path.glob(".*")} - left
        run(Private(["so"], Fields(), {}), topics).write(tmp_path / "t.json")
        assert {path.name for path in tmp_path.glob(".*")} == living
        (tmp_path / "t.json").unlink()
    assert not list(tmp_path.glob(".*"))
    assert (tmp_path / "other.json").exists()


def path_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_report_by_author_does_not_call_its_weights_authors() -> None:
    """Records of an author in k cells have length 1 together, and weigh sqrt(k)."""
    labelled = {"labels": LABELS, "epsilon": 50, "unit": "author", "about": 30}
    found = dp.synthesize(RECORDS, POOL, **{**TOPICS, **labelled})  # type: ignore[arg-type]
    weight, authors = sum(map(sum, found.report.counts)), len({record.author for record in RECORDS})
    assert weight > authors + 4 * found.report.margin
    assert found.sentences[0].startswith("Labels, in weight of authors (not their number), with 95% intervals: ")
    assert "not how many there are" in str(found.report.to_dict()["note"])
    page = topics_page(found.report, [])
    assert "not how many there are" in page
    assert ">authors<" not in page


def raising(error: BaseException) -> Callable[..., Any]:
    def fails(*_: object) -> None:
        raise error

    return fails


def test_a_pipe_is_read_once(topics: Fitted, tmp_path: Path) -> None:
    """It would be empty when it is read again."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    lines = "".join(json.dumps({"text": record.text}) + "\n" for record in RECORDS[:50])
    thread = threading.Thread(target=(tmp_path / "pipe.jsonl").write_text, args=(lines,), daemon=True)
    thread.start()
    found = run(Private(tmp_path / "pipe.jsonl", Fields(), {}), topics, randomness=dp.randomness.seeded(1))
    thread.join()
    rows = [{"text": record.text} for record in RECORDS[:50]]
    other = run(Private(rows, Fields(), {}), topics, randomness=dp.randomness.seeded(1))
    assert found.certificate == other.certificate


@pytest.mark.parametrize("reading", [{"record": "line"}, {"record": "line", "strip_html": True}])
def test_a_pipe_of_plain_text_is_read_once_with_its_settings(reading: dict[str, Any], tmp_path: Path) -> None:
    """Its records are read again from memory, where a setting of files would be refused, or work twice."""
    lines = "".join(f"{record.text} &amp;lt;b&amp;gt;\n" for record in RECORDS[:50])
    pipe, file = tmp_path / "pipe.txt", tmp_path / "file.txt"
    os.mkfifo(pipe)
    file.write_text(lines)
    thread = threading.Thread(target=pipe.write_text, args=(lines,), daemon=True)
    thread.start()
    kept = Private(pipe, Fields(), reading).kept()
    thread.join()
    texts = [[each.text for batch in private.batches() for each in batch] for private in (kept, kept.kept())]
    assert texts == [[each.text for batch in Private(file, Fields(), reading).batches() for each in batch]] * 2
    assert len(texts[0]) == 50


def test_columns_that_are_needed(tmp_path: Path) -> None:
    path = written(tmp_path / "in.jsonl", [{"text": "so"}])
    with pytest.raises(ConfigError, match="--label-field"):
        dp.synthesize(path, POOL, **SMALL)
    with pytest.raises(ConfigError, match="--author-field"):
        dp.synthesize(path, POOL, **{**TOPICS, "unit": "author"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="answers a corpus: dptext synthesize"):
        spec_from_settings({"kind": "votes"})
    with pytest.raises(ConfigError, match="did you mean 'votes'"):
        synthesis_from_settings({"kind": "vote"})
    with pytest.raises(ConfigError, match="at least two"):
        synthesis_from_settings({"kind": "prototypes"})


def test_what_the_guide_says_of_twelve_months() -> None:
    events = [event for _ in range(12) for event in synthesis_from_settings({"kind": "votes"}).events(dp.Unit.DOCUMENT)]
    limit = dp.Guarantee(4.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
    guide = Path(__file__).parents[3] / "docs/guides/share-a-corpus.md"
    assert f"at epsilon 1 cost {spent_epsilon(events, limit):.2f} together at delta 1e-5" in guide.read_text("utf-8")


def test_a_stream_is_read_once_and_voted_on_twice() -> None:
    found = dp.synthesize(iter(RECORDS), POOL, **{**TOPICS, "kind": "votes", "epsilon": 8})  # type: ignore[arg-type]
    assert len(found.releases) == int(0.9 * len({record.text for record in POOL}))
    assert "Synthesized(votes" in repr(found)
    assert "epsilon 8" in found._repr_html_()
    assert [*found] == found.to_records() == list(found.releases)
    assert hashlib.sha256(found.json_lines()).hexdigest() == found.certificate.sha256
    shown = found._repr_html_()
    assert shown.count("<tr>") == min(5, len(found.releases)) + 1
    assert f"The first of {len(found.releases)} texts." in shown


def test_the_pool_is_not_the_private_corpus(tmp_path: Path) -> None:
    """Its texts would leave as they are."""
    rows = [{"text": r.text, "label": r.label} for r in POOL]
    path = written(tmp_path / "private.jsonl", rows)
    (tmp_path / "linked.jsonl").hardlink_to(path)
    among = str(tmp_path / "*.jsonl")
    for private, public in (
        (path, path),
        (str(path), tmp_path / "linked.jsonl"),
        (tmp_path, path),
        (among, path),
        (rows, rows),
    ):
        with pytest.raises(ConfigError, match="other than the private corpus"):
            dp.synthesize(private, public, label="label", **SMALL)


@pytest.mark.parametrize("unit", ["document", "author"])
def test_a_column_that_is_not_named_is_asked_for(unit: str) -> None:
    """Rows without it would add nothing, and noise alone would leave."""
    rows = [{"text": r.text, "topic": r.label, "who": r.author} for r in RECORDS[:50]]
    missing = {"label": None} if unit == "document" else {"label": "topic"}
    with pytest.raises(ConfigError, match=r"Expected the column of the (labels|authors)"):
        dp.synthesize(rows, POOL, unit=unit, **missing, **SMALL)
