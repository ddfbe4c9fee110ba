"""What the snapshots are of, and how each is taken: shared by `make.py`, which writes them, and by the tests."""

from __future__ import annotations

import ast
import csv
import functools
import hashlib
import importlib
import io
import json
import lzma
import math
import platform
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, get_origin

import numpy as np
import pytest

import dptext as dp
from dptext.mechanism import settings
from dptext.privacy.events import event_to_dict
from dptext.registry import MECHANISMS
from dptext.runs.specs import spec_from_settings
from dptext.sampling import discrete

HERE = Path(__file__).parent
LABELS = ["health", "travel", "money", "leisure"]
PUBLIC = dp.sample_records(100)
DELTAS = (0.0, 1e-6)

Settings = dict[str, Any]


def offers(module: Any, name: str) -> bool:
    """Whether a module has a name, also where what it stands for needs a package that is not installed."""
    try:
        return hasattr(module, name)
    except dp.errors.MissingExtraError:
        return True


SPECS = {
    kind: cls
    for kind, cls in sorted(MECHANISMS.items(), key=lambda each: each[1].__name__)
    if hasattr(cls, "tiny") and hasattr(cls, "load")
}  # a synthesis is not saved


# ------------------------------------------------------------------------------------------------- settings


def _each(values: Mapping[str, list[Any]], *ways: Settings) -> list[Settings]:
    """Each way with each value of the one setting that is named."""
    ((name, listed),) = values.items()
    return [{name: value, **way} for way in ways for value in listed]


