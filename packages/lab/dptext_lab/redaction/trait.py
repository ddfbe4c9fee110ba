"""The trait attack: which of two sets, a sensitive and a safe set, does a redacted text come from?

Attackers score equally many texts of either set. They are judged by the area under their ROC curve, and by their
accuracy at the threshold 0, which is fixed beforehand. *Static* attackers learn from originals that are not attacked,
*adaptive* attackers from the mechanism's releases of these originals, a third kind from *both*, which anybody who can
run the mechanism has. A static attacker meets text of an unfamiliar kind: its threshold is off, so its accuracy
flatters the mechanism even where its AUC does not (TF-IDF on cancer sentences with 70% of the words masked: .58, .69
and .72, AUC .77, .76 and .79). Empty texts have no trait left, so every row shows how similar the attacked texts are to
their own originals.

The accuracy s bounds an epsilon. Let P and Q be the distributions of the redacted text of a random text of either set.
If P(S) <= e^eps Q(S) + delta and the reverse for all S, then 2 s = P(S) + Q(not S) <= 2 e^eps (1 - s) + 2 delta, so eps
>= ln((s - delta) / (1 - s)). This is a lower bound on the epsilon at which the *two sets* are indistinguishable, for
one draw. It is neither differential privacy of a record nor an upper bound. Of n texts known to be of one set, an
attacker sees n draws.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from dptext import _validate
from dptext.audits.features import LEAST_SPREAD, check_releases, distinct_texts, shared_texts, standardiser
from dptext.audits.inference.authorship import AuthorSplit, release_split
from dptext.audits.report import mean_cosine, scores_of
from dptext.audits.roc import check_scores
from dptext.audits.subjects import OnCount
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.embeddings.tfidf import fit_quietly, has_word, load_sklearn, words_tfidf
from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.privacy.names import seen_form
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record, Release
from dptext.types import Booleans, Floats, Json
from dptext_lab.redaction.trait_findings import EMPTY_TEXTS, NO_GUARANTEE, TWO_SETS, SetJudge, TraitReport

#: Records of the first set, and of the second.
Sides = tuple[tuple[Record, ...], tuple[Record, ...]]


@dataclass(frozen=True, slots=True)
class SetSplit:
    """Texts of two sets to train attackers on, and other texts to attack; each set has the same number of each.

    `duplicates` counts texts that were removed because an earlier text of the same set is equal, `shared` counts texts
    that both sets had; each shared text stayed in one set, chosen at random.
    """

    training: Sides = field(repr=False)
    attacked: Sides = field(repr=False)
    duplicates: int = 0
    shared: int = 0


def split_sets(
    first: Iterable[Record], second: Iterable[Record], *, training: int, attacked: int, seed: int
) -> SetSplit:
    """Remove duplicates, then draw `training` texts of each set to train on, and `attacked` others to attack.

    Two records are duplicates if their tokens are equal without regard to case. A text of both sets stays in one set,
    chosen at random, so that two equal sets remain at chance. Records of one `author` (a document, or any other origin
    of texts; compared in normal form), in either set, are all trained on or all attacked. ConfigError where a set has
    too few texts.
    """
    _validate.count(training=training, attacked=attacked)
    rng = np.random.default_rng(seed)
    (ones, n_ones), (others, n_others) = distinct_texts(first), distinct_texts(second)
    sides = (ones, others)
    duplicates = n_ones + n_others - len(ones) - len(others)
    shared = [key for key in ones if key in others]
    for key, side in zip(shared, rng.integers(0, 2, len(shared)).tolist(), strict=True):
        del sides[side][key]
    groups: dict[Hashable, list[tuple[int, Record]]] = {}
    for side, own in enumerate(sides):
        for key, record in own.items():
            group: Hashable = (side, key) if record.author is None else seen_form(record.author)
            groups.setdefault(group, []).append((side, record))
    learned: tuple[list[Record], list[Record]] = ([], [])
    tried: tuple[list[Record], list[Record]] = ([], [])
    together = list(groups.values())
    for i in rng.permutation(len(together)).tolist():
        lacking = any(len(tried[side]) < attacked for side, _ in together[i])
        for side, record in together[i]:
            (tried if lacking else learned)[side].append(record)
    if min(map(len, learned)) < training or min(map(len, tried)) < attacked:
        few = min(len(own) + len(other) for own, other in zip(learned, tried, strict=True))
        raise ConfigError(
            f"Expected training={training} + attacked={attacked} distinct texts of each set, none of whose authors (or "
            f"documents) is on both sides, found {min(map(len, learned))} to train on and {min(map(len, tried))} to "
            f"attack, of {few} in the smaller set: ask for fewer."
        )
    chosen, apart = (
        [tuple(own[i] for i in rng.permutation(len(own))[:n].tolist()) for own in both]
        for both, n in ((learned, training), (tried, attacked))
    )
    return SetSplit((chosen[0], chosen[1]), (apart[0], apart[1]), duplicates, len(shared))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextVectors:
    """Vectors like those of `embed_distinct`, computed at first request. Texts are held: drop this after an audit."""

    embedder: Embedder
    _rows: dict[str, Floats] = field(default_factory=dict)

    def at(self, texts: Sequence[str]) -> Floats:
        """The vectors of the texts, `(n_texts, dim)`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if missing:
            found = embed_distinct(missing, self.embedder).at(missing)
            self._rows.update(zip(missing, found, strict=True))
        return np.stack([self._rows[text] for text in texts]) if texts else np.zeros((0, self.embedder.dim))


