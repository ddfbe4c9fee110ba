"""What `dptext.toml` asks for is what the model has that is released with; what is asked for in vain is refused."""

import os
import pty
from pathlib import Path

import pytest

from commands import dptext

ROWS = "text,topic\n" + "".join(f"Text number {i} about a ferry,{'ab'[i % 2]}\n" for i in range(40))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "public.csv").write_text(ROWS, "utf-8")
    (tmp_path / "in.csv").write_text(ROWS.replace("ferry", "train"), "utf-8")
    (tmp_path / "dptext.toml").write_text(
        'public = "public.csv"\nmodel = "in.model"\n'
        '[mechanism]\nkind = "candidates"\nepsilon = 10.0\nranker = "tfidf"\n',
        "utf-8",
    )
    assert dptext("fit", cwd=tmp_path).returncode == 0
    return tmp_path


def test_a_model_of_other_settings_is_not_taken_in_silence(project: Path) -> None:
    assert dptext("privatize", "in.csv", "a.csv", cwd=project).returncode == 0
    path = project / "dptext.toml"
    path.write_text(path.read_text("utf-8").replace("10.0", "3.0"), "utf-8")
    refused = dptext("privatize", "in.csv", "b.csv", cwd=project)
    assert refused.returncode == 2
    assert "to have the settings of dptext.toml (epsilon=3.0)" in refused.stderr
    assert "Remove that folder" in refused.stderr
    assert not (project / "b.csv").exists()
    assert "Remove it" in dptext("fit", cwd=project).stderr
    assert dptext("privatize", "in.csv", "b.csv", "--model", "in.model", cwd=project).returncode == 0


def test_an_author_whom_nothing_protects_is_not_named_in_vain(project: Path) -> None:
    named = ("--public", "public.csv", "--mechanism", "votes", "--author-field", "topic")
    refused = dptext("synthesize", "in.csv", "out.jsonl", *named, cwd=project)
    assert refused.returncode == 2
    assert "Add --unit author" in refused.stderr


def test_the_end_of_the_input_at_a_question_is_no_refuted_claim(project: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"\x04")
    done = dptext("init", "in.csv", "--for", "texts", "--force", cwd=project, stdin=os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert "found the end of the input" in done.stderr
