"""The mechanism that the options of a command name, its fit, and the encoder of the commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dptext.cli import options
from dptext.cli.app import config
from dptext.cli.terminal import counted, say, waiting
from dptext.embeddings import encoders
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, Learns, Mechanism, Promise, Spec, Traits, setting_fields, settings
from dptext.registry import MECHANISMS
from dptext.runs.models import fitted, load_model, model_spec
from dptext.runs.specs import parse_setting, read_toml, spec_from_settings
from dptext.text.labels import relabelled
from dptext.text.plain_text import a_record
from dptext.text.records import Record
from dptext.types import Floats, Json

_SHOWN_STEPS = 20
_SHOWN_LABELS = 40  # a longer list fills no message


@dataclass(frozen=True, slots=True)
class SpecOptions:
    mechanism: options.MechanismOption = None
    assignments: options.SetOption = None
    spec: options.SpecOption = None

    def __bool__(self) -> bool:
        return self.mechanism is not None or self.spec is not None or bool(self.assignments)

    def chosen_spec(self, other: str = "", *, epsilon: float | None = None, carry: str | None = None) -> Spec:
        """Return the spec of --spec FILE, --mechanism with --set, or `dptext.toml`. --set changes single settings.

        ConfigError: the options and the file name no mechanism, or the options name two, or an `epsilon` twice; or the
        mechanism has no such setting. `other` is what the command could have been given instead, for the message.
        `carry` is the list of --carry.
        """
        given: dict[str, Json] = {"epsilon": epsilon, "carry": carry}
        said = {name: value for name, value in given.items() if value is not None}
        changes = merged(set_values(self.assignments, "mechanism"), said)
        if self.mechanism is not None and self.spec is not None:
            raise ConfigError("Expected one of --mechanism NAME and --spec FILE.toml.")
        if self.spec is not None:
            written = read_toml(self.spec)
            _check_epsilon(epsilon, written, self.spec)
            return spec_from_settings({**written, **changes})
        written = config().mechanism if self.mechanism is None else {"kind": self.mechanism}
        if not written:
            raise ConfigError(
                f"Expected one of --mechanism NAME, --spec FILE.toml{other and f', {other}'} and dptext.toml with a "
                "mechanism (dptext init writes it). dptext recommend names one."
            )
        _check_epsilon(epsilon, written)
        return spec_from_settings({**written, **changes})


@dataclass(frozen=True, slots=True)
class MechanismOptions(SpecOptions):
    model: options.ModelOption = None

    def __bool__(self) -> bool:
        return self.model is not None or SpecOptions.__bool__(self)

    def chosen(self, *, epsilon: float | None = None) -> Choice:
        """Return the mechanism of --mechanism with --set, of --spec, or of --model. `epsilon` is that of --epsilon."""
        if self.model is None:
            given = config().model
            if not self and epsilon is None and given is not None and given.is_dir():
                return Choice(_as_written(given), given)
            return Choice(self.chosen_spec("--model MODEL (what dptext fit wrote)", epsilon=epsilon))
        if epsilon is not None:
            raise ConfigError(
                "Expected no --epsilon with --model: a model was fitted with its epsilon. Fit another with dptext fit "
                "--epsilon N --out MODEL."
            )
        if SpecOptions.__bool__(self):
            raise ConfigError(
                "Expected one of --mechanism NAME, --spec FILE.toml and --model MODEL. A model has its settings "
                "already: --set cannot change them."
            )
        return Choice(model_spec(self.model), self.model)

    def chosen_if_any(self, *, epsilon: float | None = None) -> Choice | None:
        return self.chosen(epsilon=epsilon) if self or epsilon is not None else None


def _as_written(model: Path) -> Spec:
    """Return the settings of the model that `dptext.toml` names. ConfigError: the file asks for other settings."""
    found, written = model_spec(model), config().mechanism
    if written and spec_from_settings(written) != found:
        own = settings(found)
        other = ", ".join(f"{key}={value!r}" for key, value in written.items() if own.get(key) != value) or "others"
        raise ConfigError(
            f"Expected the model {str(model)!r} to have the settings of dptext.toml ({other}), found one of others. "
            f"Remove that folder and run dptext fit again, or name the model: --model {model}."
        )
    return found


def merged(changes: Mapping[str, Json], said: Mapping[str, Json]) -> dict[str, Json]:
    """Return the settings of --set and of options of their own. ConfigError: one is given both ways."""
    if both := sorted(changes.keys() & said.keys()):
        raise ConfigError(f"Expected {both[0]} once, found it as --{both[0]} and by --set: give the one you mean.")
    return {**changes, **said}


def _check_epsilon(epsilon: float | None, written: Mapping[str, Json], file: Path | None = None) -> None:
    """Raise ConfigError if the mechanism has no setting `epsilon`, or --spec FILE gives it another value."""
    if epsilon is None:
        return
    cls = MECHANISMS.get(str(written.get("kind")))
    known = [] if cls is None else [each.name for each in setting_fields(cls)]
    if cls is not None and "epsilon" not in known:
        raise ConfigError(
            f"Expected no --epsilon: {written['kind']} has no such setting. Its settings are {', '.join(known)}: "
            f"dptext mechanisms {written['kind']} explains them, --set NAME=VALUE changes them. dptext recommend "
            f"--epsilon {epsilon:g} names mechanisms that have an epsilon."
        )
    if file is not None and written.get("epsilon", epsilon) != epsilon:
        raise ConfigError(
            f"Expected epsilon once, found --epsilon {epsilon:g} and epsilon = {written['epsilon']} in {file}: leave "
            f"one out, or replace the one in the file by --set epsilon={epsilon:g}."
        )


def set_values(assignments: list[str] | None, of: str) -> dict[str, Json]:
    """Return the settings of --set. Another option names their `kind`."""
    listed = [parse_setting(each) for each in assignments or []]
    if len(found := dict(listed)) < len(listed) or "kind" in found:
        raise ConfigError(f"Expected each setting once, and the {of} by --mechanism, not by --set kind=...")
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The mechanism that a command names: its settings, and its folder if it is a model."""

    spec: Spec
    model: Path | None = None

    @property
    def needs_fit(self) -> bool:
        return self.model is None and self.spec.traits.learns is not Learns.NOTHING

    def fitted(self, *, device: str | None = None) -> Mechanism[str]:
        if self.model is not None:
            return load_model(self.model, device=device)
        if device is not None:
            raise ConfigError("Expected --device with --model: a spec has its device, if any, by --set device=NAME.")
        if not self.needs_fit:
            return self.spec.fit()
        kind = self.spec.kind
        written = config()
        how = f"dptext fit --mechanism {kind} --set KEY=VALUE ... --public PUBLIC --out MODEL; then give --model MODEL"
        if written.mechanism.get("kind") == kind and written.model is not None:
            how = "dptext fit, which reads dptext.toml, and makes the model that it names"
        raise ConfigError(f"Expected a model of {kind}, which learns from text. Fit first: {how}.")


