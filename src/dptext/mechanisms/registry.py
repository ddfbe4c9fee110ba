"""The list of mechanisms: ours, and those that installed packages bring.

A package registers a mechanism of its own by an entry point, whose name is the kind and whose value is the spec::

    [project.entry-points."dptext.mechanisms"]
    shuffle = "their_package:Shuffle"

Nothing is imported before its kind is asked for, and nothing that data names is imported: a kind is looked up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from dptext.errors import ConfigError
from dptext.mechanism import Spec

GROUP = "dptext.mechanisms"

#: A new mechanism is registered by one line here: its kind, and where its spec is.
OURS = {
    "word_metric": "words.word_metric:WordMetric",
    "private_phrases": "words.private_phrases:PrivatePhrases",
    "adept": "adept.sound:Adept",
    "adept_dpsgd": "adept.dpsgd:AdeptDpSgd",
    "published_adept": "adept.published:PublishedAdept",
    "label_only": "candidates.label_only:LabelOnly",
    "deep_candidate": "sentences.deep_candidate:DeepCandidate",
    "candidates": "candidates.candidates:Candidates",
    "truncation": "sentences.truncation:Truncation",
    "erae": "erae:ErAe",
    "random_replacement": "words.random_replacement:RandomReplacement",
    "syntf": "words.syntf:SynTf",
    "random_redaction": "redaction.random:RandomRedaction",
    "count_redaction": "redaction.random:CountRedaction",
    "smart_redaction": "redaction.smart:SmartRedaction",
    "pii_redaction": "redaction.pii:PiiRedaction",
    "embedded": "embedded:Embedded",
}


class Registry(Mapping[str, type[Spec]]):
    """Specs by kind: ours first, then those of packages by their names.

    Attributes:
        loaded: the specs that were asked for already, by kind.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, type[Spec]] = {}

    def __getitem__(self, kind: str) -> type[Spec]:
        """The class of the spec.

        Raises:
            KeyError: no mechanism of this kind is installed.
            ConfigError: the package that brings it cannot be used; the message names it.
        """
        if kind not in self.loaded:
            self.loaded[kind] = self._load(kind)
        return self.loaded[kind]

    def _load(self, kind: str) -> type[Spec]:
        if kind in OURS:
            found: type[Spec] = EntryPoint(kind, f"{GROUP}.{OURS[kind]}", GROUP).load()
            return found
        points = self._theirs[kind]
        packages = ", ".join(sorted({point.dist.name if point.dist else point.value for point in points}))
        if len({point.value for point in points}) > 1:
            raise ConfigError(f"Expected one package to bring the mechanism {kind!r}, found {packages}: remove one.")
        return _loaded(points[0], packages)

    def __iter__(self) -> Iterator[str]:
        """All kinds."""
        return iter(dict.fromkeys([*OURS, *sorted(self._theirs), *self.loaded]))

    def __len__(self) -> int:
        """How many kinds there are."""
        return len(list(iter(self)))

    def __contains__(self, kind: object) -> bool:
        """Whether there is such a kind; nothing is loaded."""
        return kind in OURS or kind in self.loaded or kind in self._theirs

    @cached_property
    def _theirs(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=GROUP):
            if point.name not in OURS:  # what is ours is never another's
                found.setdefault(point.name, []).append(point)
        return found


def _loaded(point: EntryPoint, package: str) -> type[Spec]:
    try:
        found = point.load()
    except Exception as error:  # the package of somebody else may fail in any way
        raise ConfigError(
            f"The mechanism {point.name!r} of {package} cannot be imported ({type(error).__name__}). Install {package} "
            "again, or remove it."
        ) from error
    kinds = [each.default for each in fields(found) if each.name == "kind"] if is_dataclass(found) else []
    if not isinstance(found, type) or kinds != [point.name]:
        raise ConfigError(
            f"Expected {point.value!r} of {package} to be a spec: a dataclass whose field `kind` is {point.name!r}."
        )
    return found


SPECS = Registry()
