"""A language-model paraphraser with one fault each: the trial of that name refutes it, and spares the sound twin."""

import pytest

from dptext import audits
from dptext.errors import ConfigError
from dptext.estimates import clopper_pearson
from dptext.privacy import accounting
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Unit
from dptext.sampling.randomness import secure, seeded
from dptext.text.tokens import TOKEN_COUNT
from planted_writing import Paraphraser

#: Where the default is not enough: the claimed epsilon, and runs on each input.
EPSILONS = {"one noise for all tokens": 2.0, "epsilon by actual length": 8.0}
TRIALS = {"one noise for all tokens": 6_000}


def refuted(subject: Paraphraser, seed: int, **settings) -> list[str]:
    reports = audits.audit_writing(
        subject, claim=subject.claim, stated=subject.stated, randomness=seeded(seed), **settings
    )
    assert [report.attack for report in reports.values()] == list(reports)
    return [name for name, report in reports.items() if report.refutes(subject.claim)]


@pytest.mark.parametrize("fault", audits.WRITING_FAULTS)
def test_each_fault_is_refuted_by_the_trial_of_its_name(fault: str) -> None:
    epsilon, trials = EPSILONS.get(fault, 1.0), TRIALS.get(fault, 2_000)
    assert refuted(Paraphraser(fault, epsilon), 1, faults=[fault], trials=trials) == [fault]


@pytest.mark.slow_cases(
    *(fault for fault in audits.WRITING_FAULTS if fault not in ("support", "verbatim")),
    why="a trial looks at what leaves, and no look makes a sound twin unsound: two looks stay",
)
@pytest.mark.parametrize("fault", audits.WRITING_FAULTS)
def test_the_sound_twin_is_refuted_by_none(fault: str) -> None:
    epsilon, trials = EPSILONS.get(fault, 1.0), TRIALS.get(fault, 2_000)
    assert refuted(Paraphraser("", epsilon), 2, faults=[fault], trials=trials) == []


def test_a_report_names_the_fault_and_what_was_stated() -> None:
    planted = Paraphraser("epsilon by actual length", 8.0)
    [report] = audits.audit_writing(
        planted, claim=planted.claim, stated=planted.stated, faults=[planted.fault], randomness=seeded(3)
    ).values()
    assert report.explain().startswith("epsilon by actual length: share of outputs that state")
    assert "outputs that state an epsilon of at most 0 show at least" in report.explain()


def test_only_neighbours_are_tried() -> None:
    claim = accounting.guarantee([PureEvent(1.0)], unit=Unit.TOKEN, basis=Basis.CLAIMED, reveals=[TOKEN_COUNT])
    reports = audits.audit_writing(Paraphraser(), claim=claim, trials=200)
    assert "length" not in reports
    assert "verbatim" in reports
    assert "epsilon by actual length" not in reports  # no output states one


def test_what_cannot_be_tried_is_refused() -> None:
    with pytest.raises(ConfigError, match="names of faults"):
        audits.audit_writing(Paraphraser(), faults=["no such fault"])


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 0.001])
def test_whole_audits_of_the_sound_twin_refute_it_no_more_often_than_they_may(epsilon: float) -> None:
    """At 0.001 the text hardly matters, and any bound that is not 0 is a false refutation."""
    sound = Paraphraser("", epsilon)
    wrong = 0
    for _ in range(200):
        reports = audits.audit_writing(
            sound, claim=sound.claim, stated=sound.stated, trials=400, randomness=secure()
        ).values()
        wrong += any(report.refutes(sound.claim) for report in reports)
    found = clopper_pearson(wrong, 200)
    print(f"epsilon {epsilon:g}: {wrong} of 200 whole audits refute the sound twin, {found}")
    assert found.low <= 0.05
