"""Checks of releases, statistical checks of their distribution, and checks of the statements of a spec."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dptext import audits
from dptext.audits.report import Report
from dptext.audits.subjects import labels_read
from dptext.audits.trials.distinguishing import separation
from dptext.audits.trials.enumeration import enumerable
from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import (
    FitProgress,
    HasDistribution,
    HasLatent,
    HasMetric,
    Learns,
    Mechanism,
    OnProgress,
    Spec,
    Traits,
    compared,
    output_fault,
    seen,
    settings,
)
from dptext.privacy import accounting
from dptext.privacy.events import event_from_dict, event_to_dict
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.randomness import secure, seeded
from dptext.testing.case import Case, ContractError, require
from dptext.text.records import Record, Release
from dptext.types import Floats

_RELABELLED = 6
_PARTS = (0.25, 0.5, 0.9)  # of epsilon
_FOLLOWS = 0.1  # the least share of releases that other texts change, from which epsilon has to change some, too
_JOINED, _SEEDS = 5, 5  # public texts of a long one; runs at two values of epsilon


def check_order(case: Case) -> None:
    """One release a record, with its id, in order, and the fields that the spec promises; an empty batch gives none."""
    released = list(case.mechanism.privatize(case.batch, secure()))
    require([r.id for r in released] == [r.id for r in case.batch], "one release a record, with its id, in order")
    require(all(isinstance(release, Release) for release in released), "every answer is a Release")
    require(list(case.mechanism.privatize([], secure())) == [], "an empty batch gives no releases")
    fault = output_fault(case.mechanism.spec, released)
    require(fault is None, f"every release holds what the spec promises: {fault}")
    vectors = [release.vector for release in released if release.vector is not None]
    require(len(set(map(len, vectors))) < 2, "all vectors have one length")
    require(bool(np.isfinite(vectors).all()), "every vector is finite")


def check_batches(case: Case) -> None:
    """With a seeded stream a record's output depends on its position and the seed alone, not on the batch."""
    mechanism, batch, seed = case.mechanism, case.batch, case.seed
    released = list(mechanism.privatize(batch, seeded(seed)))
    for i in sorted({0, 1, len(batch) // 2, len(batch) - 1}):
        alone = mechanism.privatize([batch[i]], seeded(seed).at(i))[0]
        require(same(alone, released[i]), f"record {i} gives the same output alone and in the batch")
    for size in (1, 3, len(batch) // 2):
        pieces: list[Release[str]] = []
        for start in range(0, len(batch), size):
            pieces += mechanism.privatize(batch[start : start + size], seeded(seed).at(start))
        require(all(map(same, pieces, released)), f"batches of {size} give the same outputs as one batch")
    if not mechanism.spec.traits.reads_labels:
        start, labels = len(batch) - _RELABELLED, (None, *mechanism.spec.traits.labels, "other")
        relabelled = [replace(record, label=labels[i % len(labels)]) for i, record in enumerate(batch[start:])]
        again = mechanism.privatize(relabelled, seeded(seed).at(start))
        require(all(map(same, again, released[start:])), "labels change nothing if the traits read no labels")


def same(left: Release[str], right: Release[str]) -> bool:
    """Return whether two releases are equal in all visible parts."""
    return left.id == right.id and seen(left) == seen(right) and left.label == right.label


def check_model(case: Case) -> None:
    """A saved and loaded model gives the same outputs, and the saved files hold no private text."""
    mechanism = case.mechanism
    mechanism.privatize(case.odd, secure())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mechanism.save(folder)
        for path in folder.rglob("*"):
            if path.is_file():
                require(not case.leaks(path.read_bytes().decode("utf-8", "replace")), "no private text in a model")
        loaded = mechanism.spec.load(folder)
    require(hasattr(loaded, "spec"), "`load` returns the mechanism")
    require(settings(loaded.spec) == settings(mechanism.spec), "a loaded model has the same settings")
    require(dict(loaded.digests) == dict(mechanism.digests), "a loaded model has the same digests")
    outputs, again = (each.privatize(case.batch, seeded(case.seed)) for each in (mechanism, loaded))
    require(all(map(same, again, outputs)), "a loaded model gives the same outputs")


_COPIES = 32
TRIALS = 2_000  # runs of an audit of a pair
RELEASES = 400  # releases of a record, alone and in a batch, to be compared
_RUNS = 20
_SURE = 1 - 1e-5  # a sound mechanism fails a statistical check in less than one of 10,000 runs of the contract


def check_distribution(case: Case) -> None:
    """Under secure randomness a record has one output distribution: alone, among others, at any position."""
    mechanism, source = case.mechanism, secure()
    record = Record("0", f"{case.words[0]} {case.words[1]}")
    alone = compared([mechanism.privatize([record], source)[0] for _ in range(RELEASES)])
    others = [*(r for r in case.odd if len(r.text) < 30), *([Record("1", case.words[1])] * 4)]
    within, first, last = [], [], []
    for i in range(RELEASES):
        place = i % (len(others) + 1)
        released = mechanism.privatize([*others[:place], record, *others[place:]], source)
        within.append(released[place])
        pair = mechanism.privatize([record, record], source)
        first.append(pair[0])
        last.append(pair[1])
    for where, found in {"among others": within, "as the first": first, "as the last": last}.items():
        apart = separation(alone, compared(found), confidence=_SURE)
        require(apart == 0, f"a record's distribution is the same {where} as alone")
    apart = separation(joined(first, last), joined(first, [*last[1:], last[0]]), confidence=_SURE)
    require(apart == 0, "the records of a batch are drawn independently")


def joined(first: Sequence[Release[str]], last: Sequence[Release[str]]) -> list[str] | Floats:
    """Join the two releases of each batch to one value, so that shared noise shows."""
    one, other = compared(first), compared(last)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.hstack([one, other, one - other])  # shared noise shows in the differences alone
    return [f"{a} {b}" for a, b in zip(one, other, strict=True)]


def check_fresh(case: Case) -> None:
    """Secure runs do not repeat themselves, and an output that never varies does not depend on the text."""
    text = " ".join(case.words * 3)
    batch = [Record(str(i), text) for i in range(_COPIES)]
    runs = [[seen(release) for release in case.mechanism.privatize(batch, secure())] for _ in range(2)]
    if len({*runs[0], *runs[1]}) > 1:
        # Two honest runs of few possible outputs may agree by chance; many runs hardly ever do.
        more = (list(map(seen, case.mechanism.privatize(batch, secure()))) for _ in range(_RUNS))
        require(runs[0] != runs[1] or any(run != runs[0] for run in more), "two secure runs draw different noise")
    elif case.mechanism.spec.guarantee().basis is not Basis.NONE:
        other = case.mechanism.privatize([Record("0", " ".join(case.words[::-1] * 3))], secure())[0]
        require(seen(other) == runs[0][0], "an output that never varies does not depend on the text")


def check_guarantee(case: Case) -> None:
    """The stated guarantees survive the audits: counting, and, if they can be read, densities and distributions."""
    mechanism, spec = case.mechanism, case.mechanism.spec
    length = settings(spec).get("max_tokens")
    for unit in spec.units:
        claim = spec.guarantee(unit)
        if claim.basis is Basis.NONE:
            continue  # nothing is stated
        most = length if isinstance(length, int) else 50
        found = {"words": case.words, "labels": labels_read(mechanism)}
        pairs = audits.worst_pairs(unit, claim.relation, claim.reveals, **found, max_tokens=most)
        require(bool(pairs), "there are neighbours to try")
        if claim.metric is not None:
            require(isinstance(mechanism, HasMetric), "a mechanism with a metric knows the distance of two records")
        report = audits.distinguish(mechanism, pairs=pairs, claim=claim, trials=TRIALS, confidence=_SURE)
        _require_survival(report, claim, "distinguish")
        if isinstance(mechanism, HasLatent):
            report = audits.whitebox(mechanism, pairs=pairs, claim=claim, trials=4 * TRIALS, confidence=_SURE)
            _require_survival(report, claim, "whitebox")
        if isinstance(mechanism, HasDistribution):
            listed = [pair for pair in pairs if enumerable(mechanism, pair)]
            require(bool(listed), "the outputs of short texts can be enumerated")
            report = audits.exact(mechanism, pairs=listed, claim=claim, trials=4 * TRIALS)
            _require_survival(report, claim, "exact")


def _require_survival(report: Report, claim: Guarantee, audit: str) -> None:
    """Raise ContractError with the bound that was found, and the audit that looks closer, if it refutes the claim."""
    spent = f"epsilon is at least {report.epsilon_lower_bound:.3g}, not {claim.epsilon:.3g}"
    found = f"{'; '.join(report.defects) or spent} (dptext audit {audit} --model MODEL has more trials)"
    require(not report.refutes(claim), f"the guarantee per {claim.unit} survives {audit}: {found}")


def check_settings(case: Case) -> None:
    """The spec is a frozen dataclass of JSON-able settings, and has tiny settings to try."""
    spec = case.mechanism.spec
    require(is_dataclass(spec), "the spec is a dataclass")
    values = settings(spec)
    require(json.loads(json.dumps(values)) == values, "the settings survive JSON")
    first = fields(spec)[0].name  # type: ignore[arg-type]  # is_dataclass was required above
    require(_refuses(setattr, spec, first, getattr(spec, first)), "the spec is frozen")
    require(isinstance(spec, Spec) and isinstance(spec.traits, Traits), "the spec has what it needs, its traits too")
    tiny = type(spec).tiny()
    require(bool(tiny) and all(type(small) is type(spec) for small in tiny), "the spec has tiny settings")
    require(all(len(digest) == 64 for digest in case.mechanism.digests.values()), "digests are sha256 in hex")


def check_statements(case: Case) -> None:
    """Events and guarantee survive JSON and explain themselves; calibrate never overshoots."""
    spec = case.mechanism.spec
    require(bool(spec.units), "the spec speaks of at least one unit")
    for event in spec.events(spec.units[0]):
        require(event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event, "every event survives JSON")
    for unit in spec.units:
        guarantee = spec.guarantee(unit)
        require(guarantee.trust is spec.traits.trust, "the guarantee and the traits agree on who sees private text")
        require(guarantee.unit is unit, "the guarantee speaks of the unit that was asked for")
        require(Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee, "guarantee in JSON")
        require(bool(guarantee.explain()), "the guarantee explains itself")
        stated = guarantee.basis is not Basis.CONDITIONAL or bool(guarantee.assumptions)
        require(stated, "a conditional guarantee states its assumptions")
        events, basis, relation, trust = spec.events(unit), guarantee.basis, guarantee.relation, guarantee.trust
        meant = guarantee.delta
        derived = accounting.guarantee(events, meant, unit=unit, basis=basis, relation=relation, trust=trust)
        same = (derived.epsilon, derived.metric) == (guarantee.epsilon, guarantee.metric)
        require(same, "the guarantee follows from the events of its unit")  # a ledger adds up these events
        if guarantee.basis is not Basis.NONE:
            half = spec.calibrate(guarantee.epsilon / 2, unit=unit)
            require(half.guarantee(unit).epsilon <= guarantee.epsilon / 2, "calibrate never overshoots")


def check_fit(case: Case) -> None:
    """`fit` of tiny settings takes the arguments of the traits, reports progress, and learns from no other text."""
    spec, told = _small(case), list[FitProgress]()
    traits, given = spec.traits, _given(case, spec, told.append)
    fit: Callable[..., Mechanism[str]] = spec.fit
    try:
        fitted = fit(**given)
    except (ConfigError, TypeError) as error:
        raise ContractError(f"fit takes what the traits say, {', '.join(given)}: {error}") from error
    require(bool(told) == traits.trains, "a fit that trains reports its progress")
    require("public" in given or not any(at.note for at in told), "no loss on private text is reported")
    if traits.learns is Learns.NOTHING:
        again = dict(fit(**given, public=_public(case, spec)).digests)
        require(again == dict(fitted.digests), "a fit that learns from no text is the same with public text")


def check_epsilon(case: Case) -> None:
    """Less epsilon makes other releases of equal draws, where releases follow the texts.

    A fourth of epsilon is tried, or a half or nine tenths if the spec refuses less. Audits at one epsilon do not refute
    a mechanism that ignores epsilon and has the noise of a smaller one.
    """
    spec = _small(case)
    claim = spec.guarantee()
    if claim.basis is Basis.NONE or not claim.epsilon:
        return  # nothing is stated, or nothing is less
    own, other = spec.fit(**_given(case, spec, lambda _: None)), None
    for part in _PARTS:
        with contextlib.suppress(ConfigError):  # some choices cost a part of epsilon even if they say nothing
            less = spec.calibrate(claim.epsilon * part, unit=claim.unit)
            other = less.fit(**_given(case, less, lambda _: None))
            break
    if other is None:
        return  # less cannot be had
    texts = [record.text for record in case.public]
    long = [Record(f"long{i}", " ".join(texts[i : i + _JOINED])) for i in range(0, len(texts), _JOINED)]
    batch = [*long, *case.batch]  # a text of one sentence may say nothing to a choice by sentences
    exchanged = [replace(record, text=batch[i - 1].text) for i, record in enumerate(batch)]
    changed, followed = 0, 0
    for i in range(_SEEDS):
        first, less_told, elsewhere = (
            each.privatize(records, seeded(case.seed + i))
            for each, records in ((own, batch), (other, batch), (own, exchanged))
        )
        changed += sum(not same(*pair) for pair in zip(first, less_told, strict=True))
        followed += sum(not same(*pair) for pair in zip(first, elsewhere, strict=True))
    if followed < _FOLLOWS * _SEEDS * len(batch):
        return  # releases hardly follow the texts, so that no noise is needed, as of a network that learned nothing
    require(changed > 0, "epsilon changes the noise: less of it makes the same releases, so that it is ignored")


def _small(case: Case) -> Spec:
    """Return settings that are fitted in seconds: the mechanism's own, or the first tiny ones with its traits."""
    spec = case.mechanism.spec
    tiny = type(spec).tiny()
    return spec if spec in tiny else next((each for each in tiny if each.traits == spec.traits), spec)


def _public(case: Case, spec: Spec) -> list[Record]:
    labelled = spec.traits.releases_labels or spec.traits.learns_labels
    return [record if labelled else replace(record, label=None) for record in case.public]


def _given(case: Case, spec: Spec, on_progress: OnProgress) -> dict[str, Any]:
    """Return the arguments of `fit` that the traits of a spec name."""
    traits, records = spec.traits, _public(case, spec)
    given: dict[str, Any] = {"seed": case.seed}
    if traits.takes_private:
        given["private"] = records
    if traits.learns in (Learns.PUBLIC, Learns.PRIVATE):
        given["public"] = records
    if traits.takes_pool:
        given["pool"] = records
    if traits.trains:
        given["on_progress"] = on_progress
    return given


def check_event(case: Case) -> None:
    """Neither the events nor the guarantee depend on the text."""
    mechanism = case.mechanism
    before = _stated(mechanism)
    for record in case.batch:
        mechanism.privatize([record], seeded(case.seed))
        require(_stated(mechanism) == before, "events, settings, digests and guarantee do not depend on the text")


def _stated(mechanism: Mechanism[str]) -> tuple[object, ...]:
    spec = mechanism.spec
    return settings(spec), dict(mechanism.digests), [(spec.events(unit), spec.guarantee(unit)) for unit in spec.units]


def check_frozen(case: Case) -> None:
    """No attribute of a fitted mechanism can be assigned or deleted: its statements are those of the fit."""
    mechanism, given = case.mechanism, case.mechanism.digests
    before = _stated(mechanism)
    own = {name for name in dir(mechanism) if not name.startswith("__")}
    for name in sorted(own | {"spec", "digests", "__class__"}):
        value = _planted(mechanism, name)
        require(_refuses(setattr, mechanism, name, value), f"a fitted mechanism is frozen: {name} was assigned")
        require(_refuses(delattr, mechanism, name), f"a fitted mechanism is frozen: {name} was deleted")
    if isinstance(given, MutableMapping):
        given["planted"] = "0" * 64
    require(_stated(mechanism) == before, "digests that were read cannot change what a mechanism states")


def _planted(mechanism: Mechanism[str], name: str) -> object:
    """Return a value of the right type: a spec at another epsilon, if there is one, else the attribute's own value."""
    found: object = None
    with contextlib.suppress(DPTextError, TypeError, AttributeError):  # the attribute has no value at these settings
        found = getattr(mechanism, name)
        if name == "spec":
            found = replace(found, epsilon=2 * found.epsilon)  # type: ignore[type-var,attr-defined]
    return found


def _refuses(change: Callable[..., None], *given: object) -> bool:
    try:
        change(*given)
    except AttributeError:  # FrozenInstanceError is one
        return True
    return False
