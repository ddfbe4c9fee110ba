"""What a release guarantees: the statement that `dptext.privacy.accounting` derives from events.

A guarantee carries its meaning with it, so that two guarantees of different meaning are never mixed up. It is public:
it can be printed, logged and stored, and it survives JSON exactly::

    >>> guarantee = Guarantee(0.1, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)
    >>> Guarantee.from_dict(guarantee.to_dict()) == guarantee
    True
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from dptext import _validate
from dptext._wording import html_text
from dptext.errors import ConfigError, IncomparableError
from dptext.privacy.events import MAX_MEANINGFUL_DELTA, is_name
from dptext.types import Json

#: Every file reveals this, and no guarantee per author can hide it: one author may have more records than another.
RECORD_COUNT = "the number of records"

#: A choice among candidates assumes this.
PUBLIC_CANDIDATES = "the candidates, and all that ranks them, were made from public text only"

#: A statement per document assumes this: nothing tells two records of one text from records of two texts.
ONE_RECORD = "no document stands in more than one record of a run (not checked, as documents are not named)"

#: A statement per author assumes this.
ONE_SPELLING = "the name of an author is spelled alike in all of the author's records"

#: A statement about a sum per author assumes this, too: two who are clipped as one are not two.
ONE_PERSON = "no two authors go by one name"

#: A statement about a corpus assumes this: one record that damages a file would keep all others from being added up.
WHOLE_FILES = "the private files can be read to their end (a record that cannot be read, or says nothing, adds nothing)"


class Unit(StrEnum):
    """What is protected: two inputs are neighbours when they differ in one such thing."""

    TOKEN = "token"  # noqa: S105
    SENTENCE = "sentence"
    DOCUMENT = "document"
    AUTHOR = "author"


class Relation(StrEnum):
    """How two neighbouring inputs differ in the one unit."""

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_SPECIAL = "replace_special"  # by the public empty record


class Trust(StrEnum):
    """Who may see the private text."""

    LOCAL = "local"  # nobody besides whoever runs the mechanism
    CENTRAL = "central"  # one party: who trains the model, or sums up the corpus


class Basis(StrEnum):
    """Why the guarantee should be believed, strongest first."""

    PROVEN = "proven"
    CONDITIONAL = "conditional"
    CLAIMED = "claimed"
    NONE = "none"


_LARGE = 15.0  # of epsilon: e^15 is 3 million


def weakest(*bases: Basis) -> Basis:
    """The weakest of several bases: what a composition rests on."""
    return max(bases, key=list(Basis).index)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a release guarantees. Made by `dptext.privacy.accounting` only; derived, never stored as truth.

    Attributes:
        epsilon: bound on the log ratio of output probabilities (times the distance when `metric` is set); infinite when
            nothing is guaranteed.
        delta: additive part of the bound.
        unit, relation: which inputs are neighbours.
        metric: None, or the public distance that epsilon is multiplied with.
        trust: who sees the private text.
        basis: why it should be believed; NONE demands a `reason`.
        assumptions: what must hold for a CONDITIONAL basis.
        reveals: public functions of the input whose value leaves as it is; the guarantee holds for neighbours with
            equal value.
    """

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation
    metric: str | None = None
    trust: Trust = Trust.LOCAL
    basis: Basis = Basis.PROVEN
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise ConfigError(f"Expected epsilon={self.epsilon!r} >= 0.")
        _validate.probability(delta=self.delta)
        if self.metric is not None and not is_name(self.metric):
            raise ConfigError(f"Expected metric={self.metric!r} to be None, or to name a distance.")
        if (self.basis is Basis.NONE) != bool(self.reason):
            raise ConfigError("Expected a reason exactly when the basis is NONE.")
        if (self.basis is Basis.NONE) != math.isinf(self.epsilon):
            raise ConfigError(f"Expected epsilon={self.epsilon!r} to be infinite exactly when the basis is NONE.")

    @property
    def effective_epsilon(self) -> float:
        """Epsilon, or infinity where nothing is protected (basis NONE, or delta above 1e-3)."""
        return math.inf if self.delta > MAX_MEANINGFUL_DELTA else self.epsilon

    @property
    def meaning(self) -> tuple[Unit, Relation, str | None]:
        """What must be equal in two guarantees before they are compared or added."""
        return self.unit, self.relation, self.metric

    def require_comparable(self, other: "Guarantee") -> None:
        """Raise IncomparableError unless unit, relation and metric agree."""
        if self.meaning != other.meaning:
            one, two = (
                f"(unit {each.unit}, relation {each.relation}" + (f", metric {each.metric})" if each.metric else ")")
                for each in (self, other)
            )
            raise IncomparableError(
                f"Expected the same unit, relation and metric, found {one} and {two}. "
                "Lift the smaller unit with dptext.privacy.accounting.lift, or convert the relation, first."
            )

    def __lt__(self, other: "Guarantee") -> bool:
        """Order by protection (effective epsilon, then delta), for neighbours on which both hold."""
        self.require_comparable(other)
        return (self.effective_epsilon, self.delta) < (other.effective_epsilon, other.delta)

    def common_reveals(self, other: "Guarantee") -> tuple[str, ...]:
        """The union of `reveals`: both guarantees hold for neighbours that agree on all of these."""
        return tuple(dict.fromkeys(self.reveals + other.reveals))

    def voided(self, reason: str) -> "Guarantee":
        """The same statement with basis NONE, for the given reason."""
        reasons = "; ".join(dict.fromkeys(filter(None, (self.reason, reason))))
        return replace(self, epsilon=math.inf, delta=0.0, basis=Basis.NONE, reason=reasons)

    def revealing(self, *names: str) -> "Guarantee":
        """The same statement for neighbours that also agree on the named functions of the input."""
        return replace(self, reveals=tuple(dict.fromkeys(self.reveals + names)))

    def to_dict(self) -> dict[str, Json]:
        """The guarantee as JSON-able data; an infinite epsilon is written as the string "inf"."""
        data: dict[str, Json] = asdict(self)
        data["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        data["assumptions"], data["reveals"] = list(self.assumptions), list(self.reveals)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> "Guarantee":
        """The guarantee that `to_dict` wrote; ConfigError where a field is missing, unknown or out of range."""
        try:
            epsilon = math.inf if data["epsilon"] == "inf" else _number(data["epsilon"])
            unit, relation = Unit(_text(data["unit"])), Relation(_text(data["relation"]))
            metric = None if data["metric"] is None else _text(data["metric"])
            trust, basis = Trust(_text(data["trust"])), Basis(_text(data["basis"]))
            terms = _texts(data["assumptions"]), _texts(data["reveals"]), _text(data["reason"])
            return cls(epsilon, _number(data["delta"]), unit, relation, metric, trust, basis, *terms)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError("This is not a guarantee that dptext wrote.") from None

    def explain(self) -> str:
        """The guarantee in plain words."""
        lines = []
        if self.basis is Basis.NONE:
            lines.append(f"No guarantee: {self.reason}.")
        elif self.delta > MAX_MEANINGFUL_DELTA:
            lines.append(
                f"No protection: with probability up to delta = {format_delta(self.delta)} anything may leak "
                f"(a delta above {MAX_MEANINGFUL_DELTA:g} is counted as epsilon = infinity)."
            )
        else:
            symbols = f"epsilon = {format_epsilon(self.epsilon)}"
            symbols += f" per unit of {self.metric}" if self.metric else ""
            symbols += f", delta = {format_delta(self.delta)}" if self.delta else ""
            lines.append(f"Guaranteed ({symbols}), per {self.unit}, {self.relation.replace('_', ' ')}.")
            neighbours = _NEIGHBOURS[self.relation].format(unit=self.unit)
            if self.metric:
                lines.append(
                    f"{neighbours}, give any output with probabilities whose ratio is at most "
                    f"e^({format_epsilon(self.epsilon)} * d), d being their distance ({self.metric}): near "
                    "neighbours are hard to tell apart, far ones may be easy."
                )
            else:
                huge = ", which is astronomically large: in the worst case the output identifies it"
                lines.append(
                    f"{neighbours}, give any output with probabilities whose ratio is at most "
                    f"{format_factor(self.epsilon)}{huge if self.epsilon > _LARGE else ''}."
                )
            if self.delta:
                lines.append(f"Beyond that, anything may happen with probability {format_delta(self.delta)}.")
        lines.append(
            {
                Basis.PROVEN: "Proven: it holds for every input.",
                Basis.CONDITIONAL: "It holds as long as: " + "; ".join(self.assumptions or ("(not stated)",)) + ".",
                Basis.CLAIMED: "Claimed by its authors and not checked by dptext.",
                Basis.NONE: "Treat the output as if it were the private text itself.",
            }[self.basis]
        )
        if self.assumptions and self.basis is not Basis.CONDITIONAL:
            lines.append("Assumed: " + "; ".join(self.assumptions) + ".")
        if self.reveals:
            revealed = "; ".join(self.reveals)
            lines.append(f"Revealed as it is: {revealed}. The guarantee speaks of inputs that agree on these.")
        lines.append(_TRUST[self.trust])
        return "\n".join(lines)

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        if self.basis is Basis.NONE:
            return f"Nothing is guaranteed: {self.reason}."
        if self.delta > MAX_MEANINGFUL_DELTA:
            return f"Nothing is protected: with probability {format_delta(self.delta)} anything may leak."
        epsilon = f"epsilon {format_epsilon(self.epsilon)}"
        if self.metric:
            return (
                f"Of each {self.unit}, what is near is hard to tell apart and what is far may be easy ({epsilon} for "
                f"each unit of {self.metric})."
            )
        most = f"{format_factor(self.epsilon)} ({epsilon}){_but(self.delta)}"
        if self.relation is Relation.REPLACE_ONE:
            return (
                f"Whatever one {self.unit} says, the release changes the odds of any guess about it by a factor of at "
                f"most {most}."
            )
        # Two inputs with different texts differ by one step to the input without either, and by one step from it.
        twice = 0.0 if not self.delta else self.delta * (1 + math.exp(min(self.epsilon, 700.0)))
        said = f"by at most {format_factor(2 * self.epsilon)}{_but(twice)}"
        if self.delta and twice > MAX_MEANINGFUL_DELTA:
            said = "no bound is stated"
        return (
            f"The release changes the odds of any guess whether one {self.unit} is there by a factor of at most "
            f"{most}; of any guess about what it says, {said}."
        )

    def _repr_html_(self) -> str:
        return html_text(f"{self.sentence()}\n\n{self.explain()}")


def _but(delta: float) -> str:
    return f", but for a chance of {format_delta(delta)}" if delta else ""


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _texts(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("a list of texts was expected")
    return tuple(map(_text, value))


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number was expected")
    return float(value)


_NEIGHBOURS = {
    Relation.REPLACE_ONE: "Two inputs that differ in one {unit}, whatever stands in its place",
    Relation.ADD_OR_REMOVE_ONE: "Two inputs of which one has one {unit} more",
    Relation.REPLACE_SPECIAL: "Two inputs of which one has the public empty record in the place of one {unit}",
}
_TRUST = {
    Trust.LOCAL: "Nobody but whoever runs the mechanism needs to see the text.",
    Trust.CENTRAL: "One party sees the private text and must be trusted: who trains the model, or sums up the corpus.",
}


def format_epsilon(epsilon: float) -> str:
    """Epsilon for reading: three decimals at most, always rounded up."""
    if math.isinf(epsilon):
        return "infinity"
    if epsilon > 1e12:
        return repr(epsilon)
    shown = math.ceil(Fraction(repr(epsilon)) * 1000)  # 0.1 is shown as 0.1, not as 0.101
    return f"{shown // 1000}.{shown % 1000:03d}".rstrip("0").rstrip(".")


def format_delta(delta: float) -> str:
    """Delta for reading: three digits, rounded up (but for a billionth, so that 1e-5 stays 1e-5)."""
    shown = f"{delta:.2e}"
    if float(shown) < delta * (1 - 1e-9):
        shown = str(Decimal(shown) + Decimal(1).scaleb(Decimal(shown).adjusted() - 2))
    return f"{float(shown):.3g}"


def format_factor(epsilon: float) -> str:
    """e^epsilon for reading, rounded up; as a power where it has more than six digits."""
    if epsilon > _LARGE:
        return f"e^{format_epsilon(epsilon)}"
    factor = math.exp(epsilon)
    return f"{math.ceil(factor * 100) / 100:.2f}" if factor < 10 else f"{math.ceil(factor):,}"
