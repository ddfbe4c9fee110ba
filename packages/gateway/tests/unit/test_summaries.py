"""Summaries of a gateway: who may write from one, what a corpus is, and that none is charged."""

import io
import json
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dptext as dp
from commands import dptext
from dptext.errors import ConfigError, LedgerError
from dptext.runs.certificate import certificate_path
from dptext_gateway import summary_routes
from dptext_gateway.metrics import Turns
from dptext_gateway.settings import MOST_RECORDS
from dptext_gateway.store import JOBS, Store
from gateways import SUMMARY, Served, add_summary, inbox, logged, served

PRIVATE = "secret-of-a-person"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    """A gateway and the id of a job that made a summary."""
    with served(tmp_path_factory.mktemp("gateway"), requests_a_minute=10_000) as gateway:
        yield gateway, measure(gateway)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def measure(gateway: Served, more: str = "", data: str = "") -> str:
    """Make a summary; return the id of its job."""
    add_summary(gateway.folder / "models", more)
    asked = gateway.job((data or inbox()).encode(), path="/v1/synthesize", model="inbox")
    assert asked.status_code == 202, asked.text
    done = gateway.ended(asked.json()["id"])
    assert (done["state"], done["problem"], done["summary"]) == ("done", None, True)
    return str(done["id"])


def wish(gateway: Served, id: str, key: str | None = None, **body: Any) -> Any:
    return gateway.client.post(f"/v1/summaries/{id}/write", json=body, headers=gateway.headers(key, None))


def kind(answer: Any) -> str:
    """The kind of a problem, which tells nothing private and no path of the machine."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert PRIVATE not in answer.text
    assert "/spool" not in answer.text
    return str(answer.json()["type"]).removeprefix("urn:dptext:")


def unpacked(answer: Any, folder: Path) -> Path:
    """Unpack an answer; return the path of the corpus."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    folder.mkdir()
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        packed.extractall(folder)
        modes = {stat.S_IMODE(each.external_attr >> 16) for each in packed.infolist()}
    assert modes == {0o600}
    (certificate,) = folder.glob("*.guarantee.json")
    corpus = folder / certificate.name.removesuffix(".guarantee.json")
    assert answer.headers["content-disposition"] == f'attachment; filename="{corpus.stem}.zip"'
    beside = {f"{corpus.name}{end}" for end in ("", ".guarantee.json", ".topics.json", ".topics.html", ".legal.html")}
    assert {each.name for each in folder.iterdir()} == beside
    return corpus


def test_corpora_are_written_again_and_again_without_a_charge(measured: tuple[Served, str], tmp_path: Path) -> None:
    gateway, job = measured
    before = [(each.number, each.release) for each in gateway.charges()]
    assert len(before) == 1
    told = gateway.client.get(f"/v1/summaries/{job}", headers=gateway.headers()).json()
    assert told["refused"] is None
    assert told["most"] == MOST_RECORDS
    assert len(told["shares"]) == 4
    assert abs(sum(told["shares"]) - 1) < 1e-9
    assert (told["labels"], told["columns"]) == (["health", "travel", "money", "leisure"], ["channel: web|phone|shop"])
    summary = gateway.client.get(f"/v1/jobs/{job}/certificate", headers=gateway.headers()).json()["sha256"]

    written = []
    for name, suffix in (("jsonl", ".jsonl"), ("jsonl", ".jsonl"), ("csv", ".csv"), ("parquet", ".parquet")):
        corpus = unpacked(wish(gateway, job, size=120, format=name), tmp_path / str(len(written)))
        assert corpus.suffix == suffix
        explained = dptext("explain", corpus, "--ledger", gateway.folder / "books.db")
        assert explained.returncode == 0, explained.stderr
        assert "120" in explained.stdout
        derived = json.loads(certificate_path(corpus).read_bytes())["derived"]
        assert (derived["summary"], derived["writer"]) == (summary, "pool")
        written.append(corpus)
    assert written[0].read_bytes() != written[1].read_bytes()  # drawn anew
    assert written[0].name != written[1].name
    row = json.loads(written[0].read_text("utf-8").splitlines()[0])
    assert {*row} == {"id", "text", "label", "channel"}
    assert set(pq.read_table(written[3]).column_names) == {*row}

    assert [(each.number, each.release) for each in gateway.charges()] == before
    events = gateway.client.get("/v1/events", headers=gateway.headers()).json()
    noted = [each for each in events if each["event"] == "corpus written"]
    assert len(noted) == 4
    assert {each["charge"] for each in noted} == {1}
    assert noted[-1]["result_sha256"] == json.loads(certificate_path(written[0]).read_bytes())["sha256"]
    assert not [*(gateway.folder / "spool").glob("upload-*")]


