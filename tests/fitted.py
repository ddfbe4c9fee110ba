"""The tiny mechanisms of the library, each fitted once in a process."""

import functools
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import tiny_language
from dptext.mechanism import Mechanism
from dptext.registry import MECHANISMS
from dptext.text.samples import sample_records
from dptext_lab.baselines.dp_prompt import DpPrompt, DpPromptMechanism
from dptext_lab.redaction.pii import PiiRedaction, PiiRedactionMechanism

NEURAL = ("adept", "adept_dpsgd", "published_adept", "sentdp", "candidates", "truncation", "embedded", "erae")


@functools.cache
def language_model() -> Any:
    """The tiny language model, with a digest as others have."""
    pytest.importorskip("numba")
    return replace(tiny_language.model(), digest="0" * 64)


@functools.cache
def fitted(kind: str, i: int = 0) -> Mechanism[str]:
    """The mechanism at the i-th of the tiny settings of its kind; it is frozen, so that tests can share it."""
    if kind in NEURAL:
        pytest.importorskip("torch").set_num_threads(1)
    if kind == "pii_redaction":  # without the package of its tagger
        return PiiRedactionMechanism(PiiRedaction(), SimpleNamespace(analyze=lambda **_: []), "none")
    if kind == "dp_prompt":  # without the package of its language model
        return DpPromptMechanism(DpPrompt.tiny()[i], language_model())
    began = time.process_time()
    mechanism = MECHANISMS[kind].tiny()[i].fit(public=sample_records(100), seed=0)
    assert time.process_time() - began < 10  # loading torch and opacus takes some seconds of it
    return mechanism
