"""Turns dumps, Parquet, books and documentation into one sentence a line."""
