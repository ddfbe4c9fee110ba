"""The ADePT paper's protocol on one corpus: 50:50 split, auto-encoder on the training half, classifier, membership.

Krishna, Gupta and Dupuy 2021, section 4. What the paper leaves open is stated at `Settings` and `Protocol`.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from written import changes, slot_words

from dptext import Fields, audits, read_records
from dptext.audits.membership.attacks import from_scores, shokri
from dptext.audits.membership.lira import lira
from dptext.audits.membership.members import Scorer, Trainer, Transform, blind_scores, halves_of_both, split_members
from dptext.embeddings.sentence_encoder import load_sentence_encoder
from dptext.mechanisms.candidates.candidates import Candidates
from dptext.mechanisms.candidates.label_only import LabelOnly
from dptext.sampling.randomness import seeded
from dptext.text.records import Record, Release
from dptext.types import Json
from dptext.utility.classification import evaluate
from dptext.utility.fidelity import fidelity
from dptext.utility.tables import baselines
from dptext_lab.adept.net.fitting import fit_model
from dptext_lab.adept.published import PublishedAdept, PublishedAdeptMechanism
from dptext_lab.baselines.words import PrivatePhrases, PrivatePhrasesMechanism
from dptext_lab.classifiers.intent import train_intent_classifier

sys.path.append(str(Path(__file__).parents[1]))
from common import Remembering

#: The label of a release that regenerated none: its row is dropped from the training of classifiers.
NO_LABEL = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a result depends on; written beside the results.

    Attributes:
        seed: of everything.
        limit: distinct records at most, 0 for all.
        auto_encoder: epochs by corpus, at most; the weights of the best epoch on held-out texts (5%) are kept.
        patience: epochs without a better loss on those, by corpus, after which training ends.
        classifier: epochs of the intent classifier by corpus.
        min_count: words that occur less often in the training half cannot be written, by corpus.
        max_tokens, hidden, embedding, learning_rate: see `PublishedAdept`.
        sample: records on which fidelity is measured (the first of the training half, which is in random order).
        shadows: of LiRA.
    """

    seed: int = 0
    limit: int = 0
    auto_encoder: tuple[tuple[str, int], ...] = (("atis", 50), ("snips", 20))
    patience: tuple[tuple[str, int], ...] = (("atis", 5), ("snips", 3))
    classifier: tuple[tuple[str, int], ...] = (("atis", 8), ("snips", 4))
    min_count: tuple[tuple[str, int], ...] = (("atis", 1), ("snips", 2))
    max_tokens: int = 24
    hidden: int = 128
    embedding: int = 64
    learning_rate: float = 5e-3
    sample: int = 1000
    shadows: int = 16

    def to_dict(self) -> dict[str, Json]:
        """Return JSON-able data."""
        found: dict[str, Json] = json.loads(json.dumps(asdict(self)))
        return found


