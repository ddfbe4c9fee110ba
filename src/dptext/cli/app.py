"""Commands and their options. Heavy libraries are imported by the command that needs them, not here."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer
import typer.main

from dptext.errors import BudgetExceededError, ConfigError, DataError, DPTextError

INTERNAL_ERROR = 70

app = typer.Typer(
    name="dptext",
    help="Rewrite text under differential privacy, and say exactly what was guaranteed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the plain help is three times as fast to start
    pretty_exceptions_enable=False,
)

MechanismOption = Annotated[str | None, typer.Option("--mechanism", "-m", help="Mechanism; see `dptext mechanisms`.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE, a setting. Repeatable.")]
SpecOption = Annotated[Path | None, typer.Option("--spec", help="TOML file with the settings, `kind` among them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="The delta at which guarantees are stated.")]


audit = typer.Typer(
    help="Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(audit, name="audit")

NoiseOption = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="Vector noise instead of a mechanism: published_laplace (as ADePT claims it), classical_gaussian, "
        "laplace, laplace_l1, gaussian, l2_laplace, privunit or privunit_sphere.",
    ),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", help="Claimed epsilon of the vector noise.")]
DimOption = Annotated[int, typer.Option("--dim", help="Coordinates of its vectors.")]
ClipNormOption = Annotated[float, typer.Option("--clip-norm", help="C, the norm to which they are clipped.")]
NoiseDeltaOption = Annotated[
    float, typer.Option("--delta", help="Delta of the Gaussian noises; also of --claim, and of a mechanism's claim.")
]
FirstOption = Annotated[str | None, typer.Option("--first", help="A text; without it known bad pairs are tried.")]
SecondOption = Annotated[str | None, typer.Option("--second", help="Its neighbour.")]
UnitOption = Annotated[str | None, typer.Option("--unit", help="Whose guarantee: token, sentence or document.")]
ClaimOption = Annotated[
    float | None, typer.Option("--claim", help="Try this epsilon instead of the guarantee that is stated.")
]
ConfidenceOption = Annotated[float, typer.Option("--confidence", help="Of the bound.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Makes the run repeatable.")]


@app.command()
def mechanisms(as_json: JsonOption = False) -> None:
    """List the mechanisms, their settings and what they can guarantee."""
    from dptext.cli import mechanisms as command

    command.show(as_json)


@app.command()
def explain(
    certificate: Annotated[
        Path | None, typer.Argument(help="OUT.guarantee.json: verify OUT against it and say it in words.")
    ] = None,
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    unit: Annotated[str | None, typer.Option("--unit", help="token, sentence, document or author.")] = None,
    delta: DeltaOption = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Say in plain words what a certificate, or a mechanism with these settings, guarantees."""
    from dptext.cli import explain as command

    if certificate is not None:
        if mechanism or settings or spec or unit:
            raise ConfigError("Expected a certificate or a mechanism with settings, not both.")
        command.explain_certificate(certificate, as_json)
    else:
        command.explain_spec(mechanism, settings or [], spec, unit=unit, delta=delta, as_json=as_json)


