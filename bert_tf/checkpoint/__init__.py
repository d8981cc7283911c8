"""Models on disk: checkpoints, runs, other formats, downloads."""
