"""The order in which waiting jobs run: accounts take turns, and so do the keys of an account."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class JobOrder:
    """The last turn of each account and key, numbered from 1. A gateway that starts again knows no turns."""

    _newest: int = 0
    _turns: dict[str, int] = field(default_factory=dict)

    def of(self, rows: Iterable[Any]) -> list[Any]:
        """Return jobs sorted by the last turn of their account, then of their key, the longest ago first."""
        return sorted(rows, key=lambda row: [self._turns.get(each, 0) for each in _whose(row)])

    def runs(self, row: Any) -> None:
        """Note that it is the turn of this job."""
        self._newest += 1
        self._turns |= dict.fromkeys(_whose(row), self._newest)


def _whose(row: Any) -> tuple[str, str]:
    """Names of the account and of the key of a job."""
    return f"account {row.account}", f"key {row.prefix}"
