"""DeepCandidate on whole documents: macro-F1 and similarity against epsilon, every utility and baseline.

    python packages/lab/experiments/deep_candidate/grid.py --corpus imdb              # cells into \
        build/deep_candidate, resumable
    python packages/lab/experiments/deep_candidate/grid.py --corpus imdb --table      # what is finished, as Markdown

Public is the training split of the corpus, private its test split; embeddings stay in memory. Corpora are found by
DPTEXT_DATA (default ../shared/data beside the checkout). The paper's third corpus is not among them: with
`--corpus goodreads --goodreads FOLDER` a dump of your own is read (see goodreads.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import goodreads
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dptext.embeddings.encoders import Encoder, PublicVectors, load_encoder
from dptext.embeddings.likeness import mean_by_document
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.mechanisms.sentences.candidate_choice import CandidateMechanism
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.sentences.document_candidates import Utility
from dptext.mechanisms.sentences.truncation import Truncation
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.sampling.randomness import secure
from dptext.text.records import Record
from dptext.text.tokens import sentences, tokenize
from dptext.types import Floats
from dptext_lab.sentdp import fit as depth_fit
from dptext_lab.sentdp.scores import DEPTHS, Depth
from dptext_lab.sentdp.sentdp import SentDp

sys.path.append(str(Path(__file__).parents[1]))
from common import corpus_rows, write_json

Recoding = Literal["none", "clusters", "labels"]
VECTORS = 1_000_000  # that are kept
SEED = 60
MIN_SENTENCES = 8
#: Nine groups of the twenty; the paper does not say which (ours is in the README of the data).
GROUPS = {
    "comp.": "comp",
    "rec.autos": "vehicles",
    "rec.motorcycles": "vehicles",
    "rec.sport": "sport",
    "misc.forsale": "forsale",
    "talk.politics": "politics",
    "alt.atheism": "religion",
    "soc.religion": "religion",
    "talk.religion": "religion",
    "sci.med": "med",
    "sci.space": "space",
    "sci.crypt": "technology",
    "sci.electronics": "technology",
}
#: utility, recoder: in the order of the table.
ROWS: tuple[tuple[Utility | Depth, Recoding], ...] = (
    ("algorithm_1", "clusters"),
    ("lowest", "none"),
    ("lowest", "clusters"),
    ("mean_depth", "clusters"),
    ("lowest", "labels"),
    ("similarity", "none"),
    ("whitened", "none"),
    ("evidence", "none"),
    ("mixed", "none"),
)
EPSILONS = (3.0, 6.0, 10.0, 15.0, 20.0, 25.0, 30.0)
#: Private documents by their number of sentences, least and most, as in the paper.
SIZES = {"2-5": (2, 5), "6-10": (6, 10), "11-15": (11, 15), "16-20": (16, 20), "21+": (21, 10**9)}
EPSILON_OF_SIZES = 10.0
ALL = f"at least {MIN_SENTENCES}"
BLOCK = 64
#: The paper classifies by a multi-layer perceptron; the linear one is kept in the cells beside it.
CLASSIFIER = "mlp"
#: Of `candidates`, whose epsilon is that of the whole document.
DOCUMENT_EPSILONS = (5.0, 8.0, 10.0)


def read_corpus(name: str) -> tuple[list[Record], list[Record]]:
    """Public and private documents."""

    def label(found: str) -> str:
        return next((group for start, group in GROUPS.items() if found.startswith(start)), found)

    parts: dict[str, list[Record]] = {"train": [], "test": []}
    for row in corpus_rows(name):
        parts[row["split"]].append(Record(str(row["id"]), row["text"], label=label(str(row["label"]))))
    return parts["train"], parts["test"]


def drawn(records: Sequence[Record], wanted: int, least: int = MIN_SENTENCES, most: int = 10**9) -> list[Record]:
    """So many records of a number of sentences, in a public random order."""
    found: list[Record] = []
    for i in np.random.default_rng(SEED).permutation(len(records)):
        if len(found) == wanted:
            break
        if least <= len(sentences(records[i].text)) <= most:
            found.append(records[i])
    return found


def unit(vectors: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def means(encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Mean sentence embeddings."""
    documents = [sentences(text) for text in texts]
    vectors = encoder.embed([sentence for document in documents for sentence in document])
    return mean_by_document(vectors, [len(document) for document in documents])


def classifiers(vectors: Floats, classes: Sequence[str | None]) -> dict[str, Any]:
    """Trained on public documents."""
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=2000))
    mlp = make_pipeline(StandardScaler(), MLPClassifier((256,), alpha=1.0, early_stopping=True, random_state=SEED))
    return {name: model.fit(vectors, list(classes)) for name, model in (("linear", linear), ("mlp", mlp))}


