"""Events: frozen data with the facts about a release that accounting needs.

Events are public: they may be printed, logged and stored. A round trip through JSON changes nothing::

    >>> event_from_dict(event_to_dict(PureEvent(0.1, count=3)))
    PureEvent(epsilon=0.1, count=3)
"""

from __future__ import annotations  # `ledger.requests` reads the types of fields as text

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Literal, get_args

from dptext import _validate
from dptext.errors import ConfigError
from dptext.types import Json

#: A guarantee with a larger delta protects nobody, and is explained and sorted as no protection.
MAX_MEANINGFUL_DELTA = 1e-3


@dataclass(frozen=True, slots=True)
class PureEvent:
    """`count` runs, each epsilon-DP for the relation of the guarantee."""

    epsilon: float
    count: int = 1
    kind: Literal["pure"] = field(default="pure", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(epsilon=self.epsilon)
        _validate.count(count=self.count)


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """`count` runs, each (epsilon, delta)-DP. A pure mechanism that draws in floats counts its slack as delta."""

    epsilon: float
    delta: float
    count: int = 1
    kind: Literal["approximate"] = field(default="approximate", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        _validate.count(count=self.count)


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """`count` runs of continuous Gaussian noise; noise_multiplier = standard deviation / L2 sensitivity.

    The sensitivity is that under the guarantee's relation (2C under replace one, for vectors clipped to norm C).
    """

    noise_multiplier: float
    count: int = 1
    kind: Literal["gaussian"] = field(default="gaussian", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.positive(noise_multiplier=self.noise_multiplier)
        _validate.count(count=self.count)


@dataclass(frozen=True, slots=True)
class ZcdpEvent:
    """`count` runs, each rho-zCDP (Bun and Steinke 2016), such as discrete Gaussian noise."""

    rho: float
    count: int = 1
    kind: Literal["zcdp"] = field(default="zcdp", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(rho=self.rho)
        _validate.count(count=self.count)


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent:
    """`count` trainings of `steps` Poisson-sampled Gaussian steps (DP-SGD).

    noise_multiplier = standard deviation / clip norm of one record, the convention of DP-SGD. Accounting derives the
    sensitivity from the guarantee's relation.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    count: int = 1
    kind: Literal["sampled_gaussian"] = field(default="sampled_gaussian", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.positive(noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate)
        _validate.probability(sampling_rate=self.sampling_rate)
        _validate.count(steps=self.steps, count=self.count)


@dataclass(frozen=True, slots=True)
class TopKEvent:
    """`count` choices by top-k randomized response among `size` public options.

    Each of the k best options has probability e^epsilon times that of each other option.
    """

    epsilon: float
    k: int
    size: int
    count: int = 1
    kind: Literal["top_k"] = field(default="top_k", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(epsilon=self.epsilon)
        _validate.count(k=self.k, size=self.size, count=self.count)
        if self.k >= self.size:
            raise ConfigError(f"Expected k={self.k} < size={self.size}: with k = size nothing is chosen.")


@dataclass(frozen=True, slots=True)
class TwoSetEvent:
    """`count` choices by the two-set exponential mechanism of ER-AE (derivations, "Two-set choice").

    `set_choice` is how the first set is made: `top_k` (deterministic) or `sampled` (k draws with replacement, as in the
    authors' code).
    """

    epsilon: float
    k: int
    size: int
    set_choice: Literal["top_k", "sampled"] = "top_k"
    count: int = 1
    kind: Literal["two_set"] = field(default="two_set", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(epsilon=self.epsilon)
        _validate.count(k=self.k, size=self.size, count=self.count)
        if self.set_choice not in ("top_k", "sampled"):
            raise ConfigError(f"Expected set_choice={self.set_choice!r} to be 'top_k' or 'sampled'.")
        if 2 * self.k > self.size:
            raise ConfigError(f"Expected k={self.k} <= size/2={self.size / 2}: the bound needs two large sets.")


@dataclass(frozen=True, slots=True)
class ExponentialEvent:
    """`count` choices with probability proportional to e^w, all log weights w within a public range.

    `log_range` is (largest - smallest possible w) over all inputs. `size` is the number of options. The bound holds for
    any two inputs, so it needs no lifting (derivations, "Scores within a range").
    """

    log_range: float
    size: int
    count: int = 1
    kind: Literal["exponential"] = field(default="exponential", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.not_negative(log_range=self.log_range)
        _validate.count(size=self.size, count=self.count)


@dataclass(frozen=True, slots=True)
class MetricEvent:
    """`count` runs whose output probabilities differ by e^(epsilon * distance) + slack, `distance` in `metric`.

    `delta` is the additive slack of a float sampler (0 if only integers are drawn). The slack does not grow with the
    distance (see dptext.sampling.float_noise).
    """

    epsilon: float
    metric: str
    delta: float = 0.0
    count: int = 1
    kind: Literal["metric"] = field(default="metric", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.positive(epsilon=self.epsilon)
        _validate.probability(delta=self.delta)
        _validate.count(count=self.count)
        # A guarantee without the name of its metric would read as if it held at any distance.
        if not isinstance(self.metric, str) or not is_name(self.metric):
            raise ConfigError(f"Expected metric={self.metric!r} to name the distance that epsilon is multiplied with.")


@dataclass(frozen=True, slots=True)
class NoEvent:
    """A release without any guarantee, for the given reason."""

    reason: str
    count: int = 1
    kind: Literal["none"] = field(default="none", init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.count(count=self.count)
        if not isinstance(self.reason, str) or not self.reason:
            raise ConfigError(f"Expected reason={self.reason!r} to say why there is no guarantee.")


#: Choices whose bound holds for any two inputs.
Choice = TopKEvent | TwoSetEvent | ExponentialEvent
Event = PureEvent | ApproximateEvent | GaussianEvent | ZcdpEvent | SampledGaussianEvent | Choice | MetricEvent | NoEvent


def event_to_dict(event: Event) -> dict[str, Json]:
    """The event as JSON-able data, `kind` first."""
    data = asdict(event)
    return {"kind": data.pop("kind"), **data}


def event_from_dict(data: Mapping[str, Json]) -> Event:
    """Read an event that `event_to_dict` wrote. ConfigError: its kind or a field is unknown, missing or wrong."""
    values = dict(data)
    kind = values.pop("kind", None)
    cls = EVENTS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ConfigError(f"Expected kind={kind!r} to be one of {sorted(EVENTS)}.")
    try:
        return cls(**values)  # type: ignore[arg-type]  # the constructor checks what JSON cannot promise
    except TypeError as error:
        raise ConfigError(f"An event of kind {kind!r} has other fields than {sorted(values)}.") from error


def is_name(metric: str) -> bool:
    """Tell whether a metric's name has at least one visible character."""
    return any(letter.isprintable() and not letter.isspace() for letter in metric)


EVENTS: dict[str, type[Event]] = {
    str(next(f.default for f in fields(cls) if f.name == "kind")): cls for cls in get_args(Event)
}
