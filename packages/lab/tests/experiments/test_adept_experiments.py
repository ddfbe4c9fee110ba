"""The experiments with the published ADePT: which cells there are, resuming, and what is counted of outputs."""

import gzip
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from dptext.text.records import Record, Release
from dptext.text.samples import sample_records
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
    lira = [cell for cell in found if cell.kind == "lira"]
    assert [cell.row for cell in lira] == ["original", None, None, grid.OWN]
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


# ------------------------------------------------------------------ the protocol, on a made-up corpus


class Hashed:
    """Stands in for the sentence encoder, whose vectors are as long."""

    def embed(self, texts):
        rows = np.asarray([np.bincount([zlib.crc32(w.encode()) % 32 for w in t.split()], minlength=384) for t in texts])
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The protocol of the paper on 120 sample texts, with the modules of both experiments."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    folder = tmp_path_factory.mktemp("paper")
    (folder / "data" / "atis").mkdir(parents=True)
    with gzip.open(folder / "data" / "atis" / "atis.jsonl.gz", "wt", encoding="utf-8") as file:
        for i, record in enumerate(sample_records(120)):
            row = {"id": str(i), "text": record.text, "label": record.label, "slots": ["O"] * len(record.text.split())}
            file.write(json.dumps(row) + "\n")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("adept_paper", "adept_reconstruction"):
            patched.syspath_prepend(str(EXPERIMENTS / name))
        found = load("adept_paper", "protocol")
        trial = load("adept_reconstruction", "trial")
        settings = found.Settings(auto_encoder=(("atis", 2),), hidden=8, embedding=8)
        patched.setattr(found, "load_sentence_encoder", Hashed)
        made = found.Protocol("atis", folder / "data", folder / "out", settings, lambda _: None)
        yield made, trial


def test_an_attack_on_every_utterance_finds_all_without_noise_and_almost_none_in_much(paper):
    protocol, trial = paper
    pools = trial.Pools([], [], list(protocol.members), 10)
    for noise in ("laplace", "gaussian"):
        loud, quiet = (trial.attack_each(protocol, pools, (1.0, noise, variance)) for variance in (1e8, 1e-10))
        assert quiet["latent"][trial.EACH]["exact"]["value"] == 1
        assert loud["latent"][trial.EACH]["exact"]["value"] < 5 / len(pools.real)
        assert loud["latent"][trial.EACH]["exact"]["confidence"] == trial.CONFIDENCE > 0.99
        assert loud["bound of the claim"][trial.EACH] < 1.1 / len(pools.real)
        assert quiet["bound of the claim"][trial.EACH] == 1


def test_own_auto_encoders_are_trained_once_for_each_set_of_records(paper):
    protocol, _ = paper
    spec = protocol.spec(1.0, "laplace", 1e-10)
    own, one = (protocol.rewriting(spec, models=models) for models in ("own", "one"))
    half = protocol.members[: len(protocol.members) // 2]

    def texts(transform, records):
        return [(release.label, release.output) for release in transform(records, 0)]

    assert texts(own, protocol.members) == texts(one, protocol.members)  # the target's in both
    assert texts(own, half) != texts(one, half)
    assert texts(own, half) == texts(own, half)


def test_the_figure_is_drawn_of_whatever_is_finished(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(EXPERIMENTS / "adept_paper"))
        figure = load("adept_paper", "figure")
        cells = [cell for cell in figure.every_cell() if cell.dataset == "atis" and cell.kind == "adept"][:3]
        auc = {"value": 0.7, "low": 0.69, "high": 0.71}
        result = {"claimed": 2.0, "true": 30.0, "accuracy": {"accuracy": {"value": 0.8}}}
        figure.paper_figure(
            {cell: {**result, "membership": {"main": {"auc": auc}}} for cell in cells}, tmp_path / "a.svg"
        )
    assert "2 / 30" in (tmp_path / "a.svg").read_text("utf-8")


def test_labels_are_spread_in_order_and_no_farther_than_needed():
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(EXPERIMENTS / "adept_paper"))
        spread = load("adept_paper", "figure").spread
    assert spread([0.0, 1.0, 2.0], 0.5) == [0.0, 1.0, 2.0]
    placed = spread([1.0, 0.0, 0.01], 0.5)
    assert placed[1] < placed[2] < placed[0]
    assert placed[2] - placed[1] == pytest.approx(0.5)
    assert spread([], 1.0) == []


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
