"""What is said on the command line is heard, or refused: repeated, empty and lonely options, and devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperOption

import dptext as dp
from commands import dptext
from dptext.cli import COMMANDS
from dptext.cli.app import LazyGroup, StrictCommand, app
from dptext.cli.brought import brought
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.runs.models import save_model

PLACES = [
    *(tuple(name.split()) for name, command in COMMANDS.items() if command.place),
    *(tuple(name.split()) for name, (_, command) in brought().commands.items() if command.place),
]


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_no_command_takes_an_option_of_one_value_twice(place: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    command = typer.main.get_command(app)
    for name in place:
        assert isinstance(command, LazyGroup)
        command = command.load(name)
    assert isinstance(command, StrictCommand)
    monkeypatch.setattr(typer.core.TyperCommand, "parse_args", lambda *_: [])  # whatever else is required
    options = [each for each in command.params if isinstance(each, TyperOption) and not each.is_flag]
    for option in options:
        context = command.context_class(command)
        context.params = dict.fromkeys((each.name for each in command.params), "x")
        twice = [word for name in (option.opts * 2)[:2] for word in (name, "1")]
        if option.multiple:
            command.parse_args(context, twice)
            continue
        with pytest.raises(ConfigError, match=rf"Expected {max(option.opts, key=len)} once, found it 2 times"):
            command.parse_args(context, twice)


@pytest.fixture(scope="module")
def fitted() -> Mechanism[str]:
    return dp.Candidates(epsilon=4.0, ranker="tfidf").fit(public=dp.sample_records(12))


@pytest.fixture
def work(fitted: Mechanism[str], tmp_path: Path) -> Path:
    save_model(fitted, tmp_path / "model")
    (tmp_path / "in.csv").write_text("text,a,b\nso it is,1,2\n", "utf-8")
    return tmp_path


OPEN = ("budget", "open", "account", "--ledger", "books.db")
RUN = ("privatize", "in.csv", "out.csv", "--model", "model")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*RUN, "--id-field", "a", "--id-field", "b"), "Expected --id-field once, found it 2 times"),
        ((*RUN, "--model=model"), "Expected --model once"),
        (("--config", "a", "--config", "b", "check", "in.csv"), "Expected --config once"),
        (("fit", "-m", "a", "--mechanism", "b", "--out", "new"), "Expected --mechanism once"),
        ((*RUN, "--encoding", ""), "Expected --encoding with a value"),
        (("check", "in.csv", "--text-field="), "Expected --text-field with a value"),
        ((*RUN, "--keep", "a", "--keep", ""), "Expected --keep with a value"),
        ((*RUN, "--subject-key", "key"), "Expected --subject-field with --subject-key"),
        (
            (*OPEN, "--dataset", "d", "--epsilon", "1", "--unit", "document", "--subject-key", "k"),
            "Expected --by-subject with --subject-key",
        ),
        (("fit", "-m", "a", "--out", "new", "--public-label-field", "a"), "Expected --label-field with"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value[-4:]),
)
def test_what_would_be_passed_over_is_refused(work: Path, arguments: tuple[str, ...], said: str) -> None:
    before = {path.name for path in work.iterdir()}
    done = dptext(*arguments, cwd=work)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dptext: {said}")
    assert {path.name for path in work.iterdir()} == before


def test_what_is_repeatable_or_of_the_environment_is_taken(work: Path) -> None:
    done = dptext(
        *RUN, "--keep", "a", "--keep", "b", "--json", "--json", cwd=work, env=os.environ | {"DPTEXT_SUBJECT_KEY": "k"}
    )
    assert done.returncode == 0, done.stderr


def test_an_encoding_without_a_name_is_no_default(work: Path) -> None:
    with pytest.raises(ConfigError, match="Expected --encoding '' to be one that Python knows"):
        dp.read_records(work / "in.csv", encoding="")
    (work / "dptext.toml").write_text('encoding = ""\n', "utf-8")
    assert "Expected --encoding ''" in dptext(*RUN, cwd=work).stderr


@pytest.mark.slow
def test_a_device_that_is_not_here_is_refused_where_nothing_computes_there(work: Path) -> None:
    pytest.importorskip("torch")
    said = "Expected device='nonsense' to be available here"
    assert said in dptext(*RUN, "--device", "nonsense", cwd=work).stderr
    assert not (work / "out.csv").exists()
    with pytest.raises(ConfigError, match=said):
        dp.Candidates(epsilon=4.0, ranker="tfidf", device="nonsense").fit(public=dp.sample_records(12))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("init", "in.csv", "--for", "texts", "--unit", "token"), 0),
        pytest.param(("recommend",), 0, marks=pytest.mark.slow),
        pytest.param(("privatize", "-", "out.csv", "--format", "csv", "--model", "model"), 4, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, int) else value[0],
)
def test_a_closed_stdin_is_an_empty_one(work: Path, arguments: tuple[str, ...], code: int) -> None:
    run = "import sys; from dptext.cli.app import main; sys.argv[0] = 'dptext'; main()"
    done = subprocess.run(
        [sys.executable, "-c", run, *arguments],
        cwd=work, capture_output=True, text=True, check=False, preexec_fn=lambda: os.close(0),
    )  # fmt: skip
    assert done.returncode == code, done.stderr
