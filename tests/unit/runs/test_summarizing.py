"""`dp.summarize`, `dp.write` and `add` in Python: measured once, written again and again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptext as dp
import tiny_language
from dptext.errors import ConfigError, DataError, MissingExtraError
from dptext.mechanism import FitProgress, settings
from dptext.runs import summarizing
from dptext.runs.certificate import certificate_path
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.summarizing import require_other
from dptext.runs.synthesized import Synthesized
from dptext.sampling.randomness import seeded
from dptext.synthesis.blocks import COUNTS
from dptext.synthesis.summary import SummarySpec
from dptext.synthesis.sums import Draws
from loaded_once import encoder_once  # noqa: F401  # a fixture

LABELS = ("health", "travel", "money", "leisure")
PRIVATE, POOL = dp.sample_records(317, seed=1), [r.text for r in dp.sample_records(200, seed=2)]
SMALL = {"labels": LABELS, "encoder": "glove", "words": 8, "about": 300, "epsilon": 8.0}


WORDS_TOO: dict[str, Any] = {"also": ["words", "topics"], "topics": 4, "drafts": 0, "vocabulary": 80}
pytestmark = pytest.mark.filterwarnings("ignore:No public drafts are written:UserWarning")


@pytest.fixture(scope="module")
def summary() -> Synthesized:
    with pytest.warns(UserWarning, match=r"No public drafts are written \(drafts=0\)"):
        return dp.summarize(PRIVATE, POOL, label="label", **WORDS_TOO, **SMALL)


def test_progress_tells_of_public_texts_alone() -> None:
    seen = list[FitProgress]()
    made = dp.summarize(PRIVATE, POOL, label="label", on_progress=seen.append, **SMALL)
    dp.synthesize(PRIVATE, POOL, label="label", on_progress=(other := list[FitProgress]()).append, **SMALL)
    n = len({*POOL})
    assert {(each.total, each.unit) for each in (*seen, *other)} == {(n, "public texts read")}
    assert seen[-1].done == other[-1].done == n
    n = len(seen)
    dp.summarize(PRIVATE, like=made, on_progress=seen.append)
    assert len(seen) == n, "nothing is fitted"


def test_a_summary_like_another_can_be_added_to_it(summary: Synthesized, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.summary" for name in "abc"]
    summary.write(paths[0])
    own: dict[str, Any] = {"label": "label", "epsilon": 4.0, "about": 90}
    more = dp.sample_records(90, seed=4)
    for path, like in zip(paths[1:], (summary, paths[0]), strict=True):
        made = dp.summarize(more, like=like, **own)
        made.write(path)
        assert made.summary.public.digests == summary.summary.public.digests
        assert made.certificate.guarantees[-1].epsilon == pytest.approx(4.0)
    whole = summarizing.add(*paths)
    assert whole.summary.spec.about == 300 + 2 * 90
    explained = whole.certificate.explain()
    assert "each further summary of the same records adds. A record was a row. It is the sum of 3" in explained
    with pytest.raises(ConfigError, match="to be no input"):
        made.write(paths[0], force=True)
    bare = dp.summarize(more, like=summary, without_pool=True, **own)
    assert not bare.summary.public.has_pool
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no drafts are stored there, which is not said to be a lack
        assert not dp.summarize(more, like=bare, **own).summary.public.has_pool


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"public": POOL}, "one of public=POOL and like=OTHER"),
        ({"like": None}, "one of public=POOL and like=OTHER"),
        ({"seed": 1}, "no public_text and no seed with like"),
        ({"public_text": "body"}, "no public_text and no seed with like"),
        ({"marks": 2}, "Expected marks as in the summary"),
        ({"labels": ("health", "money")}, "Expected labels as in the summary"),
        ({"also": ["words"], "unit": "author"}, "Expected unit as in the summary"),
    ],
)
def test_what_would_differ_from_the_other_summary_is_refused(
    summary: Synthesized, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        dp.summarize(PRIVATE, label="label", **{"like": summary, **given})


def test_a_missing_model_is_warned_of_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise MissingExtraError("A language model needs weights.")

    def measured(*_: Any, **__: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr("dptext.synthesis.drafting.load_language_model", absent)
    monkeypatch.setattr(summarizing, "run", measured)
    with pytest.warns(UserWarning, match="For drafts, stop now, and run: "), pytest.raises(InterruptedError):
        dp.summarize(PRIVATE, POOL, label="label", **{**WORDS_TOO, "drafts": 2}, **SMALL)


def test_a_summary_is_one_draw_of_the_numbers_of_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy, drawn = Draws.noisy, list[bool]()

    def noted(draws: Draws, *given: object) -> object:
        drawn.append(draws.randomness.is_secure)
        return noisy(draws, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Draws, "noisy", noted)
    made = dp.summarize(PRIVATE, POOL, label="label", **SMALL)
    assert drawn.count(True) == 1
    found = made.summary
    truth = Counter(record.label for record in PRIVATE)
    assert found.counts.numbers == pytest.approx([truth[name] for name in LABELS], abs=6 * found.counts.deviation)
    assert made.releases == ()
    assert [each.epsilon for each in made.guarantees] == [8.0]
    for _ in range(3):
        assert len(dp.write(made, size=20).releases) == 20
    assert drawn.count(True) == 1


def test_settings_are_those_that_are_named(summary: Synthesized) -> None:
    assert summary.summary.spec.blocks == ("counts", "points", "topics", "words", "unlike")
    found = summarizing.measured_settings(["words"], ["points"], {"words": 0.5})
    assert found == {"marks": 5, "points": False, "word_share": 0.5}
    for given in ((["colours"],), ((), ["counts"]), ((), (), {"fit": 0.1})):
        with pytest.raises(ConfigError, match="Expected"):
            summarizing.measured_settings(*given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("also", "off"), [("words", {"marks": 0}), ("topics", {"topics": 0}), ("lengths", {"lengths": []})]
)
def test_what_is_measured_besides_is_not_turned_off(also: str, off: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Expected --with {also} or a setting that measures none, found both"):
        dp.summarize(PRIVATE, POOL, label="label", **SMALL, also=[also], **off)  # type: ignore[arg-type]


def test_a_list_may_be_typed_without_brackets() -> None:
    found = synthesis_from_settings({"kind": "summary", "labels": "a, b", "lengths": "15,60"})
    assert (found.labels, found.lengths) == (("a", "b"), (15, 60))
    assert synthesis_from_settings({"kind": "summary", "lengths": 15}).lengths == (15,)
    with pytest.raises(ConfigError, match=r"Setting 'lengths.1' of summary: .* found 'x'"):
        synthesis_from_settings({"kind": "summary", "lengths": "15,x"})


def test_a_corpus_is_the_same_from_memory_and_from_a_file(summary: Synthesized, tmp_path: Path) -> None:
    summary.write(tmp_path / "a.summary")
    first, second = dp.write(summary, size=40, seed=3), dp.write(tmp_path / "a.summary", size=40, seed=3)
    assert first.releases == second.releases
    own = summary.certificate
    assert first.certificate.derived == second.certificate.derived
    assert first.certificate.derived["summary"] == own.sha256
    assert first.certificate.derived["writer"] == "pool"
    assert "; writing again from the summary adds nothing." in first.certificate.explain()
    assert "each repetition" not in first.certificate.explain()
    assert "one release; each repetition adds" in own.explain()
    assert (first.certificate.guarantees, first.certificate.events) == (own.guarantees, own.events)
    first.write(tmp_path / "out.csv")
    assert dp.verify(certificate_path(tmp_path / "out.csv")).certificate.derived == first.certificate.derived
    for target in ("a.summary", "a.summary.guarantee.json"):
        with pytest.raises(ConfigError, match="to be no input"):
            second.write(tmp_path / target, force=True)
    with pytest.raises(ConfigError, match="they hold no summary"):
        _ = first.summary


def test_a_summary_without_its_pool_writes_the_same_corpus_once_it_is_given(
    summary: Synthesized, tmp_path: Path
) -> None:
    whole = summary.summary
    public, spec = whole.public.without_pool(), replace(whole.spec, without_pool=True)
    data = replace(whole, spec=spec, public=public).to_bytes()
    certificate = replace(
        summary.certificate, sha256=hashlib.sha256(data).hexdigest(), settings=settings(spec), digests=public.digests
    )
    bare = replace(summary, data=data, certificate=certificate)
    bare.write(tmp_path / "bare.summary")
    expected = dp.write(summary, size=40, seed=3)
    for found in (bare, tmp_path / "bare.summary"):
        again = dp.write(found, size=40, seed=3, public=POOL)
        assert again.releases == expected.releases
        assert again.report == expected.report
        with pytest.raises(ConfigError, match=r"Expected the pool, as this summary leaves it out \(.* texts, sha256 "):
            dp.write(found, size=40)
        with pytest.raises(ConfigError, match=r"found 10 with sha256 .*give the file that dptext summarize had"):
            dp.write(found, size=40, public=POOL[:10])
    with pytest.raises(ConfigError, match="Expected the pool of this summary"):
        dp.write(summary, public=POOL[:10])
    rows = [{"body": text} for text in POOL]
    assert dp.write(bare, size=40, seed=3, public=rows, public_text="body").releases == expected.releases
    file = tmp_path / "pool.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    again = dp.write(bare, size=40, seed=3, public=file, public_text="body")
    assert again.releases == expected.releases
    with pytest.raises(ConfigError, match="to be no input"):
        again.write(file, force=True)


def test_a_model_writes_the_same_from_a_summary_without_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples that it is shown follow from the pool; the drafts, which may repeat them, are not needed."""
    pytest.importorskip("numba")
    for module in tiny_language.LOADING:
        monkeypatch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model())
    monkeypatch.setattr("dptext.runs.writing.is_there", lambda _: True)
    monkeypatch.setattr("dptext.synthesis.writer.is_readable", bool)
    given = {
        "label": "label", "labels": ("health", "travel"), "also": ["words"], "without": ["points"], "vocabulary": 30,
        "drafts": 2, "tokens": 6, "examples": 2, "encoder": "glove", "words": 0, "about": 300, "seed": 1,
    }  # fmt: skip
    records = list(dp.sample_records(60, seed=2))
    whole, bare = (
        dp.summarize(list(PRIVATE), records, randomness=seeded(1), without_pool=each, **given) for each in (False, True)
    )
    assert whole.summary.public.examples
    assert whole.summary.public.drafts
    found = bare.summary.public
    assert (found.examples, found.drafts, found.pool.texts) == ((), (), ())
    set_ = {
        "writer": "builtin",
        "size": 4,
        "seed": 2,
        "tokens": 6,
        "drafts": 2,
        "matches": 1,
        "options": 40,
        "processes": 1,
    }
    loaded = list[str]()
    monkeypatch.setattr(
        "dptext.synthesis.from_model.load_language_model", lambda name: (loaded.append(name), tiny_language.model())[1]
    )
    expected, again = dp.write(whole, **set_), dp.write(bare, public=records, **set_)
    assert len(loaded) == 2  # once for each corpus
    assert expected.certificate.derived["weights"] == tiny_language.model().digest
    assert expected.certificate.derived["writer"] == again.certificate.derived["writer"] == "builtin"
    assert expected.releases == again.releases
    assert len(expected.releases) > 0
    assert expected.sentences == again.sentences
    assert bare.certificate.digests == whole.certificate.digests
    assert whole.certificate.digests["model"] == tiny_language.model().digest


