"""A certificate as one page, for the person who answers for a release that others made; no legal opinion.

`legal.toml` holds the sentences, each with the facts under which it is shown. This module computes facts and numbers.
"""

import html
import importlib.resources
import math
import textwrap
import tomllib
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache, lru_cache
from string import Template
from typing import Any, Final, NamedTuple

from dptext._wording import plural
from dptext.audits.bounds import reconstruction_bound
from dptext.mechanism import Learns
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit, format_factor
from dptext.runs.certificate import Certificate
from dptext.runs.verification import Verified
from dptext.text.plain_text import a_record

WIDTH: Final = 100
_GUESSES: Final = {2: "one in two", 100: "one in a hundred", 10_000: "one in ten thousand"}
_NOUN: Final = {Unit.TOKEN: "word", Unit.SENTENCE: "sentence", Unit.DOCUMENT: "record", Unit.AUTHOR: "author"}


class Section(NamedTuple):
    """A section of the page: a heading, sentences, and a table whose first row is its head."""

    heading: str
    lines: Sequence[str]
    table: Sequence[Sequence[str]]


class Page(NamedTuple):
    """The page: a title, sections in order, of which the first is the answer, and a footer."""

    title: str
    sections: Sequence[Section]
    footer: str

    def text(self) -> str:
        """Return the page as text for a terminal of `WIDTH` columns."""
        parts = [_wrapped(self.title)]
        for number, (heading, lines, table) in enumerate(self.sections):
            parts += [*([""] if number < 2 else []), heading.upper(), *(_wrapped(line, "- ") for line in lines)]
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            parts += ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([*parts, "", _wrapped(self.footer)])

    def html(self) -> str:
        """Return the page as one HTML file: one sheet of A4, no script, no external resources."""
        body = ""
        for heading, lines, table in self.sections:
            rows = "".join(f"<tr>{_tagged('td', row)}</tr>" for row in table)
            body += f"{_tagged('h2', [heading])}<ul>{_tagged('li', lines)}</ul><table>{rows}</table>\n"
        values = {"title": html.escape(self.title), "body": body, "footer": html.escape(self.footer)}
        return Template(_own("legal.html")).substitute(values)


@cache
def _written() -> dict[str, Any]:
    return tomllib.loads(_own("legal.toml"))


def legal_page(found: Verified, *, verified: str = "", unchanged: float | None = None) -> Page:
    """Return the page of a verified certificate.

    `verified` is the sentence on what was verified; empty for `found.sentence()`. `unchanged` is the share of running
    words that the mechanism returns unchanged; None if it was not measured.
    """
    holding = [each for each in found.certificate.guarantees if _void(each) is None]
    facts = _facts(found, holding) | ({"unchanged"} if unchanged is not None else set())
    values = {
        **_values(found, holding),
        "verified": verified or found.sentence(),
        "unchanged": _percent(unchanged or 0.0),
    }
    written = _written()
    sections = []
    for part in written["section"]:
        said = [
            text.format(**values)
            for when, text in part["says"]
            if all((fact.removeprefix("-") in facts) != fact.startswith("-") for fact in when.split())
        ]
        table = _table(holding) if "table" in part and holding else ()
        sections.append(Section(part["heading"], "\n".join(said).split("\n"), table))
    return Page(written["title"].format(**values), sections, written["footer"].format(**values))


def guess_after(promised: Guarantee, candidates: int, distance: float = 1.0) -> float:
    """Return the largest chance, after the release, of a guess that was right with chance 1 / `candidates` before.

    The guess is about what a unit says, and the guesser knows everything else. Delta is added whole: the smaller term
    of `reconstruction_bound` requires equally likely candidates, and a guesser may suspect one of them. The guarantee
    must have a finite epsilon. Under a metric, candidates are at this distance.
    """
    epsilon, delta = promised.of_content
    return min(1.0, reconstruction_bound(epsilon * (distance if promised.metric else 1), candidates) + delta)


def guess_whether_there(promised: Guarantee, candidates: int) -> float:
    """Return the same of a guess whether a unit is there at all, if units are added or removed."""
    return min(1.0, reconstruction_bound(promised.epsilon, candidates) + promised.delta)


def verdict(promised: Guarantee) -> str:
    """Return the page's sentence that judges this bound. The guarantee must have a finite epsilon."""
    said = dict(_written()["section"][0]["says"])
    return str(said[_width(promised)]).format(**_bound(promised))


def _width(promised: Guarantee) -> str:
    """Return the name of the bound's width.

    Narrow: a guess of 1/2 becomes at most 3/4. Moderate: a guess of 1/100 stays below 1/2. Wide: a guess of 1/10,000
    stays below 1/2. Else open. All are guesses about what a unit says.
    """
    two, hundred, many = (guess_after(promised, candidates) for candidates in _GUESSES)
    return "narrow" if two <= 0.75 else "moderate" if hundred < 0.5 else "wide" if many < 0.5 else "open"


