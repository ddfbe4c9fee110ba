"""The routes of the gateway: who may, what is charged, what is answered again, and what is never shown."""

import hashlib
import hmac
import io
import json
import logging
import os
import re
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag

import dptext as dp
from dptext import Guarantee, Relation, Unit, sample_records
from dptext.errors import LedgerError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import certificate_path
from dptext.runs.payment import Payment
from dptext.runs.synthesized import Synthesized
from dptext.runs.verification import verify
from dptext_gateway import guarding, limits, worker
from dptext_gateway.answers import Attempt, StoredAnswers
from dptext_gateway.keys import SCOPES
from dptext_gateway.problems import Problem
from dptext_gateway.store import ANSWERS, EVENTS, JOBS, KEYS, Event
from gateways import SUMMARY, Served, add_summary, inbox, served
from many_files import rows

FEW = [{"text": f"secret {i}", "label": "travel"} for i in range(3)]
MANY = [{"text": f"secret {i}", "label": "travel"} for i in range(60)]  # two draws for them are alike by no chance


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("gateway"), epsilon=1_000.0) as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def told(answer) -> dict:
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["type"].startswith("urn:dptext:")
    assert found["title"]
    assert "secret" not in answer.text
    return found


def test_models_are_told_in_words_and_data(gateway: Served) -> None:
    found = gateway.client.get("/v1/models", headers=gateway.headers()).json()
    assert [each["name"] for each in found] == ["labels", "topics"]
    assert [each["answers"] for each in found] == ["each text", "a corpus"]
    one = gateway.client.get("/v1/models/labels", headers=gateway.headers()).json()
    assert one["guarantees"][-1]["epsilon"] == 2.0
    assert "epsilon 2" in one["sentence"]
    wanted = {"unit": "document", "delta": 0.0}
    explained = gateway.client.post("/v1/models/labels/explain", json=wanted, headers=gateway.headers())
    assert explained.json()["guarantees"] == one["guarantees"][-1:]
    assert told(gateway.client.get("/v1/models/../labels", headers=gateway.headers()))["status"] == 404
    assert told(gateway.client.get("/v1/models/none", headers=gateway.headers()))["type"] == "urn:dptext:no-model"


def test_a_release_is_charged_once_and_answered_again(fresh: Served, tmp_path: Path) -> None:
    first = fresh.privatize(MANY)
    assert first.status_code == 200, first.text
    assert "secret" not in first.text
    assert len(first.json()["releases"].splitlines()) == len(MANY)
    again = fresh.privatize(MANY)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(fresh.charges()) == 1
    certificate = json.loads(first.json()["certificate"])
    assert fresh.charges()[0].release == certificate["sha256"]
    other = fresh.privatize(MANY, "second-call")
    assert other.status_code == 200
    assert len(fresh.charges()) == 2
    outputs = []
    for each in (first.json(), other.json()):  # side by side
        outputs.append(json.loads(each["certificate"])["output"])
        (tmp_path / outputs[-1]).write_text(each["releases"])
        (tmp_path / f"{outputs[-1]}.guarantee.json").write_text(each["certificate"])
        assert outputs[-1] in each["words"]
    assert outputs == ["releases-1.jsonl", "releases-2.jsonl"]
    for each in outputs:
        verify(tmp_path / f"{each}.guarantee.json", ledger=fresh.ledger)


def test_an_idempotency_key_is_needed_and_names_one_payload(fresh: Served) -> None:
    assert told(fresh.privatize(FEW, None))["type"] == "urn:dptext:idempotency-key"
    assert told(fresh.privatize(FEW, "short"))["status"] == 400
    assert fresh.privatize(FEW).status_code == 200
    assert told(fresh.privatize(FEW[:2]))["type"] == "urn:dptext:idempotency-key-reused"
    assert len(fresh.charges()) == 1


def test_a_body_of_many_faults_is_refused_at_the_first(fresh: Served) -> None:
    """A list of all would be longer than the body, and hold everybody up meanwhile."""
    many = [{"records": [1] * 1_000}, {"records": FEW, **{f"field{i}": 1 for i in range(1_000)}},
            {"records": [{"text": "secret", **{f"secret{i}": 1 for i in range(1_000)}}]},
            {"records": [{"text": "so"}] * 100_001}]  # fmt: skip
    for body in many:
        answer = fresh.client.post(
            "/v1/models/labels/privatize", json=body, headers=fresh.headers(None, "a-key-of-its-own")
        )
        assert answer.status_code == 422
        assert len(answer.json()["errors"]) == 1
        assert len(answer.content) < 1_000
        assert "secret" not in answer.text
    assert not fresh.charges()


