"""Words masked in the order of their weights in a public classifier. No protection.

Gusain and Leith 2024 mask first the words with the largest weights in a logistic regression that tells a sensitive kind
of text from a safe kind. Their code for this is not known; this module states the choices that the paper leaves open.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

from dptext import _validate
from dptext.embeddings.tfidf import load_sklearn
from dptext.errors import ConfigError
from dptext.mechanism import Traits
from dptext.mechanisms.bases import NoGuarantee
from dptext.sampling.randomness import Randomness
from dptext.text.files import write_private
from dptext.text.inputs import reading_saved
from dptext.text.reading import as_records
from dptext.text.records import Record, records_digest
from dptext.text.tokens import composed, tokenize
from dptext_lab.redaction.masking import Lines, Mask, Masking, MaskingMechanism, Runs, flat, largest, share

_FILE = "weights.json"
#: Weights are rounded, so that the order of summation does not choose among equals.
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class SmartRedaction(Masking, NoGuarantee):
    """Settings of smart redaction: the words that best tell sensitive texts from safe texts are masked first.

    Use:
        Take it to compare with: masked words protect nobody.
        Set first: level.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. The same text is always released in the same way,
        and anybody with public texts of both kinds can compute which words are masked.

    Attributes:
        level: the share of the tokens of each text that is masked, from 0 to 1: floor(level * n) of n, with the level
            read as a decimal number.
        sensitive: label of the public texts of the sensitive kind; texts with any other label are safe. May be empty if
            the public texts have two labels: the order of words is then the same whichever kind is sensitive.
        n_words: the number of words that the classifier knows, the most frequent ones.
        mask: the text that replaces a token.
        runs: "merge" writes one mask for adjacent masked tokens of a line; "keep" writes a mask for each.
    """

    reason: ClassVar[str] = (
        "which words are masked follows from the text, with nothing drawn, and the others leave verbatim"
    )

    level: float
    sensitive: str = ""
    n_words: int = 20_000
    mask: str = "[MASK]"
    runs: Runs = "keep"
    kind: Literal["smart_redaction"] = field(default="smart_redaction", init=False)

    def __post_init__(self) -> None:
        _validate.probability(level=self.level)
        _validate.count(n_words=self.n_words)
        if not isinstance(self.sensitive, str):
            raise ConfigError(f"Expected sensitive={self.sensitive!r} to be a label.")
        Mask(self.mask, self.runs)

    @property
    def traits(self) -> Traits:
        """The mechanism learns from public texts and their labels, and keeps words."""
        return Traits(learns_labels=True, keeps_words=self.level < 1)

    def fit(self, *, public: Iterable[Record] = (), seed: int | None = None) -> "SmartRedactionMechanism":
        """Learn the weights of words from public texts of both kinds; nothing is drawn, so a seed is not needed.

        Features are TF-IDF of the lower-cased tokens, rows of norm 1; the classifier is logistic regression with an L2
        penalty (C = 1), by scikit-learn. The weight of a word is its coefficient times its inverse document frequency.
        Public records without a label are left out.

        ConfigError: the public texts are not of two kinds, or have no word. DataError: a text cannot be written as
        UTF-8.
        """
        records = [record for record in as_records(public) if record.label is not None]
        is_sensitive = self._kinds(records)
        if not any(_words(record.text) for record in records):
            raise ConfigError("Expected public texts with words: there is nothing to weigh in these.")
        sklearn = load_sklearn()
        counter = sklearn.feature_extraction.text.TfidfVectorizer(analyzer=_words, max_features=self.n_words)
        model = sklearn.linear_model.LogisticRegression(C=1.0, max_iter=1000)
        model.fit(counter.fit_transform([record.text for record in records]), is_sensitive)
        # The weight is what one occurrence adds to the decision, up to the norm of its text: the coefficient alone
        # ranks rare words, which are few in a text and heavy, behind frequent words.
        weights = (model.coef_[0] * counter.idf_).round(_DECIMALS).tolist()
        words = counter.get_feature_names_out().tolist()
        return SmartRedactionMechanism(self, dict(zip(words, weights, strict=True)), records_digest(records))

    def _kinds(self, records: Sequence[Record]) -> list[bool]:
        """Return whether each text is of the sensitive kind; if no label is named, of the label that sorts last."""
        labels = sorted({record.label for record in records if record.label is not None})
        if not self.sensitive and len(labels) != 2:
            raise ConfigError(
                f"Expected public texts of two labels, found {len(labels)}: name the sensitive one, sensitive=."
            )
        if self.sensitive and (self.sensitive not in labels or len(labels) < 2):
            raise ConfigError(
                f"Expected public texts labelled sensitive={self.sensitive!r}, and others with another label."
            )
        chosen = self.sensitive or labels[-1]
        return [record.label == chosen for record in records]

    def load(self, folder: Path) -> "SmartRedactionMechanism":
        """Return the mechanism that was saved into the folder under this spec; see `FittedMechanism.save`."""
        path = folder / _FILE
        with reading_saved(f"the weights {path}"):
            described = json.loads(path.read_bytes())
            sensitive, n_words, digest = (described[name] for name in ("sensitive", "n_words", "trained_on"))
            weights = {str(word): float(weight) for word, weight in described["weights"].items()}
            if not (
                1 <= len(weights) <= self.n_words
                and all(map(math.isfinite, weights.values()))
                and isinstance(digest, str)
                and (sensitive, n_words) == (self.sensitive, self.n_words)
            ):
                raise ValueError
        return SmartRedactionMechanism(self, weights, digest)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """Health against the other labels of `dptext.text.samples.sample_records`."""
        return (cls(0.5, sensitive="health", n_words=500),)


class SmartRedactionMechanism(MaskingMechanism[SmartRedaction]):
    """A `SmartRedaction` with the weights of its words. Immutable, without any randomness.

    The tokens with the largest absolute weights are masked, the first of equals. Words that the classifier does not
    know have weight 0 and are masked last.
    """

    __slots__ = ("_trained_on", "_weights")

    def __init__(self, spec: SmartRedaction, weights: Mapping[str, float], trained_on: str) -> None:
        super().__init__(spec)
        self._weights = dict(weights)
        self._trained_on = trained_on

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the weights and of the public training texts."""
        written = json.dumps(self._weights, sort_keys=True).encode()
        return {"weights": hashlib.sha256(written).hexdigest(), "public": self._trained_on}

    def weight(self, word: str) -> float:
        """The weight of a word in any case: above 0 if it speaks for the sensitive kind, 0 if it is unknown."""
        return self._weights.get(composed(word).lower(), 0.0)

    def save(self, folder: Path) -> None:
        """Write words and weights into an existing folder."""
        described = {"sensitive": self.spec.sensitive, "n_words": self.spec.n_words}
        described |= {"trained_on": self._trained_on, "weights": self._weights}
        write_private(folder / _FILE, json.dumps(described).encode())

    def _hidden(self, records: Sequence[Record], documents: Sequence[Lines], randomness: Randomness) -> list[bool]:
        hidden: list[bool] = []
        for lines in documents:
            tokens = flat(lines)
            weights = (abs(self.weight(token)) for token in tokens)
            chosen = largest(weights, share(self.spec.level, len(tokens)))
            hidden += [place in chosen for place in range(len(tokens))]
        return hidden


def _words(document: str) -> list[str]:
    return [token.lower() for token in flat(tokenize(composed(document)))]
