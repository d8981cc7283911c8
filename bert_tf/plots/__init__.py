"""Plots in a common style, and reference curves."""
