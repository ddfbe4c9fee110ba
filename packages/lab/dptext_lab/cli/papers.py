"""`dptext papers`: five papers, as published and made sound, on built-in texts or on a user's."""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final

from typer import Argument

from dptext.cli import options
from dptext.cli.answers import Printing
from dptext.cli.app import config
from dptext.cli.chosen import fitted_on, load_encoder
from dptext.cli.grouped import runs
from dptext.cli.terminal import say
from dptext.embeddings.embedder import RememberingEmbedder
from dptext.errors import ConfigError
from dptext.types import Json
from dptext_lab.papers import adept, erae, redaction, refutation, sentdp
from dptext_lab.papers.measuring import Bench
from dptext_lab.papers.table import NOT_PRIVATE, WIDTH, Paper
from dptext_lab.papers.texts import HALVED, Texts, of_file

#: The studies by name: what makes built-in texts, what measures, and the sizes.
STUDIES: Final[dict[str, tuple[Callable[..., Texts], Callable[..., Paper], Callable[[], Any]]]] = {
    "adept": (adept.built_in, adept.study, adept.AdeptSizes),
    "refutation": (refutation.built_in, refutation.study, refutation.RefutationSizes),
    "erae": (erae.built_in, erae.study, erae.ErAeSizes),
    "redaction": (redaction.built_in, redaction.study, redaction.RedactionSizes),
    "sentdp": (sentdp.built_in, sentdp.study, sentdp.SentDpSizes),
}
_SEED: Final = 0


def papers(
    name: Annotated[
        str | None, Argument(metavar="NAME", help=f"One of {', '.join(STUDIES)}. Default: all of them.")
    ] = None,
    *,
    data: Annotated[Path | None, options.file_option(help="Texts of your own, instead of built-in ones.")] = None,
    public: options.PublicOption = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    author_field: options.AuthorFieldOption = None,
    seed: Annotated[int | None, runs("--seed", help=f"Another seed. Default: {_SEED}.")] = None,
    out: Annotated[Path | None, options.output_option(help="File for all numbers as JSON.")] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> None:
    # Beside a busy process, two threads of small networks wait for each other. torch reads this when it is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if name is not None and name not in STUDIES:
        raise ConfigError(f"Expected one of {', '.join(STUDIES)}, or no name for all of them.")
    fixed, seed = seed is None, options.seed_of(_SEED if seed is None else seed)
    target = options.target_of(out, data, public, force=force)
    own = None if data is None else _own(name, data, public, layout, label_field, author_field, seed)
    given = {"public": public, "label-field": label_field, "author-field": author_field}
    written = config().options  # a dptext.toml of the folder may name them: it says nothing of built-in texts
    if own is None and any(value is not None and str(value) != written.get(name) for name, value in given.items()):
        raise ConfigError("Expected --data FILE with --public and names of fields: built-in texts have their own.")
    bench = Bench(RememberingEmbedder(load_encoder()), seed, fitted_on, say)
    found: list[Paper] = []
    seconds: dict[str, Json] = {}
    for each in [name] if name is not None else STUDIES:
        built_in, study, sizes = STUDIES[each]
        began = time.monotonic()
        texts = built_in(sizes(), seed) if own is None else own
        found.append(study(texts, bench))
        seconds[each] = round(time.monotonic() - began, 1)
        say(f"{each}: {seconds[each]} s")
    seeded = f"The seed is {seed}{', always the same unless --seed is given' if fixed else ''}: a study must be "
    seeded += "repeatable, and nothing is released. A seed voids any guarantee."
    notes: dict[str, Json] = {"note": NOT_PRIVATE, "seed": seed, "seconds": seconds}
    numbers: dict[str, Json] = {**notes, "papers": {paper.name: paper.to_dict() for paper in found}}
    if target is not None:
        target.write(f"{json.dumps(numbers, indent=2)}\n".encode())
    screen = [line for i, paper in enumerate(found) for line in (*([""] if i else []), *paper.lines())]
    screen += ["", *wrap(_legend(found), WIDTH), NOT_PRIVATE, *wrap(seeded, WIDTH)]
    more = [
        line
        for paper in found
        for note in paper.notes
        for line in wrap(f"{paper.name}: {note}", WIDTH, break_on_hyphens=False)
    ]
    printing.answer([], screen, more, {"answer": [line for paper in found for line in paper.answer], **numbers})


def _legend(found: Sequence[Paper]) -> str:
    """Say what stands below the numbers of the tables, and what "not decided" means where a table may say it."""
    bare = ", ".join(dict.fromkeys(name for paper in found for name in paper.without_interval()))
    least = f", except {bare}" if bare else ""
    judged = any(paper.kept or paper.leaks for paper in found)
    more = " Where intervals overlap, the row says: not decided." if judged else ""
    return f"Below each number: its 95% interval{least}.{more}"


def _own(
    name: str | None,
    data: Path,
    public: Path | None,
    layout: options.Layout,
    label_field: str | None,
    author_field: str | None,
    seed: int,
) -> Texts:
    if name is None:
        raise ConfigError(f"Expected one of {', '.join(STUDIES)} with --data: the papers ask for different fields.")
    if name == "erae" and author_field is None:
        raise ConfigError("Expected --author-field NAME: the attack on ER-AE asks who wrote a text.")
    if name == "redaction" and label_field is None:
        raise ConfigError("Expected --label-field NAME: the attack on redaction tells two kinds of texts apart.")
    records = layout.read(data, label=label_field, author=author_field)
    known = None
    if public is None:
        say(f"Warning: {HALVED}")
    else:
        known = layout.read_public(public, label=layout.public_label(public, label_field))
    return of_file(records, known, data.name, seed=seed)
