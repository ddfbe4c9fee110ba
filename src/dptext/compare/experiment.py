"""An experiment as a TOML file says it: corpora, mechanisms with the settings to sweep, what is measured.

    name = "intents"
    seed = 7                                # of splits, fits, classifiers, intervals; releases draw secret bits
    trials = 1
    utilities = ["classification", "fidelity", "stylometry"]
    audits = ["authorship"]

    [settings]                              # all of it may be left out
    classifier = "tfidf"                    # or "bilstm"
    embedder = "sentence"                   # or "glove", or a file of word vectors
    [settings.authorship]
    training = 20                           # texts of each author to train on, and to attack
    attacked = 10

    [corpora.snips]
    path = "$DPTEXT_DATA/snips/snips.jsonl.gz"
    shares = { public = 0.4, private = 0.4, test = 0.2 }
    label = "label"
    labels = "public"                       # or a list

    [corpora.imdb]
    label = "label"
    max_tokens = 200
    public = { path = "imdb.jsonl.gz", where = { split = "train" }, limit = 10000 }
    private = { path = "own.csv" }
    test = { path = "imdb.jsonl.gz", where = { split = "test" } }

    [[mechanisms]]
    name = "candidates"
    kind = "candidates"
    set = { ranker = "tfidf" }
    sweep = { label_weight = [0.0, 3.0] }
    document_epsilon = [2, 5, 10, 20]       # calibrated to a whole document, where that is possible
    delta = 1e-5
    corpora = ["snips"]
    trains_on = "public"                    # "private" hands the private records to a fit that takes them

Also there: `seeded = true` (releases by the seed, which voids every guarantee); in a corpus `text`, `author` (names of
fields), `pieces = "sentences"`, `on_error = "skip"` (leaves out records that cannot be read); for a path also `where`
with a list of values; in [settings.authorship] `bundle` and `authors`; in [settings.distinguish] `trials`. Where
`document_epsilon` cannot be reached because the mechanism has no guarantee for documents, it runs once with its own
settings, which must then hold its epsilon.

A path may begin with `$DPTEXT_DATA`, the environment's folder of corpora (default `../shared/data`); it is relative to
the working directory. `sample = 600` in the place of a path stands for so many built-in sample texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from dptext import _validate
from dptext.compare.keys import Keys, Table, as_json, as_name, as_table, as_values, nearest
from dptext.errors import ConfigError
from dptext.mechanisms.registry import SPECS
from dptext.runs.toml import read_toml
from dptext.text.reading import OnError
from dptext.types import Json
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM

PARTS: Final = ("public", "private", "test")
UTILITIES: Final = ("classification", "fidelity", "stylometry", "balance", "embedding")
AUDITS: Final = ("authorship", "membership", "distinguish")
#: Names that mechanisms cannot have: these rows are in every table.
REFERENCES: Final = (ORIGINAL, PUBLIC_ONLY, RANDOM, "label_only", "label_only (medoid)")
DATA: Final = "DPTEXT_DATA"
DEFAULT_DATA: Final = "../shared/data"

_DEFAULT_SHARES: Final = {"public": 0.4, "private": 0.4, "test": 0.2}
_SUM_SLACK: Final = 1e-9


# ------------------------------------------------------------------------------------------- what is read


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from.

    Attributes:
        path: of a file; empty for the built-in sample.
        sample: how many built-in sample texts, 0 for a file.
        where: fields and the values of them (one, or any of several) that records must have.
        limit: keep so many at most, drawn by the experiment's seed; 0 keeps all.
    """

    path: str = ""
    sample: int = 0
    where: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    limit: int = 0


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """One corpus: each part has a source of its own, or a share of the common one.

    Attributes:
        name: in the table.
        text, label, author: names of fields; None where there is none.
        labels: the public label set; empty takes the labels of the public part, None has no labels.
        pieces: what is one record: the documents, or their sentences.
        max_tokens: texts are cut to so many tokens; 0 cuts nothing.
        on_error: whether a record that cannot be read ends the reading or is left out.
        common: what parts with a share are drawn from.
        shares: of the common source, by part.
        sources: of the other parts.
    """

    name: str
    text: str
    label: str | None
    author: str | None
    labels: tuple[str, ...] | None
    pieces: Literal["documents", "sentences"]
    max_tokens: int
    on_error: OnError
    common: Source | None
    shares: Mapping[str, float]
    sources: Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class MechanismPlan:
    """One mechanism with the settings to sweep.

    Attributes:
        name: in the table.
        kind: as in `dptext mechanisms`.
        set: settings.
        sweep: settings with several values: every combination is a row.
        document_epsilon: the spec is calibrated to each of these for whole documents; where that is not possible it
            runs once with its own settings.
        delta: at which guarantees are calibrated and stated.
        trains_on: "private" hands the private records to a `fit` that takes them.
        corpora: names; empty for all.
    """

    name: str
    kind: str
    set: Mapping[str, Json]
    sweep: Mapping[str, tuple[Json, ...]]
    document_epsilon: tuple[float, ...]
    delta: float
    trains_on: Literal["public", "private"]
    corpora: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Authorship:
    """Settings of the attribution of releases to authors.

    Attributes:
        training, attacked: texts of each author; authors with fewer are left out.
        bundle: texts that are attributed together.
        authors: so many at most, the first by name; 0 takes all.
    """

    training: int = 20
    attacked: int = 10
    bundle: int = 1
    authors: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """What is measured on the releases of every cell.

    Attributes:
        utilities, audits: by name.
        classifier: of utilities and of membership.
        embedder: "sentence", "glove", or a file of word vectors.
        authorship: settings of that audit.
        trials: runs on each input of each pair, of the audit distinguish.
    """

    utilities: tuple[str, ...]
    audits: tuple[str, ...]
    classifier: Literal["tfidf", "bilstm"] = "tfidf"
    embedder: str = "sentence"
    authorship: Authorship = field(default_factory=Authorship)
    trials: int = 2000

    def to_dict(self) -> dict[str, Json]:
        """As JSON-able data, settings of the chosen audits only: others make no cell."""
        found: dict[str, Json] = {
            "utilities": list(self.utilities),
            "audits": list(self.audits),
            "classifier": self.classifier,
            "embedder": self.embedder,
        }
        if "authorship" in self.audits:
            own = self.authorship
            found["authorship"] = [own.training, own.attacked, own.bundle, own.authors]
        if "distinguish" in self.audits:
            found["distinguish"] = self.trials
        return found


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that a file says.

    Attributes:
        name: of the experiment.
        seed: public; of splits, fits, classifiers and intervals.
        trials: every row is run so often, each with a fit of its own.
        randomness: of the releases; "seeded" voids every guarantee.
        corpora, mechanisms: at least one corpus.
        measures: what is measured.
        toml: the file as it was parsed.
    """

    name: str
    seed: int
    trials: int
    randomness: Literal["secure", "seeded"]
    corpora: tuple[CorpusPlan, ...]
    mechanisms: tuple[MechanismPlan, ...]
    measures: Measures
    toml: Mapping[str, Json] = field(repr=False)

    def corpus(self, name: str) -> CorpusPlan:
        """The corpus of this name."""
        return next(plan for plan in self.corpora if plan.name == name)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the corpora are read from."""
        sources = (source for plan in self.corpora for source in (plan.common, *plan.sources.values()))
        return tuple(Path(source.path) for source in sources if source is not None and source.path)


