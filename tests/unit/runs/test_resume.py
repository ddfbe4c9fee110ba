"""The state of an unfinished run, damaged in every field: a named error, and nothing is released."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import dptext
from dptext.errors import ConfigError
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.states import FileState
from vectors import sentences

PLAN = Plan(batch_size=10)
ODD = {
    "nothing": "null",
    "true": "true",
    "false": "false",
    "below": "-1",
    "large": "9223372036854775808",
    "huge": "9" * 400,
    "endless": "9" * 5000,
    "half": "1.5",
    "whole float": "1.0",
    "infinite": "1e999",
    "nan": "NaN",
    "list": "[]",
    "object": "{}",
    "deep": "[" * 100_000 + "]" * 100_000,
    "digits": '"12"',
    "surrogate": '"\\ud800"',
    "not ascii": '"' + "\u00e9" * 64 + '"',
    "not hexadecimal": '"' + "g" * 64 + '"',
    "upper case": '"' + "A" * 64 + '"',
    "short": '"abcd"',
    "another": '"' + "ab" * 32 + '"',
}
TEXTS = {"digits", "surrogate", "not ascii", "not hexadecimal", "upper case", "short", "another"}
FIELDS = ("key", "input", "settings", "records", "bytes", "force", "certificate", "charge_key", "dim")


@pytest.fixture(scope="module")
def spec(vectors: Path) -> WordMetric:
    return WordMetric(epsilon=3.0, vectors=str(vectors), n_words=300)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory, spec: WordMetric) -> Path:
    """The folder of a run that was ended after 20 of 30 records."""
    folder = tmp_path_factory.mktemp("ended")
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in sentences(30)), "utf-8")

    def end(done: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, spec.fit(), plan=PLAN, on_progress=end)
    assert FileState.load(state_of(target)).records == 20
    return folder


@pytest.fixture
def unfinished(tmp_path: Path, ended: Path) -> Path:
    """The target of that run, in a folder of its own."""
    shutil.copytree(ended, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out.jsonl"


def state_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.resume.json")


def resumed(target: Path, spec: WordMetric) -> None:
    privatize_file(target.with_name("in.jsonl"), target, spec.fit(), plan=Plan(batch_size=10, resume=True))


def with_field(text: str, name: str, value: str) -> str:
    """The state with this JSON text in the place of a field."""
    return json.dumps({**json.loads(text), name: "VALUE"}).replace('"VALUE"', value)


def refused(target: Path, spec: WordMetric) -> None:
    part = target.with_name(f".{target.name}.part").read_bytes()
    with pytest.raises(ConfigError) as caught:
        resumed(target, spec)
    assert len(str(caught.value)) < 1000
    assert not target.exists()
    assert target.with_name(f".{target.name}.part").read_bytes() == part


@pytest.mark.slow_cases(
    *(f"{name}-{value}" for i, name in enumerate(FIELDS) for j, value in enumerate(ODD) if (i + j) % 3),
    why="each field and each value stays",
)
@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_another_type_or_range_is_refused(name: str, value: str, unfinished: Path, spec: WordMetric) -> None:
    state = state_of(unfinished)
    state.write_text(with_field(state.read_text("utf-8"), name, ODD[value]), "utf-8", errors="surrogatepass")
    sound = {"force": {"true", "false"}, "charge_key": TEXTS}.get(name, set())  # no ledger pays for this run
    if value in sound:
        resumed(unfinished, spec)
        assert len(unfinished.read_bytes().splitlines()) == 30
    else:
        refused(unfinished, spec)


DAMAGE: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "cut short": lambda text: text[: len(text) // 2],
    "no object": lambda text: f"[{text}]",
    "a text": lambda _: '"state"',
    "a number": lambda _: "12",
    "nothing": lambda _: "null",
    "an empty object": lambda _: "{}",
    "an unknown field": lambda text: json.dumps({**json.loads(text), "surprise": 1}),
    "two objects": lambda text: text + text,
    "deep": lambda _: "[" * 100_000,
    "deep objects": lambda _: '{"key":' * 100_000,
    **{
        f"without {name}": lambda text, name=name: json.dumps({k: v for k, v in json.loads(text).items() if k != name})
        for name in ("key", "input", "settings")
    },
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_state_that_is_none_is_refused(damage: str, unfinished: Path, spec: WordMetric) -> None:
    state = state_of(unfinished)
    state.write_text(DAMAGE[damage](state.read_text("utf-8")), "utf-8")
    refused(unfinished, spec)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"\0" * 100, b'{"key": "\xff"}'])
def test_bytes_that_are_no_text_are_refused(content: bytes, unfinished: Path, spec: WordMetric) -> None:
    state_of(unfinished).write_bytes(content)
    refused(unfinished, spec)


def test_a_run_that_is_complete_is_not_resumed(tmp_path: Path, spec: WordMetric) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"text": "a"}\n')
    privatize_file(source, target, spec.fit(), plan=PLAN)
    with pytest.raises(ConfigError, match=r"the one that wrote .*out\.jsonl is complete\.$"):
        privatize_file(source, target, spec.fit(), plan=Plan(batch_size=10, resume=True))


@pytest.mark.parametrize(("name", "value"), [("bytes", "true"), ("records", "1e999"), ("key", "[]"), ("dim", "-1")])
def test_the_command_line_says_what_to_do(
    name: str, value: str, unfinished: Path, spec: WordMetric, vectors: Path
) -> None:
    state = state_of(unfinished)
    state.write_text(with_field(state.read_text("utf-8"), name, value), "utf-8")
    words = f"-m word_metric -s epsilon=3.0 -s vectors={json.dumps(str(vectors))} -s n_words=300 --resume".split()
    done = dptext("privatize", "in.jsonl", "out.jsonl", *words, cwd=unfinished.parent)
    assert done.returncode == 2, done.stderr
    assert "cannot be read as the state of a run. Begin anew with --force." in done.stderr
    privatize_file(unfinished.with_name("in.jsonl"), unfinished, spec.fit(), plan=Plan(force=True))
    assert len(list(unfinished.parent.iterdir())) == 3
