"""The contract is tried with a part of its draws, which see every planted fault; `make test-all` draws all, too.

Of each mechanism they are as many as see twice the epsilon: see test_power.py.
"""

import pytest

from dptext.testing import case, release_checks
from fitted import language_model


@pytest.fixture(autouse=True)
def _tiny_language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights are needed to fit or load what paraphrases."""
    monkeypatch.setattr("dptext_lab.baselines.dp_prompt.load_language_model", lambda _: language_model())


@pytest.fixture(params=["few draws", pytest.param("all draws", marks=pytest.mark.slow)])
def draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of the trials; half of them for SynTF, and a quarter for DP-SGD, SentDP and planted faults.

    The long text has 2,500 words instead of 10,000, but for a mechanism that replaces every one of them.
    """
    if request.param == "few draws":
        kind = request.node.callspec.params.get("kind", "planted")
        share = {"syntf": 2, "adept_dpsgd": 4, "sentdp": 4, "planted": 4}.get(kind, 8)
        monkeypatch.setattr(release_checks, "TRIALS", release_checks.TRIALS // share)
        monkeypatch.setattr(release_checks, "RELEASES", release_checks.RELEASES // 2)
        if kind != "word_metric":
            monkeypatch.setattr(case, "LONG", 2_500)
