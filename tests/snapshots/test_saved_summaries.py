"""Summaries that were written are still read: alone, with what was written from them, and as parts of a sum.

Also certificates of syntheses, and unfinished ones. `python tests/snapshots/make.py summaries` wrote these fixtures.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import snapshot_cases
import summary_cases as cases
from safetensors.numpy import load, save

import dptext as dp
from dptext.cli.app import main
from dptext.cli.explain import explain_certificate
from dptext.errors import ConfigError, DataError
from dptext.mechanism import settings
from dptext.runs import summarizing
from dptext.runs.certificate import certificate_path
from dptext.runs.summarizing import read_summary
from dptext.runs.synthesized import paths_of

KEPT = json.loads((snapshot_cases.HERE / "summaries.json").read_text("utf-8"))
Unpacked = Callable[[str], Path]
pytestmark = pytest.mark.filterwarnings("ignore:The pool seems to have too few texts:UserWarning")  # it is small


@pytest.fixture(scope="module")
def kept(unpacked: Unpacked) -> Path:
    return unpacked("summaries")


def copied(kept: Path, folder: Path, name: str) -> Path:
    """A copy of a summary with its certificate; its path."""
    for path in (kept / f"{name}.summary", certificate_path(kept / f"{name}.summary")):
        shutil.copy(path, folder)
    return folder / f"{name}.summary"


def with_bytes(path: Path, data: bytes, **changed: object) -> None:
    """Put bytes in the place of a summary, and let its certificate speak of them."""
    path.write_bytes(data)
    beside = certificate_path(path)
    own = {**json.loads(beside.read_bytes()), "sha256": hashlib.sha256(data).hexdigest(), **changed}
    beside.write_text(json.dumps(own), "utf-8")


def with_head(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The bytes of a summary with a change of what describes it."""
    arrays = dict(load(data))
    head = json.loads(arrays["described"].tobytes())
    change(head)
    arrays["described"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_summary_says_what_it_said(name: str, kept: Path) -> None:
    found = read_summary(kept / f"{name}.summary")
    said = json.loads(json.dumps(cases.facts(found)))
    assert snapshot_cases.difference(said, KEPT[name], snapshot_cases.numbers(KEPT[name])) is None
    summary, certificate, _ = found
    assert dict(certificate.digests) == dict(summary.public.digests)
    assert {*summary.spec.blocks} == {*summary.known}


@pytest.mark.parametrize("name", cases.NAMES)
def test_it_is_saved_again_as_it_was(name: str, kept: Path) -> None:
    """No promise: a format may change as long as the old one is read."""
    path = kept / f"{name}.summary"
    assert read_summary(path).summary.to_bytes() == path.read_bytes()


def test_the_summaries_measure_each_block() -> None:
    assert {block.partition(" ")[0] for each in KEPT.values() for block in each["numbers"]} >= {
        "counts", "points", "topics", "words", "lengths", "unlike",
    }  # fmt: skip


def certified(kept: Path) -> Iterable[Path]:
    return sorted(path for path in kept.rglob("*.guarantee.json") if "unfinished" not in path.parts)


def test_certificates_verify_and_cannot_say_more(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of summaries, of what was written from each, and of syntheses."""
    found = list(certified(kept))
    assert len(found) == 2 * len(cases.NAMES) + len(cases.MEASURED)
    for path in found:
        own = json.loads(path.read_bytes())
        if own["output"].endswith(".parquet"):
            pytest.importorskip("pyarrow")
        explain_certificate(path, None, as_json=True)
        assert json.loads(capsys.readouterr().out) == {"verified": True, **own}
        explain_certificate(path, None, as_json=False)
        assert "Verified: " in capsys.readouterr().out
        shutil.copy(path.with_name(own["output"]), tmp_path)
        (stated,) = own["guarantees"]
        for key in ("epsilon", "delta"):
            less = {**own, "guarantees": [{**stated, key: stated[key] * 0.999}]}
            (tmp_path / path.name).write_text(json.dumps(less), "utf-8")
            with pytest.raises(DataError, match="does not follow from its settings"):
                explain_certificate(tmp_path / path.name, None, as_json=True)


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_corpus_is_written_from_it_again(name: str, kept: Path, tmp_path: Path) -> None:
    before = json.loads(certificate_path(kept / cases.corpus_of(name)).read_bytes())
    made = cases.written(kept, name)
    assert len(made.releases) == before["records"]
    assert {each.label for each in made.releases} <= {*KEPT[name]["settings"]["labels"]} or not made.columns.label
    if name == "table":
        pytest.importorskip("pyarrow")
    target = tmp_path / cases.corpus_of(name)
    made.write(target)
    found = json.loads(certificate_path(target).read_bytes())
    for each in ("settings", "guarantees", "events", "digests", "derived", "fields"):
        assert found.get(each) == before.get(each)
    dp.verify(certificate_path(target))


def test_a_summary_without_its_pool_asks_for_it(kept: Path) -> None:
    with pytest.raises(ConfigError, match="as this summary leaves it out"):
        dp.write(kept / "bare.summary", writer="pool")
    with pytest.raises(ConfigError, match="Expected the pool of this summary"):
        dp.write(kept / "bare.summary", writer="pool", public=cases.POOL[1:])


def test_summaries_are_added_and_others_like_them_are_measured(kept: Path, tmp_path: Path) -> None:
    parts = [kept / f"{each}.summary" for each in cases.SUMS["sum"]]
    for disjoint in (True, False):
        whole = summarizing.add(*parts, disjoint=disjoint)
        counts = sum(read_summary(each).summary.known["counts"].numbers for each in parts)
        assert np.array_equal(whole.summary.known["counts"].numbers, counts)
    assert summarizing.add(*parts, disjoint=True).summary.digest == KEPT["sum"]["name of the release"]
    like = dp.summarize(cases.PRIVATE, like=parts[0], label="label")
    assert dict(like.summary.public.digests) == KEPT["labels"]["digests"]
    like.write(tmp_path / "like.summary")
    again = summarizing.add(kept / "sum.summary", tmp_path / "like.summary", disjoint=True)
    assert len(again.summary.releases) == 3
    with pytest.raises(ConfigError, match="one release in both"):
        summarizing.add(kept / "sum.summary", parts[1])


def command(patch: pytest.MonkeyPatch, *given: str) -> None:
    patch.setattr(sys, "argv", ["dptext", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_commands_read_it(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(kept / "words.summary")
    command(monkeypatch, "summary", "show", path, "--json")
    said = json.loads(capsys.readouterr().out)
    assert said.pop("report")["labels"] == KEPT["words"]["settings"]["labels"]
    assert said == json.loads(certificate_path(Path(path)).read_bytes())
    command(monkeypatch, "summary", "show", path)
    assert KEPT["words"]["in all"] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", cases.NAMES)
def test_settings_that_come_later_have_their_defaults(name: str, kept: Path, tmp_path: Path) -> None:
    """A file that lacks each setting with its default is read as the whole one."""
    path = copied(kept, tmp_path, name)
    before, own = read_summary(path), KEPT[name]["settings"]
    said = cases.without_defaults(own)
    assert len(said) < len(own) - 10
    with_bytes(path, with_head(path.read_bytes(), lambda head: head.update(settings=said)), settings=said)
    found = read_summary(path)
    assert settings(found.summary.spec) == own
    assert found.summary.digest == before.summary.digest
    assert found.summary.report == before.summary.report


def of_format_2(kept: Path, folder: Path) -> Path:
    path = copied(kept, folder, "labels")
    with_bytes(path, with_head(path.read_bytes(), lambda head: head.update(format=2)))
    return path


def test_a_newer_format_is_refused(kept: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_summary(of_format_2(kept, tmp_path))
    path = copied(kept, tmp_path, "labels")
    with_bytes(path, path.read_bytes(), schema=5)
    with pytest.raises(ConfigError, match=r"schema 4, found schema 5: read it with the version of dptext that wrote"):
        read_summary(path)


def test_the_error_of_a_newer_format_says_so(kept: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected a summary of format 1, found 2: "):
        read_summary(of_format_2(kept, tmp_path))


@pytest.mark.parametrize("name", cases.NAMES)
def test_another_byte_is_refused(name: str, kept: Path, tmp_path: Path) -> None:
    path = copied(kept, tmp_path, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="its sha256 differs"):
        read_summary(path)


def test_it_cannot_claim_other_settings(kept: Path, tmp_path: Path) -> None:
    path = copied(kept, tmp_path, "labels")
    data = with_head(path.read_bytes(), lambda head: head["settings"].update(epsilon=4.0))
    with_bytes(path, data)
    with pytest.raises(DataError, match="says other settings than its certificate"):
        read_summary(path)


@pytest.mark.parametrize("step", cases.STEPS)
def test_an_unfinished_synthesis_is_finished(
    step: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(kept / "unfinished" / step, tmp_path / step)
    monkeypatch.chdir(folder)
    whole = folder / ".out.jsonl.run" / "whole" / "out.jsonl"
    before = whole.read_bytes() if whole.exists() else None
    command(monkeypatch, *cases.UNFINISHED, "--resume")
    assert before in (None, (folder / "out.jsonl").read_bytes())
    assert {path.name for path in folder.iterdir()} == {path.name for path in paths_of(folder / "out.jsonl")}
    dp.verify(certificate_path(folder / "out.jsonl"))
