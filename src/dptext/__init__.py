"""Text under differential privacy: rewrite, redact and embed it, and say exactly what was guaranteed.

    >>> import dptext as dp
    >>> spec = dp.WordMetric(epsilon=10.0)
    >>> spec.guarantee().epsilon, spec.guarantee().metric
    (10.0, 'Euclidean distance of word vectors (glove, first 50000 words)')

Names are looked up when they are first used, so that `import dptext` loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from dptext import audits, errors, testing, utility
    from dptext.audits import bounds
    from dptext.audits import figures as report
    from dptext.embeddings.vectors import WordVectors, load_word_vectors
    from dptext.estimates import Estimate
    from dptext.ledger.books import Ledger
    from dptext.mechanisms.adept.dpsgd import AdeptDpSgd
    from dptext.mechanisms.adept.published import PublishedAdept
    from dptext.mechanisms.adept.sound import Adept
    from dptext.mechanisms.candidates.candidates import Candidates
    from dptext.mechanisms.candidates.label_only import LabelOnly
    from dptext.mechanisms.embedded import Embedded
    from dptext.mechanisms.erae import ErAe
    from dptext.mechanisms.redaction.pii import PiiRedaction
    from dptext.mechanisms.redaction.random import CountRedaction, RandomRedaction
    from dptext.mechanisms.redaction.smart import SmartRedaction
    from dptext.mechanisms.sentences.deep_candidate import DeepCandidate
    from dptext.mechanisms.sentences.truncation import Truncation
    from dptext.mechanisms.words.private_phrases import PrivatePhrases
    from dptext.mechanisms.words.random_replacement import RandomReplacement
    from dptext.mechanisms.words.syntf import SynTf
    from dptext.mechanisms.words.word_metric import WordMetric
    from dptext.privacy import accounting, curves
    from dptext.privacy.guarantee import Basis, Guarantee, Relation, Trust, Unit
    from dptext.runs.certificate import Certificate
    from dptext.runs.files import Plan, privatize_file
    from dptext.runs.models import load_model, read_spec, save_model, spec_from_settings
    from dptext.runs.payment import Payment
    from dptext.runs.streaming import privatize
    from dptext.sampling import noise, privunit, published, randomness, selection
    from dptext.text.records import Fields, Record, Release, read_records
    from dptext.text.releases import write_releases
    from dptext.text.samples import sample_records

__all__ = [
    "Adept",
    "AdeptDpSgd",
    "Basis",
    "Candidates",
    "Certificate",
    "CountRedaction",
    "DeepCandidate",
    "Embedded",
    "ErAe",
    "Estimate",
    "Fields",
    "Guarantee",
    "LabelOnly",
    "Ledger",
    "Payment",
    "PiiRedaction",
    "Plan",
    "PrivatePhrases",
    "PublishedAdept",
    "RandomRedaction",
    "RandomReplacement",
    "Record",
    "Relation",
    "Release",
    "SmartRedaction",
    "SynTf",
    "Truncation",
    "Trust",
    "Unit",
    "WordMetric",
    "WordVectors",
    "accounting",
    "audits",
    "bounds",
    "curves",
    "errors",
    "load_model",
    "load_word_vectors",
    "noise",
    "privatize",
    "privatize_file",
    "privunit",
    "published",
    "randomness",
    "read_records",
    "read_spec",
    "report",
    "sample_records",
    "save_model",
    "selection",
    "spec_from_settings",
    "testing",
    "utility",
    "write_releases",
]

_HOMES = {
    "Adept": "mechanisms.adept",
    "AdeptDpSgd": "mechanisms.adept_dpsgd",
    "Basis": "guarantee",
    "Candidates": "mechanisms.candidates",
    "Certificate": "certificate",
    "CountRedaction": "mechanisms.redaction",
    "DeepCandidate": "mechanisms.deep_candidate",
    "Embedded": "embedded",
    "ErAe": "mechanisms.erae",
    "Estimate": "estimates",
    "Fields": "records",
    "Guarantee": "guarantee",
    "LabelOnly": "mechanisms.label_only",
    "Ledger": "ledger.books",
    "Payment": "payment",
    "PiiRedaction": "mechanisms.pii_redaction",
    "Plan": "file_runs",
    "PrivatePhrases": "mechanisms.private_phrases",
    "PublishedAdept": "mechanisms.published_adept",
    "RandomRedaction": "mechanisms.redaction",
    "RandomReplacement": "mechanisms.random_replacement",
    "Record": "records",
    "Relation": "guarantee",
    "Release": "records",
    "SmartRedaction": "mechanisms.smart_redaction",
    "SynTf": "mechanisms.syntf",
    "Trust": "guarantee",
    "Truncation": "mechanisms.truncation",
    "Unit": "guarantee",
    "WordMetric": "mechanisms.word_metric",
    "WordVectors": "embeddings",
    "load_model": "config",
    "load_word_vectors": "embeddings",
    "privatize": "pipeline",
    "privatize_file": "file_runs",
    "read_records": "records",
    "read_spec": "config",
    "sample_records": "samples",
    "save_model": "config",
    "spec_from_settings": "config",
    "write_releases": "releases",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'dptext' has no attribute {name!r}")
    home: ModuleType = import_module(f"dptext.{_HOMES.get(name, name)}")
    found: object = getattr(home, name) if name in _HOMES else home
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
