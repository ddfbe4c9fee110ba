"""Contracts for tests of third-party mechanisms (`check_mechanism`) and syntheses (`check_synthesis`)."""

from dptext.testing.case import Case, ContractError
from dptext.testing.contract import CHECKS, check_mechanism
from dptext.testing.corpus import CORPUS_CHECKS, check_synthesis
from dptext.testing.corpus_case import CorpusCase

__all__ = ["CHECKS", "CORPUS_CHECKS", "Case", "ContractError", "CorpusCase", "check_mechanism", "check_synthesis"]
