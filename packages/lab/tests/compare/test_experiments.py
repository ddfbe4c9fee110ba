"""The experiment files: each can be read and planned, says its command and cost, and together they name every kind."""

import re
import tomllib
from pathlib import Path

import pytest

from dptext.errors import ConfigError
from dptext.registry import MECHANISMS, SYNTHESES
from dptext_lab.compare.cells import Cell
from dptext_lab.compare.corpus_plans import DATA
from dptext_lab.compare.experiment import Experiment, read_experiment
from dptext_lab.compare.grid import ANY_LABELS, plan_cells

FOLDER = Path(__file__).parents[2] / "experiments"
FILES = sorted(FOLDER.glob("*.toml"))
#: Kinds that `all.toml` does not name, and why.
LEFT_OUT = {
    "label_only": "it stands in every table without being asked for",
    "sentdp": "packages/lab/experiments/deep_candidate_epsilon.toml has it beside deep_candidate",
    "dp_prompt": "it needs a model that no extra installs: packages/lab/experiments/dp_prompt.toml has it",
    "pii_redaction": "it needs a package that only dptext-lab[pii] installs",
}
SOURCES = {
    "adept_figure_1",
    "adept_remedies",
    "erae_table",
    "erae_epsilon",
    "deep_candidate_epsilon",
    "deep_candidate_sentences",
    "redaction",
}


def kinds(path: Path) -> set[str]:
    found = set()
    for plan in tomllib.loads(path.read_text("utf-8"))["mechanisms"]:
        inner = plan.get("set", {}).get("mechanism", {})
        found |= {plan["kind"], *([inner["kind"]] if inner else [])}
    return found


def known(path: Path) -> bool:
    return kinds(path) <= MECHANISMS.keys() | SYNTHESES.keys()


KNOWN = [path for path in FILES if known(path)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has every file that an experiment names, each empty."""
    for path in FILES:
        for name in re.findall(rf'"\${DATA}/([^"]+)"', path.read_text("utf-8")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
    monkeypatch.setenv(DATA, str(tmp_path))
    return tmp_path


def planned(experiment: Experiment) -> list[Cell]:
    """All cells; the labels of the corpora play no part."""
    return plan_cells(experiment, {name: ANY_LABELS if plan.label else () for name, plan in experiment.corpora.items()})


def sound(experiment: Experiment) -> list[Cell]:
    """The planned cells, of which none may be without a spec."""
    cells = planned(experiment)
    assert [cell.row for cell in cells if cell.fault] == []
    for plan in experiment.mechanisms:
        assert any(cell.row.startswith(plan.name) and cell.kind == plan.kind for cell in cells), plan.name
    return cells


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_every_experiment_can_be_planned(path: Path) -> None:
    found = read_experiment(path)
    quick = tuple(plan for plan in found.mechanisms if plan.kind != "adept_dpsgd")
    sound(found.model_copy(update={"mechanisms": quick}))


@pytest.mark.slow  # the calibration of training and release together takes half a minute
@pytest.mark.usefixtures("data")
def test_all_can_be_planned_with_training_on_private_text() -> None:
    cells = sound(read_experiment(FOLDER / "all.toml"))
    assert [cell.row for cell in cells if cell.kind == "adept_dpsgd"] == [
        f"adept_dpsgd epsilon={epsilon}" for epsilon in (2, 5, 10, 20)
    ]


def test_no_experiment_names_a_kind_that_nobody_knows() -> None:
    assert not set().union(*map(kinds, FILES)) - MECHANISMS.keys() - SYNTHESES.keys()


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_without_its_corpora_an_experiment_names_their_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path))
    if f"${DATA}" in path.read_text("utf-8"):
        with pytest.raises(ConfigError, match=DATA):
            read_experiment(path)
    else:
        assert read_experiment(path).corpora


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_experiment_begins_with_what_it_is_and_how_it_is_run(path: Path) -> None:
    head = path.read_text("utf-8").partition("\nname = ")[0]
    assert all(line.startswith("#") for line in head.splitlines() if line)
    assert f"dptext compare packages/lab/experiments/{path.name} --out build/{path.stem}" in head
    if path.stem in {"all", *SOURCES}:
        assert "differs" in head
        assert re.search(r"# Cost: .*\b(hours?|minutes?)\b", head)


def test_there_is_an_experiment_for_each_source() -> None:
    assert {path.stem for path in FILES} >= {"all", *SOURCES}


@pytest.mark.usefixtures("data")
def test_all_names_every_kind_of_mechanism_at_the_four_epsilons() -> None:
    path = FOLDER / "all.toml"
    named = kinds(path)
    assert named.isdisjoint(LEFT_OUT)
    assert named | {kind for kind in LEFT_OUT if kind in MECHANISMS} == MECHANISMS.keys()
    experiment = read_experiment(path)
    assert experiment.corpora.keys() == {"snips", "blogs", "imdb", "20newsgroups"}
    assert {plan.document_epsilon for plan in experiment.mechanisms} == {(), (2.0, 5.0, 10.0, 20.0)}
