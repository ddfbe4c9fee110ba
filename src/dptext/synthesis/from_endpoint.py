"""The writer `endpoint:BASE_URL#MODEL`: a language model behind a server that speaks the protocol of OpenAI."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np

from dptext import _validate
from dptext.errors import ConfigError, ServerError, ServerRefusedError
from dptext.language.server import Address, Server, ServerText
from dptext.synthesis.asking import TEMPLATES, Examples, Template, answer_line, completion_line, lines, question
from dptext.synthesis.by_length import More
from dptext.synthesis.from_drafts import CHARACTERS, SURE, FromDrafts, Moves, examples_of
from dptext.synthesis.judging import believed
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.lengths import Length, whole_sentences
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.summary import Summary
from dptext.synthesis.word_targets import WordTargets
from dptext.types import Json

#: How noisy numbers move what a server writes: by biases of tokens, by key words in what is asked, by both, or by
#: biases where the server takes them, else key words.
By: TypeAlias = Literal["auto", "bias", "words", "both"]
BYS: Final = get_args(By)
#: Servers that take biases choose among few tokens by default, so that a token that is made likelier is often left out.
_OPEN: Final[dict[str, Any]] = {"top_p": 1.0, "extra_body": {"top_k": 512, "min_p": 0.0}}
_LARGEST_BIAS: Final = 100.0  # of the protocol
_WORDS: Final = (2, 4)  # least and largest number of key words of a text
_SHOWN_WORDS: Final = 3  # key words of an example
_LABELS: Final = 10  # that are listed before anything is asked
TOKENS_A_WORD: Final = 2  # at most, about
_STRONGEST: Final = 8  # words of each
_REFUSED: Final = 4  # requests that may be refused for what they hold; and half as many as are answered
_EMPTY: Final = 16  # answers that may be empty; and as many as are not
#: What a server is asked for the probe of biases: public, whatever the summary holds.
_PROBE: Final = "red, green, blue, red, green,"
_PROBE_WORD: Final = " apple"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromEndpoint(FromDrafts):
    """Settings of the writer `endpoint:BASE_URL#MODEL`, besides those of `FromDrafts`.

    Attributes:
        base: address of the server, with its /v1. The key comes from OPENAI_API_KEY.
        model: name of the model there.
        template: "lines" asks for the completion of lines; "chat" asks the chat model a question.
        by: "bias" moves tokens of the noisy numbers' words; "words" asks for key words; "both"; "auto" takes biases
            where the server takes them, else key words.
        biases: largest number of tokens that are moved at once.
        at_once: number of requests at once.
        most_requests, most_tokens: budget of the run with its earlier parts that were stopped, retries too; 0 is no
            limit. Requests that are under way when it is spent are answered. What was written is kept.
        allow_remote: whether the server may stand on another machine: noisy numbers and public texts go there.
    """

    takes: ClassVar[str] = "BASE_URL#MODEL"
    part: ClassVar[int] = 32
    means: ClassVar[tuple[str, ...]] = ("at_once", "most_requests", "most_tokens", "allow_remote")

    base: str = ""
    template: Template = "lines"
    by: By = "auto"
    biases: int = 300
    at_once: int = 8
    most_requests: int = 0
    most_tokens: int = 0
    allow_remote: bool = False

    def __post_init__(self) -> None:
        FromDrafts.__post_init__(self)
        _validate.count(at_once=self.at_once, biases=self.biases)
        _validate.not_negative(most_requests=self.most_requests, most_tokens=self.most_tokens)
        for name, known in (("by", BYS), ("template", TEMPLATES)):
            if getattr(self, name) not in known:
                raise ConfigError(f"Expected {name} to be one of {', '.join(known)}, found {getattr(self, name)!r}.")
        address = self.address
        if not self.allow_remote and not address.is_here:
            raise ConfigError(
                f"Expected a server on this machine, found {address.host}: public texts and noisy numbers would go "
                "there. If they may, give --allow-remote (allow_remote=True in Python)."
            )

    @property
    def address(self) -> Address:
        """The server and its model."""
        return Address.of(f"{self.base}#{self.model}")

    @classmethod
    def at(cls, place: str) -> dict[str, Json]:
        """Return the settings that BASE_URL#MODEL names."""
        address = Address.of(place)
        return {"base": address.base, "model": address.model}

    def notes(self) -> Iterator[str]:
        """Yield sentences on what was not checked of a server."""
        yield (
            f"The server {self.address.host} named the model {self.model!r}: its weights were not checked, nor what it "
            "trained on, nor what it keeps or passes on."
        )
        if not self.address.is_here:
            words = ", names of labels and noisy words" if self.steered else " and names of labels"
            yield f"Public examples{words} were sent to {self.address.host}."

    def said(self) -> dict[str, Json]:
        """Return the settings as the certificate has them, and whether the server is on another machine.

        The path of the address is left out, as some hold secrets.
        """
        return {**asdict(self), "base": self.address.origin, "remote": not self.address.is_here}

    def asks(self, summary: Summary, price: tuple[float, float] | None) -> Iterator[str]:
        """Yield sentences on what would be asked of whom. `price` is that of a million tokens read, and written."""
        self.require_words(summary)
        by, wanted = self.planned(summary)
        entries = np.flatnonzero(wanted).tolist()
        labels = by.moved_by(entries)
        asked = self.size + self.drafted(len(labels))
        ask = question if self.template == "chat" else lines
        shown = [examples_of(by, place) for place in range(len(by.bins))]
        # By label and length, in bytes, as letters of most other scripts have several of both bytes and tokens.
        long = [[len(ask(each, by.names[entry]).encode()) for each in shown] for entry in entries]
        read = asked * float((by.lengths[entries] * long).sum()) / len(entries) / CHARACTERS
        tokens = [self.most_tokens_of(each) for each in by.bins.lengths]
        written = asked * float((by.lengths[entries] * tokens).sum()) / len(entries)
        cost = (read * price[0] + written * price[1]) / 1e6 if price else 0.0
        yield (
            f"{asked:,} requests, {self.drafted(len(labels)):,} of them for drafts, would go to {self.address.host} "
            f"for the model {self.model!r}, {self.at_once} at once; more where texts are repeats."
        )
        paid = f": about {cost:,.2f} at most by the price that was named" if price else ""
        yield f"About {read:,.0f} tokens would be read, and at most {written:,.0f} written{paid}."
        sent = f"What goes there: {max(map(len, shown))} public examples and the name of a label in each request"
        if not self.steered:
            of = "label and length" if len(by.bins) > 1 else "label"
            yield f"{sent}. No noisy number does, but for how many texts each {of} has."
            return
        yield f"{sent}, and of the noisy numbers the words that move what is written. Above the noise, strongest first:"
        for label in labels[:_LABELS]:
            numbers, n, usual, deviation = (
                by.numbers[label],
                float(by.units[label]),
                by.usual[label],
                by.deviations[label],
            )
            over, more = numbers - n * usual > SURE * deviation, believed(numbers, n, usual, deviation) - usual
            strongest = [by.lexicon.words[i] for i in np.argsort(-more, kind="stable").tolist() if over[i]]
            yield f"{by.names[label]}: {', '.join(strongest[:_STRONGEST]) or 'none surpasses the noise'}"

    def most_tokens_of(self, length: Length) -> int:
        """Return the largest number of tokens of a text of this length."""
        return self.tokens if length.below is None else min(self.tokens, length.below * TOKENS_A_WORD)

    def drafter(self, by: WordTargets) -> ServerDrafter:
        """Ask the server what it takes. ServerError: it fails, or refuses."""
        return ServerDrafter(self, Server(self.address), by.lexicon)


