"""The tiny settings are such that the contract sees twice the epsilon that is stated."""

from dataclasses import replace

import pytest

from dptext import audits
from dptext.mechanism import HasDistribution
from dptext.mechanisms.words.word_metric import WordMetric


class Louder:
    """Draws with twice the epsilon, declares what the quiet one does."""

    def __init__(self, quiet) -> None:
        self.quiet, self.spec = quiet, quiet.spec
        self.loud = replace(quiet.spec, epsilon=2 * quiet.spec.epsilon).fit()

    def privatize(self, records, randomness):
        return self.loud.privatize(records, randomness)

    def distance(self, first, second):
        return self.quiet.distance(first, second)


class LouderNoise(Louder):
    def latent(self, records):
        return self.quiet.latent(records)

    def release(self, latents, randomness):
        return self.loud.release(latents, randomness)

    def log_density(self, released, latents):
        return self.quiet.log_density(released, latents)


class LouderChoice(Louder):
    def output_distribution(self, record):
        return self.quiet.output_distribution(record)


@pytest.mark.parametrize("i", [0, 2, 3])
def test_half_the_noise_does_not_fit_what_is_declared(i: int) -> None:
    quiet = WordMetric.tiny()[i].fit()
    claim = quiet.spec.guarantee()
    pair = audits.Pair("good", "the")
    for mechanism, caught in ((quiet, False), (LouderNoise(quiet) if i < 3 else LouderChoice(quiet), True)):
        audit = audits.exact if isinstance(mechanism, HasDistribution) else audits.whitebox
        assert audit(mechanism, pairs=[pair], claim=claim, trials=8000).refutes(claim) is caught
