"""The writer with a server: what is asked, what moves it, its budget, and what is said before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openai")

import dptext as dp
import rome
from dptext.errors import ConfigError, ServerError
from dptext.language.server import KEY
from dptext.runs.writing import prepared
from dptext.synthesis.asking import MOVED_BY
from dptext.synthesis.from_drafts import Counted, Moves, examples_of
from dptext.synthesis.from_endpoint import FromEndpoint
from dptext.synthesis.kept_writing import KeptWriting
from dptext.synthesis.server_drafter import ServerDrafter
from dptext.synthesis.word_targets import WordTargets
from fake_server import FakeServer, serving

SECRET = "sk-secret"
MOVES = Moves({"rome": 2.0, "train": -1.5, "hotel": 0.5}, {"rome": 0.5, "river": 0.1, "loan": 0.05})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv(KEY, SECRET)
    with serving() as found:
        yield found


def settings(fake: FakeServer, **more: Any) -> FromEndpoint:
    return FromEndpoint(**{"base": fake.address, "model": "tiny", "tokens": 9, "temperature": 0.5, **more})


def drafter(fake: FakeServer, **more: Any) -> ServerDrafter:
    found = WordTargets.of(rome.summary().summary, settings(fake, **more)).opened()
    assert isinstance(found, Counted)
    assert isinstance(found.drafter, ServerDrafter)
    return found.drafter


def drafted(writer: ServerDrafter, n: int = 3, moves: Moves = MOVES) -> list[str]:
    return [*writer.draft("trips", [("trips", "Rome by train")], n, moves=moves, seed=1, more=None)]


@pytest.mark.parametrize(("biases", "most", "takes"), [(1_000, 300, 300), (70, 300, 37), (1, 300, 1), (5, 4, 4)])
def test_a_probe_finds_how_many_biases_are_taken(biases: int, most: int, takes: int, fake: FakeServer) -> None:
    fake.biases = biases
    assert drafter(fake, biases=most).found().biases == takes
    assert not any(rome.CANARY in str(body) or "rome" in str(body) for _, _, body in fake.asked)


@pytest.mark.parametrize("fault", ["refuses", "ignores", "tells no tokens"])
def test_key_words_take_the_place_of_biases_where_a_server_takes_none(fault: str, fake: FakeServer) -> None:
    fake.biases = {"refuses": 0, "ignores": -1}.get(fault, 1_000)
    fake.tokenizes = fault != "tells no tokens"
    writer = drafter(fake)
    assert writer.found().biases == 0
    assert len(drafted(writer, 40)) == 40
    prompts = [body["prompt"] for body in fake.completions]
    assert not any("logit_bias" in body for body in fake.completions)
    assert all(prompt.splitlines()[0].startswith("trips (") for prompt in prompts)
    words = [prompt.splitlines()[-1].partition("(")[2].partition(")")[0].split(", ") for prompt in prompts]
    assert {2, 3} == {len(each) for each in words}  # two to four, and three are there
    assert {word for each in words for word in each} == {"rome", "river", "loan"}
    assert np.mean([each[0] == "rome" for each in words]) > 0.5
    assert writer.way == {"moved_by": "words", "biases_taken": 0}
    with pytest.raises(ConfigError, match="set by=words"):
        drafter(fake, by="bias").found()


def test_an_unknown_model_is_said_before_biases_are_tried(fake: FakeServer) -> None:
    fake.faults.extend(["404"] * 2)
    with pytest.raises(ServerError, match="may know no model 'tiny', have no such path"):
        drafter(fake, by="bias").found()


@pytest.mark.parametrize("fault", ["same", "more"])
def test_one_line_is_taken_of_what_a_server_returns(fault: str, fake: FakeServer) -> None:
    writer = drafter(fake)
    fake.faults.extend([fault] * 3)
    texts = drafted(writer)
    assert len(texts) == 3
    assert not any("\n" in text or "travel:" in text or "trips:" in text or "by train" in text for text in texts)


@pytest.mark.parametrize(("fault", "template"), [("empty", "lines"), ("empty", "chat"), ("think", "chat")])
def test_a_server_that_writes_no_text_is_left_soon(fault: str, template: str, fake: FakeServer) -> None:
    writer = drafter(fake, template=template, at_once=1)
    before = len(fake.asked)
    fake.faults.extend([fault] * 900)
    with pytest.raises(ServerError, match="without a text: a model that thinks first needs more tokens"):
        drafted(writer, 400)
    assert len([path for path, _, _ in fake.asked[before:] if path.endswith("completions")]) < 25


def test_a_few_refused_requests_are_left_out_and_many_end_the_writing(fake: FakeServer) -> None:
    writer = drafter(fake, at_once=1)
    writer.found()
    fake.faults.extend(["", "400", "", "400"])
    assert [bool(text) for text in drafted(writer, 6)] == [True, False, True, False, True, True]
    fake.faults.extend(["400"] * 99)
    with pytest.raises(ServerError, match="refused a request"):
        drafted(writer, 60)
    assert len(fake.asked) < 60


def test_key_words_are_corrected_by_what_drafts_have(fake: FakeServer) -> None:
    """The fake server uses no key word that it is asked for, so that they are asked for more often."""
    fake.biases = 0
    found = WordTargets.of(rome.summary().summary, settings(fake, matches=0)).opened()
    once = found.shift(0, 1)[0][1]
    twice = WordTargets.of(rome.summary().summary, settings(fake, matches=1)).opened().shift(0, 1)[0][1]
    assert twice.max() > 1.5 * once.max() > 0.5


def test_long_examples_are_cut(fake: FakeServer) -> None:
    by = WordTargets.of(rome.summary().summary, settings(fake))
    by = replace(by, examples=(("word " * 500, "travel"),))
    ((_, text),) = examples_of(by)
    assert len(text) == 2 * 9 * 4


def test_biases_are_shifts_times_the_temperature_for_both_spellings(fake: FakeServer) -> None:
    drafted(drafter(fake))
    (body, *_), token = fake.completions, fake.token
    assert body["logit_bias"] == {
        str(token(" rome")): 1.0, str(token(" Rome")): 1.0, str(token(" train")): -0.75, str(token(" Train")): -0.75,
        str(token(" hotel")): 0.25, str(token(" Hotel")): 0.25,
    }  # fmt: skip
    assert body["prompt"] == "trips: Rome by train\ntrips:"
    assert (body["max_tokens"], body["temperature"], body["stop"]) == (9, 0.5, ["\n"])


def test_the_largest_shifts_are_taken_first(fake: FakeServer) -> None:
    drafted(drafter(fake, biases=3))
    (body, *_), token = fake.completions, fake.token
    assert {*body["logit_bias"]} == {str(token(each)) for each in (" rome", " Rome", " train")}


def test_a_chat_model_is_asked_a_question(fake: FakeServer) -> None:
    drafted(drafter(fake, template="chat", by="both"))
    (body, *_) = fake.completions
    (message,) = body["messages"]
    assert "trips: Rome by train" in message["content"]
    assert "Use the words: " in message["content"]
    assert body["logit_bias"]
    assert "stop" not in body


def test_without_steering_no_noisy_number_is_sent(fake: FakeServer) -> None:
    made = dp.write(rome.summary(), writer=f"endpoint:{fake.address}#tiny", size=12, steered=False, seed=1)
    assert len(made.releases) == 12
    assert len(fake.asked) == 12
    assert not any("logit_bias" in body or "(" in body["prompt"] for _, _, body in fake.asked)


def test_the_corpus_has_the_words_of_the_noisy_numbers(fake: FakeServer) -> None:
    given = {"writer": f"endpoint:{fake.address}#tiny", "size": 60, "drafts": 24, "seed": 1}
    made = dp.write(rome.summary(), **given)
    assert len(made.releases) == 60
    assert np.mean(["rome" in each.output.casefold() for each in made.releases]) > 0.8
    named, moved, *_ = made.sentences
    assert named.startswith("The server 127.0.0.1 named the model 'tiny': its weights were not checked")
    assert "looks things up in private texts, or what it keeps or passes on" in named
    assert moved == "What moved it: biases of tokens, at most 300 at once."
    derived = made.certificate.derived
    assert (derived["by"], derived["moved_by"], derived["biases_taken"]) == ("auto", "bias", 300)
    assert "What moved the model: biases of tokens, at most 300 in a request." in made.certificate.explain()
    assert (derived["writer"], derived["base"], derived["model"]) == ("endpoint", fake.address[:-3], "tiny")
    assert "weights" not in derived
    assert derived["remote"] is False
    assert SECRET not in made.certificate.to_json()


def test_no_request_holds_private_text(fake: FakeServer) -> None:
    dp.write(rome.summary(), writer=f"endpoint:{fake.address}#tiny", size=30, drafts=8, by="both", seed=1)
    assert len(fake.asked) > 40
    assert not any(rome.CANARY in str(each) for each in fake.asked)


@pytest.mark.parametrize(("budget", "asked"), [({"most_requests": 12}, 9), ({"most_tokens": 8 * 49}, 8)])
def test_a_budget_ends_the_writing(budget: dict[str, int], asked: int, fake: FakeServer) -> None:
    """Two requests for the tokens of the probe, and one for those of the words, count as those for texts do."""
    writer = drafter(fake, at_once=1, **budget)
    with pytest.raises(ServerError, match=r"budget of .* is spent"):
        drafted(writer, 40)
    assert len([path for path, _, _ in fake.asked if path.endswith("completions")]) == asked
    assert len(fake.asked) == writer.requests == asked + 3


def test_a_budget_counts_what_is_sent_again_and_the_parts_of_the_run_before(fake: FakeServer, tmp_path: Path) -> None:
    path, run = tmp_path / "kept.jsonl", {"a": 1}
    writer = drafter(fake, at_once=1, most_requests=20)
    writer.keep(KeptWriting.begin(path, run, 7))
    assert writer.requests == 2 + 2  # the probe, and its tokens
    fake.faults.extend(["", "500", "json", "", "empty"])
    assert [bool(text) for text in drafted(writer, 4)] == [True, True, False, True]
    assert writer.requests == len(fake.asked) == 4 + 1 + 4 + 2  # the tokens of the words, texts, and those sent again
    fake.asked.clear()
    after = drafter(fake, at_once=1, most_requests=20)
    after.keep(KeptWriting.begin(path, run, 7))
    assert after.requests == 11  # nothing is found out anew; the empty answer counts, too
    with pytest.raises(ServerError, match="The budget of 20 requests is spent: set most_requests higher"):
        drafted(after, 40)
    assert after.requests == 20
    assert len(fake.asked) == 9
    assert after.tokens > writer.tokens


def test_a_server_that_says_no_number_of_tokens_has_a_budget_of_bytes(fake: FakeServer) -> None:
    fake.counts = False
    writer = drafter(fake, at_once=1, most_tokens=200)
    with pytest.raises(ServerError, match="The budget of 200 tokens is spent"):
        drafted(writer, 400)
    read = sum(len(body["prompt"].encode()) for path, _, body in fake.asked if path.endswith("completions")) / 4
    assert 0.25 * 200 < read <= writer.tokens <= 2 * 200


@pytest.mark.parametrize("way", [{"by": "bias", "biases": 300, "open": True}, [], {"biases": 3, "more": 1}])
def test_a_damaged_way_is_said_with_its_file(way: Any, fake: FakeServer, tmp_path: Path) -> None:
    kept = KeptWriting.begin(tmp_path / "kept.jsonl", {"a": 1}, 7)
    kept.head["way"] = way
    with pytest.raises(ConfigError, match="found a damaged line: remove the file"):
        drafter(fake).keep(kept)


def test_a_server_that_tells_no_tokens_any_more_is_not_said_to_be_moved(fake: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    writer = drafter(fake)
    writer.keep(KeptWriting.begin(path, {"a": 1}, 7))
    drafted(writer, 2)
    fake.tokenizes = False
    after = drafter(fake)
    after.keep(KeptWriting.begin(path, {"a": 1}, 7))
    with pytest.raises(ServerError, match="tells no word of the summary's public list that is one token"):
        drafted(after, 4)


def test_a_run_that_goes_on_moves_the_server_as_it_did_before(fake: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    writer = drafter(fake)
    writer.keep(KeptWriting.begin(path, {"a": 1}, 7))
    drafted(writer, 2)
    assert writer.way == {"moved_by": "bias", "biases_taken": 300}
    fake.biases = 0  # another server, which takes none, would be asked for key words
    fake.asked.clear()
    after = drafter(fake)
    after.keep(KeptWriting.begin(path, {"a": 1}, 7))
    assert after.way == writer.way
    assert len(drafted(after, 2)) == 2  # what is kept needs no server
    assert fake.asked == []
    fake.biases = 1_000
    drafted(after, 4)
    assert len(fake.completions) == 2
    assert all(body["logit_bias"] and body["top_k"] == 512 for body in fake.completions)


def test_the_tokens_of_the_public_list_are_asked_for_at_once(fake: FakeServer) -> None:
    """What is asked there tells nothing of the noisy numbers: all words of the list, in its order."""
    dp.write(rome.summary(), writer=f"endpoint:{fake.address}#tiny", size=12, drafts=4, seed=1)
    listed = rome.summary().summary.public.lexicon.words
    assert fake.tokenized == [
        "\n", "\n apple", "".join(f"\n {each}\n {each.capitalize()}" for each in listed),
    ]  # fmt: skip


def test_a_failing_server_ends_the_writing_and_no_more_is_asked(fake: FakeServer) -> None:
    writer = drafter(fake, at_once=2)
    fake.faults.extend(["", "", "", "401"] + ["401"] * 99)
    before = len(fake.asked)
    with pytest.raises(ServerError, match="refused the key"):
        drafted(writer, 90)
    assert len(fake.asked) - before < 15


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"base": "http://example.org/v1"}, "--allow-remote"),
        ({"by": "magic"}, "Expected by to be one of auto, bias, words, both"),
        ({"template": "poem"}, "Expected template to be one of lines, chat"),
        ({"at_once": 0}, "at_once=0"),
        ({"biases": 0}, "biases=0"),
        ({"most_requests": -1}, "most_requests=-1"),
        ({"most_tokens": -1}, "most_tokens=-1"),
        ({"base": ""}, "Expected endpoint:BASE_URL#MODEL"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(wrong: dict[str, Any], said: str, fake: FakeServer) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(fake, **wrong)


def test_a_summary_without_words_is_refused_before_anything_is_asked(fake: FakeServer) -> None:
    plain = dp.summarize(
        rome.private()[:50], [each.text for each in dp.sample_records(60)], label="label", labels=("travel", "money"),
        encoder="glove", words=8, about=50, dim=4, seed=1,
    )  # fmt: skip
    given = {"writer": f"endpoint:{fake.address}#tiny"}
    with pytest.raises(ConfigError, match="Expected a summary of words"):
        dp.write(plain, **given)
    with pytest.raises(ConfigError, match="Expected a summary of words"):
        list(prepared(plain, **given).asks())
    assert fake.asked == []


def test_a_server_elsewhere_is_named_in_what_is_said() -> None:
    there = FromEndpoint(base="https://example.org/v1", model="m", allow_remote=True)
    assert there.said()["remote"] is True
    assert (
        "Sent to example.org: public examples, names of labels, how many texts of each are wanted, and noisy words"
        in " ".join(there.notes({}))
    )
    still = " ".join(replace(there, steered=False).notes({}))
    assert "noisy words" not in still
    assert "Nothing moved it: steered=false." in still
    secret = FromEndpoint(base="https://example.org/tenant-key/v1", model="m", allow_remote=True)
    assert secret.said()["base"] == "https://example.org"


def test_what_moved_a_server_can_be_said_in_each_way() -> None:
    there = FromEndpoint(base="http://127.0.0.1/v1", model="m")
    for by, said in MOVED_BY.items():
        taken = 0 if by == "words" else 7
        *_, moved = there.notes({"moved_by": by, "biases_taken": taken})
        assert moved == f"What moved it: {said}{', at most 7 at once' if taken else ''}."


HOW = {"size": 500, "drafts": 20, "mix": {"travel": 0.5}}


def asked_before(fake: FakeServer, price: tuple[float, float] | None = None, **more: Any) -> str:
    said = "\n".join(prepared(rome.summary(), writer=f"endpoint:{fake.address}#tiny", **HOW, **more).asks(price))
    assert fake.asked == []
    assert rome.CANARY not in said
    assert len(said.splitlines()) < 20
    return said


def test_how_much_would_be_asked_is_said_before(fake: FakeServer) -> None:
    said = asked_before(fake, (2.0, 10.0))
    assert "580 requests, 80 of them for drafts, would go to 127.0.0.1 for the model 'tiny', 8 at once" in said
    assert "at most 5,220 written, about 0.12 by the price that was named." in said  # 9 tokens each
    assert "asked for again, in 2 more rounds: at most 1,580 requests." in said
    assert "at most 14,220 written, about 0.33 by the price" in said
    assert "Before, at most 11 public questions find out whether it takes biases, and about 4 requests" in said
    assert "by the price" not in asked_before(fake)
    still = asked_before(fake, steered=False)
    assert "500 requests, 0 of them for drafts" in still
    assert "No noisy number does" in still
    assert "rome" not in still
    assert "/tokenize" not in still


def test_which_words_would_leave_is_said_before(fake: FakeServer) -> None:
    width = len(rome.summary().summary.public.lexicon.words)
    auto = asked_before(fake)
    (line,) = (line for line in auto.splitlines() if line.startswith("travel: "))
    words, _, keys = line.removeprefix("travel: ").partition("; key words ")
    assert words.startswith("rome +2.1, ")
    assert words.endswith(f" -1.4, and at most {width - 5} more")
    assert keys == "rome, and at most 1 more"
    assert "money: " in auto
    assert "- biases, at most 300 in a request" in auto
    assert "(if it takes no biases)" in auto
    by_words = asked_before(fake, by="words")
    assert "travel: rome, and at most 1 more" in by_words
    assert "money: none, as none surpasses the noise" in by_words
    assert "biases" not in by_words
    assert "key words" not in asked_before(fake, by="bias")
    assert "key words rome" in asked_before(fake, by="both")


@pytest.mark.parametrize("by", ["bias", "words"])
def test_no_more_words_leave_than_were_said(by: str, fake: FakeServer) -> None:
    summary = rome.summary().summary
    asked_before(fake, by=by)
    dp.write(rome.summary(), writer=f"endpoint:{fake.address}#tiny", **{**HOW, "size": 60}, by=by, seed=1)
    if by == "words":
        last = [body["prompt"].splitlines()[-1].partition(")")[0] for body in fake.completions]
        sent = {word for line in last if line.startswith("travel (") for word in line[8:].split(", ")}
        assert "rome" in sent
        assert len(sent) <= 2  # rome, and at most 1 more
        return
    spelled = {str(fake.token(f" {each}")) for each in summary.public.lexicon.words}
    spelled |= {str(fake.token(f" {each.capitalize()}")) for each in summary.public.lexicon.words}
    given = [body["logit_bias"] for body in fake.completions if "logit_bias" in body]  # the first drafts have none
    biases = [value for each in given for value in each.values()]
    assert {token for each in given for token in each} <= spelled
    assert min(biases) < 0 < max(biases)


@pytest.mark.parametrize("price", [(float("inf"), 1.0), (1.0, float("nan")), (-1.0, 1.0)])
def test_a_price_is_a_number(price: tuple[float, float], fake: FakeServer) -> None:
    with pytest.raises(ConfigError, match="Expected --price to be two prices"):
        asked_before(fake, price)
