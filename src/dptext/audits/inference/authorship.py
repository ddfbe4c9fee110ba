"""Closed-set authorship attribution: who of the known authors wrote this privatized text?

There are two attackers: a linear classifier of character n-grams, and a logistic regression on sentence vectors. Each
is *static* (trained on originals of the same authors, but not on those that are attacked) and *adaptive* (trained on
what the mechanism made of them). Garbage hides authors perfectly, so every row shows how similar the attacked texts are
to their own originals.

What is measured is these attackers on these authors. Little success proves nothing: other attackers may do better. Much
success bounds epsilon from below, for replacing one document: `dptext.audits.inference.attribution` has the proof.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from dptext import _validate
from dptext.audits.inference.authors import ENCODER, NGRAMS, AuthorAttacker, AuthorSplit, train_encoder, train_ngrams
from dptext.audits.inference.authorship_report import GARBAGE, NO_PROOF, AuthorJudge, AuthorshipReport, bundles
from dptext.audits.inference.judging import scores_of
from dptext.audits.subjects import OnCount
from dptext.audits.texts import author_of, check_releases, shared_texts
from dptext.embeddings.distinct import embed_distinct
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.sampling.source import Randomness, seeded
from dptext.text.records import Record, Release
from dptext.types import Json

_BATCH = 256
#: Where the stream of the training releases begins, far from that of the attacked ones.
_TRAINING = 1 << 40


def attribute(
    mechanism: Mechanism[str],
    split: AuthorSplit,
    *,
    embedder: Embedder,
    bundle: int = 1,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    randomness: Randomness | None = None,
    on_release: OnCount | None = None,
    on_attacker: OnCount | None = None,
) -> AuthorshipReport:
    """Release every text of a split, by `split_authors`, once and attribute the releases of the attacked ones.

    Only the text that the mechanism releases is attacked. The randomness of the releases is `seeded(seed)` by default,
    as nothing is released to anybody. `on_release` is called with texts released and texts in all. The other arguments
    and errors are those of `attribute_releases`; a mechanism that releases no text raises ConfigError, too.
    """
    released, training_released = release_split(
        mechanism, split, randomness=randomness or seeded(seed), on_progress=on_release
    )
    return attribute_releases(
        split.training,
        split.attacked,
        released=released,
        training_released=training_released,
        embedder=embedder,
        bundle=bundle,
        seed=seed,
        confidence=confidence,
        delta=delta,
        on_attacker=on_attacker,
    )


def release_split(
    mechanism: Mechanism[str], split: AuthorSplit, *, randomness: Randomness, on_progress: OnCount | None = None
) -> tuple[list[Release[str]], list[Release[str]]]:
    """One release of each attacked and training text, by streams of their own; ConfigError where none has text."""
    if not mechanism.spec.traits.releases_text:
        raise ConfigError(f"Expected a mechanism that releases text: {mechanism.spec.kind} releases vectors only.")
    attacked: list[Release[str]] = []
    training: list[Release[str]] = []
    for records, found, position in (split.attacked, attacked, 0), (split.training, training, _TRAINING):
        for start in range(0, len(records), _BATCH):
            found.extend(mechanism.privatize(records[start : start + _BATCH], randomness.at(position + start)))
            if on_progress is not None:
                on_progress(len(attacked) + len(training), len(split.attacked) + len(split.training))
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

    The scores of the texts of a bundle are added up: log probabilities of the logistic regression, margins of the
    linear support vector machine. Bundles take `bundle` texts of an author in their order; what is left over is not
    attributed. Among equal scores one random order of the authors decides.

    The originals to train on are of all authors. Equally many of each author are attacked, so that a guess at random is
    right for 1 in A. There is one release of each original by the same mechanism, all drawn independently, in their
    order. The adaptive attackers learn from `training_released`; without them there are no such attackers. The embedder
    is public. The seed is of classifiers, controls and bootstrap, the confidence of all intervals and of the bound on
    epsilon at `delta`. `on_attacker` is called with attackers trained and attackers in all.

    Raises:
        ConfigError: records without authors, authors who differ or have unequal numbers of attacked texts, releases of
            other records, an embedder without finite vectors, or a setting out of its range.
        MissingExtraError: scikit-learn is absent.
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
    judge = AuthorJudge(
        authors=len(names),
        true=true,
        units=bundles(true, bundle),
        priority=rng.permutation(len(names)),
        permuted=rng.permutation,
        seed=seed,
        confidence=confidence,
    )
    close = judge.similarity(space.at(originals), space.at(outputs))
    attackers: dict[str, Callable[[Sequence[str]], AuthorAttacker]] = {
        NGRAMS: lambda texts: train_ngrams(texts, learned, seed),
        ENCODER: lambda texts: train_encoder(texts, learned, space, seed),
    }
    scores, plain = scores_of(taught, attackers, outputs, originals, on_attacker)
    same = judge.similarity(space.at(originals), space.at(originals))
    most = np.tile(np.bincount(learned, minlength=len(names)).astype(np.float64), (len(true), 1))
    overlap = shared_texts(training, attacked)
    signature: dict[str, Json] = {
        "attack": "authorship",
        "authors": len(names),
        "training": len(training),
        "attacked": len(attacked),
        "bundle": bundle,
        "adaptive": bool(training_released),
        "embedder": embedder.name,
        "overlap": overlap,
        "seed": seed,
        "confidence": confidence,
        "delta": delta,
    }
    notes = [GARBAGE, NO_PROOF]
    if overlap:
        notes.append(f"{overlap:,} of the attacked texts are also training texts: the attacker knew them.")
    if len(true) > judge.units.size:
        notes.append(f"{len(true) - judge.units.size:,} attacked texts are left over and in no bundle.")
    return AuthorshipReport(
        attacks=tuple(judge.row(name, found, close) for name, found in scores.items()),
        controls=tuple(judge.control(f"control: {name}, authors permuted", s, close) for name, s in scores.items()),
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
    """The authors, sorted."""
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
