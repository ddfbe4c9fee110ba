"""`dptext budget` and a `privatize` that pays, as a person uses them."""

import json
import os
import stat
from pathlib import Path

import pytest

from commands import dptext
from vectors import sentences

CANARY = "zq9canaryxv"


@pytest.fixture
def spec(tmp_path: Path, vectors: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(
        f'kind = "word_metric"\nepsilon = 0.01\nnoise = "tem"\nvectors = "{vectors}"\nn_words = 300\n'
        "max_tokens = 4\ndiameter = 100.0\n",
        "utf-8",
    )
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    rows = [{"text": f"{CANARY} {text}", "name": f"{CANARY}{i}"} for i, text in enumerate(sentences(12))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def books(location: object, tmp_path: Path, source: Path, spec: Path) -> None:
    """Open, pay twice, overdraw, look: on any database."""
    ledger = ["--ledger", location]
    opened = dptext("budget", "open", "reviews", "--epsilon", 10, "--unit", "document", *ledger)
    assert opened.returncode == 0, opened.stderr
    assert "epsilon = 10 per document, replace one" in opened.stdout
    again = dptext("budget", "open", "reviews", "--epsilon", 99, "--unit", "document", *ledger)
    assert again.returncode == 2
    assert "there already" in again.stderr
    outs = [tmp_path / f"out{i}.jsonl" for i in range(3)]
    first = dptext("privatize", source, outs[0], "--spec", spec, *ledger, "--account", "reviews")
    assert first.returncode == 0, first.stderr
    assert "charge 1 of account 'reviews'" in first.stdout
    assert "Account 'reviews': spent 4.001 of 10, left 5.999." in first.stdout
    second = dptext("privatize", source, outs[1], "--spec", spec, *ledger, "--account", "reviews", "--json")
    assert json.loads(second.stdout)["charged"]["account"] == "reviews"
    third = dptext("privatize", source, outs[2], "--spec", spec, *ledger, "--account", "reviews")
    assert third.returncode == 3
    assert "asked epsilon = 4.001" in third.stderr
    assert "left 1.999 of 10, together 2.001 above the limit" in third.stderr
    assert not list(tmp_path.glob("out2*"))
    assert not list(tmp_path.glob(".out*"))

    shown = json.loads(dptext("budget", "show", "reviews", *ledger, "--json").stdout)
    assert shown["spent"]["epsilon"] == pytest.approx(8)
    assert shown["left"] == pytest.approx(2)
    assert shown["left"] + shown["spent"]["epsilon"] <= 10
    assert (shown["charges"], shown["limit"]["epsilon"]) == (2, 10.0)
    table = dptext("budget", "show", "reviews", *ledger).stdout
    assert "8.001" in table
    assert "1.999" in table
    assert "Guaranteed (epsilon = 8.001), per document, replace one." in table
    log = json.loads(dptext("budget", "log", "reviews", *ledger, "--json").stdout)
    assert [charge["charge"] for charge in log] == [1, 2]
    released = json.loads((tmp_path / "out1.jsonl.guarantee.json").read_text("utf-8"))["sha256"]
    assert log[1]["release"] == released
    assert log[0]["settings"]["kind"] == "word_metric"
    assert dptext("budget", "log", "reviews", *ledger, "--last", 1).stdout.count("word_metric") == 1
    told = " ".join(dptext("budget", "log", "reviews", *ledger).stdout.split())
    assert "`dptext explain OUT` names its charge" in told
    assert released[:8] in told
    assert "(key" not in told  # a drawn one says nothing
    verified = dptext("budget", "verify", *ledger)
    assert verified.returncode == 0
    assert "reviews: 2 charges" in verified.stdout
    explained = dptext("explain", tmp_path / "out0.jsonl.guarantee.json", *ledger)
    assert explained.returncode == 0, explained.stderr
    assert "its charge is in the ledger" in explained.stdout
    for run in (opened, first, second, third, verified, explained):
        assert CANARY not in run.stdout + run.stderr


def test_the_books_in_a_file(tmp_path: Path, source: Path, spec: Path) -> None:
    path = tmp_path / "budget.db"
    books(path, tmp_path, source, spec)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for place, said in (
        (str(path), ""),
        (None, "Its charge was not looked up: --ledger PLACE does that."),
        ("absent.db", "not looked up in the ledger of DPTEXT_LEDGER. There is no ledger "),
        ("other.db", "not looked up in the ledger of DPTEXT_LEDGER. There is no account 'reviews'"),
    ):
        environment = {name: value for name, value in os.environ.items() if name != "DPTEXT_LEDGER"}
        environment |= {} if place is None else {"DPTEXT_LEDGER": place}
        if place == "other.db":
            dptext("budget", "open", "a", "--epsilon", 1, "--unit", "document", cwd=tmp_path, env=environment)
        found = dptext("explain", "out0.jsonl", cwd=tmp_path, env=environment)
        assert found.returncode == 0, found.stderr
        assert ("its charge is in the ledger" in found.stdout) == (not said)
        assert said in found.stderr
        assert ("looked up" in found.stderr) == bool(said)
    # A certificate that was copied to another release is not covered by the charge.
    data = json.loads((tmp_path / "out0.jsonl.guarantee.json").read_text("utf-8"))
    data["charged"]["number"] = 2
    data["repetition"] = data["repetition"].replace("charge 1", "charge 2")
    (tmp_path / "out0.jsonl.guarantee.json").write_text(json.dumps(data), "utf-8")
    forged = dptext("explain", tmp_path / "out0.jsonl.guarantee.json", "--ledger", path)
    assert forged.returncode == 4
    assert "did not pay for this release" in forged.stderr
    forged = dptext("explain", tmp_path / "out0.jsonl", env={**os.environ, "DPTEXT_LEDGER": str(path)})
    assert forged.returncode == 4
    assert "did not pay for this release: the certificate says otherwise. DPTEXT_LEDGER names" in forged.stderr


@pytest.mark.slow
def test_the_books_in_postgresql(tmp_path: Path, source: Path, spec: Path, postgres) -> None:
    url = postgres.create_database()
    books(url, tmp_path, source, spec)
    wrong = dptext("budget", "show", "--ledger", url.replace(postgres.password, "secret-sauce"))
    assert wrong.returncode == 2
    assert "refuses the user or the password" in wrong.stderr
    assert "secret-sauce" not in wrong.stderr
    assert postgres.password not in wrong.stderr


@pytest.mark.slow
def test_named_subjects_pay_for_themselves(tmp_path: Path, source: Path, spec: Path) -> None:
    environment = {**os.environ, "DPTEXT_LEDGER": str(tmp_path / "budget.db")}
    opened = dptext("budget", "open", "notes", "--epsilon", 5, "--unit", "document", "--by-subject", env=environment)
    assert "keep it apart from the ledger" in opened.stdout
    key = tmp_path / "budget.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    pay = ["--spec", spec, "--account", "notes", "--subject-field", "name"]
    done = dptext("privatize", source, tmp_path / "out.jsonl", *pay, env=environment)
    assert done.returncode == 0, done.stderr
    assert "to each document in it" in done.stdout
    assert "12 named" in dptext("budget", "show", env=environment).stdout
    other = tmp_path / "in-other.jsonl"
    other.write_text('{"text": "ba", "name": "another"}\n', "utf-8")
    assert dptext("privatize", other, tmp_path / "other.jsonl", *pay, env=environment).returncode == 0
    twice = dptext("privatize", source, tmp_path / "twice.jsonl", *pay, env=environment)
    assert twice.returncode == 3
    for command in (["privatize", other, tmp_path / "all.jsonl"], ["privatize", tmp_path / "many", tmp_path / "all"]):
        (tmp_path / "many").mkdir(exist_ok=True)
        (tmp_path / "many" / "a.jsonl").write_bytes(other.read_bytes())
        forgotten = dptext(*command, *pay[:-2], env=environment)
        assert forgotten.returncode == 2
        assert "--subject-field NAME" in forgotten.stderr
        assert "--everyone" in forgotten.stderr
        assert not command[-1].exists()
    everyone = dptext("privatize", other, tmp_path / "all.jsonl", *pay[:-2], "--everyone", env=environment)
    assert everyone.returncode == 3, everyone.stderr  # those who were charged have less left
    key.unlink()
    lost = dptext("privatize", other, tmp_path / "lost.jsonl", *pay, env=environment)
    assert lost.returncode == 2
    assert "--subject-key" in lost.stderr
    for path in [*tmp_path.glob("budget.db*"), *tmp_path.glob("*.guarantee.json")]:
        assert CANARY.encode() not in path.read_bytes()
    assert CANARY not in done.stdout + done.stderr + twice.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["budget", "open", "a", "--epsilon", "-1", "--unit", "document", "--ledger", "b.db"], "> 0"),
        (["budget", "open", "a", "--epsilon", "nan", "--unit", "document", "--ledger", "b.db"], "> 0"),
        (["budget", "open", "a", "--epsilon", "1", "--unit", "token", "--ledger", "b.db"], "document or author"),
        (["budget", "open", "a", "--epsilon", "1", "--unit", "author", "--delta", "2", "--ledger", "b.db"], "delta"),
        (["budget", "show", "--ledger", "absent.db"], "dptext budget open"),
        (["budget", "show", "--ledger", "mysql://u:hush@h/d"], "postgresql+psycopg://"),
        (["privatize", "in", "out", "-m", "word_metric", "-s", "epsilon=1", "--ledger", "b.db"], "--account"),
        (["privatize", "in", "out", "-m", "word_metric", "-s", "epsilon=1", "--account", "a"], "--ledger"),
        (["privatize", "in", "out.csv", "-m", "word_metric", "-s", "epsilon=1", "--subject-field", "a"], "ledger"),
        (["privatize", "in", "out.csv", "-m", "word_metric", "-s", "epsilon=1", "--everyone"], "--account"),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = dptext(*arguments, cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "DPTEXT_LEDGER"})
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "hush" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow_cases(
    "u:hush/x@h",
    "hush://u@h/d",
    "//u:hush@h/d",
    why="tests/unit/ledger/test_ledger_locations.py has each form; that no command shows it stays",
)
@pytest.mark.parametrize("location", ["host=h user=u PASSWORD=hush", "u:hush/x@h", "hush://u@h/d", "//u:hush@h/d"])
def test_a_ledger_that_may_hold_a_password_is_not_shown(location: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "ba"}\n', "utf-8")
    before = sorted(tmp_path.iterdir())
    commands = [
        ["budget", "open", "a", "--epsilon", "1", "--unit", "document", "--by-subject"],
        ["budget", "show"],
        ["budget", "log", "a"],
        ["budget", "verify"],
        ["budget", "upgrade"],
        ["privatize", "in.jsonl", "out.jsonl", "-m", "word_metric", "-s", "epsilon=1", "--account", "a"],
    ]
    for command in commands:
        done = dptext(*command, "--ledger", location, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "hush" not in done.stdout + done.stderr
        assert "sqlite:///PATH" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
