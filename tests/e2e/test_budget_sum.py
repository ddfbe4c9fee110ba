"""`dptext budget` says why several charges cost less together than their sum."""

from __future__ import annotations

from pathlib import Path

import dptext as dp
from commands import dptext


def test_charges_of_noise_cost_less_than_their_sum_and_the_sum_stands_beside(tmp_path: Path) -> None:
    for name, seed in (("private", 1), ("public", 2)):
        rows = [f'"{each.text}",{each.label}' for each in dp.sample_records(60, seed=seed)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", "utf-8")
    ledger = ("--ledger", "books.db")
    limit = ("--epsilon", 5, "--delta", 1e-5, "--unit", "document", "--relation", "add_or_remove_one")
    assert dptext("budget", "open", "letters", *limit, *ledger, cwd=tmp_path).returncode == 0
    for i in range(3):
        how = ("--public", "public.csv", "--about", 60, "--label-field", "label", "--labels", "health,money")
        fast = ("--set", "encoder=glove", "--set", "words=8", "--account", "letters", *ledger)
        done = dptext("summarize", "private.csv", f"{i}.summary", *how, *fast, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        for command in ("show", "log"):
            shown = dptext("budget", command, "letters", *ledger, cwd=tmp_path).stdout
            assert ("Each charge alone" in shown) == (i > 0)
    said = "Each charge alone, added up, would be epsilon 3. The 3 charges cost 1.825 together, as their noise is "
    assert said in dptext("budget", "show", "letters", *ledger, cwd=tmp_path).stdout
    assert said in dptext("budget", "log", "letters", *ledger, cwd=tmp_path).stdout


def test_charges_that_add_up_are_not_explained(tmp_path: Path) -> None:
    rows = ["a letter of some words"] * 3
    (tmp_path / "in.txt").write_text("\n".join(rows) + "\n", "utf-8")
    ledger = ("--ledger", "books.db")
    assert (
        dptext("budget", "open", "notes", "--epsilon", 900, "--unit", "document", *ledger, cwd=tmp_path).returncode == 0
    )
    words = ("-m", "word_metric", "-s", "epsilon=0.01", "-s", "noise=tem", "-s", "n_words=50", "-s", "max_tokens=5")
    for i in range(2):
        paid = ("-s", "diameter=100.0", "--account", "notes", *ledger)
        done = dptext("privatize", "in.txt", f"{i}.txt", "--record", "line", *words, *paid, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    shown = dptext("budget", "show", "notes", *ledger, cwd=tmp_path)
    assert shown.returncode == 0
    assert "Each charge alone" not in shown.stdout
