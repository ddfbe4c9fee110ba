"""What is said of public texts in a language that the encoder, word vectors or language model of some settings lacks.

Public texts alone are judged: what is said is seen by others, and would tell them the language of private ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from dptext.embeddings.embedder import MINILM, MINILM_NAMES
from dptext.errors import ConfigError
from dptext.language.reading import SMOLLM2, is_there
from dptext.mechanism import Promise, settings
from dptext.synthesis.summary import SummarySpec
from dptext.text.function_words import ENGLISH
from dptext.text.languages import MainLanguage, main_language

#: What comes with dptext, or by a package of its own, and knows English alone.
BUILT_IN: Final = f"The encoder {MINILM}, the word vectors of GloVe and the language model SmolLM2 know English alone"
_SENTENCES: Final = f"the encoder {MINILM}"
#: By a setting and its values: what reads texts, the value to set instead, and what that is.
_READERS: Final[Sequence[tuple[str, frozenset[str], tuple[str, str, str]]]] = (
    ("encoder", frozenset({"sentence", "distilled", *MINILM_NAMES}),
        (_SENTENCES, "FOLDER", "a multilingual model that sentence-transformers saved")),
    ("encoder", frozenset({"glove"}),
        ("GloVe", "FOLDER", "a multilingual model that sentence-transformers saved")),
    ("vectors", frozenset({"glove"}), ("GloVe", "FILE", "vectors of words of that language")),
    ("ranker", frozenset({"text", "sentence", "distilled"}), (_SENTENCES, "tfidf", "which compares words")),
    ("model", frozenset({SMOLLM2}),
        ("the language model SmolLM2", "FOLDER", "a multilingual model of the Llama family")),
)  # fmt: skip
#: Called with the name of a setting and a value: how the two are given together.
Typed = Callable[[str, str], str]


def as_argument(name: str, value: str) -> str:
    """Return how Python gives a setting."""
    return f"{name}={value}" if value.isdecimal() else f"{name}={value!r}"


def in_other_language(spec: Promise, texts: Sequence[str], typed: Typed = as_argument) -> str:
    """Return a warning that public texts are in a language that the settings' readers do not know, and what to give.

    It is empty if every reader is the user's own, the texts are in English, or their language is not sure.
    """
    unknown = list(_english_alone(spec, typed))
    found = main_language(texts) if unknown else None
    if found is None or found.code == ENGLISH:
        return ""
    readers = " and ".join(reader for reader, _ in unknown)
    remedies = " and ".join(remedy for _, remedy in unknown if remedy)
    said = f"The public texts seem to be in {found.name}, and {readers} know{'s' * (len(unknown) == 1)} English alone: "
    return said + (f"give {remedies}." if remedies else f"{spec.kind} takes nothing else.")


def knows_english_alone(spec: Promise) -> str:
    """Return which readers of these settings know English alone, as a clause; empty if there are none."""
    readers = [reader for reader, _ in _english_alone(spec, as_argument)]
    said = f"{' and '.join(readers)} know{'s' * (len(readers) == 1)} English alone"
    return said[0].upper() + said[1:] if readers else ""


def of_private_texts(found: MainLanguage) -> str:
    """Return what the owner of private texts is told of their language; empty for English."""
    if found.code == ENGLISH:
        return ""
    return (
        f"most texts seem to be in {found.name}. {BUILT_IN}: give a multilingual --encoder FOLDER, public texts in "
        "that language, and --writer model:FOLDER to write."
    )


def encoder_lacks(name: str, texts: Sequence[str]) -> str:
    """Return a sentence if texts are in a language that the encoder of this name lacks; else an empty one."""
    reader = next((each for setting, values, (each, *_) in _READERS if setting == "encoder" and name in values), None)
    found = None if reader is None else main_language(texts)
    if reader is None or found is None or found.code == ENGLISH:
        return ""
    return f"The texts seem to be in {found.name}, and {reader} knows English alone."


def written_in(language: str, model: str) -> str:
    """Return a warning that SmolLM2 writes where the pool is in another language; else an empty text."""
    if language == ENGLISH or model != SMOLLM2:
        return ""
    found = MainLanguage(language, 1.0).name
    return (
        f"The pool seems to be in {found}, and the language model SmolLM2 knows English alone: take --writer "
        "model:FOLDER (writer='model:FOLDER' in Python), a model of that language, or the pool."
    )


def _english_alone(spec: Promise, typed: Typed) -> Iterator[tuple[str, str]]:
    """Yield what reads or writes texts by these settings and knows English alone, and what to give, if anything."""
    found = settings(spec)
    for name, values, (reader, value, what) in _READERS:
        if str(found.get(name)) not in values:
            continue
        if not isinstance(spec, SummarySpec) or (name == "encoder" and spec.reads_points):
            yield reader, f"{typed(name, value)} ({what})" if _takes(spec, name, f"./{value}", value) else ""
        elif name == "model" and spec.marks and spec.drafts and is_there(spec.model):
            yield reader, f"{typed('drafts', '0')} (the writer model:FOLDER then writes)"


def _takes(spec: Promise, name: str, *values: str) -> bool:
    """Return whether the settings take one of the values."""
    for value in values:
        with contextlib.suppress(ConfigError):
            replace(spec, **{name: value})  # type: ignore[type-var]  # a spec is a dataclass
            return True
    return False
