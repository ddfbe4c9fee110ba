"""The experiments with the published ADePT: which cells there are, resuming, and what is counted of outputs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dptext.records import Record, Release
from scripts import load_script

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def load(folder, name):
    """A module of an experiment by its path: the experiments are no package."""
    return load_script(f"experiment_{folder}_{name}", EXPERIMENTS / folder / f"{name}.py")


@pytest.fixture(scope="module")
def grid():
    return load("adept_paper", "grid")


@pytest.fixture(scope="module")
def written():
    return load("adept_paper", "written")


@pytest.fixture(scope="module")
def language_model():
    return load("adept_reconstruction", "language_model")


# ------------------------------------------------------------------ the grid


def test_the_grid_has_each_point_of_the_paper_once(grid):
    cells = grid.every_cell()
    assert len({cell.name for cell in cells}) == len(cells)
    points = [cell for cell in cells if cell.kind == "adept"]
    assert len(points) == 2 * 2 * 2 * 6
    assert {cell.variance for cell in points} == {0.25, 0.5, 0.6, 0.75, 0.85, 1.0}
    phrases = {cell.variance for cell in cells if cell.kind == "private_phrases"}
    assert phrases == {1.0, 6.0, 9.0, 15.0, 28.0, 100.0}


def test_filters_are_joined_by_or_and_their_keys_by_and(grid):
    cells = grid.every_cell()
    found = grid.chosen(
        cells, ["kind=adept dataset=atis variance=.25,1 clip=5", "kind=lira row=original dataset=snips"]
    )
    assert len(found) == 2 * 2 + 1
    assert all(cell.clip == 5 and cell.variance in (0.25, 1) for cell in found if cell.kind == "adept")
    assert grid.chosen(cells, []) == cells
    assert grid.chosen(cells, ["variance=.3"]) == []


def test_the_required_selection_holds_what_the_issue_asks_for(grid):
    found = grid.chosen(grid.every_cell(), grid.REQUIRED)
    points = {(c.dataset, c.clip, c.noise, c.variance) for c in found if c.kind == "adept"}
    assert len(points) == 2 * 2 * 2 * 3
    assert sum(cell.kind == "lira" for cell in found) == 4  # three points, one of them also with auto-encoders of its own
    assert sum(cell.kind == "private_phrases" for cell in found) == 2 * 3


@pytest.mark.parametrize("text", ["variance", "colour=red", "variance="])
def test_a_filter_that_means_nothing_is_refused(grid, text):
    with pytest.raises(ValueError, match="Expected key=value"):
        grid.parse_filter(text)


def test_what_is_finished_is_not_computed_again_and_what_is_torn_is(grid, tmp_path, monkeypatch):
    cells = grid.every_cell()[:3]
    asked = []
    monkeypatch.setattr(grid, "run_cell", lambda cell, protocol: asked.append(cell.name) or {"x": 1})
    fake = type(sys)("protocol")
    fake.Protocol = lambda *_: None
    monkeypatch.setitem(sys.modules, "protocol", fake)
    grid.write_cell(tmp_path, cells[0], {"seconds": 7.0})
    (tmp_path / f"{cells[1].name}.json").write_text('{"name": "' + cells[1].name)  # killed while written
    grid.run(cells, tmp_path, tmp_path, None)
    assert asked == [cells[1].name, cells[2].name]
    grid.run(cells, tmp_path, tmp_path, None)
    assert len(asked) == 2
    assert not list(tmp_path.glob(".*"))


def test_a_file_of_another_cell_is_no_result(grid, tmp_path):
    first, second = grid.every_cell()[:2]
    grid.write_cell(tmp_path, first, {})
    (tmp_path / f"{first.name}.json").rename(tmp_path / f"{second.name}.json")
    assert grid.read_cell(tmp_path, second) is None


def test_remaining_time_counts_what_is_left_by_the_mean_of_its_kind(grid, tmp_path):
    cells = [cell for cell in grid.every_cell() if cell.kind == "adept" and cell.dataset == "atis"][:4]
    grid.write_cell(tmp_path, cells[0], {"seconds": 10.0})
    grid.write_cell(tmp_path, cells[1], {"seconds": 30.0})
    assert grid.remaining(cells, tmp_path) == 2 * 20.0


def test_results_of_other_settings_are_not_mixed(grid, tmp_path):
    assert grid.same_settings(tmp_path, {"seed": 0})
    assert grid.same_settings(tmp_path, {"seed": 0})
    assert not grid.same_settings(tmp_path, {"seed": 1})
    assert json.loads((tmp_path / "settings.json").read_text()) == {"seed": 0}


# ------------------------------------------------------------------ outputs


def test_changes_counts_copies_lost_names_and_repetitions(written):
    originals = [Record("0", "fly to boston", "a"), Record("1", "fly to rome now", "a"), Record("2", "play it", "b")]
    releases = [
        Release("0", "Fly to Boston", "a"),  # exact, but for case
        Release("1", "fly to boston", "a"),  # another's text; the name is lost
        Release("2", "play play it play it", ""),  # a word beside itself, a pair again, no label
    ]
    slots = {"0": {"boston"}, "1": {"rome", "now"}, "2": set()}
    found = {name: share["value"] for name, share in written.changes(originals, releases, slots).items()}
    third = pytest.approx(1 / 3)
    assert found["label and text exact"] == third
    assert found["text of another training record"] == third
    assert found["no label"] == third
    assert found["a slot word lost"] == 0.5
    assert found["all slot words lost"] == 0.5
    assert found["a word beside itself"] == third
    assert found["a pair of words again"] == third
    assert found["a pair of words again, in originals"] == 0


def test_the_same_text_with_another_label_is_not_exact(written):
    originals, releases = [Record("0", "play it", "a")], [Release("0", "play it", "b")]
    assert written.changes(originals, releases, {})["label and text exact"]["value"] == 0


# ------------------------------------------------------------------ the attacker's language model

UTTERANCES = [("@a", "fly", "to", "rome"), ("@a", "fly", "to", "bonn"), ("@b", "play", "it")]


@pytest.mark.parametrize("before", [(), ("@a",), ("@a", "fly"), ("@a", "never seen"), ("it", "@b")])
def test_the_chances_of_the_next_word_sum_to_one(language_model, before):
    model = language_model.Trigrams(UTTERANCES)
    words = {word for words in UTTERANCES for word in words} | {language_model.STOP}
    assert sum(model.probability(word, before) for word in words) == pytest.approx(1)


def test_generation_follows_the_chances(language_model):
    model = language_model.Trigrams(UTTERANCES)
    rng = np.random.default_rng(0)
    made = [model.generate(rng, longest=30) for _ in range(6_000)]
    for words in (UTTERANCES[0], UTTERANCES[2], ("@a", "fly", "to", "it")):
        chance = np.exp(model.log_probability(words))
        share = sum(found == words for found in made) / len(made)
        assert abs(share - chance) < 5 * np.sqrt(chance / len(made)) + 1e-4
    assert ("@a", "fly", "to", "it") not in UTTERANCES


def test_generated_utterances_are_distinct_and_repeatable(language_model):
    model = language_model.Trigrams(UTTERANCES)
    first = language_model.generate_distinct(model, 50, longest=8, seed=1)
    assert len(set(first)) == len(first) == 50
    assert all(2 <= len(words) <= 8 for words in first)
    assert first == language_model.generate_distinct(model, 50, longest=8, seed=1)
