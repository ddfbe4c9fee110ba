"""A run that dies in writing never draws noise again: it goes on from the noisy numbers that it kept."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import dptext as dp
import tiny_language
from dptext.cli.app import main
from dptext.errors import ConfigError, PrivacyError
from dptext.privacy.guarantee import Trust
from dptext.runs import states, synthesizing
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.payment import Payment
from dptext.runs.synthesized import paths_of
from dptext.runs.unpublished import Unpublished
from dptext.sampling.randomness import Randomness
from dptext.synthesis import from_pool
from dptext.synthesis.prototypes import Prototypes
from dptext.synthesis.summary import FittedSummary, Summary, SummarySpec
from dptext.synthesis.sums import Draws
from dptext.text import files

LIMIT = dp.Guarantee(20.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
SMALL: Final = (
    "--public", "pool.jsonl", "--label-field", "label", "--labels", "health,travel,money,leisure", "--about", "200",
    "--set", "encoder=glove", "--set", "words=8", "--set", "topics=4",
)  # fmt: skip
PAYING: Final = ("--ledger", "books.db", "--account", "all")
#: How many files of a run get a name before its summary: the empty ones by which it tries to publish.
UNNAMED: Final = 4
#: Where a run dies: a function of a module or a class, and how many times it is called before. The rehearsals
#: before a charge measure and write, too.
UNKEPT: dict[str, tuple[Any, str, int]] = {
    "charged": (FittedSummary, "measure", 2),
    "drawn": (Unpublished, "measured", 0),
    "written under another name": (files, "publish", UNNAMED),
}
KEPT: dict[str, tuple[Any, str, int]] = {
    "the summary has its name": (files, "sync_folder", UNNAMED),
    "before it is settled": (Payment, "settle", 0),
    "before writing": (Prototypes, "written", 1),
    "in the middle of writing": (from_pool, "chosen", 1),
    "written": (Unpublished, "keep", 0),
    "in the middle of keeping the files": (synthesizing.Synthesized, "_columns", 0),
    "before publishing": (Unpublished, "publish", 0),
    "in the middle of publishing": (states, "refuse_existing", 6),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private corpus, a pool, and an account."""
    made = tmp_path_factory.mktemp("made")
    for name, n, seed in (("private", 120, 1), ("pool", 90, 2)):
        rows = [{"text": r.text, "label": r.label} for r in dp.sample_records(n, seed=seed)]
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with contextlib.closing(dp.Ledger.create(made / "books.db")) as ledger:
        ledger.open_account("all", LIMIT)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def dying(where: Any, name: str, after: int) -> None:
    """Put a death in the place of a function, from its call of this number on."""
    own, calls = getattr(where, name), iter(range(after))

    def dead(*given: Any, **more: Any) -> Any:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(*given, **more)

    setattr(where, name, dead)


def command(folder: Path, *given: str, first: Callable[[], object] = lambda: None) -> int:
    """Run a command in a child that notes each draw of secure noise, and return how it ends; `first` changes it."""
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.stdout = sys.stderr = Path("said").open("a", buffering=1)  # noqa: SIM115 (until the child ends)
        noisy = Draws.noisy

        def noted(draws: Draws, *more: Any) -> Any:
            if draws.randomness.is_secure:  # a rehearsal draws with fixed randomness
                with Path("draws").open("a") as file:
                    file.write("once\n")
            return noisy(draws, *more)

        Draws.noisy = noted  # type: ignore[method-assign]
        first()
        sys.argv, code = ["dptext", *given], 70
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)  # whatever happens, the child does not go on with the tests
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def n_draws(folder: Path) -> int:
    return len((folder / "draws").read_text().splitlines()) if (folder / "draws").exists() else 0


def kept(folder: Path, out: str) -> Summary | None:
    """The summary that an unfinished run has kept."""
    found = Unpublished(folder / out).summary()
    return None if found is None else Summary.of_bytes(found[0])


