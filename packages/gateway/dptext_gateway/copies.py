"""Equal texts in a release of an account per document, whose charge pays for one release of each document."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np

from dptext._wording import plural
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.privacy.names import COMPARED, normal_form
from dptext_gateway.problems import Problem

_BYTES: Final = 16
_NAMED: Final = 10  # records that a message names


class Copies:
    """A set of texts that arrive in turn. It keeps a digest of each normal form: 16 bytes per text."""

    def __init__(self) -> None:
        self._key, self._digests = secrets.token_bytes(_BYTES), bytearray()

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        for text in texts:
            written = normal_form(text).encode("utf-8", "surrogatepass")
            self._digests += blake2b(written, digest_size=_BYTES, key=self._key).digest()

    def require_none(self, record: str, first: int) -> None:
        """Raise a Problem if a text occurs twice. `record` is a format for the numbers of records, from `first` on."""
        one, two = np.frombuffer(self._digests, dtype=np.uint64).reshape(-1, 2).T
        order = np.lexsort((two, one))
        same = (one[order][1:] == one[order][:-1]) & (two[order][1:] == two[order][:-1])
        if not same.any():
            return
        # The order is stable: among equal texts, the first record comes first.
        begins = np.concatenate([[True], ~same])
        earliest = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))][~begins]
        later, texts = order[~begins], len(np.unique(earliest))
        named = ", ".join(
            f"{record.format(later[each] + first)} (equals {record.format(earliest[each] + first)})"
            for each in np.argsort(later)[:_NAMED]
        )
        rest = f" and {len(later) - _NAMED:,} more" if len(later) > _NAMED else ""
        raise Problem(
            422,
            "equal-texts",
            "Expected each text once, as the account is per document, and a charge pays for one release of each; found "
            f"{plural(texts, 'text')} more than once ({COMPARED}), {plural(len(later), 'record')} too many: "
            f"{named}{rest}. Leave out all but one of each text, in one go, and send the rest under another "
            "Idempotency-Key; or take an account per author, with max_per_author.",
        )


def copies_of(limit: Guarantee) -> Copies | None:
    """Return a `Copies` for a release; None for a limit per author, whose records have a public maximum."""
    return None if limit.unit is Unit.AUTHOR else Copies()