class Protocol:
    """One corpus, split; its auto-encoders are trained once and kept under `models`.

    Attributes:
        members: the training half, without duplicates.
        non_members: the other half: test records of the classifier, non-members of the attack.
        shadow: half of the members and half of the non-members: what the attacker trains a shadow on. No records are
            left beside those that the target's classifier is trained on or tested on, so the attacker knows all
            records; it does not know which are members.
        others: the rest, the shadow's non-members.
        public: half of the other half. The paper has no public text; for the rows that need some this stands for it.
        test: the rest of the other half, on which those rows are tested: no classifier is tested on its own texts.
    """

    def __init__(self, corpus: str, data: Path, out: Path, settings: Settings, log: Callable[[str], None]) -> None:
        self.corpus, self.settings, self._log = corpus, settings, log
        path = data / corpus / f"{corpus}.jsonl.gz"
        records = list(read_records(path, Fields(text="text", id="id", label="label")))
        first = split_members(records, seed=settings.seed)
        if settings.limit:
            kept = [*first.members, *first.non_members][: settings.limit]
            first = split_members(kept, seed=settings.seed)
        self.duplicates = first.duplicates
        self.members, self.non_members = first.members, first.non_members
        self.labels = tuple(sorted({record.label for record in records if record.label}))
        self.shadow = halves_of_both(self.members, self.non_members, np.random.default_rng(settings.seed + 1))
        inside = {record.id for record in self.shadow}
        self.others = [record for record in (*self.members, *self.non_members) if record.id not in inside]
        least = min(len(self.shadow), len(self.others))
        self.shadow, self.others = self.shadow[:least], self.others[:least]
        middle = len(self.non_members) // 2
        self.public, self.test = self.non_members[:middle], self.non_members[middle:]
        self._targets = {record.id for record in self.members}
        self._models = out / "models"
        self._embedder = Remembering(load_sentence_encoder)
        self._phrases: dict[float, PrivatePhrasesMechanism] = {}
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = map(json.loads, file)
            self.slots = {row["id"]: slot_words(row["text"].split(), row["slots"]) for row in rows}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of texts by the public sentence encoder, `(n_texts, 384)`."""
        return self._embedder.embed(texts)

    # ------------------------------------------------------------------ models

    def spec(self, clip: float, noise: str = "laplace", variance: float = 1.0) -> PublishedAdept:
        """The published system at one point."""
        chosen = self.settings
        return PublishedAdept(
            variance=variance,
            noise="gaussian" if noise == "gaussian" else "laplace",
            labels=self.labels,
            clip_norm=clip,
            max_tokens=chosen.max_tokens,
            hidden=chosen.hidden,
            embedding=chosen.embedding,
            min_count=dict(chosen.min_count)[self.corpus],
            epochs=dict(chosen.auto_encoder)[self.corpus],
            patience=dict(chosen.patience)[self.corpus],
            learning_rate=chosen.learning_rate,
        )

    def auto_encoder(self, spec: PublishedAdept, half: str) -> PublishedAdeptMechanism:
        """The system with the model of the target's or the shadow's half; noise plays no part in it."""
        folder = self._models / f"{self.corpus}_C{spec.clip_norm:g}_{half}"
        if not folder.is_dir():
            records = self.members if half == "target" else self.shadow
            losses: list[dict[str, float]] = []
            # As `spec.fit` does, which tells no losses of texts that might be private. These corpora are public.
            model = fit_model(
                spec.model_settings,
                records,
                noise=None,
                seed=self.settings.seed,
                on_epoch=lambda done: (
                    losses.append({"train": done.loss, "held out": done.held_out}),
                    self._log(f"{folder.name} epoch {done.epoch}/{done.epochs} {done.loss:.3f} {done.held_out:.3f}"),
                ),
            )
            self._models.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(dir=self._models, prefix=".draft-"))
            PublishedAdeptMechanism(spec, model).save(draft)
            (draft / "losses.json").write_text(json.dumps(losses), "utf-8")
            if folder.is_dir():  # another process was faster
                shutil.rmtree(draft)
            else:
                draft.rename(folder)
        return spec.load(folder)

    def losses(self, clip: float, half: str) -> list[dict[str, float]]:
        """Loss per token of each epoch of a trained model."""
        found: list[dict[str, float]] = json.loads(
            (self._models / f"{self.corpus}_C{clip:g}_{half}" / "losses.json").read_text("utf-8")
        )
        return found

    def rewriting(self, spec: PublishedAdept, *, models: Literal["two", "one", "own"] = "two") -> Transform:
        """ADePT as the transform of training records.

        With `two` models the target's records go through the target's and others through the shadow's: the control's
        records are a random half of members and non-members, and so are the shadow's, whose model knows nothing of who
        is a member and serves both. With `one` all go through the target's. With `own` each set of records trains a
        model of its own, as the target's has: what a model knows by heart is then part of what is attacked.
        """
        trained: dict[frozenset[str], PublishedAdeptMechanism] = {
            frozenset(self._targets): self.auto_encoder(spec, "target")
        }
        shadow = None if models == "own" else self.auto_encoder(spec, "target" if models == "one" else "shadow")

        def transform(records: Sequence[Record], seed: int) -> list[Release[str]]:
            own = frozenset(record.id for record in records)
            chosen = trained.get(own) or shadow
            if chosen is None:
                chosen = trained[own] = spec.fit(private=records, seed=seed)
                self._log(f"auto-encoder {len(trained)} of its own")
            return [
                Release(release.id, release.output, release.label or NO_LABEL, release.kept)
                for release in chosen.privatize(records, seeded(seed))
            ]

        return transform

    def replacing(self, variance: float) -> Transform:
        """The paper's baseline: rare words replaced; it knows no labels, so the original's is kept as it is."""
        mechanism = self._phrases.setdefault(variance, PrivatePhrases(variance=variance).fit())

        def transform(records: Sequence[Record], seed: int) -> list[Release[str]]:
            return [
                Release(release.id, release.output, record.label, release.kept)
                for record, release in zip(records, mechanism.privatize(records, seeded(seed)), strict=True)
            ]

        return transform

    # ------------------------------------------------------------------ measures

    def trainer(self, times: int = 1) -> Trainer:
        """Trains the paper's intent classifier on the rows that have a label, for so many times the epochs."""
        epochs = times * dict(self.settings.classifier)[self.corpus]

        def train(texts: Sequence[str], labels: Sequence[str], seed: int) -> Scorer:
            kept = [(text, label) for text, label in zip(texts, labels, strict=True) if label != NO_LABEL]
            return train_intent_classifier(
                [text for text, _ in kept], [own for _, own in kept], seed=seed, epochs=epochs
            )

        return train

    def released(
        self, releases: Sequence[Release[str]], train: Trainer, test: Sequence[Record]
    ) -> tuple[Scorer, dict[str, Json]]:
        """A classifier trained on the releases of the members, and what they are good for."""
        seed = self.settings.seed
        target = train([r.output for r in releases], [r.label or NO_LABEL for r in releases], seed)
        size = self.settings.sample
        return target, {
            "records": len(releases),
            "dropped": sum(not release.label for release in releases),
            "accuracy": evaluate(target, test, seed=seed).to_dict(),
            "fidelity": fidelity(self.members[:size], releases[:size], embedder=self._embedder, seed=seed).to_dict(),
            "written": dict(changes(self.members, releases, self.slots)),
        }

    def attacked(self, transform: Transform | None, *, times: int = 1) -> dict[str, Json]:
        """Utility and membership of a classifier trained on the transform of the members, or on the originals."""
        train = self.trainer(times)
        originals = [Release(record.id, record.text, record.label, record.kept) for record in self.members]
        releases = originals if transform is None else transform(self.members, self.settings.seed + 2)
        target, found = self.released(releases, train, self.non_members)
        result = shokri(
            target,
            self.members,
            self.non_members,
            shadow_train=self.shadow,
            shadow_out=self.others,
            train=train,
            transform=transform,
            seed=self.settings.seed,
        )
        return {**found, "membership": result.to_dict()}

    def likelihood_ratios(self, transform: Transform | None) -> dict[str, Json]:
        """LiRA against the classifier."""
        originals = [Release(record.id, record.text, record.label, record.kept) for record in self.members]
        releases = originals if transform is None else transform(self.members, self.settings.seed + 2)
        train = self.trainer()
        target, found = self.released(releases, train, self.non_members)
        result = lira(
            target,
            self.members,
            self.non_members,
            train=train,
            transform=transform,
            seed=self.settings.seed,
            shadows=self.settings.shadows,
            on_progress=lambda done, of: self._log(f"LiRA: {done} of {of} models"),
        )
        return {**found, "lira": result.to_dict()}

    def baseline(self, row: str) -> dict[str, Json]:
        """A row that looks at nothing private."""
        made = baselines(self.members, self.public, labels=self.labels, seed=self.settings.seed)
        return self.released(made[row], self.trainer(), self.test)[1]

    def label_only(self, text: str, epsilon: float) -> dict[str, Json]:
        """All of epsilon on the label, and a public text of that label; labels without one are not in the label set."""
        present = {record.label for record in self.public}
        spec = LabelOnly(
            tuple(label for label in self.labels if label in present),
            epsilon,
            "medoid" if text == "medoid" else "random",
        )
        mechanism = spec.fit(public=self.public)
        releases = mechanism.privatize(self.members, seeded(self.settings.seed + 2))
        return self.released(releases, self.trainer(), self.test)[1]

    def candidates(self, epsilon: float) -> dict[str, Json]:
        """The public text most like the private one, labels first."""
        present = {record.label for record in self.public}
        known = tuple(label for label in self.labels if label in present)
        mechanism = Candidates(epsilon, known, label_weight=3.0).fit(public=self.public, seed=self.settings.seed)
        releases = mechanism.privatize(self.members, seeded(self.settings.seed + 2))
        return self.released(releases, self.trainer(), self.test)[1]

    def model(self, clip: float) -> dict[str, Json]:
        """The auto-encoder by itself, without noise: pairs of latents, reconstruction, membership by its loss."""
        spec = self.spec(clip)
        fitted, shadow = (self.auto_encoder(spec, half) for half in ("target", "shadow"))
        latents = fitted.latent(self.members)
        dim = latents.shape[1]
        share = audits.violating_pairs(latents, audits.Claim(dim=dim, clip_norm=clip), max_pairs=1_000_000)
        some = latents[:1000]
        distances = np.abs(some[:, None, :] - some[None, :, :]).sum(axis=2)[np.triu_indices(len(some), 1)] / (2 * clip)
        result: dict[str, Json] = {
            "dim": dim,
            "violating": share.to_dict(),
            "distance/2C": {"mean": float(distances.mean()), "max": float(distances.max()), "bound": float(dim**0.5)},
            "norm/C": float(np.linalg.norm(latents, axis=1).mean() / clip),
            "losses": [{**loss} for loss in self.losses(clip, "target")],
            "without noise": {},
        }
        without: dict[str, Json] = {}
        for name, records in (("members", self.members), ("non-members", self.non_members)):
            written = fitted.write(fitted.latent(records))
            releases = [
                Release(record.id, text, label or NO_LABEL)
                for record, (label, text) in zip(records, written, strict=True)
            ]
            without[name] = dict(changes(records, releases, self.slots))
        result["without noise"] = without
        scores = [-fitted.reconstruction_losses(records) for records in (self.members, self.non_members)]
        others = [-shadow.reconstruction_losses(records) for records in (self.members, self.non_members)]
        result["membership"] = from_scores(
            scores[0],
            scores[1],
            name="minus the reconstruction loss",
            control=(others[0], others[1]),
            baselines={"no look at the model": blind_scores(self.members, self.non_members, seed=self.settings.seed)},
        ).to_dict()
        return result
