"""What `summarize`, `synthesize` and `write` say while they run, in this process: a tiny language model writes."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("numba")

import dptext as dp
import tiny_language
from dptext.cli import corpus_runs
from dptext.cli.app import app
from dptext.cli.terminal import counted

PRIVATE_N: Final = 137
WEIGHTS: Final = "5" * 64  # sha256
POOL: Final = ("--public", "pool.csv", "--text-field", "letter", "--label-field", "topic")
LABELLED: Final = (*POOL, "--labels", "travel,money", "--about", "130")
FAST: Final = ("--set", "encoder=glove", "--set", "words=8")
TINY: Final = ("--set", "drafts=6", "--set", "tokens=8", "--set", "vocabulary=80", "--set", "examples=0")
PROGRESS: Final = re.compile(r"^(fitting|writing): ([\d,]+) of ([\d,]+) ([a-z ]+), \d+ s", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private corpus and a pool, in the folder in which commands run. The model is tiny, each call shows progress."""
    for name, n, seed in (("private", PRIVATE_N, 1), ("pool", 80, 2)):
        records = dp.sample_records(n, seed=seed)
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("letter", "topic"), *((each.text, each.label) for each in records)])
    model = replace(tiny_language.model(), digest=WEIGHTS)
    for module in tiny_language.LOADING:
        monkeypatch.setattr(f"{module}.load_language_model", lambda _: model)
    monkeypatch.setattr("dptext.synthesis.writer.is_readable", bool)  # this model writes few spaces
    monkeypatch.setattr(corpus_runs, "counted", partial(counted, every=0.0))
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def ran(*given: object) -> Result:
    done = CliRunner().invoke(app, [*map(str, given)])
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done


def progress(said: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Done and whole of each line of progress, by its title and what is counted."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for title, done, whole, what in PROGRESS.findall(said):
        found.setdefault((title, what), []).append((int(done.replace(",", "")), int(whole.replace(",", ""))))
    return found


def test_progress_is_shown_while_drafts_are_written_and_public_texts_are_read(folder: Path) -> None:
    done = ran("summarize", "private.csv", "a.summary", *LABELLED, *FAST, "--with", "words", *TINY)
    found = progress(done.stderr)
    drafts, read = found["fitting", "public drafts written"], found["fitting", "public texts read"]
    assert [whole for _, whole in drafts] == [12] * len(drafts)
    assert len(drafts) > 8  # more often than once a label
    assert drafts == sorted(drafts)
    assert (drafts[0][0], drafts[-1][0]) == (0, 12)
    assert read[-1][0] == read[-1][1]
    assert [*found] == [("fitting", "public drafts written"), ("fitting", "public texts read")]
    assert " s more" in done.stderr
    assert str(PRIVATE_N) not in done.stderr  # progress tells nothing of the private corpus
    assert done.stderr.splitlines()[-1].startswith("Summing up the private corpus. No progress is shown")


def test_progress_is_shown_while_steering_writes_after_the_private_corpus_is_summed_up(folder: Path) -> None:
    steering = ("--set", "size=10", "--set", "matches=1", "--set", "options=40", "--set", "temperature=2.0")
    done = ran("synthesize", "private.csv", "out.csv", "-m", "steering", *LABELLED, "--set", "encoder=glove", *TINY,
               *steering)  # fmt: skip
    before, _, after = done.stderr.partition("Summing up the private corpus.")
    assert [*progress(before)] == [("fitting", "public drafts written")]
    found = progress(after)
    assert [*found] == [("writing", "texts")]
    texts = found["writing", "texts"]
    assert len(texts) > 8
    assert texts == sorted(texts)
    assert texts[0][0] == 0
    assert texts[-1][0] == texts[-1][1] in range(2 * 6 * 2 + 15, 2 * 6 * 2 + 18)


def test_a_synthesis_without_a_callback_is_fitted_without_progress(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A synthesis of another package need not take `on_progress`."""
    from dptext.synthesis.prototypes import Prototypes

    fit = Prototypes.fit
    monkeypatch.setattr(Prototypes, "tells", False)
    monkeypatch.setattr(Prototypes, "fit", lambda self, *, public, seed=None: fit(self, public=public, seed=seed))
    done = ran("synthesize", "private.csv", "out.csv", *LABELLED, *FAST)
    assert not progress(done.stderr)
    assert Path("out.csv").is_file()
