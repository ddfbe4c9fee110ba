"""The command line as a person uses it: real processes, real files, kills, full disks and canaries."""

import gzip
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest
import typer.main
from typer.testing import CliRunner

from commands import dptext, in_turn
from dptext.cli.app import app, exit_code, main
from dptext.errors import DPTextError
from dptext.registry import MECHANISMS
from vectored import VectorWords, vector_of
from vectors import WORDS, sentences

CANARY = "zq9canaryxv"


@pytest.fixture
def spec(tmp_path: Path, vectors: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(f'kind = "word_metric"\nepsilon = 4.0\nvectors = "{vectors}"\nn_words = 300\n', "utf-8")
    return path


def write_input(path: Path, n: int = 40, **more: object) -> list[str]:
    texts = sentences(n)
    rows = [json.dumps({"text": text, "year": 1900 + i, "who": f"w{i % 5}", **more}) for i, text in enumerate(texts)]
    data = ("\n".join(rows) + "\n").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return texts


def rows_of(path: Path) -> list[dict]:
    data = path.read_bytes()
    return [
        json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
    ]


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_privatize_writes_texts_and_a_certificate_that_verifies(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl.gz"
    texts = write_input(source)
    done = dptext("privatize", source, target, "--spec", spec, "--keep", "year")
    assert done.returncode == 0, done.stderr
    assert "epsilon = 4 per unit" in done.stdout
    rows = rows_of(target)
    assert [row["id"] for row in rows] == [str(i) for i in range(40)]
    assert [row["year"] for row in rows] == [1900 + i for i in range(40)]
    assert all(set(row) == {"id", "text", "year"} for row in rows)
    assert [len(row["text"].split()) for row in rows] == [len(text.split()) for text in texts]
    assert [row["text"] for row in rows] != texts
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(source.stat().st_mode)  # of a new file
    assert leftovers(tmp_path) == []
    certificate = tmp_path / "out.jsonl.gz.guarantee.json"
    data = json.loads(certificate.read_text("utf-8"))
    assert data["records"] == 40
    assert data["randomness"] == "secure"
    assert "the field 'year'" in data["guarantees"][0]["reveals"]
    assert data["repetition"] == "one release; each repetition adds"
    told = dptext("explain", certificate)
    assert told.returncode == 0, told.stderr
    assert "Verified" in told.stdout
    target.write_bytes(target.read_bytes() + b" ")
    assert dptext("explain", certificate).returncode == 4
    target.unlink()
    assert dptext("explain", certificate).returncode == 4


def test_a_page_for_the_third_reader_is_printed_and_written_as_html(tmp_path: Path, spec: Path) -> None:
    out = "o\u202e<u>.jsonl"  # turns the direction of what follows, and is no tag
    rows = "".join(json.dumps({"text": text, "<b>x": 1}) + "\n" for text in sentences(9))
    (tmp_path / "in.jsonl").write_text(rows, "utf-8")
    done = dptext("privatize", "in.jsonl", out, "--spec", spec, "--keep", "<b>x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = dptext("explain", out, "--for", "legal", "--html", "page.html", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(
        "o\\u202e<u>.jsonl: 9 records, mechanism word_metric\n\nTHE ANSWER\n- Guaranteed only if"
    )
    assert "multiplies the odds of a guess by at most 55 per word at distance 1" in told.stdout  # e^4
    assert "of running words come back as they were" in told.stdout
    assert "Verified: the file has the bytes" in told.stdout
    page = tmp_path / "page.html"
    shown = page.read_text("utf-8")
    assert stat.S_IMODE(page.stat().st_mode) == 0o644
    assert "the field &#x27;&lt;b&gt;x&#x27;" in shown
    assert "\u202e" not in shown
    assert "o\\u202e&lt;u&gt;.jsonl: 9 records" in shown
    assert "<b>" not in shown
    assert "<u>" not in shown
    assert dptext("explain", out, "--for", "legal", cwd=tmp_path).stdout == told.stdout
    again = ["explain", f"{out}.guarantee.json", "--for", "legal", "--html"]
    assert "overwrite it with --force" in dptext(*again, "page.html", cwd=tmp_path).stderr
    assert dptext(*again, "page.html", "--force", cwd=tmp_path).returncode == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for made_from in (out, f"{out}.guarantee.json"):
        assert dptext(*again, made_from, "--force", cwd=tmp_path).returncode == 2
    (tmp_path / out).write_bytes(before[out] + b"{}\n")
    refused = dptext(*again, "other.html", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (4, "")  # nothing is said of what does not hold
    (tmp_path / out).write_bytes(before[out])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


FORGERIES = [
    (("guarantees", 0, "epsilon"), 0.5),
    (("guarantees", 0, "basis"), "proven"),
    (("guarantees", 0, "metric"), None),
    (("events", 0, "epsilon"), 1.0),
    (("settings", "epsilon"), 5.0),
    (("randomness",), "seeded"),
    (("guarantees", 0, "reveals"), []),
    (("guarantees", 0, "assumptions"), []),
    (("guarantees", 0, "trust"), "central"),
    (("guarantees",), []),
    (("also_reveals",), []),
    (("records",), 4),
    (("records",), 0),
    (("records",), "x"),
    (("repetition",), "free"),
    (("max_per_author",), 3),
]
#: Runs `dptext explain` on each argument within one process, and prints its exit code.
EXPLAIN_EACH = """
import sys
from dptext.cli.app import main
for path in sys.argv[1:]:
    sys.argv = ["dptext", "explain", path]
    try:
        main()
    except SystemExit as end:
        print("exit", end.code, flush=True)
"""


def test_forged_certificates_are_refused(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 3)
    assert dptext("privatize", source, target, "--spec", spec).returncode == 0
    honest = (tmp_path / "out.jsonl.guarantee.json").read_text("utf-8")
    certificates = []
    for number, (path, value) in enumerate([(("schema",), json.loads(honest)["schema"]), *FORGERIES]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "out.jsonl").write_bytes(target.read_bytes())
        data = json.loads(honest)
        place = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        certificates.append(folder / "out.jsonl.guarantee.json")
        certificates[-1].write_text(json.dumps(data), "utf-8")
    (tmp_path / "each.py").write_text(EXPLAIN_EACH, "utf-8")
    told = dptext(*certificates, script=tmp_path / "each.py").stdout.split("exit ")
    assert "Verified" in told[0]  # the honest one
    assert told[1].startswith("0\n")
    codes = [part.partition("\n")[0] for part in told[2:]]
    assert len(codes) == len(FORGERIES)
    for forgery, code, text in zip(FORGERIES, codes, told[1:], strict=False):
        assert code in ("2", "4"), forgery
        assert "Verified" not in text, forgery


@pytest.mark.parametrize(
    "name",
    [
        "out.parquet",
        "out.txt",
        "out.csv.gz",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("out.csv", "out.txt.gz")),
    ],
)
def test_every_output_format(tmp_path: Path, spec: Path, name: str) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / name
    write_input(source)
    done = dptext("privatize", source, target, "--spec", spec, "--json", "--batch-size", 7)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 40
    lines = ["--record", "line"] if ".txt" in name else []
    again = dptext("privatize", target, tmp_path / "again.jsonl", "--spec", spec, *lines)
    assert again.returncode == 0, again.stderr
    assert len(rows_of(tmp_path / "again.jsonl")) == 40
    assert dptext("explain", f"{target}.guarantee.json").returncode == 0


def test_an_invented_guarantee_is_refused(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 3)
    assert dptext("privatize", source, target, "--spec", spec).returncode == 0
    certificate = tmp_path / "out.jsonl.guarantee.json"
    data = json.loads(certificate.read_text("utf-8"))
    data["guarantees"].append({**data["guarantees"][0], "unit": "author", "metric": None, "epsilon": 0.001})
    certificate.write_text(json.dumps(data), "utf-8")
    assert dptext("explain", certificate).returncode == 4


def test_a_seed_repeats_the_output_and_voids_the_guarantee(tmp_path: Path, spec: Path) -> None:
    source = tmp_path / "in.jsonl"
    write_input(source)
    outs = []
    for i, size in enumerate((1, 7, 100)):
        done = dptext("privatize", source, tmp_path / f"o{i}.jsonl", "--spec", spec, "--seed", 3, "--batch-size", size)
        assert done.returncode == 0, done.stderr
        assert "No guarantee: seeded" in done.stdout
        outs.append((tmp_path / f"o{i}.jsonl").read_bytes())
    assert outs[0] == outs[1] == outs[2]
    data = json.loads((tmp_path / "o0.jsonl.guarantee.json").read_text("utf-8"))
    assert data["guarantees"][0]["basis"] == "none"
    assert dptext("explain", tmp_path / "o0.jsonl.guarantee.json").returncode == 0


def command(*arguments: str) -> None:
    """Run a command in this process, which prints nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.argv = ["dptext", *arguments]
    main()


#: Every format is written by the same run; one that is compressed is the hardest.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "name", ["out.csv.gz", *(pytest.param(name, marks=pytest.mark.slow) for name in ("out.jsonl", "out.txt"))]
)
def test_kill_and_resume(tmp_path: Path, spec: Path, name: str) -> None:
    """Killed at many moments, resumed each time: the result is the one of an undisturbed run, no record twice."""
    source, target, whole = tmp_path / "in.jsonl", tmp_path / name, tmp_path / f"whole{name}"
    write_input(source, 600)  # so that the run is not done where this process is kept from running for a while
    common = ["--spec", spec, "--seed", 1, "--batch-size", 5]
    assert dptext("privatize", source, whole, *common).returncode == 0
    kills, resume = 0, []
    for attempt in range(50):
        given = "privatize", *map(str, [source, target, *common, *resume])
        process = multiprocessing.get_context("fork").Process(target=command, args=given)
        process.start()
        state = tmp_path / f".{name}.resume.json"
        deadline = time.monotonic() + 60
        while not state.exists() and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        before = state.stat().st_ino if state.exists() else None
        while process.is_alive() and state.exists() and state.stat().st_ino == before:
            time.sleep(0.001)  # until it has gone on by at least one batch
        time.sleep(0.03 * (attempt % 5))
        process.kill()
        process.join()
        if process.exitcode == 0 or (target.exists() and not state.exists()):
            break  # done, or killed when there was nothing left to do
        assert process.exitcode == -signal.SIGKILL
        if state.exists():
            kills += 1
            resume = ["--resume"]
    assert kills >= 2
    assert target.exists()
    assert target.read_bytes() == whole.read_bytes() or name.endswith(".gz")
    if name.endswith(".gz"):
        assert gzip.decompress(target.read_bytes()) == gzip.decompress(whole.read_bytes())
    assert leftovers(tmp_path) == []
    assert dptext("explain", f"{target}.guarantee.json").returncode == 0


def interrupted(tmp_path: Path, spec: Path) -> tuple[Path, Path]:
    """A run that ended in the middle: its file may grow to 2 kB only."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 300)
    stopped = dptext("privatize", source, target, "--spec", spec, "--batch-size", 10, largest_file=2000)
    assert stopped.returncode == 2
    assert "Cannot write" in stopped.stderr
    assert not target.exists()
    assert leftovers(tmp_path) == [".out.jsonl.part", ".out.jsonl.resume.json"]
    assert all(stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600 for name in leftovers(tmp_path))
    return source, target


def test_a_full_disk_stops_the_run_and_it_resumes(tmp_path: Path, spec: Path) -> None:
    source, target = interrupted(tmp_path, spec)
    again = dptext("privatize", source, target, "--spec", spec)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    assert dptext("privatize", source, target, "--spec", spec, "--resume").returncode == 0
    assert [row["id"] for row in rows_of(target)] == [str(i) for i in range(300)]
    assert leftovers(tmp_path) == []


def test_resuming_with_other_settings_or_another_input_is_refused(tmp_path: Path, spec: Path) -> None:
    source, target = interrupted(tmp_path, spec)
    named = {"epsilon": ["--set", "epsilon=5"], "randomness": ["--seed", 1], "fields": ["--keep", "year"]}
    for name, other in {**named, "on_error": ["--on-error", "skip"]}.items():
        refused = dptext("privatize", source, target, "--spec", spec, "--resume", *other)
        assert refused.returncode == 2
        assert f": these differ ({name}). Begin anew with --force." in refused.stderr
    source.write_bytes(source.read_bytes() + b'{"text": "more"}\n')
    refused = dptext("privatize", source, target, "--spec", spec, "--resume")
    assert refused.returncode == 2
    assert "has changed" in refused.stderr
    assert dptext("privatize", source, target, "--spec", spec, "--force").returncode == 0
    assert len(rows_of(target)) == 301


def test_nothing_to_resume(tmp_path: Path, spec: Path) -> None:
    source = tmp_path / "in.jsonl"
    write_input(source, 3)
    refused = dptext("privatize", source, tmp_path / "out.jsonl", "--spec", spec, "--resume")
    assert refused.returncode == 2
    assert "no unfinished run" in refused.stderr
    refused = dptext("privatize", source, tmp_path / "out.parquet", "--spec", spec, "--resume")
    assert refused.returncode == 2
    assert "can be resumed" in refused.stderr


def test_a_damaged_state_is_refused(tmp_path: Path, spec: Path) -> None:
    source, target = interrupted(tmp_path, spec)
    state = tmp_path / ".out.jsonl.resume.json"
    whole = state.read_text("utf-8")
    state.write_text(whole[:20], "utf-8")
    assert dptext("privatize", source, target, "--spec", spec, "--resume").returncode == 2
    state.write_text(whole, "utf-8")
    os.truncate(tmp_path / ".out.jsonl.part", 3)
    assert "shorter" in dptext("privatize", source, target, "--spec", spec, "--resume").stderr


def test_an_existing_output_is_kept_without_force(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 3)
    target.write_text("mine", "utf-8")
    refused = dptext("privatize", source, target, "--spec", spec)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert target.read_text("utf-8") == "mine"
    assert dptext("privatize", source, target, "--spec", spec, "--force").returncode == 0
    assert len(rows_of(target)) == 3
    assert dptext("privatize", source, source, "--spec", spec, "--force").returncode == 2
    assert len(rows_of(source)) == 3


BAD = {
    "malformed": f'{{"text": "{CANARY}"\n'.encode(),
    "missing field": f'{{"body": "{CANARY}"}}\n'.encode(),
    "not a string": f'{{"text": ["{CANARY}"]}}\n'.encode(),
    "not utf-8": f'{{"text": "{CANARY} \xff"}}\n'.encode("latin-1"),
    "nul": f'{{"text": "{CANARY}\\u0000"}}\n'.encode(),
    "surrogate": f'{{"text": "{CANARY}\\ud800"}}\n'.encode(),
    "too long": b'{"text": "' + CANARY.encode() * 1_000_000 + b'"}\n',
    "empty": b"",
}


@pytest.mark.slow_cases(
    "missing field", "not a string", "surrogate", "too long", why="tests/unit/text has each fault; here four stay"
)
@pytest.mark.parametrize("fault", BAD)
def test_bad_records_never_show_and_leave_nothing_behind(tmp_path: Path, spec: Path, fault: str) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = f'{{"text": "{CANARY} good"}}\n'.encode() if fault != "empty" else b""
    source.write_bytes(good + BAD[fault] + good)
    stopped = dptext("privatize", source, target, "--spec", spec)
    assert stopped.returncode == 4
    assert "record 2" in stopped.stderr or fault == "empty"
    assert str(source) in stopped.stderr
    assert CANARY not in stopped.stderr + stopped.stdout
    assert not target.exists()
    assert leftovers(tmp_path) == []
    skipping = dptext("privatize", source, target, "--spec", spec, "--on-error", "skip")
    assert CANARY not in skipping.stderr + skipping.stdout
    if fault == "empty":
        assert skipping.returncode == 4
        return
    assert skipping.returncode == 0
    assert "skipped record 2" in skipping.stderr
    certificate = (tmp_path / "out.jsonl.guarantee.json").read_text("utf-8")
    assert "the number of skipped records" in certificate
    assert "skipped record 2" not in certificate
    assert json.loads(certificate)["records"] == 2
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path != source)
    assert CANARY.encode() not in everything


def test_a_truncated_gzip_releases_nothing(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl"
    write_input(source, 400, note=CANARY)
    source.write_bytes(source.read_bytes()[:-40])
    for extra in ([], ["--on-error", "skip"]):
        stopped = dptext("privatize", source, target, "--spec", spec, *extra)
        assert stopped.returncode == 4
        assert CANARY not in stopped.stderr
        assert not target.exists()
        assert leftovers(tmp_path) == []


def test_authors_are_limited(tmp_path: Path, vectors: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 20)  # 4 by each of 5 authors
    common = [
        "--mechanism",
        "word_metric",
        "--set",
        "epsilon=1",
        "--set",
        "noise=tem",
        "--set",
        f"vectors={vectors}",
        "--set",
        "n_words=300",
    ]
    documents = ["--set", "max_tokens=4", "--set", "diameter=40"]
    limit = ["--author-field", "who", "--max-per-author"]
    refused = dptext("privatize", source, target, *common, *limit, 4)
    assert refused.returncode == 2
    assert "per document" in refused.stderr
    refused = dptext("privatize", source, target, *common, *documents, *limit, 3)
    assert refused.returncode == 4
    assert "record 16" in refused.stderr.lower()
    assert "w0" not in refused.stderr
    done = dptext("privatize", source, target, *common, *documents, *limit, 4, "--json")
    assert done.returncode == 0, done.stderr
    found = {g["unit"]: g["epsilon"] for g in json.loads(done.stdout)["guarantees"]}
    assert found["document"] == pytest.approx(160, rel=1e-9)
    assert found["author"] == pytest.approx(640, rel=1e-9)
    assert dptext("explain", f"{target}.guarantee.json").returncode == 0


def test_a_mechanism_without_guarantee_must_be_asked_for(tmp_path: Path, vectors: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 5)
    common = [
        "--mechanism",
        "private_phrases",
        "--set",
        "variance=6",
        "--set",
        f"vectors={vectors}",
        "--set",
        "n_words=300",
        "--set",
        "common_words=50",
    ]
    refused = dptext("privatize", source, target, *common)
    assert refused.returncode == 2
    assert "--without-guarantee" in refused.stderr
    assert not target.exists()
    done = dptext("privatize", source, target, *common, "--without-guarantee")
    assert done.returncode == 0, done.stderr
    assert "No guarantee" in done.stdout


USAGE: list[tuple[list[str], str]] = [
    (["explain"], "--mechanism"),
    (["explain", "-m", "word_metrik"], "did you mean 'word_metric'"),
    (["explain", "-m", "word_metric", "-s", "epsilom=3"], "did you mean 'epsilon'"),
    (["explain", "-m", "word_metric"], "epsilon"),
    (["explain", "-m", "word_metric", "-s", "epsilon=-1"], "Expected epsilon=-1"),
    (["explain", "-m", "word_metric", "-s", "epsilon=nan"], "epsilon"),
    (["explain", "-m", "word_metric", "-s", "epsilon"], "KEY=VALUE"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "-s", "noise=pink"], "noise"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "--unit", "house"], "document"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "--unit", "document"], "diameter"),
    (["explain", "--spec", "absent.toml"], "absent.toml"),
    (["explain", "absent.guarantee.json"], "absent.guarantee.json"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "-s", "vectors=absent.txt"], "absent.txt"),
    (["privatize", "absent.jsonl", "out.jsonl", "-m", "private_phrases"], "variance"),
    (["privatize", "in.doc", "out.jsonl", "-m", "word_metric", "-s", "epsilon=1"], "--format"),
    (["privatize", "in.txt", "out.txt", "-m", "word_metric", "-s", "epsilon=1", "--on-error", "ignore"], "skip"),
    (["privatize", "in.txt", "out.txt", "-m", "word_metric", "-s", "epsilon=1", "--force", "--resume"], "one of"),
    (
        ["privatize", "in.txt", "out.txt", "-m", "word_metric", "-s", "epsilon=1", "--max-per-author", "2"],
        "--author-field",
    ),
    (["privatize", "in.txt", "out.txt", "-m", "word_metric", "-s", "epsilon=1", "--seed", "-2"], "seed"),
    (["privatize", "in.txt", "out.txt", "-m", "word_metric", "-s", "epsilon=1", "--format", "word"], "jsonl"),
    (["explain", "-m", "word_metric", "-s", "epsilon=true"], "boolean"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "-s", "epsilon=2"], "each setting once"),
    (["explain", "-m", "word_metric", "-s", "kind=private_phrases"], "--mechanism"),
    (["explain", "some.guarantee.json", "-m", "word_metric"], "not both"),
    (["explain", "-m", "word_metric", "-s", "epsilon=1", "--for", "legal"], "--for"),
    (["explain", "some.guarantee.json", "--for", "legal", "--json"], "--for"),
    (["explain", "some.guarantee.json", "--for", "judge"], "legal"),
    (["explain", "some.guarantee.json", "--html", "page.html"], "--for legal"),
    (["frobnicate"], "frobnicate"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """How each of these commands ends, which are run in one process."""
    lines = [arguments for arguments, _ in USAGE]
    done = in_turn(*lines, cwd=tmp_path_factory.mktemp("usage"))
    return {" ".join(line): found for line, found in zip(lines, done, strict=True)}


@pytest.mark.parametrize(("arguments", "said"), USAGE)
def test_usage_errors_say_what_to_do(
    refused: dict[str, subprocess.CompletedProcess[str]], arguments: list[str], said: str
) -> None:
    failed = refused[" ".join(arguments)]
    assert failed.returncode == 2
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr


def test_nothing_of_others_is_overwritten(tmp_path: Path, spec: Path) -> None:
    source, target = interrupted(tmp_path, spec)
    target.write_text("precious", "utf-8")  # appeared while the run lay unfinished
    refused = dptext("privatize", source, target, "--spec", spec, "--resume")
    assert refused.returncode == 2
    assert target.read_text("utf-8") == "precious"
    target.unlink()
    assert dptext("privatize", source, target, "--spec", spec, "--resume").returncode == 0
    other = tmp_path / "other.jsonl"
    (tmp_path / "other.jsonl.guarantee.json").write_text("mine", "utf-8")
    assert dptext("privatize", source, other, "--spec", spec).returncode == 2
    assert (tmp_path / "other.jsonl.guarantee.json").read_text("utf-8") == "mine"


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path: Path, spec: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_input(source, 3)
    assert dptext("privatize", source, target, "--spec", spec, largest_file=0).returncode == 2
    assert leftovers(tmp_path) == []
    long = tmp_path / ("x" * 242)
    assert dptext("privatize", source, long, "--spec", spec, "--output-format", "jsonl").returncode == 2
    assert leftovers(tmp_path) == []
    odd = os.fsdecode(bytes(tmp_path) + b"/o\xff.jsonl")
    assert dptext("privatize", source, odd, "--spec", spec).returncode == 2
    assert leftovers(tmp_path) == []
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert dptext("privatize", tmp_path / "pipe.jsonl", target, "--spec", spec).returncode == 2
    assert dptext("privatize", source, target, "--spec", spec).returncode == 0


def test_a_missing_input_or_folder(tmp_path: Path, spec: Path) -> None:
    absent = dptext("privatize", tmp_path / "absent.jsonl", tmp_path / "out.jsonl", "--spec", spec)
    assert absent.returncode == 2
    assert "absent.jsonl" in absent.stderr
    source = tmp_path / "in.jsonl"
    write_input(source, 3)
    nowhere = dptext("privatize", source, tmp_path / "no" / "out.jsonl", "--spec", spec)
    assert nowhere.returncode == 2
    assert "Cannot write" in nowhere.stderr


def test_an_internal_error_withholds_its_message(tmp_path: Path, spec: Path) -> None:
    source = tmp_path / "in.jsonl"
    write_input(source, 3)
    code = (
        "import dptext.text.tokens\n"
        f"def broken(text): raise RuntimeError('{CANARY}')\n"
        "dptext.text.tokens.tokenize = broken\n"
        "from dptext.cli.app import main; main()"
    )
    failed = subprocess.run(
        [sys.executable, "-c", code, "privatize", str(source), str(tmp_path / "out.jsonl"), "--spec", str(spec)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert failed.returncode == 70
    assert "internal error RuntimeError" in failed.stderr
    assert CANARY not in failed.stderr + failed.stdout


def test_mechanisms_and_explain_speak_json(vectors: Path) -> None:
    listed = json.loads(dptext("mechanisms", "--json").stdout)
    assert {row["kind"] for row in listed} == set(MECHANISMS)
    assert all(row["guarantee"] and row["summary"] for row in listed)
    assert dptext("mechanisms").returncode == 0
    told = dptext(
        "explain", "-m", "word_metric", "-s", "epsilon=2", "-s", f"vectors={vectors}", "-s", "n_words=300", "--json"
    )
    data = json.loads(told.stdout)
    assert data["guarantees"][0]["epsilon"] == 2
    assert 0 < data["unchanged_share"] < 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, spec: Path) -> None:
    peaks = []
    for n in (2_000, 40_000):
        source, target = tmp_path / f"{n}.txt", tmp_path / f"{n}.out.txt"
        source.write_text("\n".join([" ".join(WORDS[:20])] * n), "utf-8")
        code = (
            "import resource, sys\nfrom dptext.cli.app import main\n"
            "try:\n    main()\nfinally:\n    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        run = subprocess.run(
            [
                sys.executable,
                "-c",
                code,
                "privatize",
                str(source),
                str(target),
                "--record",
                "line",
                "--spec",
                str(spec),
                "--set",
                "noise=multivariate",
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        assert target.exists(), run.stderr
        peaks.append(int(run.stderr.split()[-1]))
    assert peaks[1] < peaks[0] * 1.15


@pytest.fixture
def releases_vectors(monkeypatch: pytest.MonkeyPatch, vectors: Path):
    """The command line, in this process, with a mechanism that releases vectors."""
    monkeypatch.setitem(MECHANISMS.loaded, "word_metric", VectorWords)

    def run(*arguments: object) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(result.exception, DPTextError):
            return exit_code(result.exception), result.stdout, f"{result.stderr}{result.exception}"
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.stdout, result.stderr

    spec = ["-m", "word_metric", "-s", "epsilon=4", "-s", f"vectors={vectors}", "-s", "n_words=300"]
    return lambda output: (run, [*spec, "-s", f"output={output}"])


@pytest.mark.parametrize("output", ["both", "embedding"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_privatize_writes_vectors(tmp_path: Path, releases_vectors, name: str, output: str) -> None:
    run, spec = releases_vectors(output)
    source, target = tmp_path / "in.jsonl", tmp_path / name
    write_input(source)
    code, told, errors = run("privatize", source, target, *spec, "--keep", "year", "--batch-size", 7, "--json")
    assert code == 0, errors
    data = json.loads(told)
    assert (data["records"], data["settings"]["output"]) == (40, output)
    rows = pq.read_table(target).to_pylist() if name.endswith("parquet") else rows_of(target)
    assert {tuple(row) for row in rows} == {
        ("id", "text", "embedding", "year") if output == "both" else ("id", "embedding", "year")
    }
    assert all(len(row["embedding"]) == 6 for row in rows)
    if output == "both":
        for row in rows:
            assert row["embedding"] == pytest.approx(vector_of(row["text"]), rel=1e-7)
    assert len({tuple(row["embedding"]) for row in rows}) > 10
    assert leftovers(tmp_path) == []
    certificate = tmp_path / f"{name}.guarantee.json"
    assert json.loads(run("explain", certificate, "--json")[1])["verified"]
    certificate.write_text(certificate.read_text("utf-8").replace('"records": 40', '"records": 41'), "utf-8")
    assert run("explain", certificate)[0] == 4


@pytest.mark.parametrize("name", ["out.csv", "out.txt", "out.csv.gz"])
def test_vectors_are_refused_where_the_format_holds_none(tmp_path: Path, releases_vectors, name: str) -> None:
    run, spec = releases_vectors("both")
    write_input(tmp_path / "in.jsonl", 3, text=CANARY)
    code, told, errors = run("privatize", tmp_path / "in.jsonl", tmp_path / name, *spec)
    assert (code, told) == (2, "")
    assert "Write Parquet or JSON Lines" in errors
    assert CANARY not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.slow_cases("arguments1", "arguments2", why="the help of all commands and of one stay")
@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["budget", "--help"], ["report", "--help"]])
def test_help_imports_no_command_but_the_one_that_it_describes(arguments: list[str]) -> None:
    code = (
        "import atexit, sys\nfrom dptext.cli.app import main\n"
        "atexit.register(lambda: print(*(name for name in sys.modules if '.cli.' in name)))\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout
    imported = {name.split(".")[-1] for name in done.stdout.splitlines()[-1].split()}
    shown = {"compare", "answers", "audit"} if "report" in arguments else set()  # that of `dptext report`
    tables = {"brought", "lab_doors", "gateway_doors"}  # tables of packages
    assert imported - {"app", "grouped", "terminal", "options", *tables} == shown


def test_privatize_of_one_file_loads_nothing_for_folders_and_corpora(tmp_path: Path, spec: Path) -> None:
    write_input(tmp_path / "in.jsonl", 3)
    rooms = ("dptext.batch", "dptext.synthesis", "dptext.language")
    code = (
        "import atexit, sys\nfrom dptext.cli.app import main\n"
        f"loaded = lambda: [name for name in sys.modules if name.startswith({rooms})]\n"
        "atexit.register(lambda: print(*loaded(), file=sys.stderr))\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "privatize", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--spec", spec],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode or len(rows_of(tmp_path / "out.jsonl")) != 3:
        raise RuntimeError(done.stderr)
    assert done.stderr.splitlines()[-1] == ""


def test_completion_lists_commands_and_their_options() -> None:
    top = typer.main.get_command(app)

    def completed(group: object, incomplete: str) -> list[str]:
        context = group.make_context("dptext", ["x"], resilient_parsing=True)  # type: ignore[attr-defined]
        return [item.value for item in group.shell_complete(context, incomplete)]  # type: ignore[attr-defined]

    assert completed(top, "re") == ["recommend", "report"]
    assert completed(top.load("audit"), "tr") == ["trait"]
    assert completed(top.load("report"), "--show") == ["--show-private"]
