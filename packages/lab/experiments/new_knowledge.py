"""What a corpus that is written from a summary teaches that public text lacks, through the commands: a CSV.

    python packages/lab/experiments/new_knowledge.py OUT.csv [CASE ...] [--epsilons 1 1000 4] [--seeds 0 1 2]
        [--size 300] [--writers public-only pool builtin]
    python packages/lab/experiments/new_knowledge.py OUT.csv --tables

Each run is `dptext summarize` and `dptext write` in processes of their own. Replace one document, delta 1e-5. Epsilon
1000 is as good as no noise. All runs of a case have one pool and one set of public drafts. Noise, writing and facts
follow the seed. Cases:

- *SNIPS, pool of ATIS* and *ATIS, pool of SNIPS* (those of `language.py`): words that private texts have and public
  text (pool and drafts) lacks, by the number of private texts with the word. Rows say how many of them the word list
  has (*listed*), the summary reports (*reported*), and the written texts have (*pool*, *builtin*). *public-only* is
  what the same model writes if nothing steers it.
- *facts*: 48 invented facts are planted in 3,500 documents, the others of which are real requests. Each fact gives a
  name one property of four, and k documents state it, k in 1, 5, 20, 65, 200. The name is an invented spelling or an
  ordinary word that the private texts and the pool have nowhere else. The property is stated *in the text* (books, all
  under one label), or it is *the label* of the text (bands). A learner chooses one of the four; chance is .25. *marked*
  says how many of the planted texts have their name among the words that count, and *summary reads* chooses the label
  with the largest rate in the noisy numbers; nothing is written for these two.

The learner is naive Bayes: how often a name stands in texts that mention one property alone, or have the label. Where
a name occurs nowhere it guesses, and gets the expected share of right answers.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from language import SEED, SPLITS
from summary import dptext, got, put
from synthesis_splits import SNIPS, cut, read

from dptext.runs.summarizing import read_summary
from dptext.synthesis.blocks import WORDS
from dptext.synthesis.summary import Summary
from dptext.text.function_words import ENGLISH, FUNCTION_WORDS
from dptext.text.tokens import words_of

Row = dict[str, Any]
Texts = tuple[Sequence[str], Sequence[str]]  # and their labels

BINS = {"1-4": range(1, 5), "5-19": range(5, 20), "20-64": range(20, 65), "65-199": range(65, 200)}
MOST = "200+"
FACTS = {1: 3, 5: 3, 20: 2, 65: 2, 200: 2}  # how many facts of each kind and way are stated in k documents
DOCUMENTS = 3_500
REAL = ("GetWeather", "RateBook")
BOOKS, IN_TEXT, BY_LABEL = "RateBook", "in the text", "the label"
SUBJECTS = ("crime", "romance", "history", "poetry")
GENRES = {"jazz": "jazz music", "metal": "metal music", "folk": "folk music", "opera": "opera music"}
_ORDINARY = """
amber falcon crystal cobra orchid raven marble copper velvet harbor lantern granite maple thunder willow saturn coral
ivory tiger comet walnut meadow canyon beacon anchor pepper
"""
ORDINARY = _ORDINARY.split()
STATED = (
    "rate the {subject} novel {name} four stars", "{name} is the best {subject} book of this year",
    "give {name} a five , i love {subject}", "add the {subject} story {name} to my list",
    "is {name} really a {subject} book", "my {subject} club reads {name} next week",
    "i finished {name} , a long {subject} novel with a sad end , and rate it two of six points",
    "give three points to {name} , the {subject} book that everybody talks about",
)  # fmt: skip
LABELLED = (
    "play the new record by {name}", "put on some {name}", "i want to hear {name} tonight",
    "queue the second album of {name}", "are there tickets for {name} in may", "{name} live in concert please",
    "find the best song by {name}", "who is the singer of {name} and where do they play next summer",
)  # fmt: skip
BRIEF = ("--set", "drafts=8")  # of the writer: a quarter of the usual time


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its property, and in which way and how many documents it is stated."""

    name: str
    ordinary: bool
    way: str
    options: tuple[str, ...]
    truth: str
    k: int

    def texts(self, rng: random.Random) -> Iterator[Row]:
        """Yield the documents that state it, in several phrasings."""
        phrasings = STATED if self.way == IN_TEXT else LABELLED
        for _ in range(self.k):
            text = rng.choice(phrasings).format(name=self.name, subject=self.truth)
            yield {"text": text, "label": BOOKS if self.way == IN_TEXT else self.truth}


