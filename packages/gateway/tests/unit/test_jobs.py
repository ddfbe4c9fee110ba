"""Jobs of a gateway: whose turn it is, what expires, what is not charged, and what a kill leaves in the audit log."""

import asyncio
import errno
import hashlib
import io
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from dptext.errors import ConfigError, LedgerError
from dptext.ledger.database import Database
from dptext.runs import private
from dptext.text import lines as text_lines
from dptext.text import row_checks
from dptext.text.inputs import file_error
from dptext_gateway import job_routes, jobs, limits, worker
from dptext_gateway.app import create_app
from dptext_gateway.jobs import Jobs
from dptext_gateway.problems import Problem, in_words_of_the_api
from dptext_gateway.store import ANSWERS, EVENTS, JOBS, Store
from dptext_gateway.work import Models
from gateways import Served, lines, live, served

FEW = [{"text": "secret", "label": "travel"}]
LINE = b'{"text": "secret", "label": "travel"}\n'


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def parquet(table: dict[str, object], **more: object) -> bytes:
    pq.write_table(pa.table(table), data := io.BytesIO(), store_schema=False, **more)
    return data.getvalue()


def lines_of(fresh: Served, event: str) -> list[sa.Row]:
    return list(fresh.gate.store.rows(sa.select(EVENTS).where(EVENTS.c.event == event)))


def threads_of_the_worker() -> set[threading.Thread]:
    """Those that run."""
    return {each for each in threading.enumerate() if each.name in ("jobs", "sweeps")}


