"""Fits DeepCandidate's public part: chooses the candidates, fits and tunes what ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dptext.embeddings.encoders import Encoder
from dptext.errors import ConfigError
from dptext.neural.deep_candidate.candidates import CandidateSettings, FittedCandidates
from dptext.neural.deep_candidate.recoder import RecoderSchedule
from dptext.neural.deep_candidate.scores import DEPTHS, DepthScores, LikenessScores
from dptext.neural.deep_candidate.tuning import Documents, fit_depth, fit_likeness, fit_recoder_for
from dptext.text.records import Record, records_digest
from dptext.text.tokens import sentences
from dptext.types import Integers

_FEWEST = 20
_TUNING = 300
#: Documents with their sentences.
_Split: TypeAlias = list[tuple[Record, list[str]]]


def fit_candidates(
    settings: CandidateSettings, public: Sequence[Record], pool: Sequence[Record] | None = None, *, seed: int
) -> FittedCandidates:
    """Choose, fit and tune on public text only.

    With a pool, all candidates come from it, and everything else is fitted and tuned on `public`.

    Raises:
        ConfigError: fewer than 20 documents have enough sentences, or one has no known label.
    """
    _check_labels(settings, public, "public")
    encoder = settings.load_encoder()
    # Of equal texts the first one is kept: another could be tuned on where it is a candidate.
    distinct: dict[str, Record] = {}
    for record in public:
        distinct.setdefault(record.text, record)
    split = _split([*distinct.values()])
    if pool is None:
        offered = split
        chosen, tuned = _from_public(settings, split, public, seed=seed)
    else:
        _check_labels(settings, pool, "pool")
        offered = _split(pool)
        chosen, tuned = _from_pool(settings, split, offered, public, pool, seed=seed)
    every = _embedded(settings, encoder, split)
    rest = every.take(np.setdiff1d(np.arange(len(every)), tuned))
    candidates = (every if pool is None else _embedded(settings, encoder, offered)).take(chosen)
    if settings.utility in ("evidence", "mixed") and candidates.classes is not None and rest.classes is not None:
        unseen = len(np.setdiff1d(candidates.classes, rest.classes))
        if unseen and pool is not None:
            raise ConfigError(
                f"Expected public documents of each label of the pool, found none of {unseen}: give more."
            )
    scores = _fit(settings, candidates, rest, every.take(tuned), seed=seed)
    outputs = scores.means if isinstance(scores, DepthScores) else candidates.means
    return FittedCandidates(
        settings,
        tuple(offered[i][0].text for i in chosen),
        tuple(offered[i][0].label if settings.labels else None for i in chosen),
        outputs.astype(np.float32),
        scores,
        encoder,
        records_digest(public),
        "" if pool is None else records_digest(pool),
    )


def _from_public(
    settings: CandidateSettings, split: _Split, public: Sequence[Record], *, seed: int
) -> tuple[Integers, Integers]:
    """Positions of the candidates, and of the documents to tune on. No document is both: it is nearest to itself."""
    long = _long(settings, split, public, "public documents", "public text")
    order = np.random.default_rng(seed).permutation(long)
    most = settings.candidates
    held = min(_TUNING, max(1, len(order) // 5))
    held = max(held, 1) if len(order) - held < most else min(_TUNING, len(order) - most)
    return np.sort(order[held : held + most]), order[:held]


def _from_pool(
    settings: CandidateSettings,
    split: _Split,
    offered: _Split,
    public: Sequence[Record],
    pool: Sequence[Record],
    *,
    seed: int,
) -> tuple[Integers, Integers]:
    """Positions of the candidates in the pool, and of the public documents to tune on, which are no candidates."""
    long = _long(settings, offered, pool, "documents of the pool", "it more text")
    drawn = np.random.default_rng(seed)
    chosen = np.sort(drawn.permutation(long)[: settings.candidates])
    taken = {offered[i][0].text for i in chosen}
    tuned = drawn.permutation([i for i, (record, _) in enumerate(split) if record.text not in taken])
    if len(tuned) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} public documents that are no candidates themselves, found {len(tuned)} "
            f"of {len(public)}: with a pool, all that ranks is fitted and tuned on these."
        )
    return chosen, tuned[: min(_TUNING, len(tuned) // 2)]


def _check_labels(settings: CandidateSettings, given: Sequence[Record], name: str) -> None:
    unknown = sum(record.label not in settings.labels for record in given) if settings.labels else 0
    if unknown:
        raise ConfigError(
            f"Expected every {name} record to have one of the {len(settings.labels)} labels of the settings, found "
            f"{unknown} of {len(given)} without: name the field of the label, complete labels=, or leave them out."
        )


def _split(given: Sequence[Record]) -> _Split:
    """The documents that have a sentence, each with its sentences."""
    return [(record, found) for record in given if (found := sentences(record.text))]


def _long(settings: CandidateSettings, split: _Split, given: Sequence[Record], what: str, more: str) -> list[int]:
    """Positions of the documents with at least `min_sentences` sentences."""
    long = [i for i, (_, found) in enumerate(split) if len(found) >= settings.min_sentences]
    if len(long) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} {what} with min_sentences={settings.min_sentences} sentences, "
            f"found {len(long)} of {len(given)}: give {more} or lower min_sentences."
        )
    return long


def _embedded(settings: CandidateSettings, encoder: Encoder, split: _Split) -> Documents:
    return Documents(
        np.asarray(encoder.embed([sentence for _, found in split for sentence in found]), np.float64),
        tuple(len(found) for _, found in split),
        np.array([settings.labels.index(str(record.label)) for record, _ in split]) if settings.labels else None,
    )


def _fit(
    settings: CandidateSettings, pool: Documents, rest: Documents, tuning: Documents, *, seed: int
) -> DepthScores | LikenessScores:
    """The utility of the settings, fitted to `rest` and tuned on `tuning`."""
    if settings.utility not in DEPTHS:
        return fit_likeness(pool, rest, tuning, utility=settings.utility, epsilon=settings.epsilon)
    recoder = None
    if settings.recoder != "none":
        schedule = RecoderSchedule(epochs=settings.epochs)
        recoder = fit_recoder_for(
            rest, targets=settings.recoder, clusters=settings.clusters, schedule=schedule, seed=seed
        )
    return fit_depth(
        pool,
        tuning,
        statistic=DEPTHS[settings.utility],
        recoder=recoder,
        projections=settings.projections,
        epsilon=settings.epsilon,
        seed=seed,
    )
