"""Faults of language models: a named trial for each fault, on a black box from text to text.

Each fault has inputs on which it shows, and a look: a function of the output that shows nothing but the fault. A look
is post-processing, so its findings count against any claim.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from dptext import _validate
from dptext.audits.report import Report
from dptext.audits.subjects import Outputs, Sampler, Subject, Value, claim_of, run, sample, unclaimed
from dptext.audits.trials.distinguishing import FEWEST_TRIALS, distinguish
from dptext.audits.trials.pairs import UNKNOWN, Pair, Trial, checked_pair
from dptext.errors import ConfigError, IncomparableError
from dptext.estimates import bonferroni, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.randomness import Randomness, secure
from dptext.types import Floats

#: The epsilon that an output states, if it is not the claim's.
Stated = Callable[[str], float]
_Look = Callable[[str, Pair], str | list[float]]

_ACTUAL_LENGTH: Final = "epsilon by actual length"
_FIXED_SEED: Final = "fixed seed"
_SEEN: Final = 60
_CALLS: Final = 400
_CALLS_TO_CHOOSE: Final = 2
_LEVELS: Final = 12
_INPUTS: Final = 48


def _copied(text: str, pair: Pair) -> str:
    """Return which of the two inputs has words of its own in the output."""
    one, other = ({word.casefold() for word in str(value).split()} for value in (pair.first, pair.second))
    found = text.casefold()
    return " ".join(str(any(word in found for word in own)) for own in (one - other, other - one))


def _equals(text: str, _: Pair) -> str:
    """Return which words, or characters of a single word, are equal: each becomes the index of its first occurrence."""
    parts = text.split() if len(text.split()) > 1 else list(text)
    return " ".join(str(parts.index(part)) for part in parts[:_SEEN])


def _faults(words: Sequence[str], longest: int) -> dict[str, tuple[_Look, list[tuple[str, str]]]]:
    a, b = words[:2]
    four, long = " ".join([a] * 4), " ".join([a] * longest)
    canary = UNKNOWN[::-1]
    plain = [(a, b), (four, " ".join([b] * 4))]
    sizes = [(a, long), ("", long), (a, four)]
    ends = [(f"{a} {b}.", f"{a} {b}"), ("", a), ("!", a), (a, b)]

    def whole(text: str, _: Pair) -> str:
        return text

    return {  # support: the words and characters of an output; unclipped: its first characters
        "support": (lambda text, _: " ".join([*sorted({*text.split()}), *sorted({*text[:_SEEN]})]), plain),
        "verbatim": (_copied, [(UNKNOWN, canary), (f"{a} {UNKNOWN} {b}", f"{a} {canary} {b}"), (a, words[-1])]),
        "one noise for all tokens": (_equals, [(four, " ".join([b, *[a] * 3])), (four, " ".join([a, b] * 2))]),
        "length": (lambda text, _: [len(text.split()), len(text)], sizes),
        "end of text": (lambda text, _: [not text.strip(), text.rstrip()[-1:] in (*".!?",), len(text)], ends),
        "first token": (lambda text, _: " ".join([*text.split()[:1], *text.lstrip()[:1]]), [*plain, ("", a)]),
        _ACTUAL_LENGTH: (whole, [*sizes, *ends]),
        _FIXED_SEED: (
            whole,
            [(a, word + more) for more in ("", *words[:3]) for word in (*words[1:], canary)][:_INPUTS],
        ),
        "unclipped": (
            lambda text, _: " ".join(text[:_SEEN].replace(" ", "_")),
            [("a" * longest, "z" * longest), ("!" * longest, "0" * longest), (long, canary)],
        ),
    }


#: The names of the faults.
WRITING_FAULTS: Final = tuple(_faults(("a", "b"), 1))


@dataclass(frozen=True, slots=True)
class _Looked(Sampler):
    """A subject behind the look of one trial; with `anew` each run is a separate call with random bits of its own."""

    subject: Subject
    look: _Look = field(repr=False)
    pair: Pair
    anew: bool = False

    def sample(self, value: Value, runs: int, randomness: Randomness, /) -> Sequence[str] | Floats:
        calls = [secure() for _ in range(runs)] if self.anew else [randomness]
        outputs = [output for bits in calls for output in run(self.subject, value, runs // len(calls), bits)]
        looked = [self.look(_text(each), self.pair) for each in outputs]
        texts = [each for each in looked if isinstance(each, str)]
        return texts if len(texts) == len(looked) else np.array(looked, np.float64)


def _text(output: object) -> str:
    if not isinstance(output, str):
        raise ConfigError("Expected a subject that gives texts.")
    return output


def audit_writing(
    subject: Subject,
    *,
    claim: Guarantee | None = None,
    stated: Stated | None = None,
    faults: Sequence[str] = WRITING_FAULTS,
    words: Sequence[str] = ("good", "bad", "paris", "the"),
    longest: int = 40,
    trials: int = 2_000,
    confidence: float = 0.95,
    randomness: Randomness | None = None,
) -> dict[str, Report]:
    """Try a mechanism that writes text for each fault of language models; return one report by the name of each fault.

    The subject is a mechanism or an adapter, from text to text (see `dptext.audits.subjects`); `claim` is by default
    its own claim. `stated` returns the epsilon that an output is said to have cost; without `stated` the fault "epsilon
    by actual length" is not tried. A fault of `WRITING_FAULTS` has no report if none of its inputs are neighbours under
    the claim. `words` are at least two words that the mechanism knows; the longest input has `longest` words, or
    characters. Each input of each pair gets `trials` runs; for "fixed seed" at most 400, each a separate call with new
    bits. `confidence` is of all bounds of all reports together. `randomness`, `randomness.secure()` by default, is
    handed to the subject. ConfigError: a setting out of its range, or a subject that does not give texts.
    """
    _validate.count(trials=trials, longest=longest)
    if trials < FEWEST_TRIALS or len(words) < 2 or not set(faults) <= set(WRITING_FAULTS):
        raise ConfigError(f"Expected {FEWEST_TRIALS} trials, two words, and names of faults in {WRITING_FAULTS}.")
    claim, bits = claim or claim_of(subject) or unclaimed(), randomness or secure()
    known = _faults(words, longest)
    tried = {name: _neighbours(subject, claim, name, known[name][1]) for name in dict.fromkeys(faults)}
    tried = {name: pairs for name, pairs in tried.items() if pairs and (stated or name != _ACTUAL_LENGTH)}
    if _FIXED_SEED in tried:
        tried[_FIXED_SEED] = [min(tried[_FIXED_SEED], key=lambda pair: _in_common(subject, pair))]
    # Each call of `distinguish` gets one pair, because it divides its error among its pairs; here every pair has a
    # bound.
    error = (1 - confidence) / max(1, sum(map(len, tried.values())))
    found: dict[str, Report] = {}

    def report(name: str, pair: Pair) -> Report:
        if name == _ACTUAL_LENGTH and stated is not None:
            trial = Trial.of(subject, None, None, [pair], claim, None, None, trials, bits)
            return _stated_too_low(trial, subject, stated, 1 - error)
        seen = _Looked(subject, known[name][0], pair, anew=name == _FIXED_SEED)
        runs = min(_CALLS, trials) if seen.anew else trials
        return distinguish(seen, pairs=[pair], claim=claim, trials=runs, confidence=1 - error, randomness=bits)

    for name, pairs in tried.items():
        reports = [report(name, pair) for pair in pairs]
        worst = max(reports, key=lambda each: (bool(each.defects), each.epsilon_lower_bound))
        found[name] = replace(worst, attack=name)
    return found


def _neighbours(subject: Subject, claim: Guarantee, name: str, inputs: Sequence[tuple[str, str]]) -> list[Pair]:
    found = []
    for first, second in inputs:
        with contextlib.suppress(IncomparableError):  # they are no neighbours
            found.append(checked_pair(subject, Pair(first, second, name), claim))
    return found


def _in_common(subject: Subject, pair: Pair) -> int:
    """Count equal outputs of a few calls on both inputs: a fixed seed shows on inputs whose outputs always differ."""
    seen = _Looked(subject, lambda text, _: text, pair, anew=True)
    one, other = (Counter(seen.sample(value, _CALLS_TO_CHOOSE, secure())) for value in (pair.first, pair.second))
    return (one & other).total()


def _stated_too_low(trial: Trial, subject: Subject, stated: Stated, confidence: float) -> Report:
    """Test whether the stated costs of outputs are large enough.

    Outputs that state at most e are an event. The event may be at most e^e times as likely on one input as on the
    other. The level e and the direction are chosen on half of the runs; the other half is counted.
    """
    [pair] = trial.pairs
    costs: list[Floats] = []
    for i, value in enumerate((pair.first, pair.second)):
        outputs: Outputs = sample(subject, value, trial.trials, trial.randomness, position=i * trial.trials)
        costs.append(np.array([stated(_text(each)) for each in outputs]))
    half, alpha = trial.trials // 2, bonferroni(confidence, 2)
    counted = trial.trials - half

    def excess(level: float, order: int, part: slice, n: int) -> tuple[float, int, int]:
        tp, fp = (int((cost[part] <= level).sum()) for cost in costs[::order])
        low, high = clopper_pearson_lower(tp, n, alpha=alpha), clopper_pearson_upper(fp, n, alpha=alpha)
        return (math.log(low / high) if low > 0 else -math.inf) - level, tp, fp

    levels = np.unique(np.concatenate([cost[:half] for cost in costs]))
    levels = levels[np.unique(np.linspace(0, len(levels) - 1, _LEVELS).astype(np.int64))]
    events = [(float(level), order) for level in levels for order in (1, -1)]
    level, order = max(events, key=lambda event: excess(event[0], event[1], slice(half), half))
    over, tp, fp = excess(level, order, slice(half, None), counted)
    found = f"outputs that state an epsilon of at most {level:.4g} show at least {over + level:.4g}"
    return trial.report(
        pair,
        0.0,
        attack=_ACTUAL_LENGTH,
        measures=f"share of outputs that state an epsilon of at most {level:.4g}; on the other input; on runs before",
        numbers=(
            clopper_pearson(tp, counted, confidence=confidence),
            clopper_pearson(fp, counted, confidence=confidence),
            clopper_pearson(excess(level, order, slice(half), half)[2], half, confidence=confidence),
        ),
        confidence=confidence,
        settings={"trials": trial.trials, "counted": counted, "confidence": confidence},
        defects=(found,) if over > 0 else (),
    )
