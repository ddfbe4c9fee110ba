"""`dptext audit sensitivity`: compare a claimed sensitivity with the true one, on simulated pairs and real latents."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from dptext import _validate
from dptext.cli import options
from dptext.cli.answers import Printing
from dptext.cli.audit import refuse_ignored
from dptext.cli.grouped import measures, promises
from dptext.cli.terminal import counted, say
from dptext.embeddings.npy import read_array
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.clipping import Norm, Vectors
from dptext.text.inputs import open_input, telling
from dptext.types import Json, jsonable
from dptext_lab.refutation import simulation
from dptext_lab.refutation.claims import (
    TYPICAL_DIMS,
    Claim,
    classical_limit,
    counterexample,
    true_gaussian_epsilon,
    variance_table,
)

_LARGEST_DIM = 1 << 16
_DRAWN = "coordinates of each pair"


def sensitivity(
    *,
    clip: Annotated[str, promises(help="Norm of the clipping: l1, l2 or none.")] = "l2",
    norm: Annotated[str, promises(help="Norm of the claimed sensitivity: l1 or l2.")] = "l1",
    clip_norm: Annotated[
        float | None, promises(help="C, the length to which vectors are clipped. The published simulation has 10.")
    ] = None,
    claimed: Annotated[float, promises(help="The claimed sensitivity as a multiple of C. That of ADePT is 2.")] = 2.0,
    dims: Annotated[str | None, measures(help="Dimensions n, as 1:255 or 8,16,32. Default: 1:255.")] = None,
    pairs: Annotated[int | None, measures(help="Number of pairs of a fresh simulation.")] = None,
    law_sd: Annotated[float | None, measures(help="Standard deviation of normal coordinates, in units of C.")] = None,
    seed: options.SeedOption = None,
    epsilon: Annotated[
        float | None, promises(help="Epsilon that a run is meant for. Its true epsilon is shown.")
    ] = None,
    delta: Annotated[
        float | None, promises(help="Delta of Gaussian noise, with --variances or --norm l2 --epsilon. Default: 1e-5.")
    ] = None,
    latents: Annotated[
        Path | None,
        options.file_option(metavar="FILE.npy", help="Vectors of an encoder, to compare in place of simulated ones."),
    ] = None,
    variances: Annotated[
        bool, measures("--variances", help="Show what the noise variances of ADePT mean in each dimension.")
    ] = False,
    figure: Annotated[Path | None, options.output_option(help="SVG of the violations by dimension.")] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> int:
    svg = options.target_of(figure, latents, force=force, private=False)  # it shows a simulation
    if epsilon is not None:
        _validate.positive(epsilon=epsilon)
    if delta is not None and not variances and (epsilon is None or norm != Norm.L2):
        raise ConfigError("Expected --delta with --variances or with --norm l2 --epsilon N: it is of Gaussian noise.")
    stated = Stated(epsilon, 1e-5 if delta is None else delta)
    longest = simulation.PUBLISHED_CLIP_NORM if clip_norm is None else clip_norm
    clipped = None if clip == "none" else options.member(Norm, "--clip", clip, "none")
    measured = options.member(Norm, "--norm", norm)
    first = Claim(dim=1, clip_norm=longest, clipped=clipped, measured=measured, multiple=claimed)
    if variances:
        refuse_ignored(
            "--variances", law_sd=law_sd, pairs=pairs, seed=seed, latents=latents, figure=figure, epsilon=epsilon
        )
        if first.measured is not Norm.L1 or claimed != 2.0:
            raise ConfigError("Expected --variances without --norm and --claimed: its claim is ADePT's, 2C in L1 norm.")
        clip_norms = (1.0, 5.0) if clip_norm is None else (clip_norm,)
        wanted = TYPICAL_DIMS if dims is None else _dims(dims)
        return show_variances(first, clip_norms, wanted, stated.delta, printing)
    if latents is not None:
        refuse_ignored("--latents", law_sd=law_sd, dims=dims, figure=figure)
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
        from dptext_lab.figures import violations_figure

        violations_figure(rows, svg)
        say(f"Written: {svg.path}")
    return show_simulated(rows, recipe, stated, printing)


def _dims(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 1:32,64,128, sorted, each once. A range a:b includes both ends."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [end.strip() for end in part.split(":")]
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ConfigError(f"Expected --dims {text!r} to be a list such as 1:32,64,128.")
        # A number of more than 9 digits is out of range, whatever its value.
        first, last = (int(end) if len(end) <= 9 else 10**9 for end in (ends[0], ends[-1]))
        if not 1 <= first <= last <= _LARGEST_DIM:
            raise ConfigError(f"Expected --dims {text!r} to rise and to lie in [1, {_LARGEST_DIM}].")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _read(path: Path) -> Vectors:
    """Return the array of a .npy file. numpy's reader refuses objects, which may hold code."""
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


#: The numbers of coordinates that are shown if there are many: powers of two; with all details, also the numbers at
#: which the published curves rise.
_POWERS = frozenset(1 << i for i in range(17))
_SHOWN_DIMS = frozenset((1, 2, 3, 4, 8, 10, 12, 16, 20, 24, 32, 64, 128, 160, 192, 224, 255))


