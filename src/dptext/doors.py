"""The doors: groups of entry points by which installed packages bring names to dptext.

A package declares what it brings in its `pyproject.toml`, such as a noise of `dptext audit whitebox --noise`::

    [project.entry-points."dptext.noises"]
    triangular = "their_package:triangular"

The names of the library come first, then those of packages. A package is imported when a name of its own is first asked
for. No package can take a name of the library, or of the library's own packages `dptext-lab` and `dptext-gateway`.
These two have the version of the library.

Importing this module is cheap, and a table of commands needs no other import. Entry points are read when somebody first
asks for a name that the library does not have.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from dptext.errors import ConfigError, MissingExtraError, to_install

if TYPE_CHECKING:  # importing it takes a tenth of the time that `dptext --help` needs
    from importlib.metadata import EntryPoint

Thing = TypeVar("Thing")

#: Our own packages that bring names: each extra, and the package that it installs.
PACKAGES: Final = {"lab": "dptext-lab", "gateway": "dptext-gateway"}
#: The extra that brings each of our own names, by the group of entry points. "dptext" has the attributes of `dptext`.
OWN: Final[Mapping[str, Mapping[str, str]]] = {
    "dptext": dict.fromkeys(
        (
            *("Adept", "AdeptDpSgd", "CountRedaction", "DpPrompt", "ErAe", "PiiRedaction", "Prediction"),
            *("PrivatePhrases", "PublishedAdept", "RandomRedaction", "RandomReplacement", "SentDp", "SmartRedaction"),
        ),
        "lab",
    ),
    "dptext.mechanisms": dict.fromkeys(
        (
            *("adept", "adept_dpsgd", "count_redaction", "dp_prompt", "erae", "pii_redaction", "private_phrases"),
            *("published_adept", "random_redaction", "random_replacement", "sentdp", "smart_redaction"),
        ),
        "lab",
    ),
    "dptext.syntheses": {"prediction": "lab"},
    "dptext.commands": {
        **dict.fromkeys(("compare", "demo-adept", "papers", "report"), "lab"),
        **dict.fromkeys(("audit sensitivity", "audit reconstruction", "audit trait", "audit divergence"), "lab"),
        **dict.fromkeys(("serve", "keys", "keys create", "keys list", "keys revoke", "keys rotate"), "gateway"),
    },
    "dptext.noises": dict.fromkeys(("published_laplace", "classical_gaussian"), "lab"),
    "dptext.rankers": {"adept": "lab"},
    "dptext.classifiers": {"bilstm": "lab"},
    "dptext.writers": {},
    "dptext.audits": dict.fromkeys(
        (
            *("Claim", "DivergenceReport", "DivergenceSettings", "Reconstruction", "TraitReport", "feasible"),
            *("infer_trait", "infer_trait_from_releases", "measure", "measure_vectors", "random_candidates"),
            *("reconstruct", "simulate", "violating_pairs"),
        ),
        "lab",
    ),
}


#: The end of the error for an attribute that `dptext` does not have.
MOVED: Final = " Names that moved are listed in decision 22, docs/decisions/0022-packages.md."


@dataclass(frozen=True, slots=True)
class Command:
    """A line of a table of commands, which a package brings by an entry point of `dptext.commands`.

    Attributes:
        place: "module:function", imported when the command runs; empty for a group of commands.
        help: a sentence or two.
        section: the section of `dptext --help`; not for commands of a group.
        example: a whole command line; empty for a group.
    """

    place: str
    help: str
    section: str = ""
    example: str = ""


class Door(Mapping[str, Thing], Generic[Thing]):
    """The objects of a group of entry points, by name.

    Those of the library come first, in the order of `ours`. Those of packages follow, in the order of the alphabet.

    Attributes:
        group: the group of entry points that packages use.
        ours: the place of each object of the library by name, such as "dptext.mechanisms.embedded:Embedded".
        what: the noun in errors, such as "mechanism".
        taken: further names that no package can take.
    """

    def __init__(self, group: str, ours: Mapping[str, str], *, what: str, taken: Collection[str] = ()) -> None:
        self.group, self.ours, self.what, self.taken = group, ours, what, taken
        self.loaded: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        """The object of this name.

        KeyError: the name is unknown. ConfigError: two packages bring the name, or its package is unusable.
        MissingExtraError: its package needs an extra that is absent.
        """
        if name not in self.loaded:
            self.loaded[name] = loaded(self.ours[name]) if name in self.ours else self._brought(self.brought[name])
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.ours, *sorted(self.brought)])

    def __len__(self) -> int:
        return len(self.ours) + len(self.brought)

    def __contains__(self, name: object) -> bool:
        return name in self.ours or name in self.brought

    def named(self, name: str, said: str) -> Thing:
        """Return the object of this name. `said` quotes the user in errors, such as "--noise 'laplace'".

        ConfigError: the name is unknown.
        """
        if name not in self:
            raise ConfigError(f"Expected {said} to be one of {', '.join(self)}.{absent(self.group, name)}")
        return self[name]

    def usable(self, say: Callable[[str], None] = lambda _: None) -> dict[str, Thing]:
        """All usable objects by name. `say` gets the error message of each name whose package is unusable."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except (ConfigError, MissingExtraError) as error:
                say(str(error))
        return found

    def package(self, name: str) -> str:
        """Return name and version of the package of others that brings a name; empty for the library's and ours."""
        own = name in self.ours or name in OWN.get(self.group, {})
        some = [] if own else [each.dist for each in self.brought.get(name, []) if each.dist is not None]
        return ", ".join(f"{each.name} {each.version}" for each in some)

    def wrong(self, name: str, found: object) -> str:
        """Return what an object of a package should have been, such as "to be callable", or "" if it is right.

        The error is "Expected OBJECT of the package PACKAGE", followed by this.
        """
        return "" if callable(found) else f"to be callable, as a {self.what} is"

    @cached_property
    def brought(self) -> dict[str, list[EntryPoint]]:
        """The entry points of packages by name: several if packages bring one name."""
        found: dict[str, list[EntryPoint]] = {}
        for point in points(self.group):
            if point.name not in self.ours and point.name not in self.taken and may_bring(point, point.name):
                found.setdefault(point.name, []).append(point)
        return found

    def _brought(self, some: list[EntryPoint]) -> Thing:
        point = only([(package_of(point), point) for point in some], f"the {self.what} {some[0].name!r}")
        found: Any = loaded_from(point, f"The {self.what} {point.name!r}")
        if wrong := self.wrong(point.name, found):
            raise ConfigError(f"Expected {point.value!r} of the package {package_of(point)} {wrong}.")
        checked: Thing = found
        return checked


