"""The contract that every synthesis must keep, as one function for the tests of third parties::

    for spec in MySynthesis.tiny():
        check_synthesis(spec.fit(public=...))

A run is a chain of noisy sums. Runs on two corpora are compared, with the noisy sums of the first replayed in the
second: between neighbours every sum may differ by its sensitivity at most, and nothing else may differ at all. An
output that follows private records in another way (by an exact count, a choice, a length) shows if the corpora differ
in that way: so the corpora are neighbours, and some corpora that have next to nothing in common.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from dptext.errors import DataError
from dptext.mechanism import Answers, settings
from dptext.privacy.guarantee import Relation, Trust
from dptext.runs.private import Private
from dptext.sampling.hub import UNIT_STEPS
from dptext.sampling.randomness import secure, seeded
from dptext.synthesis.measured import MeasuredSpec
from dptext.synthesis.spec import CorpusSpec, Fitted
from dptext.synthesis.sums import STEPS, Draws, Noise, PrivateSum
from dptext.testing.case import ContractError, require, run_checks
from dptext.testing.corpus_case import CANARY, CorpusCase, ObservedRun, Round
from dptext.text.files import create_private
from dptext.text.records import Fields, Record
from dptext.text.samples import sample_records
from dptext.types import Floats

_NOISES: Final = 12  # runs whose noise is measured: one on all records, the others on few
_FEW: Final = 16  # records of these others: noise does not depend on how many there are
_DRAWS: Final = 5_000  # draws of each sum's noise, at least: they show a tenth more or less noise
_DEVIATIONS: Final = 5.0  # of an estimated variance that chance explains
_BY_CHANCE: Final = 1e-9  # of a sum, that even noise seems uneven


def _reach(noise: Noise, relation: Relation) -> float:
    """Return how far a unit may move a sum, in steps."""
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return STEPS
    return (math.sqrt(2) if noise.relation is Relation.REPLACE_ONE else 2) * STEPS


def check_statement(case: CorpusCase) -> None:
    """The guarantee is central, follows from the settings, not from the corpus; what leaves is what the traits say."""
    spec = case.fitted.spec
    before, given = spec.guarantee(), settings(spec)
    found = case.run(case.records[: len(case.records) // 2]).found
    after = case.fitted.spec
    same = (after.guarantee(), settings(after)) == (before, given)
    require(same, "a guarantee and settings do not follow the corpus")
    require(spec.traits.answers is Answers.CORPUS, "the traits say that the synthesis answers the corpus")
    require(before.trust is Trust.CENTRAL, "trust is central: the party that sums up a corpus sees its records")
    stated = before.epsilon <= spec.epsilon and before.delta == spec.delta
    require(stated, "epsilon and delta are those of the settings")
    traits, allowed = spec.traits, set[str | None](spec.traits.labels) or {None}
    require(len(found.labels) == len(found.texts), "each text has a label, or None")
    require(traits.releases_text or not found.texts, "texts leave only if the traits say so")
    require(allowed.issuperset(found.labels), "labels that leave are the public ones, or None without labels")


def check_neighbours(case: CorpusCase) -> None:
    """Adding, removing or replacing a unit moves each sum by its sensitivity at most; records move nothing but sums."""
    first = case.run(case.records)
    require(bool(first.rounds), "a run has at least one noisy sum (PrivateSum), which its release follows")
    for what, relation, records in case.neighbours:
        second = case.run(records, replay=first)
        require(len(first.rounds) == len(second.rounds), f"the number of sums is public ({what})")
        for one, two in zip(first.rounds, second.rounds, strict=True):
            require(one.noise == two.noise and len(one.clean) == len(two.clean), f"noise and cells are public ({what})")
            moved = math.sqrt(sum(int(step) ** 2 for step in one.clean - two.clean))
            require(moved <= _reach(one.noise, relation), f"a sum moves by its sensitivity at most ({what})")
        _check_choices(case.fitted.spec, first, second, relation, what)
        _require_same_release(first, second, what)
    for what, records in case.others:
        _require_same_release(first, case.run(records, replay=first), what)


def _require_same_release(first: ObservedRun, second: ObservedRun, what: str) -> None:
    require(first.found == second.found, f"the release follows the noisy sums alone ({what})")
    require(first.told == second.told, f"nothing that is printed or logged follows the corpus ({what})")


def _check_choices(spec: CorpusSpec, first: ObservedRun, second: ObservedRun, relation: Relation, what: str) -> None:
    """One unit moves all choices together by no more than the rho that the sums leave."""
    require(len(first.choices) == len(second.choices), f"the number of choices is public ({what})")
    spent = 0.0
    for one, two in zip(first.choices, second.choices, strict=True):
        same = one.choice == two.choice and np.array_equal(one.public, two.public)
        require(same, f"the options of a choice follow public text and earlier choices alone ({what})")
        apart = (one.total - two.total) * (one.choice.reach / UNIT_STEPS)
        spent += float(np.sum((apart.max(axis=1) - apart.min(axis=1)) ** 2)) / 8
    farther = relation is Relation.REPLACE_ONE and spec.relation == "add_or_remove_one"
    left = (spec.rho - _spent(spec, first.rounds)) * (4 if farther else 1)
    require(spent <= left * (1 + 1e-9), f"a unit moves choices by their cost at most ({what})")


def _spent(spec: CorpusSpec, rounds: Sequence[Round]) -> float:
    relation, noises = Relation(spec.relation), [each.noise for each in rounds]
    return sum((_reach(each, relation) / each.sigma) ** 2 / 2 if each.sigma else math.inf for each in noises)


def check_nothing(case: CorpusCase) -> None:
    """The order of records, and records without text, with an unknown label or of nobody, change no sum."""
    first = case.run(case.records)
    for what, records, batch in (
        ("the order of records", case.records[::-1], 64),
        ("the size of batches", case.records, 7),
        ("a record that counts as none", (*case.nothing, *case.records), 64),
    ):
        _require_same(first, case.run(records, replay=first, batch=batch), what)
    case.run(())  # an empty corpus is a corpus like any other


def _require_same(first: ObservedRun, second: ObservedRun, what: str) -> None:
    for one, two in zip(first.rounds, second.rounds, strict=True):
        require(np.array_equal(one.clean, two.clean), f"{what} changes no sum")
    same = [np.array_equal(one.total, two.total) for one, two in zip(first.choices, second.choices, strict=True)]
    require(all(same), f"{what} changes no choice")
    require(first.told == second.told, f"{what} is not told")


def check_reading(case: CorpusCase) -> None:
    """Unreadable rows and lines of files change no sum and are not reported; a corpus may be empty."""
    spec, first = case.fitted.spec, case.run(case.records)
    label, author = "label" if spec.labels else None, "author" if spec.unit == "author" else None
    fields = Fields(label=label, author=author, measured=spec.measured_fields)
    rows = [{"text": each.text, "label": each.label, "author": each.author, **each.kept} for each in case.records]
    odd = [{**rows[0], "text": text} for text in (None, 3, f"{CANARY}\0", "\ud800")] + [{"label": rows[0]["label"]}]
    lines = [json.dumps(row) for row in (*odd, *rows)]
    with TemporaryDirectory() as folder:
        whole, empty = Path(folder, "whole.jsonl"), Path(folder, "empty.jsonl")
        for path, held in ((whole, "\n".join([*lines[:40], "{", *lines[40:], CANARY])), (empty, "")):
            with create_private(path) as file:
                file.write(held.encode())

        def read(source: Any) -> ObservedRun:
            return case.run(Private(source, fields, {}).kept().corpus, replay=first)

        try:
            for second in map(read, ([*odd, *rows, *odd], whole)):
                _require_same(first, second, "a record that cannot be read")
            same = all(first.found == second.found for second in map(read, ((), empty)))
            require(same, "with equal noisy sums a corpus without records gives the same release")
        except DataError:
            raise ContractError("a record that cannot be read, or none at all, ends no run") from None


def check_noise(case: CorpusCase) -> None:
    """Noise is whole steps, of the stated size in every cell, fresh in each run; the rhos add up to the guarantee's."""
    spec = case.fitted.spec
    corpora = [case.records, *[case.records[:_FEW]] * (_NOISES - 1)]
    runs = [case.run(records, randomness=secure()) for records in corpora]
    require(len({len(run.rounds[0].clean) for run in runs}) == 1, "noise and cells are public")
    for rounds in zip(*(run.rounds for run in runs), strict=False):
        noise = rounds[0].noise
        require(len({own.noise for own in rounds}) == 1, "noise and cells are public")
        drawn = np.concatenate([own.noisy - own.clean for own in rounds])
        cells = min(len(own.clean) for own in rounds)  # released numbers may decide how many cells a later round has
        each = np.array([(own.noisy - own.clean)[:cells] for own in rounds])
        require(np.array_equal(drawn, np.rint(drawn)), "noise is whole steps: no float is added to a sum")
        require(_is_even(each / noise.sigma), "every part of a sum has as much noise")
        require(_is_even(each.T / noise.sigma), "every run has as much noise, of many records and of few")
        more = PrivateSum(max(1, _DRAWS - len(drawn)), noise).release(Draws(secure())) * STEPS
        drawn = np.concatenate([drawn, more])
        variance = float(np.mean(drawn**2)) / noise.sigma**2
        require(abs(variance - 1) <= _DEVIATIONS * math.sqrt(2 / len(drawn)), "a sum has one Gaussian's worth of noise")
    within = _spent(spec, runs[0].rounds) <= spec.rho * (1 + 1e-9)
    require(within, "the rhos of all sums add up to that of the guarantee")
    require(len({run.rounds[0].noisy.tobytes() for run in runs}) == len(runs), "every run draws fresh noise")


