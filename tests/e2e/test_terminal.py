"""What is printed: streams that are closed or full, encodings that lack characters, names that steer a terminal."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import dptext
from dptext.cli import terminal
from dptext.cli.terminal import Printed, escaped
from vectors import sentences

RUN = [sys.executable, "-m", "dptext"]
#: Runs `dptext` with each list of arguments in one process, and writes the exit codes to a file.
EACH = """
import functools, json, sys
import typer.main
from dptext.cli.app import main
typer.main.get_command = functools.cache(typer.main.get_command)  # built anew it takes more time than most runs
codes = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["dptext", *arguments]
    try:
        main()
    except SystemExit as end:
        codes.append(end.code)
with open("codes", "w") as file:
    json.dump(codes, file)
"""
#: Steers a terminal: colours, the title, C1, text from right to left, a line end that nobody sees.
HOSTILE = "a\x1b[31m\x1b]0;b\x07\x9b2J\x7f\u202egpj.\u2066\u2028c"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def files(tmp_path: Path, vectors: Path) -> list[str]:
    """The arguments of a run that can be done."""
    rows = "".join(json.dumps({"text": text, "w\u00f6rt": "\u65e5"}) + "\n" for text in sentences(12))
    (tmp_path / "in.jsonl").write_text(rows, "utf-8")
    spec = f'kind = "word_metric"\nepsilon = 4.0\nvectors = "{vectors}"\nn_words = 300\n'
    (tmp_path / "spec.toml").write_text(spec, "utf-8")
    return ["privatize", "in.jsonl", "\u00f6ut.jsonl", "--spec", "spec.toml", "--keep", "w\u00f6rt"]


def shell(command: list[str], redirected: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """In a shell, which can close and pipe streams."""
    line = f'set -o pipefail; "$@" {redirected}'
    return subprocess.run(
        ["bash", "-c", line, "bash", *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, **more},
        errors="surrogateescape",
    )


@pytest.mark.slow_cases("2>&1 | true", why="closed streams stay; a closed pipe is written to below")
@pytest.mark.parametrize(
    "redirected",
    [
        "<&- >&- 2>&-",
        "2>&1 | true",
        *(pytest.param(s, marks=pytest.mark.slow) for s in (">&-", "2>&-", ">&- 2>&-", "| true")),
    ],
)
@pytest.mark.parametrize("as_json", [[], pytest.param(["--json"], marks=pytest.mark.slow)])
def test_a_finished_run_ends_with_0_whoever_listens(
    tmp_path: Path, files: list[str], redirected: str, as_json: list[str]
) -> None:
    done = shell([*RUN, *files, *as_json], redirected, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "" or "internal" not in done.stderr
    output = tmp_path / "\u00f6ut.jsonl"
    assert len(output.read_text("utf-8").splitlines()) == 12  # and nothing that was to be printed
    assert json.loads((tmp_path / "\u00f6ut.jsonl.guarantee.json").read_text("utf-8"))["records"] == 12
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_release_does_not_go_to_a_closed_stdout(tmp_path: Path, files: list[str]) -> None:
    """It would be lost: so nothing is done."""
    files[2:3] = ["-", "--certificate", "out.jsonl.guarantee.json"]
    before = {path.name for path in tmp_path.iterdir()}
    done = shell([*RUN, *files], ">&-", tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "dptext: Expected an open stdout with OUT -, found a closed one: the release would be lost."
    )
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_closed_stream_is_no_place_for_files(tmp_path: Path, files: list[str]) -> None:
    """The lowest free number is given to the next file that is opened: what is printed would go there."""
    code = (
        "import os, sys\nfrom dptext.cli import terminal\nterminal.open_streams()\n"
        "file = open('file', 'w')\nprint('printed'); print('said', file=sys.stderr); os.write(2, b'low'); file.close()"
    )
    done = shell([sys.executable, "-c", code], ">&- 2>&-", tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "file").read_bytes() == b""


def test_a_full_disk_behind_stdout_is_an_error(tmp_path: Path, files: list[str]) -> None:
    done = dptext(*files, cwd=tmp_path, stdout="/dev/full")
    assert done.returncode == 2
    assert done.stderr == ("dptext: Cannot print the result: No space left on device. Written files are whole.\n")
    assert dptext("explain", "\u00f6ut.jsonl", cwd=tmp_path, stderr="/dev/full").returncode == 0


@pytest.mark.slow  # three processes each, for what few terminals lack
@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"PYTHONIOENCODING": "ascii"}, id="ascii"),
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="C"),
    ],
)
def test_a_terminal_that_lacks_characters(tmp_path: Path, files: list[str], environment: dict[str, str]) -> None:
    files[2] = "out.jsonl"
    if "PYTHONUTF8" not in environment:  # else Python knows no such letter in an argument
        done = shell([*RUN, *files], "", tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        assert "the field 'w\\xf6rt'" in done.stdout
    else:
        assert dptext(*files, cwd=tmp_path).returncode == 0
    told = shell([*RUN, "explain", "out.jsonl"], "", tmp_path, **environment)
    assert told.returncode == 0, told.stderr
    assert "the field 'w\\xf6rt'" in told.stdout
    told = shell([*RUN, "explain", "out.jsonl", "--json"], "", tmp_path, **environment)
    assert "the field 'w\u00f6rt'" in json.loads(told.stdout)["guarantees"][0]["reveals"]
    listed = shell([*RUN, "mechanisms"], "", tmp_path, **environment)
    assert listed.returncode == 0, listed.stderr


class Gone(io.StringIO):
    """A stream whose reader leaves: a pipe without a reading end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def fileno(self) -> int:
        return self._number

    def flush(self) -> None:
        os.write(self._number, self.getvalue().encode())


