"""The page for whoever answers for a release: the facts of each kind of guarantee, and no number too small."""

import base64
import itertools
import json
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptext as dp
from browser import browser
from dptext.audits.bounds import reconstruction_bound
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import ONE_RECORD, Basis, Guarantee, Relation, Trust, Unit
from dptext.registry import MECHANISMS
from dptext.runs import legal
from dptext.runs.certificate import Certificate, Charged, certificate_path
from dptext.runs.legal import WIDTH, Page, guess_after, legal_page
from dptext.runs.verification import Verified
from dptext_lab import AdeptDpSgd

ROOT = Path(__file__).parents[3]
SAVED = json.loads((ROOT / "tests" / "snapshots" / "certificates.json").read_text("utf-8"))
VERIFIED = "Verified: the file has the bytes that were certified."
#: As many lines as a saved certificate with three units and kept fields needs.
MOST_LINES = 52
SCREEN = 45
LABELS = dp.LabelOnly(("a", "b"), epsilon=1.0)
WORDS = dp.WordMetric(epsilon=1.0)
TRAINED = AdeptDpSgd(epsilon=2.0)


def promised(epsilon: float = 1.0, **changes: object) -> Guarantee:
    reveals = ("the number of records",)
    return replace(Guarantee(epsilon, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE, reveals=reveals), **changes)


def page(
    *stated: Guarantee,
    spec: object = LABELS,
    unchanged: float | None = None,
    **changes: object,
) -> Page:
    certificate = Certificate(
        settings={"kind": "label_only"},
        events=(PureEvent(1.0),),
        guarantees=stated or (promised(),),
        records=1234,
        output="out.jsonl",
        sha256="0" * 64,
        digests={},
        randomness="secure",
        delta=0.0,
        max_per_author=None,
        also_reveals=("the number of records",),
        version="1.2.3",
    )
    found = Verified(replace(certificate, **changes), spec)  # type: ignore[arg-type]
    return legal_page(found, verified=VERIFIED, unchanged=unchanged)


def said(told: Page, heading: str = "") -> str:
    """What stands under a heading that begins so."""
    return " ".join(line for each in told.sections if each.heading.startswith(heading) for line in each.lines)


def answer(told: Page) -> str:
    assert told.sections[0].heading == "The answer"
    return said(told, "The answer")


def table(told: Page) -> Sequence[Sequence[str]]:
    (found,) = (each.table for each in told.sections if each.table)
    return found


def saved(folder: Path, name: str) -> Page:
    (fixture,) = (each for each in SAVED if each["certificate"]["output"] == name)
    target = folder / name
    target.write_bytes(base64.b85decode(fixture["file"]))
    certificate_path(target).write_text(json.dumps(fixture["certificate"]), "utf-8")
    return legal_page(dp.verify(certificate_path(target)), verified=VERIFIED)


# --------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("candidates", [2, 100, 10_000])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0, 30.0, 1000.0])
def test_a_guess_after_is_what_bayes_says_of_the_worst_mechanism(candidates: int, epsilon: float) -> None:
    """The truth with weight e^epsilon, each of the others with 1: nobody is surer than who sees that."""
    weight = Fraction(math.exp(min(epsilon, 700.0)))
    exact = weight / (weight + candidates - 1)
    assert exact <= guess_after(promised(epsilon), candidates) <= float(exact) * (1 + 1e-12)


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=5),
    st.lists(st.floats(0, 1), min_size=25, max_size=25),
    st.floats(0, 3),
    st.floats(0, 0.3),
)
def test_no_prior_and_no_mechanism_makes_a_guess_better(
    prior: Sequence[int], rows: Sequence[float], epsilon: float, delta: float
) -> None:
    """Mechanisms drawn at random, and one output for each input that only it has, with probability delta."""
    n = len(prior)
    raw = [[math.exp(epsilon * rows[5 * i + j]) for j in range(n)] for i in range(n)]
    chances = [[(1 - delta) * each / sum(row) for each in row] for row in raw]
    within = max(math.log(a[j] / b[j]) for a, b in itertools.permutations(chances, 2) for j in range(n))
    success = delta + sum(max(prior[i] / sum(prior) * chances[i][j] for i in range(n)) for j in range(n))
    candidates = sum(prior) // max(prior)  # so many equal ones at least are as likely
    assert success <= guess_after(promised(max(within, 0.0), delta=delta), candidates) + 1e-12