def test_a_mix_and_settings_of_the_writer(summary: Synthesized) -> None:
    made = dp.write(summary, size=40, mix={"health": 0.75}, seed=1)
    with pytest.warns(UserWarning, match="5,000 texts were asked for, and 197 leave"):
        dp.write(summary, size=5_000, seed=1)
    assert Counter(each.label for each in made.releases)["health"] == pytest.approx(30, abs=2)
    with pytest.raises(ConfigError, match="Known: size, prior"):
        dp.write(summary, colour=1)
    with pytest.raises(ConfigError, match="one of pool, builtin"):
        dp.write(summary, writer="poet")


def test_a_mix_takes_labels_as_they_are_known_elsewhere() -> None:
    """Numbers in Python, as `labels` takes them; other spellings of one label are one label."""
    codes = {name: i for i, name in enumerate(("health", "travel", "money", "leisure"))}
    rows = [{"text": each.text, "label": codes[each.label or ""]} for each in dp.sample_records(150, seed=1)]
    given = {"label": "label", "labels": range(4), "encoder": "glove", "about": 150, "epsilon": 8.0}
    with pytest.raises(ConfigError, match=r"Expected names=\[\.\.\.\].* names=labels goes on without"):
        dp.summarize(rows, POOL, **given)
    made = dp.summarize(rows, POOL, names=list(codes), **given)
    written = dp.write(made, size=40, mix={0: 0.5, 1.0: 0.5}, seed=1)
    assert {str(each.label) for each in written.releases} == {"0", "1"}
    assert written.certificate.derived["mix"] == {"0": 0.5, "1": 0.5}
    with pytest.raises(ConfigError, match="each label once"):
        dp.write(made, mix={0: 0.5, "0": 0.2})  # type: ignore[dict-item]


