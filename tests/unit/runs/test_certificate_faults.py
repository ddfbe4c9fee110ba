"""Certificates that nobody wrote so: `dptext explain` refuses each with a named error, and verifies none of them."""

import json
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from commands import dptext
from dptext.cli.app import INTERNAL_ERROR, exit_code
from dptext.cli.explain import explain_certificate
from dptext.errors import DPTextError
from dptext.ledger.books import Ledger
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy.guarantee import Guarantee, Relation, Unit
from dptext.runs.certificate import certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.payment import Payment
from dptext.runs.plan import Plan
from dptext.text.formats import Format
from dptext.text.records import Fields
from vectors import sentences

#: JSON texts in the place of one value.
ODD = {
    "null": "null",
    "true": "true",
    "false": "false",
    "-1": "-1",
    "2": "2",
    "0.5": "0.5",
    "-0.5": "-0.5",
    "1e999": "1e999",
    "-1e999": "-1e999",
    "NaN": "NaN",
    "huge": "9" * 400,
    "endless": "9" * 5000,
    "text": '"x"',
    "digits": '"2"',
    "empty": '""',
    "list": "[]",
    "object": "{}",
    "list of lists": "[[]]",
    "list of numbers": "[7]",
    "list of nothing": "[null]",
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
}
#: Values of the right type, and so another statement, which may hold: places as patterns, and the values.
SOUND = [
    ("version", {"text", "digits", "empty"}),
    ("digests", {"object"}),
    ("digests/*", {"text", "digits", "empty"}),
    ("records", {"2"}),  # of a file that nobody can count
    ("guarantees/*/epsilon", {"2", "0.5"}),  # more than the settings give: an older version may have known less
    ("guarantees/*/delta", {"0.5"}),
    ("settings/max_tokens", {"2", "digits"}),  # fewer words cost less than is stated
    ("settings/diameter", {"2", "0.5", "digits"}),
    *((f"settings/{name}", set(ODD)) for name in ("vectors", "n_words", "mahalanobis_lambda", "tem_beta")),
]

Key = str | int


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> dict[str, Path]:
    """Released files with certificates: of authors, of a format that no extension tells, and one that was paid."""
    folder = tmp_path_factory.mktemp("released")
    source = folder / "in.jsonl"
    rows = [{"text": text, "who": f"w{i}"} for i, text in enumerate(sentences(6))]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    spec = WordMetric(epsilon=0.01, noise="tem", vectors=str(vectors), n_words=300, max_tokens=4, diameter=100.0)
    ledger = Ledger.create(folder / "budget.db")
    ledger.open_account("texts", Guarantee(50.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE))
    plans: dict[str, tuple[str, Plan, Payment | None]] = {
        "authors": ("out.jsonl", Plan(fields=Fields(author="who"), max_per_author=3), None),
        "unknown": ("out.data", Plan(output_format=Format.JSONL), None),
        "paid": ("paid.jsonl", Plan(), Payment(ledger, "texts")),
    }
    found = {}
    for name, (target, plan, payment) in plans.items():
        privatize_file(source, folder / target, spec.fit(), plan=plan, payment=payment)
        found[name] = folder / target
    ledger.close()
    return found


