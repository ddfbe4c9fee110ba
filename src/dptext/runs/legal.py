"""A certificate as one page for whoever answers for a release and did not make it: plain sentences, no law judged.

The sentences stand in `legal.toml`, each with the facts in which it is said. This module knows the facts and numbers.
"""

from __future__ import annotations

import html
import importlib.resources
import math
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from string import Template
from typing import Final

from dptext.audits.bounds import reconstruction_bound
from dptext.mechanism import Learns
from dptext.privacy.events import MAX_MEANINGFUL_DELTA
from dptext.privacy.guarantee import Basis, Guarantee, Unit, format_delta, format_epsilon
from dptext.runs.verification import Verified

WIDTH: Final = 100
#: Where terms are explained, each under an anchor.
GLOSSARY: Final = "docs/guides/for-the-lawyer.md"
TERMS: Final = ("record", "token", "odds", "epsilon", "distance", "public-data", "ledger")
_GUESSES: Final = {2: "one in two", 100: "one in a hundred", 10_000: "one in ten thousand"}
_DISTANCES: Final = (1, 2, 4)
_NOUN: Final = {Unit.TOKEN: "word", Unit.SENTENCE: "sentence", Unit.DOCUMENT: "record", Unit.AUTHOR: "author"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: sentences, and a table whose first row is its head."""

    heading: str
    lines: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """What is said, in order; the first section is the answer."""

    title: str
    sections: tuple[Section, ...]
    footer: str

    def text(self) -> str:
        """The page for a terminal of `WIDTH` columns."""
        parts = [_wrapped(self.title, "")]
        for each in self.sections:
            parts += ["", each.heading.upper(), *(_wrapped(line, "- ") for line in each.lines)]
            widths = [max(map(len, column)) for column in zip(*each.table, strict=True)]
            parts += ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in each.table]
        return "\n".join([*parts, "", _wrapped(self.footer, "")])

    def html(self) -> str:
        """The same as HTML that stands alone: one sheet of A4, no script, nothing that is loaded."""
        body = ""
        for each in self.sections:
            rows = "".join(f"<tr>{_tagged('td', row)}</tr>" for row in each.table)
            body += f"<h2>{html.escape(each.heading)}</h2><ul>{_tagged('li', each.lines)}</ul><table>{rows}</table>\n"
        values = {"title": html.escape(self.title), "body": body, "footer": html.escape(self.footer)}
        return Template(_own("legal.html")).substitute(values)


def legal_page(found: Verified, *, verified: str, unchanged: float | None = None) -> Page:
    """The page of a certificate that holds.

    Args:
        found: the certificate.
        verified: what was verified, in words.
        unchanged: share of running words that the mechanism gives back as they are, where it was measured.
    """
    certificate = found.certificate
    holding = [each for each in certificate.guarantees if _void(each) is None]
    facts = _facts(found, holding) | ({"unchanged"} if unchanged is not None else set())
    values = {**_values(found, holding), "unchanged": _percent(unchanged or 0.0)}
    sections = []
    for each in tomllib.loads(_own("legal.toml"))["section"]:
        said = "\n".join(text.format(**values) for when, text in each["says"] if _is_so(when, facts)).split("\n")
        sections.append(Section(each["heading"], tuple(said), _table(holding) if each.get("table") and holding else ()))
    title = f"{certificate.output}: {certificate.records:,} records, mechanism {certificate.settings['kind']}"
    terms = f"Terms: {GLOSSARY} ({', '.join(f'#{term}' for term in TERMS)})."
    return Page(title, tuple(sections), f"{verified} {terms}")


def guess_after(promised: Guarantee, candidates: int, distance: float = 1.0) -> float:
    """How often a guess is right at most, after the release, that was right one time in `candidates` before.

    Whoever guesses knows everything else. Delta is added whole: the smaller term of `reconstruction_bound` wants all
    candidates to be equally likely, and somebody may suspect one of them.

    Args:
        promised: a guarantee with a finite epsilon.
        candidates: so many, if all were as likely as the guess.
        distance: between candidates, where the guarantee has a metric.
    """
    epsilon = promised.epsilon * (distance if promised.metric else 1)
    return min(1.0, reconstruction_bound(epsilon, candidates) + promised.delta)


def _own(name: str) -> str:
    return importlib.resources.files("dptext.runs").joinpath(name).read_text("utf-8")


def _wrapped(line: str, mark: str) -> str:
    return textwrap.fill(line, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _tagged(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _is_so(when: str, facts: set[str]) -> bool:
    return all((fact.removeprefix("-") in facts) != fact.startswith("-") for fact in when.split())


def _void(promised: Guarantee) -> str | None:
    """Why it guarantees nothing, or None."""
    if promised.basis is Basis.NONE:
        return promised.reason
    if promised.delta <= MAX_MEANINGFUL_DELTA:
        return None
    return f"with a chance of up to {_percent(promised.delta)} anything may leak, which counts as no protection"


def _facts(found: Verified, holding: Sequence[Guarantee]) -> set[str]:
    """What is so of this release; every word that `legal.toml` asks for, but for `unchanged`."""
    main, traits = (holding or found.certificate.guarantees)[-1], found.spec.traits
    asked = {
        "none": not holding,
        "partly": 0 < len(holding) < len(found.certificate.guarantees),
        "small": main.unit in (Unit.TOKEN, Unit.SENTENCE) and bool(holding),
        "whole": main.unit in (Unit.DOCUMENT, Unit.AUTHOR) and bool(holding),
        "metric": any(each.metric for each in holding),
        "delta": main.delta > 0,
        "public": traits.learns is not Learns.NOTHING,
        "private": traits.takes_private,
        "kept": any(name.startswith(("the field ", "the ids ")) for name in found.certificate.also_reveals),
        "charged": found.certificate.charged is not None,
        "assumed": any(each.assumptions for each in found.certificate.guarantees) or bool(found.also_assumed),
    }
    stated = {main.basis, main.relation, _width(*(guess_after(main, each) for each in _GUESSES))} if holding else set()
    return {name for name, so in asked.items() if so} | {*stated, main.trust, *(each.unit for each in holding)}


def _values(found: Verified, holding: Sequence[Guarantee]) -> dict[str, object]:
    """What stands between braces; numbers are rounded against the sender."""
    stated, charged = found.certificate.guarantees, found.certificate.charged
    main = (holding or stated)[-1]
    assumed = dict.fromkeys([*found.also_assumed, *(name for each in stated for name in each.assumptions)])
    odds = [f"{_factor(each.epsilon)} per {_NOUN[each.unit]}{' at distance 1' * bool(each.metric)}" for each in holding]
    reveals = dict.fromkeys([*(name for each in stated for name in each.reveals), *found.certificate.also_reveals])
    return {
        "reason": _void(stated[-1]),
        "void": "; ".join(f"each {_NOUN[each.unit]}, as {_void(each)}" for each in stated if _void(each)),
        "noun": _NOUN[main.unit],
        "the": "Between words at distance 1 the" if main.metric else "The",
        **{f"after_{each}": _percent(guess_after(main, each)) for each in (_GUESSES if holding else ())},
        "odds": ", ".join(odds),
        "metric": next((each.metric for each in holding if each.metric), None),
        "failure": _rarely(main.delta) if main.delta else "",
        "reveals": "; ".join(reveals),
        "n_assumed": len(assumed),
        "assumed": "\n".join(assumed),
        "version": found.certificate.version,
        "account": charged and charged.account,
        "dataset": charged and charged.dataset,
        "per": charged and charged.unit,
        "charge": charged and charged.number,
    }


def _table(holding: Sequence[Guarantee]) -> tuple[tuple[str, ...], ...]:
    columns = [
        (
            f"{_NOUN[each.unit]}{f', distance {distance}' * bool(each.metric)}",
            *(_percent(guess_after(each, candidates, distance)) for candidates in _GUESSES),
        )
        for each in holding
        for distance in (_DISTANCES if each.metric else (1,))
    ]
    return tuple(zip(("before", *_GUESSES.values()), *columns, strict=True))


def _width(two: float, hundred: float, many: float) -> str:
    """How wide a bound is that makes so much of the guesses: at even odds, half of what was open is still open."""
    limits = {"narrow": two <= 0.75, "moderate": hundred < 0.5, "wide": many < 0.5}  # else better than even
    return next((name for name, so in limits.items() if so), "open")


def _percent(chance: float) -> str:
    """A chance for reading: three digits, rounded up (but for a billionth, so that 50% stays 50%)."""
    shown = Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(chance * (1 - 1e-9)) * 100)
    return f"{shown.normalize():f}%"


def _rarely(delta: float) -> str:
    """A chance as one in so many, which is rounded down (but for a billionth)."""
    return f"1 in {math.floor(1 / delta * (1 + 1e-9)):,}" if delta > 1e-12 else format_delta(delta)


def _factor(epsilon: float) -> str:
    """e^epsilon for reading, rounded up; as a power of ten where it has more than six digits."""
    if epsilon > 15:
        return f"10^{math.ceil(epsilon / math.log(10)):,} (e^{format_epsilon(epsilon)})"
    factor = math.exp(epsilon)
    return f"{math.ceil(factor * 100) / 100:.2f}" if factor < 10 else f"{math.ceil(factor):,}"
