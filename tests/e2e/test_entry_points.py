"""Each door: the package of tests/package comes in, takes no name of ours, and breaks nothing but itself."""

import copy
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dptext as dp
import rome
from commands import Interpreter
from dptext import audits
from dptext.cli.app import app
from dptext.cli.audit.trials import NOISES
from dptext.cli.brought import brought
from dptext.doors import OWN, Door, points
from dptext.errors import ConfigError, MissingExtraError, to_install
from dptext.mechanisms.candidates.rankers import RANKERS
from dptext.registry import MECHANISMS, SYNTHESES
from dptext.runs.specs import spec_from_settings
from dptext.runs.writing import WRITERS
from dptext.utility.classification import CLASSIFIERS
from dptext.version import __version__
from installing import run, write_package

DOORS: dict[str, Door[Any]] = {door.group: door for door in (NOISES, RANKERS, CLASSIFIERS, audits.AUDITS, WRITERS)}
REGISTRIES: dict[str, Door[Any]] = {door.group: door for door in (MECHANISMS, SYNTHESES)}  # see test_their_mechanism.py
COMMANDS = "dptext.commands"
Run = Callable[..., str]


def fresh(door: Door[Any]) -> Door[Any]:
    """The door as it is before anybody looked what is installed."""
    found = copy.copy(door)
    found.__dict__.pop("brought", None)
    found.loaded = {}
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "headlines.txt").write_text("good news\nbad weather\nthe election\ngood news\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def dptext(folder: Path, interpreter: Interpreter) -> Run:
    """The command line where the package is installed; what it prints."""
    run = interpreter.within(folder)

    def call(line: str, code: int = 0) -> str:
        done = run(*line.split())
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout if code != 2 else done.stderr

    return call


# ------------------------------------------------------------------------------------------ the package comes in


def test_its_commands_are_listed_and_run(dptext: Run) -> None:
    section = dptext("--help").partition("Choose and understand:")[2]
    assert "  headlines   Say how many different headlines a file holds.\n" in section
    assert "  repeats         Refuse a file that holds one headline twice.\n" in dptext("audit --help")
    assert dptext("headlines headlines.txt") == "3 headlines\n"
    dptext("audit repeats headlines.txt", code=1)
    assert "dptext audit repeats headlines.txt" in dptext("audit repeats --help")
    assert "Did you mean 'headlines'?" in dptext("headline", code=2)


@pytest.mark.slow  # its commands and its ranker stay, and each door below
def test_its_noise_is_tried(dptext: Run) -> None:
    found = json.loads(dptext("audit whitebox --noise halved --epsilon 2 --dim 2 --trials 1000 --seed 1 --json"))
    assert (found["refuted"], found["claim"]["epsilon"]) == (False, 1.0)


def test_its_ranker_ranks_and_is_saved(dptext: Run, folder: Path) -> None:
    (folder / "lengths").mkdir()
    (folder / "lengths" / "longest.txt").write_text("20", "utf-8")
    fit = "fit --mechanism candidates --set epsilon=4 --set ranker=lengths --set ranker_model=lengths --record line"
    assert "the longest length is public" in dptext(f"{fit} --public headlines.txt --out ranked.model")
    shutil.rmtree(folder / "lengths")
    dptext("privatize headlines.txt out.txt --record line --model ranked.model")
    assert set((folder / "out.txt").read_text("utf-8").splitlines()) <= {"good news", "bad weather", "the election"}
    assert "the longest length is public" in dptext("explain out.txt")


@pytest.mark.slow  # tests/unit/synthesis/test_drafted.py has a writer of a package in one process
def test_its_writer_writes(dptext: Run, folder: Path) -> None:
    rome.summary().write(folder / "a.summary")
    said = dptext("write a.summary echoed.jsonl --writer echo --size 12 --set drafts=8 --seed 1")
    assert "12 texts to echoed.jsonl" in said
    assert "by the writer echo" in said
    assert "rome" in (folder / "echoed.jsonl").read_text("utf-8")
    assert "echo is a writer of a package, whose code was not checked" in dptext("explain echoed.jsonl")
    assert "Expected --writer echo, found echo with something after it" in dptext(
        "write a.summary x.jsonl --writer echo:loud", code=2
    )


def test_the_rest_of_it_is_there_in_python(installed: Path, tmp_path: Path) -> None:
    code = """
import sys
import dptext as dp
assert dp.Headline(epsilon=2.0).kind == "headline"
assert "mottos" not in sys.modules, "a class that nobody asked for"
assert dp.Mottos.__name__ == "Mottos"
assert dp.audits.repeated(["a", "b", "a"]) == 1
assert dp.utility.train_named("majority")(["x"] * 3, ["a", "a", "b"], seed=0).labels == ("a", "b")
"""
    done = run(["-c", code], tmp_path, installed)
    assert done.returncode == 0, done.stderr


def test_what_is_ours_comes_through_the_doors_alone() -> None:
    for group, door in DOORS.items():
        assert {*OWN[group]} == {*door.brought}
        assert not {*OWN[group]} & {*door.ours}
    assert {*OWN[COMMANDS]} == {*brought().commands}
    assert brought().faults == {}


# ------------------------------------------------------------------------- where the package of a name is absent


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in DOORS for name in OWN[group]])
def test_a_name_of_an_absent_package_says_what_to_install(
    group: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dptext.doors.points", lambda group: [])
    with pytest.raises(ConfigError, match=r"dptext-lab. `make wheels` .* Run: pip install .* 'dptext\[lab\]'$"):
        fresh(DOORS[group]).named(name, repr(name))


def test_attributes_of_an_absent_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    line = r"has no attribute '{}'. It is in dptext-lab. `make wheels` .* Run: pip install .* 'dptext\[lab\]'"
    monkeypatch.setattr("dptext.audits.AUDITS", fresh(DOORS["dptext.audits"]))
    monkeypatch.setattr("dptext.doors.points", lambda group: [])
    with pytest.raises(AttributeError, match=line.format("reconstruct")):
        _ = audits.reconstruct
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name'\.$"):
        _ = audits.no_such_name
    from dptext.registry import MECHANISMS, SYNTHESES, settings_named

    monkeypatch.setattr("dptext.registry.MECHANISMS", fresh(MECHANISMS))
    monkeypatch.setattr("dptext.registry.SYNTHESES", fresh(SYNTHESES))
    for name in OWN["dptext"]:
        with pytest.raises(AttributeError, match=line.format(name)):
            settings_named(name)


@pytest.mark.parametrize("name", ["NoSuchName", "no_such_name", "Estimate", "load_word_vectors", "published"])
def test_an_attribute_that_left_or_never_was_has_a_list_of_names_that_moved(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"'dptext' has no attribute '{name}'\. .* in decision 22, docs/"):
        getattr(dp, name)


def test_a_kind_of_an_absent_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN["dptext.mechanisms"], "waltz", "lab")  # type: ignore[index]
    with pytest.raises(ConfigError, match=r"kind='waltz' to name .*dptext-lab[.] .*Run: .*'dptext\[lab\]'$"):
        spec_from_settings({"kind": "waltz", "epsilon": 1.0})


