"""The list of mechanisms: ours, and those that installed packages bring.

A package registers a mechanism of its own by an entry point. The name of the entry point is the kind, its value is the
class of the spec::

    [project.entry-points."dptext.mechanisms"]
    headline = "headline:Headline"

A mechanism is imported when its kind is first asked for. Data name kinds, never modules: no file that is read can have
anything imported that is not installed as a mechanism.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from dptext.errors import ConfigError
from dptext.mechanism import Promise, Spec

GROUP = "dptext.mechanisms"

#: A new mechanism of ours is registered by one line here: its kind, and where its spec is.
OURS = {
    "word_metric": "words.word_metric:WordMetric",
    "private_phrases": "words.baselines:PrivatePhrases",
    "adept": "adept.sound:Adept",
    "adept_dpsgd": "adept.dpsgd:AdeptDpSgd",
    "published_adept": "adept.published:PublishedAdept",
    "label_only": "candidates.label_only:LabelOnly",
    "deep_candidate": "sentences.deep_candidate:DeepCandidate",
    "candidates": "candidates.candidates:Candidates",
    "truncation": "sentences.truncation:Truncation",
    "erae": "erae.erae:ErAe",
    "dp_prompt": "paraphrase.dp_prompt:DpPrompt",
    "random_replacement": "words.baselines:RandomReplacement",
    "syntf": "words.syntf:SynTf",
    "random_redaction": "redaction.random:RandomRedaction",
    "count_redaction": "redaction.random:CountRedaction",
    "smart_redaction": "redaction.smart:SmartRedaction",
    "pii_redaction": "redaction.pii:PiiRedaction",
    "embedded": "embedded:Embedded",
}


class Registry(Mapping[str, type[Spec]]):
    """Specs by kind: ours first, then those of packages in the order of their kinds."""

    def __init__(self) -> None:
        self.loaded: dict[str, type[Spec]] = {}

    def __getitem__(self, kind: str) -> type[Spec]:
        """The class of the spec, else KeyError; ConfigError: two packages bring it, or its package is unusable."""
        if kind not in self.loaded:
            if kind in OURS:
                self.loaded[kind] = EntryPoint(kind, f"{GROUP}.{OURS[kind]}", GROUP).load()
            else:
                self.loaded[kind] = _loaded(self._theirs[kind])
        return self.loaded[kind]

    def __iter__(self) -> Iterator[str]:
        return iter([*OURS, *sorted(self._theirs)])

    def __len__(self) -> int:
        return len(OURS) + len(self._theirs)

    def __contains__(self, kind: object) -> bool:
        return kind in OURS or kind in self._theirs

    def usable(self, say: Callable[[str], None] = lambda _: None) -> dict[str, type[Spec]]:
        """All specs that can be used; `say` is told what is wrong with the package of each kind that is left out."""
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
        for point in entry_points(group=GROUP):
            if point.name not in OURS:  # no package can take the place of one of ours
                found.setdefault(point.name, []).append(point)
        return found


def _loaded(points: list[EntryPoint]) -> type[Spec]:
    """The spec of a package's entry point; two points of one name are refused, as neither is the right one."""
    point, *others = points
    packages = ", ".join(sorted(each.dist.name if each.dist else each.value for each in points))
    if others:
        raise ConfigError(f"Expected one package to bring the mechanism {point.name!r}, found {packages}: remove one.")
    try:
        found = point.load()
    except Exception as error:  # the package of somebody else may fail in any way
        raise ConfigError(
            f"The mechanism {point.name!r} of the package {packages} cannot be imported ({type(error).__name__}: "
            f"{error}). Install {packages} again, or remove it."
        ) from error
    kinds = [each.default for each in fields(found) if each.name == "kind"] if is_dataclass(found) else []
    if not isinstance(found, type) or kinds != [point.name]:
        wanted = f"to be a spec: a dataclass whose field `kind` is {point.name!r}"
        raise ConfigError(f"Expected {point.value!r} of the package {packages} {wanted}.")
    offered = {**vars(Promise), **vars(Spec)}
    if missing := [name for name in offered if not name.startswith("_") and not hasattr(found, name)]:
        lacks = ", ".join(missing)
        raise ConfigError(f"Expected {point.value!r} of the package {packages} to be a spec: it has no {lacks}.")
    return found


SPECS = Registry()