@dataclass(frozen=True, slots=True)
class Stated:
    """The intended guarantee of a run: an epsilon, and the delta of Gaussian noise."""

    epsilon: float | None
    delta: float

    def true_epsilons(self, claim: Claim) -> dict[str, float]:
        if self.epsilon is None:
            return {}
        own = claim.true_epsilon(self.epsilon)
        if claim.measured is Norm.L1:
            return {"laplace": own}
        gaussian = true_gaussian_epsilon(claim, self.epsilon, delta=self.delta)
        return {"l2_laplace": own, "classical_gaussian": gaussian}

    def formula(self, claim: Claim) -> list[str]:
        limit = classical_limit(self.delta) if "classical_gaussian" in self.true_epsilons(claim) else math.inf
        if self.epsilon is None or self.epsilon <= limit:
            return []
        return [f"The classical Gaussian formula is wrong above epsilon = {limit:.2f} at delta = {self.delta:g}."]

    def analytic(self, claim: Claim) -> dict[str, Json]:
        data: dict[str, Json] = {"dim": claim.dim, "sensitivity": jsonable(claim.sensitivity)}
        data |= {"factor": jsonable(claim.factor), "sensitivity_refutes": claim.refuted}
        if epsilons := self.true_epsilons(claim):
            data["claimed_epsilon"] = self.epsilon
            data["delta"] = self.delta if claim.measured is Norm.L2 else 0.0
            data["true_epsilon"] = jsonable(epsilons)
        return data

    def table(
        self, label: str, head: tuple[list[str], list[str]], rows: Sequence[tuple[str, Claim, list[str]]]
    ) -> list[str]:
        """Return a line for each claim: its label, the results of the formula, and its cells."""
        kinds = self.true_epsilons(rows[0][1])
        columns = (f"{kind.replace('_', ' ')} for {self.epsilon:g}" for kind in kinds)
        lines = []
        for first, claim, last in rows:
            numbers = (claim.sensitivity, claim.factor, *self.true_epsilons(claim).values())
            lines.append([first, *(f"{number:.4g}" for number in numbers), *last])
        over = ["", "", "", *["true epsilon"] * len(kinds), *head[0]]
        return _aligned([over, [label, "sensitivity", "true/claimed", *columns, *head[1]]], lines)


def show_simulated(
    rows: Sequence[simulation.Violations], recipe: dict[str, Json], stated: Stated, printing: Printing
) -> int:
    shares: dict[Claim, dict[str, Estimate]] = {}
    for row in rows:
        shares.setdefault(row.claim, {})[str(row.law)] = row.share
    claims = list(shares)
    broken = [claim for claim in claims if any(share.value > 0 for share in shares[claim].values())]
    refuted = any(claim.refuted for claim in claims) or bool(broken)
    drawn = f"Violating pairs were drawn for {len(broken)} of {len(claims)} values of n."
    answer = [sensitivity_answer(claims, drawn=bool(broken)), drawn, *stated.formula(claims[0])]
    found: list[Json] = [{**stated.analytic(claim), "violating": jsonable(shares[claim])} for claim in claims]
    data: dict[str, Json] = {"claim": _settings(claims[0]), **recipe, "rows": found, "refuted": refuted}
    details = printing.details
    laws = list(shares[claims[0]]) if details else ["at most"]
    kept = {claims[0].dim, claims[-1].dim, *(_SHOWN_DIMS if details else _POWERS)}
    shown = claims if len(claims) <= (20 if details else 12) else [claim for claim in claims if claim.dim in kept]
    most = {claim: [f"{100 * max(share.value for share in shares[claim].values()):.2f}"] for claim in shown}
    violating = {claim: list(map(_percent, shares[claim].values())) for claim in shown} if details else most
    head = (["% violating", *[""] * (len(laws) - 1)], laws)
    table = stated.table("n", head, [(str(claim.dim), claim, violating[claim]) for claim in shown])
    screen = [f"Claim: {claims[0]}. C = {claims[0].clip_norm:g}.", "", *table]
    printing.answer(answer, screen, _worked(claims, stated), data)
    return int(refuted)


def _worked(claims: Sequence[Claim], stated: Stated) -> list[str]:
    claim = claims[0]
    adept = (claim.clipped, claim.measured, claim.multiple) == (Norm.L2, Norm.L1, 2.0)
    if not adept or not any(each.refuted for each in claims):
        return []
    first, second = counterexample(claim.clip_norm)
    distance, epsilon = float(np.abs(first - second).sum()), 1.0 if stated.epsilon is None else stated.epsilon
    loss = f"a run meant for epsilon = {epsilon:g} had {distance * epsilon / claim.claimed:.4g}"
    pair = "By hand: n = 2, (2C/3, 2C/3) and its negative pass the clipping unchanged"
    return [f"{pair} and are 8C/3 = {distance:.4g} apart; {loss}."]


