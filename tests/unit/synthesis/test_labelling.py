"""From noisy sums to labelled texts: what shrinking, scores, quotas and the space do."""

import numpy as np
import pytest

import dptext as dp
from dptext.errors import ConfigError
from dptext.synthesis.labelling import (
    chosen,
    class_scores,
    class_sizes,
    fitting_size,
    matched,
    pool_mix,
    prior_means,
    shortage,
    shrunk,
)
from dptext.synthesis.pool import TopicMap, apportioned, fit_topics
from dptext.synthesis.space import fit_space

TEXTS = [record.text for record in dp.sample_records(200, seed=2)]


def test_shrinking_removes_noise_and_keeps_signal() -> None:
    rng = np.random.default_rng(0)
    true = np.concatenate([rng.standard_normal((20, 20)) * 2, np.zeros((20, 40))], axis=1)
    noisy = true + rng.standard_normal(true.shape)
    found = shrunk(noisy, np.zeros(60), np.ones((20, 1)))
    assert np.mean((found - true) ** 2) < 0.6 * np.mean((noisy - true) ** 2)
    assert np.abs(found[:, 30:]).mean() < 0.25  # where there is no signal
    assert np.array_equal(shrunk(noisy, np.zeros(60), np.zeros((20, 1))), noisy)  # without noise nothing is drawn


def test_class_sizes_are_at_least_one() -> None:
    assert class_sizes(np.array([-30.0, 500.0, 40.0]), 0.0).tolist() == [1.0, 500.0, 40.0]
    assert np.ptp(class_sizes(np.array([-3.0, 5.0, 4.0]), 50.0)) < 1e-9  # noise alone: all alike


def test_scores_find_the_classes_of_a_pool() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]])
    label = rng.integers(0, 3, 900)
    pool = means[label] + 0.15 * rng.standard_normal((900, 3))
    scores = class_scores(pool, pool, means, np.array([300.0, 300.0, 300.0]))
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1)
    assert (scores.argmax(axis=1) == label).mean() > 0.9
    rows, found = chosen(scores, np.array([300.0, 300.0, 300.0]), 300)
    assert len(rows) == len(set(rows.tolist())) == 300
    assert np.bincount(found).tolist() == [100, 100, 100]
    assert (found == label[rows]).mean() > 0.97  # the best of each class


def test_quotas_follow_shares_and_what_a_class_lacks_comes_from_others() -> None:
    scores = np.log(np.array([[0.9, 0.1]] * 10 + [[0.2, 0.8]] * 90))
    rows, label = chosen(scores, np.array([500.0, 500.0]), 60)
    assert np.bincount(label).tolist() == [30, 30]
    assert (label[rows < 10] == 0).all()
    assert len(rows) == len(set(rows.tolist()))
    assert len(chosen(scores, np.array([1.0, 99.0]), 20)[0]) == 20
    assert len(chosen(scores, np.array([1.0, 99.0]), 1000)[0]) == 100
    assert np.bincount(chosen(scores, np.array([100.0, 900.0]), 50)[1]).tolist() == [5, 45]


def test_prior_means_are_half_way_to_what_is_like_the_names() -> None:
    pool = np.array([[1.0, 0.0], [0.8, 0.0], [0.0, 1.0], [0.0, 0.6]])
    likeness = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.5]])
    middle = pool.mean(axis=0)
    found = prior_means(pool, likeness)
    np.testing.assert_allclose(found, middle + 0.5 * (np.array([[0.9, 0.0], [0.0, 0.8]]) - middle))


def test_whole_numbers_in_proportion() -> None:
    assert apportioned(np.array([1.0, 2.0, 0.0, 1.0]), 10).tolist() in ([3, 5, 0, 2], [2, 5, 0, 3])
    assert apportioned(np.array([0.5]), 7).tolist() == [7]


@pytest.mark.parametrize("words", [0, 8])
def test_a_point_is_a_function_of_its_text_bit_for_bit(words: int) -> None:
    space, features = fit_space(TEXTS, encoder="glove", words=words, dim=8)
    points = space.placed(features)
    assert np.linalg.norm(points, axis=1).max() <= 1
    assert 0.4 < np.mean(np.linalg.norm(points, axis=1) < 1 - 1e-9) < 0.6  # half of the pool is clipped
    alone = np.concatenate([space.points([text]) for text in TEXTS])
    assert np.array_equal(alone, points)
    assert np.array_equal(space.points(TEXTS[::-1]), points[::-1])
    assert space.digest == fit_space(TEXTS, encoder="glove", words=words, dim=8)[0].digest


