"""Tables (Markdown, to the terminal) and figures (SVG) of the grid's results.

python packages/lab/experiments/adept_paper/figure.py --figures docs/results/figures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grid import CLIPS, DATASETS, LONGER, Cell, every_cell, read_cell

from dptext.audits.figures import roc_figure
from dptext.audits.roc import Roc
from dptext.text.files import Target
from dptext_lab.figures import LINES, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = Mapping[Cell, Mapping[str, Any]]


def load(out: Path) -> dict[Cell, dict[str, Any]]:
    """The finished cells of a folder."""
    found = {cell: read_cell(out, cell) for cell in every_cell()}
    return {cell: result for cell, result in found.items() if result is not None}


def shown(estimate: Mapping[str, float] | None, digits: int = 3) -> str:
    """Value and interval."""
    if estimate is None:
        return "-"
    low, high = (f"{estimate[end]:.{digits}f}" for end in ("low", "high"))
    return f"{estimate['value']:.{digits}f} [{low}, {high}]"


def epsilons_of(result: Mapping[str, Any]) -> tuple[str, str]:
    """The claimed and the true epsilon; none where nothing is claimed."""
    return tuple("none" if result[name] is None else f"{result[name]:.3g}" for name in ("claimed", "true"))  # type: ignore[return-value]


def title_of(cell: Cell) -> str:
    """The row's name in a table."""
    match cell.kind:
        case "adept":
            return f"ADePT C = {cell.clip:g}, {cell.noise}, variance {cell.variance:g}"
        case "private_phrases":
            return f"private_phrases, variance {cell.variance:g}"
        case "label_only":
            return f"label_only ({cell.row})"
        case "candidates":
            return "candidates"
        case _:
            return cell.row or ""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def points_table(results: Results, dataset: str) -> str:
    """Privacy, utility and fidelity of every point and baseline."""
    head = ["row", "claimed", "true", "accuracy", "label kept", "cosine", "own first of 100"]
    head += ["AUC", "control", "loss threshold", "no look", "dropped"]
    rows = []
    for cell, found in results.items():
        if cell.dataset != dataset or cell.kind in ("model", "lira", "longer"):
            continue
        kept, attack = found["fidelity"], found.get("membership")
        aucs = ["-"] * 4
        if attack is not None:
            attacks = [attack["main"], attack["control"], *attack["baselines"]]
            aucs = [
                shown(attacks[0]["auc"]),
                shown(attacks[1]["auc"]),
                *(f"{a['auc']['value']:.3f}" for a in attacks[2:]),
            ]
        rows.append(
            [
                title_of(cell),
                *epsilons_of(found),
                shown(found["accuracy"]["accuracy"]),
                "1, by design" if cell.kind == "private_phrases" else f"{kept['label_kept']['value']:.3f}",
                f"{kept['cosine']['value']:.3f}",
                f"{kept['own_first']['value']:.3f}",
                *aucs,
                f"{found['dropped']}",
            ]
        )
    return markdown(head, rows)


def written_table(results: Results) -> str:
    """What Table 1 of the paper shows by examples."""
    names = {
        "label and text exact": "exact",
        "text of another training record": "another's text",
        "a slot word lost": "a slot word lost",
        "all slot words lost": "all lost",
        "a word beside itself": "word beside itself",
        "a pair of words again": "pair again",
    }
    rows = []
    for cell, found in results.items():
        if cell.kind == "model":
            told, what = found["without noise"]["members"], f"no noise, C = {cell.clip:g}"
        elif cell.kind in ("adept", "private_phrases"):
            told, what = found["written"], title_of(cell)
        else:
            continue
        rows.append(
            [cell.dataset, what, *(f"{100 * told[name]['value']:.1f}" if name in told else "-" for name in names)]
        )
    return markdown(["corpus", "outputs of", *(f"{name} (%)" for name in names.values())], rows)