@app.command()
def privatize(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Records: .jsonl .csv .parquet .txt, also .gz.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The new file; OUT.guarantee.json is its certificate.")],
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    text_field: Annotated[str, typer.Option("--text-field", help="Field of the text.")] = "text",
    id_field: Annotated[
        str | None, typer.Option("--id-field", help="Field of the ids (released!); default 0, 1, 2, ...")
    ] = None,
    author_field: Annotated[str | None, typer.Option("--author-field", help="Field of the author.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="Public field to copy to the output. Repeatable.")
    ] = None,
    input_format: Annotated[str | None, typer.Option("--format", help="jsonl, csv, parquet or text.")] = None,
    output_format: Annotated[str | None, typer.Option("--output-format", help="The same for OUT.")] = None,
    on_error: Annotated[str, typer.Option("--on-error", help="stop, or skip unreadable records.")] = "stop",
    max_per_author: Annotated[
        int | None, typer.Option("--max-per-author", help="Refuse more records of one author than this.")
    ] = None,
    delta: DeltaOption = 0.0,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Records a batch; changes speed only.")] = 256,
    seed: Annotated[int | None, typer.Option("--seed", help="For experiments: voids the guarantee.")] = None,
    without_guarantee: Annotated[
        bool, typer.Option("--without-guarantee", help="Run a mechanism that guarantees nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT; throw away an unfinished run.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Privatize the records of IN into OUT, with a certificate beside it."""
    from dptext.cli import privatize as command

    command.run(
        source,
        target,
        command.chosen_spec(mechanism, settings or [], spec),
        command.plan(
            text_field=text_field,
            id_field=id_field,
            author_field=author_field,
            keep=keep or [],
            input_format=input_format,
            output_format=output_format,
            on_error=on_error,
            max_per_author=max_per_author,
            delta=delta,
            batch_size=batch_size,
            without_guarantee=without_guarantee,
            force=force,
            resume=resume,
        ),
        seed=seed,
        as_json=as_json,
    )


@app.command()
def demo(as_json: JsonOption = False) -> None:
    """Privatize built-in sample texts word by word and show what was guaranteed."""
    from dptext.cli import demo as command

    command.show(as_json)


@audit.command()
def distinguish(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Runs on each input of a pair.")] = 20000,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="SVG of the bound against the number of runs, up to --trials.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Black box: tell two neighbouring inputs apart by outputs alone."""
    from dptext.cli import audit as command

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, vector=vector)
    code = command.run(
        "distinguish",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=confidence,
        seed=seed,
        figure=figure,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def whitebox(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Releases from each input of a pair.")] = 100000,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the privacy loss off the declared density, and test that the sampler keeps to it."""
    from dptext.cli import audit as command

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, vector=vector)
    code = command.run(
        "whitebox",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=confidence,
        seed=seed,
        figure=None,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def exact(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
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
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum over all outputs where they can be listed, and test that the sampler keeps to them."""
    from dptext.cli import audit as command

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, vector=vector)
    code = command.run(
        "exact",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=0.95,
        seed=seed,
        figure=None,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def sensitivity(
    clip: Annotated[str, typer.Option("--clip", help="Norm of the clipping: l1, l2 or none.")] = "l2",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the claimed sensitivity: l1 or l2.")] = "l1",
    clip_norm: Annotated[float | None, typer.Option("--clip-norm", help="C; the published simulation has 10.")] = None,
    claimed: Annotated[float, typer.Option("--claimed", help="The claim as a multiple of C; ADePT's is 2.")] = 2.0,
    dims: Annotated[str | None, typer.Option("--dims", help="1:255, or 8,16,32; default 1:255.")] = None,
    pairs: Annotated[int | None, typer.Option("--pairs", help="Fresh simulation with so many pairs.")] = None,
    law_sd: Annotated[
        float | None, typer.Option("--law-sd", help="Standard deviation of normal coordinates, as a multiple of C.")
    ] = None,
    seed: SeedOption = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Show what a run with it really had.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="Of Gaussian noise.")] = 1e-5,
    latents: Annotated[Path | None, typer.Option("--latents", help="FILE.npy of an encoder's vectors.")] = None,
    variances: Annotated[
        bool, typer.Option("--variances", help="What ADePT's noise variances mean, by dimension.")
    ] = False,
    figure: Annotated[Path | None, typer.Option("--figure", help="SVG of violations against dimension.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Count pairs of clipped vectors that violate a claimed sensitivity, as published against ADePT."""
    from dptext.cli import audit_sensitivity as command

    code = command.run(
        clip=clip,
        norm=norm,
        clip_norm=clip_norm,
        claimed=claimed,
        dims=dims,
        pairs=pairs,
        law_sd=law_sd,
        seed=seed,
        epsilon=epsilon,
        delta=delta,
        latents=latents,
        variances=variances,
        figure=figure,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def reconstruction(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    pool: Annotated[Path | None, typer.Option("--pool", help="Candidate texts: .jsonl .csv .parquet .txt.")] = None,
    candidates: Annotated[int, typer.Option("--candidates", help="Random vectors in the pool of --noise.")] = 1000,
    top: Annotated[list[int] | None, typer.Option("--top", help="Guesses; repeatable. Default 1, 5, 10.")] = None,
    trials: Annotated[int, typer.Option("--trials", help="Releases to attack.")] = 2000,
    attack: Annotated[
        str, typer.Option("--attack", help="likelihood (white box), or surrogate (learned from simulated releases).")
    ] = "likelihood",
    simulations: Annotated[int, typer.Option("--simulations", help="Releases a candidate for the surrogate.")] = 100,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Guess the input among known candidates from one release, against the best that the guarantee allows."""
    from dptext.cli import audit as command
    from dptext.cli import audit_reconstruction

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, vector=vector)
    code = audit_reconstruction.run(
        subject,
        candidates=candidates if pool is None else command.texts(pool),
        tops=tuple(top or (1, 5, 10)),
        trials=trials,
        attack=attack,
        simulations=simulations,
        claim=command.stated_claim(subject, unit, claim, delta),
        confidence=confidence,
        seed=seed,
        as_json=as_json,
    )
    raise typer.Exit(code)


def exit_code(error: DPTextError) -> int:
    """2 bad usage or settings, 3 budget refused, 4 bad data."""
    match error:
        case BudgetExceededError():
            return 3
        case DataError():
            return 4
        case _:
            return 2


def _withhold(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected error without its message, which might hold private text."""
    frame = trace
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
    print(f"dptext: internal error {kind.__name__}{where}; its message is withheld.", file=sys.stderr, flush=True)
    os._exit(INTERNAL_ERROR)  # an exception would end with status 1, which means that an audit refuted a claim


def main() -> None:
    """Run the command line; every deliberate error becomes one line on stderr and an exit code."""
    sys.excepthook = _withhold
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `dptext mechanisms | head` ends quietly
    try:
        typer.main.get_command(app)()  # calling app itself would put typer's own excepthook in place
    except DPTextError as error:
        print(f"dptext: {error}", file=sys.stderr)
        raise SystemExit(exit_code(error)) from None
