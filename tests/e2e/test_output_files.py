"""No command writes over its inputs, nor over anything else unasked; numbers from originals are their owner's alone."""

import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext_lab.redaction.divergence import density_ratio, estimators
from pages_folder import CORPORA, Folder, guarantee
from vectors import WORDS

CANARY = "zqxcanaryxv"
PAID = "--ledger BOOKS --account a --subject-field doc --author-field doc --max-per-author 9"

#: Every option that names a file to be written, with the private files that its command reads.
COMMANDS = {
    "trait --out": ("audit trait A B --mechanism random_redaction --set level=0.1 --out OUT", "A B"),
    "trait --out, releases": ("audit trait A B --released-a C --released-b B --out OUT", "A B C"),
    "trait --out, public": ("audit trait A B --mechanism syntf --set epsilon=1 --public C --out OUT", "C"),
    "distinguish --figure": ("audit distinguish --spec SPEC --figure OUT", "SPEC"),
    "membership --figure": ("audit membership A --label-field kind --others B --public C --figure OUT", "A B C"),
    "sensitivity --figure": ("audit sensitivity --dims 1,2 --pairs 50 --figure OUT", ""),
    "divergence --out": ("audit divergence A B --public C --embedding tfidf --out FOLDER", "A B C"),
    "report --out": ("report DIR --out OUT", "DIR/table.json DIR/experiment.json"),
    "recommend --reduce": ("recommend --table DIR --reduce OUT", "DIR/table.json DIR/experiment.json"),
    "privatize": ("privatize A OUT --mechanism random_redaction --set level=0.1 --output-format jsonl", "A"),
    "privatize, spec": ("privatize A OUT --spec SPEC --output-format jsonl", "SPEC"),
    "privatize, ledger": (f"privatize A OUT --spec SPEC --output-format jsonl {PAID}", "BOOKS BOOKS.key"),
}
ALL = [(name, private) for name, (_, inputs) in COMMANDS.items() for private in inputs.split()]


def dptext(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density_ratio, "MOST_EPOCHS", 2)
    monkeypatch.setattr(estimators, "NEAREST_HALVES", 5)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> Path:
    """A folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    for name, liked in (("A", WORDS[:4]), ("B", WORDS[4:8]), ("C", WORDS[:80])):
        rows = [
            {"text": " ".join([*rng.choice(WORDS[:80], 5), *rng.choice(liked, 3), CANARY]), "doc": i, "kind": "k"}
            for i in range(150)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "SPEC").write_text(
        f'kind = "word_metric"\nepsilon = 1.0\nnoise = "tem"\nvectors = "{vectors}"\nn_words = 300\nmax_tokens = 9\n'
        "diameter = 90.0\n",
        "utf-8",
    )
    made = Folder(folder / "DIR")
    for corpus in CORPORA:
        made.cell("original", "", {"classification.accuracy": 0.9}, corpus=corpus)
        made.cell("nearest", "candidates", {"classification.accuracy": 0.8}, stated=guarantee(2.0), corpus=corpus)
    made.write()
    return folder


@pytest.fixture
def work(tmp_path: Path, made_once: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(made_once, tmp_path, dirs_exist_ok=True))


def filled(work: Path, name: str, out: Path) -> list[object]:
    """The command with this file, or with the folder of it where it writes several."""
    places = {"A": work / "A.jsonl", "B": work / "B.jsonl", "C": work / "C.jsonl", "OUT": out, "FOLDER": out.parent}
    rest = {each: work / each for each in ("SPEC", "DIR", "BOOKS")}
    if "BOOKS" in COMMANDS[name][0] and not rest["BOOKS"].exists():
        account = ("a", "--dataset", "d", "--unit", "author", "--epsilon", "1e6", "--by-subject")
        assert dptext("budget", "open", *account, "--ledger", rest["BOOKS"])[0] == 0
    return [{**places, **rest}.get(word, word) for word in COMMANDS[name][0].split()]


def bytes_of(folder: Path) -> dict[str, tuple[object, int]]:
    """Bytes and modes; of the ledger's only that it is one, as SQLite tidies up when it likes."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes().partition(b"SQLite format 3")[:2],
            stat.S_IMODE(path.stat().st_mode),
        )
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.slow_cases(
    *(
        f"{name}-{private}-{how}"
        for name, private in ALL
        for how in ("hard link", "symbolic link")
        if name.partition(" ")[0] in ("trait", "membership", "divergence", "recommend")
    ),
    why="each command is asked about each input itself; links stay for other commands, and are seen in one place",
)
@pytest.mark.slow_cases(
    "report --out-DIR/experiment.json-hard link",
    "report --out-DIR/experiment.json-symbolic link",
    "report --out-DIR/table.json-hard link",
    "BOOKS.key-hard link",
    "BOOKS.key-symbolic link",
    "BOOKS-hard link",
    why="links to the inputs of the other commands stay",
)
@pytest.mark.parametrize("how", ["itself", "hard link", "symbolic link"])
@pytest.mark.parametrize(("name", "private"), ALL)
def test_an_input_is_never_written_over(work: Path, name: str, private: str, how: str) -> None:
    given = work / (f"{private}.jsonl" if private in "ABC" else private)
    filled(work, name, given)
    out = given
    if how != "itself" or name.startswith("divergence"):
        (work / "other").mkdir()
        out = work / "other" / "divergence.json"
        out.symlink_to(given) if how == "symbolic link" else os.link(given, out)
    before = bytes_of(work)
    for more in ([], ["--force"]):
        code, told = dptext(*filled(work, name, out), *more)
        assert code == 2, told
        assert "to be no input" in told
        assert CANARY not in told
        assert bytes_of(work) == before
    assert out.samefile(given)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_there_is_not_overwritten_unasked(work: Path, name: str) -> None:
    out = work / "other" / "divergence.json"
    out.parent.mkdir()
    out.write_text("somebody's only copy", "utf-8")
    command = filled(work, name, out)
    before = bytes_of(work)
    code, told = dptext(*command)
    assert code == 2, told
    assert "--force" in told
    assert bytes_of(work) == before


