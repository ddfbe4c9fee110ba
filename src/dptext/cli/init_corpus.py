"""What `dptext init` asks for a corpus under one epsilon, and the settings of `dptext summarize` that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dptext.cli import options
from dptext.cli.answers import TAKE_NONE
from dptext.cli.asking import given, require_about, require_epsilon, require_field
from dptext.cli.corpus_options import listed
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.recommend.corpora import measured_at
from dptext.runs.summarizing import measured_settings
from dptext.synthesis.blocks import TOPICS
from dptext.text.survey import Survey
from dptext.types import Json

EPSILON: Final = "1"
ABOUT: Final = "5000"


@dataclass(frozen=True, slots=True)
class CorpusAnswers:
    """The settings of a summary.

    Attributes:
        unit: who is protected.
        epsilon: that of all that leaves.
        about: about how many texts or authors there are.
        labels: the public set of labels; empty without labels.
        author_field: the column of the authors; empty where texts are protected.
        columns: declarations of the columns of a table.
    """

    unit: Unit
    epsilon: float
    about: int
    labels: tuple[str, ...]
    author_field: str
    columns: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Json]:
        """The table [summary] of dptext.toml."""
        unit: dict[str, Json] = {"unit": "author"} if self.unit is Unit.AUTHOR else {}
        labels: dict[str, Json] = {"labels": list(self.labels)} if self.labels else {}
        topics = measured_settings((TOPICS,)) if self.of_topics else {}
        return {"epsilon": self.epsilon, "about": self.about, **unit, **labels, **topics}

    @property
    def of_topics(self) -> bool:
        """Whether topics are measured, as there are neither labels nor columns."""
        return not (self.labels or self.columns)

    def why(self, *, corpus: bool) -> str:
        """Say what was measured at this epsilon, of a `corpus` with labels."""
        if not corpus or not self.labels:
            return f"Everything that leaves is under one epsilon, {self.epsilon:g}."
        found = measured_at(self.unit, self.epsilon)
        if not found.best:
            return f"Nothing was measured of a whole corpus at epsilon {self.epsilon:g}."
        splits = f"{len(found.best)} measured {'split' if len(found.best) == 1 else 'splits'}"
        at = f"epsilon {found.epsilon:g}" + (
            "" if found.epsilon == self.epsilon else ", the largest that was measured,"
        )
        if not found.worth:
            return f"{TAKE_NONE} At {at} nothing on our {splits} taught a classifier more."
        return (
            f"A corpus under one epsilon: at {at} it taught a classifier more than public texts on {len(found.worth)} "
            f"of {splits} (dptext recommend --of corpus --epsilon {found.epsilon:g})."
        )


def ask(
    found: Survey,
    label_field: str,
    known: Sequence[str],
    *,
    unit: str | None,
    author_field: str | None,
    epsilon: float | None,
    about: int | None,
    labels: str | None,
    columns: tuple[str, ...],
) -> CorpusAnswers:
    """Return the answers of the options, or of the user. `known` are the labels of the public texts, if they have any.

    ConfigError: an answer cannot be used. No answer is taken from the private texts.
    """
    who = Unit(given(unit, "Protect each document or each author", _require_unit, Unit.DOCUMENT))
    author = ""
    if who is Unit.AUTHOR:
        author = given(
            author_field, "The field of the author", lambda told: require_field(found, told, "--author-field")
        )
        if not author:
            raise ConfigError("Expected --author-field NAME with --unit author: whose texts are added up.")
    elif author_field is not None:
        raise ConfigError("Expected --unit author with --author-field: all texts of an author are protected together.")
    told = ""
    if label_field:
        asked = "All labels, with commas, as you know them without the private file"
        told = given(labels, asked, _require_labels, ",".join(known))
        if not told:
            raise ConfigError(
                "Expected --labels A,B,... with --label-field: the public set of labels, which is read from no private "
                "text."
            )
    elif labels is not None:
        raise ConfigError("Expected --label-field NAME with --labels: the column that has them.")
    limit = None if epsilon is None else f"{epsilon:g}"
    number = None if about is None else str(about)
    return CorpusAnswers(
        who,
        float(given(limit, "Epsilon of all that leaves", require_epsilon, EPSILON)),
        int(given(number, f"About how many {who.value}s there are: a round number, public", require_about, ABOUT)),
        tuple(known) if labels is None and told == ",".join(known) else tuple(listed(told, "--labels")),
        author,
        columns,
    )


def _require_labels(told: str) -> None:
    if told and len({*listed(told, "--labels")}) < 2:
        raise ConfigError(f"Expected at least two different labels, with commas between them, found {told!r}.")


def _require_unit(told: str) -> None:
    if options.member(Unit, "--unit", told) not in (Unit.DOCUMENT, Unit.AUTHOR):
        raise ConfigError(
            f"Expected --unit document or author for a corpus, found {told!r}. Single words and sentences are hidden "
            "in each text: --for texts."
        )
