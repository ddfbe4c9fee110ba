"""Closed-set authorship attribution: which of the known authors wrote a privatized text?

There are two attackers: a linear classifier of character n-grams, and a logistic regression on sentence vectors. Each
is *static* (trained on originals of the same authors, but not on the attacked texts) and *adaptive* (trained on the
mechanism's releases of these originals). Garbage hides authors perfectly, so every row shows how similar the attacked
texts are to their own originals.

The audit measures these attackers on these authors. Little success proves nothing: other attackers may do better. Much
success bounds epsilon from below, for replacing one document: `epsilon_from_attribution` has the proof.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from dptext import _validate
from dptext.audits.features import LEAST_SPREAD, author_of, check_releases, distinct_texts, shared_texts, standardiser
from dptext.audits.inference.findings import GARBAGE, NO_PROOF, AuthorJudge, AuthorshipReport, bundles
from dptext.audits.report import mean_cosine, scores_of
from dptext.audits.subjects import OnCount, untold
from dptext.embeddings.embedder import EmbeddedTexts, Embedder, embed_distinct
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from dptext.types import Floats, Integers, Json

#: A function from texts to scores `(n_texts, n_authors)`, higher for likelier authors; fixed before the attack.
AuthorAttacker = Callable[[Sequence[str]], Floats]

NGRAMS: Final = "character n-grams"
ENCODER: Final = "sentence encoder"

_MOST_FEATURES = 100_000


@dataclass(frozen=True, slots=True)
class AuthorSplit:
    """Texts of known authors to train attackers on, and other texts to attack, the same number of each author.

    `duplicates` counts the records that were removed because an earlier one has the same text.
    """

    training: tuple[Record, ...] = field(repr=False)
    attacked: tuple[Record, ...] = field(repr=False)
    duplicates: int


def split_authors(records: Iterable[Record], *, training: int, attacked: int, seed: int) -> AuthorSplit:
    """Remove duplicates, then draw `training` texts of each author to train on, and `attacked` others to attack.

    Two records are duplicates if their tokens are equal without regard to case, whoever wrote them; the first stays.
    ConfigError where a record has no author, there are fewer than two authors, or an author has too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    distinct, count = distinct_texts(records)
    own: dict[str, list[Record]] = {}
    for record in distinct.values():
        own.setdefault(author_of(record), []).append(record)
    if len(own) < 2:
        raise ConfigError(f"Expected records of at least 2 authors, found {len(own)}.")
    needed = training + attacked
    if few := sum(len(found) < needed for found in own.values()):
        raise ConfigError(
            f"Expected training={training} + attacked={attacked} distinct texts of every author, found fewer for {few} "
            f"of {len(own)} authors, {min(map(len, own.values()))} at the least: ask for fewer texts, or leave these "
            "authors out."
        )
    rng = np.random.default_rng(seed)
    learned: list[Record] = []
    tried: list[Record] = []
    for author in sorted(own):
        order = rng.permutation(len(own[author])).tolist()
        learned += [own[author][i] for i in order[:training]]
        tried += [own[author][i] for i in order[training:needed]]
    return AuthorSplit(tuple(learned), tuple(tried), count - len(distinct))


def train_ngrams(texts: Sequence[str], codes: Integers, seed: int) -> AuthorAttacker:
    """Train a linear support vector machine on TF-IDF of 2 to 4 characters within words.

    Case is kept, because case is style. With case .305 of 200 blog posts of 20 authors were attributed, without case
    .255 (40 words a post, 20 training posts of each author; C from 0.1 to 10 changed no more than .015). The `codes`
    `(n_texts,)` are the authors of the texts, from 0 without gaps.
    """
    sklearn = load_sklearn()
    from sklearn.svm import LinearSVC  # noqa: PLC0415 (slow to load)

    if not any(map(str.split, texts)):  # no character to count: nothing is learned
        authors = int(codes.max()) + 1
        return lambda found: np.zeros((len(found), authors))
    counter = sklearn.feature_extraction.text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, lowercase=False, max_features=_MOST_FEATURES
    )
    model = fit_quietly(LinearSVC(C=1.0, random_state=seed), counter.fit_transform(texts), codes)
    return lambda found: _columns(model.decision_function(counter.transform(found)))


