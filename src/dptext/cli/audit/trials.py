"""`dptext audit distinguish | whitebox | exact`: try claims of vector noise or a fitted mechanism."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from dptext.audits.report import Report
from dptext.audits.subjects import HasSpec, Subject, claim_of, labels_read, unclaimed
from dptext.audits.trials import density, distinguishing, enumeration
from dptext.cli import answers, options
from dptext.cli.answers import Printing
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.chosen import MechanismOptions
from dptext.cli.grouped import measures, promises, reads
from dptext.cli.terminal import counted, say
from dptext.doors import Door
from dptext.errors import ConfigError
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, Event, MetricEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_delta
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.types import Json

if TYPE_CHECKING:  # it loads every noise
    from dptext.audits.noises import MakeNoise

_NOISES: Final = ("laplace", "laplace_l1", "gaussian", "l2_laplace", "privunit", "privunit_sphere")
#: Vector noises by name; those of the library are loaded when one is chosen.
NOISES: Final[Door["MakeNoise"]] = Door(
    "dptext.noises", {name: f"dptext.audits.noises:{name}" for name in _NOISES}, what="noise"
)
ConfidenceOption = Annotated[float, measures("--confidence", help="Confidence of the bound.")]


@dataclass(frozen=True, slots=True)
class OnTrial(MechanismOptions):
    """The options for a mechanism on trial, and for the claim: its own guarantee, or `claim`, an epsilon instead."""

    epsilon: Annotated[
        float | None, promises(help="Epsilon of the mechanism, or of --noise (default: 1), as it claims.")
    ] = None
    delta: Annotated[float, promises(help="Delta of Gaussian noises, of --claim, and of the claim of a mechanism.")] = (
        0.0
    )
    unit: Annotated[str | None, promises(help="Unit of the guarantee on trial: token, sentence or document.")] = None
    claim: Annotated[float | None, promises(help="Epsilon to try to refute, instead of the stated guarantee.")] = None
    seed: options.SeedOption = None

    def on_trial(self) -> tuple[Subject, Guarantee]:
        """Return the subject and the claim on trial. --claim replaces the stated epsilon, but not the neighbours."""
        fitted_one = self.chosen(epsilon=self.epsilon).fitted()
        claim = fitted_one.spec.guarantee(self.wanted_unit, self.delta)
        return fitted_one, _claimed(claim, self.claim, self.delta)

    @property
    def wanted_unit(self) -> Unit | None:
        """The unit of --unit."""
        return None if self.unit is None else options.member(Unit, "--unit", self.unit)


@dataclass(frozen=True, slots=True)
class Claimed(OnTrial):
    """The options for the subject of an attack, a mechanism or vector noise, and for the claim on trial."""

    noise: Annotated[
        str | None,
        promises(
            help="Vector noise instead of a mechanism: laplace, laplace_l1, gaussian, l2_laplace, privunit, "
            "privunit_sphere, or one that a package brings."
        ),
    ] = None
    dim: Annotated[int | None, promises(help="Dimension of the vectors of --noise. Default: 64.")] = None
    clip_norm: Annotated[
        float | None, promises(help="C, the length to which the vectors of --noise are clipped. Default: 1.")
    ] = None

    @property
    def vectors(self) -> tuple[int, float]:
        """The dimension of the vectors of --noise, and the length to which they are clipped."""
        return 64 if self.dim is None else self.dim, 1.0 if self.clip_norm is None else self.clip_norm

    def on_trial(self) -> tuple[Subject, Guarantee]:
        """Return the vector noise of --noise and its claim, or the mechanism."""
        if self.noise is None:
            return OnTrial.on_trial(self)
        make = NOISES.named(self.noise, f"--noise {self.noise!r}")
        if self:
            raise ConfigError("Expected one of --noise NAME, --mechanism NAME, --spec FILE.toml and --model MODEL.")
        vector = make(1.0 if self.epsilon is None else self.epsilon, self.delta, *self.vectors)
        claim = claim_of(vector) or unclaimed()
        if self.claim is None and claim.delta < self.delta:
            raise ConfigError(
                f"Expected --noise {self.noise} without --delta, or with --claim: its own claim is one of delta "
                f"{format_delta(claim.delta)}."
            )
        if self.wanted_unit not in (None, claim.unit):
            raise ConfigError(f"Expected --unit {claim.unit} or none: vector noise protects whole documents.")
        return vector, _claimed(claim, self.claim, self.delta)


_FirstOption = Annotated[
    str | None,
    reads(
        "--first",
        metavar="TEXT",
        help="First text of the pair. Default: pairs that differ in words, names, numbers, addresses, capitals, "
        "punctuation or length, not in what else a mechanism may read (other scripts, notations, the order of words).",
    ),
]
_SecondOption = Annotated[
    str | None, reads("--second", metavar="TEXT", help="Second text of the pair, a neighbour of --first.")
]


_FirstLabelOption = Annotated[
    str | None, reads("--first-label", metavar="LABEL", help="Label of --first, for a mechanism that reads labels.")
]
_SecondLabelOption = Annotated[str | None, reads("--second-label", metavar="LABEL", help="Label of --second.")]


@dataclass(frozen=True, slots=True)
class Listed(OnTrial):
    """A mechanism whose outputs can be listed, on a pair of texts."""

    first: _FirstOption = None
    second: _SecondOption = None
    first_label: _FirstLabelOption = None
    second_label: _SecondLabelOption = None


@dataclass(frozen=True, slots=True)
class Neighbours(Claimed):
    """A mechanism or vector noise, on a pair of texts."""

    first: _FirstOption = None
    second: _SecondOption = None
    first_label: _FirstLabelOption = None
    second_label: _SecondLabelOption = None


_Pair: TypeAlias = Listed | Neighbours


def _claimed(own: Guarantee, epsilon: float | None, delta: float) -> Guarantee:
    if epsilon is None:
        return own
    event: Event
    if own.metric is not None:
        event = MetricEvent(epsilon, own.metric, delta)
    else:
        event = ApproximateEvent(epsilon, delta) if delta else PureEvent(epsilon)
    return accounting.guarantee(
        [event], delta, unit=own.unit, relation=own.relation, basis=Basis.CLAIMED, reveals=own.reveals
    )


def _inputs(subject: Subject, given: _Pair) -> tuple[Record | None, Record | None]:
    """Return the two inputs that were given, with their labels. ConfigError: labels that the subject does not read."""
    labels = given.first_label, given.second_label
    if any(each is not None for each in labels):
        if given.first is None or given.second is None:
            raise ConfigError("Expected --first TEXT and --second TEXT with --first-label or --second-label.")
        if not labels_read(subject):
            raise ConfigError("Expected no --first-label and no --second-label: what is on trial reads no labels.")
    elif given.first is not None and labels_read(subject):
        say("It reads labels, too, and both texts have none: --first-label and --second-label give them.")
    return _record(given.first, labels[0]), _record(given.second, labels[1])


def _record(text: str | None, label: str | None) -> Record | None:
    return None if text is None else Record("0", text, label=label)


def _tried(
    audit: Callable[..., Report],
    title: str,
    on: tuple[Subject, Guarantee],
    given: _Pair,
    **settings: float,
) -> Report:
    first, second = _inputs(on[0], given)
    randomness = secure() if given.seed is None else seeded(given.seed)
    shared = {"claim": on[1], "randomness": randomness, **settings}
    vectors = isinstance(given, Claimed) and given.noise is not None
    each, said = 2 * int(settings["trials"]), vectors or first is not None
    with counted(title, "runs") as tell:

        def told(done: int, total: int | None, *what: str) -> None:
            nonlocal said
            if not said and total is not None and (pairs := total // each) > 1:
                say(f"{pairs} pairs of texts, {each:,} runs each: --first TEXT --second TEXT try one pair alone.")
            said = True
            tell(done, total, *what)

        return audit(on[0], first, second, on_progress=told, **shared)


def _show(report: Report, claim: Guarantee, printing: Printing) -> int:
    refuted, lines = report.refutes(claim), report.explain().splitlines()
    data: dict[str, Json] = {"refuted": refuted, "claim": claim.to_dict(), "report": report.to_dict()}
    printing.answer(answers.trial(report, claim), lines[:4], lines[4:], data)
    return EXIT_REFUTED if refuted else 0


def _try(audit: Callable[..., Report], title: str, given: _Pair, printing: Printing, **settings: float) -> int:
    on = given.on_trial()
    return _show(_tried(audit, title, on, given, **settings), on[1], printing)


_SMALLEST_CURVE = 250


def distinguish(
    *,
    given: Neighbours,
    trials: Annotated[
        int, measures(help="Runs on each input of a pair. Without --first and --second there are some 20 to 30 pairs.")
    ] = 20000,
    confidence: ConfidenceOption = 0.95,
    figure: Annotated[
        Path | None, options.output_option(help="SVG of the bound by the number of runs, up to --trials.")
    ] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> int:
    """Distinguish outputs of neighbours. A figure also shows the bounds from a half, a quarter, ... of the runs."""
    svg = options.target_of(figure, given.spec, given.model, force=force)
    on = subject, claim = given.on_trial()
    sizes = [trials]
    while svg is not None and sizes[0] // 2 >= _SMALLEST_CURVE:
        sizes.insert(0, sizes[0] // 2)
    reports = []
    for i, size in enumerate(sizes):
        title = "distinguish" if svg is None else f"distinguish ({i + 1} of {len(sizes)})"
        seeds = replace(given, seed=None if given.seed is None else given.seed + i)
        reports.append(_tried(distinguishing.distinguish, title, on, seeds, trials=size, confidence=confidence))
    if svg is not None:
        from dptext.audits.figures import Bounds, bounds_figure

        name = subject.spec.kind if isinstance(subject, HasSpec) else type(subject).__name__
        bounds = tuple(report.epsilon_lower_bound for report in reports)
        ceilings = tuple(report.ceiling for report in reports)
        bounds_figure([Bounds(name, tuple(sizes), bounds, ceilings, claim.epsilon)], svg, confidence=confidence)
        say(f"Written: {svg.path}")
    return _show(reports[-1], claim, printing)


def whitebox(
    *,
    given: Neighbours,
    trials: Annotated[int, measures(help="Releases from each input of a pair.")] = 100000,
    confidence: ConfidenceOption = 0.95,
    printing: Printing,
) -> int:
    return _try(density.whitebox, "whitebox", given, printing, trials=trials, confidence=confidence)


def exact(
    *,
    given: Listed,
    trials: Annotated[int, measures(help="Runs for the test of the sampler. The bound needs none.")] = 20000,
    printing: Printing,
) -> int:
    return _try(enumeration.exact, "exact", given, printing, trials=trials)
