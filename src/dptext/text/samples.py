"""The built-in sample corpus: short requests to an assistant, generated, with label and author.

Written for this project from templates; no person is meant. For demos, documentation and tests. Names, places, days,
sums and the rest are drawn independently of each other, so that a text holds a few facts that could be private.
"""

import functools
import re
from typing import Final

from dptext import _validate
from dptext.sampling.discrete import uniform_below
from dptext.sampling.source import Randomness, seeded
from dptext.text.records import Record

SAMPLE_LABELS: Final = ("health", "travel", "money", "leisure")

_AUTHORS = ("Maria", "Ahmed", "Li Wei", "Sofia", "Jonas", "Grace", "Ivan", "Priya", "Tom", "Amina")

_FILLINGS: dict[str, tuple[str, ...]] = {
    "name": (
        *_AUTHORS,
        "Diego", "Fatima", "Hannah", "Kofi", "Leila", "Marta", "Noah", "Olga", "Pedro", "Ruth",
        "Samuel", "Tara", "Viktor", "Yuki", "Zeynep", "Björn", "Chloe", "Emeka", "Paula", "Wanda",
    ),
    "place": (
        "Berlin", "Nairobi", "Lima", "Boston", "Osaka", "Madrid", "Toronto", "Oslo", "Cairo", "Dublin",
        "Lisbon", "Hanoi", "Quito", "Accra", "Denver", "Geneva", "Mumbai", "Perth", "Riga", "Seoul",
        "Tunis", "Vienna", "Warsaw", "Zagreb",
    ),
    "day": (
        "on monday", "on tuesday", "on friday", "tomorrow", "next week", "on March 3", "this evening", "at 7 am",
        "on sunday", "on May 21", "on October 9", "tonight", "in two days", "on the first of June", "at noon",
        "this weekend",
    ),
    "ill": (
        "asthma", "migraine", "diabetes", "a broken wrist", "insomnia", "high blood pressure", "pneumonia",
        "a sore throat", "back pain", "hay fever", "a high fever", "anemia", "an ear infection", "depression",
    ),
    "drug": (
        "ibuprofen", "insulin", "cortisone", "penicillin", "aspirin", "paracetamol", "antibiotics", "iron tablets",
        "eye drops", "sleeping pills",
    ),
    "doctor": ("doctor", "dentist", "pharmacist", "nurse", "surgeon", "therapist"),
    "kin": ("father", "mother", "sister", "son", "grandmother", "wife", "brother", "daughter", "uncle", "husband"),
    "vehicle": ("train", "flight", "bus", "ferry", "night train", "rental car"),
    "stay": ("hotel", "hostel", "apartment", "guest house", "campsite"),
    "sum": (
        "40 dollars", "$1,250", "300 euros", "two thousand pounds", "15 dollars", "80 euros", "$95", "5,000 rupees",
        "60 pounds", "nine hundred dollars", "$3,400", "25 euros",
    ),
    "bill": ("rent", "electricity bill", "phone bill", "tax", "car insurance", "school fee", "mortgage", "gym fee"),
    "film": ("comedy", "thriller", "documentary", "western", "musical", "horror film", "cartoon", "love story"),
    "music": ("jazz", "quiet piano", "hip hop", "folk songs", "an opera", "dance music", "the blues", "a lullaby"),
    "game": ("chess", "football", "tennis", "cards", "a quiz", "table tennis", "bowling", "basketball"),
    "dish": ("lasagna", "a curry", "pancakes", "sushi", "lentil soup", "tacos", "an apple pie", "fried rice"),
}  # fmt: skip

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "health": (
        "My {doctor} {name} says I have {ill}, should I still take {drug}?",
        "{name} was in hospital in {place} with {ill} and is not well yet.",
        "Remind me to give my {kin} his {drug} {day}.",
        "I stopped taking {drug} because of {ill}. Is that dangerous?",
        "Make an appointment with the {doctor} in {place} {day}, my {kin} has {ill}.",
        "Is it safe to take {drug} and {drug2} together?",
        "What helps against {ill} when {drug} does nothing?",
        "My {kin} needs more {drug}, which pharmacy in {place} is open {day}?",
        "Tell {name} that I cannot come {day}, I have {ill} again.",
        "How many {drug} may {name} take a day with {ill}?",
        "Write down that my {ill} got worse {day}.",
        "Ask my {doctor} whether the test for {ill} came back.",
    ),
    "travel": (
        "Book me a {vehicle} from {place} to {place2} {day}, please.",
        "I want to visit {name} in {place} {day}; which {vehicle} is cheapest?",
        "Cancel my {stay} in {place}, we are going to {place2} instead.",
        "How far is it from {place} to {place2} by {vehicle}?",
        "Find a {stay} near the station in {place} for {name} and me {day}.",
        "When does the last {vehicle} to {place} leave {day}?",
        "Is the {vehicle} from {place} late again?",
        "Do I need a visa for {place} if I stay with {name}?",
        "Change the {vehicle} to {place} so that {name} can come along.",
        "What will the weather be like in {place} {day}?",
        "Show me the way from the {stay} in {place} to the airport.",
        "Pack list for {place} {day}, my {kin} travels with me.",
    ),
    "money": (
        "Send {sum} to {name} {day}.",
        "Why did the bank in {place} take {sum} from my account?",
        "{name} owes me {sum} since last summer, write a friendly reminder.",
        "Can I get a loan of {sum} if I lost my job in {place}?",
        "Pay the {bill} of {sum} {day}.",
        "How much did I spend on the {bill} in {place}?",
        "Move {sum} to the savings of my {kin} {day}.",
        "I cannot pay the {bill} {day}, whom do I call at the bank?",
        "Split {sum} between {name}, {name2} and me.",
        "Block my card, somebody in {place} took {sum}.",
        "What is {sum} worth in {place}?",
        "Did {name} transfer the {sum} for the {bill}?",
    ),
    "leisure": (
        "Find a good {film} to watch with {name} {day}.",
        "That {film} was the worst film I have seen, I fell asleep.",
        "We loved the {film}! The actors were wonderful, said {name}.",
        "Play {music}, {name} is asleep.",
        "Put {music} on the list for the party {day}.",
        "Invite {name} and {name2} to play {game} {day}.",
        "Who won at {game} in {place} {day}?",
        "How do I cook {dish} for {name} {day}?",
        "Reserve a table for {name} in {place} {day}, we want {dish}.",
        "Two tickets for the {film} in {place} {day}, please.",
        "Recommend {music} like the songs that {name} plays.",
        "Add what I need for {dish} to the shopping list.",
    ),
}

_SLOT = re.compile(r"\{([a-z]+)(2?)\}")


def sample_records(n: int = 200, *, seed: int = 0) -> list[Record]:
    """`n` sample texts with label (four intents) and author (ten), the same for the same seed.

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
    """The template with its slots filled; `{place2}` is another place than `{place}`."""
    chosen: dict[str, str] = {}
    for kind, second in _SLOT.findall(template):
        options = _FILLINGS[kind]
        if second:
            options = tuple(option for option in options if option != chosen[kind])
        chosen[kind + second] = _pick(options, source)
    return template.format_map(chosen)


def _pick(options: tuple[str, ...], source: Randomness) -> str:
    return options[int(uniform_below(len(options), 1, source)[0])]