def check_goes_on(folder: Path, out: str, *given: str, first: Callable[[], object] = lambda: None) -> None:
    """Resume a run that has its summary, and require that it draws nothing and publishes the numbers it has."""
    before, summary = n_draws(folder), kept(folder, out)
    assert summary is not None
    assert command(folder, *given, "--resume", first=first) == 0, (folder / "said").read_text()
    report = json.loads((folder / f"{out}.topics.json").read_text("utf-8"))
    numbers = summary.report.to_dict()
    assert [report[name] for name in ("counts", "by_label")] == [numbers[name] for name in ("counts", "by_label")]
    assert n_draws(folder) == before


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.mark.slow_cases(
    *(
        "the summary has its name-True",
        "before writing-True",
        "written-True",
        "in the middle of keeping the files-True",
    ),
    *("before publishing-True", "in the middle of publishing-True", "in the middle of writing-False"),
    why="a death before the charge is settled, in the middle of writing and before publishing stays",
)
@pytest.mark.parametrize(
    ("step", "paid"),
    [*((step, True) for step in KEPT), ("in the middle of writing", False), ("before publishing", False)],
)
def test_a_run_that_dies_in_writing_goes_on_from_what_it_drew(step: str, paid: bool, folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL, *(PAYING if paid else ()))
    assert command(folder, *given, first=lambda: dying(*KEPT[step])) == -signal.SIGKILL
    hidden = folder / ".out.jsonl.run"
    assert not any(path.stat().st_mode & 0o077 for path in [hidden, *hidden.rglob("*")])
    assert n_draws(folder) == 1
    for name in ("private.jsonl", "pool.jsonl"):
        (folder / name).unlink()
    check_goes_on(folder, "out.jsonl", *given)
    assert not hidden.exists()
    assert all(path.is_file() for path in paths_of(folder / "out.jsonl"))
    ledger = dp.Ledger.at(str(folder / "books.db"))
    charges = list(ledger.log("all"))
    assert [charge.release is not None for charge in charges] == [True] * paid
    dp.verify(certificate_path(folder / "out.jsonl"), **({"ledger": ledger} if paid else {}))


@pytest.mark.slow_cases("drawn", "charged", why="a death after them, before the state is written, stays")
@pytest.mark.parametrize("step", UNKEPT)
def test_a_run_that_dies_before_it_keeps_its_numbers_reads_again_under_one_charge(step: str, folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL, *PAYING)
    assert command(folder, *given, first=lambda: dying(*UNKEPT[step])) == -signal.SIGKILL
    assert kept(folder, "out.jsonl") is None
    drawn = n_draws(folder)
    assert drawn == (step != "charged")
    assert command(folder, *given, "--resume") == 0, (folder / "said").read_text()
    assert n_draws(folder) == drawn + 1
    (charge,) = dp.Ledger.at(str(folder / "books.db")).log("all")
    assert charge.release is not None
    assert not (folder / ".out.jsonl.run").exists()


def test_a_summary_that_is_kept_is_published_when_its_corpus_is_gone(folder: Path) -> None:
    given = ("summarize", "private.jsonl", "out.summary", *SMALL, *PAYING)
    assert command(folder, *given, first=lambda: dying(SummarySpec, "written", 1)) == -signal.SIGKILL
    summary = kept(folder, "out.summary")
    assert summary is not None
    for name in ("private.jsonl", "pool.jsonl"):
        (folder / name).unlink()
    check_goes_on(folder, "out.summary", *given)
    assert Summary.of_bytes((folder / "out.summary").read_bytes()).digest == summary.digest
    assert len(list(dp.Ledger.at(str(folder / "books.db")).log("all"))) == 1


def redrawing() -> None:
    """Plant the fault of a run that forgets what it drew."""
    Unpublished.summary = lambda *_: None  # type: ignore[method-assign,assignment,return-value]
    Unpublished.drawn = lambda *_, **__: None  # type: ignore[method-assign,assignment,return-value]


@pytest.mark.slow  # it tries the test above
def test_a_run_that_draws_again_is_caught(folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL)
    assert command(folder, *given, first=lambda: dying(*KEPT["in the middle of writing"])) == -signal.SIGKILL
    with pytest.raises(AssertionError, match="assert "):
        check_goes_on(folder, "out.jsonl", *given, first=redrawing)
    assert n_draws(folder) == 2


def test_the_ledger_refuses_to_pay_for_a_second_draw(folder: Path) -> None:
    """As soon as the numbers are kept, the charge is settled with them: no other numbers can be drawn under it."""
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL, *PAYING)
    assert command(folder, *given, first=lambda: dying(*KEPT["in the middle of writing"])) == -signal.SIGKILL
    assert command(folder, *given, "--resume", first=redrawing) == 2
    assert "to be unused: it paid for a release already" in (folder / "said").read_text()
    assert n_draws(folder) == 1
    assert not (folder / "out.jsonl").exists()


def test_a_summary_that_was_changed_is_refused_and_other_settings_too(folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL, *PAYING)
    assert command(folder, *given, first=lambda: dying(*KEPT["before writing"])) == -signal.SIGKILL
    assert command(folder, *given, "--resume", "--epsilon", "3") == 2
    assert "which is paid and measured: these differ (epsilon). With its own" in (folder / "said").read_text()
    file = folder / ".out.jsonl.run" / "summary"
    whole = file.read_bytes()
    for changed in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[1:], b"[]" + whole, b""):
        file.write_bytes(changed)
        assert command(folder, *given, "--resume") == 2
        assert "is not what the run drew: nothing is released" in (folder / "said").read_text()
        (folder / "said").unlink()
    file.write_bytes(whole)
    check_goes_on(folder, "out.jsonl", *given)


