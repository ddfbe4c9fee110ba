"""A mechanism of an installed package (tests/package) works as ours do; a broken package breaks nothing but itself."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from commands import Interpreter
from compared import as_toml, experiment, write_texts
from dptext.doors import OWN
from dptext.errors import ConfigError
from dptext.mechanism import Answers
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.registry import MECHANISMS, OUR_MECHANISMS, OUR_SYNTHESES, mechanisms, syntheses
from dptext.runs.models import load_model, model_spec
from dptext.runs.specs import spec_from_settings
from dptext.runs.verification import verify
from installing import run, write_package

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a mechanism")[2]
Command = Callable[..., str]


def block(language: str, number: int) -> str:
    """A block of code that the page shows."""
    return PAGE.split(f"```{language}\n")[number].partition("```")[0]


def kinds(*theirs: str) -> list[str]:
    """The mechanisms in their order: of the library, then of packages by name, which are the laboratory and others."""
    return [*OUR_MECHANISMS, *sorted([*OWN["dptext.mechanisms"], *theirs])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> Path:
    """The files that the commands read."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "headlines.txt").write_text("good news\nbad weather\nthe election\nparis by night\n", "utf-8")
    (folder / "notes.txt").write_text("very good news for Tom\nwe saw Paris by day\n", "utf-8")
    plan = {"name": "theirs", "kind": "headline", "document_epsilon": [4.0]}
    grid = experiment(write_texts(folder / "texts.jsonl"), vectors, mechanisms=[plan], audits=["distinguish"])
    grid["settings"]["distinguish"] = {"trials": 400}
    (folder / "experiment.toml").write_text(as_toml(grid), "utf-8")
    return folder


@pytest.fixture(scope="module")
def dptext(folder: Path, interpreter: Interpreter) -> Command:
    """The command line where the package is installed; what it prints."""

    run = interpreter.within(folder)

    def call(line: str, code: int = 0) -> str:
        done = run(*line.split())
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    return call


@pytest.fixture(scope="module")
def said(dptext: Command) -> list[str]:
    """What the commands of the page print, which make `headline.model` and `notes.out.txt`."""
    return [dptext(line.removeprefix("dptext ")) for line in block("sh", 1).splitlines()]


@pytest.mark.slow  # the audit of the same mechanism stays below
def test_the_contract_of_the_page_holds(installed: Path, folder: Path) -> None:
    use = block("python", 2)
    assert "check_mechanism" in use
    done = run(["-c", f"{use}\nimport headline\nprint(headline.__file__)"], folder, installed)
    assert (done.returncode, done.stdout.strip()) == (0, str(installed / "headline.py")), done.stderr


def test_mechanisms_lists_it(dptext: Command) -> None:
    rows = {row["kind"]: row for row in json.loads(dptext("mechanisms --json"))}
    assert list(rows) == kinds("headline")
    theirs = rows["headline"]
    assert theirs["summary"] == "One of `size` public headlines in the place of a private text."
    assert theirs["guarantee"].startswith("Unit document, replace one, pure epsilon")
    assert (theirs["required"], theirs["settings"]) == (["epsilon"], {"epsilon": None, "size": 4})


def test_fit_privatize_and_explain_as_the_page_shows(dptext: Command, said: list[str], folder: Path) -> None:
    fitted, released, explained = said
    for text in said:
        assert "Guaranteed (epsilon = 4), per document" in text
        assert "the headlines are public" in text
    assert "Next: dptext privatize IN OUT --model headline.model" in fitted
    assert "notes.out.txt.guarantee.json" in released
    assert "Verified" in explained
    whose = "The mechanism is of the package headline 1.0"
    assert f"{whose}: its authors answer for its guarantee." in explained
    assert f"{whose}, not of dptext: its authors answer for its guarantee." in dptext(
        "explain notes.out.txt --for legal"
    )
    outputs = (folder / "notes.out.txt").read_text("utf-8").splitlines()
    assert len(outputs) == 2
    assert set(outputs) <= set((folder / "headlines.txt").read_text("utf-8").splitlines())


def test_explain_of_settings_and_of_a_model(dptext: Command, said: list[str]) -> None:
    of_model = json.loads(dptext("explain headline.model --json"))
    of_settings = json.loads(dptext("explain --mechanism headline --set epsilon=4 --json"))
    assert of_model == of_settings
    assert of_model["settings"] == {"kind": "headline", "epsilon": 4.0, "size": 4}
    assert [guarantee["epsilon"] for guarantee in of_model["guarantees"]] == [4.0]
    assert "did you mean 'size'?" in dptext("explain --mechanism headline --set epsilon=4 --set sise=3", code=2)


@pytest.mark.slow  # tests/unit/audits has the claim
def test_audit_holds_it_to_its_own_guarantee(dptext: Command, said: list[str]) -> None:
    trial = "distinguish --model headline.model --first good --second paris --trials 1000 --seed 1"
    found = json.loads(dptext(f"audit {trial} --json"))
    assert (found["refuted"], found["claim"]["epsilon"]) == (False, 4.0)
    assert 1 < found["report"]["epsilon_lower_bound"] <= 4  # a claim of 1 would be refuted


@pytest.mark.slow  # packages/lab/tests/compare has the workers, the tests here the package
def test_compare_runs_it_in_its_workers(dptext: Command, folder: Path) -> None:
    assert "0 failed" in dptext("compare experiment.toml --out compared --workers 1")
    rows = json.loads((folder / "compared" / "table.json").read_text("utf-8"))
    found = {row["metric"]: row for row in rows if row["row"] == "theirs epsilon=4"}
    assert {"fidelity.cosine", "distinguish.refuted"} <= found.keys()
    assert found["distinguish.refuted"]["value"] == 0
    assert (found["fidelity.cosine"]["unit"], found["fidelity.cosine"]["epsilon"]) == ("document", 4.0)
    assert json.loads(found["fidelity.cosine"]["settings"]) == {"epsilon": 4.0, "size": 4}


