"""`dptext write`: write a corpus from a summary."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from dptext._wording import plural
from dptext.cli import options
from dptext.cli.chosen import merged, set_values
from dptext.cli.corpus_answers import files_of
from dptext.cli.corpus_options import listed
from dptext.cli.grouped import computes, leaves, runs
from dptext.cli.paying import rehearsed_force
from dptext.cli.terminal import DRAFTED, counted, say
from dptext.errors import ConfigError
from dptext.runs import summarizing, writing
from dptext.runs.carried import Carried
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.synthesized import REPORT_SUFFIXES, paths_of, text_columns
from dptext.text.files import Target, refuse_inputs
from dptext.text.records import LABEL_FIELD, TEXT_FIELD, Record

WHERE = Annotated[Path, options.file_argument(metavar="SUMMARY", help="What `dptext summarize` wrote.")]


@dataclass(frozen=True, slots=True)
class PoolAgain:
    """The options for reading the pool of a summary that leaves it out, as `dptext summarize` read it."""

    public: Annotated[
        Path | None,
        options.records_option(
            "--public", help="The pool, for a summary made --without-pool, or for --carry. Its digest is checked."
        ),
    ] = None
    carry: options.CarryOption = None
    public_text_field: options.PublicTextFieldOption = None
    public_record: options.PublicRecordOption = None
    public_sheet: options.PublicSheetOption = None
    delimiter: options.DelimiterOption = None
    encoding: options.EncodingOption = None
    strip_html: options.StripHtmlOption = False

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that leave with texts of the pool."""
        return tuple(listed(self.carry, "--carry")) if self.carry else ()

    def records(self, text_field: str | None, certificate: Certificate) -> list[Record] | None:
        """Return the records of the pool, with the columns that leave; None if no file is named."""
        if self.public is None:
            return None
        form = options.Layout(
            text_field=self.public_text_field or text_field or certificate.fields.get(TEXT_FIELD, TEXT_FIELD),
            delimiter=self.delimiter, encoding=self.encoding,
            record=self.public_record, sheet=self.public_sheet, strip_html=self.strip_html,
        )  # fmt: skip
        return form.read_public(self.public, keep=self.carried)


