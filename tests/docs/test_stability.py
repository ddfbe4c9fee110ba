"""The pages on stability and licences: what they list is what there is."""

import ast
import importlib
import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

import pytest

from dptext.embeddings.embedder import PACKAGE

ROOT = Path(__file__).parents[2]
STABILITY = (ROOT / "docs" / "reference" / "stability.md").read_text("utf-8")
LICENCES = (ROOT / "docs" / "reference" / "licences.md").read_text("utf-8")
#: The packages of the three wheels.
TREES = (ROOT / "src" / "dptext", *sorted(path for path in ROOT.glob("packages/*/dptext_*") if path.is_dir()))


def rows(page: str, title: str) -> list[list[str]]:
    """The rows of the table under a title, without its head."""
    lines = page.partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def code(cell: str) -> str:
    (found,) = re.findall("`([^`]+)`", cell)
    return found


def test_every_bundled_file_is_on_the_page_of_licences() -> None:
    bundled = {
        f"{tree.name}/{path.relative_to(tree).as_posix()}"
        for tree in TREES
        for path in tree.rglob("*")
        if path.is_file()
        and path.suffix not in {".py", ".pyi"}
        and path.name != "py.typed"
        and "__pycache__" not in path.parts
    }
    listed = [code(row[0]) for row in rows(LICENCES, "Data in the wheels")]
    assert len(listed) == len(set(listed))
    assert set(listed) == bundled
    assert len(TREES) == 3


WEIGHTS = {code(row[0]): row for row in rows(LICENCES, "Weights that are installed separately")}


def test_every_package_of_weights_is_on_the_page() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["deptry"]["per_rule_ignores"]
    language = re.findall(r"^([\w-]+)==", (ROOT / "locks" / "language.txt").read_text("utf-8"), re.MULTILINE)
    data = {name for name in rules["DEP002"] if not name.startswith("dptext-")}  # depended on and never imported
    assert set(WEIGHTS) == {PACKAGE.replace("_", "-"), *data, *language}


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_page_has_the_version_and_licence_of_the_package(name: str) -> None:
    _, stated, licence, *_ = WEIGHTS[name]
    locks = "".join((ROOT / "locks" / file).read_text("utf-8") for file in ("dev.txt", "language.txt"))
    assert f"{name}=={stated} " in locks
    try:
        assert version(name) == stated
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert licence in (metadata(name)["License-Expression"], metadata(name)["License"])


def test_the_page_of_stability_has_every_group_of_entry_points() -> None:
    listed = [code(row[0]) for row in rows(STABILITY, "Entry points")]
    decision = (ROOT / "docs" / "decisions" / "0022-packages.md").read_text("utf-8")
    doors = decision.partition("**Entry points")[2].partition("\n- **")[0]
    assert set(listed) == {f"dptext{name}" for name in re.findall(r"`(?:dptext)?(\.[a-z]+)`", doors)}
    for path in (
        ROOT / "pyproject.toml",
        *ROOT.glob("packages/*/pyproject.toml"),
        ROOT / "tests/package/pyproject.toml",
    ):
        assert set(tomllib.loads(path.read_text("utf-8"))["project"].get("entry-points", {})) <= set(listed), path


def modules_used(source: str, known: set[str]) -> set[str]:
    """The modules of the library's command line that a source imports, without "dptext.cli."."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            whole = [f"{node.module}.{each.name}" for each in node.names]
            names = [name if name in known else node.module for name in whole]
        else:
            continue
        found |= {name.removeprefix("dptext.cli.") for name in names if name.startswith("dptext.cli.")}
    return found


MODULES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src" / "dptext" / "cli").rglob("*.py")
}


def test_our_packages_use_no_other_module_of_the_command_line_than_the_page_lists() -> None:
    table = rows(STABILITY, "Modules of the command line that packages may use")
    listed = {code(row[0]): re.findall("`([^`]+)`", row[1]) for row in table}
    assert {f"dptext.cli.{name}" for name in listed} <= MODULES
    for name, brought in listed.items():
        module = importlib.import_module(f"dptext.cli.{name}")
        assert [each for each in brought if not each.startswith("-") and not hasattr(module, each)] == [], name
    for tree in TREES[1:]:
        for path in tree.rglob("*.py"):
            assert modules_used(path.read_text("utf-8"), MODULES) <= set(listed), path


def test_imports_of_the_command_line_are_seen() -> None:
    source = "from dptext.cli import audit, options\nfrom dptext.cli.init import init\nimport dptext.cli.check, numpy"
    assert modules_used(source, MODULES) == {"audit", "options", "init", "check"}