def test_a_topic_is_that_of_the_nearest_centre_in_any_batch() -> None:
    space, features = fit_space(TEXTS, encoder="glove", words=8, dim=8)
    points = space.placed(features)
    found = fit_topics(TEXTS, points, 5, seed=0)
    assert np.array_equal(np.concatenate([found.nearest(point[None]) for point in points]), found.of_pool)
    assert all(words and texts and texts[0] in " ".join(TEXTS) for words, texts in found.described)
    weights = found.weights(np.array([100.0, 0.0, 0.0, 0.0, 0.0]), 1.0)
    assert (weights[found.of_pool == 0] > 0).all()
    assert len({*np.round(weights[found.of_pool != 0], 9)}) == 1
    assert not found.weights(np.zeros(5), 1.0).any()  # noise alone says nothing


def test_a_pool_that_is_too_small() -> None:
    with pytest.raises(ConfigError, match="at least 20 different public texts"):
        fit_space(TEXTS[:5], encoder="glove", words=0, dim=4)
    with pytest.raises(ConfigError, match="at least 60 different texts"):
        fit_topics(TEXTS[:30], np.zeros((30, 2)), 30, seed=0)


def surely(*counts: int) -> np.ndarray:
    """Scores of a pool that has so many texts of each class."""
    best = np.repeat(np.arange(len(counts)), counts)
    return np.where(best[:, None] == np.arange(len(counts)), 0.0, -9.0)


@pytest.mark.parametrize("few", [1500, 400, 100, 12, 3, 0])
@pytest.mark.parametrize("size", [4500, 3600, 400])
def test_the_mix_that_leaves_is_the_wanted_one_whatever_the_pool_has(few: int, size: int) -> None:
    scores, sizes = surely(2000, 2000, few), np.array([400.0, 400.0, 200.0])
    scores = scores + np.random.default_rng(1).normal(0, 0.5, scores.shape)  # no two texts are alike
    label = chosen(matched(scores, sizes), sizes, size)[1]
    found = np.bincount(label, minlength=3)
    assert found.sum() == min(size, len(scores))
    assert np.abs(found - sizes / sizes.sum() * found.sum()).max() < 1


def test_a_class_that_the_pool_lacks_gets_the_nearest_texts_and_other_classes_keep_their_order() -> None:
    scores = np.log(np.array([[0.9, 0.0999, 0.0001], [0.6, 0.39, 0.01], [0.2, 0.79, 0.01], [0.1, 0.8999, 0.0001]]))
    assert scores.argmax(axis=1).tolist() == [0, 0, 1, 1]
    found = matched(scores, np.array([1.0, 1.0, 2.0]))
    assert found.argmax(axis=1).tolist() == [0, 2, 2, 1]
    assert np.exp(found).sum(axis=0) == pytest.approx([1, 1, 2], abs=0.03)
    apart = (found - scores) - (found - scores)[:, :1]
    assert np.abs(apart - apart[0]).max() < 1e-9  # the odds of each class are moved alike for all texts


def test_a_class_that_no_text_is_near_and_one_that_is_not_wanted() -> None:
    scores = np.array([[0.0, -800.0], [0.0, -900.0], [-1.0, -700.0]])
    found = matched(scores, np.array([2.0, 1.0]))
    assert np.isfinite(found).all()
    scores = np.log(np.full((10, 2), 0.5))
    assert np.bincount(chosen(matched(scores, np.array([1.0, 0.0])), np.array([1.0, 0.0]), 9)[1]).tolist() == [9]


@pytest.mark.parametrize("few", [1500, 400, 100, 30, 12, 0])
def test_as_many_texts_fit_as_the_pool_has_in_the_mix(few: int) -> None:
    scores, sizes = surely(2000, 2000, few), np.array([400.0, 400.0, 200.0])
    size = fitting_size(scores, sizes, 3600)
    assert size == (3600 if few == 1500 else pytest.approx(few / 0.15, abs=1))
    told = shortage(("a", "b", "c"), sizes, np.array([2000.0, 2000.0, few]), apportioned(sizes, max(1, size)), 3600)
    assert (told is None) == (few == 1500)
    assert told is None or (told.texts, told.labels[0][0]) == (max(1, size), "c")
    assert told is None or f"{size or 1:,} texts leave, not 3,600, so that the mix of labels is kept" in told.sentence


