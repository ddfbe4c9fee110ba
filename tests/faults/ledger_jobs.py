"""The jobs that fault tests of the ledger ask for; a program, run by `ledger_processes.Children`."""

import contextlib
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from ledger_deaths import cut_commit, die_at_each_step, die_while_making, kill_at_random
from ledger_forks import fork_by_multiprocessing, fork_with_books_open, fork_within_a_transaction
from ledger_processes import Tell, aside, fork, limit, open_ledger, request, small_charge, warm
from ledger_runs import as_nobody, crash_run, kill_runs, on_a_full_disk, run_twice_at_once

from dptext.errors import DPTextError, LedgerError
from dptext.ledger import standings
from dptext.ledger.books import Ledger
from next_schema import version_with

# -------------------------------------------------------------------------------------------------- the crowd


def _act(ledger: Ledger | None, location: str, todo: dict[str, Any]) -> Any:
    """One thing that one process of a crowd does."""
    what = todo["do"]
    if what == "create":
        return Ledger.create(todo["location"]).close()
    assert ledger is not None
    if what == "open":
        dataset = todo.get("dataset")
        return ledger.open_account(todo["account"], limit(todo["epsilon"]), dataset=dataset).name
    if what == "upgrade":
        return ledger.upgrade()
    if what == "look":
        return ledger.account(todo["account"]).name
    if what == "settle":
        return ledger.settle(todo["account"], todo["key"], todo["release"])
    if what == "verify":  # again and again, while others charge
        seen = []
        while not seen or seen[-1] < todo["charges"]:
            found = ledger.verify(todo["account"])
            assert not found.problems, found.problems
            seen.append(found.charges)
        return seen
    if what == "charge until it fails":
        numbers: list[int] = []
        with contextlib.suppress(LedgerError):
            while len(numbers) < 100_000:
                asked, names = small_charge(f"{todo['key']} {len(numbers)}", subjects=todo["by_subject"])
                key = f"{todo['key']} {len(numbers)}"
                numbers.append(ledger.charge(todo["account"], asked, key=key, subjects=names).number)
        return numbers
    assert what == "charge", what
    asked = request(todo["epsilon"])
    keys = todo["key"] if isinstance(todo["key"], list) else [todo["key"]]
    return [ledger.charge(todo["account"], asked, key=key, subjects=todo.get("subjects")).number for key in keys]


def crowd(
    location: str,
    steps: list[list[dict[str, Any]]],
    scratch: str = "",
    slow_standings: float = 0.0,
    schema_steps: str = "",
) -> list[list[dict[str, Any]]]:
    """Processes that do things at one moment.

    Args:
        location: of the ledger.
        steps: what each process does in each step; all begin a step together, when all have ended the one before.
        scratch: an account to charge before, so that all statements are compiled when the processes begin: they spend
            their time in the database then.
        slow_standings: seconds that a process waits after writing a standing of subjects.
        schema_steps: the folder with the schema's steps of another version of dptext, which the processes are of.

    Returns:
        For each step what each process got: {"value": ...} or {"error": ..., "message": ...}.
    """
    gates = [os.pipe() for _ in steps]
    ready = warm(location, scratch) if scratch else None

    def work(i: int, tell: Tell) -> None:
        for _, opener in gates:
            os.close(opener)
        if slow_standings:
            _slow_down(slow_standings)
        ledger = ready
        for (gate, _), step in zip(gates, steps, strict=True):
            if ledger is None and step[i]["do"] != "create":
                ledger = open_ledger(location)
            tell(ready=True)
            os.read(gate, 1)
            try:
                tell(value=_act(ledger, location, step[i]))
            except DPTextError as error:
                tell(error=type(error).__name__, message=str(error))

    with version_with(schema_steps):
        everyone = [fork(lambda tell, i=i: work(i, tell)) for i in range(len(steps[0]))]
    results = []
    for _, opener in gates:
        assert all(child.told() == {"ready": True} for child in everyone)
        os.close(opener)
        results.append([child.told() or {} for child in everyone])
    assert all(child.end() == 0 for child in everyone)
    return results


def _slow_down(seconds: float) -> None:
    once = standings.once

    def slow(connection: sa.Connection, table: sa.Table, *args: Any, **values: Any) -> int:
        number = once(connection, table, *args, **values)
        if table.name == "tallies":
            time.sleep(seconds)
        return number

    standings.once = slow


# ------------------------------------------------------------------------------------------------- the program

_JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (
        crowd,
        die_at_each_step,
        die_while_making,
        cut_commit,
        kill_at_random,
        crash_run,
        kill_runs,
        run_twice_at_once,
        as_nobody,
        on_a_full_disk,
        fork_by_multiprocessing,
        fork_with_books_open,
        fork_within_a_transaction,
    )
}


def main(orders: Iterator[str]) -> None:
    gc.freeze()  # a collection would copy what the processes share
    gc.disable()
    for order in orders:
        job, arguments = json.loads(order)
        try:
            answer = {"value": aside(lambda job=job, arguments=arguments: _JOBS[job](**arguments))}
        except AssertionError:
            answer = {"crash": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.stdin)
