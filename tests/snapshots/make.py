"""Write the snapshots: `python tests/snapshots/make.py [PART ...] [--again]`, all parts by default.

A part that is there stays as it is and ends the command with an error, unless --again says that it is to be replaced.
Guarantees are replaced by nobody, only added to. Certificates, models, runs, folders, ledgers and summaries are in the
formats of 0.2.0, which every later version reads: they stay, and those of a new format come beside them.
Prose and outputs may be made again whenever they are changed on purpose.
Guarantees, prose, outputs and names come out the same, byte by byte, from the same code on the same machine: made
again, `git diff` shows the last bit that has changed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import snapshot_cases as cases
import summary_cases
from snapshot_cases import HERE, LABELS, PUBLIC, ROWS, RUNS, SPECS, TABLE, Run, subject_key

import dptext as dp
from dptext.batch.engines import DatasetPlan
from dptext.batch.runs import privatize_dataset
from dptext.ledger.entries import Request
from dptext.privacy.guarantee import Trust
from dptext.runs.certificate import certificate_path
from dptext.runs.specs import spec_from_settings
from dptext.runs.summarizing import read_summary
from dptext.text.records import Fields


def _by_kind(made: Callable[[str], list[object]]) -> str:
    """A list for each kind as JSON, an item a line."""
    kinds = {kind: ",\n".join(json.dumps(each, ensure_ascii=False) for each in made(kind)) for kind in SPECS}
    return "{\n" + ",\n".join(f'"{kind}": [\n{items}\n]' for kind, items in kinds.items() if items) + "\n}\n"


def guarantees() -> str:
    """Settings, units, events and guarantees; the first item of a kind says its defaults and its calibrated tiny."""

    def of(kind: str) -> list[object]:
        slow = kind == "adept_dpsgd"  # a search through trainings
        about = {
            "defaults": cases.defaults(kind),
            "calibrated": [] if slow else [*map(cases.calibrated, cases.tiny(kind))],
        }
        return [about, *map(cases.facts, cases.all_settings(kind))]

    return _by_kind(of)


def prose() -> str:
    return _by_kind(lambda kind: [*map(cases.prose_digest, cases.all_settings(kind))])


def names() -> str:
    found = {"dptext": dir(dp), **{module: cases.public_names(module) for module in cases.MODULES}}
    return json.dumps(found, indent=1) + "\n"


def models() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where the auto-encoder of `candidates` lies
        for kind in SPECS:
            if kind == "dp_prompt":  # its settings are of a language model of 96 tokens, which nobody has
                continue
            Path(kind).mkdir()
            for name, values in cases.models(kind).items():
                try:
                    mechanism = spec_from_settings(values).fit(public=PUBLIC, seed=0)
                except dp.errors.MissingExtraError as error:
                    print(f"left out: {error}")
                    continue
                dp.save_model(mechanism, Path(kind, name))
                if (kind, name) == ("adept", "0"):
                    dp.save_model(mechanism, Path("adept_of_candidates"))
            if any(Path(kind).iterdir()):
                cases.pack(Path(kind), HERE / "models" / f"{kind}.tar.xz")
        os.chdir(HERE)


def _saved(folder: Path) -> list[tuple[str, str, Path]]:
    """Kind, name and folder of each saved model, unpacked."""
    found = []
    for archive in sorted((HERE / "models").glob("*.tar.xz")):
        kind = archive.name.removesuffix(".tar.xz")
        cases.unpack(archive, folder / kind)
        found += [(kind, path.name, path) for path in sorted((folder / kind).iterdir())]
    return found


def outputs() -> str:
    with tempfile.TemporaryDirectory() as folder:
        found = {f"{kind} {name}": cases.outputs(dp.load_model(path)) for kind, name, path in _saved(Path(folder))}
    lines = (f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in found.items())
    return (
        "{\n"
        f'"made with": {json.dumps(cases.made_with())},\n'
        f'"draws": {json.dumps(cases.draws())},\n' + ",\n".join(lines) + "\n}\n"
    )


def certificates() -> str:
    """A run of three records for each model; a few with other files, plans, randomness, and a ledger that pays."""
    text = dp.Plan(without_guarantee=True)
    table = dp.Plan(fields=TABLE, max_per_author=3, without_guarantee=True)
    made = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "in.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]), "utf-8")

        def run(mechanism: object, output: str, plan: dp.Plan, **more: object) -> None:
            target = folder / output
            dp.privatize_file(source, target, mechanism, plan=plan, **more)
            certificate = json.loads(certificate_path(target).read_text("utf-8"))
            made.append({"certificate": certificate, "file": base64.b85encode(target.read_bytes()).decode()})

        for kind, model, path in _saved(folder / "models"):
            mechanism = dp.load_model(path)
            spec = mechanism.spec
            whole = dp.Unit.DOCUMENT in spec.units and spec.guarantee().trust is Trust.LOCAL
            run(mechanism, f"{kind}_{model}.jsonl", table if whole else text)
            if (kind, model) == ("label_only", "0"):
                run(mechanism, "seeded.csv", table, randomness=dp.randomness.seeded(3))
                run(mechanism, "packed.csv.gz", table)
                run(mechanism, "columns.parquet", table)
                ledger = dp.Ledger.create(folder / "budget.db", key=subject_key())
                limit = dp.Guarantee(20.0, 1e-6, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE)
                ledger.open_account("runs", limit, dataset="requests", by_subject=True)
                for subject in (None, "who"):
                    plan = dp.Plan(fields=dp.Fields(author="who", subject=subject), max_per_author=3, delta=1e-6)
                    run(
                        mechanism,
                        f"paid_{subject}.jsonl",
                        plan,
                        payment=dp.Payment(ledger, "runs", everyone=subject is None),
                    )
                ledger.close()
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in made) + "\n]\n"


def _killed(run: Run, folder: Path, model: Path) -> None:
    """Start the run in a process that kills itself where the run is to end."""
    renamed = Path.replace

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def replace(path: Path, to: Path) -> Path:
        if to.name == run.target and run.done == "sealed":
            die()
        found = renamed(path, to)
        if to.name == run.target:
            die()
        return found

    if os.fork() == 0:
        Path.replace = replace
        dp.privatize_file(
            folder / run.source,
            folder / run.target,
            dp.load_model(model),
            plan=run.plan,
            payment=run.paying(folder),
            on_progress=lambda done: die() if done == run.done else None,
        )
        os._exit(1)
    if os.wait()[1] != signal.SIGKILL or not (folder / f".{run.target}.resume.json").exists():
        raise SystemExit(f"Expected the run to {run.target} to be killed before it was done.")


def runs() -> None:
    with tempfile.TemporaryDirectory() as around:
        folder = Path(around)
        saved = {(kind, name): path for kind, name, path in _saved(folder / "models")}
        for name, run in RUNS.items():
            place = folder / "runs" / name
            place.mkdir(parents=True)
            cases.write_input(place / run.source)
            if run.pays:
                ledger = dp.Ledger.create(place / "budget.db", key=subject_key())
                limit = dp.Guarantee(100.0, 0.0, dp.Unit.AUTHOR, dp.Relation.REPLACE_ONE)
                ledger.open_account("runs", limit, by_subject=True)
                ledger.close()
            _killed(run, place, saved[run.model])
        cases.pack(folder / "runs", HERE / "runs.tar.xz")


def ledgers() -> str:
    """A ledger, and what it says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "ledgers")
        folder.mkdir()
        ledger = dp.Ledger.create(folder / "today.db", key=subject_key())
        document, author = (
            dp.Guarantee(10.0, delta, unit, dp.Relation.REPLACE_ONE)
            for delta, unit in ((0.0, dp.Unit.DOCUMENT), (1e-5, dp.Unit.AUTHOR))
        )
        ledger.open_account("texts", document, dataset="letters")
        ledger.open_account("people", author, by_subject=True)
        ledger.open_account("empty", document)
        for values in (
            {"kind": "label_only", "labels": LABELS, "epsilon": 0.5},
            {"kind": "adept", "epsilon": 1.0, "labels": LABELS},
            {"kind": "syntf", "epsilon": 0.2, "n_terms": 5},
            {"kind": "deep_candidate", "epsilon": 0.1, "max_sentences": 5},
        ):
            spec = spec_from_settings(values)
            asked = dp.Payment(ledger, "texts").due(spec, randomness=dp.randomness.secure()).request
            ledger.charge("texts", asked, key=spec.kind)
        ledger.settle("texts", "label_only", "ab" * 32)
        gaussian = spec_from_settings({"kind": "adept", "epsilon": 1.0, "noise": "gaussian", "delta": 1e-6})
        for key, subjects in (("first", ["Anna", "Bert", "Anna"]), ("second", ["bert ", "Carl"]), ("third", None)):
            names = Fields(author="who", subject=None if subjects is None else "who")
            asked = (
                dp.Payment(ledger, "people", everyone=subjects is None)
                .due(gaussian, randomness=dp.randomness.secure(), max_per_author=2, fields=names)
                .request
            )
            assert isinstance(asked, Request)
            ledger.charge("people", asked, key=key, subjects=subjects)
        said = {"today.db": cases.told(ledger)}
        ledger.close()
        cases.pack(folder, HERE / "ledgers.tar.xz")
    return json.dumps(said, indent=1) + "\n"


