"""A comparison as one HTML page that needs no network and no JavaScript, or as Markdown."""

from dptext_lab.compare.report.page import Written, markdown, write_page
from dptext_lab.compare.report.summary import Results, read_results

__all__ = ["Results", "Written", "markdown", "read_results", "write_page"]
