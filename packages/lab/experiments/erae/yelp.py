"""Reviews by author from your own copy of the Yelp dataset, which the paper used; its terms forbid to pass it on."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

AUTHORS, REVIEWS = 100, 200


def read(path: Path) -> dict[str, list[str]]:
    """The reviews of the authors who wrote the most, at most 200 each, from `yelp_academic_dataset_review.json`."""
    counts = Counter(author for author, _ in _rows(path))  # the whole dump does not fit into memory
    posts: dict[str, list[str]] = {
        author: [] for author in sorted(counts, key=lambda author: (-counts[author], author))[:AUTHORS]
    }
    for author, text in _rows(path):
        if author in posts and len(posts[author]) < REVIEWS:
            posts[author].append(text)
    return posts


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """Author and text of each review."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                    yield str(row["user_id"]), str(row["text"])
                except (ValueError, KeyError, TypeError):
                    sys.exit(f"Expected line {number} of {path.name} to be an object with user_id and text.")
    except OSError as error:
        sys.exit(f"Cannot read {path}: {error.strerror}. Name your own yelp_academic_dataset_review.json.")
