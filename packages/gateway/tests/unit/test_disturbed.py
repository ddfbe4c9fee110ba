"""A gateway whose clock is wrong for a while, or whose books, key file, spool or models are not what they were."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

import dptext as dp
from dptext_gateway import clock, jobs, work, worker
from dptext_gateway.app import create_app
from dptext_gateway.clock import Clock
from dptext_gateway.problems import Problem
from dptext_gateway.store import JOBS
from gateways import Served, lines, logged, served
from many_files import LABELS, mechanism

FEW = [{"text": "secret", "label": "travel"}]
LINE = b'{"text": "secret", "label": "travel"}\n'
DAY = 86_400.0
RIGHT = time.time


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


@contextmanager
def wrong(seconds: float) -> Iterator[None]:
    """Meanwhile the clock of this process is ahead by so much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: RIGHT() + seconds)
        yield


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("type", "").removeprefix("urn:dptext:")


def finished(gateway: Served, name: str = "first-job") -> str:
    """The id of a job that is done."""
    job = gateway.job(LINE, name).json()["id"]
    assert gateway.ended(job)["state"] == "done"
    return job


def result_of(gateway: Served, job: str) -> httpx.Response:
    return gateway.client.get(f"/v1/jobs/{job}/result", headers=gateway.headers())


def again(gateway: Served) -> worker.Worker:
    return worker.Worker(gateway.gate.jobs, gateway.gate.answers)


@pytest.mark.parametrize("start", [False, True])
def test_a_clock_that_is_ahead_for_a_while_deletes_nothing(fresh: Served, start: bool) -> None:
    """At the start of a gateway, as before a machine has asked a time server, and in the middle of its work."""
    answer, job = fresh.privatize(FEW), finished(fresh)
    result = result_of(fresh, job)
    fresh.gate.worker.close()
    with wrong(4 * DAY):
        if start:
            other = create_app(fresh.gate.settings).state.gate.worker
            other.start()
            other.close()
        else:
            again(fresh).sweep()
        assert kind(fresh.privatize(FEW)) == (410, "answer-expired")
        assert result_of(fresh, job).status_code == 410
    again(fresh).sweep()
    assert fresh.privatize(FEW).content == answer.content
    assert (result.status_code, result_of(fresh, job).content) == (200, result.content)
    assert len(fresh.charges()) == 2


def test_what_ends_while_the_clock_is_behind_is_kept(fresh: Served) -> None:
    fresh.privatize(FEW, "before-it-went-back")
    with wrong(-4 * DAY):
        job, answer = finished(fresh), fresh.privatize(FEW)
    assert result_of(fresh, job).status_code == 200
    assert fresh.privatize(FEW).content == answer.content


@pytest.mark.parametrize("behind", [False, True])
def test_a_job_and_an_answer_go_on_when_the_clock_is_right_again(fresh: Served, behind: bool) -> None:
    """What was begun by a clock that was ahead, or would be by one that is behind, waits for no such time."""
    fresh.gate.worker.close()
    with wrong(4 * DAY if not behind else 0.0):
        job = fresh.job(LINE).json()["id"]
        fresh.gate.store.write(JOBS.update().values(state="running", not_before=time.time()))
        key = fresh.gate.keys.find(fresh.key)
        died = fresh.gate.answers.attempt(key, "first-call", b"payload")
    with wrong(-4 * DAY if behind else 0.0):
        assert again(fresh)._one()
        assert fresh.ended(job)["state"] == "done"
        taken = None
        with suppress(Problem):  # in flight
            taken = fresh.gate.answers.attempt(key, "first-call", b"payload")
    assert taken is not None
    assert (taken.name, taken.own == died.own) == (died.name, False)


class Hands:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.passed, self.ahead = 1_000.0, 1e9

    def monotonic(self) -> float:
        return self.passed

    def time(self) -> float:
        return self.passed + self.ahead


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    found = Hands()
    monkeypatch.setattr(clock, "time", found)
    return found


