"""Predictions in Python: task models, predictors and feature extraction."""
