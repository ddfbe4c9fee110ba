"""Parts that the studies share: the bench, references, and what releases kept of their originals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dptext.audits.bounds import reconstruction_bound
from dptext.embeddings.embedder import Embedder, embed_distinct
from dptext.estimates import Estimate
from dptext.mechanism import Mechanism, Spec
from dptext.sampling.randomness import seeded
from dptext.text.records import Record, Release
from dptext.utility.fidelity import Fidelity, fidelity
from dptext.utility.tables import ORIGINAL, PUBLIC_ONLY, RANDOM, baselines
from dptext_lab.papers.table import Number, PaperRow
from dptext_lab.papers.texts import Texts

LABEL: Final = "label kept"
COSINE: Final = "cosine"
NO_GUARANTEE: Final = "none"

#: Releases of all private texts by the name of their row.
Rows = Mapping[str, Sequence[Release[str]]]


class Fit(Protocol):
    """Fits a spec and shows the progress, as `dptext.cli.chosen.fitted_on` does."""

    def __call__(
        self, spec: Spec, *, public: Sequence[Record] = ..., private: Sequence[Record] = ..., seed: int, title: str
    ) -> Mechanism[str]:
        """Return the fitted mechanism."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The tools of a study: the public embedder of cosines and attackers, a seed, a fit, and a line on stderr."""

    embedder: Embedder
    seed: int
    fit: Fit
    say: Callable[[str], None]

    def released(self, mechanism: Mechanism[str], records: Sequence[Record]) -> list[Release[str]]:
        """Release each record once, by the seed, because nothing is released to anybody."""
        return [*mechanism.privatize(records, seeded(self.seed))]

    def references(self, texts: Texts) -> dict[str, list[Release[str]]]:
        """Return the originals, public texts and random words as releases of the private texts."""
        return baselines(texts.private, texts.public, labels=texts.labels, seed=self.seed)

    def kept(self, private: Sequence[Record], rows: Rows) -> dict[str, Fidelity]:
        """Compare the releases of each row with their originals. Each text is embedded once."""
        written = (release.output for releases in rows.values() for release in releases)
        space = embed_distinct([*(record.text for record in private), *written], self.embedder, single=True)
        return {name: fidelity(private, releases, embedded=space, seed=self.seed) for name, releases in rows.items()}


def reference(name: str, numbers: Mapping[str, Number]) -> PaperRow:
    """Return the row of a reference, with its epsilon: originals have none, what reads nothing private has 0."""
    return PaperRow(name, {ORIGINAL: (NO_GUARANTEE,), PUBLIC_ONLY: ("0",), RANDOM: ("0",)}[name], numbers)


def linkage(found: Fidelity) -> str:
    """Return the name of the attack that looks for the original which is most like a release."""
    return f"named of {found.candidates}"


def allowed(found: Fidelity, epsilon: float) -> str:
    """Say what the attack by likeness does, and how often any attack may succeed at an epsilon of a text."""
    most = reconstruction_bound(epsilon, found.candidates)
    return (
        f"{linkage(found)}: the share of the releases whose own original is the most like it of so many. Epsilon "
        f"{epsilon:g} a text allows any attack {most:.3f}: the numbers are of this attack alone."
    )


def rewritten(found: Fidelity) -> dict[str, Estimate | None]:
    """Return what a rewriting kept, and how often the original most like it is its own."""
    return {LABEL: found.label_kept, COSINE: found.cosine, linkage(found): found.own_first}
