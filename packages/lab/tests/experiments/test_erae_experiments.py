"""ER-AE's experiment keeps its parts apart, and reads a user's own Yelp dump."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "erae"


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("grid", "yelp"):
        sys.modules.pop(name, None)
    found = importlib.import_module("grid")
    del sys.modules["grid"]  # other experiments have a grid of their own
    return found


def posts(authors: int, size: int) -> dict[str, list[str]]:
    return {
        f"a{i}": [f"post {j} of author {i} says so. And here it goes on for author {i} in {j}." for j in range(size)]
        for i in range(authors)
    }


def test_no_post_is_in_two_parts(grid: ModuleType) -> None:
    corpus = grid.split(posts(3, 40), training=6, attacked=4)
    sides = [{record.text for record in part} for part in (corpus.public, corpus.training, corpus.attacked)]
    assert all(not a & b for a, b in ((sides[0], sides[1]), (sides[0], sides[2]), (sides[1], sides[2])))
    assert [len(part) for part in (corpus.training, corpus.attacked)] == [18, 12]


def test_an_author_with_too_few_texts_is_public_only(grid: ModuleType) -> None:
    corpus = grid.split({**posts(2, 40), "few": ["one text of few words here."] * 2}, training=6, attacked=4)
    assert {record.author for record in corpus.attacked} == {"a0", "a1"}


def test_texts_are_cut(grid: ModuleType) -> None:
    assert all(len(text.split()) <= 20 for text in grid.pieces("word " * 90 + ".", 20))
    assert grid.pieces("too short.", 20) == []


def test_a_yelp_dump_is_read(grid: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "review.json"
    rows = [{"user_id": user, "text": f"{user} {i}"} for i in range(3) for user in ("often", "seldom")][:5]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert grid.yelp.read(path) == {"often": ["often 0", "often 1", "often 2"], "seldom": ["seldom 0", "seldom 1"]}
    monkeypatch.setattr(grid.yelp, "AUTHORS", 1)
    monkeypatch.setattr(grid.yelp, "REVIEWS", 2)
    assert grid.yelp.read(path) == {"often": ["often 0", "often 1"]}
    path.write_text("[]\n")
    with pytest.raises(SystemExit, match="line 1"):
        grid.yelp.read(path)
