"""The options of attacks on releases: what `dptext.toml` says of other commands is no error."""

from pathlib import Path

import pytest

from dptext.cli.app import Config
from dptext.cli.audit import attacked
from dptext.errors import ConfigError


def test_what_the_file_says_of_other_commands_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(public: str | None, label_field: str | None) -> None:
        attacked.check_options(None, None if public is None else Path(public), label_field, voided=False)

    written = {"public": "public.csv", "label-field": "stars"}
    monkeypatch.setattr(attacked, "config", lambda: Config(options=written))
    check("public.csv", "stars")
    with pytest.raises(ConfigError, match="no --public"):
        check("other.csv", "stars")
    with pytest.raises(ConfigError, match=r"releases without --label-field"):
        check("public.csv", "topic")
    monkeypatch.setattr(attacked, "config", Config)
    check(None, None)
    with pytest.raises(ConfigError, match=r"releases without --label-field"):
        check(None, "stars")
