"""What is said of a run that a signal stopped: what lies there, which option goes on, and what is paid."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import dptext as dp
from dptext.cli.app import app
from dptext.cli.privatize import _left_there
from dptext.errors import ConfigError
from dptext.runs.certificate import certificate_path
from dptext.runs.plan import Plan
from dptext.runs.states import STATE, WITHIN, run_folder, state_path, unfinished_beside

ANEW = "The unfinished run beside {} cannot be gone on with in this format:"
CHARGED = "What was charged stays charged: --resume finds the charge, --force charges anew."


@pytest.mark.parametrize(
    ("name", "paid", "said"),
    [
        ("out.jsonl", False, "What is done lies unpublished beside {}: --resume goes on, --force begins anew."),
        ("out.csv", True, "What is done lies unpublished beside {}: --resume goes on, --force begins anew. " + CHARGED),
        ("out.parquet", False, f"{ANEW} --force begins anew."),
        ("out.parquet", True, f"{ANEW} --resume begins anew. {CHARGED}"),
    ],
)
def test_what_is_left_of_a_run_is_said(name: str, paid: bool, said: str, tmp_path: Path) -> None:
    target = tmp_path / name
    assert _left_there(target, Plan(), paid=paid) == f"No unfinished run lies beside {target}."
    state_path(target).touch()
    assert _left_there(target, Plan(), paid=paid) == said.format(target)


def test_the_unfinished_run_of_a_file_or_a_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert unfinished_beside(out) is None
    run_folder(out).mkdir()
    assert unfinished_beside(out) is None  # nothing of it is done
    (run_folder(out) / STATE).touch()
    assert unfinished_beside(out) == run_folder(out)
    state_path(out).touch()
    assert unfinished_beside(out) == state_path(out)
    (tmp_path / WITHIN).mkdir()
    (tmp_path / WITHIN / STATE).touch()
    monkeypatch.chdir(tmp_path)
    assert unfinished_beside(Path()) == tmp_path / WITHIN
    assert unfinished_beside(Path("/")) is None


def test_explain_says_that_an_unfinished_run_lies_beside(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"text": "so it is"}\n')
    spec = dp.RandomRedaction(level=0.5)
    dp.privatize_file(source, out, spec.fit(), plan=dp.Plan(without_guarantee=True))
    for given in (out, certificate_path(out)):
        assert "unfinished" not in CliRunner().invoke(app, ["explain", str(given)]).stderr
    state_path(out).touch()
    for given in (out, certificate_path(out)):
        done = CliRunner().invoke(app, ["explain", str(given)])
        assert done.exit_code == 0, done.stderr
        said = f"An unfinished run lies beside {out} (.out.jsonl.resume.json): the same command with --resume ends it."
        assert said in done.stderr
    run_folder(tmp_path / "new").mkdir()
    (run_folder(tmp_path / "new") / STATE).touch()
    done = CliRunner().invoke(app, ["explain", str(tmp_path / "new")])
    assert (done.exit_code, isinstance(done.exception, ConfigError)) == (1, True)
    assert "(.new.run): the same command with --resume ends it." in done.stderr
