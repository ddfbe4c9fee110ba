"""Experiments as TOML: errors that name the key, the grid with its references, signatures, corpora."""

import re
from pathlib import Path
from typing import Any

import pytest

from commands import dptext
from compared import LABELS, experiment, replacement, words, write_texts
from dptext.errors import ConfigError, DataError
from dptext_lab.compare import cells as grid_cells
from dptext_lab.compare.cells import signature
from dptext_lab.compare.corpora import load_corpus
from dptext_lab.compare.corpus_plans import CorpusPlan, Source, expanded
from dptext_lab.compare.experiment import (
    AuthorshipSettings,
    DistinguishSettings,
    Experiment,
    MeasureSettings,
    MechanismPlan,
    parse_experiment,
    read_experiment,
)
from dptext_lab.compare.grid import kinds_without_labels, plan_cells


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.jsonl")


LABELLED = {"label": "class", "author": "who"}


def broken(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parts, last = path.split("/")
    inner: Any = data
    for part in parts:
        inner = inner[int(part)] if part.isdigit() else inner.setdefault(part, {})
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("utilitys", [], "did you mean 'utilities'"),
        ("name", None, "name: expected a value, found nothing"),
        ("seed", -1, "seed: it should be greater than or equal to 0, found -1"),
        ("trials", True, "trials: it should be a valid integer, found True"),
        ("seeded", 1, "seeded: it should be a valid boolean, found 1"),
        ("utilities", ["fidelty"], "did you mean 'fidelity'"),
        ("audits", ["authors"], "audits number 1: .*found 'authors'"),
        ("settings/classifier", "svm", "'tfidf' or 'bilstm', found 'svm'"),
        ("settings/embedder", "no/such/file", "word vectors that exists"),
        ("settings/authorship", {"training": 2, "attacked": 1, "bundle": 2}, "bundle=2 <= attacked=1"),
        ("settings/distinguish", {"trials": 5}, "settings.distinguish.trials: .*equal to 200, found 5"),
        ("corpora/made/path", "no/such.jsonl", "DPTEXT_DATA"),
        ("corpora/made/pth", "x", "did you mean 'path'"),
        ("corpora/made/shares", {"public": 0.5, "private": 0.5}, "'test'"),
        ("corpora/made/shares", {"public": 0.9, "private": 0.5, "test": 0.1}, "sum to 1"),
        ("corpora/made/sample", 10, "one of the two"),
        ("corpora/made/labels", ["a", "b"], "label = FIELD"),
        ("corpora/made/pieces", "words", "'documents' or 'sentences'"),
        ("corpora/made/on_error", "warn", "'stop' or 'skip'"),
        ("corpora", {}, r"\[corpora.NAME\]"),
        ("mechanisms/0/kind", "random_replacment", "did you mean 'random_replacement'"),
        ("mechanisms/0/name", "original", "in every table"),
        ("mechanisms/0/set/rat", 0.5, "rat"),
        ("mechanisms/0/sweep", {"rate": 0.5}, "mechanisms number 1.sweep.rate: it should be a valid list, found 0.5"),
        ("mechanisms/0/sweep", {"rate": [0.5]}, "not in both"),
        ("mechanisms/0/sweep", {"n_words": []}, "sweep.n_words: .*at least 1 item"),
        ("mechanisms/0/document_epsilon", [-1], "document_epsilon"),
        ("mechanisms/0/document_epsilon", [1, 1], "different values"),
        ("mechanisms/0/corpora", ["other"], "'other'"),
        ("mechanisms/0/trains_on", "private", "public text alone"),
        ("mechanisms/0/name", "label_only of mine", "in every table"),
        ("mechanisms/0/delta", 2, "delta"),
    ],
)
def test_what_cannot_be_run_is_refused_by_the_name_of_its_key(
    texts: Path, vectors: Path, path: str, value: Any, said: str
) -> None:
    data = broken(experiment(texts, vectors), path, value)
    with pytest.raises(ConfigError, match=said):
        plan_cells(parse_experiment(data), {"made": ()})


def test_a_setting_that_is_missing_is_named_as_the_file_has_it(texts: Path) -> None:
    data = experiment(texts, texts, mechanisms=[{"name": "near", "kind": "word_metric"}])
    with pytest.raises(ConfigError, match=r"'near': word_metric needs the setting 'epsilon'. Write set = { epsilon = "):
        plan_cells(parse_experiment(data), {"made": ()})


