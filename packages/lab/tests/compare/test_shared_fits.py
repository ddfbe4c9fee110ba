"""Cells that share a fit give the numbers that they give alone, and nothing private is kept between them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from compared import experiment, words, write_texts
from dptext.embeddings import sentence_encoder
from dptext.embeddings.encoders import PublicVectors, load_encoder
from dptext.embeddings.sentence_encoder import BertTexts, SentenceEncoder
from dptext.mechanism import Refits, Traits, setting_fields
from dptext.registry import MECHANISMS
from dptext_lab.adept.sound import Adept
from dptext_lab.compare import cells as fits
from dptext_lab.compare import runner
from dptext_lab.compare.cell_run import Outcome, run_cell
from dptext_lab.compare.cells import Cell, Lens, SharedFits, fit_key
from dptext_lab.compare.corpora import SplitCorpus, load_corpus
from dptext_lab.compare.experiment import Experiment, parse_experiment
from dptext_lab.compare.grid import plan_cells
from dptext_lab.compare.runner import CellWorker, Waiting, WorkerSetup
from dptext_lab.erae.erae import ErAe

ADEPT: dict[str, Any] = {
    "encoder": "lstm", "latent_dim": 4, "max_tokens": 8, "hidden": 8, "embedding": 8, "codebook_size": 20, "epochs": 1,
}  # fmt: skip
ERAE: dict[str, Any] = {
    "max_tokens": 2, "max_words": 30, "hidden": 8, "latent_dim": 4, "embedding": 8, "vectors": "glove", "reward": 1.0,
}  # fmt: skip


class _Bert:
    """In the place of a network: a text's vector says how long it is. It counts the texts that it read."""

    dim = 3

    def __init__(self) -> None:
        self.read: list[int] = []
        self.texts: list[str] = []

    def vectors(self, pieces: list[list[int]], *, threads: int, on_done: Callable[[int], None] | None) -> Any:
        self.read.append(len(pieces))
        self.texts += ["".join(map(chr, ids)) for ids in pieces]
        found = np.array([[len(ids), sum(ids) % 97, 1.0] for ids in pieces], np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def bert(monkeypatch: pytest.MonkeyPatch) -> _Bert:
    made = _Bert()
    network = BertTexts(made, lambda texts: [[ord(letter) for letter in text] for text in texts])  # type: ignore[arg-type]

    def load(name: str, **_: object) -> SentenceEncoder:
        return SentenceEncoder(name, 3, "digest", "float32", network)

    monkeypatch.setattr(sentence_encoder, "load_sentence_encoder", load)
    return made


@pytest.fixture
def made(tmp_path: Path, vectors: Path) -> Callable[..., tuple[Experiment, SplitCorpus, list[Cell]]]:
    texts = write_texts(tmp_path / "texts.jsonl", 120)

    def make(*mechanisms: dict[str, Any], **changes: Any) -> tuple[Experiment, SplitCorpus, list[Cell]]:
        data = experiment(texts, vectors, mechanisms=[*mechanisms], seeded=True, corpus={"label": "class"}, **changes)
        found = parse_experiment(data)
        corpus = load_corpus("made", found.corpora["made"], seed=found.seed)
        return found, corpus, plan_cells(found, {"made": corpus.labels})

    return make


def outcomes(found: Experiment, corpus: SplitCorpus, cells: list[Cell], of: Callable[[], SharedFits]) -> list[Outcome]:
    lens = Lens(found.settings.embedder)
    return [run_cell(cell, found, corpus, lens, fits=of(), private_samples=True) for cell in cells]


def differing(found: Experiment, corpus: SplitCorpus, cells: list[Cell]) -> list[str]:
    """The rows whose numbers or samples are others where fits are shared."""
    one = SharedFits()
    pairs = zip(outcomes(found, corpus, cells, lambda: one), outcomes(found, corpus, cells, SharedFits), strict=True)
    return [cell.row for cell, (shared, alone) in zip(cells, pairs, strict=True) if shared != alone]


def adept(**changes: Any) -> dict[str, Any]:
    return {"name": "adept", "kind": "adept", "set": ADEPT, "document_epsilon": [2, 20]} | changes


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were fitted, one entry a fit."""
    pytest.importorskip("torch")
    found: list[str] = []
    for kind in (Adept, ErAe):
        kept = kind.fit

        def fit(self: Any, *, _kept: Any = kept, **given: Any) -> Any:
            found.append(self.kind)
            return _kept(self, **given)

        monkeypatch.setattr(kind, "fit", fit)
    return found


@pytest.mark.slow  # what a refit is, and which cells share a fit, stays below
def test_a_training_serves_every_epsilon_and_changes_no_number(made: Any, trained: list[str]) -> None:
    erae = {
        "name": "erae",
        "kind": "erae",
        "set": ERAE,
        "sweep": {"choice": ["top_k_rr", "hub"], "epsilon": [2.0, 9.0]},
    }
    noise = adept(name="noise", set={**ADEPT, "noise": "privunit"})
    found, corpus, cells = made(adept(sweep={"label_weight": [0.0, 3.0]}), noise, erae)
    own = [cell for cell in cells if cell.kind in ("adept", "erae")]
    assert len(own) == 10
    assert differing(found, corpus, own) == []
    # One of the codebook, two with noise, which training reads, and one of ER-AE; then each cell by itself.
    assert trained[: -len(own)] == ["adept", "adept", "adept", "erae"]


@pytest.mark.slow  # a planted fault, as in test_a_key_without_the_trial_is_noticed: each case trains two networks
@pytest.mark.parametrize(
    ("kind", "set_", "setting", "values"),
    [
        ("adept", ADEPT, "hidden", [8, 12]),
        ("adept", ADEPT, "learning_rate", [0.002, 0.1]),
        ("erae", {**ERAE, "epsilon": 9.0}, "hidden", [8, 16]),
        ("erae", {**ERAE, "epsilon": 9.0}, "learning_rate", [0.002, 0.5]),
    ],
)
def test_a_key_without_a_setting_that_the_fit_reads_is_noticed(
    made: Any, monkeypatch: pytest.MonkeyPatch, kind: str, set_: dict[str, Any], setting: str, values: list[Any]
) -> None:
    pytest.importorskip("torch")
    own = {key: value for key, value in set_.items() if key != setting} | ({"epsilon": 9.0} if kind == "adept" else {})
    found, corpus, cells = made({"name": "m", "kind": kind, "set": own, "sweep": {setting: values}})
    cells = [cell for cell in cells if cell.kind == kind]
    assert differing(found, corpus, cells) == []
    cls = {"adept": Adept, "erae": ErAe}[kind]
    honest = vars(cls)["traits"]

    def planted(self: Any) -> Traits:
        traits = honest if isinstance(honest, Traits) else honest.fget(self)
        return replace(traits, refits=traits.refits | {setting})

    monkeypatch.setattr(cls, "traits", property(planted))
    assert differing(found, corpus, cells) == [cells[1].row]


@pytest.mark.parametrize(
    ("spec", "others"),
    [
        (Adept(epsilon=2.0, labels=("red", "green"), **ADEPT), {"epsilon": 20.0, "label_weight": 0.0}),
        (ErAe(epsilon=2.0, **ERAE), {"epsilon": 9.0, "choice": "exponential", "k": 3, "score_range": 5.0}),
    ],
)
def test_a_refit_is_the_fit_for_each_setting_that_it_may_differ_in(
    made: Any, spec: Adept | ErAe, others: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    _, corpus, _ = made()
    fitted = spec.fit(public=corpus.public, seed=3)
    assert spec.traits.refits == others.keys()
    for setting, value in others.items():
        other = replace(spec, **{setting: value})
        refitted = other.refit(fitted, public=corpus.public, seed=3)
        assert refitted.spec == other
        assert refitted.digests == other.fit(public=corpus.public, seed=3).digests


def test_refits_are_settings_of_a_spec_that_can_take_a_training_over() -> None:
    for kind in MECHANISMS.values():
        for spec in kind.tiny():
            late = spec.traits.refits
            assert late <= {each.name for each in setting_fields(spec)}
            assert not late or isinstance(spec, Refits)


@pytest.mark.slow  # it tries the tests above
def test_a_key_without_the_trial_is_noticed(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed of a fit follows from the trial."""
    pytest.importorskip("torch")
    found, corpus, cells = made(adept(), trials=2)
    cells = [cell for cell in cells if cell.kind == "adept"]
    monkeypatch.setattr(fits, "fit_key", lambda cell: fit_key(replace(cell, trial=0)))
    assert differing(found, corpus, cells) != []


def test_only_fits_to_public_text_are_shared_and_kept(made: Any, vectors: Path) -> None:
    pytest.importorskip("torch")
    tiny = {"hidden": 8, "embedding": 8, "epochs": 1, "max_tokens": 8}
    leaky = {"name": "leaky", "kind": "published_adept", "set": tiny, "trains_on": "private"}
    found, corpus, cells = made(
        adept(), leaky | {"sweep": {"variance": [1.0, 2.0]}}, words(vectors, set={"epsilon": 1.0})
    )
    by_row = {cell.row: cell for cell in cells}
    assert fit_key(by_row["adept epsilon=2"]) == fit_key(by_row["adept epsilon=20"]) != ""
    assert {fit_key(cell) for row, cell in by_row.items() if not row.startswith("adept")} == {""}
    shared = SharedFits()
    outcomes(found, corpus, [by_row["adept epsilon=2"]], lambda: shared)
    assert shared._last is not None
    outcomes(found, corpus, [by_row["leaky variance=1"]], lambda: shared)
    assert shared._last is None


def remembered(memory: PublicVectors) -> set[str]:
    return {text for _, _, text in memory._known}


def test_only_public_texts_are_remembered_and_each_is_embedded_once(made: Any, bert: _Bert) -> None:
    nearest = {"name": "nearest", "kind": "candidates", "document_epsilon": [2, 5, 20]}
    found, corpus, cells = made(nearest, utilities=["fidelity"])
    own = [cell for cell in cells if cell.kind == "candidates"]
    shared = SharedFits()
    outcomes(found, corpus, own, lambda: shared)
    public, samples = ({record.text for record in some} for some in (corpus.public, corpus.public[: fits.SAMPLES]))
    private = {record.text for record in (*corpus.private, *corpus.test)}
    assert remembered(shared.vectors) == public
    assert not remembered(shared.vectors) & private
    assert {bert.texts.count(text) for text in public - samples} == {1}
    assert {bert.texts.count(record.text) for record in corpus.private} == {len(own)}
    assert differing(found, corpus, own) == []
    shared.forget()
    assert remembered(shared.vectors) == set()


def test_vectors_are_kept_while_learning_and_at_no_other_time(bert: _Bert) -> None:
    memory = PublicVectors()
    assert load_encoder() is not load_encoder()
    with memory.learning():
        encoder = load_encoder()
        assert encoder is load_encoder("sentence")
        first = encoder.embed(["one", "two", "one"])
        again = encoder.embed(["two", "three", "one"])
    assert bert.read == [2, 1]
    assert remembered(memory) == {"one", "two", "three"}
    assert np.array_equal(again[[2, 0]], first[:2])
    assert np.array_equal(encoder.embed(["one", "secret"]), load_encoder().embed(["one", "secret"]))
    assert bert.read == [2, 1, 2, 2]  # what may be private is neither kept nor looked up
    assert remembered(memory) == {"one", "two", "three"}
    with PublicVectors().learning():
        encoder.embed(["of another memory"])
    assert remembered(memory) == {"one", "two", "three"}


def test_the_memory_is_bounded_and_changes_no_vector(bert: _Bert) -> None:
    memory, alone = PublicVectors(most=4), load_encoder()
    with memory.learning():
        encoder = load_encoder()
        for texts in (["a", "b", "c"], ["c", "dd"], ["dd", "eee"], [*"abcdefg"], ["g", "g"], []):
            if texts:
                assert np.array_equal(encoder.embed(texts), alone.embed(texts))
            assert len(remembered(memory)) <= 4


def test_an_encoder_whose_vectors_depend_on_the_batch_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Batched:
        def vectors(self, texts: Any, *, on_done: Any = None) -> Any:
            return np.full((len(texts), 2), 1 / len(texts), np.float32)

    monkeypatch.setattr(
        sentence_encoder,
        "load_sentence_encoder",
        lambda name, **_: SentenceEncoder(name, 2, "", "float32", Batched()),
    )
    memory = PublicVectors()
    with memory.learning():
        load_encoder().embed(["one"])
    assert remembered(memory) == set()


def test_a_worker_forgets_a_corpus_before_it_reads_the_next(
    tmp_path: Path, vectors: Path, bert: _Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "gc", SimpleNamespace(collect=lambda: 0))  # the heap of all tests takes a second a cell
    nearest = {"name": "nearest", "kind": "candidates", "set": {"epsilon": 2.0}}
    data = experiment(write_texts(tmp_path / "texts.jsonl"), vectors, mechanisms=[nearest], seeded=True)
    data["corpora"]["other"] = data["corpora"]["made"] | {"limit": 60}
    found = parse_experiment(data)
    corpora = {name: load_corpus(name, plan, seed=found.seed) for name, plan in found.corpora.items()}
    (tmp_path / "cells").mkdir()
    described = {name: corpus.described() for name, corpus in corpora.items()}
    worker = CellWorker(WorkerSetup(data, str(tmp_path), 0, private_samples=False, corpora=described))
    cells = [cell for cell in plan_cells(found, dict.fromkeys(corpora, ())) if cell.kind or cell.row == "original"]
    assert [cell.corpus for cell in cells] == ["made", "made", "other", "other"]
    for i, cell in enumerate(cells):
        worker.run(cell, f"{i:064x}")
        kept = {record.text for record in corpora[cell.corpus].public} if cell.kind else set()
        assert remembered(worker._fits.vectors) == kept


def test_cells_of_one_fit_go_to_one_worker_and_no_worker_is_idle(made: Any) -> None:
    _, _, cells = made(adept(document_epsilon=[2, 5, 10, 20]))
    named = {cell.row: cell for cell in cells}
    rows = [row for row in named if row == "original" or row.startswith("adept")]
    waiting = Waiting(rows, named)
    first = waiting.next()
    assert first == "original"
    second = waiting.next(first)
    assert second == "adept epsilon=2"
    assert waiting.next(second) == "adept epsilon=5"
    assert waiting.next() == "adept epsilon=10"  # a second worker helps
    assert waiting.next("adept epsilon=10") == "adept epsilon=20"
    assert not waiting
    assert [*Waiting(["public-only", "original"], named)._left] == ["public-only", "original"]
