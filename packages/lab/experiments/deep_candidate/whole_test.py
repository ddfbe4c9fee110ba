"""All test reviews of IMDB through one `dptext privatize`, to texts and embeddings in Parquet; where the time goes.

python packages/lab/experiments/deep_candidate/whole_test.py --out build/deep_candidate/whole_test

Fits on public training reviews with their labels, saves the model, and runs the command in this process with a clock
around the encoder, the splitter, the utilities and the choice. The corpus is found by DPTEXT_DATA.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from grid import SEED, drawn, read_corpus

from dptext.cli.app import app
from dptext.embeddings.sentence_encoder import SentenceEncoder
from dptext.mechanisms.sentences import candidate_choice
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.mechanisms.sentences.document_candidates import FittedCandidates
from dptext.runs.models import save_model
from dptext.sampling.exponential import Exponential

#: Seconds in each part.
CLOCK = {"encoding": 0.0, "splitting into sentences": 0.0, "utilities": 0.0, "choosing": 0.0}


def clocked(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the work and adds its time to a part."""

    def timed(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            CLOCK[part] += time.perf_counter() - began

    return timed


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public", type=int, default=5300)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    train, test = read_corpus("imdb")
    source, target, model = (given.out / name for name in ("test.jsonl", "released.parquet", "model"))
    spec = DeepCandidate(
        given.epsilon, ("neg", "pos"), utility="mixed", output="both", precision=given.precision, max_sentences=0
    )
    began = time.perf_counter()
    if not model.exists():
        save_model(spec.fit(public=drawn(train, given.public), seed=SEED), model)
        print(f"fitted on {given.public} public reviews in {time.perf_counter() - began:.0f} s", flush=True)
    with source.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": record.text}) + "\n" for record in test)
    setattr(SentenceEncoder, "embed", clocked("encoding", SentenceEncoder.embed))  # noqa: B010
    setattr(candidate_choice, "sentences", clocked("splitting into sentences", candidate_choice.sentences))  # noqa: B010
    setattr(FittedCandidates, "utilities", clocked("utilities", FittedCandidates.utilities))  # noqa: B010
    setattr(Exponential, "choose", clocked("choosing", Exponential.choose))  # noqa: B010
    CLOCK.update(dict.fromkeys(CLOCK, 0.0))
    began = time.perf_counter()
    try:
        app(["privatize", str(source), str(target), "--model", str(model), "--force"], standalone_mode=False)
    finally:
        source.unlink()
    whole = time.perf_counter() - began
    # Loading encodes a few public sentences: they are among the encoding, and not worth telling apart.
    CLOCK["utilities"] -= CLOCK["encoding"]
    parts = {**CLOCK, "the rest (loading, checks, files)": whole - sum(CLOCK.values())}
    released = pq.read_table(target)
    print(f"{released.num_rows} reviews, columns {', '.join(released.column_names)}: {whole:.0f} s", file=sys.stderr)
    print("\n| part | seconds | share |\n|---|---|---|")
    for part, seconds in parts.items():
        print(f"| {part} | {seconds:.0f} | {seconds / whole:.1%} |")
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
