"""Four installed packages that write with language models, on trial without their models.

Nothing is downloaded: where a package loads a model it is given a tiny one of random numbers, and its own code does the
rest. What a package draws from, clips, copies and seeds does not depend on how well the model writes. `stand_ins` puts
empty modules where a package imports a runtime that is not used here.

All bounds of a package hold together with confidence 95%. Exit code 1: at least one claim is refuted.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from trial import furnish

from dptext import audits
from dptext.privacy import accounting
from dptext.privacy.events import ApproximateEvent, PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness
from dptext.text.tokens import TOKEN_COUNT

SPECIAL = ("<pad>", "<s>", "</s>", "<mask>", "<unk>")
WORDS = ("good", "bad", "paris", "the")
VOCABULARY = (
    *SPECIAL,
    *WORDS,
    ".",
    "!",
    *(a + b for a in "bcdfghjklmnprstvwz" for b in ("ao", "el", "in", "um", "ys", "et")),
)
DELTA = 1e-5


class Calls:
    """A package that is called once for each run, and draws for itself."""

    def __init__(self, call: Callable[[str], str | np.ndarray]) -> None:
        self.call = call

    def sample(self, value: str, runs: int, randomness: Randomness) -> Sequence[str] | np.ndarray:
        """Outputs of `runs` calls."""
        with contextlib.redirect_stdout(io.StringIO()):
            found = [self.call(value) for _ in range(runs)]
        return found if isinstance(found[0], str) else np.array(found)


def stand_ins(*names: str) -> None:
    """Empty modules for what is imported and not used."""
    for name in names:
        sys.modules[name] = MagicMock()


def small_models(home: Path) -> Path:
    """Models of random numbers, with one tokenizer that knows the vocabulary by words."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token=SPECIAL[4]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [("<s>", 1), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", ends)
    names = zip(("pad", "bos", "eos", "mask", "unk", "cls", "sep"), (*SPECIAL, *SPECIAL[1:3]), strict=True)
    special = {f"{name}_token": word for name, word in names}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **special)
    fast.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    ids = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    dims = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    torch.manual_seed(0)
    networks = {
        "bert": BertForMaskedLM(BertConfig(**ids, **dims, initializer_range=1.0, max_position_embeddings=512)),
        "bart": BartForConditionalGeneration(
            BartConfig(
                **ids, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=512,
            )
        ),
        "llama": LlamaForCausalLM(LlamaConfig(**ids, **dims, initializer_range=1.0, max_position_embeddings=512)),
    }  # fmt: skip
    for name, network in networks.items():
        network.save_pretrained(home / name)
        fast.save_pretrained(home / name)
    return home


# ------------------------------------------------------------------------ the packages


def dpmlm(home: Path) -> tuple[audits.Sampler, Guarantee]:
    """Each word drawn with epsilon 1, as its paper says; clip bounds for this model."""
    stand_ins("presidio_analyzer")
    from dpmlm import DPMLM

    theirs = DPMLM(str(home / "bert"), calibration={"clip_min": -10.0, "clip_max": 10.0, "sensitivity": 20.0})
    claim = accounting.guarantee([PureEvent(1.0)], unit=Unit.TOKEN, basis=Basis.CLAIMED, reveals=[TOKEN_COUNT])
    return Calls(lambda text: theirs.dpmlm_rewrite(text, 1.0)[0]), claim


def privfill(home: Path) -> tuple[audits.Sampler, Guarantee]:
    """Noise of (1, 1e-5) on the encoder of its DP-BART. What is seen is how the first two noisy vectors differ."""
    from privfill.mechanisms import DPBart

    theirs = DPBart(str(home / "bart"))
    theirs.tokenizer = AutoTokenizer.from_pretrained(home / "bart")  # theirs reads byte pairs only
    name = "calibrateAnalyticGaussianMechanism_precision"
    setattr(theirs, name, functools.cache(getattr(theirs, name)))  # the same number, found once

    def noisy(text: str) -> np.ndarray:
        with torch.no_grad():
            states = theirs.model.encoder(**theirs.tokenizer(text, return_tensors="pt"))["last_hidden_state"]
        first, second = theirs.noise(theirs.clip(states), 1.0)[0, 1:3].numpy()
        return np.round(first - second, 6)

    return Calls(noisy), approximate(1.0, DELTA)