def absent(group: str, name: str) -> str:
    """Say which package of ours brings a name, and what installs it; empty for any other name."""
    extra = OWN.get(group, {}).get(name)
    return f" It is in {PACKAGES[extra]}. {to_install(f'dptext[{extra}]')}" if extra else ""


def loaded(place: str) -> Any:
    """Import the object at "module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def points(group: str) -> list[EntryPoint]:
    """The entry points of a group in all installed packages. What they name is not imported."""
    if not _mentioned(group):
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415 (slow to import)

    return [*entry_points(group=group)]


def _mentioned(group: str) -> bool:
    """Whether the list of entry points of any installed package contains the name of a group.

    To search the lists for the name takes a tenth of the time of parsing them. A place on the path that is no folder,
    such as a zip, is not searched: the answer is then yes.
    """
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 (pathlib takes twice as long)
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for name in names:
            if name.lower().endswith((".dist-info", "egg-info")):
                with contextlib.suppress(OSError), open(f"{place or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                    if group.encode() in file.read():
                        return True
    return False


def package_of(point: EntryPoint) -> str:
    """The name of the package that declares an entry point, as it is installed."""
    return point.dist.name if point.dist else point.value


def may_bring(point: EntryPoint, name: str) -> bool:
    """Whether the package of an entry point may bring a name. Our own packages alone bring our own names."""
    return name not in OWN.get(point.group, {}) or _is_ours(point)


def _is_ours(point: EntryPoint) -> bool:
    return package_of(point).lower().replace("_", "-") in ("dptext", *PACKAGES.values())


def only(some: list[tuple[str, Thing]], what: str) -> Thing:
    """Return the one thing that a package brings. ConfigError: several packages do, and none is preferred."""
    if len(some) > 1:
        packages = ", ".join(sorted(package for package, _ in some))
        raise ConfigError(f"Expected one package to bring {what}, found {packages}: remove one.")
    return some[0][1]


def loaded_from(point: EntryPoint, what: str) -> Any:
    """Load an entry point. `what` begins the sentence of an error, such as "The noise 'laplace'".

    ConfigError: the package cannot be imported, or is ours and of another version than the library. MissingExtraError:
    the package needs an extra that is absent.
    """
    package = package_of(point)
    if point.dist and _is_ours(point):
        from dptext.version import __version__  # noqa: PLC0415 (slow to import)

        if point.dist.version != __version__:
            raise ConfigError(
                f"Expected {package} {__version__} beside dptext {__version__}, found {package} {point.dist.version}. "
                "Install both of one version."
            )
    try:
        return point.load()
    except MissingExtraError:
        raise
    except Exception as error:  # foreign packages may fail in any way
        raise ConfigError(unusable(what, package, error)) from error


def unusable(what: str, package: str, error: Exception) -> str:
    """Say that something of a package cannot be imported, and what to do."""
    return (
        f"{what} of the package {package} cannot be imported ({type(error).__name__}: {error}). "
        f"Install {package} again, or remove it."
    )
