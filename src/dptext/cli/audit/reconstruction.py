"""`dptext audit reconstruction`: how often one release gives its input away among N candidates."""

from pathlib import Path
from typing import Annotated

from typer import Option

from dptext.audits.reconstruction.attack import reconstruct
from dptext.audits.reconstruction.pools import CandidateInputs, random_candidates
from dptext.audits.report import markdown_table
from dptext.cli import answers, options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.audit.subject import Claimed, ConfidenceOption, Named, on_trial
from dptext.cli.options import spread
from dptext.cli.progress import counted
from dptext.errors import ConfigError
from dptext.sampling.source import secure, seeded
from dptext.text.reading import read_records
from dptext.types import Json


@spread
def reconstruction(
    *,
    named: Named,
    pool: Annotated[Path | None, options.file_option(help="Candidate texts: .jsonl .csv .parquet .txt.")] = None,
    candidates: Annotated[int, Option(help="Random vectors in the pool of --noise.")] = 1000,
    top: Annotated[list[int] | None, Option(help="Guesses; repeatable. Default 1, 5, 10.")] = None,
    trials: Annotated[int, Option(help="Releases to attack.")] = 2000,
    attack: Annotated[
        str, Option(help="likelihood (white box), or surrogate (learned from simulated releases).")
    ] = "likelihood",
    simulations: Annotated[int, Option(help="Releases of each candidate to learn from.")] = 100,
    claimed: Claimed,
    confidence: ConfidenceOption = 0.95,
    seed: options.SeedOption = None,
    printing: Printing,
) -> int:
    """Attack one subject and print what was found."""
    tried = on_trial(named, claimed)
    randomness = secure() if seed is None else seeded(seed)
    known: CandidateInputs
    if pool is not None:
        known = list(read_records(pool))
    elif named.noise is not None:
        known = random_candidates(candidates, dim=named.dim, clip_norm=named.clip_norm, randomness=randomness)
    else:
        raise ConfigError("Expected --pool FILE with a mechanism: candidates are drawn for --noise alone.")
    with counted("reconstruction", "releases") as tell:
        found = reconstruct(
            tried.subject,
            known,
            tops=tuple(top or (1, 5, 10)),
            trials=trials,
            attack=attack,
            simulations=simulations,
            claim=tried.claim,
            confidence=confidence,
            randomness=randomness,
            on_progress=tell,
        )
    refuted = found.refutes(tried.claim)
    stated: dict[str, Json] = {
        "claim": tried.claim.to_dict(),
        "refuted": refuted,
        "feasible_candidates": found.feasible(tried.claim),
    }
    rows = [[str(top.top), interval(top.success), short(top.allowed), short(top.chance)] for top in found.tops]
    screen = markdown_table(["guesses", "right [interval]", "allowed by the claim", "by chance"], rows)
    answer, more = answers.reconstruction(found, tried.claim), [found.explain(tried.claim)]
    printing.answer(answer, screen, more, {**found.to_dict(), **stated})
    return EXIT_REFUTED if refuted else 0