def test_a_mix_chooses_and_does_not_label(summary: Synthesized) -> None:
    """Where one label is wanted alone, texts of other labels do not leave under its name."""
    own = {record.text: record.label for record in dp.sample_records(200, seed=2)}
    alone = dp.write(summary, writer="pool", mix={"health": 1.0}, size=30)
    assert {each.label for each in alone.releases} == {"health"}
    assert np.mean([own[each.output] == "health" for each in alone.releases]) > 0.7
    topics = dp.summarize(PRIVATE, POOL, label="label", also=["topics"], without=["points"], topics=4, **SMALL)
    assert dp.write(topics, writer="pool", size=20).releases
    with pytest.raises(ConfigError, match="no mix of labels"):
        dp.write(topics, writer="pool", mix={"health": 1.0})
    with pytest.raises(ConfigError, match="size=-3"):
        dp.write(summary, writer="pool", size=-3)


@pytest.mark.parametrize("fault", ["epsilon", "noise"])
def test_a_summary_that_says_other_settings_than_its_certificate_is_refused(
    summary: Synthesized, fault: str, tmp_path: Path
) -> None:
    """The sha256 is right, so the file was changed with its certificate; the settings in the file are not those."""
    path = tmp_path / "a.summary"
    certificate = summary.write(path)
    found, _, _ = summarizing.read_summary(path)
    if fault == "epsilon":
        other = replace(found, spec=replace(found.spec, epsilon=0.1))
    else:
        counts = found.known[COUNTS]
        other = replace(found, known={**found.known, COUNTS: replace(counts, deviation=counts.deviation / 2)})
    data = other.to_bytes()
    path.write_bytes(data)
    changed = replace(certificate, sha256=hashlib.sha256(data).hexdigest())
    certificate_path(path).write_text(changed.to_json())
    with pytest.raises(DataError, match="other settings than its certificate"):
        summarizing.read_summary(path)