EPSILONS = {"epsilon": [0.1, 1.0, 10.0]}
BOUNDED = {"max_tokens": 10, "diameter": 20.0}
_BRIEF = {"noise_multiplier": 4.0, "sampling_rate": 0.1, "steps": 5}  # long trainings take long to account for
_PLAIN: list[Settings] = [
    {"kind": "word_metric", "epsilon": 3.0},
    {"kind": "word_metric", "epsilon": 0.5, "noise": "tem", **BOUNDED},
    {"kind": "random_redaction", "level": 0.7},
    {"kind": "random_replacement"},
    {"kind": "label_only", "labels": LABELS, "epsilon": 2.0},
    {"kind": "adept", "epsilon": 2.0, "noise": "gaussian", "delta": 1e-6},
    {"kind": "erae", "epsilon": 1.0},
]
_NO_INNER: list[Settings] = [
    {"kind": "adept_dpsgd", "epsilon": 2.0, **_BRIEF},  # it learns from private text
    {"kind": "truncation", "epsilon": 1.0},  # it releases vectors
]
#: Settings of each kind, besides the tiny ones; some are refused.
VARIED: dict[str, list[Settings]] = {
    "word_metric": [
        *_each(
            EPSILONS,
            {},
            {"noise": "mahalanobis"},
            {"noise": "tem"},
            BOUNDED,
            {"noise": "mahalanobis", "mahalanobis_lambda": 0.7, **BOUNDED},
            {"noise": "tem", "tem_beta": 0.01, **BOUNDED},
            {"vectors": "my words.txt", "n_words": 300},
        ),
        {"epsilon": 1.0, "max_tokens": 5},
        {"epsilon": 1.0, "diameter": 5.0},
        {"epsilon": 0.0},
        {"epsilon": 1.0, "noise": "laplace"},
        {"epsilon": 1.0, "mahalanobis_lambda": 1.5, "noise": "mahalanobis"},
    ],
    "private_phrases": [*_each({"variance": [1.0, 6.0, 100.0]}, {}, {"common_words": 50}), {"variance": 0.0}],
    "adept": [
        *_each(
            EPSILONS,
            {},
            {"labels": LABELS},
            {"noise": "privunit"},
            {"noise": "privunit", "latent_dim": 16, "labels": LABELS},
            {"noise": "gaussian", "delta": 1e-6},
            {"noise": "gaussian", "delta": 1e-4, "latent_dim": 16, "clip_norm": 2.0},
            {"noise": "l2_laplace"},
            {"noise": "laplace_l1"},
            {"noise": "laplace_l2", "latent_dim": 32},
            {"encoder": "lstm", "decoding": "greedy", "max_tokens": 8},
            {"encoder": "distilled", "label_weight": 0.0, "labels": ["a", "b"]},
        ),
        {"epsilon": 1.0, "noise": "gaussian"},
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "labels": ["a", "a"]},
        {"epsilon": -1.0},
    ],
    "adept_dpsgd": [
        {"epsilon": 1.0, "steps": 30, "noise_multiplier": 10.0},
        {
            "epsilon": 10.0,
            "noise": "gaussian",
            "release_delta": 5e-6,
            "labels": LABELS,
            **_BRIEF,
            "noise_multiplier": 10.0,
        },
        {"epsilon": 0.1, "noise": "l2_laplace", **_BRIEF},
        {"epsilon": 2.0, "noise": "laplace_l2", **_BRIEF},
        {"epsilon": 2.0, "noise": "codebook"},
        {"epsilon": 2.0, "noise": "gaussian", "release_delta": 1e-4, "delta": 1e-5},
    ],
    "published_adept": [
        *_each({"variance": [0.25, 0.75, 1.0]}, {}, {"noise": "gaussian"}),
        *_each({"claimed_epsilon": [0.1, 1.0, 10.0]}, {}, {"noise": "gaussian", "delta": 1e-6, "hidden": 16}),
        {"variance": 1.0, "labels": LABELS, "clip_norm": 2.0},
        {},
        {"variance": 1.0, "claimed_epsilon": 1.0},
    ],
    "label_only": [
        *_each(
            EPSILONS,
            {"labels": LABELS},
            {"labels": ["a", "b"], "text": "medoid"},
            {"labels": [str(i) for i in range(30)], "text": "medoid", "embedder": "sentence"},
        ),
        {"labels": ["one"]},
        {"labels": LABELS, "text": "first"},
    ],
    "deep_candidate": [
        *_each(
            EPSILONS,
            {},
            {"relation": "add_or_remove_one"},
            {"max_sentences": 20},
            {"relation": "add_or_remove_one", "max_sentences": 20},
            {"utility": "evidence", "labels": LABELS, "output": "both"},
            {"utility": "mixed", "labels": LABELS, "selection": "permute_and_flip", "max_sentences": 5},
            {"utility": "whitened", "encoder": "glove", "output": "embedding", "candidates": 100},
        ),
        {"epsilon": 1.0, "utility": "evidence"},
        {"epsilon": 1.0, "recoder": "clusters"},
    ],
    "sentdp": [
        *_each(
            EPSILONS,
            {"utility": "lowest", "max_sentences": 21},
            {"utility": "mean_depth", "selection": "permute_and_flip", "recoder": "clusters"},
            {"utility": "algorithm_1", "recoder": "labels", "labels": LABELS, "relation": "add_or_remove_one"},
        ),
        {"epsilon": 1.0, "recoder": "labels"},
    ],
    "candidates": [
        *_each(
            EPSILONS,
            {},
            {"labels": LABELS, "label_weight": 3.0},
            {"labels": LABELS, "label_share": 0.3},
            {"selection": "exponential"},
            {"selection": "exponential", "candidates": 50, "ranker": "tfidf"},
            {"selection": "exponential", "labels": ["a", "b"], "label_share": 0.5, "label_weight": 1.0},
            {"ranker": "adept", "ranker_model": "folder"},
            {"selection": "top_k", "k": 3, "max_sentences": 8},
        ),
        {"epsilon": 1.0, "k": 3, "selection": "exponential"},
        {"epsilon": 1.0, "k": 3},
        {"epsilon": 1.0, "label_share": 0.3},
        {"epsilon": 1.0, "ranker": "adept"},
    ],
    "truncation": [*_each(EPSILONS, {}, {"central": 0.5, "encoder": "glove"}), {"epsilon": 1.0, "central": 1.5}],
    "erae": [
        *_each(
            EPSILONS,
            {},
            {"choice": "hub"},
            {"choice": "top_k_rr", "k": 5, "max_tokens": 5},
            {"choice": "exponential"},
            {"choice": "exponential", "score_range": 4.0, "max_tokens": 5, "max_words": 300},
            {"choice": "ae_dp"},
            {"latent": "text", "reward": 0.0, "vectors": "glove", "max_tokens": 3},
        ),
        *_each(
            {"epsilon": [1.0, 9.5, 12.0]},
            {"choice": "two_set"},
            {"choice": "two_set", "k": 2, "max_tokens": 5, "max_words": 300},
            {"choice": "two_set_sampled", "k": 2},
        ),
        {"epsilon": 12.0, "choice": "two_set", "k": 200, "max_words": 300},
    ],
    "dp_prompt": [
        *_each(
            EPSILONS,
            {},
            {"choice": "hub"},
            {"choice": "hub", "max_tokens": 24, "options": 64, "hub_temperature": 1.0},
            {"max_tokens": 64, "vocabulary": 32_000, "score_range": 20.0, "model": "folder"},
        ),
        {"epsilon": 400.0, "choice": "hub"},
        {"epsilon": 1.0, "prompt": "without a place"},
        {"epsilon": 0.001, "choice": "hub"},
    ],
    "random_replacement": [*_each({"rate": [0.0, 0.3, 1.0]}, {}), {}, {"rate": 1.5}],
    "syntf": [
        *_each(EPSILONS, {}, {"n_terms": 1, "n_words": 300}, {"n_terms": 100, "vectors": "my words.txt"}),
        {"epsilon": 1.0, "n_terms": 0},
    ],
    "random_redaction": [*_each({"level": [0.0, 0.1, 0.9, 0.9999, 1.0]}, {}, {"runs": "merge"}), {"level": 1.1}],
    "count_redaction": [
        *_each({"level": [0.0, 0.3, 1.0]}, {}, {"of": "types"}, {"runs": "merge", "mask": "_"}),
        {"level": 0.5, "of": "letters"},
    ],
    "smart_redaction": [*_each({"level": [0.0, 0.3, 1.0]}, {}, {"sensitive": "health"}), {"level": -0.1}],
    "pii_redaction": [{}, {"model": "en_core_web_sm", "entities": ["PERSON"], "threshold": 0.5}, {"threshold": 2.0}],
    "embedded": [
        *({"mechanism": inner, **way} for inner in _PLAIN for way in ({}, {"output": "both", "encoder": "glove"})),
        *({"mechanism": inner} for inner in _NO_INNER),
        {"mechanism": _PLAIN[0], "output": "text"},
    ],
}


