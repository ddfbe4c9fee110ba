"""The container and the compose file: no root, nothing writable but what is mounted; the steps work elsewhere."""

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from dptext.service.client import privatize
from dptext.service.keys import Keys
from dptext.service.settings import Secret
from dptext.service.store import Store
from gateways import prepare

ROOT = Path(__file__).parents[3]


def steps(name: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, whose lines may go on."""
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text())
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
    assert "torch==2.13.0" in str(found)
    assert '"serve"' in entry
    assert "HEALTHCHECK" in kinds


def test_the_compose_file_opens_nothing_to_the_world() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    gateway, books = services["gateway"], services["books"]
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])
    assert "ports" not in books
    assert ":?" in books["environment"]["POSTGRES_PASSWORD"]  # no default
    assert "@" in gateway["environment"]["DPTEXT_LEDGER"]
    assert "dptext:" not in gateway["environment"]["DPTEXT_LEDGER"]  # no password in a URL
    assert gateway["build"]["dockerfile"] == "Containerfile"
    assert "./models:/models:ro" in gateway["volumes"]


@pytest.mark.slow
def test_the_steps_in_a_clean_environment(tmp_path: Path) -> None:
    """What the first stage installs, without torch, then the entry point as the container starts it."""
    install = next(value for what, value in steps("Containerfile") if what == "RUN" and "pip install" in value)
    assert ".[service,sbert,parquet]" in install
    python = tmp_path / "venv" / "bin" / "python"
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    clean |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", f"{ROOT}[service,parquet]"]
    subprocess.run(pip, check=True, env=clean, capture_output=True)
    settings, ledger = prepare(tmp_path, str(tmp_path / "books.db"))
    key = Keys(Store(settings.ledger), Secret.at(settings.key_file)).create(
        "team", account="reviews", scopes=("privatize",)
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    entry = next(value for what, value in steps("Containerfile") if what == "ENTRYPOINT")
    command = [each.strip(",") for each in shlex.split(entry.strip("[]"))]
    given = {
        "--models": str(settings.models),
        "--host": "127.0.0.1",
        "--key-file": str(settings.key_file),
        "--spool": str(settings.spool),
    }
    for name, value in given.items():
        command[command.index(name) + 1] = value
    command[0] = str(python.with_name("dptext"))
    process = subprocess.Popen([*command, "--port", str(port), "--ledger", settings.ledger], env=clean, cwd="/")
    try:
        end = time.monotonic() + 60
        while True:
            assert time.monotonic() < end
            try:
                httpx.get(f"http://127.0.0.1:{port}/readyz").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.2)
        records = [{"text": "secret", "label": "travel"}]
        found = privatize(f"http://127.0.0.1:{port}", key, "labels", records)
        assert "secret" not in found["releases"]
    finally:
        process.terminate()
        process.wait()
        ledger.close()
