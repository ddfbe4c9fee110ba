"""Faults planted in the gateway: each is caught by a named test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
GATEWAY = TESTS / "unit" / "service"
HEADERS = "                *((name, value) for name, value in HEADERS.items() if name not in there),\n"
FAULTS = {
    "two answers share a charge": (
        "work", "due.charge(attempt.charge_key, None)", 'due.charge("the same", None)',
        "test_a_release_is_charged_once_and_answered_again",
    ),
    "each attempt charges": (
        "answers", 'return f"gateway {name}"', 'return f"gateway {name} {secrets.token_hex(4)}"',
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "it is charged after it was drawn": (
        "work",
        ("        charge = _paid(due, attempt, ", "        certificate = named("),
        ("        late = (due, attempt, ", "        charge = _paid(*late)\n        certificate = named("),
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "a stored answer is not looked for": (
        "answers", "if row.answer is not None:", "if False:",
        "test_a_release_is_charged_once_and_answered_again",
    ),
    "another payload is answered, too": (
        "answers", "if row.payload != mac:", "if False:",
        "test_an_idempotency_key_is_needed_and_names_one_payload",
    ),
    "two attempts at once": (
        "answers:_over", "every_lease", "test_in_flight_and_taken_over",
    ),
    "the slower attempt answers with its own draw": (
        "answers", "if answers.store.change(ANSWERS.update().where(mine).values(**values), event):", "if True:",
        "test_in_flight_and_taken_over",
    ),
    "answers are stored as they are": (
        "settings", "return nonce + ChaCha20Poly1305(self._derived(\"seal\")).encrypt(nonce, data, context.encode())",
        "return data", "test_no_private_byte_in_the_database_or_the_audit_log",
    ),
    "keys are stored as they are": (
        "keys", 'hash=self._secret.mac("key", random.encode()),', "hash=random,",
        "test_keys_are_kept_as_keyed_hashes_and_rotate",
    ),
    "keys are compared letter by letter": (
        "keys", 'hmac.compare_digest(wanted, self._secret.mac("key", random.encode()))',
        'wanted == self._secret.mac("key", random.encode())', "test_keys_are_kept_as_keyed_hashes_and_rotate",
    ),
    "a revoked key holds": (
        "keys", "or row.revoked is not None", "", "test_nobody_in_who_does_not_belong",
    ),
    "an expired key holds": (
        "keys", "or (row.expires is not None and row.expires < time.time())", "",
        "test_nobody_in_who_does_not_belong",
    ),
    "every scope is enough": (
        "gateway", "if not found.may(*scopes):", "if False:", "test_nobody_in_who_does_not_belong",
    ),
    "every model may be used": (
        "gateway", "if key.models and model not in key.models:", "if False:",
        "test_nobody_in_who_does_not_belong",
    ),
    "jobs of others are seen": (
        "jobs", 'row.account != (key.account or "")', "False", "test_a_file_is_a_job",
    ),
    "accounts of others are seen": (
        "app", 'if "admin" not in key.scopes and name != key.account:', "if False:",
        "test_accounts_are_seen_by_whom_they_concern",
    ),
    "an error shows what was sent": (
        "problems", '"kind": kind, "name": named}', '"kind": str(each["input"]), "name": named}',
        "test_validation_never_shows_the_input",
    ),
    "the private file stays": (
        "worker", '(self._jobs.folder(row) / "input").unlink(missing_ok=True)', "pass",
        "test_a_file_is_a_job",
    ),
    "others may read the spool": (
        "jobs", "folder.mkdir(mode=0o700)", "folder.mkdir(mode=0o755)", "test_a_file_is_a_job",
    ),
    "a failed job leaves its file": (
        "worker", "        ):\n            self._jobs.delete(row)", "        ):\n            pass",
        "test_a_file_that_cannot_be_read_costs_nothing",
    ),
    "a synthesis is settled before it is whole": (
        "worker", "payment=payment, settled=False", "payment=payment",
        "test_a_synthesis_that_dies_beside_its_settling_is_seen_once",
    ),
    "a draw that a kill cut stays": (
        "worker", "            each.unlink()  # drawn", "            pass  # drawn",
        "test_a_draw_that_a_kill_cut_is_not_left_in_the_spool",
    ),
    "no policy of content": (
        "guarding", 'b"content-security-policy": b"default', 'b"x-policy": b"default', "test_headers_and_health",
    ),
    "no security headers": ("guarding", HEADERS, "", "test_headers_and_health"),
    "packed bodies are taken": (
        "guarding", 'if self.headers.get(b"content-encoding", b"identity").lower() != b"identity":', "if False:",
        "test_sizes_and_rates",
    ),
    "bodies of any length are taken": (
        "guarding", "if self._seen > self._most:", "if False:", "test_sizes_and_rates",
    ),
    "events of others are seen": (
        "app", 'events(key.account or "", last)', "events(None, last)",
        "test_a_job_of_others_is_not_there_on_any_route",
    ),
    "answers of other accounts are given": (
        "answers", 'self.secret.mac("answer", account, idempotency_key.encode())',
        'self.secret.mac("answer", idempotency_key.encode())', "test_idempotency_keys_are_of_one_account",
    ),
    "jobs of other accounts are given": (
        "jobs", '"job", (key.account or "").encode(), ', '"job", ', "test_idempotency_keys_are_of_one_account",
    ),
    "a rotated key may use every model": (
        "keys", "models=row.models", 'models=""',
        "test_a_rotated_key_may_no_more_than_before",
    ),
    "a rotated key never ends": (
        "keys", "lasts=None if row.expires is None else row.expires - row.created", "lasts=None",
        "test_a_rotated_key_may_no_more_than_before",
    ),
    "one key for all purposes": (
        "settings", 'f"dptext gateway, {purpose}".encode()', 'b"dptext gateway"',
        "test_each_purpose_has_a_key_of_its_own",
    ),
    "unknown fields are taken": (
        "schemas",
        ('extra="forbid"', "if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():"),
        ('extra="ignore"', "if False:"), "test_fields_that_nobody_knows_are_refused",
    ),
    "any number of bytes a minute": (
        "limits", "left >= min(size, self.size)", "True", "test_bytes_of_a_minute",
    ),
    "who releases few may send files": (
        "job_routes", 'key: Annotated[Key, asking("jobs")],',
        'key: Annotated[Key, asking("jobs", "privatize")],', "test_scopes_of_files",
    ),
    "who releases few may synthesize": (
        "job_routes", 'model: str,\n        key: Annotated[Key, asking("synthesize")],',
        'model: str,\n        key: Annotated[Key, asking("synthesize", "privatize")],', "test_scopes_of_files",
    ),
    "others may read an input": (
        "job_routes", 'with await run_in_threadpool(create_private, folder / "input") as file:',
        'with (folder / "input").open("wb") as file:',
        "test_the_input_of_a_job_is_its_owners",
    ),
    "a cancelled synthesis is shown": (
        "worker", "            self._go_on(row)\n            found", "            found",
        "test_what_was_cancelled_is_not_shown",
    ),
    "a blink of the database undoes a cancelling": (
        "worker", 'again.where(JOBS.c.state == "running").values(state="queued")', 'again.values(state="queued")',
        "test_what_was_cancelled_is_not_shown",
    ),
    "an answer is seen before its line of the audit log": (
        "store", "            if changed:\n                connection.execute(_line(event))\n",
        "        if changed:\n            self.note(event)\n",
        "test_a_line_of_the_audit_log_is_written_with_the_answer",
    ),
    "a job is seen before its line of the audit log": (
        "store", "            if changed:\n                connection.execute(_line(event))\n",
        "        if changed:\n            self.note(event)\n",
        "test_a_line_of_the_audit_log_is_written_with_the_end_of_a_job",
    ),
    "first come, first served": (
        "worker", "self._turns.get(each, 0)", "0", "test_accounts_and_keys_take_turns",
    ),
    "nobody sweeps beside a job": (
        "worker", "for each in (self._serve, self._tidy)]", "for each in (self._serve,)]",
        "test_what_expires_does_so_beside_a_long_job",
    ),
    "an expired answer is given": (
        "answers:_expired", "never", "test_an_expired_answer_is_not_given_before_the_sweep",
    ),
    "an expired result is given": (
        "jobs", 'return "expired" if row.state not in OPEN and row.expires < time.time() else str(row.state)',
        "return str(row.state)", "test_it_expires_some_time_after_its_end",
    ),
    "the time of a job begins with it": (
        "jobs:Jobs.ended", "without_an_end", "test_it_expires_some_time_after_its_end",
    ),
    "a wrong field is charged": (
        "worker:Worker._read", "nothing", "test_a_wrong_name_of_a_field_is_not_charged",
    ),
    "a job may end its process for ever": (
        "worker:_STARTS", "no_end", "test_a_job_that_ends_its_process_is_given_up",
    ),
    "what another gateway runs is run here": (
        "jobs", "return bool(row.spool == self.own)", "return True",
        "test_a_file_that_another_gateway_runs_is_deleted_here",
    ),
    "what another gateway began is taken over": (
        "jobs", ", JOBS.c.lease == 0)", ")", "test_what_another_gateway_began_stays_its_own",
    ),
    "a damaged file is charged": (
        "worker", "if not self._jobs.whole(row):", "if False:", "test_a_damaged_file_is_not_charged",
    ),
    "a file is taken before it is on the disk": (
        "job_routes", "run_in_threadpool(to_disk, file)", "run_in_threadpool(file.flush)",
        "test_a_file_is_on_the_disk_before_it_is_taken",
    ),
    "a job runs for ever": (
        "worker", "if time.monotonic() > end:", "if False:", "test_a_job_may_not_run_for_ever",
    ),
    "a job writes without end": (
        "worker", "if size_of(*files(self._jobs.folder(row))) > most:", "if False:",
        "test_what_a_job_writes_counts_for_its_key",
    ),
    "administrators see results": (
        "jobs", 'if admin and row is not None and "admin" in key.scopes:', "if row is not None:",
        "test_administrators_see_and_end_any_job_and_no_result",
    ),
    "two downloads have one name": (
        "work", 'f"{name.stem}-{certificate.charged.number}{name.suffix}"', "certificate.output",
        "test_a_release_is_charged_once_and_answered_again",
    ),
    "an account sees how many events others have": (
        "app", "if before is not None:  # it", "if False:  # it", "test_administrators_page_through_the_audit_log",
    ),
    "a stored answer is lost with its model": (
        "app", "        gate.permitted(key, name)\n", "        gate.allowed(key, name)\n",
        "test_a_stored_answer_outlives_its_model_and_the_limits",
    ),
    "events outlive their key": (
        "job_routes", 'gate.key(request.headers["authorization"].encode("latin-1"))', "key",
        "test_events_end_with_the_key",
    ),
    "an unexpected error is logged": (
        "guarding", "        except Exception as error:", "        except ZeroDivisionError as error:",
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "answers are not filled up": (
        "guarding", "        if pad:", "        if False:", "test_padding_and_steps",
    ),
    "a body is read before its key": (
        "guarding", "        key = await loop", "        await body.read()\n        key = await loop",
        "test_who_has_no_key_holds_nothing",
    ),
    "a refused body keeps its connection": (
        "guarding", '*([] if self._body.whole else [(b"connection", b"close")])', "*[]",
        "test_who_has_no_key_holds_nothing",
    ),
    "idle connections keep their places": (
        "server", "len(self.connections) >= self.limit_concurrency", "False", "test_who_has_no_key_holds_nothing",
    ),
    "headers take for ever": (
        "server", "if not self._kept:", "if False:", "test_headers_have_a_deadline_and_a_key_has_time",
    ),
    "a slow body is cut that has a key": (
        "server", "if not self._kept:", "if True:", "test_headers_have_a_deadline_and_a_key_has_time",
    ),
    "each part of a body has a deadline of its own": (
        "guarding", "min(self._pause, self._end - time.monotonic())", "self._pause",
        "test_a_whole_body_has_one_deadline",
    ),
    "one key fills the server": (
        "guarding", "if self._busy[who] >= gate.settings.requests_at_once:", "if False:",
        "test_requests_in_flight_of_one_key",
    ),
    "a request is in flight for ever": (
        "guarding", "self._busy[who] -= 1", "pass", "test_requests_in_flight_of_one_key",
    ),
    "chunks are not counted": (
        "guarding", "if self._chunked:", "if False:", "test_bodies_without_a_length_are_counted_as_they_come",
    ),
    "the spool has no end": (
        "limits", "full = self._jobs.total() + self._uploads.total() + size >", "full = size >",
        "test_room_in_the_spool",
    ),
    "a key has the whole spool": (
        "limits", "if self._jobs[who] + self._uploads[who] + size > most:", "if size > most:",
        "test_room_in_the_spool",
    ),
    "an upload takes room for ever": (
        "limits", "self._uploads[who] -= 2 * size", "pass", "test_room_in_the_spool",
    ),
    "no room is kept for what comes of a file": (
        "limits", "max(size_of(*files(folder)), reserved)", "size_of(*files(folder))",
        "test_a_file_keeps_room_for_what_comes_of_it",
    ),
    "what is sent again is refused": (
        "limits", "if not again:", "if True:", "test_a_file_keeps_room_for_what_comes_of_it",
    ),
    "a full disk is not looked at": (
        "limits", "if full or shutil.disk_usage(self._settings.spool).free < size + SPARE:", "if full:",
        "test_a_job_waits_for_room_under_its_charge",
    ),
    "a full disk ends a job that is paid for": (
        "worker", "error.errno in (errno.ENOSPC, errno.EDQUOT)", "False",
        "test_a_job_waits_for_room_under_its_charge",
    ),
    "a misspelt parameter is paid for": (
        "gateway", "not set(request.query_params) <= expected", "False",
        "test_parameters_that_nobody_knows_are_refused",
    ),
    "jobs are listed for every key of an account": (
        "jobs", ", JOBS.c.kind.in_(_kinds(key)))", ")", "test_jobs_are_listed_for_keys_that_may_see_them",
    ),
    "the newest jobs of others hide ours": (
        "jobs", ", JOBS.c.kind.in_(_kinds(key)))", ")", "test_jobs_of_others_hide_none_of_ours",
    ),
    "a stop counts as a death": (
        "worker", "starts=JOBS.c.starts - 1", "starts=JOBS.c.starts", "test_a_stop_is_no_death_of_the_job_at_hand",
    ),
    "uploads that a kill left stay": (
        "worker", 'glob("upload-*")', 'glob("none")', "test_uploads_that_a_kill_left_go_with_the_next_start",
    ),
    "a text may be as long as it likes": (
        "worker", ', "max_characters": self._settings.max_characters', "",
        "test_a_text_of_a_file_has_a_most_length",
    ),
    "a header is there twice": (
        "guarding", "if self._twice:", "if False:", "test_a_header_is_there_once",
    ),
    "what failed is said to be in flight": (
        "jobs", "if row.state in OPEN:\n            raise Problem(409", "if True:\n            raise Problem(409",
        "test_it_expires_some_time_after_its_end",
    ),
    "a body has two lengths": (
        "guarding", ' or b"content-length" in self.headers', "", "test_a_body_has_one_length",
    ),
    "a job without labels is charged": (
        "job_routes", "spec.traits.reads_labels and wish.label_field is None", "False",
        "test_a_model_that_reads_labels_gets_no_file_without",
    ),
    "a sweep deletes what is taken meanwhile": (
        "sweeping:Sweeper._unknown", "always", "test_a_sweep_leaves_what_is_taken_meanwhile",
    ),
    "every page may ask": (
        "app", "allow_origins=settings.origins", 'allow_origins=["*"]',
        "test_pages_elsewhere_may_ask_where_they_are_named",
    ),
    "readiness waits for ever": (
        "app", "await asyncio.wait_for(asked, _PROBE)", "await asked", "test_a_ledger_that_is_away",
    ),
    "more draw at once than may": (
        "metrics", "while self._free and self._waiting:", "while self._waiting:",
        "test_calls_that_wait_hold_no_thread",
    ),
    "one account has every turn": (
        "metrics", "self._last.get(self._waiting[each], 0)", "0", "test_accounts_take_turns_and_who_leaves_takes_none",
    ),
    "a turn is lost with its call": (
        "metrics", "            else:  # it had just come\n                self._over()\n", "",
        "test_a_turn_that_comes_as_its_call_leaves_is_passed_on",
    ),
    "a call waits for ever": (
        "app", "asyncio.timeout(gate.settings.seconds)", "asyncio.timeout(None)",
        "test_a_call_that_waits_too_long_is_not_charged",
    ),
    "a retry draws beside a slow draw": (
        "answers", "await run_in_threadpool(self._renew)", "pass", "test_nothing_is_drawn_beside_a_slow_draw",
    ),
    "what was freed is held again": (
        "answers", ", ANSWERS.c.lease > 0)", ")", "test_an_attempt_that_was_freed_stays_free",
    ),
    "a broken model shuts all out": (
        "work", "            except (Problem, DPTextError) as error:", "            except ZeroDivisionError as error:",
        "test_a_broken_model_shuts_nobody_out",
    ),
    "the cost shown is of a folder, the charge of a model": (
        "work:Models._found", "read_anew", "test_what_is_shown_is_what_is_charged",
    ),
    "a route has no scheme": (
        "gateway", ", _: Annotated[Any, Security(_BEARER)]", "",
        "test_the_description_says_who_may_what_goes_in_and_how_it_ends",
    ),
    "a clock is believed at once": (
        "clock:Clock.earliest", "clock",
        "test_a_clock_that_is_ahead_for_a_while_deletes_nothing",
    ),
    "what is kept is kept from what the clock says": (
        "clock:Clock.latest", "clock",
        "test_what_ends_while_the_clock_is_behind_is_kept",
    ),
    "a lease of a clock that was ahead holds": (
        "answers:_over", "leases_by_the_clock",
        "test_a_job_and_an_answer_go_on_when_the_clock_is_right_again",
    ),
    "copies share a charge": (
        "copies:Copies.require_none", "nothing",
        "test_copies_in_a_call_are_not_charged",
    ),
    "copies in a file share a charge": (
        "copies:Copies.require_none", "nothing",
        "test_copies_in_a_file_are_not_charged",
    ),
    "a copy in capitals is another text": (
        "copies:normal_form", "the_same",
        "test_copies_in_a_call_are_not_charged",
    ),
    "a key file is looked at once": (
        "gateway:Gateway.require_secret", "nothing",
        "test_a_key_file_that_is_gone_or_replaced",
    ),
    "a spool is looked at once": (
        "jobs:Jobs.require_spool", "nothing",
        "test_a_spool_that_is_gone_or_replaced",
    ),
    "three kills end what is paid for": (
        "jobs:Jobs.paid", "never",
        "test_kills_end_no_job_that_is_paid_for",
    ),
    "a job fails that is paid for": (
        "jobs:Jobs.paid", "never",
        "test_a_job_that_is_paid_for_waits_for_its_model",
    ),
    "a job pays for another model": (
        "work:Models.mark", "one_mark",
        "test_a_job_is_not_charged_for_another_model_than_it_was_sent_for",
    ),
    "a pool is looked at once": (
        "work:Models._require_same", "nothing",
        "test_a_synthesis_is_not_charged_for_a_pool_that_changed_since_the_start",
    ),
    "a refused body is not read": (
        "guarding:_Body.drop", "nothing_later",
        "test_a_refusal_is_read_by_who_still_sends",
    ),
    "bytes that are no chunk are answered in the middle": (
        "server:Patient.send_400_response", "refused_in_the_middle",
        "test_no_trace_of_bytes_that_are_no_chunks_or_of_a_stop",
    ),
    "a file is taken that cannot be read": (
        "job_routes:_require_parquet", "nothing",
        "test_a_gateway_that_cannot_read_parquet_takes_none",
    ),
}  # fmt: skip


def outcome(module: str, *fault: str | tuple[str, ...]) -> str:
    """How pytest ends, and what it says of a named test with a fault: a function, or lines, are others."""
    *fault, test = fault
    if ":" in module:
        fault = [f"gateway_faults:{fault[0]}"]
    (file,) = (path for path in GATEWAY.glob("test_*.py") if f"def {test}(" in path.read_text("utf-8"))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "planted",
            "-p",
            "no:cacheprovider",
            "--show-capture=no",
            f"{file}::{test}",
        ],
        env={
            **os.environ,
            "DPTEXT_PLANTED": json.dumps([f"dptext.service.{module}", *fault]),
            "PYTHONPATH": os.pathsep.join([str(TESTS / "faults"), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return f"{done.returncode}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    found = outcome(*FAULTS[name])
    assert found.startswith("1\n"), found
    assert "Error" in found


@pytest.mark.slow
def test_without_a_fault_it_passes() -> None:
    module, old, _, test = FAULTS["two answers share a charge"]
    assert outcome(module, old, old, test).startswith("0\n")
