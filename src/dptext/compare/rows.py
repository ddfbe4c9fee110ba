"""One cell from the fit to its numbers, as the rows of the table.

Fits, splits, classifiers and intervals follow the experiment's seed, which is public; releases draw secret bits, unless
the experiment is seeded, which voids every guarantee. No text stands in a row. Beside the rows a cell keeps four
samples made from *public* records, but where the mechanism has learned from private text, which it may repeat whatever
it is given. Those samples, and samples of private records, are kept only where that is asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dptext.compare.cells import Cell, lifted
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Experiment
from dptext.compare.measure import Lens, Number, Released, measured
from dptext.mechanism import Learns, Mechanism, Spec
from dptext.privacy.guarantee import Guarantee, Unit
from dptext.runs.specs import spec_from_settings
from dptext.runs.streaming import SEEDED, privatize
from dptext.sampling.randomness import Randomness, secure, seeded
from dptext.text.records import Record, Release
from dptext.types import Json
from dptext.utility.tables import ORIGINAL, baselines

#: The columns of the table, in their order.
COLUMNS: Final = (
    "corpus", "row", "kind", "settings", "trial", "unit", "relation", "epsilon", "delta", "metric_privacy", "basis",
    "document_epsilon", "metric", "value", "low", "high", "confidence", "seconds", "peak_mib", "signature", "error",
)  # fmt: skip
SAMPLES: Final = 4
#: From so many public records on the mechanisms are fitted without those that samples are made of: what answers with
#: public texts would else answer with the very text.
HELD_OUT_FROM: Final = 100
#: Where the stream of the samples begins: far from that of the private records.
_APART: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cell gave.

    Attributes:
        numbers: all that was measured.
        guarantee: of the row; None where it has no spec.
        document: the same for whole documents, where that is finite.
        samples: public originals and what became of them, unless the mechanism has learned from private text.
        private_samples: private originals and what became of them, where they are to be kept.
    """

    numbers: tuple[Number, ...]
    guarantee: Guarantee | None
    document: float | None
    samples: tuple[tuple[str, str], ...] = field(repr=False)
    private_samples: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def refuted(self) -> list[str]:
        """The audits that found the guarantee to be false."""
        return [n.metric.partition(".")[0] for n in self.numbers if n.metric.endswith(".refuted") and n.value == 1]


