"""The contract that every mechanism must keep, as one function that third parties can call in their tests::

    for spec in MySpec.tiny():
        check_mechanism(spec.fit(public=...))

Every check is a function of its own (`CHECKS`), and each is shown to fail on a fault planted for it. The contract
cannot show that a mechanism is private; its last check attacks the stated guarantee with the audits.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import secrets
import string
import tempfile
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np

from dptext import audits
from dptext.audits.trials.enumeration import enumerable
from dptext.audits.trials.thresholds import separation
from dptext.errors import ConfigError, DPTextError
from dptext.mechanism import HasDistribution, HasLatent, HasMetric, Mechanism, compared, output_fault, seen, settings
from dptext.privacy import accounting
from dptext.privacy.events import event_from_dict, event_to_dict
from dptext.privacy.guarantee import Basis, Guarantee
from dptext.sampling.randomness import secure, seeded
from dptext.testing.shapes import left_behind, told_by_shapes
from dptext.text.records import Record, Release
from dptext.types import Floats

_LONG = 10_000
_COPIES = 32
_FUNCTION_WORDS = ("of", "and", "is", "was", "with", "the", "to", "in", "it", "that", "a", ".", ",")
_TRIALS = 2_000
_FEW = 400
_SURE = 1 - 1e-5  # a sound mechanism fails a statistical check less than once in 10,000 runs of the contract
_REACHABLE = 200_000


class ContractError(DPTextError, AssertionError):
    """A mechanism breaks the contract; the message says which part."""


def _require(condition: bool, broken: str) -> None:
    if not condition:
        raise ContractError(broken)


def _new_canaries() -> tuple[str, ...]:
    """Private texts in several scripts that nothing draws by chance: letters, digits, ideographs, emoji.

    Of one kind of character each.
    """
    ranges = ("0123456789", [chr(c) for c in range(0x20000, 0x20400)], [chr(c) for c in range(0x1F300, 0x1F5FF)])
    return _new_canary(), *("".join(secrets.choice(letters) for _ in range(16)) for letters in ranges)


def _new_canary() -> str:
    """A word that no vocabulary has and no mechanism can draw: of letters only, so that no tokenizer splits it."""
    return "zq" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(14))


@dataclass(frozen=True, slots=True)
class Case:
    """What a check is given.

    Attributes:
        mechanism: the mechanism on trial.
        records: records of the caller.
        words: known words of its vocabulary, at least two.
        seed: of the seeded runs.
        canary: a word that stands for private text.
        others: the same in digits, ideographs and emoji.
    """

    mechanism: Mechanism[str]
    records: tuple[Record, ...] = field(repr=False)
    words: tuple[str, ...]
    seed: int
    canary: str = field(default_factory=_new_canary, repr=False)
    others: tuple[str, ...] = field(default_factory=_new_canaries, repr=False)

    @property
    def odd(self) -> list[Record]:
        """Records that break what was not built for them."""
        word, canary = self.words[0], self.canary
        texts = (
            "",
            " \n\t ",
            canary,
            f"{canary} {canary}\n{canary.upper()} {word}",
            f"{word} {canary}, {canary.capitalize()}!",
            "\u00e9\u4e16\u754c \U0001f600 a\u0301 \u202e",
            "\u0645\u0631\u062d\u0628\u0627 \u043f\u0440\u0438\u0432\u0435\u0442",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 3,
            "a" * 5000,
            "!?" * 200,
            f"{word} " * _LONG + canary,
            *(f"{word} {other}" for other in self.others),
            f"{word}\r\n{word}\x0b{word}\x00",
            "The same text.",
            "The same text.",
        )
        # Labels and authors that no training saw.
        return [Record(f"odd{i}", text, label=canary, author=canary) for i, text in enumerate(texts)]

    @property
    def batch(self) -> list[Record]:
        """Odd records, then the caller's, then plain ones."""
        plain = [Record(f"plain{i}", f"{word} {self.words[0]}") for i, word in enumerate(self.words)]
        return [*self.odd, *self.records, *plain]

    def leaks(self, text: str) -> bool:
        """Whether a canary shows, in any case."""
        lowered = "".join(text.lower().split())  # a tokenizer may have put spaces between emoji or ideographs
        return self.canary in lowered or any(other in lowered for other in self.others)


