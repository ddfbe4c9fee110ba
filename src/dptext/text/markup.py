"""The text of a page of HTML: tags are taken out where they are tags, and words between < and > stay.

Tags, comments and raw texts are those of the HTML standard's tokenizer (section 13.2.5), but what is opened and never
closed is text: the standard, and `html.parser`, would take all that follows for a comment or a script.
"""

import html
import re
from collections.abc import Iterator
from typing import Final

# What follows the name of a tag. A value in quotes may hold < and >, up to 8 times in a tag, so that each character is
# read a bounded number of times; otherwise a < begins something else. Nothing is given back (+ after + or *).
_PLAIN: Final = r"""(?:[^<>=]++|=\s*+(?:"[^"<]*+"|'[^'<]*+'|(?!["'])))*+"""
_QUOTED: Final = rf"""(?:=\s*+(?:"[^"]*+"|'[^']*+'){_PLAIN}){{0,8}}+"""
_MARKUP: Final = re.compile(
    r"<!--|<!\[CDATA\[|\]\]>|<[!?][a-zA-Z\[][^<>]*+>"  # Word writes <![if x]> and <?xml:namespace ... />
    rf"|</?(?P<name>[a-zA-Z][\w:.-]*+)(?=[\s/>]){_PLAIN}{_QUOTED}>"
)
_NAMED: Final = re.compile(r"<(/?)([a-zA-Z][\w:.-]*+)(?=[\s/>])")
_ATTRIBUTE: Final = re.compile(r"""=\s*["']""")
_COMMENT_END: Final = re.compile("--!?>")
#: Elements of HTML, living and dead. Others, as in "write to <email>", are tags where the text closes them or
#: where they have an attribute in quotes.
_NAMES: Final = """
    a abbr acronym address applet area article aside audio b base basefont bdi bdo big blink blockquote body br button
    canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset
    figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input
    ins kbd label legend li link main map mark marquee menu meta meter nav nobr noframes noscript object ol optgroup
    option output p param picture pre progress q rp rt ruby s samp script search section select slot small source span
    strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul
    var video wbr xml o v w st1
"""
_ELEMENTS: Final = frozenset(_NAMES.split())
#: In these a < opens nothing but their end; the text of a `textarea` is seen.
_RAW_ENDS: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "title", "textarea")
}
_LINES: Final = """
    address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p pre search
    section summary table tbody td textarea tfoot th thead tr ul
"""
_BLOCKS: Final = frozenset(_LINES.split())


def has_tags(text: str) -> bool:
    """Whether there is a tag of HTML in the text."""
    return "<" in text and next(_markup(text), None) is not None


def without_tags(text: str) -> str:
    """The text without tags, comments, scripts and styles, its entities decoded; a block begins and ends a line.

    White space is as in a page: one space, or one line end. A text without tags keeps its own. What is opened and never
    closed, a comment or a script, is text. The time is linear in the length of any text.
    """
    if not has_tags(text):
        return html.unescape(text)
    seen: list[str] = []
    templates: list[int] = []  # where those that are open begin in what is seen
    place = 0
    for start, end, name in _markup(text):
        seen.append(_shown(text[place:start]))
        place = end
        if name == "template" and text[start + 1] != "/":
            templates.append(len(seen))
            seen.append(_shown(text[start:end]))
        elif name == "template" and templates:
            del seen[templates.pop() :]
        elif name in _BLOCKS:
            seen.append("\n")
    seen.append(_shown(text[place:]))
    lines = (" ".join(line.split()) for line in "".join(seen).split("\n"))
    return "\n".join(filter(None, lines))


def _shown(piece: str) -> str:
    return html.unescape(piece).replace("\n", " ")  # a line end in the source is white space


def _markup(text: str) -> Iterator[tuple[int, int, str]]:
    """Where each piece of markup begins and ends, and the name of its element; that of a comment is empty."""
    place, in_cdata = 0, False
    closed: frozenset[str] | None = None
    unclosed: set[str] = set()  # what is not closed behind one place is not behind a later one
    while found := _MARKUP.search(text, place):
        start, place = found.span()
        name = (found["name"] or "").lower()
        if found[0] == "<!--":
            end = None if name in unclosed else _COMMENT_END.search(text, start + 2)
            if end is None:
                unclosed.add(name)
                continue
            place = end.end()
        elif found[0] == "]]>":
            if not in_cdata:
                continue
            in_cdata = False
        elif found[0] == "<![CDATA[":
            in_cdata = True  # its text is seen
        elif name and name.split(":")[0] not in _ELEMENTS and not _ATTRIBUTE.search(found[0]):
            closed = _closed(text) if closed is None else closed
            if name not in closed:
                continue
        elif name in _RAW_ENDS and text[start + 1] != "/" and text[place - 2] != "/":
            end = None if name in unclosed else _RAW_ENDS[name].search(text, place)
            if end is None:
                unclosed.add(name)
                continue
            yield start, place if name == "textarea" else end.start(), name
            place = end.start()
            continue
        yield start, place, name


def _closed(text: str) -> frozenset[str]:
    """Names of elements that the text opens and closes, in small letters."""
    found = [(end, name.lower()) for end, name in _NAMED.findall(text)]
    return frozenset(name for end, name in found if end) & frozenset(name for end, name in found if not end)