def test_a_clock_is_believed_that_says_the_same_for_long(hands: Hands) -> None:
    clock = Clock(None)
    assert clock.earliest() == float("-inf")  # a minute after a start nothing is deleted
    hands.passed += 61
    right = clock.earliest() - hands.passed
    assert right == hands.ahead == clock.latest() - hands.passed
    hands.ahead += 4 * DAY
    for _ in range(9):
        assert clock.earliest() == right + hands.passed
        assert clock.latest() == right + hands.passed + 4 * DAY
        hands.passed += 60
    for _ in range(3):
        hands.passed += 60
        believed = clock.earliest()
    assert believed == right + hands.passed + 4 * DAY


def test_the_newest_row_is_held_against_the_clock_for_a_day(hands: Hands) -> None:
    newest = hands.time() - 10 * DAY  # the gateway was off, or the clock is ahead
    clock = Clock(newest)
    began = hands.passed
    for hours in (1, 12, 23):
        hands.passed = began + hours * 3_600
        clock.earliest()
        assert clock.earliest() == newest + hours * 3_600
        assert clock.latest() == hands.time()
    hands.passed = began + 2 * DAY
    clock.earliest()
    hands.passed += 601
    assert clock.earliest() == hands.time()
    assert Clock(hands.time() + DAY).latest() == hands.time() + DAY  # what is kept is kept from there on


def asked(gateway: Served, client: TestClient | None = None) -> list[tuple[int, str]]:
    """How readiness, a release and a file are answered."""
    client, headers = client or gateway.client, gateway.headers(None, f"asked-{time.monotonic_ns()}")
    release = client.post("/v1/models/labels/privatize", json={"records": FEW}, headers=headers)
    file = client.post("/v1/jobs?model=labels&label_field=label", content=LINE, headers=headers)
    return [kind(each) for each in (client.get("/readyz"), release, file)]


@pytest.mark.parametrize("replaced", [False, True])
def test_books_that_are_gone_or_replaced(fresh: Served, replaced: bool) -> None:
    """What would be charged in them would be in no books; they may come back."""
    answer, books = fresh.privatize(FEW), fresh.folder / "books.db"
    away = books.rename(books.with_name("away.db"))
    if replaced:
        shutil.copy(away, books)
    assert asked(fresh) == [(503, "ledger")] * 3
    assert fresh.client.get("/healthz").status_code == 200
    books.unlink(missing_ok=True)
    away.rename(books)
    assert [status for status, _ in asked(fresh)] == [200, 200, 202]
    assert fresh.privatize(FEW).content == answer.content


def test_a_key_file_that_is_gone_or_replaced(fresh: Served) -> None:
    """Nobody could open an answer that was sealed from then on, once the gateway starts again."""
    file = fresh.gate.settings.key_file
    kept, refused = file.read_bytes(), [(503, "key-file")] * 3
    for other in (None, b"ab" * 32, b"short"):
        file.unlink()
        if other is not None:
            file.write_bytes(other)
            file.chmod(0o600)
        assert asked(fresh) == refused
        assert fresh.charges() == []
        file.write_bytes(kept)
        file.chmod(0o600)
    assert [status for status, _ in asked(fresh)] == [200, 200, 202]


@pytest.mark.slow_cases("empty", why="one without an id is refused as one with another")
@pytest.mark.parametrize("how", ["gone", "empty", "another", "copied"])
def test_a_spool_that_is_gone_or_replaced(fresh: Served, how: str) -> None:
    """It takes no file, and nothing is deleted that lies there instead: it may be the spool of another gateway."""
    fresh.gate.worker.close()
    job = fresh.job(LINE).json()["id"]
    spool = fresh.gate.settings.spool
    away = spool.rename(spool.with_name("away"))
    if how == "copied":
        shutil.copytree(away, spool)
    elif how != "gone":
        (spool / "job-of-another").mkdir(parents=True)
    if how == "another":
        (spool / "id").write_text("ab" * 16)
    for each in spool.glob("job-of-another"):
        os.utime(each, (1.0, 1.0))
    assert asked(fresh)[0] == asked(fresh)[2] == (503, "spool")
    for what in (again(fresh).sweep, again(fresh)._one):
        with pytest.raises(Exception, match="folder for files is gone or was replaced"):
            what()
    assert how == "gone" or list(spool.glob("job-*"))
    shutil.rmtree(spool, ignore_errors=True)
    away.rename(spool)
    assert again(fresh)._one()
    assert fresh.ended(job)["state"] == "done"


