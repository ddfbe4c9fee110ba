"""ER-AE's table: similarity, authorship and style of every mechanism, with its true epsilon a word and a text.

    python packages/lab/experiments/erae/grid.py --corpus blogs                # cells into build/erae, resumable
    python packages/lab/experiments/erae/grid.py --corpus blogs --table        # what is finished, as Markdown
    python packages/lab/experiments/erae/grid.py --yelp review.json  # your own Yelp dump instead (see yelp.py)
    python packages/lab/experiments/erae/grid.py --paper --epochs 50  # 50 tokens, 20,000 words, as in the paper: days

Texts are cut into sentences of at most 20 tokens. Of each author half of the posts are public (networks are trained on
them), the rest is private: one part trains the attackers, the other is attacked. Corpora are found by DPTEXT_DATA
(default ../shared/data beside the checkout).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yelp

from dptext.audits.inference.authorship import ENCODER, NGRAMS, attribute_releases
from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.mechanism import Mechanism, Spec
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.words.syntf import SynTf
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import secure
from dptext.text.records import Record, Release
from dptext.text.tokens import cut, detokenize, sentences, tokenize
from dptext.utility.fidelity import fidelity
from dptext.utility.stylometry import StyleSpace
from dptext_lab.adept.sound import Adept
from dptext_lab.baselines.words import RandomReplacement
from dptext_lab.erae.erae import ErAe

sys.path.append(str(Path(__file__).parents[1]))
from common import Remembering, corpus_rows, write_json

SEED = 70
LEAST_TOKENS = 4
BUNDLE = 20
AUTHORS = 100
#: Of the public texts ADePT is trained on so many: it takes many epochs.
ADEPT_TEXTS = 10_000
#: Networks by name: the paper's with its reward, without, and the paper's single latent.
NETWORKS = {
    "reward": {"reward": 10.0},
    "plain": {"reward": 0.0},
    "text latent": {"reward": 10.0, "latent": "text"},
}


@dataclass(frozen=True)
class Sizes:
    """Tokens of a text at most, and words of the networks."""

    tokens: int = 20
    words: int = 8000

    def erae(self, epsilon: float, **settings: Any) -> ErAe:
        """ER-AE of these sizes."""
        return ErAe(epsilon, max_tokens=self.tokens, max_words=self.words, **settings)


PAPER = Sizes(50, 20_000)


@dataclass(frozen=True)
class Corpus:
    """Short texts: public ones, those that train the attackers, those that are attacked, equally many an author."""

    public: list[Record]
    training: list[Record]
    attacked: list[Record]


def pieces(text: str, tokens: int) -> list[str]:
    """A post as texts of at most so many tokens."""
    found = [cut(tokenize(sentence), tokens) for sentence in sentences(text)]
    return [detokenize(lines) for lines in found if sum(map(len, lines)) >= LEAST_TOKENS]


def read_posts(name: str) -> dict[str, list[str]]:
    """The posts of each author (of peer reviews, whose authors are unknown, of each review)."""
    posts: dict[str, list[str]] = defaultdict(list)
    for row in corpus_rows(name):
        posts[str(row.get("author", row.get("paper")))].append(row["text"].replace("\0", " "))
    return posts


def split(posts: dict[str, list[str]], *, training: int, attacked: int, tokens: int = 20) -> Corpus:
    """Half of the posts public; of the rest so many short texts an author, of the first `AUTHORS` who have them."""
    source = np.random.default_rng(SEED)
    public: list[Record] = []
    parts: tuple[list[Record], list[Record]] = ([], [])
    for author in sorted(posts):
        shuffled = [posts[author][i] for i in source.permutation(len(posts[author]))]
        half = len(shuffled) // 2
        public += [
            Record(f"p{len(public)}", piece, author=author)
            for post in shuffled[:half]
            for piece in pieces(post, tokens)
        ]
        middle = half + (len(shuffled) - half) * training // (training + attacked)
        halves = [
            [piece for post in some for piece in pieces(post, tokens)]
            for some in (shuffled[half:middle], shuffled[middle:])
        ]
        wanted = (training, attacked)
        if len(parts[0]) == AUTHORS * training:
            continue
        if any(len(found) < n for found, n in zip(halves, wanted, strict=True)):
            continue
        for part, found, n in zip(parts, halves, wanted, strict=True):
            chosen = source.permutation(len(found))[:n]
            part += [Record(f"{author}-{len(part)}", found[i], author=author) for i in chosen]
    return Corpus(public, *parts)


def rows(sizes: Sizes) -> dict[str, tuple[Spec, str]]:
    """Every mechanism by its name in the table, and the network it shares; "" where it has its own or none."""
    found: dict[str, tuple[Spec, str]] = {}
    for epsilon in (12.0, 9.0, 10.0, 11.0, 13.0, 14.0):
        found[f"ER-AE, two_set {epsilon:g}"] = (sizes.erae(epsilon, choice="two_set"), "reward")
    found["ER-AE, two_set_sampled 12"] = (sizes.erae(12.0, choice="two_set_sampled"), "reward")
    found["two_set 12, no reward"] = (sizes.erae(12.0, choice="two_set", **NETWORKS["plain"]), "plain")
    found["AE-DP 12"] = (sizes.erae(12.0, choice="ae_dp", **NETWORKS["plain"]), "plain")
    found["Random-R"] = (RandomReplacement(), "")
    found["SynTF, 12 a term"] = (SynTf(epsilon=1.0, n_terms=sizes.tokens).calibrate(12.0 * sizes.tokens), "")
    for epsilon in (12.0, 9.0, 6.0):
        found[f"top_k_rr {epsilon:g}"] = (sizes.erae(epsilon), "reward")
        found[f"hub {epsilon:g}"] = (sizes.erae(epsilon, choice="hub"), "reward")
    found["top_k_rr 12, k = 5"] = (sizes.erae(12.0, k=5), "reward")
    found["exponential 12"] = (sizes.erae(12.0, choice="exponential"), "reward")
    found["hub 12, no reward"] = (sizes.erae(12.0, choice="hub", **NETWORKS["plain"]), "plain")
    found["two_set 12, text latent"] = (sizes.erae(12.0, choice="two_set", **NETWORKS["text latent"]), "text latent")
    found["word_metric 10"] = (WordMetric(10.0), "")
    found["candidates, 12 a text"] = (Candidates(12.0), "")
    found["ADePT, 12 a text"] = (Adept(12.0, max_tokens=sizes.tokens, max_words=sizes.words, epochs=6), "")
    return found


class Run:
    """A corpus, its fitted networks, and the cells that are finished."""

    def __init__(self, corpus: Corpus, out: Path, *, epochs: int, sizes: Sizes) -> None:
        self.corpus = corpus
        self.sizes = sizes
        self.out = out
        self.epochs = epochs
        self.encoder = Remembering(lambda: load_sentence_encoder(precision="bfloat16"))
        self.style = StyleSpace.fit(corpus.public)

    def fitted(self, spec: Spec, network: str) -> Mechanism[str]:
        """The mechanism of a row."""
        if isinstance(spec, Adept):
            return spec.fit(public=self.corpus.public[:: max(1, len(self.corpus.public) // ADEPT_TEXTS)], seed=SEED)
        if not isinstance(spec, ErAe):
            return spec.fit(public=self.corpus.public, seed=SEED)
        mechanism = self.trained(network)
        return type(mechanism)(spec, mechanism.model)

    def trained(self, network: str) -> Any:
        """A network, trained once and kept."""
        trained = self.sizes.erae(12.0, epochs=self.epochs, **NETWORKS[network])
        folder = self.out / f"network_{network.replace(' ', '_')}"
        if not folder.exists():
            began = time.perf_counter()

            def told(at: Any) -> None:
                print(f"{network}: {at}, {time.perf_counter() - began:.0f} s", flush=True)

            save_model(trained.fit(public=self.corpus.public, seed=SEED, on_progress=told), folder)
        return load_model(folder)

    def cell(self, name: str, release: Callable[[Sequence[Record]], list[Release[str]]], epsilons: Any) -> None:
        """Releases and all that is measured on them."""
        path = self.out / f"{name.replace(' ', '_').replace(',', '')}.json"
        if path.exists():
            return
        began = time.perf_counter()
        attacked, training = self.corpus.attacked, self.corpus.training
        released, taught = release(attacked), release(training)
        seconds = time.perf_counter() - began
        measured = fidelity(attacked, released, embedder=self.encoder, seed=SEED)
        single, bundled = (
            attribute_releases(
                training,
                attacked,
                released=released,
                training_released=taught,
                embedder=self.encoder,
                bundle=bundle,
                seed=SEED,
            )
            for bundle in (1, BUNDLE)
        )
        found = {
            "name": name,
            "epsilons": epsilons,
            "seconds": seconds,
            "similarity": measured.to_dict(),
            "style": self.style.distance(attacked, released, seed=SEED).to_dict(),
            "single": single.to_dict(),
            "bundles": bundled.to_dict(),
            "samples": [[a.text, b.output] for a, b in zip(attacked[:8], released[:8], strict=True)],
        }
        write_json(path, found)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)

    def references(self) -> None:
        """The rows that need no mechanism."""
        public = [record.text for record in self.corpus.public]
        words = sorted({word for text in public for line in tokenize(text) for word in line})
        source = np.random.default_rng(SEED)

        def original(records: Sequence[Record]) -> list[Release[str]]:
            return [Release(record.id, record.text) for record in records]

        def public_only(records: Sequence[Record]) -> list[Release[str]]:
            return [Release(record.id, public[i]) for record, i in self.drawn(records, source, len(public))]

        def random(records: Sequence[Record]) -> list[Release[str]]:
            drawn = source.integers(0, len(words), (len(records), self.sizes.tokens))
            return [
                Release(record.id, " ".join(words[i] for i in row)) for record, row in zip(records, drawn, strict=True)
            ]

        self.cell("original", original, {"word": None, "text": None})
        self.cell("public-only", public_only, {"word": 0, "text": 0})
        self.cell("random", random, {"word": 0, "text": 0})

    @staticmethod
    def drawn(records: Sequence[Record], source: np.random.Generator, size: int) -> Any:
        """Records with a random row each."""
        return zip(records, source.integers(0, size, len(records)).tolist(), strict=True)

    def mechanism(self, name: str, spec: Spec, network: str) -> None:
        """Measure one mechanism."""
        if (self.out / f"{name.replace(' ', '_').replace(',', '')}.json").exists():
            return
        mechanism = self.fitted(spec, network)
        promise = spec.guarantee()
        text = promise.epsilon if not promise.metric and promise.epsilon < 1e6 else None
        word = text / self.sizes.tokens if text and isinstance(spec, ErAe | SynTf) else None
        self.cell(
            name,
            lambda records: list(mechanism.privatize(records, secure())),
            {"word": word, "text": text, "delta 1e-5": spec.guarantee(delta=1e-5).epsilon if text else None},
        )


#: Name of the attacker, what it knows.
ATTACKERS = [f"{name}, {knowledge}" for name in (NGRAMS, ENCODER) for knowledge in ("static", "adaptive")]


def shown(found: Any, digits: int = 3) -> str:
    """An estimate with its interval."""
    return f"{found['value']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def accuracy(report: Any, attacker: str) -> str:
    """The accuracy of one attacker, with its interval."""
    found = {row["name"]: row for row in report["attacks"]}
    return shown(found[attacker]["accuracy"]) if attacker in found else "-"


def table(out: Path) -> str:
    """The table of every finished cell."""
    lines = [
        "| row | a word | a text | at delta 1e-5 | similarity | style | "
        + " | ".join(f"{name}: one text / bundle of {BUNDLE}" for name in ATTACKERS)
        + " |",
        "|" + "---|" * (6 + len(ATTACKERS)),
    ]
    for name in ("original", "public-only", "random", *rows(Sizes())):
        path = out / f"{name.replace(' ', '_').replace(',', '')}.json"
        if path.exists():
            cell = json.loads(path.read_text("utf-8"))
            promised = [cell["epsilons"].get(kind) for kind in ("word", "text", "delta 1e-5")]
            epsilons = ["-" if value is None else f"{value:.4g}" for value in promised]
            attacks = [f"{accuracy(cell['single'], a)} / {accuracy(cell['bundles'], a)}" for a in ATTACKERS]
            parts = [name, *epsilons, shown(cell["similarity"]["cosine"]), shown(cell["style"], 1), *attacks]
            lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("blogs", "peer_reviews"), default="blogs")
    parser.add_argument("--yelp", type=Path, help="your own yelp_academic_dataset_review.json")
    parser.add_argument("--training", type=int, default=30, help="texts an author that train the attackers")
    parser.add_argument("--attacked", type=int, default=20, help="texts an author that are attacked")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--paper", action="store_true", help="50 tokens and 20,000 words")
    parser.add_argument("--only", default="", help="rows, separated by semicolons")
    parser.add_argument("--out", type=Path, default=Path("build/erae"))
    parser.add_argument("--train", action="store_true", help="train the networks, run no row")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    sizes = PAPER if given.paper else Sizes()
    out = given.out / ((given.yelp.stem if given.yelp else given.corpus) + ("_paper" if given.paper else ""))
    if given.table:
        print(table(out))
        return
    out.mkdir(parents=True, exist_ok=True)
    posts = yelp.read(given.yelp) if given.yelp else read_posts(given.corpus)
    corpus = split(posts, training=given.training, attacked=given.attacked, tokens=sizes.tokens)
    authors = len({record.author for record in corpus.attacked})
    print(f"{authors} authors; {len(corpus.public)} public texts, {len(corpus.attacked)} attacked", flush=True)
    run = Run(corpus, out, epochs=given.epochs, sizes=sizes)
    if given.train:
        for network in NETWORKS:
            run.trained(network)
        return
    run.references()
    only = {name.strip() for name in given.only.split(";") if name.strip()}
    for name, (spec, network) in rows(sizes).items():
        if not only or name in only:
            run.mechanism(name, spec, network)
    print(table(out))


if __name__ == "__main__":
    main()
