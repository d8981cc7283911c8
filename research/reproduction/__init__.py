"""The fine-tuning results of the paper, measured beside published figures."""
