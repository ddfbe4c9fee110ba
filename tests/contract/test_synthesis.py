"""Every synthesis keeps the contract, and each planted defect breaks the check that is named for it."""

import math
import os
import pkgutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import dptext as dp
import tiny_language
from dptext.errors import ConfigError, PrivacyError
from dptext.registry import SYNTHESES
from dptext.sampling.randomness import Randomness
from dptext.synthesis.blocks import COUNTS, POINTS, TOPICS, UNLIKE, WORDS, SumLayout
from dptext.synthesis.lexicon import Lexicon, fit_lexicon
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.readings import Corpus, units_of
from dptext.synthesis.spec import Fitted, Synthetic
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum, clipped
from dptext.synthesis.votes import TopicReport, Votes
from dptext.testing import CORPUS_CHECKS, ContractError, check_synthesis
from dptext.text.reading import OnError, read_batches
from dptext_lab.baselines.prediction import Prediction
from summarized import of_authors

POOL = dp.sample_records(300, seed=2)
SPECS = [spec for cls in SYNTHESES.values() for spec in cls.tiny()]
WRITES = Prototypes.tiny()[0]  # it releases texts with labels
SUMMARY, BY_AUTHOR = SummarySpec.tiny()[:2]  # of all blocks


@pytest.fixture(scope="module")
def fitted() -> Iterator[dict[str, Fitted]]:
    """Each spec with its pool; those that write have a tiny model."""
    pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            "dptext_lab.baselines.prediction",
            *tiny_language.LOADING,
        ):
            patch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model())
        yield {repr(spec): spec.fit(public=POOL) for spec in SPECS}


@pytest.mark.slow_cases("steering-document-noise", why="a summary has the noise of words, too, and stays")
@pytest.mark.slow_cases(
    "steering-author-nothing",
    "votes-author-nothing",
    "topics-author-nothing",
    "prototypes-author-nothing",
    why="sums by authors stay for a summary and prediction; other kinds stay by documents",
)
@pytest.mark.slow_cases(
    "steering-document-nothing",
    "prediction-document0-nothing",
    why="what counts as no record is asked alike for all kinds; the others stay by documents",
)
@pytest.mark.slow_cases(
    "votes-document-neighbours",
    "prototypes-document-neighbours",
    "prediction-document0-neighbours",
    "summary-document0-neighbours",
    why="neighbours stay by authors for every kind but steering, which stays by documents",
)
@pytest.mark.slow_cases(
    *("document1-noise", "document1-nothing", "document1-reading", "document1-neighbours"),
    why="prediction without votes stays by documents, prediction with votes by authors",
)
@pytest.mark.slow_cases(
    *("author0-noise", "author0-reading", "author0-nothing"),
    why="prediction without votes stays by documents, prediction with votes by authors",
)
@pytest.mark.slow_cases(
    *("steering-author-noise", "votes-author-noise", "topics-author-noise", "prototypes-author-noise", "author1-noise"),
    why="the noise of each kind stays by documents; what an author moves is seen among neighbours",
)
@pytest.mark.slow_cases("steering-author-neighbours", why="stays by documents; authors stay for every other kind")
@pytest.mark.slow_cases(
    *("steering-document-reading", "steering-author-reading", "votes-document-reading", "votes-author-reading"),
    *("topics-document-reading", "topics-author-reading", "prediction-author1-reading"),
    why="files are read alike for all kinds; the check of nothing tries each with an empty corpus",
)
@pytest.mark.parametrize("check", CORPUS_CHECKS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kind}-{spec.unit}")
def test_it_keeps_the_contract(spec: Any, check: str, fitted: dict[str, Fitted]) -> None:
    assert check_synthesis(fitted[repr(spec)], checks=[check]) == (check,)


class Around:
    """A synthesis with a defect in what it writes."""

    def __init__(self, inner: Fitted, change: Callable[[Synthetic, list[Any], Randomness], Synthetic]) -> None:
        self.spec, self.digests, self._inner, self._change = inner.spec, inner.digests, inner, change

    def synthesize(self, corpus: Corpus, randomness: Randomness) -> Synthetic:
        found = self._inner.synthesize(corpus, randomness)
        return self._change(found, [record for batch in corpus() for record in batch], randomness)


