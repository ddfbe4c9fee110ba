"""`dptext demo` on few texts: what it prints is computed, and the false claim falls by a number."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from dptext.cli import demo
from dptext.cli.answers import interval
from dptext.cli.demo import EPSILON, DemoFindings, DemoSizes, lines, texts, tried
from dptext.embeddings.encoders import load_encoder
from dptext.estimates import Estimate
from dptext.runs.summarizing import summarize
from dptext.text.samples import SAMPLE_LABELS

SMALL = DemoSizes(private=240, public=240, test=80, trials=2000)


@pytest.fixture(
    scope="module",
    params=["glove", pytest.param("sentences", marks=pytest.mark.slow)],  # the demo goes the same way with either
)
def found(request: pytest.FixtureRequest) -> Iterator[DemoFindings]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "glove":  # its vectors are there in a moment
            patch.setattr(demo, "load_encoder", partial(load_encoder, "glove"))
            patch.setattr(demo, "summarize", partial(summarize, encoder="glove"))
        yield demo.run(SMALL)


@pytest.mark.parametrize(("scaled_for", "refuted"), [(2 * EPSILON, True), (EPSILON, False), (EPSILON / 2, False)])
def test_a_claim_falls_if_the_scale_is_too_small(scaled_for: float, refuted: bool) -> None:
    claim, report = tried(scaled_for, SMALL.trials)
    assert claim.epsilon == EPSILON
    assert 0.99 * scaled_for < report.epsilon_lower_bound <= scaled_for
    assert report.refutes(claim) is refuted
    assert not report.defects  # the number alone refutes it


def test_the_screen_says_what_the_trials_found(found: DemoFindings) -> None:
    screen = " ".join(" ".join(lines(found)).split())
    assert screen.count("The claim of epsilon 1 per document is refuted: outputs of two neighbours differ by") == 1
    assert screen.count("Nothing refutes the claim of epsilon 1 per document") == 1
    planted = " ".join(" ".join(lines(replace(found, false=found.true))).split())
    assert "is refuted" not in planted
    assert planted.count("Nothing refutes the claim of epsilon 1 per document") == 2


def test_a_screen_holds_it(found: DemoFindings) -> None:
    screen = lines(found)
    assert len(screen) <= 36
    assert max(map(len, screen)) <= 100
    assert found.corpus.guarantees[-1].sentence() in " ".join(" ".join(screen).split())
    for name, accuracy in found.accuracy.items():
        (row,) = (line for line in screen if line.startswith(f"  {name} "))
        assert row.endswith(interval(accuracy))
    assert sum("dptext " in line for line in screen[-3:]) == 3


def test_the_corpus_is_of_public_texts_and_the_rows_are_in_their_order(found: DemoFindings) -> None:
    _, pool, _ = texts(SMALL)
    assert {release.output for release in found.corpus.releases} <= {record.text for record in pool}
    assert {release.label for release in found.corpus.releases} == {*SAMPLE_LABELS}
    assert found.corpus.guarantees[-1].epsilon == EPSILON
    right = found.accuracy
    assert [*right] == ["original", "corpus", "public-only", "label_only", "random"]
    assert right["original"].low > right["random"].high
    assert right["corpus"].low > right["random"].high


def test_no_text_is_in_two_parts_and_the_public_ones_have_no_labels() -> None:
    parts = texts(SMALL)
    assert [len(part) for part in parts] == [SMALL.private, SMALL.public, SMALL.test]
    assert len({record.text for part in parts for record in part}) == sum(map(len, parts))
    assert {record.label for record in parts[1]} == {None}
    assert {record.label for part in (parts[0], parts[2]) for record in part} == {*SAMPLE_LABELS}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (0.1, "The corpus teaches more than the public texts: +10.0 [8.0, 12.0] points."),
        (0.01, "It is not shown to teach more than the public texts."),
        (-0.1, "The public texts teach more: take these."),
    ],
)
def test_the_verdict_follows_from_the_interval(more: float, said: str, found: DemoFindings) -> None:
    """It is of the same test texts, as that of `dptext utility corpus` is."""
    right = found.accuracy
    assert abs(found.more.value - (right["corpus"].value - right["public-only"].value)) < 1e-9
    assert said in lines(replace(found, more=Estimate(more, more - 0.02, more + 0.02, 0.95)))


def test_json_holds_the_same(
    found: DemoFindings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.setattr(demo, "run", lambda sizes: asked.append(sizes) or found)
    demo.demo(as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert asked == [DemoSizes()]
    assert (told["half the sensitivity"]["refuted"], told["true scale"]["refuted"]) == (True, False)
    assert told["accuracy"]["corpus"]["value"] == found.accuracy["corpus"].value
    assert told["corpus"]["guarantee"]["epsilon"] == EPSILON
    assert told["corpus"]["texts"] == len(found.corpus.releases)
