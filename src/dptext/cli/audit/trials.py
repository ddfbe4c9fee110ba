"""`dptext audit distinguish | whitebox | exact`: run a subject on neighbouring inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptext.audits.report import Report
from dptext.audits.trials import density, distinguishing, enumeration
from dptext.cli import options
from dptext.cli.audit.subject import (
    ClaimOption,
    ClipNormOption,
    ConfidenceOption,
    DimOption,
    NoiseChoice,
    NoiseDeltaOption,
    NoiseEpsilonOption,
    NoiseOption,
    OnTrial,
    UnitOption,
    on_trial,
    show,
)
from dptext.cli.progress import counted, say
from dptext.sampling.source import secure, seeded
from dptext.text.files import Target

FirstOption = Annotated[str | None, typer.Option("--first", help="A text; without it known bad pairs are tried.")]
SecondOption = Annotated[str | None, typer.Option("--second", help="Its neighbour.")]
_SMALLEST_CURVE = 250


def distinguish(
    mechanism: options.MechanismOption = None,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    model: options.ModelOption = None,
    noise: NoiseOption = None,
    epsilon: NoiseEpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Runs on each input of a pair.")] = 20000,
    confidence: ConfidenceOption = 0.95,
    seed: options.SeedOption = None,
    figure: Annotated[
        Path | None,
        options.output_option("--figure", help="SVG of the bound against the number of runs, up to --trials."),
    ] = None,
    force: options.ForceOption = False,
    details: options.DetailsOption = False,
    as_json: options.JsonOption = False,
) -> int:
    """Tell outputs apart; with a figure also with a half, a quarter, ... of the runs."""
    svg = options.target_of(figure, spec, model, force=force)
    tried = on_trial(
        mechanism, assignments, spec, model, NoiseChoice(noise, epsilon, dim, clip_norm, delta), unit, claim
    )
    sizes = [trials]
    while svg is not None and sizes[0] // 2 >= _SMALLEST_CURVE:
        sizes.insert(0, sizes[0] // 2)
    reports = []
    for i, size in enumerate(sizes):
        with counted("distinguish" if svg is None else f"distinguish ({i + 1} of {len(sizes)})", "runs") as tell:
            found = distinguishing.distinguish(
                tried.subject,
                first,
                second,
                claim=tried.claim,
                trials=size,
                confidence=confidence,
                randomness=secure() if seed is None else seeded(seed + i),
                on_progress=tell,
            )
        reports.append(found)
    if svg is not None:
        _draw(tried, sizes, reports, svg)
    return show(reports[-1], tried.claim, details=details, as_json=as_json)


def _draw(tried: OnTrial, sizes: list[int], reports: list[Report], svg: Target) -> None:
    from dptext.report import Bounds, bounds_figure

    curve = Bounds(
        tried.name,
        tuple(sizes),
        tuple(report.epsilon_lower_bound for report in reports),
        tuple(report.ceiling for report in reports),
        tried.claim.epsilon,
    )
    bounds_figure([curve], svg)
    say(f"Written: {svg.path}")


def whitebox(
    mechanism: options.MechanismOption = None,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    model: options.ModelOption = None,
    noise: NoiseOption = None,
    epsilon: NoiseEpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Releases from each input of a pair.")] = 100000,
    confidence: ConfidenceOption = 0.95,
    seed: options.SeedOption = None,
    details: options.DetailsOption = False,
    as_json: options.JsonOption = False,
) -> int:
    """Compare declared densities, and test the sampler."""
    tried = on_trial(
        mechanism, assignments, spec, model, NoiseChoice(noise, epsilon, dim, clip_norm, delta), unit, claim
    )
    with counted("whitebox", "runs") as tell:
        found = density.whitebox(
            tried.subject,
            first,
            second,
            claim=tried.claim,
            trials=trials,
            confidence=confidence,
            randomness=secure() if seed is None else seeded(seed),
            on_progress=tell,
        )
    return show(found, tried.claim, details=details, as_json=as_json)


def exact(
    mechanism: options.MechanismOption = None,
    assignments: options.SetOption = None,
    spec: options.SpecOption = None,
    model: options.ModelOption = None,
    noise: NoiseOption = None,
    epsilon: NoiseEpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[
        int, typer.Option("--trials", help="Runs for the test of the sampler; the bound needs none.")
    ] = 20000,
    seed: options.SeedOption = None,
    details: options.DetailsOption = False,
    as_json: options.JsonOption = False,
) -> int:
    """List all outputs, and test the sampler."""
    tried = on_trial(
        mechanism, assignments, spec, model, NoiseChoice(noise, epsilon, dim, clip_norm, delta), unit, claim
    )
    with counted("exact", "runs") as tell:
        found = enumeration.exact(
            tried.subject,
            first,
            second,
            claim=tried.claim,
            trials=trials,
            randomness=secure() if seed is None else seeded(seed),
            on_progress=tell,
        )
    return show(found, tried.claim, details=details, as_json=as_json)
