"""`dptext audit divergence`: measure how far apart two sets of texts are in an embedding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dptext._wording import NOT_PRIVATE, markdown_table
from dptext.cli import options
from dptext.cli.answers import Printing, interval, short
from dptext.cli.chosen import load_encoder
from dptext.cli.grouped import measures
from dptext.cli.terminal import counted, say
from dptext.embeddings.embedder import Embedder
from dptext.errors import ConfigError
from dptext.estimates import Estimate
from dptext.text.files import Target, writing
from dptext.text.records import Record
from dptext.types import Json
from dptext_lab.cli import answers, sets

if TYPE_CHECKING:
    from dptext_lab.redaction.divergence.findings import DivergenceReport

EMBEDDINGS = ("sentence", "glove", "tfidf")

_CURVES, _PLANE, _NUMBERS = "divergence.svg", "plane.svg", "divergence.json"


def divergence(
    *,
    first: sets.FirstSet,
    second: sets.SecondSet,
    public: Annotated[
        Path, options.file_option(help="Other originals, redacted like A and B. The main directions come from them.")
    ],
    layout: options.Layout,
    embedding: Annotated[
        str, measures(help="The embedding: sentence, glove, tfidf, or the folder of a sentence encoder.")
    ] = "sentence",
    delta: options.DeltaOption = 8e-5,
    trim: Annotated[
        float, measures(help="Share of the records, those of the largest ratios, to leave out. It adds to delta.")
    ] = 0.005,
    alphas: Annotated[
        str, measures(help="Orders of the divergence. The published ones are 1.1,10,20,30,50.")
    ] = "1.1,1.5,2,3,5,10,20,30,50",
    components: Annotated[int, measures(help="Number of main directions of --public to keep.")] = 64,
    permutations: Annotated[int, measures(help="Number of random relabellings for the null.")] = 20,
    attack_accuracy: Annotated[
        str | None, measures(help="Accuracy of an attack (`audit trait`), as VALUE or VALUE,LOW,HIGH.")
    ] = None,
    seed: options.SeedOption = None,
    out: Annotated[Path | None, options.output_folder_option(help="Folder for the figures and the JSON.")] = None,
    force: options.ForceOption = False,
    printing: Printing,
) -> None:
    from dptext_lab import figures
    from dptext_lab.redaction.divergence.divergence import measure
    from dptext_lab.redaction.divergence.estimators import DivergenceSettings

    orders = _numbers(alphas, "--alphas", "numbers with commas between them, as 1.1,2,10")
    settings = DivergenceSettings(
        orders, delta, trim, components, permutations=permutations, seed=options.seed_of(seed)
    )
    attack = _attack(attack_accuracy, settings.confidence)
    inputs = (first, second, public, Path(embedding))
    targets = {name: Target((out or Path()) / name, force, inputs) for name in (_CURVES, _PLANE, _NUMBERS)}
    if out is not None:
        figures.load_matplotlib()  # before the work
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        for target in targets.values():
            target.check()
    a, b, others = layout.read(first), layout.read(second), layout.read_public(public)
    say(NOT_PRIVATE)
    embedder = _embedder(embedding, others, (a, b), settings.seed)
    with counted("divergence", "steps") as tell:
        found = measure(a, b, public=others, embedder=embedder, settings=settings, attack=attack, on_step=tell)
    answer = answers.divergence(found)
    data: dict[str, Json] = {**found.to_dict(), "note": NOT_PRIVATE}
    if out is not None:
        _write(found, json.dumps({"answer": answer, **data}, indent=2), targets)
    rows = [[way, interval(each.estimate), f"{each.p_value:.2g}"] for way, each in found.epsilons.items()]
    rows.append(["certified, at least", short(found.certified.epsilon), ""])
    screen = markdown_table([f"epsilon at delta {found.delta:g}", "interval at 95%", "p"], rows)
    printing.answer(answer, screen, [found.to_markdown()], data)


def _attack(accuracy: str | None, confidence: float) -> Estimate | None:
    """Return the accuracy given as VALUE,LOW,HIGH, or as VALUE, with the interval [0, 1]."""
    if accuracy is None:
        return None
    form = "VALUE or VALUE,LOW,HIGH in [0, 1]"
    numbers = _numbers(accuracy, "--attack-accuracy", form)
    if len(numbers) == 1:
        numbers += (0.0, 1.0)
    if len(numbers) == 3:
        value, low, high = numbers
        if 0 <= low <= value <= high <= 1:
            return Estimate(value, low, high, confidence)
    raise ConfigError(f"Expected --attack-accuracy {accuracy!r} to be {form}.")


def _numbers(text: str, option: str, form: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"Expected {option} {text!r} to be {form}.") from error


def _embedder(name: str, public: Sequence[Record], sets: tuple[list[Record], list[Record]], seed: int) -> Embedder:
    if name == "tfidf":
        from dptext.embeddings.tfidf import fit_tfidf_svd
        from dptext_lab.redaction.divergence.estimators import apart

        return fit_tfidf_svd(apart(public, *sets)[0], seed=seed)
    if name not in EMBEDDINGS and not Path(name).is_dir():
        raise ConfigError(
            f"Expected --embedding {name!r} to be one of {', '.join(EMBEDDINGS)}, or the folder of a sentence encoder."
        )
    return load_encoder(name)


def _write(found: DivergenceReport, data: str, targets: dict[str, Target]) -> None:
    from dptext_lab import figures

    figures.divergence_figure(found, targets[_CURVES])
    if all(rows.shape[1] == 2 for rows in found.plane):
        say(f"{_PLANE} holds a point for each record: it is as private as the sets.")
        figures.plane_figure(dict(zip(("first set", "second set"), found.plane, strict=True)), targets[_PLANE])
    targets[_NUMBERS].write(f"{data}\n".encode())