#: A function from texts to scores `(n_texts,)`, above 0 for the first set; this threshold is fixed beforehand.
Attacker = Callable[[Sequence[str]], Floats]

TFIDF: Final = "TF-IDF, linear"
LINEAR: Final = "sentence encoder, linear"
MLP: Final = "sentence encoder, MLP"

#: Least probability that is used, so that scores stay finite.
_SMALLEST: Final = 1e-12


#: Trains an attacker on texts of both sets, booleans `(n_texts,)` that say which texts are of the first set, vectors of
#: all texts that the audit knows, and a seed.
TrainAttacker = Callable[[Sequence[str], Booleans, TextVectors, int], Attacker]


def standard_attackers() -> dict[str, TrainAttacker]:
    """Return the built-in attackers by name. None needs torch of its own."""
    return {TFIDF: train_tfidf_attacker, LINEAR: train_linear_attacker, MLP: train_mlp_attacker}


def train_tfidf_attacker(texts: Sequence[str], is_first: Booleans, _: TextVectors, seed: int, /) -> Attacker:
    """Train logistic regression on the TF-IDF of words, without regard to case.

    Pairs of words, or C = 0.3, made it worse on cancer sentences with 3,000 texts a set, at every level of redaction.
    """
    sklearn = load_sklearn()
    if not has_word(texts):  # nothing is learned
        return lambda found: np.zeros(len(found))
    counter = words_tfidf()
    model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    fit_quietly(model, counter.fit_transform(texts), is_first)
    return lambda found: np.asarray(model.decision_function(counter.transform(found)), np.float64)


