"""Which columns are measured together follows public settings alone; each record has one cell in each marginal."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.guarantee import Relation
from dptext.synthesis.blocks import COUNTS, SumLayout
from dptext.synthesis.marginals import Axes, Marginal, marginal_shares
from dptext.synthesis.readings import PublicReader
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import STEPS, Noise, PrivateSum
from dptext.text.declarations import schema_of

LABELS = ("a", "b", "c")
SCHEMA = schema_of(["size: s|m|l", "stars?: 1..5 by 1", "who: id", "day: 2024-01..2024-12 by month"])
AXES = Axes.of(LABELS, SCHEMA)
TABLE = SummarySpec(labels=LABELS, columns=tuple(each.declaration for each in SCHEMA))


def test_ids_are_no_axis_and_pairs_come_by_their_number_of_cells() -> None:
    assert AXES.names == ("label", "size", "stars", "day")
    assert AXES.sizes == (3, 4, 6, 13)
    assert [*AXES.pairs] == ["label+size", "label+stars", "size+stars", "label+day", "size+day", "stars+day"]
    assert [*Axes.of((), SCHEMA).pairs] == ["size+stars", "size+day", "stars+day"]
    assert [each.axes for each in AXES.named(["size+day", "day+size"])] == [(1,), (2,), (3,), (1, 3)]


def test_more_noise_leaves_fewer_pairs() -> None:
    counts = [len(AXES.usual_pairs(scale, 5_000)) for scale in (0.1, 5, 20, 80, 1e6)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (6, 0)
    assert len(AXES.usual_pairs(20, 50_000)) > len(AXES.usual_pairs(20, 500))
    chosen = AXES.usual_pairs(20, 5_000)
    assert chosen == tuple(AXES.pairs)[: len(chosen)]


@pytest.mark.parametrize("scale", [3, 10, 20, 40, 90])
def test_topics_take_no_pair_from_columns(scale: float) -> None:
    with_topics = replace(AXES, topics=20)
    alone, found = AXES.usual_pairs(scale, 5_000), with_topics.usual_pairs(scale, 5_000)
    assert found[: len(alone)] == alone
    assert all("topics" in name for name in found[len(alone) :])
    if scale == 3:
        assert {"size+topics", "stars+topics"} <= {*found}
        assert "size+topics" not in with_topics.usual_pairs(scale, 5_000, ("size",))


def test_a_pair_with_few_topics_is_measured_where_larger_pairs_of_columns_are_not() -> None:
    few = replace(AXES, topics=2)
    partly = [scale for scale in range(1, 200) if 0 < len(AXES.usual_pairs(scale, 5_000)) < len(AXES.pairs)]
    assert any(few.usual_pairs(scale, 5_000) != AXES.usual_pairs(scale, 5_000) for scale in partly)


@pytest.mark.parametrize("scale", [3, 10, 20, 40, 90])
def test_noise_moves_no_more_of_a_pair_that_is_measured_than_is_said(scale: float) -> None:
    """As decision 27 says it: of any pair among those that are measured."""

    def moved(pairs: tuple[str, ...]) -> float:
        marginals = AXES.named(pairs)
        shares = marginal_shares(marginals)
        pair = (each for each in marginals if len(each.axes) == 2)
        return max((0.4 * each.size * scale / math.sqrt(shares[each.name]) / 5_000 for each in pair), default=0.0)

    chosen = AXES.usual_pairs(scale, 5_000)
    assert moved(chosen) <= 0.15
    assert chosen == tuple(AXES.pairs) or moved(tuple(AXES.pairs)[: len(chosen) + 1]) > 0.15


def test_a_wide_table_and_a_long_list_of_values_are_read() -> None:
    """Each would take minutes if its work grew with the square of pairs or values."""
    wide = Axes.of((), schema_of([f"c{i}: a|b" for i in range(100)]))
    assert len(wide.usual_pairs(0.01, 1_000_000)) == 4_950
    values = [f"value {i}" for i in range(10_000)]
    column = schema_of([f"country: {'|'.join(values)}"])[0]
    assert column.cells([*values, "another"])[-1] == column.unlisted


def test_the_shares_of_marginals_add_up_and_cells_with_more_noise_have_more() -> None:
    shares = marginal_shares(AXES.named(AXES.usual_pairs(0.1, 5_000)))
    assert sum(shares.values()) == pytest.approx(1)
    # The noise of all cells of a pair is size / sqrt(share): its sum is least at these shares.
    sizes = {each.name: each.size for each in AXES.named([*AXES.pairs]) if len(each.axes) == 2}

    def noise(of: dict[str, float]) -> float:
        return sum(size / math.sqrt(of[name]) for name, size in sizes.items())

    best = {name: shares[name] for name in sizes}
    rng = np.random.default_rng(1)
    for _ in range(50):
        moved = {name: share * math.exp(rng.normal(0, 0.1)) for name, share in best.items()}
        factor = sum(best.values()) / sum(moved.values())
        assert noise({name: share * factor for name, share in moved.items()}) >= noise(best) - 1e-9


def test_settings_have_the_pairs_that_their_noise_leaves_and_keep_them() -> None:
    assert TABLE.pairs == AXES.usual_pairs(TABLE.noise().scale / math.sqrt(2 / 9 * 0.99), TABLE.about)
    assert replace(TABLE, epsilon=0.1).pairs == TABLE.pairs  # as a summary like it has
    assert replace(TABLE, pairs=("none",)).pairs == ()
    assert replace(TABLE, pairs=("size+day",)).blocks[-1] == "columns size+day"
    assert sum(TABLE.block_shares.values()) == pytest.approx(1)
    own = replace(TABLE, column_share=0.25).block_shares
    assert sum(share for name, share in own.items() if name.startswith("columns")) == pytest.approx(0.25)
    assert TABLE.measured_fields == ("size", "stars", "day")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"columns": ("label: x|y",)}, "no column 'label' beside labels"),
        ({"columns": ("topics: x|y",), "topics": 4, "pairs": ()}, "no column 'topics' beside topics"),
        ({"columns": ("id: x|y",), "pairs": ()}, "no column 'id' beside the ids of rows"),
        ({"pairs": ("size+weight",)}, "'size\\+weight' to be a pair of columns, such as label\\+size"),
        ({"columns": (), "text_follows": ()}, "fewer than two columns to measure"),
        ({"columns": (), "pairs": ("none",), "text_follows": (), "column_share": 0.2}, "no share of rho for columns"),
        (
            {
                "columns": ("stars: 1..5 by 1",),
                "pairs": ("none",),
                "labels": (),
                "text_follows": ("auto",),
                "point_share": 0.1,
            },
            "no share of rho for point",
        ),
        ({"text_follows": ("weight",)}, "different columns that texts follow, of size, stars, day, found weight"),
        ({"text_follows": ("size", "size")}, "different columns that texts follow"),
        ({"text_follows": ("size",), "points": False}, "points for texts that follow size, found points=false"),
        ({"columns": ("n: 1..500 by 1",), "pairs": (), "text_follows": ("n",)}, "at most 100 cells of n"),
    ],
)
def test_what_cannot_be_measured_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(TABLE, **{"pairs": TABLE.pairs, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE])
def test_a_record_adds_one_to_its_cell_of_each_marginal(relation: Relation) -> None:
    marginals = AXES.named(["label+size", "stars+day"])
    shares = {COUNTS: 0.4, **{name: 0.6 * share for name, share in marginal_shares(marginals).items()}}
    layout = SumLayout.of({COUNTS: 1}, shares, Noise(math.inf, relation), rows=3, marks=0, marginals=marginals)
    reader = PublicReader(columns=AXES.columns)
    rng = np.random.default_rng(4)
    values = [["s", "m", "l", "xl", None], ["1", 5, None, "6"], ["2024-03-01", "2020-01-01", "?"]]
    rows = [
        {name: own[rng.integers(len(own))] for name, own in zip(AXES.names[1:], values, strict=True)}
        for _ in range(200)
    ]
    labels = rng.integers(0, 3, 200)
    read = reader.read(labels, ["text"] * 200, [None] * 200, rows)
    summed = PrivateSum(layout.cells, Noise(math.inf, relation))
    summed.add(*layout.vectors(read, None))
    known = layout.known(summed._clean() / STEPS, 1.0)
    names = [column.names for column in AXES.columns]
    placed = [[names[i][cell] for i, cell in enumerate(cells)] for cells in read.columns.tolist()]
    expected = np.zeros((3, 4))
    for label, own in zip(labels.tolist(), placed, strict=True):
        expected[label, names[0].index(own[0])] += 1
    np.testing.assert_allclose(known["columns label+size"].numbers.reshape(3, 4), expected, atol=1e-9)
    stars_day = np.zeros((6, 13))
    for own in placed:
        stars_day[names[1].index(own[1]), names[2].index(own[2])] += 1
    np.testing.assert_allclose(known["columns stars+day"].numbers.reshape(6, 13), stars_day, atol=1e-9)
    for i, name in enumerate(AXES.names[1:]):
        counted = [sum(own[i] == cell for own in placed) for cell in names[i]]
        np.testing.assert_allclose(known[f"columns {name}"].numbers[0], counted, atol=1e-9)
    squares = (np.trunc(layout.vectors(read, None)[1] * STEPS).astype(int) ** 2).sum(axis=1)
    assert STEPS**2 * 0.999 < squares.min() <= squares.max() <= STEPS**2


def test_names_that_hold_a_plus_are_told_from_pairs() -> None:
    """Blocks of one name would share what one pays for."""
    spec = SummarySpec(columns=("a: x|y", "b: x|y", "a+b: x|y"), pairs=("a+b",), text_follows=("none",))
    assert spec.blocks[-4:] == ("columns a", "columns b", r"columns a\+b", "columns a+b")
    assert sum(spec.block_shares.values()) == pytest.approx(1)
    parts = [block.part**2 for block in spec.layout(dim=1, width=1).blocks]
    assert sum(parts) <= 1
    both = SummarySpec(columns=("a: x|y", "b+c: x|y", "a+b: x|y", "c: x|y"), pairs=(r"a+b\+c", r"a\+b+c"))
    assert len(set(both.blocks)) == len(both.blocks)
    twice = [AXES.marginal(1)] * 2
    with pytest.raises(PrivacyError, match="one name"):
        SumLayout.of({}, dict.fromkeys([twice[0].name], 1.0), Noise(1.0, Relation.REPLACE_ONE), rows=1, marks=0,
                     marginals=twice)  # fmt: skip


def test_a_wide_table_makes_its_pairs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty columns have 1,770 pairs, which settings, the plan and the noise all ask for."""
    made = list[tuple[int, ...]]()
    usual = Axes.marginal

    def counted(axes: Axes, *places: int) -> Marginal:
        made.append(places)
        return usual(axes, *places)

    monkeypatch.setattr(Axes, "marginal", counted)
    spec = SummarySpec(columns=tuple(f"wide{i}: 0..9 by 1" for i in range(60)), about=50, text_follows=("none",))
    assert (len(spec.plan) > 1_000, spec.deviations() != {}, spec.guarantee().epsilon) == (True, True, 1.0)
    pairs = [each for each in made if len(each) == 2]
    assert len(pairs) == len({*pairs}) == 1_770
