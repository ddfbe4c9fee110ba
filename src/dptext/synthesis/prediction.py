"""Private prediction: groups of private texts move the choices of a language model, token by token.

Every unit stands in one group, which it draws by secret bits. A group writes one text. Each of its tokens is drawn near
what the model writes without private text: a unit moves each log weight by so little that all tokens of a text together
cost the unit its rho. From these texts the same model writes more, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, needing
from dptext.language.reading import SMOLLM2, load_language_model
from dptext.sampling.nudged import Nudged, reach_of
from dptext.synthesis.spec import Fitted, SynthesisSpec
from dptext.text.reading import as_records
from dptext.text.records import Record

MODEL_IS_PUBLIC: Final = "the language model is public and was trained on none of the private texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(SynthesisSpec):
    """Settings of a synthesis that writes new texts with a language model.

    Use:
        Take it for short texts, of a kind that public text lacks.
        Set first: labels, names, epsilon, about, tokens.

    Guarantee:
        One noisy number of units a label says how many groups a label has. A unit draws one group of its label by
        secret bits; an author also draws one of their texts. A group writes exactly `tokens` tokens, the end of a text
        being one. A unit moves each log weight of its group by at most r, so a token costs (2r)^2 / 8 of rho where a
        unit is added or removed. Where it is replaced, one group is moved by at most 2r, or two by r: (4r)^2 / 8. Which
        tokens can be chosen follows what the model says without private text.

    Attributes:
        model: a language model, as `dptext.language.reading.load_language_model` takes it.
        tokens: of a text that is written from private ones.
        per_text: private texts that a group is expected to have; their mean moves the choice.
        temperature: of all choices.
        options: tokens among which one is chosen.
        names: what the labels mean, one text for each, in their order, or what the texts are; empty takes the labels.
        examples: public texts in a prompt.
        count_share: share of rho for the numbers of units.
    """

    assumptions: ClassVar[tuple[str, ...]] = (*SynthesisSpec.assumptions, MODEL_IS_PUBLIC)

    size: int = 1_000
    words: int = 0
    model: str = SMOLLM2
    tokens: int = 24
    per_text: int = 32
    temperature: float = 0.7
    options: int = 512
    names: tuple[str, ...] = ()
    examples: int = 6
    count_share: float = 0.1
    kind: Literal["prediction"] = field(default="prediction", init=False)

    def __post_init__(self) -> None:
        SynthesisSpec.__post_init__(self)
        object.__setattr__(self, "names", self.names or self.labels or ("text",))
        if len(self.names) != max(1, len(self.labels)):
            raise ConfigError(
                f"Expected {max(1, len(self.labels))} names, found {len(self.names)}: one for each label."
            )
        _validate.count(tokens=self.tokens, per_text=self.per_text, size=self.size)
        _validate.within(2, 4096, options=self.options)
        _validate.not_negative(examples=self.examples)
        _validate.within(0.01, 0.5, count_share=self.count_share)
        if self.topics:
            raise ConfigError(f"Expected topics={self.topics} to be 0: this way has none.")
        self.choice()

    @property
    def shares(self) -> tuple[float, ...]:
        """That of the numbers of units."""
        return (self.count_share,)

    def choice(self) -> Nudged:
        """How a token is chosen."""
        rho = self.rho * (1 - self.count_share)
        reach = reach_of(rho, self.tokens, replaced=self.relation == "replace_one")
        return Nudged(reach, reach * self.per_text * self.temperature, self.temperature)

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> Fitted:
        """Choose public examples, of each label that public texts have, in turn."""
        records = [record for record in as_records(public) if record.text.strip()]
        by_label: dict[str | None, list[Record]] = {}
        for record in records:
            by_label.setdefault(record.label, []).append(record)
        order = np.random.default_rng(seed or 0)
        groups = [[own[i] for i in order.permutation(len(own))] for _, own in sorted(by_label.items(), key=str)]
        turns = [own[i] for i in range(self.examples) for own in groups if i < len(own)]
        with needing("A language model", "language"):
            from dptext.synthesis.predicting import FittedPrediction  # noqa: PLC0415 (needs an extra)

        return FittedPrediction(self, load_language_model(self.model), tuple(turns[: self.examples]))

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """By document with labels, and by author without."""
        small = cls(labels=("travel", "money"), about=60, tokens=4, per_text=3, size=6, options=16, examples=2)
        return small, cls(
            about=60, tokens=4, per_text=2, size=6, options=16, examples=0, unit="author", relation="replace_one"
        )