def test_a_mix_of_labels_and_the_default_size(measured: tuple[Served, str], tmp_path: Path) -> None:
    gateway, job = measured
    corpus = unpacked(wish(gateway, job, size=100, mix={"travel": 0.7, "money": 0.3}), tmp_path / "mixed")
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    assert Counter(row["label"] for row in rows) == {"travel": 70, "money": 30}
    corpus = unpacked(wish(gateway, job), tmp_path / "default")
    assert 200 < len(corpus.read_text("utf-8").splitlines()) < 400  # about as many rows as were counted
    corpus = unpacked(wish(gateway, job, size=150, drop_other=True), tmp_path / "declared")
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    assert {row["channel"] for row in rows} <= {"web", "phone", "shop"}
    assert json.loads(certificate_path(corpus).read_bytes())["derived"]["drop_other"] is True
    refused = wish(gateway, job, mix={"nothing": 0.5})
    assert (kind(refused), refused.status_code) == ("settings", 422)
    assert kind(wish(gateway, job, mix={"travel": 0.7, "money": 0.7})) == "settings"


def test_what_is_no_wish(measured: tuple[Served, str]) -> None:
    gateway, job = measured
    for body in (
        {"seed": 1}, {"writer": "builtin"}, {"size": -1}, {"size": 1.5}, {"size": "many"}, {"format": "xlsx"},
        {"mix": {"travel": 2}}, {"mix": {"travel": -0.1}}, {"mix": [0.5]}, {"public": "/etc/passwd"},
    ):  # fmt: skip
        assert kind(wish(gateway, job, **body)) == "invalid", body
    too_many = wish(gateway, job, size=MOST_RECORDS + 1)
    assert (kind(too_many), too_many.status_code) == ("too-many", 413)
    headers = {**gateway.headers(None, None), "Content-Type": "application/json"}
    for data in (b"", b"{", b'{"size": 5, "size": 6}', b'{"mix": {"travel": NaN}}', b"[1]"):
        answer = gateway.client.post(f"/v1/summaries/{job}/write", content=data, headers=headers)
        assert kind(answer) == "invalid", data
    assert kind(gateway.client.post(f"/v1/summaries/{job}/write?seed=1", json={}, headers=headers)) == "parameter"
    assert len(gateway.charges()) == 1


def test_only_keys_of_the_account_with_the_scope_write(measured: tuple[Served, str]) -> None:
    gateway, job = measured

    def asked(key: str) -> tuple[str, str]:
        told = gateway.client.get(f"/v1/summaries/{job}", headers=gateway.headers(key))
        return kind(told), kind(wish(gateway, job, key, size=5))

    limit = dp.Guarantee(5.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE)
    gateway.ledger.open_account("others", limit)
    keys = gateway.gate.keys
    scopes = ("privatize", "jobs", "synthesize", "accounts")
    assert asked(keys.create("else", account="others", scopes=scopes)) == ("no-job", "no-job")
    assert asked(keys.create("few", account="reviews", scopes=scopes, models=("labels",))) == ("no-job", "no-job")
    assert asked(keys.create("jobs", account="reviews", scopes=("privatize", "jobs", "accounts"))) == ("scope", "scope")
    assert asked(gateway.admin) == ("scope", "scope")
    assert asked("dptext_000000000000_" + "x" * 43) == ("unauthorized", "unauthorized")
    alone = keys.create("alone", account="reviews", scopes=("synthesize",), models=("inbox",))
    assert wish(gateway, job, alone, size=5).status_code == 200
    other = gateway.client.get(f"/v1/jobs/{job}/legal", headers=gateway.headers(keys.create(
        "legal", account="others", scopes=scopes)))  # fmt: skip
    assert kind(other) == "no-job"


