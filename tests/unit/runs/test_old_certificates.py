"""Certificates of schema 1 and 2, as versions before this one wrote them, are still read and verified.

The fixtures are what the tiny settings of every mechanism gave on three built-in samples.
"""

import json
from pathlib import Path

import pytest

from dptext.cli.explain import explain_certificate
from dptext.errors import DataError
from dptext.mechanisms.redaction.random import RandomRedaction
from dptext.privacy.guarantee import ONE_RECORD, RECORD_COUNT
from dptext.runs.certificate import SCHEMA, Certificate, certificate_path
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan

FIXTURES = json.loads((Path(__file__).parents[2] / "fixtures" / "certificates_schema_2.json").read_text("utf-8"))
NAMES = [each["certificate"]["output"] for each in FIXTURES]


def placed(folder: Path, fixture: dict, **changed: object) -> Path:
    certificate = {**fixture["certificate"], **changed}
    target = folder / certificate["output"]
    target.write_text(fixture["file"], "utf-8")
    certificate_path(target).write_text(json.dumps(certificate), "utf-8")
    return certificate_path(target)


@pytest.mark.parametrize("fixture", FIXTURES, ids=NAMES)
@pytest.mark.parametrize("schema", [1, 2])
def test_an_old_certificate_verifies(fixture: dict, schema: int, tmp_path: Path, capsys) -> None:
    if schema == 1:  # it had no charge
        fixture = {**fixture, "certificate": {k: v for k, v in fixture["certificate"].items() if k != "charged"}}
    path = placed(tmp_path, fixture, schema=schema)
    explain_certificate(path, None, as_json=False)
    said = capsys.readouterr().out
    assert "Verified: the file has the bytes" in said
    assert "A text in five records costs five times epsilon." in " ".join(said.split())
    assert Certificate.from_json(path.read_text("utf-8")).schema == schema


SAYS_MORE = [
    pytest.param(fixture, i, key, id=f"{name} {i} {key}")
    for fixture, name in zip(FIXTURES, NAMES, strict=True)
    for i, stated in enumerate(fixture["certificate"]["guarantees"])
    for key in ("epsilon", "delta")
    if stated["basis"] != "none" and stated[key] > 0
]


@pytest.mark.parametrize(("fixture", "i", "key"), SAYS_MORE)
def test_an_old_certificate_that_says_more_than_its_settings_does_not(
    fixture: dict, i: int, key: str, tmp_path: Path
) -> None:
    stated = [dict(each) for each in fixture["certificate"]["guarantees"]]
    stated[i][key] *= 0.999
    with pytest.raises(DataError, match="does not follow from its settings"):
        explain_certificate(placed(tmp_path, fixture, guarantees=stated), None, as_json=False)


NO_GUARANTEE = [fixture for fixture in FIXTURES if fixture["certificate"]["guarantees"][0]["basis"] == "none"]


@pytest.mark.parametrize("fixture", NO_GUARANTEE, ids=[each["certificate"]["output"] for each in NO_GUARANTEE])
def test_an_old_certificate_of_nothing_cannot_become_one_of_something(fixture: dict, tmp_path: Path) -> None:
    claim = {**fixture["certificate"]["guarantees"][0], "epsilon": 1.0, "basis": "proven", "reason": ""}
    with pytest.raises(DataError, match="does not follow from its settings"):
        explain_certificate(placed(tmp_path, fixture, guarantees=[claim]), None, as_json=False)


def test_the_newest_schema_may_not_leave_out_what_it_assumes(tmp_path: Path) -> None:
    """Shown to matter: relabelled as schema 3, an old certificate per document is refused."""
    fixture = next(each for each in FIXTURES if each["certificate"]["output"].startswith("label_only"))
    certificate = fixture["certificate"]
    assert ONE_RECORD not in json.dumps(certificate)
    relabelled = placed(tmp_path, fixture, schema=SCHEMA, events=[certificate["event"]])
    with pytest.raises(DataError, match="does not follow from its settings"):
        explain_certificate(relabelled, None, as_json=False)


def test_another_event_does_not_verify(tmp_path: Path) -> None:
    fixture = next(each for each in FIXTURES if each["certificate"]["output"].startswith("label_only"))
    event = {**fixture["certificate"]["event"], "epsilon": 0.001}
    with pytest.raises(DataError, match="does not follow from its settings"):
        explain_certificate(placed(tmp_path, fixture, event=event), None, as_json=False)


def test_as_json_an_old_certificate_keeps_its_schema_and_says_what_it_left_out(tmp_path: Path, capsys) -> None:
    fixture = next(each for each in FIXTURES if each["certificate"]["output"].startswith("label_only"))
    explain_certificate(placed(tmp_path, fixture), None, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == 2
    assert ONE_RECORD in said["also_assumed"]


def test_the_number_of_records_cannot_be_left_out(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("a\nb\n", "utf-8")
    mechanism = RandomRedaction(0.999_999).fit()
    privatize_file(source, target, mechanism, plan=Plan(without_guarantee=True, record="line"))
    path = certificate_path(target)
    explain_certificate(path, None, as_json=True)
    data = json.loads(path.read_text("utf-8"))
    data["also_reveals"] = []
    for stated in data["guarantees"]:
        stated["reveals"].remove(RECORD_COUNT)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(DataError, match="does not follow from its settings"):
        explain_certificate(path, None, as_json=True)
