"""Utility as a table that always has its baselines. Accuracy is shown beside fidelity, or not at all.

Every table must have the rows that `baselines` makes:

* `original`: the private records as they are;
* `public-only`: public records drawn at random, so no private data at all;
* `random`: random labels, random words.

If there are labels the table must also have the results of simple mechanisms at the same epsilon: `label_only (random)`
and `label_only (medoid)`, which spend the whole budget on the label, and `candidates`, the public text most like the
private text.

The row `limit` is a measurement and no way to release anything: the largest mean cosine of any mechanism that replaces
each record by one of the public texts at this epsilon and delta 0, solved on the originals themselves (derivations,
"Best envelope").
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dptext._wording import html_table, markdown_table, plural
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.embeddings.encoders import load_encoder
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.envelope import Limit, limit
from dptext.text.reading import as_records
from dptext.text.records import Record, Release
from dptext.text.tables import Texts
from dptext.text.tokens import tokenize
from dptext.types import Json, fields_as_json
from dptext.utility.classification import Accuracy, Trainer, evaluate, train_named
from dptext.utility.fidelity import Fidelity, check_pairs, fidelity

ORIGINAL = "original"
PUBLIC_ONLY = "public-only"
RANDOM = "random"
LABEL_ONLY_ROWS = ("label_only (random)", "label_only (medoid)")
CANDIDATES = "candidates"
LIMIT = "limit"

_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class UtilityRow:
    """One way to release the same private records.

    `accuracy` is of a classifier that is trained on the outputs and their labels, on real test records; None if the
    outputs or the test records have no labels.
    """

    name: str
    accuracy: Accuracy | None
    fidelity: Fidelity

    def cells(self) -> dict[str, Estimate | float | None]:
        """Return the numbers of the row by column heading."""
        found, kept = self.accuracy, self.fidelity
        own = {"label kept": kept.label_kept, "cosine": kept.cosine, f"own first of {kept.candidates}": kept.own_first}
        right, f1 = (None, None) if found is None else (found.accuracy, found.macro_f1)
        learned = {"accuracy": right, "macro-F1": f1}
        words = {"distinct texts": kept.distinct_texts, "distinct-1": kept.distinct_1, "distinct-2": kept.distinct_2}
        return {**own, "tokens kept": kept.tokens_kept, **learned, **words, "repetition": kept.repetition}


@dataclass(frozen=True, slots=True)
class UtilityTable:
    """Rows of one table, baselines included, with the settings behind the numbers.

    `rows` has a row for each way to release the records. `private` and `test` are the numbers of private and of test
    records. `seed` is of candidates, bootstrap and training. `limit` is the limit of the mean cosine by a choice among
    public texts; None if no epsilon or no public texts are known.
    """

    rows: tuple[UtilityRow, ...]
    classifier: str
    embedder: str
    private: int
    test: int
    seed: int
    limit: Limit | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the table as JSON-able data."""
        return {
            "settings": {name: getattr(self, name) for name in ("classifier", "embedder", "private", "test", "seed")},
            LIMIT: None if self.limit is None else fields_as_json(self.limit),
            "rows": {
                row.name: {
                    "classification": None if row.accuracy is None else row.accuracy.to_dict(),
                    "fidelity": row.fidelity.to_dict(),
                }
                for row in self.rows
            },
        }

    def _repr_html_(self) -> str:
        lines = [[row.name, *map(_shown, row.cells().values())] for row in self.rows]
        return html_table(["row", *self.rows[0].cells()], lines, "Intervals at 95%. These numbers are not private.")

    def to_markdown(self) -> str:
        """Return the table in Markdown, below a line with its settings; intervals at 95%."""
        head = ["row", *self.rows[0].cells()]
        lines = [[row.name.replace("|", "\\|"), *map(_shown, row.cells().values())] for row in self.rows]
        if self.limit is not None:
            lines.append([LIMIT, *(shown_limit(self.limit) if name == "cosine" else _NOTHING for name in head[1:])])
        return (
            f"{plural(self.private, 'private record')}, {plural(self.test, 'test record')}; classifier "
            f"{self.classifier}; cosines by {self.embedder}; seed {self.seed}; intervals at 95%.\n\n"
            + "\n".join(markdown_table(head, lines))
            + "\n"
        )


def shown_limit(found: Limit) -> str:
    """Format the limit of a mean cosine."""
    return f"{found.value:.3f}, below {math.ceil(found.bound * 1000) / 1000:.3f}"


def _shown(value: Estimate | float | None) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, Estimate):
        return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"
    return f"{value:.3f}"


