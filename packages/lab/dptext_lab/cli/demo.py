"""`dptext demo-adept`: ADePT on built-in texts, what it guarantees and keeps."""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.box import SIMPLE
from rich.table import Table

from dptext.audits.membership.attacks import PROXY, MembershipResult
from dptext.audits.membership.members import split_members
from dptext.cli.answers import short
from dptext.cli.audit.membership import attack_classifier
from dptext.cli.chosen import fitted_on
from dptext.cli.options import JsonOption
from dptext.cli.terminal import counted, plain_console, say
from dptext.cli.utility import Judged, cell, read_back, table
from dptext.mechanism import Mechanism
from dptext.runs.certificate import Certificate
from dptext.runs.files import privatize_file
from dptext.runs.plan import Plan
from dptext.runs.synthesized import Synthesized
from dptext.runs.synthesizing import synthesize
from dptext.text.records import LABEL_FIELD, Fields, Record, Release
from dptext.text.samples import SAMPLE_LABELS, sample_records
from dptext.text.writers import write_releases
from dptext.types import Json
from dptext.utility.tables import UtilityTable
from dptext_lab.adept.sound import Adept

EPSILON: Final = 10.0
#: Number of sample texts. The first half is public; of the second half the first `TEST` only test classifiers, and the
#: others are private.
RECORDS = 2400
TEST = 200
SHOWN = 8
SPEC = Adept(epsilon=EPSILON, labels=SAMPLE_LABELS, codebook_size=1000)
SEED: Final = 0
_COLUMNS: Final = ("label kept", "cosine", "own first of 100", "tokens kept", "accuracy")


@dataclass(frozen=True, slots=True)
class AdeptFindings:
    private: list[Record] = field(repr=False)
    releases: list[Release[str]]
    certificate: Certificate
    kept: UtilityTable
    leaked: dict[str, MembershipResult]
    corpus: Synthesized
    own_label: float


def demo(as_json: JsonOption = False) -> None:
    # Beside a busy process, two threads of small networks wait for each other. torch reads this when it is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = run()
    if as_json:
        print(json.dumps(_data(found), indent=2))
        return
    console = plain_console()
    samples = Table("original (generated, public)", f"released at epsilon {EPSILON:g}", box=SIMPLE, pad_edge=False)
    for record, release in zip(found.private[:SHOWN], found.releases, strict=False):
        samples.add_row(f"{record.label}: {record.text}", f"{release.label}: {release.output}")
    console.print(
        "ADePT made sound: each text, with its label, becomes one of the utterances that a decoder wrote from public "
        "text, the nearest more likely than others.\n"
    )
    console.print(samples)
    console.print(f"The certificate of the run:\n\n{found.certificate.explain()}")
    console.print(
        "\nWhat is left of the texts, beside the originals, the public text most like each (candidates, at the same "
        "epsilon), and rows that keep a label at most (below each number: its 95% interval):\n"
    )
    console.print(_kept(found.kept))
    console.print(_lesson(found.kept))
    console.print("Was a text in the training data of a classifier? Area under the curve; .5 is guessing:\n")
    console.print(_leaks(found.leaked))
    console.print(PROXY)
    console.print(
        f"\nWhere readers need what all texts say and no single one (dptext synthesize): epsilon 1 for all "
        f"{len(found.private):,} texts together.\n{found.corpus.sentences[0]}\n{len(found.corpus.releases):,} public "
        "texts leave, whose labels nobody looked at. The noisy sums give "
        f"{found.own_label:.0%} of them the label that they were written for."
    )
    print(
        "\nNext: dptext fit --mechanism adept --set epsilon=10 --set labels=a,b --public PUBLIC "
        "--label-field label --out MODEL\n      dptext privatize IN OUT --model MODEL --label-field label"
    )


