"""Optimised operations, each beside its plain form."""
