"""A synthesis that is stopped at any step is paid once, and what was drawn is published by the next run."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from dptext.cli.terminal import finishing, listen
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Trust
from dptext.runs import states, unpublished
from dptext.runs.certificate import certificate_path
from dptext.runs.plan import Plan
from dptext.runs.private import Private
from dptext.runs.specs import synthesis_from_settings
from dptext.runs.states import CorpusState, run_settings
from dptext.runs.synthesized import paths_of
from dptext.runs.synthesizing import run
from dptext.runs.unpublished import Unpublished
from dptext.sampling.randomness import secure
from dptext.synthesis.spec import Fitted
from dptext.text.files import sha256_of
from dptext.text.records import records_digest

TEXTS = [record.text for record in dp.sample_records(60, seed=1)]
POOL = dp.sample_records(120, seed=2)
TOPICS = {"kind": "topics", "encoder": "glove", "words": 8, "topics": 4, "dim": 8, "epsilon": 2}
LIMIT = dp.Guarantee(20.0, 1e-5, dp.Unit.DOCUMENT, dp.Relation.ADD_OR_REMOVE_ONE, trust=Trust.CENTRAL)
#: Where a run dies: a function of the module or of a class, and how many times it is called before.
STEPS: dict[str, tuple[Any, str, int]] = {
    "before the charge": (Private, "kept", 0),
    "the corpus is drawn": (Unpublished, "keep", 0),
    "the files are whole": (Unpublished, "_save", 1),
    "before it is settled": (Unpublished, "publish", 0),
    "it is settled": (states, "refuse_existing", 4),
    "one file has its name": (unpublished, "share", 1),
    "two files have their names": (unpublished, "share", 2),
    "three files have their names": (unpublished, "share", 3),
    "all files have their names": (Unpublished, "forget", 0),
}


@pytest.fixture(scope="module")
def topics() -> Fitted:
    """The cheapest way."""
    return synthesis_from_settings(TOPICS).fit(public=POOL)  # type: ignore[arg-type]


def books(folder: Path) -> dp.Ledger:
    """Books with one account."""
    made = dp.Ledger.create(folder / "books.db")
    made.open_account("all", LIMIT)
    return made


def synthesized(
    folder: Path, fitted: Fitted, *, resume: bool = False, force: bool = False, key: str | None = None
) -> None:
    """What the command does, but for the words."""
    place, ledger = Unpublished(folder / "out.json", force), dp.Ledger.at(str(folder / "books.db"))
    place.check(resume=place.goes_on(key, resume=resume))
    digest = run_settings(
        fitted.spec, {"public": records_digest(POOL)}, Plan(), secure(), dp.Payment(ledger, "all"), source="in"
    )
    with place.held():
        state = place.begun(digest, dp.Payment(ledger, "all", key), resume=resume)
        payment = dp.Payment(ledger, "all", state.charge_key)
        if not state.files:
            with place.unpaid(payment, state):
                found = run(Private(TEXTS, dp.Fields(), {}), fitted, payment=payment, settled=False)
                state = place.keep(found, state)
        place.publish(state, payment)


def in_a_child(work: Callable[[], object]) -> int:
    """How a process ends that does this."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dying(where: Any, name: str, after: int) -> None:
    """Put a death in the place of a function, from its call of this number on."""
    own, calls = getattr(where, name), iter(range(after))

    def dead(*given: Any, **more: Any) -> Any:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(*given, **more)

    setattr(where, name, dead)


