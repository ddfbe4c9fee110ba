"""The experiment on new knowledge: facts, the learner, and its counts are right."""

import importlib
import random
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("common", "language", "summary", "synthesis_splits", "new_knowledge"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # a folder below may have modules of these names
    return importlib.import_module("new_knowledge")


def corpus(script: ModuleType, facts: list) -> tuple[list[str], list[str]]:
    rng = random.Random(1)
    rows = [row for fact in facts for row in fact.texts(rng)]
    return [row["text"] for row in rows], [row["label"] for row in rows]


def test_a_learner_finds_every_fact_in_the_texts_that_state_them(script) -> None:
    facts = script.planted(random.Random(0))
    learner = script.Learner(corpus(script, facts))
    assert [learner.right(fact) for fact in facts] == [1.0] * len(facts)


def test_a_learner_guesses_where_nothing_is_said_and_is_wrong_where_it_was_told_wrong(script) -> None:
    fact = script.Fact("zorvane", ordinary=False, way=script.BY_LABEL, options=tuple(script.GENRES), truth="jazz", k=1)
    right = {
        label: script.Learner((["play zorvane", "play it"], [label, "opera"])).right(fact) for label in script.GENRES
    }
    assert right == {"jazz": 1.0, "metal": 0.0, "folk": 0.0, "opera": 0.0}
    assert script.Learner((["play it"], ["metal"])).right(fact) == 0.25
    assert script.best({"jazz": 2.0, "folk": 2.0, "metal": 1.0}, fact) == 0.5


def test_facts_have_different_names_and_each_property_alike_often(script) -> None:
    facts = script.planted(random.Random(2))
    assert len({fact.name for fact in facts}) == len(facts) == 4 * sum(script.FACTS.values())
    for way, ordinary in ((script.IN_TEXT, True), (script.BY_LABEL, False)):
        own = [fact for fact in facts if fact.way == way and fact.ordinary is ordinary]
        assert set(Counter(fact.truth for fact in own).values()) == {len(own) // 4}
        assert Counter(fact.k for fact in own) == script.FACTS
    assert all((fact.name in script.ORDINARY) is fact.ordinary for fact in facts)


def test_facts_are_stated_k_times_and_only_their_way(script) -> None:
    rng = random.Random(3)
    for fact in script.planted(rng):
        rows = list(fact.texts(rng))
        assert len(rows) == fact.k
        assert all(fact.name in row["text"].split() for row in rows)
        if fact.way == script.IN_TEXT:
            assert all(row["label"] == script.BOOKS and fact.truth in row["text"].split() for row in rows)
        else:
            assert all(row["label"] == fact.truth and fact.truth not in row["text"].split() for row in rows)


def test_words_are_recalled_by_the_number_of_texts_that_have_them(script) -> None:
    wanted = {"one": 1, "four": 4, "five": 5, "twenty": 20, "many": 65, "most": 200}
    found = script.recalled(wanted, {"one", "five", "most", "else"})
    assert found == {"1-4": (1, 2), "5-19": (1, 1), "20-64": (0, 1), "65-199": (0, 1), "200+": (1, 1)}


def test_content_leaves_out_words_of_function_and_numbers(script) -> None:
    assert script.content(["the Band has 4 songs , songs", "band 's"]) == {"band": 2, "songs": 1}


def test_intervals(script) -> None:
    low, high = script.wilson(5, 10)
    assert low == pytest.approx(0.2366, abs=1e-4)
    assert high == pytest.approx(0.7634, abs=1e-4)
    middle, half = script.over_seeds([1.0, 2.0, 3.0])
    assert (middle, half) == (2.0, pytest.approx(4.30 / 3**0.5))
