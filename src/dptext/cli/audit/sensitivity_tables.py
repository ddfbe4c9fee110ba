"""What `dptext audit sensitivity` prints: tables and verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptext.audits.sensitivity.claims import (
    Claim,
    classical_limit,
    counterexample,
    true_gaussian_epsilon,
    variance_table,
)
from dptext.audits.sensitivity.simulation import Violations, violating_pairs
from dptext.cli.answers import Printing
from dptext.cli.terminal import say
from dptext.estimates import Estimate
from dptext.sampling.clipping import Norm, Vectors
from dptext.types import Json, as_json

#: What is shown of many numbers of coordinates: powers of two; with all details also where the published curves rise.
_POWERS = frozenset(1 << i for i in range(17))
_SHOWN_DIMS = frozenset((1, 2, 3, 4, 8, 10, 12, 16, 20, 24, 32, 64, 128, 160, 192, 224, 255))


@dataclass(frozen=True, slots=True)
class Stated:
    """What a run was meant for: an epsilon, and the delta of Gaussian noise."""

    epsilon: float | None
    delta: float

    def true_epsilons(self, claim: Claim) -> dict[str, float]:
        """What such runs had, by kind of noise."""
        if self.epsilon is None:
            return {}
        own = claim.true_epsilon(self.epsilon)
        if claim.measured is Norm.L1:
            return {"laplace": own}
        gaussian = true_gaussian_epsilon(claim, self.epsilon, delta=self.delta)
        return {"l2_laplace": own, "classical_gaussian": gaussian}

    def formula(self, claim: Claim) -> list[str]:
        """Where the classical formula is wrong, if that is so here."""
        limit = classical_limit(self.delta) if "classical_gaussian" in self.true_epsilons(claim) else math.inf
        if self.epsilon is None or self.epsilon <= limit:
            return []
        return [f"The classical Gaussian formula is wrong above epsilon = {limit:.2f} at delta = {self.delta:g}."]

    def analytic(self, claim: Claim) -> dict[str, Json]:
        """What the formula says of a claim, as JSON-able data."""
        data: dict[str, Json] = {"dim": claim.dim, "sensitivity": as_json(claim.sensitivity)}
        data |= {"factor": as_json(claim.factor), "sensitivity_refutes": claim.refuted}
        if epsilons := self.true_epsilons(claim):
            data["claimed_epsilon"] = self.epsilon
            data["delta"] = self.delta if claim.measured is Norm.L2 else 0.0
            data["true_epsilon"] = as_json(epsilons)
        return data

    def table(
        self, label: str, head: tuple[list[str], list[str]], rows: Sequence[tuple[str, Claim, list[str]]]
    ) -> list[str]:
        """A line for each claim, with its label before and its cells behind what the formula says."""
        kinds = self.true_epsilons(rows[0][1])
        columns = (f"{kind.replace('_', ' ')} for {self.epsilon:g}" for kind in kinds)
        lines = []
        for first, claim, last in rows:
            numbers = (claim.sensitivity, claim.factor, *self.true_epsilons(claim).values())
            lines.append([first, *(f"{number:.4g}" for number in numbers), *last])
        over = ["", "", "", *["true epsilon"] * len(kinds), *head[0]]
        return _aligned([over, [label, "sensitivity", "true/claimed", *columns, *head[1]]], lines)


def show_simulated(rows: Sequence[Violations], recipe: dict[str, Json], stated: Stated, printing: Printing) -> int:
    """Print whether the claim holds, and how often drawn pairs violate it; 1 where it is refuted, else 0."""
    shares: dict[Claim, dict[str, Estimate]] = {}
    for row in rows:
        shares.setdefault(row.claim, {})[str(row.law)] = row.share
    claims = list(shares)
    broken = [claim for claim in claims if any(share.value > 0 for share in shares[claim].values())]
    refuted = any(claim.refuted for claim in claims) or bool(broken)
    drawn = f"Violating pairs were drawn for {len(broken)} of {len(claims)} values of n."
    answer = [sensitivity_answer(claims, drawn=bool(broken)), drawn, *stated.formula(claims[0])]
    found: list[Json] = [{**stated.analytic(claim), "violating": as_json(shares[claim])} for claim in claims]
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
    claim: Claim, vectors: Vectors, stated: Stated, printing: Printing, *, pairs: int | None, seed: int | None
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
    answer = [verdict, f"Of the pairs of these latents {measured} % violate it.", *stated.formula(claim)]
    data: dict[str, Json] = {"claim": _settings(claim), "latents": rows, "pairs": compared}
    data |= {"all_pairs": compared == every, **stated.analytic(claim)}
    data |= {"violating": as_json(share), "refuted": refuted}
    table = stated.table("latents", ([""], ["% violating"]), [(f"{rows:,}", claim, [measured])])
    how = f"all {every:,} pairs" if compared == every else f"{most:,} of {every:,} pairs, drawn at random"
    screen = [f"Claim: {claim}. C = {claim.clip_norm:g}, n = {claim.dim}.", f"Compared: {how}.", "", *table]
    printing.answer(answer, screen, _worked([claim], stated), data)
    return int(refuted)


def show_variances(
    first: Claim, clip_norms: Sequence[float], dims: Sequence[int], delta: float, printing: Printing
) -> int:
    """Print what ADePT's noise variances mean, by clipping norm and number of coordinates; 1 where it is refuted."""
    table = variance_table(clip_norms, dims=dims, clipped=first.clipped, delta=delta)
    claims = [replace(first, dim=dim) for dim in dims]
    refuted, answer = any(claim.refuted for claim in claims), [sensitivity_answer(claims, drawn=False)]
    data: dict[str, Json] = {"claim": _settings(first), "delta": delta, "rows": as_json(table), "refuted": refuted}
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
    """Columns to the right, as wide as they need: a table that wraps at 80 columns cannot be read from a pipe."""
    widths = [max(len(row[i]) for row in [*head, *rows]) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [*head, *rows]]
    lines.insert(len(head), "  ".join("-" * width for width in widths))
    return [line.rstrip() for line in lines]
