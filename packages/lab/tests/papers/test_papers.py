"""The five studies in small: planted numbers come out, every row is there, and no text of the study is shown."""

import functools
import json
import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.mechanism import Mechanism
from dptext.text.records import Record, Release
from dptext_lab.papers import adept, erae, redaction, refutation, sentdp
from dptext_lab.papers.measuring import COSINE, LABEL, Bench, rewritten
from dptext_lab.papers.table import NOT_DECIDED, REFERENCES, WIDTH, Paper, PaperRow, beside, brief, percent, shown
from dptext_lab.papers.texts import HALVED, Texts, apart, authored, cut, documents, of_file, sampled
from dptext_lab.redaction.divergence import density_ratio
from dptext_lab.refutation.claims import Claim
from dptext_lab.refutation.simulation import Normal, Uniform, simulate
from small_papers import SMALL, HashedWords

SEED = 3


def fit(spec, *, public=(), private=(), seed: int, title: str) -> Mechanism[str]:
    return spec.fit(public=public, seed=seed, **({"private": private} if private else {}))


BENCH = Bench(HashedWords(), SEED, fit, lambda _: None)


@pytest.fixture
def bench() -> Bench:
    return BENCH


ROWS = {
    "redaction": [*REFERENCES, "50% masked", "90% masked"],
    "adept": [*REFERENCES, adept.PUBLISHED, adept.SOUND],
    "erae": [*REFERENCES, erae.PUBLISHED, erae.SOUND, erae.CHOICE, erae.PROTECTING],
    "sentdp": [*REFERENCES, sentdp.PUBLISHED, sentdp.PRINTED, sentdp.SENTENCE, sentdp.SOUND],
}


def anew(name: str, bench: Bench) -> tuple[Texts, Paper]:
    study, sizes = SMALL[name]
    texts = study.built_in(sizes, bench.seed)
    with mock.patch.object(density_ratio, "MOST_EPOCHS", 2):
        return texts, study.study(texts, bench, sizes)


@functools.cache
def studied(name: str) -> tuple[Texts, Paper]:
    """One study for all tests, which only read it: test_studies_are_repeatable makes it again."""
    return anew(name, BENCH)


@pytest.mark.parametrize("name", SMALL)
def test_each_study_shows_its_rows_and_no_text(name: str) -> None:
    if name in ("adept", "erae", "sentdp"):
        pytest.importorskip("torch")
    texts, paper = studied(name)
    assert paper.name == name
    if name in ROWS:
        assert [row.name for row in paper.rows] == ROWS[name]
        original = paper.row("original").numbers
        assert original[COSINE].value == pytest.approx(1.0)
        assert all(isinstance(row.numbers[COSINE], Estimate) for row in paper.rows)
        # the few texts of ER-AE do not decide
        assert paper.against_public(paper.row("original"))[0] == (NOT_DECIDED if name == "erae" else "keeps more")
    lines = [*paper.lines(), *paper.notes]
    assert max(map(len, paper.lines())) <= WIDTH
    written = json.dumps(paper.to_dict()) + "\n".join(lines)
    assert not any(record.text in written for record in (*texts.private, *texts.public))
    assert json.loads(json.dumps(paper.to_dict()))["rows"][0]["row"] == paper.rows[0].name


@pytest.mark.parametrize("law", [Uniform(), Normal(0.1)])
@pytest.mark.parametrize("dim", [2, 16])
def test_the_counts_of_the_refutation_are_those_of_the_simulation(dim: int, law) -> None:
    _, paper = studied("refutation")
    row = paper.row(f"n = {dim}, {law}")
    found = simulate(Claim(dim=dim), law, pairs=300, seed=SEED)
    assert row.numbers[refutation.SHARE] == found.share
    assert row.numbers[refutation.COUNT] == found.share.value * 300
    assert row.numbers[refutation.TRUE] == pytest.approx(dim**0.5)
    assert (row.numbers[refutation.LARGEST] > 1) == (found.share.value > 0)
    assert row.numbers[refutation.LARGEST] <= row.numbers[refutation.TRUE]
    assert row.epsilon == ("claims 10", f"has {10 * dim**0.5:.4g}")


def test_the_largest_ratio_is_that_of_the_drawn_pairs() -> None:
    claim, pairs = Claim(dim=4), 2500  # more than one block
    points = claim.clip(Uniform().draw(2 * pairs, claim, generator=np.random.default_rng([SEED, 4])))
    wanted = np.abs(points[0::2] - points[1::2]).sum(axis=1).max() / 2
    assert refutation._drawn(claim, Uniform(), pairs, SEED).numbers[refutation.LARGEST] == pytest.approx(wanted)