# --------------------------------------------------------------------------------------------------- broken packages


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that packages can be written into, as `write_package` does."""
    monkeypatch.syspath_prepend(tmp_path)
    brought.cache_clear()
    yield tmp_path
    brought.cache_clear()


OURS = {
    "dptext.noises": ("laplace", "published_laplace"),
    "dptext.rankers": ("tfidf", "adept"),
    "dptext.classifiers": ("tfidf", "bilstm"),
    "dptext.audits": ("exact", "reconstruct"),
    "dptext.writers": ("pool", "endpoint"),
}


@pytest.mark.parametrize("group", DOORS)
def test_a_package_takes_no_name_of_ours(group: str, packages: Path) -> None:
    before = [*DOORS[group]]
    for i, name in enumerate(OURS[group]):
        write_package(packages, f"usurper{i}", name, "raise AssertionError('imported')", group)
    door = fresh(DOORS[group])
    assert [*door] == before
    assert [len(door.brought.get(name, ())) for name in OURS[group]] == [0, int(OURS[group][1] in OWN[group])]


@pytest.mark.parametrize("group", DOORS)
def test_two_packages_with_one_name_are_refused(group: str, packages: Path) -> None:
    for name in ("some_package", "other_package"):
        write_package(packages, name, "shuffle", "raise AssertionError('imported')", group)
    with pytest.raises(ConfigError, match=r"one package.* 'shuffle', found other_package, some_package: remove one"):
        fresh(DOORS[group])["shuffle"]


@pytest.mark.parametrize("group", DOORS)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('out of order')", r"cannot be imported \(RuntimeError: out of order\). Install"),
        ("", r"cannot be imported \(AttributeError"),
        ("Theirs = 3", "Expected '.*:Theirs' of the package .* to be"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(group: str, code: str, said: str, packages: Path) -> None:
    name = f"{packages.name}_{group.partition('.')[2]}"  # each is a module of its own
    write_package(packages, name, "shuffle", code, group)
    door, told = fresh(DOORS[group]), []
    with pytest.raises(ConfigError, match=said):
        door["shuffle"]
    assert "shuffle" not in door.usable(told.append)
    assert [name in line for line in told] == [True]


@pytest.mark.parametrize("name", ["dptext-lab", "dptext_gateway"])
def test_a_package_of_ours_has_the_version_of_the_library(name: str, packages: Path) -> None:
    write_package(packages, name, "shuffle", "raise AssertionError('imported')", "dptext.noises", version="0.0.1")
    with pytest.raises(ConfigError, match=f"Expected {name} {__version__} beside dptext {__version__}, found .* 0.0.1"):
        fresh(NOISES)["shuffle"]
    write_package(packages, name, "slide", "Theirs = len", "dptext.noises", version=__version__)
    shutil.rmtree(packages / f"{name.replace('-', '_')}-0.0.1.dist-info")
    assert fresh(NOISES)["slide"] is len


TABLE = "from dptext.doors import Command\nTheirs = {{{!r}: Command({!r}, 'Shuffle.', 'Choose')}}"


def call(*words: str) -> tuple[int, str, BaseException | None]:
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, done.output, done.exception


def test_a_command_takes_no_place_of_ours(packages: Path) -> None:
    for i, name in enumerate(("fit", "audit exact", "compare", "keys create")):
        write_package(packages, f"table{i}", f"table{i}", TABLE.format(name, "nowhere:at_all"), COMMANDS)
    assert {*brought().commands} == {*OWN[COMMANDS]}
    assert {package for package, _ in brought().commands.values()} == {"dptext-gateway", "dptext-lab"}
    assert brought().faults == {}


def test_two_packages_with_one_command_are_named(packages: Path) -> None:
    for name in ("some_table", "other_table"):
        write_package(packages, name, name, TABLE.format("shuffle", "nowhere:at_all"), COMMANDS)
    code, _, error = call("shuffle")
    assert isinstance(error, ConfigError)
    assert str(error) == (
        "Expected one package to bring the command 'shuffle', found other_table, some_table: remove one."
    )
    code, shown, _ = call("--help")
    assert code == 0
    assert str(error) in shown
    assert "\n  shuffle" not in shown
    assert "\n  report " in shown


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('out of order')", "cannot be imported (RuntimeError: out of order)"),
        ("Theirs = ['shuffle']", "to map names to commands"),
        ("Theirs = {'shuffle': 'nowhere:at_all'}", "to map names to commands"),
        (TABLE.format("fit shuffle", "nowhere:at_all"), "brings the command 'fit shuffle', and 'fit' is no group"),
    ],
)
def test_a_table_that_cannot_be_used_is_named_and_other_commands_go_on(packages: Path, code: str, said: str) -> None:
    name = packages.name
    write_package(packages, name, "table", code, COMMANDS)
    exit_code, shown, _ = call("--help")
    assert exit_code == 0
    assert [name in line and said in line for line in shown.splitlines() if "package" in line] == [True]
    assert "\n  report " in shown
    exit_code, shown, _ = call("shuffle")
    assert exit_code == 2
    assert said in shown
    exit_code, shown, _ = call("report", "--help")
    assert exit_code == 0
    assert said not in shown


def test_a_command_that_cannot_be_imported_is_named(packages: Path) -> None:
    write_package(packages, "misplaced", "table", TABLE.format("shuffle", "nowhere:at_all"), COMMANDS)
    _, _, error = call("shuffle")
    assert isinstance(error, ConfigError)
    assert "The command 'shuffle' of the package misplaced cannot be imported (ModuleNotFoundError" in str(error)


@pytest.mark.parametrize("name", OWN[COMMANDS])
def test_a_command_of_an_absent_package_says_what_to_install(
    name: str, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dptext.cli.brought.points", lambda group: [])
    _, _, error = call(*name.split())
    assert isinstance(error, MissingExtraError)
    extra = OWN[COMMANDS][name]
    assert str(error).endswith(f"It is in dptext-{extra}. {to_install(f'dptext[{extra}]')}")
    assert f"\n  {name} " not in call("--help")[1]


@pytest.mark.parametrize(
    ("present", "extras"), [((), "lab,gateway"), (("dptext-lab",), "gateway"), (("dptext-lab", "dptext-gateway"), "")]
)
def test_help_ends_with_what_brings_more_commands(
    present: tuple[str, ...], extras: str, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [point for point in points(COMMANDS) if point.dist and point.dist.name in present]
    monkeypatch.setattr("dptext.cli.brought.points", lambda group: some)
    brought.cache_clear()
    _, shown, _ = call("--help")
    line = f"More commands: pip install --find-links dist 'dptext[{extras}]' (`make wheels` in a checkout fills dist)"
    assert (line in " ".join(shown.split())) is bool(extras)
    assert ("More commands" in shown) is bool(extras)
    assert "More commands" not in call("audit", "--help")[1]


def test_a_table_of_another_version_is_refused(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(packages, "dptext-lab", "lab", "raise AssertionError('imported')", COMMANDS, version="0.0.1")
    found = [point for point in points(COMMANDS) if point.dist and point.dist.name == "dptext-lab"]
    monkeypatch.setattr("dptext.cli.brought.points", lambda group: found)
    brought.cache_clear()
    _, _, error = call("compare")
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"Expected dptext-lab {__version__} beside dptext")


def test_a_command_of_the_library_reads_no_entry_point(tmp_path: Path) -> None:
    code = """
