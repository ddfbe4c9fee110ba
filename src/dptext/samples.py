"""The built-in sample corpus: short requests to an assistant, generated, with label and author.

Written for this project from templates; no person is meant. For demos, documentation and tests.
"""

from __future__ import annotations

from dptext import _validate
from dptext.randomness import seeded, uniform_below
from dptext.records import Record

_NAMES = ("Maria", "Ahmed", "Li Wei", "Sofia", "Jonas", "Grace", "Ivan", "Priya", "Tom", "Amina")
_PLACES = ("Berlin", "Nairobi", "Lima", "Boston", "Osaka", "Madrid", "Toronto", "Oslo", "Cairo", "Dublin")
_DAYS = ("monday", "tuesday", "friday", "tomorrow", "next week", "on March 3", "this evening", "at 7 am")
_ILLS = ("asthma", "migraine", "diabetes", "a broken wrist", "insomnia", "high blood pressure", "pneumonia")
_DRUGS = ("ibuprofen", "insulin", "cortisone", "penicillin", "aspirin")
_FILMS = ("comedy", "thriller", "documentary", "western", "musical")
_SUMS = ("40 dollars", "$1,250", "300 euros", "two thousand pounds", "15 dollars")

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "health": (
        "My doctor {name} says I have {ill}, should I still take {drug}?",
        "{name} was in hospital in {place} with {ill} and is not well yet.",
        "Remind me to give my father his {drug} {day}.",
        "I stopped taking {drug} because of {ill}. Is that dangerous?",
    ),
    "travel": (
        "Book me a flight from {place} to {place2} {day}, please.",
        "I want to visit {name} in {place} {day}; which train is cheapest?",
        "Cancel my hotel in {place}, we are going to {place2} instead.",
        "How far is it from {place} to {place2} by car?",
    ),
    "money": (
        "Send {sum} to {name} {day}.",
        "Why did the bank in {place} take {sum} from my account?",
        "{name} owes me {sum} since last summer, write a friendly reminder.",
        "Can I get a loan of {sum} if I lost my job in {place}?",
    ),
    "leisure": (
        "Find a good {film} to watch with {name} {day}.",
        "That {film} was the worst film I have seen, I fell asleep.",
        "We loved the {film}! The actors were wonderful.",
        "Play something quiet, {name} is asleep and I have {ill}.",
    ),
}


def sample_records(n: int = 200, *, seed: int = 0) -> list[Record]:
    """`n` sample texts with label (four intents) and author (ten), the same for the same seed.

    >>> sample_records(1)[0].label in ("health", "travel", "money", "leisure")
    True
    """
    _validate.count(n=n)
    source = seeded(seed)

    def pick(options: tuple[str, ...]) -> str:
        return options[int(uniform_below(len(options), 1, source)[0])]

    records = []
    for i in range(n):
        label = pick(tuple(_TEMPLATES))
        place = pick(_PLACES)
        text = pick(_TEMPLATES[label]).format(
            name=pick(_NAMES),
            place=place,
            place2=pick(tuple(other for other in _PLACES if other != place)),
            day=pick(_DAYS),
            ill=pick(_ILLS),
            drug=pick(_DRUGS),
            film=pick(_FILMS),
            sum=pick(_SUMS),
        )
        records.append(Record(str(i), text, label=label, author=pick(_NAMES)))
    return records
