"""Parts that several networks share: utterances as token ids, steps of their inference, weights in files, and seeds."""
