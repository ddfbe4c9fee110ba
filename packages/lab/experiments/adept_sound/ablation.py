"""What each part of the codebook is worth, on SNIPS: `python packages/lab/experiments/adept_sound/ablation.py`.

One model, many codebooks: generated or real public utterances, how many, how much a label weighs, and what ranks them.
Label kept and cosine to the own original (all-MiniLM-L6-v2), with the same split as grid.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from grid import SEED, VECTORS, split, utterances

from dptext import Record, Release, privatize
from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.sampling.randomness import secure
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext_lab import Adept
from dptext_lab.adept.net import AnnotatedModel, TextCodebook, best_choice, write_codebook
from dptext_lab.adept.sound import AdeptCodebook


def real(model: AnnotatedModel, public: list[Record], size: int) -> TextCodebook:
    """Public utterances as they are, in the place of generated ones."""
    rows = np.random.default_rng(SEED).permutation(len(public))[:size]
    chosen = [public[i] for i in rows]
    texts, labels = tuple(r.text for r in chosen), tuple(r.label for r in chosen)
    return TextCodebook(texts, labels, model.meanings(chosen), tuple(int(i) for i in rows))


def variants(spec: Adept, model: AnnotatedModel, public: list[Record]) -> Iterator[tuple[str, Adept, TextCodebook]]:
    """Names, specs and codebooks."""
    books = {size: write_codebook(model, public, size=size, seed=SEED) for size in (500, 2000, 5000)}
    for size, book in books.items():
        yield f"generated, {len(book)}, label first", replace(spec, codebook_size=size), book
    for weight in (0.0, 0.1, 0.3):
        yield f"generated, {len(books[2000])}, label weight {weight:g}", replace(spec, label_weight=weight), books[2000]
    for size in (2000, len(public)):
        yield f"real public utterances, {size}, label first", spec, real(model, public, size)


def in_two_steps(
    model: AnnotatedModel, book: TextCodebook, records: list[Record], *, epsilon: float, share: float, k: int
) -> list[Release[str]]:
    """A share of epsilon on the label (randomized response), the rest on the choice among its utterances."""
    labels = sorted({str(label) for label in book.labels})
    own = np.asarray([labels.index(str(label)) for label in book.labels])
    truth = np.eye(len(labels))[[labels.index(str(record.label)) for record in records]]
    drawn = TopKRandomizedResponse(share * epsilon, 1, len(labels)).choose(truth, secure())
    cosines = model.meanings(records) @ book.points.T
    found = np.empty(len(records), np.int64)
    for label in range(len(labels)):
        rows, columns = np.flatnonzero(drawn == label), np.flatnonzero(own == label)
        choice = TopKRandomizedResponse((1 - share) * epsilon, min(k, len(columns) - 1), len(columns))
        found[rows] = columns[choice.choose(cosines[np.ix_(rows, columns)], secure())]
    return [Release(r.id, book.texts[i], book.labels[i]) for r, i in zip(records, found, strict=True)]


def main() -> int:
    """Print one row a variant and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", default="5,10")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    public, private, _ = split(utterances("snips"))
    labels = tuple(sorted({str(record.label) for record in public}))
    encoder = load_encoder()

    def show(what: str, epsilon: float, k: int, released: list[Release[str]]) -> None:
        before, after = encoder.embed([r.text for r in private]), encoder.embed([r.output for r in released])
        cosine = float(np.mean(np.sum(before * after, axis=1)))
        kept = float(np.mean([a.label == b.label for a, b in zip(private, released, strict=True)]))
        distinct = len({r.output for r in released})
        print(f"| {what} | {epsilon:g} | {k} | {kept:.3f} | {cosine:.3f} | {distinct} |", flush=True)

    print("| codebook | epsilon | k or in play | label kept | cosine | distinct texts |\n|---|---|---|---|---|---|")
    for name in ("sentence", "lstm"):
        spec = Adept(epsilon=10.0, labels=labels, encoder=name)
        fitted = spec.fit(public=public, seed=SEED)
        assert isinstance(fitted, AdeptCodebook)
        model = fitted.model
        book = write_codebook(model, public, size=2000, seed=SEED)
        for epsilon in (float(text) for text in given.epsilons.split(",")):
            for share in (0.3, 0.5, 0.7):
                for k in (1, 3, 10, 30):
                    released = in_two_steps(model, book, private, epsilon=epsilon, share=share, k=k)
                    show(f"{name}: generated, {share:g} of epsilon on the label first", epsilon, k, released)
        for what, changed, book in variants(spec, model, public):
            for epsilon in (float(text) for text in given.epsilons.split(",")):
                at = replace(changed, epsilon=epsilon)
                choice = best_choice(book, model, public, epsilon=epsilon, label_weight=at.label_weight, seed=SEED)
                released = list(privatize(private, AdeptCodebook(at, model, book, choice)))
                show(f"{name}: {what}", epsilon, choice.in_play(), released)
    return 0


if __name__ == "__main__":
    with PublicVectors(VECTORS).learning():  # the corpora are public: each text is embedded once
        sys.exit(main())
