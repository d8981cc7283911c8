"""Paths, atomic writes, locks, text encodings and errors."""
