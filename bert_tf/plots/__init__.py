"""Plots in a common style."""
