"""The built-in sample corpus: short requests to an assistant, generated, with label and author.

The templates were written for this project, for demos, documentation and tests. No text is about a real person. Names,
places, days, sums and other slots are drawn independently, so that a text holds a few facts that could be private.
"""

import functools
import importlib.resources
import re
import tomllib
from collections.abc import Sequence
from typing import Final

from dptext import _validate
from dptext.sampling.discrete import uniform_below
from dptext.sampling.randomness import Randomness, seeded
from dptext.text.records import Record

SAMPLE_LABELS: Final = ("health", "travel", "money", "leisure")
_WRITTEN: Final = tomllib.loads(importlib.resources.files("dptext.text").joinpath("samples.toml").read_text("utf-8"))
_AUTHORS: Final[list[str]] = _WRITTEN["authors"]
_FILLINGS: Final[dict[str, list[str]]] = _WRITTEN["fillings"] | {"name": _AUTHORS + _WRITTEN["fillings"]["name"]}
_TEMPLATES: Final[dict[str, list[str]]] = _WRITTEN["templates"]
_SLOT = re.compile(r"\{([a-z]+)(2?)\}")


def sample_records(n: int = 200, *, seed: int = 0) -> list[Record]:
    """Return `n` sample texts with label (four intents) and author (ten). The same seed gives the same texts.

    >>> sample_records(1)[0].label in ("health", "travel", "money", "leisure")
    True
    """
    _validate.count(n=n)
    return list(_samples(n, seed))


@functools.lru_cache(16)
def _samples(n: int, seed: int) -> tuple[Record, ...]:
    source = seeded(seed)
    records = []
    for i in range(n):
        label = _pick(SAMPLE_LABELS, source)
        text = _filled(_pick(_TEMPLATES[label], source), source)
        records.append(Record(str(i), text, label=label, author=_pick(_AUTHORS, source)))
    return tuple(records)


def _filled(template: str, source: Randomness) -> str:
    """Return the template with its slots filled. `{place2}` and `{place}` are different places."""
    chosen: dict[str, str] = {}
    for kind, second in _SLOT.findall(template):
        options = _FILLINGS[kind]
        if second:
            options = [option for option in options if option != chosen[kind]]
        chosen[kind + second] = _pick(options, source)
    return template.format_map(chosen)


def _pick(options: Sequence[str], source: Randomness) -> str:
    return options[int(uniform_below(len(options), 1, source)[0])]