def test_another_summary_beside_a_copy_of_a_certificate_is_refused(summary: Synthesized, tmp_path: Path) -> None:
    """The certified file is there under its own name, and the other summary has the same settings and deviations."""
    path, copied = tmp_path / "a.summary", tmp_path / "b.summary"
    summary.write(path)
    copied.write_bytes(path.read_bytes())
    certificate_path(copied).write_bytes(certificate_path(path).read_bytes())
    assert summarizing.read_summary(copied).sha256 == summary.certificate.sha256
    found, counts = summary.summary, summary.summary.known[COUNTS]
    other = replace(found, known={**found.known, COUNTS: replace(counts, numbers=counts.numbers + 1)})
    copied.write_bytes(other.to_bytes())
    with pytest.raises(DataError, match="sha256 differs"):
        summarizing.read_summary(copied)


@pytest.mark.slow_cases(
    "1.0",
    why="what is right is also asked where the deviation is wrong; sums are read in tests/e2e/test_summary_commands.py",
)
@pytest.mark.slow_cases("0.5", why="the other side stays")
@pytest.mark.parametrize("factor", [1.0, 0.5, 1.5])
def test_the_noise_of_a_sum_follows_from_its_parts(factor: float, tmp_path: Path) -> None:
    """Three parts of other epsilons and shares. A deviation that does not follow is refused: smaller or larger."""
    paths = [tmp_path / f"{name}.summary" for name in "abcd"]
    for epsilon, share, path in zip((4.0, 2.0, 8.0), (0.0, 0.6, 0.3), paths, strict=False):
        dp.summarize(PRIVATE, POOL, label="label", count_share=share, **{**SMALL, "epsilon": epsilon}).write(path)
    sum_of_two = summarizing.add(*paths[:2], disjoint=True)
    sum_of_two.write(paths[3])
    whole = summarizing.add(paths[2], paths[3], disjoint=True)  # a sum is added, too
    apart = [summarizing.read_summary(each)[0].known[COUNTS].deviation for each in paths[:3]]
    found = whole.summary
    assert found.known[COUNTS].deviation == pytest.approx(np.linalg.norm(apart))
    for name, known in found.known.items():
        deviation = known.deviation * factor
        data = replace(found, known={**found.known, name: replace(known, deviation=deviation)}).to_bytes()
        own = replace(whole.certificate, sha256=hashlib.sha256(data).hexdigest())
        replace(whole, data=data, certificate=own).write(tmp_path / "e.summary", force=True)
        if factor == 1.0:
            assert summarizing.read_summary(tmp_path / "e.summary")[0].known[name].deviation == deviation
        else:
            with pytest.raises(DataError, match="other settings than its certificate"):
                summarizing.read_summary(tmp_path / "e.summary")


