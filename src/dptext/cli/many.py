"""The settings of a run of `privatize` over one file or many, and the options of a folder, a glob or a URL."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import BadParameter

from dptext.cli.app import config
from dptext.cli.grouped import computes, leaves, runs
from dptext.errors import ConfigError

if TYPE_CHECKING:  # the code for many files, or for payments, is loaded only when it is needed
    from dptext.batch.engines import DatasetPlan, Workers
    from dptext.cli.options import Form
    from dptext.mechanism import Mechanism
    from dptext.runs.payment import Payment
    from dptext.runs.plan import Plan

_SIZES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(given: object) -> int:
    text = str(given)  # the default is a number
    unit = _SIZES.get(text[-1:].upper(), 0)
    digits = text[:-1] if unit else text
    if not digits.isascii() or not digits.isdigit():
        raise BadParameter("expected bytes, as 500M or 2G.")
    return int(digits) * (unit or 1)


@dataclass(frozen=True, slots=True)
class Who:
    engine: Annotated[str, computes(help="Many files: who reads them, local (processes) or ray.")] = "local"
    workers: Annotated[int, computes(help="Many files: number of workers. 0 stands for one per processor.")] = 0
    memory: Annotated[
        int,
        computes(
            parser=size,
            metavar="BYTES",
            help="Many files: memory to reserve for each worker, such as 2G. 0 reserves none.",
        ),
    ] = 0
    address: Annotated[str | None, computes(help="Address of the cluster of --engine ray, such as auto.")] = None

    def made(self) -> Workers:
        from dptext.batch.engines import Workers

        return Workers(self.engine, self.workers, self.memory, self.address)


@dataclass(frozen=True, slots=True)
class Many(Who):
    part_size: Annotated[
        int, runs(metavar="N", help="Many files: records of a part. 0 takes an eighth of all, 1,000 to 10,000.")
    ] = 0
    keep_shards: Annotated[
        bool,
        leaves("--keep-shards", help="Many files: write a part for each file. Their names and counts leave."),
    ] = False
    json_progress: Annotated[bool, runs("--json-progress", help="Many files: progress as lines of JSON.")] = False

    def plan(self) -> DatasetPlan:
        from dptext.batch.engines import DatasetPlan

        return DatasetPlan(self.part_size, self.keep_shards, self.made())


def is_dataset(source: str) -> bool:
    """Return whether the input is a folder, a glob or a URL, not a single file."""
    return (
        "://" in source
        or Path(source).is_dir()
        or (any(sign in source for sign in "*?[") and not Path(source).exists())
    )


@dataclass(frozen=True, slots=True)
class Run:
    """A run of `privatize`, over one file or many."""

    mechanism: Mechanism[str]
    plan: Plan
    form: Form
    payment: Payment | None
    seed: int | None
    dry_run: bool
    as_json: bool

    def following(self, source: str, target: str, *, judged: bool) -> str:
        """Return a line with the next commands. `judged` says that `dptext utility` reads both as they are."""
        said = f"Next: {shlex.join(['dptext', 'explain', target])}"
        if not judged or not self.mechanism.spec.traits.releases_text:
            return said
        typed = self.form.typed(label_field=self.plan.fields.label, id_field=self.plan.fields.id)
        public = str(config().options.get("public", "PUBLIC"))
        judge = ["dptext", "utility", "fidelity", source, target, "--public", public, *typed]
        return f"{said}; was it worth it: {shlex.join(judge)}"


def refuse_for_a_file(given: Who) -> None:
    if given != type(given)():
        named = ", ".join(f"--{each.name.replace('_', '-')}" for each in fields(given))
        raise ConfigError(f"Expected a folder, a glob or a URL with {named}: a single file is read by one process.")
