"""Optimised operations, none of which depends on BERT."""
