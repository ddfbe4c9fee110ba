"""A real Ray cluster of several nodes on this computer, with kills of workers, nodes and drivers."""

import json
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_batch_kills import HERE, Rig, wait_until

import dptext as dp
from dptext.batch.corpora import synthesize_dataset
from dptext.runs.specs import synthesis_from_settings
from many_files import mechanism, shards


@pytest.fixture
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A run on a cluster of three nodes, the first of which has no processor for actors."""
    monkeypatch.setenv("PYTHONPATH", str(HERE / "killing"))
    monkeypatch.setenv("DPTEXT_TEST_KILLS", str(tmp_path / "kills"))
    monkeypatch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
    found = Rig(
        tmp_path,
        str(tmp_path / "books.db"),
        n=6_000 if "nodes" in request.node.name else 600,
        part_size=30,
        engine="ray",
    )
    cluster = pytest.importorskip("ray.cluster_utils").Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    found.nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    found.cluster = cluster
    found.given["address"] = cluster.address
    yield found
    found.ledger.close()
    cluster.shutdown()


@pytest.mark.slow  # it starts a cluster of Ray; test_batch_kills.py kills workers without one
def test_workers_are_killed_on_a_cluster(rig: Rig) -> None:
    rig.plan_kills(2, 2)
    rig.finish(rig.begin(resume=False))
    rig.check()
    assert len(list(rig.kills.iterdir())) <= 2


@pytest.mark.slow
def test_workers_nodes_and_drivers_are_killed_on_a_cluster(rig: Rig) -> None:
    rng, kills = random.Random(3), 0
    rig.plan_kills(10, 10)
    process = rig.begin(resume=False)
    for turn in range(10):
        time.sleep(rng.uniform(3.0, 8.0))
        if process.poll() is not None:
            break
        if turn % 2:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            process = rig.begin(resume=rig.begun)
        else:
            node = rig.nodes.pop(0)
            rig.cluster.remove_node(node, allow_graceful=False)
            rig.nodes.append(rig.cluster.add_node(num_cpus=1))
        kills += 1
    rig.finish(process)
    rig.check()
    assert kills >= 2
    print(f"{kills} nodes and drivers and {20 - len(list(rig.kills.iterdir()))} workers were killed")


@pytest.mark.slow
def test_a_command_that_is_stopped_says_so(tmp_path: Path) -> None:
    """Ray takes SIGTERM for itself where it is started."""
    pytest.importorskip("ray")
    shards(tmp_path / "in", 300)
    dp.save_model(mechanism(), tmp_path / "model")
    words = ["privatize", "in", "out", "--model", "model", "--label-field", "label", "--engine", "ray"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from dptext.cli.app import main; main()", *words, "--workers", "1", "--part-size", "1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any((tmp_path / ".out.run").glob("*.survey")) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "stopped by SIGTERM" in said
    assert "--resume goes on" in said
    assert "Traceback" not in said


@pytest.mark.slow  # it starts a cluster of Ray; tests/unit/batch/test_corpora.py does without
def test_the_object_store_holds_no_name_and_no_count_of_a_synthesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The same corpus leaves as from one process; names of tasks follow nothing."""
    ray = pytest.importorskip("ray")
    request.addfinalizer(ray.shutdown)
    monkeypatch.setattr("dptext.batch.corpora.TASK_RECORDS", 64)
    kept: list[bytes] = []
    names: list[str] = []
    put, get, options = ray.put, ray.get, ray.actor.ActorMethod.options

    def recorded(each: object) -> object:
        kept.append(pickle.dumps(each))
        return each

    def named(method: object, **given: str) -> object:
        names.append(given["name"])
        return options(method, **given)

    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_text(
            "".join(
                json.dumps({"text": each.text, "label": each.label, "who": f"zqcanary{i % 40}"}) + "\n"
                for i, each in enumerate(dp.sample_records(100, seed=number))
            )
        )
    spec = synthesis_from_settings(
        {"kind": "topics", "encoder": "glove", "words": 8, "topics": 4, "dim": 8, "unit": "author"}
    )
    fitted = spec.fit(public=dp.sample_records(200))
    found = []
    for workers in (dp.Workers(n=1), dp.Workers("ray", 1)):
        if workers.engine == "ray":
            monkeypatch.setattr(ray, "put", lambda each: put(recorded(each)))
            monkeypatch.setattr(ray, "get", lambda each: recorded(get(each)))
            monkeypatch.setattr(ray.actor.ActorMethod, "options", named)
        plan = dp.Plan(dp.Fields(author="who"))
        seeded = dp.randomness.seeded(4)
        found.append(synthesize_dataset(tmp_path, fitted, plan=plan, workers=workers, randomness=seeded).certificate)
    assert found[0] == found[1]
    assert names == ["ready", *["count"] * 3, *["read"] * 6]  # two tasks for each file of 100 records
    assert len(kept) == 3 + 10
    assert not any(b"zqcanary" in each for each in kept)
