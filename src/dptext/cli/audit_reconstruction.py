"""`dptext audit reconstruction`: how often one release gives its input away among N candidates."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dptext.audits.reconstruction.attack import reconstruct
from dptext.audits.reconstruction.pools import CandidateInputs, random_candidates
from dptext.audits.reconstruction.ranking import Adversary
from dptext.audits.subjects import Subject, claim_of
from dptext.cli.audit import progress
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.randomness import secure, seeded
from dptext.text.records import Record
from dptext.types import Json


def run(
    subject: Subject,
    *,
    candidates: int | Sequence[str | Record] = 1000,
    tops: Sequence[int] = (1, 5, 10),
    trials: int = 2000,
    attack: str = Adversary.LIKELIHOOD,
    simulations: int = 100,
    claim: Guarantee | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    as_json: bool,
) -> int:
    """Attack one subject and print what was found.

    Args:
        subject: vector noise, or a mechanism for texts.
        candidates: the pool: texts, or how many random vectors of the subject's `clip_norm` to draw.
        tops: numbers of guesses.
        trials: releases to attack.
        attack: likelihood or surrogate.
        simulations: releases of each candidate that the surrogate learns from.
        claim: what is put to trial; by default what the subject states itself.
        confidence: of the intervals and of the bound.
        seed: of a run that can be repeated.
        as_json: print JSON instead of words.

    Returns:
        The exit code: 1 where the claim is refuted, 0 where not.

    Raises:
        ConfigError: a setting that cannot be used, or vectors wanted for a subject without a dimension.
        IncomparableError: candidates that are no neighbours under the claim, or a claim with a metric.
    """
    randomness = secure() if seed is None else seeded(seed)
    pool: CandidateInputs
    if isinstance(candidates, int):
        if not hasattr(subject, "dim"):
            raise ConfigError("Expected texts as candidates: the subject has no dimension to draw vectors of.")
        clip_norm = float(getattr(subject, "clip_norm", 1.0))
        pool = random_candidates(candidates, dim=int(subject.dim), clip_norm=clip_norm, randomness=randomness)
    else:
        pool = candidates
    claim = claim or claim_of(subject)
    with progress("reconstruction") as advance:
        found = reconstruct(
            subject,
            pool,
            tops=tops,
            trials=trials,
            attack=attack,
            simulations=simulations,
            claim=claim,
            confidence=confidence,
            randomness=randomness,
            on_progress=advance,
        )
    refuted = claim is not None and found.refutes(claim)
    if as_json:
        stated: dict[str, Json] = {"claim": claim.to_dict() if claim else None, "refuted": refuted}
        stated["feasible_candidates"] = found.feasible(claim) if claim else None
        print(json.dumps({**found.to_dict(), **stated}, indent=2))
    else:
        print(found.explain(claim))
    return int(refuted)
