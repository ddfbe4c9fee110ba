"""Where the time of some jobs goes, and what the machine would need for the same work at least.

`OMP_NUM_THREADS=1 python benchmarks/profiles.py`: 2,000 records of SNIPS (where DPTEXT_DATA, default ../shared/data,
has it; else of the built-in sample) go through `privatize_file` and are summarized with words and topics; then the
model `builtin` writes 16 texts from the summary. Seconds are of the processor. The floor of a part is the longer of its
operations at the fastest rate of products that this processor has in any precision, and its bytes at the rate of a
copy, both measured here. Reading, writing and tokens count the bytes of their text, a language model the
products of each token that it reads. Exits 1 where encoding takes more than five times its floor, or where what no part
explains takes more than a quarter of a job.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dptext.language.llama
import dptext.language.writing
import dptext.runs.files
from _timing import Rows, seconds
from adept import corpus
from dptext import Candidates, WordMetric, write
from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.sentence_encoder import SentenceEncoder
from dptext.embeddings.tfidf import TfidfSvd
from dptext.kernels.linear import best_there_is
from dptext.language.llama import LlamaContexts
from dptext.mechanism import Mechanism
from dptext.mechanisms.candidates.rankers import Ranker
from dptext.mechanisms.words.vocabulary import WordPoints
from dptext.runs.private import Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import run
from dptext.sampling.envelope import EnvelopeResponse
from dptext.sampling.float_noise import MetricNoise
from dptext.sampling.privunit import PrivUnit
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.sums import PrivateSum
from dptext.text.records import Fields
from dptext.text.writers import _AppendingWriter
from dptext_lab import Adept
from dptext_lab.adept import net as adept
from dptext_lab.adept.net.model import AnnotatedModel
from sentence_encoder import PRODUCTS, products_of_a_layer

MOST_OF_FLOOR, MOST_REST = 5.0, 0.25
RECORDS, ROUNDS, WRITTEN = 2000, 2, 16
#: A summary of all blocks, and public drafts for the model that writes from it.
SUMMARY: dict[str, Any] = {"kind": "summary", "topics": 64, "marks": 5, "drafts": 64, "about": RECORDS}
Work = Callable[..., tuple[float, float]]  # operations and bytes copied, of what a call returned and its arguments


class Clock:
    """Processor time by part; a part within a part counts for itself alone."""

    def __init__(self) -> None:
        self.open, self.since = ["rest"], time.process_time()
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: list[tuple[str, Work, Any, tuple[Any, ...]]] = []

    def switch(self) -> None:
        now = time.process_time()
        self.seconds[self.open[-1]] += now - self.since
        self.since = now

    def timed(self, part: str, call: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        self.switch()
        self.open.append(part)
        found = call(*args, **settings)
        self.switch()
        self.open.pop()
        return found

    def watch(self, owner: Any, name: str, part: str, work: Work) -> None:
        """Time every call of a function, and keep what says how much work it was."""
        inner = getattr(owner, name)

        def watched(*args: Any, **settings: Any) -> Any:
            found = self.timed(part, inner, *args, **settings)
            self.calls.append((part, work, found, args))
            parts = iter(lambda: self.timed(part, next, found, None), None)
            return (one for one in parts) if isinstance(found, Iterator) else found

        setattr(owner, name, watched)


def encoding(_: Any, encoder: SentenceEncoder, texts: list[str]) -> tuple[float, float]:
    """The linear layers, for each word piece."""
    weights = sum(len(linear.bias) * linear.n_in for layer in encoder.network.bert.layers for linear in layer.linear)
    return 2.0 * weights * sum(map(len, encoder.network.pieces(sorted(set(texts))))), 0.0


def decoding(found: list[tuple[str | None, str]], model: AnnotatedModel, *_: Any) -> tuple[float, float]:
    """The LSTM and the choice of a word, for each word and the end of each text."""
    words = sum(len(text.split()) + 1 for _, text in found)
    return 2.0 * words * sum(p.numel() for name, p in model.model.named_parameters() if "embed" not in name), 0.0


def reading(_: Any, contexts: LlamaContexts, owners: Any, *__: Any) -> tuple[float, float]:
    """The linear layers of a language model, for each token."""
    layers = contexts._network.layers
    linear = (one for each in layers for one in (each.attention, each.mixed, each.widened, each.narrowed))
    return 2.0 * sum(len(one.bias) * one.n_in for one in linear) * len(owners), 0.0


def next_word(found: Any, contexts: LlamaContexts, *_: Any) -> tuple[float, float]:
    """The scores of all tokens, for each text."""
    return 2.0 * len(contexts._network.head.bias) * contexts._network.head.n_in * len(found), 0.0


def rates() -> tuple[float, float]:
    """Operations a second of the fastest products, and bytes a second of a copy, one thread; the best of five."""
    a, b, c = np.ones((1500, 1500), np.float32), np.ones(1 << 25), np.ones(1 << 25)
    tiles = {best_there_is(asked) for asked in ("float32", "bfloat16", "int8")}
    taken = seconds(
        {
            "copy": lambda: np.copyto(c, b),
            "NumPy": lambda: np.matmul(a, a),
            **{precision: products_of_a_layer(precision) for precision in tiles},
        },
        5,
        clock=time.process_time,
    )
    best = {name: min(each) for name, each in taken.items()}
    tile = max(PRODUCTS / best[precision] for precision in tiles)
    return max(2 * 1500**3 / best["NumPy"], tile), b.nbytes / best["copy"]


def main() -> int:
    assert os.environ.get("OMP_NUM_THREADS") == "1", "Expected OMP_NUM_THREADS=1: floors are those of one thread."
    name, records = corpus()
    order, half = np.random.default_rng(0).permutation(len(records)), len(records) // 2
    public, private = [records[i] for i in order[:half]], [records[i] for i in order[half:][:RECORDS]]
    labels, (gemm, copy) = tuple(sorted({str(record.label) for record in records})), rates()
    print(f"{name}, {len(private)} records, one thread: products {gemm / 1e9:.0f} GFLOP/s, copy {copy / 1e9:.1f} GB/s")
    jobs: dict[str, Mechanism[str]] = {
        "word metric, 50,000 words": WordMetric(epsilon=10.0).fit(),
        "candidates": Candidates(epsilon=8.0, labels=labels).fit(public=public[:2000], seed=0),
        "ADePT, codebook": Adept(epsilon=8.0, labels=labels, epochs=1).fit(public=public[:800], seed=0),
        "ADePT, LSTM": Adept(epsilon=8.0, labels=labels, epochs=1, noise="privunit").fit(public=public[:800], seed=0),
    }
    clock = Clock()
    for owner, function, part, work in (
        (dptext.runs.files, "read_batches", "reading", lambda _, path, *__: (0, path.stat().st_size)),
        (_AppendingWriter, "write", "writing", lambda *of: (0, sum(len(r.output) for r in of[2]))),
        (WordPoints, "lines", "tokens", lambda *of: (0, sum(len(r.text) for r in of[2]))),
        (WordPoints, "indices", "tokens", lambda *of: (0, of[0].nbytes)),
        (MetricNoise, "release", "noise", lambda *of: (0, of[0].nbytes)),
        (PrivUnit, "release", "noise", lambda *of: (0, of[0].nbytes)),
        (NearestWords, "search", "search", lambda _, of, rows: (2.0 * rows.size * len(of.vectors), rows.nbytes / 2)),
        (SentenceEncoder, "embed", "encoding", encoding),
        (Ranker, "cosines", "scores", lambda *of: (2.0 * of[0].size * of[2].shape[1], 3.0 * of[0].size)),
        (adept, "scores", "scores", lambda *of: (2.0 * of[0].size * of[2].shape[1], 3.0 * of[0].size)),
        *(
            (each, "choose", "choice", lambda *of: (0, of[2].nbytes / 2))
            for each in (EnvelopeResponse, TopKRandomizedResponse)
        ),
        (AnnotatedModel, "write", "decoding", decoding),
        (TfidfSvd, "embed", "TF-IDF", lambda *_: (0, 0)),
        (Lexicon, "marks", "words", lambda *of: (0, sum(map(len, of[2])))),
        (PrivateSum, "release", "noise", lambda found, *_: (0, found.nbytes)),
        (LlamaContexts, "_read", "reading tokens", reading),
        (LlamaContexts, "_head", "scores of tokens", next_word),
        (dptext.language.llama, "log_probabilities", "probabilities", lambda found, *_: (0, found.nbytes)),
        *((dptext.language.writing, each, "choice", lambda *_: (0, 0)) for each in ("options_of", "draw_by_weight")),
    ):
        clock.watch(owner, function, part, work)
    rows = Rows()
    summary = synthesis_from_settings({**SUMMARY, "labels": list(labels)}).fit(public=[r.text for r in public[:2000]])
    work: dict[str, Callable[[Path], object]] = {
        **{job: partial(privatized, mechanism) for job, mechanism in jobs.items()},
        "summary": lambda source: run(Private(source, Fields(label="label"), {}), summary),
    }
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "private.jsonl"
        lines = ({"id": record.id, "text": record.text, "label": record.label} for record in private)
        source.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        written: Synthesized = work["summary"](source)
        for job, of in {
            **work,
            "write, builtin": lambda _: write(written, writer="builtin", size=WRITTEN, seed=1),
        }.items():
            report(rows, clock, job, partial(of, source), WRITTEN if job not in work else len(private), (gemm, copy))
    return rows.code


def report(rows: Rows, clock: Clock, job: str, work: Callable[[], object], n: int, rates: tuple[float, float]) -> None:
    """Print the parts of a job of n records or texts."""
    rounds = [profiled(clock, work, rates) for _ in range(1 + ROUNDS)][1:]
    for part in sorted(rounds[0][0], key=lambda part: -rounds[0][0][part]):
        taken = [times[part] for times, _ in rounds]
        shares = [times[part] / sum(times.values()) for times, _ in rounds]
        rows.add(f"{job}: {part}", "of the job's time", shares, most=MOST_REST if part == "rest" else None)
        rows.note(f"{job}: {part}", "microseconds a record", [1e6 * each / n for each in taken])
        floor = rounds[0][1][part]
        over = [each / floor.max() for each in taken] if floor.any() else []
        if part == "encoding":
            rows.add(f"{job}: {part}", "times its floor", over, most=MOST_OF_FLOOR)
        elif part in {"reading tokens", "scores of tokens"}:
            rows.add(f"{job}: {part}", "times its floor", over)
        elif over:
            rows.note(f"{job}: {part}", f"times its floor by {('operations', 'memory')[int(floor.argmax())]}", over)


def privatized(mechanism: Mechanism[str], source: Path) -> None:
    """Privatize a file."""
    with tempfile.TemporaryDirectory() as folder:
        dptext.runs.files.privatize_file(source, Path(folder) / "out.jsonl", mechanism)


def profiled(
    clock: Clock, work: Callable[[], object], rates: tuple[float, float]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Run a job: the seconds of each part, and what its operations and its bytes would take."""
    clock.__init__()
    work()
    clock.switch()
    floors: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for part, of, found, args in clock.calls:
        floors[part] += np.divide(of(found, *args), rates)
    return clock.seconds, floors


if __name__ == "__main__":
    sys.exit(main())