def test_the_legal_page_is_a_file(measured: tuple[Served, str]) -> None:
    gateway, job = measured
    page = gateway.client.get(f"/v1/jobs/{job}/legal", headers=gateway.headers())
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-disposition"] == 'attachment; filename="result-1.summary.legal.html"'
    assert page.text.startswith("<!doctype html>")
    words = gateway.client.get(f"/v1/jobs/{job}/words", headers=gateway.headers()).json()
    assert f"<h1>{words['legal_page']['title']}</h1>" in page.text
    events = gateway.client.get("/v1/events", headers=gateway.headers()).json()
    assert events[0]["event"] == "legal page downloaded"


def test_models_and_jobs_say_what_is_measured(measured: tuple[Served, str]) -> None:
    gateway, job = measured
    told = gateway.client.get("/v1/models", headers=gateway.headers()).json()
    assert {each["name"]: (each["kind"], each["measured"]) for each in told} == {
        "inbox": ("summary", ["channel"]),
        "labels": ("label_only", []),
        "topics": ("topics", []),
    }
    (listed,) = gateway.client.get("/v1/jobs", headers=gateway.headers()).json()
    assert (listed["id"], listed["summary"]) == (job, True)


def test_a_summary_outlives_the_folder_of_its_model(fresh: Served, tmp_path: Path) -> None:
    job = measure(fresh)
    shutil.rmtree(fresh.folder / "models" / "inbox")
    assert fresh.client.get(f"/v1/jobs/{job}", headers=fresh.headers()).json()["summary"]
    unpacked(wish(fresh, job, size=50), tmp_path / "corpus")
    fresh.client.delete(f"/v1/jobs/{job}", headers=fresh.headers())
    for answer in (wish(fresh, job), fresh.client.get(f"/v1/summaries/{job}", headers=fresh.headers())):
        assert (kind(answer), answer.status_code) == ("no-result", 410)
    assert not fresh.client.get(f"/v1/jobs/{job}", headers=fresh.headers()).json()["summary"]  # nobody knows any more


def test_an_expired_summary_and_a_job_that_made_none(fresh: Served) -> None:
    job = measure(fresh)
    topics = fresh.ended(
        fresh.job(inbox(50).encode(), "topics-job", path="/v1/synthesize", model="topics").json()["id"]
    )
    texts = fresh.ended(fresh.job(b'{"text": "a", "label": "travel"}\n', "texts-job").json()["id"])
    for each in (topics, texts):
        assert (each["state"], each["summary"]) == ("done", False)
        assert kind(wish(fresh, each["id"])) == "no-summary"
    assert kind(wish(fresh, "0" * 32)) == kind(wish(fresh, "result")) == "no-job"
    fresh.gate.store.write(JOBS.update().values(expires=0.0))
    assert kind(wish(fresh, job)) == "no-result"


@pytest.mark.parametrize(
    ("more", "said"), [("without_pool = true\n", "--public POOL"), ("points = false\nmarks = 20\n", "--writer builtin")]
)
def test_a_summary_that_the_pool_cannot_write_says_what_to_do(fresh: Served, more: str, said: str) -> None:
    add_summary(fresh.folder / "models")
    settings = fresh.folder / "models" / "inbox" / "synthesis.toml"
    text = more + settings.read_text()
    if "points" in more:
        text = text.partition("[columns]")[0].replace("topics = 4", "topics = 0\ndrafts = 0")
    settings.write_text(text)
    done = fresh.ended(fresh.job(inbox().encode(), path="/v1/synthesize", model="inbox").json()["id"])
    assert (done["state"], done["problem"]) == ("done", None)
    told = fresh.client.get(f"/v1/summaries/{done['id']}", headers=fresh.headers()).json()
    assert said in told["refused"]
    assert told["most"] == 0
    answer = wish(fresh, done["id"], size=5)
    assert (kind(answer), answer.json()["detail"]) == ("no-writing", told["refused"])


