"""The contract that every mechanism must keep, for the tests of whoever writes one: `check_mechanism`."""

from dptext.testing.case import Case, ContractError
from dptext.testing.contract import CHECKS, check_mechanism

__all__ = ["CHECKS", "Case", "ContractError", "check_mechanism"]