def tiny(kind: str) -> list[Settings]:
    """The tiny settings of a kind."""
    return [json.loads(json.dumps(settings(spec))) for spec in SPECS[kind].tiny()]


def all_settings(kind: str) -> list[Settings]:
    """Tiny and varied settings of a kind."""
    return [*tiny(kind), *({"kind": kind, **each} for each in VARIED[kind])]


def defaults(kind: str) -> list[list[Any]]:
    """Name and default of each setting, in the order in which they are given by position."""
    found = [
        [each.name, None if each.default is MISSING else each.default] for each in fields(SPECS[kind]) if each.init
    ]
    return json.loads(json.dumps(found))


# ---------------------------------------------------------------------------------- guarantees and their prose


def _tried(told: Callable[[], Any]) -> tuple[Any, str | None]:
    """What is told, or the class and the message of the refusal."""
    try:
        return told(), None
    except dp.errors.DPTextError as error:
        return type(error).__name__, str(error)


@functools.cache
def _stated(text: str) -> tuple[Settings, dict[str, str]]:
    values = json.loads(text)
    spec, message = _tried(lambda: spec_from_settings(values))
    if message is not None:
        return {"settings": values, "refused": spec}, {"refused": message}
    facts: Settings = {"settings": values, "units": [str(unit) for unit in spec.units]}
    prose = {}
    for unit in dp.Unit:
        events, message = _tried(lambda unit=unit: [event_to_dict(event) for event in spec.events(unit)])
        facts[f"events {unit}"] = events
        if message is not None:
            prose[f"events {unit}"] = message
        for delta in DELTAS:
            found, message = _tried(lambda unit=unit, delta=delta: spec.guarantee(unit, delta))
            facts[f"guarantee {unit} {delta}"] = found if message is not None else found.to_dict()
            prose[f"guarantee {unit} {delta}"] = message or found.explain()
        for name in (facts, prose):  # said once where the delta changes nothing
            first, *others = (f"guarantee {unit} {delta}" for delta in DELTAS)
            for other in others:
                if name[other] == name[first]:
                    del name[other]
    return json.loads(json.dumps(facts)), prose


def facts(values: Settings) -> Settings:
    """Units, events and guarantees of settings, for every unit; the class of the error where they are refused."""
    return _stated(json.dumps(values))[0]


def prose(values: Settings) -> dict[str, str]:
    """Guarantees in words, and messages of errors."""
    return _stated(json.dumps(values))[1]


