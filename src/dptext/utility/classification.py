"""Classifiers that are trained on private outputs and tested on real texts; zero-shot labels of public texts.

A high accuracy says little by itself: outputs that are unrelated to their originals can train a good classifier. So
`dptext.utility.tables` shows the accuracy only beside `dptext.utility.fidelity`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from dptext.doors import Door
from dptext.embeddings.embedder import Embedder
from dptext.embeddings.tfidf import has_word, words_tfidf
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.sampling.bootstrap import bootstrap_f1, mean_f1
from dptext.sampling.randomness import seeded
from dptext.text.formats import spelled
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.tables import Texts
from dptext.types import Floats, Integers, Json, fields_as_json
from dptext.utility.terms import CountedTerms, TermsModel

_CONFIDENCE = 0.95


class Classifier(Protocol):
    """A classifier that gives each text a probability of each label."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training, in the order of the columns of scores. There may be none."""

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Return probabilities `(n_texts, n_labels)`; rows sum to 1."""


class Trainer(Protocol):
    """A function that trains a classifier on texts and as many labels."""

    def __call__(self, texts: Sequence[str], labels: Sequence[str], *, seed: int) -> Classifier:
        """Train a classifier; a constant classifier if there is a single label, or none."""


#: The quick linear classifier, and those of packages, such as the BiLSTM of the ADePT paper.
CLASSIFIERS: Final[Door[Trainer]] = Door(
    "dptext.classifiers", {"tfidf": "dptext.utility.classification:train_tfidf"}, what="classifier"
)


def train_named(name: str) -> Trainer:
    """Return the trainer of a name in `CLASSIFIERS`.

    ConfigError: the name is unknown, or its package is unusable. MissingExtraError: it needs an extra that is absent.
    """
    return CLASSIFIERS.named(name, f"the classifier {name!r}")


@dataclass(frozen=True, slots=True, eq=False)
class TfidfClassifier:
    """Multinomial logistic regression on TF-IDF of words and pairs of words; made by `train_tfidf`.

    `prior` `(n_labels,)` is the share of each label in the training, and the answer for every text if nothing could be
    learned.
    """

    labels: tuple[str, ...]
    prior: Floats = field(repr=False)
    _predict: Callable[[Sequence[str]], Floats] | None = field(default=None, repr=False)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Return probabilities `(n_texts, n_labels)`."""
        if self._predict is None or not texts:
            return np.tile(self.prior, (len(texts), 1))
        return self._predict(texts)


def train_tfidf(
    texts: Sequence[str], labels: Sequence[object], *, seed: int = 0, terms: CountedTerms | None = None
) -> TfidfClassifier:
    """Train a linear classifier. Its fit is convex, so another seed gives the same classifier up to rounding.

    `terms` are those of the texts, and of others, if several classifiers learn from them or are asked for them. The
    classifier is constant where the texts have a single label or none, or hold no word. ConfigError: not one label
    a text.
    """
    given = [str(spelled(each)) for each in labels]  # numbers of frames, as records have them
    if len(texts) != len(given):
        raise ConfigError(f"Expected one label for each of {len(texts)} texts, found {len(given)}.")
    known = tuple(sorted(set(given)))
    position = {label: i for i, label in enumerate(known)}
    codes = np.array([position[label] for label in given], np.int64)
    prior = np.bincount(codes, minlength=len(known)) / max(1, len(given))
    if len(known) < 2 or not has_word(texts):
        return TfidfClassifier(known, prior)
    model = TermsModel(CountedTerms(texts) if terms is None else terms, texts, codes, seed)
    return TfidfClassifier(known, prior, model.probabilities)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of a classifier on real texts.

    `accuracy` is the share of the texts whose label has the largest probability, the first of equals; Clopper-Pearson.
    `macro_f1` is the mean of F1 = 2 TP / (2 TP + FP + FN) over the labels that some text has or was given; bootstrap
    over texts. A resample may lack a rare label, and then its mean does, too.
    """

    accuracy: Estimate
    macro_f1: Estimate
    texts: int
    unlearned: int = 0  #: number of texts whose label was in no training text, so that the classifier must be wrong

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data."""
        return fields_as_json(self)