def utility_table(
    rows: Mapping[str, Iterable[Release[str]]],
    *,
    private: Texts,
    test: Texts,
    embedder: Embedder | None = None,
    classifier: str | Trainer = "tfidf",
    seed: int = 0,
    pool: Sequence[str] = (),
    epsilon: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> UtilityTable:
    """Build the table: for each row the accuracy of a classifier that learned from its outputs, and their fidelity.

    `rows` maps names to releases of the private records, in their order. `private` are the private records; `test` are
    other real records, neither public nor private, to measure accuracy on; both may be anything that `as_records`
    accepts. `embedder`, for the cosines, is public, all-MiniLM-L6-v2 by default. `classifier` is a name, or a trainer.
    `seed` is of candidates, bootstrap and training. The `pool` of public texts and the `epsilon` of a record are for
    the limit, which needs both. `on_progress` gets the number of rows done, and that of all.
    ConfigError: a baseline is missing, or releases do not match the private records.
    MissingExtraError: the package of the classifier, or of the default embedder, is absent.
    """
    private, test = as_records(private), as_records(test)
    released = {name: list(releases) for name, releases in rows.items()}
    if lacking := [name for name in required_rows(private) if name not in rows]:
        found = ", ".join(rows)
        raise ConfigError(f"Expected a row {lacking[0]!r}: no utility is shown without baselines, found {found}.")
    for releases in released.values():
        check_pairs(private, releases)
    train = train_named(classifier) if isinstance(classifier, str) else classifier
    written = (release.output for releases in released.values() for release in releases)
    embedder = embedder or load_encoder()
    texts = [record.text for record in private]
    embedded = embed_distinct([*texts, *written, *(pool if epsilon else ())], embedder, single=True)

    def row(name: str, releases: Sequence[Release[str]]) -> UtilityRow:
        kept = fidelity(private, releases, embedder=embedder, embedded=embedded, seed=seed)
        return UtilityRow(name, _accuracy(releases, test, train, seed), kept)

    learner = classifier if isinstance(classifier, str) else getattr(classifier, "__name__", type(classifier).__name__)
    most = limit(embedded.at(texts) @ embedded.at(pool).T, epsilon=epsilon) if pool and epsilon else None
    made: list[UtilityRow] = []
    for name, releases in released.items():
        if on_progress is not None:
            on_progress(len(made), len(released))
        made.append(row(name, releases))
    return UtilityTable(tuple(made), learner, embedder.name, len(private), len(test), seed, most)


def required_rows(private: Sequence[Record]) -> tuple[str, ...]:
    """Return the names of the rows that a table of these records must have."""
    labelled = any(record.label is not None for record in private)
    return (ORIGINAL, PUBLIC_ONLY, RANDOM, *((*LABEL_ONLY_ROWS, CANDIDATES) if labelled else ()))


def _accuracy(releases: Sequence[Release[str]], test: Sequence[Record], train: Trainer, seed: int) -> Accuracy | None:
    known = [(release.output, release.label) for release in releases if release.label is not None]
    if not known or all(record.label is None for record in test):
        return None
    texts, labels = zip(*known, strict=True)
    return evaluate(train(list(texts), list(labels), seed=seed), test, seed=seed)


def baselines(
    private: Sequence[Record], public: Sequence[Record], *, labels: Sequence[str], seed: int = 0
) -> dict[str, list[Release[str]]]:
    """Return the rows that need no mechanism, each with one release a private record.

    `original` is the record itself, with its label. `public-only` is a public record with its label, drawn uniformly
    and independently by the seed. `random` has a uniform label of the public set, if there are labels, and as many
    words as a uniformly drawn public record has tokens. Each of its words is drawn uniformly from the distinct tokens
    of the public texts. The last two rows read nothing private. ConfigError: no public record, or none with a token.
    """
    tokens = [[token for line in tokenize(record.text) for token in line] for record in public]
    vocabulary = sorted({token for found in tokens for token in found})
    if not vocabulary:
        raise ConfigError("Expected public records with text: outputs are drawn from them.")
    rng = np.random.default_rng(seed)
    n = len(private)
    drawn = [public[i] for i in rng.integers(len(public), size=n)]
    sizes = [len(tokens[i]) for i in rng.integers(len(public), size=n)]
    words = iter(rng.integers(len(vocabulary), size=sum(sizes)).tolist())
    made = [" ".join(vocabulary[next(words)] for _ in range(size)) for size in sizes]
    given = [labels[i] for i in rng.integers(len(labels), size=n)] if labels else [None] * n
    rows = {
        ORIGINAL: [(record.text, record.label) for record in private],
        PUBLIC_ONLY: [(other.text, other.label) for other in drawn],
        RANDOM: list(zip(made, given, strict=True)),
    }
    return {
        name: [Release(record.id, *said, record.kept) for record, said in zip(private, row, strict=True)]
        for name, row in rows.items()
    }
