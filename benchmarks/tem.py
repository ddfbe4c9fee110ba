"""TEM's draws against weighing every word within gamma, in one run, as ratios of medians.

python benchmarks/tem.py [--words 50000 400000] [--tokens 32768] [--rounds 3]
Up to 50,000 words are those of GloVe, more are random vectors. The tokens are running words, as frequent as in text,
drawn for in one batch. The alternative is given a few of them.
Exits 1 if a draw is not at least 1,000 times as fast at epsilon .05, 100 times at 1 and 5 times at 6.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import numpy as np

from _timing import seconds
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.words.vocabulary import WordDraws, WordPoints
from dptext.sampling.discrete import uniform_below
from dptext.sampling.exponential import TruncatedExponential
from dptext.sampling.randomness import Randomness, secure

MIN_SPEEDUP = {0.05: 1000.0, 1.0: 100.0, 6.0: 5.0}
FEW = 24
GLOVE = 50_000


def weigh_near(words: WordPoints, choice: TruncatedExponential, indices: np.ndarray, source: Randomness) -> np.ndarray:
    """The straightforward draw: by integer weights of all words within gamma, and one for those that are not."""
    points, every = words.at(indices), words.points
    squares = np.einsum("ij,ij->i", every, every)
    squared = np.einsum("ij,ij->i", points, points)[:, None] + squares - 2 * points @ every.T
    found = np.empty(len(indices), np.int64)
    for i, row in enumerate(squared):
        near = np.flatnonzero(row <= choice.threshold**2)
        gaps = every[near] - points[i]
        distances = np.append(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)), np.inf)
        [picked] = choice.choose(distances[None], source)
        word = near[picked] if picked >= 0 else near[0]
        while picked < 0 and word in near:
            word = int(uniform_below(choice.size, 1, source)[0])
        found[i] = word
    return found


def main() -> int:
    """Measure at three epsilons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, nargs="+", default=[50_000, 400_000])
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    missed: list[str] = []
    print("| draws of TEM | gamma | us a token | us a token, weighing all near words | times as fast |")
    print("|---|---|---|---|---|")
    for n_words in options.words:
        missed += measured(n_words, options.tokens, options.rounds)
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    return 1 if missed else 0


def measured(n_words: int, n_tokens: int, rounds: int) -> list[str]:
    """Print the rows of a vocabulary; what was missed."""
    rng, missed = np.random.default_rng(0), []
    if n_words <= GLOVE:
        given = load_glove(n_words)
    else:
        names = tuple(f"w{i}" for i in range(n_words))
        given = WordVectors(names, rng.normal(0, 0.6, (n_words, 50)).astype(np.float32), name="random")
    points = given.vectors.astype(np.float64)
    words = WordPoints(given, points, points.mean(axis=0), None)
    often = 1 / (np.arange(n_words) + 2.7)
    tokens = rng.choice(n_words, n_tokens, p=often / often.sum())
    source = secure()
    for epsilon, least in MIN_SPEEDUP.items():
        threshold = TruncatedExponential.threshold_for(epsilon, n_words, 0.001)
        draws = WordDraws(words, TruncatedExponential(epsilon, threshold, n_words))
        taken = seconds(
            {
                "ours": lambda draws=draws: draws.draw(tokens, source),
                "near": lambda draws=draws: weigh_near(words, draws.choice, tokens[:FEW], source),
            },
            rounds,
        )
        ours, near = (statistics.median(taken[name]) * 1e6 / n for name, n in (("ours", n_tokens), ("near", FEW)))
        what = f"{n_words} words, epsilon {epsilon:g}"
        print(f"| {what} | {threshold:.2f} | {ours:.1f} | {near:.0f} | {near / ours:.3g} |", flush=True)
        if near / ours < least:
            missed.append(f"{what}: {near / ours:.3g} times as fast, expected {least:g}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
