"""`dptext compare` and `dptext recommend` on the built-in sample texts, from a TOML file to a table and an answer."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from compared import CANARY, as_toml
from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext.text.samples import SAMPLE_LABELS, sample_records
from dptext.text.tokens import tokenize

pytestmark = pytest.mark.slow  # packages/lab/tests/compare has the grids, test_their_mechanism.py the command

RECORDS = 150


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished grid: all utilities and audits but the slow ones, one cell of which fails."""
    base = tmp_path_factory.mktemp("grid")
    known = {t.casefold() for r in sample_records(RECORDS) for line in tokenize(r.text) for t in line}
    rng = np.random.default_rng(0)
    lines = [" ".join([word, *(f"{x:.3f}" for x in rng.normal(size=8))]) for word in sorted(known)]
    (base / "vectors.txt").write_text("\n".join(lines) + "\n", "utf-8")
    own = {"vectors": str(base / "vectors.txt"), "n_words": 200}
    experiment = {
        "name": "samples",
        "seed": 3,
        "utilities": ["classification", "fidelity", "stylometry", "balance", "embedding"],
        "audits": ["authorship", "distinguish"],
        "settings": {
            "embedder": str(base / "vectors.txt"),
            "authorship": {"training": 2, "attacked": 1},
            "distinguish": {"trials": 200},
        },
        "corpora": {"sample": {"sample": RECORDS, "label": "label", "author": "author"}},
        "mechanisms": [
            {"name": "nearest", "kind": "candidates", "set": {"ranker": "tfidf"}, "document_epsilon": [20]},
            {"name": "words", "kind": "word_metric", "set": {**own, "noise": "tem", "epsilon": 2.0}},
            {"name": "spoilt", "kind": "word_metric", "set": {**own, "vectors": CANARY, "epsilon": 2.0}},
        ],
    }
    (base / "e.toml").write_text(as_toml(experiment), "utf-8")
    run = [sys.executable, "-c", "from dptext.cli.app import main; main()"]
    asked = ["compare", str(base / "e.toml"), "--out", str(base / "out"), "--workers", "1", "--memory", "4"]
    done = subprocess.run([*run, *asked], check=False, capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    assert "7 of 8 cells done, 1 failed, 8 run now" in done.stdout
    assert done.stdout.startswith("For classification ")
    assert len(done.stdout.splitlines()) <= 24
    assert "--retry" in done.stderr
    assert done.stderr.startswith("No labels are released by words, spoilt: no classifier can be trained on such")
    assert "\nNo labels are released by words: no classifier can be trained on such releases alone." in done.stdout
    return base / "out"


def test_one_table_with_references_guarantees_and_intervals(folder: Path) -> None:
    rows = json.loads((folder / "table.json").read_text("utf-8"))
    names = list(dict.fromkeys(row["row"] for row in rows))
    references = ["original", "public-only", "random", "label_only", "label_only (medoid)"]
    assert names == [*references, "nearest epsilon=20", "words", "spoilt"]
    found = {(row["row"], row["metric"]): row for row in rows}
    nearest = found["nearest epsilon=20", "classification.accuracy"]
    assert (nearest["unit"], nearest["basis"], nearest["document_epsilon"]) == ("document", "conditional", 20.0)
    assert json.loads(nearest["settings"])["labels"] == sorted(SAMPLE_LABELS)
    assert nearest["low"] <= nearest["value"] <= nearest["high"]
    assert found["original", "fidelity.cosine"]["value"] == pytest.approx(1.0)
    assert found["original", "embedding.accuracy"]["value"] > found["random", "embedding.accuracy"]["value"]
    assert found["original", "authorship.chance"]["value"] == pytest.approx(0.1)
    # words keep the label out: the classifier learned the labels of the originals, and the name of the number says so
    assert ("words", "classification.accuracy") not in found
    words = found["words", "classification.accuracy_true_labels"]
    assert words["metric_privacy"].startswith("Euclidean distance")
    assert (words["unit"], words["epsilon"], words["document_epsilon"]) == ("token", 2.0, None)
    for name in ("label_only", "nearest epsilon=20", "words"):
        assert found[name, "distinguish.refuted"]["value"] == 0
    assert found["label_only", "balance.l1_error"]["value"] >= 0
    assert "ConfigError" in found["spoilt", ""]["error"]
    cell = json.loads((folder / "cells" / f"{nearest['signature']}.json").read_text("utf-8"))
    assert cell["certificate"]["basis"] == "conditional"
    assert "per document" in cell["certificate"]["explain"]
    assert len(cell["samples"]) == 4
    assert "private_samples" not in cell


def test_nothing_is_run_again_and_a_mistake_is_named(folder: Path, tmp_path: Path) -> None:
    toml = folder.parent / "e.toml"
    code, out, _ = dptext("compare", toml, "--out", folder, "--json")
    assert code == 5
    assert json.loads(out)["run_now"] == 0
    other = tmp_path / "other.toml"
    other.write_text(re.sub("seed = 3", "seed = 4", toml.read_text("utf-8")), "utf-8")
    code, _, err = dptext("compare", other, "--out", folder)
    assert code == 2
    assert "'seed' changed" in err
    assert dptext("compare", tmp_path / "none.toml", "--out", folder)[0] == 2
    assert dptext("compare", toml, "--out", folder, "--workers", -1)[0] == 2


def test_the_answer_comes_with_its_rows_or_is_none(folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    asked = ("recommend", "--table", folder, "--unit", "document", "--task")
    code, out, _ = dptext(*asked, "meaning", "--epsilon", 20, "--reduce", small)
    assert code == 0
    assert "sample: nearest epsilon=20" in out
    assert dptext("recommend", "--table", small, "--task", "meaning", "--epsilon", 20)[1] == out
    out = dptext(*asked, "meaning", "--epsilon", 20, "--details")[1]
    assert "beside public-only: fidelity.cosine" in out
    assert "more rows do not have the guarantee that is asked for" in out
    code, out, _ = dptext(*asked, "classification", "--epsilon", 10, "--json")
    found = json.loads(out)["corpora"]["sample"]
    assert (code, found["answer"], found["qualified"]) == (0, "none", [])
    reasons = [reason for row in found["rejected"] for reason in row["reasons"]]
    assert any("is above 10" in reason for reason in reasons)
    assert any("its epsilon is per unit of" in reason for reason in reasons)
    assert dptext("recommend", "--unit", "word")[0] == 2
    assert dptext("recommend", "--task", "poetry")[0] == 2
    assert dptext("recommend", "--reduce", small)[0] == 2


def test_the_measured_table_of_the_package_is_read() -> None:
    code, out, _ = dptext("recommend", "--of", "texts", "--epsilon", 10, "--task", "classification")
    assert code == 0
    assert out.startswith("Take none: use the public texts. Up to epsilon 10 per document")
    assert re.search(r"^  snips: take none; candidates .*: accuracy 0\.\d{3} ", out, re.MULTILINE)
    assert "dptext fit" not in out
    code, out, _ = dptext("recommend", "--of", "texts", "--epsilon", 10, "--task", "meaning")
    assert code == 0
    assert out.startswith("Take candidates: up to epsilon 10 per document")
    assert "Next: dptext fit --mechanism candidates --set epsilon=10" in out
