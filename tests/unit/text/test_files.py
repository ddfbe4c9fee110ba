"""The one door for files that are written: whole or not at all, nothing replaced unasked, and never an input."""

import ast
import errno
import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from dptext.errors import ConfigError
from dptext.text.files import (
    Target,
    create_private,
    is_fixed,
    new_folder,
    publish,
    refuse_existing,
    refuse_inputs,
    require_free,
    sha256_of,
    share,
    write_first,
    writing,
)
from mounting import with_mounts
from trees import sources


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(0o666)
    return path


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="--force"):
        refuse_existing(tmp_path / "a.jsonl")
    refuse_existing(tmp_path / "a.jsonl", force=True)
    refuse_existing(tmp_path / "b.jsonl")


def test_private_files_are_new(tmp_path: Path) -> None:
    with create_private(tmp_path / "a") as file:
        file.write(b"x")
    assert mode(tmp_path / "a") == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for there in ("a", "link"):
        with pytest.raises(ConfigError, match="File exists"):
            create_private(tmp_path / there)
    assert not (tmp_path / "nowhere").exists()


def test_publish_renames(tmp_path: Path) -> None:
    file = create_private(tmp_path / "part")
    file.write(b"x")
    publish(file, tmp_path / "part", tmp_path / "done")
    assert file.closed
    assert (tmp_path / "done").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["done"]


@pytest.mark.parametrize(("private", "expected"), [(True, 0o600), (False, 0o664)])
def test_a_file_is_written_whole_with_its_mode(tmp_path: Path, old: Path, private: bool, expected: int) -> None:
    mask = os.umask(0o002)
    try:
        Target(tmp_path / "new", private=private).write(b"new")
        Target(old, force=True, private=private).write(b"newer")
    finally:
        os.umask(mask)
    assert [(path.read_bytes(), mode(path)) for path in (tmp_path / "new", old)] == [
        (b"new", expected),
        (b"newer", expected),
    ]
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]


def test_a_kill_while_a_file_is_shared_leaves_nothing_beside_it(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> int:
        raise AssertionError("Sharing created a file.")

    mask = os.umask(0o027)
    monkeypatch.setattr(os, "open", killed)
    try:
        share(old)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)
    assert mode(old) == 0o640


def test_what_is_there_stays_unless_it_may_go(old: Path) -> None:
    for refused in (Target(old), Target.at(old), Target.at(str(old)), Target.at(Target(old))):
        with pytest.raises(ConfigError, match="--force"):
            refused.check()
        with pytest.raises(ConfigError, match="--force"):
            refused.write(b"new")
    assert old.read_bytes() == b"old"
    Target(old, force=True).check()


def test_what_appears_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def late() -> None:
        with Target(path).opened() as file:
            file.write(b"ours")
            path.write_bytes(b"theirs")

    with pytest.raises(ConfigError, match="--force"):
        late()
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_the_first_writer_wins(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"first", b"second"):
        write_first(path, data)
    assert (path.read_bytes(), mode(path)) == (b"first", 0o600)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, kind: type[BaseException]) -> None:
    def write(problem: BaseException | None) -> None:
        with new_folder(tmp_path / "model") as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / "file").write_bytes(b"x")
            assert not (tmp_path / "model").exists()
            if problem is not None:
                raise problem

    with pytest.raises(kind, match="stopped"):
        write(kind("stopped"))
    assert os.listdir(tmp_path) == []
    write(None)
    assert os.listdir(tmp_path) == ["model"]
    assert (mode(tmp_path / "model"), mode(tmp_path / "model" / "deep" / "file")) == (0o700, 0o600)
    with pytest.raises(ConfigError, match="absent or empty"):
        write(None)


