"""`dptext demo`: measure built-in texts once, write a corpus from the summary, judge it, and refute a false claim.

The private and the public texts are generated (`dptext.text.samples`), so nothing here is secret. The library alone is
needed. No number is written down: a run computes each, and the noise is drawn anew.
"""

import csv
import io
import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np

from dptext.audits.report import Report
from dptext.audits.subjects import claim_of
from dptext.audits.trials.density import whitebox
from dptext.cli import answers
from dptext.cli.answers import interval
from dptext.cli.options import JsonOption, output_folder_option
from dptext.cli.terminal import say
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.encoders import load_encoder
from dptext.errors import PrivacyError
from dptext.estimates import Estimate
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.privacy.guarantee import Guarantee
from dptext.runs.summarizing import summarize
from dptext.runs.synthesized import Synthesized
from dptext.runs.writing import write
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.randomness import secure
from dptext.text.files import Target, require_free
from dptext.text.records import Record
from dptext.text.samples import SAMPLE_LABELS, sample_records
from dptext.types import Json, jsonable
from dptext.utility.classification import best_zero_shot, evaluate, train_tfidf
from dptext.utility.gap import difference, right_answers
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM
from dptext.utility.worth import in_points

EPSILON: Final = 1.0
DELTA: Final = 1e-5
#: Dimension of the vectors of the claims on trial. In few dimensions, few releases show the largest loss.
DIM: Final = 2
SEED: Final = 0  # of the choices that read public texts alone
_WIDTH: Final = 98
_CORPUS: Final = "corpus"
_LABEL_ONLY: Final = "label_only"
_MEANING: Final = {
    ORIGINAL: "the private texts",
    _CORPUS: "what was written",
    PUBLIC_ONLY: "the public texts, labelled by the names of the labels",
    _LABEL_ONLY: f"a noisy label of each text (epsilon {EPSILON:g}), a public text of it",
    RANDOM: "the public texts, labelled by lot",
}
_NEXT: Final = {
    "dptext check FILE": "what a file of yours holds, and how to read it",
    "dptext demo --files FOLDER": "these texts as files, and the commands to type",
    f"dptext audit whitebox --noise laplace --epsilon {2 * EPSILON:g} --claim {EPSILON:g} --dim {DIM}": "that claim",
}


@dataclass(frozen=True, slots=True)
class DemoSizes:
    """Numbers of private, public and test texts, and of releases from each input of a trial."""

    private: int = 600
    public: int = 600
    test: int = 400
    trials: int = 20_000


@dataclass(frozen=True, slots=True)
class DemoFindings:
    """A summary, a corpus, what classifiers that learned from it and others get right, and two trials of one claim."""

    sizes: DemoSizes
    summary: Synthesized = field(repr=False)
    corpus: Synthesized = field(repr=False)
    accuracy: Mapping[str, Estimate]
    more: Estimate  #: accuracy by the corpus less that by the public texts, over the same test texts
    claim: Guarantee
    false: Report
    true: Report


