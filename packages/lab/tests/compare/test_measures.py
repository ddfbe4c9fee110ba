"""Single cells in this process: what is measured where, and what a seeded experiment is worth."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dptext as dp
from compared import experiment, words, write_texts
from dptext.audits import Pair
from dptext.errors import ConfigError
from dptext_lab.compare import cells, measure
from dptext_lab.compare.cell_run import Outcome, run_cell
from dptext_lab.compare.cells import Lens, SharedFits
from dptext_lab.compare.corpora import load_corpus
from dptext_lab.compare.experiment import parse_experiment
from dptext_lab.compare.grid import plan_cells

LABELLED = {"label": "class", "author": "who"}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.jsonl", 200)


def outcome(texts: Path, vectors: Path, row: str, *, private_samples: bool = False, **changes: Any) -> Outcome:
    found = parse_experiment(experiment(texts, vectors, **{"corpus": LABELLED} | changes))
    corpus = load_corpus("made", found.corpora["made"], seed=found.seed)
    cell = next(c for c in plan_cells(found, {"made": corpus.labels}) if c.row == row)
    lens = Lens(found.settings.embedder)
    return run_cell(cell, found, corpus, lens, fits=SharedFits(), private_samples=private_samples)


def test_a_classifier_of_the_originals_gives_members_away_and_its_control_does_not(texts: Path, vectors: Path) -> None:
    changes = {"utilities": ["classification"], "audits": ["membership"]}
    numbers = {n.metric: n for n in outcome(texts, vectors, "original", **changes).numbers}
    control = numbers["membership.control"]
    assert control.low is not None
    assert control.high is not None
    assert control.low <= 0.5 <= control.high
    assert numbers["membership.auc"].value == pytest.approx(numbers["membership.loss_threshold"].value, abs=0.5)
    assert numbers["classification.accuracy"].value == 1.0  # each label has words of its own
    public = {n.metric: n for n in outcome(texts, vectors, "public-only", **changes).numbers}
    assert public["membership.auc"].low is not None
    assert public["membership.auc"].low <= 0.5


def test_authors_of_the_originals_are_named_more_often_than_chance(texts: Path, vectors: Path) -> None:
    settings = {"embedder": str(vectors), "authorship": {"training": 6, "attacked": 4, "authors": 2}}
    found = outcome(texts, vectors, "original", audits=["authorship"], settings=settings)
    numbers = {n.metric: n for n in found.numbers}
    assert numbers["authorship.chance"].value == 0.5
    best, each = numbers["authorship.static"], [numbers[f"authorship.{name}_static"] for name in ("ngrams", "encoder")]
    assert best.value == max(n.value or 0.0 for n in each)
    wider = next(n for n in each if n.value == best.value)
    assert (best.low or 0.0) < (wider.low or 0.0) or best.low == wider.low == 0.0
    settings["authorship"] = {"training": 60, "attacked": 40}
    with pytest.raises(ConfigError, match="at least 2 authors"):
        outcome(texts, vectors, "original", audits=["authorship"], settings=settings)


def test_seeded_releases_void_every_guarantee_and_come_again(texts: Path, vectors: Path) -> None:
    mechanisms = [words(vectors, set={"diameter": 60.0, "max_tokens": 20}, document_epsilon=[20])]
    changes = {"mechanisms": mechanisms, "seeded": True}
    first, second = (outcome(texts, vectors, "words epsilon=20", **changes) for _ in range(2))
    assert first.guarantee is not None
    assert (first.guarantee.basis, first.document) == ("none", None)
    assert "seeded" in first.guarantee.reason
    assert (first.numbers, first.samples) == (second.numbers, second.samples)
    secure = outcome(texts, vectors, "words epsilon=20", mechanisms=mechanisms)
    assert secure.guarantee is not None
    assert secure.document == secure.guarantee.epsilon <= 20
    assert secure.samples != first.samples


def test_what_has_learned_from_private_text_makes_no_sample_unless_they_are_asked_for(
    texts: Path, vectors: Path
) -> None:
    pytest.importorskip("torch")
    tiny = {"hidden": 8, "embedding": 8, "epochs": 1, "max_tokens": 8, "variance": 1.0}
    leaky = {"name": "leaky", "kind": "published_adept", "set": tiny, "trains_on": "private"}
    changes: dict[str, Any] = {"mechanisms": [leaky], "corpus": {}}
    assert outcome(texts, vectors, "leaky", **changes).samples == ()
    asked = outcome(texts, vectors, "leaky", private_samples=True, **changes)
    assert (asked.samples, len(asked.private_samples)) == ((), 4)
    assert len(outcome(texts, vectors, "public-only", **changes).samples) == 4


def test_samples_are_made_of_public_texts_that_no_mechanism_has_seen(
    texts: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearest = {"name": "nearest", "kind": "candidates", "set": {"ranker": "tfidf", "epsilon": 1000.0}}
    changes: dict[str, Any] = {
        "mechanisms": [nearest],
        "corpus": {"shares": {"public": 0.6, "private": 0.2, "test": 0.2}},
    }
    found = outcome(texts, vectors, "nearest", **changes)
    assert len(found.samples) == 4
    assert not any(released == original for original, released in found.samples)
    monkeypatch.setattr(cells, "HELD_OUT_FROM", 1000)  # too few public records: then they are in the pool
    assert all(released == original for original, released in outcome(texts, vectors, "nearest", **changes).samples)


def test_a_corpus_without_anything_to_measure_is_an_error(texts: Path, vectors: Path) -> None:
    with pytest.raises(ConfigError, match="something to measure"):
        outcome(texts, vectors, "original", corpus={}, utilities=["classification"])


def test_a_claim_is_refuted_where_an_audit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    red, green = (dp.Record("0", "a text", label) for label in ("red", "green"))
    mechanism = dp.fit(dp.LabelOnly(epsilon=8.0, labels=("red", "green")), [red, replace(green, id="1")])
    experiment = SimpleNamespace(settings=SimpleNamespace(distinguish=SimpleNamespace(trials=200)))
    monkeypatch.setattr(measure, "distinguish", partial(measure.distinguish, pairs=[Pair(red, green)]))
    stated = mechanism.spec.guarantee()
    for claim, refuted in ((stated, 0.0), (replace(stated, epsilon=0.1), 1.0)):
        found = measure._distinguished(SimpleNamespace(mechanism=mechanism, guarantee=claim), experiment)
        assert {each.metric: each.value for each in found}["distinguish.refuted"] == refuted
