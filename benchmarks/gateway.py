"""How many texts a second a gateway releases to eight clients, against the library itself; latency and memory.

    python benchmarks/gateway.py [--seconds 4] [--rounds 8] [--texts 50] [--models candidates adept] [--minutes M]
                                [--clients 8] [--threads 2] [--ledger URL]

A client asks again as soon as it has its answer; each answer is a charge of its own. The library releases batches of
the same size in a loop of one process, before and after each round, without charges. Exits 1 where the gateway has less
than .9 of the library's throughput, or takes a tenth more memory at the end than after its first round. With
`--minutes` they ask `label_only`, which draws in no time, for so long: only memory is looked at, every 30 seconds at
most. It may grow by a twentieth after a tenth of the time.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

import dptext as dp
from _timing import Rows
from dptext.ledger.books import Ledger
from dptext.ledger.database import Database
from dptext.mechanism import Mechanism
from dptext.sampling.randomness import secure
from dptext_gateway.client import privatize
from dptext_gateway.keys import Keys
from dptext_gateway.settings import Secret
from dptext_gateway.store import Store
from dptext_lab import Adept

LEAST = 0.9
MOST = 1.05  # memory at the end of a soak, beside that after a tenth of it
MOST_SOON = 1.1  # the same after the last round, beside the first
EVERY = 30.0  # seconds between two looks at memory


def fitted(name: str) -> Mechanism[str]:
    """A model of this kind on built-in texts."""
    pool = list(dp.sample_records(2_000, seed=1))
    if name == "label_only":
        return dp.fit(dp.LabelOnly(epsilon=1.0, labels=("health", "leisure", "money", "travel")), pool)
    if name == "candidates":
        return dp.fit(dp.Candidates(epsilon=10.0, ranker="sentence"), pool, seed=0)
    return dp.fit(Adept(epsilon=10.0, epochs=1), pool, seed=0)


def texts_once(n: int) -> list[dp.Record]:
    """So many texts, each once, as a charge of the gateway pays for one release of each."""
    return list({each.text: each for each in dp.sample_records(2 * n, seed=3)}.values())[:n]


def own_rate(mechanism: Mechanism[str], batch: list[dp.Record], seconds: float) -> float:
    """Texts a second of the library in a loop."""
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        n += len(mechanism.privatize(batch, secure()))
    return n / (time.perf_counter() - began)


def resident(process: int) -> float:
    """MiB of a process now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Print a row a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--models", nargs="*", default=["candidates", "adept"])
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2, help="calls that the gateway draws at once")
    parser.add_argument("--ledger")
    given = parser.parse_args()
    rows = Rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        found = {each: fitted(each) for each in given.models + ["label_only"] * bool(given.minutes)}
        for each, mechanism in found.items():
            dp.save_model(mechanism, folder / "models" / each)
        location = given.ledger or str(folder / "books.db")
        ledger = Ledger.create(location)
        ledger.open_account("reviews", dp.Guarantee(1e6, 1e-5, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE))
        key_file = folder / "books.db.gateway.key"
        keys = Keys(Store(Database(location)), Secret.at(key_file))
        key = keys.create("team", account="reviews", scopes=("privatize",))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        command = [str(Path(sys.executable).with_name("dptext")), "serve", "--models", str(folder / "models")]
        command += ["--ledger", location, "--port", str(port), "--requests-a-minute", "1000000"]
        command += ["--threads", str(given.threads)]
        server = subprocess.Popen([*command, "--key-file", str(key_file)], env={**os.environ, "OMP_NUM_THREADS": "1"})
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(200):
                try:
                    httpx.get(f"{url}/healthz")
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            for each in given.models:
                row(rows, each, found[each], url, key, server.pid, given)
            if given.minutes:
                memory(rows, url, key, server.pid, given)
        finally:
            server.terminate()
            server.wait()
    return rows.code


def memory(rows: Rows, url: str, key: str, server: int, given: argparse.Namespace) -> None:
    """The gateway's memory over a long time."""
    sent = [{"text": each.text, "label": each.label or ""} for each in texts_once(given.texts)]
    began, found, asked = time.perf_counter(), [], []
    end = began + given.minutes * 60

    def client() -> None:
        while time.perf_counter() < end:
            privatize(url, key, "label_only", sent)
            asked.append(1)

    threads = [threading.Thread(target=client) for _ in range(given.clients)]
    for each in threads:
        each.start()
    while time.perf_counter() < end:
        time.sleep(max(0.0, min(EVERY, given.minutes * 6, end - time.perf_counter())))
        found.append((len(asked), resident(server)))
        print(
            f"{(time.perf_counter() - began) / 60:.1f} minutes: {len(asked):,} requests, {found[-1][1]:.1f} MiB",
            flush=True,
        )
    for each in threads:
        each.join()
    warm = found[len(found) // 10 :]
    slope = statistics.linear_regression(*zip(*warm, strict=True)).slope * 1024
    print(
        f"label_only: {len(asked):,} requests of {given.texts} texts by {given.clients} clients; "
        f"{warm[0][1]:.0f} MiB after a tenth of the time, {warm[-1][1]:.0f} at the end, {slope:+.2f} KiB a request",
        flush=True,
    )
    rows.add("memory at the end", "of that after a tenth of the time", [warm[-1][1] / warm[0][1]], most=MOST)


def row(
    rows: Rows, name: str, mechanism: Mechanism[str], url: str, key: str, server: int, given: argparse.Namespace
) -> None:
    """Measure one model."""
    texts, seconds = given.texts, given.seconds
    batch = texts_once(texts)
    labels = mechanism.spec.traits.reads_labels
    sent = [{"text": each.text, **({"label": each.label or ""} if labels else {})} for each in batch]
    mechanism.privatize(batch, secure())
    privatize(url, key, name, sent)
    took: list[float] = []
    own, rates, memories = [own_rate(mechanism, batch, seconds / 2)], list[float](), list[float]()
    for _ in range(given.rounds):
        n, began, end = len(took), time.perf_counter(), time.perf_counter() + seconds

        def client(end: float = end) -> None:
            while time.perf_counter() < end:
                began = time.perf_counter()
                privatize(url, key, name, sent)
                took.append(time.perf_counter() - began)

        threads = [threading.Thread(target=client) for _ in range(given.clients)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        rates.append((len(took) - n) * texts / (time.perf_counter() - began))
        memories.append(resident(server))
        own.append(own_rate(mechanism, batch, seconds / 2))
    ratios = [rate / ((one + two) / 2) for rate, one, two in zip(rates, own, own[1:], strict=False)]
    what = f"{name}, {given.clients} clients, {texts} texts a request"
    rows.add(what, "of the throughput of the library", ratios, least=LEAST)
    rows.add(
        f"{name}: memory after the last round", "of that after the first", [memories[-1] / memories[0]], most=MOST_SOON
    )
    rows.note(what, "texts a second", rates)
    rows.note(f"{name}, the library", "texts a second", own)
    print(f"{name}: p95 {statistics.quantiles(took, n=20)[-1]:.2f} s; {memories[-1]:.0f} MiB", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
