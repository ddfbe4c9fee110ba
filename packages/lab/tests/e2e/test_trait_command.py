"""`dptext audit trait`: from two files to a table, exit codes, and no text in anything that is printed or written."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from hashed_words import HashedWords
from vectors import WORDS

CANARY = "zqxcanaryxv"


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedWords())


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Ninety texts of either set, six of a document; each set likes four words."""
    rng = np.random.default_rng(0)
    paths = []
    for side, name in enumerate("ab"):
        lines = []
        for i in range(90):
            words = [*rng.choice(WORDS[100:], 5), *rng.choice(WORDS[side * 10 : side * 10 + 4], 2)]
            text = f"{' '.join(rng.permutation(words))} {CANARY}"
            lines.append(json.dumps({"body": text, "doc": f"{CANARY}{side}{i // 6}", "kind": f"{CANARY}{side}"}))
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("\n".join(lines) + "\n", "utf-8")
    return paths[0], paths[1]


LESS = ["--text-field", "body", "--attacked", 25, "--seed", 1]
FEW = [*LESS, "--training", 50]


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def redacting(level: float) -> list[str]:
    return ["--mechanism", "random_redaction", "--set", f"level={level}"]


def test_from_two_files_to_a_table(two: tuple[Path, Path], tmp_path: Path) -> None:
    found, said = {}, ""
    for level in (0.1, 1.0):
        code, out, err = dptext("audit", "trait", *two, *FEW, *redacting(level), "--json", "--group-field", "doc")
        assert code == 0, err
        found[level] = json.loads(out)
        said += out + err
    low, high = ({row["name"]: row for row in found[level]["attacks"]} for level in (0.1, 1.0))
    assert len(low) == 9
    name = "TF-IDF, linear, adaptive"
    assert low[name]["accuracy"]["low"] > 0.6
    assert low[name]["auc"]["low"] > 0.6
    assert high[name]["accuracy"]["value"] == 0.5
    assert low[name]["similarity"]["low"] > high[name]["similarity"]["high"]
    assert found[0.1]["epsilon_lower_bound"] > 0 == found[1.0]["epsilon_lower_bound"]
    assert found[0.1]["refuted"] is False
    assert found[0.1]["signature"]["seed"] == 1

    releases = [tmp_path / "a.out.jsonl", tmp_path / "b.out.jsonl"]
    for path, released in zip(two, releases, strict=True):
        code, _, err = dptext("privatize", path, released, *redacting(0.1), "--text-field", "body")
        assert code == 0, err
    given = ["--released-a", releases[0], "--released-b", releases[1], "--attacker", "tfidf"]
    report = tmp_path / "report.json"
    code, out, err = dptext("audit", "trait", *two, *FEW, *given, "--out", report, "--details")
    assert code == 0, err
    for shown in ("TF-IDF, linear, static", "TF-IDF, linear, adaptive", "control: ", "originals: ", "majority"):
        assert f"| {shown}" in out
    assert "50 training texts and 25 attacked texts of each" in out
    assert "no guarantee" in out
    assert out.startswith("Attackers tell the two sets apart better than by guessing: the best is right for ")
    assert "attackers: 3 of 3 trained" in err
    assert "they are not private" in err
    written = json.loads(report.read_text("utf-8"))
    assert written["attacks"][1]["accuracy"]["low"] > 0.6  # another order of releases would be at chance
    assert CANARY not in said + out + err + report.read_text("utf-8")


def test_a_claim_is_refuted_with_1(two: tuple[Path, Path]) -> None:
    quick = [*FEW, *redacting(0.0), "--attacker", "tfidf"]
    code, out, err = dptext("audit", "trait", *two, *quick, "--claim", 0.2)
    assert code == 1, err
    assert out.startswith("The claim of epsilon 0.2, delta 0, of the two sets is refuted: at least epsilon ")
    assert "control" not in out
    code, out, _ = dptext("audit", "trait", *two, *quick, "--claim", 50, "--json")
    assert code == 0
    assert (json.loads(out)["claim"], json.loads(out)["refuted"]) == (50, False)
    code, out, _ = dptext("audit", "trait", *two, *quick, "--claim", 50)
    assert "Nothing refutes the claim of epsilon 50, delta 0, of the two sets: at least epsilon " in out


