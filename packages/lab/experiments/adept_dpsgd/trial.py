"""ADePT trained on 5,000 private texts of SNIPS with DP-SGD at (8, 1e-5), beside plain and public-only training.

    python packages/lab/experiments/adept_dpsgd/trial.py --out build/adept_dpsgd

Rows (--only takes some of them, so that they can run side by side): `public`; `training8`, DP-SGD alone at 8;
`composed8`, DP-SGD and release together at 8; `plain`, the same network without DP-SGD; `published`, the paper's.
Vocabulary and first training from a public fifth of the distinct texts. Reported: label kept by releases of the
training texts, the membership AUC of the reconstruction loss (5,000 members against 5,000 others), the composed
certificate and the seconds of one thread. Finds SNIPS by DPTEXT_DATA (default ../shared/data beside the checkout).
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from dptext import Candidates, LabelOnly, Record, Release, privatize
from dptext.audits.membership.attacks import from_scores
from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.estimates import clopper_pearson
from dptext.mechanism import FitProgress
from dptext.privacy import accounting
from dptext.privacy.guarantee import Guarantee
from dptext.sampling.clipping import clip
from dptext.sampling.randomness import seeded
from dptext.types import Json
from dptext.utility.tables import CANDIDATES, LABEL_ONLY_ROWS, baselines, utility_table
from dptext_lab.adept.dpsgd import AdeptDpSgd, AdeptDpSgdMechanism
from dptext_lab.adept.net import EpochProgress
from dptext_lab.adept.net.model import AnnotatedModel
from dptext_lab.adept.net.training import Schedule, train
from dptext_lab.adept.published import PublishedAdept, PublishedAdeptMechanism

sys.path.append(str(Path(__file__).parents[1]))
from common import utterances, write_json

SEED = 20250101
DELTA = 1e-5
#: Members in the table of what was kept.
SHOWN = 1000
Fitted: TypeAlias = AdeptDpSgdMechanism | PublishedAdeptMechanism
#: Settings that can be changed on the command line.
TUNED = {
    "steps": int,
    "sampling_rate": float,
    "gradient_clip": float,
    "private_rate": float,
    "epochs": int,
    "latent_dim": int,
    "hidden": int,
}


def split(records: Sequence[Record], n: int) -> tuple[list[Record], list[Record], list[Record]]:
    """A public fifth, n members, n others."""
    order = np.random.default_rng(SEED).permutation(len(records))
    first = len(records) // 5
    parts = order[:first], order[first : first + n], order[first + n : first + 2 * n]
    public, members, others = ([records[i] for i in part] for part in parts)
    return public, members, others


def say(text: str) -> None:
    """One line of progress."""
    print(f"[{time.process_time():7.0f} s of processor] {text}", flush=True)


def fitting(at: FitProgress) -> None:
    """Print the progress of every epoch, or of every 25th step."""
    if at.unit == "epochs" or at.done % 25 == 0:
        say(f"{at.done} of {at.total} {at.unit} {at.note}")


def epochs(progress: EpochProgress) -> None:
    """Print the progress of every epoch."""
    say(f"epoch {progress.epoch} of {progress.epochs}: loss {progress.loss:.3f}, held out {progress.held_out:.3f}")


def privately_trained(spec: AdeptDpSgd, public: Sequence[Record], private: list[Record]) -> AdeptDpSgdMechanism:
    """The mechanism trained on private text with DP-SGD."""
    return spec.fit(public=public, private=private, seed=SEED, on_progress=fitting)


def plainly_trained(public: AdeptDpSgdMechanism, members: Sequence[Record], rounds: int) -> AdeptDpSgdMechanism:
    """Train a network further on the members without clipping or noise: what DP-SGD is held against.

    The class of the result is that of the private one for the sake of its methods; its guarantee does not hold, and
    none is stated for this row.
    """
    fitted = public.model
    model = copy.deepcopy(fitted.model)
    targets = fitted.tokens.sequences(members)
    schedule = Schedule(epochs=rounds, patience=rounds, learning_rate=public.spec.learning_rate)
    noise, source = public.spec.vector_noise, seeded(SEED)
    train(
        model,
        fitted.inputs(members),
        targets,
        schedule=schedule,
        seed=SEED,
        noise=lambda latents: clip(noise.release(latents, source), public.spec.clip_norm),
        on_epoch=epochs,
    )
    return AdeptDpSgdMechanism(
        public.spec,
        AnnotatedModel(model, fitted.tokens, None, training="private text, without protection"),
    )


def label_kept(records: Sequence[Record], releases: Sequence[Release[str]]) -> str:
    """Share of releases with the label of their own record, with its interval."""
    kept = sum(record.label == release.label for record, release in zip(records, releases, strict=True))
    return str(clopper_pearson(kept, len(records)))


def stated(guarantee: Guarantee) -> Json:
    """A guarantee in few words."""
    at = f" at delta {guarantee.delta:g}" if guarantee.delta else ""
    return f"{guarantee.epsilon:.3f}{at}, {guarantee.relation}, {guarantee.trust}"


def describe(
    mechanism: Fitted,
    control: Fitted,
    reference: AdeptDpSgdMechanism,
    members: list[Record],
    others: list[Record],
) -> dict[str, Json]:
    """Labels and membership; `control` was trained in the same way on halves of members and others."""
    both = members, others
    losses, mixed = ([-model.reconstruction_losses(records) for records in both] for model in (mechanism, control))
    known = [-reference.reconstruction_losses(records) for records in both]
    attack = from_scores(losses[0], losses[1], name="minus the reconstruction loss", control=(mixed[0], mixed[1]))
    # How much a text gained by the training: a score calibrated by its difficulty (Watson et al. 2022).
    gained = from_scores(
        losses[0] - known[0],
        losses[1] - known[1],
        name="gain over the public model",
        control=(mixed[0] - known[0], mixed[1] - known[1]),
    )
    found: dict[str, Json] = {
        "loss of members": round(-float(losses[0].mean()), 3),
        "loss of others": round(-float(losses[1].mean()), 3),
        "membership AUC": str(attack.main.auc),
        "membership AUC, control": str(attack.control.auc),
        "membership AUC of the gain": str(gained.main.auc),
        "membership AUC of the gain, control": str(gained.control.auc),
        "TPR at 1% FPR of the gain": str(gained.main.tprs[1]),
    }
    if isinstance(mechanism, AdeptDpSgdMechanism):
        released = list(privatize(members, mechanism))
        found["label kept, members"] = label_kept(members, released)
        found["label kept, others"] = label_kept(others, list(privatize(others, mechanism)))
        found["distinct texts"] = len({release.output for release in released})
        loose = replace(mechanism.spec, epsilon=500.0, noise="privunit")
        nearly = AdeptDpSgdMechanism(loose, mechanism.model)
        found["label kept, members, release epsilon 500"] = label_kept(members, list(privatize(members, nearly)))
    return found


def baseline_rows(
    private: list[Record], public: list[Record], labels: tuple[str, ...], epsilon: float
) -> dict[str, Sequence[Release[str]]]:
    """The rows that every table must have, at the epsilon of the release."""
    rows: dict[str, Sequence[Release[str]]] = dict(baselines(private, public, labels=labels, seed=SEED))
    random = LabelOnly(labels, epsilon)
    for name, spec in zip(LABEL_ONLY_ROWS, (random, replace(random, text="medoid", embedder="sentence")), strict=True):
        rows[name] = list(privatize(private, spec.fit(public=public)))
    nearest = Candidates(epsilon, labels, label_weight=3.0).fit(public=public, seed=SEED)
    return {**rows, CANDIDATES: list(privatize(private, nearest))}


def released_by(mechanism: Fitted, records: list[Record]) -> list[Release[str]]:
    """One release of each record."""
    without = isinstance(mechanism, PublishedAdeptMechanism)
    return list(privatize(records, mechanism, without_guarantee=without))


def main() -> int:
    """Train, attack, print and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/adept_dpsgd"))
    parser.add_argument("--only", default="public,training8,composed8,plain,published")
    parser.add_argument("--private", type=int, default=5000)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--release-epsilon", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=20, help="epochs of plain training on the private texts")
    for name, kind in TUNED.items():
        parser.add_argument(f"--{name}", type=kind)
    given = parser.parse_args()
    torch.set_num_threads(1)
    wanted = given.only.split(",")
    public, members, others = split(utterances("snips"), given.private)
    labels = tuple(sorted({str(record.label) for record in public}))
    tuned = {name: getattr(given, name) for name in TUNED if getattr(given, name) is not None}
    base = replace(AdeptDpSgd(given.release_epsilon, labels, max_tokens=20, epochs=40, delta=DELTA), **tuned)
    alone = accounting.calibrate(base.training_event, given.epsilon, delta=DELTA)
    specs = {
        "training8": replace(base, noise_multiplier=alone.noise_multiplier),
        "composed8": base.calibrate(given.epsilon, delta=DELTA),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    say(f"{len(public)} public, {len(members)} members, {len(others)} others")
    reference = base.fit(public=public, seed=SEED, on_progress=fitting)
    half = len(members) // 2
    mixed = members[:half] + others[:half]
    rows = baseline_rows(members[:SHOWN], public, labels, given.release_epsilon)
    published = PublishedAdept(variance=1.0, labels=labels, max_tokens=20, epochs=given.rounds)
    trained: dict[str, Callable[[list[Record]], Fitted]] = {
        "public": lambda _: reference,
        "plain": lambda texts: plainly_trained(reference, texts, given.rounds),
        "published": lambda texts: published.fit(private=texts, seed=SEED, on_progress=fitting),
        **{name: partial(privately_trained, spec, public) for name, spec in specs.items()},
    }
    for name in wanted:
        row: dict[str, Json] = {}
        if name in specs:
            row |= {
                "training": stated(specs[name].training_guarantee()),
                "release": stated(specs[name].release_guarantee()),
                "composed certificate": stated(specs[name].guarantee()),
                "noise multiplier": round(specs[name].noise_multiplier, 3),
            }
        elif name == "published":
            row["certificate"] = published.guarantee().reason
        began, processor = time.monotonic(), time.process_time()
        mechanism = trained[name](members)
        row |= {
            "seconds to fit": round(time.monotonic() - began),
            "seconds of processor to fit": round(time.process_time() - processor),
        }
        row |= describe(mechanism, trained[name](mixed), reference, members, others)
        epsilon = specs[name].epsilon if name in specs else None if name == "published" else given.release_epsilon
        title = "no guarantee" if epsilon is None else f"release at {epsilon:g}"
        rows[f"{name} ({title})"] = released_by(mechanism, members[:SHOWN])
        say(f"{name}: {json.dumps(row, indent=1)}")
        told = {"private": given.private, "rounds": given.rounds, "release_epsilon": given.release_epsilon, **tuned}
        kept = {"settings": told, **row}
        write_json(given.out / f"{name}.json", kept)
    table = utility_table(
        rows, private=members[:SHOWN], test=others[:SHOWN], embedder=load_sentence_encoder(), seed=SEED
    )
    write_json(given.out / "table.json", table.to_dict())
    print(
        f"\nThe first {SHOWN} members. label_only and candidates at epsilon {given.release_epsilon:g}, all of it; what "
        f"the others spent on training besides is not in their titles.\n\n{table.to_markdown()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
