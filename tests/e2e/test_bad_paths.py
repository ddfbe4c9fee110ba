"""Every option of every command that names a path, with every path that cannot be used: exit code 2 and a message.

One process runs the whole table, without the power of root to read what it may not.
"""

import ctypes
import functools
import inspect
import itertools
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer.main

from commands import Interpreter
from compared import as_toml, experiment, write_texts
from dptext.cli import options
from dptext.cli.app import app
from vectors import sentences

_DROP_CAPABILITY, _READ_AND_WRITE_ANYTHING = 24, (1, 2)


def powerless() -> None:
    """Root, too, may then read and write only what its user and group may."""
    for capability in _READ_AND_WRITE_ANYTHING:
        ctypes.CDLL(None).prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


def run(arguments: list[list[str]], folder: Path) -> list[tuple[object, str]]:
    """Exit code and stderr of each."""
    ran = (interpreter(folder)(*each) for each in arguments)
    return [(done.returncode, done.stderr) for done in ran]


@functools.cache
def interpreter(folder: Path) -> Interpreter:
    return Interpreter(folder, first=powerless)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> Iterator[Path]:
    """Files that all commands can use, and what none can."""
    room = tmp_path_factory.mktemp("room")
    rows = [{"text": text, "label": "ab"[i % 2], "who": f"w{i % 3}"} for i, text in enumerate(sentences(40))]
    for name, own in (("in.jsonl", rows), ("public.jsonl", rows[::-1]), ("unreadable.jsonl", rows)):
        (room / name).write_text("".join(json.dumps(row) + "\n" for row in own), "utf-8")
    others = [{"text": text} for text in sentences(40, seed=2)]
    (room / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in others), "utf-8")
    labelled = [{"id": str(i), **row} for i, row in enumerate(rows)]
    (room / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled), "utf-8")
    spec = f'kind = "word_metric"\nepsilon = 4.0\nvectors = "{vectors}"\nn_words = 300\n'
    (room / "spec.toml").write_text(spec, "utf-8")
    texts = write_texts(room / "texts.jsonl")
    (room / "e.toml").write_text(as_toml(experiment(texts, vectors)), "utf-8")
    np.save(room / "latents.npy", np.zeros((20, 8)))
    (room / "new").mkdir()
    for name in ("folder.jsonl", "folder.toml", "folder.npy", "closed", "readonly"):
        (room / name).mkdir()
    (room / "closed" / "a.jsonl").write_text("{}", "utf-8")
    os.symlink("loop.jsonl", room / "loop.jsonl")
    os.mkfifo(room / "pipe.jsonl")
    made = run(
        [
            ["privatize", "in.jsonl", "out.jsonl", "--spec", "spec.toml"],
            ["fit", "--spec", "spec.toml", "--out", "model"],
            ["budget", "open", "books", "--epsilon", "100", "--unit", "document", "--ledger", "books.db"],
            ["compare", "e.toml", "--out", "grid", "--workers", "1"],
            ["summarize", "other.jsonl", "kept.summary", *SUMMARY],
        ],
        room,
    )
    assert [code for code, _ in made] == [0] * 5, made
    for name, mode in (("unreadable.jsonl", 0), ("closed", 0), ("readonly", 0o500)):
        (room / name).chmod(mode)
    yield room
    interpreter(room).close()
    for name in ("closed", "readonly"):
        (room / name).chmod(0o700)


#: Paths that cannot be read, written or looked at, whatever they are to be.
BAD = {
    "empty": "",
    "name too long": "x" * 256 + ".jsonl",
    "path too long": "a/" * 2500 + "x.jsonl",
    "loop": "loop.jsonl",
    "through a loop": "loop.jsonl/x.jsonl",
    "through a file": "in.jsonl/x.jsonl",
    "in a closed folder": "closed/a.jsonl",
}
BAD_FILES = {"a folder": "folder.jsonl", "this folder": ".", "the folder above": "..", "the root": "/"}
BAD_INPUTS = {**BAD, **BAD_FILES, "unreadable": "unreadable.jsonl", "absent": "absent/x.jsonl"}
BAD_OUTPUTS = {
    **BAD,
    **BAD_FILES,
    "in a read-only folder": "readonly/x.jsonl",
    "in no folder": "absent/x.jsonl",
    "a pipe": "pipe.jsonl",
}
BAD_FOLDERS = {**BAD, "a file": "in.jsonl", "in a read-only folder": "readonly/x"}