def test_an_attempt_whose_time_is_over_is_still_seen(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a model that takes longer than the lease would never answer: each retry would throw away the one before."""
    store, begin, begun, other = Attempt.store, StoredAnswers.attempt, [], []

    def noted(self, *given):
        begun.append(given)
        return begin(self, *given)

    def slow(self, *given):
        if not other:
            fresh.gate.store.write(ANSWERS.update().values(lease=0.0))
            other.append(fresh.gate.answers.attempt(*begun[0]))
        return store(self, *given)

    monkeypatch.setattr(StoredAnswers, "attempt", noted)
    monkeypatch.setattr(Attempt, "store", slow)
    first = fresh.privatize(FEW)
    assert first.status_code == 200
    assert other[0].store(b"another draw", "0", Event("nobody", "released", "reviews")).answer == first.content
    assert len(fresh.charges()) == 1


def test_in_flight_and_taken_over(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others hear 409; an attempt whose time is over is taken over; it gets the stored answer when it comes late."""
    store, seen = Attempt.store, []

    def slow(self, *given):
        if not seen:
            seen.append("first")
            refused = fresh.privatize(MANY)
            assert told(refused)["type"] == "urn:dptext:in-flight"
            assert refused.headers["Retry-After"] == "2"  # not a lease of a minute
            fresh.gate.store.write(ANSWERS.update().values(lease=0.0))  # its time is over
            seen.append(fresh.privatize(MANY))
        return store(self, *given)

    monkeypatch.setattr(Attempt, "store", slow)
    late = fresh.privatize(MANY)
    assert seen[1].status_code == 200
    assert late.content == seen[1].content  # its own draw was thrown away
    assert len(fresh.charges()) == 1


def test_an_attempt_that_fails_after_the_charge_can_be_tried_again(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_, **__):
        raise RuntimeError("secret 1")

    monkeypatch.setattr("dptext_gateway.work.privatize", fails)
    # a handler of its own: another test may have left one that holds another stderr
    handler = logging.StreamHandler(logged := io.StringIO())
    logging.getLogger().addHandler(handler)
    try:
        failed = fresh.privatize(FEW)
    finally:
        logging.getLogger().removeHandler(handler)
    assert told(failed)["status"] == 503
    assert failed.headers["cache-control"] == "no-store"
    assert "RuntimeError" in logged.getvalue()
    assert "secret" not in logged.getvalue()
    assert len(fresh.charges()) == 1
    monkeypatch.undo()
    assert fresh.privatize(FEW).status_code == 200
    assert len(fresh.charges()) == 1


def test_an_expired_answer_is_never_drawn_anew_for_its_charge(fresh: Served) -> None:
    assert fresh.privatize(FEW).status_code == 200
    fresh.gate.store.write(ANSWERS.update().values(expires=0.0))
    fresh.gate.answers.sweep()
    for rows_of_other in (FEW, FEW[:1]):
        gone = fresh.privatize(rows_of_other)
        assert (told(gone)["status"], told(gone)["type"]) == (410, "urn:dptext:answer-expired")
        assert "spent" in told(gone)["detail"]
        assert "gateway" not in gone.text
    assert len(fresh.charges()) == 1


def test_an_answer_that_was_stored_meanwhile_is_not_called_expired(fresh: Served) -> None:
    begin, key = fresh.gate.answers.attempt, fresh.gate.keys.find(fresh.key)
    late = begin(key, "first-call", b"payload")
    assert begin(key, "second-call", b"payload").spent().kind == "answer-expired"
    late.store(b"answer", "0", Event("nobody", "released", "reviews"))
    assert late.spent().kind == "in-flight"


def test_a_stored_answer_outlives_its_model_and_the_limits(tmp_path: Path) -> None:
    with served(tmp_path) as gateway:
        first = gateway.privatize(FEW)
        (tmp_path / "models" / "labels").rename(tmp_path / "gone")
        gateway.gate.settings = replace(gateway.gate.settings, max_records=1)
        assert gateway.privatize(FEW).content == first.content
        assert told(gateway.privatize(FEW[:2]))["type"] == "urn:dptext:idempotency-key-reused"
        narrow = gateway.gate.keys.create("narrow", account="reviews", scopes=("privatize",), models=("topics",))
        assert told(gateway.privatize(FEW, key=narrow))["type"] == "urn:dptext:no-model"
        assert told(gateway.privatize(FEW[:1], "another-call"))["type"] == "urn:dptext:no-model"
        (tmp_path / "gone").rename(tmp_path / "models" / "labels")
        assert told(gateway.privatize(FEW, "another-call"))["type"] == "urn:dptext:too-many"
        assert gateway.privatize(FEW[:1], "another-call").status_code == 200  # what was refused left its key free
        assert len(gateway.charges()) == 2


def test_budget_exhausted_says_asked_left_missing(tmp_path: Path) -> None:
    with served(tmp_path, epsilon=5.0) as gateway:
        assert gateway.privatize(FEW, "call-number-1").status_code == 200
        assert gateway.privatize(FEW, "call-number-2").status_code == 200
        refused = told(gateway.privatize(FEW, "call-number-3"))
        assert refused["type"] == "urn:dptext:budget-exhausted"
        assert (refused["asked"], refused["left"], refused["missing"]) == ("2", "1", "1")
        assert len(gateway.charges()) == 2
        price = gateway.client.get("/v1/models/labels/cost", headers=gateway.headers())
        assert told(price)["type"] == "urn:dptext:budget-exhausted"


def test_what_it_would_cost_charges_nothing(fresh: Served) -> None:
    found = fresh.client.get("/v1/models/labels/cost", headers=fresh.headers()).json()
    assert found["epsilon"] == "2"
    assert "spent 0 of 50" in found["balance_in_words"]
    assert fresh.charges() == []


def test_a_cost_above_what_is_left_says_why_it_can_be_paid(tmp_path: Path) -> None:
    with served(tmp_path, epsilon=3.5) as gateway:
        add_summary(tmp_path / "models", settings=SUMMARY.replace("epsilon = 5.0", "epsilon = 2.0"))

        def words() -> str:
            found = gateway.client.get("/v1/models/inbox/cost", headers=gateway.headers()).json()
            return str(found["balance_in_words"])

        assert "do not simply add up" not in words()
        done = gateway.ended(gateway.job(inbox().encode(), path="/v1/synthesize", model="inbox").json()["id"])
        assert done["state"] == "done", done
        assert words().endswith("It can be paid all the same: at a delta above 0 costs do not simply add up.")
        again = gateway.job(inbox().encode(), "second-job", path="/v1/synthesize", model="inbox")
        assert gateway.ended(again.json()["id"])["state"] == "done"


def test_nobody_in_who_does_not_belong(gateway: Served) -> None:
    keys = gateway.gate.keys
    expired = keys.create("old", account="reviews", scopes=("privatize",), days=1e-9)
    revoked = keys.create("gone", account="reviews", scopes=("privatize",))
    keys.revoke(revoked.split("_")[1])
    other = gateway.key[:-1] + ("a" if gateway.key[-1] != "a" else "b")
    for bad in ("", "nonsense", other, expired, revoked, gateway.key.replace("dptext", "DPTEXT")):
        answer = gateway.client.get("/v1/models", headers={"Authorization": f"Bearer {bad}"})
        assert told(answer)["status"] == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert told(gateway.client.get("/v1/models"))["status"] == 401
    assert told(gateway.client.get("/v1/models", headers={"Authorization": "Basic x"}))["status"] == 401
    narrow = keys.create("narrow", account="reviews", scopes=("privatize",), models=("other",))
    assert gateway.client.get("/v1/models", headers=gateway.headers(narrow)).json() == []
    assert told(gateway.privatize(FEW, "narrow-call", key=narrow))["type"] == "urn:dptext:no-model"
    for path in ("/v1/accounts", "/metrics", "/v1/jobs/x", "/v1/events"):
        assert told(gateway.client.get(path, headers=gateway.headers(narrow)))["type"] == "urn:dptext:scope"
    assert (
        told(gateway.client.post("/v1/accounts", json={"name": "x", "epsilon": 1}, headers=gateway.headers()))["status"]
        == 403
    )
    assert told(gateway.privatize(FEW, "admin-call", key=gateway.admin))["type"] == "urn:dptext:scope"


def test_keys_are_kept_as_keyed_hashes_and_rotate(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = gateway.gate.keys
    made = keys.create("turning", account="reviews", scopes=("privatize",))
    prefix, random = made.split("_", 2)[1:]
    row = gateway.gate.store.one(sa.select(KEYS).where(KEYS.c.prefix == prefix))
    assert random not in str(row)
    assert hashlib.sha256(random.encode()).hexdigest() != row.hash
    compared: list[str] = []
    with monkeypatch.context() as spied:
        spied.setattr(hmac, "compare_digest", lambda a, b: compared.append(a) or a == b)
        assert keys.find(made) is not None
        assert keys.find(made.replace(prefix, "0" * 12)) is None
    assert compared == [row.hash, "0" * 64]  # in constant time, of an unknown key, too
    new = keys.rotate(prefix, days=0)
    assert keys.find(made) is None
    assert keys.find(new).scopes == frozenset({"privatize"})
    assert all("hash" not in each for each in keys.listed())
    assert stat.S_IMODE((gateway.folder / "gateway.key").stat().st_mode) == 0o600


def test_accounts_are_seen_by_whom_they_concern(gateway: Served) -> None:
    opened = {"name": "other", "epsilon": 3.0, "unit": "author"}
    found = gateway.client.post("/v1/accounts", json=opened, headers=gateway.headers(gateway.admin))
    assert found.status_code == 201
    assert (found.json()["spent"], found.json()["left"]) == ("0", "3")
    everything = gateway.client.get("/v1/accounts", headers=gateway.headers(gateway.admin)).json()
    assert {each["name"] for each in everything} == {"reviews", "other"}
    own = gateway.client.get("/v1/accounts", headers=gateway.headers()).json()
    assert [each["name"] for each in own] == ["reviews"]
    assert told(gateway.client.get("/v1/accounts/other", headers=gateway.headers()))["status"] == 404
    gateway.privatize(FEW, "for-the-log")
    log = gateway.client.get("/v1/accounts/reviews", headers=gateway.headers()).json()["log"]
    assert (log[0]["kind"], log[0]["epsilon"]) == ("label_only", "2")
    assert log[0]["release_mark"]


def test_a_file_is_a_job(fresh: Served, tmp_path: Path) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows(300)).encode()
    first = fresh.job(data)
    assert first.status_code == 202, first.text
    name = first.json()["id"]
    assert first.headers["Location"] == f"/v1/jobs/{name}"
    done = fresh.ended(name)
    assert (done["state"], done["problem"]) == ("done", None)
    result = fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers())
    assert len(result.content.splitlines()) == 300
    assert b"secret" not in result.content
    certificate = fresh.client.get(f"/v1/jobs/{name}/certificate", headers=fresh.headers())
    for each, output in ((result, "result-1.jsonl"), (certificate, "result-1.jsonl.guarantee.json")):
        assert each.headers["Content-Disposition"] == f'attachment; filename="{output}"'
        (tmp_path / output).write_bytes(each.content)
    verify(tmp_path / "result-1.jsonl.guarantee.json", ledger=fresh.ledger)
    again = fresh.job(data)
    assert (again.status_code, again.json()["id"]) == (200, name)
    assert told(fresh.job(data + data))["type"] == "urn:dptext:idempotency-key-reused"
    assert told(fresh.job(data, id_field="id"))["type"] == "urn:dptext:idempotency-key-reused"
    assert len(fresh.charges()) == 1
    events = fresh.client.get(f"/v1/jobs/{name}/events", headers=fresh.headers())
    assert json.loads(events.text.removeprefix("data: "))["state"] == "done"
    folders = list((tmp_path / "spool").glob("*-*"))
    assert len(folders) == 1  # no upload is left, and the private file is gone
    assert {path.name for path in folders[0].iterdir()} == {"result.jsonl", "result.jsonl.guarantee.json"}
    assert stat.S_IMODE(folders[0].stat().st_mode) == 0o700
    second = fresh.job(data, "the-same-file-again").json()["id"]
    assert second != name
    assert fresh.ended(second)["state"] == "done"
    assert len(fresh.charges()) == 2
    for account, models in (("other", ()), ("reviews", ("topics",))):
        other = fresh.gate.keys.create("else", account=account, scopes=("jobs",), models=models)
        assert told(fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers(other)))["type"] == "urn:dptext:no-job"
    fresh.gate.store.write(JOBS.update().values(expires=0.0))
    fresh.gate.worker.sweep()
    assert list((tmp_path / "spool").glob("*-*")) == []
    assert fresh.ended(name)["state"] == "expired"


