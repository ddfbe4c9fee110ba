"""README, docs and docstrings are tests: python blocks run, >>> examples must print what they show."""

import gc
import itertools

import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

# CONTRIBUTING.md has a test of its own, which puts its code into a file outside the package.
PAGES = ["README.md", *(f"docs/{folder}/*.md" for folder in ("tutorials", "guides", "concepts", "reference"))]
documents = Sybil(parsers=[PythonCodeBlockParser()], patterns=PAGES)
docstrings = Sybil(
    parsers=[DocTestParser()],
    patterns=["src/dptext/*.py", "src/dptext/**/*.py"],
    document_types={".py": PythonDocStringDocument},
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


def pytest_collection_finish() -> None:
    """Thousands of tests and modules stay to the end: without them each collection of garbage is ten times as fast.

    None is made before, which would take seconds: what is garbage now stays as well.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # models and books that stay are looked at seldom: a seventh of the time


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
