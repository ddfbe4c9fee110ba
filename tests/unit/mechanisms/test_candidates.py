"""`Candidates`: its distribution by enumeration, its epsilon over many pairs, and faults planted in both."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from pydantic import TypeAdapter

from dptext import audits
from dptext.audits.trials.density import SIGNIFICANT, distribution_p_value
from dptext.errors import ConfigError, DataError, IncomparableError
from dptext.mechanism import HasDistribution, seen, settings
from dptext.mechanisms.candidates.candidates import CandidatePool, Candidates, CandidatesMechanism
from dptext.mechanisms.candidates.rankers import Ranker, words_ranker
from dptext.privacy import accounting
from dptext.privacy.events import ExponentialEvent, PureEvent
from dptext.privacy.guarantee import PUBLIC_CANDIDATES, Basis, Relation, Unit
from dptext.runs.specs import spec_from_settings
from dptext.sampling.envelope import EnvelopeResponse, top_k_envelope
from dptext.sampling.randomness import secure, seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.testing import CHECKS, check_mechanism
from dptext.text.records import Record
from dptext.text.samples import sample_records
from dptext.text.tokens import sentences, tokenize

LABELS = ("health", "travel", "money", "leisure")
PUBLIC = sample_records(60)
TOP_K, EXPONENTIAL, WITH_LABEL, ENVELOPE = Candidates.tiny()
SMALL = [Record(str(i), r.text, label=r.label) for i, r in enumerate(sample_records(9, seed=5))]
ODD = ["", " \n", "zqxv", "the the the", "!?", "Book me a train", "send 40 dollars " * 50, "\ud800 jazz"]


@functools.cache
def direction(word: str, dim: int) -> np.ndarray:
    return np.random.default_rng(crc32(word.encode("utf-8", "replace"))).normal(size=dim)


class Words:
    """A sentence encoder for tests: each word has a direction of its own."""

    name, dim, digest = "words", 24, "ab" * 32

    def __init__(self):
        self.calls: list[int] = []

    def embed(self, texts, on_progress=lambda _: None):
        self.calls.append(len(texts))
        on_progress(len(set(texts)))
        found = np.zeros((len(texts), self.dim))
        for i, text in enumerate(texts):
            for word in text.lower().split():
                found[i] += direction(word, self.dim)
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return np.rint(found / np.where(norms > 0, norms, 1) * 1024) / 1024


@pytest.fixture
def encoder(monkeypatch):
    found = Words()
    monkeypatch.setattr("dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda *_, **__: found)
    return found


@pytest.fixture
def few_common(monkeypatch):
    monkeypatch.setattr("dptext.mechanisms.candidates.rankers.common_words", lambda: ["doctor", "jazz", "zebra"])


def fitted(**changes) -> CandidatesMechanism:
    return Candidates(**{"epsilon": 2.0, "ranker": "tfidf", **changes}).fit(public=PUBLIC, seed=0)


def texts(n: int = 60) -> list[Record]:
    plain = sample_records(n, seed=9)
    odd = [Record(f"o{i}", text, label=("money", None, "unheard of")[i % 3]) for i, text in enumerate(ODD)]
    return [*plain, *odd]


def largest_log_ratio(mechanism, records) -> float:
    """Over all pairs of records and all outputs; infinite where one leaves for some records alone."""
    rows = [mechanism.output_distribution(record) for record in records]
    table = np.array([[row[key] for key in rows[0]] for row in rows])
    most, least = table.max(axis=0), table.min(axis=0)
    left = most > 0  # an envelope drops some candidates for every record
    with np.errstate(divide="ignore"):
        return float((np.log(most[left]) - np.log(least[left])).max())


# ------------------------------------------------------------------------------------------------ contract

SELECTIONS = ["envelope", "top_k", "exponential"]
QUICK = [name for name in CHECKS if name not in ("distribution", "guarantee")]


@pytest.mark.slow  # tests/contract/test_mechanisms.py has the same settings and all checks
@pytest.mark.parametrize("spec", [TOP_K, EXPONENTIAL, WITH_LABEL, ENVELOPE])
def test_contract(spec):
    mechanism = spec.fit(public=PUBLIC, seed=0)
    assert isinstance(mechanism, HasDistribution)
    assert check_mechanism(mechanism, sample_records(10, seed=1), checks=QUICK) == tuple(QUICK)


@pytest.mark.slow  # tests/contract has every other ranker; its own rows stay in test_distilled_words.py
def test_contract_of_a_distilled_encoder(encoder, few_common):
    spec = Candidates(epsilon=2.0, labels=LABELS, ranker="distilled", candidates=40, label_weight=1.0)
    mechanism = spec.fit(public=PUBLIC, seed=0)
    asked = len(encoder.calls)
    mechanism.privatize(sample_records(10, seed=1), seeded(0))
    assert len(encoder.calls) == asked  # it reads no private text
    assert check_mechanism(mechanism, sample_records(10, seed=1), checks=QUICK) == tuple(QUICK)
    assert largest_log_ratio(mechanism, texts(20)) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.slow
def test_contract_of_a_sentence_encoder():
    pytest.importorskip("sentence_transformers")
    spec = Candidates(epsilon=2.0, labels=LABELS)
    assert check_mechanism(spec.fit(public=PUBLIC, seed=0), checks=QUICK) == tuple(QUICK)  # the others take minutes


# ----------------------------------------------------------------------------------------------- guarantee


@pytest.mark.parametrize("spec", [TOP_K, EXPONENTIAL, WITH_LABEL, ENVELOPE])
def test_the_guarantee_protects_the_whole_document_and_reveals_nothing(spec):
    found = spec.guarantee()
    assert found.epsilon == pytest.approx(2.0, rel=1e-12)
    assert found.epsilon <= 2.0
    assert (found.delta, found.unit, found.relation) == (0.0, Unit.DOCUMENT, Relation.REPLACE_ONE)
    assert (found.basis, found.assumptions, found.reveals) == (Basis.CONDITIONAL, (PUBLIC_CANDIDATES,), ())
    assert spec.units == (Unit.DOCUMENT,)
    assert spec.events(Unit.DOCUMENT) == spec.released
    for ranker in ("text", "sentence"):
        assert replace(spec, ranker=ranker).guarantee().assumptions == (PUBLIC_CANDIDATES,)
        assert len(replace(spec, ranker=ranker, device="cuda").guarantee().assumptions) == 2
    for unit in (Unit.TOKEN, Unit.SENTENCE, Unit.AUTHOR):
        with pytest.raises(IncomparableError, match="unit document"):
            spec.guarantee(unit)
        with pytest.raises(IncomparableError, match="unit document"):
            spec.calibrate(1.0, unit=unit)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_distilled_encoder_is_assumed_to_be_public_and_nothing_else(device):
    assert replace(TOP_K, ranker="distilled", device=device).assumptions == (PUBLIC_CANDIDATES,)


def test_events():
    assert TOP_K.released[0] == PureEvent(2.0)
    event = EXPONENTIAL.released[0]
    assert isinstance(event, ExponentialEvent)
    assert event.size == EXPONENTIAL.candidates
    d, m = event.log_range, event.size
    assert d + math.log(((m - 1) * math.exp(d) + 1) / (math.exp(d) + m - 1)) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 3.7, 700.0])
@pytest.mark.parametrize("spec", [TOP_K, EXPONENTIAL, WITH_LABEL, ENVELOPE])
def test_calibrate_reaches_epsilon_and_never_overshoots(spec, epsilon):
    assert epsilon * (1 - 1e-9) < spec.calibrate(epsilon).guarantee().epsilon <= epsilon
    with_delta = spec.calibrate(epsilon, delta=1e-3)
    assert 0.999 * epsilon < with_delta.guarantee(delta=1e-3).epsilon <= epsilon
    assert with_delta.epsilon >= epsilon * (1 - 1e-9)


# -------------------------------------------------------------------------------- distribution, by enumeration


def naive_scores(public, record, weight):
    """Cosines of TF-IDF vectors in whole steps, from counters and integers."""
    documents = [Counter(word.lower() for line in tokenize(r.text) for word in line) for r in public]
    having = Counter(word for document in documents for word in document)
    n = len(public)

    def vector(counts):
        raw = {w: c * (math.log((1 + n) / (1 + having[w])) + 1) for w, c in counts.items() if w in having}
        norm = math.sqrt(sum(value**2 for value in raw.values())) or 1.0
        return {word: round(value / norm * 2048) for word, value in raw.items()}

    own = vector(Counter(word.lower() for line in tokenize(record.text) for word in line))
    found = []
    for document, candidate in zip(documents, public, strict=True):
        other = vector(document)
        product = sum(own[word] * other.get(word, 0) for word in own)
        found.append(round(product / 1024) + (round(weight * 4096) if record.label == candidate.label else 0))
    return found


def naive_distribution(mechanism, public, record):
    spec, size = mechanism.spec, len(public)
    scores = naive_scores(public, record, spec.weight)
    if spec.selection == "top_k":
        k = mechanism.pool.k
        nearest = sorted(range(size), key=lambda i: (-scores[i], i))[:k]
        best, total = math.exp(spec.epsilon), k * math.exp(spec.epsilon) + size - k
        chances = [best / total if i in nearest else 1 / total for i in range(size)]
    elif spec.selection == "envelope":
        weights, left = list(mechanism.pool.least), mechanism.pool.total - sum(mechanism.pool.least)
        for i in sorted(range(size), key=lambda i: (-scores[i], i)):
            given = min(left, math.floor(weights[i] * (Fraction(math.exp(spec.epsilon)) - 1)))
            weights[i], left = weights[i] + given, left - given
        chances = [weight / mechanism.pool.total for weight in weights]
    else:
        low, high = mechanism.pool.low, mechanism.pool.high
        cut = [(min(max(score, low), high) - low) / (high - low) for score in scores]
        raised = [math.exp(spec.released[0].log_range * score) for score in cut]
        chances = [weight / sum(raised) for weight in raised]
    found: dict[str, float] = {}
    for chance, candidate in zip(chances, public, strict=True):
        key = f"{candidate.label}\x1f{candidate.text}" if spec.labels else candidate.text
        found[key] = found.get(key, 0.0) + chance
    return found


@pytest.mark.parametrize("weight", [None, 0.0, 0.4])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_distribution_of_small_pools_is_that_of_enumeration(selection, weight):
    spec = Candidates(2.5, LABELS, ranker="tfidf", candidates=9, selection=selection, label_weight=weight)
    mechanism = spec.fit(public=SMALL, seed=0)
    for record in [*SMALL, *texts(30)]:
        found = mechanism.output_distribution(record)
        assert found == pytest.approx(naive_distribution(mechanism, SMALL, record), rel=1e-9)
        assert sum(found.values()) == pytest.approx(1)


@pytest.mark.slow_cases("spec1", "spec2", why="test_choices has the exponential, labels with texts the envelope")
@pytest.mark.parametrize("spec", [TOP_K, EXPONENTIAL, ENVELOPE])
def test_frequencies_are_the_declared_ones(spec):
    spec = replace(spec, epsilon=4.0)
    mechanism, record = spec.fit(public=PUBLIC, seed=0), Record("0", "Book me a train to Oslo", "travel")
    declared = mechanism.output_distribution(record)
    for runs, source in ((1000, seeded(3)), (3000, secure())):
        drawn = [seen(release) for release in mechanism.privatize([record] * runs, source)]
        assert distribution_p_value(declared, drawn) > 1e-5
    for factor in (2 / 3, 3 / 2):  # a sampler of another epsilon is told from the declared one
        other = replace(spec, epsilon=4.0 * factor).fit(public=PUBLIC, seed=0)
        drawn = [seen(release) for release in other.privatize([record] * 5000, secure())]
        assert distribution_p_value(declared, drawn) < SIGNIFICANT


def test_texts_that_occur_twice_add_up():
    pool = CandidatePool(("a b", "c d", "a b", "e f"), (None,) * 4, k=1)
    spec = Candidates(1.0, ranker="tfidf", selection="top_k")
    mechanism = CandidatesMechanism(spec, pool, words_ranker(pool.texts))
    found = mechanism.output_distribution(Record("0", "c"))
    total = math.e + 3
    assert found == pytest.approx({"a b": 2 / total, "c d": math.e / total, "e f": 1 / total})


# ------------------------------------------------------------------------------- epsilon, over random pairs


@pytest.mark.parametrize("labels", [(), LABELS])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_no_pair_of_texts_is_told_apart_by_more_than_epsilon(selection, labels):
    weight = 1.0 if labels else 0.0
    mechanism = fitted(epsilon=1.7, labels=labels, candidates=50, selection=selection, label_weight=weight)
    found = largest_log_ratio(mechanism, texts(60))
    assert found <= 1.7 + 1e-9
    assert found > (0.9 if selection == "exponential" else 1.7 - 1e-9)  # what is attained


@pytest.mark.parametrize("size", [2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 9.0])
def test_the_worst_scores_there_can_be_cost_exactly_epsilon(epsilon, size):
    spec = Candidates(epsilon, candidates=size, selection="exponential")
    pool = CandidatePool(tuple(map(str, range(size))), (None,) * size, low=-100, high=300)
    one, other = np.full((2, 1, size), -4096, np.int16)
    one[0, 0], other[0, 1:] = 4096, 4096  # nearest to one, far from all others; and the reverse
    p, q = (spec.exponential.distribution(pool.stretched(scores))[0] for scores in (one, other))
    assert np.log(p[0] / q[0]) == pytest.approx(epsilon, rel=1e-8)
    assert np.abs(np.log(p / q)).max() <= epsilon
    few = replace(spec, candidates=2).exponential  # the planted fault: calibrated for a smaller pool than there is
    p, q = (few.distribution(pool.stretched(scores))[0] for scores in (one, other))
    assert (np.log(p[0] / q[0]) > epsilon + 0.1) == (size > 2)


@pytest.mark.parametrize("k", [1, 3, 30])
def test_k_is_no_part_of_epsilon(k):
    assert largest_log_ratio(fitted(candidates=50, selection="top_k", k=k), texts()) == pytest.approx(2.0, rel=1e-9)


class PrivateK(CandidatesMechanism):
    """The planted fault: how many share the probability depends on the text."""

    __slots__ = ()

    def output_distribution(self, record):
        pool = replace(self.pool, k=1 if len(record.text) % 2 else 20)
        return CandidatesMechanism(self.spec, pool, self._ranker).output_distribution(record)

    def privatize(self, records, randomness):
        raise AssertionError


def test_planted_faults_are_caught():
    sound = fitted(candidates=50, selection="top_k")
    assert largest_log_ratio(sound, texts()) <= 2.0 + 1e-9
    assert largest_log_ratio(PrivateK(sound.spec, sound.pool, sound._ranker), texts()) > 2.2


def test_a_score_that_is_not_cut_is_caught():
    spec = Candidates(2.0, candidates=40, selection="exponential")
    scores = np.zeros((2, 40), np.int16)
    scores[0, 0], scores[1, 1:] = 3000, 3000
    pool = CandidatePool(tuple(map(str, range(40))), (None,) * 40, low=0, high=1000)
    cut = spec.exponential.distribution(pool.stretched(scores))
    bare = replace(spec.exponential, score_range=None).distribution(scores / 1000 * 2.0)
    assert np.log(cut[0] / cut[1]).max() <= 2.0
    assert np.log(bare[0] / bare[1]).max() > 3.0


@pytest.mark.parametrize(("epsilon", "size"), [(0.05, 50), (2.0, 50), (8.0, 9), (30.0, 20), (700.0, 20)])
def test_an_envelope_costs_what_it_says_whatever_the_epsilon(epsilon, size):
    mechanism = fitted(epsilon=epsilon, candidates=size)
    found = largest_log_ratio(mechanism, texts(50))
    assert found <= epsilon * (1 + 1e-12) + 1e-12
    if 1 < epsilon < 10:  # at the smallest one text for all is best
        assert found == pytest.approx(epsilon, rel=1e-9)  # attained


def test_an_envelope_of_a_larger_epsilon_is_caught():
    sound = fitted(candidates=50)
    claimed = fitted(epsilon=1.9, candidates=50)
    for each in (sound, claimed):
        assert largest_log_ratio(each, texts()) <= each.spec.epsilon + 1e-9
    assert largest_log_ratio(sound, texts()) > claimed.spec.epsilon + 0.09
    # The weights are raised by the epsilon of the settings, whatever the envelope was made for.
    mixed = CandidatesMechanism(claimed.spec, sound.pool, sound._ranker)
    assert largest_log_ratio(mixed, texts()) <= claimed.spec.epsilon + 1e-9


def test_a_claim_that_is_too_small_is_refuted_by_the_exact_audit():
    mechanism = TOP_K.fit(public=PUBLIC, seed=0)
    report = audits.exact(
        mechanism, Record("0", "Book me a train", "travel"), Record("1", "Play the blues", "leisure"), trials=2000
    )
    assert report.epsilon_lower_bound == pytest.approx(2.0, rel=1e-9)
    assert not report.refutes(TOP_K.guarantee())
    assert report.refutes(replace(TOP_K, epsilon=1.99).guarantee())


# --------------------------------------------------------------------------------------- labels and odd texts


def test_the_label_is_the_candidates_own():
    mechanism = fitted(labels=LABELS, selection="top_k", label_weight=3.0, k=3)
    own = {(r.label, r.text) for r in PUBLIC}
    releases = mechanism.privatize([Record("a", "nothing", "health", kept={"day": 3})] * 300, seeded(1))
    assert {(r.label, r.output) for r in releases} <= own
    assert (releases[0].id, releases[0].kept) == ("a", {"day": 3})
    kept = sum(r.label == "health" for r in releases) / 300
    size = len(mechanism.pool.texts)
    hit = 3 * math.exp(2.0) / (3 * math.exp(2.0) + size - 3)
    others = sum(label == "health" for label in mechanism.pool.labels) - 3
    expected = hit + (1 - hit) * others / (size - 3)
    assert kept == pytest.approx(expected, abs=0.1)
    assert all(r.label is None for r in fitted().privatize(PUBLIC[:5], seeded(0)))


def test_a_private_label_is_read_only_where_it_has_a_weight():
    unread, read = (fitted(labels=LABELS, selection="top_k", label_weight=weight, k=5) for weight in (0.0, 3.0))
    same = [Record("0", "a train to Oslo", label=label) for label in (*LABELS, None, "unheard of", "")]
    assert len({tuple(unread.output_distribution(record).values()) for record in same}) == 1
    assert len({tuple(read.output_distribution(record).values()) for record in same}) == 5
    for record in same[:4]:
        nearest = sorted(read.output_distribution(record).items(), key=lambda item: -item[1])[:5]
        assert all(key.startswith(f"{record.label}\x1f") for key, _ in nearest)


def test_a_label_counts_a_tenth_where_there_are_labels():
    plain, labelled_ones, unread = fitted(), fitted(labels=LABELS), fitted(labels=LABELS, label_weight=0.0)
    assert [each.spec.weight for each in (plain, labelled_ones, unread)] == [0.0, 0.1, 0.0]
    assert [each.spec.traits.reads_labels for each in (plain, labelled_ones, unread)] == [False, True, False]
    same = [Record("0", "a train to Oslo", label=label) for label in (*LABELS, None, "unheard of", "")]
    for mechanism, different in ((plain, 1), (labelled_ones, 5), (unread, 1)):
        assert len({tuple(row) for row in mechanism.scores(same).tolist()}) == different
    steps = labelled_ones.scores(same[:1]) - unread.scores(same[:1])
    assert steps[0].tolist() == [410 * (label == LABELS[0]) for label in labelled_ones.pool.labels]


def test_a_text_in_which_nothing_is_known_is_nearest_to_the_first():
    mechanism = fitted(selection="top_k", k=4)
    expected = dict.fromkeys(mechanism.pool.texts[:4], True)
    for text in ("", " \n\t", "zqxv \U0001f600", "\ud800"):
        found = mechanism.output_distribution(Record("0", text))
        assert {key for key, chance in found.items() if chance > 0.03} == expected.keys()


# ---------------------------------------------------------------------------------------- the pool and its k


def test_the_pool_holds_each_text_once_and_no_blank_one():
    public = [*PUBLIC, *PUBLIC, Record("b", " \n"), Record("e", "")]
    pool = Candidates(1.0, ranker="tfidf").fit(public=public).pool
    assert sorted(pool.texts) == sorted({r.text for r in PUBLIC})
    small = Candidates(1.0, ranker="tfidf", candidates=7)
    first, again, other = (small.fit(public=public, seed=seed).pool.texts for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 7
    two = [Record("0", "so", "health"), Record("1", "so", "money")]
    assert len(Candidates(1.0, LABELS, ranker="tfidf").fit(public=two).pool.texts) == 2


def naive_gain(mechanism, k):
    """Expected cosine and label kept of each public text, when it is no candidate itself."""
    pool, spec = mechanism.pool, mechanism.spec
    gains, own = [], [Record("0", *each) for each in zip(pool.texts, pool.labels, strict=True)]
    for i, (label, scores) in enumerate(zip(pool.labels, mechanism.scores(own).astype(int), strict=True)):
        cosines = scores - (np.array(pool.labels) == label) * round(spec.weight * 4096)
        gain = cosines / 4096 + (np.array(pool.labels) == label) * (label is not None)
        scores[i], gain[i] = -30_000, 0.0
        chances = TopKRandomizedResponse(spec.epsilon, k, len(scores)).distribution(scores[None])[0]
        gains.append(float(chances @ gain))
    return float(np.mean(gains))


@pytest.mark.parametrize(("epsilon", "labels"), [(1.0, ()), (4.0, LABELS), (8.0, ())])
def test_k_keeps_the_most_on_public_text(epsilon, labels):
    mechanism = fitted(epsilon=epsilon, labels=labels, selection="top_k", label_weight=1.0 if labels else 0.0)
    tried = sorted({min(len(mechanism.pool.texts) - 1, round(1.25**i)) for i in range(30)})
    gains = {k: naive_gain(mechanism, k) for k in tried}
    assert mechanism.pool.k in gains
    assert gains[mechanism.pool.k] == pytest.approx(max(gains.values()), abs=1e-9)
    assert max(gains.values()) > min(gains.values()) + 0.02


def test_a_smaller_epsilon_shares_among_more():
    large, small = (fitted(epsilon=epsilon, selection="top_k") for epsilon in (1.0, 12.0))
    assert large.pool.k > small.pool.k


def test_the_range_of_the_exponential_mechanism_is_worth_tuning():
    tuned = fitted(epsilon=4.0, selection="exponential")
    widest = CandidatesMechanism(tuned.spec, replace(tuned.pool, low=-4096, high=4096), tuned._ranker)

    def hit(mechanism, record):
        chances = list(mechanism.output_distribution(record).values())
        return chances[int(mechanism.scores([record]).argmax())]

    records = sample_records(40, seed=2)
    assert sum(hit(tuned, r) for r in records) > 2 * sum(hit(widest, r) for r in records)


# ------------------------------------------------------------------------------------------ sentence encoder


def documents(n=40):
    return [
        Record(r.id, f"{r.text} {s.text}", r.label) for r, s in zip(PUBLIC, sample_records(n, seed=4), strict=False)
    ]


def sentence_means(**changes) -> Candidates:
    return Candidates(2.0, ranker="sentence", selection="top_k", **changes)


def test_a_rounding_that_flips_can_cost_another_document_epsilon_and_the_certificate_says_so(encoder, monkeypatch):
    """What fails with the assumption: a batch in which one coordinate of one text is a step of the grid further."""
    mechanism = sentence_means(k=3).fit(public=sample_records(1000), seed=0)
    records = sample_records(100, seed=8)
    alone = mechanism.choice.distribution(mechanism.scores(records))
    embed, largest = Words.embed, []
    for coordinate in range(Words.dim):
        step = np.eye(Words.dim)[coordinate] / 1024
        monkeypatch.setattr(Words, "embed", lambda self, texts, step=step: embed(self, texts) + step)
        flipped = mechanism.choice.distribution(mechanism.scores(records))
        largest.append(np.abs(np.log(flipped / alone)).max())
    assert max(largest) == pytest.approx(2.0, rel=1e-9)  # all of epsilon, and no more
    (assumed,) = (text for text in replace(mechanism.spec, device="cuda").guarantee().assumptions if "alone" in text)
    assert "shows in another release, at up to epsilon again" in assumed


@pytest.mark.parametrize("ranker", ["text", "sentence", "distilled"])
def test_the_precision_reaches_the_encoder_and_changes_no_guarantee(
    ranker, encoder, few_common, monkeypatch, tmp_path: Path
):
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(
        "dptext.embeddings.sentence_encoder.load_sentence_encoder", lambda _, **how: asked.append(how) or encoder
    )
    for precision in ("auto", "int8"):
        spec = Candidates(2.0, ranker=ranker, precision=precision)
        assert spec.guarantee() == Candidates(2.0, ranker=ranker).guarantee()
        (folder := tmp_path / precision).mkdir()
        spec.fit(public=PUBLIC, seed=0).save(folder)
        spec.load(folder)
        loads = 1 if ranker == "distilled" else 2  # what was distilled is saved
        assert asked == [{"device": "cpu", "precision": precision}] * loads
        asked.clear()
    earlier = {key: value for key, value in settings(Candidates(2.0)).items() if key != "precision"}
    assert spec_from_settings(earlier) == Candidates(2.0)
    with pytest.raises(ConfigError, match="precision"):
        Candidates(2.0, precision="int4")


def test_documents_are_means_of_their_first_sentences(encoder):
    public = documents()
    mechanism = sentence_means(max_sentences=2).fit(public=public, seed=0)
    text = "I fell asleep. Play some jazz for Maria. Send 40 dollars."
    assert len(sentences(text)) == 3
    means = np.stack([encoder.embed(sentences(r.text)[:2]).mean(axis=0) for r in public])
    own = encoder.embed(sentences(text)[:2]).mean(axis=0) - means.mean(axis=0)
    centred = means - means.mean(axis=0)
    cosines = centred @ own / np.linalg.norm(centred, axis=1) / np.linalg.norm(own)
    order = [mechanism.pool.texts.index(r.text) for r in public]
    found = mechanism.scores([Record("0", text)])[0][order] / 4096
    np.testing.assert_allclose(found, cosines, atol=2e-3)
    cut = mechanism.scores([Record("0", text[: text.index(" Send")]), Record("1", text)])
    assert (cut[0] == cut[1]).all()  # what follows is not read
    more = sentence_means(max_sentences=3).fit(public=public, seed=0).scores([Record("0", text)])
    assert (more != cut[0]).any()


@pytest.mark.parametrize(("selection", "centred"), [("envelope", False), ("top_k", True)])
def test_a_text_is_read_as_one(encoder, monkeypatch, selection, centred):
    """Its cosines are those of embeddings of whole texts; an envelope is made for the cosines themselves."""
    public, read, embed = documents(), [], Words.embed
    monkeypatch.setattr(Words, "embed", lambda self, texts: (read.extend(texts), embed(self, texts))[1])
    mechanism = Candidates(2.0, selection=selection).fit(public=public, seed=0)
    asked = Record("0", "I fell asleep. Play some jazz for Maria. Send 40 dollars.")
    found = mechanism.scores([asked])[0] / 4096
    assert set(read) == {asked.text, *mechanism.pool.texts}
    points, own = embed(encoder, mechanism.pool.texts), embed(encoder, [asked.text])[0]
    centre = points.mean(axis=0) * centred
    points, own = points - centre, own - centre
    cosines = points @ own / np.linalg.norm(points, axis=1) / np.linalg.norm(own)
    np.testing.assert_allclose(found, cosines, atol=2e-3)
    other = replace(mechanism.spec, ranker="sentence").fit(public=public, seed=0)
    assert (other.scores([asked]) != mechanism.scores([asked])).any()


@pytest.mark.parametrize("ranker", ["text", "sentence"])
def test_scores_are_the_same_alone_and_in_any_batch(encoder, ranker):
    mechanism = Candidates(2.0, ranker=ranker).fit(public=documents(), seed=0)
    records = [*documents(30), *(Record("o", text) for text in ODD), *sample_records(120, seed=8)]
    whole = mechanism.scores(records)
    assert whole.dtype == np.int16
    for size in (1, 7, 300):
        parts = [mechanism.scores(records[i : i + size]) for i in range(0, len(records), size)]
        assert (np.concatenate(parts) == whole).all()


def test_a_document_without_a_sentence_is_nearest_to_the_first(encoder):
    mechanism = sentence_means(k=4).fit(public=documents(), seed=0)
    assert not mechanism.scores([Record("0", ""), Record("1", " \n\n")]).any()
    found = mechanism.output_distribution(Record("0", ""))
    assert {key for key, chance in found.items() if chance > 0.05} == set(mechanism.pool.texts[:4])
    assert largest_log_ratio(mechanism, [Record("0", ""), *documents(20)]) == pytest.approx(2.0, rel=1e-9)


def test_memory_is_bounded_by_a_block_of_documents(encoder):
    mechanism = sentence_means().fit(public=documents(), seed=0)
    encoder.calls.clear()
    mechanism.privatize(sample_records(600, seed=3), seeded(0))
    assert len(encoder.calls) == 3  # blocks of 256


# ------------------------------------------------------------------------------------- the record's own label


def labelled(selection="envelope", weight=0.7, share=0.4, **changes) -> CandidatesMechanism:
    """Nine candidates, and of epsilon 2.5 a share for the label."""
    spec = Candidates(2.5, LABELS, "tfidf", 9, selection, label_weight=weight, label_share=share, **{"k": 0, **changes})
    return spec.fit(public=SMALL, seed=0)


def every_record() -> list[Record]:
    """Each text, an odd one and none, with each label, none and an unknown one."""
    return [
        Record("0", text, label=label)
        for text in (*(record.text for record in SMALL), "", "zqxv", "to Rome and to Oslo")
        for label in (*LABELS, None, "unheard of")
    ]


def naive_joint(mechanism, public, record):
    """P(label | its label) times P(text | text, label), by counting."""
    spec = mechanism.spec
    share = spec.epsilon * spec.label_share
    alone = CandidatesMechanism(
        replace(spec, epsilon=spec.epsilon - share, label_share=0.0), mechanism.pool, mechanism._ranker
    )
    found: dict[str, float] = {}
    for label in LABELS:
        chance = 1 / len(LABELS)
        if record.label in LABELS:
            chance = math.exp(share * (label == record.label)) / (math.exp(share) + len(LABELS) - 1)
        chosen = naive_distribution(alone, public, Record("0", record.text, label=label))
        for key, text_chance in chosen.items():
            joint = f"{label}\x1f{key.partition(chr(31))[2]}"
            found[joint] = found.get(joint, 0.0) + chance * text_chance
    return found


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_label_and_text_together_are_as_enumerated(selection, weight):
    mechanism = labelled(selection, weight)
    for record in every_record()[::5]:  # each text and each label
        found = mechanism.output_distribution(record)
        assert found == pytest.approx(naive_joint(mechanism, SMALL, record), rel=1e-9)
        assert sum(found.values()) == pytest.approx(1)
        assert len(found) == 4 * 9


@pytest.mark.slow_cases(
    "envelope-0.7-0.001",
    "envelope-0.7-0.999",
    "envelope-3.0-0.4",
    why="the other selections have them, and the envelope two others",
)
@pytest.mark.parametrize(
    ("weight", "share"),
    [
        *((0.7, 0.001), (0.7, 0.4), (0.7, 0.999), (0.0, 0.4), (3.0, 0.4)),
        # the corners: each weight and each share stands above
        *(pytest.param(weight, share, marks=pytest.mark.slow) for weight in (0.0, 3.0) for share in (0.001, 0.999)),
    ],
)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_no_pair_of_records_tells_label_and_text_apart_by_more_than_epsilon(selection, weight, share):
    mechanism = labelled(selection, weight, share)
    found = largest_log_ratio(mechanism, every_record())
    assert found <= 2.5 + 1e-9
    if selection == "exponential":
        assert found > 2.5 * share  # the label alone attains its share
    else:
        assert found == pytest.approx(2.5, rel=1e-9)  # attained, as nothing is wasted


class SpentTwice(Candidates):
    """The planted fault: the text is chosen with the whole budget, the label with its share besides."""

    __slots__ = ()

    @property
    def text_epsilon(self):
        return self.epsilon


def opposites(texts):
    """The worst rows there can be: nearest to the first candidate and far from all others, or the reverse."""
    return np.array([[2048.0, *[-2048.0] * 8] if text == "one" else [-2048.0, *[2048.0] * 8] for text in texts])


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_budget_that_is_spent_twice_is_caught(selection):
    spec = Candidates(2.5, LABELS, "tfidf", 9, selection, label_share=0.4)
    twice = SpentTwice(2.5, LABELS, "tfidf", 9, selection, label_share=0.4)
    assert twice.guarantee() == spec.guarantee()  # the same promise
    ranker = Ranker(opposites, np.eye(9) * 2048, {}, np.empty(0))
    records = [Record("0", text, label=label) for text in ("one", "other") for label in (*LABELS, None)]

    def largest(each):
        made = EnvelopeResponse.of(top_k_envelope(1, 9, epsilon=each.text_epsilon), epsilon=each.text_epsilon)
        pool = CandidatePool(tuple("abcdefghi"), ("money",) * 9, least=tuple(made.least.tolist()), total=made.total)
        return largest_log_ratio(CandidatesMechanism(each, pool, ranker), records)

    found, wrong = largest(spec), largest(twice)
    assert found <= 2.5
    assert found == pytest.approx(2.5, rel=1e-8)  # attained
    assert wrong == pytest.approx(2.5 + 0.4 * 2.5, rel=1e-8)


def test_the_shares_never_add_up_to_more_than_epsilon():
    for share in (0.001, 0.1, 1 / 3, 0.5, 0.7, 0.999):
        for epsilon in (1e-3, 0.1, 2.5, 10.0, 700.0):
            spec = Candidates(epsilon, LABELS, "tfidf", label_share=share)
            assert spec.label_response is not None
            assert Fraction(spec.label_response.epsilon) + Fraction(spec.text_epsilon) <= Fraction(epsilon)
            assert spec.text_epsilon == pytest.approx(epsilon * (1 - share), rel=1e-9)
            ranged = replace(spec, selection="exponential")
            cost = accounting.epsilon([ranged.exponential.range_event(ranged.candidates)])
            assert cost <= ranged.text_epsilon
            assert ranged.events(Unit.DOCUMENT) == (PureEvent(epsilon),)
    assert Candidates(2.0, LABELS).label_response is None
    assert Candidates(2.0, LABELS).text_epsilon == 2.0


@pytest.mark.slow_cases("None", "exponential", "top_k", why="the envelope with a label stays")
@pytest.mark.parametrize("label", ["money", None])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_frequencies_of_label_and_text_are_the_declared_ones(selection, label):
    mechanism, record = labelled(selection), Record("0", SMALL[0].text, label=label)
    declared = mechanism.output_distribution(record)
    for runs, source in ((1500, seeded(3)), (2000, secure())):
        drawn = [seen(release) for release in mechanism.privatize([record] * runs, source)]
        assert distribution_p_value(declared, drawn) > 1e-5
    for share in (0.2, 0.8):
        other = labelled(selection, share=share)
        # of a record without a label the share is seen in texts alone
        drawn = [seen(release) for release in other.privatize([record] * (8000 if label is None else 4000), secure())]
        if label is not None or selection != "exponential":
            assert distribution_p_value(declared, drawn) < SIGNIFICANT


def test_the_text_goes_with_the_label_that_is_released():
    mechanism = labelled("top_k", weight=3.0, share=0.5, k=1)
    releases = mechanism.privatize([Record("a", "nothing", "health", kept={"day": 3})] * 1500, seeded(1))
    assert (releases[0].id, releases[0].kept) == ("a", {"day": 3})
    labels = Counter(release.label for release in releases)
    assert labels["health"] / 1500 == pytest.approx(math.exp(1.25) / (math.exp(1.25) + 3), abs=0.04)
    assert set(labels) == set(LABELS)
    own = dict(zip(mechanism.pool.texts, mechanism.pool.labels, strict=True))
    for label in LABELS:
        here = [own[release.output] == label for release in releases if release.label == label]
        assert sum(here) / len(here) > math.exp(1.25) / (math.exp(1.25) + 8) - 0.08


# -------------------------------------------------------------------------------------- settings and files


LARGE = Candidates(3.0, ("x", "y"), selection="top_k", label_weight=3, k=9, device="cuda")


def test_settings_survive_json():
    for spec in (*Candidates.tiny(), Candidates(0.5), LARGE):
        values = json.loads(json.dumps(settings(spec)))
        assert values.pop("kind") == "candidates"
        again = TypeAdapter(Candidates).validate_python(values)
        assert again == spec
        assert hash(again) == hash(spec)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"labels": ("a", "a")}, "named once"),
        ({"ranker": "glove"}, "ranker"),
        ({"selection": "best"}, "selection"),
        ({"candidates": 1}, "candidates"),
        ({"candidates": 70_000}, "candidates"),
        ({"k": -1}, "k=-1"),
        ({"k": 5000}, "below candidates=5000"),
        ({"k": True}, "k=True"),
        ({"k": 2.0}, "k=2.0"),
        ({"k": 2, "selection": "exponential"}, "only top_k has a k"),
        ({"k": 2}, "only top_k has a k"),
        ({"max_sentences": 0}, "max_sentences"),
        ({"label_weight": 3.5, "labels": ("a", "b")}, "label_weight"),
        ({"label_weight": 1.0}, "Expected labels"),
        ({"label_share": 0.5}, "labels=.* at least two"),
        ({"label_share": 0.5, "labels": ("a",)}, "labels=.* at least two"),
        ({"label_share": 1.0, "labels": ("a", "b")}, "label_share"),
        ({"label_share": -0.1, "labels": ("a", "b")}, "label_share"),
        ({"label_share": math.nan, "labels": ("a", "b")}, "label_share"),
        ({"ranker": "adept"}, "to be the folder of .* `dptext fit --mechanism adept`"),
        ({"ranker_model": "model"}, "ranker_model='model' to be empty with ranker='text'"),
    ],
)
def test_wrong_settings_are_refused(wrong, match):
    with pytest.raises(ConfigError, match=match):
        Candidates(**{"epsilon": 1.0, **wrong})


def test_public_text_that_does_not_do_is_refused_without_being_shown():
    hidden = [Record("0", "hidden words", "health"), Record("1", "hidden too", "elsewhere")]
    for spec, public, match in (
        (Candidates(1.0, LABELS, ranker="tfidf"), hidden, "1 of 2 without"),
        (Candidates(1.0, ranker="tfidf"), hidden[:1], "at least 2"),
        (Candidates(1.0, ranker="tfidf", selection="top_k", k=2), hidden, "at least 3"),
        (Candidates(1.0, ranker="tfidf"), [], "at least 2"),
        (Candidates(1.0, ranker="tfidf"), [*hidden, Record("2", "\ud800")], "record 3"),
    ):
        with pytest.raises((ConfigError, DataError), match=match) as caught:
            spec.fit(public=public)
        assert "hidden" not in str(caught.value)
        assert "elsewhere" not in str(caught.value)


FILES = {
    "tfidf": ["candidates.json"],
    "text": ["candidates.json", "candidates.npy"],
    "sentence": ["candidates.json", "candidates.npy"],
    "distilled": ["candidates.json", "candidates.npy", "distilled.json", "distilled.npy"],
}


@pytest.mark.slow_cases(
    "envelope-tfidf-0.3",
    "envelope-distilled-0.3",
    "top_k-tfidf-0.3",
    "top_k-text",
    why="each ranker stays with the envelope, a share of labels is a setting",
)
@pytest.mark.slow_cases("top_k-distilled", "top_k-sentence", why="the envelope has both encoders")
@pytest.mark.parametrize(
    ("ranker", "share"),
    [("tfidf", 0.0), ("tfidf", 0.3), ("text", 0.0), ("sentence", 0.0), ("distilled", 0.0), ("distilled", 0.3)],
)
@pytest.mark.parametrize("selection", ["envelope", "top_k"])
def test_saved_models_give_the_same(encoder, few_common, tmp_path: Path, selection, ranker, share):
    mechanism = fitted(labels=LABELS, ranker=ranker, selection=selection, label_weight=0.5, label_share=share)
    before = sorted(settings(mechanism.spec))
    mechanism.privatize([Record("0", "zqcanary is private", "zqcanary")], secure())
    mechanism.save(tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == FILES[ranker]
    assert all(b"zqcanary" not in path.read_bytes() for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    loaded = mechanism.spec.load(tmp_path)
    assert loaded.digests == mechanism.digests
    assert sorted(settings(loaded.spec)) == before
    records = texts()
    assert (loaded.scores(records) == mechanism.scores(records)).all()
    assert loaded.privatize(records, seeded(1)) == mechanism.privatize(records, seeded(1))
    assert fitted(labels=LABELS, ranker=ranker, label_weight=0.5, candidates=30).digests != mechanism.digests
    with pytest.raises(ConfigError):
        mechanism.save(tmp_path)


def test_edited_models_are_refused(encoder, tmp_path: Path):
    mechanism = fitted(labels=LABELS, ranker="sentence", selection="top_k", candidates=50)
    mechanism.save(tmp_path)
    spec, described = mechanism.spec, tmp_path / "candidates.json"
    whole = described.read_bytes()
    for other in (
        replace(spec, ranker="tfidf"),
        replace(spec, labels=LABELS[:2]),
        replace(spec, labels=()),
        replace(spec, candidates=40),  # the event of a range rests on it
        replace(spec, k=mechanism.pool.k + 1),
    ):
        with pytest.raises(ConfigError, match="of other settings"):
            other.load(tmp_path)
    values = json.loads(whole)
    edits = [
        {"k": 0},
        {"k": len(values["texts"])},
        {"k": "3"},
        {"low": 5, "high": 5},
        {"high": 99_999},
        {"texts": [1] * len(values["texts"])},
        {"texts": values["texts"][:-1]},
        {"labels": values["labels"][:-1]},
        {"labels": [[]] * len(values["labels"])},
        {"centre": values["centre"][:-1]},
        {"centre": [math.nan] * len(values["centre"])},
        {"centre": None},
        {"given": 3},
    ]
    for broken in (whole[:-9], b"", b"[]", b"{}", b"[" * 100_000, *(json.dumps(values | e).encode() for e in edits)):
        described.write_bytes(broken)
        with pytest.raises(ConfigError, match="cut short or edited") as caught:
            spec.load(tmp_path)
        assert PUBLIC[0].text not in str(caught.value)
    described.write_bytes(whole)
    points = np.load(tmp_path / "candidates.npy")
    for wrong in (points[:-1], points[:, :-1], points.astype(np.int32), points * 0 + 3000, np.array([{}])):
        with (tmp_path / "candidates.npy").open("wb") as file:
            np.lib.format.write_array(file, wrong)
        with pytest.raises(ConfigError, match="cut short or edited"):
            spec.load(tmp_path)
    (tmp_path / "candidates.npy").write_bytes(b"\x93NUMPY\x01\x00\x06\x00(((((\n")
    with pytest.raises(ConfigError, match="cut short or edited"):
        spec.load(tmp_path)
    (tmp_path / "candidates.npy").unlink()
    with pytest.raises(ConfigError, match="Cannot read"):
        spec.load(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_edited_envelopes_are_refused(tmp_path: Path, share):
    mechanism = fitted(labels=LABELS, candidates=30, label_share=share)
    mechanism.save(tmp_path)
    path = tmp_path / "candidates.json"
    values = json.loads(path.read_bytes())
    least, total = values["least"], values["total"]
    spent = mechanism.choice.most.tolist()
    edits = [
        {"least": least[:-1]},
        {"least": []},
        {"least": 3},
        {"least": [0] * len(least)},
        {"least": [float(number) for number in least]},
        {"least": [bool(number) for number in least]},
        {"least": [-1, *least[1:]]},
        {"least": [1 << 64, *least[1:]]},
        {"least": [1 << 61] * len(least)},
        {"least": spent},
        {"total": sum(least) - 1},
        {"total": sum(spent) + len(least)},
        {"total": -total},
        {"total": 1 << 80},
        {"total": float(total)},
        {"total": True},
        {"total": None},
        {"total": str(total)},
    ]
    for edit in edits:
        path.write_text(json.dumps(values | edit))
        with pytest.raises(ConfigError):
            mechanism.spec.load(tmp_path)
    for name in ("least", "total"):
        path.write_text(json.dumps({key: value for key, value in values.items() if key != name}))
        with pytest.raises(ConfigError, match="cut short or edited"):
            mechanism.spec.load(tmp_path)
    path.write_text(json.dumps(values))
    assert mechanism.spec.load(tmp_path).digests == mechanism.digests
    with pytest.raises(ConfigError, match="between the sums"):  # so small an epsilon does not raise them to the total
        replace(mechanism.spec, epsilon=mechanism.spec.epsilon / 100).load(tmp_path)


@pytest.mark.parametrize("change", ["least", "total"])
def test_the_envelope_is_in_the_digest(change):
    mechanism = fitted(candidates=30)
    pool = mechanism.pool
    other = (*pool.least[:-1], pool.least[-1] + 1) if change == "least" else pool.total - 1
    edited = CandidatesMechanism(mechanism.spec, replace(pool, **{change: other}), mechanism._ranker)
    assert edited.digests != mechanism.digests


@pytest.mark.parametrize("name", FILES["distilled"])
def test_an_edited_pupil_is_refused(encoder, few_common, tmp_path: Path, name):
    mechanism = fitted(ranker="distilled", candidates=20)
    mechanism.save(tmp_path)
    assert mechanism.spec.load(tmp_path).digests == mechanism.digests
    path = tmp_path / name
    whole = path.read_bytes()
    for broken in (whole[:-3], b""):
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="cut short or edited"):
            mechanism.spec.load(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match="Cannot read"):
        mechanism.spec.load(tmp_path)


def test_a_saved_pupil_needs_its_teacher_no_more(encoder, few_common, monkeypatch, tmp_path: Path):
    mechanism = fitted(ranker="distilled", labels=LABELS, label_weight=1.0)
    mechanism.save(tmp_path)
    monkeypatch.delattr("dptext.embeddings.sentence_encoder.load_sentence_encoder")
    loaded = mechanism.spec.load(tmp_path)
    assert (loaded.scores(texts()) == mechanism.scores(texts())).all()


def test_candidates_of_another_encoder_are_refused(encoder, tmp_path: Path):
    mechanism = fitted(ranker="sentence")
    mechanism.save(tmp_path)
    encoder.dim = 25
    with pytest.raises(ConfigError, match="of the encoder words"):
        mechanism.spec.load(tmp_path)


@pytest.mark.parametrize(("epsilon", "alone"), [(0.05, True), (8.0, False)])
def test_a_choice_that_is_one_text_for_all_says_so(epsilon: float, alone: bool) -> None:
    mechanism = Candidates(epsilon, ranker="tfidf").fit(public=sample_records(300), seed=0)
    found = mechanism.remarks()
    assert (found.numbers["texts_in_play"] == 1) == alone
    assert ("the same text for nearly every record. Raise epsilon" in found.text) == alone
    outputs = {release.output for release in mechanism.privatize(sample_records(60, seed=1), seeded(0))}
    assert (len(outputs) <= 3) == alone