def run() -> AdeptFindings:
    """Fit, privatize, compare and attack."""
    records = sample_records(RECORDS)
    half = RECORDS // 2
    public = records[:half]
    # A public text needs no privacy, and a classifier must not be tested on a text that it may have learned.
    private = [replace(record, id=str(i)) for i, record in enumerate(_fresh(records[half + TEST :], public))]
    test = _fresh(records[half : half + TEST], [*public, *private])
    say(f"{len(public):,} public texts are read, learned, and rewritten as a codebook; about a minute on two cores")
    mechanism = fitted_on(SPEC, public=public, seed=SEED, title="training")
    certificate, releases = _privatized(private, mechanism)
    say("utility: baselines and comparison")
    judged = Judged(SPEC.kind, private, releases, public, SAMPLE_LABELS, EPSILON, SEED)
    kept = table(judged, test=test, classifier="tfidf")
    split = split_members(private, seed=SEED)
    leaked = {
        name: attack_classifier(split, each, attack="shokri", classifier="tfidf", seed=SEED)[""]
        for name, each in {"the originals": None, "what was released": mechanism}.items()
    }
    say("a synthetic corpus")
    corpus = synthesize(private, public, epsilon=1, labels=list(SAMPLE_LABELS), about=1000)
    written = {record.text: record.label for record in public}
    own = sum(written[each.output] == each.label for each in corpus.releases) / len(corpus.releases)
    return AdeptFindings(private, releases, certificate, kept, leaked, corpus, own)


def _fresh(records: Sequence[Record], known: Sequence[Record]) -> list[Record]:
    texts = {record.text for record in known}
    return [record for record in records if record.text not in texts]


def _privatized(private: list[Record], mechanism: Mechanism[str]) -> tuple[Certificate, list[Release[str]]]:
    with tempfile.TemporaryDirectory() as folder, counted("privatizing", "texts") as tell:
        source, target = Path(folder) / "sample.jsonl", Path(folder) / "sample.released.jsonl"
        write_releases(source, [Release(record.id, record.text, record.label) for record in private])
        plan = Plan(fields=Fields(label=LABEL_FIELD))
        certificate = privatize_file(source, target, mechanism, plan=plan, on_progress=lambda n: tell(n, len(private)))
        return certificate, read_back(target, private, labelled=True)


def _kept(found: UtilityTable) -> Table:
    cells = [row.cells() for row in found.rows]
    names = [name for name in cells[0] if name in _COLUMNS and any(row[name] is not None for row in cells)]
    drawn = Table("", *names, box=SIMPLE, pad_edge=False, show_lines=False)
    for row, values in zip(found.rows, cells, strict=True):
        drawn.add_row(
            row.name,
            *(
                cell(values[name], lambda one: f"{short(one.value)}\n{short(one.low)}-{short(one.high)}")
                for name in names
            ),
        )
    return drawn


def _lesson(kept: UtilityTable) -> str:
    accuracy = {row.name: row.accuracy.accuracy for row in kept.rows if row.accuracy is not None}
    public, own = accuracy["public-only"], accuracy[SPEC.kind]
    shown = (
        f"A classifier that learned from public texts alone is right in {public.value:.3f} of the test texts, one that "
        f"learned from what was released in {own.value:.3f}: "
    )
    learned = "accuracy says nothing" if public.value >= own.low else "the labels came through, which says little"
    return f"{shown}{learned} of what became of each text.\n"


def _leaks(leaked: dict[str, MembershipResult]) -> Table:
    drawn = Table("classifier trained on", "attack", "control", "no look at the model", box=SIMPLE, pad_edge=False)
    for name, found in leaked.items():
        blind = next(attack for attack in found.baselines if attack.name == "no look at the model")
        areas = [attack.auc for attack in (found.main, found.control, blind)]
        drawn.add_row(name, *(f"{auc.value:.2f} [{auc.low:.2f}, {auc.high:.2f}]" for auc in areas))
    return drawn


def _data(found: AdeptFindings) -> dict[str, Json]:
    return {
        "samples": [
            {"label": record.label, "text": record.text, "released_label": release.label, "released": release.output}
            for record, release in zip(found.private[:SHOWN], found.releases, strict=False)
        ],
        "certificate": json.loads(found.certificate.to_json()),
        "utility": found.kept.to_dict(),
        "corpus": {"guarantees": [each.to_dict() for each in found.corpus.guarantees], "own_label": found.own_label},
        "membership": {name: result.to_dict() for name, result in found.leaked.items()},
    }
