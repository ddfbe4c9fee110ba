"""A fixture of the library's fault tests: new ledgers on both databases."""

from ledger_processes import children, new_ledger  # noqa: F401
