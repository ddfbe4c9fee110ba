"""Utility of private outputs. No number is shown without its baselines, which are rows that keep nothing.

`fidelity` measures how much of each record is kept, `stylometry` how far the style is from the original's,
`classification` the accuracy of a classifier trained on the outputs, `balance` how well the class balance is recovered,
also in a task where it differs from the public balance. `tables` shows all of these numbers. `pool_fit` tells whether
public texts fit.

All functions here read private originals. They are for experiments on public corpora in the place of private ones, and
no guarantee covers what they print. The neural classifier is in dptext-lab.
"""

from dptext.utility.balance import (
    balance_behind,
    balance_error,
    confusion_matrix,
    debiased_balance,
    observed_balance,
    shifted_split,
)
from dptext.utility.classification import Accuracy, Classifier, Trainer, evaluate, macro_f1, train_named, train_tfidf
from dptext.utility.corpus import PoolFit, pool_fit
from dptext.utility.fidelity import Fidelity, fidelity
from dptext.utility.stylometry import StyleSpace
from dptext.utility.tables import UtilityRow, UtilityTable, baselines, required_rows, utility_table

__all__ = [
    "Accuracy", "Classifier", "Fidelity", "PoolFit", "StyleSpace", "Trainer", "UtilityRow", "UtilityTable",
    "balance_behind", "balance_error", "baselines", "confusion_matrix", "debiased_balance", "evaluate", "fidelity",
    "macro_f1", "observed_balance", "pool_fit", "required_rows", "shifted_split", "train_named", "train_tfidf",
    "utility_table",
]  # fmt: skip
