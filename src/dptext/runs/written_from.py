"""What the certificate of texts that were written from a summary says of their writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from dptext.types import Json

#: The writers of dptext. Any other is one of a package.
OWN_WRITERS: Final = ("pool", "builtin", "model", "endpoint")
#: The types of members of a certificate that are read here, as JSON has them.
WRITER_TYPES: Final[Mapping[str, type[Any]]] = {"writer": str, "moved_by": str, "biases_taken": int}


def said_of_writer(derived: Mapping[str, Json]) -> str:
    """Return in plain words who wrote, what moved it, what it was sent, what was not checked, and what is assumed.

    Args:
        derived: members of the certificate: `summary`, the sha256 of the summary; `writer` and its settings; `weights`,
            the sha256 of those of its language model, if somebody here read them; `moved_by` and `biases_taken`, how a
            server was moved; `remote`, whether it is elsewhere; `assumptions`.
    """
    return " ".join(_sentences(derived))


def _sentences(derived: Mapping[str, Json]) -> Iterator[str]:
    writer, weights = derived["writer"], str(derived.get("weights", ""))[:12]
    at_server, of_package = writer == "endpoint", writer not in OWN_WRITERS
    model = f" with a language model (sha256 of its weights {weights}...)" if weights else ""
    if of_package and weights:
        model = f" with a language model (sha256 of its weights, as the package says, {weights}...)"
    if at_server:
        model = (
            f" with the model {derived.get('model')!r} of the server at {derived.get('base')} (its weights were not "
            "checked: the server alone named it)"
        )
    yield (
        f"The texts were written by {writer}{model} from the summary with sha256 {str(derived['summary'])[:12]}..., "
        "which has this guarantee; writing reads no private text and costs nothing."
    )
    words = ", names of labels and how many texts each should have"
    if derived.get("steered"):
        words = ", names of labels, how many texts each should have, and noisy words"
    if at_server:
        from dptext.synthesis.asking import MOVED_BY  # noqa: PLC0415 (runs that answer each text load no synthesis)

        if moved := MOVED_BY.get(str(derived.get("moved_by"))):
            most = cast("int", derived.get("biases_taken", 0))
            yield f"What moved the model: {moved}{f', at most {most:,} in a request' if most else ''}."
        if not derived.get("steered"):
            yield "Nothing moved the model: it was not steered."
        yield (
            "Nobody can check what the model was trained on, whether the server looks things up in private texts, and "
            "whether it keeps or passes on what it is asked."
        )
        if derived.get("remote"):
            yield f"Public examples{words} were sent to that server."
    if of_package:
        yield (
            f"{writer} is a writer of a package, whose code was not checked: it got public examples{words}, and may "
            "have sent them elsewhere."
        )
    if assumed := cast("Sequence[str]", derived.get("assumptions", ())):
        yield f"It is assumed that {'; and that '.join(assumed)}."
