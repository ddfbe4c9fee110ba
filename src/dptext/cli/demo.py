"""`dptext demo`: the main job on the built-in sample corpus."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dptext.file_runs import privatize_file
from dptext.mechanisms.word_metric import WordMetric
from dptext.pipeline import privatize
from dptext.records import Release
from dptext.releases import write_releases
from dptext.samples import sample_records

_EPSILONS = (6.0, 10.0, 15.0)
_SHOWN = 6


def show(as_json: bool) -> None:
    """Privatize the sample texts at three epsilons, and one file with its certificate."""
    records = sample_records(200)
    table = Table("original (generated, public)", *(f"epsilon {epsilon:g}" for epsilon in _EPSILONS), show_lines=True)
    outputs = []
    shares = []
    for epsilon in _EPSILONS:
        mechanism = WordMetric(epsilon=epsilon).fit()
        outputs.append([release.output for release in privatize(records[:_SHOWN], mechanism)])
        shares.append(mechanism.unchanged_share())
    for i, record in enumerate(records[:_SHOWN]):
        table.add_row(record.text, *(column[i] for column in outputs))
    table.add_row("share of running words that come back unchanged", *(f"{share:.2f}" for share in shares))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "sample.jsonl", Path(folder) / "sample.private.jsonl"
        write_releases(source, [Release(record.id, record.text) for record in records])
        certificate = privatize_file(source, target, WordMetric(epsilon=10.0).fit())
    if as_json:
        rows = [
            {
                "original": record.text,
                **{f"{epsilon:g}": column[i] for epsilon, column in zip(_EPSILONS, outputs, strict=True)},
            }
            for i, record in enumerate(records[:_SHOWN])
        ]
        data = {"samples": rows, "unchanged_share": shares, "certificate": json.loads(certificate.to_json())}
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    console = Console()
    console.print("Each token becomes a word near to it in a public embedding, with noise scaled by 1/epsilon.\n")
    console.print(table, markup=False)
    console.print("\nThe certificate of a run over all 200 sample texts at epsilon 10:\n")
    console.print(certificate.explain(), markup=False, highlight=False)
    console.print("\nNext: dptext privatize IN.jsonl OUT.jsonl --mechanism word_metric --set epsilon=10", markup=False)