def test_accounts_and_keys_take_turns(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of another account or key waits for one job of whoever sent many before, not for all."""
    limit = fresh.ledger.account("reviews").limit
    fresh.ledger.open_account("second", limit)
    keys = [
        fresh.gate.keys.create(name, account=account, scopes=("jobs",))
        for name, account in (("one", "reviews"), ("two", "reviews"), ("else", "second"))
    ]
    ran, all_are_here = [], threading.Event()
    run = worker.privatize_file

    def noted(source: Path, *given: object, **more: object) -> object:
        assert all_are_here.wait(30)
        ran.append(source.parent.name.split("-")[1])
        return run(source, *given, **more)

    monkeypatch.setattr(worker, "privatize_file", noted)
    names: dict[str, str] = {}
    for who, key, number in (*(("a", keys[0], n) for n in range(4)), ("b", keys[1], 0), ("c", keys[2], 0)):
        asked = fresh.client.post(
            "/v1/jobs",
            params={"model": "labels", "label_field": "label"},
            content=LINE,
            headers=fresh.headers(key, f"job-of-{who}-{number}"),
        )
        names[asked.json()["id"]] = who
    all_are_here.set()
    end = time.monotonic() + 60
    while len(ran) < 6 and time.monotonic() < end:
        time.sleep(0.02)
    assert "".join(names[each] for each in ran) == "acbaaa"


def test_what_expires_does_so_beside_a_long_job(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.gate.worker.close()
    monkeypatch.setattr(worker, "SWEEP_SECONDS", 0.05)
    running, over = threading.Event(), threading.Event()

    def long(*_: object, **__: object) -> None:
        running.set()
        over.wait(30)
        raise LedgerError("It stops here.")

    monkeypatch.setattr(worker, "privatize_file", long)
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    again.start()
    try:
        assert fresh.privatize(FEW).status_code == 200
        name = fresh.job(LINE).json()["id"]
        assert running.wait(30)
        fresh.gate.store.write(ANSWERS.update().values(expires=0.0), JOBS.update().values(expires=0.0))
        end = time.monotonic() + 30
        while fresh.gate.store.rows(sa.select(ANSWERS)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not fresh.gate.store.rows(sa.select(ANSWERS))
        told = fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers()).json()
        assert (told["state"], told["expires"]) == ("running", None)  # a job that goes on does not expire
    finally:
        over.set()
        again.close()


def test_it_expires_some_time_after_its_end(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run = worker.privatize_file

    def late(*given: object, **more: object) -> object:
        fresh.gate.store.write(JOBS.update().values(created=1.0, expires=1.0))  # it took years
        return run(*given, **more)

    monkeypatch.setattr(worker, "privatize_file", late)
    name = fresh.job(LINE).json()["id"]
    done = fresh.ended(name)
    assert done["state"] == "done"
    assert done["expires"] == pytest.approx(time.time() + 72 * 3_600, abs=60)
    result = f"/v1/jobs/{name}/result"
    assert fresh.client.get(result, headers=fresh.headers()).status_code == 200
    fresh.gate.store.write(JOBS.update().values(expires=time.time() - 1))  # and no sweep has come
    assert fresh.ended(name)["state"] == "expired"
    assert fresh.client.get(result, headers=fresh.headers()).json()["type"] == "urn:dptext:no-result"
    assert fresh.client.get(f"/v1/jobs/{name}/certificate", headers=fresh.headers()).status_code == 410


def test_an_expired_answer_is_not_given_before_the_sweep(fresh: Served) -> None:
    assert fresh.privatize(FEW).status_code == 200
    (row,) = fresh.gate.store.rows(sa.select(ANSWERS))
    assert row.expires == pytest.approx(time.time() + 72 * 3_600, abs=60)
    fresh.gate.store.write(ANSWERS.update().values(expires=time.time() - 1))
    assert fresh.privatize(FEW).json()["type"] == "urn:dptext:answer-expired"
    assert len(fresh.charges()) == 1


def test_an_open_job_whose_file_is_nowhere_expires(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    (folder,) = (fresh.folder / "spool").glob("job-*")
    fresh.gate.store.write(JOBS.update().values(expires=1.0))
    fresh.gate.worker.sweep()
    assert fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers()).json()["state"] == "queued"
    assert 'dptext_jobs{state="queued"} 1.0' in fresh.client.get("/metrics", headers=fresh.headers(fresh.admin)).text
    (folder / "input").unlink()
    folder.rmdir()
    fresh.gate.store.write(JOBS.update().values(expires=1.0))
    fresh.gate.worker.sweep()
    told = fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers()).json()
    assert (told["state"], told["problem"]) == ("expired", "It has expired. Nothing was charged.")


def test_a_wrong_name_of_a_field_is_not_charged(fresh: Served) -> None:
    good = {"jsonl": LINE, "csv": b"text,label\nsecret,travel\n", "parquet": parquet({"text": ["a"], "label": ["b"]})}
    asked = {
        (kind, field): fresh.job(data, f"{kind}-{field}", format=kind, **{field: "nothing"}).json()["id"]
        for kind, data in good.items()
        for field in ("text_field", "label_field")
    }
    for (_, field), name in asked.items():
        problem = fresh.ended(name)["problem"]
        assert problem.startswith("the file, record 1: ")
        assert problem.endswith("Nothing was charged.")
        assert "'nothing'" in problem
        assert field in problem
        assert not re.search("--|Python", problem), problem
    assert fresh.charges() == []


def test_a_job_is_there_for_keys_of_its_kind_alone(fresh: Served) -> None:
    made = {
        "jobs": fresh.job(LINE).json()["id"],
        "synthesize": fresh.job(LINE, "synthesis-1", path="/v1/synthesize", model="topics").json()["id"],
    }
    for scope in made:
        key = fresh.gate.keys.create(scope, account="reviews", scopes=(scope,))
        for kind, name in made.items():
            fresh.ended(name)
            for path in ("", "/result", "/certificate", "/events", "/words"):
                answer = fresh.client.get(f"/v1/jobs/{name}{path}", headers=fresh.headers(key))
                assert (answer.status_code == 404) == (scope != kind), (scope, kind, path)
            assert (fresh.client.delete(f"/v1/jobs/{name}", headers=fresh.headers(key)).status_code == 404) == (
                scope != kind
            )


def test_no_problem_of_a_job_holds_a_name_that_the_file_has(fresh: Served) -> None:
    """Where a header is missing, its names are the first record; in JSON they are what anybody wrote."""
    given = {"csv": b"diagnosed,health\nsecret,x\n", "jsonl": b'{"diagnosed": "it\'s"}\n{"\\"secret": 1}\n',
             "parquet": parquet({"diagnosed": ["a"], 'it\'s "secret"': ["b"]})}  # fmt: skip
    for kind, data in given.items():
        name = fresh.job(data, f"names-of-{kind}", format=kind).json()["id"]
        assert fresh.ended(name)["problem"].startswith("the file, record 1: ")
    kept = [*fresh.gate.store.rows(sa.select(JOBS)), *fresh.gate.store.rows(sa.select(EVENTS))]
    assert not re.search("diagnosed|health|secret|it's", str(kept))


def test_a_header_without_a_column_of_a_synthesis_is_not_charged(fresh: Served) -> None:
    """Of a record nothing is told: one that has not the fields adds nothing."""
    given = {"path": "/v1/synthesize", "model": "topics", "label_field": "nothing", "format": "csv"}
    problem = fresh.ended(fresh.job(b"text,label\nsecret,travel\n", **given).json()["id"])["problem"]
    assert problem.startswith("The header of the private corpus lacks a column that was named")
    assert "Columns of a table stand in the settings of the model, which `GET /v1/models` shows." in problem
    assert problem.endswith("Nothing was charged.")
    assert fresh.charges() == []


def test_a_file_in_another_format_than_json_lines_is_not_charged(fresh: Served) -> None:
    """Each line of it would be a record that cannot be read, and add nothing to what is charged."""
    for i, data in enumerate((b"text,label\nsecret,travel\n", b"\n [1]\n", parquet({"text": ["secret"]}))):
        for more in ({"path": "/v1/synthesize", "model": "topics", "label_field": "label"}, {}):
            failed = fresh.ended(fresh.job(data, f"in-another-format-{i}-{len(more)}", **more).json()["id"])
            assert failed["problem"] == f"{worker._NOT_JSON} Nothing was charged."
    given = {"path": "/v1/synthesize", "model": "topics", "label_field": "label"}
    line = b'{"text": "secret", "label": "travel"}'
    for i, (data, kind, said) in enumerate(
        (
            (line + b"\n", "csv", "Expected CSV, as format says, found JSON Lines: name it with format jsonl."),
            (b"{\n" + line[1:-1] + b"\n}\n", "jsonl", "found JSON over several lines."),
        )
    ):
        failed = fresh.ended(fresh.job(data, f"in-json-{i}", format=kind, **given).json()["id"])
        assert failed["problem"].endswith(f"{said} Nothing was charged.")
    for i, data in enumerate((b"", b'\xef\xbb\xbf\n\n{"text": "a", "label": "travel"}\n')):
        assert fresh.ended(fresh.job(data, f"in-json-lines-{i}", **given).json()["id"])["state"] == "done"


def test_messages_of_the_library_in_words_of_the_api() -> None:
    """Of each message about fields: the options are those of requests, and no other is offered."""
    fields = ["text", "label"]
    for said in (
        text_lines.no_column("text", fields, fields),
        text_lines.no_column("label", fields, fields),
        text_lines.missing_field("label", fields, fields),
        row_checks._NULL.format("text"),
        text_lines.no_column("label", ["text"], fields),
        private._NO_COLUMN,
        "Repair it, or skip such records: --on-error skip.",
        "Expected a maximum of records for each author: --author-field NAME --max-per-author N.",
    ):
        found = in_words_of_the_api(said)
        assert not re.search("--|command line|Python|keep|subject|on_error|empty", found), found
    assert in_words_of_the_api("a maximum: --max-per-author N") == "a maximum: max_per_author N"


def test_a_bomb_fails_and_says_what_became_of_its_charge(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page that unpacks to too much; and a text that is repeated to 9 GB, some of which are read before."""
    monkeypatch.setattr("dptext.text.packed_rows.most_bytes", lambda _: 10_000_000)
    monkeypatch.setattr("dptext.text.parquet_pages.PAGE_BYTES", 1_000_000)
    page = {"text": ["a" * 1_000_001], "label": ["travel"]}
    page_bomb = parquet(page, compression="zstd", use_dictionary=False, write_statistics=False)
    rows = 100_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * 90_000]))
    repeated_bomb = parquet({"text": text, "label": ["travel"] * rows}, compression="zstd")
    for number, data in enumerate((page_bomb, repeated_bomb)):
        assert len(data) < 20_000
        failed = fresh.ended(fresh.job(data, f"bomb-number-{number}", format="parquet").json()["id"])
        assert failed["state"] == "failed"
        assert "unpacks to more than is read" in failed["problem"]
        assert failed["problem"].endswith("Nothing was charged.")
        assert list((fresh.folder / "spool").glob("*-*")) == []


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_a_job_may_have_texts_in_a_delta_encoding(fresh: Served, encoding: str) -> None:
    table = {"text": ["secret", "secretly"], "label": ["travel", "money"]}
    data = parquet(table, use_dictionary=False, column_encoding=dict.fromkeys(table, encoding))
    name = fresh.job(data, format="parquet").json()["id"]
    assert fresh.ended(name)["state"] == "done"
    result = fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers()).content
    assert pq.read_table(io.BytesIO(result)).num_rows == 2