class ServerDrafter:
    """Writes by asking a server, with several requests at once."""

    weights = ""  #: nobody here can read them

    def __init__(self, settings: FromEndpoint, server: Server, lexicon: Lexicon) -> None:
        self.settings, self.server, self.lexicon = settings, server, lexicon
        self.tokens = 0  # read and written so far
        self._asked = 0  # requests, those of earlier parts of the run among them, without retries
        self._lock, self._known = threading.Lock(), dict[str, int | None]()
        self._kept: KeptWriting | None = None
        self._open = dict[str, Any]()
        self._break: list[int] | None = None  # tokens of a line break
        self._good = self._refused = self._empty = 0
        self.takes = self._takes() if settings.steered and settings.by != "words" else 0
        if settings.by in {"bias", "both"} and not self.takes:
            raise ConfigError(
                f"Expected {server.address.host} to take biases of tokens and to tell tokens at /tokenize, but it does "
                "not: set by=words."
            )

    def __repr__(self) -> str:
        return f"ServerDrafter({self.server!r})"

    @property
    def requests(self) -> int:
        """The number of requests of the run so far, each retry being one more."""
        return self._asked + self.server.retried

    def keep(self, kept: KeptWriting) -> None:
        """Keep each answer there, and ask for none that is there. Its requests and tokens count."""
        self._kept = kept
        self._asked += kept.requests
        self.tokens += kept.tokens

    def _takes(self) -> int:
        """Return how many biases the server takes, by a public prompt; 0 if it takes none, or tells no tokens.

        ServerError: the server fails, or refuses the prompt without biases.
        """
        token = self._token(_PROBE_WORD)
        if token is None:
            return 0
        try:
            self._open = dict(_OPEN)
            self._ask(_PROBE, {}, tokens=2)
        except ServerRefusedError:  # it may know no such settings
            self._open = {}
            self._ask(_PROBE, {}, tokens=2)
        most = self.settings.biases
        while most:
            bias = {str(i): 0.001 for i in range(1_000, 1_000 + most - 1)} | {str(token): _LARGEST_BIAS}
            try:
                found = self._ask(_PROBE, bias, tokens=2)
            except ServerRefusedError:
                most //= 2
                continue
            return most if _PROBE_WORD.strip() in found.text else 0
        return 0

    def _token(self, text: str) -> int | None:
        """Return the token of a text within a line; None if it has several, or the server does not tell."""
        if text not in self._known:
            # Some tokenizers put a space before a text that begins, so that the token within a line is another.
            if self._break is None:
                self._break = self.server.tokens("\n")
            both = self.server.tokens(f"\n{text}") if self._break is not None else None
            rest = both[len(self._break or ()) :] if both is not None else []
            self._known[text] = rest[0] if len(rest) == 1 else None
        return self._known[text]

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        """Write about `n` texts, as `Drafter` does. ServerError: the server fails, or refuses."""
        with_words = self.settings.by in {"words", "both"} or not self.takes
        source, length = np.random.default_rng(seed), moves.length
        bias = self._biases(moves.shift) if self.takes else {}
        prompts = [
            self._prompt(name, examples, self._drawn(moves.lift, source) if with_words else (), length)
            for _ in range(n)
        ]
        most = self.settings.tokens
        if length is not None:
            most = self.settings.most_tokens_of(length)

        kept = self._kept

        def ask(place: int) -> str:
            found = kept.answers.get((seed, place)) if kept is not None else None
            if found is None:
                found = self._line(prompts[place], bias, name, most, length)
                if kept is not None and found:  # an empty answer is asked for again
                    kept.keep_answer(seed, place, found, requests=self.requests, tokens=self.tokens)
            if more is not None:
                with self._lock:
                    more(1)
            return found

        threads = ThreadPoolExecutor(self.settings.at_once)
        try:
            return [each.result() for each in [threads.submit(ask, place) for place in range(n)]]
        except BaseException:  # of any kind, Ctrl-C too: it is raised again; nobody waits for what is being asked
            threads.shutdown(wait=False, cancel_futures=True)
            self.server.close()
            raise
        finally:
            threads.shutdown(wait=False)

    def _line(self, prompt: str, bias: Mapping[str, float], name: str, tokens: int, length: Length | None) -> str:
        """Return the text that the server writes; empty if it holds none, or the request was refused.

        `tokens` is the largest number of tokens. With a `length`, all lines of a chat's answer count, and a text that
        was cut off ends with its last whole sentence.

        A request that is refused for what it holds is left out. ServerError: hardly any is answered with a text.
        """
        set_ = self.settings
        try:
            answer = self._ask(prompt, bias, tokens=tokens)
        except ServerRefusedError:
            with self._lock:
                self._refused += 1
                if self._refused > _REFUSED + self._good // 2:
                    raise
            return ""
        found = answer.text
        line = answer_line(found, name, whole=length is not None) if set_.template == "chat" else (
            completion_line(found, prompt)
        )  # fmt: skip
        if length is not None and answer.written >= tokens:
            line = whole_sentences(line, length.least)
        with self._lock:
            self._good += bool(line)
            self._empty += not line
            if self._empty > _EMPTY + self._good:
                raise ServerError(
                    f"{self.server.address.host} answered {self._empty} times without a text: a model that thinks "
                    "first needs more tokens (--set tokens=500) or its thoughts switched off; others, --template chat."
                )
        return line

    def _ask(self, prompt: str, bias: Mapping[str, float], *, tokens: int) -> ServerText:
        set_ = self.settings
        with self._lock:
            if set_.most_requests and self.requests >= set_.most_requests:
                raise ServerError(f"The budget of {set_.most_requests:,} requests is spent: set most_requests higher.")
            if set_.most_tokens and self.tokens >= set_.most_tokens:
                raise ServerError(f"The budget of {set_.most_tokens:,} tokens is spent: set most_tokens higher.")
            self._asked += 1
        more = {**self._open, **({"logit_bias": dict(bias)} if bias else {})}
        if set_.template == "chat":
            found = self.server.answered(prompt, tokens=tokens, temperature=set_.temperature, **more)
        else:
            found = self.server.completed(prompt, tokens=tokens, temperature=set_.temperature, stop="\n", **more)
        with self._lock:
            self.tokens += found.read + found.written
        return found

    def _prompt(self, name: str, examples: Examples, words: Sequence[str], length: Length | None) -> str:
        if self.settings.template == "chat":
            return question(examples, name, words, length)
        known, listed = self.lexicon.known, self.lexicon.words
        keys = [[listed[i] for i in sorted(known(text))[:_SHOWN_WORDS]] for _, text in examples]
        return lines(examples, name, words, keys)

    def _biases(self, shift: Mapping[str, float]) -> dict[str, float]:
        """Return biases of the tokens of words: the largest, as many as the server takes.

        A word counts that is one token within a text. Both its spellings, in small letters and with a capital, do.
        """
        found: dict[str, float] = {}
        for word in sorted(shift, key=lambda word: (-abs(shift[word]), word)):
            for spelled in dict.fromkeys((f" {word}", f" {word.capitalize()}")):
                if len(found) >= self.takes:
                    return found
                if (token := self._token(spelled)) is not None:
                    # The server adds it before it divides by the temperature.
                    found[str(token)] = round(shift[word] * self.settings.temperature, 3)
        return found

    @staticmethod
    def _drawn(lift: Mapping[str, float], source: np.random.Generator) -> list[str]:
        """Draw key words for a text, in proportion to how many more texts should have them."""
        words, weights = [*lift], np.array([*lift.values()])
        n = min(int(source.integers(_WORDS[0], _WORDS[1] + 1)), len(words))
        return [words[i] for i in source.choice(len(words), n, replace=False, p=weights / weights.sum())] if n else []
