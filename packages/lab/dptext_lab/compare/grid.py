"""The grid of an experiment: one cell for each corpus, row and trial.

References come first in each corpus: *original*, *public-only*, *random*, and *label_only* (with a random public text
of the drawn label, and with its medoid) at every document epsilon of the corpus' mechanisms. A synthesis has no
document epsilon: its epsilon is for the whole corpus.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, replace
from typing import Final

from dptext.errors import ConfigError, IncomparableError
from dptext.mechanism import Answers, Promise, setting_fields, settings
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.recommend.measured import LABEL_ONLY
from dptext.registry import MECHANISMS, SYNTHESES, answers
from dptext.runs.specs import from_settings, spec_from_settings
from dptext.types import Json
from dptext_lab.compare.cells import Cell
from dptext_lab.compare.experiment import REFERENCES, Experiment, MechanismPlan
from dptext_lab.compare.stored import MEDOID

#: Labels that stand for a corpus's labels when settings are checked before the corpus is read.
ANY_LABELS: Final = ("a", "b")

#: Epsilons of label_only if no mechanism of the corpus has an epsilon for documents.
_EPSILONS: Final = (2.0, 5.0, 10.0, 20.0)
#: Epsilon of label_only if only syntheses are compared.
_BESIDE: Final = 10.0
#: Randomized response with a larger epsilon reveals the label.
_LARGEST: Final = 100.0
#: Calibration overshoots by no more than this rounding.
_ROUNDING: Final = 1e-9


def plan_cells(experiment: Experiment, labels: Mapping[str, tuple[str, ...]]) -> list[Cell]:
    """All cells, corpus by corpus; ConfigError for settings that make no spec, or a spec that cannot be trained so."""
    found: list[Cell] = []
    for corpus in experiment.corpora:
        rows = list(_rows(experiment, corpus, labels[corpus]))
        for trial in range(experiment.trials):
            found += [replace(row, trial=trial) for row in rows]
    return found


def kinds_without_labels(experiment: Experiment) -> list[str]:
    """Return the mechanisms, by name, that release no labels where a classifier is to be measured; no corpus is read.

    ConfigError: settings that make no spec.
    """
    labelled = [name for name, plan in experiment.corpora.items() if plan.label]
    if "classification" not in experiment.utilities:
        return []
    found = []
    for plan in experiment.mechanisms:
        on = next((name for name in labelled if not plan.corpora or name in plan.corpora), None)
        if on is None or answers(plan.kind) is Answers.CORPUS:
            continue
        row = next((row for row in _rows_of(plan, on, ANY_LABELS, {}) if not row.fault), None)
        if row is not None and not spec_from_settings(row.settings).traits.releases_labels:
            found.append(plan.name)
    return found


def _rows(experiment: Experiment, corpus: str, labels: tuple[str, ...]) -> Iterator[Cell]:
    plans = (plan for plan in experiment.mechanisms if not plan.corpora or corpus in plan.corpora)
    called = experiment.corpora[corpus].names
    own = [row for plan in plans for row in _rows_of(plan, corpus, labels, called)]
    names = [row.row for row in own]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Expected one row {name!r} in {corpus!r}: two mechanisms and their sweeps give it.")
    for name in REFERENCES[:3]:
        yield Cell(corpus, name, {}, 0)
    if len(labels) > 1:
        embedder = "sentence" if experiment.settings.embedder == "sentence" else "tfidf"
        for epsilon in _document_epsilons(own):
            for name, text in ((LABEL_ONLY, "random"), (MEDOID, "medoid")):
                values: dict[str, Json] = {"kind": "label_only", "labels": [*labels], "epsilon": epsilon, "text": text}
                if text == "medoid":
                    values["embedder"] = embedder
                yield Cell(corpus, name, settings(spec_from_settings(values)), 0, str(Unit.DOCUMENT))
    yield from own


def _document_epsilons(rows: list[Cell]) -> list[float]:
    """Return the epsilons of the rows for one document, rounded to the requested epsilons."""
    found: set[float] = set()
    for row in rows:
        if row.fault or row.answers is Answers.CORPUS:
            continue
        guarantee = lifted(spec_from_settings(row.settings), row.delta)
        if guarantee is not None and guarantee.epsilon <= _LARGEST:
            found.add(float(f"{guarantee.epsilon:.6g}"))  # calibration ends a little below the requested epsilon
    if rows and all(row.answers is Answers.CORPUS for row in rows):
        return [_BESIDE]
    return sorted(found) or list(_EPSILONS)


def lifted(spec: Promise, delta: float) -> Guarantee | None:
    """Return the spec's guarantee for whole documents; None if it has none, or one that depends on a distance."""
    if Unit.DOCUMENT not in spec.units or spec.traits.answers is Answers.CORPUS:
        return None
    found = spec.guarantee(Unit.DOCUMENT, delta)
    return found if found.metric is None and math.isfinite(found.effective_epsilon) else None