def test_few_texts_that_fit_leave_unless_they_are_too_few_or_more_are_asked_for() -> None:
    """Few texts that fit teach more than many that do not, but not next to none."""
    private = [record for record in dp.sample_records(900, seed=5) if record.label in ("money", "travel")]
    settings = {"labels": ("travel", "money"), "encoder": "glove", "words": 8, "epsilon": 50.0, "about": len(private)}
    travel = [record for record in dp.sample_records(1_600, seed=2) if record.label == "travel"][:300]
    money = [record for record in dp.sample_records(1_600, seed=2) if record.label == "money"]
    for few, size, nearest in ((75, 0, False), (75, 300, True), (3, 0, True)):
        found = dp.synthesize(private, [*travel, *money[:few]], **settings, size=size)
        told, n = found.report.shortage, len({record.text for record in [*travel, *money[:few]]})
        assert told is not None
        assert (len(found.releases) == told.most == (size or int(0.9 * n))) == nearest
        labels = [each.label for each in found.releases]
        assert abs(labels.count("money") / len(labels) - 0.5) < 0.08


@pytest.mark.parametrize("few", [0, 3])
def test_a_label_that_the_pool_lacks_is_named(few: int) -> None:
    about, sizes = np.array([900.0, 3000.0, few]), np.array([400.0, 400.0, 200.0])
    told = shortage(("a", "b", "c"), sizes, about, np.array([1440, 1440, 720]), 3600)
    assert told is not None
    assert (told.others, told.labels[0][0]) == (("a", "c"), "c")
    assert told.sentence.startswith(
        "The pool seems to have too few texts of some labels: c: "
        f"20% wanted, {'none' if few == 0 else 'under 1%'} of "
        "the pool is read as c by the noisy numbers; a: 40% wanted, 23% of the pool is read as a."
    )
    assert "The other texts labelled a, c are the nearest ones, probably of other kinds" in told.sentence


@pytest.mark.parametrize("asked", [True, False])
def test_a_mix_that_was_asked_for_says_where_the_pool_has_fewer_texts(asked: bool) -> None:
    """Where a seventh of all texts seems to be of other kinds, it is said of the noisy mix, too."""
    told = shortage(("a", "b"), np.array([0.6, 0.4]), np.array([108.0, 490.0]), np.array([180, 120]), 300, asked=asked)
    assert told is not None
    assert (told.others, told.there) == (("a",), 180)
    assert "a: 60% wanted, 18% of the pool is read as a" in told.sentence
    assert "The pool seems to have 180 texts of this mix." in told.sentence
    shares, about = np.array([0.8, 0.2]), np.array([640.0, 360.0])  # an eighth more than the pool seems to have
    assert (shortage(("a", "b"), shares, about, np.array([719, 180]), 899, asked=asked) is not None) == asked


def points(rng: np.random.Generator, *counts: int) -> np.ndarray:
    """Points of classes about the corners of a simplex, with the spread that their pool has."""
    corners = np.repeat(np.eye(len(counts)), counts, axis=0)
    return corners + rng.normal(0, 0.25, corners.shape)


@pytest.mark.parametrize("pool", [(900, 900, 120, 0), (0, 1500, 0, 0), (500, 500, 500, 500), (1900, 60, 30, 10)])
def test_a_label_is_not_found_in_the_pool_because_the_corpus_has_much_of_it(pool: tuple[int, ...]) -> None:
    """Half of the corpus is of the last class; the share of a pool that has none of it is told as next to none."""
    means, sizes = np.eye(4), np.array([300.0, 100.0, 150.0, 450.0])
    there = points(np.random.default_rng(3), *pool)
    scores = class_scores(there, there, means, sizes)
    told = pool_mix(scores, sizes, np.full(4, 0.1))
    assert told.sum() == pytest.approx(1)
    assert np.abs(told - np.array(pool) / sum(pool)).max() < 0.05


def test_a_blurred_class_is_counted_by_what_fits_it_best() -> None:
    """Where all of it would be found by its noise, its share is that of the argmax; the others share the rest."""
    sizes = np.array([500.0, 400.0, 4.0])
    means = np.array([[1.0, 0, 0], [0, 1.0, 0], [0.4, 0.4, 2.0]])
    there = points(np.random.default_rng(4), 600, 400, 0)
    scores = class_scores(there, there, means, sizes)
    best = np.bincount(scores.argmax(axis=1), minlength=3) / 1000
    told = pool_mix(scores, sizes, np.array([0.1, 0.1, 3.0]))
    assert told[2] == best[2]
    assert told.sum() == pytest.approx(1)
    assert np.abs(told[:2] - [0.6, 0.4]).max() < 0.07
    assert np.array_equal(pool_mix(scores, sizes, np.full(3, 9.0)), best)


