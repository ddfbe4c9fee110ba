"""ADePT (Krishna, Gupta and Dupuy 2021): utterances rewritten through a noisy latent, and through public utterances."""

from dataclasses import dataclass
from typing import Final

from dptext.audits.membership.attacks import Measure, from_scores
from dptext.estimates import Estimate
from dptext.mechanism import HasReconstruction, Mechanism
from dptext.sampling.randomness import seeded
from dptext.text.records import Record
from dptext.types import Json
from dptext.utility.tables import PUBLIC_ONLY
from dptext_lab.adept.latent import EncoderName
from dptext_lab.adept.published import PublishedAdept
from dptext_lab.adept.sound import Adept
from dptext_lab.papers.measuring import COSINE, LABEL, NO_GUARANTEE, Bench, allowed, linkage, reference, rewritten
from dptext_lab.papers.table import REFERENCES, Paper, PaperRow, compared, percent
from dptext_lab.papers.texts import Texts, cut, sampled
from dptext_lab.refutation.attack import reconstruct

EPSILON: Final = 10.0
PUBLISHED: Final = "as published"
SOUND: Final = "made sound"
#: The column of the attack by the loss of the auto-encoder: was a text in its training?
MEMBER: Final = "member AUC"


@dataclass(frozen=True, slots=True)
class AdeptSizes:
    """Sizes of the study. `held` private texts train nothing: an attack must tell them from those that do."""

    private: int = 400
    held: int = 200
    public: int = 600
    pool: int = 100
    trials: int = 500
    codebook: int = 400
    hidden: int = 128
    epochs: int = 25
    sound_hidden: int = 128
    sound_epochs: int = 14
    encoder: EncoderName = "sentence"


def built_in(sizes: AdeptSizes, seed: int) -> Texts:
    """Return built-in requests with their labels."""
    return sampled(sizes.private + sizes.held, sizes.public, seed)


def study(texts: Texts, bench: Bench, sizes: AdeptSizes | None = None) -> Paper:
    """Train ADePT as published on the private texts, and its sound form on the public ones; compare the releases."""
    sizes = sizes or AdeptSizes()
    texts = cut(texts, sizes.private + sizes.held, sizes.public)
    labels = texts.labels
    n_held = len(texts.private) * sizes.held // (sizes.private + sizes.held)
    private, held = texts.private[n_held:], texts.private[:n_held]
    published = PublishedAdept(
        claimed_epsilon=EPSILON, labels=labels, hidden=sizes.hidden, embedding=sizes.hidden, epochs=sizes.epochs
    )
    sound = Adept(
        epsilon=EPSILON, labels=labels, codebook_size=sizes.codebook, hidden=sizes.sound_hidden,
        epochs=sizes.sound_epochs, encoder=sizes.encoder,
    )  # fmt: skip
    made = {
        PUBLISHED: bench.fit(published, private=private, seed=bench.seed, title="adept: training as published"),
        SOUND: bench.fit(sound, public=texts.public, seed=bench.seed, title="adept: training made sound"),
    }
    bench.say("adept: releases and attacks")
    shown = Texts(private, texts.public, texts.source)
    releases = {**bench.references(shown), **{name: bench.released(each, private) for name, each in made.items()}}
    kept = bench.kept(private, releases)
    named = linkage(kept[PUBLISHED])
    rows = [reference(name, rewritten(kept[name])) for name in REFERENCES]
    true = published.vector_noise.true_epsilon
    epsilons = {PUBLISHED: (NO_GUARANTEE, f"claims {EPSILON:g}"), SOUND: (f"{sound.guarantee().epsilon:g} a text",)}
    rows += [
        PaperRow(
            name,
            epsilons[name],
            {**rewritten(kept[name]), MEMBER: membership(mechanism, private, held, bench.seed)},
            name == SOUND,
        )
        for name, mechanism in made.items()
    ]
    seen = reconstruct(
        made[PUBLISHED], private[: sizes.pool], tops=(1,), trials=sizes.trials, randomness=seeded(bench.seed)
    )
    facts: dict[str, Json] = {
        "latent_named": seen.tops[0].to_dict(),
        "claimed_epsilon": EPSILON,
        "noise_epsilon": true,
        "epsilon": EPSILON,
    }
    facts |= {"dim": 2 * sizes.hidden, "private": len(private), "held": len(held), "public": len(texts.public)}
    own, claimed = rows[-1], rows[-2]
    public = rows[REFERENCES.index(PUBLIC_ONLY)]
    names = (LABEL, COSINE) if labels else (COSINE,)
    return Paper(
        name="adept",
        source="Krishna, Gupta and Dupuy 2021 (EACL)",
        claim="noise on a clipped latent hides a text at epsilon",
        instead="a private choice among public utterances; networks of public text: `adept`",
        answer=(
            (
                f"ADePT as published: no guarantee; made sound at epsilon {EPSILON:g} a text it has "
                f"{compared(own, public, names)}."
            ),
            (
                f"As published it claims epsilon {EPSILON:g}; its noise has an epsilon of {true:.4g} in "
                f"{2 * sizes.hidden} coordinates, and its network learned from the texts that it rewrites. It has "
                f"{compared(claimed, public, names)}."
            ),
            (
                f"Who sees the noisy latent finds the text among {seen.candidates} in "
                f"{percent(seen.tops[0].success)} of the trials. Who sees the release finds it by likeness among "
                f"{kept[SOUND].candidates} for {percent(claimed.numbers[named])} of the texts as published, and for "
                f"{percent(own.numbers[named])} made sound: a text that keeps more is found more often."
            ),
        ),
        columns=(*names, named, *([MEMBER] if held else [])),
        rows=tuple(rows),
        kept=COSINE,
        leaks=named,
        notes=(
            *texts.notes,
            f"{len(private):,} private, {len(held):,} held out, {len(texts.public):,} public texts: {texts.source}.",
            allowed(kept[SOUND], EPSILON),
            f"{MEMBER}: does the loss of the auto-encoder tell texts of its training from others? .5 is guessing.",
        ),
        facts=facts,
    )


def membership(
    mechanism: Mechanism[str], members: tuple[Record, ...], held: tuple[Record, ...], seed: int
) -> Estimate | None:
    """Return the AUC of telling members from held-out texts by the auto-encoder's loss; None where it has no loss."""
    if not held or not isinstance(mechanism, HasReconstruction):
        return None
    inside, outside = (-mechanism.reconstruction_losses(side) for side in (members, held))
    return from_scores(inside, outside, name="reconstruction loss", measure=Measure(seed=seed)).main.auc
