"""The classifier `bilstm`, an entry point of `dptext.classifiers`. MissingExtraError: torch is absent."""

from dptext.errors import needing

with needing("The classifier bilstm", "neural"):
    from dptext_lab.classifiers.intent import train_intent_classifier

__all__ = ["train_intent_classifier"]
