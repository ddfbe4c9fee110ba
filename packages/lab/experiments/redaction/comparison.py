"""The talk's figure 6: mechanisms at about equal attack accuracy, by the meaning that they keep.

    python packages/lab/experiments/redaction/comparison.py                # cells into \
        build/redaction/comparison, resumable
    python packages/lab/experiments/redaction/comparison.py --table        # each mechanism's setting \
        nearest to the target
    python packages/lab/experiments/redaction/comparison.py --table --all  # every setting

Sentences about cancer against other medical ones. The attack is adaptive: trained on what the mechanism made of other
sentences. Meaning: the cosine to the own original, and how well a classifier that learned topics from the released
training sentences tells those of *real* sentences. Topics are those of the abstracts, cancer left out; a released
training sentence keeps the topic of its original as its label, but for `label_only`, which releases a label itself.
The epsilons stand for different promises (a word and unit of distance, a sentence, none) and are not comparable.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cells import TARGET
from corpus import SEED, Corpus, Sides, read_pair
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.mechanism import Mechanism, Spec
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.sampling.randomness import seeded
from dptext.text.records import Record, Release
from dptext_lab.adept.sound import Adept, AdeptCodebook
from dptext_lab.redaction.divergence.conversion import DELTA
from dptext_lab.redaction.random import RandomRedaction
from dptext_lab.redaction.smart import SmartRedaction
from dptext_lab.redaction.trait import (
    LINEAR,
    TFIDF,
    infer_trait_from_releases,
    train_linear_attacker,
    train_tfidf_attacker,
)

sys.path.append(str(Path(__file__).parents[1]))
from common import write_json

#: Topics that are told apart: those with the most sentences, cancer aside; what an abstract of "general" pathology is
#: about (C23) is no topic.
NOT_TOPICS = {"C04", "C23"}
TOPICS = 6
REST = "rest"
ADEPT_TEXTS = 4000
VECTORS = 200_000  # that are kept


def rows() -> dict[str, dict[str, Spec]]:
    """Settings by mechanism; those nearest to the target are shown."""
    adept = Adept(10.0, hidden=128, epochs=4, codebook_size=1000)
    return {
        "redaction, random": {f"{x:g}": RandomRedaction(x) for x in (0.6, 0.7, 0.75, 0.8, 0.85)},
        "redaction, smart": {f"{x:g}": SmartRedaction(x, sensitive="cancer") for x in (0.1, 0.15, 0.2, 0.3, 0.4)},
        "word_metric": {f"{x:g}": WordMetric(x) for x in (4.0, 5.0, 6.0, 7.0, 8.0)},
        "ADePT": {f"{x:g}": replace(adept, epsilon=x) for x in (6.0, 8.0, 10.0, 12.0)},
        "candidates": {f"{x:g}": Candidates(x) for x in (4.0, 5.0, 6.0, 8.0)},
        "DeepCandidate": {
            f"{x:g}": DeepCandidate(x, min_sentences=1, precision="bfloat16") for x in (4.0, 6.0, 8.0, 12.0)
        },
    }


class Trial:
    """A corpus, its topics, and the cells that are finished."""

    def __init__(self, corpus: Corpus, out: Path) -> None:
        self.corpus, self.out = corpus, out
        self.encoder = load_encoder(precision="bfloat16")
        self.public = [record for side in corpus.public for record in side]
        counted = Counter(corpus.topics.get(str(record.author), REST) for record in self.public)
        self.names = [topic for topic, _ in counted.most_common() if topic not in NOT_TOPICS | {REST}][:TOPICS]
        # Real sentences, on which every classifier is tried; none of their abstracts is elsewhere.
        self.real = [record for side in corpus.attacked for record in side if self.topic(record) != REST]
        self._adept: AdeptCodebook | None = None

    def topic(self, record: Record) -> str:
        """The topic of the abstract of a record."""
        found = self.corpus.topics.get(str(record.author), REST)
        return found if found in self.names else REST

    def fitted(self, spec: Spec) -> Mechanism[str]:
        """The mechanism fitted on public text. ADePT has one auto-encoder for all epsilons."""
        if isinstance(spec, SmartRedaction):
            return spec.fit(public=self.public)
        unlabelled = [replace(record, label=None) for record in self.public]
        if isinstance(spec, LabelOnly):
            return spec.fit(public=[replace(r, label=self.topic(r)) for r in self.public], seed=SEED)
        if not isinstance(spec, Adept):
            found: Any = spec.fit(public=unlabelled, seed=SEED)
            fitted: Mechanism[str] = found
            return fitted
        rng = np.random.default_rng([SEED, 4])
        some = [unlabelled[i] for i in rng.permutation(len(unlabelled))[:ADEPT_TEXTS].tolist()]
        if self._adept is None:
            first: Any = spec.fit(public=some, seed=SEED)
            self._adept = first
        return spec.refit(self._adept, public=some, seed=SEED)

    def cell(
        self,
        name: str,
        setting: str,
        release: Callable[[Sequence[Record], int], list[Release[str]]],
        labels: Callable[[Sequence[Record], Sequence[Release[str]]], list[str]] | None = None,
    ) -> None:
        """Attack, similarity and topics of a mechanism at a setting."""
        path = self.out / f"{name.replace(' ', '_').replace(',', '')}-{setting}.json"
        if path.exists():
            return
        began = time.process_time()
        sides = (self.corpus.attacked, self.corpus.training)
        attacked, training = (self.released(release, side, i) for i, side in enumerate(sides))
        report = infer_trait_from_releases(
            self.corpus.split,
            released=attacked,
            training_released=training,
            embedder=self.encoder,
            attackers={TFIDF: train_tfidf_attacker, LINEAR: train_linear_attacker},
            seed=SEED,
            delta=DELTA,
        )
        originals = [record for side in self.corpus.training for record in side]
        outputs = [one for side in training for one in side]
        known = [self.topic(record) for record in originals] if labels is None else labels(originals, outputs)
        found = {
            "name": name,
            "setting": setting,
            "attacks": {row.name: row.accuracy.to_dict() for row in report.attacks},
            "similarity": report.attacks[0].similarity.to_dict(),
            "topics": self.score([one.output for one in outputs], known),
            "samples": [[a.text, b.output] for a, b in zip(sides[0][0][:4], attacked[0][:4], strict=True)],
            "seconds": time.process_time() - began,
        }
        write_json(path, found)
        adaptive = {k: round(v["value"], 3) for k, v in found["attacks"].items() if k.endswith("adaptive")}
        print(name, setting, adaptive, found["topics"], f"{found['seconds']:.0f} s of processor time", flush=True)

    @staticmethod
    def released(
        release: Callable[[Sequence[Record], int], list[Release[str]]], sides: Sides, part: int
    ) -> tuple[list[Release[str]], list[Release[str]]]:
        """The releases of both kinds, drawn independently."""
        first, second = (release(side, 200 + 10 * part + i) for i, side in enumerate(sides))
        return first, second

    def score(self, texts: Sequence[str], topics: Sequence[str]) -> dict[str, float]:
        """Macro-F1 and accuracy on real sentences of a classifier of sentence vectors that learned from these."""
        rows = [i for i, topic in enumerate(topics) if topic != REST]
        model = LogisticRegression(C=1.0, max_iter=1000, class_weight="balanced")
        model.fit(self.encoder.embed([texts[i] for i in rows]), [topics[i] for i in rows])
        predicted = model.predict(self.encoder.embed([record.text for record in self.real]))
        true = [self.topic(record) for record in self.real]
        right = float(np.mean([a == b for a, b in zip(predicted, true, strict=True)]))
        return {
            "macro_f1": float(f1_score(true, predicted, average="macro")),
            "accuracy": right,
            "trained_on": len(rows),
            "tried_on": len(true),
        }

    def references(self) -> None:
        """The rows without privacy, without private text, and without any."""
        rng = np.random.default_rng([SEED, 5])
        drawn: dict[str, Record] = {}

        def original(records: Sequence[Record], _: int) -> list[Release[str]]:
            return [Release(record.id, record.text) for record in records]

        def public_only(records: Sequence[Record], _: int) -> list[Release[str]]:
            chosen = [self.public[i] for i in rng.integers(0, len(self.public), len(records)).tolist()]
            drawn.update({record.id: one for record, one in zip(records, chosen, strict=True)})
            return [Release(record.id, one.text) for record, one in zip(records, chosen, strict=True)]

        def guessed(records: Sequence[Record], _: Sequence[Release[str]]) -> list[str]:
            own = [self.topic(record) for record in records]
            return [own[i] for i in rng.permutation(len(own)).tolist()]

        def of_public(records: Sequence[Record], _: Sequence[Release[str]]) -> list[str]:
            return [self.topic(drawn[record.id]) for record in records]

        self.cell("original", "-", original)
        self.cell("public-only", "-", public_only, of_public)
        self.cell("random", "-", public_only, guessed)

    def label_only(self, epsilon: float) -> None:
        """The topic by randomized response, and a public sentence of it."""
        path = self.out / f"label_only-{epsilon:g}.json"
        if path.exists():
            return
        mechanism = LabelOnly((*self.names, REST), epsilon).fit(
            public=[replace(record, label=self.topic(record)) for record in self.public], seed=SEED
        )

        def release(records: Sequence[Record], seed: int) -> list[Release[str]]:
            named = [replace(record, label=self.topic(record)) for record in records]
            return list(mechanism.privatize(named, seeded(seed)))

        self.cell("label_only", f"{epsilon:g}", release, lambda _, found: [str(one.label) for one in found])

    def mechanism(self, name: str, setting: str, spec: Spec) -> None:
        """Measure one mechanism at one setting."""
        if (self.out / f"{name.replace(' ', '_').replace(',', '')}-{setting}.json").exists():
            return
        fitted = self.fitted(spec)

        def release(records: Sequence[Record], seed: int) -> list[Release[str]]:
            return list(fitted.privatize([replace(record, label=None) for record in records], seeded(seed)))

        self.cell(name, setting, release)


REFERENCES = ("original", "public-only", "random", "label_only")


def best(cell: dict[str, Any]) -> float:
    """Accuracy of the best adaptive attacker."""
    return max(float(row["value"]) for name, row in cell["attacks"].items() if name.endswith("adaptive"))


NEAR = 0.02


def table(out: Path, *, nearest: bool) -> str:
    """All settings, or of each mechanism the one whose attack is nearest to the target; beyond .02 with a mark."""
    cells: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(out.glob("*.json")):
        cell = json.loads(path.read_text("utf-8"))
        cells.setdefault(cell["name"], []).append(cell)
    head = ["mechanism", "setting", f"{TFIDF}, adaptive", f"{LINEAR}, adaptive", "similarity", "topics, macro-F1"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in (*REFERENCES, *rows()):
        own = cells.get(name, [])
        if nearest and own:
            own = [min(own, key=lambda cell: abs(best(cell) - TARGET))] if name not in REFERENCES else own
        for cell in own:
            attacks = [cell["attacks"][f"{a}, adaptive"] for a in (TFIDF, LINEAR)]
            shown = [f"{a['value']:.3f} [{a['low']:.3f}, {a['high']:.3f}]" for a in (*attacks, cell["similarity"])]
            away = " (!)" if nearest and name not in REFERENCES and abs(best(cell) - TARGET) > NEAR else ""
            lines.append(
                f"| {name}{away} | {cell['setting']} | {' | '.join(shown)} | {cell['topics']['macro_f1']:.3f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(rows()), default=tuple(rows()))
    parser.add_argument("--settings", nargs="+", help="of --only, as they stand in the table")
    parser.add_argument("--public", type=int, default=5000)
    parser.add_argument("--training", type=int, default=2000)
    parser.add_argument("--attacked", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("build/redaction/comparison"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--all", action="store_true", help="all settings in the table")
    given = parser.parse_args()
    if not given.table:
        given.out.mkdir(parents=True, exist_ok=True)
        corpus = read_pair("cancer", public=given.public, training=given.training, attacked=given.attacked)
        with PublicVectors(VECTORS).learning():  # the corpora are public: each sentence is embedded once
            trial = Trial(corpus, given.out)
            print(f"topics {trial.names}, {len(trial.real)} real sentences of them", flush=True)
            trial.references()
            for epsilon in (2.0, 6.0):
                trial.label_only(epsilon)
            for name, settings in rows().items():
                for setting, spec in settings.items():
                    if name in given.only and (not given.settings or setting in given.settings):
                        trial.mechanism(name, setting, spec)
    print(table(given.out, nearest=not given.all))


if __name__ == "__main__":
    main()
