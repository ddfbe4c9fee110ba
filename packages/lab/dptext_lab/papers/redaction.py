"""Redaction (Gusain and Leith 2024): how far two sets of redacted texts stay apart, by divergence and by attack."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dptext.errors import ConfigError
from dptext.estimates import best_share
from dptext.text.records import Record, Release
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY
from dptext_lab.papers.measuring import COSINE, NO_GUARANTEE, Bench, reference
from dptext_lab.papers.table import REFERENCES, Number, Paper, PaperRow, percent
from dptext_lab.papers.texts import Texts, sampled
from dptext_lab.redaction.divergence.density_ratio import LEAST_ROWS
from dptext_lab.redaction.divergence.divergence import measure
from dptext_lab.redaction.divergence.estimators import DivergenceSettings
from dptext_lab.redaction.divergence.renyi import ALPHAS
from dptext_lab.redaction.random import RandomRedaction
from dptext_lab.redaction.trait import (
    LINEAR,
    TFIDF,
    SetReleases,
    SetSplit,
    infer_trait_from_releases,
    split_sets,
    standard_attackers,
)

TRAIT: Final = "trait named"
DIVERGENCE: Final = "divergence"
_FEWEST: Final = 8  # texts of a label
NO_SOUND: Final = (
    "No sound variant exists: a word that is not masked leaves as it is, so two texts that differ in it have no finite "
    "epsilon; masking all words leaves nothing."
)


@dataclass(frozen=True, slots=True)
class RedactionSizes:
    """Sizes of the study; of each of two sets `training` texts are learned from, and `attacked` ones are attacked.

    The others are settings of the divergence; `confidence` is of its intervals.
    """

    levels: tuple[float, ...] = (0.3, 0.6, 0.9)
    training: int = 90
    attacked: int = 90
    public: int = 600
    alphas: tuple[float, ...] = ALPHAS
    components: int = 8
    folds: int = 2
    permutations: int = 19
    resamples: int = 100
    confidence: float = 0.95


def built_in(sizes: RedactionSizes, seed: int) -> Texts:
    """Return built-in requests; the two sets are two of their labels."""
    return sampled(4 * (sizes.training + sizes.attacked), sizes.public, seed)


def study(texts: Texts, bench: Bench, sizes: RedactionSizes | None = None) -> Paper:
    """Mask words at random, by level, and tell the two largest labels of the private texts apart.

    ConfigError: no two labels have eight texts.
    """
    sides, sizes = _sides(texts, sizes or RedactionSizes())
    split = split_sets(*sides, training=sizes.training, attacked=sizes.attacked, seed=bench.seed)
    private = [record for part in (split.attacked, split.training) for side in part for record in side]
    private = [replace(record, id=str(i)) for i, record in enumerate(private)]
    split = _as_split(private, sizes)
    # The space of the divergence must not be fitted on texts that a reference releases.
    public = texts.public[: sizes.public]
    space = public[::3]
    drawn = tuple(record for i, record in enumerate(public) if i % 3)
    own = Texts(tuple(private), drawn, texts.source)
    rows: dict[str, Sequence[Release[str]]] = {**bench.references(own)}
    if len(drawn) >= len(private):  # a text that is drawn twice would look like a difference of the sets
        rows[PUBLIC_ONLY] = [Release(record.id, other.text) for record, other in zip(private, drawn, strict=False)]
    levels = {f"{level:.0%} masked": level for level in sizes.levels}
    for name, level in levels.items():
        rows[name] = bench.released(RandomRedaction(level).fit(), private)
    found = []
    for name, releases in rows.items():
        bench.say(f"redaction: {name}: divergence and attack")
        numbers = _measured(split, releases, space, bench, sizes)
        if name in REFERENCES:
            found.append(reference(name, numbers))
        else:
            a_word = RandomRedaction(levels[name]).guarantee().delta
            found.append(PaperRow(name, (NO_GUARANTEE, f"delta {a_word:.2g} a word"), numbers, sound=False))
    first, last = found[len(REFERENCES)], found[-1]
    right = [percent(row.numbers[TRAIT]) for row in (first, last)]
    delta = _settings(sizes, bench.seed).whole_delta(sizes.training + sizes.attacked)
    facts: dict[str, Json] = {
        "delta": delta,
        "levels": [*sizes.levels],
        "training": sizes.training,
        "attacked": sizes.attacked,
    }
    return Paper(
        name="redaction",
        source="Gusain and Leith 2024 (plausible deniability of redacted text)",
        claim="a Renyi divergence between two sets of redacted texts measures deniability",
        instead="no sound form; divergence and attack are measured: dptext audit divergence, trait",
        answer=(
            (
                f"Redaction: no guarantee at any level. With {sizes.levels[0]:.0%} of the words masked an attacker "
                f"names the set of {right[0]} of the texts, with {sizes.levels[-1]:.0%} of {right[1]}; guessing names "
                "that of 50%."
            ),
            NO_SOUND,
        ),
        columns=(COSINE, TRAIT, DIVERGENCE),
        rows=tuple(found),
        kept=COSINE,
        leaks=TRAIT,
        notes=(
            *texts.notes,
            (
                f"The sets are the texts of the two most frequent labels; {sizes.attacked:,} of each are attacked, "
                f"{sizes.training:,} learned from; {len(public):,} public texts: {texts.source}."
            ),
            (
                f"{TRAIT}: the best of linear attackers on words and on sentence vectors, who learned from originals, "
                "releases, or both. The interval allows for the choice."
            ),
            (
                f"{DIVERGENCE}: the epsilon of the two sets by the Renyi divergence in the embedding, at delta "
                f"{delta:.2g}: an estimate, no upper bound, and an average over a corpus. No text is protected by it."
            ),
        ),
        facts=facts,
    )


def _sides(texts: Texts, sizes: RedactionSizes) -> tuple[tuple[list[Record], list[Record]], RedactionSizes]:
    """Return the texts of the two most frequent labels, and smaller sizes if there are not enough of them."""
    counts = Counter(record.label for record in texts.private if record.label is not None)
    chosen = [label for label, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])) if count >= _FEWEST]
    if len(chosen) < 2:
        raise ConfigError(
            f"Expected --label-field NAME with two labels of at least {_FEWEST} private texts each, found "
            f"{len(chosen)}: the attack on redaction tells two kinds of texts apart."
        )
    first, second = ([record for record in texts.private if record.label == label] for label in chosen[:2])
    each = min(len(first), len(second), sizes.training + sizes.attacked)
    training = each * sizes.training // (sizes.training + sizes.attacked)
    return (first, second), replace(sizes, training=training, attacked=each - training)


def _as_split(private: Sequence[Record], sizes: RedactionSizes) -> SetSplit:
    """Return the split of texts that were laid one after the other: attacked and learned from, either set."""
    m, n = sizes.attacked, sizes.training
    a, b, c, d = (tuple(private[i:j]) for i, j in ((0, m), (m, 2 * m), (2 * m, 2 * m + n), (2 * m + n, 2 * m + 2 * n)))
    return SetSplit((c, d), (a, b))


def _settings(sizes: RedactionSizes, seed: int) -> DivergenceSettings:
    given: dict[str, Any] = {"permutations": sizes.permutations, "resamples": sizes.resamples, "seed": seed}
    given |= {"alphas": sizes.alphas, "confidence": sizes.confidence}
    return DivergenceSettings(components=sizes.components, folds=sizes.folds, **given)


def _measured(
    split: SetSplit, releases: Sequence[Release[str]], public: Sequence[Record], bench: Bench, sizes: RedactionSizes
) -> dict[str, Number]:
    m, n = sizes.attacked, sizes.training
    tried: SetReleases = (releases[:m], releases[m : 2 * m])
    taught: SetReleases = (releases[2 * m : 2 * m + n], releases[2 * m + n :])
    known = standard_attackers()
    attackers = {name: known[name] for name in (TFIDF, LINEAR)}
    given: dict[str, Any] = {"released": tried, "training_released": taught, "attackers": attackers}
    report = infer_trait_from_releases(split, embedder=bench.embedder, seed=bench.seed, **given)
    best = best_share([(row.accuracy, row.attacked) for row in report.attacks])
    if m + n < max(LEAST_ROWS, 2 * (math.floor(sizes.alphas[-1]) + 1)):  # too few for the largest order
        return {COSINE: report.attacks[0].similarity, TRAIT: best, DIVERGENCE: None}
    sets = ([Record(each.id, each.output) for part in (tried, taught) for each in part[side]] for side in range(2))
    first, second = sets
    found = measure(first, second, public=public, embedder=bench.embedder, settings=_settings(sizes, bench.seed))
    return {COSINE: report.attacks[0].similarity, TRAIT: best, DIVERGENCE: found.epsilon}
