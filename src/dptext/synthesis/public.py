"""The public parts of a summary: the pool, all that is fitted on it, and how they are stored."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from dptext.embeddings.distilled import DistilledEncoder
from dptext.embeddings.embedder import MINILM_NAMES, Embedder
from dptext.embeddings.encoders import OwnEncoder, PackagedEncoder, load_encoder
from dptext.embeddings.tfidf import TfidfSvd
from dptext.errors import ConfigError, DataError
from dptext.synthesis.lengths import ANY_LENGTH, LengthBins
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.pool import PublicPool, TopicMap
from dptext.synthesis.readings import PublicReader
from dptext.synthesis.space import PublicSpace
from dptext.text.function_words import ENGLISH
from dptext.text.records import Record, records_digest
from dptext.text.schema import DeclaredColumn
from dptext.types import Floats, Json

Arrays = dict[str, NDArray[Any]]
_LEVEL: Final = 9  # of compression
#: The largest number of bytes of the texts that one array unpacks to. A forged file is read no further.
MOST_TEXT: Final = 1 << 31
_MANY: Final = 1 << 53  # texts or drafts: fewer are there

#: Digests of the texts that a summary without its pool leaves out.
_OF_TEXTS: Final = ("public", "examples", "drafts")


@dataclass(frozen=True, slots=True, repr=False)
class LeftOut:
    """The number and the digest of the texts that a summary without its pool leaves out.

    Attributes:
        digests: sha256 of the pool's texts, and of the examples and drafts if there were any, by the names of `Public`.
        texts: number of the pool's texts.
        drafts: number of the drafts of each label; empty if no model wrote any.
        shown: place of each example among the pool's sorted texts, and its label.
    """

    digests: Mapping[str, str]
    texts: int
    drafts: tuple[int, ...]
    shown: tuple[tuple[int, str | None], ...]

    def stored(self) -> dict[str, Json]:
        """Return JSON-able data."""
        shown: list[Json] = [list(each) for each in self.shown]
        return {"digests": dict(self.digests), "texts": self.texts, "drafts": list(self.drafts), "shown": shown}

    @classmethod
    def of_stored(cls, found: Mapping[str, Any]) -> Self:
        """Return what `stored` returned. KeyError, ValueError, TypeError: these are other data."""
        digests, texts = {name: str(digest) for name, digest in found["digests"].items()}, int(found["texts"])
        shown = tuple((int(place), label) for place, label in found["shown"])
        drafts = tuple(map(int, found["drafts"]))
        if (
            not all(0 <= n < _MANY for n in (texts, *drafts))
            or not {"public"} <= set(digests) <= set(_OF_TEXTS)
            or not all(0 <= place < texts for place, _ in shown)
        ):
            raise ValueError("Expected digests and places of texts.")
        return cls(digests, texts, drafts, shown)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Public:
    """The public parts of a summary besides its settings.

    Attributes:
        pool: the pool, with space and topics if these are measured.
        centre: prior class means `(labels, dim)`; None without points.
        lexicon: the words that can count; None without words.
        rates: the rates at which public texts of each label have each word among their marks, `(labels or 1, width)`;
            None without words.
        examples: public texts that a language model is shown.
        drafts: public drafts of each label; empty if no model wrote any.
        model: sha256 of the weights of the model that wrote the drafts; empty without drafts.
        left_out: what stays of the texts if the pool is not stored; else None. Then there are no drafts, and the pool
            and the examples are empty until `with_pool` restores them.
        bins: the bins of lengths; one bin if no lengths are measured.
        language: the language of the pool, as ISO 639 names it; English where that is not sure. Its function words say
            nothing.
        columns: the declared columns that are measured.
    """

    pool: PublicPool
    centre: Floats | None
    lexicon: Lexicon | None
    rates: Floats | None
    examples: tuple[Record, ...] = ()
    drafts: tuple[tuple[str, ...], ...] = ()
    model: str = ""
    left_out: LeftOut | None = None
    bins: LengthBins = ANY_LENGTH
    language: str = ENGLISH
    columns: tuple[DeclaredColumn, ...] = ()

    @property
    def has_pool(self) -> bool:
        """Whether the texts of the pool are there, which a writer needs."""
        return self.left_out is None or len(self.pool.texts) == self.left_out.texts

    @property
    def pool_named(self) -> str:
        """The number of texts of the pool, and the beginning of their digest, in words."""
        return f"{self.n_texts:,} different texts, sha256 {self.digests['public'][:12]}..."

    @property
    def n_texts(self) -> int:
        """The number of the pool's texts, which may be left out."""
        return len(self.pool.texts) if self.left_out is None else self.left_out.texts

    @property
    def n_drafts(self) -> tuple[int, ...]:
        """The number of the drafts of each label, which may be left out; empty if no model wrote any."""
        return tuple(map(len, self.drafts)) if self.left_out is None else self.left_out.drafts

    def without_pool(self) -> Self:
        """Return the parts without the pool's texts and their points, the examples, and the drafts.

        Drafts are left out because a model that has read examples may repeat them.
        """
        pool, place = self.pool, {text: i for i, text in enumerate(sorted(self.pool.texts))}
        left = self.left_out
        if left is None:
            digests = {name: digest for name, digest in self.digests.items() if name in _OF_TEXTS}
            shown = tuple((place[each.text], each.label) for each in self.examples)
            left = LeftOut(digests, len(pool.texts), self.n_drafts, shown)
        topics = None if pool.topics is None else pool.topics.without_texts()
        bare = replace(pool, texts=(), points=pool.points[:0], topics=topics)
        return replace(self, pool=bare, examples=(), drafts=(), left_out=left)

    def with_pool(self, texts: tuple[str, ...]) -> Self:
        """Return the parts with the pool of these distinct texts, from which examples and points follow.

        Writers choose by the order of the texts: the same order gives the same corpus for a seed. ConfigError: these
        are other texts.
        """
        found = PublicPool(texts, None, np.zeros((len(texts), 0)), None)
        if found.digests["public"] != self.digests["public"]:
            other = f"{len(texts):,} with sha256 {found.digests['public'][:12]}..."
            raise ConfigError(
                f"Expected the pool of this summary ({self.pool_named}), found {other}: give the file that "
                "dptext summarize had as --public, with the same options for reading it."
            )
        if self.left_out is None:
            return self
        space, topics, points = self.pool.space, self.pool.topics, found.points
        if space is not None:
            points = space.points(texts).astype(np.float32).astype(np.float64)  # as `fit_pool` makes them
        topics, ranked = None if topics is None else topics.with_texts(texts, points), sorted(texts)
        examples = tuple(Record(str(i), ranked[place], label) for i, (place, label) in enumerate(self.left_out.shown))
        return replace(self, pool=PublicPool(texts, space, points, topics), examples=examples)

    @property
    def texts(self) -> tuple[object, ...]:
        """All public texts: those of the pool, the words, the examples, the drafts, and what describes topics."""
        described = () if self.pool.topics is None else self.pool.topics.described
        words = () if self.lexicon is None else self.lexicon.words
        shown = (each.text for each in self.examples)
        drafts = (text for each in self.drafts for text in each)
        return (
            *self.pool.texts,
            *words,
            *shown,
            *drafts,
            *(text for both in described for own in both for text in own),
        )

    @property
    def reader(self) -> PublicReader:
        """The readers of a record."""
        return PublicReader(self.pool.space, self.lexicon, self.bins, self.columns)

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the pool's texts, the space, the list of words, the examples, the drafts, and the model."""
        found = self.pool.digests
        if self.pool.topics is not None:
            found["topics"] = hashlib.sha256(self.pool.topics.centres.tobytes()).hexdigest()
        if self.lexicon is not None:
            found["words"] = self.lexicon.digest
            found["examples"] = records_digest(self.examples)
        if self.model:
            found["drafts"] = records_digest(Record("", text) for each in self.drafts for text in each)
            found["model"] = self.model
        return found if self.left_out is None else {**found, **self.left_out.digests}

    def stored(self) -> tuple[dict[str, Json], Arrays]:
        """Return everything as JSON-able data and arrays, without the pool if that is left out."""
        if self.left_out is not None and self.pool.texts:
            return self.without_pool().stored()
        described: dict[str, Json] = {"model": self.model}
        arrays: Arrays = {"pool.texts": _packed(self.pool.texts), "pool.points": self.pool.points.astype(np.float32)}
        described["examples"] = [[each.text, each.label] for each in self.examples]
        described["drafts"] = [list(each) for each in self.drafts]
        if self.language != ENGLISH:
            described["language"] = self.language
        if self.left_out is not None:
            described["left_out"] = self.left_out.stored()
        if (space := self.pool.space) is not None:
            described["space"] = {"least": space.least, "compared": space.compared}
            for name in ("directions", "middle", "anchors"):
                arrays[f"space.{name}"] = getattr(space, name)
            for reader in space.readers:
                _store_reader(reader, described, arrays)
        if (topics := self.pool.topics) is not None:
            described["topics"] = [[list(words), list(texts)] for words, texts in topics.described]
            arrays |= {"topics.centres": topics.centres, "topics.of_pool": topics.of_pool}
        if self.centre is not None:
            arrays["centre"] = self.centre
        if self.lexicon is not None and self.rates is not None:
            arrays |= {"words": _packed(self.lexicon.words), "words.rates": self.rates.astype(np.float32)}
        return described, arrays

    @classmethod
    def of_stored(
        cls,
        described: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        *,
        encoder: str,
        marks: int,
        bins: LengthBins,
        columns: tuple[DeclaredColumn, ...],
    ) -> Self:
        """Return what `stored` returned. KeyError, ValueError, TypeError: these are other data."""
        texts, points = _unpacked(arrays["pool.texts"]), np.asarray(arrays["pool.points"], np.float64)
        space = topics = lexicon = rates = None
        if "space" in described:
            ways, middle, anchors = (
                np.asarray(arrays[f"space.{name}"], np.float64) for name in ("directions", "middle", "anchors")
            )
            readers, own = _readers(encoder, described, arrays), described["space"]
            space = PublicSpace(readers, ways, middle, anchors, float(own["least"]), int(own["compared"]))
        if "topics" in described:
            named = tuple((tuple(words), tuple(near)) for words, near in described["topics"])
            centres, of_pool = np.asarray(arrays["topics.centres"], np.float64), np.asarray(arrays["topics.of_pool"])
            topics = TopicMap(centres, named, of_pool)
        if "words" in arrays:
            lexicon = Lexicon(_unpacked(arrays["words"]), marks, drawn=len(bins) > 1)
            rates = np.asarray(arrays["words.rates"], np.float64)
        centre = np.asarray(arrays["centre"], np.float64) if "centre" in arrays else None
        examples = tuple(Record(str(i), text, label) for i, (text, label) in enumerate(described["examples"]))
        drafts = tuple(map(tuple, described["drafts"]))
        pool = PublicPool(texts, space, points, topics)
        left_out = LeftOut.of_stored(described["left_out"]) if "left_out" in described else None
        language = str(described.get("language", ENGLISH))
        model = str(described["model"])
        return cls(pool, centre, lexicon, rates, examples, drafts, model, left_out, bins, language, columns)