import sys
from dptext.cli.app import main
sys.argv = ["dptext", "audit", "exact", "--help"]
try:
    main()
finally:
    assert "dptext.cli.brought" not in sys.modules
    assert "dptext.doors" in sys.modules
"""
    done = run(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_package_in_a_zip_comes_in(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = packages / "inside"
    inside.mkdir()
    write_package(inside, "zipped", "shuffle", "Theirs = len", "dptext.noises")
    archive = shutil.make_archive(str(packages / "archive"), "zip", inside)
    assert "shuffle" not in fresh(NOISES)
    monkeypatch.setattr(sys, "path", [archive, *sys.path])
    assert fresh(NOISES)["shuffle"] is len
    monkeypatch.setattr(sys, "path", [archive])  # no folder mentions the group
    assert [point.name for point in points("dptext.noises")] == ["shuffle"]
    monkeypatch.setattr(sys, "path", [str(packages), str(packages / "absent")])
    assert points("dptext.noises") == []


def test_a_table_costs_a_package_nothing(tmp_path: Path) -> None:
    code = """
import sys
before = set(sys.modules)
from dptext.doors import Command
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names))
assert "importlib.metadata" not in sys.modules
"""
    done = run(["-c", code], tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["dptext", "dptext.doors", "dptext.errors"]), done.stderr
