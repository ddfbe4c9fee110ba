"""Every command that a page of the documentation shows runs, in its order; README and budgets are tried elsewhere."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dptext.text.records import Record
from dptext.text.samples import sample_records

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"docs/guides/budgets.md"}  # test_public_face.py: a database server is only named there
PAGES = (
    "docs/tutorials/reading-a-certificate.md",
    "docs/reference/spec-files.md",
    "docs/tutorials/first-release.md",
    "docs/tutorials/your-own-corpus.md",
    "docs/tutorials/dp-sgd.md",
    "docs/guides/public-text.md",
    "docs/guides/share-a-corpus.md",
    "docs/guides/rewriting.md",
    "docs/guides/documents.md",
    "docs/guides/authorship.md",
    "docs/guides/redaction.md",
    "docs/guides/compare.md",
    "docs/concepts/audits.md",
)
BEGIN = f"""
dptext() {{ "{sys.executable}" -c "from dptext.cli.app import main; main()" "$@"; }}
python() {{ "{sys.executable}" "$@"; }}
refuted() {{ local code=0; "$@" || code=$?; [ $code -eq 1 ]; }}
set -eu
"""


def commands(page: str) -> list[str]:
    """The lines of the page's sh blocks, but for the installing; one that ends in a refuted claim must say so."""
    blocks = (ROOT / page).read_text("utf-8").split("```sh\n")[1:]
    lines = [line for block in blocks for line in block.partition("```")[0].splitlines()]
    shown = [f"refuted {line}" if "# " in line and "refuted" in line else line for line in lines]
    return [line for line in shown if not line.startswith("pip install")]


def write(path: Path, records: Sequence[Record]) -> None:
    rows = ({"text": r.text, "intent": r.label, "label": r.label, "author": r.author} for r in records)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def prepare(page: str, folder: Path) -> None:
    """The files that a page takes for given."""
    records = sample_records(1400)
    public, private, test = records[:400], records[400:500], records[500:600]
    if page.endswith("documents.md"):  # documents of nine sentences
        texts = [" ".join(r.text for r in records[i : i + 9]) for i in range(0, 1350, 9)] * 2
        public = [Record(str(i), text, records[i].label) for i, text in enumerate(texts)]
        private = public[:20]
    if page.endswith("authorship.md"):  # as many words as the vocabulary has by default
        from dptext.embeddings.vector_files import load_word_vectors

        words = [word for word in load_word_vectors("glove", 12_000).words if word.isalpha()]
        public = [Record(str(i), " ".join(words[i : i + 15])) for i in range(0, len(words), 15)] * 2
        private = records[500:]
    if page.endswith("redaction.md"):
        public = [Record(r.id, r.text, ("cancer", "other")[i % 2]) for i, r in enumerate(public)]
        write(folder / "in.jsonl", private)
        kinds = sorted({r.label for r in records if r.label})
        for name, mine in (("sensitive", kinds[: len(kinds) // 2]), ("safe", kinds[len(kinds) // 2 :])):
            write(folder / f"{name}.jsonl", [r for r in records if r.label in mine])
    if page.endswith("compare.md"):
        (folder / "experiments").mkdir()
        shutil.copy(ROOT / "experiments" / "quick.toml", folder / "experiments")
    if page.endswith("public-text.md"):
        write(folder / "like-mine.jsonl", records[600:750])
    if page.endswith("share-a-corpus.md"):
        topics = {"health": "bill", "money": "bill", "travel": "delivery", "leisure": "praise"}
        rows = [f'"{r.text}",{topics[r.label or ""]}' for r in private]
        (folder / "letters.csv").write_text("\n".join(["text,topic", *rows]) + "\n", "utf-8")
    write(folder / "public.jsonl", public)
    write(folder / "private.jsonl", private)
    write(folder / "test.jsonl", test)
    if page.endswith("audits.md"):
        write(folder / "posts.jsonl", records[500:1000])
        released = [
            {"id": str(i), "text": r.text} for i, r in enumerate(sample_records(500, seed=1))
        ]  # as privatize writes
        (folder / "posts.private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in released), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    if not page.startswith("docs/tutorials/"):  # a tutorial makes its own files
        prepare(page, tmp_path)
    lines = commands(page)
    assert any(line.split()[0] in {"dptext", "refuted"} for line in lines if line.strip())
    script = "\n".join([BEGIN, *lines])
    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    if page.endswith("reading-a-certificate.md"):
        assert "Verified" in done.stdout
        assert "refused with exit code 4" in done.stdout
    if page.endswith("your-own-corpus.md"):
        assert "the field 'year'" in done.stdout
        assert "per author" in done.stdout


def test_every_page_with_commands_is_run() -> None:
    pages = [
        path
        for folder in ("tutorials", "guides", "concepts", "reference")
        for path in (ROOT / "docs" / folder).rglob("*.md")
    ]
    shown = {str(path.relative_to(ROOT)) for path in pages if "```sh" in path.read_text("utf-8")}
    assert shown == {*PAGES, *ELSEWHERE}
