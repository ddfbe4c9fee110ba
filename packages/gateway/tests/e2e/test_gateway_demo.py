"""What `make serve` prepares: a model, a synthesis, books, and keys that end with the next start."""

import json
from pathlib import Path

import pytest

import dptext as dp
from scripts import load_script

pytest.importorskip("fastapi")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_two_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from fastapi.testclient import TestClient

    from dptext_gateway.app import create_app
    from dptext_gateway.settings import Settings

    demo = load_script("gateway_demo", ROOT / "experiments" / "gateway_demo.py")
    monkeypatch.setattr(demo, "POOL", 200)
    before = demo.main(tmp_path)
    keys = demo.main(tmp_path)
    told = capsys.readouterr().out
    assert all(key in told for key in keys.values())
    settings = Settings(
        tmp_path / "models", str(tmp_path / "books.db"), tmp_path / "spool", tmp_path / "books.db.gateway.key"
    )
    with TestClient(create_app(settings)) as client:

        def ask(key: str, path: str = "/v1/models") -> tuple[int, object]:
            found = client.get(path, headers={"Authorization": f"Bearer {key}"})
            return found.status_code, found.json()

        assert [ask(key)[0] for key in before.values()] == [401, 401]
        status, models = ask(keys["you"])
        assert (status, [(each["name"], each["answers"]) for each in models]) == (
            200,
            [("inbox", "a corpus"), ("requests", "each text"), ("synthetic", "a corpus"), ("tickets", "a corpus")],
        )
        names = ("inbox", "requests", "synthetic", "tickets")
        costs = [ask(keys["you"], f"/v1/models/{name}/cost")[1]["epsilon"] for name in names]
        assert costs == ["1", "10", "1", "1"]
        assert ask(keys["administrator"], "/v1/accounts")[1][0]["name"] == "demo"
        corpus = "".join(json.dumps({"text": e.text, "label": e.label}) + "\n" for e in dp.sample_records(50, seed=1))
        headers = {"Authorization": f"Bearer {keys['you']}", "Idempotency-Key": "first-corpus"}
        for model in ("inbox", "synthetic"):  # a file of texts and labels, as the pages send it
            asked = {"model": model, "label_field": "label"}
            headers["Idempotency-Key"] = f"first-{model}"
            job = client.post("/v1/synthesize", params=asked, content=corpus, headers=headers).headers["Location"]
            events = client.get(f"{job}/events", headers=headers).text  # until it has ended
            assert '"state": "done"' in events