@pytest.mark.parametrize("kind", [ValueError, OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path, old: Path, kind: type[BaseException]) -> None:
    def fail() -> None:
        with Target(old, force=True).opened() as file:
            file.write(b"half")
            assert [mode(path) for path in tmp_path.iterdir() if path != old] == [0o600]
            raise kind("stopped")

    with pytest.raises(kind, match="stopped"):
        fail()
    assert old.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("how", ["itself", "hard link", "symbolic link", "relative", "in a folder", "linked folder"])
def test_inputs_are_never_replaced(tmp_path: Path, old: Path, how: str, force: bool, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    link, inputs = tmp_path / "link", (tmp_path / "absent", old)
    match how:
        case "itself":
            path = old
        case "hard link":
            link.hardlink_to(old)
            path = link
        case "symbolic link":
            link.symlink_to(old)
            path = link
        case "relative":
            path = Path("deep/../old")
        case "in a folder":
            (tmp_path / "deep" / "er" / "part").hardlink_to(old)
            path, inputs = old, (tmp_path / "deep",)
        case _:
            link.symlink_to(tmp_path / "deep")
            (tmp_path / "deep" / "part").hardlink_to(old)
            path, inputs = link / "part", (old,)
    target = Target(path, force, inputs)
    for refused in (target.check, lambda: target.write(b"new")):
        with pytest.raises(ConfigError, match="to be no input"):
            refused()
    assert old.read_bytes() == b"old"
    refuse_inputs(tmp_path / "new", inputs)
    refuse_inputs(tmp_path / "deep", (old,))


def test_only_files_are_overwritten(tmp_path: Path) -> None:
    """A rename would put a file in the place of a pipe, or of a device where the user may do that."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, told in (("pipe", "to be a file"), ("folder", "Is a directory")):
        with pytest.raises(ConfigError, match=told):
            Target(tmp_path / name, force=True).write(b"new")
    with pytest.raises(ConfigError, match="to be a file"):
        Target(Path(os.devnull), force=True).check()
    for path in ("", ".", ".."):
        with pytest.raises(ConfigError, match="Is a directory"):
            Target(Path(path), force=True).check()
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, old: Path) -> None:
    (tmp_path / "link").symlink_to(old)
    Target(tmp_path / "link", force=True).write(b"new")
    assert old.read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"new"


@pytest.mark.parametrize(("name", "told"), [("absent/a", "No such file"), ("old/a", "Not a directory")])
def test_a_file_needs_its_folder(tmp_path: Path, old: Path, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"Cannot write .*{told}"):
        Target(tmp_path / name).check()


def test_what_the_system_refuses_names_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"Cannot write 'x\.svg': No space left on device") as caught,
        writing("x.svg"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "private words")
    assert "private words" not in str(caught.value)
    with pytest.raises(ValueError, match="ours"), writing("x.svg"):
        raise ValueError("ours")


def test_a_digest_is_of_the_bytes(old: Path) -> None:
    assert sha256_of(old) == "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4"


#: The names of such calls, of which most files have none: those need no parsing.
WRITING = re.compile("open|write_text|write_bytes|touch|savefig|tofile|save_file|save_pretrained|NamedTemporaryFile")


def writing_calls(source: str) -> list[str]:
    """Calls by which Python writes a file that is named by its path."""
    found = []
    if not WRITING.search(source):
        return found
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        method = getattr(call.func, "attr", getattr(call.func, "id", ""))
        texts = [
            arg.value for arg in [*call.args, *(key.value for key in call.keywords)] if isinstance(arg, ast.Constant)
        ]
        opens = method in ("open", "fdopen") and any(
            isinstance(text, str) and set(text) & set("wax+") for text in texts
        )
        saves = method in ("write_text", "write_bytes", "touch", "savefig", "tofile", "save_file", "save_pretrained")
        if opens or saves or method in ("open", "NamedTemporaryFile"):
            name = ast.unparse(call.func)  # of few calls: it takes seconds for all
            found += [name] if opens or method != "open" or name == "os.open" else []
    return sorted(found)


def test_there_is_one_door() -> None:
    """What else opens a file to write, and why it may."""
    found = {name: calls for name, source in sources().items() if (calls := writing_calls(source))}
    assert found == {
        "src/dptext/cli/app.py": ["formatter.write_text"] * 2,  # lines of help
        "src/dptext/cli/privatize.py": ["open"],  # stdout, by its number
        "src/dptext/cli/terminal.py": ["open", "os.open", "os.open"],  # what stands for closed streams
        # two of them only to sync a file or a folder, one to ask whether a file is protected
        "src/dptext/text/files.py": ["each.open", "open", "os.fdopen", *["os.open"] * 5],
        "src/dptext/testing/silence_checks.py": ["source.write_text"],  # made-up texts in a folder that is removed
        "src/dptext/ledger/identity.py": ["os.open"],  # O_EXCL, mode 0600
        "packages/lab/dptext_lab/drawing.py": ["figure.savefig"],  # into memory
        "packages/lab/dptext_lab/compare/runner.py": ["Path('/proc/self/clear_refs').write_text"],  # the system's
    }


def test_the_search_for_other_doors_finds_them() -> None:
    assert writing_calls("Path('x').write_text('a'); open('x', 'wb'); path.open(mode='a'); os.open(p, f)") == [
        "Path('x').write_text",
        "open",
        "os.open",
        "path.open",
    ]
    assert writing_calls("path.open('rb'); open(p); p.read_text('utf-8'); gzip.open(p)") == []


def refusing(number: int) -> object:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("name", "number"), [("os.link", errno.EXDEV), ("os.open", errno.EPERM), ("os.replace", errno.EPERM)]
)
def test_a_place_that_cannot_be_replaced_is_found_before_the_work(
    old: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """A mount point, a protected file, a folder where nothing is renamed."""
    Target(old, force=True).check()
    own = os.open
    with monkeypatch.context() as patch:
        patch.setattr(name, refusing(number))
        if name == "os.open":  # only what is there is protected
            patch.setattr(os, "open", lambda path, *of: (refusing(number) if path == old else own)(path, *of))
        with pytest.raises(ConfigError, match="Cannot write"):
            Target(old, force=True).check()
    with monkeypatch.context() as patch:  # what other systems refuse says nothing
        patch.setattr(os, "link", refusing(errno.EPERM))
        Target(old, force=True).check()
    assert (old.read_bytes(), [each.name for each in old.parent.iterdir()]) == (b"old", ["old"])


def test_a_file_of_somebody_else_where_each_removes_their_own(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old.parent.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: old.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="not permitted"):
        Target(old, force=True).check()


def test_a_file_that_is_a_mount_point_is_not_paid_for(tmp_path: Path) -> None:
    """Nor is a model fitted that could not be saved: it is put into a folder that is one."""
    (tmp_path / "in.jsonl").write_text('{"text": "a", "label": "health"}\n{"text": "b", "label": "travel"}\n')
    for name in ("out.jsonl", "other"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "model").mkdir()
    script = """
import json, sys
from dptext.cli.app import main
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code, flush=True)
"""
    spec = ["--mechanism", "label_only", "--set", "epsilon=2", "--set", 'labels=["health","travel"]']
    label = ["--label-field", "label"]
    paid = ["--ledger", "books.db", "--account", "a"]
    commands = [
        ["budget", "open", "a", "--epsilon", "9", "--unit", "document", "--ledger", "books.db"],
        ["fit", *spec, "--public", "in.jsonl", *label, "--out", "model"],
        ["privatize", "in.jsonl", "out.jsonl", "--model", "model", *label, *paid, "--force"],
        ["budget", "log", "a", "--ledger", "books.db", "--json"],
    ]
    ran = with_mounts(
        "mount --bind other out.jsonl; mount -t tmpfs tmpfs model",
        *(sys.executable, "-c", script, json.dumps(commands)),
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    codes = [line for line in ran.stdout.splitlines() if line.startswith("ended with")]
    assert codes == [f"ended with {code}" for code in (0, 0, 2, 0)], ran.stderr
    assert "busy" in ran.stderr
    assert json.loads(ran.stdout.split("ended with 2")[1].split("ended with 0")[0]) == []
    assert sorted(each.name for each in tmp_path.iterdir() if "books" not in each.name) == [
        "in.jsonl",
        "model",
        "other",
        "out.jsonl",
    ]


def test_a_folder_that_cannot_be_replaced_gets_what_a_new_one_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.chdir(own)
    with new_folder(Path()) as folder:
        (folder / "model.json").write_bytes(b"x")
        (folder / "deep").mkdir()
    assert sorted(each.name for each in own.iterdir()) == ["deep", "model.json"]
    assert mode(own / "model.json") == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["own"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refusing(errno.EXDEV))
        with pytest.raises(ConfigError, match="Cannot write"):
            require_free(tmp_path / "new")
    assert [each.name for each in tmp_path.iterdir()] == ["own"]


def test_where_the_working_folder_is_gone_a_folder_is_asked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, own = tmp_path / "gone", tmp_path / "own"
    own.mkdir()
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert not is_fixed(own)
