"""`dptext.verify`: one call that refuses a certificate which does not hold."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import dptext as dp
from dptext.cli.explain import explain_certificate
from dptext.embeddings.embedder import ALONE
from dptext.errors import ConfigError, DataError
from dptext.privacy.guarantee import ONE_RECORD, RECORD_COUNT
from dptext.runs.certificate import certificate_path
from dptext_lab import RandomRedaction

SAVED = json.loads((Path(__file__).parents[2] / "snapshots" / "certificates.json").read_text("utf-8"))
LABELS = ("health", "travel", "money", "leisure")
SPEC = dp.LabelOnly(LABELS, epsilon=2.0)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    records = dp.sample_records(20)
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"text": each.text, "label": each.label}) + "\n" for each in records), "utf-8")
    dp.privatize_file(source, target, SPEC.fit(public=records), plan=dp.Plan(fields=dp.Fields(label="label")))
    return target


def edited(path: Path, **changes: object) -> Path:
    beside = certificate_path(path)
    beside.write_text(json.dumps({**json.loads(beside.read_text("utf-8")), **changes}), "utf-8")
    return beside


def test_what_was_written_holds(released: Path) -> None:
    found = dp.verify(certificate_path(released))
    assert (found.spec, found.certificate.records) == (SPEC, 20)


def test_another_file_is_refused(released: Path) -> None:
    released.write_bytes(released.read_bytes() + b"\n")
    with pytest.raises(DataError, match="sha256"):
        dp.verify(certificate_path(released))


def test_another_number_of_records_is_refused(released: Path) -> None:
    with pytest.raises(DataError, match="has 20 records, its certificate speaks of 21"):
        dp.verify(edited(released, records=21))


def test_guarantees_that_do_not_follow_from_the_settings_are_refused(released: Path) -> None:
    said = json.loads(certificate_path(released).read_text("utf-8"))
    settings = {**said["settings"], "epsilon": 3.0}
    with pytest.raises(DataError, match="does not follow from its settings"):
        dp.verify(edited(released, settings=settings))


def test_a_release_that_nobody_paid_for_is_not_in_the_books(released: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    with pytest.raises(DataError, match="was not paid for"):
        dp.verify(certificate_path(released), ledger=dp.Ledger.at(str(tmp_path / "books.db")))


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.guarantee.json"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not a certificate"):
        dp.verify(path)


def test_a_smaller_epsilon_than_the_settings_give_is_refused(released: Path) -> None:
    said = json.loads(certificate_path(released).read_text("utf-8"))
    smaller = [{**each, "epsilon": each["epsilon"] * 0.999} for each in said["guarantees"]]
    with pytest.raises(DataError, match="does not follow from its settings"):
        dp.verify(edited(released, guarantees=smaller))


def test_an_epsilon_may_be_smaller_by_what_a_numerical_distribution_rounds_and_no_more(
    released: Path, tmp_path: Path
) -> None:
    """A training has a numerical epsilon, whose last digits differ between versions of Python; others are exact."""
    said = json.loads(certificate_path(released).read_text("utf-8"))
    assert all(each["delta"] == 0 for each in said["guarantees"])
    exact = [{**each, "epsilon": math.nextafter(each["epsilon"], 0)} for each in said["guarantees"]]
    with pytest.raises(DataError, match="does not follow from its settings"):
        dp.verify(edited(released, guarantees=exact))

    (training,) = (each for each in SAVED if "dpsgd_0" in each["certificate"]["output"])
    data = training["certificate"]
    (tmp_path / data["output"]).write_bytes(base64.b85decode(training["file"]))
    for share, holds in ((1 - 5e-10, True), (1 - 1e-8, False)):
        stated = [{**each, "epsilon": each["epsilon"] * share} for each in data["guarantees"]]
        edge = certificate_path(tmp_path / data["output"])
        edge.write_text(json.dumps({**data, "guarantees": stated}), "utf-8")
        if holds:
            dp.verify(edge)
        else:
            with pytest.raises(DataError, match="does not follow from its settings"):
                dp.verify(edge)


@pytest.mark.parametrize(("name", "share", "holds"), [
    ("adept_1.", 1 - 1e-8, True), ("adept_1.", 1 - 1e-6, False), ("adept_1.", 1 + 1e-6, False),
    ("random_redaction", 1 - 1e-8, False),
])  # fmt: skip
def test_a_delta_of_privunit_may_be_that_of_another_processor_and_no_other(
    name: str, share: float, holds: bool, tmp_path: Path
) -> None:
    found = (each["certificate"] | {"file": each["file"]} for each in SAVED)
    data = next(each for each in found if each["output"].startswith(name) and each["guarantees"][0]["delta"])
    (tmp_path / data["output"]).write_bytes(base64.b85decode(data.pop("file")))
    beside = certificate_path(tmp_path / data["output"])
    for key in ("guarantees", "events"):
        data[key] = [{**each, "delta": each["delta"] * share} if each.get("delta") else each for each in data[key]]
    beside.write_text(json.dumps(data), "utf-8")
    if holds:
        dp.verify(beside)
    else:
        with pytest.raises(DataError, match="does not follow from its settings"):
            dp.verify(beside)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("label_only_0", ONE_RECORD),
        ("adept_0", "the auto-encoder"),
        ("dpsgd_0", "no text stands"),
        ("erae_0", "the network, its"),
        ("candidates_adept", "the candidates"),
    ],
)
def test_a_certificate_that_assumes_other_things_than_its_settings_is_refused(
    name: str, other: str, tmp_path: Path
) -> None:
    saved = next(each for each in SAVED if name in each["certificate"]["output"])
    data = saved["certificate"]
    (tmp_path / data["output"]).write_bytes(base64.b85decode(saved["file"]))
    beside = certificate_path(tmp_path / data["output"])

    def assuming(change: Callable[[list[str]], list[str]]) -> Path:
        stated = [{**each, "assumptions": change(each["assumptions"])} for each in data["guarantees"]]
        beside.write_text(json.dumps({**data, "guarantees": stated}), "utf-8")
        return beside

    dp.verify(assuming(list))
    for change in (
        lambda texts: [text for text in texts if not text.startswith(other)],
        lambda texts: [*texts, ALONE],
        lambda texts: texts[::-1] if len(texts) > 1 else ["another"],
    ):
        with pytest.raises(DataError, match="does not follow from its settings"):
            dp.verify(assuming(change))


def test_the_number_of_records_cannot_be_left_out(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("a\nb\n", "utf-8")
    mechanism = RandomRedaction(0.999_999).fit()
    dp.privatize_file(source, target, mechanism, plan=dp.Plan(without_guarantee=True, record="line"))
    path = certificate_path(target)
    dp.verify(path)
    data = json.loads(path.read_text("utf-8"))
    for stated in data["guarantees"]:
        stated["reveals"].remove(RECORD_COUNT)
    with pytest.raises(DataError, match="does not follow from its settings"):
        dp.verify(edited(target, also_reveals=[], guarantees=data["guarantees"]))


def test_what_is_measured_on_absent_vectors_is_said_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, source, target = (tmp_path / name for name in ("v.txt", "in.jsonl", "out.jsonl"))
    vectors.write_text("a 1 0\nb 0 1\nc 1 1\n", "utf-8")
    source.write_text('{"text": "a b"}\n', "utf-8")
    dp.privatize_file(source, target, dp.WordMetric(epsilon=1.0, vectors=str(vectors), n_words=3).fit())
    vectors.unlink()
    explain_certificate(certificate_path(target), None, as_json=False)
    told = capsys.readouterr().out
    assert "is not known here: Cannot read" in told
    assert "Verified" in told