def test_a_file_that_cannot_be_read_costs_nothing(fresh: Served, tmp_path: Path) -> None:
    good = "".join(json.dumps(row) + "\n" for row in rows(10))
    name = fresh.job((good + "{secret\n").encode()).json()["id"]
    failed = fresh.ended(name)
    assert failed["state"] == "failed"
    assert failed["problem"].startswith("the file, record 11")
    assert "secret" not in failed["problem"]
    assert failed["problem"].endswith("Nothing was charged.")
    assert list((tmp_path / "spool").glob("*-*")) == []
    for what in ("result", "certificate", "words"):
        gone = fresh.client.get(f"/v1/jobs/{name}/{what}", headers=fresh.headers())
        assert told(gone)["type"] == "urn:dptext:no-result"
        assert gone.status_code == 410
        assert "Retry-After" not in gone.headers


def test_words_about_a_file_go_to_the_key_that_sent_it(fresh: Served) -> None:
    other = fresh.gate.keys.create("else", account="reviews", scopes=("jobs",))
    good = [json.dumps(row) + "\n" for row in rows(10)]
    for kind, data in (("equal-texts", [*good, good[4]]), ("data", [*good, "{secret\n"])):
        name = fresh.job("".join(data).encode(), f"job-{kind}").json()["id"]
        assert "record 11" in fresh.ended(name)["problem"]
        said = f"It failed ({kind}). The key that sent the file is told why. Nothing was charged."
        for key in (other, fresh.admin):
            assert fresh.client.get(f"/v1/jobs/{name}", headers=fresh.headers(key)).json()["problem"] == said
        assert fresh.client.get("/v1/jobs", headers=fresh.headers(other)).json()[0]["problem"] == said
        assert "record 11" in fresh.client.get("/v1/jobs", headers=fresh.headers()).json()[0]["problem"]
        assert "record 11" not in fresh.client.get("/v1/jobs", headers=fresh.headers(other)).text