def test_a_stop_is_no_death_of_the_job_at_hand(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where the process ends before the job has looked up, as in the middle of a batch."""
    fresh.gate.worker.close()
    monkeypatch.setattr(worker, "STOP_SECONDS", 0.01)
    busy, go_on = threading.Event(), threading.Event()

    def batch(*_: object, **__: object) -> None:
        busy.set()
        assert go_on.wait(60)
        raise LedgerError("The gateway is stopping.")

    monkeypatch.setattr(worker, "privatize_file", batch)
    name = fresh.job(LINE).json()["id"]
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    again.start()
    assert busy.wait(60)
    assert fresh.gate.jobs.row(name).starts == 1
    again.close()
    left = threads_of_the_worker()
    assert "jobs" in [each.name for each in left]  # it has not looked up
    assert fresh.gate.jobs.row(name).starts == 0
    go_on.set()
    for each in left:
        each.join()
    again.close()  # lets go of the spool
    assert fresh.gate.jobs.row(name).state == "queued"
    assert fresh.charges() == []


def test_uploads_that_a_kill_left_go_with_the_next_start(fresh: Served) -> None:
    fresh.gate.worker.close()
    left = fresh.gate.jobs.spool()
    (left / "input").write_text("a secret")
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    again.start()
    again.close()
    assert not left.exists()


def test_a_text_of_a_file_has_a_most_length(tmp_path: Path) -> None:
    with served(tmp_path, max_characters=100) as gateway:
        data = LINE + json.dumps({"text": "secret " * 15, "label": "travel"}).encode() + b"\n"
        failed = gateway.ended(gateway.job(data).json()["id"])
        assert failed["problem"].startswith("the file, record 2: the text is longer than max_characters=100.")
        assert failed["problem"].endswith("Nothing was charged.")
        assert gateway.ended(gateway.job(LINE, "a-short-one").json()["id"])["state"] == "done"


def test_jobs_of_others_hide_none_of_ours(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones that a key may see are listed, not those of the last ones that it may."""
    monkeypatch.setattr(jobs, "LISTED", 1)
    ours = fresh.job(LINE).json()["id"]
    fresh.job(LINE, "a-second-job", path="/v1/synthesize", model="topics")
    alone = fresh.gate.keys.create("jobs", account="reviews", scopes=("jobs",))
    found = fresh.client.get("/v1/jobs", headers=fresh.headers(alone)).json()
    assert [each["id"] for each in found] == [ours]


@pytest.mark.parametrize("further", [False, True])
def test_a_job_that_ends_its_process_is_given_up(fresh: Served, monkeypatch: pytest.MonkeyPatch, further: bool) -> None:
    """Three starts may get no record further than those before; a thread that ends stands for the process."""
    fresh.gate.worker.close()
    starts = []

    class Dies(BaseException):
        """The end of the worker's process: no handler catches this exception."""

    def dies(*_: object, payment: object, on_progress: object, **__: object) -> None:
        starts.append(1)
        on_progress(len(starts) if further else 1)
        raise Dies

    monkeypatch.setattr(worker, "privatize_file", dies)
    name = fresh.job(LINE).json()["id"]
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    for _ in range(6):
        fresh.gate.store.write(JOBS.update().values(not_before=0.0))
        try:
            again._one()
        except Dies:
            continue
    told = fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers()).json()
    if further:
        assert (told["state"], len(starts)) == ("running", 6)
        return
    assert len(starts) == 1 + 3  # the first got to a record
    assert told["state"] == "failed"
    assert told["problem"] == "The gateway died each time in 3 starts of this job: it is given up. Nothing was charged."


