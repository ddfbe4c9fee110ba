"""A real PostgreSQL server for tests and benchmarks: its own folder, port and password; gone when they end."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BINARIES = ("initdb", "postgres", "pg_ctl")
HOST = "127.0.0.1"
USER = "dptext"
INITDB_SECONDS = 120
START_SECONDS = 60
STOP_SECONDS = 30


def find_binaries() -> Path | None:
    """The folder of PostgreSQL's programs: on PATH, or the newest of Debian's, which keeps them off PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(debian, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)], reverse=True)
    return next((path for path in folders if all(os.access(path / name, os.X_OK) for name in BINARIES)), None)


def require() -> None:
    """Skips the test that calls it where there is no server or no driver."""
    if find_binaries() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        pytest.skip("psycopg is not installed: pip install 'psycopg[binary]'")


class Server:
    """One PostgreSQL server. It does not wait for the disk, which only a machine that loses power would show.

    It is stopped as by a crash: what was committed is there after `start`, at the same address.
    """

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.host = HOST
        self.user = USER
        self.password = secrets.token_urlsafe(24)
        self._binaries = binaries
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._initialize()
        self.port = _free_port()

    @property
    def pid(self) -> int | None:
        """The process of the server; None while it is stopped."""
        return self._process.pid if self._process else None

    def url(self, database: str = "dptext") -> str:
        return f"postgresql+psycopg://{self.user}:{self.password}@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        """Makes an empty database with a fresh name; returns its URL."""
        name = f"{USER}_{secrets.token_hex(8)}"
        self.sql(f"create database {name}")
        return self.url(name)

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Runs one statement outside a transaction; returns its rows."""
        import psycopg

        address = self.url(database).replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Linux ends it with the thread that called this, so call it from one that lasts.
        """
        assert self._process is None, "the server runs already"
        # on TCP alone: the path of a socket may have 107 bytes, and folders of tests are longer
        settings = [f"listen_addresses={HOST}", f"port={self.port}", "unix_socket_directories=", "fsync=off"]
        command = [str(self._binaries / "postgres"), "-D", str(self.folder / "data")]
        command += [word for setting in settings for word in ("-c", setting)]
        user, group, groups = _owner()
        with self._log.open("ab") as log:
            # in its own session, as a Ctrl-C meant for the tests would stop it before they have cleaned up
            self._process = subprocess.Popen(
                _guarded(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=groups,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server at once, without the clean-up of an orderly shutdown. Does nothing to a stopped one."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _initialize(self) -> None:
        password = self.folder / "password"
        password.touch(0o600)
        password.write_text(self.password + "\n", "ascii")
        user, group, groups = _owner()
        if user is not None and group is not None:
            os.chown(self.folder, user, group)
            os.chown(password, user, group)
        made = subprocess.run(
            _guarded(
                [
                    str(self._binaries / "initdb"),
                    f"--pgdata={self.folder / 'data'}",
                    f"--username={self.user}",
                    f"--pwfile={password}",
                    "--auth-host=scram-sha-256",
                    "--auth-local=reject",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--no-sync",  # of the empty database only; the server syncs
                ]
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=INITDB_SECONDS,
            cwd=self.folder,
            env=_environment(),
            user=user,
            group=group,
            extra_groups=groups,
        )
        password.unlink()
        if made.returncode:
            raise RuntimeError(f"initdb ended with {made.returncode}:\n{made.stdout}{made.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.sql("select 1")
                return
            except psycopg.OperationalError as error:
                if process.poll() is not None:
                    state = f"ended with {process.returncode}"
                elif time.monotonic() > deadline:
                    state = f"did not answer for {START_SECONDS} s"
                else:
                    time.sleep(0.02)
                    continue
                tail = "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-20:])
                raise RuntimeError(f"PostgreSQL on port {self.port} {state}; its log ends:\n{tail}") from error


@contextmanager
def running() -> Iterator[Server]:
    """A server in a folder of its own, which is removed with it; needs `require`."""
    binaries = find_binaries()
    assert binaries is not None, "PostgreSQL is not installed: call require() first"
    folder = Path(tempfile.mkdtemp(prefix="dptext-postgres-", dir=_searchable_folder()))
    try:
        server = Server(folder, binaries)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running server; each test asks it for a database of its own."""
    require()
    with running() as server:
        yield server


def _owner() -> tuple[int | None, int | None, list[int] | None]:
    """User, group and further groups of the server: PostgreSQL refuses root, as whom tests often run."""
    if os.geteuid() != 0:
        return None, None, None
    import pwd

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    account = known.get("postgres") or known["nobody"]
    return account.pw_uid, account.pw_gid, []


def _guarded(command: list[str]) -> list[str]:
    """The command, told by the kernel to quit when this process dies, even by SIGKILL.

    Not by `preexec_fn`, which is unsafe beside threads. The shell looks whether the parent died before setpriv asked.
    """
    if shutil.which("setpriv") is None:
        return command
    alive = 'test "$PPID" = "$0" && exec "$@"'
    return ["setpriv", "--pdeathsig", "QUIT", "sh", "-c", alive, str(os.getpid()), *command]


def _environment() -> dict[str, str]:
    """Without the PG variables and the locale of whoever runs the tests."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def _searchable_folder() -> Path:
    """The temporary folder, or another one if the server's user could not enter it: pytest's are for their owner."""
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 (mkdtemp inside)
        if os.geteuid() != 0 or all(path.stat().st_mode & 0o001 for path in (folder, *folder.resolve().parents)):
            return folder
    raise RuntimeError("Expected a temporary folder that every user may enter: set TMPDIR to one.")


def _free_port() -> int:
    """A port below those that the kernel gives to clients, so that none takes it while the server is stopped."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
