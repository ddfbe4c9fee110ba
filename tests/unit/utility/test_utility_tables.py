"""Tables: no row without its baselines, no accuracy without fidelity, and baselines that keep nothing private."""

import json
import math
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dptext.errors import ConfigError
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.sampling.randomness import seeded
from dptext.text.records import Record, Release
from dptext.text.samples import sample_records
from dptext.text.tokens import tokenize
from dptext.utility.classification import evaluate, train_tfidf
from dptext.utility.fidelity import fidelity
from dptext.utility.tables import CANDIDATES, LABEL_ONLY_ROWS, baselines, required_rows, utility_table

LABELS = ("health", "travel", "money", "leisure")
PUBLIC = sample_records(100, seed=1)
PRIVATE = [replace(record, id=f"p{record.id}", kept={"n": 1}) for record in sample_records(120, seed=2)]
TEST = sample_records(80, seed=3)


class Bag:
    """Hashed bag of words."""

    name = "bag"
    dim = 64
    calls = 0

    def embed(self, texts):
        self.calls += 1
        found = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % self.dim] += 1
        return found


@pytest.fixture(scope="module")
def rows():
    made = baselines(PRIVATE, PUBLIC, labels=LABELS)
    for name, text in zip(LABEL_ONLY_ROWS, ("random", "medoid"), strict=True):
        made[name] = LabelOnly(LABELS, 4.0, text=text).fit(public=PUBLIC).privatize(PRIVATE, seeded(0))
    made[CANDIDATES] = Candidates(4.0, LABELS, ranker="tfidf").fit(public=PUBLIC).privatize(PRIVATE, seeded(0))
    return made


@pytest.fixture(scope="module")
def table(rows):
    return utility_table(rows, private=PRIVATE, test=TEST, embedder=Bag(), seed=2)


def test_every_number_is_that_of_its_own_function(rows, table):
    assert [row.name for row in table.rows] == list(rows)
    for row in table.rows:
        releases = rows[row.name]
        assert row.fidelity == fidelity(PRIVATE, releases, embedder=Bag(), seed=2)
        classifier = train_tfidf([r.output for r in releases], [r.label for r in releases])
        assert row.accuracy == evaluate(classifier, TEST, seed=2)


def test_the_baselines_say_what_the_table_is_for(table):
    """Public knowledge alone trains a good classifier, and only fidelity tells it from the originals."""
    row = {found.name: found for found in table.rows}
    assert row["public-only"].accuracy.accuracy.low > 0.7
    assert row["public-only"].fidelity.cosine.high < row["original"].fidelity.cosine.low
    assert row["public-only"].fidelity.label_kept.high < 0.45
    assert row["original"].fidelity.label_kept.value == 1
    kept = math.exp(4) / (math.exp(4) + 3)
    for name in LABEL_ONLY_ROWS:
        assert row[name].fidelity.label_kept.low < kept < row[name].fidelity.label_kept.high
    assert row["random"].fidelity.label_kept.low < 0.25 < row["random"].fidelity.label_kept.high
    assert row["random"].accuracy.accuracy.high < 0.7


@pytest.mark.parametrize("missing", ["original", "public-only", "random", *LABEL_ONLY_ROWS, CANDIDATES])
def test_a_table_without_a_baseline_is_refused(rows, missing):
    fewer = {name: releases for name, releases in rows.items() if name != missing}
    with pytest.raises(ConfigError, match=missing.replace("(", r"\(").replace(")", r"\)")):
        utility_table(fewer, private=PRIVATE, test=TEST, embedder=Bag())


def test_shifted_rows_are_refused(rows):
    wrong = {**rows, "mine": rows["original"][1:] + rows["original"][:1]}
    with pytest.raises(ConfigError, match="same ids"):
        utility_table(wrong, private=PRIVATE, test=TEST, embedder=Bag())


def test_without_labels_less_is_asked_and_missing_values_are_dashes():
    private = [replace(record, label=None) for record in PRIVATE]
    assert required_rows(private) == ("original", "public-only", "random")
    made = baselines(private, PUBLIC, labels=())
    assert all(release.label is None for release in made["random"])
    bag = Bag()
    table = utility_table(made, private=private, test=TEST, embedder=bag)
    assert bag.calls == 1
    lines = [line for line in table.to_markdown().splitlines() if line.startswith("| original")]
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert (cells[1], cells[5], cells[6]) == ("-", "-", "-")
    assert table.to_dict()["rows"]["original"]["classification"] is None
    assert table.rows[1].accuracy is not None  # public labels train a classifier
    unlabelled = [replace(record, label=None) for record in TEST]
    assert utility_table(made, private=private, test=unlabelled, embedder=Bag()).rows[1].accuracy is None