@dataclass(frozen=True, eq=False)
class Private:
    """Private documents with the means of their own sentences."""

    records: list[Record]
    own: Floats

    @property
    def labels(self) -> list[str | None]:
        """The label of each document."""
        return [record.label for record in self.records]


class Trial:
    """A corpus, what is trained on its public part, and the cells that are finished."""

    def __init__(self, public: list[Record], private: dict[str, list[Record]], out: Path) -> None:
        self.out = out
        self.public = public
        self.classes = [record.label for record in public]
        self.labels = tuple(sorted({str(label) for label in self.classes}))
        self.encoder = load_encoder(precision="bfloat16")
        self.own = means(self.encoder, [record.text for record in public])
        self.private = {
            name: Private(records, means(self.encoder, [record.text for record in records]))
            for name, records in private.items()
        }
        self.centre = self.own.mean(axis=0)
        self.models = classifiers(self.own, self.classes)
        self.position = {record.text: i for i, record in enumerate(public)}
        # A recoder knows no epsilon, and is trained once. (It is looked up by name where it is used.)
        fit_recoder, fitted = depth_fit.fit_recoder_for, {}

        def once(rest: Any, *, targets: str, **how: Any) -> Any:
            if targets not in fitted:
                fitted[targets] = fit_recoder(rest, targets=targets, **how)
            return fitted[targets]

        setattr(depth_fit, "fit_recoder_for", once)  # noqa: B010

    def score(
        self,
        private: Private,
        vectors: Floats,
        labels: Sequence[str | None],
        shown: Floats,
        models: dict[str, Any] | None = None,
    ) -> dict[str, float]:
        """Macro-F1 of each classifier, labels kept, similarity to the own document."""
        wanted = private.labels
        f1 = {
            name: f1_score(wanted, model.predict(vectors), average="macro")
            for name, model in (models or self.models).items()
        }
        likeness = (unit(private.own - self.centre) * unit(shown - self.centre)).sum(axis=1).mean()
        kept = float(np.mean([a == b for a, b in zip(labels, wanted, strict=True)]))
        return {**f1, "label": kept, "cosine": float(likeness)}

    def score_rows(self, private: Private, rows: NDArray[Any]) -> dict[str, float]:
        """The scores of public documents in the place of the private ones."""
        return self.score(private, self.own[rows], [self.classes[j] for j in rows], self.own[rows])

    def cells(self, names: Sequence[str], work: Callable[[], Sequence[list[dict[str, float]]]]) -> None:
        """Those that are not there yet: nothing, or all of them from one piece of work."""
        paths = [self.out / f"{name}.json" for name in names]
        if all(path.exists() for path in paths):
            return
        began = time.perf_counter()
        done = work()
        for name, path, trials in zip(names, paths, done, strict=True):
            found = {"name": name, "trials": trials, "seconds": time.perf_counter() - began}
            write_json(path, found)
        shown = {k: round(float(np.mean([one[k] for one in done[0]])), 3) for k in done[0][0]}
        print(names[0], shown, f"{time.perf_counter() - began:.0f} s", flush=True)

    def groups(self, epsilon: float) -> list[str]:
        """Which private documents are asked about: those of a number of sentences at one epsilon only."""
        return list(self.private) if epsilon == EPSILON_OF_SIZES else [ALL]


def name_of(row: str, group: str) -> str:
    """The name of a cell."""
    return row if group == ALL else f"{row}@{group}"


def references(trial: Trial, trials: int) -> None:
    """The rows without privacy, without private data, and without any text."""
    rng = np.random.default_rng([SEED, 1])
    everyone = list(trial.private)
    share = np.array([trial.classes.count(label) for label in trial.labels]) / len(trial.classes)

    def original(private: Private) -> list[dict[str, float]]:
        return [trial.score(private, private.own, private.labels, private.own)]

    def random_document(private: Private) -> list[dict[str, float]]:
        rows = rng.integers(0, len(trial.public), (trials, len(private.records)))
        return [trial.score_rows(private, row) for row in rows]

    def guess(private: Private) -> list[dict[str, float]]:
        found = []
        for _ in range(trials):
            labels = rng.choice(trial.labels, len(private.records), p=share).tolist()
            right = float(np.mean([a == b for a, b in zip(labels, private.labels, strict=True)]))
            f1 = f1_score(private.labels, labels, average="macro")
            found.append({"linear": f1, "mlp": f1, "label": right, "cosine": 0.0})
        return found

    for row, work in (("original", original), ("public-only", random_document), ("random", guess)):
        trial.cells(
            [name_of(row, group) for group in everyone], lambda work=work: [work(p) for p in trial.private.values()]
        )


