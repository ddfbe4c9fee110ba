"""A small paraphraser over the tiny language model of random numbers, sound or with one planted fault."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tiny_language
from dptext.privacy import accounting
from dptext.privacy.events import PureEvent
from dptext.privacy.guarantee import Basis, Guarantee, Unit
from dptext.sampling.randomness import Randomness

OPTIONS, TOKENS = 12, 2
#: Log-probabilities count between -LEAST and REACH - LEAST.
LEAST, REACH = 6.0, 1.0


@functools.cache
def language_model():
    return tiny_language.model()


@functools.cache
def public_options() -> np.ndarray:
    """The end and the likeliest letters after no text at all, `(OPTIONS,)`: the same whatever the private text says."""
    model = language_model()
    order = np.argsort(-model.contexts([model.tokens("\n")], more=1).log_probabilities()[0], kind="stable")
    letters = [token for token in order.tolist() if model.text([token]).isalpha()]
    return np.array([model.end, *letters[: OPTIONS - 1]])


@functools.cache
def read(text: str, written: tuple[int, ...]) -> np.ndarray:
    """ln of the probability of each token after a text and what was written, `(vocabulary,)`."""
    model = language_model()
    prompt = [*model.tokens(text)[-40:], *model.tokens("\n"), *written]
    return model.contexts([prompt], more=1).log_probabilities()[0]


@dataclass(frozen=True)
class Paraphraser:
    """Draws TOKENS tokens in proportion to e^(score / temperature), a score being a clipped log-probability.

    With `fault` it does one thing wrong and claims the same.
    """

    fault: str = ""
    epsilon: float = 1.0

    @property
    def claim(self) -> Guarantee:
        """Each token costs twice the range of its log weights."""
        return accounting.guarantee([PureEvent(self.epsilon)], unit=Unit.DOCUMENT, basis=Basis.CLAIMED)

    def stated(self, output: str) -> float:
        """What an output is said to have cost: all tokens, or with the fault those that it has."""
        tokens = len(output) if self.fault == "epsilon by actual length" else TOKENS
        return self.epsilon * tokens / TOKENS

    def sample(self, value: str, runs: int, randomness: Randomness) -> Sequence[str]:
        rng = np.random.default_rng(0 if self.fault == "fixed seed" else randomness.uint64(4).tolist())
        if self.fault == "verbatim" and len(value.split()) == 1:
            return [value] * runs  # a single word has nothing to rewrite
        if self.fault == "one noise for all tokens":
            return self._side_by_side(value, rng.gumbel(size=(runs, OPTIONS)))
        if self.fault in ("length", "end of text", "first token"):
            return [self._written(value, rng) for _ in range(runs)]
        texts, chances = all_writings(self, value)
        return [texts[i] for i in np.searchsorted(np.cumsum(chances)[:-1], rng.random(runs), "right").tolist()]

    def _written(self, value: str, rng: np.random.Generator) -> str:
        model, written = language_model(), list[int]()
        tokens = min(len(value), TOKENS) if self.fault == "length" else TOKENS
        for i in range(tokens):
            known = read(value, tuple(written))
            if self.fault == "end of text" and rng.random() < np.exp(known[model.end] / 4):
                break  # drawn apart, by what the model says
            if self.fault == "first token" and i == 0:
                written.append(int(public_options()[np.argmax(known[public_options()])]))
                continue
            options, chances = self.chances(value, tuple(written))
            written.append(int(options[np.searchsorted(np.cumsum(chances)[:-1], rng.random(), "right")]))
        return up_to_the_end(written)

    @functools.cache  # noqa: B019  # as many as there are tests
    def chances(self, value: str, written: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that can follow, and their probabilities."""
        known = read(value, written)
        options = np.argsort(-known)[:OPTIONS] if self.fault == "support" else public_options()
        weights = np.exp(self._weights(known[options]))
        return options, weights / weights.sum()

    def _weights(self, known: np.ndarray) -> np.ndarray:
        """Log weights in a range of epsilon / (2 TOKENS)."""
        scores = known if self.fault == "unclipped" else np.clip(known + LEAST, 0, REACH)
        return scores / REACH * self.epsilon / (2 * TOKENS)

    def _side_by_side(self, value: str, noise: np.ndarray) -> list[str]:
        """Each word rewritten alone, all of a run with the same noise, `(runs, OPTIONS)`."""
        words = value.split()[:4] or [""]
        weights = np.array([self._weights(read(word, ())[public_options()]) for word in words])
        chosen, of_run = np.unique((weights + noise[:, None]).argmax(axis=2), axis=0, return_inverse=True)
        texts = [language_model().text(public_options()[each]) for each in chosen]
        return [texts[i] for i in of_run.ravel().tolist()]


def up_to_the_end(written: Sequence[int]) -> str:
    model = language_model()
    return model.text(written[: written.index(model.end)] if model.end in written else written)


@functools.cache
def all_writings(subject: Paraphraser, value: str) -> tuple[list[str], np.ndarray]:
    """What can be written for a text, TOKENS tokens each, with the probabilities."""
    known: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(TOKENS):
        longer: dict[tuple[int, ...], float] = {}
        for written, chance in known.items():
            options, chances = subject.chances(value, written)
            longer |= {(*written, int(o)): chance * c for o, c in zip(options, chances, strict=True)}
        known = longer
    return [up_to_the_end(written) for written in known], np.array(list(known.values()))
