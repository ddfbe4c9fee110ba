"""The marker `slow_cases`: which cases of a test wait for `make test-all`, said beside the test.

`@pytest.mark.slow_cases("postgresql", "1-sqlite", why="...")` marks a case as slow if its id, the text in brackets, has
one of the texts as a part between dashes or ends: `[postgresql]`, `[7-postgresql]` and `[1-sqlite-x]`, but not
`[11-sqlite]`. A text that is in no id is an error: the case that it named is gone or has another name.
"""

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Pytest makes all cases of a test at once, also where only one of them is to run."""
    made = yield
    cases = [each for each in made if isinstance(each, pytest.Function)] if isinstance(made, list) else []
    for marker in cases[0].iter_markers("slow_cases") if cases else ():
        for text in marker.args:
            slow = [case for case in cases if f"-{text}-" in f"-{case.name.partition('[')[2].removesuffix(']')}-"]
            if not slow:
                raise pytest.Collector.CollectError(f"{cases[0].nodeid.partition('[')[0]} has no case {text!r}")
            for case in slow:
                case.add_marker(pytest.mark.slow)
    return made
