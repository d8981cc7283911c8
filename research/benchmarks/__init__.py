"""Measures speed on this machine, next to that of other projects."""
