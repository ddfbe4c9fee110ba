"""A name is published once: in folders, in memory, and on a real S3-compatible server; other places are refused."""

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dptext as dp
from dptext.batch.places import ObjectStore
from dptext.batch.targets import Folder, Objects, Target, filled, probe
from dptext.errors import ConfigError
from dptext.runs.certificate import MANIFEST
from dptext.text.formats import Format
from many_files import here, mechanism, plan, rows, shards

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict]:
    """Options of a server on this computer."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "k", "secret": "not shown", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    fsspec.filesystem("s3", **options).mkdir("bucket")
    yield options
    fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


@pytest.fixture(params=["folder", "memory", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "folder":
        return Folder(tmp_path)
    if request.param == "memory":
        return Objects(f"memory://{tmp_path.name}")
    return Objects(f"s3://bucket/{tmp_path.name}", request.getfixturevalue("s3"))


@pytest.mark.slow_cases("s3", why="the store in memory has the same door; s3 starts a server")
def test_one_of_many_attempts_is_visible(target: Target) -> None:
    probe(target)
    assert target.names() == []
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda i=i: seen.append(target.publish("a", filled(bytes([i]) * 1000))))
        for i in range(16)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(seen) == 16
    assert set(seen) == {target.sha256("a")}
    assert target.sha256("a") in {hashlib.sha256(bytes([i]) * 1000).hexdigest() for i in range(16)}
    assert target.names() == ["a"]
    assert target.sha256("b") is None
    target.delete("a")
    target.delete("a")
    assert target.names() == []


class Overwrites(Folder):
    """A file system where a later file replaces an earlier one."""

    def publish(self, name, write):
        with (self.path / name).open("wb") as file:
            write(file)
        return hashlib.sha256((self.path / name).read_bytes()).hexdigest()


class Ignores(Objects):
    """A store that does not know conditional puts."""

    def publish(self, name, write):
        fs, path = self._at(name)
        with fs.open(path, "wb") as file:
            write(file)
        return self.sha256(name)


@pytest.mark.parametrize("kind", [Overwrites, Ignores])
def test_a_place_where_several_win_is_refused(tmp_path: Path, kind: type) -> None:
    where = Overwrites(tmp_path) if kind is Overwrites else Ignores(f"memory://{tmp_path.name}")
    with pytest.raises(ConfigError, match="several win"):
        probe(where)
    assert where.names() == []


@pytest.mark.slow_cases("s3", why="the store in memory has the same door; s3 starts a server")
def test_what_a_killed_trial_leaves_is_swept_and_no_part(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(target), "delete", lambda *_: None)  # it dies before
        probe(target)
    left = everything(target)
    assert len(left) == 1
    target.publish("probe-of-mine", filled(b"a part"))
    target.sweep()
    assert everything(target) == ["probe-of-mine"]


def everything(target: Target) -> list[str]:
    """The names of all files, also of unfinished attempts."""
    return [path.name for path in target.path.iterdir()] if isinstance(target, Folder) else target.names()


def visible(store: ObjectStore, options: dict) -> list[str]:
    """The ids in the parts that the manifest names, in order."""
    whole = Objects(store.url, options)
    found = []
    for part in json.loads(whole.read(MANIFEST))["parts"]:
        data = whole.read(part["name"])
        assert hashlib.sha256(data).hexdigest() == part["sha256"]
        found += [json.loads(line)["id"] for line in data.splitlines()]
    return found


@pytest.mark.parametrize("kind", ["memory", pytest.param("s3", marks=pytest.mark.slow)])  # s3 starts a server
def test_from_a_url_to_a_url(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = request.getfixturevalue("s3") if kind == "s3" else {}
    root = f"s3://bucket/{tmp_path.name}" if kind == "s3" else f"memory://{tmp_path.name}"
    fs, path = fsspec.core.url_to_fs(f"{root}/in", **options)
    for number in range(2):
        lines = "".join(json.dumps(row) + "\n" for row in rows(70, 70 * number))
        fs.pipe_file(f"{path}/{number}.jsonl", lines.encode())
    dataset = here(storage_options=options)
    found = dp.privatize_dataset(f"{root}/in", f"{root}/out", mechanism(), plan=plan(), dataset=dataset)
    store = ObjectStore(f"{root}/out", options)
    assert visible(store, options) == [f"r{i}" for i in range(140)]
    assert any("when each file was written" in each for each in found.guarantees[-1].reveals)
    assert list(tmp_path.iterdir()) == []  # no state is left
    names = Objects(store.url, options).names()
    assert len(names) == 4, names  # two parts, manifest, certificate
    with pytest.raises(ConfigError, match="--force"):
        dp.privatize_dataset(f"{root}/in", f"{root}/out", mechanism(), plan=plan(), dataset=dataset)
    # The run of another computer, which was killed.
    Objects(store.url, options).publish("unfinished.json", filled(b'{"token": "abc"}'))
    Objects(f"{store.url}/abc", options).publish("part-000000.jsonl", filled(b"of another run"))
    with pytest.raises(ConfigError, match="another computer"):
        store.claim("ours", force=False)
    dp.privatize_dataset(f"{root}/in", f"{root}/out", mechanism(), plan=plan(force=True), dataset=dataset)
    assert visible(store, options) == [f"r{i}" for i in range(140)]
    assert len(Objects(store.url, options).names()) == 4
    with pytest.raises(ConfigError, match="hold no file of the input"):
        dp.privatize_dataset(f"{root}/in", f"{root}/in", mechanism(), plan=plan(force=True), dataset=dataset)


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])  # two import the clients of the store
def test_parquet_from_a_url(tmp_path: Path, s3: dict, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    fs, path = fsspec.core.url_to_fs(f"s3://bucket/tables-{n}", **s3)
    pandas.DataFrame(rows(30)).to_parquet(tmp_path / "a.parquet")
    fs.put_file(str(tmp_path / "a.parquet"), f"{path}/a.parquet")
    dp.privatize_dataset(
        f"s3://bucket/tables-{n}/*.parquet",
        tmp_path / "out",
        mechanism(),
        plan=plan(output_format=Format.JSONL),
        dataset=here(storage_options=s3, workers=dp.Workers(n=n)),
    )
    lines = (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"r{i}" for i in range(30)]


def test_secrets_of_a_store_are_not_shown(tmp_path: Path) -> None:
    options = {"secret": "hush"}
    assert "hush" not in repr(ObjectStore("s3://bucket/x", options))
    assert "hush" not in repr(Objects("s3://bucket/x", options))
    assert "hush" not in repr(dp.DatasetPlan(storage_options=options))


def test_urls_that_cannot_be_read(tmp_path: Path) -> None:
    for url in ("nothing://here", "memory://empty"):
        with pytest.raises(ConfigError):
            dp.privatize_dataset(url, tmp_path / "out", mechanism(), plan=plan(), dataset=here())
    source = shards(tmp_path / "in", 10)
    with pytest.raises(ConfigError, match="one local worker"):
        dp.privatize_dataset(source, "memory://x", mechanism(), plan=plan(), dataset=here(workers=dp.Workers(n=2)))
