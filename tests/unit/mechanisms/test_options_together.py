"""Every two options of a mechanism or a synthesis are fitted and run together once, or refused with the settings."""

from __future__ import annotations

import functools
import importlib
import itertools
import random
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
import tiny_language
from dptext.embeddings.distilled import common_words
from dptext.embeddings.encoders import PublicVectors
from dptext.errors import ConfigError
from dptext.registry import MECHANISMS, SYNTHESES
from dptext.runs.models import load_model, save_model
from dptext.sampling.randomness import seeded
from dptext.synthesis.sums import Draws
from dptext.text.batches import Batch
from fitted import NEURAL

RECORDS = dp.sample_records(100)
PRIVATE = [replace(record, author=f"a{i % 7}") for i, record in enumerate(dp.sample_records(60, seed=4))]
LABELS = ("health", "travel", "money", "leisure")
#: Where a pupil of the sentence encoder takes its common words: with all of them it learns for half a minute.
TAUGHT = (
    "dptext.synthesis.space", "dptext.mechanisms.candidates.rankers", "dptext.mechanisms.sentences.truncation",
    "dptext.mechanisms.sentences.candidate_fit",
)  # fmt: skip
#: Options whose type does not list them.
OTHERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "deep_candidate": {"encoder": ("glove", "distilled", "all-MiniLM-L6-v2")},
    "sentdp": {"encoder": ("glove", "distilled", "all-MiniLM-L6-v2"), "labels": ((), LABELS)},
    "embedded": {"encoder": ("glove", "all-MiniLM-L6-v2")},
    "prototypes": {"names": ((), LABELS[::-1]), "dim": (0, 1, 8)},
    "votes": {"dim": (1, 8)},
    "topics": {"dim": (1, 8), "topics": (2, 4)},
    "prediction": {"topics": (0,), "rounds": (0, 1), "per_text": (0, 2), "examples": (0, 2)},
    "steering": {
        "topics": (0,),
        "words": (0,),
        "examples": (0, 2),
        "matches": (0, 1),
        "names": ((), ("trips", "cash")),
    },
}
#: What an option needs beside it.
NEEDS: dict[tuple[str, Any], dict[str, Any]] = {
    ("adept", "gaussian"): {"delta": 1e-6},
    ("adept_dpsgd", "gaussian"): {"release_delta": 1e-6},
}
#: Options that no settings can have here: they need labels, a folder, or a delta that the tiny settings lack.
NEVER: dict[str, set[tuple[str, Any]]] = {
    "label_only": {("labels", ())},
    "prototypes": {("labels", ())},
    "candidates": {("ranker", "adept")},
    "erae": {("choice", "two_set_sampled")},
}
#: Settings of which some values exclude each other, as their docstrings say.
APART = {
    "deep_candidate": {frozenset(("labels", "utility"))},
    "sentdp": {frozenset(("labels", "recoder"))},
    "prediction": {frozenset(("per_text", "rounds"))},
    "steering": {frozenset(("labels", "names"))},
}


def options(kind: str, spec: type) -> dict[str, tuple[Any, ...]]:
    """The values of each setting that has a few."""
    hints, found = typing.get_type_hints(spec), dict(OTHERS.get(kind, {}))
    labelled = [each.labels for each in spec.tiny() if getattr(each, "labels", ())]
    for name, kinds in ((each.name, hints[each.name]) for each in fields(spec) if each.init):
        if typing.get_origin(kinds) is typing.Literal or kinds is bool:
            found[name] = (False, True) if kinds is bool else typing.get_args(kinds)
        elif kind in SYNTHESES and name in ("words", "topics") and name not in found:
            found[name] = (0, 8) if name == "words" else (0, 4) if kind == "prototypes" else (4,)
    return found | ({"labels": ((), labelled[0])} if labelled and "labels" not in found else {})


def rows(kind: str, spec: type) -> tuple[list[Any], set[Any]]:
    """Specs in which every two options meet, and the pairs that no spec can have."""
    there, tiny, rng = options(kind, spec), spec.tiny(), random.Random(0)
    every = [(name, value) for name in there for value in there[name]]
    todo = {frozenset([one]) for one in every} | {
        frozenset(p) for p in itertools.combinations(every, 2) if p[0][0] != p[1][0]
    }
    found, refused = [], set()

    def drawn(pair: Any) -> Any:
        row = {name: rng.choice(values) for name, values in there.items()} | dict(pair)
        for value in tuple(row.values()):
            row |= NEEDS.get((kind, value), {}) if isinstance(value, str) else {}
        try:
            return row, replace(rng.choice(tiny), **row)
        except ConfigError:
            return None

    while todo:
        pair = min(todo, key=repr)
        usable = [each for _ in range(60) if (each := drawn(pair))]
        if not usable:
            refused.add(pair)
            todo.remove(pair)
            continue
        met = [{each for each in todo if each <= set(row.items())} for row, _ in usable]
        best = max(range(len(usable)), key=lambda i: len(met[i]))
        found.append(usable[best][1])
        todo -= met[best]
    return found, refused


@pytest.fixture(scope="module")
def quick(one_thread: None) -> Iterator[None]:
    """Pupils know few common words, public vectors are kept, and what writes has a tiny model."""
    with pytest.MonkeyPatch.context() as patch, PublicVectors().learning():
        for name in TAUGHT:
            patch.setattr(importlib.import_module(name), "common_words", lambda: ["doctor", "zebra"])
        patch.setattr("dptext.synthesis.fitting.common_words", functools.cache(common_words))  # takes .3 s
        for module in (
            "dptext_lab.baselines.prediction",
            *tiny_language.LOADING,
        ):
            patch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model())
        yield


def mechanism(spec: Any, folder: Path) -> None:
    """Fit, release, and release the same from a saved model."""
    fitted = spec.fit(public=RECORDS, seed=0)
    save_model(fitted, folder)
    first, again = (list(each.privatize(RECORDS[:3], seeded(1))) for each in (fitted, load_model(folder)))
    assert first == again


def synthesis(spec: Any, _: Path) -> None:
    """Fit, and write a corpus."""
    fitted = spec.fit(public=RECORDS, seed=0)
    found = fitted.synthesize(lambda: (batch for batch in [Batch.of(PRIVATE)]), Draws(seeded(1)))
    assert set(found.labels) <= set(spec.labels or (None,))
    assert spec.writes or not found.texts
    assert set(fitted.digests) >= {"public"}


CASES: list[tuple[str, Any, Callable[[Any, Path], None]]] = [
    *((kind, spec, mechanism) for kind, spec in MECHANISMS.items() if kind not in ("pii_redaction", "dp_prompt")),
    *((kind, spec, synthesis) for kind, spec in SYNTHESES.items()),
]


#: Fits of networks, and of documents, whose own tests take each option.
SLOW = (*NEURAL, "deep_candidate")


@pytest.mark.slow_cases("topics", "votes", why="prototypes have their options and more")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("kind", "spec", "run"),
    [pytest.param(*case, id=case[0], marks=pytest.mark.slow if case[0] in SLOW else ()) for case in CASES],
)
@pytest.mark.filterwarnings("error")
def test_every_two_options_meet(kind: str, spec: Any, run: Callable[[Any, Path], None], tmp_path: Path) -> None:
    found, refused = rows(kind, spec)
    for i, each in enumerate(found):
        run(each, tmp_path / str(i))
    left = {pair for pair in refused if not pair & NEVER.get(kind, set())}
    assert {frozenset(name for name, _ in pair) for pair in left} == APART.get(kind, set())