@pytest.mark.parametrize("shares", [(), (1.0,), (0.5, 0.5, 0.5), (1.5, -0.5, 0.0), (0.5, 0.49)])
def test_a_sum_without_the_shares_of_its_parts_is_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="each block of each summary"):
        SummarySpec(labels=("a", "b"), added=(0.1,), added_shares=shares)
    SummarySpec(labels=("a", "b"), added=(0.1,), added_shares=(0.2, 0.79, 0.01))


def test_frames_have_the_columns_that_are_named(summary: Synthesized) -> None:
    made = dp.write(summary, size=10, text="Body", label="Topic")
    texts, labels = [each.output for each in made.releases], [each.label for each in made.releases]
    expected = {"id": [str(i) for i in range(10)], "Body": texts, "Topic": labels}
    assert made.to_dict() == expected
    pytest.importorskip("pandas")
    frame = made.to_pandas()
    assert {name: list(frame[name]) for name in frame.columns} == expected
    pytest.importorskip("datasets")
    assert made.to_dataset().to_dict() == expected


def test_a_polars_frame_has_them_too(summary: Synthesized) -> None:
    made = dp.write(summary, size=10)
    pytest.importorskip("polars")
    assert made.to_polars().to_dict(as_series=False) == made.to_dict()


def test_a_corpus_without_labels_has_no_column_of_labels() -> None:
    given = {**SMALL, "labels": ()}
    made = dp.write(dp.summarize(PRIVATE, POOL, also=["topics"], topics=4, **given), size=10)
    assert [*made.to_dict()] == ["id", "text"]


def test_a_sum_of_seeded_and_secure_summaries_is_not_secure(tmp_path: Path) -> None:
    for name, how in (("a", None), ("b", seeded(1))):
        dp.summarize(PRIVATE, POOL, label="label", randomness=how, **SMALL).write(tmp_path / f"{name}.summary")
    made = summarizing.add(tmp_path / "a.summary", tmp_path / "b.summary")
    assert made.certificate.randomness == "seeded"
    parts = [summarizing.read_summary(tmp_path / f"{name}.summary")[0] for name in "ab"]
    np.testing.assert_allclose(
        made.summary.counts.numbers, sum(part.counts.numbers for part in parts), rtol=0, atol=1e-9
    )
    with pytest.raises(ConfigError, match="at least two summaries"):
        summarizing.add(tmp_path / "a.summary")


def test_a_sum_says_how_texts_were_read(tmp_path: Path, summary: Synthesized) -> None:
    summary.write(tmp_path / "a.summary")
    other = dp.summarize(dp.sample_records(90, seed=4), POOL, label="label", **WORDS_TOO, **SMALL)
    replace(other, certificate=replace(other.certificate, reading=("strip_html",))).write(tmp_path / "b.summary")
    assert summarizing.add(tmp_path / "a.summary", tmp_path / "b.summary").certificate.reading == ("strip_html",)