#: Of options that several commands share one after the other.
FEW_INPUTS = {said: BAD_INPUTS[said] for said in ("empty", "in a closed folder", "a folder", "unreadable")}
FEW_FOLDERS = {said: BAD_FOLDERS[said] for said in ("empty", "in a closed folder", "a file", "in a read-only folder")}

SPEC = ["--spec", "spec.toml"]
NEAREST = ["-m", "candidates", "-s", "epsilon=5", "-s", "ranker=tfidf"]
LEDGER = ["--ledger", "books.db", "--account", "books"]
LABELS = ["--label-field", "label", "--label", "a", "--label", "b", "--epsilon", "3"]
LABELLED = [*LABELS, "--public", "public.jsonl"]
RELEASES = ["in.jsonl", "labelled.jsonl", *LABELLED]
SETS = ["in.jsonl", "other.jsonl"]
POOL = ["-m", "votes", "-s", "encoder=glove", "-s", "topics=2", "--public", "public.jsonl"]
SUMMARY = ["--public", "public.jsonl", "--with", "topics", "-s", "encoder=glove", "-s", "topics=2"]
FEW_TEXTS = ["--training", "5", "--attacked", "5"]
AUTHORS = ["--author-field", "who", "--train-texts", "5", "--attacked-texts", "3"]
KEYS = {"create": ["me", "--scope", "metrics"], "list": [], "revoke": ["a"], "rotate": ["a"]}
TFIDF = ["--embedding", "tfidf", "--components", "2"]
#: Command and parameter, the paths that are bad there, and arguments that are good but for `@`.
TABLE: list[tuple[str, str, dict[str, str], list[str]]] = [
    ("explain", "certificate", BAD, ["@"]),
    ("explain", "spec", BAD_INPUTS, ["--spec", "@"]),
    ("explain", "ledger", BAD | BAD_FILES, ["out.jsonl", "--ledger", "@"]),
    ("explain", "page", BAD_OUTPUTS, ["out.jsonl", "--for", "legal", "--html", "@"]),
    ("demo", "files", BAD_FOLDERS, ["--files", "@"]),
    ("init", "source", BAD_INPUTS, ["@", "--for", "texts", "--unit", "token"]),
    ("init", "public", BAD_INPUTS, ["in.jsonl", "--public", "@", "--label-field", "label"]),
    ("fit", "target", BAD_FOLDERS, [*SPEC, "--out", "@"]),
    ("fit", "spec", BAD_INPUTS, ["--spec", "@", "--out", "new/1"]),
    ("fit", "public", BAD_INPUTS, [*NEAREST, "--public", "@", "--out", "new/2"]),
    ("fit", "pool", BAD_INPUTS,
        ["-m", "deep_candidate", "-s", "epsilon=5", "--public", "public.jsonl", "--pool", "@", "--out", "new/3"]),
    ("fit", "private", BAD_INPUTS,
        ["-m", "adept_dpsgd", "-s", "epsilon=5", "--public", "public.jsonl", "--private", "@", "--out", "new/4"]),
    ("fit", "stand_in", BAD_INPUTS, [*NEAREST, "--public", "public.jsonl", "--stand-in", "@", "--out", "new/13"]),
    ("privatize", "source", BAD_INPUTS, ["@", "new/5.jsonl", "--format", "jsonl", *SPEC]),
    ("privatize", "target", BAD_OUTPUTS, ["in.jsonl", "@", "--output-format", "jsonl", *SPEC]),
    ("privatize", "target", BAD_OUTPUTS, ["in.jsonl", "@", "--output-format", "parquet", "--force", *SPEC]),
    ("privatize", "target", BAD_OUTPUTS, ["in.jsonl", "@", "--output-format", "csv", "--resume", *SPEC]),
    ("privatize", "spec", BAD_INPUTS, ["in.jsonl", "new/6.jsonl", "--spec", "@"]),
    ("privatize", "model", BAD_FOLDERS, ["in.jsonl", "new/7.jsonl", "--model", "@"]),
    ("privatize", "ledger", BAD_OUTPUTS, ["in.jsonl", "new/8.jsonl", *SPEC, "--ledger", "@", "--account", "books"]),
    ("privatize", "subject_key", BAD_INPUTS,
        ["in.jsonl", "new/9.jsonl", *SPEC, *LEDGER, "--subject-field", "who", "--subject-key", "@"]),
    ("compare", "experiment", BAD_INPUTS, ["@", "--out", "new/10"]),
    ("compare", "out", BAD_FOLDERS, ["e.toml", "--out", "@"]),
    ("recommend", "table", BAD | {"absent": "absent/x.json"}, ["--table", "@"]),
    ("recommend", "reduce", BAD_OUTPUTS, ["--table", "grid", "--reduce", "@"]),
    ("report", "folder", BAD_FOLDERS, ["@"]),
    ("report", "folder", BAD_FOLDERS, ["@", "--markdown"]),
    ("report", "target", BAD_OUTPUTS, ["grid", "--out", "@"]),
    ("audit distinguish", "spec", BAD_INPUTS, ["--spec", "@"]),
    ("audit distinguish", "model", BAD_FOLDERS, ["--model", "@"]),
    ("audit distinguish", "figure", BAD_OUTPUTS, ["--noise", "laplace", "--trials", "250", "--figure", "@"]),
    ("audit whitebox", "spec", FEW_INPUTS, ["--spec", "@"]),
    ("audit whitebox", "model", FEW_FOLDERS, ["--model", "@"]),
    ("audit exact", "spec", FEW_INPUTS, ["--spec", "@"]),
    ("audit exact", "model", FEW_FOLDERS, ["--model", "@"]),
    ("audit sensitivity", "latents", BAD_INPUTS, ["--clip-norm", "1", "--latents", "@"]),
    ("audit sensitivity", "figure", BAD_OUTPUTS, ["--dims", "1:2", "--pairs", "10", "--figure", "@"]),
    ("audit reconstruction", "spec", FEW_INPUTS, ["--spec", "@", "--pool", "public.jsonl"]),
    ("audit reconstruction", "model", FEW_FOLDERS, ["--model", "@", "--pool", "public.jsonl"]),
    ("audit reconstruction", "pool", BAD_INPUTS, [*SPEC, "--pool", "@"]),
    ("synthesize", "source", BAD_INPUTS, ["@", "made.jsonl", *POOL]),
    ("synthesize", "target", BAD_OUTPUTS, ["in.jsonl", "@", *POOL]),
    ("synthesize", "public", FEW_INPUTS, ["in.jsonl", "made.jsonl", "-m", "votes", "--public", "@"]),
    ("synthesize", "spec", FEW_INPUTS, ["in.jsonl", "made.jsonl", *POOL, "--spec", "@"]),
    ("synthesize", "ledger", FEW_INPUTS,
        ["in.jsonl", "made.jsonl", *POOL, "--ledger", "@", "--account", "books"]),
    ("synthesize", "subject_key", FEW_INPUTS,
        ["in.jsonl", "made.jsonl", *POOL, *LEDGER, "--subject-field", "who", "--subject-key", "@"]),
    ("summarize", "source", BAD_INPUTS, ["@", "made.summary", *SUMMARY]),
    ("summarize", "target", BAD_OUTPUTS, ["in.jsonl", "@", *SUMMARY]),
    ("summarize", "public", FEW_INPUTS, ["in.jsonl", "made.summary", *SUMMARY[2:], "--public", "@"]),
    ("summarize", "like", FEW_INPUTS, ["in.jsonl", "made.summary", "--like", "@"]),
    ("summarize", "spec", FEW_INPUTS, ["in.jsonl", "made.summary", *SUMMARY, "--spec", "@"]),
    ("summarize", "schema_from", FEW_INPUTS, ["in.jsonl", "made.summary", *SUMMARY, "--schema-from", "@"]),
    ("summarize", "ledger", FEW_INPUTS, ["in.jsonl", "made.summary", *SUMMARY, "--ledger", "@", "--account", "books"]),
    ("summarize", "subject_key", FEW_INPUTS,
        ["in.jsonl", "made.summary", *SUMMARY, *LEDGER, "--subject-field", "who", "--subject-key", "@"]),
    ("write", "summary", BAD_INPUTS, ["@", "made.jsonl"]),
    ("write", "target", BAD_OUTPUTS, ["made.summary", "@"]),
    ("write", "public", FEW_INPUTS, ["kept.summary", "made.jsonl", "--public", "@"]),
    ("summary show", "summary", BAD_INPUTS, ["@"]),
    ("summary add", "paths", BAD_OUTPUTS, ["@", "made.summary", "both.summary"]),
    ("serve", "models", BAD_FOLDERS, ["--models", "@", "--ledger", "books.db"]),
    ("serve", "ledger", FEW_INPUTS, ["--models", "model", "--ledger", "@"]),
    ("serve", "key_file", BAD_OUTPUTS, ["--models", "model", "--ledger", "books.db", "--key-file", "@"]),
    ("serve", "spool", {"a file": "in.jsonl", "empty": ""},
        ["--models", "model", "--ledger", "books.db", "--key-file", "new/k", "--spool", "@"]),
    *[(f"keys {name}", "ledger", FEW_INPUTS, [*given, "--ledger", "@"]) for name, given in KEYS.items()],
    *[(f"keys {name}", "key_file", BAD_OUTPUTS, [*given, "--ledger", "books.db", "--key-file", "@"])
        for name, given in KEYS.items()],
    ("audit membership", "records", BAD_INPUTS, ["@", "--label-field", "label"]),
    ("audit membership", "spec", FEW_INPUTS, ["in.jsonl", "--label-field", "label", "--spec", "@"]),
    ("audit membership", "model", FEW_FOLDERS, ["in.jsonl", "--label-field", "label", "--model", "@"]),
    ("audit membership", "public", BAD_INPUTS, ["in.jsonl", "--label-field", "label", *NEAREST, "--public", "@"]),
    ("audit membership", "others", BAD,
        ["in.jsonl", "--model", "model", "--attack", "reconstruction", "--others", "@"]),
    ("audit membership", "figure", BAD_OUTPUTS, ["in.jsonl", "--label-field", "label", "--figure", "@"]),
    ("audit authorship", "records", BAD_INPUTS, ["@", *AUTHORS, *SPEC]),
    ("audit authorship", "spec", FEW_INPUTS, ["in.jsonl", *AUTHORS, "--spec", "@"]),
    ("audit authorship", "model", FEW_FOLDERS, ["in.jsonl", *AUTHORS, "--model", "@"]),
    ("audit authorship", "public", BAD_INPUTS, ["in.jsonl", *AUTHORS, *NEAREST, "--public", "@"]),
    ("audit authorship", "released", BAD_INPUTS, ["in.jsonl", *AUTHORS, "--released", "@"]),
    ("papers", "data", BAD_INPUTS, ["refutation", "--data", "@"]),
    ("papers", "public", BAD_INPUTS, ["refutation", "--data", "in.jsonl", "--public", "@"]),
    ("papers", "out", BAD_OUTPUTS, ["refutation", "--data", "in.jsonl", "--out", "@"]),
    ("audit trait", "first", BAD_INPUTS, ["@", "other.jsonl", *SPEC, *FEW_TEXTS]),
    ("audit trait", "second", BAD_INPUTS, ["in.jsonl", "@", *SPEC, *FEW_TEXTS]),
    ("audit trait", "spec", FEW_INPUTS, [*SETS, "--spec", "@"]),
    ("audit trait", "model", FEW_FOLDERS, [*SETS, "--model", "@"]),
    ("audit trait", "public", BAD_INPUTS, [*SETS, *NEAREST, "--public", "@", *FEW_TEXTS]),
    ("audit trait", "released_a", BAD_INPUTS, [*SETS, "--released-a", "@", "--released-b", "other.jsonl", *FEW_TEXTS]),
    ("audit trait", "released_b", BAD_INPUTS, [*SETS, "--released-a", "out.jsonl", "--released-b", "@", *FEW_TEXTS]),
    ("audit trait", "out", BAD_OUTPUTS, [*SETS, *SPEC, "--attacker", "tfidf", *FEW_TEXTS, "--out", "@"]),
    ("audit divergence", "first", BAD_INPUTS, ["@", "public.jsonl", "--public", "in.jsonl", *TFIDF]),
    ("audit divergence", "second", BAD_INPUTS, ["in.jsonl", "@", "--public", "in.jsonl", *TFIDF]),
    ("audit divergence", "public", BAD_INPUTS, [*SETS, "--public", "@", *TFIDF]),
    ("audit divergence", "out", BAD_FOLDERS, [*SETS, "--public", "in.jsonl", *TFIDF, "--out", "@"]),
    ("audit divergence", "embedding", BAD, [*SETS, "--public", "in.jsonl", "--embedding", "@"]),
    ("budget open", "ledger", BAD_OUTPUTS, ["new", "--epsilon", "1", "--unit", "document", "--ledger", "@"]),
    ("budget open", "subject_key", BAD_OUTPUTS,
        ["new", "--epsilon", "1", "--unit", "document", "--by-subject", "--ledger", "new/l.db", "--subject-key", "@"]),
    ("budget show", "ledger", BAD_INPUTS, ["--ledger", "@"]),
    ("budget log", "ledger", BAD_INPUTS, ["books", "--ledger", "@"]),
    ("budget verify", "ledger", BAD_INPUTS, ["--ledger", "@"]),
    ("budget upgrade", "ledger", BAD_INPUTS, ["--ledger", "@"]),
    ("utility fidelity", "originals", BAD_INPUTS, ["@", "out.jsonl", "--public", "public.jsonl"]),
    ("utility fidelity", "released", BAD_INPUTS, ["in.jsonl", "@", "--public", "public.jsonl"]),
    ("check", "path", BAD_INPUTS, ["@"]),
    ("privatize", "certificate", BAD_OUTPUTS, ["in.jsonl", "-", "--certificate", "@", *SPEC]),
    ("utility fidelity", "public", BAD_INPUTS, ["in.jsonl", "out.jsonl", "--public", "@"]),
    ("utility classification", "originals", FEW_INPUTS, ["@", "labelled.jsonl", *LABELLED, "--test", "in.jsonl"]),
    ("utility classification", "released", FEW_INPUTS, ["in.jsonl", "@", *LABELLED, "--test", "in.jsonl"]),
    ("utility classification", "public", FEW_INPUTS,
        ["in.jsonl", "labelled.jsonl", *LABELS, "--public", "@", "--test", "in.jsonl"]),
    ("utility classification", "test", BAD_INPUTS, [*RELEASES, "--test", "@"]),
    ("utility corpus", "private", FEW_INPUTS, ["@", "out.jsonl", "--public", "public.jsonl"]),
    ("utility corpus", "released", FEW_INPUTS, ["in.jsonl", "@", "--public", "public.jsonl"]),
    ("utility corpus", "public", FEW_INPUTS, ["in.jsonl", "out.jsonl", "--public", "@"]),
    ("utility corpus", "out", BAD_OUTPUTS, ["in.jsonl", "out.jsonl", "--public", "public.jsonl", "--out", "@"]),
    ("utility corpus", "test", BAD_INPUTS, ["in.jsonl", "out.jsonl", "--public", "public.jsonl", "--test", "@"]),
    ("utility balance", "originals", FEW_INPUTS, ["@", "labelled.jsonl", *LABELLED]),
    ("utility balance", "released", FEW_INPUTS, ["in.jsonl", "@", *LABELLED]),
    ("utility balance", "public", FEW_INPUTS, ["in.jsonl", "labelled.jsonl", *LABELS, "--public", "@"]),
    ("utility balance", "model", FEW_FOLDERS, [*RELEASES, "--model", "@"]),
    ("utility balance", "held_out", BAD_INPUTS, [*RELEASES, "--model", "model", "--held-out", "@"]),
]  # fmt: skip


