"""A folder as `dptext compare` writes it, made up: no number in it was measured."""

import hashlib
import json
from pathlib import Path

from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit

CORPORA = ("weather", "cooking")
METRICS = ("classification.accuracy", "fidelity.cosine", "fidelity.own_first", "authorship.adaptive")
ORIGINALS = ("will it rain on sunday", "boil the eggs for six minutes")
WORDS = "Only for tests."


def guarantee(epsilon: float, **changes) -> Guarantee:
    given = {"delta": 0.0, "unit": Unit.DOCUMENT, "relation": Relation.REPLACE_ONE, **changes}
    return Guarantee(epsilon, **given)


class Folder:
    """Rows and cells, added one by one and then written."""

    def __init__(self, path: Path, *, name: str = "made up for a test") -> None:
        self.path, self.name = path, name
        self.rows: list[dict] = []
        self.cells: dict[str, dict] = {}
        self.mechanisms: list[dict] = []
        self.failed = self.open = 0
        self.command = "dptext compare experiment.toml --out results"

    def cell(
        self,
        row: str,
        kind: str,
        values: dict[str, float],
        *,
        stated: Guarantee | None = None,
        epsilon: float | None = None,
        corpus: str = CORPORA[0],
        trial: int = 0,
        settings: dict | None = None,
        document_epsilon: float | None = None,
        samples: list[dict] | None = None,
        private: list[dict] | None = None,
        error: str | None = None,
        width: float = 0.03,
        trains_on: str = "public",
    ) -> str:
        signature = hashlib.sha256(f"{corpus} {row} {trial} {settings}".encode()).hexdigest()
        finite = stated is not None and stated.basis is not Basis.NONE
        shared = {
            "corpus": corpus,
            "row": row,
            "kind": kind,
            "settings": json.dumps({"kind": kind, **(settings or {})} if kind else {}),
            "trial": trial,
            "unit": str(stated.unit) if stated else "",
            "relation": str(stated.relation) if stated else "",
            "epsilon": stated.epsilon if finite else epsilon,
            "delta": stated.delta if stated else None,
            "metric_privacy": stated.metric if stated else None,
            "basis": str(stated.basis) if stated else "",
            "document_epsilon": document_epsilon,
            "seconds": 12.5,
            "peak_mib": 340.0,
            "signature": signature,
        }
        if error is not None:
            nothing = {"metric": "", "value": None, "low": None, "high": None, "confidence": None}
            self.rows.append({**shared, **nothing, "error": error})
            self.failed += 1
            return signature
        rows = []
        for metric, value in values.items():
            number = {"value": value, "low": max(0.0, value - width), "high": min(1.0, value + width)}
            if metric.endswith("epsilon_lower_bound"):
                number = {"value": value, "low": None, "high": None}
            rows.append({**shared, "metric": metric, **number, "confidence": 0.95, "error": None})
        self.rows += rows
        self.cells[signature] = {
            "signature": signature,
            "rows": rows,
            "refuted": [],
            "error": None,
            "certificate": None if stated is None else {**stated.to_dict(), "explain": stated.explain()},
            "samples": samples or [],
            **({} if private is None else {"private_samples": private}),
            "cell": {"trains_on": trains_on},
        }
        return signature

    def baselines(self, corpus: str = CORPORA[0]) -> None:
        """The rows that are always there."""
        numbers = {
            "original": (0.95, 1.0, 1.0, 0.6),
            "public-only": (0.80, 0.3, 0.01, 0.05),
            "random": (0.2, 0.05, 0.01, 0.05),
        }
        for row, values in numbers.items():
            self.cell(
                row,
                "",
                dict(zip(METRICS, values, strict=True)),
                epsilon=None if row == "original" else 0.0,
                corpus=corpus,
                samples=[{"original": text, "released": text if row == "original" else WORDS} for text in ORIGINALS],
            )
        for epsilon in (2.0, 10.0):
            self.cell(
                "label_only",  # one name for all epsilons
                "label_only",
                dict(zip(METRICS, (0.82, 0.4, 0.02, 0.06), strict=True)),
                stated=guarantee(epsilon),
                settings={"epsilon": epsilon},
                corpus=corpus,
                samples=[{"original": text, "released": "a text of the class"} for text in ORIGINALS],
            )

    def good(self, row: str, epsilon: float, **more) -> str:
        """A mechanism that nothing is to be said against."""
        return self.cell(
            f"{row} epsilon={epsilon:g}",
            "candidates",
            dict(zip(METRICS, (0.85 + epsilon / 400, 0.6 + epsilon / 100, 0.3 + epsilon / 100, 0.2), strict=True)),
            **{"stated": guarantee(epsilon), "settings": {"epsilon": epsilon}, **more},
        )

    def write(self) -> Path:
        (self.path / "cells").mkdir(parents=True, exist_ok=True)
        for old in (self.path / "cells").iterdir():
            old.unlink()
        for signature, cell in self.cells.items():
            (self.path / "cells" / f"{signature}.json").write_text(json.dumps(cell), "utf-8")
        (self.path / "table.json").write_text(json.dumps(self.rows), "utf-8")
        corpora = {row["corpus"] for row in self.rows}
        digests = [hashlib.sha256(name.encode()).hexdigest() for name in ("public", "private", "test")]
        public, private, test = ({"records": 1200, "digest": digest} for digest in digests)
        experiment = {
            "name": self.name,
            "written": "2026-01-02",
            "version": "0.1.0",
            "machine": {"cores": 2, "memory_gib": 8},
            "command": self.command,
            "toml": {"mechanisms": self.mechanisms},
            "corpora": {name: {"public": public, "private": private, "test": test} for name in sorted(corpora)},
            "cells": {
                "done": len(self.cells),
                "failed": self.failed,
                "total": len(self.cells) + self.failed + self.open,
            },
        }
        (self.path / "experiment.json").write_text(json.dumps(experiment), "utf-8")
        return self.path


