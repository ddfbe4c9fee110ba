"""Why the attack stays near .60 however much smart redaction takes: attackers that see only a part of what is left.

    python packages/lab/experiments/redaction/plateau.py                 # cells into build/redaction/plateau, resumable
    python packages/lab/experiments/redaction/plateau.py --table

Each view is made of a release and of the public weights of the redactor; a linear model on its features is trained on
released texts of one half and tried on the other, as the adaptive attacker is. The redactor weighs what a word says on
originals. Left are words below the cut, words that it never met, and the count of masks, which is the length of the
text, since a fixed share of it is masked.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cells import CONFIDENCE
from corpus import SEED, Corpus, read_pair
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from dptext.estimates import clopper_pearson
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext_lab.redaction.smart import SmartRedaction, SmartRedactionMechanism

sys.path.append(str(Path(__file__).parents[1]))
from common import write_json

MASK = "[MASK]"
SPACED = r"\S+"
LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0)
#: Besides both of the talk, smart redaction that masks first words that it never met; that learns its weights again,
#: from public text redacted so far, after each tenth of the level; that leaves the inverse document frequency of a word
#: out of its weight; that ranks by how much more frequent a word is in one kind.
REDACTORS = ("random", "smart", "unknown first", "in rounds", "coefficient alone", "log odds")

Tokens = list[str]
Documents = list[Tokens]


def redacted(known: Sequence[Tokens], weight: Callable[[str], float], level: float) -> Documents:
    """Masks for the floor(level * n) tokens of the largest absolute weights; those masked already stay so."""
    found = []
    for tokens in known:
        rank = [np.inf if token == MASK else abs(weight(token)) for token in tokens]
        order = sorted(range(len(tokens)), key=lambda i: (-rank[i], i))
        hidden = set(order[: int(level * len(tokens) + 1e-9)])
        found.append([MASK if i in hidden else token for i, token in enumerate(tokens)])
    return found


class Views:
    """The parts of a release that an attacker may be shown."""

    def __init__(self, weights: SmartRedactionMechanism) -> None:
        self.weights = weights

    def all(self) -> dict[str, tuple[Pipeline, Callable[[Tokens], str]]]:
        """Each view: its features, and the text that they are made from."""
        known = lambda token: self.weights.weight(token) != 0  # noqa: E731

        def only(keep: Callable[[str], bool]) -> Callable[[Tokens], str]:
            return lambda tokens: " ".join(token.lower() for token in tokens if token != MASK and keep(token))

        def masks(tokens: Tokens) -> str:
            return " ".join("m" if token == MASK else "w" for token in tokens)

        def merged(tokens: Tokens) -> str:
            return " ".join(b for a, b in zip(["", *tokens], tokens, strict=False) if b != MASK or a != MASK)

        return {
            "everything (TF-IDF)": (words(), " ".join),
            "everything, counts": (counts(), " ".join),
            "runs of masks merged": (words(), merged),
            "words left, no masks": (words(), only(lambda _: True)),
            "- of them known to the redactor": (words(), only(known)),
            "- of them unknown to it": (words(), only(lambda token: not known(token))),
            "- of them function words": (words(), only(lambda token: token.lower() in ENGLISH_STOP_WORDS)),
            "- of them content words": (
                words(),
                only(lambda token: token.lower() not in ENGLISH_STOP_WORDS and any(map(str.isalpha, token))),
            ),
            "- of them digits and punctuation": (words(), only(lambda token: not any(map(str.isalpha, token)))),
            "length only": (counts(), lambda tokens: f"n{len(tokens)} b{len(tokens) // 5}"),
            "number of words left only": (counts(), lambda tokens: f"n{sum(token != MASK for token in tokens)}"),
            "pattern of masks only": (
                make_pipeline(CountVectorizer(ngram_range=(1, 5), token_pattern=SPACED), model()),
                masks,
            ),
        }


def model() -> LogisticRegression:
    """The audit's model, with a solver that is quick on few features."""
    return LogisticRegression(C=1.0, max_iter=1000, solver="liblinear")


def words() -> Pipeline:
    """TF-IDF of everything between spaces, punctuation and masks too."""
    return make_pipeline(TfidfVectorizer(sublinear_tf=True, token_pattern=SPACED), model())


def counts() -> Pipeline:
    """How often each token occurs: not divided by the length."""
    return make_pipeline(CountVectorizer(token_pattern=SPACED), model())


