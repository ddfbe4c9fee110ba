"""The talk's redaction experiments: divergence, epsilon and attacks by level, random and smart redaction.

    python packages/lab/experiments/redaction/grid.py --pair cancer                    # cells into \
        build/redaction, resumable
    python packages/lab/experiments/redaction/grid.py --pair cancer --parts transformer
    python packages/lab/experiments/redaction/grid.py --pair cancer --table            # what is finished, as Markdown
    python packages/lab/experiments/redaction/grid.py --figures docs/results/figures   # SVG, of all \
        pairs that are finished

`cancer` compares cancer sentences with other medical ones, `imdb` with sentences of film reviews. Corpora are found by
DPTEXT_DATA (default ../shared/data beside the checkout). A cell is a pair, a way to redact, a level and a part: the
attack, the divergence in one embedding, or the transformer. Releases are seeded, so parts may be made in several runs.
What is measured is an estimate in one embedding, and what these attackers can do; neither is a guarantee.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import figures
import numpy as np
from cells import CONFIDENCE, LEVELS, MODES, PLANE_LEVELS, Cells, Mode, attack_table, table
from corpus import SEED, Corpus, Pair, Sides, read_pair

from dptext.embeddings.encoders import WordMean
from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.embeddings.tfidf import fit_tfidf_svd
from dptext.embeddings.vector_files import load_glove
from dptext.estimates import clopper_pearson
from dptext.mechanism import Mechanism
from dptext.sampling.randomness import seeded
from dptext.text.records import Record, Release
from dptext.types import Booleans
from dptext_lab.classifiers.fine_tuning import FineTuning, fine_tune, train_transformer
from dptext_lab.redaction.divergence.conversion import DELTA, certify
from dptext_lab.redaction.divergence.density_ratio import RatioModel
from dptext_lab.redaction.divergence.divergence import measure_vectors
from dptext_lab.redaction.divergence.estimators import COMPONENTS, DivergenceSettings, Projection, fit_projection
from dptext_lab.redaction.random import RandomRedaction
from dptext_lab.redaction.smart import SmartRedaction, SmartRedactionMechanism
from dptext_lab.redaction.trait import (
    LINEAR,
    TFIDF,
    TextVectors,
    infer_trait_from_releases,
    train_linear_attacker,
    train_tfidf_attacker,
)

sys.path.append(str(Path(__file__).parents[1]))
from common import Remembering, write_json

TRANSFORMER_LEVELS = (0.0, 0.3, 0.6, 0.9)
#: Fewer orders than the library's: each is cheap, but the largest decides how many neighbours are looked for.
ALPHAS = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
EMBEDDINGS = ("sentence", "glove", "medical", "tfidf")
PARTS = ("attack", *EMBEDDINGS, "transformer")
#: Public texts of each kind that fix the space, a third each at these levels of random redaction: a space of originals
#: alone would not know the directions in which masks take a text.
SPACE, SPACE_LEVELS = 1500, (0.0, 0.5, 0.9)
TOPICS_SCHEDULE = FineTuning(epochs=2, precision="bfloat16")
ATTACK_SCHEDULE = FineTuning(epochs=2, precision="bfloat16")


class Run:
    """A pair, what was learned from its public part, and the cells that are finished."""

    def __init__(self, pair: Pair, corpus: Corpus, out: Path, *, permutations: int) -> None:
        self.corpus, self.out, self.pair = corpus, out, pair
        confidence, resamples = (CONFIDENCE, 40) if permutations >= 19 else (0.8, 20)
        self.settings = DivergenceSettings(
            alphas=ALPHAS, folds=3, permutations=permutations, resamples=resamples, confidence=confidence, seed=SEED
        )
        self.public = [record for side in corpus.public for record in side]
        self.embedders = {
            "sentence": Remembering(lambda: load_sentence_encoder(precision="bfloat16"), "all-MiniLM-L6-v2", 384),
            "glove": Remembering(lambda: WordMean(load_glove()), "GloVe mean", 50),
            "medical": Remembering(self.medical, "all-MiniLM-L6-v2 on medical topics", 384),
            "tfidf": Remembering(lambda: fit_tfidf_svd([r.text for r in self.public], seed=SEED), "TF-IDF-SVD", 128),
        }
        self._spaces: dict[str, Projection] = {}
        self._weights: SmartRedactionMechanism | None = None

    def medical(self) -> Any:
        """MiniLM fine-tuned on the topics of public abstracts; trained once, and kept."""
        folder = self.out.parent / f"medical-{len(self.corpus.abstracts)}"
        if not folder.exists():
            began = time.process_time()
            texts, labels = zip(*((a.text, str(a.label)) for a in self.corpus.abstracts), strict=True)
            model = fine_tune(
                texts,
                labels,
                schedule=TOPICS_SCHEDULE,
                seed=SEED,
                on_epoch=lambda i, n, loss: print(f"medical MiniLM: epoch {i} of {n}, loss {loss:.3f}", flush=True),
            )
            draft = folder.with_suffix(f".{os.getpid()}")
            model.model.save(str(draft), create_model_card=False)
            draft.rename(folder)
            print(f"medical MiniLM: {time.process_time() - began:.0f} s of processor time", flush=True)
        return load_sentence_encoder(str(folder), precision="bfloat16")

    def mechanism(self, mode: Mode, level: float) -> Mechanism[str]:
        """Fitted on public text; the weights of smart redaction are learned once."""
        if mode == "random":
            return RandomRedaction(level).fit()
        if self._weights is None:
            self._weights = SmartRedaction(level, sensitive="cancer").fit(public=self.public)
        with TemporaryDirectory() as folder:  # the same weights serve every level
            self._weights.save(Path(folder))
            return SmartRedaction(level, sensitive="cancer").load(Path(folder))

    def released(self, mode: Mode, level: float, sides: Sides, seed: int) -> tuple[list[Release[str]], ...]:
        """Releases of both kinds. One seed for all levels: what is masked at a level is masked at a higher one."""
        mechanism = self.mechanism(mode, level)
        return tuple(list(mechanism.privatize(side, seeded(10 * seed + i))) for i, side in enumerate(sides))

    def space(self, embedding: str) -> Projection:
        """Fitted on public text only."""
        if embedding not in self._spaces:
            texts = []
            for side in self.corpus.public:
                for i, level in enumerate(SPACE_LEVELS):
                    part: Sequence[Record] = side[:SPACE][i :: len(SPACE_LEVELS)]
                    texts += [r.output for r in RandomRedaction(level).fit().privatize(part, seeded(SEED))]
            vectors = TextVectors(self.embedders[embedding]).at(texts)
            self._spaces[embedding] = fit_projection(vectors, components=COMPONENTS)
        return self._spaces[embedding]

    def cell(self, mode: Mode, level: float, part: str) -> None:
        """Measure a cell and write its file, unless it is there."""
        path = self.out / f"{mode}-{level:.1f}.{part}.json"
        if path.exists():
            return
        began = time.process_time()
        attacked = self.released(mode, level, self.corpus.attacked, 1)
        if part in EMBEDDINGS:
            found = self.divergence(attacked, part, level)
        else:
            training = self.released(mode, level, self.corpus.training, 2)
            work: Callable[..., dict[str, Any]] = self.transformer if part == "transformer" else self.attack
            found = work(attacked, training)
        seconds = time.process_time() - began
        write_json(path, {"pair": self.pair, "mode": mode, "level": level, "part": part, "seconds": seconds, **found})
        print(f"{self.pair}, {mode} {level:.1f}, {part}: {seconds:.0f} s of processor time", flush=True)

    def divergence(self, attacked: Sequence[list[Release[str]]], embedding: str, level: float) -> dict[str, Any]:
        """The audit of two sets of vectors, and the bound certified at 95%."""
        vectors = TextVectors(self.embedders[embedding])
        first, second = (self.space(embedding).apply(vectors.at([r.output for r in side])) for side in attacked)
        report = measure_vectors(first, second, settings=self.settings)
        bound = certify(
            first, second, ALPHAS, models=tuple(RatioModel), delta=DELTA, confidence=CONFIDENCE, seed=self.settings.seed
        )
        plane = [rows.round(3).tolist() for rows in report.plane] if level in PLANE_LEVELS else None
        return {"report": report.to_dict(), "certified": bound.to_dict(), "plane": plane}

    def attack(self, attacked: Any, training: Any) -> dict[str, Any]:
        """Static and adaptive: words, and sentence vectors, with a linear model each."""
        report = infer_trait_from_releases(
            self.corpus.split,
            released=attacked,
            training_released=training,
            embedder=self.embedders["sentence"],
            attackers={TFIDF: train_tfidf_attacker, LINEAR: train_linear_attacker},
            seed=SEED,
            delta=DELTA,
        )
        return {"report": report.to_dict()}

    def transformer(self, attacked: Any, training: Any) -> dict[str, Any]:
        """The fine-tuned encoder, adaptive."""
        texts, is_first = labelled(training)
        scores = train_transformer(ATTACK_SCHEDULE)(texts, is_first, None, SEED)
        outputs, true = labelled(attacked)
        right = clopper_pearson(int(((scores(outputs) > 0) == true).sum()), len(true), confidence=CONFIDENCE)
        return {"accuracy": right.to_dict()}


def labelled(sides: Sequence[Sequence[Release[str]]]) -> tuple[list[str], Booleans]:
    """Texts of both sets, and which are of the first."""
    return [r.output for side in sides for r in side], np.repeat([True, False], [len(side) for side in sides])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", choices=("cancer", "imdb"), default="cancer")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["attack", "sentence"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--transformer", type=float, nargs="+", default=TRANSFORMER_LEVELS, help="levels")
    parser.add_argument("--public", type=int, default=5000, help="public sentences of each kind at most")
    parser.add_argument("--training", type=int, default=2000, help="sentences of each kind that train attackers")
    parser.add_argument("--attacked", type=int, default=2000, help="sentences of each kind that are attacked, measured")
    parser.add_argument("--permutations", type=int, default=5, help="of the null; from 19 on intervals are at 95%%")
    parser.add_argument("--out", type=Path, default=Path("build/redaction"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--figures", type=Path, help="a folder; run nothing")
    given = parser.parse_args()
    if given.figures:
        given.figures.mkdir(parents=True, exist_ok=True)
        figures.draw(given.out, given.figures)
        return
    if not given.table:
        out = given.out / given.pair
        out.mkdir(parents=True, exist_ok=True)
        corpus = read_pair(given.pair, public=given.public, training=given.training, attacked=given.attacked)
        parts = {name: [len(side) for side in getattr(corpus, name)] for name in ("public", "training", "attacked")}
        print(f"{parts}, {len(corpus.abstracts)} public abstracts", flush=True)
        run = Run(given.pair, corpus, out, permutations=given.permutations)
        originals = corpus.originals
        for mode in given.modes:
            for level in given.levels:
                if mode == "smart" and level == 0:
                    continue
                for part in given.parts:
                    if part != "transformer" or level in given.transformer:
                        run.cell(mode, level, part)
                for embedder in run.embedders.values():
                    embedder.forget(originals)
    cells = Cells(given.out, given.pair)
    for embedding in EMBEDDINGS:
        if cells.levels("random", embedding):
            print(table(cells, embedding), end="\n\n")
    print(attack_table(cells))


if __name__ == "__main__":
    main()
