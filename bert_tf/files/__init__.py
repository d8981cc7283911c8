"""Paths, files that are written whole, and errors."""
