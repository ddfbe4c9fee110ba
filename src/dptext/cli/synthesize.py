"""`dptext synthesize`: make a synthetic corpus, with its certificate, from a private corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from dptext.cli import options
from dptext.cli.chosen import merged, set_values
from dptext.cli.corpus_options import CorpusReading, Ending, Promised, listed
from dptext.cli.corpus_runs import release
from dptext.cli.grouped import promises
from dptext.cli.many import Who
from dptext.cli.paying import Paying
from dptext.errors import ConfigError
from dptext.runs.specs import read_toml, synthesis_from_settings

PRIVATE = Annotated[
    str,
    Argument(
        metavar="PRIVATE",
        parser=options.place,
        help="The private corpus: a file, a folder, a glob or a URL. A record that cannot be read adds nothing.",
    ),
]


def synthesize(
    source: PRIVATE,
    target: Annotated[
        Path,
        Argument(
            metavar="OUT",
            parser=options.output_path,
            help="The synthetic corpus. OUT.guarantee.json, OUT.topics.json and OUT.topics.html are written beside it.",
        ),
    ],
    *,
    public: Annotated[
        Path, options.records_option(help="The pool: public texts. Some leave, if public texts are what leaves.")
    ],
    mechanism: Annotated[
        str | None,
        promises(
            "--mechanism", "-m", metavar="NAME", help="prototypes (default), votes, topics, prediction or steering."
        ),
    ] = None,
    promised: Promised,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    carry: options.CarryOption = None,
    author_field: options.AuthorFieldOption = None,
    paying: Paying,
    who: Who,
    ending: Ending,
) -> None:
    changes = merged(set_values(assignments, "way"), promised.settings())
    written = {} if spec is None else read_toml(spec)
    kind = mechanism or written.get("kind") or "prototypes"
    wanted = synthesis_from_settings({**written, "kind": kind, **changes})
    if wanted.command != "synthesize":
        raise ConfigError(
            f"Expected a way to release texts or a report, found {wanted.kind}: dptext {wanted.command} makes one."
        )
    reading = CorpusReading(layout, label_field, author_field, who)
    leaving = tuple(listed(carry, "--carry")) if carry else ()
    release(source, target, wanted, reading, paying, ending, public=public, carry=leaving, inputs=(spec,))
