"""The intent classifier of the ADePT paper: its accuracy is a utility, and membership inference attacks it.

Source: Krishna et al. 2021, section 4.4, after Ma and Hovy 2016. A word has an embedding of its own, and an embedding
of its characters by a convolution and a max-pool. A BiLSTM, a max-pool over its outputs and one fully connected layer
follow. The paper gives no sizes.

    >>> from dptext_lab.classifiers.intent import train_intent_classifier
    >>> model = train_intent_classifier(["play it"] * 8 + ["rain today"] * 8, ["m"] * 8 + ["w"] * 8, seed=0, epochs=8)
    >>> model.labels, model.probabilities(["play it again"]).argmax(axis=1).tolist()
    (('m', 'w'), [0])

The vocabulary and the labels come from the training texts. Vocabulary, labels and weights are private if the texts are.
The classifier is a measuring device, not a mechanism: no part of it may be released.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from dptext import _validate
from dptext.errors import ConfigError
from dptext.text.tokens import composed, tokenize
from dptext.types import Floats
from dptext_lab.nets.seeds import seeded_torch

#: Share of words that occur once which training hides, so that the vector of the unknown word is trained.
_HIDE: Final = 0.5
_MAX_TOKENS: Final = 64
_MAX_CHARACTERS: Final = 20
#: The word of number 0. No tokenizer returns the empty word.
_UNKNOWN: Final = ""
_WORD_DIM: Final = 64
_CHARACTER_DIM: Final = 16
_FILTERS: Final = 32
_DROPOUT: Final = 0.3
_LEARNING_RATE: Final = 2e-3
_CLIP: Final = 5.0
_INFERENCE_BATCH: Final = 512


class Vocabulary:
    """Numbers of the words and characters of training texts. 0 means unknown, and pads characters.

    Attributes:
        words, characters: the numbers by word and by character, from 1.
        once: the words that occur once in the training texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(itertools.chain.from_iterable(map(_words, texts)))
        counts.pop(_UNKNOWN, None)
        self.words = {word: i for i, word in enumerate(counts, start=1)}
        characters = sorted({character for word in counts for character in word})
        self.characters = {character: i for i, character in enumerate(characters, start=1)}
        self.once = {word for word, count in counts.items() if count == 1}

    def spelled(self, word: str) -> list[int]:
        """The numbers of the first 20 characters, padded to 20."""
        numbers = [self.characters.get(character, 0) for character in word[:_MAX_CHARACTERS]]
        return numbers + [0] * (_MAX_CHARACTERS - len(numbers))


def _words(text: str) -> list[str]:
    return [token.casefold() for line in tokenize(composed(text)) for token in line][:_MAX_TOKENS] or [_UNKNOWN]


class EncodedTexts:
    """Texts as positions in a table of their distinct words, grouped by length."""

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
        """Yield positions of texts of one length per batch. `order` shuffles texts within and between batches."""
        found = []
        for rows in self._of_length.values():
            mixed = rows if order is None else [rows[i] for i in torch.randperm(len(rows), generator=order).tolist()]
            found += [mixed[start : start + size] for start in range(0, len(mixed), size)]
        places = range(len(found)) if order is None else torch.randperm(len(found), generator=order).tolist()
        for place in places:
            yield found[place]

    def inputs(self, rows: Sequence[int], hide: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct words of a batch `(d,)`, their characters `(d, 20)`, and positions of all words `(batch, length)`.

        `hide` draws the rare words to hide, each with probability 1/2.
        """
        distinct, places = torch.unique(torch.tensor([self._texts[row] for row in rows]), return_inverse=True)
        hidden = torch.zeros(len(distinct), dtype=torch.bool)
        if hide is not None:
            hidden = self._rare[distinct] & (torch.rand(len(distinct), generator=hide) < _HIDE)
        return self._words[distinct].masked_fill(hidden, 0), self._spelled[distinct], places


class IntentClassifier:
    """A trained classifier. Columns of scores are the sorted labels of training. The `repr` shows no text or label."""

    __slots__ = ("_network", "_vocabulary", "labels")

    def __init__(self, labels: tuple[str, ...], vocabulary: Vocabulary, network: "_IntentNetwork") -> None:
        self.labels, self._vocabulary, self._network = labels, vocabulary, network

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """Softmax scores `(n_texts, n_labels)`, from the first 64 tokens of each text; no token is an unknown word."""
        scores = np.ones((len(texts), len(self.labels)))
        if len(self.labels) == 1:
            return scores
        encoded = EncodedTexts(texts, self._vocabulary)
        self._network.eval()
        with torch.no_grad():
            for rows in encoded.batches(_INFERENCE_BATCH):
                # In float64, 1 - p keeps its digits for p near 1. Attacks use these digits.
                logits = self._network(*encoded.inputs(rows)).double()
                scores[rows] = torch.softmax(logits, dim=1).numpy()
        return scores


def train_intent_classifier(
    texts: Sequence[str], labels: Sequence[str], *, seed: int, epochs: int = 12, hidden: int = 64, batch_size: int = 64
) -> IntentClassifier:
    """Train on labelled texts by Adam for a fixed number of epochs, without a validation set.

    Equal arguments give equal models on one machine. torch's random state is restored. The first 64 tokens of each text
    are read, without regard to case. The LSTM has `hidden` units in each direction. A batch holds texts of one length,
    so no text is padded. With a single label, every score is 1. ConfigError: no texts, another number of labels than
    texts, or a setting out of its range.
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
                # The divisor is the full size, so that a text of a rare length, in a small batch, has the usual weight.
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
