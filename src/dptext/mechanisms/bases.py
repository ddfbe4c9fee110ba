"""Bases of specs and of fitted mechanisms: what most of them say in the same way.

A spec need not have one of these bases, and a mechanism of another package rarely does: the seam is `dptext.mechanism`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Generic, NoReturn, Self, TypeVar

from dptext.embeddings.vectors import WordVectors, save_word_vectors
from dptext.errors import ConfigError, IncomparableError
from dptext.frozen import Frozen
from dptext.privacy import accounting
from dptext.privacy.events import Event, NoEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit

WHOLE_RECORD = "a record is protected as a whole"

Spec_co = TypeVar("Spec_co", covariant=True)


class OneUnit:
    """A spec whose guarantee, replace one, speaks of one unit and follows from the events of one release."""

    __slots__ = ()

    #: The unit, and why nothing is known for another one.
    unit: ClassVar[Unit] = Unit.DOCUMENT
    only: ClassVar[str] = WHOLE_RECORD
    basis: ClassVar[Basis] = Basis.CONDITIONAL

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit."""
        return (self.unit,)

    @property
    @abstractmethod
    def released(self) -> tuple[Event, ...]:
        """What one release of one record does to a unit of it."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold for the guarantee."""
        return ()

    @property
    def reveals(self) -> tuple[str, ...]:
        """Public functions of the record whose value leaves as it is."""
        return ()

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """What one release of one record does to such a unit of it.

        Raises:
            IncomparableError: it is another unit.
        """
        if unit is not self.unit:
            raise IncomparableError(f"Expected unit {self.unit.value}, found {unit.value}: {self.only}.")
        return self.released

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """What one release of one record guarantees, at the larger of delta and the slack of float samplers.

        Raises:
            IncomparableError: it is another unit.
        """
        events = self.events(unit or self.unit)
        return accounting.guarantee(
            events,
            max(delta, accounting.slack(events)),
            unit=self.unit,
            relation=Relation.REPLACE_ONE,
            basis=self.basis,
            assumptions=self.assumptions,
            reveals=self.reveals,
        )


class OneEpsilon(OneUnit):
    """A spec with a setting `epsilon`, which is what one release costs without a delta."""

    __slots__ = ()

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """The spec whose guarantee costs at most epsilon at delta; with delta = 0 its setting is epsilon.

        Raises:
            IncomparableError: it is another unit.
        """
        self.events(unit or self.unit)
        if delta == 0:
            return self._at(epsilon)
        found = accounting.calibrate(
            PureEvent(1.0), epsilon, delta=delta, lifted=lambda event: self._at(event.epsilon).released
        )
        return self._at(found.epsilon)

    def _at(self, epsilon: float) -> Self:
        return replace(self, epsilon=epsilon)  # type: ignore[type-var]  # every spec is a dataclass


class NoGuarantee:
    """A spec that guarantees nothing, for any unit: basis NONE. Running it needs `without_guarantee=True`."""

    __slots__ = ()

    unit: ClassVar[Unit] = Unit.TOKEN
    trust: ClassVar[Trust] = Trust.LOCAL

    @property
    def units(self) -> tuple[Unit, ...]:
        """The unit for which nothing is guaranteed."""
        return (self.unit,)

    @property
    @abstractmethod
    def reason(self) -> str:
        """Why nothing is guaranteed."""

    @property
    def reveals(self) -> tuple[str, ...]:
        """What leaves as it is."""
        return ()

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Nothing that accounting could count, for any unit."""
        return (NoEvent(self.reason),)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """No guarantee, for any unit."""
        return accounting.guarantee(
            self.events(unit or self.unit),
            delta,
            unit=unit or self.unit,
            basis=Basis.NONE,
            relation=Relation.REPLACE_ONE,
            trust=self.trust,
            reveals=self.reveals,
        )

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> NoReturn:
        """Refused.

        Raises:
            ConfigError: always; no setting reaches any epsilon.
        """
        raise ConfigError(f"Expected a mechanism with a guarantee to calibrate to epsilon={epsilon!r}: {self.reason}.")


class FittedMechanism(Frozen, Generic[Spec_co]):
    """A spec with what was fitted. Frozen; nothing but the spec unless a subclass adds to it."""

    __slots__ = ("spec",)

    spec: Spec_co

    def __init__(self, spec: Spec_co) -> None:
        self.spec = spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of what was fitted, by name; none where nothing was."""
        return {}

    def save(self, folder: Path) -> None:
        """Write what was fitted into an existing folder, for `load` of the spec.

        Raises:
            ConfigError: a file of a model is there already, or cannot be written.
        """


class OnWords(FittedMechanism[Spec_co]):
    """A spec with public word vectors, which are all that was fitted."""

    __slots__ = ("_vectors",)

    def __init__(self, spec: Spec_co, vectors: WordVectors) -> None:
        super().__init__(spec)
        self._vectors = vectors

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public vectors with their words."""
        return {"vectors": self._vectors.digest}

    def save(self, folder: Path) -> None:
        """Write the public vectors into an existing folder.

        Raises:
            ConfigError: a file of a model is there already, or cannot be written.
        """
        save_word_vectors(self._vectors, folder)
