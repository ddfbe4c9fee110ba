"""What processes do that share one ledger object because they were forked; jobs of `ledger_jobs`."""

import multiprocessing
import threading
from typing import Any

from ledger_processes import Tell, fork, open_ledger, request

from dptext.errors import DPTextError

N = 4  # children, each with a charge of its own


def fork_with_books_open(location: str) -> list[Any]:
    """Children of a process that has charged, and is reading the log; what each found."""
    ledger = open_ledger(location)
    ledger.charge("account", request(0.5), key="parent")
    log = ledger.log("account")
    first = next(log).number

    def work(i: int, tell: Tell) -> None:
        ledger.charge("account", request(0.5), key=f"child {i}", subjects=["a"])
        ledger.settle("account", f"child {i}", f"release {i}")
        tell(found=[each.number for each in log])

    children = [fork(lambda tell, i=i: work(i, tell)) for i in range(N)]
    for i in range(N):
        ledger.charge("account", request(0.5), key=f"parent {i}")
    rest = [each.number for each in log]
    told = [(child.told() or {}).get("found") == rest for child in children]
    assert all(child.end() == 0 for child in children)
    ledger.charge("account", request(0.5), key="parent at last")
    return [first, *told]


def fork_by_multiprocessing(location: str) -> int:
    ledger = open_ledger(location)
    ledger.charge("account", request(0.5), key="parent")
    context = multiprocessing.get_context("fork")
    work = lambda i: ledger.charge("account", request(0.5), key=f"child {i}")  # noqa: E731
    children = [context.Process(target=work, args=(i,)) for i in range(N)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return sum(child.exitcode == 0 for child in children)


def fork_within_a_transaction(location: str) -> dict[str, Any]:
    """The child of a process with a thread that reads at that moment."""
    ledger, inside, over = open_ledger(location), threading.Event(), threading.Event()

    def read() -> None:
        with ledger._database.reading():
            inside.set()
            over.wait()

    def work(tell: Tell) -> None:
        try:
            tell(number=ledger.charge("account", request(0.5), key="child").number)
        except DPTextError as error:
            tell(error=type(error).__name__, message=str(error))

    thread = threading.Thread(target=read)
    thread.start()
    inside.wait()
    child = fork(work)
    told = child.told()
    assert child.end() == 0
    over.set()
    thread.join()
    ledger.charge("account", request(0.5), key="parent")
    return told or {}
