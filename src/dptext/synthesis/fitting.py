"""What is public in a summary, fitted on the pool: space, topics, words, examples and drafts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from dptext.embeddings.distilled import common_words
from dptext.errors import MissingExtraError
from dptext.mechanism import OnProgress
from dptext.synthesis.blocks import POINTS
from dptext.synthesis.drafting import PublicDrafts, public_drafts
from dptext.synthesis.labelling import prior_means
from dptext.synthesis.lexicon import fit_lexicon, mark_rates
from dptext.synthesis.measured import MeasuredSpec
from dptext.synthesis.pool import PublicPool, fit_pool, pool_texts
from dptext.synthesis.public import Public
from dptext.synthesis.space import says_something
from dptext.text.function_words import ENGLISH
from dptext.text.languages import main_language
from dptext.text.reading import as_records
from dptext.text.records import Record

_TEXTS_A_DIRECTION: Final = 8  # at least, of the pool: its covariance is estimated


def fit_public(
    spec: MeasuredSpec, public: Iterable[Record], *, seed: int | None = None, on_progress: OnProgress | None = None
) -> Public:
    """Read the pool, and fit all that is public. Labels of the pool serve as examples alone.

    `on_progress` is called as a language model writes public drafts, and as the encoder reads public texts.
    """
    records = [record for record in as_records(public) if says_something(record.text)]
    texts = pool_texts(records)
    examples, drafts, digest = PublicDrafts() if not spec.marks else public_drafts(
        records, names=spec.shown, labels=spec.labels, bins=spec.bins, model=spec.model, examples=spec.examples,
        drafts=spec.drafts, tokens=spec.tokens, seed=seed or 0, on_progress=on_progress,
    )  # fmt: skip
    own = [text for each in drafts for text in each]
    main = main_language(texts) if spec.marks or spec.topics else None
    language = ENGLISH if main is None else main.code
    pool, features = PublicPool(texts, None, np.zeros((len(texts), 0)), None), None
    if spec.reads_points:
        scale = spec.noise().scale / spec.layout(dim=1, width=1).blocks[0].part
        dim = min(spec.directions(scale), max(4, len(texts) // _TEXTS_A_DIRECTION))
        pool, features = fit_pool(
            texts, spec, dim=dim, drafts=own, seed=seed, language=language, on_progress=on_progress
        )
    centre = None
    if features is not None and pool.space is not None and POINTS in spec.blocks:
        names = np.asarray(pool.space.encoder.embed(list(spec.shown)), np.float64)
        likeness = features[:, : pool.space.encoder.dim] @ names.T
        centre = prior_means(pool.points, likeness - likeness.mean(axis=0))
    lexicon = rates = None
    if spec.marks:
        more, meanings = _more_words(spec.encoder, language), spec.names or spec.labels
        lexicon = fit_lexicon(
            [*texts, *own], names=meanings, more=more, size=spec.vocabulary, most=spec.marks,
            drawn=bool(spec.lengths), language=language,
        )  # fmt: skip
        rates = mark_rates(lexicon, texts, drafts, max(1, len(spec.labels)))
        rates = rates.astype(np.float32).astype(np.float64)  # as a summary stores them
    return Public(
        pool,
        centre,
        lexicon,
        rates,
        examples,
        drafts,
        digest,
        bins=spec.bins,
        language=language,
        columns=spec.axes.columns,
    )


def _more_words(encoder: str, language: str) -> list[str]:
    """Words of the language beside those of public texts; none if there is no list, or its package is absent."""
    try:
        return common_words() if encoder != "glove" and language == ENGLISH else []
    except MissingExtraError:
        return []