def test_two_mechanisms_of_one_name_or_row_are_refused(texts: Path, vectors: Path) -> None:
    twice = [replacement(vectors), replacement(vectors)]
    with pytest.raises(ConfigError, match="one mechanism"):
        parse_experiment(experiment(texts, vectors, mechanisms=twice))


def test_a_file_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('name = "x"\n[corpora.s]\nsample = 30\nlabel = "label"\n', "utf-8")
    assert read_experiment(path).corpora["s"].labels == ()
    path.write_text("name =", "utf-8")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_experiment(path)
    with pytest.raises(ConfigError, match="Cannot read"):
        read_experiment(tmp_path / "none.toml")


def test_the_folder_of_the_corpora_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPTEXT_DATA", "/data")
    assert expanded("$DPTEXT_DATA/a") == expanded("${DPTEXT_DATA}/a") == "/data/a"
    monkeypatch.delenv("DPTEXT_DATA")
    assert expanded("$DPTEXT_DATA/a") == "../shared/data/a"


def test_references_stand_in_every_corpus_at_the_same_epsilons(texts: Path, vectors: Path) -> None:
    calibrated = words(vectors, set={"diameter": 60.0, "max_tokens": 20}, document_epsilon=[5, 2])
    own = words(vectors, name="near", sweep={"epsilon": [1.0, 3.0]})
    data = experiment(
        texts, vectors, mechanisms=[calibrated, own, replacement(vectors, document_epsilon=[2])], trials=2
    )
    data["corpora"]["other"] = {"sample": 30, "label": "label"}
    found = parse_experiment(data)
    cells = plan_cells(found, {"made": (), "other": LABELS})
    rows = {corpus: [c.row for c in cells if c.corpus == corpus and c.trial == 1] for corpus in ("made", "other")}
    assert rows["made"] == [
        "original", "public-only", "random", "words epsilon=5", "words epsilon=2", "near epsilon=1", "near epsilon=3",
        "replaced",
    ]  # fmt: skip
    labelled = [c for c in cells if c.corpus == "other" and c.trial == 0 and c.kind == "label_only"]
    shown = [(c.row, c.settings["epsilon"], c.settings["labels"]) for c in labelled]
    names = ("label_only", "label_only (medoid)")
    assert shown == [(name, epsilon, list(LABELS)) for epsilon in (2.0, 5.0) for name in names]
    units = {c.row: c.unit for c in cells}
    assert (units["words epsilon=5"], units["near epsilon=1"], units["original"]) == ("document", "token", "")
    none = parse_experiment(experiment(texts, vectors))
    epsilons = [c.settings["epsilon"] for c in plan_cells(none, {"made": LABELS}) if c.row == "label_only"]
    assert epsilons == [2.0, 5.0, 10.0, 20.0]


def test_labels_of_the_corpus_are_put_into_specs_also_within_another(texts: Path, vectors: Path) -> None:
    plain = {"name": "c", "kind": "candidates", "set": {"epsilon": 2.0}}
    without = {"name": "d", "kind": "candidates", "set": {"epsilon": 2.0, "labels": []}}
    inside = {"name": "e", "kind": "embedded", "set": {"mechanism": {"kind": "candidates", "epsilon": 2.0}}}
    data = experiment(texts, vectors, mechanisms=[plain, without, inside])
    cells = {c.row: c.settings for c in plan_cells(parse_experiment(data), {"made": LABELS})}
    assert cells["c"]["labels"] == list(LABELS)
    assert cells["d"]["labels"] == []
    assert cells["e"]["mechanism"]["labels"] == list(LABELS)


def test_a_calibration_that_ends_below_what_was_asked_brings_no_other_reference(texts: Path, vectors: Path) -> None:
    near = {"name": "near", "kind": "candidates", "set": {"epsilon": 4.9999997}}
    exact = {"name": "exact", "kind": "candidates", "set": {"epsilon": 5.0}}
    found = parse_experiment(experiment(texts, vectors, mechanisms=[near, exact]))
    epsilons = [c.settings["epsilon"] for c in plan_cells(found, {"made": LABELS}) if c.row == "label_only"]
    assert epsilons == [5.0]


