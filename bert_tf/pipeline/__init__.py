"""Pre-training from raw text to a served model, as one command."""
