"""An experiment as a TOML file: corpora, mechanisms with the settings to sweep, and measurements.

    name = "intents"
    seed = 7                                # of splits, fits, classifiers and intervals; releases draw secret bits
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

    [[mechanisms]]
    name = "prototypes"                     # a synthesis answers the corpus: prototypes, votes or topics
    kind = "prototypes"
    sweep = { epsilon = [0.5, 1.0, 4.0] }   # for all of it, under central trust: no epsilon of a text

More keys: `seeded = true` draws releases by the seed, which voids every guarantee. A corpus may have `text` and
`author` (names of fields), `record` ("file", "line" or "block" of plain text), `pieces = "sentences"`, and `on_error =
"skip"`, which leaves out unreadable records. `names = { LABEL = "its meaning" }` of a corpus hides the labels of the
public part: public texts are labelled by the names, and a synthesis reads the pool without labels. `where` also takes a
list of values. [settings.authorship] has `bundle` and `authors`, [settings.distinguish] has `trials`. A mechanism
without a guarantee for documents ignores `document_epsilon`: it runs once with its own settings, which must then hold
its epsilon.

A path may begin with `$DPTEXT_DATA`, the environment's folder of corpora (default `../shared/data`); it is relative to
the working directory. `sample = 600` instead of a path takes 600 built-in sample texts.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, StrictBool, ValidationError, model_validator

from dptext import _validate
from dptext.mechanism import Answers
from dptext.recommend.measured import LABEL_ONLY, Count, Finite
from dptext.registry import MECHANISMS, SYNTHESES, answers
from dptext.runs.specs import read_toml
from dptext.types import Json
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM
from dptext_lab.compare.corpus_plans import (
    CorpusPlan,
    Different,
    Name,
    PositiveCount,
    TomlTable,
    expanded,
    nearest,
    refused,
)
from dptext_lab.compare.stored import MEDOID

#: Names that mechanisms cannot have: these rows are in every table.
REFERENCES: Final = (ORIGINAL, PUBLIC_ONLY, RANDOM, LABEL_ONLY, MEDOID)

#: Names of embedders; any other name is a file of word vectors.
EMBEDDERS: Final = ("sentence", "glove")

_LARGEST_SEED: Final = 2**32 - 1


def _known_kind(kind: str) -> str:
    if answers(kind) is None:
        close = nearest(kind, sorted([*MECHANISMS, *SYNTHESES]))
        raise ValueError(f"{kind!r} names no mechanism: {close}see `dptext mechanisms`")
    return kind


def _embedder(given: str) -> str:
    found = expanded(given)
    if found not in EMBEDDERS and not Path(found).is_file():
        raise ValueError(f"expected 'sentence', 'glove' or a file of word vectors that exists, found {found!r}")
    return found


class MechanismPlan(TomlTable):
    """One mechanism with the settings to sweep: every combination of values is a row.

    A spec that cannot be calibrated to `document_epsilon` runs once with its own settings. Without `corpora` a
    mechanism runs on all corpora.
    """

    name: Name
    kind: Annotated[str, AfterValidator(_known_kind)]
    set: dict[str, JsonValue] = Field(default_factory=dict)
    sweep: dict[str, Annotated[Different[JsonValue], Field(min_length=1)]] = Field(default_factory=dict)
    document_epsilon: Different[Annotated[Finite, Field(gt=0)]] = ()
    delta: Annotated[Finite, Field(ge=0, le=1)] = 0.0
    trains_on: Literal["public", "private"] = "public"
    corpora: Different[str] = ()

    @model_validator(mode="after")
    def _has_one_value_of_each(self) -> "MechanismPlan":
        if any(f"{self.name} ".startswith(f"{reference} ") for reference in REFERENCES):
            raise ValueError(f"expected another name than {self.name!r}: a row of that name is in every table")
        if twice := [key for key in self.sweep if key in self.set]:
            raise ValueError(f"expected {twice[0]!r} in set or in sweep, not in both: remove one")
        if self.document_epsilon and "epsilon" in self.sweep:
            raise ValueError("expected epsilon in sweep or document_epsilon, not both: both set the noise")
        if answers(self.kind) is Answers.CORPUS and (self.document_epsilon or self.trains_on != "public"):
            raise ValueError(
                f"expected sweep = {{ epsilon = [...] }} for {self.name!r}, and neither document_epsilon nor "
                "trains_on: one epsilon is for the whole corpus"
            )
        return self


class AuthorshipSettings(TomlTable):
    """Settings of the attribution of releases to authors.

    Authors with fewer texts than `training` + `attacked` are left out, and of the others the first `authors` by name
    are taken; 0 takes all. `bundle` texts are attributed together.
    """

    training: PositiveCount = 20
    attacked: PositiveCount = 10
    bundle: PositiveCount = 1
    authors: Count = 0

    @model_validator(mode="after")
    def _has_a_bundle(self) -> "AuthorshipSettings":
        if self.bundle > self.attacked:
            raise ValueError(f"expected bundle={self.bundle} <= attacked={self.attacked}: make it smaller")
        return self


class DistinguishSettings(TomlTable):
    """Settings of the audit distinguish: `trials` is the number of runs on each input of each pair."""

    trials: Annotated[PositiveCount, Field(ge=200)] = 2000


class MeasureSettings(TomlTable):
    """Settings of measurements; `embedder` is "sentence", "glove", or a file of word vectors."""

    classifier: Literal["tfidf", "bilstm"] = "tfidf"
    embedder: Annotated[str, AfterValidator(_embedder)] = "sentence"
    authorship: AuthorshipSettings = AuthorshipSettings()
    distinguish: DistinguishSettings = DistinguishSettings()


Utility = Literal["classification", "fidelity", "stylometry", "balance", "embedding", "corpus"]


class Experiment(TomlTable):
    """A whole experiment file. Every row is run `trials` times, each time with a fit of its own."""

    name: Name
    seed: Count = 0
    trials: PositiveCount = 1
    seeded: StrictBool = False
    utilities: Different[Utility] = ("classification", "fidelity")
    audits: Different[Literal["authorship", "membership", "distinguish"]] = ()
    settings: MeasureSettings = MeasureSettings()
    corpora: dict[Name, CorpusPlan] = Field(default_factory=dict)
    mechanisms: tuple[MechanismPlan, ...] = ()
    _toml: dict[str, Json] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Keep the parsed file, which `parse_experiment` hands over as the context."""
        self._toml = json.loads(json.dumps(context or {}, default=str))

    @model_validator(mode="after")
    def _has_corpora_and_names(self) -> "Experiment":
        if not self.corpora:
            raise ValueError("expected at least one [corpora.NAME]")
        _validate.within(0, _LARGEST_SEED - self.trials, seed=self.seed)
        names = [plan.name for plan in self.mechanisms]
        for plan in self.mechanisms:
            if names.count(plan.name) > 1:
                raise ValueError(f"expected name={plan.name!r} to belong to one mechanism: give others other names")
            for corpus in plan.corpora:
                if corpus not in self.corpora:
                    hint = nearest(corpus, self.corpora)
                    raise ValueError(f"expected {corpus!r} of {plan.name!r} to be a corpus: {hint}correct it")
        return self

    @property
    def toml(self) -> Mapping[str, Json]:
        """The file as it was parsed."""
        return self._toml

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the corpora."""
        sources = (source for plan in self.corpora.values() for source in (plan.common, *plan.sources.values()))
        return tuple(Path(source.path) for source in sources if source is not None and source.path)

    def measures(self) -> dict[str, Json]:
        """The settings of all measurements, as part of a cell's signature. Settings of unused audits are left out."""
        found: dict[str, Json] = {"utilities": [*self.utilities], "audits": [*self.audits]}
        found |= {"classifier": self.settings.classifier, "embedder": self.settings.embedder}
        if "authorship" in self.audits:
            own = self.settings.authorship
            found["authorship"] = [own.training, own.attacked, own.bundle, own.authors]
        if "distinguish" in self.audits:
            found["distinguish"] = self.settings.distinguish.trials
        return found


def read_experiment(path: Path) -> Experiment:
    """Read the experiment of a TOML file; ConfigError names the file and the key that cannot be read or run."""
    return parse_experiment(read_toml(path), source=str(path))


def parse_experiment(data: Mapping[str, object], *, source: str = "the experiment") -> Experiment:
    """Make the experiment of parsed TOML; ConfigError names the source and the wrong key."""
    try:
        return Experiment.model_validate(dict(data), context=data)
    except ValidationError as error:
        raise refused(error, source) from None
