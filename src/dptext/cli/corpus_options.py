"""Options of the commands that measure a corpus: what is promised, how the corpus is read, and how the run ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dptext.cli import options
from dptext.cli.grouped import promises, runs
from dptext.cli.many import Who
from dptext.errors import ConfigError
from dptext.synthesis.space import ENCODERS
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class Promised:
    """The settings of a guarantee for a corpus, and its labels, by options of their own."""

    epsilon: Annotated[
        float | None, promises("--epsilon", help="Epsilon of everything that leaves, together. Default: 1.")
    ] = None
    delta: Annotated[float | None, promises("--delta", help="Delta beside epsilon. Default: 1e-5.")] = None
    unit: Annotated[str | None, promises("--unit", help="Who is protected: document (default) or author.")] = None
    relation: Annotated[
        str | None, promises("--relation", help="Of neighbouring corpora: add_or_remove_one (default) or replace_one.")
    ] = None
    about: Annotated[
        int | None,
        promises(
            "--about",
            metavar="N",
            help="About how many documents there are, or authors with --unit author: a round number, which is public.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        promises("--labels", metavar="A,B,...", help="The public set of labels. @FILE has one in each line."),
    ] = None
    names: Annotated[
        str | None,
        promises(
            "--names",
            metavar="A,B,...",
            help="Meanings of the labels in words, in their order or as LABEL=MEANING, or @FILE.",
        ),
    ] = None

    encoder: Annotated[
        str | None,
        promises(
            "--encoder",
            metavar="FOLDER",
            help="What reads texts: sentence (default), distilled, glove, or the folder of a sentence-transformers "
            "model, for languages other than English.",
        ),
    ] = None

    def settings(self) -> dict[str, Json]:
        """Return the settings that are given. ConfigError: a file of labels or names cannot be read."""
        alone: dict[str, Json] = {
            name: getattr(self, name) for name in ("epsilon", "delta", "unit", "relation", "about")
        }
        lists: dict[str, Json] = {
            name: [*listed(text, f"--{name}")]
            for name, text in (("labels", self.labels), ("names", self.names))
            if text is not None
        }
        if self.encoder is not None:
            here = self.encoder not in ENCODERS and "/" not in self.encoder and Path(self.encoder).is_dir()
            alone["encoder"] = f"./{self.encoder}" if here else self.encoder
        return {**{name: value for name, value in alone.items() if value is not None}, **lists}


def listed(text: str, option: str) -> list[str]:
    """Return the members of a list A,B,... or of the lines of @FILE. ConfigError: a member is empty, or not in UTF-8.

    A mark of UTF-8 at the beginning of the file, and empty lines at its end, are passed over.
    """
    if text.startswith("@"):
        from dptext.text.inputs import lines_of

        found = lines_of(Path(text[1:]), f"{option} {text}")
    else:
        found = [member.strip() for member in text.split(",")]
    if not all(found):
        where = f" in line {found.index('') + 1} of {text[1:]}" if text.startswith("@") and found else ""
        raise ConfigError(
            f"Expected {option} to be names with commas between them, or @FILE, found an empty name{where}."
        )
    return found


@dataclass(frozen=True, slots=True)
class CorpusReading:
    """The options for reading a private corpus and its pool."""

    layout: options.Layout
    label_field: str | None
    author_field: str | None
    who: Who


@dataclass(frozen=True, slots=True)
class Ending:
    """The options for how a run goes on and what it prints."""

    seed: options.VoidingSeedOption = None
    force: options.ForceOption = False
    resume: options.ResumeOption = False
    dry_run: Annotated[
        bool, runs("--dry-run", help="Say what a run would guarantee and cost. Nothing is read, drawn or charged.")
    ] = False
    as_json: options.JsonOption = False
