"""What `dptext audit sensitivity` prints: tables and verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptext.audits.sensitivity.claims import Claim, counterexample
from dptext.audits.sensitivity.latents import violating_pairs
from dptext.audits.sensitivity.scales import classical_limit, true_gaussian_epsilon, variance_table
from dptext.audits.sensitivity.simulation import Violations
from dptext.cli.answers import print_answer
from dptext.cli.progress import say
from dptext.estimates import Estimate
from dptext.sampling.clipping import Norm, Vectors
from dptext.types import Json

#: What is shown of many numbers of coordinates: powers of two; with all details also where the published curves rise.
_POWERS = frozenset(1 << i for i in range(17))
_SHOWN_DIMS = frozenset((1, 2, 3, 4, 8, 10, 12, 16, 20, 24, 32, 64, 128, 160, 192, 224, 255))


@dataclass(frozen=True, slots=True)
class Stated:
    """What a run was meant for: an epsilon, and the delta of Gaussian noise."""

    epsilon: float | None
    delta: float


def show_simulated(
    rows: Sequence[Violations], recipe: dict[str, Json], stated: Stated, *, details: bool, as_json: bool
) -> int:
    """Print whether the claim holds, and how often drawn pairs violate it; 1 where it is refuted, else 0."""
    shares: dict[Claim, dict[str, Estimate]] = {}
    for row in rows:
        shares.setdefault(row.claim, {})[str(row.law)] = row.share
    claims = list(shares)
    broken = [claim for claim in claims if any(share.value > 0 for share in shares[claim].values())]
    refuted = any(claim.refuted for claim in claims) or bool(broken)
    drawn = f"Violating pairs were drawn for {len(broken)} of {len(claims)} values of n."
    answer = [sensitivity_answer(claims, drawn=bool(broken)), drawn, *_formula(claims[0], stated)]
    found: list[Json] = [
        {**_analytic(claim, stated), "violating": {law: {**share.to_dict()} for law, share in shares[claim].items()}}
        for claim in claims
    ]
    data: dict[str, Json] = {"claim": _settings(claims[0]), **recipe, "rows": found, "refuted": refuted}
    laws = list(shares[claims[0]]) if details else ["at most"]
    kept = {claims[0].dim, claims[-1].dim, *(_SHOWN_DIMS if details else _POWERS)}
    shown = claims if len(claims) <= (20 if details else 12) else [claim for claim in claims if claim.dim in kept]
    kinds = list(_true_epsilons(claims[0], stated))
    most = {claim: [f"{100 * max(share.value for share in shares[claim].values()):.2f}"] for claim in shown}
    violating = {claim: list(map(_percent, shares[claim].values())) for claim in shown} if details else most
    table = _aligned(
        [
            ["", "", "", *["true epsilon"] * len(kinds), "% violating", *[""] * (len(laws) - 1)],
            ["n", "sensitivity", "true/claimed", *(_column(kind, stated) for kind in kinds), *laws],
        ],
        [[str(claim.dim), *_cells(claim, stated), *violating[claim]] for claim in shown],
    )
    screen = [f"Claim: {claims[0]}. C = {claims[0].clip_norm:g}.", "", *table]
    print_answer(answer, screen, _worked(claims, stated), data, details=details, as_json=as_json)
    return int(refuted)


def _formula(claim: Claim, stated: Stated) -> list[str]:
    limit = classical_limit(stated.delta) if "classical_gaussian" in _true_epsilons(claim, stated) else math.inf
    if stated.epsilon is None or stated.epsilon <= limit:
        return []
    return [f"The classical Gaussian formula is wrong above epsilon = {limit:.2f} at delta = {stated.delta:g}."]


def _worked(claims: Sequence[Claim], stated: Stated) -> list[str]:
    claim = claims[0]
    adept = (claim.clipped, claim.measured, claim.multiple) == (Norm.L2, Norm.L1, 2.0)
    if not adept or not any(each.refuted for each in claims):
        return []
    example = counterexample(claim.clip_norm)
    epsilon = 1.0 if stated.epsilon is None else stated.epsilon
    loss = f"a run meant for epsilon = {epsilon:g} had {example.privacy_loss(epsilon):.4g}"
    pair = "By hand: n = 2, (2C/3, 2C/3) and its negative pass the clipping unchanged"
    return [f"{pair} and are 8C/3 = {example.distance:.4g} apart; {loss}."]


def sensitivity_answer(claims: Sequence[Claim], *, drawn: bool) -> str:
    """Whether the claimed sensitivity holds, by the formula and by pairs that were drawn."""
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
    claim: Claim, vectors: Vectors, stated: Stated, *, pairs: int | None, seed: int | None, details: bool, as_json: bool
) -> int:
    """Compare pairs of the rows of `vectors` and print how often they violate the claim; 1 where it is refuted."""
    most = 2_000_000 if pairs is None else pairs
    share = violating_pairs(vectors, claim, max_pairs=most, seed=0 if seed is None else seed)
    rows = int(vectors.shape[0])
    lost = rows - int(np.count_nonzero(np.isfinite(vectors).all(axis=1)))
    if lost:
        say(f"{lost:,} of {rows:,} latents are not finite: clipping makes them zero.")
    every = rows * (rows - 1) // 2
    refuted = claim.refuted or share.value > 0
    compared = min(every, most)
    measured = _percent(share) if compared < every else f"{100 * share.value:.2f}"
    verdict = sensitivity_answer([claim], drawn=share.value > 0)
    answer = [verdict, f"Of the pairs of these latents {measured} % violate it.", *_formula(claim, stated)]
    data: dict[str, Json] = {"claim": _settings(claim), "latents": rows, "pairs": compared}
    data |= {"all_pairs": compared == every, **_analytic(claim, stated)}
    data |= {"violating": {**share.to_dict()}, "refuted": refuted}
    kinds = list(_true_epsilons(claim, stated))
    table = _aligned(
        [
            ["", "", "", *["true epsilon"] * len(kinds), ""],
            ["latents", "sensitivity", "true/claimed", *(_column(kind, stated) for kind in kinds), "% violating"],
        ],
        [[f"{rows:,}", *_cells(claim, stated), measured]],
    )
    how = f"all {every:,} pairs" if compared == every else f"{most:,} of {every:,} pairs, drawn at random"
    screen = [f"Claim: {claim}. C = {claim.clip_norm:g}, n = {claim.dim}.", f"Compared: {how}.", "", *table]
    print_answer(answer, screen, _worked([claim], stated), data, details=details, as_json=as_json)
    return int(refuted)


def show_variances(
    first: Claim, clip_norms: Sequence[float], dims: Sequence[int], delta: float, *, details: bool, as_json: bool
) -> int:
    """Print what ADePT's noise variances mean, by clipping norm and number of coordinates; 1 where it is refuted."""
    table = variance_table(clip_norms, dims=dims, clipped=first.clipped, delta=delta)
    claims = [replace(first, dim=dim) for dim in dims]
    refuted, answer = any(claim.refuted for claim in claims), [sensitivity_answer(claims, drawn=False)]
    rows: list[Json] = [
        {
            "clip_norm": row.clip_norm,
            "variance": row.variance,
            "scale": row.scale,
            "claimed_epsilon": row.claimed_epsilon,
            "true_epsilon": {str(n): _number(e) for n, e in zip(row.dims, row.true_epsilons, strict=True)},
            "classical_gaussian_epsilon": row.classical_epsilon,
            "gaussian_epsilon": _number(row.gaussian_epsilon),
            "rho": _number(row.rho),
        }
        for row in table
    ]
    data: dict[str, Json] = {"claim": _settings(first), "delta": delta, "rows": rows, "refuted": refuted}
    second_line = ["C", "variance", "b", "claimed", *(f"n={dim}" for dim in dims), "analytic", "classical", "rho"]
    first_line = ["", "", "Laplace", "epsilon", "true epsilon", *[""] * (len(dims) - 1), "Gaussian", "formula", "zCDP"]
    cells = [
        [
            f"{row.clip_norm:g}",
            f"{row.variance:g}",
            f"{row.scale:.3f}",
            f"{row.claimed_epsilon:.2f}",
            *(f"{epsilon:.3g}" if epsilon < 1000 else f"{epsilon:.0f}" for epsilon in row.true_epsilons),
            f"{row.gaussian_epsilon:.2f}",
            f"{row.classical_epsilon:.2f}",
            f"{row.rho:.2f}",
        ]
        for row in table
    ]
    lines = _aligned([first_line, second_line], cells)
    what = f"What the variance of the noise on each coordinate means; Gaussian epsilons at delta = {delta:g}."
    print_answer(answer, [what, "", *lines], [f"Claim: {first}."], data, details=details, as_json=as_json)
    return int(refuted)


