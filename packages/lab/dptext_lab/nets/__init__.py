"""What several networks share: utterances as token ids, weights in files, and seeds."""
