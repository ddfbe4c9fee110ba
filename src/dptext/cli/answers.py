"""What a command found, in one to three plain sentences, computed from the numbers with their intervals.

A number is above another where the low end of its interval is above the high end of the other's, and below it the
other way round; else the intervals overlap, and nothing is shown. `dptext.compare.report.verdict` reads a measured
table by the same rule and in the same words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dptext.estimates import Estimate, bonferroni, clopper_pearson
from dptext.privacy.guarantee import Basis, Guarantee, format_delta, format_epsilon

if TYPE_CHECKING:  # slow to load
    from dptext.audits.divergence.findings import DivergenceReport
    from dptext.audits.inference.authorship_report import AuthorshipReport
    from dptext.audits.inference.trait_report import TraitReport
    from dptext.audits.membership.results import MembershipResult
    from dptext.audits.reconstruction.outcome import Reconstruction
    from dptext.audits.report import Report
    from dptext.utility.tables import UtilityTable

#: What a control that finds something makes of the other numbers.
FAULT: Final = "A control found something where there is nothing: do not rely on these numbers."
NO_PROOF: Final = "An audit cannot prove a guarantee."
_SLIGHT: Final = 0.05  # a smaller gain is called slight
#: By what is shown: nothing, that it is better, that it is worse.
_WORTH: Final = ("not shown to be worth more than", "worth {}more than", "worth less than")
_KEPT: Final = ("not shown to be kept better than by", "kept {}better than by", "kept worse than by")
_RECOVERED: Final = (
    "not shown to be recovered better than from",
    "recovered {}better than from",
    "recovered worse than from",
)


def short(value: float) -> str:
    """Three decimals without the zero before them: a table of 80 columns has no room for it."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 0.9995 else text.removesuffix(".000")


def interval(found: Estimate | None) -> str:
    """A cell of a table: the number with its interval."""
    return "-" if found is None else f"{short(found.value)} [{short(found.low)}, {short(found.high)}]"


def _beside(
    subject: str, said: tuple[str, str, str], own: Estimate, other: Estimate, references: str, *, sign: int = 1
) -> str:
    """Whether a number is above (with sign -1: below) that of the references, in a sentence."""
    state = sign * ((own.low > other.high) - (own.high < other.low))
    slightly = "slightly " if abs(own.value - other.value) < _SLIGHT else ""
    overlap = "" if state else "; their intervals overlap"
    numbers = f"{short(own.value)} against {short(other.value)}"
    return f"{subject} {said[state].format(slightly)} {references}: {numbers}{overlap}."


def classification(table: UtilityTable, name: str) -> str:
    """Whether a classifier learns more from the releases in the row `name` than from public text alone."""
    from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY

    found = {row.name: row.accuracy.accuracy for row in table.rows if row.accuracy is not None}
    own, public = found.get(name), found.get(PUBLIC_ONLY)
    if own is None:
        return f"For classification nothing was measured: {'the releases' if found else 'test records'} have no labels."
    if public is None:
        return (
            f"For classification this release is {_WORTH[0]} public text alone: {short(own.value)}, and the public "
            "records have no labels."
        )
    moot = own.low <= public.high and own.high >= public.low and ORIGINAL in found
    moot = moot and found[ORIGINAL].low <= public.high
    subject = "neither this release nor the originals are" if moot else "this release is"
    return _beside(f"For classification {subject}", _WORTH, own, public, "public text alone")


def fidelity(table: UtilityTable, name: str) -> list[str]:
    """Whether the releases in the row `name` keep meaning, words and labels better than what no text goes into."""
    from dptext.utility.tables import LABEL_ONLY_ROWS, PUBLIC_ONLY

    rows = {row.name: row.fidelity for row in table.rows}
    known = [rows[each] for each in (PUBLIC_ONLY, *LABEL_ONLY_ROWS) if each in rows]
    own, public = rows[name], rows[PUBLIC_ONLY]
    references = "public text or a label" if len(known) > 1 else "public text alone"
    meaning = max((each.cosine for each in known), key=lambda found: found.high)
    said = [_beside("The meaning of single texts is", _KEPT, own.cosine, meaning, references)]
    words = [each.tokens_kept for each in known if each.tokens_kept is not None]
    if own.tokens_kept is not None and words:
        most = max(words, key=lambda found: found.high)
        said.append(_beside("The words of single texts are", _KEPT, own.tokens_kept, most, references))
    if own.label_kept is not None and public.label_kept is not None:
        said.append(_beside("The labels are", _KEPT, own.label_kept, public.label_kept, "public text alone"))
    elif any(each.label_kept is not None for each in rows.values()):
        without = "releases" if own.label_kept is None else "public records"
        said.append(f"Whether labels are kept was not measured: the {without} have none.")
    return said


