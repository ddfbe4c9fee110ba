"""`dptext.privatize` and `dptext.fit`: what people hold goes in, releases and their certificate come out."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError, DataError, NoGuaranteeError, PrivacyError
from dptext.privacy.guarantee import Basis
from dptext.runs.certificate import certificate_path
from dptext.text.reading import as_records, read_records
from dptext.text.records import Record
from kept_words import KeptWords

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
datasets = pytest.importorskip("datasets")

SECRET = "zq9canary"
TEXTS = ["one red apple", "", f"two {SECRET}", "grüße 😀", "a  b"]
STARS = [1, 2, 3, 4, 5]
ROWS = [{"review": text, "stars": stars} for text, stars in zip(TEXTS, STARS, strict=True)]


@pytest.fixture(scope="module")
def mechanism(vectors: Path):
    return dp.WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300).fit()


@pytest.fixture
def labelled():
    return dp.LabelOnly(labels=("a", "b"), epsilon=60.0).fit(
        public=[Record("0", "text of a", "a"), Record("1", "text of b", "b")]
    )


def held() -> dict[str, object]:
    """The same rows in everything that people hold."""
    frame = pd.DataFrame(ROWS, index=[f"row{i}" for i in range(len(ROWS))])
    return {
        "rows": ROWS,
        "tuple": tuple(ROWS),
        "iterator": iter(ROWS),
        "pandas": frame,
        "polars": pl.DataFrame(ROWS),
        "arrow": pa.table(frame),
        "dataset": datasets.Dataset.from_list(ROWS),
    }


@pytest.mark.parametrize("name", held())
def test_whatever_holds_the_rows_the_records_are_the_same(name: str) -> None:
    fields = dp.Fields(text="review", keep=("stars",))
    found = list(read_records(held()[name], fields))
    assert found == [
        Record(str(i), text, kept={"stars": stars}) for i, (text, stars) in enumerate(zip(TEXTS, STARS, strict=True))
    ]


@pytest.mark.parametrize(
    "data", [TEXTS, tuple(TEXTS), pd.Series(TEXTS), pl.Series(TEXTS), np.array(TEXTS), iter(TEXTS)]
)
def test_strings_are_texts(data: object) -> None:
    assert [record.text for record in as_records(data)] == TEXTS
    # an iterator is used up


def test_a_path_is_read(tmp_path: Path, mechanism) -> None:
    path = tmp_path / "in.csv"
    path.write_text("review,stars\nso,1\nla,2\n")
    for source in (path, str(path)):
        assert len(list(dp.privatize(source, mechanism, text="review"))) == 2


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (None, "data frame"),
        (7, "data frame"),
        (b"bytes", "data frame"),
        (f"I have {SECRET} and a cold", r"Make a list of it: \[text\]"),
        ({"train": ROWS}, "Choose a split"),
        (pl.LazyFrame(ROWS), r"\.collect\(\)"),
        (
            pd.DataFrame(ROWS),
            r"Expected the column 'text', found 'review', 'stars': name it with --text-field on the",
        ),
        (datasets.Dataset.from_list(ROWS), "Expected the column 'text', found 'review', 'stars'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(data: object, remedy: str, mechanism) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        dp.privatize(data, mechanism)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        (None, "is null .*empty_nulls=True"),
        ({"text": None}, "is null .*empty_nulls=True"),
        (3.5, "of type float, expected a text"),
        ({"text": 3.5}, "not a string but of type float"),
        ([SECRET], "of type list, expected a text"),
        ({"body": SECRET}, "'text' is missing"),
    ],
)
def test_a_row_that_is_no_text_is_refused_with_the_remedy(row: object, remedy: str, mechanism) -> None:
    with pytest.raises(DataError, match=remedy) as caught:
        list(dp.privatize(["fine", row], mechanism))
    assert "record 2" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("null", [None, float("nan"), pd.NA, pd.NaT])
def test_every_kind_of_null_is_one(null: object, mechanism) -> None:
    frame = pd.DataFrame({"text": ["so", null]})
    with pytest.raises(DataError, match="is null"):
        list(dp.privatize(frame, mechanism))
    assert dp.privatize(frame, mechanism, empty_nulls=True).to_records()[1].output == ""


def test_null_labels_are_no_labels() -> None:
    frame = pd.DataFrame({"text": ["so", "la"], "label": ["a", None]})
    assert [record.label for record in read_records(frame, dp.Fields(label="label"))] == ["a", None]


def test_dates_and_decimals_can_be_kept() -> None:
    row = {
        "text": "so",
        "day": dt.date(2020, 1, 2),
        "at": pd.Timestamp("2020-01-02 03:04"),
        "sum": Decimal("1.50"),
    }
    expected = {"day": "2020-01-02", "at": "2020-01-02T03:04:00", "sum": "1.50"}
    for data in ([row], pd.DataFrame([row]), pl.DataFrame([row])):
        [record] = read_records(data, dp.Fields(keep=("day", "at", "sum")))
        assert {name: str(value) for name, value in record.kept.items()} == expected


# ------------------------------------------------------------------ the result


def test_results_map_back_to_the_rows_of_the_frame(labelled) -> None:
    frame = pd.DataFrame({"review": ["x", "y"], "stars": ["a", "b"], "year": [1, 2]}, index=["p", "q"])
    found = dp.privatize(frame, labelled, text="review", label="stars", keep=["year"]).to_pandas()
    assert list(found.index) == ["p", "q"]
    assert found[["review", "stars", "year"]].to_dict("list") == {
        "review": ["text of a", "text of b"],
        "stars": ["a", "b"],
        "year": [1, 2],
    }
    assert "x" not in found.to_csv().split(",")


def test_a_result_becomes_a_dataset(labelled) -> None:
    result = dp.privatize([{"text": "x", "label": "a"}], labelled, label="label")
    assert result.to_dataset().to_list() == [{"id": "0", "text": "text of a", "label": "a"}]


def test_releases_are_drawn_once(mechanism) -> None:
    result = dp.privatize(["apple"] * 50, mechanism)
    first = list(result)
    assert first == list(result) == result.to_records()
    assert len({release.output for release in first}) > 1  # noise was drawn
    assert list(result.to_pandas()["text"]) == [release.output for release in first]


def test_a_stream_is_drawn_once_and_not_kept(mechanism) -> None:
    result = dp.privatize(iter(["so"] * 5), mechanism)
    with pytest.raises(ConfigError, match="complete when the stream is"):
        _ = result.certificate
    assert len(list(result)) == 5
    assert result.certificate.records == 5
    for again in (
        lambda: list(result),
        result.to_records,
        result.to_pandas,
        lambda: result.write("/nowhere/out.jsonl"),
    ):
        with pytest.raises(ConfigError):
            again()
    kept = dp.privatize(iter(["so"] * 5), mechanism)
    assert len(kept.to_records()) == len(list(kept)) == 5


def test_nothing_is_drawn_before_it_is_asked_for(mechanism) -> None:
    def rows() -> Iterator[str]:
        raise AssertionError("a row was read")
        yield

    assert "0 releases drawn" in repr(dp.privatize(rows(), mechanism))


def test_after_an_error_there_is_no_certificate(mechanism) -> None:
    result = dp.privatize(["so"] * 300 + [None], mechanism)
    with pytest.raises(DataError):
        list(result)
    for again in (lambda: list(result), result.to_records, lambda: result.certificate):
        with pytest.raises(PrivacyError, match="no certificate"):
            again()


def test_the_certificate_speaks_of_the_bytes(tmp_path: Path, mechanism) -> None:
    result = dp.privatize(TEXTS, mechanism)
    path = tmp_path / "releases.jsonl"
    assert result.write(path) == result.certificate
    assert f"dptext {dp.__version__}" in result.certificate.explain()
    found = dp.verify(certificate_path(path)).certificate
    assert found.guarantees == result.guarantees
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == [each.output for each in result]
    path.write_text(path.read_text() + " ")
    with pytest.raises(DataError):
        dp.verify(certificate_path(path))


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.jsonl.gz", "out.txt"])
@pytest.mark.parametrize("streamed", [False, True])
def test_every_format_is_written_with_its_certificate(tmp_path: Path, mechanism, name: str, streamed: bool) -> None:
    path = tmp_path / name
    dp.privatize(iter(TEXTS) if streamed else TEXTS, mechanism).write(path)
    assert dp.verify(certificate_path(path)).certificate.records == len(TEXTS)
    assert {each.name for each in tmp_path.iterdir()} == {name, f"{name}.guarantee.json"}


def test_a_file_that_is_there_costs_nothing(tmp_path: Path, mechanism) -> None:
    path = tmp_path / "out.jsonl"
    certificate_path(path).write_text("{}")
    result = dp.privatize(iter(TEXTS), mechanism)
    with pytest.raises(ConfigError, match="force"):
        result.write(path)
    assert "0 releases drawn" in repr(result)
    result.write(path, force=True)


def test_what_records_carry_is_revealed(mechanism) -> None:
    ready = dp.privatize([Record("patient-7", "so", kept={"year": 1})], mechanism)
    assert "the ids and kept fields of ready records, if there are any" in ready.guarantees[0].reveals
    assert not any("ready" in each for each in dp.privatize(["so"], mechanism).guarantees[0].reveals)
    named = dp.privatize([{"text": "so", "n": 4, "year": 1}], mechanism, id="n", keep=["year"])
    assert {"the ids (field 'n')", "the field 'year'"} <= set(named.certificate.also_reveals)
    assert named.to_records()[0].id == "4"


def test_a_seed_shows_in_the_certificate(mechanism) -> None:
    result = dp.privatize(["so"], mechanism, randomness=dp.randomness.seeded(1))
    assert result.certificate.randomness == "seeded"
    assert result.guarantees[0].basis is Basis.NONE


def test_a_mechanism_without_guarantee_must_be_meant() -> None:
    with pytest.raises(NoGuaranteeError):
        dp.privatize(["so"], KeptWords().fit())


def test_a_charged_stream_is_found_in_the_books(tmp_path: Path, vectors: Path) -> None:
    mechanism = dp.WordMetric(
        epsilon=0.1, vectors=str(vectors), n_words=300, noise="tem", max_tokens=4, diameter=12.0
    ).fit()
    books = dp.Ledger.create(tmp_path / "books.db")
    limit = dp.Guarantee(10.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
    books.open_account("reviews", limit)
    result = dp.privatize(TEXTS, mechanism, payment=dp.Payment(books, "reviews"))
    assert "left" in result.left
    path = tmp_path / "out.csv"
    result.write(path)
    assert dp.verify(certificate_path(path), ledger=books).certificate.charged.stream
    forged = json.loads(certificate_path(path).read_text())
    forged["charged"]["stream"] = "0" * 64
    certificate_path(path).write_text(json.dumps(forged))
    with pytest.raises(DataError, match="did not pay"):
        dp.verify(certificate_path(path), ledger=books)
    books.close()


# ------------------------------------------------------------------ what a notebook shows


def test_a_notebook_shows_the_guarantee_rows_and_budget(labelled) -> None:
    result = dp.privatize([{"text": SECRET, "label": "a"}] * 9, labelled, label="label")
    shown = result._repr_html_()
    assert "epsilon 60" in shown
    assert shown.count("<tr>") == 6  # a heading and five rows
    assert SECRET not in shown + repr(result)
    assert "to_records()" in dp.privatize(iter(["a"]), labelled)._repr_html_()


def test_labels_are_neither_ignored_nor_made_up() -> None:
    public = [Record("0", "so it is", "a"), Record("1", "la di da", "b")]
    labelled = dp.LabelOnly(labels=("a", "b"), epsilon=1.0).fit(public=public)
    with pytest.raises(ConfigError, match="Expected label=NAME"):
        dp.privatize(["x"], labelled)
    with pytest.raises(ConfigError, match="Expected label=NAME"):
        dp.privatize([{"text": "x", "label": "a"}], labelled)
    assert len(dp.privatize([{"text": "x", "of": "a"}], labelled, label="of").to_records()) == 1
    assert len(dp.privatize(public, labelled).to_records()) == 2  # records carry their own
    with pytest.raises(ConfigError, match="Expected no label='of'"):
        dp.privatize([{"text": "x", "of": "a"}], KeptWords().fit(), label="of", without_guarantee=True)


def test_the_page_for_the_third_reader(tmp_path: Path) -> None:
    mechanism = dp.LabelOnly(labels=("a", "b"), epsilon=3.0).fit(
        public=[Record("0", "so it is", "a"), Record("1", "la di da", "b")]
    )
    dp.privatize([{"text": "x", "of": "a"}], mechanism, label="of").write(tmp_path / "out.jsonl")
    told = dp.explain(tmp_path / "out.jsonl", legal=True)
    assert "THE ANSWER" in told
    assert told == dp.explain(tmp_path / "out.jsonl.guarantee.json", legal=True)
    assert "Verified: the file has the bytes" in told
    with pytest.raises(ConfigError, match="path of a released file"):
        dp.explain(mechanism, legal=True)


def test_html_is_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    mechanism = dp.LabelOnly(labels=("a", "b"), epsilon=60.0).fit(
        public=[Record("0", hostile, "a"), Record("1", hostile, "b")]
    )
    result = dp.privatize([{"text": "x", "of": "a", "<b>": 1}], mechanism, label="of", keep=["<b>"])
    assert "<script>" not in result._repr_html_()
    assert "<b>" not in result._repr_html_() + result.certificate._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()


@pytest.mark.parametrize(
    ("guarantee", "said"),
    [
        (dp.Guarantee(1.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE), "a factor of at most 2.72 (epsilon 1)."),
        (dp.Guarantee(1.0, 1e-6, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE), "but for a chance of 1e-06"),
        (dp.Guarantee(1.0, 0.5, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE), "Nothing is protected"),
        (dp.Guarantee(1.0, 0.0, dp.Unit.TOKEN, dp.Relation.REPLACE_ONE, "Euclidean distance"), "may be easy"),
    ],
)
def test_a_guarantee_is_a_sentence(guarantee: dp.Guarantee, said: str) -> None:
    assert said in guarantee.sentence()
    assert guarantee.sentence().count(". ") == 0
    assert said.split(" (", maxsplit=1)[0] in guarantee._repr_html_()


# ------------------------------------------------------------------ fit


def test_fit_takes_what_people_hold(tmp_path: Path) -> None:
    spec = dp.LabelOnly(labels=("a", "b"), epsilon=1.0)
    frame = pd.DataFrame({"review": ["x", "y"], "stars": ["a", "b"]})
    path = tmp_path / "public.csv"
    frame.to_csv(path, index=False)
    fits = [
        dp.fit(spec, data, text="review", label="stars")
        for data in (frame, pl.from_pandas(frame), frame.to_dict("records"), path)
    ]
    assert len({fitted.digests["public"] for fitted in fits}) == 1
    assert (
        dp.Candidates(epsilon=3.0, ranker="tfidf", selection="top_k", k=1).fit(public=["so it is", "la di da"]).digests
    )


def test_fit_refuses_what_the_mechanism_does_not_take() -> None:
    spec = dp.LabelOnly(labels=("a", "b"), epsilon=1.0)
    with pytest.raises(ConfigError, match="learns from public text alone"):
        dp.fit(spec, ["a"], private=["b"])
    with pytest.raises(ConfigError, match="chooses among no candidates"):
        dp.fit(spec, ["a"], pool=["b"])
    with pytest.raises(ConfigError, match="Expected public texts"):
        dp.fit(spec)


def test_a_fitted_mechanism_pickles(mechanism, labelled) -> None:
    for each in (mechanism, labelled):
        copy = pickle.loads(pickle.dumps(each))  # noqa: S301
        assert copy.spec == each.spec
        assert dict(copy.digests) == dict(each.digests)


def test_version_and_words() -> None:
    assert dp.__version__.count(".") == 2
    spec = dp.WordMetric(epsilon=3.0, n_words=500)
    assert "epsilon = 3" in dp.explain(spec)
    assert dp.explain(spec.guarantee()) == spec.guarantee().explain()


def test_utilities_take_what_people_hold(labelled) -> None:
    frame = pd.DataFrame({"text": ["so it is", "la di da", "do re mi"], "label": ["a", "b", "a"]})
    private = as_records(frame)
    result = dp.privatize(frame, labelled, label="label")
    embedder = Letters()
    plain = dp.utility.baselines(private, private, labels=(), seed=0)
    table = dp.utility.utility_table({**plain, "ours": result}, private=frame, test=[], embedder=embedder)
    [ours] = [row for row in table.rows if row.name == "ours"]
    assert dp.utility.fidelity(frame["text"], result, embedder=embedder).cosine == ours.fidelity.cosine
    assert "<td" in table._repr_html_()
    assert "not private" in table._repr_html_()


class Letters:
    """Counts letters."""

    name = "letters"
    dim = 26

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.array([[1.0 + text.count(chr(97 + i)) for i in range(26)] for text in texts])


@pytest.mark.parametrize("holder", [deque, lambda rows: dict(enumerate(rows)).values(), iter, pd.Series])
def test_records_reveal_what_they_carry_whatever_holds_them(holder, mechanism) -> None:
    rows = [Record("patient-7", "so", kept={"year": 1})]
    result = dp.privatize(holder(rows), mechanism)
    assert any("ready records" in each for each in result.guarantees[0].reveals)
    assert result.to_records()[0].id == "patient-7"


def test_a_file_does_not_replace_its_own_source(tmp_path: Path, mechanism) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "so"}\n')
    with pytest.raises(ConfigError, match="no input"):
        dp.privatize(path, mechanism).write(path, force=True)
    assert path.read_text() == '{"text": "so"}\n'


def test_frames_without_good_names_are_refused() -> None:
    for frame in (pd.DataFrame([["x", "b"]]), pd.DataFrame([["x", "b"]], columns=["text", "text"])):
        with pytest.raises(ConfigError, match=r"Expected columns|different names"):
            list(read_records(frame))


def test_mistakes_are_named(tmp_path: Path, mechanism) -> None:
    with pytest.raises(ConfigError, match=r"dp\.fit"):
        dp.privatize(["so"], mechanism.spec)
    with pytest.raises(ConfigError, match="Expected settings"):
        dp.fit("candidates", ["so"])
    assert dp.privatize(["so", None], mechanism, empty_nulls=True).to_records()[1].output == ""
    kept = dp.privatize([{"text": "so", "when": 1}], mechanism, keep="when")
    assert kept.to_records()[0].kept == {"when": 1}
    dp.save_model(mechanism, str(tmp_path / "model"))
    assert dp.load_model(str(tmp_path / "model")).spec == mechanism.spec


@pytest.mark.parametrize("fields", [{"text": "id"}, {"text": ""}, {"text": "a", "id": "a"}, {"other": "a"}])
def test_columns_that_no_file_has_are_no_certificate(tmp_path: Path, mechanism, fields: dict) -> None:
    path = tmp_path / "out.jsonl"
    dp.privatize(["so"], mechanism).write(path)
    data = json.loads(certificate_path(path).read_text())
    certificate_path(path).write_text(json.dumps({**data, "fields": fields}))
    with pytest.raises(ConfigError, match="not a certificate"):
        dp.verify(str(certificate_path(path)))
