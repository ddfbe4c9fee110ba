"""Private files that differ in one record, through `check`, `init`, `fit`, `privatize` and `synthesize` in a row.

What leaves is compared: `dptext.toml`, models, exit codes, what `privatize` and `synthesize` print, names of files, and
certificates, but for the digest of the releases and for noisy numbers. What `check` and `init` print is for the owner.
"""

import contextlib
import csv
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dptext import sample_records
from dptext.cli import corpus_runs, init, init_files, options
from dptext.cli.app import app, config, exit_code
from dptext.errors import DPTextError
from dptext.text.survey import Survey, survey

Row = dict[str, Any]
PROGRAM = typer.main.get_command(app)
ROWS: list[Row] = [{"text": each.text, "title": f"title {i}"} for i, each in enumerate(sample_records(12, seed=3))]
CHANGED = 5
#: The one record of a neighbour. `privatize` reads null texts as empty ones here: its user said so.
CHANGES: dict[str, Row] = {
    "tags": {"text": "<b>The ferry</b> is late &amp; full.<br/>"},
    "another column is longest": {"title": "a title that goes on and on " * 40},
    "another alphabet": {"text": "Schön war es, déjà vu, 世界 \U0001f600"},
    "delimiters": {"text": "a;b;c;d\te|f|g,h,i;j"},
    "quotes": {"text": 'she said "no", and\n\nleft'},
    "empty": {"text": ""},
    "long": {"text": "The train was late again. " * 300},
    "a number": {"text": "17"},
    "a formula": {"text": "=1+1"},
    "null": {"text": None},
    "a null beside": {"title": None},
}
#: No text of a file in UTF-8.
BROKEN: dict[str, bytes] = {"another encoding": "schön, voilà".encode("cp1252"), "a NUL": b"a\0b"}
#: A text of a file in cp1252 that looks like one in another encoding.
ODD: dict[str, bytes] = {"another code page": "żółw, łódź, ości".encode("cp1250"), "UTF-8": "schön, voilà".encode()}
PLACE = "ZQPLACE"


