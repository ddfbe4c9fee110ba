"""`dptext papers`: the options, exit codes, the file of numbers, and a user's own texts. The studies are small."""

import csv
import json
import stat
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

import dptext_lab.cli.papers as command
from dptext.cli.app import app, config, exit_code
from dptext.errors import ConfigError, DPTextError
from dptext.text.samples import sample_records
from dptext_lab.papers.texts import Texts
from small_papers import SMALL, HashedWords

CANARY = "zqxcanaryxv"


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    from dptext.embeddings import sentence_encoder

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", lambda *_, **__: HashedWords())
    for name, (_, sizes) in SMALL.items():
        built_in, study, _ = command.STUDIES[name]
        small = (built_in, lambda texts, bench, study=study, sizes=sizes: study(texts, bench, sizes))
        monkeypatch.setitem(command.STUDIES, name, (*small, lambda sizes=sizes: sizes))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "kind", "who"])
        for i, record in enumerate(sample_records(160, seed=5)):
            rows.writerow([f"{record.text} {CANARY}{i}", record.label, f"{CANARY}{i % 3}"])
    return path


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}{result.exception}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


FIELDS = ("--text-field", "review")


def test_one_paper_is_answered_in_its_first_line_and_written(tmp_path: Path) -> None:
    out = tmp_path / "numbers.json"
    code, screen, told = dptext("papers", "refutation", "--out", out)
    assert code == 0
    assert screen.startswith("ADePT's claim is refuted: two latents of 16 coordinates")
    assert "The seed is 0, always the same unless --seed is given" in screen
    assert "pairs of 16 coordinates" in told
    assert "not decided" not in screen
    assert "95% interval, except violating pairs, largest / 2C, possible / 2C.\n" in screen
    written = json.loads(out.read_text("utf-8"))
    assert written["seed"] == 0
    assert [*written["papers"]] == ["refutation"]
    assert written["papers"]["refutation"]["rows"][0]["numbers"]["share of pairs"]["confidence"] == 0.95
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert dptext("papers", "refutation", "--out", out)[0] == 2  # nothing is overwritten
    again = dptext("papers", "refutation", "--out", out, "--force")
    assert again[:2] == (code, screen)


def test_a_file_of_settings_in_the_folder_disturbs_no_built_in_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dptext.toml").write_text(
        'text-field = "review"\nlabel-field = "kind"\npublic = "public.csv"\n', "utf-8"
    )
    alone = dptext("papers", "refutation")[1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dptext_lab.cli.papers.config", config.__wrapped__)
    monkeypatch.setattr("dptext.cli.app.config", config.__wrapped__)  # another folder, another file
    code, screen, told = dptext("papers", "refutation")
    assert (code, screen) == (0, alone)
    assert "Read: dptext.toml" in told
    assert dptext("papers", "refutation", "--label-field", "other")[0] == 2


def test_the_seed_changes_the_numbers() -> None:
    found = [
        json.loads(dptext("papers", "refutation", "--json", *more)[1]) for more in ((), ("--seed", 0), ("--seed", 1))
    ]
    for each in found:
        del each["seconds"]
    assert found[0] == found[1]
    assert found[1]["papers"] != found[2]["papers"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("refutation", ()),
        ("redaction", ("--label-field", "kind")),
        pytest.param("erae", ("--author-field", "who"), marks=pytest.mark.slow),  # test_papers.py has its study
    ],
)
def test_texts_of_a_user_are_measured_and_not_shown(
    name: str, fields: tuple[str, ...], reviews: Path, tmp_path: Path
) -> None:
    if name == "erae":
        pytest.importorskip("torch")
    out = tmp_path / "numbers.json"
    code, screen, told = dptext("papers", name, "--data", reviews, *FIELDS, *fields, "--out", out, "--details")
    assert code == 0, told
    assert "Warning: Half of the file was taken as if it were public" in told
    assert "for study only" in screen
    assert CANARY not in screen + told + out.read_text("utf-8")
    rows = json.loads(out.read_text("utf-8"))["papers"][name]["rows"]
    if name != "refutation":
        assert [row["row"] for row in rows][:3] == ["original", "public-only", "random"]


def test_authors_of_a_user_reach_the_study(reviews: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str | None]] = []

    def study(texts: Texts, *_: object) -> NoReturn:
        seen.append({record.author for record in (*texts.private, *texts.public)})
        raise ConfigError("That is enough.")

    built_in, _, sizes = command.STUDIES["erae"]
    monkeypatch.setitem(command.STUDIES, "erae", (built_in, study, sizes))
    assert dptext("papers", "erae", "--data", reviews, *FIELDS, "--author-field", "who")[0] == 2
    assert seen == [{f"{CANARY}{i}" for i in range(3)}]


def test_a_public_file_is_taken_as_public(reviews: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.jsonl"
    public.write_text("".join(json.dumps({"text": r.text}) + "\n" for r in sample_records(60, seed=9)), "utf-8")
    code, screen, told = dptext(
        "papers", "refutation", "--data", reviews, *FIELDS, "--public", public, "--public-text-field", "text"
    )
    assert code == 0, told
    assert "Half of the file" not in screen + told


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("nothing",), "adept, refutation"),
        (("--data", "{}"), "with --data"),
        (("erae", "--data", "{}"), "--author-field"),
        (("redaction", "--data", "{}"), "--label-field"),
        (("refutation", "--label-field", "kind"), "--data FILE"),
        (("refutation", "--seed", "-1"), "seed"),
    ],
)
def test_what_is_missing_is_named(arguments: tuple[str, ...], asked: str, reviews: Path) -> None:
    code, screen, told = dptext("papers", *(each.format(reviews) for each in arguments))
    assert (code, screen) == (2, "")
    assert asked in told


def test_help_says_what_the_seed_is() -> None:
    assert "Another seed. Default: 0." in " ".join(dptext("papers", "--help")[1].split())


@pytest.mark.parametrize("other", ["sentdp", pytest.param("redaction", marks=pytest.mark.slow)])  # one pair stays
def test_all_papers_share_a_screen(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    few = {name: command.STUDIES[name] for name in ("refutation", other)}
    monkeypatch.setattr(command, "STUDIES", few)
    code, screen, _ = dptext("papers")
    assert code == 0
    assert ("No sound variant exists" in screen) == (other == "redaction")
    assert "Where intervals overlap, the row says: not decided." in " ".join(screen.split())
    assert screen.count("The paper:") == 2
    assert max(map(len, screen.splitlines())) <= 100
