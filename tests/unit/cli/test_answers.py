"""The answers of `dptext utility`, `audit` and `compare` in sentences, from planted numbers."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dptext.audits.bounds import EpsilonLowerBound
from dptext.audits.report import Report
from dptext.cli import answers
from dptext.errors import IncomparableError
from dptext.estimates import Estimate, clopper_pearson
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, MetricEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit
from dptext_lab.cli import answers as lab_answers

OVERLAP = "; their intervals overlap."


def near(value: float, width: float = 0.01) -> Estimate:
    return Estimate(value, value - width, value + width, 0.95)


# ------------------------------------------------------------------------------------------------------- utility


def table(**rows: tuple[float | None, float | None, float | None]):
    """Rows by name, `_` for a hyphen: accuracy, cosine and share of labels kept."""

    def row(name: str, numbers: tuple[float | None, ...]):
        accuracy, cosine, label = (None if number is None else near(number) for number in numbers)
        return SimpleNamespace(
            name=name.replace("_only", "-only") if name == "public_only" else name,
            accuracy=None if accuracy is None else SimpleNamespace(accuracy=accuracy),
            fidelity=SimpleNamespace(cosine=cosine, label_kept=label),
        )

    return SimpleNamespace(rows=[row(name, numbers) for name, numbers in rows.items()])


def labelled(accuracy: float | None, cosine: float, label: float | None = 0.9, **more):
    return table(
        **{
            "original": (0.95, 1.0, 1.0),
            "mine": (accuracy, cosine, label),
            "label_only (random)": (0.85, 0.317, 0.99),
            "label_only (medoid)": (0.85, 0.25, 0.99),
            "candidates": (0.99, 0.99, 0.99),  # a mechanism, no reference
            "public_only": (0.85, 0.3, 0.25),
            "random": (0.2, 0.1, 0.25),
            **more,
        }
    )


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        (0.77, "this release is worth less than public text alone: .770 against .850."),
        (0.92, "this release is worth more than public text alone: .920 against .850."),
        (0.88, "this release is worth slightly more than public text alone: .880 against .850."),
        (0.869, f"this release is not shown to be worth more than public text alone: .869 against .850{OVERLAP}"),
        (0.831, f"this release is not shown to be worth more than public text alone: .831 against .850{OVERLAP}"),
    ],
)
def test_classification(accuracy: float, said: str) -> None:
    assert answers.classification(labelled(accuracy, 0.5), "mine") == f"For classification {said}"


def test_originals_that_are_worth_no_more_are_named() -> None:
    moot = labelled(0.86, 0.5, original=(0.855, 1.0, 1.0))
    assert answers.classification(moot, "mine") == (
        "For classification neither this release nor the originals are shown to be worth more than public text alone: "
        ".860 against .850; their intervals overlap."
    )
    worse = labelled(0.7, 0.5, original=(0.855, 1.0, 1.0))
    assert "this release is worth less" in answers.classification(worse, "mine")


def test_without_labels_nothing_is_said_of_classification() -> None:
    said = answers.classification(labelled(None, 0.5, None), "mine")
    assert said == "For classification nothing was measured: the releases have no labels."
    said = answers.classification(table(original=(None, 1.0, 1.0), mine=(None, 0.4, 0.9)), "mine")
    assert said == "For classification nothing was measured: the test records have no labels."
    said = answers.classification(labelled(0.99, 0.5, public_only=(None, 0.3, None)), "mine")
    assert said == "For classification .990 was reached, but the public records have no labels to compare."


@pytest.mark.parametrize(
    ("cosine", "said"),
    [
        (0.34, "kept slightly better than by public text or a label: .340 against .317."),
        (0.6, "kept better than by public text or a label: .600 against .317."),
        (0.2, "kept worse than by public text or a label: .200 against .317."),
        (
            0.33,
            "not shown to be kept better than by public text or a label: .330 against .317; their intervals overlap.",
        ),
    ],
)
def test_meaning(cosine: float, said: str) -> None:
    first, second = answers.fidelity(labelled(0.9, cosine), "mine")
    assert first == f"The meaning of single texts is {said}"
    assert second == "The labels are kept better than by public text alone: .900 against .250."


def test_without_labels_the_reference_is_public_text() -> None:
    plain = table(original=(None, 1.0, None), mine=(None, 0.31, None), public_only=(None, 0.2, None))
    said = ["The meaning of single texts is kept better than by public text alone: .310 against .200."]
    assert answers.fidelity(plain, "mine") == said
    assert len(answers.fidelity(labelled(0.9, 0.5, None), "mine")) == 1  # labels are not released
    assert len(answers.fidelity(labelled(0.9, 0.5, public_only=(0.85, 0.3, None)), "mine")) == 1


def test_a_balance_is_better_where_the_error_is_smaller() -> None:
    assert answers.balance([near(0.5), near(0.011), near(1.2), near(0.1)]) == [
        "From this release the class balance is known better than from public text alone: .100 against .500.",
        (
            "From this release the class balance is known worse than from labels by randomized response: .100 against "
            ".011."
        ),
    ]
    assert answers.balance([near(0.5), near(0.49), near(0.5)])[1].endswith("; their intervals overlap.")
    assert answers.balance([near(0.5), near(0.2), near(1.234)])[0].endswith(
        "known worse than from public text alone: 1.234 against .500."
    )


def test_numbers_of_a_table() -> None:
    shown = [answers.short(value) for value in (0.77, 1.0, 0.9996, 1.234, 10.5, 0.0, -0.02, -1.0)]
    assert shown == [".770", "1", "1", "1.234", "10.500", ".000", "-.020", "-1"]
    assert answers.interval(near(0.5)) == ".500 [.490, .510]"


# --------------------------------------------------------------------------------------------------------- audits


def claimed(epsilon: float = 5.0, delta: float = 0.0) -> Guarantee:
    event = ApproximateEvent(epsilon, delta) if delta else PureEvent(epsilon)
    return accounting.guarantee([event], delta, unit=Unit.DOCUMENT, basis=Basis.CLAIMED)


def report(bound: float, **changes) -> Report:
    plain = Report(
        attack="distinguish",
        main=near(0.9),
        baseline=near(0.5),
        control=near(0.5),
        measures="something",
        epsilon_lower_bound=bound,
        delta=0.0,
        confidence=0.9999,
        ceiling=8.0,
        unit=Unit.DOCUMENT,
        relation=Relation.REPLACE_ONE,
        metric=None,
        reveals=(),
        signature={},
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("bound", "shown"), [(3.5519, "3.551"), (5.762, "5.762"), (0.1, "0.1"), (math.inf, "infinite")]
)
def test_a_lower_bound_is_rounded_down(bound: float, shown: str) -> None:
    assert f"Epsilon is at least {shown}, for" in report(bound).explain()


def test_a_claim_is_refuted() -> None:
    assert answers.trial(report(7.1239), claimed()) == [
        (
            "The claim of epsilon 5 per document is refuted: outputs of two neighbours differ by at least epsilon "
            "7.123 (confidence 99.99%)."  # a lower bound is rounded down
        )
    ]
    assert "at least epsilon 5.0002 (" in answers.trial(report(5.0002), claimed())[0]  # 5 would not be above 5
    assert "at least epsilon inf (exact)" in answers.trial(report(math.inf, confidence=1.0), claimed())[0]
    weak = report(6.0, delta=1e-6)
    assert "epsilon 5, delta 1e-06, per document is refuted" in answers.trial(weak, claimed(5.0, 1e-6))[0]


def test_a_defect_refutes_too() -> None:
    wrong = report(1.0, defects=("the sampler does not draw from the density it declares (p = 0.001)",))
    assert answers.trial(wrong, claimed()) == [
        (
            "The claim of epsilon 5 per document is refuted: the sampler does not draw from the density it declares "
            "(p = 0.001)."
        )
    ]


def test_nothing_refutes_a_claim() -> None:
    assert answers.trial(report(1.3), claimed()) == [
        "Nothing refutes the claim of epsilon 5 per document: at least epsilon 1.3 (confidence 99.99%) was seen.",
        "An audit cannot prove a guarantee.",
    ]
    assert answers.trial(report(5.0), claimed())[0].startswith("Nothing refutes")
    assert answers.trial(report(0.0, ceiling=5.0), claimed()) == [
        "Nothing refutes the claim of epsilon 5 per document: no difference was seen.",
        "So many runs cannot show more than epsilon 5.",
        "An audit cannot prove a guarantee.",
    ]


def test_a_metric_and_no_guarantee() -> None:
    metric = accounting.guarantee([MetricEvent(2.0, "steps")], unit=Unit.DOCUMENT, basis=Basis.PROVEN)
    said = answers.trial(report(1.0, metric="steps"), metric)[0]
    assert said.startswith("Nothing refutes the claim of epsilon 2 per unit of steps: at least epsilon 1 (")
    nothing = replace(claimed(), epsilon=math.inf, basis=Basis.NONE, reason="published noise")
    said = answers.trial(report(9.0), nothing)
    assert said[0].startswith("Nothing is guaranteed, so there is nothing to refute: at least epsilon 9 (")
    with pytest.raises(IncomparableError):
        answers.trial(report(9.0), replace(claimed(), unit=Unit.TOKEN))


def guesses(bound: float, *, top: int = 1, needed: int | None = 50, dim: int | None = 8):
    found = report(bound)
    return SimpleNamespace(
        report=found,
        refutes=found.refutes,
        tops=[SimpleNamespace(top=top, success=near(0.17), allowed=0.129)],
        candidates=100,
        dim=dim,
        feasible=lambda claim: needed,
    )


def test_reconstruction() -> None:
    first, second = lab_answers.reconstruction(guesses(6.0), claimed())
    assert "is refuted" in first
    assert second == (
        "The input is guessed as the first of 100 candidates for .170 [.160, .180] of the releases; the claim allows "
        ".129."
    )
    assert lab_answers.reconstruction(guesses(1.0), claimed())[2] == answers.NO_PROOF
    for needed in (101, None):
        assert "use the audit whitebox" in lab_answers.reconstruction(guesses(1.0, needed=needed), claimed())[2]
    texts = lab_answers.reconstruction(guesses(1.0, needed=None, dim=None, top=5), claimed())
    assert texts[2] == answers.NO_PROOF
    assert "among the 5 first of 100 candidates" in texts[1]


def member(auc: float, blind: float = 0.5, control: float = 0.5):
    def attack(value: float, name: str = "x"):
        return SimpleNamespace(auc=near(value, 0.05), name=name)

    return SimpleNamespace(
        main=attack(auc),
        control=attack(control),
        control_holds=abs(control - 0.5) <= 0.05,
        baselines=[attack(0.9, "loss threshold"), attack(blind, "no look at the model")],
    )


def test_membership() -> None:
    last = "The attack measures one model and refutes no guarantee."
    assert answers.membership(member(0.83), "online") == [
        (
            "The attack (online) tells members of the training data from others: AUC .830 [.780, .880], where guessing "
            "has .5."
        ),
        "It is shown to find more than an attacker who does not look at the model: .830 against .500.",
        last,
    ]
    assert answers.membership(member(0.54)) == [
        (
            "The attack is not shown to tell members of the training data from others: AUC .540 [.490, .590], where "
            "guessing has .5."
        ),
        last,
    ]
    assert "not shown to find more" in answers.membership(member(0.83, blind=0.8))[1]  # the sides differ by themselves
    assert answers.membership(member(0.83, control=0.7))[0] == answers.FAULT


def attacks(right: int, plain: int, *, chance: float = 0.1, holds: bool = True, several: int = 4, **more):
    """So many attackers on 100 texts, of which the first names so many, and the others guess."""
    others = [clopper_pearson(round(100 * chance), 100)] * (several - 1)

    def rows(name: str, first: int):
        found = [clopper_pearson(first, 100), *others]
        return [
            SimpleNamespace(name=f"{name}{i}", accuracy=each, attributed=100, attacked=100, similarity=near(0.6))
            for i, each in enumerate(found)
        ]

    own = rows("a", right)
    every = [*own, *rows("control: ", 90), *rows("originals: ", plain)]
    return SimpleNamespace(attacks=own, rows=every, control_holds=holds, authors=10, **more)


def test_authorship() -> None:
    left = "The releases have a similarity of .600 [.590, .610] to their originals; an equal text has 1."
    untried = "No claim for replacing one document by any other, at this delta, was there to be tried."
    assert answers.authorship(attacks(40, 80), None) == [
        (
            "Attackers name the authors better than by guessing: the best is right for .400, on the originals for "
            ".800, and a guess for .100."
        ),
        left,
        untried,
    ]
    first = answers.authorship(attacks(17, 80), None)[0]
    assert first.startswith("Attackers are not shown to name the authors better than by guessing: the best is right")
    alone = answers.authorship(attacks(18, 80, several=1), None)[0]
    assert clopper_pearson(18, 100).low > 0.1
    assert alone.startswith("Attackers name the authors better")  # the same number as one of four does not show it:
    assert answers.authorship(attacks(18, 80), None)[0].startswith("Attackers are not shown")
    neither = answers.authorship(attacks(12, 15), None)[0]
    assert ", nor on the originals, so nothing is known of the releases: " in neither
    refuted = answers.authorship(attacks(40, 80, report=report(6.0)), claimed())
    assert [refuted[0].split(": ")[0], refuted[2]] == ["The claim of epsilon 5 per document is refuted", left]
    survives = answers.authorship(attacks(40, 80, report=report(0.5)), claimed())
    assert survives[2].startswith("Nothing refutes the claim")
    assert answers.authorship(attacks(40, 80, holds=False), None) == [
        answers.FAULT,
        answers.authorship(attacks(40, 80), None)[0],
        untried,
    ]


def test_trait() -> None:
    bound = EpsilonLowerBound(1.5, 0.0, 0.95, 3)
    found = attacks(90, 95, chance=0.5, bound=bound, refutes=lambda claim: claim < bound.epsilon)
    first, second = lab_answers.trait(found, None)
    assert first.startswith("Attackers tell the two sets apart better than by guessing: the best is right for .900")
    assert second.startswith("The releases have a similarity of .600")
    assert lab_answers.trait(found, 1.0)[0] == (
        "The claim of epsilon 1, delta 0, of the two sets is refuted: at least epsilon 1.5 (confidence 95%) was seen."
    )
    assert lab_answers.trait(found, 2.0)[2].startswith(
        "Nothing refutes the claim of epsilon 2, delta 0, of the two sets"
    )


def sets(certified: float, low: float, *, separated: bool = False, below: tuple[str, ...] = ()):
    return SimpleNamespace(
        certified=SimpleNamespace(epsilon=certified, confidence=0.95),
        epsilon=Estimate(1.06, low, 2.5, 0.95),
        delta=8e-5,
        is_separated=separated,
        checks=[SimpleNamespace(surely_below=below)],
    )


def test_divergence() -> None:
    last = "This is no upper bound and not differential privacy."
    numbers = "epsilon at delta 8e-05 is estimated as 1.06"
    none = "and no difference is certified."
    assert lab_answers.divergence(sets(0.0, 0.0)) == [
        f"The two sets are not shown to differ: {numbers} [0.00, 2.50], {none}",
        last,
    ]
    assert lab_answers.divergence(sets(0.0, 0.2))[0] == f"The two sets differ: {numbers} [0.20, 2.50], {none}"
    sure = lab_answers.divergence(sets(0.3339, 0.0))
    assert sure[0].startswith("The two sets differ: ")
    assert sure[0].endswith("and at least epsilon 0.333 (confidence 95%) is certified.")
    for wrong in (sets(3.0, 0.2), sets(0.0, 0.2, below=("direct",))):
        assert lab_answers.divergence(wrong)[1].startswith("Do not rely on the estimate")
    assert "every number is a lower value" in lab_answers.divergence(sets(0.0, 0.2, separated=True))[1]


# -------------------------------------------------------------------------------------------------------- the rest


def test_a_grid_without_a_mechanism_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from dptext_lab.compare.report import verdict

    monkeypatch.setattr(verdict, "verdict", lambda rows: ["asked"])
    reference = SimpleNamespace(failed=False, reference=True)
    failed = SimpleNamespace(failed=True, reference=False)
    assert lab_answers.comparison([reference, failed]) == [
        "No mechanism was measured: each of their cells failed, or none is done."
    ]
    assert lab_answers.comparison([reference, failed, SimpleNamespace(failed=False, reference=False)]) == ["asked"]


def test_details_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    given = (["One.", "Two."], ["table"], ["more"], {"n": 1})
    answers.Printing(details=False, as_json=False).answer(*given)
    assert capsys.readouterr().out == "One.\nTwo.\n\ntable\n\nAll numbers: the same command with --details.\n"
    answers.Printing(details=True, as_json=False).answer(*given)
    assert capsys.readouterr().out == "One.\nTwo.\n\ntable\n\nmore\n"
    answers.Printing(details=True, as_json=True).answer(*given)
    assert json.loads(capsys.readouterr().out) == {"answer": ["One.", "Two."], "n": 1}
