"""Files that forges and editors read say what is so: versions, targets, tools, settings."""

import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from release import STATING, cut, dated, in_version, stated

ROOT = Path(__file__).parents[2]
PROJECTS = {
    name: tomllib.loads((ROOT / name).read_text("utf-8")) for name in STATING if name.endswith("pyproject.toml")
}
VERSION = PROJECTS["./pyproject.toml"]["project"]["version"]
NAMES = {project["project"]["name"] for project in PROJECTS.values()}


def loose(project: dict[str, Any]) -> list[str]:
    """The requirements on our other packages that allow another version than the library's."""
    own = project["project"]
    lines = [
        *own.get("dependencies", ()),
        *(each for extra in own.get("optional-dependencies", {}).values() for each in extra),
    ]
    wanted = [(line, Requirement(line)) for line in lines]
    return [line for line, r in wanted if r.name in NAMES - {own["name"]} and str(r.specifier) != f"=={VERSION}"]


def test_the_three_packages_have_one_version() -> None:
    assert {"dptext", "dptext-gateway", "dptext-lab"} == NAMES
    for name in STATING:
        assert set(stated((ROOT / name).read_text("utf-8"))) == {VERSION}, name
    assert {name: found for name, project in PROJECTS.items() if (found := loose(project))} == {}


@pytest.mark.parametrize("faulty", ["dptext>=0.1.0", "dptext[ledger]==0.0.9", "dptext-lab", "dptext==0.1.*"])
def test_a_pin_that_is_none_is_found(faulty: str) -> None:
    assert loose({"project": {"name": "other", "dependencies": [faulty, "numpy>=2"]}}) == [faulty]
    assert loose({"project": {"name": "other", "optional-dependencies": {"extra": [faulty]}}}) == [faulty]


def test_versions_are_found_and_replaced() -> None:
    text = 'version = "0.1.0"\ntarget-version = "py311"\nall = ["a==1", "dptext-lab==0.1.0", "dptext[a,b2]==0.1.0"]\n'
    assert stated(text) == ["0.1.0"] * 3
    assert in_version(text, "2.0") == text.replace("0.1.0", "2.0")
    assert stated("cff-version: 1.2.0\nversion: 0.1.0\n") == ["0.1.0"]


def test_the_changelog_is_cut() -> None:
    assert cut("# C\n\n## [Unreleased]\n\n- new\n", "2.0", "2030-01-02") == (
        "# C\n\n## [Unreleased]\n\n## [2.0] - 2030-01-02\n\n- new\n"
    )
    assert "[9.9] - 2030-01-02" in cut((ROOT / "CHANGELOG.md").read_text("utf-8"), "9.9", "2030-01-02")
    with pytest.raises(ValueError, match="Unreleased"):
        cut("# C\n", "2.0", "2030-01-02")
    assert dated("version: 1\ndate-released: 2026-01-01\n", "2030-01-02") == "version: 1\ndate-released: 2030-01-02\n"
    with pytest.raises(ValueError, match="date-released"):
        dated("version: 1\n", "2030-01-02")


def test_the_citation_has_what_its_format_asks_for() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(found)
    optional = {"type", "abstract", "version", "license", "keywords", "date-released", "repository-code", "url", "doi"}
    assert set(found) <= {"cff-version", "message", "title", "authors"} | optional
    assert (found["cff-version"], found["type"]) == ("1.2.0", "software")
    assert found["authors"] == [{"name": "the contributors of dptext"}]
    assert found["license"] == PROJECTS["./pyproject.toml"]["project"]["license"]


def test_the_security_policy_names_no_person_and_links_to_what_is_there() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert not re.search(r"\S@\S|https?:", text)


