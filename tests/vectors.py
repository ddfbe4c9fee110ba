"""A small public vocabulary for tests: 300 made-up words in clusters, in 6 dimensions, and sentences of them."""

from pathlib import Path

import numpy as np

SYLLABLES = ("ba", "co", "du", "fe", "gi", "ho", "ju", "ka", "le", "mi")
WORDS = [a + b + c for a in SYLLABLES[:3] for b in SYLLABLES for c in SYLLABLES]


def write_vectors(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 6)).repeat(10, 0) * 2 + rng.normal(size=(300, 6)) * 0.4
    path = folder / "vectors.txt"
    lines = (f"{word} {' '.join(f'{x:.5f}' for x in point)}" for word, point in zip(WORDS, points, strict=True))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def sentences(n: int, *, seed: int = 1, longest: int = 12) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(0, longest + 1))) for _ in range(n)]