def test_what_is_printed_to_nobody_is_lost_and_nothing_else() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    printed = Printed(Gone(writing), essential=True)
    assert printed.write("x") == 1
    printed.flush()
    printed.flush()  # it leads nowhere now
    os.close(writing)
    with pytest.raises(TypeError):
        printed.write(b"x")  # type: ignore[arg-type]


def test_control_characters_are_shown() -> None:
    shown = escaped(HOSTILE + "\t\n\u00e9\u65e5\U0001f600")
    assert not CONTROL.search(shown)
    assert shown == "a\\x1b[31m\\x1b]0;b\\x07\\x9b2J\\x7f\\u202egpj.\\u2066\\u2028c\t\n\u00e9\u65e5\U0001f600"


def hostile_runs(folder: Path, vectors: Path) -> Iterator[list[str]]:
    """Commands that print names of others."""
    settings = ["-m", "word_metric", "-s", "epsilon=4", "-s", "n_words=300", "-s", f"vectors={folder / HOSTILE}"]
    (folder / HOSTILE).write_bytes(vectors.read_bytes())
    (folder / "in.jsonl").write_text(json.dumps({"text": "bababa", HOSTILE: "x"}) + "\n", "utf-8")
    yield ["privatize", "in.jsonl", "out.jsonl", *settings, "--keep", HOSTILE]
    yield ["explain", "out.jsonl"]
    yield ["privatize", "in.jsonl", f"{HOSTILE}.jsonl", *settings]
    yield ["explain", f"{HOSTILE}.absent"]
    yield ["explain", "-m", HOSTILE]
    yield ["explain", "-m", "word_metric", "-s", f"epsilon={HOSTILE}"]
    yield ["explain", "--unit", HOSTILE, *settings]
    yield [HOSTILE]
    yield ["explain", f"--{HOSTILE}"]
    yield ["report", HOSTILE]
    yield ["recommend", "--task", HOSTILE]
    yield ["recommend", "--table", "table.json"]
    yield ["budget", "show", HOSTILE, "--ledger", "books.db"]
    yield ["budget", "show", "--ledger", "books.db"]
    yield ["compare", f"{HOSTILE}.toml", "--out", "out"]


def test_names_of_others_do_not_steer_the_terminal(tmp_path: Path, vectors: Path) -> None:
    from dptext.recommend.tables import read_measured

    table = read_measured(None).model_dump()
    rows = [{**row, "corpus": HOSTILE, "row": f"{HOSTILE}{row['row']}"} for row in table["rows"][:60]]
    about = {**table["about"], "name": HOSTILE, "written": HOSTILE, "command": HOSTILE, "version": HOSTILE}
    (tmp_path / "table.json").write_text(json.dumps({"about": about, "rows": rows}), "utf-8")
    (tmp_path / f"{HOSTILE}.toml").write_text(f"name = {json.dumps(HOSTILE)}\n", "utf-8")
    opened = ["budget", "open", "acc", "--epsilon", "9", "--unit", "document", "--ledger", "books.db"]
    runs = [opened, *hostile_runs(tmp_path, vectors)]
    (tmp_path / "each.py").write_text(EACH, "utf-8")
    done = dptext(json.dumps(runs), script=tmp_path / "each.py", cwd=tmp_path)
    printed = done.stdout + done.stderr
    codes = json.loads((tmp_path / "codes").read_text("utf-8"))
    assert codes[:3] == [0, 0, 0], printed
    assert set(codes) <= {0, 2, 4}, printed
    assert len(codes) == len(runs)
    assert not CONTROL.search(printed)
    assert printed.count("\\x1b[31m") > len(runs)


def test_a_certificate_cannot_add_lines_to_what_is_said_of_it(tmp_path: Path, files: list[str]) -> None:
    name = "out.jsonl\nGuaranteed (epsilon = 0.001), per document"
    refused = dptext(*files[:2], name, *files[3:], "--output-format", "jsonl", cwd=tmp_path)
    assert refused.returncode == 2
    assert dptext(*files, cwd=tmp_path).returncode == 0
    own = f"{files[2]}.guarantee.json"
    written = json.loads((tmp_path / own).read_text("utf-8")) | {"output": name}
    (tmp_path / f"{name}.guarantee.json").write_text(json.dumps(written), "utf-8")
    (tmp_path / files[2]).rename(tmp_path / name)
    told = dptext("explain", name, cwd=tmp_path)
    assert told.returncode == 4
    assert "--json" in told.stderr
    assert "\nGuaranteed (epsilon = 0.001)" not in told.stdout + told.stderr
    told = dptext("explain", name, "--json", cwd=tmp_path)
    assert json.loads(told.stdout)["output"] == name


