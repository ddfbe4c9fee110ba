"""What a corpus gives away of the texts that it was made from, as far as attacks show.

Each number stands beside its control: texts of the same source, as many, that the corpus was not made from. A corpus
that gives nothing away treats both alike. The numbers are measurements and no guarantee: a better attack may show more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.sampling.bootstrap import bootstrap
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.text.tokens import tokenize
from dptext.types import Floats, Json, fields_as_json
from dptext.utility.corpus import area

_MOST: Final = 2_000  # the largest number of texts on a side
_FEWEST: Final = 8
_ROWS: Final = 256
_SURE: Final = 0.01
_CHANCE: Final = 0.5  # AUC of a guess
# Each run of characters is tried once, from its beginning: the time is linear in the length of a text.
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.-]+")
_NUMBER: Final = re.compile(r"(?<!\d)\d[\d\-/. ]*+")
_DIGITS: Final = 4  # of a long number


@dataclass(frozen=True, slots=True)
class CameBack:
    """How many of some strings the corpus has, of those of private texts and of those of the control.

    Attributes:
        kind: the strings: whole texts, addresses, numbers, words. None of them stands in a public text.
        of_private, of_others: the number that the corpus has, and the number of such strings.
    """

    kind: str
    of_private: tuple[int, int]
    of_others: tuple[int, int]

    @property
    def shows(self) -> bool:
        """Whether more of private texts came back than chance explains (Fisher's exact test, one-sided, 1%)."""
        (own, own_all), (other, other_all) = self.of_private, self.of_others
        if not own:
            return False
        from scipy.stats import hypergeom  # noqa: PLC0415 (slow to load)

        return bool(hypergeom.sf(own - 1, own_all + other_all, own + other, own_all) < _SURE)

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        (own, own_all), (other, other_all) = self.of_private, self.of_others
        return f"{self.kind}: {own:,} of {own_all:,}, of the control {other:,} of {other_all:,}"


@dataclass(frozen=True, slots=True)
class Leaving:
    """What attacks show of a corpus.

    Attributes:
        texts: number of private texts that are attacked, and of texts of the control.
        copies: private texts that stand in the corpus word for word, and in no public text; all texts are looked up.
        replayed: addresses, numbers and rare words, of all texts.
        nearer: share of the corpus' texts that are nearer to a private text than to any of the control; .5 if nothing
            leaves. None if all are equally near. Texts of a corpus share their neighbours, so there is no interval.
        distance, distance_of_others: median of 1 - cosine to the nearest text of the corpus.
        membership: AUC of the cosine to the nearest text of the corpus, as a guess of which texts are private.
        membership_by_public: the same of the nearest public text, which knows nothing of them: a control, too.
        attribute, attribute_of_others: share of texts whose label is that of the nearest text of the corpus; None
            without labels.
    """

    texts: int
    copies: CameBack
    replayed: tuple[CameBack, ...]
    nearer: float | None
    distance: float
    distance_of_others: float
    membership: Estimate
    membership_by_public: Estimate
    attribute: Estimate | None
    attribute_of_others: Estimate | None

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data, and what they show."""
        strings: dict[str, Json] = {"copies": asdict(self.copies), "replayed": [*map(asdict, self.replayed)]}
        return {**fields_as_json(self), **strings, "shown": [*self.shown]}

    @property
    def shown(self) -> tuple[str, ...]:
        """What tells private texts from the control, in words; empty if nothing does."""
        found = [each.kind for each in (self.copies, *self.replayed) if each.shows]
        if self.membership.low > max(_CHANCE, self.membership_by_public.high):
            found.append("nearness to the corpus")
        own, others = self.attribute, self.attribute_of_others
        if own is not None and others is not None and own.low > others.high:
            found.append("labels of the nearest texts")
        return tuple(found)

    @property
    def apart_by_public(self) -> bool:
        """Whether public texts alone tell private texts from the control: then it is not of the same source."""
        return self.membership_by_public.low > _CHANCE

    @property
    def differ(self) -> bool:
        """Whether the control is nearer to the corpus than private texts: then it is not of the same source."""
        return self.membership.high < min(_CHANCE, self.membership_by_public.low)


def copied(made: Sequence[Record], private: Sequence[Record], pool: Sequence[Record]) -> tuple[int, int]:
    """Return how many private texts that are no public text stand in the corpus word for word, and their number."""
    every = {record.text for record in private} - {record.text for record in pool}
    return len(every & {record.text for record in made}), len(every)


def leaving(
    made: Sequence[Record],
    *,
    private: Sequence[Record],
    others: Sequence[Record],
    pool: Sequence[Record],
    embedder: Embedder,
    seed: int = 0,
) -> Leaving:
    """Attack a corpus that was `made` from the `private` records.

    `others` are records of the same source that it was not made from; those whose text is a private one do not count.
    As many are drawn of both, at most 2,000, for attacks by nearness. The `pool` of public records is what anybody
    knows. The embedder is public. `seed` is of the draws and intervals.
    ConfigError: fewer than 8 texts of a kind.
    """
    there = {record.text for record in private}
    others = [record for record in others if record.text not in there]
    n = min(_MOST, len(private), len(others))
    if min(n, len(made), len(pool)) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} records each: private, of the corpus, of the pool, and others of the same "
            "source (--test), whose texts are not private."
        )
    rng = np.random.default_rng(seed)
    own, control = ([side[i] for i in rng.permutation(len(side))[:n].tolist()] for side in (private, others))
    sides = [[record.text for record in side] for side in (own, control, made, pool)]
    texts, texts_of_others, left, public = sides
    space = embed_distinct((text for side in sides for text in side), embedder, single=True)
    distinct = [*dict.fromkeys(left)]
    rows, rows_of_others, cloud, known = (space.at(side) for side in (texts, texts_of_others, distinct, public))
    near, near_of_others = _nearest(rows, cloud), _nearest(rows_of_others, cloud)
    by_public = np.concatenate([_nearest(rows, known)[0], _nearest(rows_of_others, known)[0]])
    side = np.repeat([1.0, 0.0], n)
    membership, control_of_it = (
        bootstrap(np.stack([scores, side], axis=1), area, source=seeded(seed), bounds=(0.0, 1.0), resamples=200)
        for scores in (np.concatenate([near[0], near_of_others[0]]), by_public)
    )
    to_own, to_others = _nearest(cloud, rows)[0], _nearest(cloud, rows_of_others)[0]
    apart = int((to_own > to_others).sum()), int((to_own != to_others).sum())
    given = {text: record.label for text, record in zip(left, made, strict=True) if record.label is not None}
    guesses = [
        _right(records, [given.get(distinct[i]) for i in found[1].tolist()])
        for records, found in ((own, near), (control, near_of_others))
    ]
    shown, leaves = set(public), set(left) - set(public)
    every, controls = {record.text for record in private} - shown, {record.text for record in others} - shown
    copies = CameBack("Texts word for word", (len(every & leaves), len(every)), (len(controls & leaves), len(controls)))
    return Leaving(
        texts=n,
        copies=copies,
        replayed=tuple(_replayed(every, controls, leaves, shown)),
        nearer=apart[0] / apart[1] if apart[1] else None,
        distance=float(np.median(1 - near[0])),
        distance_of_others=float(np.median(1 - near_of_others[0])),
        membership=membership,
        membership_by_public=control_of_it,
        attribute=guesses[0],
        attribute_of_others=guesses[1],
    )


def _nearest(vectors: Floats, cloud: Floats) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the largest cosine of each vector to the cloud, and where it is."""
    best, place = np.empty(len(vectors)), np.empty(len(vectors), np.int64)
    for start in range(0, len(vectors), _ROWS):
        cosines = vectors[start : start + _ROWS] @ cloud.T
        here = slice(start, start + len(cosines))
        place[here] = cosines.argmax(axis=1)
        best[here] = np.take_along_axis(cosines, place[here][:, None], axis=1)[:, 0]
    return best, place


def _right(records: Sequence[Record], guesses: Sequence[str | None]) -> Estimate | None:
    """Return the share of records whose label is the guess, of those where both are there."""
    pairs = [(each.label, guess) for each, guess in zip(records, guesses, strict=True) if each.label and guess]
    if not pairs:
        return None
    return clopper_pearson(sum(label == guess for label, guess in pairs), len(pairs), confidence=0.95)


def _replayed(texts: set[str], others: set[str], leaves: set[str], public: set[str]) -> Iterator[CameBack]:
    kinds = ("E-mail addresses", _addresses), ("Long numbers", _numbers), ("Names and rare words", _words)
    for kind, strings in kinds:
        known, made = (set[str]().union(*map(strings, side)) for side in (public, leaves))
        counts = []
        for side in (texts, others):
            rare = set[str]().union(*map(strings, side)) - known
            counts.append((len(rare & made), len(rare)))
        yield CameBack(kind, counts[0], counts[1])


def _addresses(text: str) -> set[str]:
    return {found.lower().rstrip(".-") for found in _EMAIL.findall(text)}


def _numbers(text: str) -> set[str]:
    found = (re.sub(r"\D", "", each) for each in _NUMBER.findall(text))
    return {each for each in found if len(each) >= _DIGITS}


def _words(text: str) -> set[str]:
    return {token.lower() for line in tokenize(text) for token in line if token[:1].isalpha() and len(token) > 2}
