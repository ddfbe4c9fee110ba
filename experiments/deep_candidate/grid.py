"""DeepCandidate on whole documents: macro-F1 and similarity against epsilon, every utility and baseline.

    python experiments/deep_candidate/grid.py --corpus imdb              # cells into build/deep_candidate, resumable
    python experiments/deep_candidate/grid.py --corpus imdb --table      # what is finished, as Markdown

Public is the training split of the corpus, private its test split; embeddings stay in memory. Corpora are found by
DPTEXT_DATA (default ../shared/data beside the checkout).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dptext.likeness import mean_by_document
from dptext.mechanisms.candidates import Candidates
from dptext.mechanisms.deep_candidate import DeepCandidate
from dptext.mechanisms.truncation import Truncation
from dptext.neural import candidates_fit, sentence_encoder
from dptext.neural.candidate_scores import Utility
from dptext.neural.sentence_encoder import SentenceEncoder, load_sentence_encoder
from dptext.randomness import secure
from dptext.records import Record
from dptext.text import sentences

Floats = NDArray[np.float64]
Recoding = Literal["none", "clusters", "labels"]
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
ROWS: tuple[tuple[Utility, Recoding], ...] = (
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
EPSILONS = (3.0, 10.0, 25.0)
#: Of `candidates`, whose epsilon is that of the whole document.
DOCUMENT_EPSILONS = (5.0, 8.0, 10.0)


def read_corpus(name: str) -> tuple[list[Record], list[Record]]:
    """Public and private documents."""
    path = Path(os.environ.get("DPTEXT_DATA", "../shared/data")) / name / f"{name}.jsonl.gz"
    if not path.is_file():
        sys.exit(f"Expected the corpus {path}: set DPTEXT_DATA to the folder of the corpora.")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]

    def label(found: str) -> str:
        return next((group for start, group in GROUPS.items() if found.startswith(start)), found)

    parts: dict[str, list[Record]] = {"train": [], "test": []}
    for row in rows:
        parts[row["split"]].append(Record(str(row["id"]), row["text"], label=label(str(row["label"]))))
    return parts["train"], parts["test"]


def drawn(records: Sequence[Record], wanted: int, seed: int) -> list[Record]:
    """So many records of at least eight sentences, in a public random order."""
    found: list[Record] = []
    for i in np.random.default_rng(seed).permutation(len(records)):
        if len(found) == wanted:
            break
        if len(sentences(records[i].text)) >= MIN_SENTENCES:
            found.append(records[i])
    return found


class Remembering:
    """An encoder that keeps its vectors in memory, for experiments on public corpora only."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._known: dict[bytes, Floats] = {}
        self.name, self.dim, self.digest = encoder.name, encoder.dim, encoder.digest

    def embed(self, texts: Sequence[str]) -> Floats:
        """As the encoder does."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        new = list({key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}.items())
        for (key, _), vector in zip(new, self._encoder.embed([text for _, text in new]) if new else [], strict=True):
            self._known[key] = np.asarray(vector, np.float64)
        return np.stack([self._known[key] for key in keys]) if keys else np.empty((0, self.dim))


@dataclass(frozen=True, eq=False)
class Trial:
    """The corpus with its embeddings and the classifiers on the candidates' side."""

    labels: tuple[str, ...]
    public: list[Record]
    private: list[Record]
    encoder: Remembering

    def means(self, records: Sequence[Record]) -> Floats:
        """Mean sentence embeddings."""
        documents = [sentences(record.text) for record in records]
        vectors = self.encoder.embed([sentence for document in documents for sentence in document])
        return mean_by_document(vectors, [len(document) for document in documents])

    def classifier(self, means: Floats, classes: Sequence[str | None], kind: str) -> Callable[[Floats], NDArray[Any]]:
        """Trained on public vectors."""
        if kind == "linear":
            model = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=2000))
        else:
            model = make_pipeline(
                StandardScaler(), MLPClassifier((256,), alpha=1.0, early_stopping=True, random_state=SEED)
            )
        predict: Callable[[Floats], NDArray[Any]] = model.fit(means, list(classes)).predict
        return predict


