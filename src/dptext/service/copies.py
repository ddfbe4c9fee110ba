"""Whether a text is there twice where a charge pays for one release of each document."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np

from dptext.privacy.guarantee import Guarantee, Unit
from dptext.privacy.names import COMPARED, normal_form
from dptext.service.problems import Problem

_BYTES: Final = 16


class Copies:
    """Texts as they come, of which digests in normal form are kept: 16 bytes a text."""

    def __init__(self) -> None:
        self._key, self._digests = secrets.token_bytes(_BYTES), bytearray()

    def add(self, texts: Iterable[str]) -> None:
        """Take more texts."""
        for text in texts:
            written = normal_form(text).encode("utf-8", "surrogatepass")
            self._digests += blake2b(written, digest_size=_BYTES, key=self._key).digest()

    def require_none(self, record: str, first: int) -> None:
        """A Problem where a text is there before; records are named so, by numbers that begin with the first."""
        one, two = np.frombuffer(self._digests, dtype=np.uint64).reshape(-1, 2).T
        order = np.lexsort((two, one))
        same = (one[order][1:] == one[order][:-1]) & (two[order][1:] == two[order][:-1])
        if not same.any():
            return
        later = int(order[1:][same].min())
        earlier = int(np.flatnonzero((one == one[later]) & (two == two[later]))[0])
        raise Problem(
            422,
            "equal-texts",
            f"Expected each text once, as the account is per document, and a charge pays for one release of each: the "
            f"text of {record.format(later + first)} is that of {record.format(earlier + first)} ({COMPARED}). Ask for "
            "it again under another Idempotency-Key, which is charged anew.",
        )


def copies_of(limit: Guarantee) -> Copies | None:
    """What takes the texts of a release; None where the limit is per author, whose records have a public maximum."""
    return None if limit.unit is Unit.AUTHOR else Copies()