def evaluate(classifier: Classifier, test: Texts, *, seed: int = 0) -> Accuracy:
    """Measure accuracy and macro-F1 with intervals at 95%, on the records with a label. `seed` is of the bootstrap.

    A classifier without labels is wrong on every text. ConfigError: no record has a label.
    """
    known = [(record.text, record.label) for record in as_records(test) if record.label is not None]
    if not known:
        raise ConfigError("Expected test records with labels.")
    texts, truth = zip(*known, strict=True)
    names = sorted({*truth, *classifier.labels})
    position = {name: i for i, name in enumerate(names)}
    true = np.array([position[name] for name in truth], np.int64)
    given = np.full(len(true), len(names), np.int64)  # the code of no label
    if classifier.labels:
        columns = np.array([position[name] for name in classifier.labels], np.int64)
        given = columns[np.argmax(classifier.probabilities(list(texts)), axis=1)]

    unlearned = sum(label not in classifier.labels for label in truth)
    right = clopper_pearson(int((true == given).sum()), len(true), confidence=_CONFIDENCE)
    f1_interval = bootstrap_f1(true, given, len(names), source=seeded(seed), confidence=_CONFIDENCE)
    return Accuracy(right, f1_interval, len(true), unlearned)


def macro_f1(true: Integers, given: Integers, n_labels: int) -> float:
    """The mean F1 over the labels that occur in `true` or `given`, `(n,)` each. The code `n_labels` is no label."""
    return float(mean_f1(true[None], given[None], n_labels)[0])


_SPREAD = 0.03  # likenesses are divided by this to become scores
_FEWEST = 10
_UNSEEN = -3.0  # margin of a label that no text got


def learnt(texts: Sequence[str], labels: Sequence[str]) -> tuple[Any, Any]:
    """Fit TF-IDF of words, and a linear classifier of it."""
    from sklearn.svm import LinearSVC  # noqa: PLC0415 (slow to load)

    counter, model = words_tfidf(), LinearSVC(C=0.5)
    model.fit(counter.fit_transform(texts), labels)
    return counter, model


def zero_shot(
    texts: Sequence[str], names: Mapping[str, str], embedder: Embedder, *, rounds: int = 2
) -> tuple[list[str], list[str]]:
    """Label texts by the likeness of texts to the names of the labels; return the kept texts and their labels.

    If `rounds` is above 0, a classifier is trained that many times on the surest texts (self-training), and the surest
    two thirds are kept.
    """
    labels = list(names)
    likeness = embedder.embed(texts) @ embedder.embed(list(names.values())).T
    scores = (likeness - likeness.mean(axis=0)) / _SPREAD
    for step in range(rounds + 1):
        best = scores.argmax(axis=1)
        if not rounds:
            return list(texts), [labels[i] for i in best]
        sure = scores.max(axis=1) - np.sort(scores, axis=1)[:, -2]
        most = max(_FEWEST, 2 * len(texts) // (3 * len(labels)))
        each = (np.flatnonzero(best == c) for c in range(len(labels)))
        kept = np.concatenate([rows[np.argsort(-sure[rows])[:most]] for rows in each])
        if step == rounds or len({*best[kept].tolist()}) < 2:
            break
        counter, model = learnt([texts[i] for i in kept], [labels[i] for i in best[kept]])
        margins = model.decision_function(counter.transform(texts))
        if margins.ndim == 1:
            margins = np.stack([-margins, margins], axis=1)
        scores = np.full((len(texts), len(labels)), _UNSEEN)
        scores[:, [labels.index(name) for name in model.classes_]] = margins
    return [texts[i] for i in kept], [labels[i] for i in best[kept]]


def best_zero_shot(
    texts: Sequence[str], names: Mapping[str, str], embedder: Embedder, test: Sequence[Record]
) -> tuple[list[str], list[str]]:
    """`zero_shot` without rounds or with two, whichever trains better by the test itself: the stronger baseline."""
    drafts = [zero_shot(texts, names, embedder, rounds=rounds) for rounds in (0, 2)]

    def right(draft: tuple[list[str], list[str]]) -> float:
        if len(set(draft[1])) < 2:
            return 0.0
        counter, model = learnt(*draft)
        found = model.predict(counter.transform([record.text for record in test]))
        return float(np.mean(found == np.array([record.label for record in test], object)))

    return max(drafts, key=right)
