"""A driver of a run over many files, in a process of its own: python batch_driver.py JSON."""

import json
import sys
from pathlib import Path

import dptext as dp
from dptext.ledger.books import Ledger
from dptext.runs.payment import Payment


def main(given: dict) -> None:
    """Begin a run, or go on with it."""
    ledger = Ledger.at(given["ledger"])
    workers = dp.Workers(given["engine"], given["workers"], address=given.get("address"))
    dp.privatize_dataset(
        given["source"],
        given["target"],
        dp.load_model(Path(given["model"])),
        plan=dp.Plan(fields=dp.Fields(id="id", label="label"), resume=given["resume"], batch_size=16),
        dataset=dp.DatasetPlan(part_size=given["part_size"], workers=workers),
        payment=Payment(ledger, "account"),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
