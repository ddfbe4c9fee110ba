"""What `dptext audit` puts on trial: vector noise or a fitted mechanism, and the claim that is to be refuted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from typer import Option

from dptext.audits.report import Report
from dptext.audits.subjects import Subject, claim_of, unclaimed
from dptext.cli import answers, options
from dptext.cli.answers import Printing
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.chosen import Wanted
from dptext.errors import ConfigError
from dptext.mechanism import VectorNoise
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, Event, MetricEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.types import Json

ConfidenceOption = Annotated[float, Option("--confidence", help="Of the bound.")]


@dataclass(frozen=True, slots=True)
class Named(Wanted):
    """The options that name what is attacked: a mechanism, or vector noise and its settings."""

    noise: Annotated[
        str | None,
        Option(
            help="Vector noise instead of a mechanism: published_laplace (as ADePT claims it), classical_gaussian, "
            "laplace, laplace_l1, gaussian, l2_laplace, privunit or privunit_sphere.",
        ),
    ] = None
    epsilon: Annotated[float, Option(help="Claimed epsilon of the vector noise.")] = 1.0
    dim: Annotated[int, Option(help="Coordinates of its vectors.")] = 64
    clip_norm: Annotated[float, Option(help="C, the norm to which they are clipped.")] = 1.0
    delta: Annotated[
        float,
        Option(help="Delta of the Gaussian noises; also of --claim, and of a mechanism's claim."),
    ] = 0.0


@dataclass(frozen=True, slots=True)
class Claimed:
    """The options of the claim: whose it is, and its epsilon in the place of the one that is stated."""

    unit: Annotated[str | None, Option(help="Whose guarantee: token, sentence or document.")] = None
    claim: Annotated[float | None, Option(help="Try this epsilon instead of the guarantee that is stated.")] = None


def _noises() -> dict[str, Callable[[Named], VectorNoise]]:
    from dptext.sampling.clipping import Norm
    from dptext.sampling.float_noise import Gaussian, L2Laplace
    from dptext.sampling.grid_noise import GridLaplace
    from dptext.sampling.privunit import PrivUnit, PrivUnitSphere
    from dptext.sampling.published import ClassicalGaussian, PublishedLaplace

    return {
        "published_laplace": lambda n: PublishedLaplace(n.epsilon, n.dim, n.clip_norm),
        "classical_gaussian": lambda n: ClassicalGaussian(n.epsilon, n.delta, n.dim, n.clip_norm),
        "laplace": lambda n: GridLaplace(n.epsilon, n.dim, n.clip_norm),
        "laplace_l1": lambda n: GridLaplace(n.epsilon, n.dim, n.clip_norm, Norm.L1),
        "gaussian": lambda n: Gaussian(n.epsilon, n.delta, n.dim, n.clip_norm),
        "l2_laplace": lambda n: L2Laplace(n.epsilon, n.dim, n.clip_norm),
        "privunit": lambda n: PrivUnit(n.epsilon, n.dim, n.clip_norm),
        "privunit_sphere": lambda n: PrivUnitSphere(n.epsilon, n.dim),
    }


@dataclass(frozen=True, slots=True)
class OnTrial:
    """A subject, its name in a figure, and its claim."""

    subject: Subject
    name: str
    claim: Guarantee


def on_trial(named: Named, claimed: Claimed) -> OnTrial:
    """What the options put on trial.

    The claim is the guarantee that the subject states. The epsilon of --claim takes the place of the one stated; the
    neighbours stay those of the guarantee.
    """
    wanted = None if claimed.unit is None else options.member(Unit, "--unit", claimed.unit)
    if named.noise is None:
        fitted_one = named.chosen().fitted()
        claim = fitted_one.spec.guarantee(wanted, named.delta)
        return OnTrial(fitted_one, fitted_one.spec.kind, _claimed(claim, claimed.claim, named.delta))
    noises = _noises()
    if named.noise not in noises:
        raise ConfigError(f"Expected --noise {named.noise!r} to be one of {', '.join(noises)}.")
    if named:
        raise ConfigError("Expected one of --noise NAME, --mechanism NAME, --spec FILE.toml and --model MODEL.")
    vector = noises[named.noise](named)
    claim = claim_of(vector) or unclaimed()
    if wanted is not None and wanted is not claim.unit:
        raise ConfigError(f"Expected --unit {claim.unit} or none: vector noise speaks of whole documents.")
    return OnTrial(vector, type(vector).__name__, _claimed(claim, claimed.claim, named.delta))


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


def show(report: Report, claim: Guarantee, printing: Printing) -> int:
    """Print whether a report refutes the claim, and the report; the exit code."""
    refuted, answer = report.refutes(claim), answers.trial(report, claim)
    lines = report.explain().splitlines()
    data: dict[str, Json] = {"refuted": refuted, "claim": claim.to_dict(), "report": report.to_dict()}
    printing.answer(answer, lines[:4], lines[4:], data)
    return EXIT_REFUTED if refuted else 0
