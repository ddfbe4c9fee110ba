"""Settings of Sphinx: `make docs` builds these pages into build/docs, with warnings as errors."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import dptext_gateway.app  # noqa: F401  # now: pydantic cannot be imported while autodoc sets TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

logging.getLogger("alembic").setLevel("WARNING")

project = "dptext"
author = "the contributors of dptext"
version = release = version_of("dptext")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "live"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["extensions"]
html_theme = "furo"
html_title = f"dptext {version}"
html_show_sourcelink = False

myst_heading_anchors = 4

# Docstrings are plain English with `names` between single backticks; `live` makes reST of them.
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Outcomes", "notes_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_use_unqualified_type_names = True
add_module_names = False

# A name in a signature that belongs to another package has no page here; without a network there is none to link to.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r".*")]
suppress_warnings = ["ref.python"]  # a name of several modules in a signature
