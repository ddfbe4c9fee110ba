"""Faults planted in the gateway: each is caught by a named test.

A fault names a place in dptext_gateway, what `gateway_faults` makes of what lies there, and the test.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
GATEWAY = TESTS / "unit"
FAULTS = {
    "two answers share a charge": (
        "answers:charge_key",
        "one_charge",
        "test_a_release_is_charged_once_and_answered_again",
    ),
    "each attempt charges": (
        "answers:charge_key",
        "an_attempt_a_charge",
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "it is charged after it was drawn": (
        "work:_paid",
        "paid_late",
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "a stored answer is not looked for": (
        "answers:Store.one",
        "unanswered",
        "test_a_release_is_charged_once_and_answered_again",
    ),
    "another payload is answered, too": (
        "answers:Secret.mac",
        "one_payload",
        "test_an_idempotency_key_is_needed_and_names_one_payload",
    ),
    "two attempts at once": ("answers:_over", "every_lease", "test_in_flight_and_taken_over"),
    "the slower attempt answers with its own draw": (
        "answers:Attempt.store",
        "its_own_draw",
        "test_in_flight_and_taken_over",
    ),
    "answers are stored as they are": (
        "settings:Secret.seal",
        "as_it_is",
        "test_no_private_byte_in_the_database_or_the_audit_log",
    ),
    "keys are stored as they are": (
        "keys:Secret.mac",
        "keys_as_they_are",
        "test_keys_are_kept_as_keyed_hashes_and_rotate",
    ),
    "keys are compared letter by letter": (
        "keys:hmac",
        "letter_by_letter",
        "test_keys_are_kept_as_keyed_hashes_and_rotate",
    ),
    "a revoked key holds": ("keys:Store.one", "never_revoked", "test_nobody_in_who_does_not_belong"),
    "an expired key holds": ("keys:Store.one", "without_expiry", "test_nobody_in_who_does_not_belong"),
    "every scope is enough": ("keys:Key.may", "always", "test_nobody_in_who_does_not_belong"),
    "every model may be used": ("gateway:Gateway.permitted", "nothing", "test_nobody_in_who_does_not_belong"),
    "jobs of others are seen": ("jobs:Jobs._own_row", "found_by_all", "test_a_file_is_a_job"),
    "accounts of others are seen": ("keys:Key.sees", "always", "test_accounts_are_seen_by_whom_they_concern"),
    "an error shows what was sent": (
        "problems:RequestValidationError.errors",
        "the_input",
        "test_validation_never_shows_the_input",
    ),
    "the private file stays": ("worker:Path.unlink", "all_but_the_input", "test_a_file_is_a_job"),
    "others may read the spool": ("jobs:Jobs.spool", "for_others_to_read", "test_a_file_is_a_job"),
    "a failed job leaves its file": ("jobs:Jobs.delete", "nothing", "test_a_file_that_cannot_be_read_costs_nothing"),
    "a synthesis is settled before it is whole": (
        "worker:run",
        "settled_at_once",
        "test_a_synthesis_that_dies_beside_its_settling_is_seen_once",
    ),
    "a draw that a kill cut stays": (
        "worker:_remove_drawn",
        "nothing",
        "test_a_draw_that_a_kill_cut_is_not_left_in_the_spool",
    ),
    "no policy of content": ("guarding:HEADERS", "no_policy", "test_headers_and_health"),
    "no security headers": ("guarding:HEADERS", "no_headers", "test_headers_and_health"),
    "packed bodies are taken": ("guarding:_Body.check", "packed", "test_sizes_and_rates"),
    "bodies of any length are taken": ("guarding:_Body.receive", "uncounted", "test_sizes_and_rates"),
    "events of others are seen": (
        "store:Store.events",
        "every_event",
        "test_a_job_of_others_is_not_there_on_any_route",
    ),
    "answers of other accounts are given": (
        "answers:Secret.mac",
        "answers_of_no_account",
        "test_idempotency_keys_are_of_one_account",
    ),
    "jobs of other accounts are given": (
        "jobs:Secret.mac",
        "jobs_of_no_account",
        "test_idempotency_keys_are_of_one_account",
    ),
    "a rotated key may use every model": (
        "keys:Keys._row",
        "of_every_model",
        "test_a_rotated_key_may_no_more_than_before",
    ),
    "a rotated key never ends": ("keys:Keys._row", "made_long_ago", "test_a_rotated_key_may_no_more_than_before"),
    "one key for all purposes": ("settings:Secret._derived", "one_purpose", "test_each_purpose_has_a_key_of_its_own"),
    "unknown fields are taken": ("app:Records", "with_any_field", "test_fields_that_nobody_knows_are_refused"),
    "any number of bytes a minute": ("limits:Rates.take", "no_bytes", "test_bytes_of_a_minute"),
    "who releases few may send files": ("job_routes:asking", "jobs_or_privatize", "test_scopes_of_files"),
    "who releases few may synthesize": ("job_routes:asking", "synthesize_or_privatize", "test_scopes_of_files"),
    "others may read an input": (
        "job_routes:create_private",
        "opened_for_all",
        "test_the_input_of_a_job_is_its_owners",
    ),
    "a corpus from a summary is charged": (
        "summary_routes:_packed",
        "charging",
        "test_corpora_are_written_again_and_again_without_a_charge",
    ),
    "corpora from a summary are alike": (
        "summary_routes:write",
        "written_alike",
        "test_corpora_are_written_again_and_again_without_a_charge",
    ),
    "a corpus from a summary is not noted": (
        "store:Store.note",
        "nothing",
        "test_corpora_are_written_again_and_again_without_a_charge",
    ),
    "others write from a summary": (
        "jobs:Jobs._own_row",
        "found_by_all",
        "test_only_keys_of_the_account_with_the_scope_write",
    ),
    "who releases few may write from a summary": (
        "summary_routes:asking",
        "synthesize_or_privatize",
        "test_only_keys_of_the_account_with_the_scope_write",
    ),
    "an answer names a folder of the gateway": (
        "summary_routes:_packed",
        "naming_the_spool",
        "test_nothing_private_in_logs_errors_and_headers",
    ),
    "a cancelled synthesis is shown": ("worker:Worker._go_on", "nothing", "test_what_was_cancelled_is_not_shown"),
    "a blink of the database undoes a cancelling": (
        "worker:Worker._put_off",
        "queued_again",
        "test_what_was_cancelled_is_not_shown",
    ),
    "an answer is seen before its line of the audit log": (
        "store:Store.change",
        "noted_later",
        "test_a_line_of_the_audit_log_is_written_with_the_answer",
    ),
    "a job is seen before its line of the audit log": (
        "store:Store.change",
        "noted_later",
        "test_a_line_of_the_audit_log_is_written_with_the_end_of_a_job",
    ),
    "first come, first served": ("job_order:JobOrder.of", "as_they_come", "test_accounts_and_keys_take_turns"),
    "nobody sweeps beside a job": ("worker:Worker._tidy", "nothing", "test_what_expires_does_so_beside_a_long_job"),
    "an expired answer is given": ("answers:_expired", "never", "test_an_expired_answer_is_not_given_before_the_sweep"),
    "an expired result is given": ("jobs:_state", "as_stored", "test_it_expires_some_time_after_its_end"),
    "the time of a job begins with it": (
        "jobs:Jobs.ended",
        "without_an_end",
        "test_it_expires_some_time_after_its_end",
    ),
    "a wrong field is charged": ("worker:Worker._done", "charged_first", "test_a_wrong_name_of_a_field_is_not_charged"),
    "a job may end its process for ever": ("worker:_STARTS", "no_end", "test_a_job_that_ends_its_process_is_given_up"),
    "what another gateway runs is run here": (
        "jobs:Jobs.mine",
        "always",
        "test_a_file_that_another_gateway_runs_is_deleted_here",
    ),
    "what another gateway began is taken over": (
        "jobs:Jobs.queue",
        "begun_by_nobody",
        "test_what_another_gateway_began_stays_its_own",
    ),
    "a damaged file is charged": ("jobs:Jobs.whole", "always", "test_a_damaged_file_is_not_charged"),
    "a file is taken before it is on the disk": (
        "job_routes:to_disk",
        "flushed",
        "test_a_file_is_on_the_disk_before_it_is_taken",
    ),
    "a job runs for ever": ("worker:Worker._watch", "for_any_time", "test_a_job_may_not_run_for_ever"),
    "a job writes without end": ("worker:size_of", "zero", "test_what_a_job_writes_counts_for_its_key"),
    "administrators see results": (
        "jobs:Jobs._own_row",
        "found_by_administrators",
        "test_administrators_see_and_end_any_job_and_no_result",
    ),
    "two downloads have one name": ("work:named", "the_same", "test_a_release_is_charged_once_and_answered_again"),
    "an account sees how many events others have": (
        "app:_events_for",
        "numbered_events",
        "test_administrators_page_through_the_audit_log",
    ),
    "a stored answer is lost with its model": (
        "gateway:Gateway.permitted",
        "there_as_well",
        "test_a_stored_answer_outlives_its_model_and_the_limits",
    ),
    "events tell what was told before": (
        "jobs:Jobs.told",
        "never_the_same",
        "test_an_event_comes_when_something_changes",
    ),
    "events outlive their key": ("gateway:Gateway.key", "looked_for_once", "test_events_end_with_the_key"),
    "an unexpected error is logged": (
        "guarding:_LOG",
        "told_in_the_log",
        "test_an_attempt_that_fails_after_the_charge_can_be_tried_again",
    ),
    "answers are not filled up": ("guarding:_Padding.__init__", "unpadded", "test_padding_and_steps"),
    "a body is read before its key": ("guarding:Guard._admitted", "read_first", "test_who_has_no_key_holds_nothing"),
    "a refused body keeps its connection": (
        "guarding:_HeadedAnswer.__init__",
        "kept_open",
        "test_who_has_no_key_holds_nothing",
    ),
    "idle connections keep their places": (
        "server:Patient.connection_made",
        "idle_ones_stay",
        "test_who_has_no_key_holds_nothing",
    ),
    "headers take for ever": ("server:Patient._overdue", "nothing", "test_headers_have_a_deadline_and_a_key_has_time"),
    "a slow body is cut that has a key": (
        "server:Patient._overdue",
        "ended_in_any_case",
        "test_headers_have_a_deadline_and_a_key_has_time",
    ),
    "each part of a body has a deadline of its own": (
        "guarding:_Body.__init__",
        "no_deadline",
        "test_a_whole_body_has_one_deadline",
    ),
    "one key fills the server": ("guarding:Guard.__init__", "any_number_at_once", "test_requests_in_flight_of_one_key"),
    "a request is in flight for ever": (
        "guarding:Guard.__init__",
        "in_flight_for_ever",
        "test_requests_in_flight_of_one_key",
    ),
    "chunks are not counted": (
        "guarding:_Body.__init__",
        "unchunked",
        "test_bodies_without_a_length_are_counted_as_they_come",
    ),
    "the spool has no end": ("limits:Space.__init__", "endless_spool", "test_room_in_the_spool"),
    "a key has the whole spool": ("limits:Space.__init__", "whole_spool", "test_room_in_the_spool"),
    "an upload takes room for ever": ("limits:Space.free", "nothing", "test_room_in_the_spool"),
    "no room is kept for what comes of a file": ("limits:OPEN", "none", "test_a_file_keeps_room_for_what_comes_of_it"),
    "what is sent again is refused": (
        "limits:Space.take",
        "counted_again",
        "test_a_file_keeps_room_for_what_comes_of_it",
    ),
    "a full disk is not looked at": ("limits:SPARE", "no_need", "test_a_job_waits_for_room_under_its_charge"),
    "a full disk ends a job that is paid for": (
        "worker:errno",
        "no_such_errors",
        "test_a_job_waits_for_room_under_its_charge",
    ),
    "a misspelt parameter is paid for": (
        "gateway:parameters",
        "every_parameter",
        "test_parameters_that_nobody_knows_are_refused",
    ),
    "jobs are listed for every key of an account": (
        "jobs:_kinds",
        "of_every_kind",
        "test_jobs_are_listed_for_keys_that_may_see_them",
    ),
    "the newest jobs of others hide ours": ("jobs:_kinds", "of_every_kind", "test_jobs_of_others_hide_none_of_ours"),
    "a stop counts as a death": (
        "worker:Worker.close",
        "with_no_job_at_hand",
        "test_a_stop_is_no_death_of_the_job_at_hand",
    ),
    "uploads that a kill left stay": (
        "worker:shutil",
        "no_removal",
        "test_uploads_that_a_kill_left_go_with_the_next_start",
    ),
    "a text may be as long as it likes": (
        "worker:Worker._how",
        "of_any_length",
        "test_a_text_of_a_file_has_a_most_length",
    ),
    "a header is there twice": ("guarding:_Body.__init__", "headers_twice", "test_a_header_is_there_once"),
    "what failed is said to be in flight": (
        "jobs:Jobs.file",
        "not_done_for_ever",
        "test_it_expires_some_time_after_its_end",
    ),
    "a body has two lengths": ("guarding:_Body.check", "two_lengths", "test_a_body_has_one_length"),
    "a job without labels is charged": (
        "job_routes:_room",
        "with_a_label",
        "test_a_model_that_reads_labels_gets_no_file_without",
    ),
    "a sweep deletes what is taken meanwhile": (
        "sweeping:Sweeper._unknown",
        "always",
        "test_a_sweep_leaves_what_is_taken_meanwhile",
    ),
    "every page may ask": (
        "app:CORSMiddleware",
        "from_every_page",
        "test_pages_elsewhere_may_ask_where_they_are_named",
    ),
    "readiness waits for ever": ("app:asyncio", "without_patience", "test_a_ledger_that_is_away"),
    "more draw at once than may": ("metrics:Turns.__init__", "any_number_draw", "test_calls_that_wait_hold_no_thread"),
    "one account has every turn": (
        "metrics:Turns.__init__",
        "last_of_all",
        "test_accounts_take_turns_and_who_leaves_takes_none",
    ),
    "a turn is lost with its call": (
        "metrics:Turns._leave",
        "left_alone",
        "test_a_turn_that_comes_as_its_call_leaves_is_passed_on",
    ),
    "a call waits for ever": ("app:asyncio", "without_patience", "test_a_call_that_waits_too_long_is_not_charged"),
    "a retry draws beside a slow draw": (
        "answers:Attempt._renew",
        "nothing",
        "test_nothing_is_drawn_beside_a_slow_draw",
    ),
    "what was freed is held again": (
        "answers:Attempt._renew",
        "held_again",
        "test_an_attempt_that_was_freed_stays_free",
    ),
    "a broken model shuts all out": ("work:Models.usable", "all_models", "test_a_broken_model_shuts_nobody_out"),
    "the cost shown is of a folder, the charge of a model": (
        "work:Models._found",
        "read_anew",
        "test_what_is_shown_is_what_is_charged",
    ),
    "a route has no scheme": (
        "gateway:_BEARER",
        "no_scheme",
        "test_the_description_says_who_may_what_goes_in_and_how_it_ends",
    ),
    "a clock is believed at once": (
        "clock:Clock.earliest",
        "clock",
        "test_a_clock_that_is_ahead_for_a_while_deletes_nothing",
    ),
    "what is kept is kept from what the clock says": (
        "clock:Clock.latest",
        "clock",
        "test_what_ends_while_the_clock_is_behind_is_kept",
    ),
    "a lease of a clock that was ahead holds": (
        "answers:_over",
        "leases_by_the_clock",
        "test_a_job_and_an_answer_go_on_when_the_clock_is_right_again",
    ),
    "copies share a charge": ("copies:Copies.require_none", "nothing", "test_copies_in_a_call_are_not_charged"),
    "copies in a file share a charge": (
        "copies:Copies.require_none",
        "nothing",
        "test_copies_in_a_file_are_not_charged",
    ),
    "a copy in capitals is another text": ("copies:normal_form", "the_same", "test_copies_in_a_call_are_not_charged"),
    "a key file is looked at once": (
        "gateway:Gateway.require_secret",
        "nothing",
        "test_a_key_file_that_is_gone_or_replaced",
    ),
    "a spool is looked at once": ("jobs:Jobs.require_spool", "nothing", "test_a_spool_that_is_gone_or_replaced"),
    "three kills end what is paid for": ("jobs:Jobs.paid", "never", "test_kills_end_no_job_that_is_paid_for"),
    "a job fails that is paid for": ("jobs:Jobs.paid", "never", "test_a_job_that_is_paid_for_waits_for_its_model"),
    "a job pays for another model": (
        "work:Models.mark",
        "one_mark",
        "test_a_job_is_not_charged_for_another_model_than_it_was_sent_for",
    ),
    "a pool is looked at once": (
        "work:Models._require_same",
        "nothing",
        "test_a_synthesis_is_not_charged_for_a_pool_that_changed_since_the_start",
    ),
    "a refused body is not read": ("guarding:_Body.drop", "nothing_later", "test_a_refusal_is_read_by_who_still_sends"),
    "bytes that are no chunk are answered in the middle": (
        "server:Patient.send_400_response",
        "refused_in_the_middle",
        "test_no_trace_of_bytes_that_are_no_chunks_or_of_a_stop",
    ),
    "a file of another format is measured": (
        "worker:is_json_lines",
        "always",
        "test_a_file_in_another_format_than_json_lines_is_not_charged",
    ),
    "a file is taken that cannot be read": (
        "job_routes:require_parquet",
        "nothing",
        "test_a_gateway_that_cannot_read_parquet_takes_none",
    ),
}


def outcome(place: str, maker: str, test: str) -> str:
    """How pytest ends, and what it says of a named test with a fault."""
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
            "-s",  # the words of a process that ends are not kept with it
            f"{file}::{test}",
        ],
        env={
            **os.environ,
            "DPTEXT_PLANTED": json.dumps([f"dptext_gateway.{place}", f"gateway_faults:{maker}"]),
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
    assert re.search("[0-9] failed", found), found  # what fails before the test starts catches nothing


@pytest.mark.slow
def test_without_a_fault_it_passes() -> None:
    place, _, test = FAULTS["two answers share a charge"]
    assert outcome(place, "itself", test).startswith("0\n")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["answers:key_of_old", "answers:charge_key"])
def test_a_fault_that_cannot_be_planted_is_no_failing_test(place: str) -> None:
    """It is gone, or is called otherwise than the maker knows."""
    assert outcome(place, "called_otherwise", FAULTS["two answers share a charge"][2]).startswith("99\n")
