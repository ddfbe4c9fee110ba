"""What a request may look like: keys of JSON, packed files, HEAD, and what is said of a body that is wrong."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Iterator

import pytest

import dptext as dp
from dptext.ledger.books import Ledger
from dptext.ledger.subjects import create_subject_key
from gateways import Served, served

LINE = b'{"text": "secret", "label": "travel"}\n'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("gateway")) as found:
        yield found


RELEASE = "/v1/models/labels/privatize"
TWICE = {
    RELEASE: (
        b'{"records": [{"text": "a", "label": "travel"}], "records": [{"text": "b", "label": "travel"}]}',
        b'{"records": [{"text": "a", "text": "b", "label": "travel"}]}',
        b'{"records": [{"text": "a", "t\\u0065xt": "a", "label": "travel"}]}',
    ),
    "/v1/models/labels/explain": (b'{"unit": "document", "unit": "author"}',),
    "/v1/accounts": (b'{"name": "a", "epsilon": 1.0, "epsilon": 100.0}',),
}


@pytest.mark.parametrize(("path", "body"), [(path, body) for path, bodies in TWICE.items() for body in bodies])
def test_a_key_of_a_body_is_there_once(gateway: Served, path: str, body: bytes) -> None:
    """Of two one reader takes the first and another the last: a proxy may have looked at the other."""
    key = gateway.admin if path == "/v1/accounts" else gateway.key
    headers = {**gateway.headers(key), "Content-Type": "application/json"}
    found = gateway.client.post(path, content=body, headers=headers)
    assert (found.status_code, found.json()["type"]) == (422, "urn:dptext:invalid")
    assert found.json()["detail"].startswith("Expected each key of an object once")
    assert gateway.charges() == []


def zipped(data: bytes) -> bytes:
    with zipfile.ZipFile(found := io.BytesIO(), "w") as file:
        file.writestr("a.jsonl", data)
    return found.getvalue()


@pytest.mark.slow_cases(
    *(f"{pack}-{table}" for pack in ("zip", "bzip2", "xz") for table in ("csv", "parquet")),
    why="all stay for jsonl, and gzip for all",
)
@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("pack", "named"),
    [(gzip.compress, "gzip (.gz)"), (zipped, "ZIP"), (bz2.compress, "bzip2 (.bz2)"), (lzma.compress, "XZ (.xz)")],
    ids=["gzip", "zip", "bzip2", "xz"],
)
def test_a_packed_file_is_named_as_such(gateway: Served, pack, named: str, format: str) -> None:  # type: ignore[no-untyped-def]
    for path, model in (("/v1/jobs", "labels"), ("/v1/synthesize", "topics")):
        name = f"{format}-{model}-{pack.__module__}-{pack.__name__}"
        job = gateway.job(pack(LINE), name, path, model=model, format=format).json()["id"]
        found = gateway.ended(job)["problem"]
        assert found == f"The file is packed with {named}: send it unpacked. Nothing was charged."


def test_head_is_answered_as_get_is(gateway: Served) -> None:
    keyed = ("key", "models", "models/labels", "models/labels/cost", "models/none", "jobs", "accounts", "events")
    for path in ("/healthz", "/readyz", "/", "/nothing", "/v1/accounts/reviews", *(f"/v1/{each}" for each in keyed)):
        for headers in ({}, gateway.headers()):
            get, head = (gateway.client.request(each, path, headers=headers) for each in ("GET", "HEAD"))
            assert head.status_code == get.status_code, path
            assert head.headers["content-type"] == get.headers["content-type"]
    job = gateway.job(LINE).json()["id"]
    assert gateway.ended(job)["state"] == "done"
    for end in ("result", "events"):  # what is noted as a download, and what may not end
        assert gateway.client.head(f"/v1/jobs/{job}/{end}", headers=gateway.headers()).status_code == 404


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"records": ["secret"]}', "records[0] is missing, or has not the form"),
        (b'{"records": [{"text": "a"}, 5]}', "records[1] is missing, or has not the form"),
        (b'{"records": "secret"}', "records is missing, or has not the form"),
        (b'["secret"]', "Expected a body of JSON"),
        (b"secret", "Expected a body of JSON"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(gateway: Served, body: bytes, said: str) -> None:
    headers = {**gateway.headers(), "Content-Type": "application/json"}
    found = gateway.client.post(RELEASE, content=body, headers=headers)
    assert found.status_code == 422
    assert found.json()["detail"].startswith(said)
    assert "secret" not in found.text


def test_an_account_of_named_subjects_is_refused_at_once(gateway: Served) -> None:
    limit = dp.Guarantee(50.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
    secret = create_subject_key(gateway.folder / "subjects.key")
    books = Ledger.at(gateway.folder / "books.db", key=secret)
    books.open_account("people", limit, by_subject=True)
    key = gateway.gate.keys.create("people", account="people", scopes=("privatize", "jobs", "synthesize"))
    asked = gateway.headers(key)
    for found in (
        gateway.client.get("/v1/models/labels/cost", headers=asked),
        gateway.client.post(RELEASE, json={"records": [{"text": "a", "label": "travel"}]}, headers=asked),
        gateway.client.post("/v1/jobs?model=labels&label_field=label", content=LINE, headers=asked),
        gateway.client.post("/v1/synthesize?model=topics&label_field=label", content=LINE, headers=asked),
    ):
        assert (found.status_code, found.json()["type"]) == (422, "urn:dptext:settings")
        said = found.json()["detail"]
        assert "found 'people', opened by_subject, which charges each by name: a gateway names no subjects" in said
        assert "everyone=" not in said
    assert gateway.client.get("/v1/jobs", headers=asked).json() == []
    assert list(books.log("people")) == []


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway whose model knows two labels that are a number and a boolean."""
    public = [dp.Record(str(i), f"a public text {i}", ("7", "true")[i % 2]) for i in range(20)]
    folder = tmp_path_factory.mktemp("numbers")
    with served(folder, epsilon=1e4) as found:
        dp.save_model(dp.fit(dp.LabelOnly(epsilon=30.0, labels=("7", "true")), public), folder / "models" / "numbers")
        yield found