@contextmanager
def no_line(fresh: Served, event: str) -> Iterator[None]:
    """The database takes no line of the audit log that tells of this."""
    refused = f"WHEN NEW.event = '{event}' BEGIN SELECT RAISE(ABORT, 'no line'); END"
    fresh.gate.store.write(sa.text(f"CREATE TRIGGER no_line BEFORE INSERT ON gateway_events {refused}"))
    yield
    fresh.gate.store.write(sa.text("DROP TRIGGER no_line"))


def test_a_line_of_the_audit_log_is_written_with_the_answer(fresh: Served) -> None:
    """Where the process dies between the two, neither is there: no answer is seen that no line tells of."""
    with no_line(fresh, "released"):
        assert fresh.privatize(FEW).status_code == 503
    (row,) = fresh.gate.store.rows(sa.select(ANSWERS))
    assert row.answer is None
    seen = fresh.privatize(FEW)
    assert "Idempotent-Replayed" not in seen.headers
    (said,) = lines_of(fresh, "released")
    (charge,) = fresh.charges()
    prefix = fresh.key.split("_")[1]
    certificate = json.loads(seen.json()["certificate"])["sha256"]
    assert (said.who, said.charge, said.result_sha256) == (f"team ({prefix})", charge.number, certificate)


def test_a_line_of_the_audit_log_is_written_with_the_end_of_a_job(fresh: Served) -> None:
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    with no_line(fresh, "job done"), pytest.raises(LedgerError):
        again._one()
    assert fresh.gate.jobs.row(name).state == "running"  # whole, and not to be seen
    fresh.gate.store.write(JOBS.update().values(not_before=0.0))
    again._one()
    done = fresh.ended(name)
    assert done["state"] == "done"
    (said,) = lines_of(fresh, "job done")
    assert (said.who, said.charge) == (f"team ({fresh.key.split('_')[1]})", fresh.charges()[0].number)
    result = fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers()).content
    assert said.result_sha256 == done["result_sha256"] == hashlib.sha256(result).hexdigest()


def test_jobs_are_found_by_their_state(fresh: Served) -> None:
    names = {each["name"] for each in sa.inspect(fresh.gate.store._database._engine).get_indexes("gateway_jobs")}
    assert names == {"gateway_jobs_by_state"}


def test_a_full_pool_is_a_ledger_that_can_be_asked_again(fresh: Served) -> None:
    books = Database(fresh.folder / "books.db", wait=0.05, most=1)
    with books.reading():
        with pytest.raises(LedgerError, match=r"too many users") as found, books.reading():
            pass
        assert found.value.__cause__ is None
    with books.reading():
        pass
    with pytest.raises(LedgerError, match=r"cannot be used: NoResultFound") as found, books.reading() as connection:
        connection.execute(sa.select(JOBS.c.id)).scalar_one()
    assert "row" not in str(found.value)
    books.close()