def test_vectors_that_violate_the_claim_are_counted() -> None:
    """Of three vectors two are antipodal in all coordinates, the farthest that there is."""
    vectors = np.array([[1.0] * 9, [-1.0] * 9, [0.0] * 9])
    row = refutation._given(vectors, 0)
    assert row.numbers[refutation.COUNT] == 3  # to the zero vector the distance is sqrt(9) > 2
    assert row.numbers[refutation.LARGEST] == pytest.approx(3.0)


def test_a_method_that_returns_its_input_is_found_out(bench: Bench) -> None:
    texts = sampled(60, 60, 1)
    rows = {**bench.references(texts), "planted": [Release(r.id, r.text, r.label) for r in texts.private]}
    kept = bench.kept(texts.private, rows)
    numbers = {name: rewritten(found) for name, found in kept.items()}
    assert numbers["planted"]["named of 60"].value > 0.97
    assert numbers["planted"][LABEL].value == 1
    made = [PaperRow(name, ("none",), found) for name, found in numbers.items()]
    paper = Paper("p", "s", "c", "i", ("a",), (COSINE,), tuple(made), kept=COSINE, leaks="named of 60")
    assert paper.against_public(paper.row("planted")) == ("keeps more", "leaks more")
    assert paper.against_public(paper.row("random"))[1] == NOT_DECIDED
    assert paper.against_public(paper.row("public-only")) == ()
    assert paper.row("planted").epsilon == ("none",)


def test_published_systems_state_no_guarantee_of_a_text(bench: Bench) -> None:
    pytest.importorskip("torch")
    _, paper = studied("adept")
    assert paper.row(adept.PUBLISHED).epsilon == ("none", "claims 10")
    assert paper.row(adept.SOUND).epsilon == ("10 a text",)
    assert paper.facts["noise_epsilon"] == pytest.approx(40, rel=1e-3)  # 10 sqrt(16)
    assert paper.answer[0].startswith("ADePT as published: no guarantee; made sound at epsilon 10")
    _, paper = studied("sentdp")
    assert paper.row(sentdp.PUBLISHED).epsilon == ("none a document", "10 a sentence")
    assert paper.row(sentdp.SOUND).epsilon[0] == "10 a document"


def test_er_ae_states_what_its_words_cost() -> None:
    pytest.importorskip("torch")
    _, paper = studied("erae")
    assert paper.row(erae.PUBLISHED).epsilon[0] == "72 a text*"  # six words at 12
    assert paper.row(erae.PROTECTING).epsilon[0] == "10 a text"
    # own epsilon 2 (12 - ln(size - 1)), and ln(size) on top: size is 101
    assert paper.facts["claimed_of_a_word"] == pytest.approx(2 * (12 - np.log(100)) + np.log(101), rel=1e-6)


def test_redaction_has_no_sound_variant(bench: Bench) -> None:
    _, paper = studied("redaction")
    assert redaction.NO_SOUND in paper.answer
    assert paper.row("50% masked").epsilon == ("none", "delta 0.5 a word")
    assert not any(row.sound for row in paper.rows)


def test_studies_are_repeatable(bench: Bench) -> None:
    pytest.importorskip("torch")
    first, second = (made[1].to_dict() for made in (studied("sentdp"), anew("sentdp", bench)))
    assert first == second
    other = anew("sentdp", replace(bench, seed=SEED + 1))[1].to_dict()
    assert first["rows"] != other["rows"]


def test_two_numbers_are_decided_by_their_intervals() -> None:
    low, high, wide = Estimate(0.1, 0.0, 0.2, 0.95), Estimate(0.5, 0.4, 0.6, 0.95), Estimate(0.3, 0.1, 0.5, 0.95)
    assert beside(high, low, "keeps") == "keeps more"
    assert beside(low, high, "keeps") == "keeps less"
    assert beside(wide, low, "keeps") == beside(wide, high, "keeps") == NOT_DECIDED
    assert beside(None, high, "keeps") == "-"
    assert [brief(x) for x in (0.0, 0.996, 1.234, 9.999, 250.4)] == ["0", "1", "1.23", "10.0", "250"]
    assert [brief(x) for x in (-0.001, -0.25, -1.0, -12.34)] == ["0", "-.25", "-1", "-12.3"]
    assert [percent(x) for x in (high, 0.984, None)] == ["50%", "98%", "-"]