def _dying_corpus(folder: Path, step: str) -> None:
    """Start a synthesis in a process that kills itself at this step of keeping its files."""
    folder.mkdir(parents=True)
    for name, records in (("private", summary_cases.PRIVATE), ("pool", summary_cases.POOL)):
        rows = ({"text": each.text, "label": each.label} for each in records)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    if os.fork() == 0:
        from dptext.cli.app import main as command
        from dptext.runs.unpublished import Unpublished

        os.chdir(folder)
        setattr(Unpublished, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        sys.argv = ["dptext", *summary_cases.UNFINISHED]
        command()
        os._exit(1)
    if os.wait()[1] != signal.SIGKILL:
        raise SystemExit(f"Expected the synthesis to be killed at {step}.")
    for name in ("private", "pool"):  # a run that has drawn needs no input
        (folder / f"{name}.jsonl").unlink()


def summaries() -> str:
    """Summaries, corpora that were written from them, and syntheses; and what the summaries say."""
    sys.path.append(str(HERE.parent))
    import pytest

    import tiny_language
    from dptext.embeddings.distilled import common_words

    few = common_words()[:60]
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name, "summaries")
        folder.mkdir()
        for step in summary_cases.STEPS:
            _dying_corpus(folder / "unfinished" / step, step)
        for module in tiny_language.LOADING:
            model = replace(tiny_language.model(), digest="ab" * 32)
            patch.setattr(f"{module}.load_language_model", lambda _, model=model: model)
        tiny_language.writes_here(patch)
        patch.setattr("dptext.synthesis.writer.is_readable", bool)  # this model writes few spaces
        patch.setattr("dptext.synthesis.space.common_words", lambda: few)  # of thousands their vectors would be kept
        summary_cases.write_summaries(folder)
        summary_cases.write_syntheses(folder / "synthesized")
        for report in [*folder.rglob("*.topics.html"), *folder.rglob("*.topics.json")]:
            if "unfinished" not in report.parts:
                report.unlink()
        said = {each: summary_cases.facts(read_summary(folder / f"{each}.summary")) for each in summary_cases.NAMES}
        cases.pack(folder, HERE / "summaries.tar.xz")
    return "{\n" + ",\n".join(f"{json.dumps(each)}: {json.dumps(said[each])}" for each in said) + "\n}\n"


