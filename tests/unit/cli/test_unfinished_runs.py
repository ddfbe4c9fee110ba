"""What is said of a run that a signal stopped: what lies there, which option goes on, and what is paid."""

from pathlib import Path

import pytest

from dptext.cli.privatize import _left_there
from dptext.runs.plan import Plan
from dptext.runs.states import state_path

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
