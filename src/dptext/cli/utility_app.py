"""`dptext utility`: commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptext.cli.options import (
    ClassifierOption,
    JsonOption,
    LabelFieldOption,
    ModelOption,
    SeedOption,
    TextFieldOption,
    file_argument,
    file_option,
)

utility = typer.Typer(
    help="What released texts are still good for, beside rows that keep nothing. The numbers are not private.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

OriginalsArgument = Annotated[Path, file_argument(metavar="ORIGINALS", help="The private records.")]
ReleasedArgument = Annotated[
    Path,
    file_argument(metavar="RELEASED", help="What `dptext privatize` made of them; its certificate is read."),
]
PublicFileOption = Annotated[Path, file_option("--public", help="Public records, for the baselines.")]
IdFieldOption = Annotated[
    str | None, typer.Option("--id-field", help="Field of the ids, as when ORIGINALS were privatized.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="A label of the public set, where no certificate names it. Repeatable."),
]
HeldOutOption = Annotated[
    Path | None,
    file_option(
        "--held-out",
        help="Public records that --model was not fitted on, to correct by; default: --public.",
    ),
]
EpsilonOption = Annotated[
    float | None,
    typer.Option("--epsilon", help="Of label_only and candidates; default: that of the certificate."),
]


@utility.command()
def fidelity(
    originals: OriginalsArgument,
    released: ReleasedArgument,
    public: PublicFileOption,
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    id_field: IdFieldOption = None,
    label: LabelOption = None,
    epsilon: EpsilonOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """How much of each record came through: label, meaning, words; with all baselines."""
    from dptext.cli import utility as command

    task = command.task(
        originals,
        released,
        public,
        text_field=text_field,
        label_field=label_field,
        id_field=id_field,
        labels=label or [],
        epsilon=epsilon,
        seed=seed,
    )
    command.compare(task, test=None, classifier="tfidf", as_json=as_json)


@utility.command()
def classification(
    originals: OriginalsArgument,
    released: ReleasedArgument,
    public: PublicFileOption,
    test: Annotated[Path, file_option("--test", help="Real records that neither file holds.")],
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    id_field: IdFieldOption = None,
    label: LabelOption = None,
    epsilon: EpsilonOption = None,
    classifier: ClassifierOption = "tfidf",
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accuracy of a classifier that is trained on the releases, never without fidelity and baselines."""
    from dptext.cli import utility as command

    task = command.task(
        originals,
        released,
        public,
        text_field=text_field,
        label_field=label_field,
        id_field=id_field,
        labels=label or [],
        epsilon=epsilon,
        seed=seed,
    )
    command.compare(task, test=test, classifier=classifier, as_json=as_json)


@utility.command()
def balance(
    originals: OriginalsArgument,
    released: ReleasedArgument,
    public: PublicFileOption,
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    id_field: IdFieldOption = None,
    label: LabelOption = None,
    epsilon: EpsilonOption = None,
    model: ModelOption = None,
    held_out: HeldOutOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Error of the class balance recovered from the releases; --model corrects it by what it does to public texts."""
    from dptext.cli import utility as command

    task = command.task(
        originals,
        released,
        public,
        text_field=text_field,
        label_field=label_field,
        id_field=id_field,
        labels=label or [],
        epsilon=epsilon,
        seed=seed,
    )
    command.balance(task, model=model, held_out=held_out, as_json=as_json)
