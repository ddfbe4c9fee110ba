"""`dptext utility corpus`: how well a synthetic corpus, whose texts are nobody's, stands for a private one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from dptext.audits.report import markdown_table
from dptext.cli import options
from dptext.cli.answers import Printing, interval
from dptext.cli.chosen import load_encoder
from dptext.cli.progress import say
from dptext.cli.utility.table import NOT_PRIVATE, cell
from dptext.compare.fits import RememberingEmbedder
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.types import Json
from dptext.types import as_json as jsonable
from dptext.utility.classification import evaluate, train_tfidf
from dptext.utility.corpus import corpus_kept
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY

RELEASED = "released"
_SHOWN = ("accuracy", "told_apart", "topics_tv", "mix_l1")
_HEADS = ("accuracy", "told_apart", "frechet", "precision", "recall", "topics_tv", "mix_l1", "own_label")


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """The files of the command."""

    private: Annotated[Path, options.file_argument(metavar="PRIVATE", help="The private records.")]
    released: Annotated[
        Path, options.file_argument(metavar="OUT", help="What `dptext synthesize` wrote, or any other corpus.")
    ]
    public: Annotated[Path, options.file_option(help="The pool; with labels where it has some.")]
    test: Annotated[
        Path | None, options.file_option(help="Real records that OUT was not made from; default: half of PRIVATE.")
    ] = None


@options.spread
def corpus(
    *,
    files: CorpusFiles,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    """Print how near a corpus comes to the private one, beside the private texts themselves and public text."""
    drawn, seed = seed is None, options.seed_of(seed)
    private = layout.read(files.private, label=label_field)
    pool = layout.read_public(files.public, label=label_field)
    made = options.Layout().read(files.released, label=None if label_field is None else "label")
    held = [] if files.test is None else layout.read(files.test, label=label_field)
    if min(map(len, (private, pool, made))) < 8:
        raise ConfigError("Expected at least 8 records in each file.")
    say(NOT_PRIVATE)
    order = [private[i] for i in np.random.default_rng(seed).permutation(len(private)).tolist()]
    own, real = (private, held) if held else (order[: len(order) // 2], order[len(order) // 2 :])
    labels = tuple(sorted({record.label for record in private if record.label}))
    embedder = RememberingEmbedder(load_encoder())
    rows: dict[str, dict[str, Estimate | float]] = {}
    for name, records in ((ORIGINAL, own), (RELEASED, made), (PUBLIC_ONLY, pool)):
        texts, given = [record.text for record in records], [record.label for record in records]
        kept = corpus_kept(
            texts, given, private=private, real=real, pool=pool, labels=labels, embedder=embedder, seed=seed
        )
        rows[name] = dict(kept.cells())
        known = [(text, label) for text, label in zip(texts, given, strict=True) if label]
        if held and labels and known:
            trained = train_tfidf([text for text, _ in known], [label for _, label in known], seed=seed)
            rows[name]["accuracy"] = evaluate(trained, held, seed=seed).accuracy
    released, public = (cell(rows[name].get("told_apart"), interval) for name in (RELEASED, PUBLIC_ONLY))
    said = [
        f"A classifier tells the corpus from real texts with AUC {released}, public text with {public}; .5 is perfect.",
        "Its texts have no record of their own, so there is no fidelity to measure.",
    ]
    screen, full = (_table(rows, heads) for heads in (_SHOWN, _HEADS))
    data: dict[str, Json] = {"note": NOT_PRIVATE, "seed": seed, "labels": [*labels]}
    data["rows"] = {row: {head: jsonable(value) for head, value in found.items()} for row, found in rows.items()}
    real_texts = "--test" if held else "half of PRIVATE"
    more = [*full, "", f"Real texts: {real_texts}; embeddings of {embedder.name}; seed {seed}; intervals at 95%."]
    printing.answer(said, screen, more, data, drawn=seed if drawn else None)


def _table(rows: Mapping[str, Mapping[str, Estimate | float]], heads: Iterable[str]) -> list[str]:
    known = [head for head in heads if any(head in found for found in rows.values())]
    lines = [[row, *(cell(found.get(head), interval) for head in known)] for row, found in rows.items()]
    return markdown_table(["interval at 95%", *known], lines)