def test_delta_is_added_to_each_guess() -> None:
    plain, with_delta = promised(2.0), promised(2.0, delta=1e-4)
    assert guess_after(with_delta, 100) == guess_after(plain, 100) + 1e-4
    assert guess_after(with_delta, 100) > reconstruction_bound(2.0, 100, delta=1e-4)
    assert "1 in 10,000 per record" in said(page(with_delta), "What somebody")
    assert table(page(with_delta))[3][1] == "0.0839%"  # e^2 in e^2 + 9,999 is .0738%
    assert "fail" not in said(page(plain), "What somebody")


@given(st.floats(0, 60), st.floats(0, 1e-3))
def test_what_is_printed_is_never_less_than_the_bound(epsilon: float, delta: float) -> None:
    stated = promised(epsilon, delta=delta)
    for row, candidates in zip(table(page(stated))[1:], (2, 100, 10_000), strict=True):
        shown, bound = float(row[1].removesuffix("%")) / 100, guess_after(stated, candidates)
        assert bound * (1 - 1e-8) <= shown <= bound * 1.0101
    odds = re.search(r"at most (\S+) per record", said(page(promised(min(epsilon, 15.0))), "What somebody"))
    assert odds is not None
    assert math.exp(min(epsilon, 15.0)) * (1 - 1e-9) <= float(odds[1].replace(",", ""))


def test_the_numbers_of_known_epsilons() -> None:
    assert table(page(promised(1.0))) == [
        ["before", "record"],
        ["one in two", "73.2%"],  # .73106
        ["one in a hundred", "2.68%"],  # .026724
        ["one in ten thousand", "0.0272%"],  # .00027178
    ]
    assert "at most 2.72 per record" in said(page(promised(1.0)))
    assert "at most 22,027 per record" in said(page(promised(10.0)))
    assert "at most 10^105 (e^240) per record" in said(page(promised(240.0)))
    assert table(page(promised(0.0)))[1][1] == "50%"


@pytest.mark.parametrize(
    ("epsilon", "word", "number"),
    [
        (math.log(3) - 1e-6, "narrow", "75%"),
        (math.log(3) + 1e-6, "moderate", "2.95%"),
        (math.log(99) - 1e-6, "moderate", "50%"),
        (math.log(99) + 1e-6, "wide", "50.1%"),
        (math.log(9999) - 1e-6, "wide", "99.1%"),
        (math.log(9999) + 1e-6, "protects nobody", "50.1%"),
        (240.0, "protects nobody", "100%"),
    ],
)
def test_a_bound_is_called_by_what_it_lets_a_guess_become(epsilon: float, word: str, number: str) -> None:
    told = answer(page(promised(epsilon)))
    assert [each for each in ("narrow", "moderate", " wide:", "protects nobody") if each in told] == [
        f" {word}:" if word == "wide" else word
    ]
    assert number in told


# ------------------------------------------------------------------------------------- kinds of guarantee


@pytest.mark.parametrize(
    ("stated", "lead"),
    [
        (promised(basis=Basis.PROVEN), "Guaranteed by proof, for every input:"),
        (
            promised(basis=Basis.CONDITIONAL, assumptions=("a", "b")),
            'Guaranteed only if every item under "What was assumed" is true, which nothing here proves:',
        ),
        (promised(basis=Basis.CLAIMED), "Claimed by its authors and not checked by dptext:"),
        (promised().voided("the seed is known"), "No guarantee: the seed is known. Treat this file as if it were the"),
        (promised(delta=0.0011), "No guarantee: with a chance of up to 0.11% anything may leak"),
    ],
    ids=["proven", "conditional", "claimed", "none", "delta"],
)
def test_the_page_begins_with_why_to_believe_it(stated: Guarantee, lead: str) -> None:
    told = page(stated)
    assert told.sections[0].lines[0].startswith(lead)
    assert told.text().splitlines()[3].startswith(f"- {lead[:60]}")


@pytest.mark.parametrize("stated", [promised().voided("seeded"), promised(0.1, delta=0.5)])
def test_without_a_guarantee_nothing_is_called_bounded_or_protected(stated: Guarantee) -> None:
    told = page(stated)
    assert not any(each.table for each in told.sections)
    assert "Nobody is protected" in said(told)
    assert "Possibly everything" in said(told)
    assert "none of the three is bounded" in said(told, "Singling")
    assert "Do not hand it to anybody who may not read the originals." in said(told)
    text = said(told)
    for promise in ("Protected:", "at most as in", "no better", "adds no more", "multiplies"):
        assert promise not in text


