"""A device that is not here is refused before any work, and a model that was fitted on one is used on the CPU."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dptext.embeddings.devices import require_device  # noqa: E402
from dptext.embeddings.sentence_encoder import load_sentence_encoder  # noqa: E402
from dptext.errors import ConfigError  # noqa: E402
from dptext.mechanism import settings  # noqa: E402
from dptext.mechanisms.candidates.label_only import LabelOnly  # noqa: E402
from dptext.mechanisms.embedded import Embedded  # noqa: E402
from dptext.runs import models  # noqa: E402
from dptext.runs.models import MODEL_FILE, load_model, save_model  # noqa: E402
from dptext.sampling.randomness import seeded  # noqa: E402
from dptext.text.samples import SAMPLE_LABELS, sample_records  # noqa: E402
from dptext_lab.adept.dpsgd import AdeptDpSgd  # noqa: E402
from dptext_lab.adept.net import fitting, load_autoencoder  # noqa: E402
from dptext_lab.adept.net.model import WEIGHTS_FILE  # noqa: E402
from dptext_lab.adept.published import PublishedAdept  # noqa: E402
from dptext_lab.adept.sound import Adept  # noqa: E402
from scripts import needs  # noqa: E402

RECORDS = sample_records(60)
SPECS = (
    replace(Adept.tiny()[0], epochs=1),
    replace(Adept.tiny()[1], epochs=1),
    replace(PublishedAdept.tiny()[0], epochs=1),
    replace(AdeptDpSgd.tiny()[0], epochs=1),
)
ABSENT = ["foo", "", "meta", "cuda:x", "hpu"]  # each fails in torch in another way
if not torch.cuda.is_available():
    ABSENT.append("cuda")


pytestmark = [needs("opacus"), pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module", params=SPECS, ids=lambda spec: f"{spec.kind}-{getattr(spec, 'noise', '')}")
def mechanism(request, one_thread):
    return request.param.fit(public=RECORDS, seed=0)


@pytest.mark.parametrize("device", ABSENT)
def test_what_torch_cannot_compute_on_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected device=.* to be available here: .*use device='cpu'") as caught:
        require_device(device)
    assert repr(device) in str(caught.value)


def test_the_cpu_is_here() -> None:
    require_device("cpu")


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_nothing_is_fitted_for_an_absent_device(spec, monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[object] = []
    monkeypatch.setattr(fitting.Tokens, "from_public", lambda *given, **_: worked.append(given))
    with pytest.raises(ConfigError, match="to be available here"):
        replace(spec, device="meta").fit(public=RECORDS)
    assert not worked


@pytest.mark.slow_cases(
    "adept-privunit", "published_adept", "adept_dpsgd", why="one auto-encoder stays, which all load alike"
)
def test_nothing_is_loaded_on_an_absent_device(mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path)
    readers: tuple[Callable[[], object], ...] = (
        lambda: replace(mechanism.spec, device="meta").load(tmp_path),
        lambda: load_autoencoder(tmp_path, device="meta"),
        lambda: load_sentence_encoder(device="meta"),
    )
    for load in readers:
        with pytest.raises(ConfigError, match="to be available here"):
            load()


def fitted_on(device: str, mechanism):
    """The same fit, as if it had been done there."""
    found = copy.copy(mechanism)
    object.__setattr__(found, "spec", replace(mechanism.spec, device=device))
    return found


def test_a_model_of_another_device_is_loaded_on_the_cpu(mechanism, tmp_path: Path) -> None:
    spec, expected = mechanism.spec, mechanism.privatize(RECORDS, seeded(3))
    save_model(fitted_on("meta", mechanism), tmp_path / "model")
    with pytest.raises(ConfigError, match="Expected device='meta' to be available here"):
        load_model(tmp_path / "model")
    loaded = load_model(tmp_path / "model", device="cpu")
    assert loaded.spec == spec  # which says where it computes now
    assert dict(loaded.digests) == dict(mechanism.digests)
    assert loaded.privatize(RECORDS, seeded(3)) == expected
    assert settings(loaded.spec)["device"] == "cpu"


def test_what_was_saved_is_still_compared(tmp_path: Path) -> None:
    mechanism = SPECS[1].fit(public=RECORDS, seed=0)
    save_model(fitted_on("meta", mechanism), tmp_path / "model")
    path = tmp_path / "model" / MODEL_FILE
    good = path.read_text("utf-8")
    path.write_text(good.replace('"meta"', '"cpu"'), "utf-8")
    with pytest.raises(ConfigError, match="edited"):
        load_model(tmp_path / "model", device="cpu")
    content = json.loads(good)
    del content["sha256"]
    content["digests"]["model"] = "0" * 64
    path.write_text(json.dumps({**content, "sha256": models._seal(content)}), "utf-8")
    with pytest.raises(ConfigError, match="digest 'model'"):
        load_model(tmp_path / "model", device="cpu")
    path.write_text(good, "utf-8")
    weights = tmp_path / "model" / WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="not the one that was saved"):
        load_model(tmp_path / "model", device="cpu")


def test_a_mechanism_within_another_moves_too() -> None:
    outer = settings(Embedded(replace(SPECS[0], device="meta"), device="meta"))
    moved = models.on_device("cpu", outer)
    assert moved["device"] == moved["mechanism"]["device"] == "cpu"
    assert outer["device"] == outer["mechanism"]["device"] == "meta"
    plain = settings(LabelOnly(epsilon=1.0, labels=SAMPLE_LABELS))
    assert models.on_device("cpu", plain) == plain


def test_a_model_without_a_network_computes_on_the_cpu(tmp_path: Path) -> None:
    mechanism = LabelOnly(epsilon=1.0, labels=SAMPLE_LABELS).fit(public=RECORDS)
    save_model(mechanism, tmp_path / "model")
    assert load_model(tmp_path / "model", device="cpu").spec == mechanism.spec
    with pytest.raises(ConfigError, match="Expected device='cuda' for a model with a network: label_only"):
        load_model(tmp_path / "model", device="cuda")
