"""`dptext compare`: a grid of mechanisms, settings and corpora, as one table in a folder."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from dptext.cli.audit import REFUTED
from dptext.cli.progress import counted, say
from dptext.cli.stopping import advising
from dptext.compare.experiment import read_experiment
from dptext.compare.folder import Folder
from dptext.compare.runner import Options, run_experiment
from dptext.compare.stored import JSON_FILE, PARQUET
from dptext.errors import ConfigError

#: The exit code of a grid in which a cell failed and no guarantee was refuted.
FAILED_CELLS: Final = 5

_MIB_A_GIB: Final = 1024
_MOST_GIB: Final = 2**20


def run(
    experiment: Path,
    out: Path,
    *,
    workers: int,
    memory: float,
    keep_private_samples: bool,
    retry: bool,
    accept_changes: bool,
    as_json: bool,
) -> int:
    """Run what is not finished, write the table, and say where it is.

    Returns:
        0; 1 where an audit refuted a guarantee; else 5 where a cell failed.

    Raises:
        ConfigError: a setting, a corpus or the folder cannot be used.
        DataError: a record of a corpus cannot be read.
        MissingExtraError: a package is not installed.
    """
    if workers < 0 or not 0 <= memory < _MOST_GIB:
        raise ConfigError("Expected --workers and --memory to be 0, which leaves the choice to dptext, or that many.")
    found = read_experiment(experiment)
    options = Options(
        workers=workers,
        memory_mib=int(memory * _MIB_A_GIB),
        private_samples=keep_private_samples,
        failed="retry" if retry else "keep",
        changes="accept" if accept_changes else "refuse",
    )
    command = shlex.join(["dptext", "compare", str(experiment), "--out", str(out)])
    say(f"{found.name}: reading {len(found.corpora)} corpora")
    with advising(lambda: "Finished cells are kept: the same command goes on."), counted(found.name) as tell:
        summary = run_experiment(found, Folder(out), options, command=command, on_progress=tell)
    if as_json:
        print(
            json.dumps(
                {
                    "out": str(out),
                    "total": summary.total,
                    "done": summary.done,
                    "failed": summary.failed,
                    "run_now": summary.run,
                    "refuted": list(summary.refuted),
                },
                indent=2,
            )
        )
    else:
        print(
            f"{summary.done} of {summary.total} cells done, {summary.failed} failed, {summary.run} run now.\n"
            f"Table: {out / PARQUET}, {out / JSON_FILE}\nNext: dptext report {shlex.quote(str(out))}"
        )
        for row in summary.refuted:
            print(f"REFUTED: {row}: an audit found its guarantee to be false.")
    if summary.failed:
        say(f"{summary.failed} cells failed: the column `error` of the table says why. --retry runs them again.")
    if summary.refuted:
        return REFUTED
    return FAILED_CELLS if summary.failed else 0