def test_rare_labels_that_a_pool_lacks_are_no_finding() -> None:
    about, sizes = np.array([2000.0, 2000.0, 0.0]), np.array([490.0, 490.0, 20.0])
    assert shortage(("a", "b", "c"), sizes, about, np.array([1764, 1764, 72]), 3600) is None


def test_a_size_above_the_pool_is_no_lack_of_a_label() -> None:
    labels = ("health", "travel", "money", "leisure")
    pool = list(dp.sample_records(200, seed=2))
    for size in (10_000, 20):
        found = dp.synthesize([*pool, *pool], pool, labels=labels, encoder="glove", words=8, epsilon=8.0, size=size)
        assert found.report.shortage is None
        assert len(found.releases) == min(size, len({record.text for record in pool}))


def test_topics_are_described_by_what_tells_them_apart() -> None:
    """Stop words of another language, pieces of English ones, and numbers stand in all topics alike."""
    german = {"hund": "knochen leine", "zug": "bahnhof fahrkarte", "brot": "ofen mehl"}
    rng = np.random.default_rng(1)
    texts = [
        f"der {name} und die {rng.choice(words.split())} sind das was es ist we didn't say it's {rng.integers(99)}"
        for _ in range(40)
        for name, words in german.items()
    ]
    points = np.repeat(np.eye(3)[None], 40, axis=0).reshape(120, 3) + rng.normal(0, 0.01, (120, 3))
    named = {words[0]: set(words) for words, _ in fit_topics(texts, points, 3, seed=0).described}
    assert named == {name: {name, *words.split()} for name, words in german.items()}


def test_verbs_that_say_nothing_of_a_subject_describe_no_topic() -> None:
    texts = [f"says used comes bank account {i}" for i in range(30)] + [
        f"takes asked looking train bill {i}" for i in range(30)
    ]
    points = np.repeat(np.eye(2), 30, axis=0) + np.random.default_rng(1).normal(0, 0.01, (60, 2))
    named = {frozenset(words) for words, _ in fit_topics(texts, points, 2, seed=0).described}
    assert {"bank", "account"} in named
    assert not {"says", "used", "comes", "takes", "asked", "looking"} & frozenset().union(*named)


def test_names_of_labels_are_shown_with_them() -> None:
    """Labels that are numbers say nothing by themselves."""
    labels = ("health", "travel", "money", "leisure")
    records = [
        dp.Record(each.id, each.text, label=str(labels.index(each.label))) for each in dp.sample_records(300, seed=5)
    ]
    found = dp.synthesize(
        records,
        list(dp.sample_records(200, seed=2)),
        label="label",
        labels=["0", "1", "2", "3"],
        names=list(labels),
        encoder="glove",
        words=8,
        epsilon=8.0,
        topics=4,
    )
    (said,) = (each for each in found.sentences if each.startswith("Labels, in documents"))
    assert "1 (travel): " in said
    assert {each.label for each in found.releases} <= {"0", "1", "2", "3"}
    page = found._repr_html_()
    assert "3 (leisure)" in page


def test_a_shortage_names_the_label_that_lacks_most_even_if_estimates_say_that_none_lacks() -> None:
    told = shortage(("a", "b"), np.array([300.0, 300.0]), np.array([400.0, 400.0]), np.array([200, 200]), 700)
    assert told is not None
    assert "labels: a: 50.0% wanted, 50.0% of the pool is read as a by the noisy numbers." in told.sentence
    assert (
        "worded like the private ones, of each label, or set size for more, of which some are then of other kinds, or"
        in told.sentence
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_topic_is_the_first_of_the_nearest_centres(seed: int) -> None:
    source = np.random.default_rng(seed)
    centres = source.normal(size=(40, 16))
    centres = centres / np.linalg.norm(centres, axis=1, keepdims=True) * source.uniform(0, 1, (40, 1))
    centres[30:] = centres[:10]  # ties
    centres[20:30] = centres[:10] * (1 + 2.0**-50)  # nearly: products cannot tell them apart
    points = np.concatenate([centres, (centres[:20] + centres[20:]) / 2, source.normal(size=(200, 16)) / 8])
    exact = np.argmin([np.square(points - centre).sum(axis=1) for centre in centres], axis=0)
    found = TopicMap(centres, (((), ()),) * 40, np.zeros(0, np.int64))
    assert np.array_equal(found.nearest(points), exact)
    assert np.array_equal(np.concatenate([found.nearest(point[None]) for point in points]), exact)
    assert found.nearest(points[:0]).shape == (0,)
