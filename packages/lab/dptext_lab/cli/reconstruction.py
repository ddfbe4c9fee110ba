"""`dptext audit reconstruction`: guess the input among candidates from one release."""

from pathlib import Path
from typing import Annotated, Any

from dptext._wording import markdown_table
from dptext.cli import options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.audit import EXIT_REFUTED, refuse_ignored
from dptext.cli.audit.trials import Claimed, ConfidenceOption
from dptext.cli.grouped import measures
from dptext.cli.terminal import counted, say
from dptext.errors import ConfigError
from dptext.mechanism import VectorNoise
from dptext.sampling.randomness import secure, seeded
from dptext.text.reading import read_records
from dptext.types import Json
from dptext_lab.cli import answers
from dptext_lab.refutation.attack import reconstruct
from dptext_lab.refutation.pools import Adversary, CandidateInputs, random_candidates


def reconstruction(
    *,
    given: Claimed,
    pool: Annotated[Path | None, options.file_option(help="Candidate texts: .jsonl .csv .parquet .txt.")] = None,
    record: options.RecordOption = None,
    candidates: Annotated[
        int | None, measures(help="Random vectors in the pool of --noise without --pool. Default: 1000.")
    ] = None,
    top: Annotated[
        list[int] | None, measures(metavar="N", help="Number of guesses. Repeatable. Default: 1, 5 and 10.")
    ] = None,
    trials: Annotated[int, measures(help="Releases to attack.")] = 2000,
    attack: Annotated[
        str | None,
        measures(
            help="The attack: likelihood (white box) or surrogate (of simulated releases). Default: likelihood, or "
            "surrogate of what declares no density."
        ),
    ] = None,
    simulations: Annotated[
        int | None, measures(help="Releases of each candidate that surrogate learns from. Default: 100.")
    ] = None,
    confidence: ConfidenceOption = 0.95,
    printing: Printing,
) -> int:
    if pool is not None:
        refuse_ignored("--pool FILE", candidates=candidates)
    elif record is not None:
        raise ConfigError("Expected --pool FILE with --record.")
    if attack is not None and attack != Adversary.SURROGATE:
        refuse_ignored(f"--attack {attack}", simulations=simulations)
    subject, claim = given.on_trial()
    if attack is None:
        attack = Adversary.LIKELIHOOD if isinstance(subject, VectorNoise) else Adversary.SURROGATE
        if attack is Adversary.SURROGATE:
            say("No density is declared: --attack surrogate, which learns from simulated releases, is tried.")
        else:
            refuse_ignored(f"--attack {attack}", simulations=simulations)
    randomness = secure() if given.seed is None else seeded(given.seed)
    known: CandidateInputs
    if pool is not None:
        known = list(read_records(pool, record=record))
    elif given.noise is not None:
        dim, clip_norm = given.vectors
        size = 1000 if candidates is None else candidates
        known = random_candidates(size, dim=dim, clip_norm=clip_norm, randomness=randomness)
    else:
        raise ConfigError("Expected --pool FILE with a mechanism: candidates are drawn for --noise alone.")
    asked: dict[str, Any] = {"tops": tuple(top or (1, 5, 10)), "trials": trials, "attack": attack}
    asked |= {
        "simulations": 100 if simulations is None else simulations,
        "claim": claim,
        "confidence": confidence,
        "randomness": randomness,
    }
    with counted("reconstruction", "releases") as tell:
        found = reconstruct(subject, known, **asked, on_progress=tell)
    refuted = found.refutes(claim)
    stated: dict[str, Json] = {"claim": claim.to_dict(), "refuted": refuted}
    stated["feasible_candidates"] = found.feasible(claim)
    rows = [[str(top.top), interval(top.success), short(top.allowed), short(top.chance)] for top in found.tops]
    screen = markdown_table(["guesses", "right [interval]", "allowed by the claim", "by chance"], rows)
    answer, more = answers.reconstruction(found, claim), [found.explain(claim)]
    printing.answer(answer, screen, more, {**found.to_dict(), **stated})
    return EXIT_REFUTED if refuted else 0
