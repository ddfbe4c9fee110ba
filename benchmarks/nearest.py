"""The exact nearest-word search against FAISS IndexFlatL2 and a plain loop, in one run, as ratios.

python benchmarks/nearest.py [--queries 8192] [--threads 2] [--rounds 5]
Exits 1 if a requirement is missed: 0.7 x FAISS (1.3 where the processor has no AVX-512, or numba is absent), 8 x the
loop, 1.5 GB, neighbours identical to a naive float64 search. With one thread, times are of the processor.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable

import faiss
import numpy as np

from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.vectors import WordVectors

MAX_RATIO, MAX_RATIO_BLAS, MIN_SPEEDUP, MAX_GB, TIE = 0.7, 1.3, 8.0, 1.5, 1e-5


def noisy(vectors: WordVectors, n: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Return n words chosen uniformly plus noise of density proportional to exp(-epsilon |z|)."""
    direction = rng.standard_normal((n, vectors.dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.gamma(vectors.dim, 1 / epsilon, (n, 1))
    return (vectors.vectors[rng.integers(0, len(vectors), n)] + direction * radius).astype(np.float32)


def alternate(
    methods: dict[str, Callable[[], np.ndarray]], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Time the methods in turn, so that what else the machine does falls on all of them."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            start = clock()
            method()
            times[name].append(clock() - start)
    return times


def loop(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return np.array([np.argmin(np.linalg.norm(vectors - query, axis=1)) for query in queries])


def wrong(vectors: WordVectors, queries: np.ndarray, found: np.ndarray) -> int:
    """Return how many neighbours are farther than those of a naive float64 search by more than TIE."""
    words = vectors.vectors.astype(np.float64)
    halves = np.einsum("ij,ij->i", words, words) / 2
    bad = 0
    step = 64
    for start in range(0, len(queries), step):
        points = queries[start : start + step].astype(np.float64)
        naive = (points @ words.T - halves).argmax(axis=1)  # float64 throughout: error about 1e-14
        gap = np.linalg.norm(words[found[start : start + step]] - points, axis=1)
        bad += int((gap > np.linalg.norm(words[naive] - points, axis=1) + TIE).sum())
    return bad


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=8192, help="at 50,000 words; half of it at 400,000")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    faiss.omp_set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    print(f"threads={options.threads} rounds={options.rounds} cpus={os.cpu_count()} numpy={np.__version__}")
    print("words    epsilon  ours us/query  ours/FAISS (min, median)  loop/ours  queries      peak GB")
    failures = []
    checks = []
    for n_words, n_queries in ((50_000, options.queries), (400_000, max(options.queries // 2, 64))):
        vectors = load_glove(n_words)
        nearest = NearestWords(vectors, threads=options.threads)
        index = faiss.IndexFlatL2(vectors.dim)
        index.add(vectors.vectors)
        for epsilon in (6.0, 10.0, 30.0):
            queries = noisy(vectors, n_queries, epsilon, rng)
            for _ in range(2):
                nearest.search(queries)  # loads its kernel once that is worth it
            few = queries[: max(4, 400_000 // n_words)]
            times = alternate(
                {
                    "ours": lambda nearest=nearest, queries=queries: nearest.search(queries),
                    "faiss": lambda index=index, queries=queries: index.search(queries, 1)[1],
                    "loop": lambda vectors=vectors, few=few: loop(vectors.vectors, few),
                },
                options.rounds,
                time.process_time if options.threads == 1 else time.perf_counter,
            )
            median = {name: statistics.median(values) for name, values in times.items()}
            ratio = median["ours"] / median["faiss"]
            best = min(times["ours"]) / min(times["faiss"])
            speedup = (median["loop"] / len(few)) / (median["ours"] / n_queries)
            found = nearest.search(queries)
            gb = peak_gb()  # before the naive search, which is not ours
            checks.append((vectors, queries, found))
            print(
                f"{n_words:<8} {epsilon:<8g} {median['ours'] / n_queries * 1e6:<14.1f} {best:.2f}, {ratio:<20.2f} "
                f"{speedup:<10.0f} of {n_queries:<9} {gb:.2f}",
                flush=True,
            )
            where = f"{n_words} words, epsilon {epsilon:g}"
            limit = MAX_RATIO if nearest._screened else MAX_RATIO_BLAS
            failures += [f"{where}: {max(ratio, best):.2f} x FAISS"] * (max(ratio, best) > limit)
            failures += [f"{where}: {speedup:.1f} x the loop"] * (speedup < MIN_SPEEDUP)
            failures += [f"{where}: peak {gb:.2f} GB"] * (gb > MAX_GB)
    bad = sum(wrong(vectors, queries, found) for vectors, queries, found in checks)
    print(f"{bad} of {sum(len(found) for _, _, found in checks)} neighbours differ from the naive float64 search")
    failures += [f"{bad} wrong neighbours"] * (bad > 0)
    for failure in failures:
        print(f"missed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