@pytest.fixture(params=["authors", "unknown", "paid"])
def release(request: pytest.FixtureRequest, released: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one, whose certificate a test may change."""
    original = released[request.param]
    shutil.copy(original, tmp_path)
    shutil.copy(certificate_path(original), tmp_path)
    return tmp_path / original.name


def verdict(release: Path) -> int:
    """The exit code of `dptext explain OUT.guarantee.json`."""
    try:
        explain_certificate(certificate_path(release), None, as_json=False)
    except DPTextError as error:
        return exit_code(error)
    except Exception:  # noqa: BLE001  # the command line withholds its message
        return INTERNAL_ERROR
    return 0


def places(data: Any, *before: Key) -> Iterator[tuple[Key, ...]]:
    """The path of every value in a certificate, in the order of the file."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*before, key)
        yield from places(value, *before, key)


def replaced(text: str, path: tuple[Key, ...], value: str) -> str:
    """The certificate with JSON text in one place."""
    data = json.loads(text)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = "VALUE IN ITS PLACE"
    return json.dumps(data).replace('"VALUE IN ITS PLACE"', value)


def readable(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def test_what_dptext_wrote_is_verified(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(release) == 0
    assert "Verified" in capsys.readouterr().out


@pytest.mark.slow_cases("deep objects", why="deep lists stay")
@pytest.mark.slow_cases("unknown", why="the certificates of authors and of a paid run stay")
@pytest.mark.slow_cases(
    *(f"authors-{value}" for i, value in enumerate(ODD) if i % 2),
    why="each value stays for the paid run",
)
@pytest.mark.parametrize("value", ODD)
def test_another_value_in_any_place_is_refused(release: Path, value: str) -> None:
    path = certificate_path(release)
    text = path.read_text("utf-8")
    original = json.loads(text)
    wrong = {}
    for place in places(original):
        if any(fnmatch("/".join(map(str, place)), pattern) and value in values for pattern, values in SOUND):
            continue
        changed = replaced(text, place, ODD[value])
        same = readable(changed)
        if same is not None and json.dumps(same) == json.dumps(original):
            continue
        path.write_text(changed, "utf-8")
        if (code := verdict(release)) not in (2, 4):
            wrong[place] = code
    assert wrong == {}


def test_a_certificate_without_one_of_its_fields_is_refused(release: Path) -> None:
    path = certificate_path(release)
    original = json.loads(path.read_text("utf-8"))
    wrong = {}
    for name in original:
        path.write_text(json.dumps({key: value for key, value in original.items() if key != name}), "utf-8")
        if (code := verdict(release)) not in (2, 4):
            wrong[name] = code
    assert wrong == {}


@pytest.mark.parametrize("delta", ["-1", "2", "-1e-9", "1.0000001", "NaN", "1e999", '"0"', "true"])
def test_a_delta_that_is_none_does_not_verify_wherever_it_stands(release: Path, delta: str) -> None:
    path = certificate_path(release)
    text = path.read_text("utf-8")
    changed = text
    for place in places(json.loads(text)):
        if place[-1] == "delta":
            changed = replaced(changed, place, delta)
            path.write_text(replaced(text, place, delta), "utf-8")
            assert verdict(release) in (2, 4)
    assert changed != text
    path.write_text(changed, "utf-8")
    assert verdict(release) in (2, 4)


@pytest.mark.parametrize("records", ["-1", "-6", "6.0", '"6"', "true", "1e999", "9" * 400, "9" * 5000, "null", "[6]"])
def test_a_number_of_records_that_is_none_does_not_verify(release: Path, records: str) -> None:
    path = certificate_path(release)
    path.write_text(replaced(path.read_text("utf-8"), ("records",), records), "utf-8")
    assert verdict(release) in (2, 4)


CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "white space": b" \n",
    "a text": b'"certificate"',
    "a number": b"2",
    "nothing": b"null",
    "a list": b"[]",
    "an object": b"{}",
    "a schema alone": b'{"schema": 2}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"schema":' * 100_000,
    "a huge number": b"9" * 5000,
    "a schema of 5,000 digits": b'{"schema": ' + b"9" * 5000 + b"}",
    "not UTF-8": b'{"schema": "\xff"}',
    "UTF-16": '{"schema": 2}'.encode("utf-16"),
    "zeros": b"\0" * 1000,
    "a lone surrogate": b'{"schema": 2, "output": "\\ud800"}',
}


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_no_certificate_is_refused(content: str, release: Path) -> None:
    certificate_path(release).write_bytes(CONTENTS[content])
    assert verdict(release) in (2, 4)


@pytest.mark.parametrize("name", ["out\ud800", "a\0b", "../out.jsonl", "/etc/passwd", "", ".", "..", "x" * 5000])
def test_a_file_that_lies_elsewhere_is_not_verified(name: str, release: Path) -> None:
    path = certificate_path(release)
    text = path.read_text("utf-8")
    path.write_text(json.dumps({**json.loads(text), "output": name}), "utf-8")
    assert verdict(release) in ((0, 2, 4) if Path(name).name == release.name else (2, 4))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"schema": 2, "delta": -1}', '{"schema": ' + "9" * 5000 + "}"])
def test_the_command_line_ends_with_a_named_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("{}\n", "utf-8")
    (tmp_path / "out.jsonl.guarantee.json").write_text(content, "utf-8")
    done = dptext("explain", "out.jsonl", cwd=tmp_path)
    assert done.returncode in (2, 4), done.stderr
    assert "dptext: " in done.stderr
    assert len(done.stderr) < 2000
