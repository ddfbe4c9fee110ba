"""Settings of all tests. README, docs and docstrings are tests, too.

Their python blocks run, and their >>> examples must print what they show.
"""

import gc
import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

from examples import EXAMPLES
from installing import installed, interpreter  # noqa: F401  # fixtures: one installation for the session
from postgres import postgres  # noqa: F401  # the fixture: one server for the session
from slow_cases import pytest_pycollect_makeitem  # noqa: F401  # the hook: cases that are marked slow
from vectors import write_vectors

# Hypothesis has no deadlines, as the first example pays for imports.
settings.register_profile("dptext", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("dptext")

# CONTRIBUTING.md has a test of its own, which puts its code into a file outside the package.
PAGES = [
    "README.md",
    "packages/*/README.md",
    *(f"docs/{folder}/*.md" for folder in ("tutorials", "guides", "concepts", "reference")),
]


class Docstrings(PythonDocStringDocument):
    """Docstrings of a module with examples. To find them takes long, and most modules have none."""

    @staticmethod
    def extract_docstrings(python_source_code: str) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and text of each docstring, if there is an example."""
        if ">>>" in python_source_code:
            yield from PythonDocStringDocument.extract_docstrings(python_source_code)


documents = Sybil(parsers=[PythonCodeBlockParser()], patterns=PAGES)
docstrings = Sybil(
    parsers=[DocTestParser()],
    patterns=[f"{tree}/{depth}*.py" for tree in ("src/dptext", "packages/*/dptext_*") for depth in ("", "**/")],
    document_types={".py": Docstrings},
)
pytest_collect_file = (documents + docstrings).pytest()

#: Pages whose examples wait for `make test-all`: the accounting of trainings takes seconds, and has tests of its own.
SLOW_PAGES = ("docs/tutorials/dp-sgd.md",)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the examples of slow pages, which are no functions that a marker could stand beside."""
    for item in items:
        if item.nodeid.partition("::")[0] in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)


evaluated: set[pytest.Item] = set()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Examples build on those before them on their page, which another worker may have taken."""
    if isinstance(item, SybilItem):
        page = (other for other in item.session.items if other.parent is item.parent)
        for earlier in itertools.takewhile(lambda other: other is not item, page):
            if earlier not in evaluated:
                earlier.example.evaluate()
                evaluated.add(earlier)
        evaluated.add(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and keep all that was made out of its later collections.

    Thousands of tests and modules stay to the end: without them each collection of garbage is ten times as fast.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # models and books that stay are looked at seldom: a seventh of the time
        gc.enable()


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a small vocabulary."""
    return write_vectors(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small networks on one thread: two of them wait for each other where the workers of pytest share the cores."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
