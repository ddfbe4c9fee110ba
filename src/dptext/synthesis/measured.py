"""The settings of what a summary measures: its blocks, their shares of rho, and their noise."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dptext import _validate
from dptext.errors import ConfigError
from dptext.language.reading import MODEL_IS_PUBLIC, SMOLLM2
from dptext.privacy.events import Event, ZcdpEvent
from dptext.privacy.guarantee import Relation, Unit
from dptext.synthesis.blocks import (
    COLUMNS,
    COUNTS,
    LENGTHS,
    POINTS,
    TOPICS,
    UNLIKE,
    WORDS,
    SumLayout,
    block_of,
    kind_of,
)
from dptext.synthesis.few import Foreseen, abbreviated, leaving_apart, read_by_models, without_words
from dptext.synthesis.lengths import LengthBins
from dptext.synthesis.lexicon import MOST_READ
from dptext.synthesis.marginals import AUTO, NONE, Axes, Marginal, marginal_shares
from dptext.synthesis.means import means_moved
from dptext.synthesis.spec import CorpusSpec, require_names
from dptext.synthesis.sums import Noise
from dptext.text.declarations import schema_of
from dptext.text.records import ID_FIELD
from dptext.text.schema import DeclaredColumn, IdColumn

NOBODY_TWICE: Final = "nobody is in two of the corpora whose summaries were added"
#: The share of rho for the number of texts that are unlike the pool.
FIT_SHARE: Final = 0.01
#: How the rest of rho is shared among the blocks that are measured, unless a setting says otherwise.
WEIGHTS: Final[Mapping[str, float]] = {
    POINTS: 4.0, COUNTS: 1.0, TOPICS: 0.5, LENGTHS: 0.5, WORDS: 4.0, COLUMNS: 2.0,
}  # fmt: skip
_TOPICS_WITHOUT_POINTS: Final = 4.0
_ONE_COUNT: Final = 0.1  # the weight of the one number of units of a table without labels: columns tell it, too
#: Weight of the label's points and words, beside those of one column that texts follow.
_LABEL: Final = 2.0
_DIMS: Final = (64, 128, 256)
# Largest squared length of the noise of a class mean, divided by classes - 1 (class means differ in classes - 1
# directions). A space with more than the fewest directions must stay within this bound.
_NOISY: Final = 6.5e-4
_TOPIC_DIMS: Final = 64
_ROUNDING: Final = 1e-9  # of sums of shares


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpec(CorpusSpec, ABC):
    """Settings of what is measured, besides those of `CorpusSpec`.

    Attributes:
        names: meanings of the labels, one text for each, in their order; empty takes the labels as they are.
        points: whether points are measured; only with labels, or columns that texts follow.
        dim: directions of the space; 0 chooses 64 to 256 by `about`, labels and noise. A small pool has fewer.
        marks: largest number of different words of a text that count; 0 measures no words. With lengths, a digest of
            the text draws them; without, the first of the list count.
        lengths: least number of words of each bin of lengths but the first; empty measures no lengths.
        columns: declarations of the table's other columns, as `dptext.text.declarations.declared` reads them. A value
            that is not listed counts as *other*.
        pairs: pairs of columns that are measured together, such as "priority+amount", or of a column and the topics of
            texts ("amount+topics"); "auto" takes those that noise leaves readable, and "none" none.
        text_follows: columns that texts should follow besides the label: each has points, and words if these are
            measured, of its own. "auto" takes the first listed columns of at most 12 values, three with the label;
            "none" takes none.
        vocabulary: largest number of words that can count.
        model: the language model that writes public drafts, if words are measured and it is installed.
        drafts: number of public drafts for each label.
        tokens: largest number of tokens of a draft.
        examples: number of public texts that the model is shown; with lengths, fewer where texts are long.
        without_pool: whether the pool's texts are left out of the file. A writer is then given the pool.
        count_share, point_share, topic_share, word_share, length_share, column_share: shares of rho, as a document
            spends it: that of points is for the label and all columns that texts follow. 0 takes the default. An author
            may spend all of rho in one block.
        added: rho of each further summary that was added to this one; `dptext summary add` sets it.
        added_shares: the shares of rho of these summaries, one after the other, each in the order of `blocks`.
        disjoint: whether nobody is in two of the corpora whose summaries were added, by the word of their owners.
    """

    names: tuple[str, ...] = ()
    points: bool = True
    dim: int = 0
    marks: int = 0
    lengths: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    pairs: tuple[str, ...] = (AUTO,)
    text_follows: tuple[str, ...] = (AUTO,)
    vocabulary: int = 20_000
    model: str = SMOLLM2
    drafts: int = 48
    tokens: int = 24
    examples: int = 6
    without_pool: bool = False
    count_share: float = 0.0
    point_share: float = 0.0
    topic_share: float = 0.0
    word_share: float = 0.0
    length_share: float = 0.0
    column_share: float = 0.0
    added: tuple[float, ...] = ()
    added_shares: tuple[float, ...] = ()
    disjoint: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", require_names(self.names, self.labels))
        _validate.count(vocabulary=self.vocabulary, tokens=self.tokens)
        _validate.not_negative(dim=self.dim, drafts=self.drafts, examples=self.examples)
        _validate.within(0, MOST_READ, marks=self.marks)
        _ = self.bins  # refuses lengths that do not grow
        ids = [each for each in self.schema if isinstance(each, IdColumn) and each.rows == 1]
        if not ids and any(each.name == ID_FIELD for each in self.schema):
            raise ConfigError(
                f"Expected no column {ID_FIELD!r} beside the ids of rows, which are written under that name: declare "
                f"'{ID_FIELD}: id', or another column of ids."
            )
        for name, share in self._given.items():
            _validate.within(0.0, 0.98, **{f"{name[:-1]}_share": share})
        CorpusSpec.__post_init__(self)
        if not (self.labels or self.topics or self.marks or self.lengths or self.columns):
            raise ConfigError(
                "Expected labels, columns, topics, lengths or words to measure, found none: --labels a,b or --with "
                "topics."
            )
        if self.text_follows == (AUTO,):
            object.__setattr__(self, "text_follows", self.axes.usually_followed() if self.points else ())
        if self.text_follows == (NONE,):
            object.__setattr__(self, "text_follows", ())
        if self.followed and not self.points:
            raise ConfigError(
                f"Expected points for texts that follow {self.text_follows[0]}, found points=false: leave one out."
            )
        if self.pairs == (NONE,):
            object.__setattr__(self, "pairs", ())
        if self.pairs == (AUTO,):  # chosen once: a summary like this one, with other noise, has the same pairs
            scale = self.noise().scale / math.sqrt(self._main_shares[COLUMNS]) if self.axes.columns else math.inf
            object.__setattr__(self, "pairs", self.axes.usual_pairs(scale, self.about, self.text_follows))
        if self.lengths and self.marks and self.tokens <= self.lengths[-1]:
            raise ConfigError(
                f"Expected more than {self.lengths[-1]} tokens, for texts of as many words, found tokens={self.tokens}"
                ": set tokens=300."
            )
        idle = [name for name, share in self._given.items() if share and name not in self._main]
        if idle:
            raise ConfigError(f"Expected no share of rho for {', '.join(idle)}: that is not measured.")
        shares = self.block_shares
        if not math.isclose(total := sum(shares.values()), 1.0):
            fit = shares.get(UNLIKE, 0.0)
            raise ConfigError(
                f"Expected shares of rho that add up to {1 - fit:g}, as all are named, found {total - fit:.3g}."
            )
        whole = len(self.added_shares) == len(self.added) * len(self.blocks) and min(self.added_shares, default=1.0) > 0
        if not (whole and all(math.isclose(sum(each.values()), 1.0) for _, each in self._parts)):
            raise ConfigError(
                "Expected a share of rho above 0 for each block of each summary that was added: dptext summary add "
                "adds summaries."
            )

    @property
    def _main(self) -> tuple[str, ...]:
        """The names of what is measured, all columns being one of them."""
        measured = {
            POINTS: self.points and bool(self.labels or self.followed),
            TOPICS: self.topics > 0,
            WORDS: self.marks > 0,
        }
        measured |= {LENGTHS: bool(self.lengths), COLUMNS: bool(self.axes.columns)}
        found = [name for name in (POINTS, TOPICS, WORDS, LENGTHS, COLUMNS) if measured[name]]
        return (COUNTS, *found, *((UNLIKE,) if self.reads_points else ()))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks that are measured; each marginal of the columns is one."""
        main = (name for kind in self._main for name in self._named(kind))
        return (*main, *(each.name for each in self.marginals))

    def _named(self, kind: str) -> dict[str, float]:
        """The names of the blocks of a kind, but for columns, and the weight of each among them."""
        if kind == COLUMNS:
            return {}
        own = {kind: _LABEL} if kind != POINTS or self.labels else {}
        columns = self.followed if kind in (POINTS, WORDS) else ()
        return {**own, **{block_of(kind, each): 1.0 for each in columns}}

    @property
    def followed(self) -> tuple[Marginal, ...]:
        """The columns that texts follow. ConfigError: a name is unknown, or stands twice, or has too many cells."""
        return self.axes.followed(self.text_follows)

    @property
    def schema(self) -> tuple[DeclaredColumn, ...]:
        """The declared columns, ids among them. ConfigError: a declaration is none, or two have one name."""
        return _schema(self.columns)

    @property
    def axes(self) -> Axes:
        """The labels, the columns that are measured, and topics. ConfigError: see `Axes.of`."""
        return _axes(tuple(self.labels), self.columns, self.topics)

    @property
    def pool_writes(self) -> bool:
        """Whether texts of the pool can be chosen by what is measured: beside columns any text will do."""
        return bool({POINTS, TOPICS, COLUMNS} & {*self._main})

    @property
    def measured_fields(self) -> tuple[str, ...]:
        """The names of the declared columns, but for ids."""
        return tuple(each.name for each in self.axes.columns)

    @property
    def advice(self) -> str:
        """Warnings of few units for what is measured, by the public statement `about`, beside the noise of numbers."""
        also = (
            read_by_models(self.marks, self.lengths, pool=self.pool_writes),
            without_words(self.labels, self.names),
            abbreviated(self.labels, self.names),
            "" if self.pairs else leaving_apart(self.axes, self.marginals),
        )
        return "\n".join([*self.foreseen.warnings(), *filter(None, also)])

    @property
    def foreseen(self) -> Foreseen:
        """What the summary is about, beside the noise of its numbers."""
        alone, pairs = ({each.name: each.size for each in self.marginals if len(each.axes) == n} for n in (1, 2))
        return Foreseen(self.about, self.unit, len(self.labels), self.topics, self.deviations(), alone, pairs)

    @property
    def plan(self) -> str:
        """A sentence on what is measured, with the deviation of the noise of a number of units."""
        noise = self.deviations()
        said = (
            name if kind_of(name) == POINTS else f"{name} ±{noise[name]:,.0f}" for name in self.blocks if name != UNLIKE
        )
        unit = "documents" if self.unit == "document" else "the weight of authors"
        plan = (
            f"Measured as for about {self.about:,} {self.unit}s, each number of {unit} with this standard deviation of "
            f"its noise: {', '.join(said)}."
        )
        columns = (
            f"{each.name} has {len(each.shown):,} of them, the first is {each.shown[0]}, the last {each.shown[-1]}"
            for each in self.axes.columns
        )
        if not self.axes.columns:
            return plan
        named = filter(None, (self.pairs_named, self.means_moved, f"Values and bins: {'; '.join(columns)}."))
        return "\n".join([plan, *named])

    @property
    def pairs_named(self) -> str:
        """A sentence on the pairs of columns that are measured and those that are not; topics only if measured."""
        pairs, known, topic = self.axes.pairs, {*self.marginals}, self.axes.topic
        there = {name for name, each in pairs.items() if each in known}
        others = [name for name, each in pairs.items() if name not in there and topic not in each.axes]
        said = f"Pairs of columns that are measured: {', '.join(sorted(there)) or 'none'}."
        if others:
            said += f" Not measured: {', '.join(others)} (noise may hide them; --pairs names what belongs together)."
        return said

    @property
    def means_moved(self) -> str:
        """A sentence on how far noise moves means of numbers by listed columns; empty if no such pair is measured."""
        share = self._main_shares.get(COLUMNS, 0.0)
        return means_moved(self.axes, self.marginals, self.deviations(), self.about, share)

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """The marginals that are measured. ConfigError: a pair is unknown."""
        return self.axes.named(self.pairs)

    @property
    def bins(self) -> LengthBins:
        """The bins of lengths; one bin if no lengths are measured. ConfigError: lengths do not grow."""
        return LengthBins(self.lengths)

    @property
    def reads_points(self) -> bool:
        """Whether texts get points, in a space that an encoder reads."""
        return self.topics > 0 or (self.points and bool(self.labels or self.followed))

    @property
    def _given(self) -> dict[str, float]:
        return {
            POINTS: self.point_share, COUNTS: self.count_share, TOPICS: self.topic_share, WORDS: self.word_share,
            LENGTHS: self.length_share, COLUMNS: self.column_share,
        }  # fmt: skip

    @property
    def block_shares(self) -> dict[str, float]:
        """The share of rho of each block of a document. Shares that are not set divide the rest by `WEIGHTS`."""
        main, found = self._main_shares, dict[str, float]()
        columns = main.pop(COLUMNS, 0.0)
        for kind, share in main.items():
            weights = self._named(kind)
            found |= {name: share * weight / sum(weights.values()) for name, weight in weights.items()}
        return {**found, **{name: share * columns for name, share in marginal_shares(self.marginals).items()}}

    @property
    def _main_shares(self) -> dict[str, float]:
        given = {name: share for name, share in self._given.items() if share}
        weights = {**WEIGHTS, COUNTS: _ONE_COUNT if self.axes.columns and not self.labels else WEIGHTS[COUNTS]}
        free = {
            name: weights[name] * (sum(self._named(name).values()) / _LABEL if name in (POINTS, WORDS) else 1.0)
            for name in self._main
            if name not in given and name != UNLIKE
        }
        if TOPICS in free and POINTS not in self._main:
            free[TOPICS] = _TOPICS_WITHOUT_POINTS
        own = {UNLIKE: FIT_SHARE} if UNLIKE in self._main else {}
        left = 1.0 - sum(own.values()) - sum(given.values())
        if left < -_ROUNDING or (free and left <= _ROUNDING):
            most = f"{1 - sum(own.values()):g}" + (f", and leave some for {', '.join(free)}" if free else "")
            raise ConfigError(
                f"Expected shares of rho that add up to at most {most}, found {sum(given.values()):.3g} for "
                f"{' + '.join(given)}."
            )
        whole = sum(free.values())
        return {**own, **given, **{name: left * weight / whole for name, weight in free.items()}}

    @property
    def _parts(self) -> list[tuple[Noise, Mapping[str, float]]]:
        """The noise, and the share of rho of each block, of this summary and of those that were added to it."""
        n, relation = len(self.blocks), Relation(self.relation)
        added = (dict(zip(self.blocks, self.added_shares[i * n :], strict=False)) for i in range(len(self.added)))
        noises = (Noise(rho, relation) for rho in self.added)
        return [(self.noise(), self.block_shares), *zip(noises, added, strict=True)]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions; with words also that the language model is public, and that added corpora are apart."""
        model = (MODEL_IS_PUBLIC,) if self.marks else ()
        return (*self.assumptions, *model, *((NOBODY_TWICE,) if self.added and self.disjoint else ()))

    def events(self, unit: Unit) -> tuple[Event, ...]:
        """Return the events of one unit: all summaries that were added, or the costliest if nobody is in two."""
        own = CorpusSpec.events(self, unit)
        if self.disjoint:
            return (ZcdpEvent(max(self.rho, *self.added)),) if self.added else own
        return (*own, *(ZcdpEvent(rho) for rho in self.added))

    @property
    def shown(self) -> tuple[str, ...]:
        """The meanings of the labels; of all texts "text" without labels."""
        return self.names or self.labels or ("text",)

    def directions(self, scale: float) -> int:
        """Return the number of directions of the space. `scale` is the noise of a point's coordinate."""
        if self.dim:
            return self.dim
        if POINTS not in self._main:
            return _TOPIC_DIMS
        classes = len(self.labels) or self.followed[0].size
        most, noise = _NOISY * (classes - 1), scale * classes / self.about
        return max((dim for dim in _DIMS if dim * noise**2 <= most), default=_DIMS[0])

    def layout(self, *, dim: int, width: int, share: float = 1.0) -> SumLayout:
        """Return the blocks for points of `dim` coordinates and a list of `width` words."""
        return self._layout(self.noise(share), self.block_shares, dim=dim, width=width)

    def _layout(self, noise: Noise, shares: Mapping[str, float], *, dim: int, width: int) -> SumLayout:
        widths = {POINTS: dim, COUNTS: 1, TOPICS: self.topics, LENGTHS: len(self.bins), WORDS: width, UNLIKE: 1}
        measured = {name: widths[kind] for kind in self._main for name in self._named(kind)}
        return SumLayout.of(
            measured, shares, noise, rows=max(1, len(self.labels)), marks=self.marks, marginals=self.marginals,
            followed=self.followed,
        )  # fmt: skip

    def deviations(self) -> dict[str, float]:
        """Return the deviation of the noise of each block: of this summary, and of those that were added to it."""
        found = dict.fromkeys(self.blocks, 0.0)
        for noise, shares in self._parts:
            for each in self._layout(noise, shares, dim=1, width=1).blocks:
                found[each.name] = math.hypot(found[each.name], noise.scale / each.part)
        return found


@lru_cache(64)
def _axes(labels: tuple[str, ...], columns: tuple[str, ...], topics: int) -> Axes:
    """Return the axes, which are asked for often: of many columns all pairs take time."""
    return Axes.of(labels, _schema(columns), topics)


@lru_cache(64)
def _schema(declarations: tuple[str, ...]) -> tuple[DeclaredColumn, ...]:
    return schema_of(declarations)