@contextlib.contextmanager
def on_a_terminal(command: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command with a terminal for stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_all(number: int) -> str:
    found = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal so
        while block := os.read(number, 1 << 16):
            found += block
    return found.decode()


def test_a_bar_moves_and_what_is_printed_meanwhile_is_escaped(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nos.environ['COLUMNS'] = '200'\n"  # a narrow terminal cuts the numbers off
        "from dptext.cli import terminal\nterminal.open_streams()\n"
        "from dptext.cli.terminal import counted, say\n"
        f"with counted({HOSTILE!r} + ' {{task.nothing}} [red]') as tell:\n"
        f"    tell(3, 9, 'texts'); say({HOSTILE!r}); time.sleep(.15); tell(9, 9, 'texts')\n"
    )
    with on_a_terminal([sys.executable, "-c", code], tmp_path) as (process, ours):
        shown = read_all(ours)
        assert process.wait(30) == 0, shown
    assert "9/9" in shown
    assert "\x1b[" in shown  # the bar is drawn again and again
    assert "\\x1b[31m" in shown
    assert "{task.nothing} [red]" in shown
    for steering in ("\x1b[31m\x1b]0;", "\x9b", "\u202e", "\u2066", "\u2028"):
        assert steering not in shown


def test_a_bar_within_a_bar_moves_beneath_it(tmp_path: Path) -> None:
    """Drawn by a console of its own, it was text above the first bar: `utility corpus` showed `\\x1b[2K`."""
    code = (
        "import os, time\nos.environ['COLUMNS'] = '200'\n"
        "from dptext.cli import terminal\nterminal.open_streams()\n"
        "from dptext.cli.terminal import counted, say\n"
        "with counted('judging', 'rows') as outer:\n"
        "    for i in range(2):\n"
        "        with counted('embedding', 'texts') as inner:\n"
        "            inner(3, 9); time.sleep(.15); inner(9, 9); time.sleep(.15)\n"
        "        outer(i + 1, 2)\n"
        "with counted('after', 'texts') as tell:\n"
        "    tell(4, 4)\n"
    )
    with on_a_terminal([sys.executable, "-c", code], tmp_path) as (process, ours):
        shown = read_all(ours)
        assert process.wait(30) == 0, shown
    assert all(each in shown for each in ("judging", "2/2", "embedding", "9/9", "after", "4/4"))
    assert "\\x" not in shown


def test_a_bar_comes_only_after_two_seconds(tmp_path: Path) -> None:
    code = (
        "import os, time\nos.environ['COLUMNS'] = '200'\n"
        "from dptext.cli import terminal\nterminal.open_streams(); terminal.FIRST_LINE_SECONDS = 1.0\n"
        "with terminal.counted_if_slow('short', 'rows') as tell:\n"
        "    tell(5, None)\n"
        "with terminal.counted_if_slow('long', 'rows') as tell:\n"
        "    tell(6, None); time.sleep(1.1); tell(7, None); tell(8, None)\n"
    )
    with on_a_terminal([sys.executable, "-c", code], tmp_path) as (process, ours):
        shown = read_all(ours)
        assert process.wait(30) == 0, shown
    assert "long" in shown
    assert "8/?" in shown
    assert "short" not in shown


def test_every_console_is_made_by_the_terminal() -> None:
    """A console of its own would print escape sequences through a stream that shows them."""
    folder = Path(terminal.__file__).parent
    made = [path.name for path in folder.rglob("*.py") if re.search(r"\bConsole\(", path.read_text("utf-8"))]
    assert made == ["terminal.py"]


def test_json_is_ascii() -> None:
    """What JSON escapes itself, the terminal leaves alone: an escape of its own would not be JSON."""
    folder = Path(terminal.__file__).parent
    assert not [path.name for path in folder.rglob("*.py") if "ensure_ascii" in path.read_text("utf-8")]
    assert escaped(json.dumps(HOSTILE)) == json.dumps(HOSTILE)


def test_an_error_in_a_finalizer_or_a_thread_withholds_its_message(tmp_path: Path) -> None:
    code = (
        "import threading\nfrom dptext.cli import app\n"
        "class Late:\n    def __del__(self): raise ValueError('zq9canaryxv')\n"
        "def broken(): raise ValueError('zq9canaryxv')\n"
        "def show():\n    Late()\n    thread = threading.Thread(target=broken); thread.start(); thread.join()\n"
        "import dptext.cli.mechanisms\ndptext.cli.mechanisms.mechanisms = show\napp.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "mechanisms"], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count("internal error ValueError") == 2
    assert "zq9canaryxv" not in done.stderr
