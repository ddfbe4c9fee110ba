"""`dptext utility balance`: the class balance, recovered from releases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from dptext._wording import plural
from dptext.audits.report import markdown_table
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval
from dptext.cli.progress import counted, say
from dptext.cli.utility.table import NOT_PRIVATE, Files, Judged, Named, read_judged
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import settings
from dptext.runs.models import load_model
from dptext.runs.specs import on_device
from dptext.sampling.source import seeded
from dptext.text.records import Record
from dptext.types import Floats, Json
from dptext.utility.balance import balance_error, confusion_matrix
from dptext.utility.tables import PUBLIC_ONLY, baselines

_TIMES = 5


@options.spread
def balance(
    *,
    files: Files,
    named: Named,
    model: options.ModelOption = None,
    held_out: Annotated[
        Path | None,
        options.file_option(
            help="Public records that --model was not fitted on: it is corrected by them. Default: --public."
        ),
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
    said = answers.balance(list(errors.values()))
    printing.answer(said, screen, [legend], data, drawn=judged.drawn_seed)


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
