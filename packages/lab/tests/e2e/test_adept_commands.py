"""fit, privatize --model, utility, audit membership and demo: the whole way on tiny models, with canaries."""

import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptext.cli import terminal, utility
from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext.runs.models import load_model, save_model
from dptext.text.records import Record, records_digest
from dptext.text.samples import SAMPLE_LABELS, sample_records
from dptext.utility.balance import confusion_matrix
from dptext_lab.adept.sound import Adept
from dptext_lab.cli import demo

CANARY = "zqxcanaryxv"
LABELS = f"labels={json.dumps(list(SAMPLE_LABELS))}"
TINY = {
    "epsilon": 6.0,
    "encoder": "lstm",
    "latent_dim": 8,
    "max_tokens": 12,
    "hidden": 48,
    "embedding": 24,
    "codebook_size": 40,
    "epochs": 12,
    "min_count": 1,
    "learning_rate": 0.02,
}
SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
PUBLISHED = ["--mechanism", "published_adept", *(f"--set={pair}" for pair in ("variance=1", "hidden=8", "embedding=8"))]
PUBLISHED += ["--set", "epochs=1", "--set", LABELS]


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def dptext(*arguments: object) -> Done:
    """The command line in this process: its processes are tried in test_command_line.py, and torch is slow to load."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return Done(exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


class HashedWords:
    """Stands in for the sentence encoder, which takes seconds to load: words hashed to coordinates."""

    name, dim, digest, network = "hashed words", 64, "0" * 64, None

    def embed(self, texts: Sequence[str], *, on_progress=None) -> np.ndarray:
        found = np.zeros((len(texts), self.dim))
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[hashlib.sha256(word.encode()).digest()[0] % self.dim] += 1
        if on_progress is not None:
            on_progress(len(set(texts)))
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedWords())


def write(path: Path, records: Sequence[Record]) -> Path:
    lines = [json.dumps({"text": record.text, "label": record.label, "n": i}) for i, record in enumerate(records)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@dataclass(frozen=True)
class Files:
    folder: Path
    public: Path
    private: Path
    test: Path
    model: Path
    labels_only: Path
    fit: Done
    released: Path
    privatized: Done


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """One fitted model and what it released, for all tests."""
    folder = tmp_path_factory.mktemp("adept")
    records = sample_records(260)
    private = [replace(record, text=f"{CANARY} {record.text}") for record in records[100:180]]
    public = write(folder / "public.jsonl", records[:100])
    source = write(folder / "private.jsonl", private)
    test = write(folder / "test.jsonl", records[180:])
    model, only, released = folder / "model", folder / "label_only", folder / "out.jsonl"
    adept = ["--mechanism", "adept", *SETTINGS, "--set", LABELS]
    learned = ["--set", LABELS, "--public", public, "--label-field", "label"]
    seconds = itertools.count(step=10)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(terminal.time, "monotonic", lambda: next(seconds))  # a line comes every ten seconds
        fit = dptext("fit", *adept, "--public", public, "--label-field", "label", "--out", model, "--seed", 1)
    assert dptext("fit", "--mechanism", "label_only", *learned, "--out", only).code == 0
    done = dptext("privatize", source, released, "--model", model, "--label-field", "label")
    return Files(folder, public, source, test, model, only, fit, released, done)


def test_fit_says_what_is_guaranteed_and_shows_each_epoch(files: Files) -> None:
    assert files.fit.code == 0, files.fit.err
    assert "Guaranteed (epsilon = 6), per document" in files.fit.out
    assert f"Model: {files.model}" in files.fit.out
    lines = files.fit.err.splitlines()
    assert lines[0].startswith("fitting: 1 of 12 epochs, loss ")
    assert len(lines) >= 4
    assert sorted(path.name for path in files.model.iterdir()) == [
        "autoencoder.json",
        "codebook.json",
        "codebook.npy",
        "model.json",
        "weights.safetensors",
    ]


def test_privatize_with_the_model_writes_labels_and_a_certificate_that_verifies(files: Files) -> None:
    assert files.privatized.code == 0, files.privatized.err
    rows = [json.loads(line) for line in files.released.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [str(i) for i in range(80)]
    assert {tuple(row) for row in rows} == {("id", "text", "label")}
    assert {row["label"] for row in rows} <= set(SAMPLE_LABELS)
    private = [json.loads(line)["label"] for line in files.private.read_text("utf-8").splitlines()]
    kept = np.mean([row["label"] == label for row, label in zip(rows, private, strict=True)])
    assert kept > 0.5  # epsilon 6 on 40 utterances; swapped or shuffled rows would keep a quarter
    told = dptext("explain", f"{files.released}.guarantee.json")
    assert told.code == 0, told.err
    assert "Verified" in told.out
    certificate = json.loads(Path(f"{files.released}.guarantee.json").read_text("utf-8"))
    assert certificate["settings"]["labels"] == list(SAMPLE_LABELS)
    assert certificate["guarantees"][0]["epsilon"] == 6


def test_a_released_file_is_explained_by_its_certificate_and_a_model_by_its_settings(
    files: Files, tmp_path: Path
) -> None:
    named = f"{files.released}.guarantee.json"
    told = dptext("explain", files.released)
    assert told.code == 0, told.err
    assert told.out == dptext("explain", named).out
    assert told.err == f"Read: {named}, beside {files.released}.\n"
    renamed = tmp_path / "b.jsonl"  # not what the certificate beside it speaks of, though that file is there, too
    renamed.write_text("raw text\n", "utf-8")
    (tmp_path / files.released.name).write_bytes(files.released.read_bytes())
    Path(f"{renamed}.guarantee.json").write_bytes(Path(f"{files.released}.guarantee.json").read_bytes())
    wrong = dptext("explain", renamed)
    assert (wrong.code, "Verified" in wrong.out, "another name" in wrong.err) == (4, False, True)
    model = dptext("explain", files.model)
    assert model.code == 0, model.err
    assert "Guaranteed (epsilon = 6), per document" in model.out
    assert "model.json" in model.err
    assert json.loads(dptext("explain", files.model, "--json", "--unit", "document").out)["settings"]["kind"] == "adept"
    assert dptext("explain", files.model, "--unit", "token").code == 2


def test_a_wrong_field_is_told_without_options_that_the_command_lacks(files: Files) -> None:
    fit = ["fit", "--mechanism", "adept", *SETTINGS, "--public", files.public, "--out", files.folder / "new"]
    common = ["--public", files.public, "--label-field", "label"]
    wrong = [
        [*fit, "--text-field", "txt"],
        [*fit, "--set", LABELS, "--label-field", "lbl"],
        ["utility", "fidelity", files.private, files.released, *common, "--text-field", "txt"],
        ["audit", "membership", files.private, "--label-field", "lbl"],
        ["audit", "authorship", files.private, "--author-field", "who", "-m", "word_metric", "-s", "epsilon=1"],
        [
            "audit",
            "trait",
            files.private,
            files.test,
            "--text-field",
            "txt",
            "-m",
            "random_redaction",
            "-s",
            "level=.5",
        ],
    ]
    for arguments in wrong:
        failed = dptext(*arguments)
        assert failed.code == 4, failed.err
        assert "is missing (name another" in failed.err
        assert "on-error" not in failed.err
        assert "on_error" not in failed.err
    out = files.folder / "never.jsonl"
    offered = dptext("privatize", files.private, out, "--model", files.model, "--label-field", "lbl")
    assert "--on-error skip" in offered.err


def test_no_canary_leaves(files: Files) -> None:
    common = [files.private, files.released, "--public", files.public, "--label-field", "label", "--seed", 1]
    said = [
        files.privatized,
        dptext("utility", "fidelity", *common),
        dptext("utility", "classification", *common, "--test", files.test, "--json"),
        dptext("utility", "balance", *common, "--model", files.model),
        dptext("audit", "membership", files.private, "--label-field", "label", "--model", files.model, "--seed", 1),
        dptext("utility", "fidelity", files.private, files.test, *common[2:], "--epsilon", 1),
        dptext("audit", "membership", files.private, "--label-field", "text"),
        dptext("audit", "membership", files.private, "--label-field", CANARY[:3]),
    ]
    assert [done.code for done in said] == [0, 0, 0, 0, 0, 2, 2, 4]
    assert not any(CANARY in done.out + done.err for done in said)
    for path in files.folder.rglob("*"):
        if path.is_file() and path != files.private:
            assert CANARY.encode() not in path.read_bytes(), path


@pytest.mark.slow_cases("out.csv.gz", why="what is not packed stays")
@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_labels_come_back_from_csv(files: Files, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    done = dptext("privatize", files.private, target, "--model", files.model, "--label-field", "label")
    assert done.code == 0, done.err
    common = ["--public", files.public, "--label-field", "label", "--json", "--seed", 1]
    found = json.loads(dptext("utility", "fidelity", files.private, target, *common).out)
    assert found["rows"]["adept"]["fidelity"]["label_kept"]["value"] > 0.5


def test_a_model_of_another_device_is_used_on_this_one(files: Files, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "out.jsonl"
    mechanism = load_model(files.model)
    assert isinstance(mechanism.spec, Adept)
    elsewhere = replace(mechanism.spec, device="meta")  # torch knows it, and computes nothing there
    object.__setattr__(mechanism, "spec", elsewhere)
    save_model(mechanism, model)
    given = ["privatize", files.private, out, "--model", model, "--label-field", "label"]
    refused = dptext(*given)
    assert (refused.code, "use device='cpu'" in refused.err, out.exists()) == (2, True, False)
    done = dptext(*given, "--device", "cpu")
    assert done.code == 0, done.err
    assert json.loads(Path(f"{out}.guarantee.json").read_text("utf-8"))["settings"]["device"] == "cpu"
    assert "Verified" in dptext("explain", f"{out}.guarantee.json").out
    common = ["--public", files.public, "--label-field", "label", "--seed", 1, "--json"]
    corrected = dptext("utility", "balance", files.private, out, *common, "--model", model)
    assert corrected.code == 0, corrected.err


# ------------------------------------------------------------------------------------------------------- utility


def test_an_epsilon_is_taken_from_a_certificate_that_holds_only(files: Files, tmp_path: Path) -> None:
    """An edited guarantee says nothing of the bytes, but does not follow from the settings."""
    released = tmp_path / "out.jsonl"
    released.write_bytes(files.released.read_bytes())
    written = Path(f"{files.released}.guarantee.json").read_text("utf-8")
    data = json.loads(written)
    common = ["--public", files.public, "--label-field", "label", "--seed", 1]
    for epsilon, code in ((data["guarantees"][0]["epsilon"], 0), (1.0, 4)):
        data["guarantees"][0]["epsilon"] = epsilon
        Path(f"{released}.guarantee.json").write_text(json.dumps(data), "utf-8")
        done = dptext("utility", "fidelity", files.private, released, *common)
        assert done.code == code, done.err
        assert CANARY not in done.err


@pytest.mark.slow  # test_a_small_demo_shows_everything has the rows, and test_no_canary_leaves the command
def test_every_row_stands_beside_the_mechanism(files: Files) -> None:
    common = [files.private, files.released, "--public", files.public, "--label-field", "label", "--seed", 1]
    brief = dptext("utility", "classification", *common, "--test", files.test)
    assert brief.out.startswith("For classification this release is worth less than public text alone: .")
    assert brief.out.splitlines()[1].startswith("The meaning of single texts is ")
    assert len(brief.out.splitlines()) <= 24
    assert "own first" not in brief.out
    shown = dptext("utility", "classification", *common, "--test", files.test, "--details")
    assert shown.code == 0, shown.err
    assert shown.err.count("they are not private") == 1
    assert "accuracy" in shown.out
    assert "own first of 80" in shown.out
    data = json.loads(dptext("utility", "classification", *common, "--test", files.test, "--json").out)
    assert list(data["rows"]) == [
        "original",
        "adept",
        "label_only (random)",
        "label_only (medoid)",
        "candidates",
        "public-only",
        "random",
    ]
    assert data["epsilon"] == 6
    kept = {name: row["fidelity"]["label_kept"]["value"] for name, row in data["rows"].items()}
    assert kept["original"] == 1
    assert kept["label_only (random)"] > 0.9  # 1 / (1 + 3 / e^6) = .993
    assert kept["random"] < 0.5
    assert all(row["classification"] for row in data["rows"].values())
    only = json.loads(dptext("utility", "fidelity", *common, "--json").out)
    assert not any(row["classification"] for row in only["rows"].values())
    assert only["rows"]["adept"]["fidelity"] == data["rows"]["adept"]["fidelity"]
    other = json.loads(dptext("utility", "fidelity", *common, "--json", "--epsilon", 0.01).out)
    assert other["rows"]["label_only (random)"]["fidelity"]["label_kept"]["value"] < 0.5


def test_the_balance_is_recovered_in_all_ways(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    common = [files.private, files.released, "--public", files.public, "--label-field", "label", "--seed", 1]
    data = json.loads(dptext("utility", "balance", *common, "--model", files.model, "--json").out)
    assert list(data["l1_error"]) == [
        "public-only",
        "label randomized response, debiased",
        "adept, as released",
        "adept, debiased by public texts",
    ]
    assert all(0 <= error["low"] <= error["value"] <= error["high"] <= 2 for error in data["l1_error"].values())
    assert data["l1_error"]["label randomized response, debiased"]["value"] < 0.1  # epsilon 6 loses 1 label in 140
    asked = []
    monkeypatch.setattr(
        utility, "confusion_matrix", lambda true, *rest: asked.append(true) or confusion_matrix(true, *rest)
    )
    for held_out, said in (([], True), (["--held-out", files.test], False)):
        corrected = dptext("utility", "balance", *common, "--model", files.model, *held_out)
        assert corrected.code == 0, corrected.err
        assert ("biased where" in corrected.out) == said
    assert [len(labels) for labels in asked] == [5 * 100, 5 * 80]  # five releases of the records of each file
    shown = dptext("utility", "balance", *common)
    assert shown.code == 0, shown.err
    assert "debiased by public" not in shown.out
    alone = dptext("utility", "balance", *common, "--held-out", files.test)
    assert (alone.code, "--model" in alone.err) == (2, True)


def test_releases_of_words_need_the_labels_named(files: Files, tmp_path: Path, vectors: Path) -> None:
    out = tmp_path / "words.jsonl"
    metric = ["--mechanism", "word_metric", "--set", "epsilon=8", "--set", f"vectors={vectors}", "--set", "n_words=300"]
    assert dptext("privatize", files.private, out, *metric).code == 0
    common = ["utility", "fidelity", files.private, out, "--public", files.public, "--seed", 1, "--json"]
    plain = json.loads(dptext(*common).out)
    assert list(plain["rows"]) == ["original", "word_metric", "public-only", "random"]
    assert "The row candidates is missing" in dptext(*common[:-1]).out
    spent = json.loads(dptext(*common, "--epsilon", 2).out)
    assert list(spent["rows"]) == ["original", "word_metric", "candidates", "public-only", "random"]
    named = [part for label in SAMPLE_LABELS for part in ("--label", label)]
    assert "--label NAME" in dptext(*common, "--label-field", "label").err
    assert "--epsilon" in dptext(*common, "--label-field", "label", *named).err  # it guarantees words only
    full = json.loads(dptext(*common, "--label-field", "label", *named, "--epsilon", 2).out)
    assert len(full["rows"]) == 7
    assert full["rows"]["word_metric"]["fidelity"]["label_kept"] is None


def test_other_releases_than_the_original_ones_are_refused(files: Files, tmp_path: Path) -> None:
    common = ["--public", files.public, "--label-field", "label", "--epsilon", 1, "--seed", 1]
    common += [part for label in SAMPLE_LABELS for part in ("--label", label)]
    lines = files.released.read_text("utf-8").splitlines()
    copy = tmp_path / "copy.jsonl"
    copy.write_text("\n".join(lines) + "\n", "utf-8")
    assert dptext("utility", "fidelity", files.private, copy, *common).code == 0
    for wrong, said in ((lines[:-1], "each of the 80 originals, found 79"), (lines[::-1], "--id-field")):
        copy.write_text("\n".join(wrong) + "\n", "utf-8")
        refused = dptext("utility", "fidelity", files.private, copy, *common)
        assert refused.code == 2
        assert said in refused.err
    certificate = Path(f"{files.released}.guarantee.json").read_text("utf-8")
    (tmp_path / "copy.jsonl.guarantee.json").write_text(certificate.replace("out.jsonl", "copy.jsonl"), "utf-8")
    assert dptext("utility", "fidelity", files.private, copy, *common[:4]).code == 4  # another sha256


def test_the_balance_is_not_corrected_by_another_model(files: Files) -> None:
    common = [files.private, files.released, "--public", files.public, "--label-field", "label"]
    refused = dptext("utility", "balance", *common, "--model", files.labels_only)
    assert refused.code == 2
    assert "names another" in refused.err


# ---------------------------------------------------------------------------------------------------- membership


def test_membership_finds_members_of_a_classifier_and_fewer_behind_the_mechanism(files: Files, tmp_path: Path) -> None:
    records = write(tmp_path / "records.jsonl", [*sample_records(160, seed=5), *sample_records(10, seed=5)])
    figure = tmp_path / "roc.svg"
    common = ["audit", "membership", records, "--label-field", "label", "--attack", "loss", "--seed", 1]
    plain = dptext(*common, "--json", "--figure", figure)
    assert plain.code == 0, plain.err
    assert figure.read_text("utf-8").startswith("<?xml")
    assert figure.stat().st_mode & 0o777 == 0o600
    data = json.loads(plain.out)
    assert data["duplicates"] >= 10
    own = data["results"]["loss"]
    assert own["main"]["auc"]["low"] > 0.6
    assert own["control"]["auc"]["value"] < own["main"]["auc"]["low"]
    behind = json.loads(dptext(*common, "--json", "--model", files.model).out)["results"]["loss"]
    assert behind["main"]["auc"]["value"] < own["main"]["auc"]["low"]


@pytest.mark.parametrize("attack", ["shokri", "lira"])
def test_every_attack_prints_control_baselines_and_what_it_is_no_test_of(
    files: Files, tmp_path: Path, attack: str
) -> None:
    common = ["audit", "membership", files.private, "--label-field", "label", "--attack", attack]
    common += ["--shadows", 4] if attack == "lira" else []
    done = dptext(*common, "--figure", tmp_path / "roc.svg", "--details")
    assert done.code == 0, done.err
    for line in ("  attack ", "  control ", "  baseline  no look at the model", "only a proxy"):
        assert line in done.out
    assert "80" not in dptext(*common, "--json").err  # members are a half at most


def test_reconstruction_trains_on_the_members_itself(files: Files) -> None:
    common = ["audit", "membership", files.private, "--label-field", "label", "--attack", "reconstruction", *PUBLISHED]
    refused = dptext(*common)
    assert refused.code == 2
    assert "--without-guarantee" in refused.err
    done = dptext(*common, "--without-guarantee", "--seed", 1, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["results"]["reconstruction"]
    assert found["members"] == found["non_members"] == 40
    assert "reconstruction loss of published_adept" in found["main"]["name"]
    assert "loss " not in done.err  # what private text did to the training is not shown
    adept = ["--mechanism", "adept", *SETTINGS, "--set", LABELS, "--public", files.public]
    refused = dptext(*common[:5], "reconstruction", *adept, "--attack", "reconstruction")
    assert refused.code == 2


def test_a_given_model_is_attacked_by_its_losses(files: Files, tmp_path: Path) -> None:
    public, other = sample_records(260)[:100], sample_records(260)[180:]
    members = write(tmp_path / "members.jsonl", [*public, public[0]])
    others = write(tmp_path / "others.jsonl", [*other, *public[:10]])  # a text of both is a member's
    common = ["audit", "membership", members, "--label-field", "label", "--attack", "reconstruction", "--seed", 1]
    common += ["--model", files.model, "--others", others]
    data = json.loads(dptext(*common, "--json").out)
    found = data["results"]["reconstruction"]
    distinct = len({record.text.lower() for record in public})
    fresh = len({record.text.lower() for record in other} - {record.text.lower() for record in public})
    assert found["members"] == found["non_members"] == fresh < distinct
    assert data["left_over"] == distinct - fresh
    assert data["duplicates"] == 101 + 90 - distinct - fresh
    assert found["main"]["auc"]["low"] > 0.55 > found["control"]["auc"]["value"]  # it was trained on these very texts
    assert "membership permuted" in found["control"]["name"]
    shown = dptext(*common, "--details")
    for part in ("loss of the given adept", "no trained control", "  baseline  no look at the model"):
        assert part in shown.out


# ------------------------------------------------------------------------------------------------------ fitting


def test_a_model_of_private_text_says_so(files: Files, tmp_path: Path) -> None:
    model = tmp_path / "model"
    done = dptext("fit", *PUBLISHED, "--private", files.private, "--label-field", "label", "--out", model)
    assert done.code == 0, done.err
    assert "as private as that text" in done.err
    assert "loss" not in done.err
    assert "No guarantee" in done.out
    assert "--without-guarantee" in done.out
    assert CANARY not in done.out + done.err
    common = ["privatize", files.private, tmp_path / "out.jsonl", "--model", model, "--label-field", "label"]
    assert "--without-guarantee" in dptext(*common).err
    released = dptext(*common, "--without-guarantee")
    assert released.code == 0, released.err


def test_word_mechanisms_are_saved_without_any_text(files: Files, tmp_path: Path, vectors: Path) -> None:
    metric = ["--mechanism", "word_metric", "--set", "epsilon=8", "--set", f"vectors={vectors}", "--set", "n_words=300"]
    done = dptext("fit", *metric, "--out", tmp_path / "model", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["guarantees"][0]["epsilon"] == 8
    out = tmp_path / "out.jsonl"
    assert dptext("privatize", files.private, out, "--model", tmp_path / "model").code == 0
    refused = dptext("privatize", files.private, out, "--model", tmp_path / "model", "--label-field", "label")
    assert refused.code == 2
    assert "does not privatize labels" in refused.err


def test_candidates_from_a_pool(files: Files, tmp_path: Path) -> None:
    pool, model, out = tmp_path / "pool.jsonl", tmp_path / "model", tmp_path / "out.jsonl"
    texts = [f"{record.text} now" for record in sample_records(20, seed=8)]
    pool.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    tfidf = ["--mechanism", "candidates", "--set", "epsilon=2", "--set", "ranker=tfidf"]
    done = dptext("fit", *tfidf, "--public", files.public, "--pool", pool, "--out", model, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["digests"]["pool"] == records_digest(Record("", text) for text in texts)
    assert dptext("privatize", files.private, out, "--model", model).code == 0
    assert {json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()} <= set(texts)


def words(line: str) -> list[str]:
    return line.split()


ADEPT = ["--mechanism", "adept", "--set", "epsilon=2"]
WRONG = {
    "labels are not read from text": (
        ["fit", *ADEPT, "--public", "PUBLIC", "--label-field", "label", "--out", "new"],
        "--set labels=",
    ),
    "a label field is wanted": (
        ["fit", *ADEPT, "--set", LABELS, "--public", "PUBLIC", "--out", "new"],
        "--label-field",
    ),
    "public text is wanted": (["fit", *ADEPT, "--out", "new"], "--public FILE"),
    "no private text": (["fit", *ADEPT, "--private", "PUBLIC", "--out", "new"], "published_adept"),
    "nothing to choose among": (
        ["fit", *ADEPT, "--public", "PUBLIC", "--pool", "PUBLIC", "--out", "new"],
        "deep_candidate, candidates, sentdp",
    ),
    "a pool beside public text": (
        ["fit", "-m", "candidates", "-s", "epsilon=1", "--pool", "PUBLIC", "--out", "new"],
        "--public FILE",
    ),
    "no labels for words": (
        ["fit", "-m", "word_metric", "-s", "epsilon=1", "--label-field", "label", "--out", "new"],
        "does not privatize labels",
    ),
    "a folder in use": (["fit", *ADEPT, "--public", "PUBLIC", "--out", "MODEL"], "absent or empty"),
    "fit first": (["privatize", "PRIVATE", "new.jsonl", *ADEPT], "dptext fit"),
    "label_only, too": (["privatize", "PRIVATE", "new.jsonl", "-m", "label_only", "-s", LABELS], "dptext fit"),
    "one of three": (["privatize", "PRIVATE", "new.jsonl", *ADEPT, "--model", "MODEL"], "one of --mechanism"),
    "no such device to fit on": (
        ["fit", *ADEPT, "--set", "encoder=lstm", "--set", "device=foo", "--public", "PUBLIC", "--out", "new"],
        "Expected device='foo' to be available here",
    ),
    "no such device to load on": (
        ["privatize", "PRIVATE", "new.jsonl", "--model", "MODEL", "--label-field", "label", "--device", "foo"],
        "Expected device='foo' to be available here",
    ),
    "a spec has its device": (
        ["privatize", "PRIVATE", "new.jsonl", "-m", "truncation", "-s", "epsilon=1", "--device", "cpu"],
        "--device with --model",
    ),
    "settings are fixed": (["privatize", "PRIVATE", "new.jsonl", "--model", "MODEL", "-s", "epsilon=9"], "--set"),
    "the label leaves with the text": (["privatize", "PRIVATE", "new.jsonl", "--model", "MODEL"], "--label-field NAME"),
    "the label is not copied": (
        ["privatize", "PRIVATE", "new.jsonl", "--model", "MODEL", "--label-field", "label", "--keep", "label"],
        "copied",
    ),
    "nor an id": (
        ["privatize", "PRIVATE", "new.jsonl", "--model", "MODEL", "--label-field", "label", "--id-field", "label"],
        "copied",
    ),
    "no such model": (["privatize", "PRIVATE", "new.jsonl", "--model", "absent"], "absent"),
    "audits fit nothing": (["audit", "distinguish", *ADEPT], "dptext fit"),
    "no such classifier": (
        words("utility classification PRIVATE OUT --public PUBLIC --label-field label --test TEST --classifier oracle"),
        "tfidf",
    ),
    "labels named twice": (
        words("utility fidelity PRIVATE OUT --public PUBLIC --label-field label --label a --label b"),
        "no --label",
    ),
    "a label field for releases with labels": (words("utility fidelity PRIVATE OUT --public PUBLIC"), "--label-field"),
    "no such attack": (words("audit membership PRIVATE --label-field label --attack guess"), "shokri"),
    "membership needs labels": (words("audit membership PRIVATE"), "--label-field"),
    "a public file alone": (words("audit membership PRIVATE --label-field label --public PUBLIC"), "--public"),
    "adept without public text": (
        ["audit", "membership", "PRIVATE", "--label-field", "label", *ADEPT, "--set", LABELS],
        "--public FILE",
    ),
    "no members in a public model": (
        words("audit membership PRIVATE --label-field label --attack reconstruction --model MODEL"),
        "--others FILE",
    ),
    "others without a model": (
        words("audit membership PRIVATE --label-field label --others TEST --model MODEL"),
        "--attack reconstruction",
    ),
    "a fitted model needs no public text": (
        words("audit membership PRIVATE --attack reconstruction --model MODEL --others TEST --public PUBLIC"),
        "no --public",
    ),
    "no reconstruction losses": (
        words("audit membership PRIVATE --attack reconstruction --model WORDS --others TEST"),
        "label_only has none",
    ),
    "a model that reads labels": (
        words("audit membership PRIVATE --attack reconstruction --model MODEL --others TEST"),
        "--label-field NAME",
    ),
    "too few others": (
        words("audit membership PRIVATE --label-field label --attack reconstruction --model MODEL --others PRIVATE"),
        "and 0",
    ),
    "public text before private": (
        words("fit -m adept_dpsgd -s epsilon=2 --private PRIVATE --out new"),
        "--public FILE",
    ),
    "the same in an audit": (
        words("audit membership PRIVATE --attack reconstruction -m adept_dpsgd -s epsilon=2"),
        "--public FILE",
    ),
    "a training on private text that there is not": (
        words("fit -m adept_dpsgd -s epsilon=2 --public PUBLIC --out new"),
        "--private FILE",
    ),
    "books for a model": (["explain", "MODEL", "--ledger", "books.db"], "--ledger"),
    "no certificate beside": (["explain", "TEST"], "test.jsonl.guarantee.json"),
    "no certificate and no model": (["explain", "."], "model.json"),
    "a seed that is none": (words("audit membership PRIVATE --label-field label --seed -1"), "seed=-1"),
    "too large a seed": (words(f"utility fidelity TEST TEST --public PUBLIC --seed {2**32}"), "seed="),
    "no seed of a training": (["fit", *ADEPT, "--public", "PUBLIC", "--seed", "-1", "--out", "new"], "seed=-1"),
    "too few shadows": (
        words("audit membership PRIVATE --label-field label --attack lira --shadows 2"),
        "shadows=2",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_bad_usage_ends_with_2_and_says_what_to_do(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, said = WRONG[fault]
    places = {
        "PUBLIC": files.public,
        "PRIVATE": files.private,
        "TEST": files.test,
        "MODEL": files.model,
        "WORDS": files.labels_only,
        "OUT": files.released,
    }
    failed = dptext(*(places.get(argument, argument) for argument in arguments))
    assert failed.code == 2, failed.out + failed.err
    assert said in failed.err
    assert CANARY not in failed.out + failed.err
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- samples and the demo


def test_samples_are_many_and_the_same_for_the_same_seed() -> None:
    records = sample_records(2000)
    assert len({record.text for record in records}) > 1500
    assert records == sample_records(2000)
    assert records[:50] == sample_records(50)
    assert records[:50] != sample_records(50, seed=1)
    assert {record.label for record in records} == set(SAMPLE_LABELS)
    assert len({record.author for record in records}) == 10
    assert not any("{" in record.text for record in records)


def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RECORDS", 240)
    monkeypatch.setattr(demo, "TEST", 40)
    tiny = {key: value for key, value in TINY.items() if key != "epsilon"}
    monkeypatch.setattr(demo, "SPEC", Adept(epsilon=10.0, labels=SAMPLE_LABELS, **{**tiny, "epochs": 3}))
    records = sample_records(240)
    records[120], records[121] = records[0], records[200]  # to be tested on, but public and private, too
    monkeypatch.setattr(demo, "sample_records", lambda _: records)


def test_a_small_demo_shows_everything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small_demo(monkeypatch)
    outcome = demo.run()
    monkeypatch.setattr(demo, "run", lambda: outcome)
    capsys.readouterr()
    demo.demo()
    flat = " ".join(capsys.readouterr().out.split())
    accuracy = {row.name: row.accuracy.accuracy for row in outcome.kept.rows if row.accuracy is not None}
    assert f"public texts alone is right in {accuracy['public-only'].value:.3f}" in flat
    unlike = accuracy["public-only"].value < accuracy["adept"].low
    assert ("accuracy says nothing" in flat) == (not unlike)
    for part in (
        "released at epsilon 10",
        "Guaranteed (epsilon = 10)",
        "label_only",
        "public-only",
        "what was released",
    ):
        assert part in flat
    demo.demo(as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert 70 <= data["certificate"]["records"] < 80  # those whose text is public as well are left out
    assert outcome.kept.test == 38  # and so are those that would test a classifier on what it learned
    assert len(data["samples"]) == demo.SHOWN
    assert len(data["utility"]["rows"]) == 7
    assert set(data["membership"]) == {"the originals", "what was released"}


@pytest.mark.slow
def test_the_demo_keeps_more_than_its_baselines_and_leaks_less_than_the_originals() -> None:
    command = [sys.executable, "-c", "from dptext_lab.cli.demo import demo; demo(as_json=True)"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["certificate"]["guarantees"][0]["epsilon"] == 10
    rows = {name: row["fidelity"] for name, row in data["utility"]["rows"].items()}
    assert rows["adept"]["label_kept"]["low"] > 0.9
    for name in ("label_only (random)", "label_only (medoid)", "public-only", "random"):
        assert rows["adept"]["cosine"]["low"] > rows[name]["cosine"]["high"] + 0.05
    public = data["utility"]["rows"]["public-only"]["classification"]
    assert public["accuracy"]["low"] > 0.9
    leaked = data["membership"]
    assert leaked["the originals"]["main"]["auc"]["low"] > 0.5
    assert leaked["what was released"]["main"]["auc"]["value"] < leaked["the originals"]["main"]["auc"]["value"]


def test_a_label_that_is_not_read_need_not_be_named(tmp_path) -> None:
    """`candidates` with a label weight of 0 releases the candidate's label: the private file may have none."""
    public, private = tmp_path / "public.jsonl", tmp_path / "private.jsonl"
    rows = [{"text": record.text, "label": record.label} for record in sample_records(60)]
    public.write_text("".join(json.dumps(row) + "\n" for row in rows))
    private.write_text('{"text": "Book a train to the sea."}\n')
    labels = ["--set", 'labels=["health", "travel", "money", "leisure"]', "--set", "ranker=tfidf", "--set", "epsilon=4"]
    for more, code in ((["--set", "label_weight=0"], 0), ([], 2)):
        model = tmp_path / f"model{code}"
        fit = dptext(
            "fit", "-m", "candidates", *labels, *more, "--public", public, "--label-field", "label", "--out", model
        )
        assert fit.code == 0, fit.err
        done = dptext("privatize", private, tmp_path / f"out{code}.jsonl", "--model", model)
        assert done.code == code
        assert ("--label-field" in done.err) == (code == 2)
    assert json.loads((tmp_path / "out0.jsonl").read_text())["label"] in {"health", "travel", "money", "leisure"}