def _rows_of(plan: MechanismPlan, corpus: str, labels: tuple[str, ...], names: Mapping[str, str]) -> Iterator[Cell]:
    for values in itertools.product(*plan.sweep.values()):
        swept = dict(zip(plan.sweep, values, strict=True))
        name = " ".join([plan.name, *(f"{key}={_shown(value)}" for key, value in swept.items())])
        chosen = _labelled(plan.kind, {**plan.set, **swept}, labels)
        if names and plan.kind == "prototypes":
            chosen.setdefault("names", [names.get(label, label) for label in labels])
        calibrated = [_calibrated(plan, chosen, epsilon) for epsilon in plan.document_epsilon]
        if any(found is not None for found in calibrated):
            for epsilon, found in zip(plan.document_epsilon, calibrated, strict=True):
                spec = found if found is not None else "not known for whole documents"
                yield _cell(plan, corpus, f"{name} epsilon={epsilon:g}", spec, chosen, unit=Unit.DOCUMENT)
        else:
            own = _made(plan, chosen)
            yield _cell(plan, corpus, name, own, chosen, unit=own.units[0])


def _cell(
    plan: MechanismPlan, corpus: str, name: str, spec: Promise | str, chosen: Mapping[str, Json], *, unit: Unit
) -> Cell:
    if isinstance(spec, str):
        made, fault = {"kind": plan.kind, **chosen}, spec
    elif plan.trains_on == "private" and not spec.traits.takes_private:
        raise ConfigError(f"Expected trains_on='public' for {plan.name!r}: {plan.kind} learns from public text alone.")
    else:
        made, fault = settings(spec), ""
    return Cell(corpus, name, made, 0, str(unit), plan.delta, plan.trains_on, fault)


def _labelled(kind: str, values: Mapping[str, Json], labels: tuple[str, ...]) -> dict[str, Json]:
    """Add the corpus's labels to the settings, and to those of an inner mechanism, if labels are taken and missing."""
    found = dict(values)
    for key, value in values.items():
        if isinstance(value, dict) and value.get("kind") in MECHANISMS:
            found[key] = _labelled(str(value["kind"]), value, labels)
    cls: type[Promise] = SYNTHESES[kind] if kind in SYNTHESES else MECHANISMS[kind]
    if labels and "labels" not in found and any(item.name == "labels" for item in setting_fields(cls)):
        found["labels"] = list(labels)
    return found


def _made(plan: MechanismPlan, chosen: Mapping[str, Json]) -> Promise:
    values = {**chosen, "kind": plan.kind}
    cls: type[Promise] = SYNTHESES[plan.kind] if plan.kind in SYNTHESES else MECHANISMS[plan.kind]
    for item in setting_fields(cls):
        if item.name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise ConfigError(
                f"[[mechanisms]] {plan.name!r}: {plan.kind} needs the setting {item.name!r}. Write set = "
                f"{{ {item.name} = VALUE }}, or sweep = {{ {item.name} = [VALUE, ...] }} for a row with each."
            )
    try:
        return from_settings(values)
    except ConfigError as error:
        raise ConfigError(f"[[mechanisms]] {plan.name!r}: {error}") from error


def _calibrated(plan: MechanismPlan, chosen: Mapping[str, Json], epsilon: float) -> Promise | str | None:
    start = dict(chosen)
    needed = {item.name for item in setting_fields(MECHANISMS[plan.kind])}
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
