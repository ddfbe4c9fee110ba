"""The contract is tried with a part of its draws, which see every planted fault; `make test-all` draws all, too."""

import pytest

from dptext.testing import audit_checks


@pytest.fixture(params=["few draws", pytest.param("all draws", marks=pytest.mark.slow)])
def draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the trials; half of them for SynTF, of which a quarter would not see twice the epsilon."""
    if request.param == "few draws":
        share = 2 if request.node.callspec.params.get("kind") == "syntf" else 4
        monkeypatch.setattr(audit_checks, "_TRIALS", audit_checks._TRIALS // share)
        monkeypatch.setattr(audit_checks, "_FEW", audit_checks._FEW // 2)
