"""Attacks on guarantees: an audit can refute a claim, never prove one.

    >>> import numpy as np
    >>> from dptext import audits
    >>> from dptext.sampling.top_k import TopKRandomizedResponse
    >>> choice = TopKRandomizedResponse(epsilon=2.0, k=1, size=4)
    >>> report = audits.exact(choice, np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0]), trials=1000)
    >>> round(report.epsilon_lower_bound, 6), report.refutes(audits.claim_of(choice))
    (2.0, False)

`distinguish` counts runs (black box), `whitebox` reads declared densities, and `exact` sums over all outputs.
`broken_assumptions` compares facts that no black box can show. `worst_pairs` and `worst_latents` propose neighbours.
`shokri`, `lira` and `from_scores` ask a trained model which records were in its training set. `attribute` asks who
wrote a release. `__init__.pyi` lists these names.

`AUDITS` holds the names of installed packages, which are attributes, too: a package brings one by an entry point of
`dptext.audits`. With dptext-lab these are: `reconstruct` guesses inputs, `Claim` and `simulate` examine norms,
`infer_trait` asks from which of two sets a release comes, and `measure` how far apart two sets of texts are.
"""

from typing import Any, Final

import lazy_loader

from dptext.doors import Door, absent

_ours, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

#: Audits of installed packages by name: functions, and classes of their settings and reports.
AUDITS: Final[Door[Any]] = Door("dptext.audits", {}, what="audit", taken=__all__)


def __getattr__(name: str) -> Any:
    """The public names of the stub, then those of packages. AttributeError: there is no such name."""
    if name in __all__ or name.startswith("_"):
        return _ours(name)
    if name in AUDITS:
        return AUDITS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{absent(AUDITS.group, name)}")
