"""CONTRIBUTING.md adds a mechanism, that of tests/package. Faults that are planted in it do not keep the contract.

tests/e2e/test_their_mechanism.py runs the other code and the commands of the page, where that package is installed.
"""

import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dptext.errors import ConfigError
from dptext.mechanism import Mechanism
from dptext.mechanisms import bases
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.privacy.events import TopKEvent
from dptext.sampling.randomness import Randomness
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.testing import CHECKS, CORPUS_CHECKS, ContractError, check_mechanism, check_synthesis
from dptext.text.batches import Batch, Releases
from dptext.text.records import Record
from dptext.text.samples import sample_records

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a mechanism")[2]
PACKAGE = ROOT / "tests" / "package"
CODE = (PACKAGE / "headline.py").read_text("utf-8")


def block(language: str, number: int = 1) -> str:
    """A block of code in that language."""
    return PAGE.split(f"```{language}\n")[number].partition("```")[0]


def test_the_page_shows_the_package() -> None:
    assert block("python") == CODE
    points = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    shown = [tomllib.loads(block("toml", number))["project"]["entry-points"] for number in (1, 2, 3)]
    assert shown[0] | shown[1] | shown[2] == points


def test_what_the_page_says_is_so() -> None:
    assert "[sixteen checks]" in PAGE
    assert len(CHECKS) == 16
    for name in ("OneEpsilon", "OneUnit", "NoGuarantee"):
        assert f"`{name}`" in PAGE
        assert isinstance(getattr(bases, name), type)
    for path in ("src/dptext/registry.py", "src/dptext/__init__.pyi", "docs/guides/choose-a-mechanism.md"):
        assert f"`{path}`" in PAGE
        assert (ROOT / path).is_file()


def test_the_ranker_of_a_package_is_loaded_from_the_setting_that_the_page_names() -> None:
    name = re.search(r"`candidates` loads it from the folder in its\s+setting `(\w+)`", PAGE)
    assert name is not None
    assert name[1] in {each.name for each in fields(Candidates)}
    with pytest.raises(ConfigError, match=f"Expected {name[1]}='' to be "):
        Candidates(epsilon=1.0, ranker="adept")  # the ranker of another package, ours


def test_a_name_is_in_the_module_that_stands_behind_it() -> None:
    named = re.findall(r"`(\w+)`\s+\(`(dptext[\w.]+)`\)", PAGE)
    assert len(named) > 5
    for name, module in named:
        assert hasattr(importlib.import_module(module), name), (name, module)


def test_the_files_that_the_page_names_are_there() -> None:
    new = {"headline", "mottos", "counting"}
    rows = re.findall(r"^\| `([\w./-]+)` \|", PAGE, re.MULTILINE)
    assert len(rows) > 20
    for path in rows:
        found = ROOT / path
        made = found.stem.removeprefix("test_") in new
        assert found.parent.is_dir(), path
        assert made or found.is_file(), path


class Best(TopKRandomizedResponse):
    """It gives the best option, always."""

    def choose(self, scores: Any, source: Randomness) -> Any:
        return scores.argmax(axis=1)


class Eager(TopKRandomizedResponse):
    """It chooses with three times its epsilon."""

    def choose(self, scores: Any, source: Randomness) -> Any:
        return TopKRandomizedResponse(3 * self.epsilon, self.k, self.size).choose(scores, source)


def choosing(kind: type[TopKRandomizedResponse]) -> property:
    """The choice of the mechanism, of another kind."""
    return property(lambda spec: kind(spec.epsilon, k=1, size=spec.size))


def as_they_came(_: object, records: Sequence[Record], randomness: Randomness) -> Releases:
    """The private texts."""
    batch = Batch.of(records)
    return batch.released(batch.texts)


@pytest.mark.parametrize(
    ("place", "planted", "check"),
    [
        pytest.param("Headline.choice", choosing(Best), "guarantee", marks=pytest.mark.slow),
        pytest.param("Headline.choice", choosing(Eager), "guarantee", marks=pytest.mark.slow),
        ("HeadlineMechanism.privatize", as_they_came, "verbatim"),
        pytest.param(
            "Headline.released",
            property(lambda spec: (TopKEvent(spec.epsilon / 2, 1, spec.size),)),
            "guarantee",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["no noise", "three times epsilon", "private texts", "half the cost"],
)
def test_a_fault_in_it_is_caught(place: str, planted: object, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, (owner, name) = imported(), place.split(".")
    monkeypatch.setattr(getattr(toy, owner), name, planted)
    with pytest.raises(ContractError):
        check_mechanism(fitted(toy), checks=[check])


@pytest.mark.parametrize("check", [pytest.param("guarantee", marks=pytest.mark.slow), "verbatim"])
def test_without_a_fault_it_is_not(check: str) -> None:
    check_mechanism(fitted(imported()), checks=[check])


def fitted(toy: ModuleType) -> Mechanism[str]:
    public = [Record(str(i), text) for i, text in enumerate(["good news", "bad weather", "the election", "paris"])]
    return toy.Headline(2.0).fit(public=public)


def imported(name: str = "headline") -> ModuleType:
    """A module of the package as it is, and nobody else's."""
    path = PACKAGE / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


@pytest.mark.slow_cases("0", why="the other one has a unit of authors")
@pytest.mark.parametrize("number", [0, 1])
def test_the_synthesis_of_the_page_keeps_the_contract(number: int) -> None:
    spec = imported("mottos").Mottos.tiny()[number]
    assert check_synthesis(spec.fit(public=sample_records(60, seed=3))) == tuple(CORPUS_CHECKS)


def telling(read: Any) -> Any:
    """Print how many texts each batch has."""
    for batch in read:
        print(len(batch[1]))
        yield batch


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("PrivateSum", lambda real: lambda cells, noise, **_: real(cells, noise)),
        ("units_of", lambda real: lambda corpus, labels: telling(real(corpus, labels))),
    ],
    ids=["an author votes once for each text", "it tells how many texts there are"],
)
def test_a_fault_in_the_synthesis_is_caught(place: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = imported("mottos")
    monkeypatch.setattr(toy, place, fault(getattr(toy, place)))
    with pytest.raises(ContractError):
        check_synthesis(toy.Mottos.tiny()[1].fit(public=sample_records(60, seed=3)), checks=["neighbours"])
