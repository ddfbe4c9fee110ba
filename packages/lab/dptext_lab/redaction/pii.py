"""Personal data found by presidio's tagger is masked: the usual practice, for comparison. No protection.

presidio (Microsoft, https://microsoft.github.io/presidio) finds names, places, numbers and the like by a spaCy model
and by patterns. Personal data that presidio overlooks is released verbatim.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Literal, Self

from dptext import _validate
from dptext.errors import ConfigError, needing
from dptext.mechanism import Learns, Traits
from dptext.mechanisms.bases import NoGuarantee, Untrained
from dptext.sampling.randomness import Randomness
from dptext.text.records import Record
from dptext_lab.redaction.masking import Lines, Mask, Masking, MaskingMechanism, Runs, flat

_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class PiiRedaction(Untrained["PiiRedactionMechanism"], Masking, NoGuarantee):
    """Settings of redaction by a tagger of personal data, presidio (extra `dptext-lab[pii]`), for English.

    Use:
        Take it to compare with: data that the tagger misses is released.
        Set first: entities, threshold.

    Guarantee:
        None (basis NONE). Running it needs `without_guarantee=True`. Whether a word is masked depends on the words
        around it, and every word that the tagger does not recognize as personal data is released.

        spaCy keeps words of the texts in the memory of the process, as long as the mechanism lives.

    Attributes:
        model: an installed spaCy model; none is ever downloaded.
        entities: kinds to mask, in presidio's names, such as PERSON; empty for all kinds that presidio knows.
        threshold: findings with a lower score are not masked.
        mask: the text that replaces a token.
        runs: "merge" writes one mask for adjacent masked tokens of a line; "keep" writes a mask for each.
    """

    traits: ClassVar[Traits] = Traits(learns=Learns.NOTHING, keeps_words=True)
    reason: ClassVar[str] = "a tagger decides from the text what is masked, and what it overlooks leaves verbatim"

    model: str = "en_core_web_lg"
    entities: tuple[str, ...] = ()
    threshold: float = 0.0
    mask: str = "[MASK]"
    runs: Runs = "keep"
    kind: Literal["pii_redaction"] = field(default="pii_redaction", init=False)

    def __post_init__(self) -> None:
        _validate.probability(threshold=self.threshold)
        if not isinstance(self.model, str) or not self.model:
            raise ConfigError(f"Expected model={self.model!r} to name a spaCy model, such as en_core_web_lg.")
        if isinstance(self.entities, str) or not all(isinstance(name, str) and name for name in self.entities):
            raise ConfigError(f"Expected entities={self.entities!r} to be several names of presidio: give a list.")
        object.__setattr__(self, "entities", tuple(self.entities))
        Mask(self.mask, self.runs)

    def _fitted(self) -> "PiiRedactionMechanism":
        with needing("pii_redaction", "dptext-lab[pii]"):
            from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415 (an extra, slow to load)
            from presidio_analyzer.nlp_engine import NlpEngineProvider  # noqa: PLC0415
        versions = f"presidio-analyzer {version('presidio-analyzer')}, {self.model} {model_version(self.model)}"
        settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": _LANGUAGE, "model_name": self.model}]}
        engine = NlpEngineProvider(nlp_configuration=settings).create_engine()
        analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=[_LANGUAGE])
        known = analyzer.get_supported_entities(language=_LANGUAGE)
        if unknown := sorted(set(self.entities) - set(known)):
            raise ConfigError(f"Expected entities among {', '.join(sorted(known))}, found {', '.join(unknown)}.")
        return PiiRedactionMechanism(self, analyzer, versions)

    @classmethod
    def tiny(cls) -> tuple[Self, ...]:
        """The small English model of spaCy."""
        return (cls(model="en_core_web_sm"),)


class PiiRedactionMechanism(MaskingMechanism[PiiRedaction]):
    """A `PiiRedaction` with its tagger, without any randomness. A token is masked if any part of it was found."""

    __slots__ = ("_analyzer", "_versions")

    def __init__(self, spec: PiiRedaction, analyzer: Any, versions: str) -> None:
        super().__init__(spec)
        self._analyzer, self._versions = analyzer, versions

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the names and versions of the tagger's packages."""
        return {"tagger": hashlib.sha256(self._versions.encode()).hexdigest()}

    def _hidden(self, records: Sequence[Record], documents: Sequence[Lines], randomness: Randomness) -> Iterator[bool]:
        for record, lines in zip(records, documents, strict=True):
            yield from _overlaps(flat(lines), record.text, self._found(record.text))

    def _found(self, document: str) -> Sequence[Any]:
        """Find pieces of personal data, each from `start` to `end`."""
        if not document.strip():
            return ()
        # An unpaired surrogate cannot be tagged, and the error would hold the text; replacing it keeps the offsets.
        shown = document.encode("utf-8", "replace").decode()
        wanted = list(self.spec.entities) or None
        found: Sequence[Any] = self._analyzer.analyze(shown, _LANGUAGE, wanted, score_threshold=self.spec.threshold)
        return found


def _overlaps(tokens: Sequence[str], document: str, pieces: Iterable[Any]) -> list[bool]:
    inside = bytearray(len(document))
    for piece in pieces:
        start, end = max(0, piece.start), min(len(document), piece.end)
        inside[start:end] = b"\1" * max(0, end - start)
    # The tokens, joined, are the text without its whitespace.
    dark = bytes(mark for mark, character in zip(inside, document, strict=True) if not character.isspace())
    hidden, place = [], 0
    for token in tokens:
        hidden.append(any(dark[place : place + len(token)]))
        place += len(token)
    return hidden


def model_version(model: str) -> str:
    """Return the version of an installed spaCy model; ConfigError if absent, as presidio would download it."""
    try:
        return version(model)
    except (PackageNotFoundError, ValueError) as error:
        raise ConfigError(
            f"Expected model={model!r} to be an installed spaCy model. Run: python -m spacy download {model}"
        ) from error