def prose_digest(values: Settings) -> str:
    """What tells whether the words changed; `git stash` and `prose` show the words themselves."""
    return hashlib.sha256(json.dumps(prose(values), sort_keys=True).encode()).hexdigest()[:16]


def calibrated(values: Settings) -> Any:
    """The settings that cost at most 1.5, or the class of the refusal."""
    return _tried(lambda: json.loads(json.dumps(settings(spec_from_settings(values).calibrate(1.5, delta=1e-6)))))[0]


def numbers(values: Any) -> set[float]:
    """Every number in JSON data."""
    if isinstance(values, dict | list):
        return set().union(*map(numbers, values.values() if isinstance(values, dict) else values))
    return {float(values)} if isinstance(values, int | float) else set()


def difference(found: Any, kept: Any, exact: set[float], where: str = "") -> str | None:
    """Where two JSON values differ, or None.

    A float that is no setting may be one part in 10^9 off; a delta one in 10^7, as PrivUnit's follows an optimum whose
    last digits are the processor's.
    """
    if isinstance(kept, dict) and isinstance(found, dict) and list(found) == list(kept):
        pairs = [(f"{where}.{key}", found[key], kept[key]) for key in kept]
    elif isinstance(kept, list) and isinstance(found, list) and len(found) == len(kept):
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(found, kept, strict=True))]
    else:
        tolerance = 1e-7 if where.endswith(".delta") else 1e-9
        close = (
            type(found) is type(kept) is float and kept not in exact and math.isclose(found, kept, rel_tol=tolerance)
        )
        return None if close or (type(found) is type(kept) and found == kept) else f"{where}: {found!r}, kept {kept!r}"
    return next((told for at, a, b in pairs if (told := difference(a, b, exact, at)) is not None), None)


# ---------------------------------------------------------------------------------------------------- archives


