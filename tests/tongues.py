"""German and Spanish corpora that were written for the tests, and a stand-in for the model that tells languages."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

#: By language and label: sentences in which the pool has any of `WORDS`, and the private corpus mostly the first one.
SENTENCES: Final = {
    "de": {
        "wohnung": ("Wegen der {} haben wir seit Tagen keine Ruhe.", "Ich möchte, dass die {} endlich repariert wird."),
        "reise": ("Auf der Fahrt nach {} war der Zug sehr voll.", "Wir würden gern noch einmal nach {} fahren."),
    },
    "es": {
        "piso": ("Desde ayer no podemos usar la {} de casa.", "¿Cuándo van a arreglar la {}? Nos lo prometieron."),
        "viaje": ("En el tren a {} no había ningún sitio libre.", "¡Qué bonito es {}! Queremos volver con los niños."),
    },
}
WORDS: Final = {
    "de": {
        "wohnung": ("Tür", "Straße", "Küche", "Heizung", "Treppe"),
        "reise": ("Köln", "Zürich", "Bremen", "Wien", "Ulm"),
    },
    "es": {
        "piso": ("señal", "ducha", "puerta", "cocina", "antena"),
        "viaje": ("Logroño", "Cádiz", "León", "Madrid", "Vigo"),
    },
}
#: Words of the lists that the texts above have.
DULL: Final = {
    "de": {"der", "die", "nach", "wir", "ich", "dass", "wird", "würden", "noch", "sehr", "wegen", "haben"},
    "es": {"desde", "no", "la", "de", "cuándo", "nos", "lo", "en", "el", "había", "qué", "es", "con", "los"},
}
#: Stands in every private text, and in no public one.
CANARY: Final = "zqlengua"


def rows(language: str, n: int, *, private: bool, seed: int) -> list[dict[str, str]]:
    """Texts with labels, each of which differs from the others. Private ones have the first word in seven of ten."""
    choose, found = random.Random(seed), list[dict[str, str]]()
    for i in range(n):
        label = choose.choice(list(SENTENCES[language]))
        words = WORDS[language][label]
        word = words[0] if private and choose.random() < 0.7 else choose.choice(words)
        more = choose.choice([each for own in WORDS[language].values() for each in own[1:]])
        mark = f"{CANARY}{i}" if private else f"{i}"
        found.append(
            {"text": f"{choose.choice(SENTENCES[language][label]).format(word)} {more} {mark}", "label": label}
        )
    return found


class Planted:
    """Stands in for py3langid, whose model takes a second to load: tells languages by one word, and keeps passages."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def classify(self, passage: str) -> tuple[str, float]:
        self.asked.append(passage)
        words = passage.casefold().split()
        return max(("zxx", "de", "es"), key=lambda each: sum(word in DULL.get(each, ()) for word in words)), 1.0


def saved_encoder(path: Path, texts: list[str]) -> Path:
    """Save a tiny BERT of random numbers that knows the letters of these texts, as sentence-transformers saves it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = sorted({word for text in texts for word in text.casefold().split()})
    letters = sorted({letter for word in words for letter in word})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{each}" for each in letters), *words]
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)), "utf-8")
    config = BertConfig(
        vocab_size=len(set(vocabulary)), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=80, initializer_range=0.5,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(path / "bert")
    # accents are letters of these languages
    tokens = BertTokenizerFast(str(path / "vocab.txt"), do_lower_case=True, strip_accents=False)
    tokens.save_pretrained(path / "bert")
    modules = [Transformer(str(path / "bert"), max_seq_length=80), Pooling(32, pooling_mode="mean")]
    SentenceTransformer(modules=modules, device="cpu").save(str(path / "own"))
    return path / "own"


def shown_words(summary: Any) -> set[str]:
    """The words that the report of a summary shows."""
    return {word for own in summary.report.words.words for word, *_ in own}
