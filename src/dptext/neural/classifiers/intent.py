"""The intent classifier of the ADePT paper: its accuracy is a utility, and membership inference attacks it.

Krishna et al. 2021, section 4.4, after Ma and Hovy 2016. A word is embedded by itself and by its characters, through a
convolution and a max-pool. A BiLSTM, a max-pool over its outputs and one fully connected layer follow. The paper gives
no sizes.

    >>> from dptext.neural.classifiers.intent import train_intent_classifier
    >>> model = train_intent_classifier(["play it"] * 8 + ["rain today"] * 8, ["m"] * 8 + ["w"] * 8, seed=0, epochs=8)
    >>> model.labels, model.probabilities(["play it again"]).argmax(axis=1).tolist()
    (('m', 'w'), [0])

Its vocabulary and its labels are those of its training texts. Like its weights they are private if the texts are. It is
a measuring device and no mechanism; nothing of it may be released.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from dptext import _validate
from dptext.embeddings.devices import seeded_torch
from dptext.errors import ConfigError
from dptext.text.tokens import composed, tokenize
from dptext.types import Floats

#: Share of the words seen once that training hides, so that the vector of the unknown word is trained.
_HIDE: Final = 0.5
_MAX_TOKENS: Final = 64
_MAX_CHARACTERS: Final = 20
#: Word and character number 0; no tokenizer gives the empty word.
_UNKNOWN: Final = ""
_WORD_DIM: Final = 64
_CHARACTER_DIM: Final = 16
_FILTERS: Final = 32
_DROPOUT: Final = 0.3
_LEARNING_RATE: Final = 2e-3
_CLIP: Final = 5.0
_INFERENCE_BATCH: Final = 512


class Vocabulary:
    """Numbers of the words and characters of training texts. 0 is the unknown one, and the padding of characters.

    Attributes:
        words, characters: their numbers, from 1.
        once: the words that stand once in the training texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(itertools.chain.from_iterable(map(_words, texts)))
        counts.pop(_UNKNOWN, None)
        self.words = {word: i for i, word in enumerate(counts, start=1)}
        characters = sorted({character for word in counts for character in word})
        self.characters = {character: i for i, character in enumerate(characters, start=1)}
        self.once = {word for word, count in counts.items() if count == 1}

    def spelled(self, word: str) -> list[int]:
        """Numbers of the first 20 characters, padded to 20."""
        numbers = [self.characters.get(character, 0) for character in word[:_MAX_CHARACTERS]]
        return numbers + [0] * (_MAX_CHARACTERS - len(numbers))


def _words(text: str) -> list[str]:
    return [token.casefold() for line in tokenize(composed(text)) for token in line][:_MAX_TOKENS] or [_UNKNOWN]


