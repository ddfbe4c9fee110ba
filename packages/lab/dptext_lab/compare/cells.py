"""A cell of the grid (one row of one corpus in one trial), its numbers, its signature over all inputs, and its fit.

Cells share fits: a training that does not read epsilon is made once, and public texts are embedded once. A fit follows
from its records, its seed and the settings that it reads. `fit_key` is made of these, so that cells of one key get the
same mechanism whether they share a training or not. Shared fits are made from public text only: a cell that trains on
private text has a fit of its own, and nothing of the fit is kept. `Lens` holds the embedder of the measures.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Final, Self

from dptext.embeddings.embedder import RememberingEmbedder
from dptext.embeddings.encoders import PublicVectors, WordMean, load_encoder
from dptext.embeddings.vector_files import load_vectors
from dptext.estimates import Estimate
from dptext.mechanism import Answers, Learns, Mechanism, Refits, Spec, settings
from dptext.registry import answers
from dptext.runs.specs import spec_from_settings
from dptext.text.files import sha256_of
from dptext.text.inputs import telling
from dptext.text.records import Record
from dptext.types import Json
from dptext_lab.compare.corpora import SplitCorpus
from dptext_lab.compare.experiment import EMBEDDERS, Experiment

_SCHEMA: Final = 1
_LONGEST_PATH: Final = 1000
_MOST_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of one corpus in one trial, from 0. `row` is the displayed name.

    `settings` are those of the spec, with `kind`; for references without a spec, settings and the unit of the stated
    guarantee are empty. `trains_on` is "public" or "private". `fault` is the reason why the cell cannot be run, empty
    if it can.
    """

    corpus: str
    row: str
    settings: Mapping[str, Json]
    trial: int
    unit: str = ""
    delta: float = 0.0
    trains_on: str = "public"
    fault: str = ""

    @property
    def kind(self) -> str:
        """The kind of the mechanism; empty without a mechanism."""
        return str(self.settings.get("kind", ""))

    @property
    def answers(self) -> Answers | None:
        """The subject of the mechanism's answers, each text or the corpus; None without a mechanism."""
        return answers(self.kind)

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data, for `Cell(**data)`."""
        return asdict(self)


def signature(cell: Cell, experiment: Experiment, corpus: Json) -> str:
    """sha256 over every input of a cell's numbers: version, settings, the files that they name, and records."""
    made: dict[str, Json] = {"schema": _SCHEMA, "version": version("dptext"), "records": corpus}
    made |= {"seed": experiment.seed, "randomness": "seeded" if experiment.seeded else "secure"}
    made |= {"measures": experiment.measures(), "cell": cell.to_dict()}
    if files := _named_files([cell.to_dict(), experiment.settings.embedder]):
        made["files"] = files
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def _named_files(data: Json) -> dict[str, Json]:
    """Return sha256 of every file that a value names, and of the files in a named folder, such as a saved model."""
    if isinstance(data, dict | list):
        values = data.values() if isinstance(data, dict) else data
        return {name: digest for value in values for name, digest in _named_files(value).items()}
    if not isinstance(data, str) or not data or len(data) > _LONGEST_PATH or "\0" in data:
        return {}
    path = Path(data)
    inside = itertools.islice(path.rglob("*"), _MOST_FILES + 1) if path.is_dir() else ()
    found = [path] if path.is_file() else [*inside]
    if len(found) > _MOST_FILES:
        return {}  # too many files for a model or vectors: a setting has the name of this folder by chance
    digests: dict[str, Json] = {}
    for file in found:
        if file.is_file():
            with telling(file, "read"):
                digests[str(file)] = sha256_of(file)
    return digests


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number with its interval; None for a missing number."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None

    @classmethod
    def of(cls, metric: str, found: Estimate | float | None) -> Self:
        """Make a measurement of an estimate, or of a number without an interval. An infinite number becomes None."""
        if isinstance(found, Estimate):
            return cls(metric, _finite(found.value), _finite(found.low), _finite(found.high), found.confidence)
        return cls(metric, None if found is None else _finite(found))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


#: Number of public records in the samples of a cell.
SAMPLES: Final = 4
#: From this number of public records on, mechanisms are fitted without the records of the samples. Otherwise a
#: mechanism that answers with public texts would answer with the very text of the sample.
HELD_OUT_FROM: Final = 100


def fit_key(cell: Cell) -> str:
    """Key of the training inputs: corpus, trial and settings. Empty if no other cell can share the training."""
    if cell.answers is not Answers.EACH_TEXT or cell.fault or cell.trains_on != "public":
        return ""
    spec = spec_from_settings(cell.settings)
    if not spec.traits.refits or not isinstance(spec, Refits):
        return ""
    read = {name: value for name, value in settings(spec).items() if name not in spec.traits.refits}
    return json.dumps([cell.corpus, cell.trial, read], sort_keys=True)


class SharedFits:
    """The last shareable fit, and the vectors of public texts, as one process keeps them."""

    def __init__(self) -> None:
        self.vectors = PublicVectors()
        self._key = ""
        self._last: Mechanism[str] | None = None

    def forget(self) -> None:
        """Forget all data of a corpus."""
        self._key, self._last = "", None
        self.vectors.forget()

    def fitted(self, cell: Cell, spec: Spec, corpus: SplitCorpus, *, seed: int) -> Mechanism[str]:
        """Return the mechanism of a cell, equal to that of a fit of its own; ConfigError as its `fit`."""
        key = fit_key(cell)
        before = self._last if key == self._key else None
        if before is None:
            self._key, self._last = "", None  # two networks at once would need twice the memory
        if cell.trains_on != "public":
            fit: Callable[..., Mechanism[str]] = spec.fit
            # The published system learns from the very texts that it rewrites, and from no other texts.
            others = {} if spec.traits.learns is Learns.EITHER else {"public": _public(corpus)}
            return fit(private=corpus.private, seed=seed, **others)
        with self.vectors.learning():
            if before is not None and isinstance(spec, Refits):
                return spec.refit(before, public=_public(corpus), seed=seed)
            found = spec.fit(public=_public(corpus), seed=seed)
        if key:
            self._key, self._last = key, found
        return found


def _public(corpus: SplitCorpus) -> tuple[Record, ...]:
    return corpus.public[SAMPLES:] if len(corpus.public) >= HELD_OUT_FROM else corpus.public


class Lens:
    """The embedder "sentence", "glove" or a file of word vectors, loaded at first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def embedder(self) -> RememberingEmbedder:
        """The embedder of cosines and attackers; ConfigError where the word vectors cannot be used."""
        known = self._name in EMBEDDERS
        return RememberingEmbedder(load_encoder(self._name) if known else WordMean(load_vectors(self._name)))