def commands(group: object, *path: str) -> Iterator[tuple[str, object]]:
    for name in group.list_commands(None):  # type: ignore[attr-defined]
        command = group.load(name)  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def test_the_table_has_every_path_of_every_command() -> None:
    """By the annotations: an option that is added is missed here, and one that no door checks."""
    known = {(command, name) for command, name, _, _ in TABLE}
    doors = {options.file_path, options.output_path, options.folder_path, options.any_path, options.ledger_location}
    doors.add(options.place)
    found = set()
    for path, command in commands(typer.main.get_command(app)):
        hints = inspect.get_annotations(command.callback, eval_str=True)  # type: ignore[attr-defined]
        for name, hint in hints.items():
            parsers = {getattr(item, "parser", None) for item in getattr(hint, "__metadata__", ())}
            if "Path" in str(hint) or name == "ledger" or options.place in parsers:
                found.add((path, name))
                assert parsers & doors, (path, name)
    assert found == known - {("audit divergence", "embedding")}


@pytest.mark.parametrize("each", [32, pytest.param(1, marks=pytest.mark.slow)])
def test_paths_that_cannot_be_used_end_with_2(room: Path, each: int) -> None:
    """Every thirty-second of each line of the table, each line beginning at another; `make test-all` tries them all."""
    powerful = os.geteuid() == 0 and run([["explain", "--spec", "unreadable.jsonl"]], room)[0][1].count("TOML")
    cases = [
        (command, name, said, path, [*command.split(), *(path if item == "@" else item for item in arguments)])
        for i, (command, name, bad, arguments) in enumerate(TABLE)
        for said, path in list(bad.items())[i % min(each, len(bad)) :: each]
        if not (powerful and path.startswith(("unreadable", "closed", "readonly")))
    ]
    assert len(cases) > 600 / each
    assert {case[:2] for case in cases} == {line[:2] for line in TABLE}
    before = {path: path.lstat().st_mtime_ns for path in room.iterdir() if path.name != "new"}
    faults = []
    for (command, name, said, path, _), (code, message) in zip(
        cases, run([case[-1] for case in cases], room), strict=True
    ):
        told = "Invalid value for" in message or Path(path).name[-30:] in message
        if code != 2 or not told or "Traceback" in message:
            faults.append((command, name, said, code, message[-200:]))
    assert not faults, "\n".join(map(str, faults))
    assert {path: path.lstat().st_mtime_ns for path in room.iterdir() if path.name != "new"} == before


