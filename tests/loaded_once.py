"""The packaged sentence encoder, loaded once in a process: to hash and read its weights takes a third of a second."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dptext.embeddings import sentence_encoder


@functools.cache
def _once() -> Callable[..., Any]:
    return functools.cache(sentence_encoder.load_sentence_encoder)


@pytest.fixture(scope="module")
def encoder_once() -> Iterator[None]:
    """All loads of the module's tests give the same encoder. Its vectors are computed as ever."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sentence_encoder, "load_sentence_encoder", _once())
        yield
