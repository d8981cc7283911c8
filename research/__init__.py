"""Ablations, benchmarks and reproduction, run from a checkout."""