def unit(vectors: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def run(trial: Trial, out: Path, *, trials: int, epsilons: Sequence[float]) -> None:
    """All cells that are not there yet."""
    public, private = trial.means(trial.public), trial.means(trial.private)
    wanted = [record.label for record in trial.private]
    centre = public.mean(axis=0)
    classes = [record.label for record in trial.public]
    predict = {kind: trial.classifier(public, classes, kind) for kind in ("linear", "mlp")}

    def score(vectors: Floats, labels: Sequence[str | None], means: Floats) -> dict[str, float]:
        ours = unit(private - centre)
        return {
            "f1": max(f1_score(wanted, predict[kind](vectors), average="macro") for kind in predict),
            "label": float(np.mean([a == b for a, b in zip(labels, wanted, strict=True)])),
            "cosine": float((ours * unit(means - centre)).sum(axis=1).mean()),
        }

    def cell(name: str, work: Callable[[], list[dict[str, float]]]) -> None:
        path = out / f"{name}.json"
        if path.exists():
            return
        began = time.perf_counter()
        done = work()
        found = {"name": name, "trials": done, "seconds": time.perf_counter() - began}
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(found), "utf-8")
        draft.replace(path)
        print(name, {k: round(float(np.mean([one[k] for one in done])), 3) for k in done[0]}, flush=True)

    cell("original", lambda: [score(private, wanted, private)])

    def random_candidates() -> list[dict[str, float]]:
        found = []
        for i in range(trials):
            rows = np.random.default_rng([SEED, i]).integers(0, len(public), len(private))
            found.append(score(public[rows], [classes[j] for j in rows], public[rows]))
        return found

    cell("public-only", random_candidates)
    texts = {record.text: i for i, record in enumerate(trial.public)}

    def chosen(spec: DeepCandidate | Candidates) -> Callable[[], list[dict[str, float]]]:
        def work() -> list[dict[str, float]]:
            mechanism = spec.fit(public=trial.public, seed=SEED)
            found = []
            for _ in range(trials):
                rows = np.array([texts[release.output] for release in mechanism.privatize(trial.private, secure())])
                found.append(score(public[rows], [classes[j] for j in rows], public[rows]))
            return found

        return work

    def truncated(epsilon: float) -> Callable[[], list[dict[str, float]]]:
        def work() -> list[dict[str, float]]:
            mechanism = Truncation(epsilon).fit(public=trial.public, seed=SEED)
            found = []
            for _ in range(trials):
                noisy = np.array([release.vector for release in mechanism.privatize(trial.private, secure())])
                found.append(score(noisy, list(predict["linear"](noisy)), noisy))
            return found

        return work

    for epsilon in DOCUMENT_EPSILONS:
        cell(f"candidates_document_{epsilon:g}", chosen(Candidates(epsilon)))
    for epsilon in epsilons:
        cell(f"truncation_none_{epsilon:g}", truncated(epsilon))
        for utility, recoder in ROWS:
            labelled = utility in ("evidence", "mixed") or recoder == "labels"
            spec = DeepCandidate(
                epsilon,
                trial.labels if labelled else (),
                utility=utility,
                recoder=recoder,
                precision="bfloat16",
            )
            cell(f"{utility}_{recoder}_{epsilon:g}", chosen(spec))


def table(out: Path, epsilons: Sequence[float]) -> str:
    """Mean (standard deviation) of macro-F1, label kept and cosine."""
    lines = [
        "| utility | recoder | epsilon | macro-F1 | share of original | label kept | centred cosine |",
        "|" + "---|" * 7,
    ]
    known = {path.stem: json.loads(path.read_text("utf-8"))["trials"] for path in out.glob("*.json")}
    base = float(np.mean([t["f1"] for t in known["original"]])) if "original" in known else float("nan")
    names = [("original", "original", "-", "-"), ("public-only", "public-only", "-", "-")]
    names += [(f"{u}_{r}_{e:g}", u, r, f"{e:g}") for u, r in (("truncation", "none"), *ROWS) for e in epsilons]
    names += [(f"candidates_document_{e:g}", "candidates", "whole document", f"{e:g}") for e in DOCUMENT_EPSILONS]
    for name, *shown in names:
        if name in known:
            f1, label, cosine = (np.array([t[key] for t in known[name]]) for key in ("f1", "label", "cosine"))
            lines.append(
                f"| {' | '.join(shown)} | {f1.mean():.3f} ({f1.std():.3f}) | {f1.mean() / base:.2f} | "
                f"{label.mean():.3f} | {cosine.mean():.3f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("imdb", "20newsgroups"), required=True)
    parser.add_argument("--public", type=int, default=6000, help="public documents at most")
    parser.add_argument("--private", type=int, default=1000, help="private documents at most")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--out", type=Path, default=Path("build/deep_candidate"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    out = given.out / f"{given.corpus}_{given.public}_{given.private}"
    if given.table:
        print(table(out, given.epsilon))
        return
    out.mkdir(parents=True, exist_ok=True)
    train, test = read_corpus(given.corpus)
    encoder = Remembering(load_sentence_encoder(precision="bfloat16"))
    # Every mechanism reads the same vectors, made once. (They are looked up by name where they are used.)
    for module in (candidates_fit, sentence_encoder):
        setattr(module, "load_sentence_encoder", lambda *_, **__: encoder)  # noqa: B010
    public, private = drawn(train, given.public, SEED), drawn(test, given.private, SEED)
    trial = Trial(tuple(sorted({str(record.label) for record in public})), public, private, encoder)
    print(
        f"{len(public)} public and {len(private)} private documents of at least {MIN_SENTENCES} sentences", flush=True
    )
    run(trial, out, trials=given.trials, epsilons=given.epsilon)
    print(table(out, given.epsilon))


if __name__ == "__main__":
    main()
