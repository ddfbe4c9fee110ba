"""`dptext audit`: commands and their options. Heavy libraries are imported by the command that needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dptext.cli.options import (
    ClassifierOption,
    DeltaOption,
    ForceOption,
    JsonOption,
    LabelFieldOption,
    MechanismOption,
    ModelOption,
    PublicOption,
    SeedOption,
    SetOption,
    SpecOption,
    TextFieldOption,
    file_argument,
    file_option,
    folder_option,
    output_option,
    target_of,
)

audit = typer.Typer(
    help="Attack a claim: exit code 1 when it is refuted. An audit can refute a guarantee, never prove one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
NoiseOption = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="Vector noise instead of a mechanism: published_laplace (as ADePT claims it), classical_gaussian, "
        "laplace, laplace_l1, gaussian, l2_laplace, privunit or privunit_sphere.",
    ),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", help="Claimed epsilon of the vector noise.")]
DimOption = Annotated[int, typer.Option("--dim", help="Coordinates of its vectors.")]
ClipNormOption = Annotated[float, typer.Option("--clip-norm", help="C, the norm to which they are clipped.")]
NoiseDeltaOption = Annotated[
    float, typer.Option("--delta", help="Delta of the Gaussian noises; also of --claim, and of a mechanism's claim.")
]
FirstOption = Annotated[str | None, typer.Option("--first", help="A text; without it known bad pairs are tried.")]
SecondOption = Annotated[str | None, typer.Option("--second", help="Its neighbour.")]
UnitOption = Annotated[str | None, typer.Option("--unit", help="Whose guarantee: token, sentence or document.")]
ClaimOption = Annotated[
    float | None, typer.Option("--claim", help="Try this epsilon instead of the guarantee that is stated.")
]
FirstSetArgument = Annotated[Path, file_argument(metavar="A", help="Texts of one set, such as a sensitive one.")]
SecondSetArgument = Annotated[Path, file_argument(metavar="B", help="Texts of the other, such as a safe one.")]
ConfidenceOption = Annotated[float, typer.Option("--confidence", help="Of the bound.")]


@audit.command()
def distinguish(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Runs on each input of a pair.")] = 20000,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    figure: Annotated[
        Path | None,
        output_option("--figure", help="SVG of the bound against the number of runs, up to --trials."),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Black box: tell two neighbouring inputs apart by outputs alone."""
    from dptext.cli import audit as command

    svg = target_of(figure, spec, model, force=force)
    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, model=model, vector=vector)
    code = command.run(
        "distinguish",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=confidence,
        seed=seed,
        figure=svg,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def whitebox(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[int, typer.Option("--trials", help="Releases from each input of a pair.")] = 100000,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the privacy loss off the declared density, and test that the sampler keeps to it."""
    from dptext.cli import audit as command

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, model=model, vector=vector)
    code = command.run(
        "whitebox",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=confidence,
        seed=seed,
        figure=None,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def exact(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    first: FirstOption = None,
    second: SecondOption = None,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    trials: Annotated[
        int, typer.Option("--trials", help="Runs for the test of the sampler; the bound needs none.")
    ] = 20000,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum over all outputs where they can be listed, and test that the sampler keeps to them."""
    from dptext.cli import audit as command

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, model=model, vector=vector)
    code = command.run(
        "exact",
        subject,
        command.stated_claim(subject, unit, claim, delta),
        first=first,
        second=second,
        trials=trials,
        confidence=0.95,
        seed=seed,
        figure=None,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def sensitivity(
    clip: Annotated[str, typer.Option("--clip", help="Norm of the clipping: l1, l2 or none.")] = "l2",
    norm: Annotated[str, typer.Option("--norm", help="Norm of the claimed sensitivity: l1 or l2.")] = "l1",
    clip_norm: Annotated[float | None, typer.Option("--clip-norm", help="C; the published simulation has 10.")] = None,
    claimed: Annotated[float, typer.Option("--claimed", help="The claim as a multiple of C; ADePT's is 2.")] = 2.0,
    dims: Annotated[str | None, typer.Option("--dims", help="1:255, or 8,16,32; default 1:255.")] = None,
    pairs: Annotated[int | None, typer.Option("--pairs", help="Fresh simulation with so many pairs.")] = None,
    law_sd: Annotated[
        float | None, typer.Option("--law-sd", help="Standard deviation of normal coordinates, as a multiple of C.")
    ] = None,
    seed: SeedOption = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Show what a run with it really had.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="Of Gaussian noise.")] = 1e-5,
    latents: Annotated[Path | None, file_option("--latents", help="FILE.npy of an encoder's vectors.")] = None,
    variances: Annotated[
        bool, typer.Option("--variances", help="What ADePT's noise variances mean, by dimension.")
    ] = False,
    figure: Annotated[Path | None, output_option("--figure", help="SVG of violations against dimension.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count pairs of clipped vectors that violate a claimed sensitivity, as published against ADePT."""
    from dptext.cli import audit_sensitivity as command

    code = command.run(
        clip=clip,
        norm=norm,
        clip_norm=clip_norm,
        claimed=claimed,
        dims=dims,
        pairs=pairs,
        law_sd=law_sd,
        seed=seed,
        epsilon=epsilon,
        delta=delta,
        latents=latents,
        variances=variances,
        figure=target_of(figure, latents, force=force, private=False),  # of a simulation
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def reconstruction(
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    noise: NoiseOption = None,
    epsilon: EpsilonOption = 1.0,
    dim: DimOption = 64,
    clip_norm: ClipNormOption = 1.0,
    delta: NoiseDeltaOption = 0.0,
    pool: Annotated[Path | None, file_option("--pool", help="Candidate texts: .jsonl .csv .parquet .txt.")] = None,
    candidates: Annotated[int, typer.Option("--candidates", help="Random vectors in the pool of --noise.")] = 1000,
    top: Annotated[list[int] | None, typer.Option("--top", help="Guesses; repeatable. Default 1, 5, 10.")] = None,
    trials: Annotated[int, typer.Option("--trials", help="Releases to attack.")] = 2000,
    attack: Annotated[
        str, typer.Option("--attack", help="likelihood (white box), or surrogate (learned from simulated releases).")
    ] = "likelihood",
    simulations: Annotated[int, typer.Option("--simulations", help="Releases a candidate for the surrogate.")] = 100,
    unit: UnitOption = None,
    claim: ClaimOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Guess the input among known candidates from one release, against the best that the guarantee allows."""
    from dptext.cli import audit as command
    from dptext.cli import audit_reconstruction

    vector = None if noise is None else command.noise(noise, command.VectorSettings(epsilon, dim, clip_norm, delta))
    subject = command.subject(mechanism, settings or [], spec, model=model, vector=vector)
    code = audit_reconstruction.run(
        subject,
        candidates=candidates if pool is None else command.texts(pool),
        tops=tuple(top or (1, 5, 10)),
        trials=trials,
        attack=attack,
        simulations=simulations,
        claim=command.stated_claim(subject, unit, claim, delta),
        confidence=confidence,
        seed=seed,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def membership(
    records: Annotated[
        Path,
        file_argument(
            metavar="RECORDS",
            help="Half become members, half non-members; with --others all are members.",
        ),
    ],
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    public: PublicOption = None,
    others: Annotated[
        Path | None,
        file_option(
            "--others",
            help="Records that --model was not trained on, for --attack reconstruction of the model itself.",
        ),
    ] = None,
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    attack: Annotated[
        str, typer.Option("--attack", help="shokri, lira, loss; or reconstruction, of the mechanism's own model.")
    ] = "shokri",
    classifier: ClassifierOption = "tfidf",
    shadows: Annotated[int, typer.Option("--shadows", help="Shadow models of lira.")] = 16,
    seed: SeedOption = None,
    figure: Annotated[Path | None, output_option("--figure", help="SVG of the ROC curves, on log scales.")] = None,
    force: ForceOption = False,
    without_guarantee: Annotated[
        bool, typer.Option("--without-guarantee", help="Try a mechanism that guarantees nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Was a record in the training data of a classifier? A downstream proxy: it measures, and ends with 0."""
    from dptext.cli import audit_membership as command
    from dptext.cli.fit import chosen_seed
    from dptext.cli.privatize import chosen
    from dptext.text.records import Fields

    named = mechanism is not None or spec is not None or model is not None or bool(settings)
    command.run(
        records,
        chosen(mechanism, settings or [], spec, model) if named else None,
        command.Membership(attack, classifier, shadows, chosen_seed(seed)),
        public=public,
        others=others,
        fields=Fields(text=text_field, label=label_field),
        figure=target_of(figure, records, spec, model, public, others, force=force),
        without_guarantee=without_guarantee,
        as_json=as_json,
    )


@audit.command()
def authorship(
    records: Annotated[Path, file_argument(metavar="RECORDS", help="Texts of known authors, several of each.")],
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    public: PublicOption = None,
    released: Annotated[
        Path | None,
        file_option("--released", help="Releases of all RECORDS in their order, instead of a mechanism."),
    ] = None,
    text_field: TextFieldOption = "text",
    author_field: Annotated[str | None, typer.Option("--author-field", help="Field of the author.")] = None,
    label_field: LabelFieldOption = None,
    train_texts: Annotated[int, typer.Option("--train-texts", help="Texts of each author to learn from.")] = 20,
    attacked_texts: Annotated[int, typer.Option("--attacked-texts", help="Texts of each author to attack.")] = 10,
    bundle: Annotated[int, typer.Option("--bundle", help="Texts of one author that are attributed together.")] = 1,
    delta: DeltaOption = 0.0,
    seed: SeedOption = None,
    without_guarantee: Annotated[
        bool, typer.Option("--without-guarantee", help="Try a mechanism that guarantees nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Who of the known authors wrote a privatized text? Always beside how much of the text is left."""
    from dptext.cli import audit_authorship as command
    from dptext.cli.fit import chosen_seed
    from dptext.cli.privatize import chosen
    from dptext.text.records import Fields

    named = mechanism is not None or spec is not None or model is not None or bool(settings)
    code = command.run(
        records,
        chosen(mechanism, settings or [], spec, model) if named else None,
        command.Authorship(train_texts, attacked_texts, bundle, delta, chosen_seed(seed)),
        public=public,
        released=released,
        fields=Fields(text=text_field, author=author_field, label=label_field),
        without_guarantee=without_guarantee,
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def trait(
    first: FirstSetArgument,
    second: SecondSetArgument,
    mechanism: MechanismOption = None,
    settings: SetOption = None,
    spec: SpecOption = None,
    model: ModelOption = None,
    public: PublicOption = None,
    released_a: Annotated[
        Path | None,
        file_option("--released-a", help="Releases of all of A in its order, instead of a mechanism."),
    ] = None,
    released_b: Annotated[Path | None, file_option("--released-b", help="Releases of all of B in its order.")] = None,
    text_field: TextFieldOption = "text",
    label_field: LabelFieldOption = None,
    group_field: Annotated[
        str | None,
        typer.Option("--group-field", help="Field of the document or author, none of which is on both sides."),
    ] = None,
    attacker: Annotated[
        list[str] | None,
        typer.Option("--attacker", help="tfidf, linear, mlp, transformer (slow). Repeatable; the first 3 by default."),
    ] = None,
    training: Annotated[int, typer.Option("--training", help="Texts of each set to learn from.")] = 1000,
    attacked: Annotated[int, typer.Option("--attacked", help="Texts of each set to attack.")] = 500,
    epochs: Annotated[int, typer.Option("--epochs", help="Of the transformer.")] = 1,
    top_layers: Annotated[int, typer.Option("--top-layers", help="Layers of the transformer that learn.")] = 2,
    delta: DeltaOption = 0.0,
    claim: Annotated[
        float | None,
        typer.Option("--claim", help="Try this epsilon of the two sets at --delta (a divergence speaks of 8e-5)."),
    ] = None,
    seed: SeedOption = None,
    without_guarantee: Annotated[
        bool, typer.Option("--without-guarantee", help="Try a mechanism that guarantees nothing.")
    ] = False,
    out: Annotated[Path | None, output_option("--out", help="File for the result as JSON.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """From which of two sets does a redacted text come? It measures, and guarantees nothing."""
    from dptext.cli import audit_trait as command
    from dptext.cli.fit import chosen_seed
    from dptext.cli.privatize import chosen
    from dptext.text.records import Fields

    named = mechanism is not None or spec is not None or model is not None or bool(settings)
    seed = chosen_seed(seed)
    code = command.run(
        command.Sources(first, second, (released_a, released_b), public),
        chosen(mechanism, settings or [], spec, model) if named else None,
        command.Trait(training, attacked, command.named(attacker), epochs, top_layers, delta, claim, seed),
        fields=Fields(text=text_field, author=group_field, label=label_field),
        without_guarantee=without_guarantee,
        out=target_of(out, first, second, spec, model, public, released_a, released_b, force=force),
        as_json=as_json,
    )
    raise typer.Exit(code)


@audit.command()
def divergence(
    first: FirstSetArgument,
    second: SecondSetArgument,
    public: Annotated[
        Path,
        file_option(
            "--public",
            help="Other texts, redacted as A and B are, none of their originals: they fix the space.",
        ),
    ],
    text_field: TextFieldOption = "text",
    embedding: Annotated[
        str, typer.Option("--embedding", help="sentence, glove, tfidf, or the folder of a sentence encoder.")
    ] = "sentence",
    delta: DeltaOption = 8e-5,
    alphas: Annotated[
        str, typer.Option("--alphas", help="Orders of the divergence; the published ones are 1.1,10,20,30,50.")
    ] = "1.1,1.5,2,3,5,10,20,30,50",
    components: Annotated[int, typer.Option("--components", help="Main directions of --public that are kept.")] = 64,
    permutations: Annotated[int, typer.Option("--permutations", help="Random relabellings behind each null.")] = 20,
    attack_accuracy: Annotated[
        str | None,
        typer.Option("--attack-accuracy", help="VALUE or VALUE,LOW,HIGH of an attack, as `dptext audit trait` gives."),
    ] = None,
    seed: SeedOption = None,
    out: Annotated[Path | None, folder_option("--out", help="Folder for the figures and the JSON.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """How far apart are two sets of texts in one embedding? A measurement: no upper bound, not privacy."""
    from dptext.audits.divergence.settings import DivergenceSettings
    from dptext.cli import audit_divergence as command
    from dptext.cli.fit import chosen_seed
    from dptext.text.records import Fields

    settings = DivergenceSettings(
        alphas=command.orders(alphas),
        delta=delta,
        components=components,
        permutations=permutations,
        seed=chosen_seed(seed),
    )
    command.run(
        command.Compared(first, second, public, embedding, attack_accuracy, out, force),
        settings,
        fields=Fields(text=text_field),
        as_json=as_json,
    )