@pytest.mark.slow_cases("distinguish --figure", "divergence --out", why="trait, recommend and report stay")
@pytest.mark.parametrize("there", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "more", "mode"),
    [
        ("trait --out", "--training 50 --attacked 25 --attacker tfidf --seed 1", 0o600),
        ("distinguish --figure", f"--trials 500 --seed 1 --first {WORDS[0]} --second {WORDS[1]}", 0o600),
        ("sensitivity --figure", "", 0o666),  # of a simulation: no original had a part in it
        ("divergence --out", "--components 2 --alphas 2,3 --seed 1", 0o600),
        ("report --out", "", 0o600),
        ("recommend --reduce", "", 0o600),
        ("privatize", "--without-guarantee", 0o666),  # made for sharing
    ],
)
def test_what_holds_numbers_from_originals_is_for_its_owner(
    work: Path, name: str, more: str, mode: int, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_trait_command import HashedWords

    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedWords())
    out = work / "other" / "divergence.json"
    out.parent.mkdir()
    if there:  # its mode is not taken over
        out.write_text("old", "utf-8")
        out.chmod(0o666)
    mask = os.umask(0)
    try:
        code, told = dptext(*filled(work, name, out), *more.split(), *(["--force"] if there else []))
    finally:
        os.umask(mask)
    assert code in (0, 1), told
    assert out.read_bytes() not in (b"", b"old")
    names = {"divergence --out": {"divergence.json", "divergence.svg", "plane.svg"}}
    extra = {"privatize": {"divergence.json", "divergence.json.guarantee.json"}}
    assert {path.name for path in out.parent.iterdir()} == {**names, **extra}.get(name, {"divergence.json"})
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.parent.iterdir()} == {mode}


def test_a_private_page_is_for_its_owner(work: Path) -> None:
    out = work / "page.html"
    assert dptext("report", work / "DIR", "--out", out, "--show-private")[0] == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_is_told_before_the_work(work: Path) -> None:
    out = work / "absent" / "result.json"
    code, told = dptext(*filled(work, "trait --out", out), "--training", 10**6)  # too many, which shows later
    assert (code, "No such file or directory" in told) == (2, True)
