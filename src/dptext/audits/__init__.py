"""Attacks on guarantees: an audit can refute a claim, never prove one.

    >>> import numpy as np
    >>> from dptext import audits
    >>> from dptext.sampling.top_k import TopKRandomizedResponse
    >>> choice = TopKRandomizedResponse(epsilon=2.0, k=1, size=4)
    >>> report = audits.exact(choice, np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0]), trials=1000)
    >>> round(report.epsilon_lower_bound, 6), report.refutes(audits.claim_of(choice))
    (2.0, False)

`distinguish` counts runs (black box), `whitebox` reads declared densities, and `exact` sums over all outputs.
`reconstruct` guesses inputs. `Claim` and `simulate` examine norms. `broken_assumptions` compares facts that no black
box can show. `worst_pairs` and `worst_latents` propose neighbours. `shokri`, `lira` and `from_scores` ask a trained
model which records were in its training set. `attribute` asks who wrote a release, `infer_trait` which of two sets a
release comes from, and `measure` how far apart two sets of texts are. `__init__.pyi` lists the public names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
