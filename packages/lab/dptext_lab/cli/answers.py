"""Answers of commands that try other papers, in one to three plain sentences, by the rules of `dptext.cli.answers`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptext.cli.answers import NO_PROOF, bound_in_words, guessed, inferred, interval, short, trial
from dptext.privacy.guarantee import Basis, Guarantee

if TYPE_CHECKING:  # slow to load
    from dptext.recommend.measured import KeptRow
    from dptext_lab.redaction.divergence.findings import DivergenceReport
    from dptext_lab.redaction.trait_findings import TraitReport
    from dptext_lab.refutation.attack import Reconstruction


def reconstruction(found: Reconstruction, claim: Guarantee) -> list[str]:
    """Say whether guesses of the input refute a claim, how often they are right, and which faults would not show."""
    first, nothing = found.tops[0], claim.basis is Basis.NONE
    said = trial(found.report, claim)[:1]
    allowed = "" if nothing else f"; the claim allows {short(first.allowed)}"
    place = f"{'the' if first.top == 1 else f'among the {first.top}'} first of {found.candidates:,} candidates"
    said.append(f"The input is guessed as {place} for {interval(first.success)} of the releases{allowed}.")
    needed = found.feasible(claim)
    if not found.refutes(claim) and not nothing and found.dim is not None and (needed or math.inf) > found.candidates:
        return [*said, "Noise as wrong as ADePT's would not show here: use the audit whitebox."]
    return said if found.refutes(claim) else [*said, NO_PROOF]


def trait(found: TraitReport, claim: float | None) -> list[str]:
    """Say whether attackers tell the two sets apart and refute an epsilon, and how much is left of the texts."""
    tried, refuted, bound = "", claim is not None and found.refutes(claim), found.bound
    if claim is not None:
        stated = f"claim of epsilon {claim:g}, delta {bound.delta:g}, of the two sets"
        lead = f"The {stated} is refuted" if refuted else f"Nothing refutes the {stated}"
        tried = f"{lead}: {bound_in_words(bound.epsilon, claim, bound.confidence)} was seen."
    hits = {row.name: (row.accuracy, row.attacked) for row in found.rows}
    attack = guessed("tell the two sets apart", hits, len(found.attacks), 0.5)
    return inferred(attack, tried, found, refuted=refuted)


def comparison(rows: Sequence[KeptRow]) -> list[str]:
    """Say whether a release of a measured table is worth having, by `dptext_lab.compare.report.verdict`."""
    from dptext_lab.compare.report.verdict import verdict

    if all(row.failed or row.reference for row in rows):
        return ["No mechanism was measured: each of their cells failed, or none is done."]
    return verdict(rows)


def divergence(found: DivergenceReport) -> list[str]:
    """Say whether two sets of texts differ in the embedding, by the certified bound and by the estimate."""
    sure, epsilon = found.certified, found.epsilon
    lead = "The two sets differ" if max(sure.epsilon, epsilon.low) > 0 else "The two sets are not shown to differ"
    estimate = f"{epsilon.value:.2f} [{epsilon.low:.2f}, {epsilon.high:.2f}]"
    least = bound_in_words(sure.epsilon, math.inf, sure.confidence)
    said = [f"{lead}: epsilon at delta {found.delta:g} is estimated as {estimate}, and {least} is certified."]
    if found.is_separated:
        said.append("A model told all unseen records apart: every number is a lower value.")
    elif sure.epsilon > epsilon.high or any("direct" in check.surely_below for check in found.checks):
        said.append("Do not rely on the estimate: an attack or the certified bound needs more.")
    return [*said, "This is no upper bound and not differential privacy."]
