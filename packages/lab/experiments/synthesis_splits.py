"""The gap splits of packages/lab/experiments/synthesis.py: what is public, what is private, what is the test.

Each was fixed before its first private run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from common import corpus_rows

Row = dict[str, Any]

NEWS = {
    "alt.atheism": "atheism", "comp.graphics": "computer graphics", "comp.os.ms-windows.misc": "Microsoft Windows",
    "comp.sys.ibm.pc.hardware": "PC hardware", "comp.sys.mac.hardware": "Macintosh hardware",
    "comp.windows.x": "X window system", "misc.forsale": "for sale", "rec.autos": "cars",
    "rec.motorcycles": "motorcycles", "rec.sport.baseball": "baseball", "rec.sport.hockey": "hockey",
    "sci.crypt": "cryptography", "sci.electronics": "electronics", "sci.med": "medicine", "sci.space": "space flight",
    "soc.religion.christian": "Christianity", "talk.politics.guns": "gun control",
    "talk.politics.mideast": "politics of the Middle East", "talk.politics.misc": "politics",
    "talk.religion.misc": "religion",
}  # fmt: skip
DISEASES = dict(zip(
    [f"C{i:02}" for i in range(1, 24)],
    ["bacterial infections and mycoses", "virus diseases", "parasitic diseases", "neoplasms",
     "musculoskeletal diseases", "digestive system diseases", "mouth and tooth diseases",
     "respiratory tract diseases", "ear, nose and throat diseases", "nervous system diseases", "eye diseases",
     "urologic and male genital diseases", "female genital diseases and pregnancy complications",
     "cardiovascular diseases", "blood and lymphatic diseases", "diseases of the newborn and abnormalities",
     "skin and connective tissue diseases", "nutritional and metabolic diseases", "endocrine diseases",
     "immunologic diseases", "injuries, poisonings and occupational diseases", "animal diseases",
     "symptoms and general pathology"], strict=True))  # fmt: skip
SYSTEMS = {"neoplasms": "cancer", "digestive": "diseases of the digestive system", "cardiovascular":
           "diseases of heart and vessels", "nervous": "diseases of the nervous system",
           "general": "general pathological conditions"}  # fmt: skip
ATIS = {"atis_flight": "flights", "atis_airfare": "air fares", "atis_ground_service": "ground transportation",
        "atis_airline": "airlines", "atis_abbreviation": "what an abbreviation means", "atis_aircraft": "aircraft",
        "atis_flight_time": "flight times", "atis_quantity": "how many", "atis_airport": "airports",
        "atis_capacity": "seating capacity", "atis_distance": "distances", "atis_city": "cities",
        "atis_ground_fare": "fares of ground transportation", "atis_flight_no": "flight numbers"}  # fmt: skip
SNIPS = {"AddToPlaylist": "add a song to a playlist", "BookRestaurant": "book a restaurant",
         "GetWeather": "the weather", "PlayMusic": "play music", "RateBook": "rate a book",
         "SearchCreativeWork": "search for a creative work",
         "SearchScreeningEvent": "movie showtimes"}  # fmt: skip
TASTE = {"pos": "a positive review, a great film", "neg": "a negative review, a bad film"}
VERDICT = {"high": "a positive review that recommends acceptance", "low": "a negative review that recommends rejection"}
GENDER = {"male": "written by a man", "female": "written by a woman"}
AGE = {"under 25": "written by a student in the early twenties", "25 to 29": "written by a young professional",
       "over 30": "written by a parent in middle age"}  # fmt: skip


@dataclass(frozen=True)
class Split:
    """Names of the labels; how to find pool, private and test rows; what the user states; what public labels mean."""

    names: dict[str, str]
    rows: Callable[[random.Random], tuple[list[Row], list[Row], list[Row]]]
    settings: dict[str, Any] = field(default_factory=dict)
    public: dict[str, str] = field(default_factory=dict)


def read(corpus: str, keep: Callable[[Row], bool] = lambda _: True) -> list[Row]:
    """The rows of a corpus."""
    return [row for row in corpus_rows(corpus) if keep(row) and "\0" not in row["text"]]


def cut(rows: list[Row], rng: random.Random, *sizes: int) -> tuple[list[Row], ...]:
    """Disjoint random parts of these sizes."""
    rows = rng.sample(rows, len(rows))
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(rows[a:b] for a, b in pairwise(ends))


def of(corpus: str, names: dict[str, str], pool: int, private: int, test: int) -> Callable[..., Any]:
    """Pool, private and test texts of one corpus, of the labels that have names."""
    return lambda rng: cut(read(corpus, lambda row: row["label"] in names), rng, pool, private, test)


def news_by_films(rng: random.Random) -> Any:
    """Posts whose pool is reviews of films and blogs."""
    _, private, test = of("20newsgroups", NEWS, 9_000, 4_800, 3_000)(rng)
    return [*rng.sample(read("imdb"), 4_500), *rng.sample(read("blogs"), 4_500)], private, test


def abstracts_by_source(rng: random.Random) -> Any:
    """Abstracts of one collection whose pool is another collection."""
    private, test = cut(read("medical_abstracts", lambda row: row["source"] != "ohsumed"), rng, 1_200, 770)
    return read("medical_abstracts", lambda row: row["source"] == "ohsumed"), private, test


def reviews(rng: random.Random) -> Any:
    """Peer reviews by what they recommend; all reviews of a paper are in one part."""
    rows = read("peer_reviews")
    for row in rows:
        row["label"] = "high" if int(row["rating"]) >= 6 else "low"
    papers = sorted({row["paper"] for row in rows})
    rng.shuffle(papers)
    part = {
        paper: 0 if i < 0.45 * len(papers) else 1 if i < 0.85 * len(papers) else 2 for i, paper in enumerate(papers)
    }
    return tuple([row for row in rows if part[row["paper"]] == i] for i in range(3))


def age_group(row: Row) -> str:
    """Of the author; nobody is under 23, or 28 to 32."""
    return "under 25" if row["age"] < 25 else "25 to 29" if row["age"] < 30 else "over 30"


def bloggers(label: Callable[[Row], str]) -> Callable[[random.Random], Any]:
    """Blogs by a label of their authors: 40 are public, 60 private, whose later posts are the test."""

    def parts(rng: random.Random) -> Any:
        rows = read("blogs")
        for row in rows:
            row["label"] = label(row)
        authors = sorted({row["author"] for row in rows})
        rng.shuffle(authors)
        public = set(authors[:40])
        pool = [row for row in rows if row["author"] in public]
        own = [row for row in rows if row["author"] not in public]
        train, test = ([row for row in own if (row["split"] == "train") is wanted] for wanted in (True, False))
        return rng.sample(pool, 6_000), train, test

    return parts


def lacking(rng: random.Random) -> Any:
    """SNIPS whose pool has no text of three intents."""
    pool, private, test = cut(read("snips"), rng, 7_000, 3_700, 3_000)
    return [row for row in pool if row["label"] not in ("GetWeather", "PlayMusic", "RateBook")], private, test


def skewed(rng: random.Random) -> Any:
    """SNIPS with another mix of intents than the pool, which has all alike."""
    rows = read("snips")
    pool, private, test = cut(rows, rng, 7_000, 5_000, 2_400)
    shares = dict(zip(sorted(SNIPS), (1.0, 0.6, 0.4, 0.25, 0.15, 0.08, 0.05), strict=True))
    private, test = ([row for row in part if rng.random() < shares[row["label"]]] for part in (private, test))
    return pool, private, test


OHSUMED = {"C04": "neoplasms", "C06": "digestive", "C14": "cardiovascular", "C10": "nervous", "C23": "general"}
INTENTS = dict(zip(SNIPS, SNIPS, strict=True))
SPLITS = {
    "20 Newsgroups": Split(NEWS, of("20newsgroups", NEWS, 9_000, 4_800, 3_000), {"about": 5_000}),
    "OHSUMED": Split(DISEASES, lambda rng: cut(read("medical_abstracts", lambda row: row["source"] == "ohsumed"), rng,
                                               3_600, 2_400, 1_390), {"about": 2_500}),
    "ATIS": Split(ATIS, of("atis", ATIS, 2_600, 2_000, 1_100), {"about": 2_000}),
    "IMDB": Split(TASTE, of("imdb", TASTE, 6_000, 5_000, 3_000), {"about": 5_000}),
    "peer reviews": Split(VERDICT, reviews, {"about": 2_500}),
    "SNIPS": Split(SNIPS, of("snips", SNIPS, 7_000, 3_700, 3_000), {"about": 4_000}),
    "SNIPS, another mix": Split(SNIPS, skewed, {"about": 2_000}, INTENTS),
    "abstracts, another source": Split(SYSTEMS, abstracts_by_source, {"about": 1_200}, OHSUMED),
    "20 Newsgroups, pool of films and blogs": Split(NEWS, news_by_films, {"about": 5_000}),
    "blogs, document": Split(GENDER, bloggers(lambda row: row["gender"]), {"about": 10_000}),
    "blogs, author": Split(GENDER, bloggers(lambda row: row["gender"]), {"about": 60, "unit": "author"}),
    "blogs by age, document": Split(AGE, bloggers(age_group), {"about": 10_000}),
    "blogs by age, author": Split(AGE, bloggers(age_group), {"about": 60, "unit": "author"}),
    "SNIPS, intents missing in public": Split(SNIPS, lacking, {"about": 4_000}, INTENTS),
}  # fmt: skip
