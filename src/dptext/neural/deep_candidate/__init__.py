"""The public part of DeepCandidate: recoder, scores, candidates. What the mechanism uses of it is imported here."""

from dptext.neural.deep_candidate.candidates import CandidateSettings, FittedCandidates
from dptext.neural.deep_candidate.fit import fit_candidates
from dptext.neural.deep_candidate.loading import load_candidates

__all__ = ["CandidateSettings", "FittedCandidates", "fit_candidates", "load_candidates"]
