"""Instances, records and masks of pre-training."""