def hooks() -> list[dict[str, Any]]:
    """The hooks of a commit. Each is of this repository: nothing is fetched."""
    (own,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert own["repo"] == "local"
    return own["hooks"]


def run(hook: dict[str, Any], path: Path) -> int:
    """The exit code of a hook for that file, by the tools of this environment."""
    tool, *options = hook["entry"].split()
    assert tool.startswith(".venv/bin/")
    command = [Path(sys.executable).with_name(Path(tool).name), *options, path]
    return subprocess.run(command, check=False, capture_output=True, cwd=ROOT).returncode


@pytest.mark.parametrize(
    ("hook", "good", "bad"),
    [("ruff", "X = 1\n", "import os\n"), ("ruff-format", "X = 1\n", "X  = 1\n")],
)
def test_a_hook_refuses_a_fault(hook: str, good: str, bad: str, tmp_path: Path) -> None:
    (found,) = (each for each in hooks() if each["id"] == hook)
    for name, text, code in (("good", good, 0), ("bad", bad, 1)):
        path = tmp_path / f"{name}.py"
        path.write_text(f'"""A module."""\n\n{text}', "utf-8")
        assert run(found, path) == code, name


@pytest.mark.slow  # mypy reads what the file imports
def test_the_hook_of_types_refuses_a_fault(tmp_path: Path) -> None:
    (found,) = (each for each in hooks() if each["id"] == "mypy")
    path = tmp_path / "wrong.py"
    path.write_text('X: int = "a"\n', "utf-8")
    assert run(found, ROOT / "src/dptext/frozen.py") == 0
    assert run(found, path) == 1


def test_the_hook_of_types_reads_what_mypy_reads() -> None:
    (found,) = (each for each in hooks() if each["id"] == "mypy")
    (folders,) = re.findall(r"\^\((.+)\)/", found["files"])
    assert folders.split("|") == PROJECTS["./pyproject.toml"]["tool"]["mypy"]["files"]
    assert all((ROOT / folder).is_dir() for folder in folders.split("|"))


def settings_of_editors() -> configparser.ConfigParser:
    found = configparser.ConfigParser()
    found.read_string("[top]\n" + (ROOT / ".editorconfig").read_text("utf-8"))
    return found


def faults_of(text: bytes, *, tabs: bool) -> list[str]:
    """In what a file is not as `.editorconfig` says."""
    lines = text.decode("utf-8").split("\n")
    return [
        *(["carriage return"] if b"\r" in text else []),
        *(["no final line end"] if text and not text.endswith(b"\n") else []),
        *(["blanks at the end of a line"] if any(line != line.rstrip(" \t") for line in lines) else []),
        *(["tab"] if not tabs and any(line.startswith("\t") for line in lines) else []),
    ]


def test_files_are_as_editors_are_told() -> None:
    found = settings_of_editors()
    assert found["*.{py,pyi}"].getint("max_line_length") == PROJECTS["./pyproject.toml"]["tool"]["ruff"]["line-length"]
    assert found["Makefile"]["indent_style"] == "tab"
    paths = [
        path for folder in ("src", "packages", "tests", "docs", "benchmarks") for path in (ROOT / folder).rglob("*")
    ]
    kinds = {".py", ".pyi", ".md", ".toml", ".html", ".css", ".js"}
    texts = [
        path
        for path in (*paths, *ROOT.glob("*"), *ROOT.glob(".github/**/*"))
        if path.is_file() and path.suffix in {*kinds, ".yml", ".cff"}
    ]
    assert len(texts) > 500
    assert {
        str(path.relative_to(ROOT)): told for path in texts if (told := faults_of(path.read_bytes(), tabs=False))
    } == {}
    assert faults_of((ROOT / "Makefile").read_bytes(), tabs=True) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"a\r\n", "carriage return"),
        (b"a", "no final line end"),
        (b"a \nb\n", "blanks at the end of a line"),
        (b"\ta\n", "tab"),
    ],
)
def test_a_file_that_is_not_is_found(text: bytes, fault: str) -> None:
    assert fault in faults_of(text, tabs=False)
    assert faults_of(b"a\n\n  b\n", tabs=False) == []


def test_workflows_run_targets_of_the_makefile_on_every_python_of_the_packages() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    ran = {step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step}
    assert {"check", "demo", "plain", "rehearsal", "docs"} == {line.split()[1] for line in ran}
    assert all(re.fullmatch(r"make [a-z-]+( [A-Z]+=\S+)*", line) and line.split()[1] in targets.split() for line in ran)
    assert {
        step["uses"].partition("@")[0] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    } == {
        "actions/checkout",
        "actions/setup-python",
    }
    tried = workflow["jobs"]["check"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in tried["os"]} == {"ubuntu", "macos"}
    for project in PROJECTS.values():
        named = [each.rpartition(" ")[2] for each in project["project"]["classifiers"] if "Python :: 3." in each]
        assert tried["python"] == named
        assert project["project"]["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("target", ["plain", "rehearsal"])
def test_a_target_of_the_distribution_selects_tests(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (line,) = re.findall(rf"^{target}: .*\n\t.+ (tests/e2e/\S+ -k .+)$", makefile, re.MULTILINE)
    file, _, words = line.partition(" -k ")
    tests = re.findall(r'^def (test_\w+)|ids=\["(\w+)"', (ROOT / file).read_text("utf-8"), re.MULTILINE)
    names = [name for found in tests for name in found]
    for word in words.strip("'").split(" or "):
        assert any(word in name for name in names), word
