"""`dptext audit sensitivity`: a claimed sensitivity against the true one, simulated pairs and real latents."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dptext import _validate
from dptext.audits.sensitivity.claims import (
    PUBLISHED_CLIP_NORM,
    PUBLISHED_DIMS,
    PUBLISHED_LAWS,
    PUBLISHED_PAIRS,
    PUBLISHED_SEED,
    Claim,
    Law,
    Normal,
    Uniform,
    Violations,
    counterexample,
    replay,
    simulate,
    violating_pairs,
)
from dptext.audits.sensitivity.scales import (
    TYPICAL_DIMS,
    VarianceRow,
    classical_limit,
    true_gaussian_epsilon,
    variance_table,
)
from dptext.cli.terminal import bars
from dptext.embeddings.vectors import read_array
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.sampling.noise import Norm, Vectors
from dptext.text.files import Target
from dptext.text.inputs import file_error, open_input
from dptext.types import Json

_LINE_EVERY_SECONDS = 10.0
_LARGEST_DIM = 1 << 16
#: What a table shows of many numbers of coordinates: where the published curves rise, and powers of two.
_SHOWN_DIMS = frozenset((1, 2, 3, 4, 8, 10, 12, 16, 20, 24, 32, 64, 128, 160, 192, 224, 255))


@dataclass(frozen=True, slots=True)
class _Stated:
    """An epsilon, and the delta of Gaussian noise, that a run was meant for."""

    epsilon: float | None
    delta: float


def run(
    *,
    clip: str,
    norm: str,
    clip_norm: float | None,
    claimed: float,
    dims: str | None,
    pairs: int | None,
    law_sd: float | None,
    seed: int | None,
    epsilon: float | None,
    delta: float,
    latents: Path | None,
    variances: bool,
    figure: Target | None,
    as_json: bool,
) -> int:
    """Audit a claimed sensitivity and print what was found.

    Returns:
        The exit code: 1 where the claim is refuted, 0 where not.

    Raises:
        ConfigError: options that cannot be used, or not together.
    """
    if epsilon is not None:
        _validate.positive(epsilon=epsilon)
    stated = _Stated(epsilon, delta)
    first = Claim(
        dim=1,
        clip_norm=PUBLISHED_CLIP_NORM if clip_norm is None else clip_norm,
        clipped=None if clip == "none" else _norm(clip, "--clip", "none"),
        measured=_norm(norm, "--norm"),
        multiple=claimed,
    )
    if variances:
        _refuse("--variances", law_sd=law_sd, pairs=pairs, seed=seed, latents=latents, figure=figure, epsilon=epsilon)
        if first.measured is not Norm.L1 or claimed != 2.0:
            raise ConfigError("Expected --variances without --norm and --claimed: its claim is ADePT's, 2C in L1 norm.")
        clip_norms = (1.0, 5.0) if clip_norm is None else (clip_norm,)
        return _variances(first, clip_norms, TYPICAL_DIMS if dims is None else _dims(dims), delta, as_json=as_json)
    if latents is not None:
        _refuse("--latents", law_sd=law_sd, dims=dims, figure=figure)
        if clip_norm is None:
            raise ConfigError(
                "Expected --clip-norm with --latents: the norm C to which the encoder's output is clipped."
            )
        vectors = _read(latents)
        claim = replace(first, dim=max(1, vectors.shape[-1] if vectors.ndim else 1))
        return _latents(claim, vectors, stated, pairs=pairs, seed=seed, as_json=as_json)
    wanted = tuple(PUBLISHED_DIMS) if dims is None else _dims(dims)
    published = law_sd is None and pairs is None and seed is None and first.clip_norm == PUBLISHED_CLIP_NORM
    settings: dict[str, Json]
    if published and max(wanted) in PUBLISHED_DIMS:
        settings = {"recipe": "published", "pairs": PUBLISHED_PAIRS, "seed": PUBLISHED_SEED}
        rows = _replay(first, wanted)
    else:
        seed, pairs = 0 if seed is None else seed, PUBLISHED_PAIRS if pairs is None else pairs
        settings = {"recipe": "fresh", "pairs": pairs, "seed": seed}
        rows = _fresh(first, wanted, PUBLISHED_LAWS if law_sd is None else (Uniform(), Normal(law_sd)), pairs, seed)
    if figure is not None:
        from dptext.report import violations_figure

        violations_figure(rows, figure)
        print(f"Written: {Target.at(figure).path}", file=sys.stderr)
    return _simulated(rows, settings, stated, as_json=as_json)


# ------------------------------------------------------------------ options


def _refuse(mode: str, **options: object) -> None:
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"Expected {mode} without {', '.join(given)}.")


def _norm(name: str, option: str, *others: str) -> Norm:
    try:
        return Norm(name)
    except ValueError:
        raise ConfigError(f"Expected {option} {name!r} to be one of {', '.join([*Norm, *others])}.") from None


def _dims(text: str) -> tuple[int, ...]:
    """The numbers of a list such as 1:32,64,128, where a:b has both ends; sorted, each once."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [end.strip() for end in part.split(":")]
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ConfigError(f"Expected --dims {text!r} to be a list such as 1:32,64,128.")
        # A number too long to be one is out of range whatever it is.
        first, last = (int(end) if len(end) <= 9 else 10**9 for end in (ends[0], ends[-1]))
        if not 1 <= first <= last <= _LARGEST_DIM:
            raise ConfigError(f"Expected --dims {text!r} to rise and to lie in [1, {_LARGEST_DIM}].")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _read(path: Path) -> Vectors:
    """The array of a .npy file. Objects, which may hold code, are refused by numpy's reader."""
    try:
        with open_input(path) as file:
            array: Vectors = read_array(file)
    except ConfigError:
        raise
    except OSError as error:
        problem = file_error(path, "read", error)
    except ValueError:
        problem = ConfigError(f"Expected {str(path)!r} to be a .npy file of floats. Write it with numpy.save.")
    else:
        return array
    raise problem