def test_seeded_redacted_and_published_files_lead_with_no_guarantee(tmp_path: Path) -> None:
    assert answer(saved(tmp_path, "seeded.csv")).startswith("No guarantee: seeded: whoever knows the seed")
    assert answer(saved(tmp_path, "published_adept_0.jsonl")).startswith("No guarantee: claimed epsilon")
    assert answer(saved(tmp_path, "smart_redaction_0.jsonl")).startswith("No guarantee: ")


def test_of_a_record_the_person_with_several_is_not_protected() -> None:
    told = page(promised(1.0))
    assert "a person or thread with n records, who has n times this epsilon" in said(told, "Who")
    assert "Protected: each record (a row), with all" in said(told, "Who")
    assert "each record (of plain text a line of a file), with all" in said(page(promised(1.0), record="line"), "Who")
    assert "Is one record one person?" in said(told, "What to ask")
    assert "people named in texts of others" in said(told, "Who")
    assert "public data" in said(told, "Who")
    assert "whose record it is can be guessed, from its text, at most as in the table" in said(told, "Singling")


def test_of_an_author_all_records_are_and_both_columns_are_shown() -> None:
    told = page(promised(1.0), promised(3.0, unit=Unit.AUTHOR))
    assert "each author with all of the author's records" in said(told, "Who")
    assert "a person with n records" not in said(told)
    assert "Is one record one person?" not in said(told)
    assert table(told)[0] == ["before", "record", "author"]
    assert table(told)[2][2] == "16.9%"
    assert "surer about a single author" in answer(told)
    assert "moderate: a guess of one in a hundred becomes at most 16.9%" in answer(told)
    assert "2.72 per record, 21 per author" in said(told)


def test_an_author_without_a_guarantee_beside_a_record_with_one_is_said() -> None:
    told = page(promised(1.0, delta=9e-4), promised(3.0, delta=2.7e-3, unit=Unit.AUTHOR))
    assert "Not protected: each author, as with a chance of up to 0.27% anything may leak" in said(told, "Who")
    assert table(told)[0] == ["before", "record"]
    assert "surer about a single record" in answer(told)


@pytest.mark.parametrize(("unit", "noun"), [(Unit.TOKEN, "word"), (Unit.SENTENCE, "sentence")])
def test_of_a_small_unit_no_text_and_no_person_is_bounded(unit: Unit, noun: str) -> None:
    told = page(promised(1.0, unit=unit))
    assert f"Protected: each single {noun}, not a text or a person." in said(told, "Who")
    assert f"{noun}s have n times its epsilon" in said(told, "Who") or "n have n times" in said(told, "Who")
    assert "Singling out: not bounded for a text or a person" in said(told, "Singling")
    assert "Linkability: not bounded for a text or a person" in said(told, "Singling")
    assert f"it is that of a {noun}" in said(told, "What must not")


def test_a_metric_guarantee_is_tabled_by_distance(tmp_path: Path) -> None:
    stated = promised(1.0, unit=Unit.TOKEN, metric="Euclidean distance of vectors")
    told = page(stated, spec=WORDS, unchanged=0.12341)
    assert table(told)[0] == ["before", "word, distance 1", "word, distance 2", "word, distance 4"]
    assert table(told)[2] == ["one in a hundred", "2.68%", "6.95%", "35.6%"]
    assert "Between words at distance 1 the bound is narrow" in answer(told)
    assert "Distance: Euclidean distance of vectors." in said(told)
    assert "12.4% of running words come back as they were" in said(told)
    assert "public data" not in said(told)  # it learns from no text
    mixed = saved(tmp_path, "word_metric_1.jsonl")
    assert table(mixed)[0] == ["before", *(f"word, distance {d}" for d in (1, 2, 4)), "record", "author"]
    assert "Distance: Euclidean distance of word vectors (glove, first 300 words)." in said(mixed)


def test_under_central_trust_the_trainer_and_the_model_are_named(tmp_path: Path) -> None:
    told = page(promised(1.0, trust=Trust.CENTRAL), spec=TRAINED)
    assert "Not protected from one party" in said(told, "Who")
    assert "Do not hand on the trained model" in said(told, "What must not")
    assert "Who holds originals and trained model" in said(told, "What to ask")
    assert "one party" not in said(page())
    assert "Not protected from one party" in said(saved(tmp_path, "adept_dpsgd_0.jsonl"))


