"""CONTRIBUTING.md adds a mechanism: in a file outside the package its code keeps the contract; faults in it do not."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dptext.mechanism import Mechanism, Spec
from dptext.mechanisms.registry import SPECS
from dptext.testing import ContractError, check_mechanism
from dptext.text.records import Record

ROOT = Path(__file__).parents[2]
DRAW = "self._choice.choose(scores[start : start + n], source)"


def blocks() -> list[str]:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a mechanism")[2]
    return [block.partition("```")[0] for block in section.split("```python\n")[1:]]


def imported(code: str, folder: Path, name: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(code, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def test_the_mechanism_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    code, use = blocks()
    toy = imported(f"{code}\n{use}", tmp_path, "headline")  # the second block runs check_mechanism
    assert isinstance(toy.spec, Spec)
    assert "headline" not in SPECS
    toy.mechanism.save(tmp_path)
    assert toy.mechanism.spec.load(tmp_path).digests == toy.mechanism.digests


@pytest.mark.parametrize(
    ("sound", "planted", "check"),
    [
        pytest.param(DRAW, "scores[start : start + n].argmax(axis=1)", "guarantee", marks=pytest.mark.slow),
        ("TopKRandomizedResponse(spec.epsilon, 1,", "TopKRandomizedResponse(3 * spec.epsilon, 1,", "guarantee"),
        ("self._headlines[i], kept", "record.text, kept", "verbatim"),
        pytest.param(
            "TopKEvent(self.epsilon, 1, self.size)",
            "TopKEvent(self.epsilon / 2, 1, self.size)",
            "guarantee",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_fault_in_it_is_caught(sound: str, planted: str, check: str, tmp_path: Path) -> None:
    code = blocks()[0]
    assert sound in code
    toy = imported(code.replace(sound, planted), tmp_path, "faulty")
    public = [Record(str(i), text) for i, text in enumerate(["good news", "bad weather", "the election", "paris"])]
    mechanism: Mechanism[str] = toy.Headline(2.0).fit(public=public)
    with pytest.raises(ContractError):
        check_mechanism(mechanism, checks=[check])