def test_markdown_and_json(rows):
    named = {**rows, "a|b": rows["original"]}
    table = utility_table(named, private=PRIVATE, test=TEST, embedder=Bag())
    head, empty, *lines = table.to_markdown().splitlines()
    assert "120 private" in head
    assert "95%" in head
    assert empty == ""
    assert len(lines) == len(named) + 2
    assert len({len(line) for line in lines}) == 1
    columns = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert columns.index("accuracy") > columns.index("cosine") > columns.index("label kept")
    assert "own first of 100" in columns
    assert "a\\|b" in lines[-1]
    estimate = table.rows[0].fidelity.cosine
    assert f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]" in lines[2]
    data = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert set(data["rows"]) == set(named)
    assert data["settings"]["classifier"] == "tfidf"
    assert all(set(row) == {"classification", "fidelity"} for row in data["rows"].values())


def test_any_trainer_can_be_given(rows):
    def constant(texts, labels, *, seed):
        return train_tfidf(texts[:1], labels[:1])

    table = utility_table(rows, private=PRIVATE, test=TEST, embedder=Bag(), classifier=constant)
    assert table.classifier == "constant"
    assert table.rows[0].accuracy.accuracy.value == sum(r.label == PRIVATE[0].label for r in TEST) / 80


# ----------------------------------------------------------------------------------------------- baselines


def test_originals_leave_as_they_are():
    made = baselines(PRIVATE, PUBLIC, labels=LABELS)["original"]
    assert made == [Release(r.id, r.text, r.label, {"n": 1}) for r in PRIVATE]


def test_the_other_baselines_look_at_nothing_private():
    masked = [Record(r.id, "", kept=r.kept) for r in PRIVATE]
    for name in ("public-only", "random"):
        seen = baselines(PRIVATE, PUBLIC, labels=LABELS, seed=4)[name]
        assert seen == baselines(masked, PUBLIC, labels=LABELS, seed=4)[name]
        assert seen != baselines(PRIVATE, PUBLIC, labels=LABELS, seed=5)[name]
        assert [(release.id, release.kept) for release in seen] == [(r.id, {"n": 1}) for r in PRIVATE]


def test_public_only_draws_records_with_their_labels():
    many = [Record(str(i), "") for i in range(4000)]
    public = [Record("0", "a", "x"), Record("1", "b", "y"), Record("2", "c", "y"), Record("3", "d")]
    counts = Counter((r.output, r.label) for r in baselines(many, public, labels=("x", "y"))["public-only"])
    assert set(counts) == {(r.text, r.label) for r in public}
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 16.3  # 3 degrees of freedom, 0.001


def test_random_words_have_public_lengths_and_words():
    many = [Record(str(i), "") for i in range(3000)]
    public = [Record("0", "a a a a b", "x"), Record("1", "c", "y")]
    made = baselines(many, public, labels=("x", "y", "z"))["random"]
    sizes = Counter(len(r.output.split()) for r in made)
    assert set(sizes) == {5, 1}
    assert abs(sizes[5] - 1500) < 120
    words = Counter(word for r in made for word in r.output.split())
    assert set(words) == {"a", "b", "c"}  # each as likely, however often it occurs
    third = words.total() / 3
    assert sum((count - third) ** 2 / third for count in words.values()) < 13.8
    labels = Counter(r.label for r in made)
    assert sum((count - 1000) ** 2 / 1000 for count in labels.values()) < 13.8
    tokens = {token for r in PUBLIC for line in tokenize(r.text) for token in line}
    drawn = baselines(PRIVATE, PUBLIC, labels=LABELS)["random"]
    assert {word for r in drawn for word in r.output.split()} <= tokens


def test_public_records_without_text_are_refused():
    for public in ([], [Record("0", " ")]):
        with pytest.raises(ConfigError, match="public records"):
            baselines(PRIVATE, public, labels=LABELS)
