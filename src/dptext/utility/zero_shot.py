"""Public texts labelled by the names of the labels: the strongest corpus that reads nothing private."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dptext.embeddings.embedder import Embedder
from dptext.embeddings.tfidf import load_sklearn, words_tfidf
from dptext.text.records import Record

_SPREAD = 0.03  # of likenesses, so that they are scores
_FEWEST = 10
_UNSEEN = -3.0  # margin of a label that no text was given


def learnt(texts: Sequence[str], labels: Sequence[str]) -> tuple[Any, Any]:
    """TF-IDF of words, and a linear classifier of it; MissingExtraError without scikit-learn."""
    load_sklearn()
    from sklearn.svm import LinearSVC  # noqa: PLC0415 (an extra)

    counter, model = words_tfidf(), LinearSVC(C=0.5)
    model.fit(counter.fit_transform(texts), labels)
    return counter, model


def zero_shot(
    texts: Sequence[str], names: Mapping[str, str], embedder: Embedder, *, rounds: int = 2
) -> tuple[list[str], list[str]]:
    """Texts and their labels, by the likeness of texts to the names of the labels.

    With rounds, then again by a classifier of its own surest texts (self-training), and the surest two thirds are left.
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
    """`zero_shot` without rounds or with two, whichever teaches more by the test itself: the harder to beat."""
    drafts = [zero_shot(texts, names, embedder, rounds=rounds) for rounds in (0, 2)]

    def right(draft: tuple[list[str], list[str]]) -> float:
        if len(set(draft[1])) < 2:
            return 0.0
        counter, model = learnt(*draft)
        found = model.predict(counter.transform([record.text for record in test]))
        return float(np.mean(found == np.array([record.label for record in test], object)))

    return max(drafts, key=right)