def model_table(results: Results) -> str:
    """The auto-encoders by themselves."""
    head = ["corpus", "C", "epochs", "loss", "held out, least", "exact: members", "exact: others"]
    head += ["pairs beyond 2C (%)", "L1 distance / 2C: mean, max, bound", "AUC by loss", "control", "no look"]
    rows = []
    for cell, found in results.items():
        if cell.kind != "model":
            continue
        away, attack, told = found["distance/2C"], found["membership"], found["without noise"]
        share = {name: 100 * found["violating"][name] for name in ("value", "low", "high")}
        rows.append(
            [
                cell.dataset,
                f"{cell.clip:g}",
                f"{len(found['losses'])}",
                f"{found['losses'][-1]['train']:.2f}",
                f"{min(loss['held out'] for loss in found['losses']):.2f}",
                shown(told["members"]["label and text exact"]),
                shown(told["non-members"]["label and text exact"]),
                shown(share, 2),
                f"{away['mean']:.2f}, {away['max']:.2f}, {away['bound']:.0f}",
                shown(attack["main"]["auc"]),
                shown(attack["control"]["auc"]),
                f"{attack['baselines'][0]['auc']['value']:.3f}",
            ]
        )
    return markdown(head, rows)


def lira_table(results: Results) -> str:
    """LiRA at its points: AUC, true positives at few false ones."""
    head = ["point", "attack", "AUC", "control", "TPR at FPR 1%", "TPR at FPR 0.1%", "loss threshold AUC"]
    rows = []
    for cell, found in results.items():
        if cell.kind == "lira":
            for how in ("online", "offline"):
                told = found["lira"][how]
                rates = {rate["fpr"]: rate for rate in told["main"]["tprs"]}
                rows.append(
                    [
                        f"{cell.dataset}, {lira_name(cell, found)}",
                        how,
                        shown(told["main"]["auc"]),
                        shown(told["control"]["auc"]),
                        *(shown(rates[fpr]["tpr"], 4) for fpr in (0.01, 0.001)),
                        f"{told['baselines'][0]['auc']['value']:.3f}",
                    ]
                )
    return markdown(head, rows)


def longer_table(results: Results) -> str:
    """Shokri's attack where the classifier was trained longer."""
    head = ["point", "epochs", "accuracy", "label kept", "cosine", "AUC", "control", "loss threshold"]
    rows = []
    for cell, found in results.items():
        if cell.kind == "longer":
            attack, kept = found["membership"], found["fidelity"]
            rows.append(
                [
                    f"{cell.dataset}, {lira_name(cell, found)}",
                    f"{LONGER} times as many",
                    shown(found["accuracy"]["accuracy"]),
                    f"{kept['label_kept']['value']:.3f}",
                    f"{kept['cosine']['value']:.3f}",
                    shown(attack["main"]["auc"]),
                    shown(attack["control"]["auc"]),
                    shown(attack["baselines"][0]["auc"]),
                ]
            )
    return markdown(head, rows)


def lira_name(cell: Cell, found: Mapping[str, Any]) -> str:
    """What the classifier was trained on."""
    if cell.clip is None:
        return "original texts"
    claimed, true = epsilons_of(found)
    own = "" if cell.row is None else f", {cell.row}"
    return f"C = {cell.clip:g}, {cell.noise} {cell.variance:g} (claimed {claimed}, true {true}){own}"


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places at least a gap apart, in the same order, moved as little as a simple rule does."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    placed = list(places)
    for before, now in pairwise(order):
        placed[now] = max(placed[now], placed[before] + gap)
    shift = (sum(placed) - sum(places)) / max(len(places), 1)
    return [place - shift for place in placed]


def paper_figure(results: Results, path: Path) -> None:
    """Draw AUC of the attack against accuracy, a panel for each corpus and C (Krishna et al. 2021, figure 1).

    Each point of ADePT says its variance and its claimed / true epsilon, each of `private_phrases` its variance.
    """
    with drawing(
        Target(path, force=True), title="ADePT as published: membership AUC against intent accuracy"
    ) as figure:
        figure.set_size_inches(11.5, 10.5)
        panels = figure.subplots(len(DATASETS), len(CLIPS), squeeze=False, sharey=True)
        for row, dataset in zip(panels, DATASETS, strict=True):
            for axes, clip in zip(row, CLIPS, strict=True):
                _panel(axes, {c: r for c, r in results.items() if c.dataset == dataset and c.clip in (None, clip)})
                axes.set_title(f"{dataset}, C = {clip:g}")
            row[0].set_ylabel("AUC of the membership attack (95% interval)")
        distinct = {}
        for axes in panels.flat:
            distinct |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(distinct.values(), distinct.keys(), loc="outside lower center", ncols=2, fontsize=9)


