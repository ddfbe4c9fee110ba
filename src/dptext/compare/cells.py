"""The grid: one cell for each corpus, row and trial, and the signature of all that makes it.

References come first in each corpus: *original*, *public-only*, *random*, and *label_only* (with a random public text
of the label that was drawn, and with its medoid) at every epsilon for a document that its mechanisms have.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from dptext.compare.experiment import REFERENCES, Experiment, MechanismPlan
from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import Spec, setting_fields, settings
from dptext.mechanisms.embedded import Embedded
from dptext.mechanisms.registry import SPECS
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.runs.specs import spec_from_settings
from dptext.text.files import sha256_of
from dptext.text.inputs import file_error
from dptext.types import Json

LABEL_ONLY: Final = "label_only"
MEDOID: Final = "label_only (medoid)"
#: Stands in the place of a corpus's labels where settings are checked before the corpus is read.
ANY_LABELS: Final = ("a", "b")

_SCHEMA: Final = 1
#: Of label_only where no mechanism of the corpus has an epsilon for documents.
_EPSILONS: Final = (2.0, 5.0, 10.0, 20.0)
#: Randomized response with a larger one gives the label away, whatever the number.
_LARGEST: Final = 100.0
_LONGEST_PATH: Final = 1000
_MOST_FILES: Final = 100
#: Calibration never overshoots but for this rounding.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of one corpus in one trial.

    Attributes:
        corpus: its name.
        row: the name that is shown.
        settings: of the spec, `kind` among them; empty for rows that need none.
        trial: from 0.
        unit: in which epsilon is stated; empty where there is no spec.
        delta: at which it is stated.
        trains_on: "public" or "private".
        fault: why this cell cannot be run at all; empty where it can.
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
        """Of the mechanism, or nothing."""
        return str(self.settings.get("kind", ""))

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, for `Cell(**data)`."""
        found: dict[str, Json] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "settings": dict(self.settings)}


def plan_cells(experiment: Experiment, labels: Mapping[str, tuple[str, ...]]) -> list[Cell]:
    """All cells, corpus by corpus.

    Args:
        experiment: that is to be run.
        labels: the public label set of each corpus, empty where there are none.

    Raises:
        ConfigError: settings that make no spec, or one that cannot be trained as the plan says.
    """
    found: list[Cell] = []
    for corpus in experiment.corpora:
        rows = list(_rows(experiment, corpus.name, labels[corpus.name]))
        for trial in range(experiment.trials):
            found += [replace(row, trial=trial) for row in rows]
    return found


def signature(cell: Cell, experiment: Experiment, corpus: Json) -> str:
    """sha256 over all that makes the numbers of a cell: settings, what stands in the files that they name, records.

    Not the code: cells of one version of dptext are taken to be equal.

    Args:
        cell: of the grid.
        experiment: its seed, randomness and measures.
        corpus: numbers and digests of the records, `Corpus.described`.
    """
    made: dict[str, Json] = {
        "schema": _SCHEMA,
        "version": version("dptext"),
        "records": corpus,
        "seed": experiment.seed,
        "randomness": experiment.randomness,
        "measures": experiment.measures.to_dict(),
        "cell": cell.to_dict(),
    }
    if files := _named_files([cell.to_dict(), experiment.measures.embedder]):
        made["files"] = files
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def _named_files(data: Json) -> dict[str, Json]:
    """sha256 of every file that a value names, and of those in a folder that one names (vectors, a saved model)."""
    if isinstance(data, dict | list):
        values = data.values() if isinstance(data, dict) else data
        return {name: digest for value in values for name, digest in _named_files(value).items()}
    if not isinstance(data, str) or not data or len(data) > _LONGEST_PATH or "\0" in data:
        return {}
    path = Path(data)
    inside = itertools.islice(path.rglob("*"), _MOST_FILES + 1) if path.is_dir() else ()
    found = [path] if path.is_file() else [*inside]
    if len(found) > _MOST_FILES:
        return {}  # no model or vectors, but a folder that is called like a setting
    return {str(file): _digest_of(file) for file in found if file.is_file()}


