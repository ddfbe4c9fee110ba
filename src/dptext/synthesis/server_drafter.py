"""Writing by asking a server: what moves it is found out by public questions, and each answer is kept."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from dptext.errors import ConfigError, ServerError, ServerRefusedError
from dptext.language.server import Server, ServerText
from dptext.synthesis.asking import Examples, answer_line, completion_line, lines, question
from dptext.synthesis.by_length import More
from dptext.synthesis.from_drafts import CHARACTERS, Moves
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.lengths import Length, whole_sentences
from dptext.synthesis.lexicon import Lexicon
from dptext.synthesis.server_settings import ServerSettings
from dptext.synthesis.word_tokens import WordTokens, spellings
from dptext.types import Json

#: Servers that take biases choose among few tokens by default, so that a token that is made likelier is often left out.
_OPEN: Final[dict[str, Any]] = {"top_p": 1.0, "extra_body": {"top_k": 512, "min_p": 0.0}}
_LARGEST_BIAS: Final = 100.0  # of the protocol
KEY_WORDS: Final = (2, 4)  #: least and largest number of key words of a text
_SHOWN_WORDS: Final = 3  # key words of an example
_REFUSED: Final = 4  # requests that may be refused for what they hold; and half as many as are answered
_EMPTY: Final = 16  # answers that may be empty; and as many as are not
#: What a server is asked for the probe of biases: public, whatever the summary holds.
_PROBE: Final = "red, green, blue, red, green,"
_PROBE_WORD: Final = " apple"


def probes(biases: int) -> int:
    """Return the largest number of public questions that find out whether so many biases are taken."""
    return 2 + biases.bit_length()


def prompt_of(
    settings: ServerSettings,
    lexicon: Lexicon,
    examples: Examples,
    name: str,
    words: Sequence[str],
    length: Length | None,
) -> str:
    """Return what a server is asked for a text of the label `name`, with these key words, if any."""
    if settings.template == "chat":
        return question(examples, name, words, length)
    keys = [[lexicon.words[i] for i in sorted(lexicon.known(text))[:_SHOWN_WORDS]] for _, text in examples]
    return lines(examples, name, words, keys)


@dataclass(frozen=True, slots=True)
class ServerWay:
    """How a server is moved, as was found out by public questions. A run that is resumed keeps it.

    Attributes:
        by: "bias", "words" or "both"; empty if nothing moves it.
        biases: number of biases that it takes at once, at most the number that is set; 0 without biases.
        is_open: whether it takes the settings by which it chooses among more tokens.
    """

    by: str = ""
    biases: int = 0
    is_open: bool = False


class ServerDrafter:
    """Writes by asking a server, with several requests at once."""

    weights = ""  #: nobody here can read them

    def __init__(self, settings: ServerSettings, server: Server, lexicon: Lexicon) -> None:
        self.settings, self.server, self.lexicon = settings, server, lexicon
        self.tokens = 0  # read and written so far
        self._asked = 0  # requests, those of earlier parts of the run among them, without those that were sent again
        self._lock = threading.Lock()
        self._kept: KeptWriting | None = None
        self._words = WordTokens(self._told)
        self._way: ServerWay | None = None if settings.steered else ServerWay()
        self._open = False  # whether it takes the settings of `_OPEN`
        self._good = self._refused = self._empty = 0

    def __repr__(self) -> str:
        return f"ServerDrafter({self.server!r})"

    @property
    def requests(self) -> int:
        """The number of requests of the run so far, whatever was asked, each time that one was sent again being one."""
        return self._asked + self.server.again

    @property
    def way(self) -> dict[str, Json]:
        """What moved the server, and how many biases it takes; empty if nothing moved it."""
        way = self._way or ServerWay()
        return {"moved_by": way.by, "biases_taken": way.biases} if way.by else {}

    def keep(self, kept: KeptWriting) -> None:
        """Keep each answer there, and ask for none that is there. Its requests and tokens count.

        A run that was stopped goes on by the way that it found. ServerError, ConfigError: see `found`.
        """
        self._kept = kept
        self._asked += kept.requests
        self.tokens += kept.tokens
        if "way" in kept.head:
            try:
                self._way = ServerWay(**kept.head["way"])
            except TypeError:
                raise ConfigError(
                    f"Expected {kept.path.name} to say how the server is moved, found a damaged line: remove the file "
                    "to begin anew."
                ) from None
            self._open = self._way.is_open
        else:
            kept.head["way"] = asdict(self.found())

    def found(self) -> ServerWay:
        """Find out how the server is moved, unless it is known.

        ServerError: it fails, or refuses the public question without biases. ConfigError: biases are set, and it takes
        none, or tells no tokens.
        """
        if self._way is None:
            by = self.settings.by
            biases = 0 if by == "words" else self._probed()
            if not biases and by in {"bias", "both"}:
                raise ConfigError(
                    f"Expected {self.server.address.host} to take biases of tokens and to tell tokens at /tokenize, "
                    "but it does not: set by=words."
                )
            chosen = ("bias" if biases else "words") if by == "auto" else by
            self._way = ServerWay(chosen, biases, self._open)
        return self._way

    def _probed(self) -> int:
        """Return how many biases the server takes, by a public question; 0 if it takes none, or tells no tokens."""
        self._words.learn([_PROBE_WORD])
        token = self._words.of(_PROBE_WORD)
        if token is None:
            return 0
        try:
            self._open = True
            self._ask(_PROBE, {}, tokens=2)
        except ServerRefusedError:  # it may know no such settings
            self._open = False
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

    def _told(self, text: str) -> list[int] | None:
        self._count()
        return self.server.tokens(text)

    def draft(
        self, name: str, examples: Examples, n: int, *, moves: Moves, seed: int, more: More | None
    ) -> Sequence[str]:
        """Write about `n` texts, as `Drafter` does. ServerError: the server fails, or refuses."""
        way, kept = self.found(), self._kept
        answers = kept.answers if kept is not None else {}
        with_words = way.by in {"words", "both"}
        source, length = np.random.default_rng(seed), moves.length
        new = any(not answers.get((seed, place)) for place in range(n))
        bias = self._biases(moves.shift, way.biases) if way.biases and new else {}
        if way.biases and new and moves.shift and not bias:
            raise ServerError(
                f"{self.server.address.host} tells no word of the summary's public list that is one token, so that no "
                "bias can move it: ask again when /tokenize answers, or begin anew with key words (--set by=words "
                "--force)."
            )
        prompts = [
            prompt_of(
                self.settings, self.lexicon, examples, name, self._drawn(moves.lift, source) if with_words else (),
                length,
            )
            for _ in range(n)
        ]  # fmt: skip
        most = self.settings.tokens if length is None else self.settings.most_tokens_of(length)

        def ask(place: int) -> str:
            found = answers.get((seed, place), "")
            if not found:  # what was answered without a text is asked for again; as a request it counts
                found = self._line(prompts[place], bias, name, most, length)
                if kept is not None:
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
        self._count()
        more = {**(_OPEN if self._open else {}), **({"logit_bias": dict(bias)} if bias else {})}
        found = ServerText("", 0, 0)  # of a request that fails, whatever ends it
        try:
            if set_.template == "chat":
                found = self.server.answered(prompt, tokens=tokens, temperature=set_.temperature, **more)
            else:
                found = self.server.completed(prompt, tokens=tokens, temperature=set_.temperature, stop="\n", **more)
        finally:
            with self._lock:  # some servers do not say how many tokens they read and wrote
                self.tokens += found.read or _about(prompt)
                self.tokens += found.written or _about(found.text)
        return found

    def _count(self) -> None:
        """Count a request before it is sent. ServerError: the budget is spent."""
        set_ = self.settings
        with self._lock:
            if set_.most_requests and self.requests >= set_.most_requests:
                raise ServerError(f"The budget of {set_.most_requests:,} requests is spent: set most_requests higher.")
            if set_.most_tokens and self.tokens >= set_.most_tokens:
                raise ServerError(f"The budget of {set_.most_tokens:,} tokens is spent: set most_tokens higher.")
            self._asked += 1

    def _biases(self, shift: Mapping[str, float], most: int) -> dict[str, float]:
        """Return biases of the tokens of words: the largest, at most `most`.

        A word counts that is one token within a text. Both its spellings, in small letters and with a capital, do. The
        tokens of the whole public list are asked for at once: what is asked there tells nothing of the noisy numbers.
        """
        self._words.learn(each for word in (*self.lexicon.words, *shift) for each in spellings(word))
        found: dict[str, float] = {}
        for word in sorted(shift, key=lambda word: (-abs(shift[word]), word)):
            for spelled in spellings(word):
                if len(found) >= most:
                    return found
                if (token := self._words.of(spelled)) is not None:
                    # The server adds it before it divides by the temperature.
                    found[str(token)] = round(shift[word] * self.settings.temperature, 3)
        return found

    @staticmethod
    def _drawn(lift: Mapping[str, float], source: np.random.Generator) -> list[str]:
        """Draw key words for a text, in proportion to how many more texts should have them."""
        words, weights = [*lift], np.array([*lift.values()])
        n = min(int(source.integers(KEY_WORDS[0], KEY_WORDS[1] + 1)), len(words))
        return [words[i] for i in source.choice(len(words), n, replace=False, p=weights / weights.sum())] if n else []


def _about(text: str) -> int:
    """Return about how many tokens a text has, from its bytes."""
    return -(-len(text.encode()) // CHARACTERS)