def folders() -> None:
    """A data set of two parts with its manifest and certificate."""
    mechanism = spec_from_settings({"kind": "label_only", "labels": LABELS, "epsilon": 2.0}).fit(public=PUBLIC)
    with tempfile.TemporaryDirectory() as name:
        private, out = Path(name, "private"), Path(name, "out")
        private.mkdir()
        out.mkdir()
        for i in range(2):
            rows = ROWS[5 * i : 5 * i + 5]
            (private / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        plan, parts = dp.Plan(fields=TABLE, max_per_author=10), DatasetPlan(keep_shards=True)
        privatize_dataset(private, out / "data", mechanism, plan=plan, dataset=parts)
        cases.pack(out, HERE / "folders.tar.xz")


#: By name: the file or folder that says whether the part is there, and what makes it; a text is the file's content.
PARTS: dict[str, tuple[Path, Callable[[], str | None]]] = {
    "guarantees": (HERE / "guarantees.json", guarantees),
    "prose": (HERE / "prose.json", prose),
    "names": (HERE / "names.json", names),
    "models": (HERE / "models", models),
    "outputs": (HERE / "outputs.json", outputs),
    "certificates": (HERE / "certificates.json", certificates),
    "runs": (HERE / "runs.tar.xz", runs),
    "folders": (HERE / "folders.tar.xz", folders),
    "ledgers": (HERE / "ledgers.json", ledgers),
    "summaries": (HERE / "summaries.json", summaries),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--again", action="store_true", help="replace parts that are there")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"Expected parts of {', '.join(PARTS)}, found {', '.join(sorted(unknown))}.")
    chosen = {name: PARTS[name] for name in asked.parts or PARTS}
    if not asked.again and (there := [path.name for path, _ in chosen.values() if path.exists()]):
        parser.error(f"{', '.join(there)}: there already. To replace them, say --again.")
    for path, made in chosen.values():
        if path.suffix == "":
            path.mkdir(exist_ok=True)
        if (content := made()) is not None:
            path.write_text(content, "utf-8")
        files = [path, *path.glob("*")] if path.is_dir() else [path]
        print(f"{path.relative_to(HERE)}: {sum(each.stat().st_size for each in files if each.is_file()):,} bytes")


if __name__ == "__main__":
    main()
