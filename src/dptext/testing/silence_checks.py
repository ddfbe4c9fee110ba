"""Checks of what is shown: no private text comes back, is printed, logged, raised, kept or told by files."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np

from dptext.privacy.guarantee import Basis
from dptext.sampling.source import secure
from dptext.testing.case import Case, require
from dptext.testing.shapes import left_behind, told_by_shapes
from dptext.text.records import Record

_COPIES = 32
_FUNCTION_WORDS = ("of", "and", "is", "was", "with", "the", "to", "in", "it", "that", "a", ".", ",")
_REACHABLE = 200_000


def check_verbatim(case: Case) -> None:
    """No fallback: unknown words, odd texts and labels out of range get a release, and never come back.

    Words may come back where the spec says that it keeps them. It must not state a pure epsilon then.
    """
    claim, kept = case.mechanism.spec.guarantee(), case.mechanism.spec.traits.keeps_words
    require(not kept or claim.basis is Basis.NONE or claim.delta > 0, "what keeps words states no pure epsilon")
    for record in case.odd:
        for release in case.mechanism.privatize([record] * (1 if len(record.text) > 1000 else 20), secure()):
            require(kept or not case.leaks(release.output), "an unknown word never comes back")
            require(release.label is None or not case.leaks(str(release.label)), "a private label never comes back")
    if claim.basis is not Basis.NONE:
        record = Record("0", " ".join(_FUNCTION_WORDS))
        outputs = [release.output.split() for release in case.mechanism.privatize([record] * _COPIES * 4, secure())]
        for i, word in enumerate(_FUNCTION_WORDS):
            require(any(output[i : i + 1] != [word] for output in outputs), "no word is copied every time")


def check_silence(case: Case) -> None:
    """No private text in what is printed, logged, warned, raised, shown by repr, or kept."""
    canary, mechanism = case.canary, case.mechanism
    broken = [Record("0", f"{canary} \ud800"), Record("1", canary, label="\ud800" + canary)]
    with listening() as heard:
        mechanism.privatize(case.odd, secure())
        for record in broken:
            try:
                mechanism.privatize([record], secure())
            except Exception as error:  # noqa: BLE001  # whatever it is, it must not hold the text
                told = "".join(traceback.format_exception(error, limit=0))
                require(not case.leaks(told + _arguments(error)), "no private text in an error")
        mechanism.spec.guarantee().explain()
    require(not case.leaks(heard()), "no private text is printed, logged or warned about")
    require(not case.leaks(repr(mechanism) + str(mechanism) + repr(mechanism.spec)), "no text shows in any repr")
    require(not any(case.leaks(text) for text in _strings_held_by(mechanism)), "no private text is kept")


def _arguments(error: BaseException) -> str:
    """What an error and those behind it carry, also where they do not print it: a UnicodeError keeps the whole text."""
    told = ""
    behind: BaseException | None = error
    while behind is not None:
        told += repr(behind.args)
        behind = behind.__cause__ or behind.__context__
    return told


@contextlib.contextmanager
def listening() -> Iterator[Callable[[], str]]:
    """Collect what is printed, logged and warned."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    caught: list[warnings.WarningMessage] = []
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield lambda: stream.getvalue() + "".join(str(warning.message) for warning in caught)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _strings_held_by(thing: object) -> Iterator[str]:
    """Texts that can be reached from an object's own data."""
    seen: set[int] = set()
    on_classes = [vars(kind) for kind in type(thing).__mro__ if kind.__module__ != "builtins"]
    waiting: deque[object] = deque(
        [thing, *(value for names in on_classes for value in names.values())]
    )  # breadth first, because there may be more objects than can be looked at
    skipped = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
    while waiting and len(seen) < _REACHABLE:
        found = waiting.popleft()
        if id(found) in seen or isinstance(found, skipped):
            continue
        seen.add(id(found))
        if isinstance(found, str):
            yield found
        elif isinstance(found, bytes | bytearray):
            yield found.decode("utf-8", "replace")
        elif isinstance(found, np.ndarray):
            if found.dtype.kind in "USO":
                waiting += found.ravel().tolist()
        else:
            waiting += gc.get_referents(found)
            if isinstance(found, dict):
                waiting += found  # the collector does not count keys that are texts among the referents


def check_files(case: Case) -> None:
    """From file to file: no private text in the output or its certificate, and nothing else is left behind."""
    texts = [record.text for record in case.odd if "\x00" not in record.text]
    broken = left_behind(case.mechanism, texts, case.leaks)
    require(broken is None, str(broken))


def check_shapes(case: Case) -> None:
    """Files of every format, marks and states of resuming do not tell how long private texts are."""
    broken = told_by_shapes(case.mechanism, case.words[0])
    require(broken is None, str(broken))