class Trial:
    """A corpus, its redactors, and the cells that are finished."""

    def __init__(self, corpus: Corpus, out: Path) -> None:
        self.corpus, self.out = corpus, out
        self.public = [record for side in corpus.public for record in side]
        self.weights = SmartRedaction(0.5, sensitive="cancer").fit(public=self.public)

    def releases(self, redactor: str, level: float) -> tuple[list[Documents], list[Documents]]:
        """Tokens of the released training texts, and of the attacked ones, of both kinds."""
        own = [[tokens_of(side) for side in sides] for sides in (self.corpus.training, self.corpus.attacked)]
        if redactor == "random":
            rng = np.random.default_rng([SEED, 3])
            made = [[scattered(side, level, rng) for side in sides] for sides in own]
            return made[0], made[1]
        if redactor == "smart":
            made = [[redacted(side, self.weights.weight, level) for side in sides] for sides in own]
            return made[0], made[1]
        if redactor == "unknown first":
            first = lambda token: self.weights.weight(token) or np.inf  # noqa: E731
            made = [[redacted(side, first, level) for side in sides] for sides in own]
            return made[0], made[1]
        public = [tokens_of(side) for side in self.corpus.public]
        if redactor in ("coefficient alone", "log odds"):
            rank = fit_again(public).coefficient if redactor == "coefficient alone" else log_odds(public)
            made = [[redacted(side, rank, level) for side in sides] for sides in own]
            return made[0], made[1]
        for step in (level * (i + 1) / 10 for i in range(10)):
            weight = fit_again(public).weight
            public = [redacted(side, weight, step) for side in public]
            own = [[redacted(side, weight, step) for side in sides] for sides in own]
        return own[0], own[1]

    def cell(self, redactor: str, level: float) -> None:
        """Measure the accuracy of the attack on every view, and write it."""
        path = self.out / f"{redactor.replace(' ', '_')}-{level:.1f}.json"
        if path.exists():
            return
        began = time.process_time()
        training, attacked = self.releases(redactor, level)
        learned = np.repeat([True, False], [len(side) for side in training])
        true = np.repeat([True, False], [len(side) for side in attacked])
        found = {}
        for name, (pipeline, text) in Views(self.weights).all().items():
            shown = [[text(tokens) for side in sides for tokens in side] for sides in (training, attacked)]
            if not any(shown[0]) or len(set(shown[0])) < 2:
                continue
            pipeline.fit(shown[0], learned)
            right = int((pipeline.predict(shown[1]) == true).sum())
            found[name] = clopper_pearson(right, len(true), confidence=CONFIDENCE).to_dict()
        left = [[token for token in tokens if token != MASK] for side in attacked for tokens in side]
        kept = [token for tokens in left for token in tokens]
        facts = {
            "words left": float(np.mean([len(tokens) for tokens in left])),
            "unknown": float(np.mean([self.weights.weight(token) == 0 for token in kept])) if kept else 0.0,
            "lengths": [float(np.mean([len(tokens) for tokens in side])) for side in attacked],
        }
        seconds = time.process_time() - began
        write_json(path, {"redactor": redactor, "level": level, "views": found, "facts": facts, "seconds": seconds})
        print(f"{redactor} {level:.1f}: {seconds:.0f} s of processor time", flush=True)


def scattered(known: Sequence[Tokens], level: float, rng: np.random.Generator) -> Documents:
    """Mask each token independently of the others."""
    return [[MASK if rng.random() < level else token for token in tokens] for tokens in known]


def tokens_of(side: Sequence[Record]) -> Documents:
    """Tokens of each record."""
    return [[token for tokens in tokenize(record.text) for token in tokens] for record in side]


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a logistic regression on TF-IDF learned: coefficients, and inverse document frequencies, by word."""

    coefficients: dict[str, float]
    idf: dict[str, float]

    def coefficient(self, token: str) -> float:
        """The coefficient alone."""
        return self.coefficients.get(token.lower(), 0.0)

    def weight(self, token: str) -> float:
        """What one occurrence adds to the score, but for the length of the text, as smart redaction ranks."""
        return self.coefficient(token) * self.idf.get(token.lower(), 0.0)


def fit_again(sides: Sequence[Documents]) -> Weighed:
    """Learned from these texts, as they are now."""
    counter = TfidfVectorizer(token_pattern=SPACED)
    texts = [" ".join(tokens).lower() for side in sides for tokens in side]
    fitted = LogisticRegression(C=1.0, max_iter=1000, solver="liblinear").fit(
        counter.fit_transform(texts), np.repeat([True, False], [len(side) for side in sides])
    )
    names = counter.get_feature_names_out()
    return Weighed(
        dict(zip(names, fitted.coef_[0].tolist(), strict=True)), dict(zip(names, counter.idf_.tolist(), strict=True))
    )


def log_odds(sides: Sequence[Documents]) -> Callable[[str], float]:
    """Log ratio of the shares of texts of either kind that have the word, half a text added to each (naive Bayes)."""
    counts = [Counter(word for tokens in side for word in {token.lower() for token in tokens}) for side in sides]
    shift = float(np.log(len(sides[1]) / len(sides[0])))
    found = {
        word: float(np.log((counts[0][word] + 0.5) / (counts[1][word] + 0.5))) + shift
        for word in counts[0].keys() | counts[1].keys()
    }
    return lambda token: found.get(token.lower(), 0.0)


def table(out: Path) -> str:
    """A table for each redactor: views by level."""
    tables = []
    for redactor in REDACTORS:
        paths = [out / f"{redactor.replace(' ', '_')}-{level:.1f}.json" for level in LEVELS]
        cells = [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]
        if not cells:
            continue
        lines = [f"| {redactor} | " + " | ".join(f"{cell['level']:g}" for cell in cells) + " |"]
        lines.append("|" + "---|" * (1 + len(cells)))
        for view in cells[0]["views"]:
            shown = [f"{cell['views'][view]['value']:.3f}" if view in cell["views"] else "-" for cell in cells]
            lines.append(f"| {view} | {' | '.join(shown)} |")
        lines += [
            f"| *{fact}* | " + " | ".join(f"{cell['facts'][fact]:.2f}" for cell in cells) + " |"
            for fact in ("words left", "unknown")
        ]
        lengths = cells[0]["facts"]["lengths"]
        lines += ["", f"Mean tokens of a sentence: {lengths[0]:.1f} and {lengths[1]:.1f}."]
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redactors", nargs="+", choices=REDACTORS, default=REDACTORS)
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--public", type=int, default=5000)
    parser.add_argument("--training", type=int, default=4000)
    parser.add_argument("--attacked", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("build/redaction/plateau"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    if not given.table:
        given.out.mkdir(parents=True, exist_ok=True)
        corpus = read_pair("cancer", public=given.public, training=given.training, attacked=given.attacked)
        trial = Trial(corpus, given.out)
        for redactor in given.redactors:
            for level in given.levels:
                trial.cell(redactor, level)
    print(table(given.out))


if __name__ == "__main__":
    main()
