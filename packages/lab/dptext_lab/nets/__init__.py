"""What several networks share: utterances as token ids, and weights in files."""