def _columns(margins: Floats) -> Floats:
    """Return scores with a column for each author; for two authors scikit-learn gives the second column only."""
    found = np.asarray(margins, np.float64)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else found


def train_encoder(texts: Sequence[str], codes: Integers, vectors: EmbeddedTexts, seed: int) -> AuthorAttacker:
    """Train a logistic regression on standardised vectors, which `vectors` must hold for all attacked texts, too.

    Scores are log probabilities. On the posts of `train_ngrams` it attributed .315 with C = 0.01, and .270 with C = 1.
    """
    known = vectors.at(texts)
    scaled = standardiser(known, constant=LEAST_SPREAD)
    model = load_sklearn().linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    fit_quietly(model, scaled(known), codes)
    return lambda found: np.asarray(model.predict_log_proba(scaled(vectors.at(found))), np.float64)


RECORDS_AT_ONCE = 256  #: Records in one call of the mechanism
#: Position at which the stream of the training releases begins, far from the stream of the attacked releases.
_TRAINING = 1 << 40


def attribute(
    mechanism: Mechanism[str],
    split: AuthorSplit,
    *,
    seed: int = 0,
    randomness: Randomness | None = None,
    on_release: OnCount | None = None,
    **given: Any,
) -> AuthorshipReport:
    """Release every text of a split, by `split_authors`, once, and attribute the releases of the attacked texts.

    Only the released text is attacked. The randomness of the releases is `seeded(seed)` by default, because nothing is
    released to anybody. `on_release` is called with the number of texts released and the number in all. The other
    arguments and errors are those of `attribute_releases`; a mechanism that releases no text raises ConfigError, too.
    """
    released, taught = release_split(mechanism, split, randomness=randomness or seeded(seed), on_progress=on_release)
    shared = {"released": released, "training_released": taught, "seed": seed, **given}
    return attribute_releases(split.training, split.attacked, **shared)


def release_split(
    mechanism: Mechanism[str], split: AuthorSplit, *, randomness: Randomness, on_progress: OnCount | None = None
) -> tuple[list[Release[str]], list[Release[str]]]:
    """Release each attacked and training text once, in separate streams; ConfigError for a mechanism without text."""
    if not mechanism.spec.traits.releases_text:
        raise ConfigError(f"Expected a mechanism that releases text: {mechanism.spec.kind} releases vectors only.")
    attacked: list[Release[str]] = []
    training: list[Release[str]] = []
    for records, found, position in (split.attacked, attacked, 0), (split.training, training, _TRAINING):
        for start in range(0, len(records), RECORDS_AT_ONCE):
            found.extend(mechanism.privatize(records[start : start + RECORDS_AT_ONCE], randomness.at(position + start)))
            (on_progress or untold)(len(attacked) + len(training), len(split.attacked) + len(split.training))
    return attacked, training