def exact_counts(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    """As many texts a label as the private corpus has."""
    n = sum(record.label == "health" for record in records)
    return replace(found, texts=found.texts[: n + 1], labels=found.labels[: n + 1])


def clean_histogram_on_disk(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "counts.npy").write_bytes(bytes(len(records)))
    return found


def counts_in_a_database(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    with tempfile.NamedTemporaryFile(prefix=str(len(records))) as file, closing(sqlite3.connect(file.name)) as database:
        database.execute("create table counts (n)")
    return found


def count_in_the_name_of_a_folder(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    Path(tempfile.gettempdir(), f"{len(records)} records").mkdir(exist_ok=True)
    Path(tempfile.gettempdir(), f"{len(records)} records").rmdir()
    return found


def count_told_by_a_child(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    os.system(f"exit {len(records) % 100}")  # noqa: S605
    return found


def count_past_python(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    """As code does that is not Python's: no `open` of Python is seen."""
    ends = os.pipe()
    os.write(ends[1], bytes(len(records)))
    for end in ends:
        os.close(end)
    return found


def best_round_by_private_data(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    """One of seven drafts, by a score that reads the private texts."""
    best = sum(len(record.text) for record in records) % 7
    return replace(found, texts=found.texts[best:] + found.texts[:best])


def draft_nearest_the_private_length(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    mean = np.mean([len(record.text) for record in records] or [0])
    drafts = [found.texts[i:] + found.texts[:i] for i in range(3)]
    best = min(range(3), key=lambda i: abs(np.mean([len(text) for text in drafts[i][:5]]) - mean))
    return replace(found, texts=drafts[best])


def rounded_count(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    return replace(found, sentences=(f"about {round(len(records) / 50) * 50} records",))


def setting_by_the_share_of_a_label(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    many = sum(record.label == "health" for record in records) > 0.2 * len(records)
    return found if many or not records else replace(found, texts=found.texts[:5], labels=found.labels[:5])


def whether_a_word_occurs(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    return replace(found, sentences=(str(any("canary" in record.text for record in records)),))


def no_longer_than_private_texts(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    most = max((len(record.text) for record in records), default=0)
    return replace(found, texts=tuple(text[:most] for text in found.texts))


def printed_number(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    print(f"{len(records)} records done")
    return found


def own_float_noise(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    noisy = np.random.default_rng(0).normal(len(records))
    return replace(found, sentences=(f"about {noisy:.3f}",))


def a_text_in_the_file(found: Synthetic, records: list[Any], _: Randomness) -> Synthetic:
    return replace(found, data=found.data + "".join(record.text for record in records[:1]).encode())


def telling(found: Iterator[Any], _: Any = None) -> Iterator[Any]:
    """Says how much was read."""
    for batch in found:
        print(len(batch))
        yield batch


@pytest.mark.slow_cases(
    "setting_by_the_share_of_a_label-neighbours",
    "best_round_by_private_data-neighbours",
    "draft_nearest_the_private_length-neighbours",
    "no_longer_than_private_texts-neighbours",
    why="exact and rounded counts, a word and noise of its own stay",
)
@pytest.mark.parametrize(
    ("defect", "check", "message"),
    [
        (exact_counts, "neighbours", "follows the noisy sums alone"),
        *(
            (defect, "neighbours", "follows the noisy sums alone")
            for defect in (
                best_round_by_private_data,
                draft_nearest_the_private_length,
                rounded_count,
                setting_by_the_share_of_a_label,
                whether_a_word_occurs,
                no_longer_than_private_texts,
            )
        ),
        (printed_number, "neighbours", "printed or logged"),
        (own_float_noise, "neighbours", "follows the noisy sums alone"),
        (a_text_in_the_file, "silence", "no private text"),
        *(
            (defect, "silence", "no file is written, and nothing sent")
            for defect in (
                clean_histogram_on_disk,
                counts_in_a_database,
                count_in_the_name_of_a_folder,
                count_told_by_a_child,
                count_past_python,
            )
        ),
    ],
)
def test_a_defect_in_what_is_written_is_caught(
    defect: Any, check: str, message: str, fitted: dict[str, Fitted]
) -> None:
    planted = Around(fitted[repr(WRITES)], defect)
    with pytest.raises(ContractError, match=message):
        check_synthesis(planted, checks=[check])


def refusing_empty(*given: Any, allow_empty: bool, **how: Any) -> Iterator[Any]:
    assert allow_empty
    return read_batches(*given, **how)


@pytest.mark.parametrize(
    ("where", "defect", "check", "message"),
    [
        ("private.OnError", Mock(SKIP=OnError.STOP), "reading", "ends no run"),
        (
            "private.read_batches",
            refusing_empty,
            "reading",
            "ends no",
        ),
        ("private.untold", telling, "reading", "is not told"),
        ("readings.says_something", str.strip, "nothing", "counts as none changes no sum"),
    ],
    ids=["stops", "an empty file is an error", "is printed", "zero width"],
)
def test_a_defect_in_what_is_read_is_caught(
    where: str, defect: Any, check: str, message: str, fitted: dict[str, Fitted], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = "synthesis" if where.startswith("readings") else "runs"
    monkeypatch.setattr(f"dptext.{room}.{where}", defect)
    with pytest.raises(ContractError, match=message):
        check_synthesis(fitted[repr(WRITES)], checks=[check])


def test_float_noise_is_caught(monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]) -> None:
    rng = np.random.default_rng()
    monkeypatch.setattr(Noise, "draw", lambda self, size, _: rng.normal(scale=self.sigma, size=size))
    with pytest.raises(ContractError, match="whole steps"):
        check_synthesis(fitted[repr(WRITES)], checks=["noise"])


@pytest.mark.slow_cases("prototypes-1.1", why="0.9 stays")
@pytest.mark.slow_cases(
    "0",
    "0.5",
    "topics-1.1",
    "prediction",
    why="a smaller error of the noise is harder to see: 0.9 stays for sums of vectors and of topics",
)
@pytest.mark.parametrize("factor", [0, 0.5, 0.9, 1.1])
@pytest.mark.parametrize("kind", ["prototypes", "topics", "prediction"])
def test_other_noise_than_one_gaussians_is_caught(
    kind: str, factor: float, monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]
) -> None:
    """Also where a sum has two cells."""
    draw = Noise.draw
    monkeypatch.setattr(
        Noise, "draw", lambda self, size, source: np.rint(factor * draw(self, size, source)).astype(np.int64)
    )
    spec = next(spec for spec in SPECS if spec.kind == kind)
    with pytest.raises(ContractError, match=r"one Gaussian's worth|as much noise"):
        check_synthesis(fitted[repr(spec)], checks=["noise"])


def test_a_sum_that_pays_too_little_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of which each has the noise of the whole."""
    spec = Votes.tiny()[0]
    whole = Votes.noise
    monkeypatch.setattr(Votes, "noise", lambda self, share=1.0: whole(self, 1.0))
    with pytest.raises(ContractError, match="rhos of all sums add up"):
        check_synthesis(spec.fit(public=POOL), checks=["noise"])


def test_votes_without_clipping_an_author_are_caught(
    monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]
) -> None:
    monkeypatch.setattr("dptext.synthesis.sums.each_clipped", lambda steps, *_: steps)
    spec = next(spec for spec in SPECS if spec.kind == "votes" and spec.unit == "author")
    with pytest.raises(ContractError, match="moves by its sensitivity"):
        check_synthesis(fitted[repr(spec)], checks=["neighbours"])


@pytest.mark.parametrize("kind", ["prototypes", "votes", "topics", "summary"])
def test_a_vote_a_record_where_authors_are_promised_is_caught(
    kind: str, monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]
) -> None:
    """No unit of authors, as published code has none."""
    made = PrivateSum.__init__
    monkeypatch.setattr(
        PrivateSum, "__init__", lambda self, cells, noise, signed=0, **_: made(self, cells, noise, signed=signed)
    )
    spec = next(spec for spec in SPECS if spec.kind == kind and spec.unit == "author")
    with pytest.raises(ContractError, match="moves by its sensitivity"):
        check_synthesis(fitted[repr(spec)], checks=["neighbours"])


def test_points_that_are_too_long_are_caught(monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]) -> None:
    """A sum that takes whatever it is given."""

    def add(self: PrivateSum, cells: np.ndarray, values: np.ndarray, _: object = None) -> None:
        np.add.at(self._total, cells, np.rint(3 * values * STEPS).astype(np.int64))

    monkeypatch.setattr(PrivateSum, "add", add)
    with pytest.raises(ContractError, match="moves by its sensitivity"):
        check_synthesis(fitted[repr(WRITES)], checks=["neighbours"])


def test_replace_one_charged_as_add_or_remove_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(TopicReport.tiny()[0], relation="replace_one")
    monkeypatch.setattr(Noise, "sensitivity", property(lambda self: STEPS))
    with pytest.raises(ContractError, match="rhos of all sums add up"):
        check_synthesis(spec.fit(public=POOL), checks=["noise"])


def quieter(block: str, factor: float) -> Callable[[Noise, int, Randomness], np.ndarray]:
    """Noise that one block of a summary has less of."""
    drawn = Noise.draw

    def draw(self: Noise, size: int, source: Randomness) -> np.ndarray:
        noise, layout = drawn(self, size, source), SUMMARY.layout(dim=8, width=60)
        if size == layout.cells:
            (own,) = (each for each in layout.blocks if each.name == block)
            noise[own.start : own.start + own.size] = np.rint(factor * noise[own.start : own.start + own.size])
        return noise

    return draw


@pytest.mark.slow_cases("points-0.25", "words-0.25", why="counts and topics stay")
@pytest.mark.slow_cases("0", why="a quarter of the noise is harder to see than none")
@pytest.mark.parametrize("factor", [0, 0.25])
@pytest.mark.parametrize("block", [COUNTS, POINTS, TOPICS, WORDS])
def test_a_block_that_is_left_out_of_the_noise_is_caught(
    block: str, factor: float, monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]
) -> None:
    monkeypatch.setattr(Noise, "draw", quieter(block, factor))
    with pytest.raises(ContractError, match=r"every part of a sum has as much noise|one Gaussian's worth"):
        check_synthesis(fitted[repr(SUMMARY)], checks=["noise"])


def test_the_one_number_of_texts_unlike_the_pool_without_noise_is_caught(
    monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]
) -> None:
    monkeypatch.setattr(Noise, "draw", quieter(UNLIKE, 0))
    with pytest.raises(ContractError, match="every part of a sum has as much noise"):
        check_synthesis(fitted[repr(SUMMARY)], checks=["noise"])


def test_a_large_corpus_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch, fitted: dict[str, Fitted]) -> None:
    drawn, n = Noise.draw, [0]

    def measure(self: FittedSummary, corpus: Corpus, draws: Draws, share: float = 1.0) -> Summary:
        n[0] = sum(len(batch) for batch in corpus())
        return MEASURE(self, corpus, draws, share)

    def draw(self: Noise, size: int, source: Randomness) -> np.ndarray:
        return drawn(self, size, source) * (n[0] < 100)

    monkeypatch.setattr(FittedSummary, "measure", measure)
    monkeypatch.setattr(Noise, "draw", draw)
    with pytest.raises(ContractError, match="every run has as much noise"):
        check_synthesis(fitted[repr(SUMMARY)], checks=["noise"])


def measured_twice(self: FittedSummary, corpus: Corpus, draws: Draws, share: float = 1.0) -> Summary:
    """The words of a second sum, which no share pays for."""
    first, second = (MEASURE(self, corpus, draws, share) for _ in range(2))
    return replace(first, known={**first.known, WORDS: second.known[WORDS]})


def words_of_the_corpus(self: FittedSummary, corpus: Corpus, draws: Draws, share: float = 1.0) -> Summary:
    """A list of words that private texts have."""
    private = [text for _, texts, _ in units_of(corpus, self.spec.labels) for text in texts]
    public = self.public
    if private:
        assert public.lexicon is not None
        lexicon = fit_lexicon(private, size=len(public.lexicon), most=public.lexicon.most)
        public = replace(public, lexicon=lexicon, rates=np.zeros(len(lexicon)))
    return MEASURE(FittedSummary(self.spec, public), corpus, draws, share)


MEASURE = FittedSummary.measure


def each_block_alone(self: PrivateSum) -> np.ndarray:
    """An author's vector, whose blocks are each clipped to length 1."""
    total = self._total.copy()
    edges = [block.start for block in BLOCKS.blocks] + [len(total)]
    for where, what in of_authors(self):
        for first, last in pairwise(edges):
            own = (where >= first) & (where < last)
            total[where[own]] += clipped(what[own], self._weights(where[own] < self._signed))
    return total


BLOCKS = BY_AUTHOR.layout(dim=8, width=60)


@pytest.mark.parametrize(
    ("spec", "where", "name", "defect", "check", "message"),
    [
        (SUMMARY, FittedSummary, "measure", measured_twice, "noise", "rhos of all sums add up"),
        (SUMMARY, FittedSummary, "measure", words_of_the_corpus, "neighbours", "moves by its sensitivity"),
        (BY_AUTHOR, PrivateSum, "_clean", each_block_alone, "neighbours", "moves by its sensitivity"),
    ],
    ids=["a sum that is not paid", "private words", "blocks clipped alone"],
)
def test_a_defect_in_a_summary_is_caught(
    spec: SummarySpec,
    where: Any,
    name: str,
    defect: Any,
    check: str,
    message: str,
    fitted: dict[str, Fitted],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(where, name, defect)
    with pytest.raises(ContractError, match=message):
        check_synthesis(fitted[repr(spec)], checks=[check])


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_negative_number_where_none_may_be_is_caught(looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text counts against its label: sums take it for nothing, and the contract sees a sum that does not."""
    vectors, own = SumLayout.vectors, replace(SUMMARY, points=False, marks=0, words=0, relation="replace_one")
    fitted = own.fit(public=POOL)
    first = fitted.public.reader.space.points([dp.sample_records(120, seed=1)[0].text])

    def against(self: SumLayout, read: Any, topics: Any) -> tuple[np.ndarray, np.ndarray]:
        cells, values = vectors(self, read, topics)
        same = np.abs(read.points - first).max(axis=1, keepdims=True) < 1e-6
        return cells, np.where(same, -values, values)

    def add(self: PrivateSum, cells: np.ndarray, values: np.ndarray, _: object = None) -> None:
        np.add.at(self._total, cells, np.trunc(values * STEPS).astype(np.int64))

    monkeypatch.setattr(SumLayout, "vectors", against)
    if looked_at:
        check_synthesis(fitted, checks=["neighbours"])
        return
    monkeypatch.setattr(PrivateSum, "add", add)
    with pytest.raises(ContractError, match="moves by its sensitivity"):
        check_synthesis(fitted, checks=["neighbours"])


def test_a_word_that_is_counted_twice_stops_the_run(fitted: dict[str, Fitted], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that stands twice in a text's vector would have no bound."""
    marks = Lexicon.marks

    def doubled(self: Lexicon, texts: list[str]) -> np.ndarray:
        found = marks(self, texts)
        found[:, 1:2] = np.where(found[:, :1] >= 0, found[:, :1], found[:, 1:2])
        return found

    monkeypatch.setattr(Lexicon, "marks", doubled)
    with pytest.raises(PrivacyError, match="a cell twice"):
        check_synthesis(fitted[repr(SUMMARY)], checks=["neighbours"])


WRITERS = [spec for spec in SPECS if isinstance(spec, Prediction) and spec.per_text]


def private_lines(known: np.ndarray) -> np.ndarray:
    """Log-probabilities of which the first row, a public one, sees the others."""
    known[0] += 1e-9 * known.mean(axis=0)
    return known


@pytest.mark.slow_cases("document-0", "document-2", why="each defect stays by authors")
@pytest.mark.parametrize("spec", WRITERS, ids=lambda spec: f"{spec.unit}-{spec.rounds}")
@pytest.mark.parametrize(
    ("where", "defect", "message"),
    [
        (
            "dptext.sampling.hub.Nudged.steps",
            lambda real: lambda *given: 2 * real(*given),
            "moves choices by their cost",
        ),
        (
            "dptext_lab.baselines.prediction.reach_of",
            lambda real: lambda rho, _, **how: real(rho, 1, **how),
            "their cost at most",
        ),
        (
            "dptext_lab.baselines.prediction.reach_of",
            lambda real: lambda rho, n, **_: 2 * real(rho, n, replaced=False),
            "their cost at most",
        ),
        (
            "dptext.language.llama.log_probabilities",
            lambda real: lambda logits: private_lines(real(logits)),
            "public text",
        ),
    ],
    ids=["twice the reach", "one token charged", "replaced charged as added", "public text sees private"],
)
def test_a_defect_in_private_prediction_is_caught(
    spec: Prediction, where: str, defect: Any, message: str, fitted: dict[str, Fitted], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _, name = where.rpartition(".")
    owner = pkgutil.resolve_name(path)
    monkeypatch.setattr(owner, name, defect(getattr(owner, name)))
    with pytest.raises(ContractError, match=message):
        check_synthesis(fitted[repr(spec)], checks=["neighbours"])


def test_a_round_of_votes_that_is_not_charged_is_caught(
    fitted: dict[str, Fitted], monkeypatch: pytest.MonkeyPatch
) -> None:
    (spec,) = (each for each in SPECS if isinstance(each, Prediction) and not each.per_text)
    monkeypatch.setattr(Prediction, "shares", property(lambda spec: (spec.count_share, 1.0)))
    with pytest.raises(ContractError, match="rhos of all sums add up"):
        check_synthesis(fitted[repr(spec)], checks=["noise"])


def test_a_delta_that_follows_the_corpus_is_caught() -> None:
    """1/N, as published code has it."""

    class Loose(Around):
        def synthesize(self, corpus: Corpus, randomness: Randomness) -> Synthetic:
            self.spec = replace(self.spec, delta=1 / sum(map(len, corpus())))  # type: ignore[type-var]
            return self._inner.synthesize(corpus, randomness)

    inner = Prototypes.tiny()[0].fit(public=POOL)
    with pytest.raises(ContractError, match="do not follow the corpus"):
        check_synthesis(Loose(inner, exact_counts), checks=["statement"])


def test_an_unknown_check() -> None:
    with pytest.raises(ConfigError, match="checks among statement"):
        check_synthesis(Prototypes.tiny()[0].fit(public=POOL), checks=["all"])
    assert math.isfinite(Prototypes.tiny()[0].rho)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: replace(found, labels=(None,) * len(found.labels)), "labels that leave are the public ones"),
        (lambda found: replace(found, labels=("other",) * len(found.labels)), "labels that leave are the public ones"),
        (lambda found: replace(found, labels=found.labels[1:]), "each text has a label"),
    ],
    ids=["no labels", "another label", "a label too few"],
)
def test_what_leaves_is_what_the_traits_say(change: Any, message: str, fitted: dict[str, Fitted]) -> None:
    planted = Around(fitted[repr(WRITES)], lambda found, _, __: change(found))
    with pytest.raises(ContractError, match=message):
        check_synthesis(planted, checks=["statement"])


def test_a_report_alone_writes_no_text(fitted: dict[str, Fitted]) -> None:
    report = next(spec for spec in SPECS if not spec.writes)
    planted = Around(fitted[repr(report)], lambda found, *_: replace(found, texts=("so",), labels=(None,)))
    with pytest.raises(ContractError, match="texts leave only if the traits say so"):
        check_synthesis(planted, checks=["statement"])
