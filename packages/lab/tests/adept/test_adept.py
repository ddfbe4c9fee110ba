"""`Adept`: what it guarantees, what it refuses, what it does with odd records, and how it is trained."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dptext import audits  # noqa: E402
from dptext.errors import ConfigError, IncomparableError  # noqa: E402
from dptext.mechanism import HasDistribution, HasLatent, settings  # noqa: E402
from dptext.privacy.events import PureEvent  # noqa: E402
from dptext.privacy.guarantee import Basis, Relation, Trust, Unit  # noqa: E402
from dptext.sampling.clipping import Norm  # noqa: E402
from dptext.sampling.envelope import EnvelopeResponse, top_k_envelope  # noqa: E402
from dptext.sampling.float_noise import Gaussian, L2Laplace  # noqa: E402
from dptext.sampling.grid_noise import GridLaplace  # noqa: E402
from dptext.sampling.privunit import PrivUnit  # noqa: E402
from dptext.sampling.randomness import secure, seeded  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept import sound  # noqa: E402
from dptext_lab.adept.sound import PUBLIC_MODEL, Adept, AdeptCodebook, AdeptNoise  # noqa: E402

LABELS = ("health", "travel", "money", "leisure")
NOISES = get_args(get_type_hints(Adept)["noise"])
CANARY = "zq9canary"
PUBLIC = sample_records(60)
CLASSES = {
    "privunit": PrivUnit,
    "gaussian": Gaussian,
    "l2_laplace": L2Laplace,
    "laplace_l1": GridLaplace,
    "laplace_l2": GridLaplace,
}


pytestmark = pytest.mark.usefixtures("one_thread")


def spec(noise: str = "codebook", **changes) -> Adept:
    given = {
        "epsilon": 2.0,
        "labels": LABELS,
        "noise": noise,
        "delta": 1e-5 if noise == "gaussian" else 0.0,
        "encoder": "lstm",
        "latent_dim": 4,
        "max_tokens": 12,
        "hidden": 12,
        "embedding": 8,
        "codebook_size": 40,
        "epochs": 2,
        "learning_rate": 2e-2,
    }
    return Adept(**{**given, **changes})


@pytest.fixture(scope="module")
def fitted() -> dict[str, AdeptNoise | AdeptCodebook]:
    """One network under each noise: only the training would differ between them."""
    trained = spec(epochs=40, patience=40).fit(public=PUBLIC, seed=0)
    found: dict[str, AdeptNoise | AdeptCodebook] = {n: AdeptNoise(spec(n), trained.model) for n in CLASSES}
    return {**found, "codebook": AdeptCodebook(spec(), trained.model, trained.codebook, trained.choice)}


# ------------------------------------------------------------------ the guarantee


@pytest.mark.parametrize("noise", NOISES)
def test_the_guarantee_protects_the_whole_document_and_reveals_nothing(noise: str) -> None:
    found = spec(noise).guarantee()
    assert (found.unit, found.relation, found.trust) == (Unit.DOCUMENT, Relation.REPLACE_ONE, Trust.LOCAL)
    assert (found.basis, found.assumptions) == (Basis.CONDITIONAL, (PUBLIC_MODEL,))
    assert (found.reveals, found.metric, found.reason) == ((), None, "")
    assert 2.0 * (1 - 1e-9) < found.epsilon <= 2.0
    assert found == spec(noise).guarantee(Unit.DOCUMENT)
    if noise == "gaussian":
        assert found.delta == 1e-5
    elif noise in ("privunit", "l2_laplace"):
        assert 0 < found.delta < 1e-7  # the slack of a float sampler
    else:
        assert found.delta == 0
    assert "public text only" in found.explain()


@pytest.mark.parametrize("noise", NOISES)
def test_events_are_those_of_the_noise(noise: str) -> None:
    small = spec(noise)
    assert small.units == (Unit.DOCUMENT,)
    if noise == "codebook":
        assert small.events(Unit.DOCUMENT) == (PureEvent(2.0),)
        with pytest.raises(ConfigError, match="noise='codebook' chooses among public utterances"):
            _ = small.vector_noise
    else:
        assert small.events(Unit.DOCUMENT) == small.vector_noise.events
        kinds = [event.kind for event in small.events(Unit.DOCUMENT)]
        assert kinds == {"gaussian": ["gaussian", "approximate"]}.get(noise, kinds)
        assert set(kinds) <= {"gaussian", "approximate", "pure"}
        assert type(small.vector_noise) is CLASSES[noise]
        assert (small.vector_noise.dim, small.vector_noise.clip_norm) == (4, 1.0)
    for unit in (Unit.TOKEN, Unit.SENTENCE, Unit.AUTHOR):
        with pytest.raises(IncomparableError, match=f"found {unit.value}"):
            small.guarantee(unit)


def test_the_noises_clip_as_they_say() -> None:
    assert spec("laplace_l1").vector_noise.clipped is Norm.L1
    assert spec("laplace_l2").vector_noise.clipped is Norm.L2
    # sqrt(n) = 2 apart; the planted fault would be the published scale for both
    assert spec("laplace_l2").vector_noise.scale == pytest.approx(2 * 2.0 / 2.0, rel=1e-3)
    assert spec("laplace_l1").vector_noise.scale == pytest.approx(2.0 / 2.0, rel=1e-3)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0, 10.0, 50.0])
def test_calibrate_never_overshoots(noise: str, epsilon: float) -> None:
    found = spec(noise).calibrate(epsilon)
    assert found == replace(spec(noise), epsilon=epsilon)
    stated = found.guarantee()
    assert epsilon * (1 - 1e-9) <= stated.epsilon <= epsilon
    assert stated.delta <= 1e-5
    if noise == "gaussian":
        for delta in (1e-6, 1e-8):
            found = spec(noise).calibrate(epsilon, unit=Unit.DOCUMENT, delta=delta)
            assert found.delta == delta
            assert found.guarantee(delta=delta).epsilon <= epsilon
            assert found.guarantee(delta=delta).delta == delta
    else:
        assert spec(noise).calibrate(epsilon, delta=1e-6).delta == 0
        assert spec(noise).calibrate(epsilon, delta=1e-6).guarantee(delta=1e-6).epsilon <= epsilon


@pytest.mark.parametrize("noise", ["privunit", "l2_laplace"])
def test_calibrate_refuses_a_delta_below_the_slack(noise: str) -> None:
    slack = spec(noise).events(Unit.DOCUMENT)[0].delta
    assert spec(noise).calibrate(2.0, delta=slack * 1.01).epsilon == 2.0
    with pytest.raises(ConfigError, match="the slack of the float sampler"):
        spec(noise).calibrate(2.0, delta=slack * 0.99)
    with pytest.raises(IncomparableError, match="found token"):
        spec(noise).calibrate(2.0, unit=Unit.TOKEN)


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("noise", "changes", "match"),
    [
        ("codebook", {"epsilon": 0.0}, "epsilon=0.0"),
        ("codebook", {"epsilon": math.inf}, "epsilon=inf"),
        ("codebook", {"epsilon": math.nan}, "epsilon=nan"),
        ("codebook", {"epsilon": True}, "epsilon=True"),
        ("privunit", {"epsilon": 2000.0}, "epsilon=2000.0"),
        ("codebook", {"noise": "laplace"}, "noise='laplace' to be one of codebook, privunit"),
        ("codebook", {"encoder": "gru"}, "encoder='gru'"),
        ("codebook", {"decoding": "beam"}, "decoding='beam'"),
        ("codebook", {"precision": "float16"}, "precision='float16'"),
        ("codebook", {"labels": ("a", "b", "a")}, "labels="),
        ("codebook", {"labels": ("a", "")}, "labels="),
        ("codebook", {"latent_dim": 1}, "latent_dim=1"),
        ("codebook", {"latent_dim": 5000}, "latent_dim=5000"),
        ("codebook", {"codebook_size": 1}, "codebook_size=1"),
        ("codebook", {"clip_norm": 0}, "clip_norm=0"),
        ("codebook", {"clip_norm": -1.0}, "clip_norm=-1.0"),
        ("codebook", {"label_weight": -0.5}, "label_weight=-0.5"),
        ("codebook", {"learning_rate": 0.0}, "learning_rate=0.0"),
        ("codebook", {"max_tokens": 0}, "max_tokens=0"),
        ("codebook", {"hidden": 2.5}, "hidden=2.5"),
        ("codebook", {"epochs": 0}, "epochs=0"),
        ("codebook", {"patience": 0}, "patience=0"),
        ("codebook", {"min_count": 0}, "min_count=0"),
        ("codebook", {"max_words": 0}, "max_words=0"),
        ("codebook", {"embedding": True}, "embedding=True"),
        ("gaussian", {"delta": 2.0}, "delta"),
        ("gaussian", {"delta": 1e-300}, "delta"),
    ],
)
def test_wrong_settings_are_refused(noise: str, changes: dict, match: str) -> None:
    with pytest.raises(ConfigError, match=f"Expected .*{match}"):
        spec(**{"noise": noise, **({"delta": 1e-5} if noise == "gaussian" else {}), **changes})


@pytest.mark.parametrize("noise", ["codebook", "privunit", "laplace_l2"])
@pytest.mark.parametrize("delta", [1e-5, 1.0, -1.0, math.nan])
def test_a_delta_without_gaussian_noise_is_refused(noise: str, delta: float) -> None:
    with pytest.raises(ConfigError, match=f"delta={delta!r}"):
        spec(noise, delta=delta)


@pytest.mark.parametrize("delta", [0.0, -1e-5, math.nan])
def test_gaussian_noise_without_delta_is_refused(delta: float) -> None:
    with pytest.raises(ConfigError, match=f"delta={delta!r}"):
        spec("gaussian", delta=delta)


def test_one_word_is_no_set_of_labels() -> None:
    """`labels="travel"` would be read as six labels of one letter."""
    with pytest.raises(ConfigError, match="labels="):
        spec(labels="travel")


def test_settings_survive_json() -> None:
    for noise in NOISES:
        values = settings(spec(noise))
        assert json.loads(json.dumps(values)) == values
        assert values["kind"] == "adept"
    assert Adept(10.0).noise == "codebook"
    assert all(type(small) is Adept for small in Adept.tiny())
    ways = {(small.noise, bool(small.labels)) for small in Adept.tiny()}
    assert ways == {("codebook", True), ("privunit", True), ("laplace_l2", False)}


# ------------------------------------------------------------------ fitting


@pytest.mark.parametrize("noise", ["codebook", "privunit"])
@pytest.mark.parametrize("label", [None, CANARY, "Money", ""])
def test_public_records_without_a_known_label_are_refused(noise: str, label: str | None) -> None:
    public = [*PUBLIC[:7], Record("odd", f"{CANARY} text", label=label), Record("even", CANARY, label=label)]
    with pytest.raises(ConfigError, match=r"one of the 4 labels of the settings, found 2 of 9 without") as caught:
        spec(noise).fit(public=public, seed=0)
    assert CANARY not in str(caught.value)


def test_labels_are_not_needed_where_the_settings_have_none() -> None:
    public = [replace(record, label=CANARY if i % 2 else None) for i, record in enumerate(PUBLIC)]
    released = spec("privunit", labels=()).fit(public=public, seed=0).privatize(PUBLIC, seeded(0))
    assert {release.label for release in released} == {None}
    assert all(CANARY not in release.output for release in released)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_public_records_are_refused(n: int) -> None:
    for noise in ("codebook", "gaussian"):
        with pytest.raises(ConfigError, match=f"found {n}"):
            spec(noise).fit(public=iter(PUBLIC[:n]))


def test_progress_is_reported() -> None:
    seen = []
    spec("privunit", epochs=3).fit(public=PUBLIC, seed=0, on_progress=seen.append)
    assert [(p.done, p.total) for p in seen] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.slow_cases("l2_laplace", "laplace_l1", "laplace_l2", "gaussian", why="PrivUnit and the codebook stay")
@pytest.mark.parametrize("noise", NOISES)
def test_a_seed_repeats_the_fit(noise: str) -> None:
    one, same, other = (spec(noise).fit(public=PUBLIC, seed=seed).digests for seed in (1, 1, 2))
    assert one == same
    assert one["model"] != other["model"]


# ------------------------------------------------------------------ denoising


@pytest.mark.parametrize("noise", list(CLASSES))
def test_the_decoder_is_trained_under_the_mechanisms_own_noise(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[object, np.ndarray, np.ndarray]] = []
    original = CLASSES[noise].release

    def watched(self, vectors, source):
        released = original(self, vectors, source)
        drawn.append((self, np.array(vectors), released))
        return released

    monkeypatch.setattr(CLASSES[noise], "release", watched)
    small = spec(noise, epsilon=3.0, epochs=2)
    mechanism = small.fit(public=PUBLIC, seed=0)
    # 57 of 60 texts in one step an epoch, then the 3 held out
    assert [len(released) for _, _, released in drawn] == [57, 3] * 2
    assert all(used == small.vector_noise for used, _, _ in drawn)
    shifts = np.concatenate([released - vectors for _, vectors, released in drawn])
    assert len(np.unique(shifts, axis=0)) == len(shifts)  # anew each step, for each text
    assert (np.abs(shifts).max(axis=1) > 0).all()
    # and the one that privatize draws is the same mechanism
    drawn.clear()
    mechanism.privatize(PUBLIC[:5], seeded(1))
    assert [used == small.vector_noise for used, _, _ in drawn] == [True] * 5


def test_another_epsilon_trains_another_decoder() -> None:
    digests = {
        epsilon: spec("laplace_l2", epsilon=epsilon).fit(public=PUBLIC, seed=0).digests for epsilon in (1.0, 9.0)
    }
    assert digests[1.0]["model"] != digests[9.0]["model"]


def test_training_noise_is_brought_back_into_the_ball() -> None:
    small = spec("laplace_l2", epsilon=0.1, clip_norm=0.5)
    noise = sound._training_noise(small, 0)
    latents = np.random.default_rng(0).normal(size=(50, 4))
    first, second = noise(latents), noise(latents)
    assert np.linalg.norm(first, axis=1).max() <= 0.5
    assert np.linalg.norm(first, axis=1).min() > 0.49  # the noise is far larger than the ball
    assert not (first == second).any()
    assert (sound._training_noise(small, 0)(latents) == first).all()


def test_the_codebook_is_trained_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in {*CLASSES.values()}:
        monkeypatch.setattr(kind, "release", lambda *_: pytest.fail("no noise is drawn"))
    spec().fit(public=PUBLIC, seed=0)


# ------------------------------------------------------------------ releases


@pytest.mark.slow_cases("l2_laplace", "laplace_l1", why="laplace_l2 stays")
@pytest.mark.parametrize("noise", NOISES)
def test_a_release_has_a_public_label_and_public_words(fitted, noise: str) -> None:
    mechanism = fitted[noise]
    odd = [
        Record("1", ""),
        Record("2", " \n\t"),
        Record("3", CANARY, label=CANARY),
        Record("4", f"{CANARY} " * 50, label="money", author=CANARY),
        Record("5", "\u4e16\u754c \U0001f600 \ud800", kept={"public": 1}),
    ]
    released = mechanism.privatize([*odd, *PUBLIC] * 3, seeded(0))
    words = set(mechanism.model.tokens.words)
    assert [release.id for release in released] == [record.id for record in [*odd, *PUBLIC] * 3]
    for release in released:
        assert release.label in LABELS
        assert set(release.output.split()) <= words
    assert released[4].kept == {"public": 1}
    assert mechanism.privatize([], secure()) == []
    assert CANARY not in repr(mechanism)
    assert repr(mechanism).startswith(f"{type(mechanism).__name__}(Adept(epsilon=2.0")


@pytest.mark.slow_cases(
    *("l2_laplace", "laplace_l1", "laplace_l2", "privunit"), why="Gaussian noise and the codebook stay"
)
@pytest.mark.parametrize("noise", NOISES)
def test_missing_and_unknown_labels_and_words_are_told_apart_by_nothing(fitted, noise: str) -> None:
    mechanism = fitted[noise]

    def outcome(text: str, label: str | None, n: int = 20) -> list:
        records = [Record(str(i), text, label=label) for i in range(n)]
        return [(release.label, release.output) for release in mechanism.privatize(records, seeded(4))]

    assert outcome("send it", None) == outcome("send it", CANARY) == outcome("send it", "Money")
    assert outcome(f"send {CANARY}", "money") == outcome("send zebra", "money")
    assert outcome("", None) == outcome(" \n", CANARY)
    # and a known label or word may matter: the comparison can fail
    assert outcome("send it", None, 100) != outcome("Remind me to give my father", "health", 100)


@pytest.mark.slow_cases(
    *("l2_laplace", "laplace_l1", "laplace_l2", "privunit", "gaussian"),
    why="the codebook stays, and Laplace noise in test_published_adept.py",
)
@pytest.mark.parametrize("noise", NOISES)
def test_seeded_releases_do_not_depend_on_the_batches_and_secure_ones_differ(fitted, noise: str) -> None:
    mechanism = fitted[noise]
    whole = mechanism.privatize(PUBLIC, seeded(5))
    for size in (1, 7, 59):
        pieces = [
            release
            for start in range(0, 60, size)
            for release in mechanism.privatize(PUBLIC[start : start + size], seeded(5).at(start))
        ]
        assert pieces == whole
    assert mechanism.privatize(PUBLIC, seeded(6)) != whole
    assert mechanism.privatize(PUBLIC, secure()) != mechanism.privatize(PUBLIC, secure())


def test_seams(fitted) -> None:
    for noise, mechanism in fitted.items():
        assert isinstance(mechanism, HasLatent) == (noise != "codebook")
        assert isinstance(mechanism, HasDistribution) == (noise == "codebook")
        assert mechanism.reconstruction_losses(PUBLIC).shape == (60,)
    latents = fitted["gaussian"].latent(PUBLIC)
    assert latents.shape == (60, 4)
    assert np.linalg.norm(latents, axis=1).max() <= 1 + 1e-3
    assert fitted["gaussian"].latent([]).shape == (0, 4)


@pytest.mark.parametrize("noise", list(CLASSES))
def test_privatize_decodes_the_released_latent_and_nothing_else(fitted, noise: str) -> None:
    """The planted fault would be a decoder that reads the clean latent."""
    mechanism = fitted[noise]
    latents = mechanism.latent(PUBLIC)
    released = mechanism.release(latents, seeded(5))
    assert not (released == latents).all(axis=1).any()
    outputs = [(r.label, r.output) for r in mechanism.privatize(PUBLIC, seeded(5))]

    def decoded(at: np.ndarray) -> list:
        inside = at / np.maximum(1, np.linalg.norm(at, axis=1, keepdims=True)) * (1 - 1e-12)
        return mechanism.write(inside)

    assert decoded(released) == outputs
    assert decoded(latents) != outputs
    assert decoded(np.roll(released, 1, axis=0)) != outputs


def test_greedy_decoding_is_another(fitted) -> None:
    model = fitted["gaussian"].model
    greedy = AdeptNoise(replace(spec("gaussian"), decoding="greedy"), model).privatize(PUBLIC, seeded(0))
    assert greedy != fitted["gaussian"].privatize(PUBLIC, seeded(0))


# ------------------------------------------------------------------ the codebook's distribution


def of_top_k(k: int, size: int, epsilon: float) -> EnvelopeResponse:
    return EnvelopeResponse.of(top_k_envelope(k, size, epsilon=epsilon), epsilon=epsilon)


def test_the_distribution_has_two_values_whose_ratio_is_at_most_e_to_the_epsilon(fitted) -> None:
    mechanism = fitted["codebook"]
    for epsilon in (0.3, 2.0, 10.0):
        choice = of_top_k(3, len(mechanism.codebook), epsilon)
        book = AdeptCodebook(replace(mechanism.spec, epsilon=epsilon), mechanism.model, mechanism.codebook, choice)
        for record in [*PUBLIC[:5], Record("", ""), Record("x", CANARY, label=CANARY)]:
            found = book.output_distribution(record)
            assert len(found) == len(mechanism.codebook)
            assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12)
            low, high = min(found.values()), max(found.values())
            likely = [chance for chance in found.values() if math.isclose(chance, high, rel_tol=1e-6)]
            unlikely = [chance for chance in found.values() if math.isclose(chance, low, rel_tol=1e-6)]
            assert (len(likely), len(unlikely)) == (3, len(found) - 3)
            assert high <= low * math.exp(epsilon) * (1 + 1e-12)
            assert high > low * math.exp(epsilon) * (1 - 1e-6)  # the weights are whole numbers


def test_the_distribution_names_label_and_text(fitted) -> None:
    mechanism = fitted["codebook"]
    book = mechanism.codebook
    assert set(mechanism.output_distribution(PUBLIC[0])) == {
        f"{label}\x1f{text}" for label, text in zip(book.labels, book.texts, strict=True)
    }
    released = {f"{r.label}\x1f{r.output}" for r in mechanism.privatize(PUBLIC * 5, seeded(0))}
    assert released <= set(mechanism.output_distribution(PUBLIC[0]))
    bare = replace(mechanism.codebook, labels=(None,) * len(book), texts=tuple(f"t{i}" for i in range(len(book))))
    unlabelled = AdeptCodebook(spec(labels=()), mechanism.model, bare, mechanism.choice)
    assert set(unlabelled.output_distribution(PUBLIC[0])) == set(bare.texts)


def test_the_likely_sentences_have_the_label_of_the_record(fitted) -> None:
    mechanism = fitted["codebook"]
    counts = Counter(mechanism.codebook.labels)
    label, n = counts.most_common(1)[0]
    size = len(mechanism.codebook)
    choice = of_top_k(min(n, size - 1), size, 2.0)
    narrow = AdeptCodebook(replace(mechanism.spec, label_weight=3.0), mechanism.model, mechanism.codebook, choice)
    found = narrow.output_distribution(Record("0", "send it", label=label))
    likely = [key for key, chance in found.items() if chance == max(found.values())]
    assert all(key.startswith(f"{label}\x1f") for key in likely[:n])


def test_enumeration_finds_the_epsilon_of_the_codebook(fitted) -> None:
    mechanism = fitted["codebook"]
    choice = of_top_k(1, len(mechanism.codebook), 2.0)
    narrow = AdeptCodebook(mechanism.spec, mechanism.model, mechanism.codebook, choice)
    outcomes = {max(d, key=d.get): r for r in PUBLIC for d in [narrow.output_distribution(r)]}
    first, second = list(outcomes.values())[:2]
    claim = narrow.spec.guarantee()
    report = audits.exact(narrow, first, second, claim=claim, trials=1000, randomness=seeded(0))
    assert not report.refutes(claim)
    assert report.epsilon_lower_bound == pytest.approx(2.0, abs=1e-9)
    # the planted fault: sold as 2/3 of what it is
    assert report.refutes(replace(claim, epsilon=2.0 * 2 / 3))