def test_what_may_be_there_or_not_counts_twice_between_two() -> None:
    told = page(promised(1.0, unit=Unit.SENTENCE, relation=Relation.ADD_OR_REMOVE_ONE))
    assert "odds of a guess whether an original is there by at most 2.72" in said(told)
    assert "of one about what it says by at most the square of that" in said(told)
    assert table(told)[1:3] == [["one in two", "88.1%"], ["one in a hundred", "6.95%"]]  # as of epsilon 2
    assert "6.95% about what a sentence says (2.68% whether it is there)" in answer(told)
    assert "square" not in said(page(promised(1.0, unit=Unit.SENTENCE)))


def test_a_charge_is_named_and_without_one_the_ledger_is_missed(tmp_path: Path) -> None:
    charged = Charged("runs", "requests", Unit.AUTHOR, 17, by_subject=True)
    told = said(page(charged=charged), "What must not")
    assert "the account that paid for this" in told
    assert "runs, dataset requests, per author, charge 17" in told
    assert "without a ledger" not in told
    assert "without a ledger: losses add up, and no ledger has this one" in said(page(), "What must not")
    assert "per author, charge " in said(saved(tmp_path, "paid_who.jsonl"))


def test_kept_fields_are_named_asked_about_and_not_called_protected() -> None:
    kept = ("the number of records", "the ids (field 'nr')", "the field 'town'")
    told = page(also_reveals=kept)
    assert "the ids (field 'nr'); the field 'town'" in said(told, "What leaves")
    assert "Why were fields kept" in said(told, "What to ask")
    assert "Kept fields and ids single out, link and tell" in said(told, "Singling")
    assert "ids" not in said(page())


@pytest.mark.parametrize(
    ("chance", "shown"), [(0.5, "50%"), (0.9991, "99.91%"), (0.99971, "99.98%"), (1.0, "100%"), (1 - 1e-9, "100%")]
)
def test_a_chance_below_one_is_not_shown_as_certain(chance: float, shown: str) -> None:
    assert legal._percent(chance) == shown


def test_what_was_assumed_is_complete() -> None:
    told = page(promised(basis=Basis.CONDITIONAL, assumptions=("the sun shines", "no rain")))
    assert {"the sun shines", "no rain"} < set(next(s.lines for s in told.sections if s.heading.endswith("assumed")))
    assert 'every item under "What was assumed"' in answer(told)


def test_no_law_is_judged() -> None:
    for told in (page(), page(promised().voided("seeded"))):
        assert "this is no legal opinion" in said(told, "What must not")
        assert "Do not call it anonymous by law" in said(told, "What must not")


def test_every_sentence_is_said_of_some_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that is misspelt, or that nothing has, would hide its sentences for ever."""
    small = promised(unit=Unit.TOKEN, metric="steps", delta=1e-9)
    told = [
        page(promised(x), promised(3 * x, delta=0.1, unit=Unit.AUTHOR)) for x in (0.1, 2.0, 6.0, 20.0)
    ] + [
        page(also_reveals=("the field 'x'",), charged=Charged("a", "b", Unit.AUTHOR, 1, by_subject=False)),
        page(small, spec=WORDS, unchanged=0.5),
        page(promised(unit=Unit.SENTENCE), spec=LABELS),
        page(promised(), spec=WORDS),
        page(small),
        page(promised(unit=Unit.SENTENCE, relation=Relation.ADD_OR_REMOVE_ONE, basis=Basis.CLAIMED)),
        page(promised(trust=Trust.CENTRAL, basis=Basis.CONDITIONAL, assumptions=("x",)), spec=TRAINED),
        page(promised(), promised(unit=Unit.AUTHOR)),
        page(promised().voided("x")),
        page(replace(promised(), reveals=()).voided("x"), also_reveals=()),
        page(replace(promised(), reveals=()), also_reveals=()),
        page(replace(promised(), reveals=()), also_reveals=(), derived={"summary": "0" * 64, "writer": "pool"}),
    ]  # fmt: skip
    monkeypatch.setattr(type(MECHANISMS), "package", lambda *_: "theirs 1.0")
    told.append(page())
    lines = {line for each in told for section in each.sections for line in section.lines}
    sections = tomllib.loads((Path(legal.__file__).with_suffix(".toml")).read_text("utf-8"))["section"]
    for _, text in (pair for section in sections for pair in section["says"]):
        pattern = re.compile(".+".join(map(re.escape, re.split(r"\{[\w.]+\}", text.removeprefix("{assumed}")))))
        assert any(pattern.fullmatch(line) for line in lines), text


def test_what_is_assumed_of_a_writer_is_said() -> None:
    derived = {"summary": "0" * 64, "writer": "endpoint", "assumptions": ["the server looks nothing up"]}
    guarantee = replace(promised(basis=Basis.CONDITIONAL, assumptions=("x",)), reveals=())
    assert "the server looks nothing up" in page(guarantee, also_reveals=(), derived=derived).text()


def test_the_label_that_leaves_is_said_to_be_under_the_bound_where_one_leaves(tmp_path: Path) -> None:
    bound = "the label that leaves beside a text is under the same bound."
    for name in ("candidates_0.jsonl", "label_only_0.jsonl", "adept_0.jsonl"):
        assert f"Its label is part of a record: {bound}" in said(saved(tmp_path, name), "Who is protected")
    small = said(saved(tmp_path, "deep_candidate_3.jsonl"), "Who is protected")
    assert f"T{bound[1:]}" in small
    assert "part of a record" not in small
    for name in ("candidates_1.jsonl", "word_metric_0.jsonl", "published_adept_0.jsonl"):  # none leaves, or no bound
        assert "label that leaves" not in saved(tmp_path, name).text()


# ------------------------------------------------------------------------------------------------- form


def test_the_usual_page_is_a_screen() -> None:
    assumed = ("the candidates, and all that ranks them, were made from public text only", ONE_RECORD)
    told = page(promised(9.0, basis=Basis.CONDITIONAL, assumptions=assumed)).text()
    assert len(told.splitlines()) <= SCREEN


@pytest.mark.parametrize("name", [each["certificate"]["output"] for each in SAVED])
def test_the_page_of_every_mechanism_fits(name: str, tmp_path: Path) -> None:
    lines = saved(tmp_path, name).text().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= WIDTH


class Read(HTMLParser):
    """The words and the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        if self.lasttag not in ("style", "title") and data.strip():
            self.words.append(data)