def fitted_on(
    spec: Spec,
    *,
    public: Sequence[Record] = (),
    private: Sequence[Record] = (),
    pool: Sequence[Record] | None = None,
    seed: int | None = None,
    title: str = "fitting",
) -> Mechanism[str]:
    """Return the spec fitted on these records. A bar or some lines show the epochs, and no loss on private texts."""
    fitting = partial(fitted, spec, public, private=private or None, pool=pool, seed=seed)
    if not spec.traits.trains:
        with waiting(f"Making the model of {spec.kind}."):
            return fitting()
    with counted(title) as tell:
        shown = 0  # a time is estimated only after a twentieth is done

        def told(at: FitProgress) -> None:
            nonlocal shown
            if (part := at.done * _SHOWN_STEPS // at.total) not in (0, shown):
                shown = part
                tell(at.done, at.total, f"{at.unit}{at.note and f', {at.note}'}")

        return fitting(on_progress=told)


def say_if_in_other_language(spec: Promise, public: Sequence[Record]) -> None:
    """Warn of public texts in a language that the encoder, word vectors or model of the settings does not know."""
    # Few commands learn from public texts: the others need none of this.
    from dptext.runs.known_languages import in_other_language
    from dptext.synthesis.spec import CorpusSpec

    def typed(name: str, value: str) -> str:
        option = name == "encoder" and isinstance(spec, CorpusSpec)
        return f"--encoder {value}" if option else f"--set {name}={value}"

    if said := in_other_language(spec, [record.text for record in public], typed):
        say(f"Warning: {said}")


def is_a_record(portion: str | None, forms: Sequence[str] = ()) -> str:
    """Return the sentence of a dry run on what a record is, in files of several `forms` if there are any."""
    return f"A record is {a_record(portion, forms)}."


def reads_english(spec: Promise) -> list[str]:
    """Return what a dry run says of readers that know English alone: one sentence, or none."""
    from dptext.runs.known_languages import knows_english_alone  # few commands need it

    said = knows_english_alone(spec)
    return [f"{said}. `dptext check` says what language the texts seem to be in, and what to give."] if said else []


def as_public(records: Sequence[Record], choice: Choice | None) -> list[Record]:
    """Return the records with labels as the public set of the chosen mechanism spells them, if it has such a set."""
    return [*records] if choice is None else relabelled(records, choice.spec.traits.labels)


def check_label_field(
    spec: Spec,
    label_field: str | None,
    *,
    needed: bool,
    copied: Sequence[str | None] = (),
    public: Callable[[], Sequence[Record]] = tuple,
) -> None:
    """Check --label-field against the mechanism's use of labels. It is `needed` if the command reads labels.

    `public` reads public records, whose labels an error names.
    """
    if label_field is None:
        if needed:
            raise ConfigError(f"Expected --label-field NAME: {spec.kind} reads the label together with the text.")
    elif not spec.traits.releases_labels:
        if label_field == config().options.get("label-field"):
            return  # dptext.toml describes the file; it does not ask for labels
        if any(other.traits.releases_labels for other in spec.tiny()):
            raise ConfigError(
                f"Expected the set of labels in the settings of {spec.kind} with --label-field {label_field!r}: it is "
                f"public and read from no private text. Fit with --set {_labels_typed(public())}, or leave the field "
                "out."
            )
        raise ConfigError(f"Expected no --label-field: {spec.kind} does not privatize labels.")
    elif label_field in copied:
        raise ConfigError(f"Expected --label-field {label_field!r} to be no field that is copied to the output.")


def _labels_typed(public: Sequence[Record]) -> str:
    """Return the setting of the labels of public records as a user types it; without records, an example."""
    labels = [*dict.fromkeys(each.label for each in public if each.label)]
    if not 0 < len(labels) <= _SHOWN_LABELS:
        return "labels=a,b"
    whole = not any(label != label.strip() or {*label} & {*",\"'#[]{}"} for label in labels)
    listed = ",".join(labels) if whole else json.dumps(labels)
    return f"{shlex.quote(f'labels={listed}')}, the labels of the public file"


def kinds(has: Callable[[Traits], bool]) -> str:
    """Return the names of the mechanisms that have a trait with at least some settings."""
    return ", ".join(kind for kind, cls in MECHANISMS.usable().items() if any(has(spec.traits) for spec in cls.tiny()))


@dataclass(frozen=True, slots=True)
class WatchedEncoder:
    """An `Embedder` that shows its progress."""

    encoder: encoders.Encoder
    name: str
    dim: int

    def embed(self, texts: Sequence[str]) -> Floats:
        total = len(set(texts))
        with counted("embedding", "texts") as tell:
            return self.encoder.embed(texts, on_progress=lambda done: tell(done, total))


def load_encoder(name: str = "sentence", *, judged: Sequence[str] = ()) -> WatchedEncoder:
    """Load an encoder that shows its progress. A warning comes if the texts to be judged are not in its language.

    Their owner alone sees it, as all that judges private texts.
    """
    from dptext.runs.known_languages import encoder_lacks

    if said := encoder_lacks(name, judged):
        say(f"Warning: {said} Give --encoder FOLDER, a multilingual model that sentence-transformers saved.")
    found = encoders.load_encoder(name)
    return WatchedEncoder(found, found.name, found.dim)
