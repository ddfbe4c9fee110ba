"""Checks of releases: one for each record, whatever the batch, and the same from a model that is loaded."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from dptext.mechanism import output_fault, seen, settings
from dptext.sampling.source import secure, seeded
from dptext.testing.case import Case, require
from dptext.text.records import Release

_RELABELLED = 6


def check_order(case: Case) -> None:
    """One release a record, with its id, in order, of what the spec promises; an empty batch gives none."""
    released = list(case.mechanism.privatize(case.batch, secure()))
    require([r.id for r in released] == [r.id for r in case.batch], "one release a record, with its id, in order")
    require(all(isinstance(release, Release) for release in released), "every answer is a Release")
    require(list(case.mechanism.privatize([], secure())) == [], "an empty batch gives no releases")
    fault = output_fault(case.mechanism.spec, released)
    require(fault is None, f"every release holds what the spec promises: {fault}")
    vectors = [release.vector for release in released if release.vector is not None]
    require(len(set(map(len, vectors))) < 2, "all vectors have one length")
    require(bool(np.isfinite(vectors).all()), "every vector is finite")


def check_batches(case: Case) -> None:
    """With a seeded stream a record's output depends on its position and the seed alone, not on the batch."""
    mechanism, batch, seed = case.mechanism, case.batch, case.seed
    released = list(mechanism.privatize(batch, seeded(seed)))
    for i in sorted({0, 1, len(batch) // 2, len(batch) - 1}):
        alone = mechanism.privatize([batch[i]], seeded(seed).at(i))[0]
        require(same(alone, released[i]), f"record {i} alone gives what it gives in the batch")
    for size in (1, 3, len(batch) // 2):
        pieces: list[Release[str]] = []
        for start in range(0, len(batch), size):
            pieces += mechanism.privatize(batch[start : start + size], seeded(seed).at(start))
        require(all(map(same, pieces, released)), f"batches of {size} give what one batch gives")
    if not mechanism.spec.traits.reads_labels:
        start, labels = len(batch) - _RELABELLED, (None, *mechanism.spec.traits.labels, "other")
        relabelled = [replace(record, label=labels[i % len(labels)]) for i, record in enumerate(batch[start:])]
        again = mechanism.privatize(relabelled, seeded(seed).at(start))
        require(all(map(same, again, released[start:])), "labels that the traits say nobody reads change nothing")


def same(left: Release[str], right: Release[str]) -> bool:
    """Whether two releases are equal in all that can be seen of them."""
    return left.id == right.id and seen(left) == seen(right) and left.label == right.label


def check_model(case: Case) -> None:
    """A fitted model that is saved and loaded gives the same outputs, and what is saved holds no private text."""
    mechanism = case.mechanism
    mechanism.privatize(case.odd, secure())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mechanism.save(folder)
        for path in folder.rglob("*"):
            if path.is_file():
                require(not case.leaks(path.read_bytes().decode("utf-8", "replace")), "no private text in a model")
        loaded = mechanism.spec.load(folder)
    require(settings(loaded.spec) == settings(mechanism.spec), "a loaded model has the same settings")
    require(dict(loaded.digests) == dict(mechanism.digests), "a loaded model has the same digests")
    outputs = mechanism.privatize(case.batch, seeded(case.seed))
    require(
        all(map(same, loaded.privatize(case.batch, seeded(case.seed)), outputs)),
        "a loaded model gives the same outputs",
    )
