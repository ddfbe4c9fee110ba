"""The contract that every mechanism must keep, as one function for the tests of third parties::

    for spec in MySpec.tiny():
        check_mechanism(spec.fit(public=...))

Every check is a function of its own (`CHECKS`), and each is proven to fail on a fault planted for it. The contract
cannot prove that a mechanism is private; its last check attacks the stated guarantee with the audits. It catches faults
of about a factor of two: noise that is 25% too small may pass, and `dptext audit distinguish` looks closer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dptext.mechanism import Mechanism
from dptext.testing import release_checks, silence_checks
from dptext.testing.case import Case, run_checks
from dptext.text.records import Record
from dptext.text.samples import sample_records

#: Every check by name, in the order in which they run.
CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        release_checks.check_settings,
        release_checks.check_statements,
        release_checks.check_fit,
        release_checks.check_epsilon,
        release_checks.check_order,
        release_checks.check_batches,
        release_checks.check_distribution,
        release_checks.check_fresh,
        release_checks.check_event,
        release_checks.check_frozen,
        silence_checks.check_verbatim,
        silence_checks.check_silence,
        silence_checks.check_files,
        silence_checks.check_shapes,
        release_checks.check_model,
        release_checks.check_guarantee,
    )
}


def check_mechanism(
    mechanism: Mechanism[str],
    records: Sequence[Record] = (),
    *,
    words: Sequence[str] = ("good", "bad", "the", "paris"),
    seed: int = 0,
    public: Sequence[Record] | None = None,
    checks: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Raise ContractError unless the mechanism keeps the contract, on the given records and on odd records.

    The mechanism has an epsilon at which audits have power, about 1 to 3 between the inputs that they compare. It knows
    `words`, from which audits make neighbours. `seed` is of the runs that must repeat themselves. The spec's tiny
    settings are fitted on the `public` records, 100 of `dptext.text.samples` by default. `checks` are names of
    `CHECKS`, all by default; the names of the checks that ran are returned. ContractError: the mechanism breaks the
    named part of the contract. ConfigError: an unknown name of a check.
    """
    case = Case(mechanism, tuple(records), tuple(words), seed, tuple(sample_records(100) if public is None else public))
    return run_checks(CHECKS, case, checks)
