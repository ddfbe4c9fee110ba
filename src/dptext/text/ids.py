"""Ids that were used, to refuse one that is used twice."""

import hashlib
from collections.abc import Sequence
from typing import Final

from dptext.frozen import Frozen

#: Characters of the longest id that takes no more memory than its hash.
_SHORT: Final = 16


class Ids(Frozen):
    """A growing set of ids: short ones as they are, of the others a 16-byte hash."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[str | bytes] = set()

    def add(self, ids: Sequence[str]) -> bool:
        """Add all, and say so; add none where one of them is there already, or stands there twice."""
        keys: set[str | bytes] = set(ids)
        if max(map(len, ids), default=0) > _SHORT or not "".join(ids).isascii():
            keys = set(map(_key, ids))
        if len(keys) < len(ids) or not keys.isdisjoint(self._seen):
            return False
        self._seen.update(keys)
        return True


def _key(id_: str) -> str | bytes:
    """What is kept of an id. Text and bytes are never equal."""
    if len(id_) <= _SHORT and id_.isascii():
        return id_
    return hashlib.blake2b(id_.encode(), digest_size=16).digest()
