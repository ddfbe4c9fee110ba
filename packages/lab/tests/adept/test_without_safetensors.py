"""Without the package `safetensors` each network that is saved says what to install, before it is trained."""

import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("torch")

from dptext.errors import MissingExtraError
from dptext.mechanism import Spec
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.text.samples import sample_records
from dptext_lab.adept.dpsgd import AdeptDpSgd
from dptext_lab.adept.published import PublishedAdept
from dptext_lab.adept.sound import Adept
from dptext_lab.erae.erae import ErAe
from dptext_lab.sentdp.sentdp import SentDp

ROOMS = (
    *("dptext_lab.adept.net", "dptext_lab.erae.net", "dptext_lab.sentdp.fit", "dptext_lab.sentdp.scores"),
    *("dptext_lab.sentdp.recoder", "dptext.mechanisms.sentences.candidates"),
    "dptext.mechanisms.sentences.candidate_fit",
)
BY_LATENTS = replace(Candidates.tiny()[0], ranker="adept", adept="model")
KINDS = (Adept, AdeptDpSgd, PublishedAdept, ErAe, DeepCandidate, SentDp)
DOORS = [kind.tiny()[0] for kind in KINDS]


@pytest.fixture(autouse=True)
def _without_safetensors(monkeypatch):
    with mock.patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.startswith((*ROOMS, "dptext_lab.nets.weights"))]:
            del sys.modules[name]
        for room in ROOMS:
            monkeypatch.delattr(room, raising=False)
        for name in ("safetensors", "safetensors.torch", "safetensors.numpy"):
            sys.modules[name] = None
        yield


@pytest.mark.parametrize("spec", [*DOORS, BY_LATENTS], ids=lambda spec: spec.kind)
def test_nothing_is_fitted_and_the_error_says_what_to_install(spec: Spec) -> None:
    with pytest.raises(MissingExtraError, match=r"needs the package safetensors.*pip install"):
        spec.fit(public=sample_records(60), seed=0)


@pytest.mark.parametrize("spec", DOORS, ids=lambda spec: spec.kind)
def test_nothing_is_loaded_and_the_error_says_what_to_install(spec: Spec, tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"needs the package safetensors.*pip install"):
        spec.load(tmp_path)
