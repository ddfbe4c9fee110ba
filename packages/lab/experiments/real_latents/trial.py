"""Share of pairs of real utterances whose clipped vectors violate ADePT's claimed sensitivity.

The encoder is the mean of public word vectors (GloVe 50d) of each utterance of ATIS and SNIPS. Finds the corpora by
DPTEXT_DATA (default ../shared/data beside the checkout): `python packages/lab/experiments/real_latents/trial.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dptext import Fields, audits, read_records
from dptext.embeddings.vector_files import load_word_vectors
from dptext.sampling.clipping import Norm
from dptext.text.tokens import tokenize

sys.path.append(str(Path(__file__).parents[1]))
from common import corpus_file

CORPORA = ("atis", "snips")


def main() -> int:
    """Print the table."""
    files = {name: corpus_file(name) for name in CORPORA}
    words = load_word_vectors("glove", 50_000)
    print("| corpus | utterances | clip | C / median norm | % of pairs that violate 2C |")
    print("|---|---|---|---|---|")
    for name, path in files.items():
        texts = sorted({record.text for record in read_records(path, Fields(text="text"))})
        rows = []
        for text in texts:
            known = [i for i in words.index_of([token for line in tokenize(text) for token in line]) if i >= 0]
            rows.append(words.vectors[known].mean(axis=0) if known else np.zeros(words.dim))
        latents = np.asarray(rows, np.float64)
        median = float(np.median(np.linalg.norm(latents, axis=1)))
        for clipped in (Norm.L2, Norm.L1):
            for multiple in (0.25, 0.5, 1.0, 2.0):
                claim = audits.Claim(dim=words.dim, clip_norm=multiple * median, clipped=clipped)
                share = audits.violating_pairs(latents, claim, max_pairs=200_000)
                print(
                    f"| {name} | {len(texts):,} | {clipped} | {multiple:g} | {100 * share.value:.2f} "
                    f"[{100 * share.low:.2f}, {100 * share.high:.2f}] |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
