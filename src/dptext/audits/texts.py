"""Texts that several attacks look at: which are the same, who wrote them, and whether releases belong to them."""

from collections.abc import Hashable, Iterable, Sequence

from dptext.errors import ConfigError
from dptext.text.records import Record, Release
from dptext.text.tokens import tokenize


def text_key(record: Record) -> Hashable:
    """What two records share if they have the same text: their tokens, without regard to case."""
    return tuple(token.casefold() for line in tokenize(record.text) for token in line)


def distinct_texts(records: Iterable[Record]) -> tuple[dict[Hashable, Record], int]:
    """The first record of each text by its `text_key`, and how many records there were."""
    distinct: dict[Hashable, Record] = {}
    count = 0
    for record in records:
        distinct.setdefault(text_key(record), record)
        count += 1
    return distinct, count


def shared_texts(first: Sequence[Record], second: Sequence[Record]) -> int:
    """How many records of the second have a text that the first has too."""
    known = {text_key(record) for record in first}
    return sum(text_key(record) in known for record in second)


def author_of(record: Record) -> str:
    """The author; ConfigError where the record names none."""
    if record.author is None:
        raise ConfigError("Expected an author of every record, found one without: name the field of the author.")
    return record.author


def check_releases(name: str, records: Sequence[Record], releases: Sequence[Release[str]]) -> None:
    """Raise ConfigError unless there is one release for each record, in the same order."""
    if [record.id for record in records] != [release.id for release in releases]:
        raise ConfigError(
            f"Expected {name} to be one release for each of {len(records)} originals, in the same order and with the "
            f"same ids, found {len(releases)}."
        )
