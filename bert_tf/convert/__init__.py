"""Other formats of models, both ways."""
