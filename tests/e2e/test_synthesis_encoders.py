"""`dptext synthesize` with each encoder, and with a pool that an encoder cannot use."""

import json
from pathlib import Path

import pytest

from commands import dptext
from dptext import sample_records

LABELS = 'labels=["health", "travel", "money", "leisure"]'
FIRST = "the train was late and the weather grim again today in town".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private corpus, a pool, and a pool of texts of the same words."""
    found = tmp_path_factory.mktemp("encoders")
    alike = [" ".join([*FIRST[i:], *FIRST[:i]]) for i in range(len(FIRST))]
    alike += [" ".join(reversed(text.split())) for text in alike] + [" ".join(sorted(FIRST))]
    texts = {"private": sample_records(300, seed=1), "pool": sample_records(200, seed=2)}
    rows = {name: [{"text": r.text, "label": r.label} for r in own] for name, own in texts.items()}
    rows["alike"] = [{"text": text} for text in alike]
    for name, own in rows.items():
        (found / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own), "utf-8")
    return found


@pytest.mark.slow  # the quick twin in tests/unit/mechanisms/test_options_together.py has a pupil that knows few words
def test_a_distilled_encoder(folder: Path) -> None:
    """The default way with the encoder that the guide recommends."""
    given = ("--set", LABELS, "--label-field", "label", "--set", "encoder=distilled", "--set", "topics=8")
    done = dptext("synthesize", "private.jsonl", "out.jsonl", "--public", "pool.jsonl", *given, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert dptext("explain", "out.jsonl", cwd=folder).returncode == 0
    own = {row["text"]: row["label"] for row in map(json.loads, (folder / "pool.jsonl").read_text().splitlines())}
    made = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    assert sum(own[row["text"]] == row["label"] for row in made) > 0.4 * len(made)  # by chance a quarter


@pytest.mark.slow_cases("glove", why="the distilled encoder reads the same vectors")
@pytest.mark.parametrize("encoder", ["distilled", "glove"])
def test_a_pool_of_the_same_words_costs_nothing(encoder: str, folder: Path) -> None:
    books = f"{encoder}.db"
    limit = ("--unit", "document", "--epsilon", 4, "--delta", 1e-5, "--relation", "add_or_remove_one")
    opened = dptext("budget", "open", "letters", "--dataset", "letters", *limit, "--ledger", books, cwd=folder)
    assert opened.returncode == 0, opened.stderr
    given = ("--set", LABELS, "--label-field", "label", "--ledger", books, "--account", "letters")
    for words in (300, 0):
        done = dptext(
            "synthesize", "private.jsonl", f"no-{encoder}.jsonl", "--public", "alike.jsonl", *given,
            "--set", f"encoder={encoder}", "--set", f"words={words}", cwd=folder,
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "Expected public texts that differ: give a pool of other texts." in done.stderr
    shown = dptext("budget", "show", "letters", "--ledger", books, "--json", cwd=folder)
    assert json.loads(shown.stdout)["charges"] == 0, shown.stdout
    assert not (folder / f"no-{encoder}.jsonl").exists()
