"""Guarantees: the statements that `dptext.privacy.accounting` derives from events.

A guarantee contains its meaning (unit, relation, metric), so that guarantees of different meaning are never mixed up.
Guarantees are public: they may be printed, logged and stored. A round trip through JSON changes nothing::

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

#: Every release of a file reveals this. No guarantee per author can hide it: authors differ in their number of records.
RECORD_COUNT = "the number of records"

#: The assumption of a choice among candidates.
PUBLIC_CANDIDATES = "the candidates, and all that ranks them, were made from public text only"

#: The assumption of a statement per document: a run cannot see that two records belong to one document.
ONE_RECORD = "no document stands in more than one record of a run (not checked, as documents are not named)"

#: The assumption of a statement per author.
ONE_SPELLING = "the name of an author is spelled alike in all of the author's records"

#: A further assumption of a sum per author: two authors of one name would be clipped together.
ONE_PERSON = "no two authors go by one name"

#: The assumption of a statement about a corpus: one record that damages a file would remove the others from the sum.
WHOLE_FILES = "the private files can be read to their end (a record that cannot be read, or says nothing, adds nothing)"


class Unit(StrEnum):
    """The unit of protection: two inputs are neighbours if they differ in one unit."""

    TOKEN = "token"  # noqa: S105
    SENTENCE = "sentence"
    DOCUMENT = "document"
    AUTHOR = "author"


class Relation(StrEnum):
    """The neighbouring relation: how two inputs differ in one unit."""

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_SPECIAL = "replace_special"  # one unit is replaced by the public empty record


class Trust(StrEnum):
    """Who may see the private text."""

    LOCAL = "local"  # only the party that runs the mechanism
    CENTRAL = "central"  # one party, which trains the model, or sums up the corpus


class Basis(StrEnum):
    """Why the guarantee should be believed, strongest first."""

    PROVEN = "proven"
    CONDITIONAL = "conditional"
    CLAIMED = "claimed"
    NONE = "none"


_LARGE = 15.0  # epsilon; e^15 is 3 million


def weakest(*bases: Basis) -> Basis:
    """The weakest of several bases, which is the basis of a composition."""
    return max(bases, key=list(Basis).index)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of a release. `dptext.privacy.accounting` alone derives guarantees, from events.

    What was spent is stored as events, and its guarantee is derived from the events again.

    Attributes:
        epsilon: bound on the log ratio of output probabilities, multiplied by the distance if `metric` is set; infinite
            if nothing is guaranteed.
        delta: additive part of the bound.
        unit, relation: which inputs are neighbours.
        metric: None, or the public distance that epsilon is multiplied with.
        trust: who sees the private text.
        basis: why the guarantee should be believed; NONE demands a `reason`.
        assumptions: the conditions of a CONDITIONAL basis.
        reveals: properties of the input, such as its number of records, that are released exactly; the guarantee holds
            for neighbours that agree on them.
        reason: why nothing is guaranteed; empty unless the basis is NONE.
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
        """Epsilon, or infinity if nothing is protected (basis NONE, or delta above 1e-3)."""
        return math.inf if self.delta > MAX_MEANINGFUL_DELTA else self.epsilon

    @property
    def meaning(self) -> tuple[Unit, Relation, str | None]:
        """Unit, relation and metric: two guarantees are compared or added only if these are equal."""
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
        """Order by protection: effective epsilon, then delta. Both are compared on neighbours for which both hold.

        IncomparableError: the guarantees differ in meaning.
        """
        self.require_comparable(other)
        return (self.effective_epsilon, self.delta) < (other.effective_epsilon, other.delta)

    def voided(self, reason: str) -> "Guarantee":
        """Return the guarantee with basis NONE and an infinite epsilon, for the given reason."""
        reasons = "; ".join(dict.fromkeys(filter(None, (self.reason, reason))))
        return replace(self, epsilon=math.inf, delta=0.0, basis=Basis.NONE, reason=reasons)

    def revealing(self, *names: str) -> "Guarantee":
        """Return the guarantee restricted to neighbours that also agree on the named properties of the input."""
        return replace(self, reveals=tuple(dict.fromkeys(self.reveals + names)))

    def to_dict(self) -> dict[str, Json]:
        """The guarantee as JSON-able data; an infinite epsilon is written as the string "inf"."""
        data: dict[str, Json] = asdict(self)
        data["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        data["assumptions"], data["reveals"] = list(self.assumptions), list(self.reveals)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> "Guarantee":
        """Read a guarantee that `to_dict` wrote. ConfigError: a field is missing, unknown or out of range."""
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
                lines.append(
                    f"With probability at most {format_delta(self.delta)} this bound may fail, and anything may leak."
                )
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
            lines.append(f"Not protected: {revealed}. The guarantee compares only inputs that agree on these.")
        lines.append(_TRUST[self.trust])
        return "\n".join(lines)

    @property
    def of_content(self) -> tuple[float, float]:
        """Epsilon and delta for what one unit says: of two inputs in which it says different things.

        If units are added or removed, these inputs are two steps apart: the input without the unit lies between them.
        """
        if self.relation is Relation.REPLACE_ONE:
            return self.epsilon, self.delta
        twice = self.delta * (1 + math.exp(min(self.epsilon, 700.0))) if self.delta else 0.0
        return 2 * self.epsilon, twice

    def sentence(self) -> str:
        """The guarantee in one plain sentence."""
        if self.basis is Basis.NONE:
            return f"Nothing is guaranteed: {self.reason}."
        if self.delta > MAX_MEANINGFUL_DELTA:
            return f"Nothing is protected: with probability {format_delta(self.delta)} anything may leak."
        epsilon = f"epsilon {format_epsilon(self.epsilon)}"
        if self.metric:
            return (
                f"Near values of one {self.unit} are hard to tell apart; far values may be easy to tell apart "
                f"({epsilon} for each unit of {self.metric})."
            )
        most = f"{format_factor(self.epsilon)} ({epsilon}){_but(self.delta)}"
        if self.relation is Relation.REPLACE_ONE:
            return (
                f"Whatever one {self.unit} says, the release changes the odds of any guess about it by a factor of at "
                f"most {most}."
            )
        epsilon_said, delta_said = self.of_content
        said = f"by at most {format_factor(epsilon_said)}{_but(delta_said)}"
        if delta_said > MAX_MEANINGFUL_DELTA:
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
    Trust.LOCAL: "Only the party that runs the mechanism needs to see the text.",
    Trust.CENTRAL: "One party sees the private text and must be trusted: who trains the model, or sums up the corpus.",
}


def format_epsilon(epsilon: float) -> str:
    """Epsilon as text, with three decimals at most, always rounded up."""
    if math.isinf(epsilon):
        return "infinity"
    if epsilon > 1e12:
        return repr(epsilon)
    shown = math.ceil(Fraction(repr(epsilon)) * 1000)  # 0.1 is shown as 0.1, not as 0.101
    return f"{shown // 1000}.{shown % 1000:03d}".rstrip("0").rstrip(".")


def format_delta(delta: float) -> str:
    """Delta as text, with three digits, rounded up. A rounding error below a billionth is ignored: 1e-5 is "1e-05"."""
    shown = f"{delta:.2e}"
    if float(shown) < delta * (1 - 1e-9):
        shown = str(Decimal(shown) + Decimal(1).scaleb(Decimal(shown).adjusted() - 2))
    return f"{float(shown):.3g}"


def format_factor(epsilon: float) -> str:
    """e^epsilon as text, rounded up; a power such as "e^16" if epsilon is above 15."""
    if epsilon > _LARGE:
        return f"e^{format_epsilon(epsilon)}"
    factor = math.exp(epsilon)
    return f"{math.ceil(factor * 100) / 100:.2f}" if factor < 10 else f"{math.ceil(factor):,}"
