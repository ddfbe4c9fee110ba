"""The fast decoder against a plain loop over the network, and what constrained decoding promises."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from dptext.text.records import Record  # noqa: E402
from dptext_lab.adept.net.decoding import Decoder, Decoding, _product, drawn  # noqa: E402
from dptext_lab.adept.net.network import Architecture, AutoEncoder  # noqa: E402
from dptext_lab.adept.net.training import Schedule, train  # noqa: E402
from dptext_lab.nets.tokens import BEGIN, END, PAD, UNKNOWN, Tokens  # noqa: E402

GREEDY, CONSTRAINED = Decoding(constrained=False), Decoding()
LABELS = ("red", "blue", "green")
WORDS = tuple(f"w{i}" for i in range(12))
TOKENS = {True: Tokens(WORDS, LABELS, 14), False: Tokens(WORDS, (), 14)}
SPECIAL = {PAD, UNKNOWN, BEGIN}


pytestmark = pytest.mark.usefixtures("one_thread")


def network(tokens: Tokens, *, seed: int = 0, scale: float = 3.0, end: float = 0.0) -> AutoEncoder:
    """Random weights; `end` is added to the score of the end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoEncoder(Architecture(len(tokens), tokens.length, 4, 8, 5, 1.0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        model.choose.bias[END] += end
    return model


def latents(n: int, seed: int = 0, dim: int = 4) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(n, dim))
    return found / np.maximum(1, np.linalg.norm(found, axis=1, keepdims=True))


def written(model: AutoEncoder, tokens: Tokens, at: np.ndarray, how: Decoding, *, seed: int = 0, rows: int = 512):
    """The ids of each row."""
    return Decoder(model, tokens)._ids(at, how, seed, rows)


def length_of(row: list[int], tokens: Tokens) -> int:
    """Tokens before the end; a row that never ended is full but for the last position, which is the end's."""
    n = next((i for i, token in enumerate(row) if token in (END, PAD)), len(row))
    assert END in row[n : n + 1] or n >= tokens.length - 1
    assert set(row[n + 1 :]) <= {PAD}  # nothing after the end
    return n


def naive(model: AutoEncoder, tokens: Tokens, latent: np.ndarray, how: Decoding) -> list[int]:
    """One latent, one token a step, the whole prefix through the LSTM of torch again each time."""
    found: list[int] = []
    labels = set(tokens.label_ids())
    read = torch.from_numpy(latent.astype(np.float32))[None]
    for step in range(tokens.length - 1):
        with torch.inference_mode():
            scores = model.logits(read, torch.tensor([[BEGIN, *found]]))[0, -1].tolist()
        allowed = set(range(len(tokens))) - SPECIAL
        if how.constrained:
            if step == 0:
                allowed = labels or allowed - {END}
            else:
                allowed -= labels | ({END} if step == 1 and labels else set())
            seen = {tuple(found[i : i + 3]) for i in range(len(found) - 2)}
            allowed = {token for token in allowed if (*found[-2:], token) not in seen}
        best = max(allowed, key=lambda token: scores[token])
        found.append(best)
        if best == END:
            break
    return found + [PAD] * (tokens.length - 1 - len(found))


# ------------------------------------------------------------------ the same tokens as a plain loop


@pytest.mark.slow_cases(
    *("True-greedy", "False-greedy", "False-constrained"), why="test_all_rows_of_a_fixed_length_at_once is greedy"
)
@pytest.mark.parametrize("how", [GREEDY, CONSTRAINED], ids=["greedy", "constrained"])
@pytest.mark.parametrize("labelled", [True, False])
def test_the_fast_decoder_writes_what_a_plain_loop_writes(how: Decoding, labelled: bool) -> None:
    tokens = TOKENS[labelled]
    rows = []
    for seed in (0, 2, 4, 6):
        model, at = network(tokens, seed=seed, scale=5.0, end=1.5), latents(25, seed)
        found = [row[:-1] for row in written(model, tokens, at, how)]
        assert found == [naive(model, tokens, row, how) for row in at]
        rows += found
    assert len({row.index(END) if END in row else len(row) for row in rows}) > 4  # rows end at several steps
    assert len({tuple(row) for row in rows}) > 20


def test_all_rows_of_a_fixed_length_at_once() -> None:
    """Where no row ever ends, the whole batch can be checked against one teacher-forced run of the network."""
    tokens = TOKENS[True]
    model, at = network(tokens, end=-1e9), latents(300)
    found = torch.tensor(written(model, tokens, at, GREEDY))
    assert found.shape == (300, tokens.length)
    found = found[:, :-1]
    assert not (found == END).any()
    with torch.inference_mode():
        before = torch.cat([torch.full((300, 1), BEGIN), found[:, :-1]], dim=1)
        scores = model.logits(torch.from_numpy(at.astype(np.float32)), before)
    free = [token for token in range(len(tokens)) if token not in SPECIAL]
    assert torch.equal(torch.tensor(free)[scores[:, :, free].argmax(dim=2)], found)


GATES = {"input and forget": (1, 0, 2, 3), "cell and output": (0, 1, 3, 2), "forget and cell": (0, 2, 1, 3)}


@lru_cache
def wanted_of(how: Decoding) -> list[list[int]]:
    """What a plain loop writes at 60 points."""
    model = network(TOKENS[True])
    return [naive(model, TOKENS[True], row, how) for row in latents(60)]


@pytest.mark.slow_cases("greedy", why="the constrained decoder stays, which computes the same gates")
@pytest.mark.parametrize("order", GATES.values(), ids=GATES)
@pytest.mark.parametrize("how", [GREEDY, CONSTRAINED], ids=["greedy", "constrained"])
def test_another_order_of_the_gates_would_be_noticed(order: tuple[int, ...], how: Decoding) -> None:
    """The planted fault: the decoder takes one gate for another."""
    tokens = TOKENS[True]
    model, wrong, at = network(tokens), network(tokens), latents(60)
    with torch.no_grad():
        for parameter in wrong.writer.parameters():
            chunks = parameter.clone().chunk(4, dim=0)
            parameter.copy_(torch.cat([chunks[i] for i in order]))
    wanted = wanted_of(how)
    assert [row[:-1] for row in written(model, tokens, at, how)] == wanted
    differ = sum(a[:-1] != b for a, b in zip(written(wrong, tokens, at, how), wanted, strict=True))
    assert differ > 10


@pytest.mark.parametrize("part", ["bias_ih_l0", "bias_hh_l0", "weight_ih_l0", "weight_hh_l0", "start", "choose"])
def test_every_part_of_the_network_counts(part: str) -> None:
    """The planted fault: a bias or a weight that the fast decoder forgets."""
    tokens = TOKENS[True]
    model, wrong, at = network(tokens), network(tokens), latents(60)
    with torch.no_grad():
        (getattr(wrong, part).bias if part in ("start", "choose") else getattr(wrong.writer, part)).zero_()
    assert written(model, tokens, at, GREEDY) != written(wrong, tokens, at, GREEDY)


@pytest.mark.slow_cases("1", why="blocks of 7 stay")
@pytest.mark.parametrize("rows", [1, 7, 60, 512])
def test_blocks_do_not_change_what_is_written(rows: int) -> None:
    tokens = TOKENS[True]
    model, at = network(tokens, scale=5.0, end=1.5), latents(60)
    decoder = Decoder(model, tokens)
    assert decoder.decode(at, CONSTRAINED, rows=rows) == decoder.decode(at, CONSTRAINED)
    order = np.random.default_rng(0).permutation(60)
    whole = decoder.decode(at, CONSTRAINED)
    assert decoder.decode(at[order], CONSTRAINED, rows=rows) == [whole[i] for i in order]
    assert decoder.decode(at[:0], CONSTRAINED, rows=rows) == []


def test_decode_reads_what_was_written() -> None:
    tokens = TOKENS[True]
    model, at = network(tokens, scale=5.0, end=1.5), latents(60)
    for how in (GREEDY, CONSTRAINED):
        ids = written(model, tokens, at, how)
        assert Decoder(model, tokens).decode(at, how) == [tokens.read(row) for row in ids]
    assert all(label in LABELS for label, _ in Decoder(model, tokens).decode(at, CONSTRAINED))


# ------------------------------------------------------------------ what is promised


@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 3.0, 10.0]),
    end=st.sampled_from([-1e9, -2.0, 0.0, 2.0, 1e9]),
    labelled=st.booleans(),
    temperature=st.sampled_from([0.0, 0.0, 1.0, 5.0]),
)
def test_constrained_decoding(seed: int, scale: float, end: float, labelled: bool, temperature: float) -> None:
    tokens = TOKENS[labelled]
    model = network(tokens, seed=seed, scale=scale, end=end)
    labels = set(tokens.label_ids())
    for row in written(model, tokens, latents(20, seed), Decoding(temperature=temperature), seed=seed):
        assert len(row) == tokens.length
        text = row[: length_of(row, tokens)]
        assert not SPECIAL & set(text)
        if labelled:
            assert text[0] in labels  # a label first ...
            assert not labels & set(text[1:])  # ... and none later
        else:
            assert text  # an empty text says nothing
        trigrams = [tuple(text[i : i + 3]) for i in range(len(text) - 2)]
        assert len(set(trigrams)) == len(trigrams)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), labelled=st.booleans(), temperature=st.sampled_from([0.0, 2.0]))
