"""The process that writes holds no private text: neither in its files nor anywhere in its memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tiny_language
from commands import dptext

pytest.importorskip("numba")
pytestmark = [
    pytest.mark.slow,  # reads the whole memory of two processes; test_fresh_writer has the same process write
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

CANARY = "zq" + "canary"
SCRIPT = """
import json, os, sys
from pathlib import Path
import dptext as dp
from dptext.synthesis import desks

canary = ("zq" + "canary").encode()  # whole nowhere but in the private file
private = Path("private.jsonl")

def memory(pid):
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            place, rights, *_, name = line.split(maxsplit=5) if len(line.split()) > 5 else [*line.split(), ""]
            if "r" not in rights or name.strip() in {"[vvar]", "[vsyscall]", "[vvar_vclock]"}:
                continue
            start, end = (int(each, 16) for each in place.split("-"))
            try:
                mem.seek(start)
                found += mem.read(end - start).count(canary)
            except OSError:
                continue
    return found

def files(pid):
    there = [os.readlink(f"/proc/{pid}/fd/{each}") for each in os.listdir(f"/proc/{pid}/fd")]
    return there + Path(f"/proc/{pid}/maps").read_text().splitlines()

texts = desks.Desks.texts

def looked(self, *given):
    written = list(texts(self, *given))
    pid = self._pool.submit(os.getpid).result()
    own = memory(os.getpid())
    seen = {"writer": memory(pid), "reader": own, "files": [f for f in files(pid) if private.name in f]}
    Path("seen.json").write_text(json.dumps(seen))
    return iter(written)

desks.Desks.texts = looked
kept = private.read_text()  # so that this process is sure to hold the text
dp.synthesize(
    private, dp.sample_records(30, seed=3), kind="steering", label="label", labels=["travel", "money"],
    model=sys.argv[1], about=60, tokens=8, size=40, options=40, examples=0, marks=3, vocabulary=30, drafts=4,
    matches=1, encoder="glove",
)
assert kept
"""


def test_neither_files_nor_memory_of_the_writer_hold_private_text(tmp_path: Path) -> None:
    private = [{"text": f"my loan {CANARY}{i} is late", "label": "money"} for i in range(60)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in private), "utf-8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    done = dptext(tiny_language.saved(tmp_path / "model", tiny_language.weights()), script=script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert seen["reader"] >= 60, "the search finds nothing where the texts are"
    assert (seen["writer"], seen["files"]) == (0, [])
