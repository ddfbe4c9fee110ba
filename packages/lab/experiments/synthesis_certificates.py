"""Certificates of real runs of `dptext synthesize`, in docs/results/certificates.

    python packages/lab/experiments/synthesis_certificates.py [NAME ...]

Pool and private corpus are those of synthesis_splits.py, drawn as synthesis.py does. The command of each run is kept
beside its certificate, and of its report all but the public texts that show what a topic is, which are passages of the
corpora. The corpora that leave are such passages as well, and are not kept.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from synthesis_splits import SPLITS

KEPT = Path(__file__).parents[3] / "docs/results/certificates"
RUNS = {
    "flights.jsonl": ("ATIS", ("epsilon=1", "about=2000", "encoder=glove", "topics=16"), True),
    "bloggers.jsonl": ("blogs, author", ("epsilon=1", "about=60", "unit=author", "encoder=glove"), True),
    "requests.jsonl": ("SNIPS", ("epsilon=1", "about=4000", "encoder=glove"), False),
    "subjects.json": ("SNIPS", ("epsilon=1", "about=4000", "encoder=glove"), False),
    "newsgroups.jsonl": ("20 Newsgroups", ("epsilon=1", "about=5000", "topics=20", "encoder=glove"), True),
}
WAYS = {"requests.jsonl": "votes", "subjects.json": "topics"}


def main() -> None:
    """Make the runs and keep what holds no text."""
    KEPT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or RUNS:
        of, settings, labelled = RUNS[name]
        split = SPLITS[of]
        pool, private, _ = split.rows(random.Random(20261124))  # noqa: S311 (as synthesis.py)
        given = ["dptext", "synthesize", "private.jsonl", name, "--public", "pool.jsonl"]
        given += ["--mechanism", WAYS.get(name, "prototypes")]
        for setting in settings:
            given += ["--set", setting]
        if labelled:
            given += ["--set", f"labels={json.dumps(list(split.names))}", "--label-field", "label"]
            given += ["--set", f"names={json.dumps(list(split.names.values()))}"]
        if "unit=author" in settings:
            given += ["--author-field", "author"]
        with tempfile.TemporaryDirectory() as folder:
            for file, rows in (("private.jsonl", private), ("pool.jsonl", pool)):
                kept = ({key: row[key] for key in ("text", "label", "author") if key in row} for row in rows)
                Path(folder, file).write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
            subprocess.run([Path(sys.executable).with_name("dptext"), *given[1:]], cwd=folder, check=True)
            report = json.loads(Path(folder, f"{name}.topics.json").read_text("utf-8"))
            for topic in report["topics"]:
                del topic["examples"]
            (KEPT / f"{name}.topics.json").write_text(json.dumps(report) + "\n", "utf-8")
            certificate = Path(folder, f"{name}.guarantee.json").read_text("utf-8")
            (KEPT / f"{name}.guarantee.json").write_text(certificate, "utf-8")
            (KEPT / f"{name}.command").write_text(shlex.join(given) + "\n", "utf-8")
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
