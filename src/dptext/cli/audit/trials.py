"""`dptext audit distinguish | whitebox | exact`: run a subject on neighbouring inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from dptext.audits.report import Report
from dptext.audits.trials import density, distinguishing, enumeration
from dptext.cli import options
from dptext.cli.answers import Printing
from dptext.cli.audit.subject import Claimed, ConfidenceOption, Named, OnTrial, on_trial, show
from dptext.cli.options import spread
from dptext.cli.progress import counted, say
from dptext.sampling.source import secure, seeded

_SMALLEST_CURVE = 250


@dataclass(frozen=True, slots=True)
class Pair:
    """The options of the neighbours."""

    first: Annotated[str | None, Option(help="A text; without it known bad pairs are tried.")] = None
    second: Annotated[str | None, Option(help="Its neighbour.")] = None


@spread
def distinguish(
    *,
    named: Named,
    pair: Pair,
    claimed: Claimed,
    trials: Annotated[int, Option(help="Runs on each input of a pair.")] = 20000,
    confidence: ConfidenceOption = 0.95,
    seed: options.SeedOption = None,
    figure: Annotated[
        Path | None,
        options.output_option(help="SVG of the bound against the number of runs, up to --trials."),
    ] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> int:
    """Tell outputs apart; with a figure also with a half, a quarter, ... of the runs."""
    svg = options.target_of(figure, named.spec, named.model, force=force)
    tried = on_trial(named, claimed)
    sizes = [trials]
    while svg is not None and sizes[0] // 2 >= _SMALLEST_CURVE:
        sizes.insert(0, sizes[0] // 2)
    reports = []
    for i, size in enumerate(sizes):
        title = "distinguish" if svg is None else f"distinguish ({i + 1} of {len(sizes)})"
        run_seed = None if seed is None else seed + i
        reports.append(
            _tried(distinguishing.distinguish, title, tried, pair, run_seed, trials=size, confidence=confidence)
        )
    if svg is not None:
        from dptext.report import Bounds, bounds_figure

        bounds = tuple(report.epsilon_lower_bound for report in reports)
        ceilings = tuple(report.ceiling for report in reports)
        bounds_figure([Bounds(tried.name, tuple(sizes), bounds, ceilings, tried.claim.epsilon)], svg)
        say(f"Written: {svg.path}")
    return show(reports[-1], tried.claim, printing)


def _tried(
    audit: Callable[..., Report], title: str, tried: OnTrial, pair: Pair, seed: int | None, **settings: float
) -> Report:
    randomness = secure() if seed is None else seeded(seed)
    shared = {"claim": tried.claim, "randomness": randomness, **settings}
    with counted(title, "runs") as tell:
        return audit(tried.subject, pair.first, pair.second, on_progress=tell, **shared)


@spread
def whitebox(
    *,
    named: Named,
    pair: Pair,
    claimed: Claimed,
    trials: Annotated[int, Option(help="Releases from each input of a pair.")] = 100000,
    confidence: ConfidenceOption = 0.95,
    seed: options.SeedOption = None,
    printing: Printing,
) -> int:
    """Compare declared densities, and test the sampler."""
    tried = on_trial(named, claimed)
    found = _tried(density.whitebox, "whitebox", tried, pair, seed, trials=trials, confidence=confidence)
    return show(found, tried.claim, printing)


@spread
def exact(
    *,
    named: Named,
    pair: Pair,
    claimed: Claimed,
    trials: Annotated[int, Option(help="Runs for the test of the sampler; the bound needs none.")] = 20000,
    seed: options.SeedOption = None,
    printing: Printing,
) -> int:
    """List all outputs, and test the sampler."""
    tried = on_trial(named, claimed)
    found = _tried(enumeration.exact, "exact", tried, pair, seed, trials=trials)
    return show(found, tried.claim, printing)
