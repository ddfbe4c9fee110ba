"""Base classes of specs and fitted mechanisms, with the methods that most mechanisms have in common.

No mechanism has to use these classes; `dptext.mechanism` says what a mechanism must offer.
"""

import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar, get_args, get_origin, get_type_hints

from dptext import _validate
from dptext.embeddings.vector_files import load_saved_word_vectors, load_word_vectors, save_word_vectors
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, IncomparableError, needing
from dptext.frozen import Frozen
from dptext.mechanism import Learns, Mechanism, Remarks, Spec, Traits
from dptext.privacy import accounting
from dptext.privacy.events import Event, NoEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.envelope import EnvelopeResponse
from dptext.sampling.randomness import Randomness
from dptext.text.files import Target
from dptext.text.records import Record

WHOLE_RECORD = "a record is protected as a whole"

Spec_co = TypeVar("Spec_co", covariant=True)
Mechanism_co = TypeVar("Mechanism_co", covariant=True)
Settings = TypeVar("Settings")


class OneUnitSpec:
    """Properties of a spec whose guarantee, if any, speaks of one unit."""

    __slots__ = ()

    #: The unit of the guarantee.
    unit: ClassVar[Unit] = Unit.DOCUMENT

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit."""
        return (self.unit,)

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """Text that the spec learns from, fields that it reads, output that it releases."""

    @property
    def reveals(self) -> tuple[str, ...]:
        """Facts that each release reveals exactly, such as the number of words; neighbours agree on them."""
        return ()


class OneUnit(OneUnitSpec):
    """A spec whose guarantee speaks of one unit. The relation is replace one.

    A subclass gives the events of one release (`released`) and the assumptions of the guarantee (`assumptions`).
    """

    __slots__ = ()

    #: The reason that errors give for refusing another unit.
    only: ClassVar[str] = WHOLE_RECORD
    #: CONDITIONAL where there are assumptions, PROVEN where there are none.
    basis: ClassVar[Basis] = Basis.CONDITIONAL
    #: The smallest delta at which the guarantee is stated; a setting where the mechanism needs a delta.
    delta: float = 0.0

    @property
    @abstractmethod
    def released(self) -> tuple[Event, ...]:
        """The events of one release of one record; accounting computes the epsilon from these events."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee, each in words that fit after "It holds as long as:"."""
        return ()

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return `released`, the events of one release of one record; IncomparableError for another unit."""
        if unit is not self.unit:
            raise IncomparableError(f"Expected unit {self.unit.value}, found {unit.value}: {self.only}.")
        return self.released

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return the guarantee of one release of one record, at the larger of `delta` and the spec's delta.

        Samplers that compute in floats need a small delta of their own. If their delta is the larger, the guarantee is
        stated at their delta. IncomparableError: the spec has another unit.
        """
        return self._stated(self.events(unit or self.unit), max(delta, self.delta))

    def _stated(self, events: tuple[Event, ...], delta: float, **others: Any) -> Guarantee:
        """Return the guarantee of these events; `others` replace the spec's own terms."""
        terms = {"trust": self.traits.trust, "assumptions": self.assumptions, "reveals": self.reveals, **others}
        delta = max(delta, accounting.slack(events))
        return accounting.guarantee(events, delta, unit=self.unit, basis=self.basis, **terms)


class OneEpsilon(OneUnit):
    """A `OneUnit` with a setting `epsilon`: the privacy loss of one release at delta = 0."""

    __slots__ = ()

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> Self:
        """Return the same spec with an `epsilon` such that `guarantee(unit, delta)` costs at most epsilon."""
        self.events(unit or self.unit)
        if delta == 0:
            return self._at(epsilon)
        found = accounting.calibrate(
            PureEvent(1.0), epsilon, delta=delta, lifted=lambda event: self._at(event.epsilon).released
        )
        return self._at(found.epsilon)

    def _at(self, epsilon: float) -> Self:
        return replace(self, epsilon=epsilon)  # type: ignore[type-var]  # every spec is a dataclass


class Untrained(Generic[Mechanism_co]):
    """A spec that learns from no text and saves nothing. A subclass writes `_fitted`, which returns the mechanism."""

    __slots__ = ()

    @abstractmethod
    def _fitted(self) -> Mechanism_co:
        """The mechanism."""

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> Mechanism_co:
        """Return the mechanism; public records and a seed are not needed.

        ConfigError: a named model is not installed, or does not suit. MissingExtraError: its package is absent.
        """
        return self._fitted()

    def load(self, folder: Path) -> Mechanism_co:
        """Return the mechanism, as `fit` does: nothing is read from the folder.

        If the settings name a model, the installed model is used; `load_model` refuses a model of another digest.
        """
        return self._fitted()


class FromWords(Generic[Mechanism_co]):
    """A spec that learns from no text and is fitted to the public word vectors that its settings name."""

    __slots__ = ()

    traits: ClassVar[Traits] = Traits(learns=Learns.NOTHING)
    vectors: str
    n_words: int

    @abstractmethod
    def _fitted(self, vectors: WordVectors) -> Mechanism_co:
        """The mechanism on these vectors."""

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> Mechanism_co:
        """Load the public vectors; public records and a seed are not needed.

        ConfigError: the vectors cannot be used with these settings. MissingExtraError: their package is absent.
        """
        return self._fitted(load_word_vectors(self.vectors, self.n_words))

    def load(self, folder: Path) -> Mechanism_co:
        """Return the mechanism that was saved into the folder under this spec; only the saved vectors are read.

        ConfigError: a file is absent, truncated or edited, or does not belong to this spec.
        """
        return self._fitted(load_saved_word_vectors(folder, self.n_words))


