"""The contract that every mechanism must keep, for the tests of whoever writes one: `check_mechanism`."""

from dptext.testing.contract import CHECKS, Case, ContractError, check_mechanism

__all__ = ["CHECKS", "Case", "ContractError", "check_mechanism"]