def pack(folder: Path, archive: Path) -> None:
    """Put the files of a folder into an archive, with the same bytes for the same files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o600
            tar.addfile(entry, io.BytesIO(path.read_bytes()))
    archive.write_bytes(lzma.compress(whole.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(archive: Path, folder: Path) -> Path:
    """The folder, with the files of the archive in it."""
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(folder, filter="data")
    return folder


# ------------------------------------------------------------------------------------------ models and outputs

_SMALL: dict[str, list[Settings]] = {kind: tiny(kind) for kind in SPECS}
#: Ways of working that the tiny settings leave out, by name.
MORE: dict[str, dict[str, Settings]] = {
    "word_metric": {"bounded": {**_SMALL["word_metric"][0], "max_tokens": 5, "diameter": 50.0}},
    "adept": {
        "gaussian": {**_SMALL["adept"][0], "noise": "gaussian", "delta": 1e-6},
        "l2_laplace": {**_SMALL["adept"][0], "noise": "l2_laplace"},
        "laplace_l1": {**_SMALL["adept"][0], "noise": "laplace_l1", "decoding": "greedy"},
        "distilled": {**_SMALL["adept"][0], "encoder": "distilled", "max_words": 60},
    },
    "published_adept": {"gaussian": {**_SMALL["published_adept"][0], "noise": "gaussian", "decoding": "constrained"}},
    "deep_candidate": {
        "evidence": {**_SMALL["deep_candidate"][0], "utility": "evidence", "labels": LABELS},
        "flip": {**_SMALL["deep_candidate"][0], "selection": "permute_and_flip", "max_sentences": 3},
        "whitened": {**_SMALL["deep_candidate"][0], "utility": "whitened", "output": "both"},
    },
    "candidates": {"adept": {**_SMALL["candidates"][0], "ranker": "adept", "ranker_model": "adept_of_candidates"}},
    "syntf": {"many": {**_SMALL["syntf"][0], "n_terms": 5}},
    "smart_redaction": {"merged": {**_SMALL["smart_redaction"][0], "runs": "merge"}},
    "embedded": {
        "labelled": {**_SMALL["embedded"][0], "mechanism": _SMALL["label_only"][0], "output": "both"},
    },
}

_TEXTS = [
    ("Book me a night train from Lima to Quito on friday, please.", "travel", "Maria"),
    ("My doctor says I have asthma, should I still take aspirin? I feel better today.", "health", "Ahmed"),
    ("Send 40 dollars to Grace tomorrow.", "money", "Maria"),
    ("Play some quiet piano. Then turn off the light. Good night.", "leisure", "Tom"),
    ("", None, None),
    ("   \n ", "health", "Tom"),
    ("The bank took $1,250 from my account!\nWhy did nobody call me?", "money", "Priya"),
    ("Björn möchte Sushi, 寿司, and a café crème \u2014 \U0001f363", "leisure", "Yuki"),
    ("zzyzx qwrtp", "another label", "Ivan"),
    ("one " * 60 + "two", "travel", "Ivan"),
    ("Is it safe to take iron tablets and aspirin? Ask the nurse. She knows. Write it down.", "health", "Li Wei"),
    ("What is 15 pounds worth in Oslo?", None, "Sofia"),
]  # fmt: skip
RECORDS = [dp.Record(f"r{i}", text, label=label, author=author) for i, (text, label, author) in enumerate(_TEXTS)]
#: Kinds that choose by integers which no processor rounds in another way.
INTEGERS = {"label_only", "random_redaction", "count_redaction", "random_replacement"}


def models(kind: str) -> dict[str, Settings]:
    """Settings of the saved models of a kind, by name."""
    return {**{str(i): each for i, each in enumerate(_SMALL[kind])}, **MORE.get(kind, {})}


#: Kinds with saved models.
SAVED = sorted(path.name.removesuffix(".tar.xz") for path in (HERE / "models").glob("*.tar.xz"))


@functools.cache
def loaded(folder: Path) -> Any:
    """The mechanism that was saved; the test is skipped where it needs a package that is not installed."""
    try:
        return dp.load_model(folder)
    except dp.errors.MissingExtraError as error:
        pytest.skip(str(error))


def outputs(mechanism: Any) -> list[list[Any]]:
    """Id, label, text and vector (or None) of what a mechanism releases for the records, under one seed."""
    released = dp.privatize(RECORDS, mechanism, randomness=dp.randomness.seeded(7), without_guarantee=True)
    return [
        [each.id, each.label, each.output, None if each.vector is None else [round(x, 6) for x in each.vector]]
        for each in released
    ]


def draws() -> dict[str, list[Any]]:
    """What a seeded stream gives, which is the same integers on every processor, and the texts drawn by one."""
    source = dp.randomness.seeded(7)
    found = {
        "uint64": source.uint64(4),
        "uniform_below": discrete.uniform_below(1000, 8, source),
        "weighted_choice": discrete.weighted_choice(np.array([[1, 2, 3, 4]] * 8, np.uint64), source),
        "discrete_laplace": discrete.discrete_laplace(50, 8, source),
        "discrete_gaussian": discrete.discrete_gaussian(50, 8, source),
        "at": source.at(3).uint64(2),
    }
    samples = [[each.text, each.label, each.author] for each in dp.sample_records(5, seed=3)]
    return {**{name: drawn.tolist() for name, drawn in found.items()}, "sample_records": samples}


def made_with() -> dict[str, str]:
    """What floats depend on."""
    return {"machine": platform.machine(), **dict(_versions("numpy", "scipy", "torch", "safetensors"))}


def _versions(*names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, ""


# --------------------------------------------------------------------------------------------- public names

MODULES = (
    "accounting", "randomness", "privacy.curves", "audits.bounds", "audits", "utility", "testing", "errors",
    "sampling.clipping", "sampling.discrete", "sampling.exponential", "sampling.float_noise", "sampling.grid_noise",
    "sampling.privunit", "sampling.top_k", "sampling.weights",
    "dptext_lab", "dptext_lab.adept.published_noise", "dptext_lab.figures",
)  # fmt: skip


def public_module(name: str) -> ModuleType:
    """The module that users reach under this name: an attribute of dptext, a module of it or of the laboratory."""
    if name.startswith("dptext_lab"):
        return importlib.import_module(name)
    found = importlib.import_module(f"dptext.{name}") if "." in name else getattr(dp, name)
    assert isinstance(found, ModuleType)
    return found


def public_names(module: str) -> list[str]:
    """What a public module offers: its `__all__`, or what is assigned and defined in its file but aliases of types.

    The names of `dptext.audits` are also those that the laboratory brings there.
    """
    found = public_module(module)
    if hasattr(found, "__all__"):
        return sorted({*found.__all__, *getattr(found, "AUDITS", ())})
    defined: set[str] = set()
    for node in ast.parse(Path(found.__file__).read_text("utf-8")).body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.Assign():
                defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                defined.add(name)
            case ast.ImportFrom() if found.__file__.endswith("__init__.py"):
                defined |= {each.asname or each.name for each in node.names if each.name != "annotations"}
            case _:
                pass
    aliases = {
        name for name in defined if isinstance(getattr(found, name), TypeVar) or get_origin(getattr(found, name))
    }
    return sorted(name for name in defined - aliases if not name.startswith("_"))


# ------------------------------------------------------------------------------- runs, certificates and ledgers

TABLE = dp.Fields(id="number", label="kind", author="who", keep=("place",))
ROWS = [
    {"number": f"n{i}", "text": each.text, "kind": each.label, "who": each.author, "place": i % 3}
    for i, each in enumerate(dp.sample_records(30, seed=5))
]


def subject_key() -> Any:
    """The key under which the ledgers know their subjects."""
    from dptext.ledger.subjects import SubjectKey

    return SubjectKey(bytes(range(32)))


@dataclass(frozen=True)
class Run:
    """A run from file to file that ended before it was done.

    Attributes:
        model: kind and name of the saved model.
        source, target: names of the files.
        plan: of the run.
        done: records after which it was killed; `sealed` before the output had its name, `named` before
            the certificate was there.
        pays: whether the account "runs" of a ledger beside the files pays for it.
    """

    model: tuple[str, str]
    source: str
    target: str
    plan: dp.Plan
    done: int | Literal["sealed", "named"]
    pays: bool = False

    def paying(self, folder: Path) -> dp.Payment | None:
        """Who pays for the run in this folder."""
        return dp.Payment(dp.Ledger.at(folder / "budget.db", key=subject_key()), "runs") if self.pays else None


_BLOCKS = dp.Plan(batch_size=10, without_guarantee=True)
#: By name; the formats that can be cut and gone on with, compressed and not, and Parquet, which has to be whole.
RUNS = {
    "words": Run(("word_metric", "0"), "in.jsonl", "out.jsonl", _BLOCKS, 20),
    "labels": Run(
        ("label_only", "0"),
        "in.csv",
        "out.csv.gz",
        replace(_BLOCKS, fields=TABLE, max_per_author=30, safe_csv=True),
        20,
    ),
    "texts": Run(("random_redaction", "1"), "in.txt", "out.txt", replace(_BLOCKS, record="line"), 10),
    "vectors": Run(("truncation", "0"), "in.jsonl", "out.jsonl.gz", replace(_BLOCKS, fields=TABLE), 10),
    "none": Run(("count_redaction", "0"), "in.jsonl", "out.csv", _BLOCKS, 20),
    "parquet": Run(("label_only", "1"), "in.jsonl", "out.parquet", replace(_BLOCKS, fields=TABLE), "sealed"),
    "named": Run(("label_only", "0"), "in.jsonl", "out.jsonl.gz", replace(_BLOCKS, fields=TABLE), "named"),
    "paid": Run(
        ("label_only", "0"),
        "in.jsonl",
        "out.jsonl",
        replace(_BLOCKS, fields=replace(TABLE, subject="who"), max_per_author=30),
        10,
        pays=True,
    ),
}


def resuming(plan: dp.Plan) -> dp.Plan:
    """The plan that goes on with such a run."""
    return replace(plan, resume=True)


def write_input(path: Path) -> None:
    """The thirty private records of a run, in the format of the file's name."""
    match path.suffix:
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(ROWS[0]))
                writer.writeheader()
                writer.writerows(ROWS)
        case ".txt":
            path.write_text("".join(f"{row['text']}\n" for row in ROWS), "utf-8")
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")


def told(ledger: dp.Ledger) -> Settings:
    """What a ledger says of each account: balance, charges, and whether its books add up."""
    said = {
        account.name: {
            "limit": account.limit.to_dict(),
            "by_subject": account.by_subject,
            "spent": (balance := ledger.balance(account.name)).spent.to_dict(),
            "left": balance.left,
            "charges": balance.charges,
            "subjects": balance.subjects,
            "anna": ledger.balance(account.name, subject="anna").spent.epsilon if account.by_subject else None,
            "problems": list(ledger.verify(account.name).problems),
            "log": [[each.number, each.key, each.subjects, each.release] for each in ledger.log(account.name)],
        }
        for account in ledger.accounts()
    }
    return json.loads(json.dumps(said))