def spec_of(
    utility: Utility | Depth, recoder: Recoding, epsilon: float, labels: tuple[str, ...]
) -> DeepCandidate | SentDp:
    """The settings of a row: those of the paper where the utility is a depth."""
    if utility in DEPTHS:
        named = labels if recoder == "labels" else ()
        return SentDp(epsilon, named, utility=utility, recoder=recoder, precision="bfloat16")
    named = labels if utility in ("evidence", "mixed") else ()
    return DeepCandidate(epsilon, named, utility=utility, precision="bfloat16")


def run(trial: Trial, *, trials: int, epsilons: Sequence[float]) -> None:
    """Run all cells that are not there yet."""
    references(trial, trials)

    def of_groups(row: str, epsilon: float, work: Callable[[Private], list[dict[str, float]]]) -> None:
        groups = trial.groups(epsilon)
        trial.cells([name_of(row, group) for group in groups], lambda: [work(trial.private[g]) for g in groups])

    def label_only(epsilon: float) -> Callable[[], list[list[dict[str, float]]]]:
        def work() -> list[list[dict[str, float]]]:
            mechanism = LabelOnly(trial.labels, epsilon).fit(public=trial.public, seed=SEED)
            private, found = trial.private[ALL], []
            for _ in range(trials):
                released = mechanism.privatize(private.records, secure())
                found.append(trial.score_rows(private, np.array([trial.position[r.output] for r in released])))
            return [found]

        return work

    def candidates(epsilon: float) -> Callable[[], list[list[dict[str, float]]]]:
        def work() -> list[list[dict[str, float]]]:
            mechanism = Candidates(epsilon).fit(public=trial.public, seed=SEED)
            private, found = trial.private[ALL], []
            for _ in range(trials):
                released = mechanism.privatize(private.records, secure())
                found.append(trial.score_rows(private, np.array([trial.position[r.output] for r in released])))
            return [found]

        return work

    for epsilon in DOCUMENT_EPSILONS:
        trial.cells([f"label_only_document_{epsilon:g}"], label_only(epsilon))
        trial.cells([f"candidates_document_{epsilon:g}"], candidates(epsilon))

    for epsilon in epsilons:
        for utility, recoder in ROWS:
            spec = spec_of(utility, recoder, epsilon, trial.labels)
            fitted: list[CandidateMechanism] = []

            def chosen(
                private: Private, spec: DeepCandidate | SentDp = spec, fitted: Any = fitted
            ) -> list[dict[str, float]]:
                if not fitted:
                    fitted.append(spec.fit(public=trial.public, seed=SEED))
                return choices(trial, fitted[0], private, trials)

            of_groups(f"{utility}_{recoder}_{epsilon:g}", epsilon, chosen)

        def truncated(private: Private, epsilon: float = epsilon) -> list[dict[str, float]]:
            mechanism = Truncation(epsilon).fit(public=trial.public, seed=SEED)
            steps = mechanism.spec.steps(len(mechanism.box.low))
            counts = np.array([max(len(sentences(record.text)), 1) for record in trial.public])
            # As in the paper, what classifies truncated means was trained on truncated means.
            models = classifiers(mechanism.box.placed(mechanism.latent(trial.public), counts, steps), trial.classes)
            found = []
            for _ in range(trials):
                noisy = np.array([release.vector for release in mechanism.privatize(private.records, secure())])
                found.append(trial.score(private, noisy, list(models["linear"].predict(noisy)), noisy, models))
            return found

        of_groups(f"truncation_none_{epsilon:g}", epsilon, truncated)

    for epsilon in epsilons:

        def words(private: Private, epsilon: float = epsilon) -> list[dict[str, float]]:
            mechanism = WordMetric(epsilon).fit(public=trial.public, seed=SEED)
            released = [release.output for release in mechanism.privatize(private.records, secure())]
            pairs = zip((tokens(record.text) for record in private.records), map(tokens, released), strict=True)
            same = [a == b for one, other in pairs for a, b in zip(one, other, strict=len(one) == len(other))]
            vectors = means(trial.encoder, released)
            labels = list(trial.models["linear"].predict(vectors))
            return [{**trial.score(private, vectors, labels, vectors), "unchanged": float(np.mean(same))}]

        of_groups(f"words_none_{epsilon:g}", epsilon, words)


def tokens(text: str) -> list[str]:
    """Lower-cased."""
    return [token.lower() for line in tokenize(text) for token in line]


