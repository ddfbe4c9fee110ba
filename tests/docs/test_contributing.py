"""CONTRIBUTING.md adds a mechanism, that of tests/package. Faults that are planted in it do not keep the contract.

tests/e2e/test_their_mechanism.py runs the other code and the commands of the page, where that package is installed.
"""

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from dptext.mechanism import Mechanism
from dptext.mechanisms import bases
from dptext.testing import CHECKS, ContractError, check_mechanism
from dptext.text.records import Record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a mechanism")[2]
PACKAGE = ROOT / "tests" / "package"
CODE = (PACKAGE / "headline.py").read_text("utf-8")
DRAW = "self.spec.choice.choose(scores[len(chosen) : len(chosen) + n], source)"


def block(language: str) -> str:
    """The first block of code in that language."""
    return PAGE.split(f"```{language}\n")[1].partition("```")[0]


def test_the_page_shows_the_package() -> None:
    assert block("python") == CODE
    points = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    assert tomllib.loads(block("toml"))["project"]["entry-points"] == points


def test_what_the_page_says_is_so() -> None:
    assert "[fifteen checks]" in PAGE
    assert len(CHECKS) == 15
    for name in ("OneEpsilon", "OneUnit", "NoGuarantee"):
        assert f"`{name}`" in PAGE
        assert isinstance(getattr(bases, name), type)
    for path in ("src/dptext/registry.py", "src/dptext/__init__.pyi", "docs/guides/choose-a-mechanism.md"):
        assert f"`{path}`" in PAGE
        assert (ROOT / path).is_file()


@pytest.mark.parametrize(
    ("sound", "planted", "check"),
    [
        pytest.param(DRAW, "scores[len(chosen) : len(chosen) + n].argmax(axis=1)", "guarantee", marks=pytest.mark.slow),
        ("self.spec.choice.choose(", "Headline(3 * self.spec.epsilon).choice.choose(", "guarantee"),
        ("[self._texts[i] for i in chosen]", "batch.texts", "verbatim"),
        pytest.param(
            "(self.choice.event,)", "(TopKEvent(self.epsilon / 2, 1, self.size),)", "guarantee", marks=pytest.mark.slow
        ),
    ],
)
def test_a_fault_in_it_is_caught(sound: str, planted: str, check: str, tmp_path: Path) -> None:
    assert CODE.count(sound) == 1
    toy = imported(CODE.replace(sound, planted), tmp_path / "faulty.py")
    public = [Record(str(i), text) for i, text in enumerate(["good news", "bad weather", "the election", "paris"])]
    mechanism: Mechanism[str] = toy.Headline(2.0).fit(public=public)
    with pytest.raises(ContractError):
        check_mechanism(mechanism, checks=[check])


def imported(code: str, path: Path) -> ModuleType:
    path.write_text(code, "utf-8")
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
