"""What a ledger needs is loaded by those who use one."""

import subprocess
import sys

import pytest

HEAVY = ("sqlalchemy", "alembic", "psycopg")


def run(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "modules",
    ["dptext", "dptext.runs.streaming", "dptext.runs.files", "dptext.runs.certificate", "dptext.ledger.entries"],
)
def test_importing_loads_no_database(modules: str) -> None:
    program = f"import sys, {modules}; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(program) == "[]"


def test_public_names_load_no_database() -> None:
    program = (
        "import sys, dptext as dp; dp.privatize; dp.privatize_file; dp.Certificate; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert run(program) == "[]"


def test_the_books_load_one() -> None:
    """The tests above would see it."""
    program = f"import sys, dptext.ledger.books; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(program) == str(list(HEAVY))


@pytest.mark.parametrize("absent", HEAVY)
def test_without_the_extra_the_install_line_is_named(absent: str) -> None:
    program = f"""
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == {absent!r} else found(name, package)
from dptext.errors import MissingExtraError
try:
    import dptext.ledger.entries
except MissingExtraError as error:
    print(error)
"""
    said = f"A ledger needs the package {absent}. `make wheels` in a checkout fills dist. "
    assert run(program) == f"{said}Run: pip install --find-links dist 'dptext[ledger]'"
