"""Fixtures of the fault tests."""

from ledger_faults import either, faulty, location, mechanism, path, role, source, template, whole  # noqa: F401
from ledger_processes import children, new_ledger  # noqa: F401
