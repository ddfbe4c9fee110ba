"""The registries of kinds: mechanisms, which answer each text, and syntheses, which answer the corpus.

The kinds of dptext come first, then the kinds of installed packages. A package brings a kind by an entry point, whose
name is the kind and whose value is the class of the settings::

    [project.entry-points."dptext.mechanisms"]
    headline = "headline:Headline"

    [project.entry-points."dptext.syntheses"]
    mottos = "mottos:Mottos"

A class is imported when its kind is first asked for. Files name kinds, never modules, so reading a file can import only
classes that are installed as kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from dptext.errors import ConfigError
from dptext.mechanism import Answers, Promise, Spec

if TYPE_CHECKING:  # a run of a mechanism loads no synthesis
    from dptext.synthesis.spec import SynthesisSpec

Kind = TypeVar("Kind", bound=Promise)


class Registry(Mapping[str, type[Kind]], Generic[Kind]):
    """The classes of settings by kind: those of dptext in the order of `ours`, then those of packages by name.

    Attributes:
        group: the group of entry points that packages use.
        ours: the place of each class within `dptext` by kind, such as "mechanisms.embedded:Embedded".
        what: the noun of the species, such as "mechanism".
        offers: the methods and properties that a class of a package must have.
    """

    def __init__(self, group: str, ours: Mapping[str, str], *, what: str, offers: tuple[str, ...]) -> None:
        self.group, self.ours, self.what, self.offers = group, ours, what, offers
        self.loaded: dict[str, type[Kind]] = {}

    def __getitem__(self, kind: str) -> type[Kind]:
        """The class of a kind's settings.

        KeyError: the kind is unknown. ConfigError: two packages bring the kind, or its package is unusable.
        """
        if kind not in self.loaded:
            if kind in self.ours:
                self.loaded[kind] = EntryPoint(kind, f"dptext.{self.ours[kind]}", self.group).load()
            else:
                self.loaded[kind] = self._brought(self._theirs[kind])
        return self.loaded[kind]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.ours, *sorted(self._theirs)])

    def __len__(self) -> int:
        return len(self.ours) + len(self._theirs)

    def __contains__(self, kind: object) -> bool:
        return kind in self.ours or kind in self._theirs

    def usable(self, say: Callable[[str], None] = lambda _: None) -> dict[str, type[Kind]]:
        """All usable classes by kind. `say` gets the error message of each kind whose package is unusable."""
        found = {}
        for kind in self:
            try:
                found[kind] = self[kind]
            except ConfigError as error:
                say(str(error))
        return found

    @cached_property
    def _theirs(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if point.name not in (*MECHANISMS, *WAYS):  # no package can replace a kind of dptext
                found.setdefault(point.name, []).append(point)
        return found

    def _brought(self, points: list[EntryPoint]) -> type[Kind]:
        """Load the class of a package's entry point. ConfigError: two packages bring the kind; neither is preferred."""
        point, *others = points
        packages = ", ".join(sorted(each.dist.name if each.dist else each.value for each in points))
        if others:
            raise ConfigError(
                f"Expected one package to bring the {self.what} {point.name!r}, found {packages}: remove one."
            )
        try:
            found = point.load()
        except Exception as error:  # foreign packages may fail in any way
            raise ConfigError(
                f"The {self.what} {point.name!r} of the package {packages} cannot be imported ({type(error).__name__}: "
                f"{error}). Install {packages} again, or remove it."
            ) from error
        kinds = [each.default for each in fields(found) if each.name == "kind"] if is_dataclass(found) else []
        if not isinstance(found, type) or kinds != [point.name]:
            wanted = f"to be a spec: a dataclass whose field `kind` is {point.name!r}"
            raise ConfigError(f"Expected {point.value!r} of the package {packages} {wanted}.")
        if missing := [name for name in self.offers if not hasattr(found, name)]:
            lacks = ", ".join(missing)
            raise ConfigError(f"Expected {point.value!r} of the package {packages} to be a spec: it has no {lacks}.")
        return found


def _offered(*protocols: type) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in protocols for name in vars(each) if not name.startswith("_")))


#: dptext's mechanisms: kind, and place of the class of settings. One line here registers a new mechanism.
MECHANISMS: Final = {
    "word_metric": "mechanisms.words.word_metric:WordMetric",
    "private_phrases": "mechanisms.words.baselines:PrivatePhrases",
    "adept": "mechanisms.adept.sound:Adept",
    "adept_dpsgd": "mechanisms.adept.dpsgd:AdeptDpSgd",
    "published_adept": "mechanisms.adept.published:PublishedAdept",
    "label_only": "mechanisms.candidates.label_only:LabelOnly",
    "deep_candidate": "mechanisms.sentences.deep_candidate:DeepCandidate",
    "sentdp": "mechanisms.sentdp.sentdp:SentDp",
    "candidates": "mechanisms.candidates.candidates:Candidates",
    "truncation": "mechanisms.sentences.truncation:Truncation",
    "erae": "mechanisms.erae.erae:ErAe",
    "dp_prompt": "mechanisms.paraphrase.dp_prompt:DpPrompt",
    "random_replacement": "mechanisms.words.baselines:RandomReplacement",
    "syntf": "mechanisms.words.syntf:SynTf",
    "random_redaction": "mechanisms.redaction.random:RandomRedaction",
    "count_redaction": "mechanisms.redaction.random:CountRedaction",
    "smart_redaction": "mechanisms.redaction.smart:SmartRedaction",
    "pii_redaction": "mechanisms.redaction.pii:PiiRedaction",
    "embedded": "mechanisms.embedded:Embedded",
}
#: dptext's syntheses: kind, and place of the class of settings. One line here registers a new synthesis.
WAYS: Final = {
    "prototypes": "synthesis.prototypes:Prototypes",
    "prediction": "synthesis.prediction:Prediction",
    "steering": "synthesis.steering:Steering",
    "votes": "synthesis.votes:Votes",
    "topics": "synthesis.votes:TopicReport",
}


def mechanisms() -> Registry[Spec]:
    """Make a registry of the mechanisms that are installed now."""
    return Registry("dptext.mechanisms", MECHANISMS, what="mechanism", offers=_offered(Promise, Spec))


def syntheses() -> Registry[SynthesisSpec]:
    """Make a registry of the syntheses that are installed now."""
    return Registry("dptext.syntheses", WAYS, what="synthesis", offers=(*_offered(Promise), "fit", "labels", "unit"))


SPECS: Final = mechanisms()
SYNTHESES: Final = syntheses()


def answers(kind: object) -> Answers | None:
    """The species of a kind, found without importing its class. None if the kind is unknown."""
    if not isinstance(kind, str):
        return None
    if kind in SPECS:
        return Answers.EACH_TEXT
    return Answers.CORPUS if kind in SYNTHESES else None


def settings_class(kind: str) -> type[Promise]:
    """The class of the settings of a kind of either species. Errors: see `Registry.__getitem__`."""
    return SYNTHESES[kind] if kind in SYNTHESES else SPECS[kind]
