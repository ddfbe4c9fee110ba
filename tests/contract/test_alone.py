"""Every certificate that takes texts of a batch to be read alone says what it costs where that fails."""

from dataclasses import replace

import pytest

from dptext.embeddings.embedder import HIDDEN
from dptext.registry import MECHANISMS

READ = {  # by a network whose last bits another text of the batch can change
    "adept": "the encoder reads a text",
    "adept_dpsgd": "the encoder reads a text",
    "candidates": "the sentence encoder reads a sentence",
    "deep_candidate": "the sentence encoder reads a sentence",
    "sentdp": "the sentence encoder reads a sentence",
    "truncation": "the sentence encoder reads a sentence",
    "erae": "the network computes a text",
}
RANKED = {"ranker": "adept", "ranker_model": "folder"}


@pytest.mark.parametrize("kind", READ)
def test_the_cost_of_a_flipped_rounding_is_stated(kind: str) -> None:
    spec = MECHANISMS[kind].tiny()[0]
    if kind in ("deep_candidate", "sentdp", "truncation"):  # the tiny ones read by words, each text alone
        assert not any("alone" in text for text in spec.guarantee().assumptions)
        spec = replace(spec, encoder="sentence" if kind == "truncation" else "all-MiniLM-L6-v2")
        assert not any("alone" in text for text in spec.guarantee().assumptions)  # computed by itself on a processor
        spec = replace(spec, device="cuda")
    if kind in ("adept", "adept_dpsgd"):  # an LSTM is computed on the processor, whatever the device
        for device in ("cpu", "cuda"):
            assert not any("alone" in text for text in replace(spec, device=device).guarantee().assumptions)
        spec = replace(spec, encoder="sentence", device="cuda")
    specs = [spec]
    if kind == "candidates":
        assert not any("alone" in text for text in spec.guarantee().assumptions)
        spec = replace(spec, ranker="sentence")
        assert not any("alone" in text for text in spec.guarantee().assumptions)
        specs = [replace(spec, device="cuda"), replace(spec, **RANKED, device="cuda")]
        assert not any("alone" in text for text in replace(spec, **RANKED).guarantee().assumptions)
    if kind == "erae":
        assert not any("alone" in text for text in spec.guarantee().assumptions)
        specs = [replace(spec, device="cuda")]
    for one in specs:
        (assumed,) = (text for text in one.guarantee().assumptions if "alone" in text)
        assert assumed.endswith(HIDDEN)
        assert "up to epsilon again" in assumed
    (first,) = (text for text in specs[0].guarantee().assumptions if "alone" in text)
    assert first.startswith(READ[kind])
