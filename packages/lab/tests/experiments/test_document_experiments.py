"""The experiments with documents: the reader of GoodReads dumps."""

import gzip
import json
from pathlib import Path

import pytest

from scripts import load_script

FOLDER = Path(__file__).parents[2] / "experiments" / "deep_candidate"


@pytest.fixture(scope="module")
def goodreads():
    """The reader, by its path: the experiments are no package."""
    return load_script("experiment_goodreads", FOLDER / "goodreads.py")


def write(folder: Path, genre: str, rows: list[tuple[str, str]]) -> None:
    """A file of reviews as the data set has them."""
    with gzip.open(folder / f"goodreads_reviews_{genre}.json.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"review_id": name, "review_text": text, "rating": 4}) + "\n" for name, text in rows)


def test_reviews_have_the_genre_of_their_file(tmp_path, goodreads) -> None:
    write(tmp_path, "poetry", [(f"p{i}", f"Verse {i}.") for i in range(200)] + [("both", "Odd."), ("blank", "  ")])
    write(tmp_path, "comics", [(f"c{i}", f"Panel {i}.") for i in range(200)] + [("both", "Odd.")])
    public, private = goodreads.read(tmp_path)
    assert {record.id for record in (*public, *private)} == {f"{kind}{i}" for kind in "pc" for i in range(200)}
    assert all(record.label == {"p": "poetry", "c": "comics"}[record.id[0]] for record in (*public, *private))
    assert not {record.id for record in public} & {record.id for record in private}
    assert 40 < len(private) < 120
    assert goodreads.read(tmp_path) == (public, private)


def test_no_more_than_asked_for(tmp_path, goodreads) -> None:
    for genre in ("poetry", "comics"):
        write(tmp_path, genre, [(f"{genre}{i}", "Read it.") for i in range(50)])
    assert sum(map(len, goodreads.read(tmp_path, at_most=10))) == 20


def test_what_is_missing_is_said(tmp_path, goodreads) -> None:
    with pytest.raises(SystemExit, match="does not come with dptext"):
        goodreads.read(tmp_path)
    with pytest.raises(SystemExit, match="does not come with dptext"):
        goodreads.read(None)
    for genre in ("poetry", "comics"):
        write(tmp_path, genre, [])
    with gzip.open(tmp_path / "goodreads_reviews_comics.json.gz", "wt") as file:
        file.write('{"canary": 1}\n')
    with pytest.raises(SystemExit, match="line 1 of goodreads_reviews_comics") as found:
        goodreads.read(tmp_path)
    assert "canary" not in str(found.value)