@pytest.mark.parametrize("later", [False, True])
def test_a_byte_that_is_not_utf8_is_said_to_be_one(fresh: Served, later: bool) -> None:
    """The record and the fault, and nothing of columns; the encoding that the texts seem to have is not said."""
    before = [json.dumps(row) + "\n" for row in rows(2_000 if later else 0)]
    data = "".join(before).encode() + b'{"text": "secret caf\xe9 cr\xe8me", "label": "travel"}\n'
    problem = fresh.ended(fresh.job(data).json()["id"])["problem"]
    assert problem.startswith(f"the file, record {len(before) + 1}: ")
    assert "UTF-8" in problem
    assert problem.endswith("Nothing was charged.")
    assert not re.search("secret|caf|cp1|column|encoding|text_field|--", problem), problem


def test_a_job_is_cancelled(fresh: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = worker.privatize_file

    def slow(*given, on_progress, **more):
        def told(done):
            time.sleep(0.1)
            on_progress(done)

        return run(*given, on_progress=told, **more)

    monkeypatch.setattr(worker, "privatize_file", slow)
    data = "".join(json.dumps(row) + "\n" for row in rows(5_000)).encode()
    name = fresh.job(data).json()["id"]
    while not fresh.charges():
        time.sleep(0.02)
    fresh.client.delete(f"/v1/jobs/{name}", headers=fresh.headers())
    found = fresh.ended(name)
    assert found["state"] == "cancelled"
    assert "Charge 1 stays charged" in found["problem"]
    assert list((tmp_path / "spool").glob("*-*")) == []


def test_files_of_a_job_that_is_done_can_be_deleted(fresh: Served, tmp_path: Path) -> None:
    """They make room; the charge stays, and the idempotency key draws nothing anew."""
    data = b'{"text": "secret", "label": "travel"}\n'
    asked = fresh.job(data, "delete-it-later")
    name = asked.json()["id"]
    assert fresh.ended(name)["state"] == "done"
    for _ in range(2):
        found = fresh.client.delete(f"/v1/jobs/{name}", headers=fresh.headers()).json()
        assert (found["state"], found["problem"]) == ("expired", "Its files were deleted.")
    assert list((tmp_path / "spool").glob("*-*")) == []
    assert told(fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers()))["type"] == "urn:dptext:no-result"
    assert fresh.job(data, "delete-it-later").json()["state"] == "expired"
    assert len(fresh.charges()) == 1
    assert [each["event"] for each in fresh.gate.store.events(None, 9)].count("job deleted") == 1


def test_a_job_of_others_is_not_there_on_any_route(fresh: Served) -> None:
    mine = fresh.job(b'{"text": "secret", "label": "travel"}\n').json()["id"]
    assert fresh.ended(mine)["state"] == "done"
    scopes = ("privatize", "jobs", "synthesize", "accounts")
    other = fresh.headers(fresh.gate.keys.create("else", account="other", scopes=scopes))
    for path in ("", "/events", "/result", "/certificate", "/words", "/legal"):
        assert told(fresh.client.get(f"/v1/jobs/{mine}{path}", headers=other))["type"] == "urn:dptext:no-job"
    for path in (f"/v1/topics/{mine}", f"/v1/summaries/{mine}"):
        assert told(fresh.client.get(path, headers=other))["type"] == "urn:dptext:no-job"
    assert told(fresh.client.delete(f"/v1/jobs/{mine}", headers=other))["type"] == "urn:dptext:no-job"
    assert {each["account"] for each in fresh.client.get("/v1/events", headers=other).json()} == {"other"}
    assert {each["account"] for each in fresh.client.get("/v1/events", headers=fresh.headers()).json()} == {"reviews"}
    assert stat.S_IMODE((fresh.folder / "spool").stat().st_mode) == 0o700


def test_idempotency_keys_are_of_one_account(fresh: Served) -> None:
    limit = Guarantee(50.0, 1e-5, Unit.DOCUMENT, Relation.REPLACE_ONE)
    fresh.ledger.open_account("second", limit)
    other = fresh.gate.keys.create("else", account="second", scopes=("privatize", "jobs"))
    first, second = fresh.privatize(FEW), fresh.privatize(FEW, key=other)
    assert first.status_code == second.status_code == 200
    assert "Idempotent-Replayed" not in second.headers
    data = b'{"text": "secret", "label": "travel"}\n'
    mine = fresh.job(data).json()["id"]
    query = {"model": "labels", "label_field": "label"}
    theirs = fresh.client.post("/v1/jobs", params=query, content=data, headers=fresh.headers(other, "first-job"))
    assert (theirs.status_code, theirs.json()["id"] != mine) == (202, True)
    while len(fresh.charges()) + len(list(fresh.ledger.log("second"))) < 4:
        time.sleep(0.02)
    assert len(fresh.charges()) == 2


