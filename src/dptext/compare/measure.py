"""What is measured on the releases of a cell.

Every number has a name `utility.number`, and an interval where one is known.

* `classification.accuracy`, `.macro_f1`: a classifier is trained on the releases and their labels, and judged on the
  test part. Where a mechanism releases no label, the classifier learns from the labels of the originals, which nothing
  protects: `classification.accuracy_true_labels`, `.macro_f1_true_labels`.
* `fidelity.*`: as `dptext.utility.fidelity.Fidelity`. `stylometry.distance`: `dptext.utility.stylometry`.
* `balance.l1_error`: error of the class balance of the private records, estimated by the labels of the releases.
* `embedding.accuracy`, `.macro_f1`: a linear classifier trained on public texts labels the vectors of the releases (the
  embeddings of their texts, where they are texts). The label of the original is the right one.
* `authorship.static`, `.adaptive`: share of the releases given to their authors by the better of two attackers. The
  interval is widened for the choice. `.chance`, `.similarity`; `.epsilon_lower_bound` is for a document.
* `membership.auc`, `.control`: the shadow attack of the ADePT paper on a classifier trained on the releases.
* `distinguish.epsilon_lower_bound`: the black-box trial on the worst pairs that are known for the unit.

`authorship.refuted` and `distinguish.refuted` are 1 where the audit refutes the guarantee, and 0 where it survives.
"""

from __future__ import annotations

from dptext.compare.audit_measures import audit_measures
from dptext.compare.corpora import Corpus
from dptext.compare.experiment import Experiment
from dptext.compare.lens import Lens
from dptext.compare.released import Measurement, Released
from dptext.compare.utility_measures import utility_measures
from dptext.errors import ConfigError


def measured(released: Released, corpus: Corpus, experiment: Experiment, lens: Lens, *, seed: int) -> list[Measurement]:
    """All numbers of one cell. Measures that need labels or authors are left out where the corpus has none.

    Raises:
        ConfigError: too few records of a kind, or releases that none of the utilities reads.
        MissingExtraError: a package is not installed.
    """
    found: list[Measurement] = []
    for utility in experiment.utilities:
        found += utility_measures(utility, released, corpus, experiment, lens, seed)
    for audit in experiment.audits:
        found += audit_measures(audit, released, corpus, experiment, lens, seed)
    if not found:
        why = "" if released.written else " This mechanism releases no text: add 'embedding' for its vectors."
        raise ConfigError(
            f"Expected utilities or audits that find something to measure in the corpus {corpus.name!r}: name the "
            f"fields of labels or authors, or add 'fidelity'.{why}"
        )
    return found
