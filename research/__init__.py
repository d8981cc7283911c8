"""Ablations, benchmarks, curves and reproduction, run from a checkout."""
