"""Downloads released models and data sets into a cache."""