def everything(path: Path, *, corpora: tuple[str, ...] = CORPORA) -> Folder:
    """Several units, a metric, no guarantee, training on private text, a failed cell, hollow fidelity."""
    folder = Folder(path)
    for shift, corpus in enumerate(corpora):
        folder.baselines(corpus)
        down = 0.03 * shift
        for epsilon in (2.0, 5.0, 10.0, 20.0):
            made = [{"original": text, "released": f"{text.split()[-1]} again"} for text in ORIGINALS]
            folder.good(
                "candidates",
                epsilon,
                corpus=corpus,
                samples=made,
                private=[{"original": "zq9canaryxv", "released": "x"}],
            )
            folder.cell(
                f"adept epsilon={epsilon:g}",
                "adept",
                dict(
                    zip(
                        METRICS,
                        (0.78 + epsilon / 200 - down, 0.35 + epsilon / 90, 0.01 + epsilon / 100, 0.08),
                        strict=True,
                    )
                ),
                stated=guarantee(epsilon, basis=Basis.CONDITIONAL, assumptions=("the training text is public",)),
                corpus=corpus,
                settings={"epsilon": epsilon, "labels": ["rain", "sun"], "codebook_size": 1000},
                samples=[{"original": text, "released": "what will the weather be"} for text in ORIGINALS],
            )
        for epsilon in (1.0, 8.0):
            folder.cell(
                f"erae epsilon={epsilon:g}",
                "erae",
                dict(zip(METRICS, (0.6 + epsilon / 50, 0.42 + epsilon / 90, 0.1, 0.3), strict=True)),
                stated=guarantee(epsilon, unit=Unit.TOKEN, delta=1e-5, basis=Basis.CONDITIONAL, assumptions=("x",)),
                document_epsilon=epsilon * 20,
                corpus=corpus,
                samples=[{"original": text, "released": "will that rain in summer " * 30} for text in ORIGINALS],
            )
            folder.cell(
                f"word_metric epsilon={epsilon:g}",
                "word_metric",
                dict(zip(METRICS, (0.7 + epsilon / 50, 0.5 + epsilon / 40, 0.6, 0.4), strict=True)),
                stated=guarantee(epsilon, unit=Unit.TOKEN, metric="Euclidean distance of word vectors"),
                corpus=corpus,
                samples=[{"original": text, "released": None} for text in ORIGINALS],
            )
        nothing = guarantee(float("inf"), basis=Basis.NONE, reason="claimed epsilon 1, true epsilon of the noise 512")
        folder.cell(
            "published_adept claimed_epsilon=1",
            "published_adept",
            {**dict(zip(METRICS, (0.9, 0.7, 0.8, 0.5), strict=True)), "distinguish.epsilon_lower_bound": 4.2},
            stated=nothing,
            corpus=corpus,
            settings={"claimed_epsilon": 1.0},
            trains_on="private",
        )
        folder.cell(
            "adept_dpsgd epsilon=10",
            "adept_dpsgd",
            dict(zip(METRICS, (0.8, 0.31, 0.01, 0.05), strict=True)),
            stated=guarantee(10.0, delta=1e-5, trust=Trust.CENTRAL),
            corpus=corpus,
        )
    folder.mechanisms = [{"name": "published_adept", "trains_on": "private"}]
    folder.cell(
        "syntf epsilon=3", "syntf", {}, stated=guarantee(3.0, unit=Unit.TOKEN), error="ConfigError: too few words"
    )
    return folder