def _store_reader(reader: Embedder, described: dict[str, Json], arrays: Arrays) -> None:
    if isinstance(reader, DistilledEncoder):
        described["distilled"] = {"max_tokens": reader.max_tokens, "teacher": reader.teacher}
        arrays |= {"distilled.words": _packed(reader.words), "distilled.rarity": reader.rarity}
        arrays |= {"distilled.weights": reader.weights.astype(np.float16), "distilled.offset": reader.offset}
    elif isinstance(reader, OwnEncoder):
        described["own_encoder"] = {"name": reader.name, "dim": reader.dim, "digest": reader.digest}
    elif isinstance(reader, TfidfSvd):
        arrays |= {"tfidf.words": _packed(reader.words), "tfidf.rarity": reader.rarity}
        arrays["tfidf.components"] = reader.components.astype(np.float16)


def _readers(encoder: str, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[Embedder, ...]:
    first: Embedder
    if "distilled" in described:
        rarity, weights, offset = (
            np.asarray(arrays[f"distilled.{name}"], np.float32) for name in ("rarity", "weights", "offset")
        )
        first = DistilledEncoder(
            _unpacked(arrays["distilled.words"]), rarity, weights, offset, **described["distilled"]
        )
    elif "own_encoder" in described:  # loaded when it is needed: who only writes from the pool may not have it
        own = described["own_encoder"]
        first = OwnEncoder(encoder, str(own["name"]), int(own["dim"]), str(own["digest"]))
    else:
        first = PackagedEncoder() if encoder in ("sentence", *MINILM_NAMES) else load_encoder(encoder)
    if "tfidf.words" not in arrays:
        return (first,)
    rare, components = (np.asarray(arrays[f"tfidf.{name}"], np.float64) for name in ("rarity", "components"))
    return first, TfidfSvd(_unpacked(arrays["tfidf.words"]), rare, components)


@lru_cache(4)  # of one summary: texts, their vocabulary and words
def _packed(texts: tuple[str, ...]) -> NDArray[np.uint8]:
    """Return public texts as compressed bytes."""
    data = json.dumps(texts).encode()  # ASCII: also texts that UTF-8 cannot hold
    return np.frombuffer(zlib.compress(data, _LEVEL), np.uint8)


def _unpacked(data: NDArray[Any]) -> tuple[str, ...]:
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(data.tobytes(), MOST_TEXT)
    except zlib.error:
        raise DataError("The texts in a summary are damaged.") from None
    return tuple(json.loads(whole))
