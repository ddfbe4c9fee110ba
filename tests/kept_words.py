"""A kind of the tests that guarantees nothing: it releases each text as it is. The library alone runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import ClassVar, Literal, Self

from dptext.mechanism import Learns, Traits
from dptext.mechanisms.bases import FittedMechanism, NoGuarantee, Untrained
from dptext.registry import MECHANISMS
from dptext.sampling.randomness import Randomness
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record

KIND = "kept_words"
#: The kind as a package brings it: `monkeypatch.setitem(MECHANISMS.brought, *BROUGHT)`, to verify a certificate.
BROUGHT = (KIND, [EntryPoint(KIND, f"{__name__}:KeptWords", MECHANISMS.group)])
#: Options of `privatize`. The commands of `commands.dptext` that name the kind know it.
OPTIONS = ("--mechanism", KIND, "--without-guarantee")


@dataclass(frozen=True, slots=True)
class KeptWords(Untrained["KeptWordsMechanism"], NoGuarantee):
    """Settings of nothing."""

    traits: ClassVar[Traits] = Traits(learns=Learns.NOTHING, keeps_words=True)
    reason: ClassVar[str] = "all words leave verbatim"
    reveals: ClassVar[tuple[str, ...]] = ("all words",)

    kind: Literal["kept_words"] = field(default=KIND, init=False)

    def _fitted(self) -> KeptWordsMechanism:
        return KeptWordsMechanism(self)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        return (cls(),)


class KeptWordsMechanism(FittedMechanism[KeptWords]):
    """Releases texts as they are."""

    __slots__ = ()

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> Releases:
        batch = Batch.of(records)
        return batch.released(batch.texts)
