"""Similarity of a corpus to another, if no text has an original of its own.

Means, clouds and shares are compared, never pairs of texts. Clouds are compared with real texts that the corpus was not
made from, equally many on each side. The row *original*, the private texts themselves, shows the numbers of two samples
of one source.

`pool_fit` measures how well public texts fit private ones, judged by stand-ins that need no protection: texts like the
private ones that are public or already released, so that reading them costs no budget. A mechanism that replaces a text
by a public text can come no nearer than the nearest public text.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from dptext import _validate
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.tfidf import fit_quietly, load_sklearn
from dptext.errors import ConfigError
from dptext.estimates import Estimate, clopper_pearson
from dptext.sampling.bootstrap import bootstrap, bootstrap_mean
from dptext.sampling.randomness import seeded
from dptext.text.reading import as_records
from dptext.text.records import Record
from dptext.text.tables import Texts
from dptext.types import Floats, Json, Singles, fields_as_json
from dptext.utility.balance import observed_balance

_MOST = 2_000  # the largest number of texts in a cloud
_TOPICS = 64
_NEIGHBOURS = 3  # as in Kynkaanniemi et al. 2019


def frechet_distance(one: Floats, other: Floats) -> float:
    """|m - n|^2 + trace(A + B - 2 (AB)^(1/2)) of means and covariances of vectors `(n, dim)` (Heusel et al. 2017).

    The distance is 0 for equal Gaussians, and grows as samples shrink: compare samples of one size. ConfigError: under
    two rows.
    """
    _same_space(one, other)
    apart = np.square(one.mean(axis=0) - other.mean(axis=0)).sum()
    first, second = (np.atleast_2d(np.cov(rows.T)) for rows in (one, other))
    values, axes = np.linalg.eigh(first)
    root = axes * np.sqrt(np.maximum(values, 0)) @ axes.T
    both = np.linalg.eigvalsh(root @ second @ root)
    return max(0.0, float(apart + np.trace(first) + np.trace(second) - 2 * np.sqrt(np.maximum(both, 0)).sum()))


def covered(points: Floats, cloud: Floats) -> Estimate:
    """Return the share of points `(n, dim)` within the cloud `(m, dim)`, with an interval for this fixed cloud.

    A point is within the cloud if it is as near to some point of the cloud as that point's third neighbour there. Real
    points as the cloud give precision, synthetic points as the cloud give recall (Kynkaanniemi et al. 2019).
    ConfigError: a cloud of under four.
    """
    _same_space(points, cloud)
    if len(cloud) <= _NEIGHBOURS:
        raise ConfigError(f"Expected a cloud of at least {_NEIGHBOURS + 1} points, found {len(cloud)}.")
    radii = np.partition(_squares(cloud, cloud), _NEIGHBOURS, axis=1)[:, _NEIGHBOURS]  # of 0 to itself, and three more
    inside = (_squares(points, cloud) <= radii + 1e-12).any(axis=1)
    return clopper_pearson(int(inside.sum()), len(points), confidence=0.95)


def told_apart(one: Floats, other: Floats, *, seed: int = 0) -> Estimate:
    """Return the AUC of a linear classifier between two sets of vectors `(n, dim)`: 0.5 if it cannot tell them apart.

    The classifier learns from half of the vectors. A vector that occurs twice, in either set, is in one half. The
    interval is by bootstrap over the other half. ConfigError: a half lacks a set.
    """
    _same_space(one, other)
    rows, side = np.concatenate([one, other]), np.repeat([1, 0], [len(one), len(other)])
    _, place = np.unique(rows, axis=0, return_inverse=True)
    learns = np.random.default_rng(seed).permutation(place.max() + 1)[place.ravel()] % 2 == 0
    if min(len(set(side[learns])), len(set(side[~learns]))) < 2:
        raise ConfigError("Expected more distinct texts: half of them must hold texts of both corpora.")
    model = load_sklearn().linear_model.LogisticRegression(C=1.0, max_iter=300, random_state=seed)
    fit_quietly(model, rows[learns], side[learns])
    scores = np.stack([model.decision_function(rows[~learns]), side[~learns]], axis=1)
    return bootstrap(scores, area, source=seeded(seed), bounds=(0.0, 1.0), resamples=200)


def area(scores: Floats) -> float:
    """Return the AUC of scores in the first column, of rows with 1 in the second against those with 0; .5 without."""
    yes, no = scores[scores[:, 1] == 1, 0], np.sort(scores[scores[:, 1] == 0, 0])
    if not len(yes) or not len(no):
        return 0.5
    below = np.searchsorted(no, yes, "left") + np.searchsorted(no, yes, "right")
    return float(below.mean() / 2 / len(no))


def topic_distance(one: Floats, other: Floats, pool: Floats, *, seed: int = 0) -> float:
    """Total variation of the shares of 64 topics, clusters of public vectors; a pool of under 640 has fewer."""
    _same_space(one, other)
    topics = min(_TOPICS, max(2, len(pool) // 10))
    from sklearn.cluster import KMeans  # noqa: PLC0415 (slow to load)

    model = KMeans(topics, n_init=1, random_state=seed).fit(pool)
    shares = [np.bincount(model.predict(rows), minlength=topics) / len(rows) for rows in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _squares(one: Floats, other: Floats) -> Floats:
    found = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2 * one @ other.T
    return np.asarray(np.maximum(found, 0))


def _same_space(one: Floats, other: Floats) -> None:
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1] or min(len(one), len(other)) < 2:
        raise ConfigError(f"Expected two sets (n, dim) of at least two vectors, found {one.shape} and {other.shape}.")


@dataclass(frozen=True, slots=True)
class CorpusKept:
    """Similarity of a corpus to a private corpus.

    Attributes:
        frechet: Frechet distance of embeddings to real texts; less is better.
        precision: share of the corpus' texts that lie among the real texts.
        recall: share of the real texts that lie among the corpus' texts.
        told_apart: AUC of a classifier between the corpus and real texts; 0.5 is perfect. None if too few texts differ.
        topics_tv: total variation between the topics of the corpus and of the private texts.
        mix_l1: L1 distance between the label shares of the corpus and of the private texts; None without labels.
        own_label: share of the corpus' public texts that have their own public label; None where none is known.
    """

    frechet: float
    precision: Estimate
    recall: Estimate
    told_apart: Estimate | None
    topics_tv: float
    mix_l1: float | None
    own_label: float | None

    def cells(self) -> Iterator[tuple[str, Estimate | float]]:
        """Yield the names and the known numbers."""
        for each in fields(self):
            value: Estimate | float | None = getattr(self, each.name)
            if value is not None:
                yield each.name, value

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data."""
        return fields_as_json(self)