def test_a_folder_of_models_that_is_gone(fresh: Served) -> None:
    models = fresh.gate.settings.models
    away = models.rename(models.with_name("away"))
    assert asked(fresh) == [(503, "models")] * 3
    away.rename(models)
    assert fresh.charges() == []
    assert fresh.privatize(FEW).status_code == 200


class Dies(BaseException):
    """The end of the process, as nothing else is caught."""


def dying(run: Callable[..., object], times: list[int]) -> Callable[..., object]:
    """Make a run end its process when the account has been charged and no output is visible."""

    def cut(*given: object, payment: object, **more: object) -> object:
        times.append(1)
        if "on_progress" in more:

            def progress(done: int) -> None:
                if done:
                    raise Dies

            run(*given, payment=payment, **{**more, "on_progress": progress})
        run(*given, payment=payment, **more)
        raise Dies

    return cut


def killed(gateway: Served, monkeypatch: pytest.MonkeyPatch, times: int, **job: str) -> str:
    """A job that was charged, and whose process died so often."""
    gateway.gate.worker.close()
    found = gateway.job(lines(2_500), **job).json()["id"]
    runs: list[int] = []
    with monkeypatch.context() as patch:
        for name in ("privatize_file", "run"):
            patch.setattr(worker, name, dying(getattr(worker, name), runs))
        for _ in range(times):
            gateway.gate.store.write(JOBS.update().values(not_before=1.0))
            with pytest.raises(Dies):
                again(gateway)._one()
    assert (len(runs), len(gateway.charges())) == (times, 1)
    assert [each.release for each in gateway.charges()] == [None]
    return found


def waits(gateway: Served, client: TestClient, job: str) -> str:
    """Why a job waits."""
    end = time.monotonic() + 30
    while True:
        told = client.get(f"/v1/jobs/{job}", headers=gateway.headers()).json()
        assert told["state"] in ("queued", "running"), told
        if told["problem"]:
            return told["problem"]
        assert time.monotonic() < end
        time.sleep(0.02)


SYNTHESIS = {"path": "/v1/synthesize", "model": "topics"}


@pytest.mark.slow_cases("synthesis", why="a file stays")
@pytest.mark.parametrize("job", [{}, SYNTHESIS], ids=["file", "synthesis"])
def test_kills_end_no_job_that_is_paid_for(fresh: Served, monkeypatch: pytest.MonkeyPatch, job: dict) -> None:
    name = killed(fresh, monkeypatch, 3, **job)
    assert not again(fresh)._one()  # not at once: it may be the job that ends the process
    fresh.gate.store.write(JOBS.update().values(not_before=time.time() - 1_000))
    assert again(fresh)._one()
    assert fresh.ended(name)["state"] == "done"
    (charge,) = fresh.charges()
    assert charge.release


@pytest.mark.slow_cases("synthesis", why="a file waits for a model that was replaced, and for one that is gone")
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("job", [{}, SYNTHESIS], ids=["file", "synthesis"])
def test_a_job_that_is_paid_for_waits_for_its_model(
    fresh: Served, monkeypatch: pytest.MonkeyPatch, job: dict, replaced: bool
) -> None:
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.05)
    name, models = killed(fresh, monkeypatch, 1, **job), fresh.gate.settings.models
    model = models / job.get("model", "labels")
    away = model.rename(models.with_name("away"))
    if replaced:
        replace_model(model, away)
    with TestClient(create_app(fresh.gate.settings)) as client:
        assert waits(fresh, client, name).startswith("Its model is gone or was replaced: it waits")
    shutil.rmtree(model, ignore_errors=True)
    away.rename(model)
    with TestClient(create_app(fresh.gate.settings)):
        assert fresh.ended(name)["state"] == "done"
    (charge,) = fresh.charges()
    assert charge.release


def replace_model(model: Path, old: Path) -> None:
    """Another model of the same settings under the name of an old one."""
    if (old / work.POOL).is_file():
        shutil.copytree(old, model)
        lines = (old / work.POOL).read_text().splitlines()
        (model / work.POOL).write_text("\n".join(lines[1:]) + "\n")
    else:
        public = [dp.Record(label, f"another text of {label}", label) for label in LABELS]
        dp.save_model(mechanism().spec.fit(public=public), model)