def test_the_threads_of_the_worker_outlive_any_error(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.gate.worker.close()
    require_spool, own, failed = Jobs.require_spool, set[threading.Thread](), []

    def fails(jobs: Jobs) -> None:
        """Two times in each of these threads, which look for the spool first."""
        if (here := threading.current_thread()) in own and failed.count(here) < 2:
            failed.append(here)
            raise RuntimeError
        require_spool(jobs)

    monkeypatch.setattr(Jobs, "require_spool", fails)
    monkeypatch.setattr(worker, "SWEEP_SECONDS", 0.05)
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    again.start()
    try:
        own |= threads_of_the_worker()
        assert fresh.ended(fresh.job(LINE).json()["id"])["state"] == "done"
        end = time.monotonic() + 30
        while len(failed) < 4 and time.monotonic() < end:
            time.sleep(0.02)
        assert [failed.count(each) for each in own] == [2, 2]
        assert again.alive
    finally:
        again.close()


def test_an_upload_holds_up_nobody_else(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the database nor a disk is waited for in the event loop."""
    fresh.gate.worker.close()
    where: dict[str, set[str]] = {}

    def noted(name: str, call: object) -> object:
        def noting(*given: object, **more: object) -> object:
            where.setdefault(name, set()).add("thread" if asyncio._get_running_loop() is None else "loop")
            return call(*given, **more)

        return noting

    class File(io.FileIO):
        """Tells where it is written."""

        write = noted("write", io.FileIO.write)

    for owner, name in ((Database, "reading"), (Database, "writing"), (Models, "path"), (job_routes.shutil, "rmtree")):
        monkeypatch.setattr(owner, name, noted(name, getattr(owner, name)))
    monkeypatch.setattr(job_routes, "create_private", noted("create", lambda path: File(path, "xb")))
    assert fresh.job(LINE).status_code == 202
    assert where == {each: {"thread"} for each in ("reading", "writing", "path", "rmtree", "create", "write")}
    (file,) = (fresh.folder / "spool").glob("job-*/input")
    assert file.read_bytes() == LINE


def test_rows_without_files_are_not_read_and_draw_nothing_anew(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, read = Store.rows, []

    def noted(store: Store, query: sa.Select) -> object:
        found = rows(store, query)
        read.extend(row for row in found if "prefix" in row._fields)
        return found

    name = fresh.job(LINE).json()["id"]
    assert fresh.ended(name)["state"] == "done"
    fresh.gate.worker.close()
    monkeypatch.setattr(Store, "rows", noted)
    fresh.gate.space.measure()
    assert [row.id for row in read] == [name]
    assert fresh.gate.space._jobs[fresh.key.split("_")[1]] > 0
    fresh.gate.store.write(JOBS.update().values(expires=0.0))
    fresh.gate.worker.sweep()
    assert list((fresh.folder / "spool").glob("*-*")) == []
    read.clear()
    fresh.gate.space.measure()
    fresh.gate.worker.sweep()
    assert (read, fresh.gate.space._jobs.total()) == ([], 0)
    again = fresh.job(LINE)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, name, "expired")
    assert len(fresh.charges()) == 1


@pytest.mark.slow  # test_words_about_a_result_outlive_its_model stays
def test_results_outlive_the_folder_of_their_model(fresh: Served) -> None:
    names = [
        fresh.job(LINE).json()["id"],
        fresh.job(LINE, "second-job", path="/v1/synthesize", model="topics").json()["id"],
    ]
    assert [fresh.ended(name)["state"] for name in names] == ["done", "done"]

    def asked() -> list[tuple[int, bytes]]:
        paths = [f"/v1/jobs/{name}/{what}" for name in names for what in ("result", "certificate")]
        paths.append(f"/v1/topics/{names[1]}")
        found = [fresh.client.get(path, headers=fresh.headers()) for path in paths]
        return [(each.status_code, each.content) for each in found]

    before = asked()
    assert {status for status, _ in before} == {200}
    (fresh.folder / "models" / "labels").rename(fresh.folder / "models" / "renamed")
    (fresh.folder / "models" / "topics").rename(fresh.folder / "topics")
    assert asked() == before
    for file in (fresh.folder / "spool").glob("job-*/result*"):
        file.unlink()
    assert {json.loads(content)["type"] for _, content in asked()} == {"urn:dptext:no-file"}


def test_a_job_that_the_account_cannot_pay_says_asked_left_missing(tmp_path: Path) -> None:
    with served(tmp_path, epsilon=3.0) as gateway:
        asked = [gateway.ended(gateway.job(LINE, f"job-number-{n}").json()["id"]) for n in range(2)]
        assert [each["state"] for each in asked] == ["done", "failed"]
        assert re.search(r"asked epsilon = 2 .* left 1 of 3, together 1 above the limit", asked[1]["problem"])
        assert asked[1]["problem"].endswith("do not simply add up. Nothing was charged.")
        assert len(gateway.charges()) == 1


def test_no_problem_of_a_job_says_where_files_lie(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, target: Path, *__: object, **___: object) -> None:
        raise ConfigError(f"Cannot write {target}: the disk is full.")

    monkeypatch.setattr(worker, "privatize_file", full)
    problem = fresh.ended(fresh.job(LINE).json()["id"])["problem"]
    assert problem == "It failed with ConfigError. Nothing was charged."


@pytest.mark.parametrize("begun", [False, True])
def test_two_gateways_and_one_ledger_run_a_job_once(tmp_path: Path, begun: bool) -> None:
    """Its first gateway dies, before it began it or after, and comes back; meanwhile the other is asked, too."""
    with served(tmp_path) as first:
        first.gate.worker.close()
        other = create_app(replace(first.gate.settings, spool=tmp_path / "other"))
        name = first.job(LINE).json()["id"]
        if begun:
            first.gate.store.write(JOBS.update().values(state="running", not_before=1.0, starts=1))
        with TestClient(other) as client:
            query = {"model": "labels", "label_field": "label"}
            again = client.post("/v1/jobs", params=query, content=LINE, headers=first.headers(None, "first-job"))
            assert (again.status_code, again.json()["id"]) == (200, name)
            if not begun:
                assert first.ended(name)["state"] == "done"
            back = worker.Worker(first.gate.jobs, first.gate.answers)
            back.start()
            try:
                assert first.ended(name)["state"] == "done"
            finally:
                back.close()
            result = f"/v1/jobs/{name}/result"
            found = [each.get(result, headers=first.headers()) for each in (first.client, client)]
            assert [each.status_code for each in found] == ([200, 404] if begun else [404, 200])
            assert {each.json()["type"] for each in found if each.status_code == 404} == {"urn:dptext:no-file"}
            (charge,) = first.charges()
            assert charge.release == first.ended(name)["result_sha256"]
            here, there = (list(folder.glob("*-*/*")) for folder in (tmp_path / "spool", tmp_path / "other"))
            assert [len(here), len(there)] == ([2, 0] if begun else [0, 2])
            assert stat.S_IMODE((tmp_path / "other" / "id").stat().st_mode) == 0o600


def test_a_file_that_another_gateway_runs_is_deleted_here(fresh: Served) -> None:
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    fresh.gate.store.write(JOBS.update().values(spool_id="elsewhere", state="running", not_before=1.0))
    again = worker.Worker(fresh.gate.jobs, fresh.gate.answers)
    assert not again._one()
    again.sweep()
    assert list((fresh.folder / "spool").glob("*-*")) == []
    assert fresh.gate.jobs.row(name).state == "running"


def test_what_another_gateway_began_stays_its_own(fresh: Served) -> None:
    """Also where it waits for its database, and is queued again: it may have shown what it paid for."""
    fresh.gate.worker.close()
    fresh.job(LINE)
    fresh.gate.store.write(JOBS.update().values(spool_id="elsewhere", not_before=1.0))
    for _ in range(2):  # the file of the first upload, which no sweep found; and none
        assert fresh.job(LINE).json()["state"] == "queued"
        (row,) = fresh.gate.store.rows(sa.select(JOBS))
        assert (row.spool_id, list((fresh.folder / "spool").glob("*-*"))) == ("elsewhere", [])


@pytest.mark.slow_cases("parquet", why="jsonl stays: records are counted behind the formats")
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_records_of_a_job_have_a_limit(tmp_path: Path, format: str) -> None:
    rows = 3_000
    data = (
        lines(rows)
        if format == "jsonl"
        else parquet({"text": [str(i) for i in range(rows)], "label": ["travel"] * rows})
    )
    with served(tmp_path, max_job_records=1_000) as gateway:
        failed = gateway.ended(gateway.job(data, format=format).json()["id"])
        assert failed["problem"] == "Expected at most 1,000 records of a job. Nothing was charged."
        assert list((tmp_path / "spool").glob("*-*")) == []
        assert gateway.ended(gateway.job(LINE, "a-small-job").json()["id"])["state"] == "done"


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/synthesize"])
def test_a_job_may_not_run_for_ever(tmp_path: Path, path: str) -> None:
    with served(tmp_path, job_seconds=1e-6) as gateway:
        model = "labels" if path == "/v1/jobs" else "topics"
        failed = gateway.ended(gateway.job(LINE, path=path, model=model).json()["id"])
        assert failed["state"] == "failed"
        assert failed["problem"].startswith("The job ran longer than 0 seconds. ")
        assert failed["problem"].endswith(("Charge 1 stays charged; nothing became visible.", "Nothing was charged."))


def test_what_a_job_writes_counts_for_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 0.0)
    data = lines(5_000)
    with served(tmp_path, spool_bytes_of_key=2 * len(data) + 10_000) as gateway:
        failed = gateway.ended(gateway.job(data).json()["id"])
        assert failed["problem"].startswith("Expected at most 390,000 bytes of a job with what comes of it.")
        assert failed["problem"].endswith("Charge 1 stays charged; nothing became visible.")
        assert list((tmp_path / "spool").glob("*-*")) == []


def test_a_file_keeps_room_for_what_comes_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second file does not take it; the same again is no second file."""
    going, run = threading.Event(), worker.privatize_file
    monkeypatch.setattr(worker, "privatize_file", lambda *given, **more: (going.wait(60), run(*given, **more))[1])
    data = lines(500)
    with served(tmp_path, spool_bytes_of_key=3 * len(data)) as gateway:
        first = gateway.job(data)
        assert first.status_code == 202
        for _ in range(2):
            refused = gateway.job(lines(260), "another-file")
            assert (refused.status_code, refused.json()["type"]) == (413, "urn:dptext:quota")
        again = gateway.job(data)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
        going.set()
        assert gateway.ended(first.json()["id"])["state"] == "done"
        assert len(gateway.charges()) == 1


def test_a_job_waits_for_room_under_its_charge(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other files have it, and where the disk is full, in the middle of its writing, too."""
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.25)  # long enough to be seen
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 0.0)
    space, run, broken = fresh.gate.worker._space, worker.privatize_file, threading.Event()
    key = fresh.gate.keys.find(fresh.key)

    def on_a_full_disk(*given: object, **more: object) -> object:
        if broken.is_set():
            return run(*given, **more)
        with suppress(ZeroDivisionError):  # some of it was written
            run(*given, **{**more, "on_progress": lambda done: 1 // 0})
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise file_error("x", "write", error) from None

    def crowded(who: str, size: int = 0) -> None:
        raise Problem(413, "quota", "")

    def waits(name: str, why: str) -> None:
        end = time.monotonic() + 30
        while why not in str(found := fresh.gate.jobs.told(name, key)["problem"]):
            assert time.monotonic() < end, found
            time.sleep(0.01)

    with monkeypatch.context() as full:
        full.setattr(limits.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        refused = fresh.job(LINE)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:dptext:spool-full")
    monkeypatch.setattr(worker, "privatize_file", on_a_full_disk)
    with monkeypatch.context() as crowd:
        crowd.setattr(space, "require", crowded)
        name = fresh.job(lines(2_000)).json()["id"]
        waits(name, "Other files of its key have the room: it waits.")
        assert fresh.charges() == []
    waits(name, "The disk is full.")
    broken.set()
    done = fresh.ended(name)
    assert (done["state"], done["problem"], done["records_done"]) == ("done", None, 2_000)
    assert len(fresh.charges()) == 1


def test_administrators_see_and_end_any_job_and_no_result(fresh: Served) -> None:
    name = fresh.job(LINE).json()["id"]
    fresh.ended(name)
    admin = fresh.headers(fresh.admin)
    seen = fresh.client.get(f"/v1/jobs/{name}", headers=admin)
    assert (seen.status_code, seen.json()["state"]) == (200, "done")
    for path in ("/result", "/certificate", "/words", "/events"):
        assert fresh.client.get(f"/v1/jobs/{name}{path}", headers=admin).status_code == 403
    releasing = fresh.gate.keys.create("both", account="second", scopes=("admin", "jobs"))
    assert fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers(releasing)).status_code == 404
    assert fresh.client.delete(f"/v1/jobs/{name}", headers=admin).json()["state"] == "expired"
    (said,) = lines_of(fresh, "job deleted")
    assert (said.who.split()[0], said.account) == ("boss", "reviews")


def test_a_file_is_on_the_disk_before_it_is_taken(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.gate.worker.close()
    sync, synced = os.fsync, []

    def noted(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    assert fresh.job(LINE).status_code == 202
    spool = fresh.folder / "spool"
    file, upload = synced[:2]
    assert (file.name, file.parent, upload.parent, spool in synced[2:]) == ("input", upload, spool, True)


def test_a_damaged_file_is_not_charged(fresh: Served) -> None:
    fresh.gate.worker.close()
    name = fresh.job(lines(2)).json()["id"]
    (file,) = (fresh.folder / "spool").glob("job-*/input")
    file.write_bytes(LINE)  # a power cut took the rest
    worker.Worker(fresh.gate.jobs, fresh.gate.answers)._one()
    told = fresh.ended(name)
    assert told["state"] == "failed"
    assert told["problem"].startswith("The file is damaged")
    assert told["problem"].endswith("Nothing was charged.")
    assert fresh.charges() == []


def test_what_is_no_name_of_a_job_is_not_looked_for(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, row = [], Jobs.row
    monkeypatch.setattr(Jobs, "row", lambda jobs, name: asked.append(name) or row(jobs, name))
    for name in ("%00", "x", "A" * 32, "a" * 31, "a" * 32 + "%0A", "é" * 32, "'--"):
        assert fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers()).json()["type"] == "urn:dptext:no-job"
    assert asked == []


def test_events_end_with_the_key(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_routes, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(job_routes, "QUIET_SECONDS", 0.0)  # a comment at each look
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    path = f"/v1/jobs/{name}/events"
    with live(fresh.client.app) as url, httpx.stream("GET", url + path, headers=fresh.headers(), timeout=30) as answer:
        told = answer.iter_lines()
        assert json.loads(next(told).removeprefix("data: "))["state"] == "queued"
        fresh.gate.keys.revoke(fresh.key.split("_")[1])
        assert len([each for each, _ in zip(told, range(8), strict=False) if each]) <= 2  # of many
    assert fresh.gate.jobs.row(name).state == "queued"


def test_an_event_comes_when_something_changes(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between events comments keep the connection open."""
    assert job_routes.QUIET_SECONDS >= 10 * job_routes.LOOK_SECONDS
    monkeypatch.setattr(job_routes, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(job_routes, "QUIET_SECONDS", 0.3)
    looks, look = [], Jobs.told
    monkeypatch.setattr(Jobs, "told", lambda *given: looks.append(1) or look(*given))
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    path, found = f"/v1/jobs/{name}/events", []
    changes = iter(({"state": "running"}, {"records_done": 1}, {"state": "cancelled", "problem": "Cancelled."}))
    with live(fresh.client.app) as url:
        with httpx.stream("GET", url + path, headers=fresh.headers(), timeout=30) as answer:
            for line in filter(None, answer.iter_lines()):
                found.append(line)
                assert len(found) < 50
                if [each[0] for each in found[-2:]] == ["d", ":"]:
                    fresh.gate.store.write(JOBS.update().values(**next(changes)))
        assert [kind for kind, _ in groupby(line[0] for line in found)] == ["d", ":", "d", ":", "d", ":", "d"]
        told = [json.loads(line.removeprefix("data: ")) for line in found if line[0] == "d"]
        assert [(each["state"], each["records_done"], each["problem"]) for each in told] == [
            ("queued", 0, None),
            ("running", 0, None),
            ("running", 1, None),
            ("cancelled", 1, "Cancelled."),
        ]
        assert len(looks) > 2 * len(found)

        # Nobody is looked for who has left.
        fresh.gate.store.write(JOBS.update().values(state="queued"))
        with httpx.stream("GET", url + path, headers=fresh.headers(), timeout=30) as answer:
            assert next(answer.iter_lines()).startswith("data: ")
        end = time.monotonic() + 30
        while looks and time.monotonic() < end:
            looks.clear()
            time.sleep(0.3)
        assert looks == []


def test_a_model_that_reads_labels_gets_no_file_without(fresh: Served) -> None:
    key = fresh.headers(None, "no-label-1")
    for sent in (LINE, b""):
        answer = fresh.client.post("/v1/jobs", params={"model": "labels"}, content=sent, headers=key)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:dptext:settings")
        assert "label_field" in answer.json()["detail"]
    assert (fresh.charges(), list((fresh.folder / "spool").glob("*-*"))) == ([], [])


def test_a_job_that_has_ended_tells_of_all_its_records(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 1e9)
    assert fresh.ended(fresh.job(lines(3)).json()["id"])["records_done"] == 3
    given = {"path": "/v1/synthesize", "model": "topics"}
    assert fresh.ended(fresh.job(lines(3), "second-job", **given).json()["id"])["records_done"] == 0


def test_a_job_that_has_ended_is_not_looked_for_in_the_books(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fresh.job(LINE, text_field="nothing").json()["id"]
    assert fresh.ended(name)["state"] == "failed"
    asked: list[object] = []
    monkeypatch.setattr(fresh.gate.jobs, "charge_of", lambda row: asked.append(row) or (None, ""))
    assert fresh.client.delete(f"/v1/jobs/{name}", headers=fresh.headers()).json()["state"] == "failed"
    assert asked == []


def test_a_sweep_leaves_what_is_taken_meanwhile(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway died before the row of a job; its client asks again as a sweep has read the rows."""
    fresh.gate.worker.close()
    name = fresh.job(LINE).json()["id"]
    (folder,) = (fresh.folder / "spool").glob("job-*")
    long_ago = time.time() - 3 * fresh.gate.settings.seconds
    fresh.gate.store.write(JOBS.delete())
    os.utime(folder / "input", (long_ago, long_ago))
    os.utime(folder, (long_ago, long_ago))
    rows = Store.rows

    def slow(store: Store, query: sa.Select) -> object:
        found = rows(store, query)
        if "gateway_jobs.id IN" in str(query):
            monkeypatch.undo()
            assert fresh.job(LINE).status_code == 202
            assert folder.stat().st_mtime > long_ago + 1
            os.utime(folder, (long_ago, long_ago))  # its row alone is enough
        return found

    monkeypatch.setattr(Store, "rows", slow)
    fresh.gate.worker.sweep()
    assert fresh.gate.jobs.row(name) is not None
    assert (folder / "input").read_bytes() == LINE


def test_a_slow_upload_is_not_swept(fresh: Served) -> None:
    """Small blocks lie in a buffer: nothing is written for a while."""
    folder, old = fresh.gate.jobs.spool(), time.time() - 3 * fresh.gate.settings.seconds
    os.utime(folder, (old, old))
    fresh.gate.worker.sweep()
    assert folder.is_dir()
    old = time.time() - 3 * fresh.gate.settings.upload_seconds
    os.utime(folder, (old, old))
    fresh.gate.worker.sweep()
    assert not folder.is_dir()


def test_a_gateway_that_cannot_read_parquet_takes_none(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader is an extra of its own, which is not part of the gateway's."""
    data = parquet({"text": ["a"], "label": ["travel"]})
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        for path, model in (("/v1/jobs", "labels"), ("/v1/synthesize", "topics")):
            refused = fresh.job(data, f"job-of-{model}", path, format="parquet", model=model)
            assert (refused.status_code, refused.json()["type"]) == (415, "urn:dptext:format")
            assert "'dptext[files]'" in refused.json()["detail"]
        assert fresh.job(LINE, "of-another-format").status_code == 202
    assert list((fresh.folder / "spool").glob("upload-*")) == []
    assert fresh.ended(fresh.job(data, "job-of-labels", format="parquet").json()["id"])["state"] == "done"


def test_the_books_know_what_a_call_reveals(fresh: Served) -> None:
    answer = fresh.privatize([{"text": "secret", "label": "travel", "id": "a"}]).json()
    (charge,) = fresh.charges()
    revealed = set(json.loads(answer["certificate"])["also_reveals"])
    assert "the ids" in " ".join(revealed)
    assert revealed <= set(charge.request.terms.reveals)
