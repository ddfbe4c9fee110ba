"""What `dptext init` asks for a corpus under one epsilon, and the settings of `dptext summarize` that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dptext.cli import options
from dptext.cli.answers import TAKE_NONE
from dptext.cli.asking import at_terminal, author_columns, given, made, require_about, require_epsilon, require_field
from dptext.cli.corpus_options import listed
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.recommend.corpora import measured_at
from dptext.recommend.recommendation import not_measured
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.summarizing import column_lines, fitting_topics, measured_settings
from dptext.synthesis.blocks import TOPICS
from dptext.synthesis.spec import CorpusSpec
from dptext.text.records import Fields
from dptext.text.survey import Survey
from dptext.types import Json

EPSILON: Final = "1"


@dataclass(frozen=True, slots=True)
class CorpusAnswers:
    """The settings of a summary.

    Attributes:
        unit: who is protected.
        epsilon: that of all that leaves.
        about: about how many texts or authors there are; None if it is not said yet.
        labels: the public set of labels; empty without labels.
        author_field: the column of the authors; empty where texts are protected.
        columns: declarations of the columns of a table.
    """

    unit: Unit
    epsilon: float
    about: int | None
    labels: tuple[str, ...]
    author_field: str
    columns: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Json]:
        """The table [summary] of dptext.toml."""
        unit: dict[str, Json] = {"unit": "author"} if self.unit is Unit.AUTHOR else {}
        labels: dict[str, Json] = {"labels": list(self.labels)} if self.labels else {}
        about: dict[str, Json] = {} if self.about is None else {"about": self.about}
        return {"epsilon": self.epsilon, **about, **unit, **labels}

    def tried(self) -> CorpusAnswers:
        """Return these answers. ConfigError: no summary can have such settings."""
        self.promised().guarantee()
        return self

    def promised(self) -> CorpusSpec:
        """Return the settings of the summary, with what is measured besides. ConfigError: no summary can have them."""
        measured: dict[str, Json] = {"columns": [*column_lines([*self.columns])]} if self.columns else {}
        topics = measured_settings((TOPICS,)) if self.of_topics else {}
        return fitting_topics(synthesis_from_settings({"kind": "summary", **self.settings, **measured, **topics}), ())

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
            return f"Of a whole corpus: {not_measured(found.levels, self.epsilon, self.unit)}"
        splits = f"{len(found.best)} measured {'split' if len(found.best) == 1 else 'splits'}"
        at, more = f"epsilon {found.epsilon:g}", not_measured(found.levels, self.epsilon, self.unit)
        more = f" {more}" if more else ""
        if not found.worth:
            return f"{TAKE_NONE} At {at} nothing on our {splits} taught a classifier more.{more}"
        return (
            f"A corpus under one epsilon: at {at} it taught a classifier more than public texts on {len(found.worth)} "
            f"of {splits} (dptext recommend --of corpus --epsilon {found.epsilon:g}).{more}"
        )


def ask(
    found: Survey,
    fields: Fields,
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

    `fields` names the fields of the text and of the label. ConfigError: an option, or a default without a terminal,
    cannot be used. No answer is taken from the private texts.
    """
    named, author = ", ".join(map(repr, author_columns(found))), ""
    hint = f" ({named} may name authors)" if named else ""
    who = Unit(given(unit, f"Protect each document or each author{hint}", require_unit_of_corpus, Unit.DOCUMENT))
    if who is Unit.AUTHOR:

        def field(told: str) -> str:
            if not told:
                raise ConfigError(f"Expected --author-field NAME with --unit author: whose texts are added up{hint}.")
            require_field(found, told, "--author-field")
            return replace(fields, author=told).author or ""

        author = made(author_field, f"The field of the author{hint}", field)
    elif author_field is not None:
        raise ConfigError("Expected --unit author with --author-field: all texts of an author are protected together.")
    answers = CorpusAnswers(who, float(EPSILON), None, (), author, columns)
    if fields.label:

        def labelled(told: str) -> CorpusAnswers:
            if not told:
                raise ConfigError(
                    "Expected --labels A,B,... with --label-field: the public set of labels, which is read from no "
                    "private text."
                )
            own = tuple(known) if labels is None and told == ",".join(known) else tuple(listed(told, "--labels"))
            if told != ",".join(known):
                require_labels(told)
            return replace(answers, labels=own).tried()

        asked = "All labels, with commas, as you know them without the private file"
        answers = made(labels, asked, labelled, ",".join(known))
    elif labels is not None:
        raise ConfigError("Expected --label-field NAME with --labels: the column that has them.")

    def limited(told: str) -> CorpusAnswers:
        require_epsilon(told)
        return replace(answers, epsilon=float(told)).tried()

    answers = made(None if epsilon is None else f"{epsilon:g}", "Epsilon of all that leaves", limited, EPSILON)

    def counted(told: str) -> CorpusAnswers:
        if not told and not at_terminal():
            return answers
        require_about(told)
        return replace(answers, about=int(told)).tried()

    question = f"About how many {who.value}s there are: a round number, public"
    return made(None if about is None else str(about), question, counted)


def require_labels(told: str) -> None:
    """Raise ConfigError unless these are at least two different labels."""
    if told and len({*listed(told, "--labels")}) < 2:
        raise ConfigError(
            f"Expected at least two different labels, with commas between them, in --labels, found {told!r}."
        )


def require_unit_of_corpus(told: str) -> None:
    """Raise ConfigError unless a corpus can protect this unit."""
    if options.member(Unit, "--unit", told) not in (Unit.DOCUMENT, Unit.AUTHOR):
        raise ConfigError(
            f"Expected --unit document or author for a corpus, found {told!r}. Single words and sentences are hidden "
            "in each text: --for texts."
        )
