"""Turns Parquet, books and documentation into one sentence a line."""
