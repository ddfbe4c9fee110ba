"""The PostgreSQL server of the tests is real, refuses strangers, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import postgres


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow  # it tries the server that tests use, not the library
def test_a_server_answers_survives_a_crash_and_goes_away() -> None:
    postgres.require()
    import psycopg

    with postgres.running() as server:
        pid, folder = server.pid, server.folder
        assert pid is not None
        assert alive(pid)
        assert server.sql("select 1") == [(1,)]
        assert server.sql("show synchronous_commit") == [("on",)]
        assert server.sql("show server_encoding") == [("UTF8",)]

        first, second = server.create_database(), server.create_database()
        assert first != second
        database = first.rpartition("/")[2]
        assert first == server.url(database)
        assert first == f"postgresql+psycopg://dptext:{server.password}@127.0.0.1:{server.port}/{database}"
        assert server.sql("create table kept (n int)", database) == []
        server.sql("insert into kept values (7)", database)
        with pytest.raises(psycopg.errors.UndefinedTable):
            server.sql("select n from kept", second.rpartition("/")[2])

        address = first.replace("+psycopg", "")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(address.replace(server.password, "wrong"))

        server.stop()
        server.stop()
        assert server.pid is None
        assert not alive(pid)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(address)
        server.start()
        assert server.url(database) == first
        assert server.sql("select n from kept", database) == [(7,)]
        pid = server.pid
        assert pid is not None

    assert not alive(pid)
    assert not folder.exists()


@pytest.mark.slow  # it tries the server that tests use, not the library
def test_a_server_that_cannot_start_shows_its_log() -> None:
    postgres.require()
    with postgres.running() as server:
        server.stop()
        (server.folder / "data" / "postgresql.conf").write_text("no_such_setting = 1\n", "ascii")
        with pytest.raises(RuntimeError, match=r"(?s)ended with 1; .*no_such_setting"):
            server.start()
        assert server.pid is None


@pytest.mark.slow  # it tries the server that tests use, not the library
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed: apt-get install util-linux")
def test_a_killed_process_takes_its_server_along() -> None:
    postgres.require()
    script = """
import os, signal, postgres
with postgres.running() as server:
    print(server.pid, server.folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    pid, folder = killed.stdout.split()
    try:
        deadline = time.monotonic() + 20
        while alive(int(pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        shutil.rmtree(folder)


def test_tests_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_binaries", lambda: None)
    with pytest.raises(pytest.skip.Exception, match="PostgreSQL is not installed: apt-get install postgresql"):
        postgres.require()