def _is_even(drawn: Floats) -> bool:
    """Return whether noise `(runs, cells)` of variance 1 has that variance in every part of the cells; or transposed.

    Parts are runs of 1, 2, 4, ... neighbouring cells: noise that one block of a sum lacks hardly moves the variance
    of all cells. By chance a part falls outside once in 10^9 sums.
    """
    from scipy.stats import chi2  # noqa: PLC0415 (slow to load)

    runs, cells = drawn.shape
    summed = np.concatenate([[0.0], np.cumsum(np.square(drawn).sum(axis=0))])
    widths = [1 << k for k in range(cells.bit_length()) if 1 << k <= cells]
    chance = _BY_CHANCE / (2 * sum(cells - width + 1 for width in widths))
    for width in widths:
        parts = summed[width:] - summed[:-width]
        if parts.min() < chi2.ppf(chance, runs * width) or parts.max() > chi2.isf(chance, runs * width):
            return False
    return True


def check_silence(case: CorpusCase) -> None:
    """No private text, label or author is released, printed, logged, or shown; nothing is written, by any code."""
    canaries = [
        Record(f"{CANARY}{i}", f"{record.text} {CANARY}", label=record.label, author=f"{CANARY} {i % 3}")
        for i, record in enumerate(case.records)
    ]
    run = case.run([*canaries, *case.nothing])
    data = run.found.data.decode("latin-1")
    shown = [repr(run.found), data, run.told, repr(case.fitted), repr(case.fitted.spec), *map(str, case.fitted.digests)]
    require(not any(CANARY in each.lower() for each in shown), "no private text, label or author shows")
    require(not run.written, "no file is written, and nothing sent: no sum without noise ever lies on a disk")


