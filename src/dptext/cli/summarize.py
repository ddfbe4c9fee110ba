"""`dptext summarize`: measure a private corpus once; corpora are then written from the summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.chosen import merged, set_values
from dptext.cli.corpus_runs import CorpusReading, Ending, Promised, listed, release
from dptext.cli.grouped import leaves, promises
from dptext.cli.many import Who
from dptext.cli.paying import Paying
from dptext.cli.synthesize import PRIVATE
from dptext.errors import ConfigError
from dptext.runs.specs import read_toml, synthesis_from_settings
from dptext.runs.summarizing import measured_settings, read_summary
from dptext.synthesis.summary import FittedSummary, SummarySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dptext.types import Json

#: Settings that may differ from those of the summary that --like names.
_OWN: Final = ("epsilon", "delta", "about", "without_pool", "count_share", "point_share", "topic_share", "word_share")


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
        Path | None, options.file_option(help="The pool: public texts, some of which may leave later.")
    ] = None,
    like: Annotated[
        Path | None,
        options.file_option(help="Instead of --public: measure as this summary, to add both. Only noise may differ."),
    ] = None,
    promised: Promised,
    also: Annotated[
        str | None, promises("--with", metavar="words,topics", help="What is measured besides counts and points.")
    ] = None,
    without: Annotated[
        str | None, promises("--without", metavar="points", help="What is not measured, and so costs nothing.")
    ] = None,
    shares: Annotated[
        str | None,
        promises(
            "--shares", metavar="words=.5,...", help="Shares of epsilon's rho; others divide the rest by default rules."
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
    if (public is None) == (like is None):
        raise ConfigError("Expected one of --public POOL and --like OTHER.summary: the public texts.")
    measured = measured_settings(
        listed(also, "--with") if also else (), listed(without, "--without") if without else (), _shares(shares)
    )
    own = {**promised.settings(), **({"without_pool": True} if without_pool else {})}
    changes = {**measured, **merged(set_values(assignments, "way"), own)}
    reading = CorpusReading(layout, label_field, author_field, who)
    if like is not None:
        if any((layout.public_text_field, layout.public_label_field, layout.public_record, layout.public_sheet)):
            raise ConfigError("Expected no option for public files with --like: the pool is that of the other summary.")
        other, _, _ = read_summary(like)
        found = _as_other(other.spec, {**(read_toml(spec) if spec else {}), **changes})
        fitted = FittedSummary(found, other.public.without_pool() if found.without_pool else other.public)
        release(source, target, fitted.spec, reading, paying, ending, public=None, fitted=fitted, inputs=(like, spec))
        return
    written = {} if spec is None else read_toml(spec)
    wanted = synthesis_from_settings({**written, **changes, "kind": "summary"})
    release(source, target, wanted, reading, paying, ending, public=public, inputs=(spec,))


def _as_other(other: SummarySpec, changes: Mapping[str, Json]) -> SummarySpec:
    """Return the settings of another summary with other noise. ConfigError: something else would differ."""
    wanted = synthesis_from_settings({"kind": "summary", "labels": list(other.labels), **_measuring(other), **changes})
    known = {name: getattr(wanted, name) for name in _OWN if name in changes}
    known["without_pool"] = other.without_pool or bool(known.get("without_pool"))  # it is not there
    found = replace(other, added=(), added_shares=(), disjoint=False, **known)
    apart = [
        name for name, value in changes.items() if name not in _OWN and getattr(wanted, name) != getattr(found, name)
    ]
    if apart:
        raise ConfigError(f"Expected {apart[0]} as in the summary of --like: only {', '.join(_OWN)} may differ.")
    return found


def _measuring(other: SummarySpec) -> dict[str, Any]:
    return {name: getattr(other, name) for name in ("marks", "topics", "points")}


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