def contents(folder: Path) -> dict[str, bytes]:
    """What lies there for everybody."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and "books" not in path.name}


@pytest.mark.slow_cases(
    "the files are whole",
    "one file has its name",
    "two files have their names",
    "three files have their names",
    why="a death before, at and after the settlement stays, and one when all files have names",
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_synthesis_is_drawn_and_paid_once(step: str, topics: Fitted, tmp_path: Path) -> None:
    ledger = books(tmp_path)

    def die() -> None:
        dying(*STEPS[step])
        synthesized(tmp_path, topics)

    assert in_a_child(die) == -signal.SIGKILL
    folder = tmp_path / ".out.json.run"
    state = CorpusState(**json.loads((folder / "state.json").read_text())) if (folder / "state.json").exists() else None
    drawn = dict(state.files) if state else {}
    for path in [folder, *folder.rglob("*")]:
        assert not path.stat().st_mode & 0o077
    assert state is not None
    with pytest.raises(ConfigError, match=r"--resume goes on|Expected no file at"):
        synthesized(tmp_path, topics)
    synthesized(tmp_path, topics, resume=True)
    made = {path.name for path in paths_of(tmp_path / "out.json")}
    assert contents(tmp_path).keys() == made
    assert not folder.exists()
    (charge,) = ledger.log("all")
    assert charge.release is not None
    dp.verify(certificate_path(tmp_path / "out.json"), ledger=ledger)
    assert all(sha256_of(tmp_path / name) == digest for name, digest in drawn.items())


def test_a_target_that_appears_meanwhile_stays_alone_and_what_was_drawn_is_kept(
    topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the four it is: nothing is settled, nothing lies beside it, and the draw is published later."""
    ledger = books(tmp_path)
    keep = Unpublished.keep
    for number, path in enumerate(paths_of(tmp_path / "out.json"), 1):

        def appear(place: Unpublished, *given: Any, path: Path = path) -> CorpusState:
            state = keep(place, *given)
            path.write_text("somebody else's")
            return state

        with monkeypatch.context() as patch:
            patch.setattr(Unpublished, "keep", appear)
            with pytest.raises(ConfigError, match=r"The run is paid and whole: move that away.*--resume"):
                synthesized(tmp_path, topics)
        assert contents(tmp_path) == {path.name: b"somebody else's"}
        drawn = CorpusState(**json.loads((tmp_path / ".out.json.run" / "state.json").read_text())).files
        assert [charge.release is None for charge in ledger.log("all")] == [False] * (number - 1) + [True]
        with pytest.raises(ConfigError, match="Expected nothing at"):
            synthesized(tmp_path, topics, resume=True)
        path.unlink()
        synthesized(tmp_path, topics, key=list(ledger.log("all"))[-1].key)  # goes on, as --resume does
        assert {path.name: sha256_of(path) for path in paths_of(tmp_path / "out.json")} == drawn
        assert not (tmp_path / ".out.json.run").exists()
        for each in paths_of(tmp_path / "out.json"):
            each.unlink()
    assert len(list(ledger.log("all"))) == 4


def test_a_target_that_appears_between_two_renamings_stays(
    topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, share, page = books(tmp_path), unpublished.share, tmp_path / "out.json.topics.html"

    def appear(path: Path) -> None:
        share(path)
        page.write_text("somebody else's")

    with monkeypatch.context() as patch:
        patch.setattr(unpublished, "share", appear)
        with pytest.raises(ConfigError, match="Expected nothing at"):
            synthesized(tmp_path, topics)
    assert page.read_text() == "somebody else's"
    page.unlink()
    synthesized(tmp_path, topics, resume=True)
    (charge,) = ledger.log("all")
    assert charge.release is not None
    dp.verify(certificate_path(tmp_path / "out.json"), ledger=ledger)


def test_what_cannot_be_gone_on_with_is_refused(
    topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, publish = books(tmp_path), Unpublished.publish
    with pytest.raises(ConfigError, match="no unfinished run"):
        synthesized(tmp_path, topics, resume=True)
    assert not (tmp_path / ".out.json.run").exists()
    monkeypatch.setattr(Unpublished, "publish", lambda *_: None)
    synthesized(tmp_path, topics)
    state = tmp_path / ".out.json.run" / "state.json"
    saved = state.read_text()
    with pytest.raises(ConfigError, match="Expected the charge key"):
        synthesized(tmp_path, topics, resume=True, key="other")
    state.write_text(json.dumps({**json.loads(saved), "settings": "0" * 64}))
    with pytest.raises(ConfigError, match="settings of the run"):
        synthesized(tmp_path, topics, resume=True)
    state.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        synthesized(tmp_path, topics, resume=True)
    state.write_text(saved)
    monkeypatch.setattr(Unpublished, "publish", publish)
    (tmp_path / ".out.json.run" / "whole" / "out.json").write_text("edited")
    with pytest.raises(ConfigError, match="not what the run wrote"):
        synthesized(tmp_path, topics, resume=True)
    assert contents(tmp_path) == {}
    synthesized(tmp_path, topics, force=True)  # begins anew, and pays anew
    assert len(list(ledger.log("all"))) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_until_all_files_have_their_names(
    number: signal.Signals, topics: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books(tmp_path)
    share, publish, asked = unpublished.share, Unpublished.publish, list[None]()

    def stopped(path: Path) -> None:
        if not asked:
            asked.append(os.kill(os.getpid(), number))
        share(path)

    def finished(*given: Any) -> object:
        with finishing():
            return publish(*given)

    before = [(each, signal.getsignal(each)) for each in (signal.SIGTERM, signal.SIGINT)]
    listen()
    try:
        monkeypatch.setattr(unpublished, "share", stopped)
        monkeypatch.setattr(Unpublished, "publish", finished)
        synthesized(tmp_path, topics)
    finally:
        for each, handler in before:
            signal.signal(each, handler)
    assert asked
    assert contents(tmp_path).keys() == {path.name for path in paths_of(tmp_path / "out.json")}