def test_a_rotated_key_may_no_more_than_before(gateway: Served) -> None:
    keys = gateway.gate.keys
    made = keys.create("bound", account="reviews", scopes=("jobs",), models=("topics",), days=5)
    found = keys.find(keys.rotate(made.split("_")[1], days=0))
    assert (found.account, found.scopes, found.models) == ("reviews", {"jobs"}, {"topics"})
    listed = [each for each in keys.listed() if each["prefix"] == found.prefix]
    assert listed[0]["expires"] == pytest.approx(time.time() + 5 * 86_400, abs=60)


def test_each_purpose_has_a_key_of_its_own(gateway: Served) -> None:
    secret = gateway.gate.answers.secret
    assert len({secret.mac(purpose, b"x") for purpose in ("key", "answer", "payload", "job", "seal")}) == 5
    with pytest.raises(InvalidTag):
        secret.opened(secret.seal(b"answer", "here"), "there")


def test_fields_that_nobody_knows_are_refused(gateway: Served) -> None:
    known = {"records": [{"text": "secret", "label": "travel"}]}
    for body in ({**known, "force": True}, {"records": [{**known["records"][0], "secret": "x"}]}):
        found = gateway.client.post("/v1/models/labels/privatize", json=body, headers=gateway.headers())
        assert told(found)["type"] == "urn:dptext:invalid"


def test_parameters_that_nobody_knows_are_refused(fresh: Served) -> None:
    """A misspelt one would be paid for."""
    refused = told(fresh.job(b'{"text": "secret", "label": "travel"}\n', label_feild="label"))
    assert refused["type"] == "urn:dptext:parameter"
    assert "label_field, max_per_author, model" in refused["detail"]
    for path in ("/v1/models/labels/cost?max_per_autor=5", "/v1/jobs?secret=1", "/v1/synthesize?id_field=id"):
        method = "POST" if "synth" in path else "GET"
        found = fresh.client.request(method, path, headers=fresh.headers())
        assert (found.status_code, told(found)["type"]) == (422, "urn:dptext:parameter")
        assert "secret" not in found.text
    assert fresh.client.get("/healthz?from=balancer").status_code == 200
    assert fresh.charges() == []
    assert list((fresh.folder / "spool").glob("*-*")) == []


def test_what_is_wrong_is_named(gateway: Served) -> None:
    headers = gateway.headers()
    missing = told(gateway.client.post("/v1/jobs", content=b"x", headers=headers))
    assert missing["detail"].startswith("model is missing")
    few = [*FEW[:2], {"text": 5}]
    form = told(gateway.client.post("/v1/models/labels/privatize", json={"records": few}, headers=headers))
    assert form["detail"].startswith("text of records[2] is no text in quotes.")
    assert form["errors"] == [{"in": "body", "kind": "string_type", "name": "text", "record": 2}]
    odd = {"records": [FEW[0], {**FEW[1], "secret": 1}]}
    form = told(gateway.client.post("/v1/models/labels/privatize", json=odd, headers=headers))
    assert form["detail"].startswith("records[1] is missing, or has not the form")
    assert (form["errors"][0]["name"], form["errors"][0]["record"]) == (None, 1)
    form = told(gateway.client.post("/v1/models/labels/privatize", json={"records": "secret"}, headers=headers))
    assert form["errors"] == [{"in": "body", "kind": "list_type", "name": "records"}]
    odd = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    for kind, body in ((odd, b'{"records": []}'), ({**headers, "Content-Type": "application/json"}, b"{")):
        found = told(gateway.client.post("/v1/models/labels/privatize", content=body, headers=kind))
        assert found["detail"] == "Expected a body of JSON, and the header Content-Type: application/json."


def test_jobs_are_listed_for_keys_that_may_see_them(fresh: Served) -> None:
    found = fresh.job(b'{"text": "secret", "label": "travel"}\n').json()
    fresh.ended(found["id"])

    def listed(**more: object) -> list[str]:
        key = fresh.gate.keys.create("one", **{"account": "reviews", "scopes": ("jobs",), **more})
        return [each["id"] for each in fresh.client.get("/v1/jobs", headers=fresh.headers(key)).json()]

    second = fresh.job(b'{"text": "secret", "label": "travel"}\n', "second-job").json()["id"]
    assert listed() == listed(models=("labels",)) == [second, found["id"]]
    assert listed(scopes=("synthesize",)) == listed(models=("topics",)) == listed(account="other") == []
    fresh.ended(second)
    state = fresh.client.get("/v1/jobs", headers=fresh.headers()).json()[0]
    assert (state["state"], state["model"], time.time() - state["created"] < 60) == ("done", "labels", True)


def test_numbers_of_events_are_for_administrators(fresh: Served) -> None:
    """They count what other accounts do, too."""
    fresh.privatize(FEW)
    for key, known in ((fresh.key, False), (fresh.admin, True)):
        events = fresh.client.get("/v1/events", headers=fresh.headers(key)).json()
        assert events
        assert all((each["number"] is not None) is known for each in events)


def test_the_audit_log_says_what_was_given_again_downloaded_and_refused(tmp_path: Path) -> None:
    with served(tmp_path, epsilon=5.0) as gateway:
        gateway.privatize(FEW)
        gateway.privatize(FEW)
        name = gateway.job(b'{"text": "secret", "label": "travel"}\n').json()["id"]
        assert gateway.ended(name)["state"] == "done"
        for what in ("result", "certificate", "words"):
            gateway.client.get(f"/v1/jobs/{name}/{what}", headers=gateway.headers())
        assert gateway.privatize(FEW, "no-budget-for-it").status_code == 403
        events = gateway.client.get("/v1/events", headers=gateway.headers()).json()
        shas = [row.result_sha256 for row in gateway.gate.store.rows(sa.select(ANSWERS))]
        assert [(each["event"], each["model"], each["charge"]) for each in events[::-1]][1:] == [
            ("released", "labels", 1),
            ("answer given again", "labels", None),
            ("job queued", "labels", None),
            ("job done", "labels", 2),
            ("result downloaded", "labels", 2),
            ("certificate downloaded", "labels", 2),
            ("refused: budget", "labels", None),
        ]
        assert [events[::-1][2]["result_sha256"]] == shas
        assert {each["who"] for each in events[:3]} == {f"team ({gateway.key.split('_')[1]})"}


