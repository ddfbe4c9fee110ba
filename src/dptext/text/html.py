"""Texts with HTML in them, as a reader of the page sees them."""

import html
import re
from html.parser import HTMLParser
from typing import Final

_TAG: Final = re.compile(r"(<(?:/?[a-zA-Z][^<>]*|!--[^<>]*--)>)")
_NAME: Final = re.compile(r"</?([a-zA-Z0-9]+)(?=[\s/>]|:[a-zA-Z]+[\s/>])")  # Word writes <o:p>
#: Elements of HTML, living and dead. Other words between < and > are text, as in "write to <email>".
_WORDS: Final = """
    a abbr acronym address applet area article aside audio b base basefont bdi bdo big blink blockquote body br button
    canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset
    figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input
    ins kbd label legend li link main map mark marquee menu meta meter nav nobr noframes noscript object ol optgroup
    option output p param picture pre progress q rp rt ruby s samp script search section select slot small source span
    strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul
    var video wbr xml o v w st1
"""
_ELEMENTS: Final = frozenset(_WORDS.split())
_UNSEEN: Final = frozenset({"script", "style", "template", "title"})
_BLOCKS: Final = frozenset({
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure", "footer", "form", "h1", "h2",
    "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr",
    "ul",
})  # fmt: skip


def has_tags(text: str) -> bool:
    """Whether there is a tag of HTML in the text."""
    return "<" in text and any(map(_is_tag, _TAG.findall(text)))


def _is_tag(part: str) -> bool:
    name = _NAME.match(part)
    return part.startswith("<!") or (name is not None and name[1].lower() in _ELEMENTS)


def without_tags(text: str) -> str:
    """The text without tags, scripts and styles, its entities decoded; a block begins and ends a line.

    White space is as in a page: one space, or one line end. A text without tags keeps its own.
    """
    if not has_tags(text):
        return html.unescape(text)
    page = _Page()
    # What opens no whole tag is text ("a < b", "<3"): the parser would swallow what follows.
    parts = enumerate(_TAG.split(text))  # every second one is a tag
    page.feed("".join(part if place % 2 and _is_tag(part) else part.replace("<", "&lt;") for place, part in parts))
    page.close()
    lines = (" ".join(line.split()) for line in "".join(page.seen).split("\n"))
    return "\n".join(filter(None, lines))


class _Page(HTMLParser):
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