#: Every check by name, in the order in which they run.
CORPUS_CHECKS: Final[dict[str, Callable[[CorpusCase], None]]] = {
    check.__name__.removeprefix("check_"): check
    for check in (check_statement, check_neighbours, check_nothing, check_reading, check_noise, check_silence)
}


def _sampled(spec: CorpusSpec) -> list[Record]:
    """Return built-in records; those of a table have values in each of its columns."""
    records = sample_records(120, seed=1)
    if not isinstance(spec, MeasuredSpec) or not spec.columns:
        return records
    own = {each.name: each.values(np.arange(len(records)) % len(each), seeded(0)) for each in spec.axes.columns}
    return [replace(record, kept={name: values[i] for name, values in own.items()}) for i, record in enumerate(records)]


def check_synthesis(
    fitted: Fitted, records: Sequence[Record] = (), *, seed: int = 0, checks: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Raise ContractError unless the synthesis, which has its pool, keeps the contract.

    `records` are a private corpus with labels and authors that the settings know, 120 sample records by default. `seed`
    is of the runs that are compared. `checks` are names of `CORPUS_CHECKS`, all by default; the names of the checks
    that ran are returned. ContractError: the synthesis breaks the named part of the contract. ConfigError: an unknown
    name of a check.
    """
    return run_checks(CORPUS_CHECKS, CorpusCase(fitted, tuple(records or _sampled(fitted.spec)), seed), checks)
