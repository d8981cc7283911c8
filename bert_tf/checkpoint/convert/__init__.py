"""Conversion of models between formats, and tools for their checkpoints."""
