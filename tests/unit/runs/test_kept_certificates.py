"""Certificates of real runs in docs/results/certificates: `dptext explain --without-file` holds them to their settings.

What they were written for is not kept, as it is text of the corpora.
"""

import itertools
import json
import shlex
import shutil
from pathlib import Path

import pytest

from dptext.cli.explain import explain_certificate
from dptext.errors import DataError
from dptext.runs.certificate import Certificate

KEPT = Path(__file__).parents[3] / "docs/results/certificates"
NAMES = sorted(path.name.removesuffix(".guarantee.json") for path in KEPT.glob("*.guarantee.json"))


def certificate_in(folder: Path, name: str, **changed: object) -> Path:
    path = folder / f"{name}.guarantee.json"
    kept = json.loads((KEPT / path.name).read_text("utf-8"))
    path.write_text(json.dumps(kept | changed), "utf-8")
    return path


def test_all_ways_and_both_units_are_kept() -> None:
    settings = [Certificate.from_json((KEPT / f"{name}.guarantee.json").read_text("utf-8")).settings for name in NAMES]
    assert {each["kind"] for each in settings} == {"prototypes", "votes", "topics"}
    assert {each["unit"] for each in settings} == {"document", "author"}


@pytest.mark.parametrize("name", NAMES)
def test_its_guarantee_follows_from_its_settings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = KEPT / f"{name}.guarantee.json"
    explain_certificate(path, None, as_json=False, with_file=False)
    said, kept = capsys.readouterr().out, json.loads(path.read_text("utf-8"))
    assert f"Guaranteed (epsilon = 1, delta = 1e-05), per {kept['settings']['unit']}, add or remove one." in said
    assert kept["randomness"] == "secure"
    assert "The file was not looked at" in said
    assert "Verified" not in said
    explain_certificate(path, None, as_json=True, with_file=False)
    found = json.loads(capsys.readouterr().out)
    assert (found["verified"], found["follows"]) == (False, True)


@pytest.mark.parametrize("name", NAMES)
def test_one_that_states_more_than_its_settings_is_refused(name: str, tmp_path: Path) -> None:
    kept = json.loads((KEPT / f"{name}.guarantee.json").read_text("utf-8"))
    stated = [each | {"epsilon": each["epsilon"] * 0.999} for each in kept["guarantees"]]
    less = [each | {"rho": each["rho"] / 2} for each in kept["events"]]
    for changed in (
        {"guarantees": stated},
        {"events": less},
        {"settings": kept["settings"] | {"relation": "replace_one"}},
        {"settings": kept["settings"] | {"epsilon": 2.0}},
        {"randomness": "seeded"},
    ):
        with pytest.raises(DataError):
            explain_certificate(certificate_in(tmp_path, name, **changed), None, as_json=False, with_file=False)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_verified_without_its_file_or_with_another(name: str, tmp_path: Path) -> None:
    path = certificate_in(tmp_path, name)
    with pytest.raises(DataError, match="nothing is verified"):
        explain_certificate(path, None, as_json=False)
    shutil.copy(KEPT / f"{name}.topics.json", tmp_path / name)  # what is kept of the report is not what left
    with pytest.raises(DataError, match="its sha256 differs"):
        explain_certificate(path, None, as_json=False)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_kept_and_the_command_is_that_of_the_settings(name: str) -> None:
    report = json.loads((KEPT / f"{name}.topics.json").read_text("utf-8"))
    assert all(set(topic) == {"words"} and max(map(len, topic["words"])) < 30 for topic in report["topics"])
    given = shlex.split((KEPT / f"{name}.command").read_text("utf-8"))
    settings = Certificate.from_json((KEPT / f"{name}.guarantee.json").read_text("utf-8")).settings
    assert given[:2] == ["dptext", "synthesize"]
    assert given[given.index("--mechanism") + 1] == settings["kind"]
    for flag, assigned in itertools.pairwise(given):
        if flag == "--set":
            key, _, value = assigned.partition("=")
            assert json.dumps(settings[key]).strip('"') in (value, f"{value}.0")


@pytest.mark.parametrize("name", NAMES)
def test_its_repr_is_a_line(name: str) -> None:
    found = Certificate.from_json((KEPT / f"{name}.guarantee.json").read_text("utf-8"))
    own = found.guarantees[-1]
    assert repr(found) == (
        f"Certificate({found.output!r}, kind={found.settings['kind']!r}, records={found.records}, epsilon=1, "
        f"delta=1e-05, unit='{own.unit}', relation='{own.relation}')"
    )
