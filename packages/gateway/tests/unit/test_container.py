"""The container and the compose file: no root, nothing writable but what is mounted; the steps work elsewhere."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import dptext as dp
from dptext_gateway.client import privatize
from gateways import save_models
from postgres import Server

GATEWAY = Path(__file__).parents[2]
ROOT = GATEWAY.parents[1]


def steps(name: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, whose lines may go on."""
    text = re.sub(r"\\\n", " ", (GATEWAY / name).read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_container_runs_as_nobody_and_knows_no_secret() -> None:
    found = steps("Containerfile")
    last = found[max(i for i, (what, _) in enumerate(found) if what == "FROM") :]
    kinds = [what for what, _ in last]
    user = next(value for what, value in last if what == "USER")
    assert user != "0"
    assert user.isdigit()
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")
    assert not [value for what, value in last[kinds.index("USER") :] if what == "RUN"]
    assert not [value for what, value in found if what in ("ENV", "ARG") and re.search("PASS|KEY|TOKEN|SECRET", value)]
    entry = next(value for what, value in last if what == "ENTRYPOINT")
    assert "torch" not in str(found)
    assert '"serve"' in entry
    assert "HEALTHCHECK" in kinds


def test_the_compose_file_opens_nothing_to_the_world() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((GATEWAY / "compose.yaml").read_text())["services"]
    gateway, books, setup = services["gateway"], services["books"], services["setup"]
    for each in (gateway, setup):
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in each  # that of the container, who is nobody
    assert setup["profiles"] == ["setup"]  # `up` prints no key into a log
    assert "ports" not in setup
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])
    assert "ports" not in books
    assert ":?" in books["environment"]["POSTGRES_PASSWORD"]  # no default
    assert "@" in gateway["environment"]["DPTEXT_LEDGER"]
    assert "dptext:" not in gateway["environment"]["DPTEXT_LEDGER"]  # no password in a URL
    assert gateway["build"] == {"context": "../..", "dockerfile": "packages/gateway/Containerfile"}
    assert "./models:/models:ro" in gateway["volumes"]


@pytest.mark.slow
def test_the_steps_in_a_clean_environment(tmp_path: Path, postgres: Server) -> None:
    """What the container copies and installs, what `setup` does, and what it starts, on PostgreSQL."""
    yaml = pytest.importorskip("yaml")
    install = next(value for what, value in steps("Containerfile") if what == "RUN" and "pip install" in value)
    lines = [line.split() for line in re.findall(r"pip install --no-cache-dir (.*?)(?: && |$)", install)]
    assert [len(line) for line in lines] == [2, 2]
    setup = yaml.safe_load((GATEWAY / "compose.yaml").read_text())["services"]["setup"]
    entry = json.loads(next(value for what, value in steps("Containerfile") if what == "ENTRYPOINT"))
    source, python, data = tmp_path / "source", tmp_path / "venv" / "bin" / "python", tmp_path / "data"
    for what, value in steps("Containerfile"):
        if what == "COPY" and not value.startswith("--from"):
            *names, target = value.split()
            for name in names:
                place = source / target / Path(name).name if target.endswith("/") else source / target
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                place.parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / name, place)
    clean = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
    pip = clean | {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    for line in lines:
        wanted = [each.strip("'") for each in line]
        command = [python, "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(command, check=True, env=pip, cwd=source, capture_output=True)
    data.mkdir(mode=0o700)
    (tmp_path / "models").mkdir()
    save_models(tmp_path / "models")
    url = postgres.create_database().replace(f":{postgres.password}@", "@")
    given = clean | {"DPTEXT_LEDGER": url, "PGPASSWORD": postgres.password}

    def here(text: str) -> str:
        places = {"/data": str(data), "/models": str(tmp_path / "models"), "0.0.0.0": "127.0.0.1"}  # noqa: S104
        return re.sub("|".join(places), lambda found: places[found[0]], text)

    command = [*setup["entrypoint"], *(here(each) for each in setup["command"])]

    def run(*steps: str) -> list[str]:
        told = subprocess.run(steps, check=True, capture_output=True, text=True, env=given, cwd="/").stdout
        return re.findall(r"dptext_[0-9a-f]{12}_\S{43}", told)

    _, key = run(*command)
    assert run(*command) == []  # a second time it makes no key
    more = "dptext keys create more --account reviews --scope privatize --key-file /data/gateway.key"
    assert len(run(*setup["entrypoint"], here(more))) == 1
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen([*(here(each) for each in entry), "--port", str(port)], env=given, cwd="/")
    try:
        records = [{"text": "secret", "label": "travel"}]
        found = privatize(f"http://127.0.0.1:{port}", key, "labels", records, patience=120)
        assert "secret" not in found["releases"]
        assert "'reviews': spent 2 of 100" in found["balance_in_words"]
        corpus = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(50))
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "first-corpus"}
        asked = {"model": "topics", "label_field": "label"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300) as client:
            job = client.post("/v1/synthesize", params=asked, content=corpus).headers["Location"]
            assert '"state": "done"' in client.get(f"{job}/events").text  # until it has ended
    finally:
        process.terminate()
        ended = process.wait()
    assert ended == 0  # as whoever stops a container expects
