"""Mechanisms with one fault each: every one of them is caught, by the audit that docs/concepts/audits.md names.

Where a sound version exists it is tried in the same way and survives, so that no audit refutes everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dptext import audits
from dptext.audits.subjects import broken_assumptions, records_digest
from dptext.errors import IncomparableError
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy import accounting
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Relation, Unit
from dptext.sampling.discrete import uniform_below
from dptext.sampling.float_noise import Gaussian
from dptext.sampling.grid_noise import GridLaplace
from dptext.sampling.randomness import Randomness, seeded
from dptext.sampling.top_k import TopKRandomizedResponse
from dptext.testing import ContractError, check_mechanism
from dptext.text.records import Record, Release
from dptext.text.tokens import tokenize
from dptext_lab.adept.published_noise import ClassicalGaussian, PublishedLaplace
from vectors import WORDS

SURE = 1 - 1e-6
#: A share of the trials sees every fault; `make test-all` takes them all, too.
SHARES = pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
WORD_CLAIM = accounting.guarantee([PureEvent(2.0)], unit=Unit.DOCUMENT, basis=Basis.PROVEN)


@dataclass(frozen=True)
class Words:
    """One word in, one word out by 2-DP randomized response; sound, and the body of every faulty mechanism here."""

    size: int = 20
    epsilon: float = 2.0

    def choose(self, scores: np.ndarray, source: Randomness) -> np.ndarray:
        return TopKRandomizedResponse(self.epsilon, 1, self.size).choose(scores, source)

    def scores(self, word: str) -> np.ndarray:
        known = np.zeros(self.size)
        known[WORDS.index(word) if word in WORDS[: self.size] else 0] = 1.0
        return known

    def sample(self, value: str, runs: int, randomness: Randomness) -> list[str]:
        rows = np.tile(self.scores(value), (runs, 1))
        return [WORDS[i] for i in self.choose(rows, randomness).tolist()]


class PassThrough(Words):
    def sample(self, value, runs, randomness):
        return [value] * runs


class UnknownRaw(Words):
    def sample(self, value, runs, randomness):
        return super().sample(value, runs, randomness) if value in WORDS[: self.size] else [value] * runs


class StopWordsCopied(Words):
    def sample(self, value, runs, randomness):
        return [value] * runs if value == WORDS[1] else super().sample(value, runs, randomness)


class HalfNoise(Words):
    def sample(self, value, runs, randomness):
        return Words(self.size, 2 * self.epsilon).sample(value, runs, randomness)


def tried(subject: object, first: str = WORDS[0], second: str = WORDS[3]) -> bool:
    report = audits.distinguish(
        subject, first, second, claim=WORD_CLAIM, trials=4000, confidence=SURE, randomness=seeded(3)
    )
    return report.refutes(WORD_CLAIM)


def test_sound_words_survive() -> None:
    assert not tried(Words())
    assert not tried(Words(), WORDS[0], "zqxjkvbp")
    assert not tried(Words(), WORDS[1], WORDS[3])


def test_pass_through() -> None:
    assert tried(PassThrough())


def test_unknown_word_returned_raw() -> None:
    assert not tried(UnknownRaw())  # two known words show nothing
    assert tried(UnknownRaw(), WORDS[0], "zqxjkvbp")


def test_stop_words_copied() -> None:
    assert not tried(StopWordsCopied())
    assert tried(StopWordsCopied(), WORDS[1], WORDS[3])


def test_half_the_noise_on_words() -> None:
    assert tried(HalfNoise())


# ------------------------------------------------------------------------------------------------ vectors


@dataclass(frozen=True)
class Halved:
    """Grid Laplace with half of its noise, declaring the density of the whole."""

    inner: GridLaplace

    @property
    def dim(self) -> int:
        return self.inner.dim

    def release(self, vectors, randomness):
        return replace(self.inner, epsilon=2 * self.inner.epsilon).release(vectors, randomness)

    def log_density(self, released, vectors):
        return self.inner.log_density(released, vectors)


@dataclass(frozen=True)
class BlackBox:
    """Vector noise of which only the releases can be seen."""

    inner: object

    def sample(self, value, runs, randomness):
        return self.inner.release(np.tile(value, (runs, 1)), randomness)


def corner(dim: int) -> np.ndarray:
    return np.full(dim, dim**-0.5)


@pytest.mark.slow  # tests/e2e/test_audit_commands.py refutes by counting
def test_half_the_noise_in_one_dimension_is_seen_by_counting() -> None:
    sound = GridLaplace(1.0, 1, 1.0)
    claim = audits.claim_of(sound)
    for subject, caught in ((sound, False), (Halved(sound), True)):
        box = BlackBox(subject)
        report = audits.distinguish(
            box, corner(1), -corner(1), claim=claim, trials=20_000, confidence=SURE, randomness=seeded(1)
        )
        assert report.refutes(claim) is caught


@pytest.mark.slow  # test_trials.py sees a wrong scale by the white box, in 8 dimensions
@SHARES
def test_half_the_noise_in_64_dimensions_is_seen_by_the_white_box_only(share: int) -> None:
    sound = GridLaplace(1.0, 64, 1.0)
    claim = audits.claim_of(sound)
    assert not audits.whitebox(sound, trials=40_000 // share, randomness=seeded(1)).refutes(claim)
    report = audits.whitebox(Halved(sound), trials=40_000 // share, randomness=seeded(1))
    assert report.refutes(claim)
    assert report.defects
    counted = audits.distinguish(Halved(sound), claim=claim, trials=10_000 // share, randomness=seeded(1))
    assert not counted.refutes(claim)  # what counting cannot see


@pytest.mark.slow  # half the noise in one dimension is seen by counting in each run
@pytest.mark.parametrize(("epsilon", "trials"), [(5.0, 10_000), (1.0, 40_000), (5.0, 40_000)])
def test_l2_clip_with_noise_for_2c_is_seen_by_counting(epsilon: float, trials: int) -> None:
    published, corrected = PublishedLaplace(epsilon, 64, 1.0), GridLaplace(epsilon, 64, 1.0)
    claim = audits.claim_of(published)
    assert claim.basis is Basis.CLAIMED
    for subject, refuted in ((published, True), (corrected, False)):
        for on_trial in (subject, BlackBox(subject)):  # with and without the likelihood ratio
            report = audits.distinguish(
                on_trial, corner(64), -corner(64), claim=claim, trials=trials, confidence=0.999, randomness=seeded(2)
            )
            assert report.refutes(claim) is refuted


@pytest.mark.slow  # test_trials.py sees a wrong scale by the white box
@SHARES
@pytest.mark.parametrize("epsilon", [10.0, 50.0])
def test_l2_clip_with_noise_for_2c_is_seen_by_the_white_box_at_any_epsilon(epsilon: float, share: int) -> None:
    published, corrected = PublishedLaplace(epsilon, 64, 1.0), GridLaplace(epsilon, 64, 1.0)
    claim = audits.claim_of(published)
    report = audits.whitebox(published, trials=20_000 // share, randomness=seeded(2))
    assert report.refutes(claim)
    assert not report.defects  # the noise is what it says; the claim is not
    assert report.main.low > 0.9  # delta(epsilon) is nearly 1: nothing is protected
    assert not audits.whitebox(corrected, trials=20_000 // share, randomness=seeded(2)).refutes(claim)


@pytest.mark.slow  # test_audit_commands.py refutes the same noise by the command
@SHARES
def test_the_classical_gaussian_at_epsilon_50(share: int) -> None:
    classical = ClassicalGaussian(50.0, 1e-5, 64, 1.0)
    claim = audits.claim_of(classical)
    report = audits.whitebox(classical, trials=50_000 // share, randomness=seeded(2))
    assert report.refutes(claim)
    assert report.main.low < 0.586 < report.main.high  # derivations, "Two rates"
    assert not audits.distinguish(classical, claim=claim, trials=10_000 // share, randomness=seeded(2)).refutes(claim)
    sound = Gaussian(50.0, 1e-5, 64, 1.0)
    assert not audits.whitebox(sound, trials=50_000 // share, confidence=0.999, randomness=seeded(2)).refutes(claim)


# ------------------------------------------------------------------------------- mechanisms for records


@dataclass
class Faulty:
    """The word mechanism with a fault in how it treats records."""

    inner: object
    private: Sequence[Record] = field(default=(), repr=False)

    @property
    def spec(self):
        return self.inner.spec

    @property
    def digests(self) -> Mapping[str, str]:
        return self.inner.digests

    def distance(self, first, second):
        return self.inner.distance(first, second)

    def privatize(self, records, randomness):
        return self.inner.privatize(records, randomness)

    def save(self, folder):
        self.inner.save(folder)


class SameNoiseEveryTime(Faulty):
    def privatize(self, records, randomness):
        return self.inner.privatize(records, seeded(7))


@dataclass
class SharedNoise(Faulty):
    """One of 64 noise vectors for all tokens of a text: equal tokens stay equal."""

    drawn: dict[tuple[str, int], str] = field(default_factory=dict, repr=False)

    def privatize(self, records, randomness):
        releases = []
        for i, record in enumerate(records):
            lines, source = tokenize(record.text), randomness.at(i) if not randomness.is_secure else randomness
            noise = int(uniform_below(64, 1, source)[0])
            text = "\n".join(" ".join(self.one(token, noise) for token in line) for line in lines)
            releases.append(Release(record.id, text))
        return releases

    def one(self, word, noise):
        if (word, noise) not in self.drawn:
            self.drawn[word, noise] = self.inner.privatize([Record("0", word)], seeded(noise))[0].output
        return self.drawn[word, noise]


class NormalisedByTheBatch(Faulty):
    """Texts as long as the longest of the batch: a statistic of other records."""

    def privatize(self, records, randomness):
        longest = max((len(record.text.split()) for record in records), default=0)
        padded = [replace(r, text=" ".join([*r.text.split(), *[WORDS[0]] * longest][:longest])) for r in records]
        return self.inner.privatize(padded, randomness)


class CandidatesFromPrivateTexts(Faulty):
    """An exponential mechanism over the texts of the batch: sound-looking noise, private candidates."""

    def privatize(self, records, randomness):
        texts = [record.text for record in records]
        if not texts:
            return []
        drawn = uniform_below(len(texts), len(texts), randomness).tolist()
        return [Release(record.id, texts[i]) for record, i in zip(records, drawn, strict=True)]


def words_mechanism(vectors: Path, epsilon: float = 1.0):
    return WordMetric(epsilon=epsilon, vectors=str(vectors), n_words=40).fit()


def fails(mechanism: object, *checks: str) -> bool:
    try:
        check_mechanism(mechanism, words=WORDS[:4], checks=checks)
    except ContractError:
        return True
    return False


@pytest.mark.slow  # tests/contract/test_contract_faults.py has the check of fresh noise
def test_a_fixed_default_seed(vectors: Path) -> None:
    inner = words_mechanism(vectors)
    assert not fails(Faulty(inner), "fresh")
    assert fails(SameNoiseEveryTime(inner), "fresh")


@pytest.mark.slow  # half the noise on words is seen by the same audit
def test_noise_shared_by_the_tokens_of_a_text(vectors: Path) -> None:
    inner = words_mechanism(vectors)
    claim = inner.spec.guarantee()
    pair = audits.Pair(" ".join([WORDS[0]] * 4), " ".join([WORDS[1], *[WORDS[0]] * 3]))
    for mechanism, caught in ((inner, False), (SharedNoise(inner), True)):
        report = audits.distinguish(mechanism, pairs=[pair], trials=2000, confidence=SURE)
        assert report.refutes(claim) is caught


@pytest.mark.slow  # tests/contract/test_contract_faults.py has the check of batches
def test_statistics_of_the_batch(vectors: Path) -> None:
    assert fails(NormalisedByTheBatch(words_mechanism(vectors)), "batches")


@pytest.mark.slow  # tests/contract/test_contract_faults.py has the three checks
def test_candidates_from_the_private_texts(vectors: Path) -> None:
    faulty = CandidatesFromPrivateTexts(words_mechanism(vectors))
    assert fails(faulty, "verbatim")
    assert fails(faulty, "distribution")
    assert fails(faulty, "guarantee")


# ------------------------------------------------------------------- what only assumptions can tell


@dataclass(frozen=True)
class Trained:
    """A mechanism that remembers which text it was fitted on, as digests of public text do."""

    inner: object
    digests: Mapping[str, str]

    @property
    def spec(self):
        return self.inner.spec

    def privatize(self, records, randomness):
        return self.inner.privatize(records, randomness)

    def distance(self, first, second):
        return self.inner.distance(first, second)


def test_a_model_trained_on_the_private_text(vectors: Path) -> None:
    private = [Record(str(i), f"{WORDS[i]} {WORDS[i + 1]}") for i in range(20)]
    public = [Record(str(i), f"{WORDS[i + 50]} {WORDS[i + 60]}") for i in range(20)]
    inner = words_mechanism(vectors)
    on_private = Trained(inner, {"public text": records_digest(private)})
    on_public = Trained(inner, {"public text": records_digest(public)})
    claim = inner.spec.guarantee()
    # The box does what it says for each input: counting finds nothing.
    report = audits.distinguish(on_private, WORDS[0], WORDS[1], claim=claim, trials=2000, confidence=SURE)
    assert not report.refutes(claim)
    # The guarantee holds under assumptions, and these are false.
    assert broken_assumptions(claim, on_private, private=private)
    assert broken_assumptions(claim, on_private, private=private[::-1])
    assert not broken_assumptions(claim, on_public, private=private)
    assert broken_assumptions(claim, on_public, private=private, true=())
    assert not broken_assumptions(claim, on_public, private=private, true=claim.assumptions)


def test_refutes_only_its_own_kind() -> None:
    report = audits.distinguish(Words(), WORDS[0], WORDS[3], claim=WORD_CLAIM, trials=1000, randomness=seeded(0))
    for other in (
        accounting.guarantee([PureEvent(0.1)], unit=Unit.TOKEN, basis=Basis.PROVEN),
        accounting.guarantee(
            [PureEvent(0.1)], unit=Unit.DOCUMENT, relation=Relation.REPLACE_SPECIAL, basis=Basis.PROVEN
        ),
        accounting.guarantee(
            [PureEvent(0.1)], unit=Unit.DOCUMENT, reveals=("the number of tokens",), basis=Basis.PROVEN
        ),
    ):
        with pytest.raises(IncomparableError):
            report.refutes(other)
