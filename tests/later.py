"""What waits for `make test-all`: tests whose fault is also looked for, at less cost, by a test of `make test`.

A line is the beginning of a test's name, as pytest prints it, below why it waits. `conftest.py` marks them slow, and
refuses a line that no test begins with. Parameters that wait for other reasons are marked beside their test.
"""

from collections.abc import Collection

import pytest

LATER = {
    "PostgreSQL dies as SQLite does; tests/unit/ledger and the crowds keep their twins": (
        "tests/faults/test_ledger_kills.py::test_death_at_each_step_of_a_charge[postgresql",
        "tests/faults/test_ledger_kills.py::test_death_at_each_step_of_a_settlement[postgresql",
        "tests/faults/test_ledger_kills.py::test_death_at_each_step_of_making_a_ledger[postgresql",
        "tests/faults/test_ledger_runs.py::test_death_at_each_moment_of_a_run[postgresql",
        "tests/faults/test_ledger_runs.py::test_runs_that_are_killed_pay_once[postgresql",
        "tests/faults/test_ledger_crowd.py::test_a_ledger_is_upgraded_once[postgresql",
        "tests/faults/test_ledger_kills.py::test_death_at_random_moments[postgresql",
        "tests/unit/ledger/test_ledger_books.py::test_terms_of_charges_are_taken_together[postgresql",
        "tests/unit/ledger/test_ledger_damage.py::test_first_books_with_a_damaged_charge_are_not_upgraded[postgresql",
        "tests/unit/ledger/test_ledger_books.py::test_charges_add_up_as_accounting_says[postgresql",
        "tests/unit/ledger/test_ledger_books.py::test_several_kinds_of_noise_in_one_account[postgresql",
        "tests/unit/ledger/test_ledger_schema.py::test_any_first_books_are_upgraded[postgresql",
        "tests/unit/ledger/test_ledger_subjects.py::test_the_books_are_those_of_a_naive_person[postgresql",
        "tests/unit/ledger/test_ledger_verify.py::test_a_broken_tally_is_a_problem_like_others[postgresql",
    ),
    "SQLite has one writer at a time; a crowd is harder for PostgreSQL": (
        "tests/faults/test_ledger_crowd.py::test_accounts_that_share_standings_do_not_disturb_each_other[sqlite",
        "tests/faults/test_ledger_crowd.py::test_a_ledger_is_made_and_accounts_are_opened_once[sqlite",
        "tests/faults/test_ledger_crowd.py::test_books_add_up_at_every_moment[sqlite",
        "tests/faults/test_ledger_crowd.py::test_no_account_is_overdrawn_and_no_charge_is_lost[20-sqlite",
    ),
    "another isolation, lock or wait like the one that stays": (
        "tests/faults/test_ledger_crowd.py::test_a_stricter_isolation_by_default_changes_nothing[repeatable",
        "tests/faults/test_ledger_files.py::test_a_locked_file[IMMEDIATE",
        "tests/faults/test_ledger_servers.py::test_no_wait_is_none",
        "tests/faults/test_ledger_servers.py::test_a_locked_balance",
        "tests/faults/test_ledger_crowd.py::test_ledgers_are_made_by_many_at_once",
        "tests/faults/test_ledger_servers.py::test_a_server_that_is_stopped",
    ),
    "about the server of the tests, not about the library": (
        "tests/unit/test_postgres_server.py::test_a_killed_process_takes_its_server_along",
        "tests/unit/test_postgres_server.py::test_a_server_answers_survives_a_crash_and_goes_away",
        "tests/unit/test_postgres_server.py::test_a_server_that_cannot_start_shows_its_log",
    ),
    "tests/unit/compare has the grids, tests/e2e/test_their_mechanism.py the command": (
        "tests/e2e/test_compare_commands.py::",
        "tests/unit/compare/test_compare_runs.py::test_a_worker_that_dies_between_two_cells_fails_the_next_one",
    ),
    "tests/unit/audits has the audit, test_exit_codes the command": (
        "tests/e2e/test_audit_commands.py::test_mechanisms_and_texts",
        "tests/e2e/test_audit_commands.py::test_figures",
        "tests/e2e/test_divergence_command.py::test_from_files_to_a_table_figures_and_json",
        "tests/e2e/test_authorship_command.py::test_from_a_file_to_a_table",
        "tests/e2e/test_output_files.py::test_what_holds_numbers_from_originals_is_for_its_owner[divergence",
        "tests/unit/audits/test_divergence.py::test_a_report_says_what_it_is_and_is_repeatable",
    ),
    "another command, file or form like the one that stays": (
        "tests/e2e/test_utility_commands.py::test_the_hint_at_all_numbers_leads_to_the_same_ones[classification",
        "tests/e2e/test_utility_commands.py::test_files_are_read_as_privatize_read_them[classification",
        "tests/e2e/test_utility_commands.py::test_null_texts_are_read_as_empty_ones_where_this_is_asked_for[classification",
        "tests/e2e/test_file_commands.py::test_both_commands_that_check_proposes_work[rows",
        "tests/e2e/test_file_commands.py::test_both_commands_that_check_proposes_work[texts.txt",
        "tests/e2e/test_face.py::test_init_reads_files_of_two_forms",
    ),
    "the lines of the other pages stay, and the ten lines of Python": (
        "tests/docs/test_public_face.py::test_five_minutes_take_no_more",
        "docs/tutorials/dp-sgd.md::",
    ),
    "other tests of the mechanism see the same scale, its unit tests a wrong one": (
        "tests/contract/test_mechanisms.py::test_the_contract[few draws-syntf-0-guarantee",
        "tests/contract/test_mechanisms.py::test_the_contract[few draws-adept_dpsgd-0-guarantee",
        "tests/contract/test_mechanisms.py::test_the_contract[few draws-adept_dpsgd-0-fit",
        "tests/contract/test_mechanisms.py::test_the_contract[few draws-truncation-0-distribution",
        "tests/e2e/test_their_mechanism.py::test_the_contract_of_the_page_holds",
        "tests/unit/test_redaction.py::test_outputs_come_as_often_as_their_probabilities_say[spec1",
        "tests/unit/test_redaction.py::test_outputs_come_as_often_as_their_probabilities_say[spec2",
        "tests/unit/test_adept_dpsgd.py::test_replace_one_costs_more_than_opacus_would_say",
        "tests/statistical/test_word_metric.py::test_glove_returns_as_many_words_as_measured",
        "tests/unit/test_published_adept.py::test_the_sound_noises_survive_at_the_same_latents[laplace_l2",
    ),
    "the same attack or density in another dimension or at another epsilon": (
        "tests/attacks/test_planted_faults.py::test_half_the_noise_in_64_dimensions_is_seen_by_the_white_box_only",
        "tests/statistical/test_samplers.py::test_additive_noise_draws_its_density[20000-<lambda>1-32",
        "tests/statistical/test_samplers.py::test_additive_noise_draws_its_density[20000-<lambda>0-32",
        "tests/attacks/test_planted_faults.py::test_the_classical_gaussian_at_epsilon_50",
        "tests/unit/audits/test_reconstruction.py::test_refutes_the_published_noise_at_epsilon_5[128",
        "tests/statistical/test_samplers.py::test_additive_noise_draws_its_density[20000-<lambda>5-32",
        "tests/statistical/test_samplers.py::test_privunit_draws_its_declared_density[20000-16-4.0",
        "tests/unit/audits/test_trials.py::TestWhitebox::test_a_wrong_scale_is_no_fit[4-0.6666666666666666-noise2",
    ),
    "another format, file or word like the one that stays": (
        "tests/unit/test_malformed_files.py::test_a_model_of_malformed_values_is_refused[truncation",
        "tests/unit/test_file_shapes.py::test_one_short_text_among_long_ones_does_not_show_in_the_file[out.csv.gz",
        "tests/unit/test_file_shapes.py::test_one_short_text_among_long_ones_does_not_show_in_the_file[out.jsonl.gz",
        "tests/unit/test_file_shapes.py::test_a_killed_run_gives_the_same_blocks[out.csv.gz",
        "tests/unit/test_depth.py::test_no_document_is_too_long[131072",
        "tests/unit/test_records.py::test_memory_does_not_grow_with_the_file[a.jsonl.gz",
        "tests/unit/test_malformed_files.py::test_a_file_without_end_is_not_read_whole",
        "tests/unit/test_report.py::test_another_process_writes_the_same_file",
    ),
    "dear, beside another size, scale or kind that stays": (
        "tests/unit/test_deep_candidate.py::test_the_range_of_a_depth_is_a_whole_number[lowest-4",
        "tests/unit/test_deep_candidate.py::test_the_recoder_is_trained",
        "tests/attacks/test_planted_faults.py::test_l2_clip_with_noise_for_2c_is_seen_by_the_white_box_at_any_epsilon[10.0-4",
        "tests/attacks/test_planted_faults.py::test_l2_clip_with_noise_for_2c_is_seen_by_counting[5.0-10000",
        "tests/unit/test_reading_columns.py::test_what_pyarrow_would_pass_is_told_as_without_it[too deep",
        "tests/unit/test_erae.py::test_training_learns_to_repeat_a_text[text",
        "tests/e2e/test_terminal.py::test_a_terminal_that_lacks_characters[ascii",
        "tests/e2e/test_stopping.py::test_a_format_that_cannot_go_on_says_so",
        "tests/unit/neural/test_sentence_encoder.py::test_torch_computes_the_same[bfloat16",
        "tests/unit/neural/test_sentence_encoder.py::test_the_vectors_are_those_of_sentence_transformers[float32",
        "tests/unit/test_accounting_counts.py::test_a_list_costs_what_its_counts_cost[epsilon-3-1e-05",
        "tests/contract/test_frozen.py::test_no_attribute_of_a_fitted_mechanism_can_be_assigned[adept",
        "tests/contract/test_mechanisms.py::test_the_contract[few draws-adept_dpsgd-0-settings",
        "tests/unit/compare/test_compare_runs.py::test_what_fails_or_dies_is_recorded_and_the_rest_goes_on",
        "tests/unit/compare/test_shared_fits.py::test_a_key_without_a_setting_that_the_fit_reads_is_noticed[erae-set_2",
        "tests/unit/compare/test_shared_fits.py::test_a_key_without_a_setting_that_the_fit_reads_is_noticed[erae-set_3",
        "tests/unit/test_candidates.py::test_frequencies_of_label_and_text_are_the_declared_ones[exponential-None",
        "tests/unit/test_candidates.py::test_frequencies_of_label_and_text_are_the_declared_ones[envelope-None",
        "tests/unit/test_candidates.py::test_frequencies_of_label_and_text_are_the_declared_ones[top_k-None",
        "tests/e2e/test_their_mechanism.py::test_commands_for_other_mechanisms_go_on_beside_a_broken_package",
        "tests/unit/test_envelope.py::test_the_best_envelope_against_the_best_of_all_channels[1.0",
        "tests/unit/test_envelope.py::test_the_best_envelope_against_the_best_of_all_channels[2.0",
        "tests/unit/test_envelope.py::test_the_best_envelope_against_the_best_of_all_channels[10.0",
    ),
    "it takes as long as all other pages": ("tests/docs/test_notebook.py::test_the_notebook_runs",),
}


def mark_later(items: Collection[pytest.Item], whole: bool) -> None:
    """Mark what waits; with `whole`, all tests were collected, and a line that none begins with is an error."""
    waiting = [line for lines in LATER.values() for line in lines]
    idle = set(waiting)
    for item in items:
        for line in waiting:
            if item.nodeid.startswith(line):
                item.add_marker(pytest.mark.slow)
                idle.discard(line)
    if whole and idle:
        raise pytest.UsageError(f"tests/later.py names tests that do not exist: {', '.join(sorted(idle))}")
