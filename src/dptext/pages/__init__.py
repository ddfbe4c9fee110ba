"""A comparison as one HTML page, which needs no network and no JavaScript, or as Markdown."""

from dptext.pages.markdown import markdown
from dptext.pages.page import Written, write_page, write_private_page
from dptext.pages.results import Results, read_results

__all__ = ["Results", "Written", "markdown", "read_results", "write_page", "write_private_page"]
