"""Reviews by author from your own copy of the Yelp dataset, which the paper used; its terms forbid to pass it on."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

AUTHORS, REVIEWS = 100, 200


def read(path: Path) -> dict[str, list[str]]:
    """The reviews of the authors who wrote the most, at most 200 each, from `yelp_academic_dataset_review.json`."""
    posts: dict[str, list[str]] = defaultdict(list)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                    author, text = str(row["user_id"]), str(row["text"])
                except (ValueError, KeyError, TypeError):
                    sys.exit(f"Expected line {number} of {path.name} to be an object with user_id and text.")
                posts[author].append(text)
    except OSError as error:
        sys.exit(f"Cannot read {path}: {error.strerror}. Name your own yelp_academic_dataset_review.json.")
    most = sorted(posts, key=lambda author: (-len(posts[author]), author))[:AUTHORS]
    return {author: posts[author][:REVIEWS] for author in most}