def demo(
    files: Annotated[
        Path | None,
        output_folder_option("--files", help="Write the built-in texts into this new folder, and do nothing else."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    if files is not None:
        put(files, DemoSizes())
        return
    found = run(DemoSizes())
    print(json.dumps(_data(found), indent=2) if as_json else "\n".join(lines(found)))


def run(sizes: DemoSizes) -> DemoFindings:
    """Measure and write a corpus, judge it beside other sources of labelled texts, and try two claims."""
    say("Reading the sentence encoder, which is compiled at its first start on a computer (some seconds)")
    encoder = load_encoder()  # a missing package is reported before any work
    private, pool, test = texts(sizes)
    say(f"A summary of {sizes.private:,} private texts, and {sizes.public:,} public ones to write from")
    summary = summarize(
        private, pool, epsilon=EPSILON, delta=DELTA, labels=list(SAMPLE_LABELS), about=sizes.private, seed=SEED
    )
    corpus = write(summary, writer="pool")
    say("Classifiers")
    accuracy, more = judged(corpus, private, pool, test, encoder)
    say("Two claims")
    claim, false = tried(2 * EPSILON, sizes.trials)
    _, true = tried(EPSILON, sizes.trials)
    return DemoFindings(sizes, summary, corpus, accuracy, more, claim, false, true)


def put(folder: Path, sizes: DemoSizes) -> None:
    """Write the built-in texts as files, and say what to type."""
    require_free(folder)
    private, pool, test = texts(sizes)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"private.csv": private, "public.csv": pool, "test.csv": test}
    for name, records in parts.items():
        made = io.StringIO(newline="")
        rows = csv.writer(made, lineterminator="\n")
        rows.writerows([["text"], *([each.text] for each in records)] if name == "public.csv" else
                       [["text", "topic"], *([each.text, each.label] for each in records)])  # fmt: skip
        Target(folder / name, private=False).write(made.getvalue().encode())
    print(f"Written: {', '.join(str(folder / name) for name in parts)}. The texts are generated: nobody wrote them.")
    print("Next:")
    labels, private_file, public_file = ",".join(SAMPLE_LABELS), folder / "private.csv", folder / "public.csv"
    summary, out = f"{folder.name}.summary", "corpus.csv"
    for command in (
        ("summarize", private_file, summary, "--public", public_file, "--label-field", "topic", "--labels", labels,
         "--about", sizes.private),
        ("summary", "show", summary),
        ("write", summary, out, "--writer", "pool", "--label-field", "topic"),
        ("utility", "corpus", private_file, out, "--public", public_file, "--label-field", "topic",
         "--test", folder / "test.csv"),
    ):  # fmt: skip
        print(f"  {shlex.join(['dptext', *map(str, command)])}")


def texts(sizes: DemoSizes) -> tuple[list[Record], list[Record], list[Record]]:
    """Return private texts, public texts without labels, and test texts. No text is in two of them."""
    wanted = sizes.private + sizes.public + sizes.test
    distinct = [*{record.text: record for record in sample_records(2 * wanted)}.values()][:wanted]
    private, public = distinct[: sizes.private], distinct[sizes.private : sizes.private + sizes.public]
    return private, [replace(record, label=None) for record in public], distinct[sizes.private + sizes.public :]


def judged(
    corpus: Synthesized, private: Sequence[Record], pool: Sequence[Record], test: Sequence[Record], encoder: Embedder
) -> tuple[dict[str, Estimate], Estimate]:
    """Return the accuracy on the test texts of a classifier by what it learned from, and what the corpus adds.

    The public texts have no labels. Of two ways to guess them by the names of the labels, the better by the test texts
    is taken.
    """
    public = [record.text for record in pool]
    guessed = best_zero_shot(public, {label: label for label in SAMPLE_LABELS}, encoder, test)
    known = [Record(str(i), text, label) for i, (text, label) in enumerate(zip(*guessed, strict=True))]
    noisy = LabelOnly(SAMPLE_LABELS, EPSILON).fit(public=known).privatize(private, secure())
    by_lot = np.random.default_rng(SEED).choice(SAMPLE_LABELS, len(public)).tolist()
    learned: dict[str, Sequence[tuple[str, str | None]]] = {
        ORIGINAL: [(record.text, record.label) for record in private],
        _CORPUS: [(release.output, release.label) for release in corpus.releases],
        PUBLIC_ONLY: [*zip(*guessed, strict=True)],
        _LABEL_ONLY: [(release.output, release.label) for release in noisy],
        RANDOM: [*zip(public, by_lot, strict=True)],
    }
    trained = {
        name: train_tfidf([text for text, _ in pairs], [label or "" for _, label in pairs], seed=SEED)
        for name, pairs in learned.items()
    }
    made, free = (right_answers(trained[name], test) for name in (_CORPUS, PUBLIC_ONLY))
    return (
        {name: evaluate(each, test, seed=SEED).accuracy for name, each in trained.items()},
        difference(made, free, seed=SEED),
    )


def tried(scaled_for: float, trials: int) -> tuple[Guarantee, Report]:
    """Try the claim of `EPSILON` on Laplace noise that has the scale for `scaled_for`, and return it with its trial.

    The scale is sensitivity / epsilon, so noise scaled for 2 epsilon is noise scaled to half the sensitivity.
    """
    claim = claim_of(GridLaplace(EPSILON, DIM, 1.0))
    if claim is None:
        raise PrivacyError("Expected Laplace noise to claim an epsilon.")
    return claim, whitebox(GridLaplace(scaled_for, DIM, 1.0), claim=claim, trials=trials)


def lines(found: DemoFindings) -> list[str]:
    """Return the screen."""
    shown = {release.label: release.output for release in reversed(found.corpus.releases)}
    right, guarantee = found.accuracy, found.corpus.guarantees[-1]
    names = {**_MEANING, _CORPUS: f"the {len(found.corpus.releases):,} texts that left"}
    return [
        *_filled(
            f"{found.sizes.private:,} private texts have labels, {found.sizes.public:,} public ones have none (all are "
            "generated). dptext summarize measures the private texts once, under one epsilon. It says:"
        ),
        *_indented([said for said in found.summary.sentences if said.startswith("Labels, ")]),
        *_filled(
            "dptext write makes corpora of these noisy numbers, as many as you like. Public texts leave with labels, "
            f"{len(found.corpus.releases):,} here, such as:"
        ),
        *(f"  {label:8}{textwrap.shorten(shown[label], _WIDTH - 12)}" for label in SAMPLE_LABELS if label in shown),
        "",
        *_filled(
            f"Its certificate says: {guarantee.sentence()} It rests on {len(guarantee.assumptions)} assumptions, which "
            "it lists."
        ),
        "",
        f"A classifier is right on this share of {found.sizes.test:,} other texts, where it learned from",
        *(f"  {name:13}{names[name]:62}{interval(right[name])}" for name in right),
        *_filled(_worth(found.more)),
        "",
        f"A false claim: Laplace noise scaled to half the sensitivity has epsilon {EPSILON:g}. dptext audit whitebox:",
        *_indented(answers.trial(found.false, found.claim)),
        "The same claim of noise at the true scale:",
        *_indented(answers.trial(found.true, found.claim)),
        "",
        *(f"{'Next:' if i == 0 else '':6}{command}  ({meaning})" for i, (command, meaning) in enumerate(_NEXT.items())),
    ]


def _worth(more: Estimate) -> str:
    """Say whether the corpus teaches a classifier more than the public texts do."""
    if more.low > 0:
        return f"The corpus teaches more than the public texts: {in_points(more)} points."
    if more.high < 0:
        return "The public texts teach more: take these."
    return "It is not shown to teach more than the public texts."


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)


def _indented(said: Sequence[str]) -> list[str]:
    return textwrap.wrap(" ".join(said), _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _data(found: DemoFindings) -> dict[str, Json]:
    return {
        "sizes": jsonable(found.sizes),
        "corpus": {
            "guarantee": found.corpus.guarantees[-1].to_dict(),
            "sentences": [*found.corpus.sentences],
            "texts": len(found.corpus.releases),
        },
        "more_than_public": jsonable(found.more),
        "accuracy": {name: jsonable(value) for name, value in found.accuracy.items()},
        "claim": found.claim.to_dict(),
        "half the sensitivity": {"refuted": found.false.refutes(found.claim), "report": found.false.to_dict()},
        "true scale": {"refuted": found.true.refutes(found.claim), "report": found.true.to_dict()},
    }
