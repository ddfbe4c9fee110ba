"""The writer `endpoint:BASE_URL#MODEL`: a language model behind a server that speaks the protocol of OpenAI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from dptext.language.server import Server
from dptext.synthesis.asking import MOVED_BY
from dptext.synthesis.from_drafts import CHARACTERS, examples_of, given_away
from dptext.synthesis.from_model import ROUNDS, require_price
from dptext.synthesis.sent_words import SentWords
from dptext.synthesis.server_drafter import KEY_WORDS, ServerDrafter, probes, prompt_of
from dptext.synthesis.server_settings import ServerSettings
from dptext.synthesis.summary import Summary
from dptext.synthesis.word_targets import WordTargets
from dptext.synthesis.word_tokens import token_requests
from dptext.types import Json

_LABELS: Final = 10  # that are listed before anything is asked
#: What is assumed of a server.
SERVER_IS_PUBLIC: Final = (
    "the server's model was trained on none of the private texts, and the server looks nothing up in them (nobody can "
    "check this from outside)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromEndpoint(ServerSettings):
    """Settings of the writer `endpoint:BASE_URL#MODEL`: those of `ServerSettings`."""

    def notes(self, way: Mapping[str, Json]) -> Iterator[str]:
        """Yield sentences on what was not checked of a server, and on how it was moved."""
        yield (
            f"The server {self.address.host} named the model {self.model!r}: its weights were not checked, nor what it "
            "trained on, whether it looks things up in private texts, or what it keeps or passes on."
        )
        if not self.steered:
            yield "Nothing moved it: steered=false."
        if way:
            biases = f", at most {way['biases_taken']:,} at once" if way["biases_taken"] else ""
            yield f"What moved it: {MOVED_BY[str(way['moved_by'])]}{biases}."
        if not self.address.is_here:
            yield f"Sent to {self.address.host}: {given_away(steered=self.steered)}."

    def said(self) -> dict[str, Json]:
        """Return the settings as the certificate has them, whether the server is elsewhere, and what is assumed of it.

        The path of the address is left out, as some hold secrets.
        """
        more = {"base": self.address.origin, "remote": not self.address.is_here, "assumptions": [SERVER_IS_PUBLIC]}
        return {**asdict(self), **more}

    def asks(self, summary: Summary, price: tuple[float, float] | None) -> Iterator[str]:
        """Yield sentences on what would be asked of whom. `price` is that of a million tokens read, and written."""
        require_price(price)
        self.require_words(summary)
        by, wanted = self.planned(summary)
        entries = np.flatnonzero(wanted).tolist()
        labels = by.moved_by(entries)
        drafts, shown = self.drafted(len(labels)), [examples_of(by, place) for place in range(len(by.bins))]
        yield from self._numbers(by, entries, drafts, shown, price)
        sent = f"What goes there: {max(map(len, shown))} public examples and the name of a label in each request"
        of = "label and length" if len(by.bins) > 1 else "label"
        if not self.steered:
            yield f"{sent}. No noisy number does, but for how many texts each {of} has."
            return
        yield f"{sent}, and of the noisy numbers:"
        yield f"- how many texts each {of} has, as so many are asked for."
        least, most = KEY_WORDS
        keys = f"{least} to {most} key words in a request, if there are so many whose numbers surpass the noise"
        if self.by != "words":
            yield (
                f"- biases, at most {self.biases:,} in a request: tokens of words, each with how much likelier it "
                "should be (negative: rarer), words below the noise too."
            )
        if self.by != "bias":
            yield f"- {keys}{' (if it takes no biases)' if self.by == 'auto' else ''}."
        yield "Strongest first, by public rates (drafts decide what is sent):"
        for label in labels[:_LABELS]:
            yield SentWords.of(by, label, self.drafts).told(
                self.temperature, biases=self.by != "words", keys=self.by != "bias"
            )
        if (more := len(labels) - _LABELS) > 0:
            yield f"And {more:,} more labels, each with at most {len(by.lexicon):,} words."

    def _numbers(
        self,
        by: WordTargets,
        entries: list[int],
        drafts: int,
        shown: list[list[tuple[str, str]]],
        price: tuple[float, float] | None,
    ) -> Iterator[str]:
        """Yield sentences on the numbers of requests and tokens, and on what they cost."""
        words = () if self.by == "bias" or not self.steered else by.lexicon.words[: KEY_WORDS[1]]
        # By label and length, in bytes, as letters of most other scripts have several of both bytes and tokens.
        bins = by.bins.lengths if len(by.bins) > 1 else [None]
        asked_each = [
            [prompt_of(self, by.lexicon, each, by.names[entry], words, bins[i]) for i, each in enumerate(shown)]
            for entry in entries
        ]
        long = [[len(prompt.encode()) for prompt in own] for own in asked_each]
        read = float((by.lengths[entries] * long).sum()) / len(entries) / CHARACTERS
        tokens = [self.most_tokens_of(each) for each in by.bins.lengths]
        written = float((by.lengths[entries] * tokens).sum()) / len(entries)

        def used(requests: int) -> str:
            cost = (requests * (read * price[0] + written * price[1])) / 1e6 if price else 0.0
            paid = f", about {cost:,.2f} by the price that was named" if price else ""
            tokens_read, most = requests * read, requests * written
            return f"About {tokens_read:,.0f} tokens would be read, and at most {most:,.0f} written{paid}"

        asked, all_rounds = self.size + drafts, ROUNDS * self.size + drafts
        yield (
            f"{asked:,} requests, {drafts:,} of them for drafts, would go to {self.address.host} for the model "
            f"{self.model!r}, {self.at_once} at once. {used(asked)}."
        )
        yield (
            f"Texts that are repeats or not readable are asked for again, in {ROUNDS - 1} more rounds: at most "
            f"{all_rounds:,} requests. {used(all_rounds)}. What fails is sent again: set most_requests and "
            "most_tokens as budgets."
        )
        if self.steered and self.by != "words":
            yield (
                f"Before, at most {probes(self.biases)} public questions find out whether it takes biases, and about "
                f"{token_requests(len(by.lexicon))} requests to /tokenize which tokens the words of the summary's "
                "public list are."
            )

    def drafter(self, by: WordTargets) -> ServerDrafter:
        """Ask the server what it takes. ServerError: it fails, or refuses."""
        return ServerDrafter(self, Server(self.address), by.lexicon)
