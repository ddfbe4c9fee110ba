"""The tiny mechanisms of the library, each fitted once in a process."""

import functools
import time
from types import SimpleNamespace

import pytest

from dptext.mechanism import Mechanism
from dptext.mechanisms.redaction.pii import PiiRedaction, PiiRedactionMechanism
from dptext.mechanisms.registry import SPECS
from dptext.text.samples import sample_records

NEURAL = ("adept", "adept_dpsgd", "published_adept", "deep_candidate", "candidates", "truncation", "embedded", "erae")


@functools.cache
def fitted(kind: str, i: int = 0) -> Mechanism[str]:
    """The mechanism at the i-th of the tiny settings of its kind; it is frozen, so that tests can share it."""
    if kind in NEURAL:
        pytest.importorskip("torch").set_num_threads(1)
    if kind == "pii_redaction":  # without the package of its tagger
        return PiiRedactionMechanism(PiiRedaction(), SimpleNamespace(analyze=lambda **_: []), "none")
    began = time.process_time()
    mechanism = SPECS[kind].tiny()[i].fit(public=sample_records(100), seed=0)
    assert time.process_time() - began < 10  # loading torch and opacus takes some seconds of it
    return mechanism