def test_administrators_page_through_the_audit_log(fresh: Served) -> None:
    for _ in range(3):
        fresh.privatize(FEW)
    boss = fresh.headers(fresh.admin)
    every = fresh.client.get("/v1/events", headers=boss).json()
    pages = [fresh.client.get("/v1/events?last=2", headers=boss).json()]
    while pages[-1]:
        query = {"last": 2, "before": pages[-1][-1]["number"]}
        pages.append(fresh.client.get("/v1/events", params=query, headers=boss).json())
    assert [each for page in pages for each in page] == every
    assert told(fresh.client.get("/v1/events?before=2", headers=fresh.headers()))["type"] == "urn:dptext:scope"


def test_an_account_with_a_slash_is_found(fresh: Served) -> None:
    body = {"name": "a/b", "epsilon": 1.0}
    assert fresh.client.post("/v1/accounts", json=body, headers=fresh.headers(fresh.admin)).status_code == 201
    assert fresh.client.get("/v1/accounts/a%2Fb", headers=fresh.headers(fresh.admin)).json()["name"] == "a/b"


@pytest.mark.parametrize("scope", SCOPES)
def test_every_key_is_told_what_it_may(gateway: Served, scope: str) -> None:
    account = None if scope in ("metrics", "admin") else "reviews"
    headers = gateway.headers(gateway.gate.keys.create("one", account=account, scopes=(scope,)))
    own = {"name": "one", "account": account, "unit": account and "document", "scopes": [scope]}
    own["max_file"] = 2_000_000_000
    assert gateway.client.get("/v1/key", headers=headers).json() == own
    releasing = scope in ("privatize", "jobs", "synthesize")  # whoever releases sees what it costs
    for path in ("/v1/models", "/v1/models/labels", "/v1/models/labels/cost"):
        assert gateway.client.get(path, headers=headers).status_code == (200 if releasing else 403)
    seeing = scope in ("accounts", "admin")
    assert gateway.client.get("/v1/accounts/reviews", headers=headers).status_code == (200 if seeing else 403)


def test_scopes_of_files(gateway: Served) -> None:
    few = gateway.gate.keys.create("few", account="reviews", scopes=("privatize",))
    for path, model in (("/v1/jobs", "labels"), ("/v1/synthesize", "topics")):
        found = gateway.client.post(path, params={"model": model}, content=b"{}", headers=gateway.headers(few))
        assert told(found)["type"] == "urn:dptext:scope"


