"""Reference curves of pre-training, and the command that compares a run."""
