"""Say what a command found: one to three plain sentences, computed from numbers and their intervals, then the details.

A number is above another if the low end of its interval is above the high end of the other's interval. The rule for
"below" is the reverse. If the intervals overlap, nothing is shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dptext.cli.options import DetailsOption, JsonOption
from dptext.estimates import Estimate, best_share
from dptext.privacy.guarantee import Basis, Guarantee, format_delta, format_epsilon
from dptext.types import Json

if TYPE_CHECKING:  # slow to load
    from dptext.audits.inference.findings import AuthorshipReport
    from dptext.audits.membership.attacks import MembershipResult
    from dptext.audits.report import InferenceReport, Report, Row
    from dptext.utility.tables import UtilityTable

Lines = Sequence[str]

TAKE_NONE: Final = "Take none: use the public texts."


def by_law(promised: Guarantee) -> str:
    """Return the answer that the legal page of a release with this guarantee would give, for a proposed epsilon."""
    from dptext.runs.legal import verdict  # slow to load

    return f"The legal page of such a release (dptext explain OUT --for legal): {verdict(promised)}"


#: Said if a control finds something: the other numbers cannot be relied on.
FAULT: Final = "A control found something where there is nothing: do not rely on these numbers."
NO_PROOF: Final = "An audit cannot prove a guarantee."
_SLIGHT: Final = 0.05  # a smaller gain is called slight
#: Words for each result: nothing is shown, better, worse.
_WORTH: Final = ("not shown to be worth more than", "worth {}more than", "worth less than")
_KEPT: Final = ("not shown to be kept better than by", "kept {}better than by", "kept worse than by")
_GIVEN: Final = ("not shown to be known better than from", "known {}better than from", "known worse than from")
_FOUND: Final = ("not shown to find more than", "shown to find {}more than", "shown to find less than")


@dataclass(frozen=True, slots=True)
class Printing:
    details: DetailsOption = False
    as_json: JsonOption = False

    def answer(
        self, said: Lines, screen: Lines, more: Lines, data: Mapping[str, Json], *, drawn: int | None = None
    ) -> None:
        """Print the sentences, then at most a screen of lines that support them, and with details all lines; or JSON.

        `drawn` is the seed, if one was drawn; the same seed gives the same numbers.
        """
        if self.as_json:
            print(json.dumps({"answer": [*said], **data}, indent=2))
            return
        seed = "" if drawn is None else f" --seed {drawn}"
        rest = more if self.details else [f"All numbers: the same command with --details{seed}."]
        print("\n\n".join("\n".join(lines) for lines in (said, screen, rest) if lines))


def short(value: float) -> str:
    """Return a number with three decimals and no leading zero, for which a table of 80 columns has no room."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 0.9995 else text.removesuffix(".000")


def interval(found: Estimate) -> str:
    return f"{short(found.value)} [{short(found.low)}, {short(found.high)}]"


def _beside(
    subject: str, said: tuple[str, str, str], own: Estimate, other: Estimate, references: str, *, sign: int = 1
) -> str:
    state = sign * ((own.low > other.high) - (own.high < other.low))
    slightly = "slightly " if abs(own.value - other.value) < _SLIGHT else ""
    overlap = "" if state else "; their intervals overlap"
    numbers = f"{short(own.value)} against {short(other.value)}"
    return f"{subject} {said[state].format(slightly)} {references}: {numbers}{overlap}."


def classification(table: UtilityTable, name: str) -> str:
    """Say whether a classifier learns more from the releases in the row `name` than from public text alone."""
    found = {row.name: row.accuracy.accuracy for row in table.rows if row.accuracy is not None}
    own, public, original = (found.get(each) for each in (name, "public-only", "original"))
    if own is None:
        without = "releases" if found else "test records"
        return f"For classification nothing was measured: the {without} have no labels."
    if public is None:
        return f"For classification {short(own.value)} was reached, but the public records have no labels to compare."
    if original is not None and max(own.low, original.low) <= public.high and own.high >= public.low:
        words = (_WORTH[0].removeprefix("not "), *_WORTH[1:])
        subject = "For classification neither this release nor the originals are"
        return _beside(subject, words, own, public, "public text alone")
    return _beside("For classification this release is", _WORTH, own, public, "public text alone")


def unlearned(table: UtilityTable, name: str) -> list[str]:
    """Say how many test records have a label that no text of the row `name` has, if there are any."""
    found = next((row.accuracy for row in table.rows if row.name == name), None)
    if found is None or not found.unlearned:
        return []
    every = "All" if found.unlearned == found.texts else f"{found.unlearned:,} of"
    said = f"{every} {found.texts:,} test records have a label that no release has, and count as wrong"
    return [f"{said}: compare how the labels of the test records and of the public set are spelled."]