def test_greedy_decoding_never_writes_special_tokens(seed: int, labelled: bool, temperature: float) -> None:
    tokens = TOKENS[labelled]
    for row in written(
        network(tokens, seed=seed), tokens, latents(20, seed), Decoding(constrained=False, temperature=temperature)
    ):
        assert not SPECIAL & set(row[: length_of(row, tokens)])


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("how", [GREEDY, CONSTRAINED], ids=["greedy", "constrained"])
def test_no_more_than_max_tokens_words_are_written(how: Decoding, labelled: bool) -> None:
    """`max_tokens` is the public bound of what is written too, also where the decoder would never end."""
    tokens = TOKENS[labelled]
    for end in (-1e9, 0.0):
        for _, text in Decoder(network(tokens, end=end), tokens).decode(latents(60), how):
            assert len(text.split()) <= tokens.max_tokens


def test_without_the_constraints_they_do_not_hold() -> None:
    """The planted fault: a greedy decoder repeats itself and forgets the label, so the test above can fail."""
    tokens = TOKENS[True]
    rows = [row for seed in range(5) for row in written(network(tokens, seed=seed), tokens, latents(20), GREEDY)]
    labels = set(tokens.label_ids())
    assert any(row[0] not in labels for row in rows)
    assert any(labels & set(row[1:]) for row in rows)
    assert any(len({tuple(row[i : i + 3]) for i in range(12)}) < 12 for row in rows)