# ------------------------------------------------------------------ simulated pairs


def _replay(first: Claim, dims: Sequence[int]) -> tuple[Violations, ...]:
    print(
        f"Replaying the published simulation up to n = {max(dims)}: C = {PUBLISHED_CLIP_NORM:g}, "
        f"{PUBLISHED_PAIRS:,} pairs for each n and law.",
        file=sys.stderr,
    )
    with _progress() as advance:
        return replay(
            dims, clipped=first.clipped, measured=first.measured, multiple=first.multiple, on_progress=advance
        )


def _fresh(first: Claim, dims: Sequence[int], laws: Sequence[Law], pairs: int, seed: int) -> tuple[Violations, ...]:
    _validate.count(pairs=pairs)
    print(f"A fresh simulation: {pairs:,} pairs for each n and law, seed {seed}.", file=sys.stderr)
    rows: list[Violations] = []
    done = 0
    with _progress() as advance:
        for dim in dims:
            rows += (simulate(replace(first, dim=dim), law, pairs=pairs, seed=seed) for law in laws)
            done += dim
            advance(done, sum(dims))
    return tuple(rows)


def _simulated(rows: Sequence[Violations], settings: dict[str, Json], stated: _Stated, *, as_json: bool) -> int:
    shares: dict[Claim, dict[str, Estimate]] = {}
    for row in rows:
        shares.setdefault(row.claim, {})[str(row.law)] = row.share
    claims = list(shares)
    broken = [claim for claim in claims if any(share.value > 0 for share in shares[claim].values())]
    refuted = any(claim.refuted for claim in claims) or bool(broken)
    if as_json:
        table = [
            {
                **_analytic(claim, stated),
                "violating": {law: share.to_dict() for law, share in shares[claim].items()},
            }
            for claim in claims
        ]
        print(json.dumps({"claim": _settings(claims[0]), **settings, "rows": table, "refuted": refuted}, indent=2))
        return int(refuted)
    laws = list(shares[claims[0]])
    ends = {claims[0].dim, claims[-1].dim}
    shown = claims if len(claims) <= 20 else [claim for claim in claims if claim.dim in _SHOWN_DIMS | ends]
    print(f"Claim: {claims[0]}. C = {claims[0].clip_norm:g}.\n")
    kinds = list(_true_epsilons(claims[0], stated))
    print(
        _aligned(
            [
                ["", "", "", *["true epsilon"] * len(kinds), "% violating [95%]", *[""] * (len(laws) - 1)],
                ["n", "sensitivity", "true/claimed", *(_column(kind, stated) for kind in kinds), *laws],
            ],
            [[str(claim.dim), *_cells(claim, stated), *map(_percent, shares[claim].values())] for claim in shown],
        )
    )
    print(f"\n{_verdict(claims)} Violating pairs were drawn for {len(broken)} of {len(claims)} values of n.")
    _explain(claims, stated)
    return int(refuted)