def run_cell(cell: Cell, experiment: Experiment, corpus: Corpus, lens: Lens, *, private_samples: bool) -> Outcome:
    """Fit, release, measure.

    Args:
        cell: of the grid.
        experiment: its seed, randomness and measures.
        corpus: of the cell.
        lens: the public models of this process.
        private_samples: keep some private originals and what became of them.

    Raises:
        ConfigError: records or settings that do not do.
        MissingExtraError: a package is not installed.
    """
    seed = experiment.seed + cell.trial
    source = seeded(seed) if experiment.randomness == "seeded" else secure()
    way = _mechanism(cell, corpus, seed, source) if cell.kind else _reference(cell.row, corpus)
    released = Released(
        releases=way.draw(corpus.private, source, seed),
        mechanism=way.mechanism,
        guarantee=way.guarantee,
        again=lambda records, number: way.draw(records, seeded(number), number),
        labelled=way.labelled,
        written=way.written,
    )
    public = corpus.public[:SAMPLES] if cell.trains_on == "public" else ()
    return Outcome(
        numbers=tuple(measured(released, corpus, experiment.measures, lens, seed=seed)),
        guarantee=way.guarantee,
        document=way.document,
        samples=_pairs(public, way.draw(public, source.at(_APART), seed)) if public else (),
        private_samples=_pairs(corpus.private[:SAMPLES], released.releases) if private_samples else (),
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """How releases are made, and what they guarantee. `draw` takes records, random bits, and a seed for references."""

    mechanism: Mechanism[str] | None
    guarantee: Guarantee | None
    document: float | None
    labelled: bool
    written: bool
    draw: Callable[[Sequence[Record], Randomness, int], Sequence[Release[str]]] = field(repr=False)


def _reference(row: str, corpus: Corpus) -> _Way:
    def draw(records: Sequence[Record], _: Randomness, seed: int) -> Sequence[Release[str]]:
        return baselines(records, corpus.public, labels=corpus.labels, seed=seed)[row]

    return _Way(None, None, None if row == ORIGINAL else 0.0, bool(corpus.labels), written=True, draw=draw)


def _mechanism(cell: Cell, corpus: Corpus, seed: int, source: Randomness) -> _Way:
    spec = spec_from_settings(cell.settings)
    mechanism = _fitted(spec, corpus, cell.trains_on, seed)
    guarantee, document = spec.guarantee(Unit(cell.unit), cell.delta), lifted(spec, cell.delta)
    if not source.is_secure:
        guarantee, document = guarantee.voided(SEEDED), None

    def draw(records: Sequence[Record], bits: Randomness, _: int) -> Sequence[Release[str]]:
        # An experiment's table says the basis of every row: to ask once more would say nothing new.
        return list(privatize(records, mechanism, randomness=bits, without_guarantee=True))

    return _Way(
        mechanism,
        guarantee,
        None if document is None else document.epsilon,
        spec.traits.releases_labels,
        spec.traits.releases_text,
        draw,
    )


def _fitted(spec: Spec, corpus: Corpus, trains_on: str, seed: int) -> Mechanism[str]:
    public = corpus.public[SAMPLES:] if len(corpus.public) >= HELD_OUT_FROM else corpus.public
    if trains_on == "public":
        return spec.fit(public=public, seed=seed)
    fit: Callable[..., Mechanism[str]] = spec.fit
    if spec.traits.learns is Learns.EITHER:  # as published: from the very texts that it rewrites, and no others
        return fit(private=corpus.private, seed=seed)
    return fit(public=public, private=corpus.private, seed=seed)


def _pairs(records: Sequence[Record], releases: Sequence[Release[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((record.text, release.output) for record, release in zip(records, releases, strict=False))


# ------------------------------------------------------------------------------------------- as JSON-able data


def cell_data(
    cell: Cell, outcome: Outcome | str, *, signature: str, seconds: float, peak_mib: float
) -> dict[str, Json]:
    """A finished cell: its rows, its certificate and samples; of one that failed, a row with the reason.

    Args:
        cell: of the grid.
        outcome: of the cell; or why it failed.
        signature: of the cell.
        seconds: that it took.
        peak_mib: of the process that ran it.
    """
    row: dict[str, Json] = {
        "corpus": cell.corpus,
        "row": cell.row,
        "kind": cell.kind,
        "settings": json.dumps({key: value for key, value in cell.settings.items() if key != "kind"}),
        "trial": cell.trial,
        "unit": cell.unit,
        "relation": "",
        "epsilon": None,
        "delta": None,
        "metric_privacy": None,
        "basis": "",
        "document_epsilon": None,
        "seconds": seconds,
        "peak_mib": peak_mib,
        "signature": signature,
        "error": None,
    }
    data: dict[str, Json] = {"signature": signature, "cell": cell.to_dict(), "certificate": None, "samples": []}
    if isinstance(outcome, str):
        failed = {**row, **_number(Number("", None)), "error": outcome}
        return {**data, "rows": [_ordered(failed)], "refuted": [], "error": outcome}
    if outcome.guarantee is None:
        row |= {"document_epsilon": outcome.document, "epsilon": outcome.document, "delta": outcome.document}
    else:
        found = outcome.guarantee
        finite = math.isfinite(found.epsilon)
        row |= {
            "unit": str(found.unit),
            "relation": str(found.relation),
            "epsilon": found.epsilon if finite else None,
            "delta": found.delta if finite else None,
            "metric_privacy": found.metric,
            "basis": str(found.basis),
            "document_epsilon": outcome.document,
        }
        data["certificate"] = {**found.to_dict(), "explain": found.explain()}
    data["samples"] = _shown(outcome.samples)
    if outcome.private_samples:
        data["private_samples"] = _shown(outcome.private_samples)
    refuted: list[Json] = [*outcome.refuted]
    rows: list[Json] = [_ordered({**row, **_number(number)}) for number in outcome.numbers]
    return {**data, "rows": rows, "refuted": refuted, "error": None}


def _ordered(row: Mapping[str, Json]) -> dict[str, Json]:
    return {column: row[column] for column in COLUMNS}


def _number(number: Number) -> dict[str, Json]:
    return {
        "metric": number.metric,
        "value": number.value,
        "low": number.low,
        "high": number.high,
        "confidence": number.confidence,
    }


def _shown(pairs: Sequence[tuple[str, str]]) -> list[Json]:
    return [{"original": original, "released": released} for original, released in pairs]