def check_mechanism(
    mechanism: Mechanism[str],
    records: Sequence[Record] = (),
    *,
    words: Sequence[str] = ("good", "bad", "the", "paris"),
    seed: int = 0,
    checks: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Raise ContractError unless the mechanism keeps the contract, on the given records and on odd ones.

    Args:
        mechanism: at an epsilon where audits have power, about 1 to 3 between the inputs that they compare.
        records: some records of the caller's own.
        words: words that the mechanism knows; audits make neighbours of them.
        seed: of the runs that must repeat themselves.
        checks: names of `CHECKS`; all by default.

    Returns:
        The names of the checks that ran.

    Raises:
        ContractError: the mechanism breaks a part of the contract, which is named.
        ConfigError: a name that is no check.
        MissingExtraError: scikit-learn, which the audit needs, is absent.
    """
    names = tuple(CHECKS) if checks is None else tuple(checks)
    if unknown := [name for name in names if name not in CHECKS]:
        raise ConfigError(f"Expected checks among {', '.join(CHECKS)}, found {', '.join(unknown)}.")
    case = Case(mechanism, tuple(records), tuple(words), seed)
    for name in names:
        CHECKS[name](case)
    return names


# ------------------------------------------------------------------------------- settings and statements


def _check_settings(case: Case) -> None:
    """The spec is a frozen dataclass of JSON-able settings, with tiny ones to try."""
    spec = case.mechanism.spec
    _require(is_dataclass(spec), "the spec is a dataclass")
    values = settings(spec)
    _require(json.loads(json.dumps(values)) == values, "the settings survive JSON")
    _require(values.get("output", "text") in ("text", "embedding", "both"), "`output` says what is released")
    first = fields(spec)[0].name  # type: ignore[arg-type]  # is_dataclass was required above
    try:
        setattr(spec, first, getattr(spec, first))
    except (FrozenInstanceError, AttributeError):
        pass
    else:
        raise ContractError("the spec is frozen")
    tiny = type(spec).tiny()
    _require(bool(tiny) and all(type(small) is type(spec) for small in tiny), "the spec has tiny settings")
    _require(all(len(digest) == 64 for digest in case.mechanism.digests.values()), "digests are sha256 in hex")


def _check_statements(case: Case) -> None:
    """Events and guarantee survive JSON and explain themselves; calibrate never overshoots."""
    spec = case.mechanism.spec
    _require(bool(spec.units), "the spec speaks of at least one unit")
    for event in spec.events(spec.units[0]):
        written = json.loads(json.dumps(event_to_dict(event)))
        _require(event_from_dict(written) == event, "every event survives JSON")
    for unit in spec.units:
        guarantee = spec.guarantee(unit)
        _require(guarantee.unit is unit, "the guarantee speaks of the unit that was asked for")
        _require(Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee, "guarantee in JSON")
        _require(bool(guarantee.explain()), "the guarantee explains itself")
        derived = accounting.guarantee(
            spec.events(unit),
            guarantee.delta,
            unit=unit,
            basis=guarantee.basis,
            relation=guarantee.relation,
            trust=guarantee.trust,
        )
        same = (derived.epsilon, derived.metric) == (guarantee.epsilon, guarantee.metric)
        _require(same, "the guarantee follows from the events of its unit")  # what a ledger adds up
        if guarantee.basis is not Basis.NONE:
            half = spec.calibrate(guarantee.epsilon / 2, unit=unit)
            _require(half.guarantee(unit).epsilon <= guarantee.epsilon / 2, "calibrate never overshoots")


def _check_event(case: Case) -> None:
    """Neither the events nor the guarantee depend on the text."""
    mechanism = case.mechanism
    before = _stated(mechanism)
    for record in case.batch:
        mechanism.privatize([record], seeded(case.seed))
        _require(_stated(mechanism) == before, "events, settings, digests and guarantee do not depend on the text")


def _stated(mechanism: Mechanism[str]) -> tuple[object, ...]:
    spec = mechanism.spec
    said = [(spec.events(unit), spec.guarantee(unit)) for unit in spec.units]
    return settings(spec), dict(mechanism.digests), said


def _check_frozen(case: Case) -> None:
    """No attribute of a fitted mechanism can be assigned or deleted: it states what was fitted."""
    mechanism, given = case.mechanism, case.mechanism.digests
    before = _stated(mechanism)
    own = {name for name in dir(mechanism) if not name.startswith("__")}
    for name in sorted(own | {"spec", "digests", "__class__"}):
        value = _planted(mechanism, name)
        _require(_refuses(setattr, mechanism, name, value), f"a fitted mechanism is frozen: {name} was assigned")
        _require(_refuses(delattr, mechanism, name), f"a fitted mechanism is frozen: {name} was deleted")
    if isinstance(given, MutableMapping):
        given["planted"] = "0" * 64
    _require(_stated(mechanism) == before, "digests that were read cannot change what a mechanism states")


def _planted(mechanism: Mechanism[str], name: str) -> object:
    """A value of the right type: of the spec one at another epsilon, where there is one, of all else its own."""
    found: object = None
    with contextlib.suppress(DPTextError, TypeError, AttributeError):  # no such value, or none at these settings
        found = getattr(mechanism, name)
        if name == "spec":
            found = replace(found, epsilon=2 * found.epsilon)  # type: ignore[type-var,attr-defined]
    return found


def _refuses(change: Callable[..., None], *given: object) -> bool:
    try:
        change(*given)
    except AttributeError:  # FrozenInstanceError is one
        return True
    return False


# ------------------------------------------------------------------------------------- one release a record


def _check_order(case: Case) -> None:
    """One release a record, with its id, in order, of what the spec promises; an empty batch gives none."""
    released = list(case.mechanism.privatize(case.batch, secure()))
    _require([r.id for r in released] == [r.id for r in case.batch], "one release a record, with its id, in order")
    _require(all(isinstance(release, Release) for release in released), "every answer is a Release")
    _require(list(case.mechanism.privatize([], secure())) == [], "an empty batch gives no releases")
    fault = output_fault(case.mechanism.spec, released)
    _require(fault is None, f"every release holds what the spec promises: {fault}")
    vectors = [release.vector for release in released if release.vector is not None]
    _require(len(set(map(len, vectors))) < 2, "all vectors have one length")
    _require(bool(np.isfinite(vectors).all()), "every vector is finite")


def _check_batches(case: Case) -> None:
    """With a seeded stream a record's output depends on its position and the seed alone, not on the batch."""
    mechanism, batch, seed = case.mechanism, case.batch, case.seed
    released = list(mechanism.privatize(batch, seeded(seed)))
    for i in sorted({0, 1, len(batch) // 2, len(batch) - 1}):
        alone = mechanism.privatize([batch[i]], seeded(seed).at(i))[0]
        _require(_same(alone, released[i]), f"record {i} alone gives what it gives in the batch")
    for size in (1, 3, len(batch) // 2):
        pieces: list[Release[str]] = []
        for start in range(0, len(batch), size):
            pieces += mechanism.privatize(batch[start : start + size], seeded(seed).at(start))
        _require(all(map(_same, pieces, released)), f"batches of {size} give what one batch gives")


def _same(left: Release[str], right: Release[str]) -> bool:
    return left.id == right.id and seen(left) == seen(right) and left.label == right.label


def _check_distribution(case: Case) -> None:
    """Under real randomness a record has one output distribution: alone, among others, at any position."""
    mechanism, source = case.mechanism, secure()
    record = Record("0", f"{case.words[0]} {case.words[1]}")
    alone = compared([mechanism.privatize([record], source)[0] for _ in range(_FEW)])
    others = [*(r for r in case.odd if len(r.text) < 30), *([Record("1", case.words[1])] * 4)]
    within, first, last = [], [], []
    for i in range(_FEW):
        place = i % (len(others) + 1)
        released = mechanism.privatize([*others[:place], record, *others[place:]], source)
        within.append(released[place])
        pair = mechanism.privatize([record, record], source)
        first.append(pair[0])
        last.append(pair[1])
    for where, found in {"among others": within, "as the first": first, "as the last": last}.items():
        apart = separation(alone, compared(found), confidence=_SURE)
        _require(apart == 0, f"a record's distribution is the same {where} as alone")
    apart = separation(_paired(first, last), _paired(first, [*last[1:], last[0]]), confidence=_SURE)
    _require(apart == 0, "the records of a batch are drawn independently")


def _paired(first: Sequence[Release[str]], last: Sequence[Release[str]]) -> list[str] | Floats:
    one, other = compared(first), compared(last)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.hstack([one, other, one - other])  # noise that is shared shows in the differences alone
    return [f"{a} {b}" for a, b in zip(one, other, strict=True)]


def _check_fresh(case: Case) -> None:
    """Secure runs do not repeat themselves, and what never varies does not depend on the text."""
    text = " ".join(case.words * 3)
    batch = [Record(str(i), text) for i in range(_COPIES)]
    outputs = [seen(release) for release in case.mechanism.privatize(batch, secure())]
    again = [seen(release) for release in case.mechanism.privatize(batch, secure())]
    if len({*outputs, *again}) > 1:
        _require(outputs != again, "two secure runs draw different noise")
    elif case.mechanism.spec.guarantee().basis is not Basis.NONE:
        other = case.mechanism.privatize([Record("0", " ".join(case.words[::-1] * 3))], secure())[0]
        _require(seen(other) == outputs[0], "an output that never varies does not depend on the text")


# ------------------------------------------------------------------------------------------------- silence


def _check_verbatim(case: Case) -> None:
    """No fallback: unknown words, odd texts and labels out of range are answered, and never come back.

    Words may where the spec says that it keeps them, and then nothing pure is stated.
    """
    claim, kept = case.mechanism.spec.guarantee(), getattr(case.mechanism.spec, "keeps_words", False)
    _require(not kept or claim.basis is Basis.NONE or claim.delta > 0, "what keeps words states no pure epsilon")
    for record in case.odd:
        for release in case.mechanism.privatize([record] * (1 if len(record.text) > 1000 else 20), secure()):
            _require(kept or not case.leaks(release.output), "an unknown word never comes back")
            _require(release.label is None or not case.leaks(str(release.label)), "a private label never comes back")
    if claim.basis is not Basis.NONE:
        record = Record("0", " ".join(_FUNCTION_WORDS))
        outputs = [release.output.split() for release in case.mechanism.privatize([record] * _COPIES * 4, secure())]
        for i, word in enumerate(_FUNCTION_WORDS):
            _require(any(output[i : i + 1] != [word] for output in outputs), "no word is copied every time")


def _check_silence(case: Case) -> None:
    """No private text in what is printed, logged, warned, raised, shown by repr, or kept."""
    canary, mechanism = case.canary, case.mechanism
    broken = [Record("0", f"{canary} \ud800"), Record("1", canary, label="\ud800" + canary)]
    with _listening() as heard:
        mechanism.privatize(case.odd, secure())
        for record in broken:
            try:
                mechanism.privatize([record], secure())
            except Exception as error:  # noqa: BLE001  # whatever it is, it must not hold the text
                told = "".join(traceback.format_exception(error, limit=0))
                _require(not case.leaks(told + _arguments(error)), "no private text in an error")
        mechanism.spec.guarantee().explain()
    _require(not case.leaks(heard()), "no private text is printed, logged or warned about")
    _require(not case.leaks(repr(mechanism) + str(mechanism) + repr(mechanism.spec)), "no text shows in any repr")
    _require(not any(case.leaks(text) for text in _strings_held_by(mechanism)), "no private text is kept")


def _arguments(error: BaseException) -> str:
    """What an error and those behind it carry, also where they do not print it: a UnicodeError keeps the whole text."""
    told = ""
    behind: BaseException | None = error
    while behind is not None:
        told += repr(behind.args)
        behind = behind.__cause__ or behind.__context__
    return told


@contextlib.contextmanager
def _listening() -> Iterator[Callable[[], str]]:
    """Collect what is printed, logged and warned."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    caught: list[warnings.WarningMessage] = []
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield lambda: stream.getvalue() + "".join(str(warning.message) for warning in caught)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _strings_held_by(thing: object) -> Iterator[str]:
    """Texts that can be reached from an object's own data."""
    seen: set[int] = set()
    on_classes = [vars(kind) for kind in type(thing).__mro__ if kind.__module__ != "builtins"]
    waiting: deque[object] = deque(
        [thing, *(value for names in on_classes for value in names.values())]
    )  # what is near comes first, should there be more than can be looked at
    skipped = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
    while waiting and len(seen) < _REACHABLE:
        found = waiting.popleft()
        if id(found) in seen or isinstance(found, skipped):
            continue
        seen.add(id(found))
        if isinstance(found, str):
            yield found
        elif isinstance(found, bytes | bytearray):
            yield found.decode("utf-8", "replace")
        elif isinstance(found, np.ndarray):
            if found.dtype.kind in "USO":
                waiting += found.ravel().tolist()
        else:
            waiting += gc.get_referents(found)
            if isinstance(found, dict):
                waiting += found  # its keys: those that are texts are no referents to the collector


def _check_files(case: Case) -> None:
    """From file to file: no private text in the output or its certificate, and nothing else is left behind."""
    texts = [record.text for record in case.odd if "\x00" not in record.text]
    broken = left_behind(case.mechanism, texts, case.leaks)
    _require(broken is None, str(broken))


def _check_shapes(case: Case) -> None:
    """Files of every format, marks and states of resuming do not tell how long private texts are."""
    broken = told_by_shapes(case.mechanism, case.words[0])
    _require(broken is None, str(broken))


# ------------------------------------------------------------------------------------------ models, audits


def _check_model(case: Case) -> None:
    """A fitted model that is saved and loaded gives the same outputs, and what is saved holds no private text."""
    mechanism = case.mechanism
    mechanism.privatize(case.odd, secure())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mechanism.save(folder)
        for path in folder.rglob("*"):
            if path.is_file():
                _require(not case.leaks(path.read_bytes().decode("utf-8", "replace")), "no private text in a model")
        loaded = mechanism.spec.load(folder)
    _require(settings(loaded.spec) == settings(mechanism.spec), "a loaded model has the same settings")
    _require(dict(loaded.digests) == dict(mechanism.digests), "a loaded model has the same digests")
    outputs = mechanism.privatize(case.batch, seeded(case.seed))
    _require(
        all(map(_same, loaded.privatize(case.batch, seeded(case.seed)), outputs)),
        "a loaded model gives the same outputs",
    )


def _check_guarantee(case: Case) -> None:
    """The stated guarantees survive the audits: counting, and where they can be read, densities and distributions."""
    mechanism, spec = case.mechanism, case.mechanism.spec
    for unit in spec.units:
        claim = spec.guarantee(unit)
        if claim.basis is Basis.NONE:
            continue  # nothing is stated
        pairs = audits.worst_pairs(
            unit,
            claim.relation,
            claim.reveals,
            words=case.words,
            max_tokens=int(getattr(spec, "max_tokens", None) or 50),
        )
        _require(bool(pairs), "there are neighbours to try")
        if claim.metric is not None:
            _require(isinstance(mechanism, HasMetric), "a mechanism with a metric knows the distance of two records")
        report = audits.distinguish(mechanism, pairs=pairs, claim=claim, trials=_TRIALS, confidence=_SURE)
        _require(not report.refutes(claim), f"the guarantee per {unit} survives distinguish")
        if isinstance(mechanism, HasLatent):
            report = audits.whitebox(mechanism, pairs=pairs, claim=claim, trials=4 * _TRIALS, confidence=_SURE)
            _require(not report.refutes(claim), f"the guarantee per {unit} survives whitebox")
        if isinstance(mechanism, HasDistribution):
            listed = [pair for pair in pairs if enumerable(mechanism, pair)]
            _require(bool(listed), "the outputs of short texts can be enumerated")
            report = audits.exact(mechanism, pairs=listed, claim=claim, trials=4 * _TRIALS)
            _require(not report.refutes(claim), f"the guarantee per {unit} survives enumeration")


#: Every check by name, in the order in which they run.
CHECKS: dict[str, Callable[[Case], None]] = {
    "settings": _check_settings,
    "statements": _check_statements,
    "order": _check_order,
    "batches": _check_batches,
    "distribution": _check_distribution,
    "fresh": _check_fresh,
    "event": _check_event,
    "frozen": _check_frozen,
    "verbatim": _check_verbatim,
    "silence": _check_silence,
    "files": _check_files,
    "shapes": _check_shapes,
    "model": _check_model,
    "guarantee": _check_guarantee,
}