def train_linear_attacker(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """Train logistic regression on standardised sentence vectors."""
    features = _standardised(vectors, texts)
    model = load_sklearn().linear_model.LogisticRegression(C=0.01, max_iter=300, random_state=seed)
    fit_quietly(model, features(texts), is_first)
    return lambda found: np.asarray(model.decision_function(features(found)), np.float64)


def train_mlp_attacker(texts: Sequence[str], is_first: Booleans, vectors: TextVectors, seed: int, /) -> Attacker:
    """Train a network with one hidden layer on standardised sentence vectors; scores are log odds.

    On cancer sentences (3,000 texts a set) its accuracy was .839 on originals and .679 with 70% of the words masked. A
    weight decay of 10 gave .834 and .665. `train_linear_attacker` had .842 and .674.
    """
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 (slow to load)

    features = _standardised(vectors, texts)
    model = MLPClassifier((64,), alpha=1.0, batch_size=min(64, len(texts)), max_iter=20, random_state=seed)
    fit_quietly(model, features(texts), is_first)
    return lambda found: np.diff(np.log(np.maximum(model.predict_proba(features(found)), _SMALLEST)))[:, 0]


def _standardised(vectors: TextVectors, texts: Sequence[str]) -> Callable[[Sequence[str]], Floats]:
    scaled = standardiser(vectors.at(texts), constant=LEAST_SPREAD)
    return lambda found: scaled(vectors.at(found))


#: Releases of the first set, and of the second.
SetReleases = tuple[Sequence[Release[str]], Sequence[Release[str]]]


def infer_trait(
    mechanism: Mechanism[str],
    split: SetSplit,
    *,
    seed: int = 0,
    randomness: Randomness | None = None,
    on_release: OnCount | None = None,
    **given: Any,
) -> TraitReport:
    """Release every text of a split, by `split_sets`, once, and tell the sets of the attacked texts apart.

    Only the released text is attacked. The randomness of the releases is `seeded(seed)` by default, because nothing is
    released to anybody. `on_release` is called with the number of texts released and the number in all. The other
    arguments and errors are those of `infer_trait_from_releases`; a mechanism that releases no text raises ConfigError,
    too.
    """
    released, taught = release_sets(mechanism, split, randomness=randomness or seeded(seed), on_progress=on_release)
    return infer_trait_from_releases(split, released=released, training_released=taught, seed=seed, **given)


def release_sets(
    mechanism: Mechanism[str], split: SetSplit, *, randomness: Randomness, on_progress: OnCount | None = None
) -> tuple[SetReleases, SetReleases]:
    """Release each attacked text and each training text once, by `authorship.release_split`."""
    both = AuthorSplit(_joined(split.training), _joined(split.attacked), 0)
    attacked, training = release_split(mechanism, both, randomness=randomness, on_progress=on_progress)
    m, n = len(split.attacked[0]), len(split.training[0])
    return (attacked[:m], attacked[m:]), (training[:n], training[n:])


def infer_trait_from_releases(
    split: SetSplit,
    *,
    released: SetReleases,
    training_released: SetReleases | None = None,
    embedder: Embedder,
    attackers: Mapping[str, TrainAttacker] | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    delta: float = 0.0,
    on_attacker: OnCount | None = None,
) -> TraitReport:
    """Tell which set releases come from, with controls, baselines and similarity.

    The split, by `split_sets` or by hand, has as many texts of either set, and no attacked text among the training
    texts. `released` has one release of each original, in order, all drawn independently by the same mechanism. Some
    attackers learn from `training_released`, and are left out without it. `attackers` maps names to trainers; the
    default is `standard_attackers()`. The embedder is public. `confidence` is of all intervals and of the bound on
    epsilon at `delta`. `on_attacker` is called with the number of attackers trained and the number in all. ConfigError
    for sets of unequal numbers, an attacked text among the training texts, releases of other records, no attackers,
    scores that cannot be used, an embedder without finite vectors, or a setting out of its range.
    """
    _check_split(split)
    for records, own in zip(split.attacked, released, strict=True):
        check_releases("released", records, own)
    known = standard_attackers() if attackers is None else attackers
    if not known:
        raise ConfigError("Expected at least one attacker: see standard_attackers.")
    taught = {"static": [record.text for record in _joined(split.training)]}
    if training_released is not None:
        for records, own in zip(split.training, training_released, strict=True):
            check_releases("training_released", records, own)
        taught["adaptive"] = _outputs(training_released)
        taught["both"] = taught["static"] + taught["adaptive"]
    originals, outputs = [record.text for record in _joined(split.attacked)], _outputs(released)
    vectors = TextVectors(embedder)
    learned, true = (np.repeat([True, False], len(side[0])) for side in (split.training, split.attacked))
    judge = SetJudge(true, np.random.default_rng(seed).permutation(true), seed, confidence, delta)
    close = mean_cosine(vectors.at(originals), vectors.at(outputs), seed=seed, confidence=confidence)

    def trainer(name: str, train: TrainAttacker) -> Callable[[Sequence[str]], Attacker]:
        def trained(texts: Sequence[str]) -> Attacker:
            attacker = train(texts, np.tile(learned, len(texts) // len(learned)), vectors, seed)
            return lambda found: _scores(name, attacker, found)

        return trained

    trainers = {name: trainer(name, train) for name, train in known.items()}
    scores, plain = scores_of(taught, trainers, outputs, originals, on_attacker)
    attacks = tuple(judge.row(name, found, close) for name, found in scores.items())
    best = max(attacks, key=lambda row: row.accuracy.value)
    same = mean_cosine(vectors.at(originals), vectors.at(originals), seed=seed, confidence=confidence)
    again = len(set(outputs) & set(taught["adaptive"])) if training_released is not None else 0
    signature: dict[str, Json] = {"attack": "trait", "training": len(split.training[0])}
    signature |= {"attacked": len(split.attacked[0]), "duplicates": split.duplicates, "shared": split.shared}
    signature |= {"adaptive": training_released is not None, "attackers": list(known), "embedder": embedder.name}
    signature |= {"seed": seed, "confidence": confidence, "delta": delta}
    notes = [NO_GUARANTEE, TWO_SETS, EMPTY_TEXTS]
    if split.shared:
        notes.append(f"{split.shared:,} texts that both sets had were left in one of them, by the flip of a coin.")
    if again:
        notes.append(f"{again:,} different outputs occur in training and under attack, though their originals differ.")
    return TraitReport(
        attacks=attacks,
        controls=tuple(
            judge.row(f"control: {name}, sets permuted", s, close, control=True) for name, s in scores.items()
        ),
        baselines=(*(judge.row(name, found, same) for name, found in plain.items()), judge.majority(close)),
        best=best.name,
        bound=judge.bound(judge.hits(scores[best.name]), tests=len(attacks)),
        ceiling=judge.bound(len(true), tests=len(attacks)).epsilon,
        training_texts=len(split.training[0]),
        attacked_texts=len(split.attacked[0]),
        embedder=embedder.name,
        notes=tuple(notes),
        signature=signature,
    )


def _scores(name: str, attacker: Attacker, texts: Sequence[str]) -> Floats:
    found = check_scores(name, attacker(texts))
    if len(found) != len(texts):
        raise ConfigError(f"Expected a score for each of {len(texts)} texts by {name}, found {len(found)}.")
    return found


def _joined(sides: tuple[Sequence[Record], Sequence[Record]]) -> tuple[Record, ...]:
    return (*sides[0], *sides[1])


def _outputs(sides: SetReleases) -> list[str]:
    return [release.output for side in sides for release in side]


def _check_split(split: SetSplit) -> None:
    for name, sides in (("training", split.training), ("attacked", split.attacked)):
        if len(sides[0]) != len(sides[1]) or len(sides[0]) < 2:
            raise ConfigError(
                f"Expected as many {name} texts of each set, at least 2, found {len(sides[0])} and {len(sides[1])}: "
                "see split_sets."
            )
    if leaked := shared_texts(_joined(split.training), _joined(split.attacked)):
        raise ConfigError(
            f"Expected no attacked text among the training texts, found {leaked}: the attacker would know them. "
            "Remove them, or see split_sets."
        )
