"""`dptext summarize`: measure a private corpus once; corpora are then written from the summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from dptext.cli import options
from dptext.cli.app import config
from dptext.cli.chosen import merged, set_values
from dptext.cli.corpus_options import CorpusReading, Ending, Promised, listed
from dptext.cli.corpus_runs import release
from dptext.cli.grouped import leaves, promises
from dptext.cli.many import Who
from dptext.cli.paying import Paying
from dptext.cli.synthesize import PRIVATE
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.runs.specs import read_toml, synthesis_from_settings
from dptext.runs.summarizing import (
    by_label,
    column_lines,
    columns_from,
    fitted_like,
    fitting_topics,
    measured_settings,
    read_summary,
    require_measured,
    require_other,
)
from dptext.text.declarations import with_files
from dptext.types import Json


@dataclass(frozen=True, slots=True)
class PromisedLike(Promised):
    """`Promised`, with defaults that `--like` changes, and columns of a table."""

    epsilon: Annotated[
        float | None, promises("--epsilon", help="Epsilon of everything that leaves. Default: 1, or that of --like.")
    ] = None
    delta: Annotated[
        float | None, promises("--delta", help="Delta beside epsilon. Default: 1e-5, or that of --like.")
    ] = None
    about: Annotated[
        int | None,
        promises(
            "--about",
            metavar="N",
            help="About how many documents or authors there are. It is public. Default: 5000, or that of --like, of a "
            "sum the mean of its parts.",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        promises(
            "--column",
            metavar="'NAME: WHAT'",
            help="A column of the table, by its public values: 'priority: low|high', 'amount: 0..5000 by 20' or "
            "'by 50,200', 'day: 2024-01..2026-12 by month', 'country: @FILE', 'customer: id'. "
            "NAME? may be null. Repeatable.",
        ),
    ] = None
    pairs: Annotated[
        str | None,
        promises(
            "--pairs",
            metavar="A+B,...",
            help="Columns that are measured together, or none; A+topics: a column and the topics of texts. "
            "Default: those that noise leaves readable.",
        ),
    ] = None
    text_follows: Annotated[
        str | None,
        promises(
            "--text-follows",
            metavar="A,B",
            help="Columns that texts should follow besides the label, or none. Default: the first listed ones of at "
            "most 12 values, three with the label.",
        ),
    ] = None

    @property
    def declared(self) -> list[str]:
        """The columns that are given, with the values of files. ConfigError: a file cannot be read."""
        return [with_files(each, lambda path: listed(f"@{path}", "--column")) for each in self.columns or ()]

    def settings(self) -> dict[str, Json]:
        """Return the settings that are given. ConfigError: a file of labels, names or values cannot be read."""
        found = Promised.settings(self)
        if self.columns is not None:
            found["columns"] = [*self.declared]
        if self.pairs is not None:
            found["pairs"] = [*listed(self.pairs, "--pairs")]
        if self.text_follows is not None:
            found["text_follows"] = [*listed(self.text_follows, "--text-follows")]
        return found


def summarize(
    source: PRIVATE,
    target: Annotated[
        Path,
        Argument(
            metavar="OUT.summary",
            parser=options.output_path,
            help="The summary. OUT.summary.guarantee.json and a report (.topics.json, .topics.html) lie beside it.",
        ),
    ],
    *,
    public: Annotated[
        Path | None, options.records_option(help="The pool: public texts, some of which may leave later.")
    ] = None,
    like: Annotated[
        Path | None,
        options.file_option(
            help="Instead of --public: measure as this summary, to add both. Epsilon, delta, --about, --shares and "
            "--without-pool may differ."
        ),
    ] = None,
    promised: PromisedLike,
    schema_from: Annotated[
        Path | None,
        options.file_option(
            "--schema-from",
            help="A public table: its columns, but for texts, labels and authors, are declared by its own values. "
            "--column says otherwise.",
        ),
    ] = None,
    also: Annotated[
        str | None,
        promises("--with", metavar="words,topics,lengths", help="What is measured besides counts and points."),
    ] = None,
    without: Annotated[
        str | None, promises("--without", metavar="points", help="What is not measured, and so costs nothing.")
    ] = None,
    shares: Annotated[
        str | None,
        promises(
            "--shares",
            metavar="words=.5,...",
            help="Shares of rho, which epsilon and delta set. Blocks without a share divide the rest.",
        ),
    ] = None,
    without_pool: Annotated[
        bool,
        leaves("--without-pool", help="Leave the pool's texts out of the summary. `dptext write` then needs --public."),
    ] = False,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    author_field: options.AuthorFieldOption = None,
    paying: Paying,
    who: Who,
    ending: Ending,
) -> None:
    if like is not None and public is not None and config().options.get("public") == str(public):
        public = None  # dptext.toml names it, and --like has its own
    if (public is None) == (like is None):
        raise ConfigError("Expected one of --public POOL and --like OTHER.summary: the public texts.")
    other = None if like is None else read_summary(like).summary
    besides = listed(also, "--with") if also else ()
    measured = measured_settings(
        besides, listed(without, "--without") if without else (), _shares(shares),
        like=other,
    )  # fmt: skip
    own = {**promised.settings(), **({"without_pool": True} if without_pool else {})}
    if schema_from is not None:
        require_other(source, schema_from)
        kept = (label_field, layout.public_label_field, author_field, paying.subject_field)
        columns, others = columns_from(
            schema_from, promised.declared, text=layout.public_text_field or layout.text_field, without=kept,
            delimiter=layout.delimiter, encoding=layout.encoding,
        )  # fmt: skip
        own["columns"] = [*columns]
        if others:
            say(f"Of {schema_from.name} no declaration can be made of {', '.join(others)}: --column declares them.")
    changes = {**measured, **merged(set_values(assignments, "way"), own)}
    reading = CorpusReading(layout, label_field, author_field, who)
    if other is not None:
        if any((layout.public_text_field, layout.public_label_field, layout.public_record, layout.public_sheet)):
            raise ConfigError("Expected no option for public files with --like: the pool is that of the other summary.")
        fitted = fitted_like(other, by_label({**(read_toml(spec) if spec else {}), **changes}, label_field))
        release(
            source,
            target,
            fitted.spec,
            reading,
            paying,
            ending,
            public=None,
            fitted=fitted,
            inputs=(like, spec, schema_from),
        )
        return
    written = config().summary if spec is None else read_toml(spec)
    if "columns" in written:
        written = {**written, "columns": [*column_lines(written["columns"])]}
    wanted = synthesis_from_settings({**by_label({**written, **changes}, label_field), "kind": "summary"})
    wanted = fitting_topics(wanted, {**written, **set_values(assignments, "way")})
    require_measured(wanted, besides)
    release(source, target, wanted, reading, paying, ending, public=public, inputs=(spec, schema_from))


def _shares(text: str | None) -> dict[str, float]:
    """Return the shares in NAME=SHARE,... ConfigError: a share is no number."""
    found = {}
    for part in listed(text, "--shares") if text else ():
        name, _, share = part.partition("=")
        try:
            found[name.strip()] = float(share)
        except ValueError:
            raise ConfigError(f"Expected --shares to look like words=.5,points=.3, found {part!r}.") from None
    return found