def test_a_sum_states_its_records_and_summaries_of_other_records_are_refused(
    summary: Synthesized, tmp_path: Path
) -> None:
    """A whole file is another unit than a line."""
    shifted = replace(summary.summary, known={
        name: replace(known, numbers=known.numbers + 1.0) for name, known in summary.summary.known.items()
    })  # fmt: skip
    for name, record, whole in (("a", "file", summary.summary), ("b", "file", shifted), ("c", "line", shifted)):
        data = whole.to_bytes()
        own = replace(summary.certificate, record=record, sha256=hashlib.sha256(data).hexdigest())
        replace(summary, data=data, certificate=own).write(tmp_path / f"{name}.summary")
    assert summarizing.add(tmp_path / "a.summary", tmp_path / "b.summary").certificate.record == "file"
    with pytest.raises(ConfigError, match="found file and line"):
        summarizing.add(tmp_path / "a.summary", tmp_path / "c.summary")


@pytest.mark.parametrize("private", ["{0}/part.csv", "{0}", "{0}/*.csv", "{1}/**/*.csv"])
def test_a_table_among_the_private_files_declares_no_columns(private: str, tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    for place in (folder / "part.csv", tmp_path / "copied.csv"):
        place.write_text("text,size\nso,small\nno,small\n", "utf-8")
    (tmp_path / "public.csv").write_text("text,size\nso,small\nno,large\n", "utf-8")
    named = private.format(folder, folder.parent)
    with pytest.raises(ConfigError, match=r"found the private file part\.csv"):
        require_other(named, folder / "part.csv")
    with pytest.raises(ConfigError, match=r"found the private file copied\.csv"):
        require_other(named, tmp_path / "copied.csv")
    if "**" not in private:
        require_other(named, tmp_path / "public.csv")


def test_labels_leave_in_the_type_of_public_ones(tmp_path: Path) -> None:
    """A public frame or Parquet file has types. Else labels are texts, or what the settings say."""
    pd = pytest.importorskip("pandas")
    pq = pytest.importorskip("pyarrow.parquet")
    rows, pool = dp.sample_records(120, seed=1), dp.sample_records(60, seed=2)
    stars = {name: i + 1 for i, name in enumerate(sorted({each.label or "" for each in rows}))}

    def frame(records: Sequence[dp.Record]) -> Any:
        own = [stars[each.label or ""] for each in records]
        return pd.DataFrame({"text": [each.text for each in records], "stars": own})

    private, public = frame(rows), frame(pool)
    public.to_parquet(tmp_path / "public.parquet")
    labels = ["1", "2", "3", "4"]
    own: dict[str, Any] = {"label": "stars", "labels": labels, "names": labels, "encoder": "glove", "about": 120}
    for texts in (public, tmp_path / "public.parquet"):
        summary = dp.summarize(private, texts, **own)
        assert summary.certificate.settings["label_type"] == "int64"
        made = dp.write(summary, size=30, label="stars", seed=1)
        assert {type(each) for each in made.to_dict()["stars"]} == {int}
        assert made.to_pandas()["stars"].dtype == "int64"
        assert isinstance(json.loads(made.json_lines().splitlines()[0])["stars"], int)
        assert hashlib.sha256(made.json_lines()).hexdigest() == made.certificate.sha256
        made.write(tmp_path / "out.parquet", force=True)
        assert str(pq.read_schema(tmp_path / "out.parquet").field("stars").type) == "int64"
    again = dp.summarize(private, like=summary, label="stars", epsilon=2.0)
    summary.write(tmp_path / "a.summary")
    again.write(tmp_path / "b.summary")
    assert summarizing.add(tmp_path / "a.summary", tmp_path / "b.summary").certificate.settings["label_type"] == "int64"
    one = dp.synthesize(private, public, **{name: value for name, value in own.items() if name != "names"})
    assert {type(each) for each in one.to_dict()["stars"]} == {int}
    assert hashlib.sha256(one.json_lines()).hexdigest() == one.certificate.sha256
    rows_of = [{"text": each.text, "stars": stars[each.label or ""]} for each in pool]
    (tmp_path / "public.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of), "utf-8")
    for typed in (rows_of, tmp_path / "public.jsonl", public.assign(stars=public["stars"].astype("category"))):
        assert dp.summarize(private, typed, **own).certificate.settings["label_type"] == "int64"
    for texts in ([each.text for each in pool], public.assign(stars=public["stars"].astype(str))):
        bare = dp.summarize(private, texts, **own)
        assert "label_type" not in bare.certificate.settings
        assert {type(each) for each in dp.write(bare, size=30, label="stars").to_dict()["stars"]} == {str}
    named = dp.summarize(private, [each.text for each in pool], **own, label_type="int64")
    assert {type(each) for each in dp.write(named, size=30, label="stars").to_dict()["stars"]} == {int}
    with pytest.raises(ConfigError, match="Expected labels of the type label_type='int64', found 1, 2, 3"):
        dp.summarize(private, public, **{**own, "labels": ["1", "2", "3", "four"], "label_type": "int64"})
    with pytest.raises(ConfigError, match="label_type"):
        dp.summarize(private, public, **own, label_type="int8")
    large = [{"text": each.text, "stars": 10**20} for each in pool]  # no column of Parquet holds such a label
    huge = dp.summarize(private, large, **{**own, "labels": ["1", str(10**20)], "names": ["one", "many"]})
    assert "label_type" not in huge.certificate.settings
    with pytest.raises(ConfigError, match="Expected labels of the type label_type='int64'"):
        dp.summarize(
            private, public, **{**own, "labels": ["1", str(2**63)], "names": ["one", "many"], "label_type": "int64"}
        )


def test_labels_that_are_given_as_numbers_leave_as_numbers() -> None:
    """Where no public column says it. A range and an array are as good as a list."""
    rows, pool = dp.sample_records(60, seed=1), [each.text for each in dp.sample_records(60, seed=2)]
    private = [{"text": each.text, "stars": i % 3 + 1} for i, each in enumerate(rows)]
    own: dict[str, Any] = {"label": "stars", "encoder": "glove", "about": 60}
    for labels, kind in (
        ([1, 2, 3], "int64"), (range(1, 4), "int64"), (np.arange(1, 4), "int64"), ((1.5, 2.0), "double"),
        ([True, False], "bool"), (["1", "2"], None), ([1, "2"], None), ([1, 2**70], None),
    ):  # fmt: skip
        settings = dp.summarize(private, pool, labels=labels, names=labels, **own).certificate.settings
        assert settings.get("label_type") == kind, labels
    public = [{"text": each, "stars": "1"} for each in pool]
    summary = dp.summarize(private, public, labels=range(1, 4), names=range(1, 4), **own)
    made = dp.write(summary, size=9, label="stars", seed=1)
    assert {type(each) for each in made.to_dict()["stars"]} == {int}
    assert {type(each) for each in dp.synthesize(private, pool, labels=range(1, 4), **own).to_dict()["stars"]} == {int}


def test_no_private_value_changes_the_type_of_labels() -> None:
    """One odd label makes a column of texts of a private frame. The neighbour without it has integers."""
    pd = pytest.importorskip("pandas")
    rows = [each.text for each in dp.sample_records(60, seed=1)]
    pool = pd.DataFrame({"text": [each.text for each in dp.sample_records(60, seed=2)], "stars": [1, 2, 3] * 20})
    labels = ["1", "2", "3"]
    own: dict[str, Any] = {"label": "stars", "labels": labels, "names": labels, "encoder": "glove", "about": 60}
    found = [
        dp.summarize(pd.DataFrame({"text": rows, "stars": values}), pool, **own).certificate.settings
        for values in ([1, 2, 3] * 20, [1, 2, 3] * 19 + [1, 2, "odd"])
    ]
    assert found[0] == found[1]


@pytest.mark.usefixtures("encoder_once")
def test_what_a_summary_says_is_read_without_its_encoders(tmp_path: Path) -> None:
    """Networks and scikit-learn take seconds to load: numbers and a corpus of the pool need neither."""
    rows, pool = dp.sample_records(60, seed=1), [each.text for each in dp.sample_records(90, seed=2)]
    made = dp.summarize(rows, pool, label="label", labels=["health", "travel"], about=60, words=8, dim=8)
    made.write(tmp_path / "a.summary")
    script = (
        "import sys; from dptext.cli.app import app\n"
        "for command in (['summary', 'show', 'a.summary'], ['write', 'a.summary', 'out.csv']):\n"
        "    app(command, standalone_mode=False)\n"
        "    print(*{'numba', 'sklearn', 'tokenizers', 'torch'} & {*sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.split("\n") == ["", "", ""], done.stderr
    assert (tmp_path / "out.csv").exists()
    again = dp.summarize(rows, like=tmp_path / "a.summary", label="label")  # loads the encoder, to read private texts
    assert again.certificate.settings["encoder"] == "sentence"
