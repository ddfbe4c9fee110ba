"""What no black box can tell: whether the assumptions of a guarantee are true.

A model that was trained on the very texts that it rewrites answers every input as its noise promises: the leak is in
the model. Its guarantee says that the training text is public, which is compared here with what is known of the text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from dptext.privacy.guarantee import Guarantee
from dptext.text.records import Record, records_digest

__all__ = ["HasDigests", "broken_assumptions", "records_digest"]


class HasDigests(Protocol):
    """What names the public data that it was made from by their digests, as every mechanism does."""

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests, by name."""
        ...


def broken_assumptions(
    claim: Guarantee, mechanism: HasDigests, *, private: Iterable[Record] = (), true: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Why the guarantee does not apply; empty where nothing speaks against it.

    Args:
        claim: the guarantee.
        mechanism: the fitted mechanism; digests of the text that it was fitted on are `records_digest`s.
        private: the records that are to be protected. It is found where the very same set was the training text, and
            not where a part of it or a paraphrase was.
        true: the assumptions that are known to hold. Every other assumption of the claim is then broken. Without them
            only digests are compared.

    Returns:
        One sentence for each finding. Whoever finds one treats the guarantee as `claim.voided(...)`.
    """
    found = []
    digest = records_digest(private)
    if digest != records_digest(()):
        found += [
            f"the private records are the data that the mechanism calls {name!r} and takes for public"
            for name, other in mechanism.digests.items()
            if other == digest
        ]
    if true is not None:
        found += [f"nobody says that this is true: {text}" for text in claim.assumptions if text not in true]
    return tuple(found)
