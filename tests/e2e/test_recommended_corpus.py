"""What `dptext recommend --of corpus` says is what the results say, and its commands work."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from commands import dptext
from dptext.sampling.randomness import seeded
from trees import ROOT


def told(*given: str) -> str:
    return dptext("recommend", "--of", "corpus", "--epsilon", "1", *given).stdout


def splits(said: str) -> str:
    found = re.search(r"by more than 0\.02 of accuracy on (\d+ of \d+) splits", said)
    assert found is not None
    return found[1]


def test_the_number_of_splits_is_that_of_the_results() -> None:
    results = " ".join((ROOT / "docs" / "results" / "synthesis.md").read_text("utf-8").split())
    by_document, by_author = splits(told()), splits(told("--unit", "author"))
    assert f"by more than .02 of accuracy, on {by_document} splits by document and {by_author} by author" in results


def test_nothing_reads_as_measured_that_was_not() -> None:
    of_corpus = dptext("recommend", "--of", "corpus", "--epsilon", "8").stdout.splitlines()
    assert ": at epsilon 4 and delta 1e-05 per document " in of_corpus[0]
    assert of_corpus[1] == (
        "Nothing was measured at epsilon 8 per document: the numbers are of epsilon 4 or less. The commands below take "
        "that epsilon."
    )
    assert "Nothing was measured" not in told()
    for task in ("classification", "meaning", "authorship"):
        first, second, *_ = dptext("recommend", "--of", "texts", "--epsilon", "8", "--task", task).stdout.splitlines()
        assert "p to epsilon 5 per document" in first
        assert second.startswith("Nothing was measured at epsilon 8 per document: the numbers are of epsilon 5 or less")
    data = json.loads(dptext("recommend", "--epsilon", "8", "--json").stdout)
    assert (5.0 in data["measured_epsilons"], 8.0 in data["measured_epsilons"]) == (True, False)


@pytest.mark.parametrize(
    ("asked", "said", "epsilon"),
    [
        ("8", "The next command gives epsilon 8 per document, as asked, though it was not measured.", "8"),
        ("300", "The next command gives epsilon 288 per document, which was measured.", "12.0"),
        ("10", "", "10.0"),
    ],
)
def test_the_next_command_says_whether_its_epsilon_was_asked_or_measured(asked: str, said: str, epsilon: str) -> None:
    told = dptext("recommend", "--of", "texts", "--task", "meaning", "--epsilon", asked).stdout
    assert re.findall("^The next command.*", told, re.M) == ([said] if said else [])
    assert re.findall(r"^Next: .* --set epsilon=(\S+) ", told, re.M) == [epsilon]
    assert ("snips: none up to epsilon 5\n" in told) == (asked == "8")
    assert ("up to 96.8%" in told) == (asked == "8")  # the law's bound is of the epsilon of the command


def test_what_public_text_beats_is_never_under_measured_best() -> None:
    for epsilon in ("0.5", "1", "2", "4"):
        for unit in ("document", "author"):
            said = dptext("recommend", "--of", "corpus", "--epsilon", epsilon, "--unit", unit).stdout
            lines = re.findall(r"^  .*:( take none)?.* classifier ([\d.]+) \(public text ([\d.]+)", said, re.M)
            assert lines or said.startswith("Take none: ")
            for none, own, public in lines:
                assert none or float(own) > float(public) + 0.02
    for epsilon in ("2", "10", "20"):
        said = dptext("recommend", "--of", "texts", "--epsilon", epsilon).stdout
        for none, own, public in re.findall(
            r"^  .*?:( take none)?.* accuracy ([\d.]+) \(public.only ([\d.]+)", said, re.M
        ):
            assert none or float(own) > float(public)


def test_the_commands_measure_once_and_write(tmp_path: Path) -> None:
    for name, seed in (("PRIVATE", 1), ("POOL", 2)):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = ((each.text, each.label) for each in dp.sample_records(90, seed=seed))
            csv.writer(file).writerows((("text", "LABEL"), *rows))
    given = {"PRIVATE": "PRIVATE.csv", "POOL": "POOL.csv", "A,B": "health,money", "N": "90"}
    lines = [line.removeprefix("Next: ").strip() for line in told().splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("dptext ")]
    assert [each[0] for each in commands] == ["summarize", "write"]
    for each in commands:
        fast = ("--set", "encoder=glove", "--set", "words=8") if each[0] == "summarize" else ()
        done = dptext(*(given.get(part, part) for part in each), *fast, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "OUT.csv").read_text("utf-8").splitlines()[0] == "id,text,LABEL"


def test_a_summary_and_its_writer_pool_are_what_was_measured_as_prototypes() -> None:
    private, pool = dp.sample_records(200, seed=1), [each.text for each in dp.sample_records(100, seed=2)]
    how: dict[str, Any] = {"label": "label", "labels": ["health", "travel", "money", "leisure"], "about": 200}
    how |= {"encoder": "glove", "words": 8}
    made = dp.synthesize(private, pool, kind="prototypes", randomness=seeded(3), **how)
    found = dp.write(dp.summarize(private, pool, randomness=seeded(3), **how), writer="pool")
    one, other = (sorted((each.output, str(each.label)) for each in corpus) for corpus in (made, found))
    assert one == other
