"""ER-AE (Bo, Ding, Fung and Iqbal 2021): texts written again word by word, to hide who wrote them."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from dptext.audits.features import author_of
from dptext.audits.inference.authorship import AuthorSplit, attribute_releases, split_authors
from dptext.errors import ConfigError
from dptext.estimates import Estimate, best_share
from dptext.mechanism import Mechanism
from dptext.text.tokens import words_of
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY
from dptext_lab.erae.erae import ErAe
from dptext_lab.erae.two_set import TwoSet
from dptext_lab.papers.measuring import COSINE, Bench, Rows, reference
from dptext_lab.papers.table import REFERENCES, Paper, PaperRow, brief, compared
from dptext_lab.papers.texts import Texts, authored, cut

#: The true epsilon of a word, of the rows that the paper is compared at.
WORD: Final = 12.0
#: The epsilon of a text, of the row that protects texts.
EPSILON: Final = 10.0
PUBLISHED: Final = "as published"
SOUND: Final = "made sound"
#: The paper's choice of words on the network of the row before.
CHOICE: Final = "published choice, sound net"
PROTECTING: Final = "made sound, 10 a text"
AUTHORS: Final = "author named"
_FEWEST: Final = 4  # texts of an author


@dataclass(frozen=True, slots=True)
class ErAeSizes:
    """Sizes of the study; of each author `training` texts are learned from, and `attacked` ones are attacked."""

    training: int = 25
    attacked: int = 25
    authors: int = 6
    public: int = 1200
    tokens: int = 16
    words: int = 2000
    hidden: int = 64
    latent: int = 64
    embedding: int = 64
    epochs: int = 20
    vectors: Literal["minilm", "glove"] = "minilm"


def built_in(sizes: ErAeSizes, seed: int) -> Texts:
    """Return built-in requests of authors with planted habits."""
    return authored(2 * (sizes.training + sizes.attacked) * sizes.authors, sizes.public, seed)


def study(texts: Texts, bench: Bench, sizes: ErAeSizes | None = None) -> Paper:
    """Train the network with one latent as published and with one a position on public texts, and attribute releases.

    ConfigError: fewer than two authors have four texts.
    """
    sizes = sizes or ErAeSizes()
    split = _split(texts, sizes, bench.seed)
    texts = cut(replace(texts, private=()), 0, sizes.public)
    known = Counter(word for record in texts.public for word in words_of(record.text, sizes.tokens))
    shared: dict[str, Any] = {"max_tokens": sizes.tokens, "max_words": min(sizes.words, len(known))}
    shared |= {"hidden": sizes.hidden, "latent_dim": sizes.latent, "embedding": sizes.embedding}
    shared |= {"epochs": sizes.epochs, "vectors": sizes.vectors}
    published = ErAe(WORD, choice="two_set_sampled", latent="text", **shared)
    sound = ErAe(WORD, reward=0.0, **shared)
    weak = sound.calibrate(EPSILON)
    chooser = published.chooser
    assert isinstance(chooser, TwoSet)  # noqa: S101 (the choice names it)
    fitted = {
        PUBLISHED: bench.fit(published, public=texts.public, seed=bench.seed, title="erae: training as published"),
        SOUND: bench.fit(sound, public=texts.public, seed=bench.seed, title="erae: training made sound"),
    }
    made: dict[str, Mechanism[str]] = {
        **fitted,
        CHOICE: replace(sound, choice=published.choice).refit(fitted[SOUND], public=texts.public, seed=bench.seed),
        PROTECTING: weak.refit(fitted[SOUND], public=texts.public, seed=bench.seed),
    }
    bench.say("erae: releases and attacks")
    both = (*split.attacked, *split.training)
    own = Texts(both, texts.public, texts.source)
    rows = {**bench.references(own), **{name: bench.released(each, both) for name, each in made.items()}}
    numbers = measured(split, rows, bench)
    a_text = {name: each.spec.guarantee().epsilon for name, each in made.items()}
    claim = chooser.epsilon + math.log(published.options)
    epsilons = {
        PUBLISHED: (f"{a_text[PUBLISHED]:.4g} a text*", f"claims {claim:.3g} a word"),
        SOUND: (f"{a_text[SOUND]:.4g} a text", f"{WORD:g} a word"),
        PROTECTING: (f"{a_text[PROTECTING]:.3g} a text", f"{weak.epsilon:.2g} a word"),
    }
    epsilons[CHOICE] = (epsilons[SOUND][0], epsilons[PUBLISHED][1])
    found = [reference(name, numbers[name]) for name in REFERENCES]
    found += [PaperRow(name, epsilons[name], numbers[name], name != PUBLISHED) for name in made]
    by_name = {row.name: row for row in found}
    public, names = by_name[PUBLIC_ONLY], (COSINE, AUTHORS)
    chance = 1 / len({author_of(record) for record in split.attacked})
    facts: dict[str, Json] = {"epsilon_of_a_word": WORD, "claimed_of_a_word": claim, "chance": chance}
    facts |= {"options": published.options, "words": sizes.tokens, "epsilon_of_a_text": {**a_text}}
    return Paper(
        name="erae",
        source="Bo, Ding, Fung and Iqbal 2021 (NAACL)",
        claim=f"epsilon + ln(size) for each word, by two sets: {claim:.3g} here",
        instead="tight bounds, its own words as prefix, a fixed length, an epsilon for the text: `erae`",
        answer=(
            (
                f"ER-AE as published: epsilon for a word, none for a text. A text has one for each word, and the "
                f"authors' code reads the text's own words and gives away its length. Made sound at epsilon "
                f"{EPSILON:g} a text it has {compared(by_name[PROTECTING], public, names)}."
            ),
            (
                f"At {WORD:g} a word (the paper counts {claim:.3g}) the {sizes.tokens} words of a text have "
                f"{a_text[SOUND]:.4g}: made sound {compared(by_name[SOUND], public, names)}; as published "
                f"{compared(by_name[PUBLISHED], public, names)}."
            ),
        ),
        columns=names,
        rows=tuple(found),
        kept=COSINE,
        leaks=AUTHORS,
        notes=(
            *texts.notes,
            (
                f"{len(split.attacked):,} texts attacked, {len(split.training):,} learned from, {len(texts.public):,} "
                f"public texts: {texts.source}."
            ),
            (
                f"{AUTHORS}: the best of four attackers, on n-grams or sentence vectors, who learned from originals or "
                f"releases; guessing is right in {brief(chance)}. The interval allows for the choice."
            ),
            "* of the paper's choice of words, at a fixed length. The authors' code ends where the text ends.",
            "ER-AE releases no label.",
        ),
        facts=facts,
    )


def _split(texts: Texts, sizes: ErAeSizes, seed: int) -> AuthorSplit:
    """Split texts of the authors who have enough, or fewer texts of each if there are no two such authors."""
    counts = Counter(record.author for record in texts.private if record.author is not None)
    if not counts:
        raise ConfigError("Expected --author-field NAME: the attack on ER-AE asks who wrote a text.")
    each = sizes.training + sizes.attacked
    able = [author for author, count in sorted(counts.items()) if count >= each][: sizes.authors]
    if len(able) < 2:
        able = [author for author, count in counts.most_common(sizes.authors) if count >= _FEWEST]
        each = min((counts[author] for author in able), default=0)
    if len(able) < 2:
        raise ConfigError(
            f"Expected at least 2 authors with {_FEWEST} different private texts each, found {len(able)}: give more."
        )
    own = [record for record in texts.private if record.author in able]
    training = each * sizes.training // (sizes.training + sizes.attacked)
    return split_authors(own, training=training, attacked=each - training, seed=seed)


def measured(split: AuthorSplit, rows: Rows, bench: Bench) -> dict[str, dict[str, Estimate | float | None]]:
    """Return similarity and authorship of each row; its releases are of the attacked texts, then of those learned from.

    Attackers of *original*, *public-only* and *random* learn from such texts, too.
    """
    n = len(split.attacked)
    found: dict[str, dict[str, Estimate | float | None]] = {}
    for name, releases in rows.items():
        given: dict[str, Any] = {"released": releases[:n], "training_released": releases[n:], "seed": bench.seed}
        attacks = attribute_releases(split.training, split.attacked, embedder=bench.embedder, **given).attacks
        best = best_share([(row.accuracy, row.attributed) for row in attacks])
        found[name] = {COSINE: attacks[0].similarity, AUTHORS: best}
    return found