def _bound(promised: Guarantee) -> dict[str, str]:
    """Return the values of placeholders in sentences about a bound."""
    after = {f"after_{each}": _percent(guess_after(promised, each)) for each in _GUESSES}
    if promised.relation is not Relation.REPLACE_ONE and not promised.metric:
        there = {f"after_{each}": _percent(guess_whether_there(promised, each)) for each in _GUESSES}
        after = {
            each: f"{n} about what {'an' if promised.unit is Unit.AUTHOR else 'a'} {_NOUN[promised.unit]} says "
            f"({there[each]} whether it is there)"
            for each, n in after.items()
        }
    return {"the": "Between words at distance 1 the" if promised.metric else "The", **after}


def _own(name: str) -> str:
    return importlib.resources.files("dptext.runs").joinpath(name).read_text("utf-8")


@lru_cache(maxsize=256)  # the pages of a gateway differ in few lines; none of them holds private text
def _wrapped(line: str, mark: str = "") -> str:
    return textwrap.fill(line, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False)


def _tagged(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _void(promised: Guarantee) -> str | None:
    if promised.basis is not Basis.NONE and promised.delta <= MAX_MEANINGFUL_DELTA:
        return None
    leak = f"with a chance of up to {_percent(promised.delta)} anything may leak, which counts as no protection"
    return promised.reason or leak


def _facts(found: Verified, holding: Sequence[Guarantee]) -> set[str]:
    """Return the facts of this release: all words that `legal.toml` uses as conditions, except `unchanged`."""
    stated, traits = found.certificate.guarantees, found.spec.traits
    facts: dict[str, bool] = {
        "none": not holding,
        "partly": 0 < len(holding) < len(stated),
        "metric": any(each.metric for each in holding),
        "public": traits.learns is not Learns.NOTHING,
        "private": traits.takes_private,
        "labels": traits.releases_labels and traits.releases_text,
        "kept": any(name.startswith(("the field ", "the ids ")) for name in found.certificate.also_reveals),
        "reveals": any((*found.certificate.also_reveals, *(name for each in stated for name in each.reveals))),
        "charged": found.certificate.charged is not None,
        "written": found.certificate.writes_from_summary,
        "brought": bool(found.brought),
    }
    named: list[str] = [stated[-1].trust, *(each.unit for each in holding)]
    for main in holding[-1:]:
        named += [
            _width(main),
            main.basis,
            main.relation,
            "small" if main.unit in (Unit.TOKEN, Unit.SENTENCE) else "whole",
        ]
        facts["delta"] = main.delta > 0
    return {*named, *(name for name, so in facts.items() if so)}


def _values(found: Verified, holding: Sequence[Guarantee]) -> dict[str, object]:
    """Return the values of placeholders in `legal.toml`; numbers are rounded against the sender."""
    stated = found.certificate.guarantees
    main = (holding or stated)[-1]
    assumed = dict.fromkeys(name for each in holding for name in each.assumptions)
    assumed |= dict.fromkeys(found.certificate.assumed_of_writer)
    reveals = [*(name for each in stated for name in each.reveals), *found.certificate.also_reveals]
    odds = (f"{_factor(each.epsilon)} per {_NOUN[each.unit]}{' at distance 1' * bool(each.metric)}" for each in holding)
    return {
        "certificate": found.certificate,
        "records": plural(found.certificate.records, "record") if found.certificate.records else "no texts",
        "portion": _portion(found.certificate),
        "reason": _void(stated[-1]),
        "void": "; ".join(f"each {_NOUN[each.unit]}, as {_void(each)}" for each in stated if _void(each)),
        "noun": _NOUN[main.unit],
        **(_bound(main) if holding else {}),
        "odds": ", ".join(odds),
        "metric": next((each.metric for each in holding if each.metric), ""),
        "one_in": f"{math.floor((1 + 1e-9) / max(main.delta, 1e-15)):,}",  # rounded down, with a slack of 1e-9
        "reveals": "; ".join(dict.fromkeys(reveals)),
        "assumed": "".join(f"{each}\n" for each in assumed),
        "package": found.brought,
    }


def _portion(of: Certificate) -> str:
    """Return what a record was, in the words of the page."""
    plain = "of plain text " if of.record and not of.forms else ""
    return f"{plain}{a_record(of.record, of.forms)}"


def _table(holding: Sequence[Guarantee]) -> list[list[str]]:
    columns = [(each, distance) for each in holding for distance in ((1, 2, 4) if each.metric else (1,))]
    rows = [["before", *(_NOUN[each.unit] + f", distance {at}" * bool(each.metric) for each, at in columns)]]
    for candidates, before in _GUESSES.items():
        rows.append([before, *(_percent(guess_after(each, candidates, at)) for each, at in columns)])
    return rows


def _percent(chance: float) -> str:
    """Return a chance as a percentage of three digits, rounded up with a slack of 1e-9, so that 50% stays 50%.

    A chance below 100% that three digits would round to 100% has up to seven digits.
    """
    exact = Decimal(chance * (1 - 1e-9)) * 100
    shown = (Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact) for digits in range(3, 8))
    return f"{next((each for each in shown if each < 100), Decimal(100)).normalize():f}%"


def _factor(epsilon: float) -> str:
    """Return e^epsilon as text, rounded up; as a power of ten if it has more than six digits."""
    if epsilon > 15:
        return f"10^{math.ceil(epsilon / math.log(10)):,} ({format_factor(epsilon)})"
    return format_factor(epsilon)
