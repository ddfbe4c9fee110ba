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

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from dptext.doors import MOVED, OWN, Door, absent, package_of
from dptext.errors import ConfigError
from dptext.mechanism import Answers, Promise, Spec

if TYPE_CHECKING:  # a run of a mechanism loads no synthesis
    from dptext.synthesis.spec import CorpusSpec

Kind = TypeVar("Kind", bound=Promise)


class Registry(Door[type[Kind]], Generic[Kind]):
    """The classes of settings by kind: those of dptext in the order of `ours`, then those of packages by name.

    Attributes:
        offers: the methods and properties that a class of a package must have.
    """

    def __init__(self, group: str, ours: Mapping[str, str], *, what: str, offers: tuple[str, ...]) -> None:
        places = {kind: f"dptext.{place}" for kind, place in ours.items()}
        super().__init__(group, places, what=what, taken=(*OUR_MECHANISMS, *OUR_SYNTHESES))
        self.offers = offers

    def wrong(self, name: str, found: object) -> str:
        """Say what the class of a package should have been; empty if it is a spec of this kind."""
        kinds = [each.default for each in fields(found) if each.name == "kind"] if is_dataclass(found) else []
        if not isinstance(found, type) or kinds != [name]:
            return f"to be a spec: a dataclass whose field `kind` is {name!r}"
        missing = ", ".join(each for each in self.offers if not hasattr(found, each))
        return missing and f"to be a spec: it has no {missing}"


def _offered(*protocols: type) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in protocols for name in vars(each) if not name.startswith("_")))


#: dptext's mechanisms: kind, and place of the class of settings. One line here registers a new mechanism.
OUR_MECHANISMS: Final = {
    "word_metric": "mechanisms.words.word_metric:WordMetric",
    "label_only": "mechanisms.candidates.label_only:LabelOnly",
    "deep_candidate": "mechanisms.sentences.deep_candidate:DeepCandidate",
    "candidates": "mechanisms.candidates.candidates:Candidates",
    "truncation": "mechanisms.sentences.truncation:Truncation",
    "syntf": "mechanisms.words.syntf:SynTf",
    "embedded": "mechanisms.embedded:Embedded",
}
#: dptext's syntheses: kind, and place of the class of settings. One line here registers a new synthesis.
OUR_SYNTHESES: Final = {
    "summary": "synthesis.summary:SummarySpec",
    "prototypes": "synthesis.prototypes:Prototypes",
    "steering": "synthesis.steering:Steering",
    "votes": "synthesis.votes:Votes",
    "topics": "synthesis.votes:TopicReport",
}


def mechanisms() -> Registry[Spec]:
    """Make a registry of the mechanisms that are installed now."""
    return Registry("dptext.mechanisms", OUR_MECHANISMS, what="mechanism", offers=_offered(Promise, Spec))


def syntheses() -> Registry[CorpusSpec]:
    """Make a registry of the syntheses that are installed now."""
    return Registry(
        "dptext.syntheses", OUR_SYNTHESES, what="synthesis", offers=(*_offered(Promise), "fit", "labels", "unit")
    )


MECHANISMS: Final = mechanisms()
SYNTHESES: Final = syntheses()


def answers(kind: object) -> Answers | None:
    """The species of a kind, found without importing its class. None if the kind is unknown."""
    if not isinstance(kind, str):
        return None
    if kind in MECHANISMS:
        return Answers.EACH_TEXT
    return Answers.CORPUS if kind in SYNTHESES else None


def settings_named(name: str) -> type[Promise]:
    """The class of settings that an installed package brings, by the name of the class. Only this class is imported.

    AttributeError: no package brings such a class, several do, or the package is unusable.
    """
    found: list[tuple[Registry[Spec] | Registry[CorpusSpec], str, str]] = []
    for kinds in (MECHANISMS, SYNTHESES):
        for kind, some in kinds.brought.items():
            if name not in OWN["dptext"] or kind in OWN[kinds.group]:
                found += [(kinds, kind, package_of(point)) for point in some if point.attr == name]
    if not found:
        raise AttributeError(f"module 'dptext' has no attribute {name!r}.{absent('dptext', name) or MOVED}")
    if len(found) > 1:
        packages = ", ".join(sorted(package for _, _, package in found))
        raise AttributeError(
            f"Expected one package to bring dptext.{name}, found {packages}: import it from its package."
        )
    kinds, kind, _ = found[0]
    try:
        return kinds[kind]
    except ConfigError as error:
        raise AttributeError(str(error)) from error
