"""`dptext audit sensitivity`: a claimed sensitivity against the true one, simulated pairs and real latents."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from dptext import _validate
from dptext.audits.sensitivity import simulation
from dptext.audits.sensitivity.claims import TYPICAL_DIMS, Claim
from dptext.cli import options
from dptext.cli.answers import Printing
from dptext.cli.audit.sensitivity_tables import Stated, show_latents, show_simulated, show_variances
from dptext.cli.terminal import counted, say
from dptext.embeddings.npy import read_array
from dptext.errors import ConfigError
from dptext.sampling.clipping import Norm, Vectors
from dptext.text.inputs import open_input, telling
from dptext.types import Json

_LARGEST_DIM = 1 << 16
_DRAWN = "coordinates of each pair"


@options.spread
def sensitivity(
    *,
    clip: Annotated[str, Option(help="Norm of the clipping: l1, l2 or none.")] = "l2",
    norm: Annotated[str, Option(help="Norm of the claimed sensitivity: l1 or l2.")] = "l1",
    clip_norm: Annotated[float | None, Option(help="C; the published simulation has 10.")] = None,
    claimed: Annotated[float, Option(help="The claim as a multiple of C; ADePT's is 2.")] = 2.0,
    dims: Annotated[str | None, Option(help="1:255, or 8,16,32; default 1:255.")] = None,
    pairs: Annotated[int | None, Option(help="Fresh simulation with so many pairs.")] = None,
    law_sd: Annotated[float | None, Option(help="Standard deviation of normal coordinates, in units of C.")] = None,
    seed: options.SeedOption = None,
    epsilon: Annotated[float | None, Option(help="Show the true epsilon of a run meant for it.")] = None,
    delta: Annotated[float, Option(help="Of Gaussian noise.")] = 1e-5,
    latents: Annotated[Path | None, options.file_option(help="FILE.npy of an encoder's vectors.")] = None,
    variances: Annotated[bool, Option("--variances", help="What ADePT's noise variances mean, by dimension.")] = False,
    figure: Annotated[Path | None, options.output_option(help="SVG of violations against dimension.")] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> int:
    """Audit a claimed sensitivity and print what was found; 1 where the claim is refuted."""
    svg = options.target_of(figure, latents, force=force, private=False)  # it shows a simulation
    if epsilon is not None:
        _validate.positive(epsilon=epsilon)
    stated = Stated(epsilon, delta)
    longest = simulation.PUBLISHED_CLIP_NORM if clip_norm is None else clip_norm
    clipped = None if clip == "none" else options.member(Norm, "--clip", clip, "none")
    measured = options.member(Norm, "--norm", norm)
    first = Claim(dim=1, clip_norm=longest, clipped=clipped, measured=measured, multiple=claimed)
    if variances:
        _refuse("--variances", law_sd=law_sd, pairs=pairs, seed=seed, latents=latents, figure=figure, epsilon=epsilon)
        if first.measured is not Norm.L1 or claimed != 2.0:
            raise ConfigError("Expected --variances without --norm and --claimed: its claim is ADePT's, 2C in L1 norm.")
        clip_norms = (1.0, 5.0) if clip_norm is None else (clip_norm,)
        wanted = TYPICAL_DIMS if dims is None else _dims(dims)
        return show_variances(first, clip_norms, wanted, delta, printing)
    if latents is not None:
        _refuse("--latents", law_sd=law_sd, dims=dims, figure=figure)
        if clip_norm is None:
            raise ConfigError("Expected --clip-norm with --latents: the norm C to which latents are clipped.")
        vectors = _read(latents)
        claim = replace(first, dim=max(1, vectors.shape[-1] if vectors.ndim else 1))
        return show_latents(claim, vectors, stated, printing, pairs=pairs, seed=seed)
    wanted = tuple(simulation.PUBLISHED_DIMS) if dims is None else _dims(dims)
    published = law_sd is None and pairs is None and seed is None and first.clip_norm == simulation.PUBLISHED_CLIP_NORM
    recipe: dict[str, Json]
    if published and max(wanted) in simulation.PUBLISHED_DIMS:
        recipe = {"recipe": "published", "pairs": simulation.PUBLISHED_PAIRS, "seed": simulation.PUBLISHED_SEED}
        fixed = f"C = {simulation.PUBLISHED_CLIP_NORM:g}, {simulation.PUBLISHED_PAIRS:,} pairs for each n and law."
        say(f"Replaying the published simulation up to n = {max(wanted)}: {fixed}")
        with counted("drawing", _DRAWN) as tell:
            rows = simulation.replay(wanted, clipped=clipped, measured=measured, multiple=claimed, on_progress=tell)
    else:
        seed, pairs = 0 if seed is None else seed, simulation.PUBLISHED_PAIRS if pairs is None else pairs
        recipe = {"recipe": "fresh", "pairs": pairs, "seed": seed}
        two = None if law_sd is None else (simulation.Uniform(), simulation.Normal(law_sd))
        rows = _fresh(first, wanted, two or simulation.PUBLISHED_LAWS, pairs, seed)
    if svg is not None:
        from dptext.report import violations_figure

        violations_figure(rows, svg)
        say(f"Written: {svg.path}")
    return show_simulated(rows, recipe, stated, printing)


def _refuse(mode: str, **options: object) -> None:
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"Expected {mode} without {', '.join(given)}.")


def _dims(text: str) -> tuple[int, ...]:
    """The numbers of a list such as 1:32,64,128, where a:b has both ends; sorted, each once."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [end.strip() for end in part.split(":")]
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ConfigError(f"Expected --dims {text!r} to be a list such as 1:32,64,128.")
        # A number too long to be one is out of range whatever it is.
        first, last = (int(end) if len(end) <= 9 else 10**9 for end in (ends[0], ends[-1]))
        if not 1 <= first <= last <= _LARGEST_DIM:
            raise ConfigError(f"Expected --dims {text!r} to rise and to lie in [1, {_LARGEST_DIM}].")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _read(path: Path) -> Vectors:
    """The array of a .npy file. Objects, which may hold code, are refused by numpy's reader."""
    with open_input(path) as file, telling(path, "read"), contextlib.suppress(ValueError):
        array: Vectors = read_array(file)
        return array
    raise ConfigError(f"Expected {str(path)!r} to be a .npy file of floats. Write it with numpy.save.")


def _fresh(
    first: Claim, dims: Sequence[int], laws: Sequence[simulation.Law], pairs: int, seed: int
) -> tuple[simulation.Violations, ...]:
    _validate.count(pairs=pairs)
    say(f"A fresh simulation: {pairs:,} pairs for each n and law, seed {seed}.")
    rows: list[simulation.Violations] = []
    done = 0
    with counted("drawing", _DRAWN) as tell:
        for dim in dims:
            rows += (simulation.simulate(replace(first, dim=dim), law, pairs=pairs, seed=seed) for law in laws)
            done += dim
            tell(done, sum(dims))
    return tuple(rows)
