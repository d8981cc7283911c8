"""Classifying texts and pairs."""
