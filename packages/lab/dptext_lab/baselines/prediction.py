"""Private prediction: groups of private texts move the choices of a language model, token by token.

Every unit draws one group by secret bits. A group writes one text. The weights of each token stay near those of the
model without private text: a unit moves each log weight by so little that all tokens of a text together cost the unit
its rho. From these texts the same model writes more texts, which costs no more privacy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import numpy as np

from dptext import _validate
from dptext.language.reading import LanguageModel, load_language_model
from dptext.language.writing import options_of
from dptext.sampling.hub import Nudged, reach_of
from dptext.synthesis.pool import apportioned, pool_texts
from dptext.synthesis.readings import Corpus, PublicReader, readings, units_of
from dptext.synthesis.space import PublicSpace, fit_space, says_something
from dptext.synthesis.spec import Synthetic
from dptext.synthesis.sums import Draws, PrivateSum
from dptext.synthesis.writer import OnWriter, WritingSpec, examples_of
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.types import Floats, Integers
from dptext_lab.baselines.evolution import MOST_ROUNDS, Population, evolved

_ROWS_AT_ONCE: Final = 96  # approximate number of texts in one batch of the model, about 2 MB each
_DIRECTIONS: Final = 64  # dimensions of the space in which units vote for the nearest text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(WritingSpec):
    """Settings of a synthesis that writes new texts with a language model.

    Use:
        Take it to compare: where it was measured, public text taught more.
        Set first: labels, names, epsilon, about, tokens.

    Guarantee:
        The number of groups of a label follows from a noisy number of its units. A unit draws one group of its label by
        secret bits; an author also draws one of their texts. A group writes exactly `tokens` tokens, the end of a text
        being one. A unit moves each log weight of its group by at most r, so a token costs (2r)^2 / 8 of rho if a unit
        is added or removed. If a unit is replaced, one group is moved by at most 2r, or two groups by r: (4r)^2 / 8.
        The tokens that can be chosen depend only on the model's output without private text.

    Attributes:
        per_text: expected number of private texts in a group; their mean moves the choice. 0 (only with rounds): no
            group writes, and texts begin from public examples.
        rounds: number of rounds of votes on the written texts, at most 3. Between rounds the model varies texts with
            votes (private evolution, Xie et al. 2024).
        vote_share: share of rho for all rounds together, of the rho that `count_share` leaves.
    """

    per_text: int = 32
    rounds: int = 0
    vote_share: float = 0.5
    kind: Literal["prediction"] = field(default="prediction", init=False)

    def __post_init__(self) -> None:
        _validate.within(0, MOST_ROUNDS, rounds=self.rounds)
        _validate.within(0.05, 0.95, vote_share=self.vote_share)
        WritingSpec.__post_init__(self)
        _validate.not_negative(per_text=self.per_text)
        if not self.rounds:
            _validate.count(per_text=self.per_text)
        if self.per_text:
            self.choice()

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the numbers of units, then the shares of the rounds."""
        votes = (1 - self.count_share) * (self.vote_share if self.per_text else 1.0)
        return (self.count_share, *[votes / max(1, self.rounds)] * self.rounds)

    def choice(self) -> Nudged:
        """The mechanism that chooses a token."""
        rho = self.rho * (1 - sum(self.shares))
        reach = reach_of(rho, self.tokens, replaced=self.relation == "replace_one")
        return Nudged(reach, reach * self.per_text * self.temperature, self.temperature)

    def fit(self, *, public: Iterable[Record], seed: int | None = None) -> FittedPrediction:
        """Choose public examples. ConfigError: there are rounds of votes and too few public texts."""
        records = [record for record in as_records(public) if says_something(record.text)]
        model, examples = load_language_model(self.model), examples_of(records, self.examples, seed or 0)
        written = FittedPrediction(self, model, examples)  # first: it fails if the model has no room for the examples
        if not self.rounds:
            return written
        texts = pool_texts(records)
        space, _ = fit_space(texts, encoder=self.encoder, words=self.words, dim=_DIRECTIONS, seed=seed or 0)
        return FittedPrediction(self, model, examples, space)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Settings by document with labels, by author without labels, then both with votes."""
        small = cls(labels=("travel", "money"), about=60, tokens=4, per_text=3, size=6, options=16, examples=2)
        author = replace(small, labels=(), names=(), per_text=2, examples=0, unit="author", relation="replace_one")
        voted = replace(small, rounds=2, encoder="glove", epsilon=8.0)
        return small, author, voted, replace(author, rounds=1, per_text=0, encoder="glove")


class FittedPrediction(OnWriter[Prediction]):
    """`Prediction` with its writer, public examples, and a space if there are rounds of votes."""

    __slots__ = ("space",)

    def __init__(
        self, spec: Prediction, model: LanguageModel, examples: tuple[Record, ...], space: PublicSpace | None = None
    ) -> None:
        super().__init__(spec, model, examples)
        self.space = space

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the examples, the model's weights, and the space if there is one."""
        return {**super().digests, **({"space": self.space.digest} if self.space else {})}

    def rehearse(self, nothing: Corpus) -> None:
        """Read an empty corpus if units vote. The model does not write here, as writing takes long."""
        if self.space is not None:
            deque(readings(nothing, PublicReader(self.space), self.spec.labels), 0)

    def synthesize(self, corpus: Corpus, draws: Draws) -> Synthetic:
        """Count the units, let groups write, hold the rounds of votes, and write more texts from those left."""
        return self.written(self.counts(corpus, draws), corpus, draws)

    def written(self, counts: Floats, corpus: Corpus, draws: Draws) -> Synthetic:
        """Return the synthetic corpus for noisy numbers of units by label; groups and voters come from the corpus."""
        spec = self.spec
        scale = spec.noise(spec.count_share).scale
        kept = [Population.alike(texts) for texts in self._seeds(counts, corpus, draws)]
        mix = np.maximum(counts, scale)
        if self.space:
            kept = evolved(self.writer, (self.space, spec, corpus), kept, mix, draws)
        sizes, varied = apportioned(mix, spec.size).tolist(), bool(spec.rounds)
        own = enumerate(zip(kept, sizes, strict=True))
        texts = [each.grown(self.writer, label, n, draws.randomness, varied=varied) for label, (each, n) in own]
        return spec.released(texts, counts, scale, draws.randomness)

    def _seeds(self, counts: Floats, corpus: Corpus, draws: Draws) -> list[list[str]]:
        """Return the readable texts that the groups of each label write."""
        if not self.spec.per_text:
            return [[] for _ in counts]
        groups = np.maximum(1, np.rint(counts / self.spec.per_text)).astype(np.int64)
        written = self._by_groups(self._units(corpus, draws), groups, draws)
        return [self.writer.readable(tokens for c, tokens in written if c == label) for label in range(len(counts))]

    def counts(self, corpus: Corpus, draws: Draws) -> Floats:
        """Return noisy numbers of units by label, `(labels or 1,)`."""
        spec = self.spec
        summed = PrivateSum(max(1, len(spec.labels)), spec.noise(spec.count_share), by_author=spec.unit == "author")
        for label, _, authors in units_of(corpus, self.spec.labels):
            summed.add(label[:, None], np.ones((len(label), 1)), authors)
        return summed.release(draws)

    def _units(self, corpus: Corpus, draws: Draws) -> list[tuple[int, str]]:
        """Return label and text of each unit. For an author this is one text, drawn from all texts of the author."""
        if self.spec.unit == "document":
            read = units_of(corpus, self.spec.labels)
            return [(int(c), text) for own, texts, _ in read for c, text in zip(own, texts, strict=True)]
        seen: dict[str, int] = {}
        drawn: dict[str, tuple[int, str]] = {}
        for label, texts, authors in units_of(corpus, self.spec.labels):
            for c, text, author in zip(label.tolist(), texts, authors, strict=True):
                if author:
                    seen[author] = seen.get(author, 0) + 1
                    before = drawn[author][1] if author in drawn else ""
                    if draws.takes(seen[author], before, text):
                        drawn[author] = c, text
        return list(drawn.values())

    def _by_groups(
        self, units: Sequence[tuple[int, str]], groups: Integers, draws: Draws
    ) -> list[tuple[int, list[int]]]:
        """Return label and tokens of each group; `groups` has the number of groups of each label."""
        labels = np.repeat(np.arange(len(groups)), groups)
        first = np.cumsum(groups) - groups
        members: list[list[str]] = [[] for _ in labels]
        for place, (label, text) in zip(draws.groups(units, groups), units, strict=True):
            members[first[label] + place].append(text)
        found: list[tuple[int, list[int]]] = []
        at_once = max(1, _ROWS_AT_ONCE // (1 + self.spec.per_text))  # public, as everything but tokens is
        for start in range(0, len(labels), at_once):
            block = slice(start, start + at_once)
            own = labels[block].tolist()
            found += zip(own, self._block(members[block], own, draws), strict=True)
        return found

    def _block(self, members: Sequence[Sequence[str]], labels: Sequence[int], draws: Draws) -> list[list[int]]:
        """Return the tokens of some groups, written side by side. A group draws all its tokens, even after an end."""
        spec, choice = self.spec, self.spec.choice()
        owners = np.array([g for g, texts in enumerate(members) for _ in texts], np.int64)
        public = [self.writer.prompt(label) for label in labels]
        texts = [text for own in members for text in own]
        private = [self.writer.prompt(labels[g], text) for g, text in zip(owners, texts, strict=True)]
        contexts = self.writer.model.contexts([*public, *private], more=spec.tokens)
        n, written = len(members), [list[int]() for _ in members]
        for _ in range(spec.tokens):
            known = contexts.log_probabilities()
            there = options_of(known[:n], spec.options, self.writer.end)
            base = np.take_along_axis(known[:n], there, axis=1)
            total = np.zeros(base.shape, np.int64)
            steps = choice.steps(np.take_along_axis(known[n:], there[owners], axis=1), base[owners])
            np.add.at(total, owners, steps)
            chosen = there[np.arange(n), draws.chosen(choice, total, base)]
            for tokens, token in zip(written, chosen.tolist(), strict=True):
                tokens.append(token)
            contexts.append(np.concatenate([chosen, chosen[owners]]))
        return [tokens[: tokens.index(self.writer.end)] if self.writer.end in tokens else tokens for tokens in written]