HOSTILE = "</li><script src='//x.test/a.js'>alert(1)</script><img onerror=b & \"{after_2}\" $body"


def test_the_html_says_the_same_and_loads_nothing() -> None:
    kept = ("the number of records", f"the field {HOSTILE!r}")
    charged = Charged(HOSTILE, HOSTILE, Unit.AUTHOR, 1, by_subject=False)
    told = page(promised(reveals=kept), also_reveals=kept, output=HOSTILE, charged=charged)
    read = Read(told.html())
    wanted = [told.title]
    for each in told.sections:
        wanted += [each.heading, *each.lines, *itertools.chain.from_iterable(each.table)]
    assert read.words == [*wanted, told.footer]
    assert HOSTILE in told.title
    assert HOSTILE in said(told, "What must not")
    assert read.tags == {
        *("html", "head", "meta", "title", "style", "body"),
        *("h1", "h2", "ul", "li", "table", "tr", "td", "footer"),
    }
    assert read.attributes <= {"lang", "charset", "name", "content"}
    assert "url(" not in told.html()
    assert "@import" not in told.html()


def test_the_terms_stand_in_the_glossary() -> None:
    named = re.search(r"Terms: the glossary of dptext's guide '(.+)'\.$", page().footer)
    assert named is not None  # by its title: a path leads nowhere from where the page lies
    guide = next(
        each for each in ROOT.glob("docs/guides/*.md") if each.read_text("utf-8").startswith(f"# {named[1]}\n")
    )
    glossary = guide.read_text("utf-8").partition("## Glossary")[2]
    terms = [found.lower() for found in re.findall(r"^### (.+)$", glossary, re.MULTILINE)]
    words = page(promised(metric="steps", unit=Unit.TOKEN), promised(), spec=WORDS).text().lower()
    assert {"record", "odds", "epsilon", "distance", "ledger"} <= {term for term in terms if term in words}
    assert "public data" in terms


@pytest.mark.slow
def test_every_page_is_one_sheet_of_a4(tmp_path: Path) -> None:
    with browser(tmp_path) as chromium:
        for each in SAVED:
            source, target = tmp_path / "page.html", tmp_path / "page.pdf"
            source.write_text(saved(tmp_path, each["certificate"]["output"]).html(), "utf-8")
            for width in (400, 1280):
                chromium.open(source, width=width)
                assert chromium.value("document.documentElement.scrollWidth") <= width
            chromium.pdf(target)
            data = target.read_bytes()
            assert len(re.findall(rb"/Type\s*/Page\b", data)) == 1, each["certificate"]["output"]
            assert re.search(rb"/MediaBox\s*\[0 0 59[45]\.?\d* 84[12]\.?\d*\]", data)
        assert chromium.console == []
        assert all(request.startswith("file:") for request in chromium.requests)
