"""The refutation of ADePT (Habernal 2021): pairs of clipped vectors that are farther apart than the paper claims."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from dptext.embeddings.embedder import embed_distinct
from dptext.types import Floats, Json
from dptext_lab.papers.measuring import Bench
from dptext_lab.papers.table import Number, Paper, PaperRow
from dptext_lab.papers.texts import Texts, cut, sampled
from dptext_lab.refutation.claims import Claim, counterexample
from dptext_lab.refutation.simulation import PUBLISHED_PAIRS, Law, Normal, Uniform, simulate, violating_pairs

#: The epsilon that the rows translate.
CLAIMED: Final = 10.0
SHARE: Final = "share of pairs"
COUNT: Final = "violating pairs"
LARGEST: Final = "largest / 2C"
TRUE: Final = "possible / 2C"
#: Pairs drawn at once; 256 coordinates of so many are 16 MB.
_AT_ONCE: Final = 2000


@dataclass(frozen=True, slots=True)
class RefutationSizes:
    """Sizes of the study: random pairs for each number of coordinates, and texts whose vectors are compared."""

    pairs: int = PUBLISHED_PAIRS
    dims: tuple[int, ...] = (2, 32, 128, 256)
    laws: tuple[Law, ...] = (Uniform(), Normal(0.1))
    private: int = 300
    public: int = 20


def built_in(sizes: RefutationSizes, seed: int) -> Texts:
    """Return built-in texts, whose vectors are clipped and compared, too."""
    return sampled(sizes.private, sizes.public, seed)


def study(texts: Texts, bench: Bench, sizes: RefutationSizes | None = None) -> Paper:
    """Count random pairs, and pairs of vectors of the private texts, that violate the claim of a distance of 2C."""
    sizes = sizes or RefutationSizes()
    texts = cut(texts, sizes.private, len(texts.public))
    rows = []
    for dim in sizes.dims:
        bench.say(f"refutation: {sizes.pairs:,} pairs of {dim} coordinates by each law")
        rows += [_drawn(Claim(dim=dim), law, sizes.pairs, bench.seed) for law in sizes.laws]
    bench.say(f"refutation: vectors of {len(texts.private):,} texts")
    written = [record.text for record in texts.private]
    rows.append(_given(embed_distinct(written, bench.embedder).at(dict.fromkeys(written)), bench.seed))
    first, second = counterexample()
    two = float(np.abs(first - second).sum()) / Claim(dim=2).claimed
    facts: dict[str, Json] = {"counterexample": {"first": first.tolist(), "second": second.tolist(), "ratio": two}}
    facts |= {"pairs": sizes.pairs, "texts": len(texts.private), "claimed_epsilon": CLAIMED}
    last = Claim(dim=sizes.dims[-1])
    answer = (
        (
            f"ADePT's claim is refuted: two latents of {last.dim} coordinates, clipped to C in L2, are up to "
            f"{last.factor:.4g} times 2C apart in L1, so noise for epsilon {CLAIMED:g} has an "
            f"epsilon of {last.true_epsilon(CLAIMED):.4g}."
        ),
        (
            f"Two coordinates suffice: (2C/3, 2C/3) and its negative are {two:.4g} times 2C apart. One pair refutes "
            "the claim; the shares say how ordinary such pairs are."
        ),
    )
    return Paper(
        name="refutation",
        source="Habernal 2021 (EMNLP), of ADePT, Krishna, Gupta and Dupuy 2021 (EACL)",
        claim="ADePT: two latents clipped to C in L2 are at most 2C apart in L1",
        instead="noise for 2C sqrt(n), or latents clipped in L1: `adept`; dptext audit sensitivity",
        answer=answer,
        columns=(COUNT, SHARE, LARGEST, TRUE),
        rows=tuple(rows),
        notes=(*texts.notes, f"Vectors of texts: {bench.embedder.name}, clipped to C = 1, all pairs."),
        facts=facts,
    )


def _drawn(claim: Claim, law: Law, pairs: int, seed: int) -> PaperRow:
    found = simulate(claim, law, pairs=pairs, seed=seed)
    generator, largest, left = np.random.default_rng([seed, claim.dim]), 0.0, pairs
    while left:  # the pairs that `simulate` drew, as it draws them in order
        part = min(left, _AT_ONCE)
        points = claim.clip(law.draw(2 * part, claim, generator=generator))
        largest, left = max(largest, float(np.abs(points[0::2] - points[1::2]).sum(axis=1).max())), left - part
    count = round(found.share.value * pairs)
    numbers: dict[str, Number] = {
        COUNT: float(count),
        SHARE: found.share,
        LARGEST: largest / claim.claimed,
        TRUE: claim.factor,
    }
    return PaperRow(f"n = {claim.dim}, {law}", _epsilons(claim), numbers)


def _given(vectors: Floats, seed: int) -> PaperRow:
    from scipy.spatial.distance import pdist  # noqa: PLC0415 (slow to load)

    claim = Claim(dim=vectors.shape[1])
    all_pairs = len(vectors) * (len(vectors) - 1) // 2
    share = violating_pairs(vectors, claim, max_pairs=max(1, all_pairs), seed=seed)
    largest = float(pdist(claim.clip(vectors), "cityblock").max())
    count = round(share.value * all_pairs)
    numbers: dict[str, Number] = {
        COUNT: float(count),
        SHARE: share,
        LARGEST: largest / claim.claimed,
        TRUE: claim.factor,
    }
    return PaperRow(f"n = {claim.dim}, vectors of texts", _epsilons(claim), numbers)


def _epsilons(claim: Claim) -> tuple[str, str]:
    return (f"claims {CLAIMED:g}", f"has {claim.true_epsilon(CLAIMED):.4g}")
