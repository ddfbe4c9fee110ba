"""What the papers are compared with: DP-Prompt, private prediction, private evolution, and words replaced."""