def balance(own: Estimate, public: Estimate, label: Estimate) -> list[str]:
    """Whether releases give the class balance with a smaller L1 error than public text and a label do."""
    return [
        _beside("From this release the class balance is", _RECOVERED, own, other, references, sign=-1)
        for other, references in ((public, "public text alone"), (label, "labels by randomized response"))
    ]


def trial(report: Report, claim: Guarantee) -> list[str]:
    """Whether a trial refutes a claim, and what it could have shown.

    Raises:
        IncomparableError: as `Report.refutes`.
    """
    sure = f"confidence {100 * report.confidence:.6g}%" if report.confidence < 1 else "exact"
    bound = report.epsilon_lower_bound
    refuted, nothing = report.refutes(claim), claim.basis is Basis.NONE
    seen = "infinity" if math.isinf(bound) else f"{_down(bound, claim.epsilon):.10g}"
    if nothing:
        lead = "Nothing is guaranteed, so there is nothing to refute"
    else:
        per = f"unit of {report.metric}" if report.metric else report.unit
        at = f", delta {format_delta(claim.delta)}," if claim.delta else ""
        stated = f"claim of epsilon {format_epsilon(claim.epsilon)}{at} per {per}"
        lead = f"The {stated} is refuted" if refuted else f"Nothing refutes the {stated}"
    if refuted and bound <= claim.epsilon:
        return [f"{lead}: {report.defects[0]}."]
    if refuted or (nothing and bound > 0):
        return [f"{lead}: outputs of two neighbours differ by at least epsilon {seen} ({sure})."]
    found = f"at least epsilon {seen} was seen ({sure})" if bound > 0 else "no difference was shown"
    weak = [] if nothing or report.ceiling > claim.epsilon else [f"So many runs can show at most {report.ceiling:.3g}."]
    return [f"{lead}: {found}.", *weak, NO_PROOF]


def _down(bound: float, claimed: float) -> float:
    """The bound for reading, rounded down unless that hides that it is above the claim."""
    shown = math.floor(bound * 1000) / 1000
    return bound if shown <= claimed < bound else shown


def reconstruction(found: Reconstruction, claim: Guarantee) -> list[str]:
    """Whether guesses of the input refute a claim, how often the first one is right, and what would not show."""
    first = found.tops[0]
    guess = "first guess" if first.top == 1 else f"input among {first.top} guesses"
    allowed = "" if claim.basis is Basis.NONE else f", where the claim allows {short(first.allowed)}"
    said = trial(found.report, claim)[:1]
    said.append(f"The {guess} of {found.candidates:,} candidates is right for {interval(first.success)}{allowed}.")
    if claim.basis is Basis.NONE or found.refutes(claim):
        return said
    needed = found.feasible(claim)
    if found.dim is not None and (needed is None or needed > found.candidates):
        return [*said, "Noise as wrong as ADePT's would not show here: use the audit whitebox."]
    return [*said, NO_PROOF]


def membership(found: MembershipResult, name: str = "") -> list[str]:
    """Whether an attack tells members of the training data from others, and better than without a look at the model."""
    auc = found.main.auc
    numbers = f"AUC {interval(auc)}, where guessing has .5"
    attack = f"attack ({name})" if name else "attack"
    if auc.low > 0.5:
        said = [f"The {attack} tells members of the training data from others: {numbers}."]
    else:
        below = "; it is wrong more often than a guess" if auc.high < 0.5 else "; the interval holds .5"
        said = [f"The {attack} is not shown to tell members of the training data from others: {numbers}{below}."]
    blind = next((each.auc for each in found.baselines if each.name == "no look at the model"), None)
    if blind is not None and auc.low > 0.5:
        words = ("is not shown to find more than", "finds {}more than", "finds less than")
        said.append(_beside("It", words, auc, blind, "an attacker who does not look at the model"))
    said.append("It measures one model and refutes no guarantee.")
    return said if found.control_holds else [FAULT, said[0], said[-1]]


