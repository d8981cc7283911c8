"""Paths, atomic writes, locks, text and errors."""