def _explain(claims: Sequence[Claim], stated: _Stated) -> None:
    """What else there is to know: the counterexample by hand, and where the classical formula is wrong."""
    first = claims[0]
    adept = (first.clipped, first.measured, first.multiple) == (Norm.L2, Norm.L1, 2.0)
    if adept and any(claim.refuted for claim in claims):
        print(_worked(first, stated))
    limit = classical_limit(stated.delta) if "classical_gaussian" in _true_epsilons(first, stated) else math.inf
    if stated.epsilon is not None and stated.epsilon > limit:
        print(
            f"The classical Gaussian formula is wrong above epsilon = {limit:.2f} at delta = {stated.delta:g}, "
            "whatever the sensitivity."
        )


def _worked(claim: Claim, stated: _Stated) -> str:
    """The two-dimensional counterexample in words."""
    example = counterexample(claim.clip_norm)
    epsilon = 1.0 if stated.epsilon is None else stated.epsilon
    return (
        "By hand: n = 2, (2C/3, 2C/3) and its negative pass the clipping unchanged and are 8C/3 = "
        f"{example.distance:.4g} apart; a run meant for epsilon = {epsilon:g} had {example.privacy_loss(epsilon):.4g}."
    )


def _verdict(claims: Sequence[Claim]) -> str:
    worst = max(claims, key=lambda claim: claim.factor)
    wrong = [claim for claim in claims if claim.refuted]
    if not wrong:
        return "Not refuted: the claim is at least the sensitivity, for every pair of vectors."
    if math.isinf(worst.factor):
        return "Refuted: without clipping there is no bound at all."
    if len(claims) == 1:
        return f"Refuted: the sensitivity is {worst.factor:.4g} times the claimed one."
    return (
        f"Refuted for {len(wrong)} of {len(claims)} values of n: the sensitivity is up to {worst.factor:.4g} times the "
        f"claimed one (n = {worst.dim})."
    )


# ------------------------------------------------------------------ real vectors


def _latents(
    claim: Claim, vectors: Vectors, stated: _Stated, *, pairs: int | None, seed: int | None, as_json: bool
) -> int:
    most = 2_000_000 if pairs is None else pairs
    share = violating_pairs(vectors, claim, max_pairs=most, seed=0 if seed is None else seed)
    rows = int(vectors.shape[0])
    lost = rows - int(np.count_nonzero(np.isfinite(vectors).all(axis=1)))
    if lost:
        print(f"{lost:,} of {rows:,} latents are not finite: clipping makes them zero.", file=sys.stderr)
    every = rows * (rows - 1) // 2
    refuted = claim.refuted or share.value > 0
    compared = min(every, most)
    if as_json:
        data: dict[str, Json] = {"latents": rows, "pairs": compared, "all_pairs": compared == every}
        found = {"violating": share.to_dict(), "refuted": refuted}
        print(json.dumps({"claim": _settings(claim), **data, **_analytic(claim, stated), **found}, indent=2))
        return int(refuted)
    print(f"Claim: {claim}. C = {claim.clip_norm:g}, n = {claim.dim}.\n")
    kinds = list(_true_epsilons(claim, stated))
    measured = _percent(share) if compared < every else f"{100 * share.value:.2f}"
    print(
        _aligned(
            [
                ["", "", "", *["true epsilon"] * len(kinds), ""],
                ["latents", "sensitivity", "true/claimed", *(_column(kind, stated) for kind in kinds), "% violating"],
            ],
            [[f"{rows:,}", *_cells(claim, stated), measured]],
        )
    )
    how = f"all {every:,} pairs" if compared == every else f"{most:,} of {every:,} pairs, drawn at random"
    print(f"\nCompared: {how}.\n{_verdict([claim])}")
    _explain([claim], stated)
    return int(refuted)


# ------------------------------------------------------------------ what variances mean


