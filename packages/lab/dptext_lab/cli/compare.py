"""`dptext compare`: a grid of mechanisms, settings and corpora, as one table in a folder; and `dptext report` of it."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Exit

from dptext._wording import markdown_table, plural
from dptext.cli.answers import Printing
from dptext.cli.audit import EXIT_REFUTED
from dptext.cli.grouped import computes, leaves, runs
from dptext.cli.options import ForceOption, JsonOption, file_argument, folder_path, output_folder_option, output_option
from dptext.cli.terminal import advising, counted, say
from dptext.errors import ConfigError, MissingExtraError
from dptext.text.files import Target
from dptext.types import Json, fields_as_json
from dptext_lab.cli.answers import comparison

EXIT_FAILED_CELLS: Final = 5  #: The exit code of a grid in which a cell failed and no guarantee was refuted

_MIB_A_GIB: Final = 1024
_MOST_GIB: Final = 2**20


def _keys(asked: bool) -> None:
    """Print what an experiment file is made of, and end the command."""
    if asked:
        from dptext_lab.compare import experiment

        print((experiment.__doc__ or "").strip())
        raise Exit


def compare(
    *,
    experiment: Annotated[
        Path, file_argument(metavar="EXPERIMENT.toml", help="The corpora, the mechanisms, and what to measure.")
    ],
    out: Annotated[
        Path,
        output_folder_option(metavar="DIR", help="Folder of the cells and the table. An unfinished run in it goes on."),
    ],
    workers: Annotated[int, computes(help="Number of processes. 0 stands for one per core.")] = 0,
    memory: Annotated[
        float, computes(metavar="GIB", help="Memory of each process. 0 stands for an equal share.")
    ] = 0.0,
    keep_private_samples: Annotated[
        bool, leaves("--keep-private-samples", help="Keep some private originals in DIR, for the report.")
    ] = False,
    retry: Annotated[bool, runs("--retry", help="Run the failed cells again.")] = False,
    _: Annotated[
        bool, runs("--keys", callback=_keys, is_eager=True, help="Print all keys of an experiment file.")
    ] = False,
    printing: Printing,
) -> int:
    """Run the unfinished cells, and sum up the table. Exit code 1: a guarantee was refuted; 5: cells failed."""
    from dptext.recommend.measured import JSON_FILE
    from dptext_lab.compare.experiment import read_experiment
    from dptext_lab.compare.folder import ExperimentFolder
    from dptext_lab.compare.grid import kinds_without_labels
    from dptext_lab.compare.report import markdown, read_results
    from dptext_lab.compare.report.summary import first_rows, groups, measured, shown, without_labels
    from dptext_lab.compare.runner import Options, run_experiment
    from dptext_lab.compare.stored import PARQUET

    if workers < 0 or not 0 <= memory < _MOST_GIB:
        raise ConfigError("Expected --workers and --memory to be positive, or 0: then dptext chooses.")
    found = read_experiment(experiment)
    options = Options(workers, int(memory * _MIB_A_GIB), keep_private_samples, retry)
    command = shlex.join(["dptext", "compare", str(experiment), "--out", str(out)])
    if unlabelled := kinds_without_labels(found):
        say(f"No labels are released by {', '.join(unlabelled)}: no classifier can be trained on such releases alone.")
    say(f"{found.name}: reading {len(found.corpora)} corpora")
    with advising(lambda: "Finished cells are kept: the same command goes on."), counted(found.name) as tell:
        summary = run_experiment(found, ExperimentFolder(out), options, command=command, on_progress=tell)
    results = read_results(out)
    numbers, columns = measured(results.rows), ("classification.accuracy", "fidelity.cosine")
    cells = [
        [[*key, *(shown(line, metric, numbers.get((*key, metric))) for metric in columns)]
         for key, line in first_rows(rows).items()]
        for _, rows in groups(results.rows)
    ]  # fmt: skip
    screen = [
        f"{summary.done} of {summary.total} cells done, {summary.failed} failed, {summary.run_now} run now.",
        f"Table: {out / PARQUET}, {out / JSON_FILE}",
        f"Next: dptext report {shlex.quote(str(out))}",
    ]
    if sum(map(len, cells)) <= 12:  # a screen
        screen += [line for some in cells for line in ("", *markdown_table(["corpus", "row", *columns], some))]
    screen += [said for said in (without_labels(results.rows),) if said]
    more = [*(f"Refuted: {row}." for row in summary.refuted), markdown(results)]
    data: dict[str, Json] = {"out": str(out), **fields_as_json(summary)}
    printing.answer(comparison(results.rows), screen, more, data)
    if summary.failed:
        say(f"{plural(summary.failed, 'cell')} failed: the table says why (column `error`). --retry runs them again.")
        for line in lacking(row.error or "" for row in results.rows):
            say(line)
    if summary.refuted:
        return EXIT_REFUTED
    return EXIT_FAILED_CELLS if summary.failed else 0


def lacking(errors: Iterable[str]) -> list[str]:
    """Return what the cells of these errors lack, with the line that installs it, each once."""
    sign = f"{MissingExtraError.__name__}: "
    return [*dict.fromkeys(error.removeprefix(sign) for error in errors if error.startswith(sign))]


PAGE = "report.html"


def report(
    folder: Annotated[Path, Argument(metavar="DIR", parser=folder_path, help="Folder that `dptext compare` wrote.")],
    target: Annotated[Path | None, output_option("--out", help="File of the page. Default: DIR/report.html.")] = None,
    show_private: Annotated[
        bool, leaves("--show-private", help="Show the private samples that were kept, too.")
    ] = False,
    as_markdown: Annotated[
        bool, leaves("--markdown", help="Print a table for each corpus instead of the page.")
    ] = False,
    metric: Annotated[
        list[str] | None, leaves(metavar="NAME", help="A column of --markdown, such as fidelity.cosine. Repeatable.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    from dptext_lab.compare.report import markdown, read_results, write_page

    if as_markdown:
        if target is not None or show_private or as_json:
            raise ConfigError("Expected --markdown without --out, --show-private or --json: it prints tables.")
        print(markdown(read_results(folder), metric or []), end="")
        return
    if metric:
        raise ConfigError("Expected --metric with --markdown: the page shows every metric.")
    path = target or folder / PAGE
    written = write_page(folder, Target(path, force), show_private=show_private)
    if show_private:
        say(
            f"Warning: {path} shows {written.private} private texts and what was made of them; do not hand it on."
            if written.private
            else "No private samples were kept: `dptext compare --keep-private-samples` keeps them."
        )
    if as_json:
        print(json.dumps({"path": str(path), **asdict(written)}, indent=2))
        return
    rest = {"failed": written.failed, "not done yet": written.total - written.done - written.failed}
    counts = [f"{written.done} of {written.total} cells", *(f"{n} {what}" for what, n in rest.items() if n > 0)]
    print(*written.verdict, f"{path}: {', '.join(counts)}, {written.warnings} warnings.", sep="\n")
