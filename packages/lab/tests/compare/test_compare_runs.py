"""Runs in real processes: what fails or dies is recorded and the rest goes on; kills are survived; changes refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import dptext
from compared import CANARY, as_toml, experiment, plant, replacement, words, write_texts
from dptext.cli.grouped import spread
from dptext.errors import ConfigError
from dptext.text.packed_rows import load_pyarrow
from dptext_lab.cli.compare import compare, lacking
from dptext_lab.compare.cell_run import Outcome
from dptext_lab.compare.cells import Measurement
from dptext_lab.compare.experiment import parse_experiment
from dptext_lab.compare.folder import ExperimentFolder, read_cell
from dptext_lab.compare.runner import Options, run_experiment
from dptext_lab.compare.stored import COLUMNS


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.jsonl")


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        plant(tmp_path / "faults"),
        str(Path(__file__).parents[4] / "src"),
        str(Path(__file__).parents[2]),
        os.environ.get("PYTHONPATH", ""),
    ]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, found)))


def within(seconds: float, wanted: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not wanted():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text("ascii", "replace").rpartition(")")[2].split()[0] == "Z"


def waits(pid: int) -> bool:
    """Whether a process does nothing for a while."""
    for _ in range(15):
        if Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] != "S":
            return False
        time.sleep(0.02)
    return True


def everything(folder: Path) -> str:
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow  # its workers die and are started again
@pytest.mark.usefixtures("faults")
def test_what_fails_or_dies_is_recorded_and_the_rest_goes_on(texts: Path, vectors: Path, tmp_path: Path) -> None:
    absent = words(vectors, name="absent", set={"vectors": "no/such/vectors.txt", "epsilon": 1.0})
    unreachable = words(
        vectors,
        name="unreachable",
        set={"noise": "multivariate", "diameter": 60.0, "max_tokens": 5000},
        document_epsilon=[2],
        delta=1e-30,
    )
    swept = replacement(vectors)
    del swept["set"]["rate"]
    swept["sweep"] = {"rate": [0.1, 0.2, 0.3, 1.0]}
    data = experiment(texts, vectors, mechanisms=[absent, unreachable, swept])
    out, told = tmp_path / "out", []
    summary = run_experiment(
        parse_experiment(data),
        ExperimentFolder(out),
        Options(workers=1, memory_mib=4096),
        command="dptext compare",
        on_progress=lambda done, total, what: told.append((done, total)),
    )
    assert (summary.total, summary.done, summary.failed, summary.refuted) == (9, 4, 5, ())
    rows = json.loads((out / "table.json").read_text("utf-8"))
    errors = {row["row"]: row["error"] for row in rows}
    assert errors["absent"].startswith("ConfigError: ")
    assert "slack" in errors["unreachable epsilon=2"]
    assert errors["replaced rate=0.1"].startswith("ValueError at ")
    assert "SIGKILL" in errors["replaced rate=0.2"]
    assert errors["replaced rate=0.3"].startswith("MemoryError: ")
    assert errors["replaced rate=1"] is None
    assert [name for name, error in errors.items() if error is None][:3] == ["original", "public-only", "random"]
    assert told[-1] == (9, 9)

    # the schema, the same in both files
    assert all(tuple(row) == COLUMNS for row in rows)
    assert [row["metric"] for row in rows if row["error"]] == [""] * 5
    assert all(row["seconds"] >= 0 and (row["peak_mib"] > 0) for row in rows)
    _, parquet = load_pyarrow()
    assert parquet.read_table(out / "table.parquet").to_pylist() == rows
    stated = {row["row"]: (row["epsilon"], row["basis"], row["unit"], row["kind"]) for row in rows}
    assert stated["original"] == (None, "", "", "")
    assert stated["public-only"] == stated["random"] == (0.0, "", "", "")
    assert stated["replaced rate=1"] == (None, "none", "token", "random_replacement")
    found = json.loads((out / "experiment.json").read_text("utf-8"))
    assert found["cells"] == {"done": 4, "failed": 5, "total": 9}
    assert found["corpora"]["made"]["private"]["records"] == 48
    assert {path.stem for path in (out / "cells").iterdir()} == {row["signature"] for row in rows}
    assert {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()} == {0o600}

    # no private text: of the samples every one is public
    private = {
        record.split('"body": "')[1].split('"')[0].split()[-1] for record in texts.read_text("utf-8").splitlines()
    }
    samples = [
        sample["original"]
        for path in (out / "cells").iterdir()
        for sample in json.loads(path.read_text("utf-8"))["samples"]
    ]
    from dptext_lab.compare.corpora import load_corpus

    corpus = load_corpus("made", parse_experiment(data).corpora["made"], seed=1)
    assert {r.text for r in corpus.public[:4]} == set(samples)
    secret = {record.text.split()[-1] for record in (*corpus.private, *corpus.test)}
    assert secret < private
    assert not [word for word in secret if f"{word} " in (seen := everything(out)) or f'{word}"' in seen]
    assert CANARY not in (out / "table.json").read_text("utf-8")

    # nothing is run twice; --retry runs what failed, and a changed experiment is refused
    again = run_experiment(parse_experiment(data), ExperimentFolder(out), Options(workers=1), command="")
    assert (again.run_now, again.done, again.failed) == (0, 4, 5)
    changed = parse_experiment({**data, "seed": 2})
    with pytest.raises(ConfigError, match="its 'seed' changed"):
        run_experiment(changed, ExperimentFolder(out), Options(), command="")
    with pytest.raises(ConfigError, match="absent, empty, or the folder"):
        run_experiment(changed, ExperimentFolder(texts.parent), Options(), command="")


@pytest.mark.slow  # test_a_cell_that_was_edited_is_made_again goes on; tests/faults/test_batch_kills.py has workers
@pytest.mark.usefixtures("faults")
def test_a_killed_run_takes_its_workers_with_it_and_goes_on(
    texts: Path, vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = replacement(vectors, name="hangs", set={"rate": 0.4})
    data = experiment(texts, vectors, mechanisms=[replacement(vectors), hangs])
    toml, out, hanging = tmp_path / "e.toml", tmp_path / "out", tmp_path / "hanging"
    toml.write_text(as_toml(data), "utf-8")
    monkeypatch.setenv("HANG", str(hanging))
    line = ["compare", str(toml), "--out", str(out), "--workers", "1", "--keep-private-samples"]
    run = [sys.executable, "-c", "from dptext.cli.app import main; main()", *line]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert within(120, lambda: hanging.exists() and hanging.read_text() != "")
    with pytest.raises(ConfigError, match="no other run"):
        run_experiment(parse_experiment(data), ExperimentFolder(out), Options(), command="")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert within(20, lambda: gone(int(hanging.read_text())))
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (out / "cells").glob("*.json")}
    assert len(before) == 4
    (out / "cells" / ".abc.partial").write_text("cut sho", "utf-8")

    monkeypatch.delenv("HANG")
    done = dptext(*line, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("answer") == [
        "No release has a guarantee that counts, so none can be said to protect anybody.",
        "Not counted in these answers: replaced, hangs (no guarantee that protects).",
    ]
    assert told | {"out": ""} == {
        "out": "", "total": 5, "done": 5, "failed": 0, "run_now": 1, "refuted": [],
    }  # fmt: skip
    after = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in (out / "cells").iterdir()}
    assert len(after) == 5
    assert {name: after[name] for name in before} == before
    assert all("private_samples" in json.loads(content) for _, content in after.values())

    # another corpus under the same name is refused, and accepted only where that is said
    texts.write_text(texts.read_text("utf-8").replace('"body": "', '"body": "other ', 1), "utf-8")
    with pytest.raises(ConfigError, match="a file of 'made' changed"):
        run_experiment(parse_experiment(data), ExperimentFolder(out), Options(), command="")


@pytest.mark.slow  # it starts the command and its workers
def test_a_worker_that_dies_between_two_cells_fails_the_next_one(texts: Path, vectors: Path, tmp_path: Path) -> None:
    """The run stands still while its worker answers and dies: then it writes to a pipe that nobody reads."""
    toml, out = tmp_path / "e.toml", tmp_path / "out"
    toml.write_text(as_toml(experiment(texts, vectors)), "utf-8")
    run = [sys.executable, "-c", "from dptext.cli.app import main; main()"]
    line = [*run, "compare", str(toml), "--out", str(out), "--workers", "1"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert within(100, lambda: process.poll() is not None or bool(children.read_text("ascii")))
        worker = int(children.read_text("ascii"))
        os.kill(worker, signal.SIGSTOP)  # before it can answer, however long this process is kept from running
        assert within(100, lambda: waits(process.pid))  # it has handed out the first cell
        process.send_signal(signal.SIGSTOP)
        assert not list((out / "cells").glob("*.json"))
        os.kill(worker, signal.SIGCONT)
        assert within(100, lambda: bool(list((out / "cells").glob("*.json"))))
        assert within(100, lambda: waits(worker))  # it has answered
        os.kill(worker, signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGCONT)
        shown, said = process.communicate(timeout=100)
    assert process.returncode == 5, said
    assert "3 of 4 cells done, 1 failed, 4 run now" in shown
    errors = [row["error"] for row in json.loads((out / "table.json").read_text("utf-8")) if row["error"]]
    assert len(errors) == 1
    assert errors[0].startswith("WorkerDied: its process was ended by SIGKILL")


@pytest.mark.slow  # runs that go on stay in the tests above
def test_a_folder_that_was_killed_before_it_knew_its_experiment_goes_on(
    texts: Path, vectors: Path, tmp_path: Path
) -> None:
    data, out = experiment(texts, vectors), tmp_path / "out"
    wrong = experiment(texts, vectors, corpus={"where": {"split": "nowhere"}})
    with pytest.raises(ConfigError, match="found none"):
        run_experiment(
            parse_experiment(wrong), ExperimentFolder(out), Options(), command=""
        )  # it made the folder, and no more
    first = run_experiment(parse_experiment(data), ExperimentFolder(out), Options(workers=1), command="")
    assert (first.run_now, first.done) == (4, 4)
    (out / "experiment.json").unlink()  # damaged, and removed as the error advises
    again = run_experiment(parse_experiment(data), ExperimentFolder(out), Options(workers=1), command="")
    assert (again.run_now, again.done) == (0, 4)
    (out / "experiment.json").unlink()
    (out / "cells" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="absent, empty, or the folder"):
        run_experiment(parse_experiment(data), ExperimentFolder(out), Options(), command="")


@pytest.mark.parametrize("name", ["experiment.json", "table.parquet", "table.json"])
def test_a_corpus_is_never_written_over(texts: Path, vectors: Path, tmp_path: Path, name: str) -> None:
    out, before = tmp_path / "out", texts.read_bytes()
    out.mkdir()
    (out / name).hardlink_to(texts)
    with pytest.raises(ConfigError, match="to be no input"):
        run_experiment(
            parse_experiment(experiment(texts, vectors)), ExperimentFolder(out), Options(workers=1), command=""
        )
    assert [path.name for path in out.iterdir()] == [name]
    assert texts.samefile(out / name)
    assert texts.read_bytes() == before


def test_a_cell_that_was_edited_is_made_again(texts: Path, vectors: Path, tmp_path: Path) -> None:
    given, out, toml = experiment(texts, vectors), tmp_path / "out", tmp_path / "e.toml"
    data = parse_experiment(given)
    assert run_experiment(data, ExperimentFolder(out), Options(workers=1), command="").run_now == 4
    table = (out / "table.json").read_text("utf-8")
    cell = min((out / "cells").iterdir())
    whole = json.loads(cell.read_text("utf-8"))
    row = whole["rows"][0]
    edits = [("value", "x"), ("value", 10**400), ("trial", True), ("trial", None), ("corpus", 1), ("error", "\udcff")]
    for column, value in edits:
        cell.write_text(json.dumps({**whole, "rows": [{**row, column: value}]}), "utf-8")
        assert read_cell(out, cell.stem) is None, (column, value)
    for rows in (None, {}, [None], [{}], [{key: value for key, value in row.items() if key != "basis"}]):
        cell.write_text(json.dumps({**whole, "rows": rows}), "utf-8")
        assert read_cell(out, cell.stem) is None, rows
    with ExperimentFolder(out).held(), pytest.raises(ConfigError, match="no other run"):
        run_experiment(data, ExperimentFolder(out), Options(workers=1), command="")
    again = run_experiment(data, ExperimentFolder(out), Options(workers=1), command="")
    assert (again.run_now, again.done, again.failed) == (1, 4, 0)
    assert {row["signature"] for row in json.loads(table)} == {
        row["signature"] for row in json.loads((out / "table.json").read_text("utf-8"))
    }
    # The command ends with 1 if a finished cell says that its guarantee was refuted.
    cell.write_text(json.dumps({**whole, "refuted": ["distinguish"]}), "utf-8")
    toml.write_text(as_toml(given), "utf-8")
    assert spread(compare)(experiment=toml, out=out, workers=1) == 1


def test_audits_that_refute_are_named() -> None:
    found = (Measurement("distinguish.refuted", 1.0), Measurement("authorship.refuted", 0.0))
    assert Outcome(found, None, None, ()).refuted == ["distinguish"]


@pytest.mark.slow  # a finished cell that is refuted ends the command with 1, above
@pytest.mark.usefixtures("faults")
def test_a_claim_that_an_audit_refutes_ends_the_command_with_1(
    texts: Path, vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lies = words(vectors, name="lies", set={"epsilon": 0.0625})
    data = experiment(texts, vectors, mechanisms=[lies], audits=["distinguish"])
    data["settings"]["distinguish"] = {"trials": 200}
    toml, out = tmp_path / "e.toml", tmp_path / "out"
    toml.write_text(as_toml(data), "utf-8")
    assert spread(compare)(experiment=toml, out=out, workers=1) == 1
    assert capsys.readouterr().out.startswith("An audit refutes what is claimed for lies: do not use it.\n")
    found = {row["metric"]: row for row in json.loads((out / "table.json").read_text("utf-8")) if row["kind"]}
    assert found["distinguish.refuted"]["value"] == 1
    assert found["fidelity.tokens_kept"]["value"] == 1


def test_what_failed_cells_lack_is_told_once_each() -> None:
    weights, torch = "It needs its weights. Run: pip install a", "It needs the package torch. Run: pip install b"
    errors = [f"MissingExtraError: {each}" for each in (weights, torch, weights)]
    assert lacking(["", *errors, "ConfigError: Expected another. Run: it again"]) == [weights, torch]
