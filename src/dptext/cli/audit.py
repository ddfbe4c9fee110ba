"""`dptext audit distinguish | whitebox | exact`: put a mechanism or vector noise to trial."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dptext.audits.report import Report
from dptext.audits.subjects import Progress, Subject, claim_of
from dptext.audits.trials.density import whitebox
from dptext.audits.trials.distinguishing import distinguish, unclaimed
from dptext.audits.trials.enumeration import exact
from dptext.cli.privatize import chosen, fitted
from dptext.cli.terminal import bars
from dptext.errors import ConfigError
from dptext.mechanism import VectorNoise
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, MetricEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.noise import Gaussian, GridLaplace, L2Laplace, Norm
from dptext.sampling.privunit import PrivUnit, PrivUnitSphere
from dptext.sampling.published import ClassicalGaussian, PublishedLaplace
from dptext.sampling.randomness import secure, seeded
from dptext.text.files import Target
from dptext.text.reading import read_records
from dptext.text.records import Record
from dptext.types import Json

REFUTED = 1
_SMALLEST_CURVE = 250


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """Settings of the vector noise on trial."""

    epsilon: float
    dim: int
    clip_norm: float
    delta: float


NOISES: dict[str, Callable[[VectorSettings], VectorNoise]] = {
    "published_laplace": lambda s: PublishedLaplace(s.epsilon, s.dim, s.clip_norm),
    "classical_gaussian": lambda s: ClassicalGaussian(s.epsilon, s.delta, s.dim, s.clip_norm),
    "laplace": lambda s: GridLaplace(s.epsilon, s.dim, s.clip_norm),
    "laplace_l1": lambda s: GridLaplace(s.epsilon, s.dim, s.clip_norm, Norm.L1),
    "gaussian": lambda s: Gaussian(s.epsilon, s.delta, s.dim, s.clip_norm),
    "l2_laplace": lambda s: L2Laplace(s.epsilon, s.dim, s.clip_norm),
    "privunit": lambda s: PrivUnit(s.epsilon, s.dim, s.clip_norm),
    "privunit_sphere": lambda s: PrivUnitSphere(s.epsilon, s.dim),
}


def noise(name: str, settings: VectorSettings) -> VectorNoise:
    """The vector noise of this name.

    Raises:
        ConfigError: the name is unknown, or a setting cannot be used.
    """
    if name not in NOISES:
        raise ConfigError(f"Expected --noise {name!r} to be one of {', '.join(NOISES)}.")
    return NOISES[name](settings)


def subject(
    mechanism: str | None, settings: list[str], spec: Path | None, *, model: Path | None, vector: VectorNoise | None
) -> Subject:
    """What is on trial: vector noise, or a fitted mechanism.

    Raises:
        ConfigError: none or several are named.
    """
    if vector is None:
        return fitted(chosen(mechanism, settings, spec, model))
    if mechanism or settings or spec or model:
        raise ConfigError("Expected one of --noise NAME, --mechanism NAME, --spec FILE.toml and --model MODEL.")
    return vector


def texts(path: Path) -> list[Record]:
    """The candidate records of a file, held in memory."""
    return list(read_records(path))


def stated_claim(on_trial: Subject, unit: str | None, epsilon: float | None, delta: float) -> Guarantee:
    """The claim to refute: --claim EPSILON with the neighbours of the subject's own guarantee, or that guarantee.

    Raises:
        ConfigError: the unit is unknown.
        IncomparableError: the subject states nothing for this unit.
    """
    wanted = None
    if unit is not None:
        try:
            wanted = Unit(unit)
        except ValueError:
            raise ConfigError(f"Expected --unit {unit!r} to be one of {', '.join(Unit)}.") from None
    spec = getattr(on_trial, "spec", None)
    own = spec.guarantee(wanted, delta) if spec is not None else (claim_of(on_trial) or unclaimed())
    if wanted is not None and wanted is not own.unit:
        raise ConfigError(f"Expected --unit {own.unit} or none: vector noise speaks of whole documents.")
    if epsilon is None:
        return own
    event = (
        MetricEvent(epsilon, own.metric, delta)
        if own.metric is not None
        else ApproximateEvent(epsilon, delta)
        if delta
        else PureEvent(epsilon)
    )
    return accounting.guarantee(
        [event], delta, unit=own.unit, relation=own.relation, basis=Basis.CLAIMED, reveals=own.reveals
    )


def run(
    attack: str,
    on_trial: Subject,
    claim: Guarantee,
    *,
    first: str | None,
    second: str | None,
    trials: int,
    confidence: float,
    seed: int | None,
    figure: Target | None,
    as_json: bool,
) -> int:
    """Run one audit and print its report; 1 when the claim is refuted, else 0."""
    sizes = [trials]
    if figure is not None:
        if attack != "distinguish":
            raise ConfigError("Expected --figure with distinguish only: it shows the bound against the number of runs.")
        while sizes[0] // 2 >= _SMALLEST_CURVE:
            sizes.insert(0, sizes[0] // 2)
    reports = []
    for i, size in enumerate(sizes):
        source = secure() if seed is None else seeded(seed + i)
        with progress(f"{attack} ({i + 1} of {len(sizes)})" if figure else attack) as advance:
            match attack:
                case "distinguish":
                    report = distinguish(
                        on_trial,
                        first,
                        second,
                        claim=claim,
                        trials=size,
                        confidence=confidence,
                        randomness=source,
                        on_progress=advance,
                    )
                case "whitebox":
                    report = whitebox(
                        on_trial,
                        first,
                        second,
                        claim=claim,
                        trials=size,
                        confidence=confidence,
                        randomness=source,
                        on_progress=advance,
                    )
                case "exact":
                    report = exact(
                        on_trial, first, second, claim=claim, trials=size, randomness=source, on_progress=advance
                    )
                case _:
                    raise ConfigError(f"Expected attack={attack!r} to be distinguish, whitebox or exact.")
        reports.append(report)
    if figure is not None:
        from dptext.report import Bounds, bounds_figure

        name = getattr(getattr(on_trial, "spec", None), "kind", type(on_trial).__name__)
        curve = Bounds(
            str(name),
            tuple(sizes),
            tuple(report.epsilon_lower_bound for report in reports),
            tuple(report.ceiling for report in reports),
            claim.epsilon,
        )
        bounds_figure([curve], figure)
        print(f"Written: {figure.path}", file=sys.stderr)
    return show(reports[-1], claim, as_json=as_json)


def show(report: Report, claim: Guarantee, *, as_json: bool) -> int:
    """Print a report and whether it refutes the claim; the exit code."""
    refuted = report.refutes(claim)
    if as_json:
        data: dict[str, Json] = {"refuted": refuted, "claim": claim.to_dict(), "report": report.to_dict()}
        print(json.dumps(data, indent=2))
    else:
        print(report.explain(claim))
    return REFUTED if refuted else 0


@contextlib.contextmanager
def progress(title: str) -> Iterator[Progress | None]:
    """A progress bar on stderr where that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
    with Bar(*columns, console=bars(), transient=True) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
