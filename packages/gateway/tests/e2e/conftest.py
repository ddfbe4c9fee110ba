"""The page of a gateway, for each test its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def page(tmp_path: Path) -> Iterator[object]:
    pytest.importorskip("uvicorn")
    from gateway_pages import opened

    with opened(tmp_path) as found:
        yield found
