"""The public part of DeepCandidate: recoder, scores, candidates."""
