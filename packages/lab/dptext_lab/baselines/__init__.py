"""Mechanisms to compare with the papers: DP-Prompt, private prediction, private evolution, and words replaced."""