def _panel(axes: Axes, results: Results) -> None:
    """Points with their intervals; labels of Laplace noise stand above, all others below."""
    marked: dict[bool, list[tuple[float, float, str, str]]] = {True: [], False: []}
    for cell, found in results.items():
        if cell.kind not in ("adept", "private_phrases", "baseline") or "membership" not in found:
            continue
        x, auc = found["accuracy"]["accuracy"]["value"], found["membership"]["main"]["auc"]
        name, text, color, marker = "original texts", "", "black", "*"
        if cell.kind == "private_phrases":
            name, text, color, marker = "private_phrases (no epsilon): variance", f"{cell.variance:g}", "#666666", "X"
        elif cell.kind == "adept":
            name = f"ADePT, {cell.noise}: variance (claimed / true epsilon)"
            text = f"{cell.variance:g} ({' / '.join(epsilons_of(found))})"
            color, marker = (LINES[0][0], "o") if cell.noise == "laplace" else (LINES[1][0], "s")
        error = [[auc["value"] - auc["low"]], [auc["high"] - auc["value"]]]
        axes.errorbar(
            [x],
            [auc["value"]],
            error,
            linestyle="none",
            markersize=6,
            elinewidth=0.8,
            label=name,
            color=color,
            marker=marker,
        )
        if text:
            marked[cell.noise == "laplace"].append((x, auc["value"], text, color))
    drawn = [point for points in marked.values() for point in points]
    if not drawn:
        axes.set_axis_off()
        return
    places = [x for x, *_ in drawn]
    width = max(max(places) - min(places), 0.01)
    for above, points in marked.items():
        for (x, y, text, color), at in zip(points, spread([x for x, *_ in points], 0.035 * width), strict=True):
            axes.annotate(
                text,
                (x, y),
                xytext=(at, 0.54 if above else 0.465),
                rotation=90,
                fontsize=8,
                color=color,
                ha="center",
                va="bottom" if above else "top",
                arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.6},
            )
    axes.axhline(0.5, color="black", linewidth=0.8)
    axes.set_ylim(min(0.425, *(y - 0.08 for _, y, *_ in drawn)), max(0.58, *(y + 0.055 for _, y, *_ in drawn)))
    axes.set_xlim(min(places) - 0.08 * width, max(places) + 0.16 * width)
    axes.set_xlabel("accuracy of the intent classifier on original test texts")


def main() -> int:
    """Print the tables; draw where a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/adept_paper"), help="folder of the grid")
    parser.add_argument("--figures", type=Path, help="folder of the figures, which are overwritten")
    given = parser.parse_args()
    results = load(given.out)
    for dataset in DATASETS:
        print(f"## {dataset}\n\n{points_table(results, dataset)}\n")
    for title, table in (
        ("models", model_table),
        ("LiRA", lira_table),
        ("longer", longer_table),
        ("Table 1", written_table),
    ):
        print(f"## {title}\n\n{table(results)}\n")
    seconds = sum(found["cpu_seconds"] for found in results.values())
    print(f"{len(results)} cells, {seconds / 3600:.2f} hours of processor time", file=sys.stderr)
    if given.figures:
        paper_figure(results, given.figures / "adept_paper_figure1.svg")
        for how in ("online", "offline"):
            curves = {
                lira_name(cell, found): Roc(**{k: tuple(v) for k, v in found["lira"][how]["main"]["roc"].items()})
                for cell, found in results.items()
                if cell.kind == "lira" and cell.dataset == "atis"
            }
            if curves:
                roc_figure(curves, Target(given.figures / f"adept_paper_lira_{how}.svg", force=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
