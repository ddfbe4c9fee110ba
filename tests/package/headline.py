"""A private text is answered by one of some public headlines: most often by one that shares many words with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import numpy as np

import dptext as dp
from dptext.mechanism import Traits
from dptext.mechanisms.bases import FittedMechanism, OneEpsilon
from dptext.privacy.events import TopKEvent
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.text.batches import Batch, Releases
from dptext.text.files import create_private
from dptext.text.records import records_digest


@dataclass(frozen=True, slots=True)
class Headline(OneEpsilon):
    """One of `size` public headlines in the place of a private text.

    Guarantee:
        Unit document, replace one, pure epsilon, nothing revealed. CONDITIONAL: the headlines must be public.
    """

    epsilon: float
    size: int = 4
    kind: Literal["headline"] = field(default="headline", init=False)

    def __post_init__(self) -> None:
        _ = self.choice  # refuses settings that it cannot use

    @property
    def choice(self) -> TopKRandomizedResponse:
        return TopKRandomizedResponse(self.epsilon, k=1, size=self.size)

    @property
    def traits(self) -> Traits:
        return Traits()  # learns from public text, releases text

    @property
    def released(self) -> tuple[TopKEvent]:
        return (self.choice.event,)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("the headlines are public",)

    def fit(self, *, public: Iterable[dp.Record] = (), seed: int | None = None) -> HeadlineMechanism:
        texts = tuple(dict.fromkeys(record.text for record in public))[: self.size]
        if len(texts) < self.size:
            raise dp.errors.ConfigError(f"Expected size={self.size} different public texts. Give more of them.")
        return HeadlineMechanism(self, texts)

    def load(self, folder: Path) -> HeadlineMechanism:
        return HeadlineMechanism(self, tuple(json.loads((folder / "texts.json").read_text("utf-8"))))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        return cls(epsilon=2.0), cls(epsilon=4.0)  # audits find faults at such epsilons


class HeadlineMechanism(FittedMechanism[Headline]):
    """A `Headline` with its headlines."""

    __slots__ = ("_texts",)

    def __init__(self, spec: Headline, texts: tuple[str, ...]) -> None:
        super().__init__(spec)
        self._texts = texts

    @property
    def digests(self) -> dict[str, str]:
        return {"public": records_digest(dp.Record("", text) for text in self._texts)}

    def save(self, folder: Path) -> None:
        with create_private(folder / "texts.json") as file:
            file.write(json.dumps(self._texts).encode())

    def privatize(self, records: Sequence[dp.Record], randomness: dp.randomness.Randomness) -> Releases:
        batch = Batch.of(records)  # the records as columns
        words = [set(text.split()) for text in self._texts]
        scores = np.array([[len(own & set(text.split())) for own in words] for text in batch.texts])
        chosen: list[int] = []
        for source, n in randomness.blocks([1] * len(records), 1024):  # a seeded run has a stream for each record
            chosen += self.spec.choice.choose(scores[len(chosen) : len(chosen) + n], source).tolist()
        return batch.released([self._texts[i] for i in chosen])
