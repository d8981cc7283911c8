"""Pre-training and masked words."""