class NoGuarantee(OneUnitSpec):
    """A spec that guarantees nothing, for any unit: basis NONE. Running it needs `without_guarantee=True`."""

    __slots__ = ()

    unit: ClassVar[Unit] = Unit.TOKEN

    @property
    @abstractmethod
    def reason(self) -> str:
        """The reason why nothing is guaranteed."""

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return one event without an epsilon, for any unit."""
        return (NoEvent(self.reason),)

    def guarantee(self, unit: Unit | None = None, delta: float = 0.0) -> Guarantee:
        """Return a guarantee of basis NONE, for any unit."""
        unit = unit or self.unit
        terms: dict[str, Any] = {"trust": self.traits.trust, "reveals": self.reveals}
        return accounting.guarantee(self.events(unit), delta, unit=unit, basis=Basis.NONE, **terms)

    def calibrate(self, epsilon: float, *, unit: Unit | None = None, delta: float = 0.0) -> NoReturn:
        """Refused (ConfigError): no setting gives a guarantee."""
        raise ConfigError(f"Expected a mechanism with a guarantee to calibrate to epsilon={epsilon!r}: {self.reason}.")


def bisected(spec: Settings, epsilon: float, low: float, high: float, *, rounds: int, **at: Any) -> Settings:
    """Return the spec with the largest `epsilon` setting whose guarantee costs at most epsilon; `low` must fit."""
    for _ in range(rounds):
        middle = (low + high) / 2
        tried: Any = replace(spec, epsilon=middle)  # type: ignore[type-var]  # every spec is a dataclass
        low, high = (middle, high) if tried.guarantee(**at).epsilon <= epsilon else (low, middle)
    return replace(spec, epsilon=low)  # type: ignore[type-var]


def blocks_of(randomness: Randomness, sizes: Sequence[int], most: int) -> Iterator[tuple[Randomness, slice]]:
    """Yield `Randomness.blocks`, each with the slice of its rows."""
    start = 0
    for source, n in randomness.blocks(sizes, most):
        yield source, slice(start, start + n)
        start += n


class Lazy:
    """A module that is slow to load, imported when an attribute is first read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # inspection of a module reads such names
            raise AttributeError(name)
        return getattr(import_module(self._module), name)


@cache
def _choices(kind: type) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(kind)
    given = [each.name for each in fields(kind) if each.init]
    return {name: get_args(hints[name]) for name in given if get_origin(hints[name]) is Literal}


def check_choices(spec: object) -> None:
    """Raise ConfigError for a setting that has none of the values of its `Literal`."""
    for name, known in _choices(type(spec)).items():  # type: ignore[arg-type]  # any class can be hashed
        _validate.one_of(known, **{name: getattr(spec, name)})


def settings_for(kind: type[Settings], spec: object) -> Settings:
    """Build the dataclass `kind` of network settings, each field from the spec's setting of the same name."""
    return kind(**{each.name: getattr(spec, each.name) for each in fields(kind)})  # type: ignore[arg-type]


def texts_in_play(choice: object, of: int) -> Remarks:
    """Return the remark on a choice among `of` public texts; see `EnvelopeResponse.in_play`."""
    found = choice.in_play() if isinstance(choice, EnvelopeResponse) else of
    said = f"In play: {found:,} of {of:,} public texts carry 99% of what is chosen whatever a record says."
    if found == 1:
        said += " That is the same text for nearly every record. Raise epsilon; for a label alone take label_only."
    return Remarks(said, {"texts_in_play": found})


def _from_files(spec: Spec, files: Mapping[Path, bytes]) -> Mechanism[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Target(path).write(data)
        return spec.load(Path(folder))


class FittedMechanism(Frozen, Generic[Spec_co]):
    """A fitted mechanism, frozen after fitting.

    It holds its spec. A subclass that fits more attributes names them in `__slots__`, and overrides `digests` and
    `save`. ConfigError: the spec's device is not available, even if nothing of this mechanism computes on it.
    """

    __slots__ = ("spec",)

    spec: Spec_co

    def __init__(self, spec: Spec_co) -> None:
        if (device := getattr(spec, "device", "cpu")) != "cpu":
            with needing(f"device={device!r}", "dptext[torch]"):
                from dptext.embeddings.devices import require_device  # noqa: PLC0415 (needs torch)
            require_device(device)
        self.spec = spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the fitted parts, by name."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the fitted parts into an existing folder without such files, for `load` of the spec.

        `load` refuses (ConfigError) a file that is absent, truncated, edited, of another version or of another spec.
        MissingExtraError names a package that `load` needs and that is not installed.
        """

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Pickle the files that `save` writes: encoders and compiled code are loaded again."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder))
            files = {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
        return _from_files, (self.spec, files)


class OnModel(FittedMechanism[Spec_co]):
    """A fitted mechanism that holds its spec and a model; the model has `digests` and `save`, too.

    The model is as private as its training text.
    """

    __slots__ = ("model",)

    model: Any

    def __init__(self, spec: Spec_co, model: Any) -> None:
        super().__init__(spec)
        self.model = model

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the model, of its training text, and of its other parts."""
        found: Mapping[str, str] = self.model.digests
        return found

    def save(self, folder: Path) -> None:
        """Write the model into an existing folder without such files."""
        self.model.save(folder)


class OnWords(FittedMechanism[Spec_co]):
    """A fitted mechanism that holds its spec and public word vectors."""

    __slots__ = ("_vectors",)

    def __init__(self, spec: Spec_co, vectors: WordVectors) -> None:
        super().__init__(spec)
        self._vectors = vectors

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the public vectors with their words."""
        return {"vectors": self._vectors.digest}

    def save(self, folder: Path) -> None:
        """Write the public vectors into an existing folder without such files."""
        save_word_vectors(self._vectors, folder)
