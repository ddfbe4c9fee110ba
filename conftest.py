"""README, docs and docstrings are tests: python blocks run, >>> examples must print what they show."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

pytest_collect_file = Sybil(
    parsers=[DocTestParser(), PythonCodeBlockParser()],
    patterns=["README.md", "docs/concepts/*.md"],
    excludes=[".venv/**"],
).pytest()
