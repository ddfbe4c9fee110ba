"""Each check of the contract fails on the fault planted for it, and not on a sound mechanism."""

import importlib.util
import logging
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from dptext.audits.trials.distinguishing import separation
from dptext.errors import ConfigError, DPTextError, PrivacyError
from dptext.mechanism import FitProgress, Learns, Traits
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.runs import files, streaming
from dptext.runs.certificate import Certificate
from dptext.runs.states import FileState
from dptext.sampling.randomness import Randomness, seeded
from dptext.testing import CHECKS, ContractError, check_mechanism, silence_checks
from dptext.testing.release_checks import joined
from dptext.text.records import Record, Release
from dptext_lab.redaction.random import RandomRedaction, RandomRedactionMechanism
from vectored import VectorMechanism, VectorWords, vector_of
from vectors import WORDS

pytestmark = pytest.mark.usefixtures("draws")
#: Few, as every word of a text is compared with each of them.
N_WORDS = 40
KEPT: list[str] = []


@dataclass(frozen=True)
class Planted:
    """The word mechanism with one fault."""

    inner: object = field(repr=False)
    fault: str
    seen: ClassVar[dict[str, str]] = {}
    cache: dict[str, object] = field(default_factory=dict, repr=False)

    @property
    def last(self) -> str:
        return self.cache.get("last", "")

    @property
    def spec(self):
        match self.fault:
            case "overshoots":
                return Overshooting(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "no tiny settings":
                return Large(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "events of a token halved" | "events of a document halved":
                return Halved(
                    epsilon=1.0,
                    noise="tem",
                    vectors=self.inner.spec.vectors,
                    n_words=N_WORDS,
                    max_tokens=9 if "document" in self.fault else None,
                    diameter=90.0,
                )
            case "trains untold":
                return Untold(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "ignores epsilon":
                return Deaf(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "assumes nothing":
                return Unconditional(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "loads another":
                return LoadsAnother(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "loads nothing":
                return LoadsNothing(epsilon=1.0, vectors=self.inner.spec.vectors, n_words=N_WORDS)
            case "event from text":
                return replace(self.inner.spec, epsilon=self.inner.spec.epsilon + len(self.last) / 100)
            case "thawed spec":
                return make_dataclass("Thawed", ["epsilon", "kind"])(1.0, "thawed")
        return self.inner.spec

    @property
    def digests(self) -> Mapping[str, str]:
        match self.fault:
            case "short digest":
                return {"vectors": "short"}
            case "digests that are kept":
                return self.cache.setdefault("digests", dict(self.inner.digests))
        return self.inner.digests

    def __repr__(self) -> str:
        return f"Planted({self.last})" if self.fault == "repr" else "Planted(...)"

    def distance(self, first: Record, second: Record) -> float:
        return self.inner.distance(first, second)

    def output_distribution(self, record: Record) -> Mapping[str, float]:
        return self.inner.output_distribution(record)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)
        if self.fault == "saves text":
            (folder / "notes.txt").write_text(self.last, "utf-8")

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        if records and self.fault == "event from text":
            self.cache["last"] = records[-1].text
        text = " ".join(record.text[:200] for record in records)
        safe = text.encode("utf-8", "replace").decode()
        match self.fault:
            case "repr" | "saves text":
                self.cache["last"] = self.last + text
            case "cache":
                self.cache[text] = "seen"
            case "cache on the class":
                Planted.seen[text] = "seen"
            case "cache in an array":
                self.cache["array"] = np.array([text] if text else ["-"])
            case "prints":
                print(safe)
            case "logs":
                logging.getLogger("planted").debug("working on %s", safe)
            case "warns":
                warnings.warn(f"odd text: {safe!r}", stacklevel=2)
            case "raises" if "\ud800" in text:
                raise DPTextError(f"cannot read {text!r}")
            case "raises from" if "\ud800" in text:
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    raise DPTextError("cannot read a record") from error
            case "stderr":
                sys.stderr.write(safe)
            case "crashes" if not text.isascii():
                raise KeyError("not in the vocabulary")
            case "temporary file":
                with tempfile.NamedTemporaryFile("w", delete=False, suffix=".planted", encoding="utf-8") as file:
                    file.write(safe)
                KEPT.append(file.name)
            case "file beside":
                Path("planted.cache").write_text(safe, "utf-8")
                KEPT.append("planted.cache")
            case "file far away":  # deeper than the contract looks for new files
                folder = Path(tempfile.gettempdir(), "planted.far", "a", "b", "c")
                folder.mkdir(parents=True, exist_ok=True)
                with Path(folder, "notes.txt").open("a", encoding="utf-8") as file:
                    file.write(safe)
                KEPT.append(str(folder / "notes.txt"))
            case "fixed seed":
                return self.inner.privatize(records, seeded(7))
            case "more epsilon":
                louder = replace(self.inner.spec, epsilon=4 * self.inner.spec.epsilon)
                return _fitted(louder).privatize(records, randomness)
        released = self.inner.privatize(records, randomness)
        match self.fault:
            case "drops":
                return [r for r, record in zip(released, records, strict=True) if record.text]
            case "reorders":
                return released[::-1]
            case "bare texts":
                return [type("Bare", (), {"id": r.id, "output": r.output, "label": None})() for r in released]
            case "fills an empty batch":
                return released or [Release("0", "filler")]
            case "labels":
                return [replace(r, label=record.label) for r, record in zip(released, records, strict=True)]
            case "by place":  # noise depends on the place in the batch, not on the record's position
                return self.inner.privatize(records, randomness.at(0)) if len(records) > 3 else released
            case "by neighbours":
                return [replace(r, output=f"{r.output} {len(records)}") for r in released]
            case "shared in a batch":  # under secure randomness only: the seeded path is innocent
                return [replace(r, output=released[0].output) for r in released] if randomness.is_secure else released
            case "first is louder":
                if randomness.is_secure and records:
                    return [replace(released[0], output=records[0].text.split(" ")[0] or "-"), *released[1:]]
            case "unknown raw":
                return [
                    replace(r, output=record.text) if record.text and record.text.split()[:1] != [WORDS[0]] else r
                    for r, record in zip(released, records, strict=True)
                ]
            case "digits raw" | "emoji raw" | "ideographs raw":
                wanted = {"digits raw": str.isdigit, "emoji raw": _is_emoji, "ideographs raw": str.isalpha}[self.fault]
                ascii_too = self.fault == "digits raw"
                return [
                    replace(
                        r,
                        output=" ".join(
                            [r.output, *(w for w in record.text.split() if wanted(w) and w.isascii() == ascii_too)]
                        ),
                    )
                    for r, record in zip(released, records, strict=True)
                ]
            case "function words raw":
                return [
                    replace(
                        r,
                        output=" ".join(
                            b if b in ("of", "and", "was") else a
                            for a, b in zip(r.output.split(), record.text.split(), strict=False)
                        ),
                    )
                    for r, record in zip(released, records, strict=True)
                ]
            case "long raw":
                return [
                    replace(r, output=record.text) if len(record.text) > 10_000 else r
                    for r, record in zip(released, records, strict=True)
                ]
            case "constant by text":
                return [
                    replace(r, output=" ".join(record.text.split()[:1]))
                    for r, record in zip(released, records, strict=True)
                ]
            case "counts tokens":
                return [
                    replace(r, output=f"{r.output} {len(record.text)}")
                    for r, record in zip(released, records, strict=True)
                ]
        return released


def _is_emoji(word: str) -> bool:
    return all("\U0001f300" <= letter <= "\U0001f5ff" for letter in word)


class Overshooting(WordMetric):
    def calibrate(self, epsilon, *, unit=None, delta=0.0):
        return replace(self, epsilon=epsilon * 1.01)


class Unconditional(WordMetric):
    """Its guarantee is conditional on nothing."""

    def guarantee(self, unit=None, delta=0.0):
        return replace(super().guarantee(unit, delta), assumptions=())


class Untold(WordMetric):
    """Its `fit` takes no `on_progress`, which the traits promise."""

    traits = Traits(learns=Learns.NOTHING, trains=True)


class Large(WordMetric):
    @classmethod
    def tiny(cls):
        return ()


class Deaf(Large):
    """Its noise is that of a small epsilon, whatever is asked for: nothing is refuted at a larger one."""

    def fit(self, **given):
        same = {f.name: getattr(self, f.name) for f in fields(WordMetric) if f.init}
        return WordMetric(**{**same, "epsilon": 0.01}).fit(**given)


class Halved(WordMetric):
    """What a ledger would add up is half of what the guarantee says."""

    def events(self, unit):
        right = super().events(unit)
        if unit is self.units[-1]:
            return tuple(replace(event, epsilon=event.epsilon / 2) for event in right)
        return right

    def guarantee(self, unit=None, delta=0.0):
        same = {f.name: getattr(self, f.name) for f in fields(WordMetric) if f.init}
        return WordMetric(**same).guarantee(unit, delta)

    def calibrate(self, epsilon, *, unit=None, delta=0.0):
        return replace(self, epsilon=epsilon / (1 if unit is self.units[0] else 811))


class LoadsAnother(WordMetric):
    def load(self, folder):
        return replace(self, epsilon=2 * self.epsilon).fit()


class LoadsNothing(WordMetric):
    def load(self, folder):
        return None


_MADE: dict[object, object] = {}


def _fitted(spec: WordMetric):
    if spec not in _MADE:
        _MADE[spec] = spec.fit()
    return _MADE[spec]


FAULTS = {
    "settings": ["thawed spec", "no tiny settings", "short digest"],
    "statements": ["overshoots", "assumes nothing", "events of a token halved", "events of a document halved"],
    "fit": ["trains untold"],
    "epsilon": ["ignores epsilon"],
    "order": ["drops", "reorders", "bare texts", "fills an empty batch"],
    "batches": ["by place", "by neighbours"],
    "distribution": ["by neighbours", "shared in a batch", "first is louder"],
    "fresh": ["fixed seed", "constant by text"],
    "event": ["event from text"],
    "frozen": ["digests that are kept"],
    "verbatim": [
        "unknown raw",
        "labels",
        "digits raw",
        "emoji raw",
        "ideographs raw",
        "long raw",
        "function words raw",
    ],
    "silence": [
        "repr",
        "cache",
        "cache on the class",
        "cache in an array",
        "prints",
        "logs",
        "warns",
        "raises",
        "raises from",
        "stderr",
        "file far away",
    ],
    "files": ["temporary file", "file beside", "unknown raw"],
    "model": ["saves text", "loads another", "loads nothing"],
    "guarantee": ["more epsilon", "constant by text"],
}


@pytest.fixture
def tem(vectors: Path):
    return _fitted(WordMetric(epsilon=1.0, noise="tem", vectors=str(vectors), n_words=N_WORDS))


@pytest.mark.slow_cases(
    *("guarantee", "distribution", "shapes"),
    why="test_mechanisms.py has the first two for the mechanisms of the library; "
    "test_the_old_batching_is_caught_in_every_format checks shapes before it plants the fault",
)
@pytest.mark.parametrize("check", list(CHECKS))
def test_a_sound_mechanism_passes(tem, check: str) -> None:
    assert check_mechanism(Planted(tem, "none"), words=WORDS[:4], checks=[check]) == (check,)


@pytest.mark.slow_cases("guarantee-more epsilon", why="test_a_mask_that_comes_too_seldom_is_caught has this check")
@pytest.mark.slow_cases("distribution-by neighbours", why="the check of batches sees this fault; two others stay here")
@pytest.mark.slow_cases("guarantee-constant by text", why="the check of fresh noise sees this; a larger epsilon stays")
@pytest.mark.slow_cases(
    "distribution-first is louder",
    "fresh-fixed seed",
    why="one fault of each of these checks stays",
)
@pytest.mark.parametrize(("check", "fault"), [(check, fault) for check in FAULTS for fault in FAULTS[check]])
def test_a_planted_fault_is_caught(tem, check: str, fault: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        with pytest.raises(ContractError):
            check_mechanism(Planted(tem, fault), words=WORDS[:4], checks=[check])
    finally:
        for name in KEPT:
            Path(name).unlink(missing_ok=True)
        KEPT.clear()
        Planted.seen.clear()


def test_a_mechanism_that_crashes_is_not_forgiven(tem) -> None:
    with pytest.raises(KeyError):
        check_mechanism(Planted(tem, "crashes"), words=WORDS[:4], checks=["verbatim"])


@dataclass(frozen=True)
class KeepsPurely(WordMetric):
    """States a pure epsilon and says that it keeps words."""

    traits = Traits(learns=Learns.NOTHING, keeps_words=True)


class KeepsSilently(RandomRedaction):
    """Half of the words leave, of which the traits say nothing."""

    traits = Traits(learns=Learns.NOTHING)


class Undeclared(RandomRedaction):
    """Declares no traits."""

    traits = None


class LabelsBeside(RandomRedactionMechanism):
    """Releases a label that the traits do not name, or reads one that they say nobody reads."""

    __slots__ = ("fault",)

    def __init__(self, spec: RandomRedaction, fault: str) -> None:
        super().__init__(spec)
        self.fault = fault

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        pairs = zip(super().privatize(records, randomness), records, strict=True)
        if self.fault == "releases":
            return [replace(release, label="a") for release, _ in pairs]
        return [replace(found, output="-" if record.label == "other" else found.output) for found, record in pairs]


def test_what_keeps_words_states_nothing_pure(vectors: Path) -> None:
    spec = KeepsPurely(epsilon=1.0, noise="tem", vectors=str(vectors), n_words=N_WORDS)
    with pytest.raises(ContractError, match="states no pure epsilon"):
        check_mechanism(spec.fit(), words=WORDS[:4], checks=["verbatim"])
    assert check_mechanism(RandomRedaction(0.5).fit(), checks=["verbatim", "files"])


@pytest.mark.slow  # test_mechanisms.py has this check of the redactions that are drawn for all tokens together
def test_what_keeps_words_has_a_guarantee_that_nothing_refutes() -> None:
    assert check_mechanism(RandomRedaction(0.5).fit(), checks=["guarantee"])


class Thawed:
    """A sound mechanism, but for one attribute that can be changed after the fit."""

    __slots__ = ("_spec", "inner")

    def __init__(self, inner) -> None:
        self._spec, self.inner = inner.spec, inner

    spec = property(lambda self: self._spec)
    digests = property(lambda self: self.inner.digests)

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name) and not self.thaws(name):
            raise FrozenInstanceError(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if not self.thaws(name):
            raise FrozenInstanceError(name)
        super().__delattr__(name)

    def thaws(self, name: str) -> bool:
        return False

    def privatize(self, records, randomness):
        return self.inner.privatize(records, randomness)


class ThawedSlot(Thawed):
    """The slot behind a property."""

    __slots__ = ()

    def thaws(self, name: str) -> bool:
        return name == "_spec"


class ThawedSpec(Thawed):
    """A property that is assigned, with a look at the value."""

    __slots__ = ()

    def thaws(self, name: str) -> bool:
        return name in ("spec", "_spec")

    @property
    def spec(self):
        return self._spec

    @spec.setter
    def spec(self, spec: WordMetric) -> None:
        if not isinstance(spec, WordMetric):
            raise AttributeError("a spec is a spec")  # noqa: TRY004 (as a refused attribute does)
        self._spec = spec


class ThawedKind(Thawed):
    """What a method does is another class's word."""

    __slots__ = ()

    def thaws(self, name: str) -> bool:
        return name == "__class__"


class ThawedMethod(Thawed):
    """A method that is replaced."""

    def thaws(self, name: str) -> bool:
        return name == "privatize"


@pytest.mark.parametrize("kind", [ThawedSlot, ThawedSpec, ThawedKind, ThawedMethod])
def test_what_can_be_assigned_after_the_fit_is_caught(tem, kind: type[Thawed]) -> None:
    assert check_mechanism(Thawed(tem), words=WORDS[:4], checks=["frozen"]) == ("frozen",)
    with pytest.raises(ContractError, match="a fitted mechanism is frozen"):
        check_mechanism(kind(tem), words=WORDS[:4], checks=["frozen"])


@pytest.mark.parametrize("check", ["verbatim", "files"])
def test_words_that_leave_must_be_announced(check: str) -> None:
    with pytest.raises(ContractError):
        check_mechanism(RandomRedactionMechanism(KeepsSilently(0.5)), checks=[check])


@pytest.mark.parametrize(("check", "fault"), [("order", "releases"), ("batches", "reads")])
def test_labels_that_the_traits_do_not_declare_are_caught(check: str, fault: str) -> None:
    with pytest.raises(ContractError, match="label"):
        check_mechanism(LabelsBeside(RandomRedaction(0.5), fault), checks=[check])


def test_traits_must_be_declared() -> None:
    with pytest.raises(ContractError, match="traits"):
        check_mechanism(RandomRedactionMechanism(Undeclared(0.5)), checks=["settings"])


def _fit_of(traits: Traits) -> type[RandomRedaction]:
    """A spec with these traits whose `fit` takes what `RandomRedaction` does and reads labels where there are any."""

    class Fitted(RandomRedactionMechanism):
        """It was made from public text."""

        __slots__ = ("digests",)

        def __init__(self, spec: RandomRedaction, label: str) -> None:
            super().__init__(spec)
            self.digests = {"label": label}

    class Lying(RandomRedaction):
        def fit(self, *, public=(), seed=None):
            labels = {record.label for record in public}
            if None in labels:
                raise ConfigError("Expected public records with labels.")
            return Fitted(self, " ".join(sorted(labels)))

    Lying.traits = traits
    return Lying


class Discloses(RandomRedaction):
    """Reports losses on private text."""

    traits = Traits(learns=Learns.EITHER, trains=True)

    def fit(self, *, public=(), private=(), seed=None, on_progress=None):
        on_progress(FitProgress(1, 1, "epochs", "loss 0.5" if private else ""))
        return RandomRedactionMechanism(self)


@pytest.mark.parametrize(
    ("traits", "broken"),
    [
        (Traits(learns_labels=True), None),
        (Traits(learns_labels=True, trains=True), "on_progress"),
        (Traits(learns_labels=True, takes_pool=True), "pool"),
        (Traits(learns=Learns.PRIVATE, learns_labels=True), "private"),
        (Traits(learns=Learns.EITHER, learns_labels=True), "private"),
        (Traits(), "with labels"),
        (Traits(learns=Learns.NOTHING, learns_labels=True), "learns from no text"),
    ],
)
def test_a_fit_that_is_not_what_the_traits_say_is_caught(traits: Traits, broken: str | None) -> None:
    mechanism = RandomRedactionMechanism(_fit_of(traits)(0.5))
    if broken is None:
        assert check_mechanism(mechanism, checks=["fit"])
    else:
        with pytest.raises(ContractError, match=broken):
            check_mechanism(mechanism, checks=["fit"])


def test_losses_on_private_text_are_caught() -> None:
    with pytest.raises(ContractError, match="no loss on private text"):
        check_mechanism(RandomRedactionMechanism(Discloses(0.5)), checks=["fit"])


def test_a_training_that_tells_nothing_is_caught() -> None:
    class Quiet(Discloses):
        def fit(self, *, public=(), private=(), seed=None, on_progress=None):
            return RandomRedactionMechanism(self)

    with pytest.raises(ContractError, match="reports its progress"):
        check_mechanism(RandomRedactionMechanism(Quiet(0.5)), checks=["fit"])


def test_a_mask_that_comes_too_seldom_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomRedaction, "threshold", RandomRedaction(0.5).threshold // 2)
    with pytest.raises(ContractError, match="survives"):
        check_mechanism(RandomRedaction(0.5).fit(), checks=["guarantee"])


# --- faults on the way from file to file, which no mechanism can plant ------------------------------------------------


def _old_batching(patch: pytest.MonkeyPatch) -> None:
    """A block ends where a computed batch ends, and that by the lengths of private texts: how it was."""

    def computed(records, mechanism, randomness, *, batch_size, position):
        for batch in streaming.split(records, batch_size):
            yield streaming.release(batch, mechanism, randomness.at(position))
            position += len(batch)

    patch.setattr(files, "released", computed)
    patch.setattr(files, "blocks", lambda batches, _: batches)


def _telling_state(patch: pytest.MonkeyPatch) -> None:
    """The state of resuming is as long as the number of digits of the input's size."""
    whole, sizes, save = files.fingerprint, [], FileState.save

    def seen(path: Path, key: str) -> str:
        sizes.append(path.stat().st_size)
        return whole(path, key)

    def longer(state: FileState, path: Path, **how: bool) -> None:
        save(state, path, **how)
        with path.open("a", encoding="utf-8") as file:
            file.write(" " * len(str(sizes[-1])))

    patch.setattr(files, "fingerprint", seen)
    patch.setattr(FileState, "save", longer)


def _telling_certificate(patch: pytest.MonkeyPatch) -> None:
    """The certificate of a large input ends with a blank."""
    whole, sizes, to_json = files.fingerprint, [], Certificate.to_json

    def seen(path: Path, key: str) -> str:
        sizes.append(path.stat().st_size)
        return whole(path, key)

    patch.setattr(files, "fingerprint", seen)
    patch.setattr(Certificate, "to_json", lambda self: to_json(self) + " " * (sizes[-1] > 1_000_000))


RUN_FAULTS = {
    "shapes": {
        _old_batching: "the marks of a run to out.jsonl follow",
        _telling_state: "the marks of a run to out.jsonl follow",
        _telling_certificate: "out.jsonl and its certificate follow",
    }
}


@pytest.mark.parametrize(
    ("check", "plant", "broken"), [(check, *fault) for check, faults in RUN_FAULTS.items() for fault in faults.items()]
)
def test_a_fault_planted_in_the_run_is_caught(tem, check: str, plant, broken: str, monkeypatch) -> None:
    plant(monkeypatch)
    with pytest.raises(ContractError, match=broken):
        check_mechanism(tem, words=WORDS[:4], checks=[check])


@pytest.mark.slow_cases("out.jsonl", why="test_a_fault_planted_in_the_run_is_caught has it")
@pytest.mark.slow_cases(
    "out.csv", "out.txt", "out.jsonl.gz", "out.txt.gz", why="one text format, one packed one and Parquet stay"
)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("out.jsonl", "marks"),
        ("out.csv", "marks"),
        ("out.txt", "marks"),
        ("out.jsonl.gz", "bytes"),
        ("out.csv.gz", "bytes"),
        ("out.txt.gz", "bytes"),
        ("out.parquet", "bytes"),
    ],
)
def test_the_old_batching_is_caught_in_every_format(tem, name: str, told: str, monkeypatch) -> None:
    assert name in silence_checks.output_names(tem.spec)
    monkeypatch.setattr(silence_checks, "output_names", lambda _: [name])
    assert check_mechanism(tem, checks=["shapes"])
    _old_batching(monkeypatch)
    with pytest.raises(ContractError, match=f"marks of a run to {name}" if told == "marks" else f": {name} and its"):
        check_mechanism(tem, checks=["shapes"])


def test_shapes_are_compared_in_all_formats_that_hold_what_is_released(tem, vectored, monkeypatch) -> None:
    lines, gzipped = ["out.jsonl", "out.jsonl.gz"], ["out.csv", "out.csv.gz", "out.tsv"]
    texts = ["out.txt", "out.txt.gz"]
    labelled = LabelOnly(labels=("a", "b"), epsilon=1.0)
    assert sorted(silence_checks.output_names(tem.spec)) == sorted([*lines, *gzipped, *texts, "out.parquet"])
    assert sorted(silence_checks.output_names(labelled)) == sorted([*lines, *gzipped, "out.parquet"])
    assert sorted(silence_checks.output_names(vectored("both").spec)) == sorted([*lines, "out.parquet"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert sorted(silence_checks.output_names(labelled)) == sorted([*lines, *gzipped])


def test_every_check_has_its_fault() -> None:
    assert {*FAULTS, *RUN_FAULTS} == set(CHECKS)


def test_an_unknown_check_is_refused(tem) -> None:
    with pytest.raises(ConfigError, match="Expected checks among"):
        check_mechanism(tem, checks=["order", "everything"])


# --- vectors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlantedVectors:
    """Words and vectors, with one fault."""

    inner: VectorMechanism = field(repr=False)
    fault: str

    @property
    def spec(self) -> VectorWords:
        return self.inner.spec

    @property
    def digests(self) -> Mapping[str, str]:
        return self.inner.digests

    def distance(self, first: Record, second: Record) -> float:
        return self.inner.distance(first, second)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)

    def privatize(self, records: Sequence[Record], randomness: Randomness) -> list[Release[str]]:
        released = self.inner.privatize(records, seeded(7) if self.fault == "fixed seed" else randomness)
        pairs = list(zip(released, records, strict=True))
        match self.fault:
            case "no vectors":
                return [replace(each, vector=None) for each in released]
            case "one vector lost":
                return [*released[:-1], *(replace(each, vector=None) for each in released[-1:])]
            case "text beside":
                return [replace(each, output="a") for each in released]
            case "vectors nobody promised":
                return [replace(each, vector=(0.5,)) for each in released]
            case "lengths by text":
                return [replace(each, vector=(0.5,) * (1 + len(record.text) % 5)) for each, record in pairs]
            case "not finite":
                return [replace(each, vector=(float("nan"), 0.5)) for each in released]
            case "by neighbours":
                return [replace(each, vector=(*each.vector, float(len(records)))) for each in released]
            case "shared in a batch":  # under secure randomness only: the seeded path is innocent
                return [replace(each, vector=released[0].vector) if randomness.is_secure else each for each in released]
            case "constant by text":
                return [replace(each, output="", vector=vector_of(record.text.split(" ")[0])) for each, record in pairs]
            case "raw now and then":  # what a text alone would not show
                return [
                    replace(each, vector=vector_of(record.text)) if each.vector[0] < 0.2 else each
                    for each, record in pairs
                ]
        return released


VECTOR_FAULTS = [
    ("order", "both", "no vectors"),
    ("order", "embedding", "no vectors"),
    ("order", "both", "one vector lost"),
    ("order", "text", "vectors nobody promised"),
    ("order", "embedding", "text beside"),
    ("order", "both", "lengths by text"),
    ("order", "both", "not finite"),
    ("batches", "embedding", "by neighbours"),
    ("distribution", "both", "by neighbours"),
    ("distribution", "embedding", "shared in a batch"),
    ("fresh", "embedding", "fixed seed"),
    ("fresh", "embedding", "constant by text"),
    ("guarantee", "both", "raw now and then"),
    ("guarantee", "embedding", "raw now and then"),
    ("files", "both", "no vectors"),
    ("files", "embedding", "text beside"),
]


@pytest.fixture
def vectored(vectors: Path):
    def fitted(output: str) -> VectorMechanism:
        return _fitted(VectorWords(epsilon=1.0, vectors=str(vectors), n_words=N_WORDS, output=output))

    return fitted


@pytest.mark.slow_cases(
    "batches-embedding",
    "verbatim-embedding",
    "shapes-embedding",
    "model-embedding",
    why="test_mechanisms.py has them for embedded mechanisms",
)
@pytest.mark.slow_cases(
    "guarantee", "distribution", why="test_mechanisms.py has both checks for the mechanisms of the library"
)
@pytest.mark.parametrize(
    ("check", "output"), [*((check, "embedding") for check in CHECKS), ("order", "both"), ("files", "both")]
)
def test_a_sound_mechanism_with_vectors_passes(vectored, check: str, output: str) -> None:
    assert check_mechanism(PlantedVectors(vectored(output), "none"), words=WORDS[:4], checks=[check]) == (check,)


@pytest.mark.slow_cases(
    *("guarantee", "distribution", "fresh-embedding-fixed seed"),
    why="each check keeps a fault of texts; shared noise of vectors stays below",
)
@pytest.mark.parametrize(("check", "output", "fault"), VECTOR_FAULTS)
def test_a_planted_fault_in_vectors_is_caught(vectored, check: str, output: str, fault: str) -> None:
    with pytest.raises((ContractError, PrivacyError) if check == "files" else ContractError):
        check_mechanism(PlantedVectors(vectored(output), fault), words=WORDS[:4], checks=[check])


def test_a_loaded_model_with_other_vectors_is_caught(vectored, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = VectorWords.load
    planted = PlantedVectors(vectored("both"), "none")
    monkeypatch.setattr(VectorWords, "load", lambda *given: PlantedVectors(whole(*given), "by neighbours"))
    with pytest.raises(ContractError, match="a loaded model gives the same outputs"):
        check_mechanism(planted, words=WORDS[:4], checks=["model"])


def test_vectors_with_one_noise_are_told_from_vectors_with_their_own() -> None:
    """Coordinates, one by one and squared, do not show it: their differences do."""
    noise = np.random.default_rng(0).normal(size=(400, 3))
    first, last = ([Release("0", "", vector=tuple(row.tolist())) for row in rows] for rows in (noise, noise + 1e-9))
    apart = [*last[1:], last[0]]
    assert separation(joined(first, last), joined(first, apart), confidence=1 - 1e-5) > 0
    assert separation(joined(first, apart), joined(first, [*last[2:], *last[:2]]), confidence=1 - 1e-5) == 0
    without = [joined(first, other)[:, :6] for other in (last, apart)]
    assert separation(*without, confidence=1 - 1e-5) == 0