def invink(home: Path) -> tuple[audits.Sampler, Guarantee]:
    """Each call writes one text of four tokens from one private text, with the seed that it has by default."""
    theirs = mended_invink(home)
    module = sys.modules[theirs.generate.__module__]
    for name in ("load_hf_model", "load_hf_tokenizer", "get_clip", "get_epsilon"):
        setattr(module, name, functools.cache(getattr(module, name)))  # found once; each call is seeded anew

    def written(text: str) -> str:
        settings = {
            "pub_prompt": "{}",
            "prv_prompt": "{} {}",
            "num": 1,
            "max_toks": 4,
            "batch_size": 2,
            "dtype": "float32",
            "device_map": -1,
            "delta": DELTA,
        }
        found = theirs.generate([text], str(home / "llama"), "words", epsilon=1.0, print_text=True, **settings)
        return found.texts[0]

    # Their neighbours leave a text out; for one text against another both are left out.
    return Calls(written), approximate(2.0, (1 + np.e) * DELTA)


def mended_invink(home: Path):
    """The package with the quotes of one message changed, on which Python 3.11 stops."""
    found = importlib.util.find_spec("invink")
    for file in Path(found.origin).parent.glob("*.py"):
        target = home / "mended" / "invink" / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text("utf-8").replace('{"all devices" if', "{'all devices' if").replace(
            'device_map == "auto" else device_map}', "device_map == 'auto' else device_map}"
        ), "utf-8")  # fmt: skip
    sys.path.insert(0, str(home / "mended"))
    import invink

    return invink


def dpst(_: Path) -> tuple[audits.Sampler, Guarantee]:
    """A text in which no triple is found, as none can be in a word: a stand-in for the finder finds none."""
    vllm = ("vllm", "vllm.utils", "vllm.utils.platform_utils")
    stand_ins(*vllm, "weaviate", "weaviate.classes", "weaviate.classes.query", "openie", "datasketch")
    stand_ins("sentence_transformers")
    from dpst import DPST

    theirs = object.__new__(DPST)
    theirs.get_triples_ie = lambda _: []
    claim = accounting.guarantee([PureEvent(1.0)], unit=Unit.DOCUMENT, basis=Basis.CLAIMED)
    return Calls(lambda text: theirs.privatize([text], epsilon=1.0)[0]), claim


def approximate(epsilon: float, delta: float) -> Guarantee:
    """What is claimed for a document."""
    return accounting.guarantee([ApproximateEvent(epsilon, delta)], delta, unit=Unit.DOCUMENT, basis=Basis.CLAIMED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all trials; 1 when a claim is refuted."""
    parser = argparse.ArgumentParser(description="Four installed packages on trial.")
    parser.add_argument("--trials", type=int, default=1_000, help="runs on each input of a pair")
    trials = parser.parse_args(arguments).trials
    os.environ["HF_HUB_OFFLINE"] = "1"
    rows, refuted = [], False
    with tempfile.TemporaryDirectory() as folder:
        furnish(Path(folder))
        (Path(folder) / "nltk_data" / "tokenizers" / "punkt").mkdir()  # or it is looked for in the net
        home = small_models(Path(folder))
        given = ("good good good bad", "good bad bad bad")
        packages = {"dpmlm": dpmlm, "privfill": privfill, "invink": invink, "dpst": dpst}
        tried = {"dpmlm": audits.WRITING_FAULTS, "invink": ["fixed seed"], "dpst": ["verbatim"]}
        for package, make in packages.items():
            start = time.process_time()
            theirs, claim = make(home)
            if package == "privfill":
                reports = {"one noise for all tokens": audits.distinguish(theirs, *given, claim=claim, trials=trials)}
            else:
                words = (*WORDS[:3], *VOCABULARY[11:], "the") if package == "invink" else WORDS
                reports = audits.audit_writing(theirs, claim=claim, faults=tried[package], words=words, trials=trials)
            seconds = time.process_time() - start
            for name, report in reports.items():
                print(f"== {package} {version(package)}, {name}\n{report.explain(claim)}\n", flush=True)
                verdict = report.refutes(claim)
                refuted |= verdict
                rows.append(
                    f"| {package} {version(package)} | {name} | {claim.epsilon:g} | {report.epsilon_lower_bound:.3g} | "
                    f"{'REFUTED' if verdict else 'not refuted'} | {seconds:.0f} |"
                )
    print("| package | trial | claimed | at least | verdict | CPU seconds, all its trials |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return int(refuted)


if __name__ == "__main__":
    sys.exit(main())
