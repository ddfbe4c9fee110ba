"""Texts with HTML in them, as a reader of the page sees them."""

import html
import re
from html.parser import HTMLParser
from typing import Final

_TAG: Final = re.compile(r"(<(?:/?[a-zA-Z][^<>]*|!--[^<>]*--)>)")
_UNSEEN: Final = frozenset({"script", "style", "template", "title"})
_BLOCKS: Final = frozenset({
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure", "footer", "form", "h1", "h2",
    "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr",
    "ul",
})  # fmt: skip


def has_tags(text: str) -> bool:
    """Whether there is a tag of HTML in the text."""
    return "<" in text and _TAG.search(text) is not None


def without_tags(text: str) -> str:
    """The text without tags, scripts and styles, its entities decoded; a block begins and ends a line.

    White space is as in a page: one space, or one line end. A text without tags keeps its own.
    """
    if not has_tags(text):
        return html.unescape(text)
    page = _Page()
    # What opens no whole tag is text ("a < b", "<3"): the parser would swallow what follows.
    parts = enumerate(_TAG.split(text))  # every second one is a tag
    page.feed("".join(part if place % 2 else part.replace("<", "&lt;") for place, part in parts))
    page.close()
    lines = (" ".join(line.split()) for line in "".join(page.seen).split("\n"))
    return "\n".join(filter(None, lines))


class _Page(HTMLParser):
    """Collects what is seen of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._unseen += tag in _UNSEEN
        self.seen.append("\n" if tag in _BLOCKS else "")

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        self.seen.append("\n" if tag in _BLOCKS else "")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            # A line end in the source is white space.
            self.seen.append(data.replace("\n", " "))
