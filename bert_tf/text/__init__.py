"""Corpora, vocabularies and letter case."""