@pytest.mark.parametrize("job", [{}, SYNTHESIS], ids=["file", "synthesis"])
def test_a_job_is_not_charged_for_another_model_than_it_was_sent_for(fresh: Served, job: dict) -> None:
    """What was shown when its file came is what it costs."""
    fresh.gate.worker.close()
    name, models = fresh.job(LINE, **job).json()["id"], fresh.gate.settings.models
    model = models / job.get("model", "labels")
    replace_model(model, model.rename(models.with_name("away")))
    with TestClient(create_app(fresh.gate.settings)):
        failed = fresh.ended(name)
    assert failed["problem"] == "The model of this job was replaced since its file came. Nothing was charged."
    assert fresh.charges() == []


def test_a_synthesis_is_not_charged_for_a_pool_that_changed_since_the_start(fresh: Served) -> None:
    finished_first = fresh.job(LINE, **SYNTHESIS).json()["id"]
    assert fresh.ended(finished_first)["state"] == "done"
    pool = fresh.gate.settings.models / "topics" / work.POOL
    pool.write_text(json.dumps({"text": "other"}) + "\n" + pool.read_text())
    with logged() as said:
        failed = fresh.ended(fresh.job(LINE, "second-job", **SYNTHESIS).json()["id"])
    assert failed["problem"].startswith("This model cannot be used now")
    assert len(fresh.charges()) == 1
    assert "The model topics cannot be used: it was replaced; start the gateway again." in "".join(said)


def test_a_file_that_is_taken_over_lies_in_one_spool_alone(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the gateway that takes it over sweeps in the same moment."""
    fresh.gate.worker.close()
    other = create_app(replace(fresh.gate.settings, spool=fresh.folder / "other"))
    name = fresh.job(LINE).json()["id"]
    gate = other.state.gate
    gate.worker.claim()
    sync = jobs.sync_folder

    def swept(folder: Path) -> None:
        worker.Worker(gate.jobs, gate.answers).sweep()
        sync(folder)

    monkeypatch.setattr(jobs, "sync_folder", swept)
    client = TestClient(other)
    headers = fresh.headers(None, "first-job")
    sent = client.post("/v1/jobs?model=labels&label_field=label", content=LINE, headers=headers)
    assert (sent.status_code, sent.json()["id"]) == (200, name)
    again(fresh).sweep()
    assert list((fresh.folder / "spool").glob("job-*")) == []
    assert worker.Worker(gate.jobs, gate.answers)._one()
    assert fresh.ended(name)["state"] == "done"


def test_an_answer_that_is_paid_for_waits_for_its_model(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call died between charge and answer; then its model was replaced by one that costs something else."""

    def dies(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as died:
        died.setattr(work, "privatize", dies)
        assert fresh.privatize(FEW).status_code == 503
    model = fresh.gate.settings.models / "labels"
    away = model.rename(model.with_name("away"))
    public = [dp.Record(label, f"another text of {label}", label) for label in LABELS]
    dp.save_model(replace(mechanism().spec, epsilon=3.0).fit(public=public), model)
    headers, asked = fresh.headers(), {"json": {"records": FEW}}
    path = "/v1/models/labels/privatize"
    with TestClient(create_app(replace(fresh.gate.settings, spool=fresh.folder / "other"))) as other:
        for _ in range(2):
            assert kind(other.post(path, headers=headers, **asked)) == (503, "model")
    shutil.rmtree(model)
    away.rename(model)
    assert fresh.privatize(FEW).status_code == 200
    (charge,) = fresh.charges()
    assert charge.release


def test_words_about_a_result_outlive_its_model(fresh: Served) -> None:
    made = {path: fresh.job(LINE, f"job-of-{model}", path, model=model).json()["id"] for path, model in
            (("/v1/jobs", "labels"), ("/v1/synthesize", "topics"))}  # fmt: skip
    told = []
    for name in made.values():
        assert fresh.ended(name)["state"] == "done"
        told.append(fresh.client.get(f"/v1/jobs/{name}/words", headers=fresh.headers()).json())
    for model in ("labels", "topics"):
        (fresh.gate.settings.models / model).rename(fresh.folder / model)
    again = [fresh.client.get(f"/v1/jobs/{name}/words", headers=fresh.headers()).json() for name in made.values()]
    assert again == told
    assert all(each["legal"] for each in told)
