"""`dptext utility corpus | balance`: a synthetic corpus beside a private one, and the class balance of releases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from dptext._wording import markdown_table, plural
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval
from dptext.cli.chosen import load_encoder
from dptext.cli.terminal import counted, say
from dptext.cli.utility.table import NOT_PRIVATE, Files, Judged, Named, cell, read_judged
from dptext.compare.cells import RememberingEmbedder
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import settings
from dptext.runs.models import load_model
from dptext.runs.specs import on_device
from dptext.sampling.source import seeded
from dptext.text.records import Record
from dptext.types import Floats, Json
from dptext.types import as_json as jsonable
from dptext.utility.balance import balance_error, confusion_matrix
from dptext.utility.classification import evaluate, train_tfidf
from dptext.utility.corpus import corpus_kept
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, baselines

RELEASED = "released"
_SHOWN = ("accuracy", "told_apart", "topics_tv", "mix_l1")
_HEADS = ("accuracy", "told_apart", "frechet", "precision", "recall", "topics_tv", "mix_l1", "own_label")


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """The files of the command."""

    private: Annotated[Path, options.file_argument(metavar="PRIVATE", help="The private records.")]
    released: Annotated[Path, options.file_argument(metavar="OUT", help="What `synthesize` wrote, or another corpus.")]
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


_TIMES = 5


@options.spread
def balance(
    *,
    files: Files,
    named: Named,
    model: options.ModelOption = None,
    held_out: Annotated[
        Path | None,
        options.file_option(help="Public records that --model was not fitted on: they correct it. Default: --public."),
    ] = None,
    seed: options.SeedOption = None,
    printing: Printing,
) -> None:
    """Print the L1 error of the class balance that each way recovers."""
    from dptext.mechanisms.candidates.label_only import LabelOnly

    judged = read_judged(files, named, seed)
    if held_out is not None and model is None:
        raise ConfigError("Expected --model with --held-out: those records are what it is tried on.")
    if not judged.labels or judged.epsilon is None or all(release.label is None for release in judged.releases):
        raise ConfigError("Expected releases with labels: their balance is what is recovered.")
    say(NOT_PRIVATE)
    true = [record.label for record in judged.originals]
    untouched = baselines(judged.originals, judged.public, labels=judged.labels, seed=judged.seed)[PUBLIC_ONLY]
    response = LabelOnly(judged.labels, epsilon=judged.epsilon).fit(public=judged.public)
    given = response.privatize(judged.originals, seeded(judged.seed))
    own = [release.label for release in judged.releases]

    def error(labels: Sequence[str | None], *, epsilon: float | None = None, matrix: Floats | None = None) -> Estimate:
        return balance_error(true, labels, judged.labels, epsilon=epsilon, matrix=matrix, seed=judged.seed)

    errors = {
        PUBLIC_ONLY: error([release.label for release in untouched]),
        "label randomized response, debiased": error([release.label for release in given], epsilon=judged.epsilon),
        f"{judged.name}, as released": error(own),
    }
    if model is not None:
        unseen = judged.public if held_out is None else named.read_public(held_out, label=named.label_field)
        errors[f"{judged.name}, debiased by public texts"] = error(own, matrix=_confusion(judged, model, unseen))
    data: dict[str, Json] = {
        "note": NOT_PRIVATE,
        "epsilon": judged.epsilon,
        "labels": list(judged.labels),
        "seed": judged.seed,
        "l1_error": {name: {**found.to_dict()} for name, found in errors.items()},
    }
    rows = [[name, interval(found)] for name, found in errors.items()]
    screen = markdown_table(["class balance recovered from", "L1 error (0 to 2), interval at 95%"], rows)
    legend = f"{plural(len(true), 'private record')}; epsilon {judged.epsilon:g}; seed {judged.seed}; intervals at 95%."
    if model is not None and held_out is None:
        biased = "The correction is biased where the model was fitted on --public: give --held-out, texts it never saw."
        screen += ["", biased]
    printing.answer(answers.balance(list(errors.values())), screen, [legend], data, drawn=judged.drawn_seed)


def _confusion(judged: Judged, model: Path, unseen: Sequence[Record]) -> Floats:
    """What the model makes of public labels; noise on public texts costs no privacy."""
    mechanism = load_model(model, device="cpu")  # wherever it was fitted, and the releases were made
    if judged.certificate is not None and (
        settings(mechanism.spec) != on_device("cpu", judged.certificate.settings)
        or dict(mechanism.digests) != dict(judged.certificate.digests)
    ):
        raise ConfigError(f"Expected {model} to be the model that made RELEASED: its certificate names another.")
    true: list[str | None] = []
    given: list[str | None] = []
    with counted("the model on public texts", "rounds") as tell:
        for i in range(_TIMES):
            true += [record.label for record in unseen]
            given += [release.label for release in mechanism.privatize(unseen, seeded(judged.seed + i))]
            tell(i + 1, _TIMES)
    return confusion_matrix(true, given, judged.labels)