def test_a_mechanism_that_learns_from_labels(two: tuple[Path, Path], tmp_path: Path) -> None:
    public = tmp_path / "public.jsonl"
    public.write_text("".join(path.read_text("utf-8") for path in two), "utf-8")
    smart = ["--mechanism", "smart_redaction", "--set", "level=0.5", "--public", public, "--attacker", "tfidf"]
    code, out, err = dptext("audit", "trait", *two, *FEW, *smart, "--label-field", "kind", "--without-guarantee")
    assert code == 0, err
    assert "150 of the texts are in --public" in err
    assert CANARY not in out + err
    for missing, wanted in ((["--label-field", "kind"], "--without-guarantee"), ([], "--label-field NAME")):
        code, out, err = dptext("audit", "trait", *two, *FEW, *smart, *missing)
        assert code == 2
        assert wanted in err
        assert CANARY not in out + err


def test_the_transformer_is_an_attacker(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings reach it; itself it is tried in tests of its own."""
    pytest.importorskip("torch")
    from dptext_lab.classifiers import fine_tuning

    asked = []

    def stand_in(schedule, *, on_epoch):
        asked.append(schedule)
        on_epoch(1, 2, 0.5)
        return lambda texts, is_first, vectors, seed: lambda found: np.zeros(len(found))

    monkeypatch.setattr(fine_tuning, "train_transformer", stand_in)
    options = [*redacting(0.5), "--attacker", "transformer", "--attacker", "mlp", "--epochs", 2, "--top-layers", 3]
    code, out, err = dptext("audit", "trait", *two, *FEW, *options)
    assert code == 0, err
    assert asked == [fine_tuning.FineTuning(epochs=2, top_layers=3)]
    assert "| transformer, top layers 3, epochs 2, adaptive" in out
    assert "| sentence encoder, MLP, adaptive" in out
    assert "transformer: epoch 1 of 2" in err


def test_bad_usage_ends_with_2_and_names_no_text(two: tuple[Path, Path], tmp_path: Path) -> None:
    words = redacting(0.5)
    for arguments, wanted, status in (
        (FEW, "Expected one of --mechanism", 2),
        ([*FEW, *words, "--released-a", two[0]], "Expected one of --mechanism", 2),
        ([*FEW, "--released-a", two[0]], "both --released-a", 2),
        ([*FEW, "--released-a", two[0], "--released-b", two[1], "--public", two[0]], "that is to be fitted on it", 2),
        ([*FEW, *words, "--public", two[0]], "no --public", 2),
        ([*FEW, *words, "--label-field", "kind"], "--label-field", 2),
        ([*FEW, *words, "--attacker", "oracle"], "--attacker", 2),
        ([*FEW, *words, "--attacker", "mlp", "--attacker", "mlp"], "each --attacker once", 2),
        ([*LESS, *words, "--training", 80], "found", 2),
        ([*LESS, *words, "--training", 0], "training=0", 2),
        ([*FEW, *words, "--claim", -1], "claim=-1", 2),
        ([*FEW, *words, "--delta", 2], "delta=2", 2),
        ([*FEW, *words, "--out", tmp_path / "no" / "folder.json", "--attacker", "tfidf"], "Cannot write", 2),
        ([*FEW, "--mechanism", "adept", "--set", "epsilon=1"], "--public FILE", 2),
        ([*words, "--text-field", "nothing"], "nothing", 4),
    ):
        code, out, err = dptext("audit", "trait", *two, *arguments)
        assert code == status, (arguments, out, err)
        assert wanted in err, (arguments, err)
        assert CANARY not in out + err
