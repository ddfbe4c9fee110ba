"""Reviews of books from your own copy of the UCSD Book Graph (Wan and McAuley 2018), the paper's third corpus.

The data set is not here, and its terms do not allow to pass it on. Files named `goodreads_reviews_*.json.gz` hold one
JSON object a line with `review_id` and `review_text`; the name of the file says the genre, which is the label: the
paper classifies reviews by genre. A review that stands in the files of two genres is left out.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from pathlib import Path

from dptext.text.records import Record

FILES = "goodreads_reviews_*.json.gz"
AT_MOST = 20_000
#: One in so many reviews is private.
PRIVATE = 5


def read(folder: Path | None, *, at_most: int = AT_MOST) -> tuple[list[Record], list[Record]]:
    """Public and private reviews, split by the digest of their id; the first so many of each genre."""
    files = sorted(folder.glob(FILES)) if folder is not None else []
    if len(files) < 2:
        sys.exit(
            f"Expected --goodreads FOLDER with at least two files {FILES}, found {len(files)}: the data set does not "
            "come with dptext; get the reviews by genre of the UCSD Book Graph and name their folder."
        )
    genres: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    for path in files:
        genre = path.name.removeprefix("goodreads_reviews_").removesuffix(".json.gz")
        kept = 0
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if kept == at_most:
                    break
                try:
                    row = json.loads(line)
                    name, text = str(row["review_id"]), str(row["review_text"])
                except (ValueError, KeyError, TypeError):
                    sys.exit(f"Expected line {number} of {path.name} to be an object with review_id and review_text.")
                if not text.strip():
                    continue
                kept += 1
                texts[name] = text
                genres.setdefault(name, set()).add(genre)
    public: list[Record] = []
    private: list[Record] = []
    for name, [genre, *others] in genres.items():
        if not others:
            part = hashlib.sha256(name.encode()).digest()[0] % PRIVATE
            (private if part == 0 else public).append(Record(name, texts[name], label=genre))
    return public, private
