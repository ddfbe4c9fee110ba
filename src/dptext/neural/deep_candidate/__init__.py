"""The public part of DeepCandidate: recoder, scores, candidates. The mechanism's imports from it are listed here."""

from dptext.neural.deep_candidate.candidates import CandidateSettings as CandidateSettings
from dptext.neural.deep_candidate.candidates import FittedCandidates as FittedCandidates
from dptext.neural.deep_candidate.candidates import load_candidates as load_candidates
from dptext.neural.deep_candidate.fit import fit_candidates as fit_candidates