def as_csv(rows: list[Row], delimiter: str = ",") -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["text", "title"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def as_excel_saves(rows: list[Row]) -> bytes:
    return as_csv(rows, ";").decode().encode("cp1252", "replace")


def as_json_lines(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_lines(rows: list[Row]) -> bytes:
    return "".join(" ".join((row["text"] or "").splitlines()) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row]) -> bytes:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    out = io.BytesIO()
    names = ("text", "title")
    columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def as_workbook(rows: list[Row]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["text", "title"])
    for row in rows:
        book.active.append([row["text"], row["title"]])
        book.active.cell(book.active.max_row, 1).data_type = "s" if row["text"] is not None else "n"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


WRITERS: dict[str, Callable[[list[Row]], bytes]] = {
    "csv": as_csv,
    "excel.csv": as_excel_saves,
    "jsonl": as_json_lines,
    "txt": as_lines,
    "parquet": as_parquet,
    "xlsx": as_workbook,
}


def neighbours(ending: str) -> dict[str, bytes]:
    """Files of this ending, by what they hold in the place of a plain record; the first is plain."""

    def written(change: Row) -> bytes:
        return WRITERS[ending]([{**row, **(change if i == CHANGED else {})} for i, row in enumerate(ROWS)])

    found = {"plain": written({}), **{name: written(change) for name, change in CHANGES.items()}}
    marked = written({"text": PLACE})
    texts = ODD if ending == "excel.csv" else BROKEN if ending in ("csv", "jsonl", "txt") else {}
    return found | {name: marked.replace(PLACE.encode(), text) for name, text in texts.items()}


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Other tests of this process read no `dptext.toml` that was made here."""
    yield
    config.cache_clear()


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    config.cache_clear()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = PROGRAM.main([*map(str, arguments)], prog_name="dptext", standalone_mode=False) or 0
        except DPTextError as error:
            code = exit_code(error)
            print(error, file=sys.stderr)
    return code, out.getvalue(), err.getvalue()


def certificate(path: Path) -> Mapping[str, Any] | None:
    if not path.exists():
        return None
    return {name: value for name, value in json.loads(path.read_text("utf-8")).items() if name != "sha256"}


def without_numbers(stdout: str) -> str:
    """What `synthesize` prints but for its sentences of noisy numbers, which stand below the first."""
    first, _, rest = stdout.partition("\n")
    return first + rest[rest.find("\n\n") :]


def left(data: bytes, ending: str, folder: Path) -> dict[str, Any]:
    """What leaves of a private file with these bytes, by what it is."""
    for path in folder.iterdir():
        if path.name != "public.csv":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    source = f"in.{ending}"
    (folder / source).write_bytes(data)
    record = ("--record", "line") * (ending == "txt")
    found: dict[str, Any] = {"check": command("check", source, *record)[0]}
    for needs in ("corpus", "texts"):
        found[f"init {needs}"] = command("init", source, "--for", needs, "--public", "public.csv", *record, "--force")[
            0
        ]
        found[f"dptext.toml {needs}"] = Path("dptext.toml").read_bytes() if Path("dptext.toml").exists() else None
    found["fit"] = command("fit", "--set", "ranker=tfidf", "--seed", 0)
    found["model"] = {path.name: path.read_bytes() for path in Path().glob("in.model/*")}
    found["privatize"] = command("privatize", source, "out.jsonl", "--empty-nulls", "--model", "in.model")
    found["its certificate"] = certificate(Path("out.jsonl.guarantee.json"))
    small = ("--set", "encoder=glove", "--set", "words=8", "--set", "topics=4", "--seed", 1)
    code, out, err = command("synthesize", source, "corpus.json", "-m", "topics", *small)
    found["synthesize"] = (code, without_numbers(out), err)
    found["certificate of the corpus"] = certificate(Path("corpus.json.guarantee.json"))
    found["names"] = sorted(path.name for path in folder.rglob("*"))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def differences(ending: str, folder: Path, names: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """What leaves otherwise than of the plain file, by the record in which a neighbour differs."""
    files = neighbours(ending)
    public = [{"text": each.text, "title": "schön"} for each in sample_records(60, seed=4)]
    (folder / "public.csv").write_bytes((as_excel_saves if ending == "excel.csv" else as_csv)(public))
    plain = left(files.pop("plain"), ending, folder)
    assert (plain["init texts"], plain["privatize"][0], plain["synthesize"][0]) == (0, 0, 0)
    found = {}
    for name in names or files:
        other = left(files[name], ending, folder)
        found[name] = {each for each in plain if plain[each] != other[each]}
        assert (other["privatize"][0] == 0) == any("out.jsonl" in each for each in other["names"])
    return {name: different for name, different in found.items() if different}


FEW = ("csv", ("tags", "another column is longest", "another encoding"))
ALL = [pytest.param(ending, (), marks=pytest.mark.slow, id=ending) for ending in WRITERS]


@pytest.mark.parametrize(("ending", "records"), [pytest.param(*FEW, id="few"), *ALL])
def test_nothing_that_leaves_follows_one_private_record(folder: Path, ending: str, records: tuple[str, ...]) -> None:
    """But for a record that cannot be read: it ends a run of `privatize`, which leaves no file."""
    ended = {"privatize", "its certificate", "names"}
    assert differences(ending, folder, records) == {
        name: ended for name in BROKEN if name in (records or neighbours(ending))
    }


def init_takes_the_longest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(init, "text_field_of", lambda found: found.text)


def init_writes_what_it_sees(patch: pytest.MonkeyPatch) -> None:
    seen: list[Survey] = []

    def looks(path: Path, **given: Any) -> Survey:
        seen.append(survey(path, **given))
        return seen[-1]

    patch.setattr(init_files, "survey", looks)
    patch.setattr(init_files, "form_of", lambda *_: {"strip-html": True} if seen[-2].texts.tags else {})


def privatize_guesses(patch: pytest.MonkeyPatch) -> None:
    settings = options.Form.settings

    def guessed(form: options.Form) -> dict[str, Any]:
        tags = b"<b>" in Path("in.jsonl").read_bytes()
        return {**settings(form), "strip_html": tags}

    patch.setattr(options.Form, "settings", guessed)


def synthesize_counts(patch: pytest.MonkeyPatch) -> None:
    run = corpus_runs.run

    def told(private: Any, *given: Any, **more: Any) -> Any:
        print(sum(map(len, private.batches())), "records", file=sys.stderr)
        return run(private, *given, **more)

    patch.setattr(corpus_runs, "run", told)


@pytest.mark.slow_cases(
    "init_writes_what_it_sees",
    "synthesize_counts",
    why="it tries the test above, and one setting of each other command stays",
)
@pytest.mark.parametrize(
    ("plant", "record", "seen"),
    [
        (init_takes_the_longest, "another column is longest", "dptext.toml corpus"),
        (init_writes_what_it_sees, "tags", "dptext.toml texts"),
        (privatize_guesses, "tags", "its certificate"),
        (synthesize_counts, "another encoding", "synthesize"),
    ],
)
def test_a_setting_that_follows_a_record_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], record: str, seen: str
) -> None:
    plant(monkeypatch)
    assert seen in differences("jsonl", folder, (record,))[record]
