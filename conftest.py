"""README, docs and docstrings are tests: python blocks run, >>> examples must print what they show."""

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

documents = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/concepts/*.md", "docs/guides/*.md"])
docstrings = Sybil(
    parsers=[DocTestParser()],
    patterns=["src/dptext/*.py", "src/dptext/**/*.py"],
    document_types={".py": PythonDocStringDocument},
)
pytest_collect_file = (documents + docstrings).pytest()
