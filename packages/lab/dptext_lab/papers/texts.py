"""The texts of a study: public and private ones, built in or from a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from dptext.errors import ConfigError
from dptext.text.records import Record
from dptext.text.samples import sample_records

BUILT_IN: Final = "built-in texts (generated; no text is about a real person)"
#: The warning about a file that has no public part.
HALVED: Final = (
    "Half of the file was taken as if it were public. That is for study only: a guarantee needs text that is public. "
    "Name public text with --public."
)
_FEWEST: Final = 20


@dataclass(frozen=True, slots=True)
class Texts:
    """Public and private texts that have no text in common. `source` names them, `notes` say what was done to them."""

    private: tuple[Record, ...] = field(repr=False)
    public: tuple[Record, ...] = field(repr=False)
    source: str
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the public texts, sorted. No private text decides them."""
        return tuple(sorted({record.label for record in self.public if record.label is not None}))


def sampled(private: int, public: int, seed: int) -> Texts:
    """Return built-in requests with their labels: so many public ones, and at most so many others that are private.

    Their authors are left out: they were drawn at random, and wrote nothing in their own way.
    """
    records = [replace(record, author=None) for record in sample_records(public + 2 * private, seed=seed)]
    return apart(records[public:], records[:public], BUILT_IN, most=private)


#: An opening and a closing for each author of the built-in texts, which otherwise have no style.
_HABITS: Final = (
    ("hey there ,", ", cheers"),
    ("good day ,", ", kind regards"),
    ("um , well ,", ", you know"),
    ("please ,", ", thank you so much"),
    ("quick one :", ", asap"),
    ("dear assistant ,", ", sincerely yours"),
)
#: The share of an author's texts that have the opening, and the closing.
_OFTEN: Final = 0.7


def authored(private: int, public: int, seed: int) -> Texts:
    """Return built-in requests of six authors, each with planted habits: an opening and a closing in most texts.

    Public texts have the same habits, so that a vocabulary of public text knows their words.
    """
    rng = np.random.default_rng(seed)
    records = []
    for record in sample_records(public + 2 * private, seed=seed):
        who, opens, closes = int(rng.integers(len(_HABITS))), rng.random() < _OFTEN, rng.random() < _OFTEN
        first, last = _HABITS[who]
        text = f"{first + ' ' if opens else ''}{record.text}{last if closes else ''}"
        records.append(replace(record, text=text, author=f"author {who + 1}"))
    note = f"The {len(_HABITS)} authors have planted habits: openings and closings in most of their texts."
    return replace(apart(records[public:], records[:public], BUILT_IN, most=private), notes=(note,))


def documents(private: int, public: int, seed: int, *, requests: int) -> Texts:
    """Return built-in documents: each joins so many requests of one label."""
    wanted = private + public
    by_label: dict[str, list[str]] = {}
    made: list[Record] = []
    for record in sample_records((wanted + 8) * requests, seed=seed):
        own = by_label.setdefault(str(record.label), [])
        own.append(record.text)
        if len(own) == requests:
            made.append(Record(str(len(made)), " ".join(own), label=record.label))
            own.clear()
    return apart(made[public:], made[:public], f"{BUILT_IN}, {requests} requests a document", most=private)


def of_file(private: Sequence[Record], public: Sequence[Record] | None, source: str, *, seed: int) -> Texts:
    """Return the texts of a user, in a random order. Without public texts one half of the file stands for them.

    ConfigError: fewer than 20 different texts on a side.
    """
    rng = np.random.default_rng(seed)
    known = list({record.text: record for record in private if record.text.strip()}.values())
    known = [known[i] for i in rng.permutation(len(known)).tolist()]
    if public is not None:
        others = [public[i] for i in rng.permutation(len(public)).tolist() if public[i].text.strip()]
        found = apart(known, others, source)
    else:
        half = len(known) // 2
        found = replace(apart(known[half:], known[:half], source), notes=(HALVED,))
    if min(len(found.private), len(found.public)) < _FEWEST:
        raise ConfigError(
            f"Expected at least {_FEWEST} different texts that are public and {_FEWEST} that are not, found "
            f"{len(found.public)} and {len(found.private)}: give more."
        )
    return found


def apart(private: Iterable[Record], public: Sequence[Record], source: str, *, most: int | None = None) -> Texts:
    """Leave out private texts that are public, and repeated ones; the rest get new ids, which belong to no text."""
    seen = {record.text for record in public}
    kept: list[Record] = []
    for record in private:
        if record.text not in seen and (most is None or len(kept) < most):
            seen.add(record.text)
            kept.append(replace(record, id=str(len(kept))))
    return Texts(tuple(kept), tuple(public), source)


def cut(texts: Texts, private: int, public: int) -> Texts:
    """Return at most so many texts of each side, the first ones, with a note where some were left out."""
    if len(texts.private) <= private and len(texts.public) <= public:
        return texts
    found = replace(texts, private=texts.private[:private], public=texts.public[:public])
    note = (
        f"{len(found.private):,} of {len(texts.private):,} private and {len(found.public):,} of "
        f"{len(texts.public):,} public texts were drawn, so that a study takes a minute at most."
    )
    return replace(found, notes=(*texts.notes, note))
