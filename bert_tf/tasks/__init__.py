"""Pre-training, and a folder for each fine-tuning task."""
