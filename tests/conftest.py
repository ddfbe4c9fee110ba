"""Shared settings: Hypothesis without deadlines, as the first example pays for imports."""

import gc
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from examples import EXAMPLES

settings.register_profile("dptext", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("dptext")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # what is collected stays: to look for garbage in it takes seconds
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a small vocabulary."""
    from vectors import write_vectors

    return write_vectors(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small networks on one thread: two of them wait for each other where the workers of pytest share the cores."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


from postgres import postgres  # noqa: E402, F401  # the fixture: one server for the session
from slow_cases import pytest_pycollect_makeitem  # noqa: E402, F401  # the hook: cases that are marked slow
