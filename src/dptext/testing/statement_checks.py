"""Checks of settings and statements: what a spec says, and that a fitted mechanism cannot be changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, MutableMapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import FitProgress, Learns, Mechanism, Spec, Traits, settings
from dptext.privacy import accounting
from dptext.privacy.events import event_from_dict, event_to_dict
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.source import seeded
from dptext.testing.case import Case, ContractError, require


def check_settings(case: Case) -> None:
    """The spec is a frozen dataclass of JSON-able settings, with tiny ones to try."""
    spec = case.mechanism.spec
    require(is_dataclass(spec), "the spec is a dataclass")
    values = settings(spec)
    require(json.loads(json.dumps(values)) == values, "the settings survive JSON")
    first = fields(spec)[0].name  # type: ignore[arg-type]  # is_dataclass was required above
    try:
        setattr(spec, first, getattr(spec, first))
    except (FrozenInstanceError, AttributeError):
        pass
    else:
        raise ContractError("the spec is frozen")
    require(isinstance(spec, Spec) and isinstance(spec.traits, Traits), "the spec has what it needs, its traits too")
    tiny = type(spec).tiny()
    require(bool(tiny) and all(type(small) is type(spec) for small in tiny), "the spec has tiny settings")
    require(all(len(digest) == 64 for digest in case.mechanism.digests.values()), "digests are sha256 in hex")


def check_statements(case: Case) -> None:
    """Events and guarantee survive JSON and explain themselves; calibrate never overshoots."""
    spec = case.mechanism.spec
    require(bool(spec.units), "the spec speaks of at least one unit")
    for event in spec.events(spec.units[0]):
        written = json.loads(json.dumps(event_to_dict(event)))
        require(event_from_dict(written) == event, "every event survives JSON")
    for unit in spec.units:
        guarantee = spec.guarantee(unit)
        require(guarantee.trust is spec.traits.trust, "the guarantee and the traits agree on who sees private text")
        require(guarantee.unit is unit, "the guarantee speaks of the unit that was asked for")
        require(Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee, "guarantee in JSON")
        require(bool(guarantee.explain()), "the guarantee explains itself")
        stated = guarantee.basis is not Basis.CONDITIONAL or bool(guarantee.assumptions)
        require(stated, "a conditional guarantee states its assumptions")
        derived = accounting.guarantee(
            spec.events(unit),
            guarantee.delta,
            unit=unit,
            basis=guarantee.basis,
            relation=guarantee.relation,
            trust=guarantee.trust,
        )
        same = (derived.epsilon, derived.metric) == (guarantee.epsilon, guarantee.metric)
        require(same, "the guarantee follows from the events of its unit")  # what a ledger adds up
        if guarantee.basis is not Basis.NONE:
            half = spec.calibrate(guarantee.epsilon / 2, unit=unit)
            require(half.guarantee(unit).epsilon <= guarantee.epsilon / 2, "calibrate never overshoots")


def check_fit(case: Case) -> None:
    """`fit` of tiny settings takes what the traits say, tells its progress, and learns from no text besides."""
    spec = case.mechanism.spec
    traits = spec.traits
    small = next((each for each in type(spec).tiny() if each.traits == traits), spec)
    labelled = traits.releases_labels or traits.learns_labels
    records = [record if labelled else replace(record, label=None) for record in case.public]
    told: list[FitProgress] = []
    given: dict[str, object] = {"seed": case.seed}
    if traits.takes_private:
        given["private"] = records
    if traits.learns in (Learns.PUBLIC, Learns.PRIVATE):
        given["public"] = records
    if traits.takes_pool:
        given["pool"] = records
    if traits.trains:
        given["on_progress"] = told.append
    fit: Callable[..., Mechanism[str]] = small.fit
    try:
        fitted = fit(**given)
    except (ConfigError, TypeError) as error:
        raise ContractError(f"fit takes what the traits say, {', '.join(given)}: {error}") from error
    require(bool(told) == traits.trains, "a fit that trains reports its progress")
    require("public" in given or not any(at.note for at in told), "no loss on private text is reported")
    if traits.learns is Learns.NOTHING:
        same = dict(fit(**given, public=records).digests) == dict(fitted.digests)
        require(same, "a fit that learns from no text is the same with public text")


def check_event(case: Case) -> None:
    """Neither the events nor the guarantee depend on the text."""
    mechanism = case.mechanism
    before = _stated(mechanism)
    for record in case.batch:
        mechanism.privatize([record], seeded(case.seed))
        require(_stated(mechanism) == before, "events, settings, digests and guarantee do not depend on the text")


def _stated(mechanism: Mechanism[str]) -> tuple[object, ...]:
    spec = mechanism.spec
    said = [(spec.events(unit), spec.guarantee(unit)) for unit in spec.units]
    return settings(spec), dict(mechanism.digests), said


def check_frozen(case: Case) -> None:
    """No attribute of a fitted mechanism can be assigned or deleted: it states what was fitted."""
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
    """A value of the right type: of the spec one at another epsilon, where there is one, of all else its own."""
    found: object = None
    with contextlib.suppress(DPTextError, TypeError, AttributeError):  # no such value, or none at these settings
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