def write(
    summary: WHERE,
    target: Annotated[
        Path,
        Argument(
            metavar="OUT",
            parser=options.output_path,
            help="The corpus, in the format of its extension. Its certificate OUT.guarantee.json names the summary.",
        ),
    ],
    *,
    writer: Annotated[
        str | None,
        leaves(
            "--writer",
            metavar="NAME",
            help="pool (public texts), or a language model: builtin, model:PATH (a folder or file that transformers "
            "loads), endpoint:BASE_URL#MODEL (a server). Default: pool; builtin where words alone were measured.",
        ),
    ] = None,
    size: Annotated[
        int,
        leaves(
            "--size",
            metavar="N",
            help="Texts that leave, at most 5,000,000. Any number costs nothing more. Default of the pool: of a table "
            "about as many rows as were counted, where a text may leave again; else 90% of its texts, or as many as it "
            "has in the noisy mix of labels, each once.",
        ),
    ] = 0,
    mix: Annotated[
        str | None,
        leaves(
            "--mix",
            metavar="LABEL=SHARE,...",
            help="Shares of labels, or @FILE. Others keep their noisy share of the rest.",
        ),
    ] = None,
    text_field: Annotated[
        str | None,
        leaves("--text-field", metavar="NAME", help="Column of the texts. Default: its name in the measured file."),
    ] = None,
    label_field: Annotated[
        str | None,
        leaves("--label-field", metavar="NAME", help="Column of the labels. Default: its name in the measured file."),
    ] = None,
    pool: PoolAgain,
    template: Annotated[
        str | None,
        computes("--template", metavar="lines|chat", help="How a model is asked: lines to go on with, or a question."),
    ] = None,
    allow_remote: Annotated[
        bool,
        computes("--allow-remote", help="The server may stand elsewhere: public texts and noisy numbers go there."),
    ] = False,
    rounded: Annotated[
        bool,
        leaves("--rounded", help="Apportion the values of columns to the noisy numbers, in place of drawing them."),
    ] = False,
    drop_other: Annotated[bool, leaves("--drop-other", help="Write the listed values of columns alone.")] = False,
    price: Annotated[
        str | None,
        runs("--price", metavar="READ,WRITTEN", help="With --dry-run: price of a million tokens read, and written."),
    ] = None,
    dry_run: Annotated[
        bool, runs("--dry-run", help="Say what would be asked of whom. Nothing is asked or written.")
    ] = False,
    assignments: Annotated[
        list[str] | None, computes("--set", "-s", metavar="KEY=VALUE", help="A setting of the writer. Repeatable.")
    ] = None,
    seed: options.SeedOption = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
) -> None:
    inputs = tuple(path for path in (summary, certificate_path(summary), pool.public) if path is not None)
    keep = target.with_name(f"{target.name}.part.jsonl")
    for path in (*paths_of(target), keep):
        refuse_inputs(path, inputs)
    free = rehearsed_force(*paths_of(target), force=force) if dry_run else force
    for path in paths_of(target):
        Target(path, free, inputs, private=False).check()
    if not dry_run and target.exists() and not certificate_path(target).exists():  # no summary names the private file
        raise ConfigError(
            f"Expected --force to replace a corpus with its certificate beside it, found {target} without one: it may "
            "be the private file. Choose another name, or delete it yourself."
        )
    shares, read = _mix(mix), summarizing.read_summary(summary)
    public = pool.records(text_field, read.certificate)
    fields = writing.names_of(read.summary, read.certificate, text_field, label_field, pool.carried)
    writing.require_apart(read.summary, fields.text, fields.label, pool.carried)
    kept = (*(each.name for each in read.summary.spec.axes.columns), *pool.carried)
    text_columns(target, None, read.summary.spec.labels, replace(fields, keep=kept))
    options_given = {"size": size, "template": template, "allow_remote": allow_remote}
    settings: dict[str, Any] = merged(
        set_values(assignments, "writer"), {name: value for name, value in options_given.items() if value}
    )
    ready = writing.prepared(
        read, writer=writer, mix=shares, public=public, text=text_field, carry=pool.carried, rounded=rounded,
        drop_other=drop_other, **settings,
    )  # fmt: skip
    if public is not None:  # the file says the types of its columns, and the records do not
        ready = replace(ready, carried=Carried.of(public, pool.carried, pool.public))
    prices = _prices(price)
    if price is not None and not dry_run:
        raise ConfigError("Expected --price with --dry-run alone, which says what writing would cost.")
    if dry_run:
        asks = ["Nothing is asked or written now.", *ready.asks(prices)]
        print(json.dumps({"sentences": asks}, indent=2) if as_json else "\n".join(asks))
        return
    if ready.warning:
        say(ready.warning)
    keeps = ready.writer != "pool"
    with counted("writing", DRAFTED) as tell, _going_on(keep if keeps else None):
        made = writing.write(
            ready, text=fields.text, label=fields.label, seed=seed, on_progress=tell, keep=keep if keeps else None,
            force=force,
        )  # fmt: skip
    certificate = replace(made, inputs=inputs).write(target, force=force)
    if keeps:
        keep.unlink(missing_ok=True)
    if as_json:
        told = {"certificate": str(certificate_path(target)), **json.loads(certificate.to_json())}
        print(json.dumps({**told, "sentences": list(made.sentences)}, indent=2))
        return
    by, n = certificate.derived["writer"], plural(len(made.releases), "text")
    print(f"Written: {n} to {files_of(target)}, by the writer {by}. It cost nothing.")
    listed_there = set(made.report.sentences()) - set(made.report.warnings)  # the page and `summary show` have these
    print("\n".join([*(each for each in made.sentences if each not in {*listed_there, ready.warning}), ""]))
    print(made.guarantees[-1].sentence())
    page = f"{target.name}{REPORT_SUFFIXES[1]}"
    labelled = ["--label-field", fields.label or LABEL_FIELD] if read.summary.spec.labels else []
    read_by = ["--text-field", fields.text] if fields.text != TEXT_FIELD else []
    judged = ["dptext", "utility", "corpus", "PRIVATE", str(target), "--public", "POOL", *read_by, *labelled]
    print(f"Next: {shlex.join(['dptext', 'explain', str(target)])}; open {page}.")
    print(f"Is it worth sharing? {shlex.join([*judged, '--out', 'report.html'])}")


@contextlib.contextmanager
def _going_on(keep: Path | None) -> Iterator[None]:
    """Say of what stopped the writing, also Ctrl-C, that the same command goes on."""
    before = None if keep is None or not keep.exists() else keep.stat().st_size
    try:
        yield
    except BaseException:  # of any kind: it is raised again
        if keep is not None and keep.exists() and keep.stat().st_size != before:
            say(f"What was written is in {keep.name}: the same command goes on.")
        raise


def _prices(text: str | None) -> tuple[float, float] | None:
    """Return the prices in READ,WRITTEN. ConfigError: they are not two numbers of at least 0."""
    if text is None:
        return None
    try:
        read, written = (float(part) for part in text.split(","))
        if min(read, written) >= 0 and math.isfinite(read + written):
            return read, written
    except ValueError:
        pass
    raise ConfigError(f"Expected --price to be two prices of a million tokens, such as 0.15,0.60, found {text!r}.")


def _mix(text: str | None) -> dict[str, float] | None:
    """Return the shares in LABEL=SHARE,... ConfigError: a share is no number, or a label is named twice."""
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in listed(text, "--mix"):
        label, _, share = part.rpartition("=")
        name = label.strip()
        if name in found:
            raise ConfigError(f"Expected each label once in --mix, found {name!r} twice.")
        try:
            found[name] = float(share)
        except ValueError:
            raise ConfigError(f"Expected --mix to look like bill=.5,parcel=.2, found {part!r}.") from None
    return found