def test_a_path_says_what_is_wrong_with_it(room: Path) -> None:
    said = [
        (["privatize", "", "new/a.jsonl", *SPEC], "'IN': the path is empty"),
        (["privatize", "in.jsonl", "pipe.jsonl", "--force", *SPEC], "'OUT': it is neither a file nor a folder"),
        (["report", "in.jsonl"], "'DIR': it is a file; name a folder"),
        (["fit", *SPEC, "--out", "loop.jsonl"], "'--out': the path cannot be used: Too many levels of symbolic links"),
        (["privatize", "in.jsonl", "y" * 244 + ".jsonl", *SPEC], "shorter name"),
        (["report", "grid", "--out", "y" * 244 + ".jsonl"], "File name too long"),
    ]
    for (_, message), (code, found) in zip(said, run([arguments for arguments, _ in said], room), strict=True):
        assert code == 2
        assert message in found
    assert stat.S_ISFIFO((room / "pipe.jsonl").stat().st_mode)


@pytest.mark.parametrize("option", ["spec", "experiment"])
def test_a_path_in_a_file_of_settings_that_cannot_be_used(room: Path, option: str) -> None:
    bad = [*BAD_INPUTS.values(), "a\0b.txt", "a\0b.npy", "a\0b.txt.gz", "\u00e4\0"]
    runs = []
    for number, path in enumerate(bad):
        file = room / "new" / f"{option}{number}.toml"
        if option == "spec":
            file.write_text(
                f'kind = "word_metric"\nepsilon = 1.0\nn_words = 9\nvectors = {json.dumps(path)}\n', "utf-8"
            )
            runs.append(["privatize", "in.jsonl", "new/x.jsonl", "--spec", str(file)])
        else:
            corpus = f"[corpora.a]\npath = {json.dumps(path)}\n"
            file.write_text(f'name = "a"\n{corpus}[[mechanisms]]\nname = "a"\nkind = "label_only"\n', "utf-8")
            runs.append(["compare", str(file), "--out", "new/grid"])
    for path, (code, message) in zip(bad, run(runs, room), strict=True):
        assert code == 2, (path, code, message)
        assert message.strip()
    assert not list(itertools.chain(room.glob("new/x*"), room.glob("new/.x*")))
