"""Options, preparation and output that attacks on an attribute and on membership share."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dptext._wording import markdown_table
from dptext.audits.features import shared_texts
from dptext.audits.report import InferenceReport, Row
from dptext.cli import options
from dptext.cli.answers import Lines, Printing, interval
from dptext.cli.app import config
from dptext.cli.audit import refuse_ignored
from dptext.cli.chosen import Choice, check_label_field, fitted_on
from dptext.cli.terminal import say
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.runs.streaming import require_guarantee
from dptext.text.records import Record
from dptext.types import Json


def check_public(choice: Choice | None, public: Path | None) -> None:
    """Check that --public is given if, and only if, the mechanism is to be fitted on public text."""
    if choice is None or not choice.needs_fit:
        if public is not None and str(public) != config().options.get("public"):
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
    elif choice.spec.traits.takes_private:
        raise ConfigError(
            f"Expected --model with a fitted one: {choice.spec.kind} is trained on private text, and no text of that "
            "training may be attacked here."
        )
    elif public is None:
        raise ConfigError(f"Expected --public FILE: {choice.spec.kind} learns from public text. Or give --model MODEL.")


def check_form(public: Path | None, layout: options.Layout) -> None:
    """Check that options of the public file are given with --public, or by dptext.toml, which describes the file."""
    named = ("public-text-field", layout.public_text_field), ("public-record", layout.public_record)
    for name, value in (*named, ("public-sheet", layout.public_sheet)):
        if public is None and value not in (None, config().options.get(name)):
            raise ConfigError(f"Expected --public FILE with --{name}.")


def check_options(choice: Choice | None, public: Path | None, label_field: str | None, *, voided: bool) -> None:
    """Check the options before a record is read. `voided` says that a mechanism without a guarantee is allowed."""
    check_public(choice, public)
    if choice is None:
        if label_field != config().options.get("label-field"):  # dptext.toml describes the file
            refuse_ignored("releases", label_field=label_field)
        return
    spec = choice.spec
    if not spec.traits.learns_labels:
        check_label_field(spec, label_field, needed=spec.traits.reads_labels)
    elif label_field is None and public is not None:
        raise ConfigError(f"Expected --label-field NAME: {spec.kind} learns from the labels of public text.")
    require_guarantee(spec, voided)


def own_label(choice: Choice | None, label_field: str | None) -> str | None:
    return label_field if choice is None or choice.spec.traits.reads_labels else None


def public_records(
    public: Path | None, layout: options.Layout, label_field: str | None, own: Sequence[Record]
) -> list[Record]:
    """Return the records of --public. A line on stderr says how many of the attacked texts are among them."""
    known = layout.read_public(public, label=label_field)
    if common := shared_texts(known, own):
        say(f"{common} of the texts are in --public, too: no mechanism protects public texts.")
    return known


def made_ready(choice: Choice, known: Sequence[Record], seed: int) -> Mechanism[str]:
    return fitted_on(choice.spec, public=known, seed=seed) if choice.needs_fit else choice.fitted()


def show_attacks(
    printing: Printing, said: Lines, found: InferenceReport[Row], duplicates: int, data: Mapping[str, Json]
) -> None:
    head = ("accuracy", "similarity")
    shown = [*sorted(found.attacks, key=lambda row: -row.accuracy.value)[:8], *found.baselines]  # a screen
    rows = [[row.name, *(interval(row.cells()[name]) for name in head)] for row in shown]
    more = [found.to_markdown(), f"{duplicates:,} duplicates removed first."]
    printing.answer(said, markdown_table(["attacker, interval at 95%", *head], rows), more, data)


def say_trained(done: int, total: int) -> None:
    say(f"attackers: {done} of {total} trained")