def test_their_settings_can_be_booleans(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Theirs:
        epsilon: float
        sorted: bool = False
        kind: str = field(default="syntf", init=False)

    monkeypatch.setitem(MECHANISMS.loaded, "syntf", Theirs)
    assert spec_from_settings({"kind": "syntf", "epsilon": 1.0, "sorted": True}) == Theirs(1.0, sorted=True)
    with pytest.raises(ConfigError, match="Expected epsilon=True not to be a boolean"):
        spec_from_settings({"kind": "syntf", "epsilon": True})


# ----------------------------------------------------------------------------- where the package is not installed


def test_a_kind_that_is_not_installed_is_named_and_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "package")  # it could be imported, but nobody installed it
    for kind in ("headline", "headline:Headline"):
        with pytest.raises(ConfigError, match=rf"kind='{kind}' to name a mechanism that is installed.* word_metric"):
            spec_from_settings({"kind": kind, "epsilon": 4.0})
        assert kind not in MECHANISMS
    assert "headline" not in sys.modules


def test_files_of_a_kind_that_is_not_installed_say_so(said: list[str], folder: Path) -> None:
    wanted = "kind='headline' to name a mechanism that is installed"
    with pytest.raises(ConfigError, match=wanted):
        verify(folder / "notes.out.txt.guarantee.json")
    for read in (load_model, model_spec):
        with pytest.raises(ConfigError, match=wanted):
            read(folder / "headline.model")


# ----------------------------------------------------------------------------------------------- broken packages


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages can be written into, as `write_package` does."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_two_packages_with_one_kind_are_refused_by_name(packages: Path) -> None:
    for name in ("some_package", "other_package"):
        write_package(packages, name, "shuffle", "raise AssertionError('imported')")
    with pytest.raises(ConfigError, match=r"one package.* 'shuffle', found other_package, some_package: remove one"):
        mechanisms()["shuffle"]


def test_a_package_takes_no_place_of_ours(packages: Path) -> None:
    write_package(packages, "usurper", "word_metric", "raise AssertionError('imported')")
    specs = mechanisms()
    assert specs["word_metric"] is WordMetric
    assert list(specs) == kinds()
    assert "usurper" not in sys.modules


def test_a_synthesis_of_a_package_is_one_of_the_ways(packages: Path) -> None:
    code = """
from dataclasses import dataclass, field
from dptext.synthesis.votes import TopicReport

@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs(TopicReport):
    kind: str = field(default="mottos", init=False)
"""
    write_package(packages, "proverbs", "mottos", code, group="dptext.syntheses")
    ways = syntheses()
    assert list(ways) == [*OUR_SYNTHESES, *sorted([*OWN["dptext.syntheses"], "mottos"])]
    (spec, *_) = ways["mottos"].tiny()
    assert (spec.kind, spec.traits.answers) == ("mottos", Answers.CORPUS)
    assert "mottos" not in mechanisms()


def test_a_package_of_neither_species_takes_a_name_of_the_other(packages: Path) -> None:
    write_package(packages, "usurper", "votes", "raise AssertionError('imported')")
    assert list(mechanisms()) == kinds()


SPEC = """
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True)
class Theirs:
    epsilon: float
    kind: str = field(default="shuffle", init=False)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('out of order')", r"cannot be imported \(RuntimeError: out of order\)"),
        ("import a_package_that_nobody_has", r"cannot be imported \(ModuleNotFoundError: No module"),
        ("", r"cannot be imported \(AttributeError"),
        ("Theirs = 3", "to be a spec: a dataclass whose field `kind` is 'shuffle'"),
        ("class Theirs: kind = 'shuffle'", "to be a spec: a dataclass"),
        (f"{SPEC}\nTheirs = Theirs(1.0)", "to be a spec: a dataclass"),
        (SPEC.replace('"shuffle"', '"another"'), "to be a spec: a dataclass"),
        (SPEC, "to be a spec: it has no units, traits, events, guarantee, calibrate, tiny, fit, load"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(packages: Path, code: str, said: str) -> None:
    name = packages.name  # each is a module of its own
    write_package(packages, name, "shuffle", code)
    specs, told = mechanisms(), []
    with pytest.raises(ConfigError, match=f"{name}.*{said}"):
        specs["shuffle"]
    assert list(specs.usable(told.append)) == kinds()
    assert [name in line for line in told] == [True]
    assert "shuffle" in specs  # it is installed


@pytest.mark.slow  # test_a_package_that_cannot_be_used_is_named stays
def test_commands_for_other_mechanisms_go_on_beside_a_broken_package(tmp_path: Path, installed: Path) -> None:
    write_package(tmp_path, "broken", "shuffle", "raise RuntimeError('out of order')")
    start = "from dptext.cli.app import main; main()"
    listed = run(["-c", start, "mechanisms", "--json"], tmp_path, tmp_path, installed)
    assert [row["kind"] for row in json.loads(listed.stdout)] == kinds("headline")
    assert "'shuffle' of the package broken cannot be imported" in listed.stderr
    refused = run(["-c", start, "explain", "--mechanism", "shuffle"], tmp_path, tmp_path, installed)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "Install broken again, or remove it." in refused.stderr
