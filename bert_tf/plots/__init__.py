"""Plots, all in one style."""
