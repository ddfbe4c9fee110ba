"""Numbers with their nouns, for messages."""


def plural(n: int, noun: str) -> str:
    """The number with its noun, which takes an s in the plural.

    >>> plural(1, "record"), plural(1234, "record")
    ('1 record', '1,234 records')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