def test_an_epsilon_that_cannot_be_reached_is_a_cell_with_its_reason(texts: Path, vectors: Path) -> None:
    few = words(vectors, set={"noise": "multivariate", "diameter": 60.0, "max_tokens": 5000}, document_epsilon=[2])
    few["delta"] = 1e-30
    (cell,) = plan_cells(parse_experiment(experiment(texts, vectors, mechanisms=[few])), {"made": ()})[3:]
    assert "slack" in cell.fault
    assert cell.row == "words epsilon=2"


def test_a_signature_changes_with_everything_that_makes_a_cell(texts: Path, vectors: Path) -> None:
    def signed(**changes: Any) -> str:
        data = experiment(texts, vectors, **changes)
        found = parse_experiment(data)
        corpus = load_corpus("made", found.corpora["made"], seed=found.seed)
        return signature(plan_cells(found, {"made": ()})[-1], found, corpus.described())

    base = signed()
    assert base == signed()
    assert base == signed(settings={"embedder": str(vectors), "authorship": {"training": 3}})  # no such audit
    changed = [
        signed(seed=2),
        signed(seeded=True),
        signed(trials=2),
        signed(utilities=["fidelity", "stylometry"]),
        signed(settings={"embedder": "sentence"}),
        signed(mechanisms=[replacement(vectors, set={"rate": 0.5})]),
        signed(mechanisms=[replacement(vectors, name="other")]),
        signed(mechanisms=[replacement(vectors, delta=1e-6)]),
        signed(corpus={"limit": 100}),
        signed(corpus={"author": "who"}),
    ]
    kept = vectors.read_bytes()
    vectors.write_bytes(kept.replace(b"0", b"1", 1))
    changed.append(signed())  # the same path, other vectors
    vectors.write_bytes(kept)
    texts.write_text(texts.read_text("utf-8").replace("writer", "author", 1), "utf-8")
    assert signed() == base  # authors are not read
    texts.write_text(texts.read_text("utf-8").replace('"body": "', '"body": "new ', 1), "utf-8")
    changed.append(signed())
    assert len({base, *changed}) == len(changed) + 1


def test_parts_are_disjoint_the_same_again_and_as_large_as_asked(texts: Path, vectors: Path) -> None:
    def loaded(**corpus: Any) -> Any:
        plan = parse_experiment(experiment(texts, vectors, corpus=LABELLED | corpus)).corpora["made"]
        return load_corpus("made", plan, seed=1)

    found = loaded()
    parts = [[record.text for record in part] for part in found.parts().values()]
    assert [len(part) for part in parts] == [48, 48, 24]
    assert len(set().union(*parts)) == 120
    assert found.described() == loaded().described()
    assert found.labels == tuple(sorted(LABELS))
    assert "canary" not in repr(found)
    assert [len(part) for part in loaded(limit=50).parts().values()] == [20, 20, 10]
    assert {r.author for r in loaded(where={"who": ["writer 0", "writer 1"]}).private} == {"writer 0", "writer 1"}
    short = loaded(max_tokens=3).private
    assert {len(record.text.split()) for record in short} == {3}
    few = [[record.text for record in part] for part in loaded(max_tokens=1).parts().values()]
    assert len(set().union(*few)) == sum(map(len, few))  # cut texts that are equal are one
    with pytest.raises(ConfigError, match="every public record"):
        loaded(labels=["red", "blue"], where={"class": "green"})


def test_a_part_with_a_file_of_its_own_holds_no_text_of_an_earlier_part(texts: Path, vectors: Path) -> None:
    data = experiment(texts, vectors)
    own = {part: {"path": str(texts), "where": {"split": "a"}} for part in ("public", "private")}
    test = {"path": str(texts), "where": {"split": "b"}, "limit": 7}
    data["corpora"]["made"] = {"text": "body", **own, "test": test}
    plan = parse_experiment(data).corpora["made"]
    with pytest.raises(ConfigError, match="'private'"):  # all of it is public
        load_corpus("made", plan, seed=1)
    data["corpora"]["made"]["private"] = {"path": str(texts), "limit": 10}
    found = load_corpus("made", parse_experiment(data).corpora["made"], seed=1)
    assert [len(part) for part in found.parts().values()] == [90, 10, 7]