def sensitivity_answer(claims: Sequence[Claim], *, drawn: bool) -> str:
    """Say whether the claimed sensitivity holds, by the formula and by pairs that were drawn."""
    worst = max(claims, key=lambda claim: claim.factor)
    wrong = [claim for claim in claims if claim.refuted]
    if not wrong and drawn:
        return "The claimed sensitivity is refuted by pairs that were compared, though the formula allows it."
    if not wrong:
        return "Nothing refutes the claimed sensitivity: by the formula no pair of vectors is farther apart."
    if math.isinf(worst.factor):
        return "The claimed sensitivity is refuted: without clipping there is no bound at all."
    if len(claims) == 1:
        return f"The claimed sensitivity is refuted: the true one is {worst.factor:.4g} times as large."
    return (
        f"The claimed sensitivity is refuted for {len(wrong)} of {len(claims)} values of n: the true one is up to "
        f"{worst.factor:.4g} times as large (n = {worst.dim})."
    )


def show_latents(
    claim: Claim, vectors: Vectors, stated: Stated, printing: Printing, *, pairs: int | None, seed: int | None
) -> int:
    """Compare pairs of rows of `vectors`, and print how often they violate the claim. Exit code 1: refuted."""
    most = 2_000_000 if pairs is None else pairs
    share = simulation.violating_pairs(vectors, claim, max_pairs=most, seed=0 if seed is None else seed)
    rows = int(vectors.shape[0])
    lost = rows - int(np.count_nonzero(np.isfinite(vectors).all(axis=1)))
    if lost:
        say(f"{lost:,} of {rows:,} latents are not finite: clipping makes them zero.")
    every = rows * (rows - 1) // 2
    refuted = claim.refuted or share.value > 0
    compared = min(every, most)
    measured = _percent(share) if compared < every else f"{100 * share.value:.2f}"
    verdict = sensitivity_answer([claim], drawn=share.value > 0)
    answer = [verdict, f"Of the pairs of these latents {measured} % violate it.", *stated.formula(claim)]
    data: dict[str, Json] = {"claim": _settings(claim), "latents": rows, "pairs": compared}
    data |= {"all_pairs": compared == every, **stated.analytic(claim)}
    data |= {"violating": jsonable(share), "refuted": refuted}
    table = stated.table("latents", ([""], ["% violating"]), [(f"{rows:,}", claim, [measured])])
    how = f"all {every:,} pairs" if compared == every else f"{most:,} of {every:,} pairs, drawn at random"
    screen = [f"Claim: {claim}. C = {claim.clip_norm:g}, n = {claim.dim}.", f"Compared: {how}.", "", *table]
    printing.answer(answer, screen, _worked([claim], stated), data)
    return int(refuted)


def show_variances(
    first: Claim, clip_norms: Sequence[float], dims: Sequence[int], delta: float, printing: Printing
) -> int:
    table = variance_table(clip_norms, dims=dims, clipped=first.clipped, delta=delta)
    claims = [replace(first, dim=dim) for dim in dims]
    refuted, answer = any(claim.refuted for claim in claims), [sensitivity_answer(claims, drawn=False)]
    data: dict[str, Json] = {"claim": _settings(first), "delta": delta, "rows": jsonable(table), "refuted": refuted}
    second_line = ["C", "variance", "b", "claimed", *(f"n={dim}" for dim in dims), "analytic", "classical", "rho"]
    first_line = ["", "", "Laplace", "epsilon", "true epsilon", *[""] * (len(dims) - 1), "Gaussian", "formula", "zCDP"]
    cells = []
    for row in table:
        true = (f"{epsilon:.3g}" if epsilon < 1000 else f"{epsilon:.0f}" for epsilon in row.true_epsilon.values())
        noise = [f"{row.clip_norm:g}", f"{row.variance:g}", f"{row.scale:.3f}", f"{row.claimed_epsilon:.2f}", *true]
        last = (row.gaussian_epsilon, row.classical_gaussian_epsilon, row.rho)
        cells.append([*noise, *(f"{number:.2f}" for number in last)])
    lines = _aligned([first_line, second_line], cells)
    what = f"What the variance of the noise on each coordinate means; Gaussian epsilons at delta = {delta:g}."
    printing.answer(answer, [what, "", *lines], [f"Claim: {first}."], data)
    return int(refuted)


def _settings(claim: Claim) -> dict[str, Json]:
    clip = "none" if claim.clipped is None else claim.clipped.value
    return {"clip": clip, "norm": claim.measured.value, "clip_norm": claim.clip_norm, "claimed": claim.claimed}


def _percent(share: Estimate) -> str:
    low, high = math.floor(1e4 * share.low) / 100, math.ceil(1e4 * share.high) / 100  # outwards, as the ends are
    return f"{100 * share.value:.2f} [{low:.2f}, {high:.2f}]"


def _aligned(head: list[list[str]], rows: list[list[str]]) -> list[str]:
    """Align columns to the right, each as wide as needed. A table that wraps at 80 columns is unreadable in a pipe."""
    widths = [max(len(row[i]) for row in [*head, *rows]) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [*head, *rows]]
    lines.insert(len(head), "  ".join("-" * width for width in widths))
    return [line.rstrip() for line in lines]
