"""Where a data set appears: new folders, folders that nothing can replace, links; all of it tried before the charge."""

import errno
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dptext as dp
from dptext.batch import places
from dptext.batch.engines import Here
from dptext.batch.places import Disk, place_at
from dptext.batch.targets import Objects, filled
from dptext.errors import ConfigError, DataError
from dptext.ledger.books import Ledger
from dptext.runs.certificate import MANIFEST
from dptext.runs.payment import Payment
from dptext.runs.states import FolderState
from dptext.runs.verification import verify
from dptext.text import files
from dptext.text.files import is_fixed
from dptext.text.formats import Format
from many_files import here, ids, mechanism, plan, rows, shards
from mounting import with_mounts

CERTIFICATE = "manifest.json.guarantee.json"
#: Runs `dptext` with each of some arguments, and lists the folder `out`.
COMMANDS = """
import json, os, sys
from dptext.cli.app import main
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
print(json.dumps(sorted(os.listdir("out"))))
"""


def account(folder: Path) -> Payment:
    ledger = Ledger.create(str(folder / "books.db"))
    ledger.open_account("account", dp.Guarantee(100.0, 0.0, dp.Unit.DOCUMENT, dp.Relation.REPLACE_ONE))
    return Payment(ledger, "account")


def charges(payment: Payment) -> int:
    return len(list(payment.ledger.log("account")))


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow  # test_where_the_process_works_is_filled has the filling, test_files.py a mount point
def test_a_mount_point_is_filled(tmp_path: Path) -> None:
    shards(tmp_path / "in", 150, 30)
    dp.save_model(mechanism(), tmp_path / "model")
    (tmp_path / "out").mkdir()
    account(tmp_path).ledger.close()
    options = ["--model", "model", "--label-field", "label", "--id-field", "id", "--part-size", "100", "--workers", "1"]
    paid = ("--ledger", "books.db", "--account", "account")
    run = ["privatize", "in", "out", *options, *paid]
    # What is mounted is gone with the process: it is looked at from within.
    ran = with_mounts(
        "mount -t tmpfs tmpfs out",
        *(sys.executable, "-c", COMMANDS, json.dumps([run, [*run, "--force"], ["explain", "out"]])),
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    assert "Verified: " in ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1]) == [MANIFEST, CERTIFICATE, "part-000000.jsonl", "part-000001.jsonl"]
    assert ".out.run" not in listed(tmp_path)
    assert len(list(Ledger.at(str(tmp_path / "books.db")).log("account"))) == 2


