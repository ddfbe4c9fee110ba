"""The writer with a model that transformers loads, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import dptext as dp
import rome
import torch_folders
from dptext.errors import ConfigError
from dptext.runs.writing import prepared
from dptext.synthesis.from_transformers import FromTransformers


@pytest.mark.parametrize("template", ["lines", "chat"])
def test_a_model_in_a_folder_writes_and_its_place_is_not_told(template: str, tmp_path: Path) -> None:
    model = torch_folders.saved(tmp_path / "own model", "mistral", chat=torch_folders.CHAT)
    given: dict[str, Any] = {"writer": f"model:{model}", "size": 20, "template": template, "drafts": 16, "matches": 0}
    made = dp.write(rome.summary(), **given, seed=1)
    assert 0 < len(made.releases) <= 20
    derived = made.certificate.derived
    assert (derived["writer"], derived["model"], derived["template"]) == ("model", "own model", template)
    assert len(str(derived["weights"])) == 64
    assert str(tmp_path) not in made.certificate.to_json()
    assert dp.write(rome.summary(), **given, seed=1).releases == made.releases
    assert dp.write(rome.summary(), **given, seed=1, batch=3).certificate.derived["batch"] == 3


def test_chat_needs_a_template(tmp_path: Path) -> None:
    model = torch_folders.saved(tmp_path / "m", "mistral")
    with pytest.raises(ConfigError, match="take the template lines"):
        dp.write(rome.summary(), writer=f"model:{model}", size=4, template="chat", drafts=4, matches=0)


def test_a_chat_template_that_refuses_is_said(tmp_path: Path) -> None:
    model = torch_folders.saved(tmp_path / "m", "mistral", chat="{{ raise_exception('a system prompt first') }}")
    with pytest.raises(ConfigError, match="found a system prompt first: take the template lines"):
        dp.write(rome.summary(), writer=f"model:{model}", size=4, template="chat", drafts=4, matches=0)


@pytest.mark.parametrize("template", ["lines", "chat"])
def test_a_model_needs_room_for_a_prompt_and_one_text(template: str, tmp_path: Path) -> None:
    """Room for further texts after the examples, as `prediction` shows them, was asked for by mistake."""
    model = torch_folders.saved(tmp_path / "m", "mistral", chat=torch_folders.CHAT)
    given: dict[str, Any] = {"writer": f"model:{model}", "template": template, "drafts": 4, "matches": 0, "size": 4}
    assert dp.write(rome.summary(), **given, tokens=40).releases
    with pytest.raises(ConfigError, match="in the prompt and 190 to write: set fewer tokens"):
        dp.write(rome.summary(), **given, tokens=190)


def test_a_place_without_a_model_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to name a folder with"):
        prepared(rome.summary(), writer=f"model:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"options": 1}, "options=1"),
        ({"batch": -1}, "batch=-1"),
        ({"precision": "int4"}, "Expected precision to be one of auto, float32, bfloat16, float16"),
        ({"template": "poem"}, "Expected template to be one of lines, chat"),
    ],
)
def test_settings_of_a_folder_that_cannot_be_used_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FromTransformers(model="m", **wrong)
