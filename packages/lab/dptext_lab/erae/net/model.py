"""ER-AE's network with its vocabulary, as the mechanism uses them: fitting, saving, loading, and writing texts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from safetensors.torch import save

from dptext.embeddings.devices import require_device
from dptext.embeddings.encoders import load_encoder
from dptext.embeddings.vector_files import load_glove
from dptext.errors import ConfigError
from dptext.frozen import Frozen
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.text.records import Record, records_digest
from dptext.types import Integers, Singles
from dptext_lab.erae.net.exact import ExactNetwork, ExactWriting
from dptext_lab.erae.net.network import FIRST_OPTION, ROWS, ErAeNetwork, Sizes, Writing, targets_of
from dptext_lab.erae.net.training import ErAeSchedule, OnSteps, train
from dptext_lab.nets.seeds import seeded_torch
from dptext_lab.nets.tokens import Tokens
from dptext_lab.nets.weights import network_digest, read_weights, weights_of

_WEIGHTS, _DESCRIBED = "weights.safetensors", "erae.json"
FORMAT, VERSION = "dptext er-ae", 1


@dataclass(frozen=True, slots=True)
class ErAeSettings:
    """A spec's settings of the network. `dptext_lab.ErAe` explains each."""

    max_tokens: int
    max_words: int
    latent: Literal["text", "positions"]
    reward: float
    vectors: Literal["minilm", "glove"]
    epochs: int
    hidden: int
    latent_dim: int
    embedding: int
    learning_rate: float
    device: str

    def sizes(self, tokens: Tokens) -> Sizes:
        """The sizes of the network."""
        return Sizes(len(tokens), self.max_tokens, self.embedding, self.hidden, self.latent_dim, self.latent)


class ErAeModel(Frozen):
    """Network and vocabulary; immutable. On a CPU, `exact` computes logits from a text and its own words alone."""

    __slots__ = ("_device", "_exact", "_network", "_tokens", "_trained_on")

    #: Largest number of texts at once.
    rows: ClassVar[int] = ROWS

    def __init__(self, network: ErAeNetwork, tokens: Tokens, *, device: str, trained_on: str) -> None:
        self._network = network.eval()
        self._tokens, self._device, self._trained_on = tokens, device, trained_on
        self._exact = ExactNetwork(network) if device == "cpu" else None

    def __repr__(self) -> str:
        return f"ErAeModel(n_tokens={len(self._tokens)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the vocabulary. Option 0 is the end; option i is word i - 1."""
        return self._tokens.words

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 digests of the network with its vocabulary, and of the training text."""
        described = json.dumps([asdict(self._network.sizes), self._tokens.words, self._tokens.max_tokens])
        return {"model": network_digest(self._network, described), "public": self._trained_on}

    def begin(self, records: Sequence[Record], *, public: bool) -> Writing | ExactWriting:
        """Begin to write texts, at most `rows`. With `public`, the public language model gives logits, too."""
        targets = targets_of(self._tokens, records)
        if self._exact is not None:
            return self._exact.begin(targets, public=public)
        return Writing(self._network, targets, device=self._device, public=public)

    def options_of(self, record: Record) -> list[int]:
        """The options that spell a text. An unknown word becomes the end."""
        row = targets_of(self._tokens, [record])[0]
        return [int(max(token, FIRST_OPTION)) - FIRST_OPTION for token in row]

    def text(self, options: Integers) -> str:
        """The text of one row of options, up to the end."""
        return self._tokens.read((options + FIRST_OPTION).tolist())[1]

    def save(self, folder: Path) -> None:
        """Write weights and vocabulary as new files into an existing folder."""
        described = {"format": FORMAT, "version": VERSION, "trained_on": self._trained_on}
        described |= {"sizes": asdict(self._network.sizes), "words": self._tokens.words}
        write_private(folder / _WEIGHTS, save(weights_of(self._network)))
        write_private(folder / _DESCRIBED, json.dumps(described).encode())


def fit_erae(
    settings: ErAeSettings, public: Sequence[Record], *, seed: int, on_progress: OnSteps | None = None
) -> ErAeModel:
    """Fit vocabulary and weights to these records alone.

    ConfigError: too few different words. MissingExtraError: the reward's word vectors are not installed.
    """
    require_device(settings.device)
    texts, most = [record.text for record in public], settings.max_words
    tokens = Tokens.from_public(texts, labels=(), max_tokens=settings.max_tokens, min_count=1, max_words=most)
    if len(tokens.words) != settings.max_words:
        raise ConfigError(
            f"Expected public text with max_words={settings.max_words} different words, found {len(tokens.words)} in "
            f"{len(public)} records: give more public text, or lower max_words."
        )
    targets = targets_of(tokens, public)
    with seeded_torch(seed):
        network = ErAeNetwork(settings.sizes(tokens))
        vectors = word_vectors(tokens, settings.vectors)
        network.start_from(vectors)
        how = ErAeSchedule(epochs=settings.epochs, reward=settings.reward, learning_rate=settings.learning_rate)
        train(network.to(settings.device), targets, vectors, schedule=how, seed=seed, on_progress=on_progress)
    return ErAeModel(network, tokens, device=settings.device, trained_on=records_digest(public))


def word_vectors(tokens: Tokens, source: Literal["minilm", "glove"]) -> Singles:
    """Public unit vectors of the options `(options, dim)`; zero for the end, and for words without a vector."""
    if source == "minilm":
        words = load_encoder("sentence").embed(list(tokens.words)).astype(np.float32)
    else:
        glove = load_glove()
        rows = glove.index_of(list(tokens.words))
        words = glove.vectors[np.maximum(rows, 0)] * (rows >= 0)[:, None]
    norms = np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-12)
    return np.concatenate([np.zeros((1, words.shape[1]), np.float32), (words / norms).astype(np.float32)])


def load_erae(settings: ErAeSettings, folder: Path) -> ErAeModel:
    """Load the model that `ErAeModel.save` wrote under the same settings. Else ConfigError."""
    require_device(settings.device)
    with reading_saved(f"the model in {folder}"):
        described: dict[str, Any] = json.loads((folder / _DESCRIBED).read_bytes())
        if described["format"] != FORMAT or described["version"] != VERSION:
            raise ValueError
        words = described["words"]
        if not all(isinstance(word, str) for word in words) or len(words) != settings.max_words:
            raise ValueError
        tokens = Tokens(tuple(words), (), settings.max_tokens)
        sizes = settings.sizes(tokens)
        if described["sizes"] != asdict(sizes):
            raise ValueError
        network = ErAeNetwork(sizes)
        network.load_state_dict(read_weights((folder / _WEIGHTS).read_bytes()))
        trained_on = str(described["trained_on"])
    return ErAeModel(network.to(settings.device), tokens, device=settings.device, trained_on=trained_on)