def test_where_the_process_works_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever typed the command would stand in a folder without a name."""
    source = shards(tmp_path / "in", 150)
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.chdir(own)
    number = own.stat().st_ino
    for force in (False, True):
        dp.privatize_dataset(source, ".", mechanism(), plan=plan(force=force), dataset=here())
        assert own.stat().st_ino == number
        assert listed(own) == [MANIFEST, CERTIFICATE, "part-000000.jsonl", "part-000001.jsonl"]
        assert len({path.stat().st_mtime_ns for path in own.iterdir()}) == 1
        verify(own / CERTIFICATE)
    assert listed(tmp_path) == ["in", "own"]


def test_a_link_leads_to_where_it_leads(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 150)
    (tmp_path / "real").mkdir()
    for name, to in (("link", "real"), ("dangling", "absent")):
        (tmp_path / name).symlink_to(to)
        dp.privatize_dataset(source, tmp_path / name, mechanism(), plan=plan(), dataset=here())
        assert (tmp_path / name).is_symlink()
        assert len(ids(tmp_path / to)) == 150
    (tmp_path / "again").symlink_to("in")
    with pytest.raises(ConfigError, match="outside of the input"):
        dp.privatize_dataset(source, tmp_path / "again", mechanism(), plan=plan(force=True), dataset=here())
    assert listed(tmp_path) == ["absent", "again", "dangling", "in", "link", "real"]


@pytest.mark.parametrize("force", [False, True])
def test_a_kill_at_each_step_of_filling_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    source, own, payment = shards(tmp_path / "in", 150), tmp_path / "own", account(tmp_path)
    own.mkdir()
    monkeypatch.chdir(own)
    if force:
        dp.privatize_dataset(source, ".", mechanism(), plan=plan(), dataset=here())
    before = (own / MANIFEST).read_text() if force else ""
    given = {"dataset": here(), "payment": payment}
    steps, fill = [0], places.Disk.publish

    def killed(disk: Disk, *of: object) -> None:
        left, rename = min(steps[0], 1), Path.rename  # one a run

        def counted(path: Path, to: object) -> Path:
            nonlocal left
            if path.name != own.name:  # the question whether it is fixed
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
            return rename(path, to)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", counted)
            fill(disk, *of)

    monkeypatch.setattr(places.Disk, "publish", killed)
    resume = False
    while True:
        try:
            dp.privatize_dataset(
                source, ".", mechanism(), plan=plan(resume=resume, force=force and not resume), **given
            )
        except KeyboardInterrupt:
            resume, steps[0] = True, steps[0] + 1
            counts = (own / MANIFEST).exists() and (own / MANIFEST).read_text()
            assert counts in (False, before), "half a data set counts"
        else:
            break
    assert steps[0] >= (9 if force else 5)
    assert charges(payment) == 1
    assert (own / MANIFEST).read_text() != before
    verify(own / CERTIFICATE, ledger=payment.ledger)


@pytest.mark.parametrize("paid", [False, True])
def test_beginning_a_paid_run_anew_is_said_to_be_charged_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paid: bool
) -> None:
    source, payment = shards(tmp_path / "in", 150), account(tmp_path) if paid else None

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def again(**changed: Any) -> None:
        dp.privatize_dataset(
            source, tmp_path / "out", mechanism(), plan=plan(**changed), dataset=here(), payment=payment
        )

    with monkeypatch.context() as patch:
        patch.setattr(places.Disk, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            again()
    costs = ", which is charged anew" if paid else ""
    with pytest.raises(ConfigError, match=f"--resume goes on, --force begins anew{costs}\\.$"):
        again()
    with pytest.raises(ConfigError, match=f"these differ \\(delta\\). Begin anew with --force{costs}\\.$"):
        again(resume=True, delta=1e-9)


def test_a_paid_run_over_a_file_that_changed_names_the_key_that_pays_with_its_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, payment = shards(tmp_path / "in", 150), account(tmp_path)
    path = source / "s0.jsonl"
    whole = path.read_text("utf-8")

    class Changing(Here):
        def answers(self, job: object, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            if tasks[0][0] == "privatize":
                path.write_text("".join(whole.splitlines(keepends=True)[:-1]), "utf-8")
            return super().answers(job, tasks)

    def go(paid: Payment) -> None:
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(), payment=paid)

    with monkeypatch.context() as patch:
        patch.setattr("dptext.batch.engines.Here", Changing)
        with pytest.raises(DataError, match=r"changed while it was read.*What was charged stays charged") as caught:
            go(payment)
    (key,) = re.findall("--charge-key ([0-9a-f]+) ", str(caught.value))
    path.write_text(whole, "utf-8")
    go(replace(payment, key=key))
    assert charges(payment) == 1


def refusing(*_: object) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


@pytest.mark.parametrize("seam", ["dptext.batch.places.try_moving", "os.link"])
def test_what_cannot_publish_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seam: str
) -> None:
    source, payment = shards(tmp_path / "in", 150), account(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(seam, refusing)
        with pytest.raises(ConfigError, match="Cannot write"):
            dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(), payment=payment)
    assert charges(payment) == 0
    assert [name for name in listed(tmp_path) if not name.startswith("books")] == ["in"]


@pytest.mark.parametrize("where", ["", "memory://came"])
def test_what_appears_during_a_paid_run_is_named_before_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    source, payment, target = shards(tmp_path / "in", 150), account(tmp_path), f"{where or tmp_path}/out"
    given = {"dataset": here(state=tmp_path / "state"), "payment": payment}
    keep = places.StateFolder.save
    there = Objects(target, {})

    def appear(folder: places.StateFolder, state: FolderState) -> None:
        keep(folder, state)
        if state.certificate and where:
            there.publish(MANIFEST, filled(b"somebody else's"))
        elif state.certificate:
            (tmp_path / "out").write_text("somebody else's")

    with monkeypatch.context() as patch:
        patch.setattr(places.StateFolder, "save", appear)
        with pytest.raises(ConfigError, match=r"The run is paid and whole: move that away.*--resume"):
            dp.privatize_dataset(source, target, mechanism(), plan=plan(), **given)
    with pytest.raises(ConfigError, match=r"The run is paid and whole"):
        dp.privatize_dataset(source, target, mechanism(), plan=plan(resume=True), **given)
    assert [charge.release for charge in payment.ledger.log("account")] == [None]
    if where:
        there.delete(MANIFEST)
    else:
        (tmp_path / "out").unlink()
    dp.privatize_dataset(source, target, mechanism(), plan=plan(resume=True), **given)
    assert [charge.release is None for charge in payment.ledger.log("account")] == [False]


def test_a_state_elsewhere_is_refused_before_the_charge(tmp_path: Path) -> None:
    """A state on another disk cannot be renamed to the folder."""
    disks = [Path("/dev/shm"), Path("/var/tmp")]  # noqa: S108 (disks, not names)
    other = next((each for each in disks if each.is_dir() and each.stat().st_dev != tmp_path.stat().st_dev), None)
    if other is None:
        pytest.skip("one disk alone")
    source, payment, state = shards(tmp_path / "in", 150), account(tmp_path), other / f"dptext-{os.getpid()}"
    dataset = here(state=state)
    with pytest.raises(ConfigError, match="Cannot write"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=dataset, payment=payment)
    assert charges(payment) == 0
    assert not state.exists()


def test_places_that_are_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shards(tmp_path / "in", 30)
    (tmp_path / "file").write_text("mine")
    deep = tmp_path / "in" / "deep"
    deep.mkdir()
    monkeypatch.chdir(deep)
    for target in (
        "",
        ".",
        "..",
        "/",
        "new",
        source,
        source / "s0.jsonl",
        tmp_path,
        tmp_path / "file",
        f"file://{source}",
    ):
        for force in (False, True):
            with pytest.raises(ConfigError):
                dp.privatize_dataset(source, target, mechanism(), plan=plan(force=force), dataset=here())
    assert listed(tmp_path) == ["file", "in"]
    assert place_at("a/../b/", {}) == place_at(f"file://{deep}/b", {}) == Disk(deep / "b")


def test_a_folder_stays_where_the_system_asks_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question whether it can be replaced moves nothing, whatever the system answers."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "kept").touch()
    assert not is_fixed(own)
    assert not is_fixed(own / "absent")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refusing)
        assert is_fixed(own)
    with monkeypatch.context() as patch:  # one that replaces what is full
        patch.setattr(
            os, "rename", lambda old, new: (files.shutil.rmtree(new, ignore_errors=True), os.replace(old, new))
        )
        assert not is_fixed(own)
    assert (listed(tmp_path), listed(own)) == (["own"], ["kept"])


NAMES = {
    "not in UTF-8": b"a\xffb.jsonl",
    "a line break": b"a\nb.jsonl",
    "of a terminal": b"a\x1b[2Jb.jsonl",
    "the manifest": b"manifest.json/a.jsonl",
    "too long with its ending": b"a" * 248 + b".txt",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_shards_are_checked_before_the_charge(tmp_path: Path, name: bytes) -> None:
    source, payment = shards(tmp_path / "in", 30), account(tmp_path)
    lines = (source / "s0.jsonl").read_bytes()
    path = Path(os.fsdecode(os.fsencode(source) + b"/" + name))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lines.replace(b'"r', b'"q'))
    given = {"plan": plan(), "payment": payment}
    if name.endswith(b".txt"):
        given["plan"] = plan(output_format=Format.PARQUET, input_format=Format.JSONL)
    with pytest.raises(ConfigError, match="name"):
        dp.privatize_dataset(source, tmp_path / "out", mechanism(), dataset=here(keep_shards=True), **given)
    assert charges(payment) == 0
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), dataset=here(), **given)
    assert len(ids(tmp_path / "out")) == 60


def test_the_longest_name_and_one_within_another(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 30)
    (source / "s0.jsonl").rename(source / ("a" * 249 + ".jsonl"))
    dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(keep_shards=True))
    verify(tmp_path / "out" / CERTIFICATE)
    lines = next(source.iterdir()).read_text()
    (source / "b.csv").mkdir()
    (source / "b.csv" / "c.jsonl").write_text(lines.replace('"r', '"q'))
    (source / "b.jsonl").write_text(lines.replace('"r', '"p'))
    with pytest.raises(ConfigError, match="names differ"):
        dp.privatize_dataset(
            source,
            tmp_path / "other",
            mechanism(),
            plan=plan(output_format=Format.CSV),
            dataset=here(keep_shards=True),
        )


def test_names_that_the_file_system_takes_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, payment = shards(tmp_path / "in", 30, 30), account(tmp_path)
    (source / "s1.jsonl").rename(source / "S0.jsonl")
    mkdir = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", lambda path, *a, **given: mkdir(path.with_name(path.name.lower()), *a, **given))
    with pytest.raises(ConfigError, match=r"'s0\.jsonl'.*File exists"):
        dp.privatize_dataset(
            source, tmp_path / "out", mechanism(), plan=plan(), dataset=here(keep_shards=True), payment=payment
        )
    assert charges(payment) == 0


def test_a_file_under_two_names_is_refused(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 30)
    (source / "deep").mkdir()
    ways = {
        "a link": lambda: (source / "x.jsonl").symlink_to("s0.jsonl"),
        "a hard link": lambda: (source / "x.jsonl").hardlink_to(source / "s0.jsonl"),
        "a folder under two names": lambda: (source / "x.jsonl").symlink_to("deep"),
        "a folder in itself": lambda: (source / "x.jsonl").symlink_to("."),
    }
    for way in ways.values():
        way()
        with pytest.raises(ConfigError, match="two names"):
            dp.privatize_dataset(source, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
        (source / "x.jsonl").unlink()
    (source / "x.jsonl").symlink_to("s0.jsonl")
    urls = (f"file://{source}/*.jsonl", f"file://{source}", f"local://{source}", f"local://{source}/*.jsonl")
    for glob in (f"{source}/*.jsonl", f"{source}/**/*.jsonl", *urls):
        with pytest.raises(ConfigError, match="two names"):
            dp.privatize_dataset(glob, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    assert listed(tmp_path) == ["in"]


@pytest.mark.parametrize("force", [False, True])
def test_of_a_volume_a_folder_within_it_is_named(tmp_path: Path, force: bool) -> None:
    source, volume = shards(tmp_path / "in", 30), tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"Name a folder within it, as '.*volume/released'") as refused:
        dp.privatize_dataset(source, volume, mechanism(), plan=plan(force=force), dataset=here())
    assert "--force" not in str(refused.value)
    dp.privatize_dataset(source, volume / "released", mechanism(), plan=plan(force=force), dataset=here())
    assert listed(volume) == ["lost+found", "released"]


@pytest.mark.parametrize("scheme", ["file://", "file://localhost", "local://"])
def test_a_url_of_this_computer_is_its_path(tmp_path: Path, scheme: str) -> None:
    source, url = shards(tmp_path / "my in", 30), f"{scheme}{tmp_path}/my%20in"
    with pytest.raises(ConfigError, match=r"no file of the input|outside"):
        dp.privatize_dataset(url, source / "out", mechanism(), plan=plan(), dataset=here())
    found = dp.privatize_dataset(url, f"{scheme}{tmp_path}/my%20out", mechanism(), plan=plan(), dataset=here())
    assert found.records == 30
    assert listed(tmp_path) == ["my in", "my out"]


def test_a_linked_folder_is_read_once(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 30)
    shards(tmp_path / "more", 0, 40)
    (tmp_path / "more" / "s0.jsonl").unlink()
    (tmp_path / "more" / "s1.jsonl").write_text(
        (source / "s0.jsonl").read_text().replace('"r', '"q'),
    )
    (source / "linked").symlink_to(tmp_path / "more")
    for name, glob in (("a", source), ("b", f"{source}/**/*.jsonl")):
        dp.privatize_dataset(glob, tmp_path / name, mechanism(), plan=plan(), dataset=here())
        assert len(ids(tmp_path / name)) == 60


def test_files_of_several_folders_keep_names_within_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        shards(tmp_path / name, 10)
    path = tmp_path / "b" / "s0.jsonl"
    path.write_text(path.read_text().replace('"r', '"q'))
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    dp.privatize_dataset("../[ab]/*.jsonl", "out", mechanism(), plan=plan(), dataset=here(keep_shards=True))
    verify(Path("out", CERTIFICATE))
    parts = json.loads(Path("out", MANIFEST).read_text())["parts"]
    assert [part["name"] for part in parts] == ["a/s0.jsonl", "b/s0.jsonl"]
    assert listed(tmp_path) == ["a", "b", "own"]


def test_linked_and_nested_files_of_a_data_set_are_seen(tmp_path: Path) -> None:
    source = shards(tmp_path / "in", 30)
    (source / "deep").mkdir()
    (source / "s0.jsonl").rename(source / "deep" / "s0.jsonl")
    out = tmp_path / "out"
    dp.privatize_dataset(source, out, mechanism(), plan=plan(), dataset=here(keep_shards=True))
    strays = {
        "a linked folder": lambda path: path.symlink_to(source),
        "a linked folder that is empty": lambda path: ((tmp_path / "e").mkdir(), path.symlink_to(tmp_path / "e")),
        "a link into itself": lambda path: path.symlink_to("."),
        "a linked file": lambda path: path.symlink_to(source / "deep" / "s0.jsonl"),
        "a dangling link": lambda path: path.symlink_to("nowhere"),
        "a hidden file": lambda path: path.with_name(".hidden").touch(),
        "a pipe": os.mkfifo,
    }
    for place in (out, out / "deep"):
        for what, stray in strays.items():
            stray(place / "stray")
            with pytest.raises(dp.errors.DataError, match="no part of this data set"):
                verify(out / CERTIFICATE)
            (place / (".hidden" if "hidden" in what else "stray")).unlink()
            if (tmp_path / "e").exists():
                (tmp_path / "e").rmdir()
    verify(out / CERTIFICATE)
    (out / "deep").rename(tmp_path / "moved")
    (out / "deep").symlink_to(tmp_path / "moved")
    verify(out / CERTIFICATE)
    (tmp_path / "moved" / "stray").touch()
    with pytest.raises(dp.errors.DataError, match="no part of this data set"):
        verify(out / CERTIFICATE)


@pytest.mark.parametrize("name", ["a\nGuaranteed.jsonl", "a\x1b[2J.jsonl", "a\udcff.jsonl", "a" * 250 + ".jsonl"])
def test_the_name_of_one_output_is_checked_before_the_charge(tmp_path: Path, name: str) -> None:
    source, payment = shards(tmp_path / "in", 30), account(tmp_path)
    with pytest.raises(ConfigError, match="name"):
        dp.privatize_file(source / "s0.jsonl", tmp_path / name, mechanism(), plan=plan(), payment=payment)
    assert charges(payment) == 0


def test_a_saved_dataset_that_lists_a_file_twice(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(rows(30)).save_to_disk(str(tmp_path / "in"))
    path = tmp_path / "in" / "state.json"
    listed = json.loads(path.read_text())
    path.write_text(json.dumps(listed | {"_data_files": listed["_data_files"] * 2}))
    with pytest.raises(ConfigError, match="two names"):
        dp.privatize_dataset(tmp_path / "in", tmp_path / "out", mechanism(), plan=plan(), dataset=here())