def corpus_kept(
    texts: Sequence[str],
    given: Sequence[str | None],
    *,
    private: Sequence[Record],
    real: Sequence[Record],
    pool: Sequence[Record],
    labels: Sequence[str] = (),
    embedder: Embedder,
    seed: int = 0,
) -> CorpusKept:
    """Measure how much of the private records a corpus keeps.

    `texts` are the corpus, `given` their labels, or None. The corpus was made from the `private` records, which are
    used for shares of labels and topics. Clouds are compared with `real` records of the same source that the corpus was
    not made from. The `pool` of public records gives the topics and the public labels of public texts. Without the
    public set of `labels` no labels are compared. The embedder is public. `seed` is of all draws: classifier, clusters
    and intervals. ConfigError: too few texts.
    """
    _validate.count(texts=len(texts), pool=len(pool))
    sides = [list(texts), *([record.text for record in part] for part in (private, real, pool))]
    space = embed_distinct((text for side in sides for text in side), embedder)
    rng = np.random.default_rng(seed)
    most = min(_MOST, len(real), len(texts))
    own, other = (space.at([side[i] for i in rng.permutation(len(side))[:most]]) for side in (sides[0], sides[2]))
    public = {record.text: record.label for record in pool if record.label is not None}
    known = [public[text] == label for text, label in zip(texts, given, strict=True) if label and text in public]
    shares = [observed_balance(side, labels) for side in (given, [record.label for record in private])
              if labels and any(label in labels for label in side)]  # fmt: skip
    try:
        apart = told_apart(own, other, seed=seed)
    except ConfigError:  # for example one text many times
        apart = None
    topics = topic_distance(*(space.at(side) for side in (sides[0], sides[1], sides[3])), seed=seed)
    mix = float(np.abs(shares[0] - shares[1]).sum()) if len(shares) == 2 else None
    kept = float(np.mean(known)) if known else None
    return CorpusKept(frechet_distance(own, other), covered(own, other), covered(other, own), apart, topics, mix, kept)


