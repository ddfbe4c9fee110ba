"""SentDP, DeepCandidate (Meehan, Mrini and Chaudhuri 2022): documents replaced by public ones, by depth."""

from dataclasses import dataclass
from typing import Any, Final

from dptext.embeddings.encoders import PublicVectors
from dptext.errors import ConfigError
from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
from dptext.privacy.guarantee import Unit
from dptext.text.tokens import sentences
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY
from dptext_lab.papers.measuring import COSINE, LABEL, Bench, allowed, linkage, reference, rewritten
from dptext_lab.papers.table import REFERENCES, Paper, PaperRow, compared
from dptext_lab.papers.texts import Texts, cut, documents
from dptext_lab.sentdp.sentdp import SentDp

EPSILON: Final = 10.0
PUBLISHED: Final = "as published, text"
PRINTED: Final = "as published, Alg. 1"
SENTENCE: Final = "by likeness"
SOUND: Final = "made sound"
_FEWEST: Final = 20  # long public documents that the mechanisms ask for


@dataclass(frozen=True, slots=True)
class SentDpSizes:
    """Sizes of the study, and of the paper's recoder and directions."""

    private: int = 150
    public: int = 300
    requests: int = 6
    candidates: int = 300
    clusters: int = 12
    epochs: int = 6
    projections: int = 25
    least: int = 4
    most: int = 10
    encoder: str = "distilled"


def built_in(sizes: SentDpSizes, seed: int) -> Texts:
    """Return built-in documents of some requests each."""
    return documents(sizes.private, sizes.public, seed, requests=sizes.requests)


def study(texts: Texts, bench: Bench, sizes: SentDpSizes | None = None) -> Paper:
    """Choose public documents by the paper's depth, in both directions, and by likeness; compare the releases.

    ConfigError: fewer than 20 public documents have the least number of sentences.
    """
    sizes = sizes or SentDpSizes()
    texts = cut(texts, sizes.private, sizes.public)
    long = sum(len(sentences(record.text)) >= sizes.least for record in texts.public)
    if long < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} public documents of {sizes.least} or more sentences, found {long} of "
            f"{len(texts.public):,}: SentDP replaces documents. Give longer texts."
        )
    labels = texts.labels
    known: dict[str, Any] = {"labels": labels, "candidates": sizes.candidates, "min_sentences": sizes.least}
    known |= {"encoder": sizes.encoder}
    depth: dict[str, Any] = {"recoder": "clusters", "clusters": sizes.clusters, "epochs": sizes.epochs}
    depth |= {"projections": sizes.projections}
    limited = DeepCandidate(EPSILON, max_sentences=sizes.most, **known)
    specs: dict[str, DeepCandidate | SentDp] = {
        PUBLISHED: SentDp(EPSILON, utility="lowest", **depth, **known),
        PRINTED: SentDp(EPSILON, utility="algorithm_1", **depth, **known),
        SENTENCE: limited,
        SOUND: limited.calibrate(EPSILON, unit=Unit.DOCUMENT),
    }
    rows = bench.references(texts)
    public_vectors = PublicVectors()
    for name, spec in specs.items():
        bench.say(f"sentdp: {name}")
        with public_vectors.learning():
            fitted = bench.fit(spec, public=texts.public, seed=bench.seed, title=f"sentdp: {name}")
        rows[name] = bench.released(fitted, texts.private)
    bench.say("sentdp: attacks")
    kept = bench.kept(texts.private, rows)
    named = linkage(kept[SOUND])
    found = [reference(name, rewritten(kept[name])) for name in REFERENCES]
    epsilons = {name: _epsilons(spec) for name, spec in specs.items()}
    found += [PaperRow(name, epsilons[name], rewritten(kept[name]), name not in (PUBLISHED, PRINTED)) for name in specs]
    by_name = {row.name: row for row in found}
    public, names = by_name[PUBLIC_ONLY], (LABEL, COSINE) if labels else (COSINE,)
    a_sentence = specs[SOUND].guarantee(Unit.SENTENCE).epsilon
    facts: dict[str, Json] = {"epsilon": EPSILON, "sound_epsilon_of_a_sentence": a_sentence}
    facts |= {"private": len(texts.private), "public": len(texts.public), "most_sentences": sizes.most}
    facts |= {"sentences": sum(len(sentences(record.text)) for record in texts.private) / len(texts.private)}
    return Paper(
        name="sentdp",
        source="Meehan, Mrini and Chaudhuri 2022 (ACL)",
        claim="epsilon for one sentence of a document, by a choice among public candidates by depth",
        instead="a choice by likeness, of a public maximum of sentences, with an epsilon for the document",
        answer=(
            (
                f"SentDP as published: epsilon {EPSILON:g} for one sentence, none for a document; made sound at "
                f"epsilon {EPSILON:g} a document it has {compared(by_name[SOUND], public, names)}."
            ),
            (
                f"By the least depth over all directions, as the paper's text says, it has "
                f"{compared(by_name[PUBLISHED], public, names)}. By the largest, as its Algorithm 1 says, it has "
                f"{compared(by_name[PRINTED], public, names)}."
            ),
        ),
        columns=(*names, named),
        rows=tuple(found),
        kept=COSINE,
        leaks=named,
        notes=(
            *texts.notes,
            f"{len(texts.private):,} private and {len(texts.public):,} public documents: {texts.source}.",
            (
                "As published: depth on public directions after a recoder of clusters, fitted here on public text; the "
                "number of sentences is revealed. The paper fits them on its training split."
            ),
            f"Sentence encoder of the mechanisms: {sizes.encoder}.",
            allowed(kept[SOUND], EPSILON),
        ),
        facts=facts,
    )


def _epsilons(spec: DeepCandidate | SentDp) -> tuple[str, str]:
    document = f"{spec.guarantee(Unit.DOCUMENT).epsilon:.4g}" if spec.max_sentences else "none"
    return (f"{document} a document", f"{spec.guarantee(Unit.SENTENCE).epsilon:.3g} a sentence")