def test_a_summary_says_how_many_texts_its_pool_gives(fresh: Served) -> None:
    """Without columns a text leaves once, so that the pool is the limit."""
    add_summary(fresh.folder / "models", settings=SUMMARY.partition("[columns]")[0])
    done = fresh.ended(
        fresh.job(inbox().encode(), path="/v1/synthesize", model="inbox", label_field="label").json()["id"]
    )
    told = fresh.client.get(f"/v1/summaries/{done['id']}", headers=fresh.headers()).json()
    pool = {*(fresh.folder / "models" / "inbox" / "pool.jsonl").read_text("utf-8").splitlines()}
    assert told["most"] == len(pool) < MOST_RECORDS
    assert kind(wish(fresh, done["id"], size=20, drop_other=True)) == "settings"


def test_columns_have_the_names_of_the_measured_file(fresh: Served, tmp_path: Path) -> None:
    add_summary(fresh.folder / "models")
    rows = [json.loads(line) for line in inbox().splitlines()]
    data = "".join(json.dumps({"body": e["text"], "topic": e["label"], "channel": e["channel"]}) + "\n" for e in rows)
    fields = {"text_field": "body", "label_field": "topic"}
    job = fresh.job(data.encode(), path="/v1/synthesize", model="inbox", **fields).json()
    assert fresh.ended(job["id"])["state"] == "done"
    corpus = unpacked(wish(fresh, job["id"], size=20), tmp_path / "corpus")
    most = fresh.client.get(f"/v1/summaries/{job['id']}", headers=fresh.headers()).json()["most"]
    if most < MOST_RECORDS:  # a corpus of fewer texts than were asked for would pass for the wanted one
        refused = wish(fresh, job["id"], size=most + 1)
        assert (refused.status_code, kind(refused)) == (422, "too-many")
    assert {*json.loads(corpus.read_text("utf-8").splitlines()[0])} == {"id", "body", "topic", "channel"}
    explained = dptext("explain", corpus)
    assert explained.returncode == 0, explained.stderr


def test_nothing_private_in_logs_errors_and_headers(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where writing fails, and where its failure speaks of a path."""
    rows = "".join(f'{{"text": "{PRIVATE} {i}", "label": "travel", "channel": "{PRIVATE}"}}\n' for i in range(50))
    with logged() as lines:
        job = measure(fresh, data=inbox() + rows)
        good = wish(fresh, job, size=50)
        assert good.status_code == 200
        assert PRIVATE not in str(good.headers)
        with zipfile.ZipFile(io.BytesIO(good.content)) as packed:
            assert all(PRIVATE.encode() not in packed.read(each) for each in packed.namelist())

        def fails(error: Exception) -> Any:
            def write(*_: object, **__: object) -> None:
                raise error

            return write

        spool = fresh.gate.settings.spool
        for error, status in (
            (RuntimeError(PRIVATE), "failed"),
            (OSError(28, PRIVATE), "failed"),
            (ConfigError(f"Expected {spool}/upload-1 to be writable."), "failed"),
            (LedgerError(PRIVATE), "ledger"),
        ):
            monkeypatch.setattr(summary_routes, "write", fails(error))
            assert kind(wish(fresh, job)) == status
            assert not [*spool.glob("upload-*")]
    assert PRIVATE not in "".join(lines)
    assert len(fresh.charges()) == 1


def test_a_damaged_summary_and_a_log_that_cannot_be_written_give_no_corpus(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = measure(fresh)

    def away(*_: object) -> None:
        raise LedgerError("The database went away.")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "note", away)
        assert kind(wish(fresh, job, size=5)) == "ledger"
    (file,) = (fresh.folder / "spool").glob("job-*/result.summary")
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))
    assert kind(wish(fresh, job, size=5)) == "damaged"


def test_a_write_waits_for_its_turn_and_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, seconds=1.0, requests_a_minute=40) as gateway:
        job = measure(gateway)
        with monkeypatch.context() as patch:
            patch.setattr(gateway.gate, "turns", Turns(0))
            answer = wish(gateway, job, size=5)
            assert (kind(answer), answer.headers["Retry-After"]) == ("waiting", "5")
        with monkeypatch.context() as patch:
            patch.setattr("dptext_gateway.limits.SPARE", 10**18)
            assert kind(wish(gateway, job, size=5)) == "spool-full"
        assert wish(gateway, job, size=5).status_code == 200
        answers = [gateway.client.get("/v1/models", headers=gateway.headers()) for _ in range(45)]
        assert answers[-1].status_code == 429
        assert kind(wish(gateway, job, size=5)) == "rate"