def fidelity(table: UtilityTable, name: str) -> list[str]:
    """Say whether releases in the row `name` keep meaning and labels better than baselines without private text."""
    rows = {row.name: row.fidelity for row in table.rows}
    own, public = rows[name], rows["public-only"]
    known = [public.cosine, *(found.cosine for row, found in rows.items() if row.startswith("label_only ("))]
    references = "public text or a label" if len(known) > 1 else "public text alone"
    best = max(known, key=lambda found: found.high)
    said = [_beside("The meaning of single texts is", _KEPT, own.cosine, best, references)]
    if own.label_kept is not None and public.label_kept is not None:
        said.append(_beside("The labels are", _KEPT, own.label_kept, public.label_kept, "public text alone"))
    return said


def balance(errors: Sequence[Estimate]) -> list[str]:
    """Say whether releases (last) give the class balance with less L1 error than public text and labels (first)."""
    return [
        _beside("From this release the class balance is", _GIVEN, errors[-1], other, references, sign=-1)
        for other, references in zip(errors, ("public text alone", "labels by randomized response"), strict=False)
    ]


def trial(report: Report, claim: Guarantee) -> list[str]:
    """Say whether a trial refutes a claim, which must be comparable, and what the trial could have shown at most."""
    bound, refuted, nothing = report.epsilon_lower_bound, report.refutes(claim), claim.basis is Basis.NONE
    seen = bound_in_words(bound, claim.epsilon, report.confidence)
    lead = "Nothing is guaranteed, so there is nothing to refute"
    if not nothing:
        per = f"unit of {report.metric}" if report.metric else report.unit
        at = f", delta {format_delta(claim.delta)}," if claim.delta else ""
        stated = f"claim of epsilon {format_epsilon(claim.epsilon)}{at} per {per}"
        lead = f"The {stated} is refuted" if refuted else f"Nothing refutes the {stated}"
    if refuted and bound <= claim.epsilon:
        return [f"{lead}: {report.defects[0]}."]
    if refuted:
        return [f"{lead}: outputs of two neighbours differ by {seen}."]
    most = f"So many runs cannot show more than epsilon {report.ceiling:.3g}."
    return [f"{lead}: {seen} was seen.", *([] if nothing or report.ceiling > claim.epsilon else [most]), NO_PROOF]


def bound_in_words(bound: float, claimed: float, confidence: float) -> str:
    """Return a lower bound in words, rounded down unless rounding hides that the bound is above the claim."""
    shown = bound if math.isinf(bound) else math.floor(bound * 1000) / 1000
    least = bound if shown <= claimed < bound else shown
    sure = f"confidence {100 * confidence:.6g}%" if confidence < 1 else "exact"
    return f"at least epsilon {least:.10g} ({sure})" if bound > 0 else "no difference"


def membership(found: MembershipResult, name: str = "") -> list[str]:
    """Say whether an attack tells members of the training data from others, and better than one without the model."""
    auc, attack = found.main.auc, f"The attack ({name})" if name else "The attack"
    blind = [each.auc for each in found.baselines if each.name == "no look at the model"]
    above = "tells" if auc.low > 0.5 else "is not shown to tell"
    said = [f"{attack} {above} members of the training data from others: AUC {interval(auc)}, where guessing has .5."]
    if not found.control_holds:
        said.insert(0, FAULT)
    elif auc.low > 0.5 and blind:
        said.append(_beside("It is", _FOUND, auc, blind[0], "an attacker who does not look at the model"))
    return [*said, "The attack measures one model and refutes no guarantee."]


def authorship(found: AuthorshipReport, claim: Guarantee | None) -> list[str]:
    """Say whether attackers name the authors of releases and refute a claim, and how much is left of the texts."""
    none = "No claim for replacing one document by any other, at this delta, was there to be tried."
    tried = none if claim is None else trial(found.report, claim)[0]
    hits = {row.name: (row.accuracy, row.attributed) for row in found.rows}
    attack = guessed("name the authors", hits, len(found.attacks), 1 / found.authors)
    return inferred(attack, tried, found, refuted=claim is not None and found.report.refutes(claim))


def inferred(attack: str, claim: str, found: InferenceReport[Row], *, refuted: bool) -> list[str]:
    """Put what is said of an attack and a claim in order, with what is left of the texts. A fault comes first."""
    kept = interval(found.attacks[0].similarity)
    left = f"The releases have a similarity of {kept} to their originals; an equal text has 1."
    if not found.control_holds:
        return [FAULT, attack, claim or left]
    return [each for each in ((claim, attack, left) if refuted else (attack, left, claim)) if each]


def guessed(doing: str, hits: Mapping[str, tuple[Estimate, int]], attacks: int, chance: float) -> str:
    """Say whether the best attack is better than guessing. The first rows of `hits` are the attacks on the releases."""
    own = best_share(list(hits.values())[:attacks])
    plain = best_share([found for name, found in hits.items() if name.startswith("originals")])
    right = f"right for {short(own.value)}, on the originals for {short(plain.value)}, and a guess for {short(chance)}"
    if own.low > chance:
        return f"Attackers {doing} better than by guessing: the best is {right}."
    known = "" if plain.low > chance else ", nor on the originals, so nothing is known of the releases"
    return f"Attackers are not shown to {doing} better than by guessing{known}: the best is {right}."
