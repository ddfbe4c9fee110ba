"""What `dptext init` recommends for each text: the mechanism that measured best, or a word on public texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dptext.cli.answers import TAKE_NONE
from dptext.cli.terminal import say
from dptext.doors import absent
from dptext.errors import ConfigError
from dptext.privacy.guarantee import Unit
from dptext.recommend.measured import KeptRow
from dptext.recommend.recommendation import Asked, largest_of, measured_epsilons, not_measured, recommendations
from dptext.recommend.tables import read_measured
from dptext.registry import MECHANISMS
from dptext.types import Json

NO_PUBLIC: Final = (
    "Expected public texts of the same kind: every mechanism that protects a whole document learns from them. Name a "
    "file with --public, or protect single words with --unit token."
)
_WORDS: Final = "word_metric"  # the mechanism that needs no public text
_ENOUGH_TO_TRAIN: Final = 1000  # texts; a network that is trained on fewer writes poor texts


def mechanism_for(asked: Asked, labels: list[str], *, n_public: int) -> tuple[dict[str, Json], str]:
    """Return settings, `kind` among them, and why. ConfigError: nothing can protect a text without public texts."""
    price = f"epsilon {asked.epsilon:g} per {asked.unit}"
    if not n_public or asked.unit is Unit.TOKEN:
        if asked.unit is not Unit.TOKEN:
            raise ConfigError(NO_PUBLIC)
        worth = any(each.qualified for each in recommendations(_installed(read_measured(None).rows), asked))
        said = f"Take {_WORDS}:" if worth else (
            f"Nothing measured is worth taking for {asked.task} at {price}. {_WORDS} is written down all the same:"
        )  # fmt: skip
        return {"kind": _WORDS, "epsilon": asked.epsilon}, f"{said} it blurs each word at {price} of distance."
    rows = _installed(read_measured(None).rows)
    levels = measured_epsilons(rows, asked.unit)
    more = not_measured(levels, asked.epsilon, asked.unit)
    more, measured = (
        f" {more} Epsilon {asked.epsilon:g} is written down." if more else "",
        f"epsilon {largest_of(levels, asked.epsilon) or asked.epsilon:g} per {asked.unit}",
    )
    found = recommendations(rows, asked)
    answers = [each for each in found if each.qualified]
    free = [each.corpus for each in answers if each.is_free]
    best = [each.qualified[0].row for each in answers if not each.is_free or len(free) == len(answers)]
    trained = {kind for kind, cls in MECHANISMS.usable().items() if cls.tiny()[0].traits.trains}
    able = MECHANISMS.usable().keys() - (trained if n_public < _ENOUGH_TO_TRAIN else ())
    usable = [row.kind for row in best if row.kind in able]
    kind, n = Counter(usable).most_common(1)[0] if usable else ("candidates", 0)
    settings: dict[str, Json] = {"kind": kind, "epsilon": asked.epsilon}
    if labels and any(spec.traits.releases_labels for spec in MECHANISMS.usable()[kind].tiny()):
        settings["labels"] = list(labels)
    if not n:
        nothing = f"Nothing measured is worth taking for {asked.task} at {measured}."
        head = f"{TAKE_NONE} {nothing}" if any(each.is_free for each in found) else nothing
        return settings, (
            f"{head} {kind} is written down for whoever needs each text; a larger epsilon keeps more.{more}"
        )
    if len(free) == len(answers):
        return settings, (
            f"{TAKE_NONE} At {measured} nothing that was measured teaches more than they do for {asked.task}, on "
            f"{', '.join(free)}. {kind} is written down for whoever needs each text.{more}"
        )
    return settings, f"Take {kind}: at {measured} it measured best for {asked.task} on {n} of our corpora.{more}"


def _installed(rows: Sequence[KeptRow]) -> list[KeptRow]:
    """Return the rows of references and of installed mechanisms, and say how many mechanisms are left out."""
    if left := sorted({row.kind for row in rows} - {"", *MECHANISMS}):
        said = f"{len(left)} measured mechanisms are not installed and left out, such as {left[0]}."
        say(f"{said}{absent(MECHANISMS.group, left[0])}")
    return [row for row in rows if row.kind not in left]