# ------------------------------------------------------------------------------------------------ reading


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or says what cannot be run; it names the key.
    """
    return parse_experiment(read_toml(path))


def parse_experiment(data: Table) -> Experiment:
    """The experiment that parsed TOML stands for.

    Raises:
        ConfigError: a key is unknown, missing or of the wrong kind; a name is unknown; a corpus is not there.
    """
    top = Keys("the experiment", data)
    corpora = tuple(
        _corpus(as_name(f"corpora.{name}", name), as_table(f"[corpora.{name}]", value))
        for name, value in top.table("corpora").items()
    )
    if not corpora:
        raise ConfigError("Expected at least one [corpora.NAME] in the experiment.")
    mechanisms = top.take("mechanisms", [])
    if not isinstance(mechanisms, list):
        raise ConfigError("Expected mechanisms to be written as [[mechanisms]], once for each.")
    plans = tuple(
        _mechanism(as_table(f"[[mechanisms]] number {number}", item), [corpus.name for corpus in corpora])
        for number, item in enumerate(mechanisms, start=1)
    )
    names = [plan.name for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Expected name={name!r} to belong to one mechanism: give the others names of their own.")
    found = Experiment(
        name=top.text("name"),
        seed=top.whole("seed", 0),
        trials=top.whole("trials", 1, least=1),
        randomness="seeded" if top.flag("seeded") else "secure",
        corpora=corpora,
        mechanisms=plans,
        measures=_measures(top),
        toml=json.loads(json.dumps(data, default=str)),
    )
    _validate.within(0, 2**32 - 1 - found.trials, seed=found.seed)
    top.done()
    return found


def _measures(top: Keys) -> Measures:
    settings = Keys("[settings]", top.table("settings"))
    authorship = Keys("[settings.authorship]", settings.table("authorship"))
    distinguish = Keys("[settings.distinguish]", settings.table("distinguish"))
    own = Authorship()
    found = Measures(
        utilities=top.names("utilities", UTILITIES, ("classification", "fidelity")),
        audits=top.names("audits", AUDITS, ()),
        classifier=settings.choice("classifier", ("tfidf", "bilstm"), "tfidf"),
        embedder=expanded(settings.text("embedder", "sentence")),
        authorship=Authorship(
            training=authorship.whole("training", own.training, least=1),
            attacked=authorship.whole("attacked", own.attacked, least=1),
            bundle=authorship.whole("bundle", own.bundle, least=1),
            authors=authorship.whole("authors", own.authors),
        ),
        trials=distinguish.whole("trials", 2000, least=200),
    )
    if found.authorship.bundle > found.authorship.attacked:
        raise ConfigError(
            f"Expected bundle={found.authorship.bundle} <= attacked={found.authorship.attacked}: make it smaller."
        )
    if found.embedder not in ("sentence", "glove") and not Path(found.embedder).is_file():
        raise ConfigError(
            f"Expected embedder={found.embedder!r} to be 'sentence', 'glove' or a file of word vectors that exists."
        )
    for keys in (settings, authorship, distinguish):
        keys.done()
    return found


def _corpus(name: str, data: Table) -> CorpusPlan:
    where = f"[corpora.{name}]"
    keys = Keys(where, data)
    sources = {
        part: _source(f"{where} {part}", as_table(f"{where} {part}", keys.take(part))) for part in PARTS if part in data
    }
    common = None
    shares: dict[str, float] = {}
    if "path" in data or "sample" in data:
        common = _source(where, {key: keys.take(key) for key in ("path", "sample", "where", "limit") if key in data})
        drawn = keys.table("shares") or {part: _DEFAULT_SHARES[part] for part in PARTS if part not in sources}
        shares = _shares(where, drawn)
    for part in PARTS:
        if (part in shares) == (part in sources):
            said = "both" if part in shares else "neither"
            raise ConfigError(
                f"Expected the part {part!r} of {where} to have a path of its own or a share of the common path, found "
                f"{said}: write {part} = {{ path = ... }}, or path = ... with shares = {{ {part} = ... }}."
            )
    label = keys.text("label", "") or None
    found = CorpusPlan(
        name=name,
        text=keys.text("text", "text"),
        label=label,
        author=keys.text("author", "") or None,
        labels=_labels(where, keys.take("labels", "public"), label),
        pieces=keys.choice("pieces", ("documents", "sentences"), "documents"),
        max_tokens=keys.whole("max_tokens", 0),
        on_error=OnError(keys.choice("on_error", tuple(map(str, OnError)), str(OnError.STOP))),
        common=common,
        shares=shares,
        sources=sources,
    )
    keys.done()
    return found


def _source(where: str, data: Table) -> Source:
    keys = Keys(where, data)
    path, sample = expanded(keys.text("path", "")), keys.whole("sample", 0)
    if bool(path) == bool(sample):
        raise ConfigError(f"Expected a path in {where}, or sample = N for N built-in sample texts: one of the two.")
    if path and not Path(path).is_file():
        raise ConfigError(
            f"Expected the file {path!r} of {where} to exist: give its path, or set {DATA} to the folder of the "
            "corpora."
        )
    found = Source(
        path=path,
        sample=sample,
        where={key: as_values(f"{where} where.{key}", value) for key, value in keys.table("where").items()},
        limit=keys.whole("limit", 0),
    )
    keys.done()
    return found


def _shares(where: str, data: Table) -> dict[str, float]:
    keys = Keys(f"{where} shares", data)
    found = {part: keys.number(part) for part in PARTS if part in data}
    keys.done()
    for part, share in found.items():
        if not 0 < share < 1:
            raise ConfigError(f"Expected the share {part}={share!r} of {where} between 0 and 1.")
    if sum(found.values()) > 1 + _SUM_SLACK:
        raise ConfigError(f"Expected the shares of {where} to sum to 1 at most, found {sum(found.values()):g}.")
    return found


def _labels(where: str, given: object, label: str | None) -> tuple[str, ...] | None:
    if label is None:
        if given != "public":
            raise ConfigError(f"Expected label = FIELD with labels in {where}: name the field of the label.")
        return None
    if given == "public":
        return ()
    found = _validate.labels(given)
    if len(found) < 2:
        raise ConfigError(f"Expected labels={found!r} of {where} to be at least two, or 'public'.")
    return found


def _mechanism(data: Table, corpora: Sequence[str]) -> MechanismPlan:
    name = as_name("mechanisms", str(data.get("name", "")))
    where = f"[[mechanisms]] {name!r}"
    keys = Keys(where, data)
    keys.take("name")
    kind = keys.text("kind")
    if kind not in SPECS:
        raise ConfigError(
            f"Expected kind={kind!r} of {where} to name a mechanism: {nearest(kind, sorted(SPECS))}see `dptext "
            "mechanisms`."
        )
    if any(f"{name} ".startswith(f"{reference} ") for reference in REFERENCES):
        raise ConfigError(
            f"Expected name={name!r} to be another: rows so called are in every table without being asked."
        )
    settings = {key: as_json(f"{where} set.{key}", value) for key, value in keys.table("set").items()}
    sweep = {key: as_values(f"{where} sweep.{key}", value) for key, value in keys.table("sweep").items()}
    for key, values in sweep.items():
        if not isinstance(as_table(where, data.get("sweep"))[key], list) or len(set(map(repr, values))) < len(values):
            raise ConfigError(f"Expected sweep.{key} of {where} to be a list of different values: [1.0, 2.0].")
        if key in settings:
            raise ConfigError(f"Expected {key!r} of {where} in set or in sweep, not in both: remove one.")
    asked = tuple(float(value) for value in keys.numbers("document_epsilon"))
    for value in asked:
        _validate.positive(document_epsilon=value)
    if asked and "epsilon" in sweep:
        raise ConfigError(f"Expected epsilon in sweep or document_epsilon in {where}, not both: both set the noise.")
    found = MechanismPlan(
        name=name,
        kind=kind,
        set=settings,
        sweep=sweep,
        document_epsilon=asked,
        delta=keys.number("delta", 0.0),
        trains_on=keys.choice("trains_on", ("public", "private"), "public"),
        corpora=keys.names("corpora", corpora, ()),
    )
    _validate.probability(delta=found.delta)
    keys.done()
    return found


def expanded(path: str) -> str:
    """The path with the folder of the corpora in the place of `$DPTEXT_DATA`."""
    return path.replace(f"${{{DATA}}}", f"${DATA}").replace(f"${DATA}", os.environ.get(DATA) or DEFAULT_DATA)
