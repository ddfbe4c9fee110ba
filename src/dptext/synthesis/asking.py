"""What a language model is asked: examples and a name, as lines to go on with, or as a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from dptext.synthesis.lengths import Length

#: How a model is asked: by lines that it goes on with, or by a question in its own chat template.
Template: TypeAlias = Literal["lines", "chat"]
TEMPLATES: Final = ("lines", "chat")
#: How noisy numbers move what a server writes: by biases of tokens, by key words in what is asked, by both, or by
#: biases where the server takes them, else key words.
By: TypeAlias = Literal["auto", "bias", "words", "both"]
BYS: Final = get_args(By)
#: What moved a server, in words.
MOVED_BY: Final = {"bias": "biases of tokens", "words": "key words", "both": "key words and biases of tokens"}
_QUOTES: Final = {('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("`", "`")}
#: Examples: the meaning of the label, and the text, each in one line.
Examples: TypeAlias = Sequence[tuple[str, str]]


def lines(examples: Examples, name: str, words: Sequence[str] = (), keys: Sequence[Sequence[str]] = ()) -> str:
    """Return lines `name: text` of examples and the beginning of one more.

    With key `words` a line is `name (word, word): text`. Each example shows its own key words, which are `keys`, so
    that the model sees what they are for.
    """
    own_words = keys if words else [()] * len(examples)
    shown = (f"{_headed(own, some)} {text}\n" for (own, text), some in zip(examples, own_words, strict=True))
    return "".join(shown) + _headed(name, words)


def answer_line(answer: str, name: str = "", *, whole: bool = False) -> str:
    """Return the text in an answer of a chat model: its first line that holds something, or all of them if `whole`.

    Thoughts in <think> tags, a line that announces the text, `name:` before it, and marks around it are left out.
    """
    if "<think>" in answer:
        answer = answer.partition("</think>")[2]
    there = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(there) > 1 and there[0].endswith(":"):
        there = there[1:]
    first = (" ".join(there) if whole else (there or [""])[0]).strip("*").strip()
    if name and first.lower().startswith(f"{name.lower()}:"):
        first = first[len(name) + 1 :].strip("*").strip()
    return first[1:-1].strip() if len(first) > 1 and (first[0], first[-1]) in _QUOTES else first


def completion_line(text: str, prompt: str) -> str:
    """Return the line with which a model went on, of what a server returned: some repeat the prompt, or do not stop."""
    rest = text.removeprefix(prompt).strip()
    return rest.splitlines()[0].strip() if rest else ""


def _headed(name: str, words: Sequence[str]) -> str:
    return f"{name} ({', '.join(words)}):" if words else f"{name}:"


def question(examples: Examples, name: str, words: Sequence[str] = (), length: Length | None = None) -> str:
    """Return a question for one more text of this meaning and length, which uses the key `words` if there are any."""
    shown = "".join(f"{own}: {text}\n" for own, text in examples)
    begin = f"Here are texts, a line each, after what they are about.\n\n{shown}\n" if examples else ""
    using = f" Use the words: {', '.join(words)}." if words else ""
    long = "" if length is None else f" It should have {length}."
    return f"{begin}Write one more text, about: {name}.{using}{long} Answer with the text alone, in one line."