#: Below this part of the expected share, the texts are of another domain. Measured with 50 to 3,000 texts: .72 to 1.14
#: of the expected share within a corpus, up to .35 across corpora.
NEARER: Final = 0.5
ENOUGH: Final = 100  # stand-ins: fewer may be far from each other by chance
_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class PoolFit:
    """Nearness of stand-ins to public texts, and to each other.

    `nearest` is the mean over the stand-ins of the largest cosine to a public text, bootstrap at 95%; `among` is the
    same mean for the largest cosine to another stand-in. `nearer` is the share of the stand-ins that have a public text
    at least as near as another stand-in. `stand_ins` counts distinct stand-ins that are no public texts, `public`
    distinct public texts. `missing` are labels of stand-ins that no public text has, most frequent first.
    """

    nearest: Estimate
    among: Estimate
    nearer: float
    stand_ins: int
    public: int
    missing: tuple[str, ...] = ()

    @property
    def expected(self) -> float:
        """The mean of `nearer` if public texts and stand-ins come from one source: m / (m + n - 1)."""
        return self.public / (self.public + self.stand_ins - 1)

    @property
    def fits(self) -> bool:
        """Return whether stand-ins lie among the public texts, by a rule of thumb, and those have all their labels."""
        return self.nearer >= NEARER * self.expected and not self.missing

    def to_dict(self) -> dict[str, Json]:
        """Return the numbers as JSON-able data."""
        return {**fields_as_json(self), "expected": self.expected, "fits": self.fits}

    def sentences(self) -> list[str]:
        """Return the numbers in plain words, the answer first."""
        said = [
            f"The public texts {'fit' if self.fits else 'do not fit'} the stand-ins.",
            f"{self.nearer:.0%} of {self.stand_ins:,} stand-ins have a public text as near as another stand-in.",
            f"Of texts from one source {self.expected:.0%} would.",
            f"Mean cosine to the nearest public text {self.nearest.value:.3f}: none in its place comes nearer.",
            f"Mean cosine to the nearest other stand-in {self.among.value:.3f}.",
        ]
        if self.missing:
            said.append(f"No public text has the labels {', '.join(map(repr, self.missing))}, which stand-ins have.")
        if self.stand_ins < ENOUGH:
            said.append(f"{self.stand_ins} stand-ins say little: give {ENOUGH} or more.")
        if not self.fits:
            said.append("Another domain costs as much as half of epsilon or more: look for texts like the private.")
        return said


def pool_fit(public: Texts, stand_ins: Texts, *, embedder: Embedder | None = None, seed: int = 0) -> PoolFit:
    """Measure how well public texts fit texts that look like the private ones.

    A mechanism chooses among the public texts or learns from them. The stand-ins are texts like the private ones that
    need no protection; if both sides have labels, the labels are compared. `embedder`, for the cosines, is public,
    all-MiniLM-L6-v2 by default. `seed` is of the bootstrap. ConfigError: no public text, or fewer than two stand-ins
    that differ from the public texts and from each other. MissingExtraError: the default embedder is not installed.
    """
    known, given = as_records(public), as_records(stand_ins)
    texts = dict.fromkeys(record.text for record in known)
    others = [text for text in dict.fromkeys(record.text for record in given) if text not in texts]
    if not texts or len(others) < 2:
        raise ConfigError(
            "Expected a public text, and two different stand-ins that are no public texts, found "
            f"{len(texts)} and {len(others)}."
        )
    space = embed_distinct([*texts, *others], embedder or load_encoder(), single=True)
    pool, vectors = space.at(texts), space.at(others)
    nearest, among = _nearest(vectors, pool, own=False), _nearest(vectors, vectors, own=True)
    labels = {record.label for record in known} - {None}
    missing = Counter(record.label for record in given if labels and record.label not in labels)
    lacking = tuple(label for label, _ in missing.most_common() if label is not None)
    near, each_other = (bootstrap_mean(values, seed=seed, bounds=(-1.0, 1.0)) for values in (nearest, among))
    return PoolFit(near, each_other, float((nearest >= among).mean()), len(others), len(texts), lacking)


def _nearest(vectors: Floats | Singles, pool: Floats | Singles, *, own: bool) -> Floats:
    found = np.empty(len(vectors))
    for start in range(0, len(vectors), _ROWS):
        cosines = vectors[start : start + _ROWS] @ pool.T
        if own:
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -1
        found[start : start + _ROWS] = cosines.max(axis=1)
    return found