def test_the_input_of_a_job_is_its_owners(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    run = worker.privatize_file

    def seen(source: Path, *given: object, **more: object) -> object:
        modes.append(stat.S_IMODE(source.stat().st_mode))
        return run(source, *given, **more)

    monkeypatch.setattr(worker, "privatize_file", seen)
    assert fresh.ended(fresh.job(b'{"text": "secret", "label": "travel"}\n').json()["id"])["state"] == "done"
    assert modes == [0o600]


def test_bytes_of_a_minute(tmp_path: Path) -> None:
    with served(tmp_path, bytes_a_minute=4_000) as gateway:
        rows = [{"text": "x" * 2_500, "label": "travel"}]
        assert gateway.privatize(rows, "first-of-two").status_code == 200
        refused = gateway.privatize(rows, "second-of-two")
        assert told(refused)["type"] == "urn:dptext:rate"
        assert int(refused.headers["Retry-After"]) > 1


def test_a_refused_request_takes_nothing_and_who_waits_as_told_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    rates = limits.Rates(requests=60, size=6_000)
    rates.take("one", 5_000, requests=1)
    for _ in range(3):
        with pytest.raises(Problem) as refused:
            rates.take("one", 4_000, requests=1)
        assert refused.value.headers == {"Retry-After": "30"}  # 1,000 bytes are left, and 100 come each second
    rates.take("two", 4_000, requests=1)
    seconds[0] = 30.0
    rates.take("one", 4_000, requests=1)


def test_what_was_cancelled_is_not_shown(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A synthesis that is whole before it is settled, and a job whose database blinks."""
    write = Synthesized.write

    def cancelled(found: Synthesized, path: Path, **given: bool) -> object:
        whole = write(found, path, **given)
        fresh.client.delete(f"/v1/jobs/{path.parent.name.split('-')[1]}", headers=fresh.headers())
        return whole

    monkeypatch.setattr(Synthesized, "write", cancelled)
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.01)
    data = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in sample_records(300)).encode()
    name = fresh.job(data, path="/v1/synthesize", model="topics").json()["id"]
    assert fresh.ended(name)["state"] == "cancelled"
    assert fresh.charges()[0].release is None

    privatize_file, first = worker.privatize_file, iter([True])

    def blinks(source: Path, *given: Any, **more: Any) -> object:
        if not next(first, False):
            return privatize_file(source, *given, **more)
        fresh.client.delete(f"/v1/jobs/{source.parent.name.split('-')[1]}", headers=fresh.headers())
        raise LedgerError("The database went away.")

    monkeypatch.setattr(worker, "privatize_file", blinks)
    name = fresh.job(b'{"text": "secret", "label": "travel"}\n', "second-job").json()["id"]
    assert fresh.ended(name)["state"] == "cancelled"
    fresh.job(b'{"text": "secret", "label": "travel"}\n', "second-job")  # of a job that ended no file is kept
    assert list((fresh.folder / "spool").glob("*-*")) == []


def test_a_sweep_leaves_what_may_become_a_job(fresh: Served) -> None:
    """An upload that takes longer than a pause may, and a folder whose row is just being written."""
    fresh.gate.worker.close()
    spool, long_ago = fresh.folder / "spool", time.time() - 10_000
    for name, file_age in (("upload-going-on", time.time()), ("upload-dead", long_ago), ("job-new", time.time())):
        (spool / name).mkdir()
        (spool / name / "input").write_bytes(b"secret")
        os.utime(spool / name / "input", (file_age, file_age))
        os.utime(spool / name, (long_ago, long_ago))
    fresh.gate.worker.sweep()
    assert {path.name for path in spool.glob("*-*")} == {"upload-going-on", "job-new"}


def test_a_ledger_that_fails_for_a_while_is_told_and_costs_nothing(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: object, **more: object) -> None:
        raise LedgerError("The database went away.")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", away)
        answer = fresh.privatize(FEW)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:dptext:ledger")
    assert fresh.privatize(FEW).status_code == 200
    assert len(fresh.charges()) == 1


def test_a_job_that_waits_for_its_database_is_not_called_unpaid(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*given: object, payment: Payment, **more: object) -> None:
        payment.ledger.charge("reviews", request, key=payment.key)
        raise LedgerError("The database went away.")

    assert fresh.privatize(FEW).status_code == 200
    request = fresh.charges()[0].request
    monkeypatch.setattr(worker, "privatize_file", away)
    name = fresh.job(b'{"text": "secret", "label": "travel"}\n').json()["id"]
    while len(fresh.charges()) < 2 or fresh.gate.jobs.row(name).state != "queued":
        time.sleep(0.01)
    fresh.client.delete(f"/v1/jobs/{name}", headers=fresh.headers())
    assert fresh.ended(name)["problem"] == "Cancelled. Charge 2 stays charged; nothing became visible."


def test_nobody_is_connected_to(fresh: Served) -> None:
    """A release, a job and a synthesis ask no other server for anything; the ledger here is a file."""
    asked: list[tuple[str, object]] = []

    def heard(event: str, given: tuple[object, ...]) -> None:  # it cannot be taken away again
        if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
            asked.append((event, given[-1]))

    sys.addaudithook(heard)
    assert fresh.privatize(FEW).status_code == 200
    each = {e.text: {"text": e.text, "label": e.label} for e in sample_records(300)}
    data = "".join(json.dumps(one) + "\n" for one in each.values()).encode()
    for path, model in (("/v1/jobs", "labels"), ("/v1/synthesize", "topics")):
        assert fresh.ended(fresh.job(data, f"job-of-{model}", path, model=model).json()["id"])["state"] == "done"
    assert asked == []
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as own:
        own.connect(there.getsockname())
    assert len(asked) == 1  # it does hear


def test_a_missing_author_is_named_as_the_call_names_it(fresh: Served) -> None:
    fresh.ledger.open_account("people", Guarantee(50.0, 1e-5, Unit.AUTHOR, Relation.REPLACE_ONE))
    key = fresh.gate.keys.create("people", account="people", scopes=("privatize",))
    said = told(fresh.privatize(FEW, key=key))["detail"]
    assert said.endswith("max_per_author, and author in each record (author_field of a file).")


def test_a_synthesis_is_a_job_with_topics(fresh: Served) -> None:
    assert told(fresh.job(b"{}", model="topics"))["type"] == "urn:dptext:synthesis"
    data = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in sample_records(300)).encode()
    name = fresh.job(data, path="/v1/synthesize", model="topics").json()["id"]
    done = fresh.ended(name)
    assert (done["state"], done["problem"]) == ("done", None)
    assert len(fresh.charges()) == 1
    alone = fresh.headers(fresh.gate.keys.create("alone", account="reviews", scopes=("synthesize",)))
    for what, output in (("result", "result-1.json"), ("certificate", "result-1.json.guarantee.json")):
        (fresh.folder / output).write_bytes(fresh.client.get(f"/v1/jobs/{name}/{what}", headers=alone).content)
    verify(fresh.folder / "result-1.json.guarantee.json", ledger=fresh.ledger)
    topics = fresh.client.get(f"/v1/topics/{name}", headers=alone).json()
    assert topics["labels"]
    (warning,) = topics["warnings"]
    assert warning.startswith("About 5,000 documents were announced (about), and the noisy number of documents is ")
    page = fresh.client.get(f"/v1/topics/{name}?format=html", headers=alone)
    assert page.text.startswith("<!doctype html>")
    assert page.headers["content-disposition"] == 'attachment; filename="result-1.json.topics.html"'
    assert "style-src 'self'" in page.headers["content-security-policy"]
    assert told(fresh.client.get(f"/v1/topics/{name}?format=pdf", headers=alone))["status"] == 422
    assert told(fresh.client.get(f"/v1/jobs/{name[::-1]}", headers=fresh.headers()))["status"] == 404


#: The synthesis of a table, whose columns the operator declares.
TICKETS = """
kind = "summary"
encoder = "glove"
about = 300
epsilon = 5.0
relation = "replace_one"

[columns]
topic = "health|travel|money|leisure"
"amount?" = "0..99 by 20"
"""


def test_a_table_is_measured_as_a_job_and_rows_are_written_from_the_summary(fresh: Served) -> None:
    models = fresh.folder / "models"
    shutil.copytree(models / "topics", models / "tickets")
    (models / "tickets" / "synthesis.toml").write_text(TICKETS)
    rows = [{"text": e.text, "topic": e.label, "amount": i % 80 or None} for i, e in enumerate(sample_records(300))]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()

    def asked(content: bytes, idempotency: str) -> str:
        headers = fresh.headers(None, idempotency)
        answer = fresh.client.post("/v1/synthesize?model=tickets", content=content, headers=headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    done = fresh.ended(name := asked(data, "whole-table"))
    assert (done["state"], done["problem"]) == ("done", None)
    taken = fresh.folder / "result-1.summary"
    for what, path in (("result", taken), ("certificate", certificate_path(taken))):
        path.write_bytes(fresh.client.get(f"/v1/jobs/{name}/{what}", headers=fresh.headers()).content)
    written = dp.write(taken, size=400, seed=1)
    topics = [each.kept["topic"] for each in written.releases]
    assert max(abs(topics.count(topic) - 100) for topic in ("health", "travel", "money", "leisure")) < 50
    assert [each["name"] for each in fresh.client.get(f"/v1/topics/{name}", headers=fresh.headers()).json()["columns"]]
    lacking = fresh.ended(asked(b'{"text": "so", "amount": 3}\n', "lacking-column"))
    assert lacking["state"] == "failed"
    assert "column" in lacking["problem"]
    assert len(fresh.charges()) == 1  # that job cost nothing


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])  # one side stays
def test_a_synthesis_that_dies_beside_its_settling_is_seen_once(
    fresh: Served, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What lay there whole is what is shown, under the one charge that is settled with it."""
    settle, written = Ledger.settle, []

    def dying(ledger: Ledger, *given: str) -> None:
        written.append(next((fresh.folder / "spool").glob("job-*/result.json")).read_bytes())
        if when == "after" or len(written) > 1:
            settle(ledger, *given)
        if len(written) == 1:
            raise LedgerError("The database went away.")

    monkeypatch.setattr(Ledger, "settle", dying)
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.01)
    data = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in sample_records(300)).encode()
    name = fresh.job(data, path="/v1/synthesize", model="topics").json()["id"]
    assert fresh.ended(name)["state"] == "done"
    assert len(written) == 2
    shown = fresh.client.get(f"/v1/jobs/{name}/result", headers=fresh.headers()).content
    assert {*written, shown} == {shown}
    charge = fresh.charges()
    certificate = fresh.client.get(f"/v1/jobs/{name}/certificate", headers=fresh.headers()).json()
    assert [each.release for each in charge] == [f"stream {certificate['charged']['stream']}"]


