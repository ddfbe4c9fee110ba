"""The mechanism that the options of a command name, and how it is fitted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dptext.cli.config import config
from dptext.cli.progress import counted
from dptext.errors import ConfigError
from dptext.mechanism import FitProgress, Learns, Mechanism, Spec, Traits
from dptext.mechanisms.registry import SPECS
from dptext.runs.models import fit, load_model, model_spec
from dptext.runs.specs import parse_setting, read_spec, spec_from_settings
from dptext.text.records import Record

_SHOWN_STEPS = 20


def chosen_spec(mechanism: str | None, assignments: list[str] | None, path: Path | None) -> Spec:
    """The spec of --spec FILE, of --mechanism with --set, or of `dptext.toml`; --set changes single settings."""
    listed = [parse_setting(each) for each in assignments or []]
    changes = dict(listed)
    if len(changes) < len(listed) or "kind" in changes:
        raise ConfigError("Expected each setting once, and the mechanism by --mechanism, not by --set kind=...")
    if mechanism is not None and path is not None:
        raise ConfigError("Expected one of --mechanism NAME and --spec FILE.toml.")
    if path is not None:
        return read_spec(path, changes)
    written = config().mechanism if mechanism is None else {"kind": mechanism}
    if not written:
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml and dptext.toml with a mechanism (dptext init writes "
            "it). dptext recommend names one."
        )
    return spec_from_settings({**written, **changes})


@dataclass(frozen=True, slots=True)
class Choice:
    """The mechanism that a command names: its settings, and its folder where it is a model."""

    spec: Spec
    model: Path | None = None

    @property
    def needs_fit(self) -> bool:
        """Whether it has to be fitted on texts first."""
        return self.model is None and self.spec.traits.learns is not Learns.NOTHING

    def fitted(self, *, device: str | None = None) -> Mechanism[str]:
        """The mechanism; of a model on this device, where one is named."""
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


def chosen(mechanism: str | None, assignments: list[str] | None, path: Path | None, model: Path | None) -> Choice:
    """The mechanism of --mechanism with --set, of --spec, or of --model."""
    if model is None:
        given = config().model
        if mechanism is None and path is None and not assignments and given is not None and given.is_dir():
            return Choice(model_spec(given), given)
        return Choice(chosen_spec(mechanism, assignments, path))
    if mechanism is not None or path is not None or assignments:
        raise ConfigError(
            "Expected one of --mechanism NAME, --spec FILE.toml and --model MODEL. A model has its settings already: "
            "--set cannot change them."
        )
    return Choice(model_spec(model), model)


def chosen_if_any(
    mechanism: str | None, assignments: list[str] | None, path: Path | None, model: Path | None
) -> Choice | None:
    """The same, or None where none of the options is given."""
    if mechanism is None and path is None and model is None and not assignments:
        return None
    return chosen(mechanism, assignments, path, model)


def fitted_on(
    spec: Spec,
    *,
    public: Sequence[Record] = (),
    private: Sequence[Record] = (),
    pool: Sequence[Record] | None = None,
    seed: int | None = None,
    title: str = "fitting",
) -> Mechanism[str]:
    """The spec fitted on these records, with a bar for the epochs. No loss on private texts is shown."""
    fitting = partial(fit, spec, public, private=private or None, pool=pool, seed=seed)
    if not spec.traits.trains:
        return fitting()
    with counted(title, every=0.0) as tell:
        shown = 0  # no estimate before a twentieth is done

        def told(at: FitProgress) -> None:
            nonlocal shown
            if (part := at.done * _SHOWN_STEPS // at.total) not in (0, shown):
                shown = part
                tell(at.done, at.total, f"{at.unit}{at.note and f', {at.note}'}")

        return fitting(on_progress=told)


def check_label_field(spec: Spec, label_field: str | None, *, needed: bool, copied: Sequence[str | None] = ()) -> None:
    """Check --label-field against what the mechanism does with labels; it is `needed` where these are read."""
    if label_field is None:
        if needed:
            raise ConfigError(f"Expected --label-field NAME: {spec.kind} reads the label together with the text.")
    elif not spec.traits.releases_labels:
        if label_field == config().options.get("label-field"):
            return  # what dptext.toml says of the file is no wish
        if any(other.traits.releases_labels for other in spec.tiny()):
            raise ConfigError(
                f"Expected the set of labels in the settings of {spec.kind} with --label-field {label_field!r}: it is "
                'public and read from no text. Fit with --set \'labels=["a", "b"]\', or leave the field out.'
            )
        raise ConfigError(f"Expected no --label-field: {spec.kind} does not privatize labels.")
    elif label_field in copied:
        raise ConfigError(f"Expected --label-field {label_field!r} to be no field that is copied to the output.")


def kinds(has: Callable[[Traits], bool]) -> str:
    """The names of the mechanisms that have a trait with at least some settings."""
    return ", ".join(kind for kind, cls in SPECS.usable().items() if any(has(spec.traits) for spec in cls.tiny()))
