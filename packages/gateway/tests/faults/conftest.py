"""Fixtures of the fault tests: the ledgers of the library's."""

from ledger_faults import either, location, path, source, template, whole  # noqa: F401