def _variances(first: Claim, clip_norms: Sequence[float], dims: Sequence[int], delta: float, *, as_json: bool) -> int:
    table = variance_table(clip_norms, dims=dims, clipped=first.clipped, delta=delta)
    claims = [replace(first, dim=dim) for dim in dims]
    refuted = any(claim.refuted for claim in claims)
    if as_json:
        rows = [
            {
                "clip_norm": row.clip_norm,
                "variance": row.variance,
                "scale": row.scale,
                "claimed_epsilon": row.claimed_epsilon,
                "true_epsilon": {str(n): _number(e) for n, e in zip(row.dims, row.true_epsilons, strict=True)},
                "classical_gaussian_epsilon": row.classical_epsilon,
                "gaussian_epsilon": _number(row.gaussian_epsilon),
                "rho": _number(row.rho),
            }
            for row in table
        ]
        print(json.dumps({"claim": _settings(first), "delta": delta, "rows": rows, "refuted": refuted}, indent=2))
        return int(refuted)
    print(f"What the variance of the noise on each coordinate means; Gaussian epsilons at delta = {delta:g}.\n")
    second_line = ["C", "variance", "b", "claimed", *(f"n={dim}" for dim in dims), "analytic", "classical", "rho"]
    first_line = ["", "", "Laplace", "epsilon", "true epsilon", *[""] * (len(dims) - 1), "Gaussian", "formula", "zCDP"]
    print(_aligned([first_line, second_line], [_variance_cells(row) for row in table]))
    print(f"\nClaim: {first}.\n{_verdict(claims)}")
    return int(refuted)


def _variance_cells(row: VarianceRow) -> list[str]:
    return [
        f"{row.clip_norm:g}",
        f"{row.variance:g}",
        f"{row.scale:.3f}",
        f"{row.claimed_epsilon:.2f}",
        *(f"{epsilon:.3g}" if epsilon < 1000 else f"{epsilon:.0f}" for epsilon in row.true_epsilons),
        f"{row.gaussian_epsilon:.2f}",
        f"{row.classical_epsilon:.2f}",
        f"{row.rho:.2f}",
    ]


# ------------------------------------------------------------------ words and numbers


def _true_epsilons(claim: Claim, stated: _Stated) -> dict[str, float]:
    """What runs meant for the stated epsilon had, by kind of noise."""
    if stated.epsilon is None:
        return {}
    if claim.measured is Norm.L1:
        return {"laplace": claim.true_epsilon(stated.epsilon)}
    return {
        "l2_laplace": claim.true_epsilon(stated.epsilon),
        "classical_gaussian": true_gaussian_epsilon(claim, stated.epsilon, delta=stated.delta),
    }


def _column(kind: str, stated: _Stated) -> str:
    return f"{kind.replace('_', ' ')} for {stated.epsilon:g}"


def _cells(claim: Claim, stated: _Stated) -> list[str]:
    numbers = (claim.sensitivity, claim.factor, *_true_epsilons(claim, stated).values())
    return [f"{number:.4g}" for number in numbers]


def _settings(claim: Claim) -> dict[str, Json]:
    return {
        "clip": "none" if claim.clipped is None else claim.clipped.value,
        "norm": claim.measured.value,
        "clip_norm": claim.clip_norm,
        "claimed": claim.claimed,
    }


def _analytic(claim: Claim, stated: _Stated) -> dict[str, Json]:
    epsilons = _true_epsilons(claim, stated)
    data: dict[str, Json] = {
        "dim": claim.dim,
        "sensitivity": _number(claim.sensitivity),
        "factor": _number(claim.factor),
        "sensitivity_refutes": claim.refuted,
    }
    if epsilons:
        data["claimed_epsilon"] = stated.epsilon
        data["delta"] = stated.delta if claim.measured is Norm.L2 else 0.0
        data["true_epsilon"] = {name: _number(value) for name, value in epsilons.items()}
    return data


def _number(value: float) -> float | str:
    return str(value) if math.isinf(value) else value  # JSON has no infinity


def _percent(share: Estimate) -> str:
    low, high = math.floor(1e4 * share.low) / 100, math.ceil(1e4 * share.high) / 100  # outwards, as the ends are
    return f"{100 * share.value:.2f} [{low:.2f}, {high:.2f}]"


def _aligned(head: list[list[str]], rows: list[list[str]]) -> str:
    """Columns to the right, as wide as they need: a table that wraps at 80 columns cannot be read from a pipe."""
    widths = [max(len(row[i]) for row in [*head, *rows]) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [*head, *rows]]
    lines.insert(len(head), "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal, a line every ten seconds elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("drawing"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=bars()) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines() -> Callable[[int, int], None]:
    began = last = time.monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LINE_EVERY_SECONDS:
            last = now
            print(f"{done / total:.0%}, {now - began:.0f} s", file=sys.stderr)

    return advance