SMALL_ENDS = st.floats(-0.01, 0.01) | st.integers(-200, 2000).map(lambda n: n / 200)
ENDS = SMALL_ENDS | st.floats(9.9, 10.1) | st.floats(-1e6, 1e6)


@given(st.tuples(ENDS, ENDS, ENDS).map(sorted))
def test_the_interval_that_is_shown_contains_the_one_that_was_computed(ends: list[float]) -> None:
    low, value, high = ends
    middle, below = shown(Estimate(value, low, high, 0.95))
    first, last = below.split(" to ") if " to " in below else below.split("-")
    assert float(first) <= low
    assert high <= float(last)
    assert float(first) <= float(middle) <= float(last)


def test_an_interval_is_no_wider_than_its_digits_ask() -> None:
    assert shown(Estimate(0.29, 0.28, 0.3, 0.95)) == (".29", ".28-.30")
    assert shown(Estimate(0.0, -0.001, 0.001, 0.95)) == ("0", "-.01 to .01")
    assert shown(Estimate(9.98, 9.97, 9.991, 0.95)) == ("9.98", "9.97-10")
    assert shown(Estimate(1.0, 0.5, math.inf, 0.95)) == ("1", ".50-inf")


def test_no_private_text_is_public() -> None:
    for texts in (sampled(40, 60, 0), authored(40, 60, 0), documents(20, 20, 0, requests=3)):
        assert not {r.text for r in texts.private} & {r.text for r in texts.public}
        assert len({r.text for r in texts.private}) == len(texts.private)
        assert [r.id for r in texts.private] == [str(i) for i in range(len(texts.private))]
    assert {record.author for record in sampled(5, 5, 0).private} == {None}
    assert len({record.author for record in authored(40, 60, 0).private}) > 3


def test_a_file_without_a_public_part_is_halved_with_a_warning() -> None:
    records = [Record(str(i), f"text number {i}", label="ab"[i % 2]) for i in range(50)]
    texts = of_file([*records, *records], None, "file.csv", seed=1)
    assert (len(texts.private), len(texts.public)) == (25, 25)
    assert texts.notes == (HALVED,)
    given = of_file(records[:25], records[25:], "file.csv", seed=1)
    assert (len(given.private), len(given.public), given.notes) == (25, 25, ())
    with pytest.raises(ConfigError, match="at least 20"):
        of_file(records[:30], None, "file.csv", seed=1)
    small = cut(texts, 10, 25)
    assert len(small.private) == 10
    assert small.notes[-1].startswith("10 of 25 private")
    assert apart(records[:3], records[:2], "x").private[0].text == "text number 2"


def test_few_texts_are_not_decided(bench: Bench) -> None:
    """Half of 16 texts of either label are attacked: too few for a divergence, and to tell masked from public texts."""
    _, small = SMALL["redaction"]
    texts = sampled(60, 60, 2)
    few = {label: [r for r in texts.private if r.label == label][:8] for label in texts.labels[:2]}
    cut_down = Texts((*few[texts.labels[0]], *few[texts.labels[1]]), texts.public, "file.csv")
    paper = redaction.study(cut_down, bench, replace(small, alphas=(1.5, 50.0)))
    assert {row.numbers[redaction.DIVERGENCE] for row in paper.rows} == {None}
    assert paper.against_public(paper.row("90% masked"))[1] == NOT_DECIDED
    assert (paper.facts["training"], paper.facts["attacked"]) == (4, 4)


def test_short_documents_are_refused_by_what_the_command_has(bench: Bench) -> None:
    records = tuple(Record(str(i), f"text number {i}") for i in range(50))
    with pytest.raises(ConfigError, match="at least 20 public documents of 4 or more sentences, found 0 of 50") as told:
        sentdp.study(Texts(records, records, "file.csv"), bench)
    assert "min_sentences" not in str(told.value)


def test_columns_without_an_interval_are_named() -> None:
    _, paper = studied("refutation")
    assert paper.without_interval() == (refutation.COUNT, refutation.LARGEST, refutation.TRUE)
    _, paper = studied("redaction")
    assert paper.without_interval() == ()


def test_missing_fields_are_asked_for(bench: Bench) -> None:
    records = tuple(Record(str(i), f"text number {i}") for i in range(50))
    texts = Texts(records, records, "file.csv")
    with pytest.raises(ConfigError, match="--author-field"):
        erae.study(texts, bench)
    with pytest.raises(ConfigError, match="--label-field"):
        redaction.study(texts, bench)