def attribute_releases(
    training: Sequence[Record],
    attacked: Sequence[Record],
    *,
    released: Sequence[Release[str]],
    training_released: Sequence[Release[str]] = (),
    embedder: Embedder,
    bundle: int = 1,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    on_attacker: OnCount | None = None,
) -> AuthorshipReport:
    """Attribute releases to their authors, with controls, baselines and similarity.

    A bundle takes `bundle` texts of an author in their order; the remaining texts are not attributed. The scores of a
    bundle's texts are added up: log probabilities of the logistic regression, margins of the linear support vector
    machine. One random order of the authors decides among equal scores.

    `training` holds originals of all authors; the same number of each author's texts is attacked, so that a random
    guess is right for 1 in A. `released` has one release of each attacked original, in order, all drawn independently
    by the same mechanism. The adaptive attackers learn from `training_released`, and are left out without it. The
    embedder is public. `confidence` is of all intervals and of the bound on epsilon at `delta`. `on_attacker` is called
    with the number of attackers trained and the number in all. ConfigError for records without authors, authors who
    differ or have unequal numbers of attacked texts, releases of other records, an embedder without finite vectors, or
    a setting out of its range.
    """
    names = _check_authors(training, attacked, bundle)
    check_releases("released", attacked, released)
    if training_released:
        check_releases("training_released", training, training_released)
    code = {name: i for i, name in enumerate(names)}
    learned, true = (np.array([code[author_of(r)] for r in side], np.int64) for side in (training, attacked))
    originals, outputs = [record.text for record in attacked], [release.output for release in released]
    taught = {"static": [record.text for record in training]}
    if training_released:
        taught["adaptive"] = [release.output for release in training_released]
    space = embed_distinct([*originals, *outputs, *(text for texts in taught.values() for text in texts)], embedder)
    rng = np.random.default_rng(seed)
    priority = rng.permutation(len(names))
    judge = AuthorJudge(len(names), true, bundles(true, bundle), priority, rng.permutation, seed, confidence)
    close = mean_cosine(space.at(originals), space.at(outputs), seed=seed, confidence=confidence)
    attackers: dict[str, Callable[[Sequence[str]], AuthorAttacker]] = {
        NGRAMS: lambda texts: train_ngrams(texts, learned, seed),
        ENCODER: lambda texts: train_encoder(texts, learned, space, seed),
    }
    scores, plain = scores_of(taught, attackers, outputs, originals, on_attacker)
    same = mean_cosine(space.at(originals), space.at(originals), seed=seed, confidence=confidence)
    most = np.tile(np.bincount(learned, minlength=len(names)).astype(np.float64), (len(true), 1))
    overlap = shared_texts(training, attacked)
    signature: dict[str, Json] = {"attack": "authorship", "authors": len(names), "training": len(training)}
    signature |= {"attacked": len(attacked), "bundle": bundle, "adaptive": bool(training_released)}
    signature |= {"embedder": embedder.name, "overlap": overlap}
    signature |= {"seed": seed, "confidence": confidence, "delta": delta}
    notes = [GARBAGE, NO_PROOF]
    if overlap:
        notes.append(f"{overlap:,} of the attacked texts are also training texts: the attacker knew them.")
    if len(true) > judge.units.size:
        notes.append(f"{len(true) - judge.units.size:,} attacked texts are left over and in no bundle.")
    return AuthorshipReport(
        attacks=tuple(judge.row(name, found, close) for name, found in scores.items()),
        controls=tuple(
            judge.row(f"control: {name}, authors permuted", s, close, control=True) for name, s in scores.items()
        ),
        baselines=(
            *(judge.row(name, found, same) for name, found in plain.items()),
            judge.chance("chance", close),
            judge.row("majority: most training texts", most, close),
        ),
        report=judge.report(scores, delta=delta, signature=signature),
        authors=len(names),
        training_texts=len(training),
        attacked_texts=len(attacked),
        bundle=bundle,
        embedder=embedder.name,
        notes=tuple(notes),
        signature=signature,
    )


def _check_authors(training: Sequence[Record], attacked: Sequence[Record], bundle: int) -> list[str]:
    _validate.count(bundle=bundle)
    known, counts = {author_of(record) for record in training}, Counter(map(author_of, attacked))
    if len(known) < 2 or known != set(counts):
        raise ConfigError(
            f"Expected the same authors, at least 2, of training and attacked texts, found {len(known)} and "
            f"{len(counts)}, {len(known & set(counts))} in common: see split_authors."
        )
    fewest, most = min(counts.values()), max(counts.values())
    if fewest < most:
        raise ConfigError(
            f"Expected as many attacked texts of every author, found {fewest} to {most}: see split_authors."
        )
    if bundle > fewest:
        raise ConfigError(f"Expected bundle={bundle} <= {fewest}, the attacked texts of an author: make it smaller.")
    return sorted(known)