def choices(trial: Trial, mechanism: CandidateMechanism, private: Private, trials: int) -> list[dict[str, float]]:
    """What `privatize` chooses, several times from the same utilities."""
    texts = mechanism.candidates
    rows = np.array([trial.position[text] for text in texts])
    found = []
    for start in range(0, len(private.records), BLOCK):
        utilities = mechanism.utilities(private.records[start : start + BLOCK])
        found.append(np.stack([mechanism.spec.choice.choose(utilities, secure()) for _ in range(trials)]))
    return [trial.score_rows(private, rows[row]) for row in np.concatenate(found, axis=1)]


def read_cells(out: Path) -> dict[str, list[dict[str, float]]]:
    """The trials of every finished cell."""
    return {path.stem: json.loads(path.read_text("utf-8"))["trials"] for path in out.glob("*.json")}


def table(out: Path, epsilons: Sequence[float]) -> str:
    """Mean (standard deviation) of macro-F1, label kept and cosine."""
    lines = [
        "| utility | recoder | epsilon | macro-F1 | share of original | label kept | centred cosine |",
        "|" + "---|" * 7,
    ]
    known = read_cells(out)
    base = float(np.mean([t[CLASSIFIER] for t in known["original"]])) if "original" in known else float("nan")
    names = [(name, name, "-", "-") for name in ("original", "public-only", "random")]
    for utility, recoder in (("truncation", "none"), ("words", "none"), *ROWS):
        names += [(f"{utility}_{recoder}_{e:g}", utility, recoder, f"{e:g}") for e in epsilons]
    for row in ("label_only", "candidates"):
        names += [(f"{row}_document_{e:g}", row, "whole document", f"{e:g}") for e in DOCUMENT_EPSILONS]
    for name, *shown in names:
        if name in known:
            f1, label, cosine = (np.array([t[key] for t in known[name]]) for key in (CLASSIFIER, "label", "cosine"))
            lines.append(
                f"| {' | '.join(shown)} | {f1.mean():.3f} ({f1.std():.3f}) | {f1.mean() / base:.2f} | "
                f"{label.mean():.3f} | {cosine.mean():.3f} |"
            )
    return "\n".join(lines)


def table_of_sizes(out: Path) -> str:
    """Macro-F1 by the number of sentences, at one epsilon."""
    known = read_cells(out)
    rows = ["original", "public-only", f"truncation_none_{EPSILON_OF_SIZES:g}", f"words_none_{EPSILON_OF_SIZES:g}"]
    rows += [f"{utility}_{recoder}_{EPSILON_OF_SIZES:g}" for utility, recoder in ROWS]
    lines = [f"| | {' | '.join(SIZES)} |", "|" + "---|" * (len(SIZES) + 1)]
    for row in rows:
        found = [known.get(name_of(row, group), []) for group in SIZES]
        if all(found):
            f1 = [np.array([t[CLASSIFIER] for t in trials]) for trials in found]
            lines.append(f"| {row} | " + " | ".join(f"{one.mean():.3f} ({one.std():.3f})" for one in f1) + " |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("imdb", "20newsgroups", "goodreads"), required=True)
    parser.add_argument("--goodreads", type=Path, help="a folder with goodreads_reviews_*.json.gz")
    parser.add_argument("--public", type=int, default=6000, help="public documents at most")
    parser.add_argument("--private", type=int, default=1000, help="private documents at most")
    parser.add_argument("--by-size", type=int, default=200, help="private documents of each number of sentences")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--out", type=Path, default=Path("build/deep_candidate"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    sizes = (given.public, given.private, given.by_size, given.trials)
    out = given.out / "_".join([given.corpus, *map(str, sizes)])
    if not given.table:
        out.mkdir(parents=True, exist_ok=True)
        train, test = goodreads.read(given.goodreads) if given.corpus == "goodreads" else read_corpus(given.corpus)
        private = {ALL: drawn(test, given.private)}
        private |= {name: drawn(test, given.by_size, *bounds) for name, bounds in SIZES.items()}
        public = drawn(train, given.public)
        parts = ", ".join(f"{len(records)} of {name}" for name, records in private.items())
        print(f"{len(public)} public documents of at least {MIN_SENTENCES} sentences; private: {parts}", flush=True)
        with PublicVectors(VECTORS).learning():  # the corpora are public: each sentence is embedded once
            run(Trial(public, private, out), trials=given.trials, epsilons=given.epsilon)
    print(table(out, given.epsilon))
    print()
    print(table_of_sizes(out))


if __name__ == "__main__":
    main()