def test_a_run_that_begins_anew_leaves_no_state_whose_numbers_are_deleted(folder: Path) -> None:
    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL, *PAYING)
    assert command(folder, *given, first=lambda: dying(*KEPT["before writing"])) == -signal.SIGKILL
    anew = (*given, "--force")
    assert command(folder, *anew, first=lambda: dying(Unpublished, "_forget_drawn", 0)) == -signal.SIGKILL
    assert command(folder, *given, "--resume") == 2
    assert "There is no unfinished run to resume" in (folder / "said").read_text()
    assert n_draws(folder) == 1


def test_an_error_in_writing_keeps_what_was_drawn_also_if_nobody_pays(folder: Path) -> None:
    def failing() -> None:
        own, calls = Prototypes.written, iter(range(1))

        def failed(*given: Any) -> Any:
            if next(calls, None) is None:
                raise ConfigError("Expected room for the texts.")
            return own(*given)

        Prototypes.written = failed  # type: ignore[method-assign]

    given = ("synthesize", "private.jsonl", "out.jsonl", *SMALL)
    assert command(folder, *given, first=failing) == 2
    assert "The noisy numbers are drawn and kept" in (folder / "said").read_text()
    check_goes_on(folder, "out.jsonl", *given)


def test_the_model_writes_from_the_summary_that_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As prototypes does: a writer that fails is called again with the summary, and nothing is drawn."""
    pytest.importorskip("numba")
    tiny_language.writes_here(monkeypatch)
    for module in tiny_language.LOADING:
        monkeypatch.setattr(f"{module}.load_language_model", lambda _: tiny_language.model(apart=True))
    spec = dp.Steering(
        labels=("travel", "money"), about=60, tokens=8, size=40, options=40, examples=0, marks=3, vocabulary=30,
        drafts=4, matches=1, encoder="glove", words=0, epsilon=8.0,
    )  # fmt: skip
    noted, draws = list[tuple[bytes, Certificate]](), list[Randomness]()
    noisy, written = Draws.noisy, dp.Steering.written

    def drawn(own: Draws, *more: Any) -> Any:
        draws.append(own.randomness)
        return noisy(own, *more)

    monkeypatch.setattr(dp.Steering, "written", lambda *_: 1 / 0)
    records = [r for r in dp.sample_records(100, seed=1) if r.label in spec.labels]
    fitted = spec.fit(public=dp.sample_records(30, seed=3))
    private = synthesizing.Private(records, dp.Fields(label="label"), {})
    monkeypatch.setattr(Draws, "noisy", drawn)
    with pytest.raises(ZeroDivisionError):
        synthesizing.run(private, fitted, on_measured=lambda *kept: noted.append(kept))
    ((data, certificate),) = noted
    assert [each.is_secure for each in draws].count(True) == 1
    monkeypatch.setattr(dp.Steering, "written", written)
    made = synthesizing.finished(spec, data, certificate, fields=dp.Fields())
    assert [each.is_secure for each in draws].count(True) == 1
    assert made.report.to_dict()["counts"] == Summary.of_bytes(data).report.to_dict()["counts"]
    assert {each.label for each in made.releases} <= set(spec.labels)
    assert made.certificate.guarantees == certificate.guarantees
    assert [each.epsilon for each in certificate.guarantees] == [spec.epsilon]


def test_ways_that_measure_more_than_one_summary_are_as_they_were() -> None:
    """`votes` draws twice and writes in between: it keeps no summary."""
    spec = dp.Votes.tiny()[0]
    fitted, noted = spec.fit(public=dp.sample_records(60, seed=2)), list[bytes]()
    private = synthesizing.Private(dp.sample_records(40, seed=1), dp.Fields(label="label"), {})
    made = synthesizing.run(private, fitted, on_measured=lambda data, _: noted.append(data))
    assert made.releases
    assert not noted


def test_a_charge_that_is_settled_with_kept_numbers_pays_for_nothing_else(folder: Path) -> None:
    ledger = dp.Ledger.at(str(folder / "books.db"))
    fitted = dp.Prototypes.tiny()[0].fit(public=dp.sample_records(60, seed=2))
    private = synthesizing.Private(dp.sample_records(80, seed=1), dp.Fields(label="label"), {})
    payment = dp.Payment(ledger, "all", "march")
    made = synthesizing.run(private, fitted, payment=payment, settled=False, on_measured=lambda *_: None)
    assert made.settle is None
    (charge,) = ledger.log("all")
    assert made.certificate.charged is not None
    assert charge.release == f"stream {made.certificate.charged.stream}"
    with pytest.raises(PrivacyError, match="it paid for a release already"):
        synthesizing.run(private, fitted, payment=payment, settled=False, on_measured=lambda *_: None)