def _true_epsilons(claim: Claim, stated: Stated) -> dict[str, float]:
    if stated.epsilon is None:
        return {}
    if claim.measured is Norm.L1:
        return {"laplace": claim.true_epsilon(stated.epsilon)}
    return {
        "l2_laplace": claim.true_epsilon(stated.epsilon),
        "classical_gaussian": true_gaussian_epsilon(claim, stated.epsilon, delta=stated.delta),
    }


def _column(kind: str, stated: Stated) -> str:
    return f"{kind.replace('_', ' ')} for {stated.epsilon:g}"


def _cells(claim: Claim, stated: Stated) -> list[str]:
    numbers = (claim.sensitivity, claim.factor, *_true_epsilons(claim, stated).values())
    return [f"{number:.4g}" for number in numbers]


def _settings(claim: Claim) -> dict[str, Json]:
    return {
        "clip": "none" if claim.clipped is None else claim.clipped.value,
        "norm": claim.measured.value,
        "clip_norm": claim.clip_norm,
        "claimed": claim.claimed,
    }


def _analytic(claim: Claim, stated: Stated) -> dict[str, Json]:
    epsilons = _true_epsilons(claim, stated)
    data: dict[str, Json] = {
        "dim": claim.dim,
        "sensitivity": _number(claim.sensitivity),
        "factor": _number(claim.factor),
        "sensitivity_refutes": claim.refuted,
    }
    if epsilons:
        data["claimed_epsilon"] = stated.epsilon
        data["delta"] = stated.delta if claim.measured is Norm.L2 else 0.0
        data["true_epsilon"] = {name: _number(value) for name, value in epsilons.items()}
    return data


def _number(value: float) -> float | str:
    return str(value) if math.isinf(value) else value  # JSON has no infinity


def _percent(share: Estimate) -> str:
    low, high = math.floor(1e4 * share.low) / 100, math.ceil(1e4 * share.high) / 100  # outwards, as the ends are
    return f"{100 * share.value:.2f} [{low:.2f}, {high:.2f}]"


def _aligned(head: list[list[str]], rows: list[list[str]]) -> list[str]:
    """Columns to the right, as wide as they need: a table that wraps at 80 columns cannot be read from a pipe."""
    widths = [max(len(row[i]) for row in [*head, *rows]) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [*head, *rows]]
    lines.insert(len(head), "  ".join("-" * width for width in widths))
    return [line.rstrip() for line in lines]