class EncodedTexts:
    """Texts as rows of a table of their distinct words, grouped by length."""

    def __init__(self, texts: Sequence[str], vocabulary: Vocabulary) -> None:
        table: dict[str, int] = {}
        self._texts = [[table.setdefault(word, len(table)) for word in _words(text)] for text in texts]
        self._words = torch.tensor([vocabulary.words.get(word, 0) for word in table])
        self._spelled = torch.tensor([vocabulary.spelled(word) for word in table])
        self._rare = torch.tensor([word in vocabulary.once for word in table])
        self._of_length: dict[int, list[int]] = {}
        for row, words in enumerate(self._texts):
            self._of_length.setdefault(len(words), []).append(row)

    def batches(self, size: int, order: torch.Generator | None = None) -> Iterator[list[int]]:
        """Positions of texts of one length each time. The generator shuffles them within and between batches."""
        found = []
        for rows in self._of_length.values():
            mixed = rows if order is None else [rows[i] for i in torch.randperm(len(rows), generator=order).tolist()]
            found += [mixed[start : start + size] for start in range(0, len(mixed), size)]
        places = range(len(found)) if order is None else torch.randperm(len(found), generator=order).tolist()
        for place in places:
            yield found[place]

    def inputs(self, rows: Sequence[int], hide: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Words of a batch `(d,)` (`hide` takes half of the rare), characters `(d, 20)`, places `(batch, length)`."""
        distinct, places = torch.unique(torch.tensor([self._texts[row] for row in rows]), return_inverse=True)
        hidden = torch.zeros(len(distinct), dtype=torch.bool)
        if hide is not None:
            hidden = self._rare[distinct] & (torch.rand(len(distinct), generator=hide) < _HIDE)
        return self._words[distinct].masked_fill(hidden, 0), self._spelled[distinct], places


class IntentClassifier:
    """A trained classifier, whose `repr` shows nothing; columns of scores are the labels of training, sorted."""

    __slots__ = ("_network", "_vocabulary", "labels")

    def __init__(self, labels: tuple[str, ...], vocabulary: Vocabulary, network: "_IntentNetwork") -> None:
        self.labels, self._vocabulary, self._network = labels, vocabulary, network

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Softmax scores `(n_texts, n_labels)`, a row of its own text: its first 64 tokens, or one unknown word."""
        scores = np.ones((len(texts), len(self.labels)))
        if len(self.labels) == 1:
            return scores
        encoded = EncodedTexts(texts, self._vocabulary)
        self._network.eval()
        with torch.no_grad():
            for rows in encoded.batches(_INFERENCE_BATCH):
                # The softmax in double: 1 - p keeps its digits where p is near 1, which attacks look at.
                logits = self._network(*encoded.inputs(rows)).double()
                scores[rows] = torch.softmax(logits, dim=1).numpy()
        return scores


def train_intent_classifier(
    texts: Sequence[str], labels: Sequence[str], *, seed: int, epochs: int = 12, hidden: int = 64, batch_size: int = 64
) -> IntentClassifier:
    """Train on labelled texts by Adam for a fixed number of epochs, without a validation set.

    The same arguments give the same model on the same machine; torch's random state is left as it was found. Of each
    text the first 64 tokens are read, without regard to case. The LSTM has `hidden` units in each direction. A batch
    holds texts of one length, so that none is padded. With a single label the classifier is always sure. ConfigError:
    no texts, another number of labels, or a setting out of its range.
    """
    _validate.count(epochs=epochs, hidden=hidden, batch_size=batch_size)
    if not texts or len(texts) != len(labels):
        raise ConfigError(f"Expected texts and as many labels, found {len(texts)} and {len(labels)}.")
    names = tuple(sorted(set(labels)))
    vocabulary = Vocabulary(texts)
    with seeded_torch(seed):
        network = _IntentNetwork(len(vocabulary.words) + 1, len(vocabulary.characters) + 1, hidden, len(names))
        model = IntentClassifier(names, vocabulary, network)
        if len(names) == 1:
            return model
        numbers = {name: i for i, name in enumerate(names)}
        targets = torch.tensor([numbers[label] for label in labels])
        encoded, order = EncodedTexts(texts, vocabulary), torch.Generator().manual_seed(seed)
        optimizer = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
        network.train()
        for _ in range(epochs):
            for rows in encoded.batches(batch_size, order):
                logits = network(*encoded.inputs(rows, order))
                loss = nn.functional.cross_entropy(logits, targets[rows], reduction="sum")
                optimizer.zero_grad()
                # Divided by the full size, so that texts of rare lengths, in small batches, weigh as much as others.
                (loss / batch_size).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                optimizer.step()
    return model


class _IntentNetwork(nn.Module):
    def __init__(self, words: int, characters: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, _WORD_DIM)
        self.characters = nn.Embedding(characters, _CHARACTER_DIM)
        self.filters = nn.Conv1d(_CHARACTER_DIM, _FILTERS, kernel_size=3, padding=1)
        self.lstm = nn.LSTM(_WORD_DIM + _FILTERS, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(_DROPOUT)
        self.connected = nn.Linear(2 * hidden, labels)

    def forward(self, words: Tensor, spelled: Tensor, places: Tensor) -> Tensor:
        """Logits `(batch, n_labels)`."""
        characters = self.filters(self.characters(spelled).transpose(1, 2)).amax(dim=2)
        embedded = torch.cat([self.words(words), characters], dim=1)[places]
        outputs, _ = self.lstm(self.dropout(embedded))
        logits: Tensor = self.connected(self.dropout(outputs.amax(dim=1)))
        return logits
