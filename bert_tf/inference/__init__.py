"""From a model to answers in Python."""
