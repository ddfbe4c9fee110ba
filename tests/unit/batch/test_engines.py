"""Workers that cannot get their work, or cannot be started, are errors with a name, before anything is charged."""

import contextlib
import errno
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import dptext as dp
import kept_words
from commands import dptext
from dptext.batch import engines
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


class Named:
    """Answers with its name and its process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def said(self) -> tuple[str, int]:
        return self.name, os.getpid()


class Unloadable(Job):
    """A job that can be sent, and not be had."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __reduce__(self) -> tuple:
        return _raising, (self.problem,)


def _raising(problem: Exception) -> None:
    raise problem


@pytest.mark.slow  # test_a_model_that_cannot_be_sent_ends_the_run sees the same error
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


@pytest.mark.slow_cases("disk", why="an error whose words are not shown stays")
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


@pytest.mark.parametrize("problem", [False, True])
def test_processes_wait_for_the_next_job_of_a_run(monkeypatch: pytest.MonkeyPatch, problem: bool) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    with Processes(1).kept() as kept:
        (_, (first, pid)), *_ = kept.answers(Named("a"), [("said", ()), ("said", ())])
        if problem:
            with pytest.raises(ConfigError, match="cannot load the model"):
                list(kept.answers(Unloadable(ValueError("secret")), [("echo", (1,))]))
        (_, (second, again)), *_ = kept.answers(Named("b"), [("said", ())])
        assert (first, second, pid) == ("a", "b", again)
        os.kill(again, signal.SIGKILL)
        (_, (third, other)), *_ = kept.answers(Named("c"), [("said", ())])
        assert third == "c"
        assert other != again
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


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
    monkeypatch.setattr(processes, "SEND_SECONDS", 1)
    tenth = SimpleNamespace(pack=lambda how, seconds, _: struct.pack(how, 0, seconds * 100_000))
    monkeypatch.setattr(processes, "struct", tenth)  # a tenth of what is waited
    began = time.monotonic()
    process = Process()
    process.take(bytes(10_000_000))
    with pytest.raises((EOFError, ConnectionResetError)):
        process.pipe.recv()
    process.close()
    assert time.monotonic() - began < 30


@contextlib.contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """The address of a server that says this to the first who comes."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:

        def serve() -> None:
            one, _ = server.accept()
            stack.enter_context(one).sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_addresses_where_no_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "REACHED_SECONDS", 0.2)
    for answer, said in ((b"", "timed out"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no Ray")):
        with listening(answer) as address, pytest.raises(ConfigError, match=said):
            engines._reach(address)
    with listening(b"\0\0\0\4\0") as closed:
        engines._reach(closed)
    for address in (closed, f"ray://{closed}"):
        with pytest.raises(ConfigError, match="Connection refused"):
            engines._reach(address)
    for address in ("nonsense", "host:", "host:x", "/tmp/ray"):  # noqa: S108
        with pytest.raises(ConfigError, match="HOST:PORT"):
            engines._reach(address)
    for address in (None, "auto", "local"):
        engines._reach(address)


def test_an_address_is_that_of_a_cluster() -> None:
    with pytest.raises(ConfigError, match="--engine ray"):
        dp.Workers(address="nowhere:1")
    assert dp.Workers("ray", address="auto").address == "auto"
    refused = dptext("privatize", ".", "out", *kept_words.OPTIONS, "--address", "nowhere:1")
    assert refused.returncode == 2
    assert "Expected no address with local processes" in refused.stderr


class FakeRay:
    """Fails at the start as Ray does where a node is slow, after it has taken SIGTERM for itself."""

    exceptions = SimpleNamespace(RayError=LookupError)

    def init(self, **_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        raise Exception("The current node timed out during startup.\nThis could happen")  # noqa: TRY002


def test_a_cluster_that_does_not_start_is_an_error_and_takes_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, own := lambda *_: None)
    try:
        with pytest.raises(ConfigError, match=r"found none \(Exception: The current node timed out during startup\.\)"):
            engines._connect(FakeRay(), None)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_ends_a_command_is_not_hidden_by_a_cluster() -> None:
    """Ray reports what a handler of a signal raised as the cause of a SystemError."""
    with pytest.raises(KeyboardInterrupt), engines._failing(FakeRay()):
        raise SystemError from KeyboardInterrupt()
    for error in (LookupError("secret"), TimeoutError("secret"), RuntimeError("secret")):
        with pytest.raises(DPTextError, match=type(error).__name__) as caught, engines._failing(FakeRay()):
            raise error
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_full_cluster_does_all_tasks_with_the_workers_that_it_has_room_for() -> None:
    started, ended = list[int](), set[int]()

    def start() -> int:
        started.append(len(started))
        return started[-1]

    def wait_for(busy: list[tuple[int, int]]) -> list[tuple[int, int]]:
        room = [worker for worker in started if worker not in ended][:2]
        found = [handle for handle in busy if handle[0] in room]
        assert found, "all wait for ever"
        return found[:1]

    answers = engines._shared_out(
        5, 9, start, lambda worker, number: (worker, number), wait_for, lambda _, handle: handle[1] * 2, ended.add
    )
    assert dict(answers) == {number: number * 2 for number in range(9)}
    assert len(started) == 5