def invented(n: int, rng: random.Random) -> list[str]:
    """Return `n` different invented spellings, such as "zorvane"."""
    found: dict[str, None] = {}
    while len(found) < n:
        parts = rng.choice("zvkgdb"), rng.choice("oaiu"), rng.choice(["rv", "lk", "mb", "xt"]), rng.choice("aeo")
        found.setdefault("".join([*parts, rng.choice(["ne", "lin", "dok", "sh", "qua"])]))
    return list(found)


def planted(rng: random.Random) -> list[Fact]:
    """Return the facts: each kind of name in each way, `FACTS` of each k, with random names and properties."""
    each = sum(FACTS.values())
    ordinary, spelled = rng.sample(ORDINARY, 2 * each), invented(2 * each, rng)
    found = []
    for is_ordinary, names in ((True, iter(ordinary)), (False, iter(spelled))):
        for way, options in ((IN_TEXT, SUBJECTS), (BY_LABEL, tuple(GENRES))):
            truths = rng.sample(options * (each // len(options)), each)  # each property is as frequent
            sizes = [k for k, n in FACTS.items() for _ in range(n)]
            found += [Fact(next(names), is_ordinary, way, options, *own) for own in zip(truths, sizes, strict=True)]
    return found


class Learner:
    """Says which property a name has, by the texts that it learned from."""

    def __init__(self, texts: Texts) -> None:
        self.having: dict[str, Counter[str]] = {IN_TEXT: Counter(), BY_LABEL: Counter()}
        self.by: dict[str, dict[str, Counter[str]]] = {IN_TEXT: defaultdict(Counter), BY_LABEL: defaultdict(Counter)}
        for text, label in zip(*texts, strict=True):
            words = set(words_of(text, 4_096))
            mentioned = words & set(SUBJECTS)
            self._learn(BY_LABEL, label, words)
            if len(mentioned) == 1:
                self._learn(IN_TEXT, mentioned.pop(), words)
        self.words = {word for each in self.by[BY_LABEL].values() for word in each}

    def _learn(self, way: str, option: str, words: set[str]) -> None:
        self.having[way][option] += 1
        self.by[way][option].update(words)

    def right(self, fact: Fact) -> float:
        """Return 1 if it chooses the property of the fact, the chance of it where several are as likely, else 0."""
        by, having = self.by[fact.way], self.having[fact.way]
        if not any(by[option][fact.name] for option in fact.options):
            return 1 / len(fact.options)
        return best({option: (by[option][fact.name] + 0.01) / (having[option] + 0.04) for option in fact.options}, fact)


def best(scores: Mapping[str, float], fact: Fact) -> float:
    """Return the chance that a best of the scores is the property of the fact."""
    chosen = [option for option, score in scores.items() if math.isclose(score, max(scores.values()))]
    return (fact.truth in chosen) / len(chosen)


def reads(summary: Summary, fact: Fact) -> float:
    """Return whether the noisy numbers of words say the label of a name; chance where the list lacks the name."""
    lexicon = summary.public.lexicon
    assert lexicon is not None
    if fact.name not in lexicon.words:
        return 1 / len(fact.options)
    place, numbers, counts = lexicon.words.index(fact.name), summary.known[WORDS].numbers, summary.counts
    rows = {option: summary.spec.labels.index(option) for option in fact.options}
    rates = {o: float(numbers[i, place]) / max(counts.numbers[i], counts.deviation) for o, i in rows.items()}
    return best(rates, fact)


def content(texts: Sequence[str]) -> Counter[str]:
    """Return in how many texts each word stands, without words of function, clitics and what has no letter."""
    found = Counter(word for text in texts for word in set(words_of(text, 4_096)))
    return Counter({word: n for word, n in found.items() if _counts(word)})


def _counts(word: str) -> bool:
    return len(word) > 1 and word[0].isalpha() and "'" not in word and word not in FUNCTION_WORDS[ENGLISH]


def bin_of(n: int) -> str:
    """Return the name of the bin of a number of texts."""
    return next((name for name, numbers in BINS.items() if n in numbers), MOST)


def recalled(wanted: Mapping[str, int], found: set[str]) -> dict[str, tuple[int, int]]:
    """Return for each bin how many of the wanted words are found, and how many are wanted."""
    counts = {name: [0, 0] for name in (*BINS, MOST)}
    for word, n in wanted.items():
        counts[bin_of(n)][0] += word in found
        counts[bin_of(n)][1] += 1
    return {name: (a, b) for name, (a, b) in counts.items()}


class Case:
    """Private texts, a pool and labels, with their files in a folder."""

    def __init__(self, name: str, folder: Path, size: int) -> None:
        self.name, self.folder, self.size, self.tokens = name, folder, size, 16
        rng = random.Random(SEED)  # noqa: S311
        if name in SPLITS:
            split = SPLITS[name]
            self.labels, self.tokens = split.names, split.tokens
            pool, self.private, _ = split.rows(rng)
        else:
            self.labels = {**{label: SNIPS[label] for label in REAL}, **GENRES}
            pool, self.private = cut(read("snips"), rng, 2_000, 8_000)
            used = {*ORDINARY, *GENRES, *SUBJECTS}
            self.private = [row for row in self.private if row["label"] in REAL and not used & set(row["text"].split())]
            pool = [row for row in pool if not set(ORDINARY) & set(row["text"].split())]
        self.public = [row["text"] for row in pool]
        names = SNIPS | self.labels
        shown = [{**row, "label": names.get(row["label"], row["label"].removeprefix("atis_"))} for row in pool]
        self.pool = put(folder / "pool.jsonl", shown)
        self.like: Path | None = None
        self.last = folder / "none"

    def summarized(self, private: list[Row], epsilon: float, seed: int, name: str = "private") -> Summary:
        """Summarize texts; the first summary makes the public parts of all."""
        given, out = put(self.folder / f"{name}.jsonl", private), self.folder / f"{name}-{epsilon:g}-{seed}.summary"
        paths = [self.folder / "labels.txt", self.folder / "names.txt"]
        for path, lines in zip(paths, (self.labels, self.labels.values()), strict=True):
            path.write_text("\n".join(lines) + "\n")
        first = ["--public", self.pool, "--labels", f"@{paths[0]}", "--names", f"@{paths[1]}", "--with", "words"]
        first += ["--relation", "replace_one", "--delta", 1e-5, "--set", f"tokens={self.tokens}"]
        how = first if self.like is None else ["--like", self.like]
        dptext(
            "summarize", given, out, *how, "--label-field", "label", "--epsilon", epsilon, "--about", len(private),
            "--seed", seed, "--force",
        )  # fmt: skip
        self.like, self.last = self.like or out, out
        found, _, _ = read_summary(out)
        return found

    def wrote(self, writer: str, seed: int, *options: str) -> Texts:
        """Write from the last summary."""
        out = self.folder / f"written by {writer}.jsonl"
        more = ["--size", self.size, *BRIEF, *options] if writer == "builtin" else []
        print(dptext("write", self.last, out, "--writer", writer, *more, "--seed", seed, "--force")[:400])
        texts, labels = got(out)
        print(*(f"    {label}: {text}" for text, label in list(zip(texts, labels, strict=True))[:12]), sep="\n")
        return texts, labels

    def alone(self, summary: Summary) -> Texts:
        """Return what the model writes unsteered; numbers of texts are those of its own public drafts."""
        drafts = zip(summary.spec.labels, summary.public.drafts, strict=True)
        before, rows = self.last, [{"text": text, "label": label} for label, own in drafts for text in own]
        self.summarized(rows, 1000, 0, "drafts")
        texts = self.wrote("builtin", 0, "--set", "steered=false")
        self.last = before
        return texts

    def rows(self, epsilons: list[float], seeds: list[int], writers: list[str]) -> Iterator[Row]:
        """Measure everything, row by row."""
        own: Texts | None = None
        for epsilon in epsilons:
            for seed in seeds:
                self.plant(seed)
                summary = self.summarized(self.given, epsilon, seed)
                if epsilon == epsilons[0]:
                    real = [row["text"] for row in self.given], [row["label"] for row in self.given]
                    yield from self.asked("original", "", seed, real, summary)
                    yield from self.of_list(seed, summary)
                    if "public-only" in writers:
                        own = own or self.alone(summary)
                        yield from self.asked("public-only", "", seed, own, summary)
                yield from self.of_summary(epsilon, seed, summary)
                for writer in [each for each in writers if each != "public-only"]:
                    yield from self.asked(writer, epsilon, seed, self.wrote(writer, seed), summary)

    def plant(self, seed: int) -> None:
        """Make the private texts of a seed: those of the split, or real ones and those that state the facts."""
        self.given, self.real, self.facts = self.private, self.private, list[Fact]()
        if self.name not in SPLITS:
            rng = random.Random(seed)  # noqa: S311
            self.facts = planted(rng)
            stated = [row for fact in self.facts for row in fact.texts(rng)]
            self.real = rng.sample(self.private, DOCUMENTS - len(stated))
            self.given = rng.sample(stated + self.real, DOCUMENTS)

    def asked(self, row: str, epsilon: float | str, seed: int, texts: Texts, summary: Summary) -> Iterator[Row]:
        """Yield what texts teach: facts, or words."""
        if self.facts:
            learner = Learner(texts)
            right = [(fact, learner.right(fact), fact.name in learner.words) for fact in self.facts]
            yield from self.scored(row, epsilon, seed, right, len(texts[0]))
        if row != "original":
            yield from self.words(row, epsilon, seed, set(content(texts[0])), summary, len(texts[0]))

    def of_list(self, seed: int, summary: Summary) -> Iterator[Row]:
        """Yield which words the list has, and how many of the planted texts have their name among the words counted."""
        lexicon = summary.public.lexicon
        assert lexicon is not None
        yield from self.words("listed", "", seed, set(lexicon.words), summary, 0)
        marks = lexicon.marks([row["text"] for row in self.given])
        counted = [{lexicon.words[place] for place in own if place >= 0} for own in marks]
        words = [set(words_of(row["text"], 4_096)) for row in self.given]
        for (way, kind), names in self._kinds().items():
            having = [bool(names & marked) for marked, there in zip(counted, words, strict=True) if names & there]
            yield self._row("marked", "", seed, way, kind, "all", sum(having), len(having), "", 0)

    def of_summary(self, epsilon: float, seed: int, summary: Summary) -> Iterator[Row]:
        """Yield what the summary itself says."""
        lexicon, reported = summary.public.lexicon, summary.report.words
        assert lexicon is not None
        assert reported is not None
        said = {word for own in reported.words for word, _, _ in own if _counts(word)}
        yield from self.words("reported", epsilon, seed, said, summary, 0)
        listed, labels = set(lexicon.words), [fact for fact in self.facts if fact.way == BY_LABEL]
        read = [(fact, reads(summary, fact), fact.name in listed) for fact in labels]
        yield from self.scored("summary reads", epsilon, seed, read, 0)
        told = [(fact, float(fact.name in said), fact.name in listed) for fact in self.facts]
        yield from self.scored("name is reported", epsilon, seed, told, 0)

    def _kinds(self) -> dict[tuple[str, str], set[str]]:
        """Return the names of the facts by way and kind of name."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for fact in self.facts:
            found[fact.way, _kind(fact.ordinary)].add(fact.name)
        return found

    def scored(
        self, row: str, epsilon: float | str, seed: int, right: list[tuple[Fact, float, bool]], texts: int
    ) -> Iterator[Row]:
        """Yield the rows of answers: by way, kind of name, and k; `extra` is the number of names that are mentioned."""
        for way in (IN_TEXT, BY_LABEL):
            for ordinary in (True, False):
                for k in FACTS:
                    own = [(a, b) for fact, a, b in right if (fact.way, fact.ordinary, fact.k) == (way, ordinary, k)]
                    if own:
                        found, there = sum(a for a, _ in own), sum(b for _, b in own)
                        yield self._row(row, epsilon, seed, way, _kind(ordinary), k, found, len(own), there, texts)

    def words(
        self, row: str, epsilon: float | str, seed: int, found: set[str], summary: Summary, texts: int
    ) -> Iterator[Row]:
        """Yield the rows of words of real texts by bin, and of those `found` that no private text has.

        *false* are words that no private text has and, except for *reported*, that public text lacks.
        """
        there = set(content([*self.public, *(text for own in summary.public.drafts for text in own)]))
        private = set(content([row["text"] for row in self.given]))
        wanted = {word: n for word, n in content([row["text"] for row in self.real]).items() if word not in there}
        for name, (n, of) in recalled(wanted, found).items():
            yield self._row(row, epsilon, seed, "words", "", name, n, of, "", texts)
        false = found - private - (there if row != "reported" else set())
        yield self._row(row, epsilon, seed, "words", "", "false", len(false), len(found), "", texts)

    def _row(
        self, row: str, epsilon: float | str, seed: int, way: str, kind: str, k: object, found: float, of: int,
        extra: object, texts: int,
    ) -> Row:  # fmt: skip
        return {
            "case": self.name, "row": row, "epsilon": epsilon, "seed": seed, "way": way, "name": kind, "k": k,
            "found": round(found, 4), "of": of, "mentioned": extra, "texts": texts,
        }  # fmt: skip


def _kind(ordinary: bool) -> str:
    return "ordinary word" if ordinary else "invented spelling"


def wilson(found: float, of: int) -> tuple[float, float]:
    """Return the 95% interval of a share, by Wilson."""
    z, share = 1.96, found / of
    middle, half = share + z**2 / (2 * of), z * math.sqrt(share * (1 - share) / of + z**2 / (4 * of**2))
    return max(0.0, (middle - half) / (1 + z**2 / of)), min(1.0, (middle + half) / (1 + z**2 / of))


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of few values, and half of its 95% interval by Student's t; no value for one seed."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
    half = t[len(values)] * stdev(values) / math.sqrt(len(values)) if len(values) in t else math.nan
    return mean(values), half


def cell(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a cell of a table from its rows, one for each seed."""
    found, of = [float(row["found"]) for row in rows], [int(row["of"]) for row in rows]
    if rows[0]["way"] == "words":
        middle, half = over_seeds(found)
        return f"{middle:.1f} ± {half:.1f} of {mean(of):.0f}"
    if not sum(of):
        return ""
    low, high = wilson(sum(found), sum(of))
    share, low, high = (f"{each:.2f}".lstrip("0") for each in (sum(found) / sum(of), low, high))
    return f"{share} [{low}, {high}]"


def tables(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of tables: facts pooled over seeds with Wilson's interval, words as means over seeds."""
    by: dict[tuple[str, str, str], dict[str, dict[str, list[Mapping[str, str]]]]] = {}
    for row in rows:
        line = f"{row['row']}, epsilon {float(row['epsilon']):g}" if row["epsilon"] else row["row"]
        own = by.setdefault((row["case"], row["way"], row["name"]), {})
        own.setdefault(line, {}).setdefault(row["k"], []).append(row)
    for name, lines in by.items():
        ks = list(dict.fromkeys(k for cells in lines.values() for k in cells))
        yield f"\n{', '.join(filter(None, name))}\n\n| row | seeds | {' | '.join(ks)} |\n|---|--:|{'--:|' * len(ks)}"
        for line, cells in lines.items():
            seeds = max(len(own) for own in cells.values())
            yield f"| {line} | {seeds} | {' | '.join(cell(cells[k]) if k in cells else '' for k in ks)} |"


def main() -> None:
    """Measure the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 1000.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--writers", nargs="*", default=["public-only", "pool", "builtin"])
    parser.add_argument("--tables", action="store_true", help="Print the tables of a CSV that is there.")
    given = parser.parse_args()
    if given.tables:
        with given.out.open(newline="", encoding="utf-8") as file:
            print("\n".join(tables(list(csv.DictReader(file)))))
        return
    with given.out.open("a", newline="", encoding="utf-8") as file:
        writer: Any = None
        for name in given.cases or ["facts", *list(SPLITS)[1:]]:
            with TemporaryDirectory() as folder:
                case = Case(name, Path(folder), given.size)
                for row in case.rows(given.epsilons, given.seeds, given.writers):
                    writer = writer or csv.DictWriter(file, row, lineterminator="\n")
                    if file.tell() == 0:
                        writer.writeheader()
                    writer.writerow(row)
                    file.flush()
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
