"""TEM's draws against weighing every word within gamma, in one run, as ratios.

python benchmarks/tem.py [--words 50000 400000] [--tokens 8192] [--rounds 3]
Up to 50,000 words are those of GloVe, more are random vectors. The tokens are running words, as frequent as in text,
drawn for in one batch; where there are more words, a quarter of them. The alternative is given a few of them.
Exits 1 if a draw is not at least 1,000 times as fast at epsilon .05, 100 times at 1 and 5 times at 6.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from _timing import Rows, paired, seconds
from dptext.embeddings.vector_files import load_glove
from dptext.embeddings.vectors import WordVectors
from dptext.mechanisms.words.vocabulary import WordDraws, WordPoints
from dptext.sampling.discrete import uniform_below
from dptext.sampling.exponential import TruncatedExponential
from dptext.sampling.randomness import Randomness, secure

MIN_SPEEDUP = {0.05: 1000.0, 1.0: 100.0, 6.0: 5.0}
FEW = 24  # a third of it where there are more words
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
    parser.add_argument("--tokens", type=int, default=8_192)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = Rows()
    for n_words in options.words:
        parts = (1, 1) if n_words <= GLOVE else (4, 3)
        measured(rows, n_words, options.tokens // parts[0], FEW // parts[1], options.rounds)
    return rows.code


def measured(rows: Rows, n_words: int, n_tokens: int, few: int, rounds: int) -> None:
    """Print the rows of a vocabulary."""
    rng = np.random.default_rng(0)
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
                "near": lambda draws=draws: weigh_near(words, draws.choice, tokens[:few], source),
            },
            rounds,
        )
        what = f"{n_words:,} words, epsilon {epsilon:g}"
        ratios = paired(taken["near"], taken["ours"], n_tokens / few)
        rows.add(what, "times as fast as weighing all near words", ratios, least=least)
        rows.note(what, "microseconds a token", [1e6 * each / n_tokens for each in taken["ours"]])


if __name__ == "__main__":
    sys.exit(main())
