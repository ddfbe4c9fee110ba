"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptext.files import Target

MechanismOption = Annotated[str | None, typer.Option("--mechanism", "-m", help="Mechanism; see `dptext mechanisms`.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE, a setting. Repeatable.")]
SpecOption = Annotated[Path | None, typer.Option("--spec", help="TOML file with the settings, `kind` among them.")]
ModelOption = Annotated[Path | None, typer.Option("--model", help="Folder of a model that `dptext fit` wrote.")]
PublicOption = Annotated[Path | None, typer.Option("--public", help="Public records, none of them private.")]
TextFieldOption = Annotated[str, typer.Option("--text-field", help="Field of the text.")]
LabelFieldOption = Annotated[str | None, typer.Option("--label-field", help="Field of the label.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Makes the run repeatable.")]
ClassifierOption = Annotated[
    str, typer.Option("--classifier", help="tfidf (linear, quick), or bilstm as in the ADePT paper.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there; never one that is read.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="The delta at which guarantees are stated.")]
LedgerOption = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="DPTEXT_LEDGER",
        show_envvar=True,
        help="The books: a file, or postgresql+psycopg://USER@HOST/DATABASE.",
    ),
]
SubjectKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--subject-key",
        envvar="DPTEXT_SUBJECT_KEY",
        show_envvar=True,
        help="File of the secret under which names of subjects are hashed; default: LEDGER.key beside a file.",
    ),
]


def target_of(path: Path | None, *inputs: Path | None, force: bool, private: bool = True) -> Target | None:
    """Where the file of an option is to go, checked before the work; None without the option.

    Args:
        path: of the option.
        inputs: files and folders of the other options, which are read.
        force: of --force.
        private: whether it holds numbers computed from originals.

    Raises:
        ConfigError: the file is an input, is there already, or cannot be where it shall be.
    """
    if path is None:
        return None
    target = Target(path, force, tuple(each for each in inputs if each is not None), private)
    target.check()
    return target
