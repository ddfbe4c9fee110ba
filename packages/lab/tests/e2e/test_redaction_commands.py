"""Redaction from the command line: certificates that say no protection, models of public labels, exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app, exit_code
from dptext.errors import DPTextError
from dptext.text.samples import sample_records

TEXTS = ("I have asthma .", "call Maria at 5 .\nBye")


def dptext(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, DPTextError):
        return exit_code(result.exception), result.stdout, f"{result.stderr}dptext: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    return path


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


def test_random_redaction_is_certified_as_no_protection(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    common = ("--mechanism", "random_redaction", "--set", "level=0.5", "--set", "runs=merge")
    code, out, _ = dptext("explain", *common)
    assert code == 0
    assert out.startswith("No protection: with probability up to delta = 0.5 anything may leak")
    code, out, _ = dptext("privatize", source, target, *common)
    assert code == 0
    assert "No protection" in out
    assert "Guaranteed" not in out
    assert all("[MASK] [MASK]" not in text for text in texts_of(target))
    code, out, _ = dptext("explain", f"{target}.guarantee.json")
    assert code == 0
    assert "No protection" in out
    assert "Verified" in out
    certificate = Path(f"{target}.guarantee.json").read_text("utf-8")
    assert all(word not in certificate for word in ("asthma", "Maria"))
    code, _, err = dptext("explain", *common, "--unit", "document")
    assert (code, "no public bound" in err) == (2, True)


@pytest.mark.parametrize("of", ["occurrences", "types"])
def test_an_exact_share_must_be_asked_for(source: Path, tmp_path: Path, of: str) -> None:
    target = tmp_path / "out.jsonl"
    common = ("privatize", source, target, "--mechanism", "count_redaction", "--set", "level=1.0", "--set", f"of={of}")
    code, _, err = dptext(*common)
    assert (code, "--without-guarantee" in err, target.exists()) == (2, True, False)
    code, out, _ = dptext(*common, "--without-guarantee")
    assert code == 0
    assert "No guarantee" in out
    assert texts_of(target) == ["[MASK] [MASK] [MASK] [MASK]", "[MASK] [MASK] [MASK] [MASK] [MASK]\n[MASK]"]


def test_smart_redaction_is_fitted_on_public_labels_and_reads_no_private_one(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    public, model, target = tmp_path / "public.jsonl", tmp_path / "smart.model", tmp_path / "out.jsonl"
    rows = [{"text": record.text, "kind": record.label} for record in sample_records(80)]
    public.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    common = ("fit", "--mechanism", "smart_redaction", "--set", "level=0.25", "--public", public, "--out", model)
    code, _, err = dptext(*common)
    assert (code, "--label-field" in err) == (2, True)
    code, _, err = dptext(*common, "--label-field", "kind")
    assert (code, "name the sensitive one" in err) == (2, True)
    code, out, _ = dptext(*common, "--label-field", "kind", "--set", "sensitive=health")
    assert code == 0
    assert f"dptext privatize IN OUT --model {model} --without-guarantee" in out
    code, _, err = dptext("privatize", source, target, "--model", model)
    assert (code, "--without-guarantee" in err) == (2, True)
    code, out, _ = dptext("privatize", source, target, "--model", model, "--without-guarantee")
    assert code == 0
    assert texts_of(target)[0].count("[MASK]") == 1
    code, _, err = dptext("privatize", source, target, "--mechanism", "smart_redaction", "--set", "level=0.5")
    assert (code, "Fit first" in err) == (2, True)


def test_a_distribution_is_audited_exactly_at_any_level() -> None:
    common = ("--mechanism", "random_redaction", "--set", "level=0.3", "--trials", "300")
    code, out, err = dptext("audit", "exact", *common)
    assert code == 0, out + err