def test_a_record_that_cannot_be_read_ends_the_reading_or_is_left_out(texts: Path, vectors: Path) -> None:
    with texts.open("a", encoding="utf-8") as file:
        file.write('{"body": "one \\u0000 two", "class": "red"}\n')
    with pytest.raises(DataError, match=r"NUL.*on_error = \"skip\" in \[corpora\."):
        load_corpus("made", parse_experiment(experiment(texts, vectors)).corpora["made"], seed=1)
    told = parse_experiment(experiment(texts, vectors, corpus={"on_error": "skip"})).corpora["made"]
    assert sum(map(len, load_corpus("made", told, seed=1).parts().values())) == 120


def test_sentences_can_be_the_records(tmp_path: Path, vectors: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text("".join(f'{{"body": "First {i}. Then {i} more."}}\n' for i in range(10)), "utf-8")
    data = experiment(path, vectors, corpus={"pieces": "sentences"})
    found = load_corpus("made", parse_experiment(data).corpora["made"], seed=1)
    assert [len(part) for part in found.parts().values()] == [8, 8, 4]


#: Digests of cells. A change of code that is none of the numbers changes none: what is finished is found again.
FINISHED_BEFORE = {
    "original": "c3ca8982ec0d77f883a6346be3f28775eff1f2253b9a25041272dd0aa0185e51",
    "label_only (medoid)": "08231af4be7e5fe8bf1fe2730f2571bc31d3940bec05298495cacf3e3cf95485",
    "near label_weight=0 epsilon=2": "20bdd090f06ea3469b07606ac461fa1f9a70de625245b5afab08e7570574f7b2",
    "near label_weight=1.5 epsilon=5": "82a857f80107e30206cf2b76954ab716dbc60378db848f9e02b94eccbe9906b6",
    "swap": "2cbd57a18f3d8c375f4966260bfd22805f3abafe5f5ee34916d2d1022eeec78c",
}


def test_cells_that_are_finished_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    near = {
        "name": "near",
        "kind": "candidates",
        "set": {"ranker": "tfidf", "selection": "top_k"},
        "sweep": {"label_weight": [0, 1.5]},
        "document_epsilon": [2, 5],
    }
    swap = {"name": "swap", "kind": "random_replacement", "set": {"rate": 1}, "delta": 1e-6}
    data = {
        "name": "kept",
        "seed": 7,
        "trials": 2,
        "utilities": ["classification", "fidelity"],
        "audits": ["authorship", "distinguish"],
        "settings": {"embedder": "sentence", "authorship": {"training": 6}, "distinguish": {"trials": 300}},
        "corpora": {"made": {"sample": 60, "label": "label"}},
        "mechanisms": [near, swap],
    }
    monkeypatch.setattr(grid_cells, "version", lambda _: "0.1.0")
    found = parse_experiment(data)
    corpus = {"public": {"records": 3, "digest": "d"}}
    planned = [cell for cell in plan_cells(found, {"made": ("a", "b")}) if cell.trial == 0]
    signed = {cell.row: signature(cell, found, corpus) for cell in planned}
    assert {row: signed[row] for row in FINISHED_BEFORE} == FINISHED_BEFORE


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('name = "x"\n[corpora.s]\nsampl = 30\n', "utf-8")
    with pytest.raises(ConfigError, match=r"e\.toml, corpora\.s: 'sampl' is no key .* did you mean 'sample'"):
        read_experiment(path)


def test_all_keys_are_printed_by_the_command() -> None:
    """No file is needed for it, and no key of any table is absent."""
    done = dptext("compare", "--keys")
    assert done.returncode == 0, done.stderr
    tables = [
        Experiment, MechanismPlan, CorpusPlan, Source, MeasureSettings, AuthorshipSettings, DistinguishSettings
    ]  # fmt: skip
    words = set(re.findall(r"\w+", done.stdout))
    assert {key for table in tables for key in table.model_fields} <= words


def test_mechanisms_without_labels_are_known_before_the_run_where_a_classifier_is_measured(
    texts: Path, vectors: Path
) -> None:
    nearest = {"name": "nearest", "kind": "candidates", "document_epsilon": [2]}
    mine = words(vectors, name="mine", set={"epsilon": 2.0})
    data = experiment(texts, vectors, corpus=LABELLED, utilities=["classification"], mechanisms=[nearest, mine])
    assert kinds_without_labels(parse_experiment(data)) == ["mine"]
    assert kinds_without_labels(parse_experiment({**data, "utilities": ["fidelity"]})) == []
    unlabelled = experiment(texts, vectors, utilities=["classification"], mechanisms=[mine])
    assert kinds_without_labels(parse_experiment(unlabelled)) == []