# ------------------------------------------------------------------ drawn tokens, precision


def test_drawn_tokens_repeat_with_their_seed_and_leave_the_global_stream_alone() -> None:
    tokens = TOKENS[True]
    model, at, how = network(tokens), latents(40), Decoding(temperature=1.0)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = written(model, tokens, at, how, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert written(model, tokens, at, how, seed=1) == first
    assert written(model, tokens, at, how, seed=2) != first
    # equal latents are drawn independently, and a low temperature finds the best token
    assert len({tuple(row) for row in written(model, tokens, at[:1].repeat(40, axis=0), how)}) > 5
    assert written(model, tokens, at, Decoding(temperature=1e-6)) == written(model, tokens, at, CONSTRAINED)


@pytest.mark.slow  # tokens that are drawn at a low temperature, and those of any block, stay below and above
def test_drawn_tokens_have_the_probabilities_of_the_network() -> None:
    tokens = TOKENS[True]
    model, n = network(tokens, scale=1.5), 6000
    at = latents(1).repeat(n, axis=0)
    with torch.inference_mode():
        scores = model.logits(torch.from_numpy(at[:1].astype(np.float32)), torch.tensor([[BEGIN]]))[0, 0]
    counts = np.bincount(
        [row[0] for row in written(model, tokens, at, Decoding(constrained=False, temperature=0.5))],
        minlength=len(tokens),
    )

    def distance(temperature: float) -> float:
        chances = torch.softmax(torch.where(torch.arange(len(tokens)) < END, -torch.inf, scores) / temperature, dim=0)
        wanted = chances.double().numpy() * n
        return float((np.square(counts - wanted)[END:] / wanted[END:]).sum())

    assert distance(0.5) < 50  # chi-square of 15 degrees of freedom: p = 1e-5
    assert distance(0.5 * 3 / 2) > 50
    assert distance(0.5 * 2 / 3) > 50


def test_a_token_of_any_block_is_drawn_with_its_probability_and_none_of_probability_zero() -> None:
    n, size = 40_000, 150  # two blocks, and a third that is not full
    chances = torch.rand(size, generator=torch.Generator().manual_seed(0))
    chances[[0, 5, 63, 64, 100, 149]] = 0.0
    chances[128:140] = 0.0
    chances[80] = 40.0
    wanted = (chances / chances.sum()).double().numpy() * n
    found = drawn(chances.expand(n, -1), torch.Generator().manual_seed(1)).numpy()
    counts = np.bincount(found, minlength=size)
    assert (counts[wanted == 0] == 0).all()
    assert float((np.square(counts - wanted)[wanted > 0] / wanted[wanted > 0]).sum()) < 220  # 131 degrees: p = 1e-6


@pytest.mark.parametrize("n", [1, 37, 512])
def test_a_product_is_that_of_torch(n: int) -> None:
    source = torch.Generator().manual_seed(0)
    rows, weight = (torch.randn((size, 24), generator=source) for size in (n, 90))
    assert torch.allclose(_product(rows, weight), rows @ weight.T, atol=1e-5)


def test_bfloat16_changes_few_tokens() -> None:
    """On a trained network, whose best token is usually far ahead; cut at the first other token of a row."""
    tokens = Tokens(WORDS, LABELS, 6)
    rng = np.random.default_rng(0)
    records = [Record(str(i), " ".join(rng.choice(WORDS, 4)), label=LABELS[i % 3]) for i in range(60)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoEncoder(Architecture(len(tokens), tokens.length, 4, 16, 8, 1.0))
        targets = tokens.sequences(records)
        train(model, tokens.inputs(targets), targets, schedule=Schedule(epochs=20, learning_rate=2e-2), seed=0)
    at = latents(300)

    def ids(dtype: torch.dtype) -> np.ndarray:
        return np.array(Decoder(model, tokens, dtype=dtype)._ids(at, GREEDY, 0, 512))

    exact, rough = ids(torch.float32), ids(torch.bfloat16)

    def kept(other: np.ndarray) -> float:
        return float(np.cumprod(exact == other, axis=1).mean())

    assert 0.9 < kept(rough) < 1  # few, but it is bfloat16 that was used
    with torch.no_grad():
        model.choose.weight.copy_(torch.round(model.choose.weight))
    assert kept(ids(torch.float32)) < 0.9  # a much rougher rounding would be noticed