def authorship(found: AuthorshipReport, claim: Guarantee | None) -> list[str]:
    """Whether attackers name the authors of releases, whether that refutes a claim, and what is left of the texts."""
    own = [(row.accuracy, row.attributed) for row in found.attacks]
    plain = [(row.accuracy, row.attributed) for row in found.baselines if row.name.startswith("originals")]
    tried = "No claim for replacing one document by any other, at this delta, was there to be tried."
    return _inferred(
        _guessed("name the authors", own, plain, 1 / found.authors),
        tried if claim is None else trial(found.report, claim)[0],
        found.attacks[0].similarity,
        first=claim is not None and found.report.refutes(claim),
        fault=not found.control_holds,
    )


def trait(found: TraitReport, claim: float | None) -> list[str]:
    """Whether attackers tell the two sets apart, whether that refutes an epsilon, and what is left of the texts."""
    own = [(row.accuracy, row.attacked) for row in found.attacks]
    plain = [(row.accuracy, row.attacked) for row in found.baselines if row.name.startswith("originals")]
    bound, tried, refuted = found.bound, "", claim is not None and found.refutes(claim)
    if claim is not None:
        stated = f"claim of epsilon {claim:g}, delta {bound.delta:g}, of the two sets"
        sure = f"(confidence {100 * bound.confidence:.6g}%)"
        lead = f"The {stated} is refuted: it is" if refuted else f"Nothing refutes the {stated}: it was seen to be"
        tried = f"{lead} at least {_down(bound.epsilon, claim):.10g} {sure}."
    said = _guessed("tell the two sets apart", own, plain, 0.5)
    return _inferred(said, tried, found.attacks[0].similarity, first=refuted, fault=not found.control_holds)


def _inferred(attack: str, claim: str, similarity: Estimate, *, first: bool, fault: bool) -> list[str]:
    left = f"The releases have a similarity of {interval(similarity)} to their originals; an equal text has 1."
    if fault:
        return [FAULT, attack, *([claim] if claim else [left])]
    return [each for each in ((claim, attack, left) if first else (attack, left, claim)) if each]


def _guessed(
    doing: str, attacks: Sequence[tuple[Estimate, int]], originals: Sequence[tuple[Estimate, int]], chance: float
) -> str:
    """Whether the best attack is better than a guess; the error is divided among all, as the best one was chosen."""
    own, plain = _best(attacks), _best(originals)
    numbers = f"the best is right for {short(own.value)}, a guess for {short(chance)}"
    if own.low > chance:
        return f"Attackers {doing} better than by guessing: {numbers}, and on the originals {short(plain.value)}."
    if plain.low > chance:
        known = f"on the originals the best is right for {short(plain.value)}"
        return f"Attackers are not shown to {doing} better than by guessing: {numbers}; {known}."
    return f"Attackers are not shown to {doing}, nor on the originals, so nothing is known of the releases: {numbers}."


def _best(found: Sequence[tuple[Estimate, int]]) -> Estimate:
    value, texts = max(((each.value, texts) for each, texts in found), default=(0.0, 1))
    return clopper_pearson(round(value * texts), texts, confidence=1 - bonferroni(0.95, max(1, len(found))))


def divergence(found: DivergenceReport) -> list[str]:
    """Whether two sets of texts differ in the embedding, by what is certified, else by the estimate."""
    sure, epsilon, at = found.certified, found.epsilon, f" at delta {found.delta:g}"
    estimate = f"the estimate is {epsilon.value:.2f} [{epsilon.low:.2f}, {epsilon.high:.2f}]"
    if sure.epsilon > 0:
        least = math.floor(sure.epsilon * 1000) / 1000
        lead = f"The two sets differ: epsilon is at least {least:g}{at} (confidence {100 * sure.confidence:.6g}%)"
        said = [f"{lead}, and {estimate}."]
    elif epsilon.low > 0:
        said = [f"The two sets are estimated to differ, which is not certified: for epsilon{at} {estimate}."]
    else:
        said = [f"The two sets are not shown to differ: for epsilon{at} {estimate}, and the interval holds 0."]
    if found.is_separated:
        said.append("A model told all unseen records apart: every number is a lower value.")
    elif sure.epsilon > epsilon.high or any("direct" in check.surely_below for check in found.checks):
        said.append("Do not rely on the estimate: an attack or the certified bound needs more.")
    return [*said, "This is no upper bound and not differential privacy."]