@pytest.mark.slow_cases('3.0-"True"-true', "3.0-7-7", "3.0-true-true", "3-7.0-7", why="each id and each label stays")
@pytest.mark.slow_cases('"3"', why="ids that are numbers stay")
@pytest.mark.parametrize(("label", "meant"), [("7", "7"), ("7.0", "7"), ("true", "true"), ('"True"', "true")])
@pytest.mark.parametrize("name", ["3", "3.0", '"3"'])
def test_a_body_takes_the_values_that_a_job_takes(numbers: Served, label: str, meant: str, name: str) -> None:
    """Ids and labels of all types; at epsilon 30 the label leaves as it is, spelled as the public set spells it."""
    row, call = f'{{"text": "secret", "label": {label}, "id": {name}}}'.encode(), f"{label}-of-{name}"
    headers = {**numbers.headers(None, f"body-{call}"), "Content-Type": "application/json"}
    found = numbers.client.post("/v1/models/numbers/privatize", content=b'{"records": [%s]}' % row, headers=headers)
    assert found.status_code == 200, found.text
    job = numbers.job(row, f"file-{call}", model="numbers", id_field="id").json()["id"]
    assert numbers.ended(job)["state"] == "done"
    result = numbers.client.get(f"/v1/jobs/{job}/result", headers=numbers.headers()).text
    for released in (json.loads(found.json()["releases"]), json.loads(result)):
        assert (str(released["id"]), json.dumps(released["label"]).strip('"')) == ("3", meant)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('"text": 5', "text of records[0] is no text in quotes."),
        ('"label": "travel"', "text of records[0] is missing."),
        ('"text": "a", "label": ["secret"]', "label of records[0] is a list or an object: expected a text, a number"),
        ('"text": "a", "label": "travel", "id": true', "the rows, record 1: the field 'id' is not a string or integer"),
        ('"text": "a", "label": "travel", "id": 0.5', "the rows, record 1: the field 'id' is not a string or integer"),
        ('"text": "a", "label": 1e999', "the rows, record 1: the field 'label' is not a string, a finite number"),
        ('"text": "a", "label": NaN', "Expected no NaN and no Infinity"),
    ],
)
def test_what_is_wrong_with_a_value_is_said(gateway: Served, row: str, said: str) -> None:
    headers = {**gateway.headers(), "Content-Type": "application/json"}
    found = gateway.client.post(RELEASE, content=f'{{"records": [{{{row}}}]}}', headers=headers)
    assert found.status_code == 422
    assert found.json()["detail"].startswith(said)
    assert "secret" not in found.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"records": [{"text": "secret \xff"}]}', "in UTF-8"),
        ('{"records": [{"text": "secret"}]}'.encode("utf-16"), "in UTF-8"),
        ('{"records": [{"text": "secret"}]}'.encode("utf-16-le"), "in UTF-8"),
        ('{"records": [{"text": "secret"}]}'.encode("utf-32"), "in UTF-8"),
        (b'{"records": ' + b"[" * 200_000, "nested less deeply"),
        (b'{"records": [{"text": "secret", "label": ' + b"9" * 6000 + b"}]}", "fewer digits"),
    ],
    ids=["broken", "utf-16", "utf-16-le", "utf-32", "deep", "digits"],
)
def test_why_a_body_cannot_be_read_is_said(gateway: Served, body: bytes, said: str) -> None:
    """A body that cannot be read is refused with the reason, and no text of it is shown."""
    headers = {**gateway.headers(), "Content-Type": "application/json"}
    found = gateway.client.post(RELEASE, content=body, headers=headers)
    assert (found.status_code, found.json()["type"]) == (400, "urn:dptext:invalid")
    assert said in found.json()["detail"]
    assert "secret" not in found.text
    assert "999" not in found.text


def test_null_in_every_record_is_no_name(gateway: Served) -> None:
    rows = [{"text": "a", "label": "travel", "id": None}, {"text": "b", "label": "money", "author": None}]
    found = gateway.privatize(rows, "nulls-are-none")
    assert found.status_code == 200, found.text
    assert '\\"id\\": \\"1\\"' in found.text


@pytest.mark.parametrize(
    ("given", "found"),
    [(None, "none"), ("short", "5"), ("x" * 256, "256"), ("with a space", "12, not all of them such")],
)
def test_what_is_wrong_with_an_idempotency_key_is_said(gateway: Served, given: str | None, found: str) -> None:
    said = f"Expected the header Idempotency-Key with 8 to 255 visible ASCII characters, found {found}. Nothing is"
    row = [{"text": "a", "label": "travel"}]
    for answer in (gateway.privatize(row, given), gateway.job(LINE, given)):
        assert (answer.status_code, answer.json()["detail"]) == (400, f"{said} charged.")
