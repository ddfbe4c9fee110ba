"""Workers that cannot get their work, or cannot be started, are errors with a name, before anything is charged."""

import errno
import os
import sys
import time
from pathlib import Path

import pytest

import dptext as dp
from dptext.batch.engines import Processes
from dptext.errors import ConfigError, DPTextError
from dptext.runs import processes
from dptext.runs.processes import Process, packed
from many_files import here, plan, shards
from mounting import with_mounts


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def candidates() -> dp.mechanism.Mechanism[str]:
    """A mechanism that is sent as files."""
    return dp.fit(dp.Candidates(epsilon=4.0, ranker="tfidf"), list(dp.sample_records(200)))


class Job:
    """Answers with what it is asked."""

    def echo(self, what: object) -> object:
        return what


class Unloadable(Job):
    """A job that can be sent, and not be had."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __reduce__(self) -> tuple:
        return _raising, (self.problem,)


def _raising(problem: Exception) -> None:
    raise problem


def test_a_small_temporary_folder_ends_a_run_of_two_workers(tmp_path: Path) -> None:
    shards(tmp_path / "in", 20)
    dp.save_model(candidates(), tmp_path / "model")
    (tmp_path / "tmp").mkdir()
    ran = with_mounts(
        "mount -t tmpfs -o size=4k tmpfs tmp",
        *(sys.executable, "-c", "from dptext.cli.app import main; main()"),
        *("privatize", "in", "out", "--model", "model", "--workers", "2"),
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "tmp")},
    )
    assert ran.returncode == 2
    assert "No space left on device" in ran.stderr
    assert "TMPDIR" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "model", "tmp"]


def test_a_model_that_cannot_be_sent_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, model = shards(tmp_path / "in", 20), candidates()
    monkeypatch.setattr("dptext.mechanisms.bases.tempfile.TemporaryDirectory", full)
    with pytest.raises(ConfigError, match=r"No space left on device\..*TMPDIR"):
        dp.privatize_dataset(
            source, tmp_path / "out", model, plan=plan(fields=dp.Fields()), dataset=here(workers=dp.Workers(n=2))
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    with pytest.raises(ConfigError, match=r"AttributeError|PicklingError") as caught:
        packed(lambda secret: secret)
    assert "lambda" not in str(caught.value)


@pytest.mark.parametrize(
    ("problem", "said"),
    [(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left"), (ValueError("secret"), "ValueError")],
    ids=["disk", "value"],
)
def test_a_job_that_a_worker_cannot_load_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, said: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    with pytest.raises(ConfigError, match=f"cannot load the model: {said}") as caught:
        list(Processes(1).answers(Unloadable(problem), [("echo", (1,))]))
    assert "secret" not in str(caught.value)


def test_where_no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(processes.subprocess, "Popen", full)
    with pytest.raises(DPTextError, match="Cannot start a worker: No space left"):
        list(Processes(2).answers(1, [("real", ())]))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_worker_that_takes_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = tmp_path / "python"
    asleep.write_text("#!/bin/sh\nexec sleep 60\n")
    asleep.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(asleep))
    monkeypatch.setattr(processes, "_SEND_SECONDS", 1)
    began = time.monotonic()
    process = Process(bytes(10_000_000))
    with pytest.raises((EOFError, ConnectionResetError)):
        process.pipe.recv()
    process.close()
    assert time.monotonic() - began < 30
