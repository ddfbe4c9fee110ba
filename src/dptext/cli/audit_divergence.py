"""`dptext audit divergence`: how far apart are two sets of texts in one embedding?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dptext import report
from dptext.audits.divergence.divergence import DivergenceReport, DivergenceSettings, measure
from dptext.audits.divergence.space import apart, fit_tfidf_svd
from dptext.cli.audit import progress
from dptext.cli.progress import WatchedEncoder, say
from dptext.cli.utility import NOT_PRIVATE
from dptext.embeddings.vectors import Embedder, load_glove
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.files import Target, writing
from dptext.text.reading import read_records
from dptext.text.records import Fields, Record

EMBEDDINGS = ("sentence", "glove", "tfidf")

_CURVES, _PLANE, _NUMBERS = "divergence.svg", "plane.svg", "divergence.json"


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared, and where the result goes.

    Attributes:
        first: file of one set.
        second: file of the other.
        public: file of public text.
        embedding: sentence, glove, tfidf, or the folder of a sentence encoder.
        accuracy: VALUE or VALUE,LOW,HIGH of an attack measured elsewhere, to hold the epsilons against.
        out: folder of figures and JSON; None writes none.
        force: whether files that are there may be replaced.
    """

    first: Path
    second: Path
    public: Path
    embedding: str
    accuracy: str | None
    out: Path | None
    force: bool = False

    def target(self, name: str) -> Target:
        """A file of the folder; it replaces nothing that is compared."""
        inputs = (self.first, self.second, self.public, Path(self.embedding))
        return Target((self.out or Path()) / name, self.force, inputs)


def orders(text: str) -> tuple[float, ...]:
    """Orders such as "1.1,2,10".

    Raises:
        ConfigError: it is no list of numbers.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"Expected --alphas {text!r} to be numbers with commas between them, as 1.1,2,10.") from error


def run(compared: Compared, settings: DivergenceSettings, *, fields: Fields, as_json: bool) -> None:
    """Compare two files and print the result; with a folder also write it there, with figures.

    Raises:
        ConfigError: options that do not fit, or files that cannot be compared or written.
        DataError: a record cannot be read.
        MissingExtraError: a package is not installed.
    """
    attack = _attack(compared.accuracy, settings.confidence)
    if compared.out is not None:
        report.load_matplotlib()  # before the work
        _folder(compared.out)
        for name in (_CURVES, _PLANE, _NUMBERS):
            compared.target(name).check()
    first, second, public = (
        list(read_records(path, fields)) for path in (compared.first, compared.second, compared.public)
    )
    say(NOT_PRIVATE)
    embedder = _embedder(compared.embedding, public, (first, second), settings.seed)
    with progress("steps") as advance:
        found = measure(
            first, second, public=public, embedder=embedder, settings=settings, attack=attack, on_step=advance
        )
    shown = {**found.to_dict(), "note": NOT_PRIVATE}
    if compared.out is not None:
        _write(found, json.dumps(shown, indent=2), compared)
    print(json.dumps(shown, indent=2) if as_json else found.to_markdown())


def _attack(accuracy: str | None, confidence: float) -> Estimate | None:
    """VALUE, of which nothing is sure, or VALUE,LOW,HIGH."""
    if accuracy is None:
        return None
    try:
        numbers = [float(part) for part in accuracy.split(",")]
    except ValueError:
        numbers = []
    value, low, high = numbers if len(numbers) == 3 else (*numbers[:1], 0.0, 1.0) if len(numbers) == 1 else (-1, 0, 0)
    if not 0 <= low <= value <= high <= 1:
        raise ConfigError(f"Expected --attack-accuracy {accuracy!r} to be VALUE or VALUE,LOW,HIGH in [0, 1].")
    return Estimate(value, low, high, confidence)


def _embedder(name: str, public: Sequence[Record], sets: tuple[list[Record], list[Record]], seed: int) -> Embedder:
    from dptext.embeddings.sentence_encoder import load_sentence_encoder, load_word_mean

    if name == "glove":
        return load_word_mean(load_glove())
    if name == "tfidf":
        return fit_tfidf_svd(apart(public, *sets)[0], seed=seed)
    if name == "sentence":
        return WatchedEncoder(load_sentence_encoder())
    if not Path(name).is_dir():
        raise ConfigError(
            f"Expected --embedding {name!r} to be one of {', '.join(EMBEDDINGS)}, or the folder of a sentence encoder."
        )
    return WatchedEncoder(load_sentence_encoder(name))


def _folder(out: Path) -> None:
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)


def _write(found: DivergenceReport, text: str, compared: Compared) -> None:
    report.divergence_figure(found, compared.target(_CURVES))
    if all(rows.shape[1] == 2 for rows in found.plane):
        say(f"{_PLANE} holds a point for each record: it is as private as the sets.")
        sets = dict(zip(("first set", "second set"), found.plane, strict=True))
        report.plane_figure(sets, compared.target(_PLANE))
    compared.target(_NUMBERS).write(f"{text}\n".encode())