def _digest_of(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise file_error(path, "read", error) from error


# ---------------------------------------------------------------------------------------------------- rows


def _rows(experiment: Experiment, corpus: str, labels: tuple[str, ...]) -> Iterator[Cell]:
    own = [
        row
        for plan in experiment.mechanisms
        if not plan.corpora or corpus in plan.corpora
        for row in _mechanism_rows(plan, corpus, labels)
    ]
    names = [row.row for row in own]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Expected one row {name!r} in {corpus!r}: two mechanisms and their sweeps give it.")
    for name in REFERENCES[:3]:
        yield Cell(corpus, name, {}, 0)
    if len(labels) > 1:
        embedder = "sentence" if experiment.measures.embedder == "sentence" else "tfidf"
        for epsilon in _document_epsilons(own):
            for name, text in ((LABEL_ONLY, "random"), (MEDOID, "medoid")):
                values: dict[str, Json] = {"kind": "label_only", "labels": [*labels], "epsilon": epsilon, "text": text}
                if text == "medoid":
                    values["embedder"] = embedder
                yield Cell(corpus, name, settings(spec_from_settings(values)), 0, str(Unit.DOCUMENT))
    yield from own


def _document_epsilons(rows: list[Cell]) -> list[float]:
    """The epsilons for one document of the rows, those that were asked for as they were asked."""
    found: set[float] = set()
    for row in rows:
        if row.fault:
            continue
        guarantee = lifted(spec_from_settings(row.settings), row.delta)
        if guarantee is not None and guarantee.epsilon <= _LARGEST:
            found.add(float(f"{guarantee.epsilon:.6g}"))  # calibration ends a little below what was asked
    return sorted(found) or list(_EPSILONS)


def lifted(spec: Spec, delta: float) -> Guarantee | None:
    """What the spec guarantees for whole documents; None where that is nothing, or depends on a distance."""
    if Unit.DOCUMENT not in spec.units:
        return None
    found = spec.guarantee(Unit.DOCUMENT, delta)
    return found if found.metric is None and math.isfinite(found.effective_epsilon) else None


def _mechanism_rows(plan: MechanismPlan, corpus: str, labels: tuple[str, ...]) -> Iterator[Cell]:
    _check_training(plan)
    for values in itertools.product(*plan.sweep.values()):
        swept = dict(zip(plan.sweep, values, strict=True))
        name = " ".join([plan.name, *(f"{key}={_shown(value)}" for key, value in swept.items())])
        chosen = _labelled(plan.kind, {**plan.set, **swept}, labels)
        calibrated = [_calibrated(plan, chosen, epsilon) for epsilon in plan.document_epsilon]
        if any(found is not None for found in calibrated):
            for epsilon, found in zip(plan.document_epsilon, calibrated, strict=True):
                spec = found if found is not None else "not known for whole documents"
                yield _cell(plan, corpus, f"{name} epsilon={epsilon:g}", spec, chosen, unit=Unit.DOCUMENT)
        else:
            own = _made(plan, chosen)
            yield _cell(plan, corpus, name, own, chosen, unit=own.units[0])


def _cell(
    plan: MechanismPlan, corpus: str, name: str, spec: Spec | str, chosen: Mapping[str, Json], *, unit: Unit
) -> Cell:
    """The cell of a spec, or of settings for which there is none, with the reason."""
    fault = spec if isinstance(spec, str) else ""
    own = {"kind": plan.kind, **chosen} if isinstance(spec, str) else settings(spec)
    return Cell(corpus, name, own, 0, str(unit), plan.delta, plan.trains_on, fault)


def _check_training(plan: MechanismPlan) -> None:
    if plan.trains_on == "private" and not any(spec.traits.takes_private for spec in SPECS[plan.kind].tiny()):
        raise ConfigError(f"Expected trains_on='public' for {plan.name!r}: {plan.kind} learns from public text alone.")


def _labelled(kind: str, values: Mapping[str, Json], labels: tuple[str, ...]) -> dict[str, Json]:
    """The settings with the labels of the corpus, where the mechanism has such a setting and none is given."""
    cls, found = SPECS[kind], dict(values)
    inner = found.get("mechanism")
    if cls is Embedded and isinstance(inner, dict) and inner.get("kind") in SPECS:
        return {**found, "mechanism": _labelled(str(inner["kind"]), inner, labels)}
    if labels and "labels" not in found and any(item.name == "labels" for item in setting_fields(cls)):
        found["labels"] = list(labels)
    return found


def _made(plan: MechanismPlan, chosen: Mapping[str, Json]) -> Spec:
    try:
        return spec_from_settings({**chosen, "kind": plan.kind})
    except ConfigError as error:
        raise ConfigError(f"[[mechanisms]] {plan.name!r}: {error}") from error


def _calibrated(plan: MechanismPlan, chosen: Mapping[str, Json], epsilon: float) -> Spec | str | None:
    """The spec at this epsilon for whole documents; None where it has no such epsilon, the reason where it fails."""
    start = dict(chosen)
    needed = {item.name for item in setting_fields(SPECS[plan.kind])}
    if "epsilon" in needed and "epsilon" not in start:
        start["epsilon"] = epsilon
    spec = _made(plan, start)
    if spec.guarantee().basis is Basis.NONE:
        return None
    try:
        found = spec.calibrate(epsilon, unit=Unit.DOCUMENT, delta=plan.delta)
    except IncomparableError:
        return None
    except ConfigError as error:
        return str(error)
    guarantee = lifted(found, plan.delta)
    if guarantee is None:
        return None
    if guarantee.epsilon > epsilon * (1 + _ROUNDING):
        return f"calibrated to epsilon {epsilon:g} it costs {guarantee.epsilon:.6g}"
    return found


def _shown(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
