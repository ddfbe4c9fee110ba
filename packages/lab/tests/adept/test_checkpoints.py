"""A saved network comes back bit by bit; what is cut short, edited or something else is refused with a clear error."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors.torch import load_file, save_file  # noqa: E402

from dptext.errors import ConfigError  # noqa: E402
from dptext.mechanisms.candidates.rankers import load_ranker  # noqa: E402
from dptext.runs import specs  # noqa: E402
from dptext.runs.models import load_model, save_model  # noqa: E402
from dptext.sampling.envelope import EnvelopeResponse, top_k_envelope  # noqa: E402
from dptext.sampling.randomness import seeded  # noqa: E402
from dptext.text.records import Record  # noqa: E402
from dptext.text.samples import sample_records  # noqa: E402
from dptext_lab.adept.net import Decoding, load_autoencoder, load_fitted  # noqa: E402
from dptext_lab.adept.net.model import FORMAT, VERSION, AnnotatedModel, checksum  # noqa: E402
from dptext_lab.adept.net.model import PUBLIC as ON_PUBLIC  # noqa: E402
from dptext_lab.adept.published import PublishedAdept  # noqa: E402
from dptext_lab.adept.sound import Adept, AdeptCodebook  # noqa: E402

RECORDS = sample_records(80)
CANARY = "zq9canary"
#: Public text: none of it belongs into an error either.
PUBLIC = [replace(record, text=f"{record.text} {CANARY}") for record in RECORDS]
PRIVATE = [*RECORDS[:40], Record("e", ""), Record("u", "zebra " * 30, label="zebra")]
SMALL = replace(Adept.tiny()[0], max_tokens=16, epochs=3, learning_rate=2e-2)
SPECS = (SMALL, replace(SMALL, noise="privunit"), PublishedAdept.tiny()[0])
WEIGHTS, SIZES, BOOK, POINTS = "weights.safetensors", "autoencoder.json", "codebook.json", "codebook.npy"


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fitted():
    return [spec.fit(public=PUBLIC, seed=0) for spec in SPECS]


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    fitted[0].save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved codebook mechanism, to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_a_saved_network_is_for_its_owner_and_replaces_nothing(fitted, tmp_path: Path) -> None:
    """`save` alone, without `save_model`, which would mend the modes."""
    mask = os.umask(0)
    try:
        for number, mechanism in enumerate(fitted):
            folder = tmp_path / str(number)
            folder.mkdir()
            mechanism.save(folder)
            assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
            for path in folder.iterdir():
                path.write_bytes(b"somebody's")
                path.chmod(0o666)
            with pytest.raises(ConfigError, match="File exists"):
                mechanism.save(folder)
            assert {path.read_bytes() for path in folder.iterdir()} == {b"somebody's"}
    finally:
        os.umask(mask)


def outputs(mechanism) -> list[tuple[str, str | None, str]]:
    return [(r.id, r.label, r.output) for r in mechanism.privatize(PRIVATE, seeded(3))]


def refused(folder: Path, spec=SMALL, *, match: str, load: Callable[[Path], object] | None = None) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        (load or spec.load)(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert not {CANARY, "doctor", "aspirin", "zebra"} & set(message.replace("'", " ").split())
    assert message.endswith(".")


def seal(folder: Path) -> None:
    """Write the checksum that fits the files, as somebody who means an edit would."""
    described = json.loads((folder / SIZES).read_bytes())
    described.pop("checksum", None)
    described["checksum"] = checksum(described, (folder / WEIGHTS).read_bytes())
    (folder / SIZES).write_text(json.dumps(described), "utf-8")


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}), "utf-8")
    if path.name == SIZES:
        seal(path.parent)


def edit_weights(folder: Path, state: dict) -> None:
    save_file(state, folder / WEIGHTS)
    seal(folder)


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize("i", range(3))
def test_a_saved_mechanism_comes_back_bit_by_bit(fitted, i: int, tmp_path: Path) -> None:
    mechanism = fitted[i]
    mechanism.save(tmp_path)
    loaded = type(mechanism.spec).load(mechanism.spec, tmp_path)
    assert (type(loaded), loaded.spec, dict(loaded.digests)) == (type(mechanism), mechanism.spec, mechanism.digests)
    before, after = (m.model.model.state_dict() for m in (mechanism, loaded))
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) and after[name].dtype == before[name].dtype for name in before)
    assert loaded.model.tokens == mechanism.model.tokens
    assert outputs(loaded) == outputs(mechanism)
    assert (loaded.reconstruction_losses(PRIVATE) == mechanism.reconstruction_losses(PRIVATE)).all()
    if isinstance(mechanism, AdeptCodebook):
        assert (loaded.choice.least == mechanism.choice.least).all()
        assert (loaded.choice.total, loaded.codebook.texts, loaded.codebook.labels) == (
            mechanism.choice.total,
            mechanism.codebook.texts,
            mechanism.codebook.labels,
        )
        assert loaded.codebook.points.tobytes() == mechanism.codebook.points.tobytes()
        assert loaded.codebook.sources == mechanism.codebook.sources
        assert loaded.output_distribution(RECORDS[0]) == mechanism.output_distribution(RECORDS[0])
    else:
        assert loaded.latent(PRIVATE).tobytes() == mechanism.latent(PRIVATE).tobytes()
        # and what is loaded can be saved again
        again = tmp_path / "again"
        again.mkdir()
        loaded.save(again)
        assert all((again / name).read_bytes() == (tmp_path / name).read_bytes() for name in (WEIGHTS, SIZES))


def test_the_files_are_safetensors_json_and_plain_numbers(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == sorted([WEIGHTS, SIZES, BOOK, POINTS])
    described = json.loads((saved / SIZES).read_bytes())
    assert (described["format"], described["version"]) == (FORMAT, VERSION)
    assert set(described) == {"format", "version", "trained_on", "training", "sizes", "tokens", "distilled", "checksum"}
    assert all(value.dtype == torch.float32 for value in load_file(saved / WEIGHTS).values())
    assert np.load(saved / POINTS, allow_pickle=False).dtype == np.float64


def test_digests_tell_models_apart(fitted) -> None:
    other = SMALL.fit(public=PUBLIC, seed=1)
    assert set(other.digests) == {"model", "training text", "codebook"}
    assert {n for n in other.digests if other.digests[n] != fitted[0].digests[n]} == {"model", "codebook"}
    assert all(len(digest) == 64 for digest in other.digests.values())
    assert set(fitted[1].digests) == {"model", "training text"}
    less = SMALL.fit(public=PUBLIC[1:], seed=0).digests
    assert all(less[name] != fitted[0].digests[name] for name in less)
    # one word, one weight or the choice alone changes them
    model = fitted[0].model
    words = replace(model.tokens, words=("zebra", *model.tokens.words[1:]))
    assert AnnotatedModel(model.model, words, model.reader).digest != model.digest
    equal = EnvelopeResponse.of(
        top_k_envelope(1, len(fitted[0].codebook), epsilon=SMALL.epsilon), epsilon=SMALL.epsilon
    )
    other = AdeptCodebook(SMALL, model, fitted[0].codebook, equal)
    assert (other.digests["model"], other.digests["codebook"] == fitted[0].digests["codebook"]) == (model.digest, False)


@pytest.mark.parametrize("kind", ["adept", "published_adept"])
def test_the_mechanisms_are_known_to_the_configuration(kind: str) -> None:
    assert kind in specs.MECHANISMS


@pytest.mark.parametrize("i", range(3))
def test_models_go_through_save_model_and_load_model(fitted, i: int, tmp_path: Path) -> None:
    save_model(fitted[i], tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.spec, dict(loaded.digests)) == (fitted[i].spec, fitted[i].digests)
    assert outputs(loaded) == outputs(fitted[i])


@pytest.mark.parametrize("name", [WEIGHTS, SIZES, BOOK, POINTS])
def test_load_model_refuses_every_changed_file(fitted, name: str, tmp_path: Path) -> None:
    save_model(fitted[0], tmp_path / "model")
    path = tmp_path / "model" / name
    good = path.read_bytes()
    for broken in (good[:-1], bytes([*good[:-30], good[-30] ^ 1, *good[-29:]])):
        path.write_bytes(broken)
        refused(tmp_path / "model", match=name, load=load_model)
    path.unlink()
    refused(tmp_path / "model", match=name, load=load_model)


def test_odd_public_text_is_saved(tmp_path: Path) -> None:
    odd = [Record(str(i), "Send \ufffe to \U0001f600 Maria please", label="money") for i in range(10)]
    for spec in (replace(SMALL, noise="privunit"), SPECS[2]):
        mechanism = spec.fit(public=odd, seed=0)
        path = tmp_path / spec.kind
        path.mkdir()
        mechanism.save(path)
        assert spec.load(path).digests == mechanism.digests


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 60, 400, -2000, -1])
def test_weights_that_were_cut_short_are_refused(folder: Path, cut: int) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:cut])
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    seal(folder)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


def test_weights_are_never_unpickled(folder: Path) -> None:
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (folder / "exploded",))

    archive = io.BytesIO()
    torch.save({"choose.bias": torch.zeros(3)}, archive)
    for content in (pickle.dumps(Bomb()), archive.getvalue(), b"PK\x03\x04", b"\x93NUMPY", b"{}"):
        (folder / WEIGHTS).write_bytes(content)
        seal(folder)
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    (folder / WEIGHTS).write_bytes(b"")
    for content in (pickle.dumps(Bomb()), archive.getvalue(), b"PK\x03\x04garbage"):
        (folder / POINTS).write_bytes(content)
        with pytest.raises(ConfigError):
            SMALL.load(folder)
    assert not (folder / "exploded").exists()


def test_absent_weights_are_refused(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    refused(folder, match="Cannot read the weights")
    (folder / WEIGHTS).mkdir()
    refused(folder, match="Cannot read the weights")


CHANGES: dict[str, Callable[[dict], dict]] = {
    "a shape": lambda state: {**state, "choose.bias": state["choose.bias"][:-1]},
    "one more row": lambda state: {**state, "start.weight": torch.zeros(len(state["start.weight"]) + 1, 4)},
    "one missing": lambda state: {name: value for name, value in state.items() if name != "start.bias"},
    "one more": lambda state: {**state, "more": torch.zeros(2)},
    "another name": lambda state: {("begin.bias" if name == "start.bias" else name): v for name, v in state.items()},
    "none": lambda state: {},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_of_other_shapes_or_names_are_refused(folder: Path, change: Callable[[dict], dict]) -> None:
    edit_weights(folder, change(load_file(folder / WEIGHTS)))
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["choose.bias", "read_embedding.weight"])
def test_weights_that_are_no_numbers_are_refused(folder: Path, name: str, value: float) -> None:
    state = load_file(folder / WEIGHTS)
    state[name].view(-1)[-1] = value
    edit_weights(folder, state)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.int64])
def test_weights_of_another_type_are_refused(folder: Path, dtype: torch.dtype) -> None:
    state = load_file(folder / WEIGHTS)
    edit_weights(folder, {**state, "choose.bias": state["choose.bias"].to(dtype)})
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


# ------------------------------------------------------------------ the checksum


def test_other_weights_of_the_same_shapes_are_refused(folder: Path) -> None:
    """Finite and of the right names, so that nothing else tells them from those that were saved."""
    save_file({name: value + 0.5 for name, value in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    refused(
        folder,
        match="cut short or edited, or is of other settings. Fit and save",
        load=lambda path: load_autoencoder(path, device="cpu"),
    )
    seal(folder)  # a checksum, no signature
    SMALL.load(folder)


def test_a_privately_trained_model_is_not_made_public_by_one_word(tmp_path: Path) -> None:
    SPECS[2].fit(private=PUBLIC, seed=0).save(tmp_path)
    described = json.loads((tmp_path / SIZES).read_bytes())
    assert described["training"] != ON_PUBLIC
    texts = [record.text for record in RECORDS[:4]]
    readers = (
        lambda path: load_autoencoder(path, device="cpu"),
        lambda path: load_ranker("adept", texts, path, max_sentences=1, device="cpu", centred=True),
        lambda path: load_fitted(SPECS[2].model_settings, path),
    )
    for load in readers:
        refused(tmp_path, match="trained in another way", load=load)
    (tmp_path / SIZES).write_text(json.dumps({**described, "training": ON_PUBLIC}), "utf-8")
    for load in readers:
        refused(tmp_path, match="cut short or edited, or is of other settings. Fit and save", load=load)


@pytest.mark.parametrize("checksum", [None, "", 3, "0" * 64, ["0" * 64]], ids=str)
def test_a_checksum_that_is_absent_or_another_is_refused(folder: Path, checksum: object) -> None:
    described = json.loads((folder / SIZES).read_bytes())
    del described["checksum"]
    described |= {} if checksum is None else {"checksum": checksum}
    (folder / SIZES).write_text(json.dumps(described), "utf-8")
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


def test_the_layout_of_the_json_is_free(folder: Path) -> None:
    described = json.loads((folder / SIZES).read_bytes())
    (folder / SIZES).write_text(json.dumps(dict(reversed(described.items())), indent=2), "utf-8")
    SMALL.load(folder)


# ------------------------------------------------------------------ sizes and vocabulary


@pytest.mark.parametrize("cut", [0, 1, 20, 100, -40, -1])
def test_sizes_that_were_cut_short_are_refused(folder: Path, cut: int) -> None:
    path = folder / SIZES
    path.write_bytes(path.read_bytes()[:cut])
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("content", [b"[]", b"3", b"null", b'"x"', b"{}", b'{"format": "x"}', b"[" * 100])
def test_what_is_not_a_model_is_refused(folder: Path, content: bytes) -> None:
    (folder / SIZES).write_bytes(content)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


def test_files_that_are_no_text_or_deeply_nested_are_refused(folder: Path) -> None:
    for content in (b"\xff\xfe", pickle.dumps({"format": FORMAT}), b"[" * 100_000):
        (folder / SIZES).write_bytes(content)
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    (folder / SIZES).unlink()
    refused(folder, match="Cannot read the auto-encoder .*No such file")


@pytest.mark.parametrize("version", [0, 1, 3, "2", None, 1.5])
def test_another_version_is_refused(folder: Path, version: object) -> None:
    edit(folder / SIZES, version=version)
    refused(folder, match=f"Expected version 2 of .*, found {version!r}")


@pytest.mark.parametrize(
    "tokens",
    [
        None,
        [],
        "words",
        {},
        {"words": None},
        {"words": 3},
        {"words": [1, 2]},
        {"words": [["a"]]},
        {"words": "abc", "labels": list(SMALL.labels), "max_tokens": 16},
        {"words": {"a": 1}, "labels": list(SMALL.labels), "max_tokens": 16},
    ],
)
def test_a_vocabulary_that_is_none_is_refused(folder: Path, tokens: object) -> None:
    edit(folder / SIZES, tokens=tokens)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


def test_a_word_more_or_less_is_refused(folder: Path) -> None:
    tokens = json.loads((folder / SIZES).read_bytes())["tokens"]
    for words in (tokens["words"][:-1], [*tokens["words"], "more"], []):
        edit(folder / SIZES, tokens={**tokens, "words": words})
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("sizes", [None, [], {}, {"hidden": 16}])
def test_sizes_that_are_none_are_refused(folder: Path, sizes: object) -> None:
    edit(folder / SIZES, sizes=sizes)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": 17},
        {"embedding": 9},
        {"latent_dim": 5},
        {"max_tokens": 15},
        {"clip_norm": 2.0},
        {"labels": ("health", "travel", "money")},
        {"labels": ("health", "travel", "money", "fun")},
        {"labels": ("travel", "health", "money", "leisure")},
        {"labels": ()},
    ],
    ids=str,
)
def test_other_settings_are_refused(folder: Path, changes: dict[str, object]) -> None:
    refused(folder, replace(SMALL, **changes), match="cut short or edited, or is of other settings. Fit and save")


def test_a_published_model_is_no_sound_one(fitted, tmp_path: Path) -> None:
    """A network that knows private text cannot be had as `Adept` by loading it under another spec."""
    fitted[2].save(tmp_path)
    twin = replace(SMALL, noise="privunit", latent_dim=16, hidden=8, embedding=8, max_tokens=8)
    refused(tmp_path, twin, match="cut short or edited, or is of other settings. Fit and save")
    loaded = load_fitted(SPECS[2].model_settings, tmp_path)
    assert loaded.write(np.zeros((1, 16)), Decoding())


# ------------------------------------------------------------------ the codebook's files


@pytest.mark.parametrize("cut", [0, 1, 30, -20, -1])
@pytest.mark.parametrize("name", [BOOK, POINTS])
def test_a_codebook_that_was_cut_short_is_refused(folder: Path, name: str, cut: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:cut])
    refused(folder, match="the codebook in .*cut short")


@pytest.mark.parametrize("name", [BOOK, POINTS])
def test_an_absent_part_of_the_codebook_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, match="Cannot read the codebook in .*: No such file")


def test_a_network_without_codebook_is_refused(fitted, tmp_path: Path) -> None:
    fitted[1].save(tmp_path)
    refused(tmp_path, match="Cannot read the codebook")


@pytest.mark.parametrize(
    "changes",
    [
        {"texts": None},
        {"texts": []},
        {"texts": "x"},
        {"labels": ["money"]},
        {"labels": None},
        {"labels": [["money"]]},
        {"sources": []},
        {"sources": 3},
    ],
    ids=str,
)
def test_a_codebook_of_other_parts_is_refused(folder: Path, changes: dict[str, object]) -> None:
    edit(folder / BOOK, **changes)
    refused(folder, match="the codebook in .*cut short")


@pytest.mark.parametrize(
    "changes",
    [
        *({"least": value} for value in ([], [1], "1", None)),
        *({"total": value} for value in (0, -1, 1.5, "1", None, 10**30)),
    ],
    ids=str,
)
def test_a_codebook_with_another_choice_is_refused(folder: Path, changes: dict[str, object]) -> None:
    edit(folder / BOOK, **changes)
    with pytest.raises(ConfigError, match=r"Expected (least weights as whole numbers|total=.* between the sums)"):
        SMALL.load(folder)


@pytest.mark.parametrize("more", [-1, 1])
def test_a_choice_among_fewer_or_more_than_the_codebook_has_is_refused(folder: Path, more: int) -> None:
    n = len(json.loads((folder / BOOK).read_bytes())["texts"]) + more
    edit(folder / BOOK, least=[1] * n, total=n)  # sound by itself
    with pytest.raises(ConfigError, match=r"the codebook in .*cut short"):
        SMALL.load(folder)


def test_texts_and_labels_of_the_codebook_are_of_their_kind(folder: Path) -> None:
    book = json.loads((folder / BOOK).read_bytes())
    n = len(book["texts"])
    for changes in ({"texts": [1] * n}, {"labels": ["zebra"] * n}, {"labels": [1] * n}):
        edit(folder / BOOK, **{**book, **changes})
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    for content in (b"[]", b"3", b"null", b"\xff", b"[" * 100_000):
        (folder / BOOK).write_bytes(content)
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")


def test_points_of_another_shape_or_kind_are_refused(folder: Path) -> None:
    points = np.load(folder / POINTS)
    broken = points.copy()
    broken[0, 0] = np.nan
    for wrong in (points[:-1], points[:, 0], points[:, :, None], points.astype(np.float32), points > 0, broken):
        np.save(folder / POINTS, wrong)
        refused(folder, match="cut short or edited, or is of other settings. Fit and save")
    np.save(folder / POINTS, np.array([{}] * len(points), object), allow_pickle=True)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("width", [3, 5])
def test_points_that_no_text_can_be_ranked_against_are_refused(folder: Path, width: int) -> None:
    """Found when the model is loaded, not when the first private text comes."""
    n = len(np.load(folder / POINTS))
    np.save(folder / POINTS, np.full((n, width), width**-0.5))
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")


@pytest.mark.parametrize("content", [b"PK\x03\x04garbage", b"PK\x05\x06" + bytes(18)])
def test_points_that_look_like_an_archive_are_refused(folder: Path, content: bytes) -> None:
    (folder / POINTS).write_bytes(content)
    refused(folder, match="cut short or edited, or is of other settings. Fit and save")
