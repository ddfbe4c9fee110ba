"""Every command that README and pages show runs as printed, in its order, in an environment that the page names."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import tongues
import torch_folders
from dptext.text.records import Record
from dptext.text.samples import sample_records
from environments import Environment

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorials/reading-a-certificate.md",
    "docs/reference/spec-files.md",
    "docs/tutorials/first-release.md",
    "docs/tutorials/your-own-corpus.md",
    "docs/tutorials/dp-sgd.md",
    "docs/guides/budgets.md",
    "docs/guides/choose-a-mechanism.md",
    "docs/guides/choose-epsilon.md",
    "docs/guides/many-files.md",
    "docs/guides/public-text.md",
    "docs/guides/service.md",
    "docs/guides/share-a-corpus.md",
    "docs/guides/measure-once.md",
    "docs/guides/tables.md",
    "docs/guides/other-languages.md",
    "docs/guides/your-own-model.md",
    "docs/guides/rewriting.md",
    "docs/guides/documents.md",
    "docs/guides/authorship.md",
    "docs/guides/redaction.md",
    "docs/guides/compare.md",
    "docs/concepts/audits.md",
    "docs/results/papers.md",
    "packages/gateway/README.md",
    "packages/lab/README.md",
)
#: Pages that make their own files, or need none.
ALONE = (
    "README.md", "docs/tutorials/", "docs/reference/", "docs/guides/measure-once.md", "docs/guides/tables.md",
)  # fmt: skip
#: What CI runs by itself, a database server that a line only names, and all studies a second time, which take minutes.
ELSEWHERE = (
    *("make ", "pip install .", "dptext budget open reviews --epsilon 20 --unit document --ledger postgresql"),
    "dptext papers --out papers.json",
)
#: What needs a language model, a server or data from elsewhere.
ABSENT = ("--writer model:", "--writer endpoint:", "spacy", "[pii]", "pii_redaction")

#: Words that the commands of a page print.
SAID = {
    "README.md": (
        "The bound is moderate",
        "spent is rounded up",
        "per document is refuted",
        "Nothing refutes the claim of epsilon 1",
    ),
    "docs/tutorials/reading-a-certificate.md": ("Verified", "refused with exit code 4"),
    "docs/tutorials/your-own-corpus.md": ("the field 'year'", "per author"),
    "docs/guides/budgets.md": ("its charge is in the ledger",),
    "docs/guides/measure-once.md": (
        "Topics, largest first:",
        "texts to new.jsonl",
        "It cost nothing more.",
        "epsilon 1.46",
    ),
    "docs/guides/your-own-model.md": ("by the writer model. It cost nothing.",),
    "docs/guides/tables.md": ("priority follows label", "Column amount:", "Written: 300 texts to new.csv"),
    "docs/guides/other-languages.md": ("most texts seem to be in German", "A classifier tells the corpus"),
    "docs/results/papers.md": ("ADePT as published: no guarantee", "Redaction: no guarantee"),
    "packages/lab/README.md": ("ADePT as published: no guarantee", "The certificate of the run"),
}


def commands(page: str) -> list[str]:
    """The lines of the page's sh blocks; one that ends in a refuted claim must say so."""
    blocks = (ROOT / page).read_text("utf-8").split("```sh\n")[1:]
    lines = [line for block in blocks for line in block.partition("```")[0].splitlines()]
    lines = [line for line in lines if not line.startswith(ELSEWHERE)]
    return [f"refuted {line}" if "# " in line and "refuted" in line and "||" not in line else line for line in lines]


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
        experiments = Path("packages/lab/experiments")
        (folder / experiments).mkdir(parents=True)
        shutil.copy(ROOT / experiments / "quick.toml", folder / experiments)
    if page.endswith("many-files.md"):
        (folder / "private").mkdir()
        for i in range(3):
            rows = ({"id": f"{i}-{r.id}", "text": r.text} for r in private[20 * i : 20 * i + 20])
            (folder / "private" / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    if page.endswith("budgets.md"):
        write(folder / "in.jsonl", private)
        (folder / "today.jsonl").write_text('{"text": "I have asthma.", "note_id": 7}\n', "utf-8")
    if page.endswith("public-text.md"):
        write(folder / "like-mine.jsonl", records[600:750])
    if page.endswith("share-a-corpus.md"):
        topics = {"health": "bill", "money": "bill", "travel": "delivery", "leisure": "praise"}
        rows = [f'"{r.text}",{topics[r.label or ""]}' for r in private]
        (folder / "letters.csv").write_text("\n".join(["text,topic", *rows]) + "\n", "utf-8")
    if page.endswith("other-languages.md"):
        pool, notes = (tongues.rows("de", n, private=n == 500, seed=n) for n in (90, 500))
        for name, rows in (("oeffentlich", pool), ("notizen", notes)):
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        tongues.saved_encoder(folder / "made", [row["text"] for row in pool]).rename(folder / "multilingual")
    if page.endswith("your-own-model.md"):
        torch_folders.saved(folder / "models" / "own", "mistral", positions=1_000)
        for name, part in {"private": records[400:700], "pool": records[:200]}.items():
            rows = [f'"{r.text}",{r.label}' for r in part if name == "pool" or r.label in {"health", "travel"}]
            (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", "utf-8")
    if page.endswith(("lab/README.md", "results/papers.md")):
        rows = [f'"{r.text}",{r.label}' for r in records[:600]]
        (folder / "reviews.csv").write_text("\n".join(["review,stars", *rows]) + "\n", "utf-8")
    write(folder / "public.jsonl", public)
    write(folder / "private.jsonl", private)
    write(folder / "test.jsonl", test)
    if page.endswith("audits.md"):
        write(folder / "posts.jsonl", records[500:1000])
        released = [
            {"id": str(i), "text": r.text} for i, r in enumerate(sample_records(500, seed=1))
        ]  # as privatize writes
        (folder / "posts.released.jsonl").write_text("".join(json.dumps(row) + "\n" for row in released), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    lines = commands(page)
    assert any(line.split()[0] in {"dptext", "refuted"} for line in lines if line.strip())
    environment, folder = Environment.made(tmp_path), tmp_path / "work"
    folder.mkdir()
    if not page.startswith(ALONE):
        prepare(page, folder)
    done = environment.run("\n".join(lines), cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for said in SAID.get(page, ()):
        assert said in done.stdout


def shown(text: str, language: str) -> list[str]:
    """The lines of the blocks of a language, without comments and with each continued command in one."""
    blocks = [block.partition("```")[0] for block in text.split(f"```{language}\n")[1:]]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(re.sub(r"\s+# .*", "", line).split()) for line in lines if line.strip()]


def test_what_a_guide_shows_beside_its_commands_is_run_too() -> None:
    """A guide opens with a command that stands further below, or on a page whose commands run; options may follow."""
    pages = (*PAGES, "CONTRIBUTING.md")
    run = [line for page in pages for line in shown((ROOT / page).read_text("utf-8"), "sh")]
    seen = 0
    for path in sorted((ROOT / "docs/guides").glob("*.md")):
        text = path.read_text("utf-8")
        python = "\n".join(shown(text, "python"))
        for line in shown(text, "text"):
            seen += 1
            assert (
                any(f"{each} ".startswith(f"{line} ") for each in run)
                or line.removesuffix(")") in python
                or any(part in line for part in ABSENT)
            ), (path.name, line)
    assert seen > 10


def test_a_guide_opens_with_one_command() -> None:
    for path in sorted((ROOT / "docs/guides").glob("*.md")):
        opening = path.read_text("utf-8").partition("\n## ")[0]
        first = opening.partition("```")[2].partition("```")[0]
        kind, _, command = first.partition("\n")
        assert kind in {"sh", "text"}, path.name
        assert len(command.replace("\\\n", " ").splitlines()) == 1, path.name
        assert opening.index("This guide is for") < opening.index("```"), path.name


def test_an_epsilon_that_the_legal_page_condemns_is_not_shown_without_its_words() -> None:
    """Of the commands that a guide opens with. The page calls 4 and less narrow or moderate, and 8 wide."""
    for path in sorted((ROOT / "docs/guides").glob("*.md")):
        opening = path.read_text("utf-8").partition("\n## ")[0]
        before, _, after = opening.partition("```")
        numbers = [float(each) for each in re.findall(r"epsilon[ =](\d+(?:\.\d+)?)", after.partition("```")[0])]
        largest, said = max(numbers, default=0.0), " ".join(before.split())
        assert largest <= 4 or "the legal page" in said, path.name
        assert largest <= 8 or "the legal page says that it protects nobody" in said, path.name


def test_every_page_with_commands_is_run() -> None:
    pages = [path for folder in ("docs", "packages") for path in (ROOT / folder).rglob("*.md")]
    shown = {str(path.relative_to(ROOT)) for path in pages if "```sh" in path.read_text("utf-8")}
    assert shown == set(PAGES) - {"README.md"}
