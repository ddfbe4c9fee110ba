"""The text of a page of HTML. Tags are removed; words that merely stand between < and > stay.

Tags, comments and raw texts are those of the HTML standard's tokenizer (section 13.2.5), with two exceptions. A comment
or a script that is opened and never closed is text: the standard, and `html.parser`, would take all that follows for a
part of it. A tag whose words are no attributes of HTML, as in "a<b and c>d", is text unless the text closes it.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

# The part of a tag after its name. A value in quotes may hold < and >, up to 64 times in a tag, so that each character
# is read a bounded number of times. Elsewhere a < begins something else. The pattern never backtracks (+ after + or *).
_PLAIN: Final = r"""(?:[^<>=]++|=\s*+(?:"[^"<]*+"|'[^'<]*+'|(?!["'])))*+"""
_QUOTED: Final = rf"""(?:=\s*+(?:"[^"]*+"|'[^']*+'){_PLAIN}){{0,64}}+"""
_MARKUP: Final = re.compile(
    r"<!--|<!\[CDATA\[|\]\]>|<[!?][a-zA-Z\[][^<>]*+>"  # Word writes <![if x]> and <?xml:namespace ... />
    rf"|</?(?P<name>[a-zA-Z][\w:.-]*+)(?=[\s/>]){_PLAIN}{_QUOTED}>"
)
_ATTRIBUTE: Final = re.compile(r"""=\s*["']""")
#: Attributes that may have no value. Attributes of frameworks, such as `v-cloak` and `#name`, may have none either.
_BARE: Final = frozenset(
    """
    allowfullscreen async autofocus autoplay border checked compact contenteditable controls crossorigin declare default
    defer disabled download draggable formnovalidate hidden inert ismap itemscope loop multiple muted nohref nomodule
    noresize noshade novalidate nowrap open playsinline popover readonly required reversed sandbox scoped seamless
    selected sortable spellcheck translate typemustmatch
    """.split()  # noqa: SIM905 (a list of them takes 40 lines)
)
_OF_A_FRAMEWORK: Final = ("#", ":", "@", "*", "[", "(")
_COMMENT_END: Final = re.compile("--!?>")
#: Elements of HTML, current and obsolete. Other names, as in "write to <email>", are tags if the text closes them or
#: if they have an attribute in quotes.
_NAMES: Final = """
    a abbr acronym address applet area article aside audio b base basefont bdi bdo big blink blockquote body br button
    canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset
    figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input
    ins kbd label legend li link listing main map mark marquee menu meta meter nav nobr noembed noframes noscript object
    ol optgroup option output p param picture plaintext pre progress q rp rt ruby s samp script search section select
    slot small source span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time
    title tr track tt u ul var video wbr xml xmp o v w st1
"""
_ELEMENTS: Final = frozenset(_NAMES.split())
#: Elements of raw text, in which a < can only begin their own end tag.
_RAW: Final = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_RAW_ENDS: Final = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_SEEN: Final = frozenset({"textarea", "xmp"})  # the page shows their text, unlike that of other raw elements
_LITERAL: Final = frozenset({"xmp", "plaintext"})  # their text holds no entities
_TAGS: Final = frozenset({"iframe", "noembed", "noframes"})  # tags even if they are never closed
#: Marks in a script that open or close a comment, or a script in a comment, whose end tag does not end the outer script
#: (13.2.5.15 to 31).
_IN_SCRIPT: Final = re.compile(r"<!--|-->|<(/?)script(?=[\s/>])", re.IGNORECASE)
_LINES: Final = """
    address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main menu nav ol optgroup option p
    plaintext pre search section summary table tbody td textarea tfoot th thead tr ul xmp
"""
_BLOCKS: Final = frozenset(_LINES.split())


def has_tags(text: str) -> bool:
    """Return whether the text has a tag of HTML."""
    return "<" in text and next(_markup(text), None) is not None


def without_tags(text: str) -> str:
    """Return the text without tags, comments, scripts and styles, with entities decoded. A block is lines of its own.

    White space is as in a page: one space, or one line end. A text without tags keeps its white space. A comment or a
    script that is opened and never closed is text. The time is linear in the length of any text.
    """
    if not has_tags(text):
        return html.unescape(text)
    seen: list[str] = []
    templates: list[int] = []  # for each open template, its start in `seen`
    place, literal = 0, False
    for start, end, name in _markup(text):
        seen.append(_shown(text[place:start], literal=literal))
        place, literal = end, name in _LITERAL and _opens(text, start, end)
        if name == "template" and text[start + 1] != "/":
            templates.append(len(seen))
            seen.append(_shown(text[start:end], literal=False))
        elif name == "template" and templates:
            del seen[templates.pop() :]
        elif name in _BLOCKS:
            seen.append("\n")
    seen.append(_shown(text[place:], literal=literal))
    lines = (" ".join(line.split()) for line in "".join(seen).split("\n"))
    return "\n".join(filter(None, lines))


def _opens(text: str, start: int, end: int) -> bool:
    """Return whether this tag begins an element that needs an end tag."""
    return text[start + 1] != "/" and text[end - 2] != "/"


def _shown(piece: str, *, literal: bool) -> str:
    return (piece if literal else html.unescape(piece)).replace("\n", " ")  # a line end in the source is white space


def _markup(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the begin and end of each piece of markup, and the name of its element. A comment's name is empty."""
    place, in_cdata = 0, False
    closed: Counter[str] | None = None
    unclosed: set[str] = set()  # an element with no end tag after one place has none after a later place
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
            in_cdata = True  # the text of CDATA is shown
        elif name and _is_doubtful(found[0], name):
            closed = _closed(text) if closed is None else closed
            if not closed[name]:
                continue
        elif name in _RAW_ENDS and _opens(text, start, place):
            stop = None if name in unclosed else _raw_end(name, text, place, unclosed)
            if stop is not None:
                yield start, place if name in _SEEN else stop, name
                place = stop
                continue
            unclosed.add(name)
            if name not in _TAGS:
                continue
        yield start, place, name
        if name == "plaintext" and _opens(text, start, place):
            return


def _raw_end(name: str, text: str, place: int, unclosed: set[str]) -> int | None:
    """Return the start of the end tag of the raw element whose start tag ends at `place`. None: there is no end tag."""
    start, depth = place, 0  # 1 in a comment of the script, 2 in a script in such a comment
    while name == "script" and "in a script" not in unclosed and (found := _IN_SCRIPT.search(text, place)):
        place = found.end()
        if found[0] == "<!--":
            depth = max(depth, 1)
            place -= 2  # <!--> is a whole comment
        elif found[0] == "-->":
            depth = 0
        elif found[1] and depth < 2:
            return found.start()
        else:
            depth = 1 if found[1] else 2 * (depth > 0)
    if name == "script":
        unclosed.add("in a script")
        place = start
    found = _RAW_ENDS[name].search(text, place)
    return None if found is None else found.start()


def _is_doubtful(tag: str, name: str) -> bool:
    """Return whether a tag counts only if it is closed: its element is not of HTML, or its attributes are words."""
    if _ATTRIBUTE.search(tag):
        return False
    if not _is_element(name):
        return True
    rest = " ".join(tag[1 + len(name) : -1].split()).replace(" =", "=").replace("= ", "=")
    words = (word.strip("/").lower() for word in rest.split() if "=" not in word)
    return tag[1] != "/" and not all(
        not word or word in _BARE or "-" in word or word.startswith(_OF_A_FRAMEWORK) for word in words
    )


def _is_element(name: str) -> bool:
    return name.split(":", maxsplit=1)[0] in _ELEMENTS


def _closed(text: str) -> Counter[str]:
    """Count the end tags of each name that the text opens. Each sure tag of an HTML element takes one off."""
    opened, sure, ends = Counter[str](), Counter[str](), Counter[str]()
    for found in _MARKUP.finditer(text):
        name = (found["name"] or "").lower()
        if name and found[0][1] == "/":
            ends[name] += 1
        elif name:
            opened[name] += 1
            sure[name] += _is_element(name) and not _is_doubtful(found[0], name)
    return Counter({name: max(0, ends[name] - sure[name]) for name in opened})