def test_a_draw_that_a_kill_cut_is_not_left_in_the_spool(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    write, cut = Synthesized.write, []

    def killed(found: Synthesized, path: Path, **given: bool) -> object:
        if not cut:
            cut.append(path.with_name(f".{path.name}.0123abcd.partial"))
            cut[0].write_text("another draw")
            raise LedgerError("It ends here.")
        assert not cut[0].exists()  # it is gone before there is another
        return write(found, path, **given)

    monkeypatch.setattr(Synthesized, "write", killed)
    monkeypatch.setattr(worker, "RETRY_SECONDS", 0.01)
    data = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in sample_records(300)).encode()
    assert fresh.ended(fresh.job(data, path="/v1/synthesize", model="topics").json()["id"])["state"] == "done"
    assert {each.suffix for each in cut[0].parent.iterdir()} == {".json", ".html"}
    assert len(fresh.charges()) == 1


def test_sizes_and_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "QUIET_SECONDS", 0.05)
    with served(tmp_path, max_records=5, max_body=2_000, max_file=3_000, requests_a_minute=30) as gateway:
        many = [{"text": "a", "label": "travel"}] * 6
        assert told(gateway.privatize(many, "too-many-records"))["type"] == "urn:dptext:too-many"
        assert told(gateway.privatize([{"text": "x" * 3_000}], "too-many-bytes"))["status"] == 413

        def stream():
            for _ in range(10):
                yield b"x" * 500

        unsaid = gateway.client.post(
            "/v1/jobs",
            params={"model": "labels", "label_field": "label"},
            content=stream(),
            headers=gateway.headers(None, "without-length"),
        )
        assert told(unsaid)["status"] == 413
        packed = gateway.client.post(
            "/v1/jobs",
            params={"model": "labels", "label_field": "label"},
            content=b"x",
            headers=gateway.headers(None, "packed-body", **{"Content-Encoding": "gzip"}),
        )
        assert told(packed)["status"] == 415
        statuses = [gateway.client.get("/v1/models", headers=gateway.headers()).status_code for _ in range(40)]
        assert 429 in statuses
        assert statuses[0] == 200
        assert list((tmp_path / "spool").glob("*-*")) == []


def test_headers_and_health(gateway: Served) -> None:
    for path in ("/healthz", "/readyz", "/", "/v1/models"):
        answer = gateway.client.get(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
    assert gateway.client.get("/readyz").json() == {"status": "ok"}
    metrics = gateway.client.get("/metrics", headers=gateway.headers(gateway.admin))
    assert 'dptext_requests_total{route="/v1/models' in metrics.text
    assert "dptext_waiting 0.0" in metrics.text
    assert 'dptext_jobs{state="queued"} 0.0' in metrics.text
    assert "secret" not in metrics.text


def test_padding_and_steps(tmp_path: Path) -> None:
    with served(tmp_path, pad_bytes=4_096, step_seconds=0.1) as gateway:
        began = time.monotonic()
        found = gateway.privatize(FEW)
        took = time.monotonic() - began
        assert len(found.content) % 4_096 == 0
        assert found.json()["releases"]
        assert took >= 0.1


@pytest.mark.parametrize(
    "body",
    [
        b"secret",
        b"{}",
        b'{"records": "secret"}',
        b'{"records": []}',
        b'{"records": [{"text": 5}]}',
        b'{"records": [{"text": "secret", "more": "secret"}]}',
        b'{"records": [{"text": "secret"}], "delta": 7}',
        b'{"records": [{"text": "secret", "label": "travel"}, {"text": "secret"}]}',
        b'{"records": [{"text": "secret"}]}',
        b'{"records": [{"text": "secret \\ud800", "label": "travel"}]}',
        b'{"records": [{"text": "secret\\u0000", "label": "travel"}]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_validation_never_shows_the_input(gateway: Served, body: bytes) -> None:
    answer = gateway.client.post(
        "/v1/models/labels/privatize",
        content=body,
        headers=gateway.headers(None, f"bad-{hash(body)}", **{"Content-Type": "application/json"}),
    )
    assert 400 <= answer.status_code < 500, answer.text
    told(answer)


def test_no_private_byte_in_the_database_or_the_audit_log(fresh: Served, tmp_path: Path) -> None:
    fresh.privatize([{"text": "zebrafish", "label": "travel", "id": "giraffe"}])
    fresh.job(json.dumps({"text": "zebrafish", "label": "travel"}).encode())
    for path in tmp_path.glob("books.db*"):
        assert b"zebrafish" not in path.read_bytes()
        assert b"giraffe" not in path.read_bytes()  # an id is released, and lies sealed
    events = [row.event for row in fresh.gate.store.rows(sa.select(EVENTS))]
    assert "released" in events
    assert f"key created: team ({fresh.key.split('_')[1]})" in events
