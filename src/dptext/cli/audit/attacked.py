"""The mechanism behind an attack on texts: membership, authorship and trait check and fit it here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dptext.audits.texts import shared_texts
from dptext.cli.chosen import check_label_field, fitted, fitted_on
from dptext.cli.progress import say
from dptext.errors import ConfigError
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.runs.models import model_spec
from dptext.runs.streaming import require_guarantee
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record


def spec_of(chosen: Spec | Path) -> Spec:
    """The spec, or the one of a model; of the model only the settings are read."""
    return model_spec(chosen) if isinstance(chosen, Path) else chosen


def check_public(chosen: Spec | Path | None, public: Path | None) -> None:
    """Check that --public is given where the mechanism is to be fitted on it, and nowhere else.

    Raises:
        ConfigError: it is not so, or the mechanism is trained on private text.
    """
    if chosen is None or isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        if public is not None:
            raise ConfigError("Expected --public with a mechanism that is to be fitted on it, or no --public.")
    elif chosen.traits.takes_private:
        raise ConfigError(
            f"Expected --model with a fitted one: {chosen.kind} is trained on private text, and no text of that "
            "training may be attacked here."
        )
    elif public is None:
        raise ConfigError(f"Expected --public FILE: {chosen.kind} learns from public text. Or give --model MODEL.")


def checked_spec(chosen: Spec | Path, public: Path | None, label_field: str | None, *, voided: bool) -> Spec:
    """The spec of a mechanism for releases; all that can be checked before a record is read is checked.

    Args:
        chosen: spec or folder of a model.
        public: of --public.
        label_field: of --label-field.
        voided: whether a mechanism without a guarantee is meant.

    Raises:
        ConfigError: options that do not fit together.
        NoGuaranteeError: the mechanism guarantees nothing and nobody said that this is meant.
    """
    check_public(chosen, public)
    spec = spec_of(chosen)
    if not spec.traits.learns_labels:
        check_label_field(spec, label_field, needed=spec.traits.reads_labels)
    elif label_field is None and public is not None:
        raise ConfigError(f"Expected --label-field NAME: {spec.kind} learns from the labels of public text.")
    require_guarantee(spec, voided)
    return spec


def own_fields(spec: Spec, fields: Fields) -> Fields:
    """The fields of the attacked records: their label is read only where the mechanism reads it."""
    return Fields(fields.text, label=fields.label if spec.traits.reads_labels else None, author=fields.author)


def public_records(public: Path | None, fields: Fields, own: Sequence[Record]) -> list[Record]:
    """The records of --public; says how many texts of the attacked records are among them."""
    known = [] if public is None else list(read_records(public, Fields(text=fields.text, label=fields.label)))
    if common := shared_texts(known, own):
        say(f"{common} of the texts are in --public, too: no mechanism was made to protect those.")
    return known


def made_ready(chosen: Spec | Path, known: Sequence[Record], seed: int) -> Mechanism[str]:
    """The mechanism: of a model, of a spec that learns from nothing, or fitted on the public records."""
    if isinstance(chosen, Path) or chosen.traits.learns is Learns.NOTHING:
        return fitted(chosen)
    return fitted_on(chosen, public=known, seed=seed)


def verdict(claim: str, *, refuted: bool) -> str:
    """What an attack says of a claim."""
    return f"REFUTED: {claim} is false." if refuted else f"Not refuted: {claim} survives, which proves nothing more."


def say_trained(done: int, total: int) -> None:
    """How many attackers are trained."""
    say(f"attackers: {done} of {total} trained")
